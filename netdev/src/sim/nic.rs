//! A software NIC: what its port, its queues and the commands share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::SimPorts;
use super::audit::{Event, Totals};
use super::engine::{Engine, Exit, Outcome};
use super::fault::Faults;
use super::frame;
use super::options::{Options, Restore, RuleOptions};
use super::ring::{Arrival, Ring, Source};
use super::rule_queue::SimRuleQueue;
use crate::clock;
use crate::flow_api::{
    ActionKinds, Capabilities, DeviceId, FlowApiError, FlowDevice, FlowQueue, HeaderFields,
    ModifyStyle, TableId, Template,
};
use crate::pcap::PcapWriter;
use crate::replay::record;

/// Wires that a frame passes at most without being received.
const MAX_HOPS: usize = 8;

/// Packets and bytes, of all queues.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) packets: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Traffic {
    pub(super) fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What the port is connected to.
#[derive(Debug, Default)]
struct Wire {
    peer: Option<String>,
    recorder: Option<PcapWriter>,
}

/// A frame that a rule sends out of another port.
type Forwarded = (DeviceId, Vec<u8>);

/// A software NIC: what its port, its queues and the commands share.
#[derive(Debug)]
pub struct Nic {
    name: String,
    id: DeviceId,
    ports: Weak<SimPorts>,
    wire: Mutex<Wire>,
    engine: Mutex<Engine>,
    rings: Mutex<Vec<Arc<Mutex<Ring>>>>,
    /// Whether it refuses rules for which it has no room at once.
    is_early: AtomicBool,
    pub(super) mtu: AtomicU32,
    pub(super) is_up: AtomicBool,
    pub(super) received: Traffic,
    pub(super) sent: Traffic,
    /// Frames that could not be sent.
    pub(super) unsent: AtomicU64,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Nic {
    pub(super) fn new(name: &str, id: DeviceId, ports: Weak<SimPorts>) -> Self {
        let options = Options::default();
        Self {
            name: name.to_owned(),
            id,
            ports,
            wire: Mutex::default(),
            rings: Mutex::new(rings(&options)),
            engine: Mutex::new(Engine::new(options.rules)),
            is_early: AtomicBool::new(false),
            mtu: AtomicU32::new(1500),
            is_up: AtomicBool::new(true),
            received: Traffic::default(),
            sent: Traffic::default(),
            unsent: AtomicU64::new(0),
        }
    }

    pub(super) fn id(&self) -> DeviceId {
        self.id
    }

    /// The name of the port.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn set_options(&self, options: &Options, recorder: Option<PcapWriter>) {
        *lock(&self.wire) = Wire { peer: options.peer.clone(), recorder };
        self.is_early.store(options.rules.early_check, Ordering::Relaxed);
        self.engine().set_options(options.rules.clone());
        let mut current = lock(&self.rings);
        let is_same = current.len() == options.files.rx_queues
            && current.iter().all(|ring| lock(ring).size() == options.ring);
        if !is_same {
            *current = rings(options);
        }
    }

    pub(super) fn engine(&self) -> MutexGuard<'_, Engine> {
        lock(&self.engine)
    }

    pub(super) fn ring(&self, queue: usize) -> Option<Arc<Mutex<Ring>>> {
        lock(&self.rings).get(queue).cloned()
    }

    /// Frames lost because a ring was full.
    pub(super) fn missed(&self) -> u64 {
        lock(&self.rings).iter().map(|ring| lock(ring).lost).sum()
    }

    /// Whether the device refuses a rule at once, with `staged` of them on their way.
    pub(super) fn is_full(&self, staged: usize) -> bool {
        if !self.is_early.load(Ordering::Relaxed) {
            return false;
        }
        let engine = self.engine();
        engine.rules() + staged >= engine.options.capacity
    }

    /// Lets frames arrive from the wire.
    pub fn arrive<'a>(&self, frames: impl Iterator<Item = &'a [u8]>) {
        self.arrive_after(frames, 0);
    }

    fn arrive_after<'a>(&self, frames: impl Iterator<Item = &'a [u8]>, hops: usize) {
        if !self.is_up.load(Ordering::Relaxed) {
            return;
        }
        let now = clock::now();
        let rings = lock(&self.rings).clone();
        let (mut packets, mut bytes, mut forwarded) = (0, 0, vec![]);
        let mut engine = self.engine();
        if engine.is_removed {
            return;
        }
        engine.advance(now);
        for frame in frames {
            (packets, bytes) = (packets + 1, bytes + frame.len() as u64);
            let parsed = HeaderFields::parse(frame);
            let hash = parsed.as_ref().map(|parsed| frame::hash(&parsed.fields));
            let outcome = engine.process(frame, parsed.as_ref(), now);
            deliver(&rings, frame, hash, outcome, &mut forwarded);
        }
        drop(engine);
        self.received.add(packets, bytes);
        self.forward(forwarded, hops);
    }

    /// Sends what rules sent on out of the ports that they name.
    pub(super) fn forward(&self, frames: Vec<Forwarded>, hops: usize) {
        if frames.is_empty() || hops >= MAX_HOPS {
            return;
        }
        let Some(ports) = self.ports.upgrade() else { return };
        let mut by_port: BTreeMap<DeviceId, Vec<Vec<u8>>> = BTreeMap::new();
        for (device, frame) in frames {
            by_port.entry(device).or_default().push(frame);
        }
        for (device, frames) in by_port {
            if let Some(nic) = ports.by_id(device) {
                nic.leave_after(frames.iter().map(Vec::as_slice), hops + 1);
            }
        }
    }

    /// Puts frames on the wire.
    pub(super) fn leave<'a>(&self, frames: impl Iterator<Item = &'a [u8]> + Clone) {
        self.leave_after(frames, 0);
    }

    fn leave_after<'a>(&self, frames: impl Iterator<Item = &'a [u8]> + Clone, hops: usize) {
        let peer = {
            let mut wire = lock(&self.wire);
            frames.clone().for_each(|frame| record(wire.recorder.as_mut(), frame));
            wire.peer.clone()
        };
        let (packets, bytes) = frames
            .clone()
            .fold((0, 0), |(count, sum), frame| (count + 1, sum + frame.len() as u64));
        self.sent.add(packets, bytes);
        let ports = self.ports.upgrade();
        let peer = peer.and_then(|peer| ports.as_ref()?.get(&peer));
        if let Some(peer) = peer {
            peer.arrive_after(frames, hops);
        }
    }

    /// Rules that the device has.
    pub fn rules(&self) -> usize {
        self.engine().rules()
    }

    /// How the device fails.
    pub fn faults(&self) -> Faults {
        self.engine().faults
    }

    /// Makes the device fail.
    pub fn set_faults(&self, faults: Faults) {
        let mut engine = self.engine();
        engine.faults = faults;
        engine.advance(clock::now());
    }

    /// Takes the device away, or brings it back without rules.
    pub fn set_removed(&self, is_removed: bool) {
        let mut engine = self.engine();
        engine.is_removed = is_removed;
        engine.lose_rules();
    }

    /// Lets the device lose its rules and say nothing, as a port does that stops.
    pub fn lose_rules(&self) {
        self.engine().lose_rules();
    }

    /// What the device really did.
    pub fn totals(&self) -> Totals {
        self.engine().audit.totals
    }

    /// Whether events are kept for [`Self::take_events`].
    pub fn record_events(&self, on: bool) {
        self.engine().audit.is_recording = on;
    }

    /// Takes the events since the last call.
    pub fn take_events(&self) -> Vec<Event> {
        self.engine().audit.take_events()
    }
}

