//! Hardware of dummy ports, as that of Open vSwitch's: rules are matched when a frame is put on
//! the port, in the order of their masks' discovery, and the log tells of each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netdev::dummy::{Dummy, Intercepted};
use netdev::flow_api::{Completion, FlowApiError, RuleCounters, RuleError, RuleId};
use netdev::packet::Descriptor;
use tracing::debug;

use super::openflow_text::{MatchText, PacketText};
use super::provider::{Devices, Extent, Offer, ProviderPort, TunnelEnds};
use super::reason::Reason;
use crate::action::Action;
use crate::datapath::PortNumber;
use crate::flow::{FlowKey, FlowMask, MAX_VLANS, PacketKey, Ufid, extract_bytes, five_tuple_hash};
use crate::flow_table::FlowRecord;

/// The dummy ports of a datapath that rules may send to.
pub(crate) type DummyPorts = Arc<Mutex<BTreeMap<PortNumber, Arc<Dummy>>>>;

#[derive(Debug)]
struct DummyRule {
    id: u64,
    ufid: Ufid,
    masked: FlowKey,
    /// Without the port, which is the rule's anyway.
    mask: FlowMask,
    mark: u32,
    /// The ports to send to, where that is all.
    outputs: Option<Vec<PortNumber>>,
    counters: RuleCounters,
}

/// What happened to frames that were put on a port.
#[derive(Debug, Default)]
pub(super) struct Counters {
    partial: AtomicU64,
    full: AtomicU64,
    miss: AtomicU64,
    abort: AtomicU64,
}

impl Counters {
    /// The counters under the names that Open vSwitch has for them.
    pub(super) fn named(&self) -> Vec<(&'static str, u64)> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        vec![
            ("rx_offload_partial", load(&self.partial)),
            ("rx_offload_full", load(&self.full)),
            ("rx_offload_miss", load(&self.miss)),
            ("rx_offload_pipe_abort", load(&self.abort)),
        ]
    }
}

/// The rules of one port.
#[derive(Debug)]
pub(crate) struct DummyHardware {
    dummy: Arc<Dummy>,
    ports: DummyPorts,
    rules: Mutex<Vec<DummyRule>>,
    /// Rules so far.
    inserted: AtomicU64,
    counters: Counters,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DummyHardware {
    /// Lets rules of this hardware come before the receive queues of `dummy`.
    pub(crate) fn open(dummy: Arc<Dummy>, number: PortNumber, ports: &DummyPorts) -> Arc<Self> {
        if dummy.is_pmd() {
            lock(ports).insert(number, Arc::clone(&dummy));
        }
        let hardware = Arc::new(Self {
            dummy: Arc::clone(&dummy),
            ports: Arc::clone(ports),
            rules: Mutex::default(),
            inserted: AtomicU64::new(0),
            counters: Counters::default(),
        });
        let interceptor = Arc::downgrade(&hardware);
        dummy.set_interceptor(Some(Box::new(move |frame: &[u8]| {
            interceptor.upgrade().map_or(Intercepted::default(), |hardware| hardware.process(frame))
        })));
        hardware
    }

    /// Leaves the port alone again.
    pub(crate) fn close(&self, number: PortNumber) {
        self.dummy.set_interceptor(None);
        lock(&self.ports).remove(&number);
    }

    /// What happened to frames.
    pub(crate) fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.named()
    }

    /// Runs a frame through the rules.
    fn process(&self, frame: &[u8]) -> Intercepted {
        let mut key = PacketKey::default();
        let mut descriptor = Descriptor::default();
        extract_bytes(frame, frame.len(), &mut descriptor, None, MAX_VLANS, &mut key);
        let mut rules = lock(&self.rules);
        let found = rules.iter_mut().find(|rule| rule.mask.matches(key.key(), &rule.masked));
        let Some(rule) = found else {
            self.counters.miss.fetch_add(1, Ordering::Relaxed);
            return Intercepted::default();
        };
        let mark = rule.mark;
        debug!(
            target: "dpif_offload_dummy",
            "{}: packet: {} matches with flow: {} {} with mark: {mark}",
            self.dummy.name(),
            PacketText(key.key()),
            rule.ufid,
            MatchText { key: &rule.masked, mask: &rule.mask },
        );
        let Some(outputs) = rule.outputs.clone() else {
            self.counters.partial.fetch_add(1, Ordering::Relaxed);
            return Intercepted { mark, is_taken: false };
        };
        self.counters.full.fetch_add(1, Ordering::Relaxed);
        let ports = lock(&self.ports);
        let targets = outputs.iter().map(|port| ports.get(port).cloned());
        let Some(targets) = targets.collect::<Option<Vec<_>>>() else {
            debug!(target: "dpif_offload_dummy", "Failed HW pipeline, sent to sw!");
            self.counters.abort.fetch_add(1, Ordering::Relaxed);
            return Intercepted { mark, is_taken: false };
        };
        rule.counters.packets += 1;
        rule.counters.bytes += frame.len() as u64;
        drop((ports, rules));
        let hash = five_tuple_hash(key.key(), 0);
        targets.iter().for_each(|target| target.transmit(frame, hash));
        Intercepted { mark, is_taken: true }
    }
}

