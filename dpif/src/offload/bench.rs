//! `make bench-offload`: what offload costs and saves. Variants run interleaved, forward and
//! backward, in one process; each row is a median over rounds with a 95 % bootstrap interval.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use netdev::cpu;
use netdev::flow_api::{
    ActionKinds, Capabilities, Completion, Fate, FlowApiError, FlowQueue, HeaderFields,
    RuleActions, RuleId, RuleQueue, TableId, Template,
};
use netdev::offload::TransmitOffloads;
use netdev::packet::{BATCH_SIZE, Batch, FramePool};
use netdev::port::Port;
use netdev::queue::{SendReport, TxQueue};
use netdev::sim::SimPorts;

use super::engine::{Engine, OpenPort};
use super::hardware::HardwarePort;
use super::inbox::{Association, Inbox};
use super::mark::MarkPool;
use super::statistics::WorkerStatistics;
use crate::action::Action;
use crate::datapath::PortNumber;
use crate::flow::{Field, FlowKey, FlowMask, PacketKey, extract_bytes};
use crate::flow_table::{FlowRecord, WorkerId};
use crate::pmd::lookup::CachePolicy;
use crate::pmd::pipeline::{Pipeline, Shared, flow_id};
use crate::pmd::statistics::Statistics;
use crate::pmd::steering::TxQueues;
use crate::testing::{TestHandler, udp};

const ROUNDS: usize = 31;
const PORT: PortNumber = PortNumber(1);

/// Median of `samples`, and the interval that 95 % of the medians of resampled ones lie in.
fn median(samples: &mut [f64]) -> (f64, f64, f64) {
    let middle = |samples: &mut [f64]| {
        samples.sort_by(f64::total_cmp);
        samples[samples.len() / 2]
    };
    let center = middle(samples);
    let mut state = 1u64;
    let mut medians: Vec<f64> = (0..500)
        .map(|_| {
            let mut resampled: Vec<f64> = samples
                .iter()
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    samples[(state >> 33) as usize % samples.len()]
                })
                .collect();
            middle(&mut resampled)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (center, medians[12], medians[487])
}

/// A name, and what measures once.
type Variant<'a> = (&'a str, Box<dyn FnMut() -> f64 + 'a>);