fn rings(options: &Options) -> Vec<Arc<Mutex<Ring>>> {
    (0..options.files.rx_queues).map(|_| Arc::new(Mutex::new(Ring::new(options.ring)))).collect()
}

/// Takes a frame to where the device sends it.
fn deliver(
    rings: &[Arc<Mutex<Ring>>],
    frame: &[u8],
    hash: Option<u32>,
    outcome: Outcome,
    forwarded: &mut Vec<Forwarded>,
) {
    let Outcome { exit, mark, bytes, restore, .. } = outcome;
    match exit {
        Exit::Drop => {}
        Exit::Port(device) => forwarded.push((device, bytes.unwrap_or_else(|| frame.to_vec()))),
        Exit::Software(queue) => {
            let spread = hash.unwrap_or(0) as usize % rings.len().max(1);
            let chosen = queue.and_then(|queue| rings.get(usize::from(queue)));
            if let Some(ring) = chosen.or_else(|| rings.get(spread)) {
                let mut ring = lock(ring);
                let bytes = bytes.unwrap_or_else(|| ring.buffer(frame));
                let restore = restore.map(Box::new);
                ring.push(Arrival { source: Source::Ring(bytes), mark, hash, restore });
            }
        }
    }
}

/// The flow API of a software NIC.
#[derive(Debug)]
pub(super) struct SimFlowDevice(pub(super) Arc<Nic>);

impl FlowDevice for SimFlowDevice {
    fn id(&self) -> DeviceId {
        self.0.id
    }

    fn capabilities(&self) -> Capabilities {
        let engine = self.0.engine();
        let RuleOptions { mark, full, restore, .. } = &engine.options;
        let chosen = [
            (*mark, Capabilities::MARK),
            (*full, Capabilities::FULL),
            (*restore != Restore::None, Capabilities::RESTORE),
        ];
        let chosen = chosen.into_iter().filter(|(has, _)| *has).map(|(_, capability)| capability);
        chosen.fold(Capabilities::COUNT, Capabilities::union)
    }

    fn actions(&self) -> ActionKinds {
        let engine = self.0.engine();
        let mut actions = ActionKinds::all();
        actions.set(ActionKinds::MARK, engine.options.mark);
        let full =
            ActionKinds::DROP | ActionKinds::PORT | ActionKinds::EDIT | ActionKinds::ENCAPSULATE;
        if !engine.options.full {
            actions.remove(full);
        }
        actions
    }

    fn modify_style(&self) -> ModifyStyle {
        self.0.engine().options.modify
    }

    fn create_table(&self, template: &Template) -> Result<TableId, FlowApiError> {
        let allowed = self.actions();
        if !allowed.contains(template.actions) {
            return Err(FlowApiError::Actions { actions: template.actions, allowed });
        }
        self.0.engine().create_table(template)
    }

    fn open_queue(&self, depth: usize) -> Result<FlowQueue, FlowApiError> {
        Ok(FlowQueue::new(Box::new(SimRuleQueue::open(&self.0)?), depth))
    }

    fn pull_aged(&self, aged: &mut Vec<u64>) {
        self.0.engine().pull_aged(aged, clock::now());
    }

    fn rules(&self) -> usize {
        self.0.engine().rules()
    }
}
