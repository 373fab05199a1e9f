//! Explores what flows, poll threads, an engine and a device can do together, exhaustively to a
//! depth: engine, marks, mark tables and receive queues' watches are the real ones, the device and
//! the rest of a poll thread are models.

use std::collections::HashSet;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard};

use netdev::flow_api::Capabilities;

use super::*;
use crate::flow::{Field, FlowKey, FlowMask, Ufid};
use crate::flow_table::{FlowTable, WorkerId};
use crate::offload::mark::DrainWatch;
use crate::offload::stage::OffloadStage;
use crate::offload::worker::{Request, WorkerHandle};

const PORT: PortNumber = PortNumber(1);
/// Flows, as many on each thread.
const FLOWS: usize = 2;
const THREADS: usize = 2;
/// Packets that fit in the receive ring.
const RING: usize = 2;
/// Requests that the device takes at a time.
const DEPTH: usize = 2;
/// Longer than any answer may take, and than any wait after a failure.
const LONG: Duration = Duration::from_secs(11);

/// Something that happens. Numbers are those of threads and flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Install(usize, usize),
    Uninstall(usize, usize),
    /// The worker takes the requests of the poll threads, and the answers of the device.
    Work,
    /// The device does what it was asked for first, or next, and says so.
    Done(usize),
    /// It does not, and says so.
    Fail,
    /// It does it and says so twice.
    DoneTwice,
    /// It does it and does not say so yet.
    Hold,
    /// It says what it has held back.
    Release,
    /// It loses its rules.
    Lose,
    /// A packet of a flow enters the ring.
    Arrive(usize),
    /// The thread that has the queue looks at it.
    Poll,
    /// The queue moves to the other thread.
    Move,
    /// The port goes, or comes.
    Port,
    /// So much time passes that answers are late.
    Time,
}

fn events() -> Vec<Event> {
    let flows = (0..THREADS).flat_map(|thread| (0..FLOWS).map(move |flow| (thread, flow)));
    let flows = flows
        .flat_map(|(thread, flow)| [Event::Install(thread, flow), Event::Uninstall(thread, flow)]);
    let others = [
        Event::Work,
        Event::Done(0),
        Event::Done(1),
        Event::Fail,
        Event::DoneTwice,
        Event::Hold,
        Event::Release,
        Event::Lose,
        Event::Arrive(0),
        Event::Arrive(1),
        Event::Poll,
        Event::Move,
        Event::Port,
        Event::Time,
    ];
    flows.chain(others).collect()
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Insert { id: u64, flow: usize, mark: u32 },
    Remove { id: u64 },
}

/// A device with rules for flows, each with the mark that it gives.
#[derive(Default)]
struct Device {
    rules: Vec<(u64, usize, u32)>,
    requests: Vec<(u64, Asked)>,
    answers: VecDeque<Completion>,
    held: VecDeque<Completion>,
    inserted: u64,
}

impl Device {
    /// Carries out a request, and returns the answer to it.
    fn carry_out(&mut self, number: usize) -> Option<Completion> {
        let (user, asked) = (number < self.requests.len()).then(|| self.requests.remove(number))?;
        let result = match asked {
            Asked::Insert { flow, .. } if self.rules.iter().any(|rule| rule.1 == flow) => {
                Err(RuleError::Exists)
            }
            Asked::Insert { id, flow, mark } => {
                self.rules.push((id, flow, mark));
                Ok(())
            }
            Asked::Remove { id } => {
                let place = self.rules.iter().position(|rule| rule.0 == id);
                let removed = place.map(|place| self.rules.remove(place));
                removed.map(|_| ()).ok_or(RuleError::NotFound)
            }
        };
        Some(Completion { user, result })
    }
}

struct DevicePort(Arc<Mutex<Device>>);

impl DevicePort {
    fn ask(&self, user: u64, asked: impl FnOnce(u64) -> Asked) -> Result<RuleId, FlowApiError> {
        let mut device = self.0.lock().unwrap();
        if device.requests.len() + device.answers.len() >= DEPTH {
            return Err(FlowApiError::QueueFull);
        }
        device.inserted += 1;
        let asked = asked(device.inserted);
        device.requests.push((user, asked));
        Ok(RuleId(device.inserted))
    }
}

