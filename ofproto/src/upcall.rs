//! Answers for the datapath: what to do with packets for which it has no flow.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use dpif::action::{Action, Userdata, Userspace};
use dpif::flow::{FlowKey, FlowMask};
use dpif::upcall::{Megaflow, Upcall, UpcallError, UpcallHandler};
use netdev::clock;
use netdev::coverage::Counter;
use netdev::packet::PacketRef;
use tracing::warn;

use crate::continuation::{continuation, packet_metadata};
use crate::epoch::Epoch;
use crate::flow::Flow;
use crate::news::News;
use crate::openflow::action::PacketInReason;
use crate::openflow::message::{Continuation, NO_BUFFER, PacketIn};
use crate::openflow::port::PortNo;
use crate::packet_in_queue::{PacketInQueue, QueuedPacketIn};
use crate::recirculation::Recirculations;
use crate::switches::Switches;
use crate::trace::{Question, trace};
use crate::translate::{Request, Traffic, TranslateError, Translation, clear_conntrack, translate};

pub(crate) static FLOW_LIMIT_HIT: Counter = Counter::new("upcall_flow_limit_hit");

/// Packets that were to be sampled, which nothing collects.
pub(crate) static NOT_COLLECTED: Counter = Counter::new("upcall_sample_not_collected");

/// Time between traces of packets that go round in circles, which are long.
const TRACE_INTERVAL: Duration = Duration::from_secs(1);

/// Flows that a datapath may have until experience says otherwise.
const FIRST_FLOW_LIMIT: usize = 10_000;

/// What upcalls and revalidation of one datapath share.
#[derive(Debug)]
pub struct Upcalls {
    switches: ArcSwap<Switches>,
    /// Packets that are to be looked up again.
    recirculations: Arc<Recirculations>,
    /// Packets for controllers.
    packet_ins: Arc<PacketInQueue>,
    epoch: Arc<Epoch>,
    /// Most flows.
    flow_limit: AtomicUsize,
    /// Flows there are, as far as upcalls know.
    flows: AtomicUsize,
    megaflows: AtomicBool,
    /// When the next translation that goes round in circles may be traced, in milliseconds.
    trace_again: AtomicU64,
}

impl Upcalls {
    /// No switches yet. Their MAC tables are to count in `epoch`. Packets for controllers are `news`.
    pub fn new(epoch: Arc<Epoch>, news: News) -> Self {
        Self {
            switches: ArcSwap::default(),
            recirculations: Arc::default(),
            packet_ins: Arc::new(PacketInQueue::new(news)),
            epoch,
            flow_limit: AtomicUsize::new(FIRST_FLOW_LIMIT),
            flows: AtomicUsize::new(0),
            megaflows: AtomicBool::new(true),
            trace_again: AtomicU64::new(0),
        }
    }

    /// Makes these the switches of the datapath.
    pub fn publish(&self, switches: Switches) {
        let switches = switches.with_recirculations(Arc::clone(&self.recirculations));
        self.switches.store(Arc::new(switches));
        self.epoch.advance();
    }

    /// The switches of the datapath.
    pub fn switches(&self) -> Arc<Switches> {
        self.switches.load_full()
    }

    /// Packets for controllers.
    pub fn packet_ins(&self) -> &Arc<PacketInQueue> {
        &self.packet_ins
    }

    /// The number of changes of what flows depend on.
    pub fn epoch(&self) -> &Epoch {
        &self.epoch
    }

    /// Most flows.
    pub fn flow_limit(&self) -> usize {
        self.flow_limit.load(Ordering::Relaxed)
    }

    /// Sets the most flows (`upcall/set-flow-limit`).
    pub fn set_flow_limit(&self, limit: usize) {
        self.flow_limit.store(limit, Ordering::Relaxed);
    }

    /// Sets whether a flow takes all packets for which the answer is the same, or those alone
    /// whose key is (`upcall/disable-megaflows`). Flows that are there should be flushed.
    pub fn set_megaflows(&self, on: bool) {
        self.megaflows.store(on, Ordering::Relaxed);
    }

    /// Sets how many flows there are.
    pub(crate) fn set_flow_count(&self, flows: usize) {
        self.flows.store(flows, Ordering::Relaxed);
    }

    /// Whether there is room for another flow.
    fn has_room(&self) -> bool {
        let limit = self.flow_limit();
        if self.flows.load(Ordering::Relaxed) < limit {
            return true;
        }
        FLOW_LIMIT_HIT.add(1);
        warn!(
            target: "ofproto_dpif_upcall",
            limited = true,
            "upcall: datapath reached the dynamic limit of {limit} flows."
        );
        false
    }
}

/// What a flow made of a translation does: its actions, or else it takes the slow path.
pub(crate) fn flow_actions(translation: &Translation) -> Arc<[Action]> {
    if translation.slow == 0 {
        return Arc::clone(&translation.actions);
    }
    let slow_path = Userspace {
        pid: 0,
        userdata: Userdata::SlowPath(translation.slow),
        include_actions: false,
        tunnel_out_port: None,
    };
    [Action::Userspace(Box::new(slow_path))].into()
}