/// A worker's way to the rules of a dummy port. Everything is done at once.
pub(crate) struct DummyPort {
    hardware: Arc<DummyHardware>,
    done: VecDeque<Completion>,
}

impl DummyPort {
    pub(crate) fn new(hardware: &Arc<DummyHardware>) -> Self {
        Self { hardware: Arc::clone(hardware), done: VecDeque::new() }
    }

    fn log(&self, what: &str, offer: Offer<'_>) {
        debug!(
            target: "dpif_offload_dummy",
            "{}: flow put[{what}]: {} flow match: {}, mark: {}",
            self.hardware.dummy.name(),
            offer.flow.ufid(),
            MatchText { key: offer.flow.key(), mask: offer.flow.mask() },
            offer.mark,
        );
        let word = if what == "create" { "add" } else { what };
        succeeded(word, offer.flow.ufid());
    }
}

fn succeeded(word: &str, ufid: Ufid) {
    let ufid = ufid.to_string();
    let uuid = ufid.trim_start_matches("ufid:");
    debug!(target: "dpif_offload_dummy", "succeed to {word} netdev flow {uuid}");
}

/// The ports that actions send to, where they do nothing else, and these are not the packet's own.
fn outputs(actions: &[Action], in_port: PortNumber) -> Option<Vec<PortNumber>> {
    let ports = actions.iter().map(|action| match action {
        Action::Output(port) => Some(PortNumber(*port)).filter(|port| *port != in_port),
        _ => None,
    });
    ports.collect()
}

impl ProviderPort for DummyPort {
    fn extent(
        &self,
        flow: &FlowRecord,
        actions: &[Action],
        _: &Devices,
        _: &TunnelEnds,
    ) -> Result<Extent, Reason> {
        let outputs = outputs(actions, PortNumber(flow.key().in_port.get()));
        let ports = lock(&self.hardware.ports);
        let is_full = outputs.is_some_and(|all| all.iter().all(|port| ports.contains_key(port)));
        Ok(if is_full { Extent::Full } else { Extent::Partial })
    }

    fn restores(&self) -> bool {
        false
    }

    fn insert(&mut self, offer: Offer<'_>, user: u64) -> Result<RuleId, FlowApiError> {
        let mut bits = offer.flow.mask().bits().clone();
        bits.in_port.set(0);
        let mask = FlowMask::new(bits);
        let id = self.hardware.inserted.fetch_add(1, Ordering::Relaxed);
        let rule = DummyRule {
            id,
            ufid: offer.flow.ufid(),
            masked: mask.masked(offer.flow.key()),
            mask,
            mark: offer.mark.get(),
            outputs: outputs_of(offer),
            counters: RuleCounters::default(),
        };
        lock(&self.hardware.rules).push(rule);
        self.log("create", offer);
        self.done.push_back(Completion { user, result: Ok(()) });
        Ok(RuleId(id))
    }

    fn update(&mut self, rule: RuleId, offer: Offer<'_>, user: u64) -> Result<(), FlowApiError> {
        let mut rules = lock(&self.hardware.rules);
        let found = rules.iter_mut().find(|own| own.id == rule.0);
        found.ok_or(FlowApiError::Rule(RuleError::NotFound))?.outputs = outputs_of(offer);
        drop(rules);
        self.log("modify", offer);
        self.done.push_back(Completion { user, result: Ok(()) });
        Ok(())
    }

    fn update_resets(&self) -> bool {
        false
    }

    fn remove(&mut self, rule: RuleId, user: u64) -> Result<(), FlowApiError> {
        let mut rules = lock(&self.hardware.rules);
        let place = rules.iter().position(|own| own.id == rule.0);
        let place = place.ok_or(FlowApiError::Rule(RuleError::NotFound))?;
        let DummyRule { ufid, mark, .. } = rules.remove(place);
        drop(rules);
        let name = self.hardware.dummy.name();
        debug!(target: "dpif_offload_dummy", "{name}: flow del: {ufid} mark: {mark}");
        succeeded("delete", ufid);
        self.done.push_back(Completion { user, result: Ok(()) });
        Ok(())
    }

    fn push(&mut self) {}

    fn pull(&mut self, completions: &mut [Completion]) -> usize {
        let count = completions.len().min(self.done.len());
        for (place, completion) in completions.iter_mut().zip(self.done.drain(..count)) {
            *place = completion;
        }
        count
    }

    fn forget_one(&mut self) {}

    fn query(&mut self, rule: RuleId) -> Result<RuleCounters, FlowApiError> {
        let rules = lock(&self.hardware.rules);
        let found = rules.iter().find(|own| own.id == rule.0);
        Ok(found.ok_or(FlowApiError::Rule(RuleError::NotFound))?.counters)
    }
}

fn outputs_of(offer: Offer<'_>) -> Option<Vec<PortNumber>> {
    let in_port = PortNumber(offer.flow.key().in_port.get());
    outputs(offer.actions, in_port).filter(|_| offer.extent == Extent::Full)
}

impl Drop for DummyPort {
    fn drop(&mut self) {
        // Whoever opened them closes them; the hardware of a port outlives its rules.
        lock(&self.hardware.rules).clear();
    }
}