impl ProviderPort for DevicePort {
    fn extent(
        &self,
        _: &FlowRecord,
        _: &[Action],
        _: &Devices,
        _: &TunnelEnds,
    ) -> Result<Extent, Reason> {
        Ok(Extent::Partial)
    }

    fn restores(&self) -> bool {
        false
    }

    fn insert(&mut self, offer: Offer<'_>, user: u64) -> Result<RuleId, FlowApiError> {
        let (flow, mark) = (number_of(offer.flow), offer.mark.get());
        self.ask(user, |id| Asked::Insert { id, flow, mark })
    }

    fn update(&mut self, _: RuleId, _: Offer<'_>, _: u64) -> Result<(), FlowApiError> {
        panic!("a mark stays, whatever its flow does");
    }

    fn update_resets(&self) -> bool {
        false
    }

    fn remove(&mut self, rule: RuleId, user: u64) -> Result<(), FlowApiError> {
        self.ask(user, |_| Asked::Remove { id: rule.0 }).map(drop)
    }

    fn push(&mut self) {}

    fn pull(&mut self, completions: &mut [Completion]) -> usize {
        let mut device = self.0.lock().unwrap();
        let count = completions.len().min(device.answers.len());
        completions.iter_mut().zip(device.answers.drain(..count)).for_each(|(to, from)| *to = from);
        count
    }

    fn forget_one(&mut self) {}

    fn query(&mut self, _: RuleId) -> Result<RuleCounters, FlowApiError> {
        Err(FlowApiError::Unsupported)
    }
}

impl Drop for DevicePort {
    fn drop(&mut self) {
        let mut device = self.0.lock().unwrap();
        let inserted = device.inserted;
        *device = Device { inserted, ..Device::default() };
    }
}

fn number_of(flow: &FlowRecord) -> usize {
    flow.key().get(Field::TpDst) as usize
}

/// What a poll thread has.
struct Thread {
    stage: OffloadStage,
    flows: FlowTable,
    installed: [Option<u32>; FLOWS],
    /// Whether it has looked for news since the engine had some.
    has_heard: bool,
}

/// Everything together.
struct World {
    engine: Engine,
    device: Arc<Mutex<Device>>,
    requests: Receiver<Request>,
    /// Requests that the threads have sent, oldest first.
    sent: VecDeque<Request>,
    threads: Vec<Thread>,
    /// The thread that has the receive queue.
    owner: usize,
    watch: DrainWatch,
    ring: VecDeque<(usize, u32)>,
    is_open: bool,
    /// Whether the device has lost rules behind everybody's back.
    has_lost: bool,
    now: Duration,
    records: Vec<Arc<FlowRecord>>,
    /// What has happened.
    path: Vec<Event>,
}

impl World {
    fn new() -> Self {
        let (handle, requests) = WorkerHandle::unattended(64);
        let threads = (0..THREADS).map(|_| {
            let mut stage = OffloadStage::default();
            stage.set_workers(vec![handle.clone()]);
            let (flows, installed) = (FlowTable::new(), [None; FLOWS]);
            Thread { stage, flows, installed, has_heard: true }
        });
        let mut world = Self {
            engine: Engine::new(MarkPool::new(0, 1, 2), Arc::default()),
            device: Arc::default(),
            requests,
            sent: VecDeque::new(),
            threads: threads.collect(),
            owner: 0,
            watch: DrainWatch::default(),
            ring: VecDeque::new(),
            is_open: false,
            has_lost: false,
            now: Duration::from_secs(1),
            records: vec![],
            path: vec![],
        };
        world.after(Event::Port);
        world
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap()
    }

