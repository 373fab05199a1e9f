//! Judging flows: which of them are to go or to do something else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dpif::FlowRecord;
use dpif::action::ActionsText;
use dpif::datapath::{FlowChange, FlowView};
use dpif::flow::{FlowText, MAX_VLANS};
use dpif::offload::OffloadState;
use tracing::{debug, warn};

use super::installed::InstalledFlows;
use super::{FLOW_LIMIT_KILL, RevalidateSettings};
use crate::switches::Switches;
use crate::translate::{Request, translate};
use crate::upcall::{Upcalls, flow_actions};

/// Time without packets after which a flow goes while there are more than the limit.
const CROWDED_IDLE: Duration = Duration::from_millis(100);

/// A flow that is not to stay as it is, and what is to be done to it.
pub(super) type Change = (Arc<FlowRecord>, FlowChange);

/// A pass over all flows, as the threads that share it know it.
#[derive(Debug)]
pub(super) struct Pass {
    /// When it began.
    pub(super) start: Duration,
    pub(super) epoch: u64,
    /// The switches of that epoch or later.
    pub(super) switches: Arc<Switches>,
    pub(super) upcalls: Arc<Upcalls>,
    pub(super) settings: RevalidateSettings,
    /// How long the last pass took.
    pub(super) last_duration: Duration,
    pub(super) flows: FlowView,
    /// Whether all flows are to go.
    pub(super) is_purge: bool,
    /// What the log calls the datapath, if it is told of each flow.
    pub(super) title: Option<String>,
    /// Flows at its start.
    pub(super) total: usize,
    /// Flows that are there, as far as the pass knows.
    pub(super) left: AtomicUsize,
    pub(super) has_warned: AtomicBool,
}

impl Pass {
    /// Says how a flow is to change, if it is.
    pub(super) fn judge(
        &self,
        flow: &Arc<FlowRecord>,
        known: &mut InstalledFlows,
    ) -> Option<FlowChange> {
        if let Some(title) = &self.title {
            log_dump(title, flow);
        }
        let limit = self.upcalls.flow_limit();
        let left = self.left.load(Ordering::Relaxed);
        let is_emergency = left > limit * 2;
        if is_emergency {
            self.warn_of_emergency(left, limit);
        }
        let max_idle = if left > limit { CROWDED_IDLE } else { self.settings.max_idle };
        let change = match self.is_purge || is_emergency {
            true => Some(FlowChange::Remove),
            false => self.judge_one(flow, known, max_idle),
        };
        match change {
            Some(FlowChange::Remove) => {
                self.left.fetch_sub(1, Ordering::Relaxed);
                self.make_known(flow, known);
            }
            _ => known.get(flow, self.start).count(),
        }
        change
    }

    fn warn_of_emergency(&self, left: usize, limit: usize) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        FLOW_LIMIT_KILL.add(1);
        warn!(
            target: "ofproto_dpif_upcall",
            limited = true,
            "Number of datapath flows ({left}) twice as high as current dynamic flow limit ({}).  \
             Starting to delete flows unconditionally as an emergency measure.",
            limit * 2
        );
    }

    fn judge_one(
        &self,
        flow: &Arc<FlowRecord>,
        known: &mut InstalledFlows,
        max_idle: Duration,
    ) -> Option<FlowChange> {
        let installed = known.get(flow, self.start);
        let statistics = flow.statistics();
        let used = statistics.used.unwrap_or(installed.created);
        let lag = match flow.offload_state() {
            OffloadState::Full => self.settings.hardware_delay,
            _ => Duration::ZERO,
        };
        if used + max_idle + lag < self.start {
            return Some(FlowChange::Remove);
        }
        let actions = flow.actions();
        if installed.is_true_at(self.epoch, &actions) {
            return None;
        }
        let is_slow = self.last_duration >= self.settings.max_interval / 2;
        let rate = self.settings.min_packet_rate;
        if is_slow && rate != 0 && statistics.used.is_some() {
            // Seldom used flows come back by themselves, at less cost.
            let unused = self.start.saturating_sub(used).as_millis();
            let between = unused / u128::from(installed.new_packets().max(1));
            if between >= u128::from(1000 / rate) {
                return Some(FlowChange::Remove);
            }
        }
        let Ok(translation) = translate(&self.switches, Request::flow(flow.key())) else {
            installed.set_lost();
            return Some(FlowChange::Remove);
        };
        // It may take packets for which something else would be right.
        let is_too_wide = translation.is_transient || !flow.mask().covers(&translation.mask);
        let wanted = flow_actions(&translation);
        let is_true = wanted == actions;
        // The next pass sees at a glance that they are the same.
        let actions = if is_true { actions } else { wanted };
        installed.set_true(self.epoch, Arc::clone(&actions), translation);
        match (is_too_wide, is_true) {
            (true, _) => Some(FlowChange::Remove),
            (false, true) => None,
            (false, false) => Some(FlowChange::SetActions(actions)),
        }
    }

    /// Finds out what the packets of a flow do beside its actions, if nobody knows.
    fn make_known(&self, flow: &Arc<FlowRecord>, known: &mut InstalledFlows) {
        let installed = known.get(flow, self.start);
        if installed.is_unknown()
            && installed.new_packets() > 0
            && let Ok(translation) = translate(&self.switches, Request::flow(flow.key()))
        {
            installed.set_true(self.epoch, flow_actions(&translation), translation);
        }
    }
}

/// Tells those who follow the datapath closely of a flow that a pass found.
fn log_dump(datapath: &str, flow: &FlowRecord) {
    let (key, mask) = (flow.key(), Some(flow.mask()));
    debug!(
        target: "dpif",
        limited = true,
        "{datapath}: flow_dump {} {}, {}, actions:{}",
        flow.ufid(),
        FlowText { key, mask, verbose: true, names: None, vlan_limit: MAX_VLANS },
        flow.statistics(),
        ActionsText { actions: &flow.actions(), names: None }
    );
}