impl Upcalls {
    fn translate_packet(
        &self,
        packet: PacketRef<'_>,
        key: &FlowKey,
    ) -> Result<Translation, UpcallError> {
        let request = Request { length: Some(packet.len()), ..Request::packet(key) };
        translate(&self.switches.load(), request).map_err(|error| match error {
            TranslateError::UnknownPort(port) | TranslateError::UnknownTunnel(port) => {
                UpcallError::UnknownPort { port }
            }
            _ => UpcallError::Translation { reason: error.to_string() },
        })
    }

    /// Tells the log how a packet went round in circles.
    fn trace_circle(&self, key: &FlowKey) {
        let now = clock::now().as_millis() as u64;
        let next = now + TRACE_INTERVAL.as_millis() as u64;
        let is_due = |at: u64| (at <= now).then_some(next);
        if self.trace_again.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_err() {
            return;
        }
        let switches = self.switches.load();
        let Ok((switch, in_port)) = switches.receiver_of(key) else { return };
        let question = Question {
            switch,
            flow: Flow::of_packet(key.clone(), PortNo(in_port.0)),
            length: None,
            actions: None,
            connection_states: VecDeque::new(),
            port_names: None,
        };
        let steps = trace(&switches, question);
        let text: String = steps.iter().map(|step| step.text.as_str()).collect();
        warn!(target: "ofproto_dpif_upcall", "{}", text.trim_end());
    }

    /// Queues a packet for the controllers that `action` names. Without the state that it names
    /// nobody knows any more what it was sent for.
    fn send_to_controllers(&self, packet: PacketRef<'_>, key: &FlowKey, action: &Userdata) {
        let &Userdata::Controller {
            reason,
            dont_send: false,
            continuation: is_continuation,
            recirc_id,
            rule_cookie,
            controller_id,
            max_len,
        } = action
        else {
            return;
        };
        let Some(known) = self.recirculations.get(recirc_id) else { return };
        let state = &known.state;
        let switches = self.switches.load();
        let tlv = switches
            .by_id(state.switch)
            .map_or_else(Arc::default, |switch| Arc::clone(&switch.tlv));
        // The key is of the packet as it is now, which is more than what rules had seen.
        let mut flow = Flow::of_packet(key.clone(), PortNo(0));
        if !state.conntracked {
            clear_conntrack(&mut flow.packet);
        }
        state.metadata.restore(&mut flow);
        let continuation = match is_continuation {
            true => continuation(state, key.in_port.get()),
            false => Continuation::default(),
        };
        self.packet_ins.push(QueuedPacketIn {
            switch: state.switch,
            controller_id,
            max_len,
            is_continuation,
            message: PacketIn {
                packet: packet.segments().flatten().copied().collect(),
                total_len: packet.len() as u32,
                buffer_id: NO_BUFFER,
                reason: PacketInReason(reason as u8),
                table_id: state.table,
                cookie: Some(rule_cookie).filter(|cookie| *cookie != u64::MAX),
                metadata: packet_metadata(&flow, &tlv),
                userdata: state.userdata.clone(),
                continuation,
            },
        });
    }
}

impl UpcallHandler for Upcalls {
    fn miss(&self, packet: PacketRef<'_>, key: &FlowKey) -> Result<Upcall, UpcallError> {
        let translation = self.translate_packet(packet, key)?;
        if let Some(TranslateError::TooDeep | TranslateError::TooManyResubmits) = translation.error
        {
            self.trace_circle(key);
        }
        let traffic = Traffic {
            packets: 1,
            bytes: packet.len() as u64,
            used: clock::now(),
            tcp_flags: key.tcp_flags.get(),
        };
        let effects = translation.effects.iter().filter(|effect| !effect.is_immediate());
        effects.for_each(|effect| effect.apply(&traffic));
        let install = self.has_room().then(|| {
            self.flows.fetch_add(1, Ordering::Relaxed);
            let mask = match self.megaflows.load(Ordering::Relaxed) {
                true => translation.mask.clone(),
                false => FlowMask::exact_for(key),
            };
            Megaflow { mask, actions: flow_actions(&translation) }
        });
        Ok(Upcall { actions: translation.actions, install })
    }

    fn userspace(
        &self,
        packet: PacketRef<'_>,
        key: &FlowKey,
        action: &Userspace,
    ) -> Result<Arc<[Action]>, UpcallError> {
        match &action.userdata {
            // The flow counts the packet, and revalidation lets it have its effects.
            Userdata::SlowPath(_) => Ok(self.translate_packet(packet, key)?.actions),
            Userdata::Controller { .. } => {
                self.send_to_controllers(packet, key, &action.userdata);
                Ok([].into())
            }
            Userdata::SFlow { .. } | Userdata::FlowSample { .. } | Userdata::Ipfix { .. } => {
                NOT_COLLECTED.add(1);
                Ok([].into())
            }
            // Translation makes no such action, so it is of a flow that an operator put there.
            userdata @ (Userdata::None | Userdata::Raw(_)) => {
                let reason = format!("no use is known for {userdata:?}");
                Err(UpcallError::Translation { reason })
            }
        }
    }
}