    /// What happens; false when it cannot.
    fn after(&mut self, event: Event) -> bool {
        self.path.push(event);
        match event {
            Event::Install(thread, flow) => return self.install(thread, flow),
            Event::Uninstall(thread, flow) => return self.uninstall(thread, flow),
            Event::Work => return self.work(),
            Event::Done(number) => {
                let mut device = self.device();
                let Some(answer) = device.carry_out(number) else { return false };
                device.answers.push_back(answer);
            }
            Event::DoneTwice => {
                let mut device = self.device();
                let Some(answer) = device.carry_out(0) else { return false };
                device.answers.extend([answer; 2]);
            }
            Event::Hold => {
                let mut device = self.device();
                let Some(answer) = device.carry_out(0) else { return false };
                device.held.push_back(answer);
            }
            Event::Release => {
                let mut device = self.device();
                let Some(answer) = device.held.pop_front() else { return false };
                device.answers.push_back(answer);
            }
            Event::Fail => {
                let mut device = self.device();
                if device.requests.is_empty() {
                    return false;
                }
                let (user, _) = device.requests.remove(0);
                device.answers.push_back(Completion { user, result: Err(RuleError::Hardware) });
            }
            Event::Lose => {
                let rules = std::mem::take(&mut self.device().rules);
                self.has_lost |= !rules.is_empty();
                return !rules.is_empty();
            }
            Event::Arrive(flow) => {
                let mark = self.device().rules.iter().find(|rule| rule.1 == flow).map(|r| r.2);
                let Some(mark) = mark.filter(|_| self.ring.len() < RING) else { return false };
                self.ring.push_back((flow, mark));
            }
            Event::Poll => self.poll(),
            Event::Move => self.owner = (self.owner + 1) % THREADS,
            Event::Port => self.open_or_close(),
            Event::Time => self.now += LONG,
        }
        true
    }

    fn install(&mut self, thread: usize, flow: usize) -> bool {
        let own = &mut self.threads[thread];
        if own.installed[flow].is_some() {
            return false;
        }
        let mut key = FlowKey::default();
        key.set(Field::InPort, PORT.0.into());
        key.set(Field::TpDst, flow as u128);
        let mut bits = FlowKey::default();
        [Field::InPort, Field::TpDst].iter().for_each(|field| bits.set(*field, field.bits()));
        let (mask, id) = (FlowMask::new(bits), WorkerId::Core(thread as u32));
        let record = Arc::new(FlowRecord::new(Ufid(flow as u128), id, key, mask, Arc::new([])));
        let number = own.flows.insert(Arc::clone(&record), 0);
        record.set_number_on_thread(number);
        own.stage.added(&record);
        own.installed[flow] = Some(number);
        self.records.push(record);
        self.sent.extend(self.requests.try_iter());
        true
    }

    fn uninstall(&mut self, thread: usize, flow: usize) -> bool {
        let own = &mut self.threads[thread];
        let Some(number) = own.installed[flow].take() else { return false };
        let record = own.flows.remove(number).unwrap();
        own.stage.removed(&record);
        self.sent.extend(self.requests.try_iter());
        true
    }

    fn work(&mut self) -> bool {
        for request in self.sent.drain(..) {
            match request {
                Request::Put { flow, inbox, offered } => self.engine.put(flow, inbox, offered),
                Request::Remove { flow } => self.engine.remove(&flow, self.now),
                _ => panic!("no other request is sent"),
            }
        }
        self.engine.run(self.now);
        self.threads.iter_mut().for_each(|thread| thread.has_heard = false);
        true
    }

    fn poll(&mut self) {
        let thread = &mut self.threads[self.owner];
        for Association { flow, mark } in thread.stage.news(&thread.flows) {
            if !flow.is_dead() {
                thread.stage.associate(&flow, mark);
            }
        }
        thread.has_heard = true;
        self.watch.received(self.ring.len());
        for (flow, mark) in self.ring.drain(..) {
            let Some(number) = thread.stage.find(mark.try_into().unwrap(), PORT) else { continue };
            let record = thread.flows.record(number).expect("invariant 1: the flow is gone");
            assert_eq!(number_of(record), flow, "invariant 1: the flow is another");
            assert!(!record.is_dead(), "invariant 1: the flow is dead");
        }
    }

