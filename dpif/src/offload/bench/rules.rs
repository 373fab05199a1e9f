//! What it costs to put rules in and to take them out, one queue, two million rules.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use netdev::flow_api::{
    ActionKinds, Completion, Fate, FlowApiError, FlowDevice, FlowQueue, HeaderFields, RuleActions,
    RuleId, RuleQueue, TableId, Template,
};
use netdev::port::Port;
use netdev::sim::{SimPort, SimPorts};

use super::table::{interleave, processor_time, tell};

const RULES: u32 = 2_000_000;
/// Requests between two rings of the bell.
const WINDOW: u32 = 1024;
const DEPTH: usize = 4096;
const ROUNDS: usize = 5;
const NONE: Completion = Completion { user: 0, result: Ok(()) };

/// A driver that does next to nothing for a rule, so that the way to it shows.
#[derive(Default)]
struct Driver {
    rules: Vec<(u64, RuleActions)>,
    free: Vec<u32>,
    done: Vec<u64>,
}

impl RuleQueue for Driver {
    fn insert(
        &mut self,
        _: TableId,
        values: &HeaderFields,
        actions: RuleActions,
        user: u64,
    ) -> Result<RuleId, FlowApiError> {
        let word = values.words().get(5).copied().unwrap_or(0);
        let slot = match self.free.pop() {
            Some(slot) => {
                if let Some(place) = self.rules.get_mut(slot as usize) {
                    *place = (word, actions);
                }
                slot
            }
            None => {
                self.rules.push((word, actions));
                self.rules.len() as u32 - 1
            }
        };
        self.done.push(user);
        Ok(RuleId(slot.into()))
    }

    fn remove(&mut self, rule: RuleId, user: u64) -> Result<(), FlowApiError> {
        self.free.push(rule.0 as u32);
        self.done.push(user);
        Ok(())
    }

    fn pull(&mut self, completions: &mut [Completion]) -> usize {
        let count = completions.len().min(self.done.len());
        for (place, user) in completions.iter_mut().zip(self.done.drain(self.done.len() - count..))
        {
            *place = Completion { user, result: Ok(()) };
        }
        count
    }
}

type Insert = fn(&mut FlowQueue, TableId, &HeaderFields, u64) -> Result<RuleId, FlowApiError>;
type Remove = fn(&mut FlowQueue, RuleId, u64) -> Result<(), FlowApiError>;

/// Operations as a driver registers them: what it lacks is absent.
struct Operations {
    insert: Option<Insert>,
    remove: Option<Remove>,
}

static OPERATIONS: Operations = Operations {
    insert: Some(|queue, table, values, user| queue.insert(table, values, drop_actions(), user)),
    remove: Some(|queue, rule, user| queue.remove(rule, user)),
};

/// A device in a table of devices, which is asked for its operations at each call.
struct Registered {
    operations: fn() -> Option<&'static Operations>,
    queue: FlowQueue,
}

type Registry = Vec<Option<Registered>>;

fn look_up(registry: &mut Registry, port: usize) -> Option<(&'static Operations, &mut FlowQueue)> {
    let device = registry.get_mut(port)?.as_mut()?;
    Some(((black_box(device.operations))()?, &mut device.queue))
}

fn drop_values(rule: u32) -> HeaderFields {
    let mut values = HeaderFields::default();
    values.outer.eth_type.set(0x0800);
    values.outer.ip_dst[..4].copy_from_slice(&(0x0a00_0000 + rule).to_be_bytes());
    values
}

fn drop_actions() -> RuleActions {
    RuleActions { fate: Fate::Drop, ..RuleActions::default() }
}

/// Millions of rules per second that went in, and then out. `turn` rings the bell and takes the
/// results.
fn measure(
    mut insert: impl FnMut(&HeaderFields, u64) -> RuleId,
    mut remove: impl FnMut(RuleId, u64),
    mut turn: impl FnMut(),
) -> [f64; 2] {
    let mut rules = vec![RuleId(0); RULES as usize];
    let start = processor_time();
    for (place, rule) in rules.iter_mut().zip(0..) {
        *place = insert(&drop_values(rule), rule.into());
        if rule % WINDOW == WINDOW - 1 {
            turn();
        }
    }
    turn();
    let inserted = processor_time() - start;
    let start = processor_time();
    for (rule, user) in rules.into_iter().zip(0..) {
        remove(rule, user.into());
        if user % WINDOW == WINDOW - 1 {
            turn();
        }
    }
    turn();
    let rate = |elapsed: Duration| f64::from(RULES) / elapsed.as_secs_f64() / 1e6;
    [rate(inserted), rate(processor_time() - start)]
}

fn pull_all(queue: &mut FlowQueue) {
    queue.push();
    let mut completions = [NONE; 256];
    while queue.pull(&mut completions) > 0 {}
}

fn measure_queue(queue: &RefCell<FlowQueue>, table: TableId) -> [f64; 2] {
    measure(
        |values, user| queue.borrow_mut().insert(table, values, drop_actions(), user).unwrap(),
        |rule, user| queue.borrow_mut().remove(rule, user).unwrap(),
        || pull_all(&mut queue.borrow_mut()),
    )
}