/// Runs variants in turn, forward and backward, and prints a table of what they measure.
fn table(title: &str, unit: &str, rounds: usize, variants: &mut [Variant<'_>]) {
    let mut samples = vec![vec![]; variants.len()];
    for round in 0..=rounds {
        let mut order: Vec<usize> = (0..variants.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let sample = variants[index].1();
            // The first round warms up.
            if round > 0 {
                samples[index].push(sample);
            }
        }
    }
    say(&format!("\n{title} ({unit}; {rounds} rounds)"));
    for ((name, _), samples) in variants.iter().zip(&mut samples) {
        let (center, low, high) = median(samples);
        say(&format!("  {name:<44} {center:>10.2}  [{low:.2}, {high:.2}]"));
    }
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its tables")]
fn say(line: &str) {
    println!("{line}");
}

/// Sends by dropping.
struct Discard;

impl TxQueue for Discard {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let sent = batch.len() as u64;
        batch.clear();
        SendReport { sent, ..SendReport::default() }
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::all()
    }
}

fn frame(flow: u32) -> Vec<u8> {
    udp(0x0a00_0000 + flow, 0x0b00_0001, [7, 9], &[0; 18])
}

fn key_of(bytes: &[u8]) -> FlowKey {
    let mut descriptor = netdev::packet::Descriptor::default();
    descriptor.in_port = PORT.0;
    let mut key = PacketKey::default();
    extract_bytes(bytes, bytes.len(), &mut descriptor, None, 1, &mut key);
    key.key().clone()
}

fn record(flow: u32, long: bool) -> FlowRecord {
    let key = key_of(&frame(flow));
    let mut bits = FlowKey::default();
    for field in [
        Field::InPort,
        Field::RecircId,
        Field::EthType,
        Field::VlanTci,
        Field::Ipv4Src,
        Field::IpProto,
    ] {
        bits.set(field, field.bits());
    }
    if long {
        bits.set(Field::TpDst, u128::MAX);
    }
    let mask = FlowMask::new(bits);
    let actions: Arc<[Action]> = Arc::new([Action::Output(2)]);
    FlowRecord::new(flow_id(&key, &mask), WorkerId::Main, key, mask, actions)
}

/// A thread's packet path with flows, each with a mark, and frames for them.
struct Path {
    pipeline: Pipeline,
    pool: Arc<FramePool>,
    frames: Vec<u8>,
    marks: Vec<u32>,
    next: usize,
}

const FRAME: usize = 60;

impl Path {
    fn new(flows: u32) -> Self {
        let handler = TestHandler::new(|_| None);
        let shared = Shared { name: "ovs-netdev".into(), handler, index: Arc::default(), seed: 11 };
        let mut pipeline = Pipeline::new(WorkerId::Main, shared, Arc::new(Statistics::new()));
        pipeline.transmit.add(PortNumber(2), TxQueues::Own(Box::new(Discard)));
        pipeline.offload.ports.set(PORT, Capabilities::MARK);
        let mut pool = MarkPool::new(0, 1, u32::MAX);
        let (mut frames, mut marks) = (vec![], vec![]);
        for flow in 0..flows {
            // Two subtables, so that the caches are used.
            let number = pipeline.insert(record(flow, flow % 2 == 1));
            let mark = pool.take().unwrap();
            let flow_record = Arc::clone(pipeline.lookup.flows.record(number).unwrap());
            pipeline.offload.associate(&flow_record, mark, number);
            frames.extend(&frame(flow)[..FRAME]);
            marks.push(mark.number().get());
        }
        Self { pipeline, pool: FramePool::new(4096).unwrap(), frames, marks, next: 0 }
    }

    /// Cycles per packet of `packets` packets, marked or not, with `lookup` once per batch and
    /// `each` once per packet.
    fn run(
        &mut self,
        packets: usize,
        is_marked: bool,
        policy: CachePolicy,
        mut lookup: impl FnMut(&Pipeline) -> bool,
        mut each: impl FnMut(&Pipeline) -> bool,
    ) -> f64 {
        let mut batch = Batch::new(&self.pool);
        let start = cpu::cycles();
        for _ in 0..packets / BATCH_SIZE {
            batch.fill(BATCH_SIZE);
            for mut packet in batch.iter_mut() {
                let flow = self.next;
                self.next = if flow + 1 == self.marks.len() { 0 } else { flow + 1 };
                let bytes = &self.frames[flow * FRAME..flow * FRAME + FRAME];
                packet.receive_buffer()[..FRAME].copy_from_slice(bytes);
                packet.set_received(FRAME);
                let descriptor = packet.descriptor_mut();
                descriptor.in_port = PORT.0;
                descriptor.mark = self.marks[flow];
            }
            let mut takes_marks = lookup(&self.pipeline);
            for _ in 0..BATCH_SIZE {
                takes_marks |= each(&self.pipeline);
            }
            if is_marked && takes_marks {
                self.pipeline.process_marked(&mut batch, PORT, policy);
            } else {
                self.pipeline.process(&mut batch, policy);
            }
            self.pipeline.flush(true);
        }
        cpu::cycles().wrapping_sub(start) as f64 / packets as f64
    }
}

const CLASSIFIER: CachePolicy = CachePolicy { exact_one_in: 0, signature: false };
const SIGNATURE: CachePolicy = CachePolicy { exact_one_in: 0, signature: true };
const EXACT: CachePolicy = CachePolicy { exact_one_in: 1, signature: true };

fn marks_and_caches() {
    for flows in [1, 1_000, 100_000, 1_000_000] {
        let path = std::cell::RefCell::new(Path::new(flows));
        let packets = (flows as usize).clamp(100_000, 1_000_000);
        let run = |is_marked, policy| {
            path.borrow_mut().run(packets, is_marked, policy, |_| true, |_| false)
        };
        table(
            &format!("mark against caches, {flows} flows"),
            "TSC cycles per packet",
            if flows > 100_000 { 7 } else { ROUNDS },
            &mut [
                ("mark", Box::new(|| run(true, SIGNATURE))),
                ("exact-match cache", Box::new(|| run(false, EXACT))),
                ("signature cache", Box::new(|| run(false, SIGNATURE))),
                ("default caches", Box::new(|| run(false, CLASSIFIER))),
            ],
        );
    }
}

fn recovery_lookups() {
    for ports in [1u32, 8, 1000] {
        let path = std::cell::RefCell::new(Path::new(1_000));
        let map: HashMap<u32, Capabilities> =
            (1..=ports).map(|port| (port, Capabilities::MARK)).collect();
        let far = PortNumber(70_000);
        for port in 1..=ports {
            path.borrow_mut().pipeline.offload.ports.set(PortNumber(port), Capabilities::MARK);
        }
        path.borrow_mut().pipeline.offload.ports.set(far, Capabilities::MARK);
        let pointer = Box::new(Capabilities::MARK);
        let has = |capabilities: Capabilities| capabilities.contains(Capabilities::MARK);
        let array = |pipeline: &Pipeline, port| has(pipeline.offload.capabilities(black_box(port)));
        let in_map = || map.get(&black_box(PORT.0)).is_some_and(|c| has(*c));
        let run = |lookup: &dyn Fn(&Pipeline) -> bool| {
            path.borrow_mut().run(100_000, true, SIGNATURE, lookup, |_| false)
        };
        macro_rules! each {
            ($each:expr) => {
                Box::new(|| path.borrow_mut().run(100_000, true, SIGNATURE, |_| false, $each))
            };
        }
        table(
            &format!("how the port's abilities are found, mark path, {ports} ports"),
            "TSC cycles per packet",
            ROUNDS,
            &mut [
                ("none", Box::new(|| run(&|_| true))),
                ("none again (A/A)", Box::new(|| run(&|_| true))),
                (
                    "queue's pointer, once per batch",
                    Box::new(|| run(&|_| has(*black_box(&pointer).as_ref()))),
                ),
                ("array, once per batch", Box::new(|| run(&|pipeline| array(pipeline, PORT)))),
                (
                    "array missed, map, once per batch",
                    Box::new(|| run(&|pipeline| array(pipeline, far))),
                ),
                ("map, once per batch", Box::new(|| run(&|_| in_map()))),
                ("queue's pointer, per packet", each!(|_| has(*black_box(&pointer).as_ref()))),
                ("array, per packet", each!(|pipeline| array(pipeline, PORT))),
                ("array missed, map, per packet", each!(|pipeline| array(pipeline, far))),
                ("map, per packet", each!(|_| in_map())),
            ],
        );
    }
}

/// A driver that keeps rules by destination; the least that one can do.
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

const RULES: u32 = 2_000_000;
const WINDOW: u32 = 1024;

fn drop_values(rule: u32) -> HeaderFields {
    let mut values = HeaderFields::default();
    values.outer.eth_type.set(0x0800);
    if let Some(address) = values.outer.ip_dst.get_mut(..4) {
        address.copy_from_slice(&(0x0a00_0000 + rule).to_be_bytes());
    }
    values
}

fn drop_actions() -> RuleActions {
    RuleActions { fate: Fate::Drop, ..RuleActions::default() }
}

/// Millions of rules per second, inserted and then removed, through `call`, which gives the queue.
fn rates(
    mut insert: impl FnMut(&HeaderFields, u64) -> RuleId,
    mut remove: impl FnMut(RuleId, u64),
    mut turn: impl FnMut(),
) -> (f64, f64) {
    let mut rules = Vec::with_capacity(RULES as usize);
    let start = Instant::now();
    for rule in 0..RULES {
        rules.push(insert(&drop_values(rule), rule.into()));
        if rule % WINDOW == WINDOW - 1 {
            turn();
        }
    }
    turn();
    let inserted = start.elapsed();
    let start = Instant::now();
    for (rule, user) in rules.into_iter().zip(0..) {
        remove(rule, user);
        if user % u64::from(WINDOW) == u64::from(WINDOW) - 1 {
            turn();
        }
    }
    turn();
    let rate = |elapsed: std::time::Duration| f64::from(RULES) / elapsed.as_secs_f64() / 1e6;
    (rate(inserted), rate(start.elapsed()))
}

const NONE: Completion = Completion { user: 0, result: Ok(()) };

fn pull_all(queue: &mut FlowQueue) {
    queue.push();
    let mut completions = [NONE; 64];
    while queue.pull(&mut completions) > 0 {}
}

/// What a rule costs through one queue, and through rounds of such measurements.
fn rule_rates() {
    type Measure<'a> = Box<dyn FnMut() -> (f64, f64) + 'a>;
    let sims = Arc::new(SimPorts::default());
    let mut port = sims.open("bench").unwrap();
    port.set_options(&[("hw-capacity".to_owned(), "4000000".to_owned())].into()).unwrap();
    let device = port.flow_device().unwrap();
    let mut mask = HeaderFields::default();
    mask.outer.eth_type.set(0xffff);
    if let Some(address) = mask.outer.ip_dst.get_mut(..4) {
        address.fill(0xff);
    }
    let template =
        Template { group: 0, priority: 0, mask, actions: ActionKinds::DROP, capacity: 4_000_000 };
    let sim_table = device.create_table(&template).unwrap();
    let queue = |operations| std::cell::RefCell::new(FlowQueue::new(operations, 4096));
    let by_name: std::sync::Mutex<HashMap<String, FlowQueue>> = std::sync::Mutex::new(
        (0..8)
            .map(|n| (format!("port{n}"), FlowQueue::new(Box::<Driver>::default(), 4096)))
            .collect(),
    );
    let per_port = queue(Box::<Driver>::default());
    let sim = std::cell::RefCell::new(device.open_queue(4096).unwrap());
    let inlined = std::cell::RefCell::new(Driver::default());
    let table = TableId(0);
    let mut variants: Vec<(&str, Measure<'_>)> = vec![
        (
            "looked up by name under a lock",
            Box::new(|| {
                let with = |work: &mut dyn FnMut(&mut FlowQueue)| {
                    work(by_name.lock().unwrap().get_mut(black_box("port3")).unwrap());
                };
                rates(
                    |values, user| {
                        let mut rule = None;
                        with(&mut |queue| {
                            rule = queue.insert(table, values, drop_actions(), user).ok()
                        });
                        rule.unwrap()
                    },
                    |rule, user| with(&mut |queue| queue.remove(rule, user).unwrap()),
                    || with(&mut pull_all),
                )
            }),
        ),
        (
            "per-port table of operations",
            Box::new(|| {
                rates(
                    |values, user| {
                        per_port.borrow_mut().insert(table, values, drop_actions(), user).unwrap()
                    },
                    |rule, user| per_port.borrow_mut().remove(rule, user).unwrap(),
                    || pull_all(&mut per_port.borrow_mut()),
                )
            }),
        ),
        (
            "inlined",
            Box::new(|| {
                rates(
                    |values, user| {
                        inlined.borrow_mut().insert(table, values, drop_actions(), user).unwrap()
                    },
                    |rule, user| inlined.borrow_mut().remove(rule, user).unwrap(),
                    || {
                        let mut completions = [NONE; 64];
                        while inlined.borrow_mut().pull(&mut completions) > 0 {}
                    },
                )
            }),
        ),
        (
            "per-port table, software NIC",
            Box::new(|| {
                rates(
                    |values, user| {
                        sim.borrow_mut().insert(sim_table, values, drop_actions(), user).unwrap()
                    },
                    |rule, user| sim.borrow_mut().remove(rule, user).unwrap(),
                    || pull_all(&mut sim.borrow_mut()),
                )
            }),
        ),
    ];
    let mut samples = vec![(vec![], vec![]); variants.len()];
    for round in 0..9 {
        let mut order: Vec<usize> = (0..variants.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let (inserted, removed) = variants[index].1();
            if round > 0 {
                samples[index].0.push(inserted);
                samples[index].1.push(removed);
            }
        }
    }
    say(&format!(
        "\n{RULES} IPv4-destination drop rules, one queue (millions per second; 8 rounds)"
    ));
    for ((name, _), (inserted, removed)) in variants.iter().zip(&mut samples) {
        let (center, low, high) = median(inserted);
        let (out, out_low, out_high) = median(removed);
        say(&format!(
            "  {name:<34} in {center:>6.2} [{low:.2}, {high:.2}]  out {out:>6.2} [{out_low:.2}, {out_high:.2}]"
        ));
    }
}

/// From a flow's installation to its rule and mark, through one engine.
fn installation() {
    let sims = Arc::new(SimPorts::default());
    let mut port = sims.open("bench").unwrap();
    port.set_options(&[("hw-full".to_owned(), "false".to_owned())].into()).unwrap();
    let device = port.flow_device().unwrap();
    let mut engine =
        Engine::new(MarkPool::new(0, 1, u32::MAX), Arc::new(WorkerStatistics::default()));
    let hardware = Box::new(HardwarePort::open(Arc::clone(&device), 4096).unwrap());
    let (device_id, drains) = (device.id(), vec![]);
    engine.open(OpenPort { number: PORT, provider: "sim", device: device_id, hardware, drains });
    let inbox = Arc::new(Inbox::default());
    let flows: Vec<_> = (0..500_000).map(|flow| Arc::new(record(flow, false))).collect();
    let start = Instant::now();
    for chunk in flows.chunks(1024) {
        for flow in chunk {
            engine.put(Arc::clone(flow), Arc::clone(&inbox), 0);
        }
        engine.run(netdev::clock::now());
        black_box(inbox.take().iter().map(|Association { mark, .. }| *mark).max());
    }
    while engine.is_waiting() {
        engine.run(netdev::clock::now());
    }
    let rate = flows.len() as f64 / start.elapsed().as_secs_f64() / 1e6;
    assert_eq!(device.rules(), flows.len());
    say(&format!("\nflows to rules and marks, one offload worker: {rate:.2} million per second"));
}

#[test]
#[ignore = "a benchmark: make bench-offload"]
fn bench_offload() {
    recovery_lookups();
    marks_and_caches();
    rule_rates();
    installation();
}