    fn open_or_close(&mut self) {
        let is_open = !self.is_open;
        for thread in &mut self.threads {
            let ability = if is_open { Capabilities::MARK } else { Capabilities::empty() };
            thread.stage.ports.set(PORT, ability);
        }
        if is_open {
            let device = DeviceId(0);
            let hardware = Box::new(DevicePort(Arc::clone(&self.device)));
            let drains = vec![Arc::clone(&self.watch.drain)];
            let number = PORT;
            self.engine.open(OpenPort { number, provider: "model", device, hardware, drains });
            for thread in &mut self.threads {
                for number in thread.installed.into_iter().flatten() {
                    let flow = Arc::clone(thread.flows.record(number).unwrap());
                    thread.stage.added(&flow);
                }
            }
            self.sent.extend(self.requests.try_iter());
        } else {
            // The worker gets to it behind everything that was sent before.
            self.work();
            self.engine.close(PORT, Reason::NoHardware, self.now);
            assert_eq!(self.device().rules, [], "invariant 3: a closed port has rules");
            self.has_lost = false;
        }
        self.is_open = is_open;
    }

    /// Whether two rules have one mark, or a packet on its way has one that another rule has.
    fn check_marks(&self) {
        let slot = |mark: u32| mark % (1 << 22);
        let entries = self.engine.slots.iter().filter_map(|slot| slot.entry.as_ref());
        let live: Vec<_> = entries.map(|e| (number_of(&e.first), e.mark.number().get())).collect();
        let mut slots = HashSet::new();
        assert!(live.iter().all(|(_, mark)| slots.insert(slot(*mark))), "invariant 2: {live:?}");
        for (flow, mark) in &self.ring {
            let is_other = |(other, own): &(usize, u32)| {
                own != mark && slot(*own) == slot(*mark) || own == mark && other != flow
            };
            assert!(!live.iter().any(is_other), "invariant 2: a packet carries {mark} of {flow}");
        }
    }

    /// What makes a world different from others, in what can follow.
    fn fingerprint(&self) -> String {
        let sequence =
            |user: u64| (user as u32, self.engine.sequence(user as u32) == (user >> 32) as u32);
        let answers = |answers: &VecDeque<Completion>| -> Vec<_> {
            answers.iter().map(|done| (sequence(done.user), done.result)).collect()
        };
        let device = self.device();
        let asked: Vec<_> = device
            .requests
            .iter()
            .map(|(user, asked)| (sequence(*user), matches!(asked, Asked::Insert { .. })))
            .collect();
        let rules: Vec<_> = device.rules.iter().map(|(_, flow, mark)| (flow, mark)).collect();
        let entries: Vec<_> = self
            .engine
            .slots
            .iter()
            .map(|slot| {
                let entry = slot.entry.as_ref()?;
                let members = entry
                    .members
                    .iter()
                    .map(|member| (member.flow.worker(), member.flow.is_dead()));
                let rule = (
                    entry.rule.state,
                    entry.rule.is_wanted(),
                    entry.rule.deadline().map(|at| at > self.now),
                );
                Some((number_of(&entry.first), rule, entry.mark, members.collect::<Vec<_>>()))
            })
            .collect();
        let sent: Vec<_> = self
            .sent
            .iter()
            .map(|request| match request {
                Request::Put { flow, .. } => (true, number_of(flow), flow.is_dead(), flow.worker()),
                Request::Remove { flow } => (false, number_of(flow), flow.is_dead(), flow.worker()),
                _ => panic!("no other request is sent"),
            })
            .collect();
        let threads: Vec<_> = self
            .threads
            .iter()
            .map(|thread| {
                let installed = thread
                    .installed
                    .map(|number| thread.flows.record(number?).map(|flow| flow.mark_on_thread()));
                (installed, thread.has_heard)
            })
            .collect();
        let engine = (self.engine.marks.fingerprint(), self.engine.blocked.len());
        let world = (self.owner, self.is_open, self.has_lost, &self.ring);
        format!(
            "{entries:?}{engine:?}{asked:?}{rules:?}{:?}{:?}{sent:?}{threads:?}{world:?}",
            answers(&device.answers),
            answers(&device.held),
        )
    }