fn measure_registered(registry: &RefCell<Registry>, table: TableId) -> [f64; 2] {
    let port = || black_box(3);
    measure(
        |values, user| {
            let mut registry = registry.borrow_mut();
            let (operations, queue) = look_up(&mut registry, port()).unwrap();
            operations.insert.unwrap()(queue, table, values, user).unwrap()
        },
        |rule, user| {
            let mut registry = registry.borrow_mut();
            let (operations, queue) = look_up(&mut registry, port()).unwrap();
            operations.remove.unwrap()(queue, rule, user).unwrap();
        },
        || pull_all(&mut registry.borrow_mut()[3].as_mut().unwrap().queue),
    )
}

fn measure_named(ports: &Mutex<HashMap<String, FlowQueue>>, table: TableId) -> [f64; 2] {
    let name = || black_box("port3");
    measure(
        |values, user| {
            let mut ports = ports.lock().unwrap();
            ports.get_mut(name()).unwrap().insert(table, values, drop_actions(), user).unwrap()
        },
        |rule, user| ports.lock().unwrap().get_mut(name()).unwrap().remove(rule, user).unwrap(),
        || pull_all(ports.lock().unwrap().get_mut(name()).unwrap()),
    )
}

fn measure_inlined(driver: &RefCell<Driver>) -> [f64; 2] {
    measure(
        |values, user| {
            driver.borrow_mut().insert(TableId(0), values, drop_actions(), user).unwrap()
        },
        |rule, user| driver.borrow_mut().remove(rule, user).unwrap(),
        || {
            let mut completions = [NONE; 256];
            while driver.borrow_mut().pull(&mut completions) > 0 {}
        },
    )
}

/// A software NIC with a table for these rules.
fn software_nic(sims: &Arc<SimPorts>) -> (SimPort, Arc<dyn FlowDevice>, TableId) {
    let mut port = sims.open("bench").unwrap();
    port.set_options(&[("hw-capacity".to_owned(), "4000000".to_owned())].into()).unwrap();
    let device = port.flow_device().unwrap();
    let mut mask = HeaderFields::default();
    mask.outer.eth_type.set(0xffff);
    mask.outer.ip_dst[..4].fill(0xff);
    let template =
        Template { group: 0, priority: 0, mask, actions: ActionKinds::DROP, capacity: 4_000_000 };
    let table = device.create_table(&template).unwrap();
    (port, device, table)
}

/// Mebibytes of memory that the process has.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: f64 = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096.0 / f64::from(1 << 20)
}

/// The tables: a driver that does nothing, behind each way to call it, and the software NIC.
pub(super) fn rates() {
    let sims = Arc::new(SimPorts::default());
    let table = TableId(0);
    let queue = || FlowQueue::new(Box::<Driver>::default(), DEPTH);
    let named = (0..8).map(|number| (format!("port{number}"), queue())).collect();
    let named = Mutex::new(named);
    let operations: fn() -> Option<&'static Operations> = || Some(&OPERATIONS);
    let registered = (0..8).map(|_| Some(Registered { operations, queue: queue() })).collect();
    let registry = RefCell::new(registered);
    let own = RefCell::new(queue());
    let inlined = RefCell::new(Driver::default());
    let before = resident();
    let (_port, device, sim_table) = software_nic(&sims);
    let sim = RefCell::new(device.open_queue(DEPTH).unwrap());
    measure_queue(&sim, sim_table);
    tell("memory of the software NIC, 2000000 rules", "MiB", "resident", vec![resident() - before]);
    let (_other_port, other_device, other_table) = software_nic(&sims);
    let other = Registered { operations, queue: other_device.open_queue(DEPTH).unwrap() };
    let registered_sim = RefCell::new(vec![None, None, None, Some(other)]);
    let drivers = [
        (
            "looked up at each call",
            Box::new(|| measure_registered(&registry, table)) as Box<dyn FnMut() -> _>,
        ),
        ("looked up by name under a lock", Box::new(|| measure_named(&named, table))),
        ("table of operations per port", Box::new(|| measure_queue(&own, table))),
        ("inlined", Box::new(|| measure_inlined(&inlined))),
    ];
    let devices = [
        (
            "looked up at each call",
            Box::new(|| measure_registered(&registered_sim, other_table)) as Box<dyn FnMut() -> _>,
        ),
        ("table of operations per port", Box::new(|| measure_queue(&sim, sim_table))),
    ];
    run("a driver that does nothing", drivers.into());
    run("the software NIC", devices.into());
}

/// The name of a way to put rules in and out, and what measures both.
type Way<'a> = (&'a str, Box<dyn FnMut() -> [f64; 2] + 'a>);

fn run(what: &str, variants: Vec<Way<'_>>) {
    let (names, mut runs): (Vec<_>, Vec<_>) = variants.into_iter().unzip();
    let samples = interleave(ROUNDS, &mut runs);
    for (place, way) in ["in", "out"].iter().enumerate() {
        let title = format!("{RULES} IPv4-destination drop rules {way}, {what}");
        for (name, samples) in names.iter().zip(&samples) {
            let samples = samples.iter().map(|sample| sample[place]).collect();
            tell(&title, "millions per second of processor time", name, samples);
        }
    }
}
