//! Answers for the datapath: what to do with packets for which it has no flow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use dpif::action::{Action, Userspace};
use dpif::flow::{FlowKey, FlowMask};
use dpif::upcall::{Megaflow, Upcall, UpcallError, UpcallHandler};
use netdev::coverage::Counter;
use netdev::packet::PacketRef;
use tracing::warn;

use crate::epoch::Epoch;
use crate::switches::Switches;
use crate::translate::{Request, TranslateError, translate};

pub(crate) static FLOW_LIMIT_HIT: Counter = Counter::new("upcall_flow_limit_hit");

/// Flows that a datapath may have until experience says otherwise.
const FIRST_FLOW_LIMIT: usize = 10_000;

/// What upcalls and revalidation of one datapath share.
#[derive(Debug)]
pub struct Upcalls {
    switches: ArcSwap<Switches>,
    epoch: Arc<Epoch>,
    /// Most flows.
    flow_limit: AtomicUsize,
    /// Flows there are, as far as upcalls know.
    flows: AtomicUsize,
    megaflows: AtomicBool,
}

impl Upcalls {
    /// No switches yet. Their MAC tables are to count in `epoch`.
    pub fn new(epoch: Arc<Epoch>) -> Self {
        Self {
            switches: ArcSwap::default(),
            epoch,
            flow_limit: AtomicUsize::new(FIRST_FLOW_LIMIT),
            flows: AtomicUsize::new(0),
            megaflows: AtomicBool::new(true),
        }
    }

    /// Makes these the switches of the datapath.
    pub fn publish(&self, switches: Switches) {
        self.switches.store(Arc::new(switches));
        self.epoch.advance();
    }

    /// The switches of the datapath.
    pub fn switches(&self) -> Arc<Switches> {
        self.switches.load_full()
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

impl UpcallHandler for Upcalls {
    fn miss(&self, _: PacketRef<'_>, key: &FlowKey) -> Result<Upcall, UpcallError> {
        let switches = self.switches.load();
        let translation = translate(&switches, Request { key, is_packet: true, trace: None });
        let translation = translation.map_err(|error| match error {
            TranslateError::UnknownPort(port) => UpcallError::UnknownPort { port },
            _ => UpcallError::Translation { reason: error.to_string() },
        })?;
        let actions = translation.actions;
        let install = self.has_room().then(|| {
            self.flows.fetch_add(1, Ordering::Relaxed);
            let mask = match self.megaflows.load(Ordering::Relaxed) {
                true => translation.mask,
                false => FlowMask::exact_for(key),
            };
            Megaflow { mask, actions: Arc::clone(&actions) }
        });
        Ok(Upcall { actions, install })
    }

    fn userspace(
        &self,
        _: PacketRef<'_>,
        _: &FlowKey,
        action: &Userspace,
    ) -> Result<Arc<[Action]>, UpcallError> {
        // Translation makes no such action, so it comes from a flow that an operator put there.
        let reason = format!("no use is known for {:?}", action.userdata);
        Err(UpcallError::Translation { reason })
    }
}