    /// Faults end, and nobody asks for anything more.
    fn settle(&mut self) {
        for _ in 0..8 {
            self.after(Event::Work);
            while self.after(Event::Done(0)) || self.after(Event::Release) {}
            for _ in 0..THREADS {
                self.after(Event::Poll);
                self.after(Event::Move);
            }
            self.after(Event::Time);
        }
    }

    /// Checks where everything ends from here.
    fn check_end(&mut self) {
        self.settle();
        let mut rules: Vec<_> = self.device().rules.iter().map(|rule| rule.1).collect();
        rules.sort();
        // Without a mark a flow stays in software.
        let is_wanted = |flow: &usize| {
            let installed = self.threads.iter().map(|thread| (thread, thread.installed[*flow]));
            let mut records = installed.filter_map(|(thread, number)| thread.flows.record(number?));
            self.is_open
                && records.any(|flow| flow.offload_state() != OffloadState::No(Reason::NoMark))
        };
        let wanted: Vec<_> = (0..FLOWS).filter(is_wanted).collect();
        if self.has_lost {
            assert!(
                rules.iter().all(|flow| wanted.contains(flow)),
                "invariant 3: {rules:?} after {:?}",
                self.path
            );
        } else {
            assert_eq!(rules, wanted, "invariant 3, after {:?}", self.path);
        }
        for thread in &self.threads {
            for (_, flow, mark) in &self.device().rules {
                let found = thread.stage.find((*mark).try_into().unwrap(), PORT);
                assert_eq!(
                    found, thread.installed[*flow],
                    "a mark leads elsewhere after {:?}",
                    self.path
                );
            }
        }
        for thread in 0..THREADS {
            for flow in 0..FLOWS {
                self.uninstall(thread, flow);
            }
        }
        self.settle();
        assert_eq!(self.device().rules, [], "invariant 4, after {:?}", self.path);
        assert!(
            self.engine.slots.iter().all(|slot| slot.entry.is_none()),
            "invariant 4, after {:?}",
            self.path
        );
        assert_eq!(self.engine.marks.live(), 0, "invariant 2: a mark leaked after {:?}", self.path);
        let held = self.records.iter().map(Arc::strong_count).max().unwrap_or(1);
        assert_eq!(held, 1, "invariant 5: a flow is still held after {:?}", self.path);
    }
}

fn replay(path: &[Event]) -> World {
    let mut world = World::new();
    for event in path {
        assert!(world.after(*event), "{event:?} of {path:?} cannot happen");
    }
    world
}

/// How many events in a row are explored; more where asked for.
fn depth() -> usize {
    let asked = std::env::var("SLUICE_MODEL_DEPTH");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Invariants 1 to 5, whatever happens in whatever order, from an empty world and from worlds in
/// which a rule, a packet or an old mark is on its way.
#[test]
fn flows_rules_and_marks_agree_whatever_happens() {
    use Event::*;
    let starts: [&[Event]; 5] = [
        &[],
        &[Install(0, 0), Work, Done(0)],
        &[Install(0, 0), Work, Done(0), Work, Poll, Arrive(0)],
        &[
            Install(0, 0),
            Work,
            Done(0),
            Work,
            Poll,
            Arrive(0),
            Uninstall(0, 0),
            Work,
            Done(0),
            Work,
        ],
        &[Install(0, 0), Install(1, 0), Install(0, 1), Work, Hold, Time, Work],
    ];
    let (mut seen, events) = (HashSet::new(), events());
    for start in starts {
        let mut front = vec![start.to_vec()];
        for _ in 0..depth() {
            let mut next = vec![];
            for path in front {
                for event in &events {
                    let mut world = replay(&path);
                    if !world.after(*event) {
                        continue;
                    }
                    world.check_marks();
                    if seen.insert(world.fingerprint()) {
                        let path = [&path[..], &[*event]].concat();
                        world.check_end();
                        next.push(path);
                    }
                }
            }
            front = next;
        }
    }
    assert!(seen.len() > 1000, "only {} worlds", seen.len());
}
