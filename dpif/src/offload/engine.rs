//! What one offload worker does, without its thread: it keeps the rules of its megaflows in line
//! with the flows, port by port.
//!
//! A megaflow may be installed on several poll threads; it is one rule with one mark, which leads
//! to a flow on each of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;
use netdev::flow_api::{Completion, DeviceId, FlowApiError, RuleCounters, RuleError, RuleId};

use super::inbox::{Association, Inbox};
use super::mark::{Mark, MarkPool, QueueDrain};
use super::provider::{Devices, Extent, Offer, ProviderPort, TunnelEnd, TunnelEnds};
use super::reason::{OffloadState, Reason};
use super::rule::{Answer, Rule, State, Step, Version};
use super::statistics::WorkerStatistics;
use super::{DEVICE_ERROR, STRAY_COMPLETION, TIMEOUT};
use crate::action::Action;
use crate::datapath::PortNumber;
use crate::flow_table::FlowRecord;

/// Completions pulled at a time.
const PULL: usize = 256;
/// Time between two looks at the counters of rules that keep packets from software.
const COUNTER_INTERVAL: Duration = Duration::from_millis(250);

/// A port that rules can be put on.
pub(crate) struct OpenPort {
    pub(crate) number: PortNumber,
    /// Name of the kind of hardware.
    pub(crate) provider: &'static str,
    pub(crate) device: DeviceId,
    pub(crate) hardware: Box<dyn ProviderPort>,
    /// Those of the port's receive queues.
    pub(crate) drains: Vec<Arc<QueueDrain>>,
}

struct PortState {
    provider: &'static str,
    hardware: Box<dyn ProviderPort>,
    drains: Vec<Arc<QueueDrain>>,
    in_flight: usize,
    is_staged: bool,
}

/// A flow that the rule stands for on one thread.
struct Member {
    flow: Arc<FlowRecord>,
    inbox: Arc<Inbox>,
}

struct Entry {
    port: PortNumber,
    /// The flow that brought the rule: it says which packets the rule takes.
    first: Arc<FlowRecord>,
    /// Hash of that.
    hash: u64,
    members: Vec<Member>,
    rule: Rule,
    /// The version that is wanted.
    version: Version,
    extent: Extent,
    actions: Arc<[Action]>,
    mark: Mark,
    id: Option<RuleId>,
    /// The extent that the device was asked for last.
    asked: Extent,
    /// What the device had counted at the last look.
    counted: RuleCounters,
    /// When the flow came, in cycles, until its rule is in.
    offered: Option<u64>,
}

/// Where an entry is, or was.
#[derive(Default)]
struct Slot {
    /// Tells the request in flight from those before, of earlier entries too: a device may answer
    /// when nobody expects it any more.
    sequence: u32,
    entry: Option<Entry>,
}

/// See the [module](self).
pub(crate) struct Engine {
    marks: MarkPool,
    ports: BTreeMap<PortNumber, PortState>,
    devices: BTreeMap<&'static str, Devices>,
    tunnels: TunnelEnds,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The slots of megaflows.
    by_flow: HashTable<(u64, u32)>,
    /// Entries that may have something to ask for.
    ready: VecDeque<u32>,
    /// Entries that wait for room in the queue of their port.
    blocked: Vec<u32>,
    /// When devices must have answered, by slot and sequence; the earliest first.
    answers: VecDeque<(Duration, u32, u32)>,
    /// When devices are asked again after a failure.
    retries: BinaryHeap<Reverse<(Duration, u32)>>,
    /// What poll threads will hear next.
    news: Vec<(Arc<Inbox>, Association)>,
    /// Entries whose packets software does not see.
    full: BTreeSet<u32>,
    next_count: Duration,
    statistics: Arc<WorkerStatistics>,
}

impl Engine {
    pub(crate) fn new(marks: MarkPool, statistics: Arc<WorkerStatistics>) -> Self {
        Self {
            marks,
            ports: BTreeMap::new(),
            devices: BTreeMap::new(),
            tunnels: TunnelEnds::new(),
            slots: vec![],
            free: vec![],
            by_flow: HashTable::new(),
            ready: VecDeque::new(),
            blocked: vec![],
            answers: VecDeque::new(),
            retries: BinaryHeap::new(),
            news: vec![],
            full: BTreeSet::new(),
            next_count: Duration::ZERO,
            statistics,
        }
    }

    /// Rules that are there, or on their way in or out.
    fn rules(&self) -> usize {
        self.by_flow.len()
    }

    /// Whether a device owes an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        self.ports.values().any(|port| port.in_flight > 0)
    }

    /// When there is something to do without a request.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let counters = (!self.full.is_empty()).then_some(self.next_count);
        let answer = self.answers.front().map(|(deadline, ..)| *deadline);
        let retry = self.retries.peek().map(|Reverse((deadline, _))| *deadline);
        [counters, answer, retry].into_iter().flatten().min()
    }

    /// Takes a port.
    pub(crate) fn open(&mut self, port: OpenPort) {
        let OpenPort { number, provider, device, hardware, drains } = port;
        let (in_flight, is_staged) = (0, false);
        self.ports.insert(number, PortState { provider, hardware, drains, in_flight, is_staged });
        self.devices.entry(provider).or_default().insert(number, device);
    }

    /// Gives up a port: the device drops its rules when it is told that nobody uses them.
    pub(crate) fn close(&mut self, number: PortNumber, reason: Reason, now: Duration) {
        let is_on_port = |slot: &Slot| slot.entry.as_ref().is_some_and(|e| e.port == number);
        let slots = (0..).zip(&self.slots).filter(|(_, slot)| is_on_port(slot));
        let on_port: Vec<u32> = slots.map(|(index, _)| index).collect();
        for index in &on_port {
            self.account(*index, now);
        }
        let Some(port) = self.ports.remove(&number) else { return };
        if let Some(devices) = self.devices.get_mut(port.provider) {
            devices.remove(&number);
        }
        drop(port.hardware);
        for index in on_port {
            let Some(entry) = self.forget(index) else { continue };
            entry.tell(OffloadState::No(reason));
            self.marks.give_back(entry.mark, &port.drains);
        }
    }

    /// Takes a flow that is new or does something else than before.
    pub(crate) fn put(&mut self, flow: Arc<FlowRecord>, inbox: Arc<Inbox>, offered: u64) {
        if flow.is_dead() {
            return;
        }
        let ports = self.ports_of(&flow);
        if ports.is_empty() {
            flow.offload().set(OffloadState::No(Reason::NoHardware));
        }
        for number in ports {
            self.put_on(number, Arc::clone(&flow), Arc::clone(&inbox), offered);
        }
    }

    /// The ports on which a flow has a rule: its own, or all that its packets may come through a
    /// tunnel from.
    fn ports_of(&self, flow: &FlowRecord) -> Vec<PortNumber> {
        let number = PortNumber(flow.key().in_port.get());
        if !self.tunnels.contains_key(&number) {
            return vec![number];
        }
        let open = self.ports.iter().filter(|(_, port)| port.hardware.restores());
        open.map(|(number, _)| *number).collect()
    }

    fn put_on(
        &mut self,
        number: PortNumber,
        flow: Arc<FlowRecord>,
        inbox: Arc<Inbox>,
        offered: u64,
    ) {
        let Some(port) = self.ports.get(&number) else {
            flow.offload().set(OffloadState::No(Reason::NoHardware));
            return;
        };
        let actions = flow.actions();
        let none = Devices::new();
        let devices = self.devices.get(port.provider).unwrap_or(&none);
        let extent = port.hardware.extent(&flow, &actions, devices, &self.tunnels);
        let (hash, known) = self.find(number, &flow);
        let extent = match extent {
            Ok(extent) => extent,
            Err(reason) => {
                flow.offload().set(OffloadState::No(reason));
                if let Some(index) = known {
                    self.retire(index, reason);
                }
                return;
            }
        };
        match known {
            Some(index) => self.change(index, Member { flow, inbox }, extent, actions),
            None => self.create((number, hash), Member { flow, inbox }, extent, actions, offered),
        }
    }

    /// The hash of what a flow takes, and the slot of its megaflow on a port.
    fn find(&self, port: PortNumber, flow: &FlowRecord) -> (u64, Option<u32>) {
        let hash = flow.mask().hash(flow.masked(), 0);
        // The table looks at the highest bits too.
        let hash = u64::from(hash) << 32 | u64::from(hash);
        let slots = &self.slots;
        let is_meant = |(other, index): &(u64, u32)| {
            let slot = slots.get(*index as usize).and_then(|slot| slot.entry.as_ref());
            *other == hash
                && slot.filter(|entry| entry.port == port).is_some_and(|Entry { first, .. }| {
                    std::ptr::eq(&raw const **first, flow)
                        || first.mask() == flow.mask()
                            && first.mask().matches(flow.masked(), first.masked())
                })
        };
        (hash, self.by_flow.find(hash, is_meant).map(|(_, index)| *index))
    }

    fn create(
        &mut self,
        (port, hash): (PortNumber, u64),
        member: Member,
        extent: Extent,
        actions: Arc<[Action]>,
        offered: u64,
    ) {
        let Some(mark) = self.marks.take() else {
            member.flow.offload().set(OffloadState::No(Reason::NoMark));
            return;
        };
        let first = Arc::clone(&member.flow);
        self.news.push(member.join(mark));
        let entry = Entry {
            port,
            first,
            hash,
            members: vec![member],
            rule: Rule::new(0),
            version: 0,
            extent,
            actions,
            mark,
            id: None,
            asked: extent,
            counted: RuleCounters::default(),
            offered: Some(offered),
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        if let Some(slot) = self.slots.get_mut(index as usize) {
            slot.entry = Some(entry);
        }
        self.by_flow.insert_unique(hash, (hash, index), |(hash, _)| *hash);
        self.ready.push_back(index);
    }

    fn change(&mut self, index: u32, member: Member, extent: Extent, actions: Arc<[Action]>) {
        let Self { slots, news, .. } = self;
        let entry = slots.get_mut(index as usize).and_then(|slot| slot.entry.as_mut());
        let Some(entry) = entry else { return };
        if !entry.members.iter().any(|known| Arc::ptr_eq(&known.flow, &member.flow)) {
            news.push(member.join(entry.mark));
            let state = entry.shown();
            member.flow.offload().set(state);
            entry.members.push(member);
        }
        let is_same =
            entry.extent == extent && (extent == Extent::Partial || entry.actions == actions);
        let is_wanted = entry.rule.is_wanted();
        entry.actions = actions;
        entry.extent = extent;
        if !is_same || !is_wanted {
            // A mark says which flow it is, whatever that does; all else is up to the device.
            entry.version = entry.version.wrapping_add(u32::from(!is_same));
        }
        entry.rule.want(Some(entry.version));
        self.ready.push_back(index);
    }

    /// Takes a rule out because its flow is nothing for hardware any more.
    fn retire(&mut self, index: u32, reason: Reason) {
        if let Some(entry) = self.entry(index) {
            entry.tell(OffloadState::No(reason));
            entry.rule.want(None);
            self.ready.push_back(index);
        }
    }

    /// Takes word that a flow was removed.
    pub(crate) fn remove(&mut self, flow: &Arc<FlowRecord>, now: Duration) {
        for port in self.ports_of(flow) {
            let (_, Some(index)) = self.find(port, flow) else { continue };
            self.account(index, now);
            let Some(entry) = self.entry(index) else { continue };
            entry.members.retain(|member| !Arc::ptr_eq(&member.flow, flow));
            if entry.members.is_empty() {
                entry.rule.want(None);
                self.ready.push_back(index);
            }
        }
    }

    /// Takes a tunnel port.
    pub(crate) fn open_tunnel(&mut self, number: PortNumber, end: TunnelEnd) {
        self.tunnels.insert(number, end);
    }

    /// Gives up a tunnel port: flows of it, and those that take packets out of its tunnels, have no
    /// rules any more.
    pub(crate) fn close_tunnel(&mut self, number: PortNumber) {
        self.tunnels.remove(&number);
        let is_of_tunnel = |entry: &Entry| {
            entry.first.key().in_port.get() == number.0
                || *entry.actions == [Action::TunnelPop(number.0)]
        };
        let slots = (0..).zip(&mut self.slots);
        let of_tunnel = slots.filter(|(_, slot)| slot.entry.as_ref().is_some_and(is_of_tunnel));
        for (index, Slot { entry, .. }) in of_tunnel {
            let Some(entry) = entry else { continue };
            entry.tell(OffloadState::No(Reason::NoHardware));
            entry.members.clear();
            entry.rule.want(None);
            self.ready.push_back(index);
        }
    }

    /// Carries on with whatever can be carried on with.
    pub(crate) fn run(&mut self, now: Duration) {
        self.tell_threads();
        // An answer that is there has come in time, however late it is looked at.
        if self.pull(now) > 0 {
            self.ready.extend(self.blocked.drain(..));
        }
        while let Some((deadline, index, sequence)) = self.answers.front().copied() {
            let is_awaited = self.sequence(index) == sequence;
            if is_awaited && deadline > now {
                break;
            }
            self.answers.pop_front();
            self.ready.extend(is_awaited.then_some(index));
        }
        while let Some(Reverse((deadline, index))) = self.retries.peek().copied()
            && deadline <= now
        {
            self.retries.pop();
            self.ready.push_back(index);
        }
        self.step_ready(now);
        self.push();
        if self.pull(now) > 0 {
            self.ready.extend(self.blocked.drain(..));
            self.step_ready(now);
            self.push();
        }
        if now >= self.next_count && !self.full.is_empty() {
            self.count(now);
        }
        self.statistics.set_sizes(self.rules(), self.marks.live());
    }

    /// Lets poll threads hear of the marks of their flows.
    fn tell_threads(&mut self) {
        let mut news = self.news.drain(..).peekable();
        while let Some((inbox, association)) = news.next() {
            let is_next = |(next, _): &(Arc<Inbox>, _)| Arc::ptr_eq(next, &inbox);
            let more = std::iter::from_fn(|| Some(news.next_if(is_next)?.1));
            inbox.push([association].into_iter().chain(more));
        }
    }

    /// Looks at the counters of all rules that keep packets from software.
    pub(crate) fn count(&mut self, now: Duration) {
        self.next_count = now + COUNTER_INTERVAL;
        for index in self.full.clone() {
            self.account(index, now);
        }
    }

    fn push(&mut self) {
        for port in self.ports.values_mut().filter(|port| port.is_staged) {
            port.is_staged = false;
            port.hardware.push();
        }
    }

    /// Takes what devices have answered.
    fn pull(&mut self, now: Duration) -> usize {
        let mut completions = [Completion { user: 0, result: Ok(()) }; PULL];
        let mut total = 0;
        let numbers: Vec<PortNumber> = self.ports.keys().copied().collect();
        for number in numbers {
            // An answer may come after it was given up, and must not fill the queue.
            while let Some(port) = self.ports.get_mut(&number) {
                let pulled = port.hardware.pull(&mut completions);
                if pulled == 0 {
                    break;
                }
                total += pulled;
                for completion in completions.iter().take(pulled) {
                    self.complete(*completion, now);
                }
            }
        }
        total
    }

    fn complete(&mut self, completion: Completion, now: Duration) {
        let Completion { user, result } = completion;
        let (index, sequence) = (user as u32, (user >> 32) as u32);
        let is_named =
            |slot: &&mut Slot| slot.sequence == sequence || cfg!(feature = "broken-completion");
        let slot = self.slots.get_mut(index as usize).filter(is_named);
        let awaited = slot.and_then(|Slot { sequence, entry }| {
            let entry = entry.as_mut().filter(|entry| entry.rule.is_in_flight())?;
            *sequence = sequence.wrapping_add(1);
            Some(entry)
        });
        let Some(entry) = awaited else {
            // Late, or given twice.
            STRAY_COMPLETION.add(1);
            return;
        };
        let answer = match result {
            Ok(()) => Answer::Done,
            Err(RuleError::NotFound | RuleError::Removed) => Answer::Gone,
            Err(_) => Answer::Failed,
        };
        let asked = entry.rule.state;
        entry.rule.complete(answer, now);
        let port = entry.port;
        match (asked, result) {
            (State::Adding(_) | State::Modifying(_), Ok(())) => {
                let state = entry.shown();
                entry.tell(state);
                let (is_full, offered) = (entry.asked == Extent::Full, entry.offered.take());
                // What it did before it has done until now.
                self.account(index, now);
                match is_full {
                    true => self.full.insert(index),
                    false => self.full.remove(&index),
                };
                if let Some(offered) = offered {
                    self.statistics.inserted(offered);
                }
            }
            (State::Removing, Ok(())) => {
                self.full.remove(&index);
            }
            (_, Err(error)) => self.failed(index, FlowApiError::Rule(error)),
            _ => {}
        }
        if let Some(port) = self.ports.get_mut(&port) {
            port.in_flight = port.in_flight.saturating_sub(1);
        }
        self.ready.push_back(index);
    }

    /// A device did not do what it was asked for.
    fn failed(&mut self, index: u32, error: FlowApiError) {
        DEVICE_ERROR.add(1);
        self.full.remove(&index);
        let Some(entry) = self.entry(index) else { return };
        let is_gone =
            matches!(error, FlowApiError::Removed | FlowApiError::Rule(RuleError::Removed));
        entry.tell(OffloadState::No(if is_gone { Reason::Removed } else { Reason::Device }));
        let port = entry.port;
        tracing::debug!(
            target: "dpif_offload",
            limited = true,
            "port {port}: a rule could not be changed: {error}"
        );
    }

    fn step_ready(&mut self, now: Duration) {
        while let Some(index) = self.ready.pop_front() {
            self.step(index, now);
        }
    }

    /// Asks for what a rule needs next.
    fn step(&mut self, index: u32, now: Duration) {
        let Some(entry) = self.entry(index) else { return };
        let (before, number) = (entry.rule, entry.port);
        let step = entry.rule.step(now);
        if before.is_in_flight() && !matches!(step, Step::Wait) {
            // Its answer did not come in time.
            TIMEOUT.add(1);
            if let Some(slot) = self.slots.get_mut(index as usize) {
                slot.sequence = slot.sequence.wrapping_add(1);
            }
            if let Some(port) = self.ports.get_mut(&number) {
                port.in_flight = port.in_flight.saturating_sub(1);
                port.hardware.forget_one();
            }
        }
        let asked = match step {
            Step::Wait => Ok(()),
            Step::Forget => {
                self.release(index);
                return;
            }
            Step::Remove | Step::Update => {
                self.account(index, now);
                self.ask(index, step)
            }
            Step::Insert => self.ask(index, step),
        };
        let sequence = self.sequence(index);
        let Some(entry) = self.entry(index) else { return };
        match asked {
            Ok(()) => {
                let is_in_flight = entry.rule.is_in_flight();
                match (entry.rule.deadline(), step) {
                    (Some(deadline), Step::Insert | Step::Update | Step::Remove) => {
                        self.answers.push_back((deadline, index, sequence));
                    }
                    (Some(deadline), _) if !is_in_flight => {
                        self.retries.push(Reverse((deadline, index)));
                    }
                    _ => {}
                }
            }
            Err(FlowApiError::QueueFull) => {
                entry.rule.undo(before);
                self.blocked.push(index);
            }
            Err(error) => {
                let is_gone = matches!(error, FlowApiError::Removed);
                entry.rule.complete(if is_gone { Answer::Gone } else { Answer::Failed }, now);
                self.failed(index, error);
                self.ready_later(index);
            }
        }
    }

    fn ready_later(&mut self, index: u32) {
        let Some(entry) = self.entry(index) else { return };
        match entry.rule.deadline() {
            Some(deadline) => self.retries.push(Reverse((deadline, index))),
            None => self.ready.push_back(index),
        }
    }

    /// Enqueues one request.
    fn ask(&mut self, index: u32, step: Step) -> Result<(), FlowApiError> {
        let Some(slot) = self.slots.get_mut(index as usize) else { return Ok(()) };
        let Some(entry) = &mut slot.entry else { return Ok(()) };
        let port = self.ports.get_mut(&entry.port).ok_or(FlowApiError::Removed)?;
        let user = u64::from(slot.sequence) << 32 | u64::from(index);
        let none = Devices::new();
        let devices = self.devices.get(port.provider).unwrap_or(&none);
        let offer = entry.members.first().map(|member| Offer {
            flow: &member.flow,
            actions: &entry.actions,
            extent: entry.extent,
            mark: entry.mark.number(),
            devices,
            tunnels: &self.tunnels,
        });
        match (step, entry.id, offer) {
            (Step::Insert, _, Some(offer)) => {
                entry.id = Some(port.hardware.insert(offer, user)?);
                entry.asked = entry.extent;
                entry.counted = RuleCounters::default();
            }
            (Step::Update, Some(id), Some(offer)) => {
                port.hardware.update(id, offer, user)?;
                entry.asked = entry.extent;
                if port.hardware.update_resets() {
                    entry.counted = RuleCounters::default();
                }
            }
            (Step::Remove, Some(id), _) => port.hardware.remove(id, user)?,
            _ => return Err(FlowApiError::Rule(RuleError::NotFound)),
        }
        port.in_flight += 1;
        port.is_staged = true;
        Ok(())
    }

    /// Adds to a flow what its rule has counted since the last look.
    fn account(&mut self, index: u32, now: Duration) {
        if !self.full.contains(&index) {
            return;
        }
        let slot = self.slots.get_mut(index as usize);
        let Some(entry) = slot.and_then(|slot| slot.entry.as_mut()) else { return };
        let Some(port) = self.ports.get_mut(&entry.port) else { return };
        let Some(Ok(counters)) = entry.id.map(|id| port.hardware.query(id)) else { return };
        let since = |new: u64, old: u64| new.checked_sub(old).unwrap_or(new);
        let packets = since(counters.packets, entry.counted.packets);
        let bytes = since(counters.bytes, entry.counted.bytes);
        if !cfg!(feature = "broken-count") {
            entry.counted = counters;
        }
        if let Some(member) = entry.members.first().filter(|_| packets > 0) {
            member.flow.count_hardware(packets, bytes, now.as_millis() as u64);
        }
    }

    /// Forgets a rule that is gone, and gives back its mark.
    fn release(&mut self, index: u32) {
        let Some(entry) = self.forget(index) else { return };
        let drains = self.ports.get(&entry.port).map_or(&[][..], |port| &port.drains);
        self.marks.give_back(entry.mark, drains);
    }

    fn forget(&mut self, index: u32) -> Option<Entry> {
        let slot = self.slots.get_mut(index as usize)?;
        let entry = slot.entry.take()?;
        slot.sequence = slot.sequence.wrapping_add(1);
        if let Ok(known) = self.by_flow.find_entry(entry.hash, |(_, other)| *other == index) {
            known.remove();
        }
        self.full.remove(&index);
        self.free.push(index);
        if cfg!(feature = "broken-reference") {
            std::mem::forget(Arc::clone(&entry.first));
        }
        Some(entry)
    }

    fn sequence(&self, index: u32) -> u32 {
        self.slots.get(index as usize).map_or(0, |slot| slot.sequence)
    }

    fn entry(&mut self, index: u32) -> Option<&mut Entry> {
        self.slots.get_mut(index as usize)?.entry.as_mut()
    }
}

impl Member {
    /// What the thread of the flow has to hear of its mark.
    fn join(&self, mark: Mark) -> (Arc<Inbox>, Association) {
        self.flow.offload().set(OffloadState::No(Reason::Pending));
        (Arc::clone(&self.inbox), Association { flow: Arc::clone(&self.flow), mark })
    }
}

impl Entry {
    /// How far the flow is in hardware.
    fn shown(&self) -> OffloadState {
        match self.extent {
            _ if !self.rule.is_settled() => OffloadState::No(Reason::Pending),
            Extent::Full => OffloadState::Full,
            Extent::Partial => OffloadState::Partial,
        }
    }

    fn tell(&self, state: OffloadState) {
        self.members.iter().for_each(|member| member.flow.offload().set(state));
    }
}

#[cfg(test)]
mod tests;
