//! Keeping installed flows true: they are looked at in turn, translated again when something they
//! depend on changed, and removed when nobody used them for a while.

mod installed;
mod origin;

use std::sync::Arc;
use std::time::Duration;

use dpif::action::ActionsText;
use dpif::datapath::{Datapath, FlowChange};
use dpif::flow::{FlowText, MAX_VLANS, Ufid};
use dpif::offload::OffloadState;
use dpif::{FlowRecord, WorkerId};
use netdev::clock;
use netdev::coverage::Counter;
use tracing::{debug, warn};

use crate::switches::Switches;
use crate::translate::{Request, translate};
use crate::upcall::{FLOW_LIMIT_HIT, Upcalls, flow_actions};
use installed::InstalledFlows;
use origin::origin_text;

pub(crate) static MISSING_FLOW: Counter = Counter::new("revalidate_missing_dp_flow");
pub(crate) static FLOW_LIMIT_KILL: Counter = Counter::new("upcall_flow_limit_kill");
pub(crate) static FLOW_LIMIT_GREW: Counter = Counter::new("upcall_flow_limit_grew");
pub(crate) static FLOW_LIMIT_REDUCED: Counter = Counter::new("upcall_flow_limit_reduced");
pub(crate) static FLOW_LIMIT_SCALED: Counter = Counter::new("upcall_flow_limit_scaled");

/// Time without packets after which a flow goes while there are more than the limit.
const CROWDED_IDLE: Duration = Duration::from_millis(100);
/// Shortest time between the starts of two passes.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(5);
/// Flows that are looked at in one go, between which packets are forwarded.
const STEP: usize = 1000;
/// The limit of flows never adapts to less than this.
const LEAST_FLOW_LIMIT: usize = 1000;

/// Settings of revalidation (`Open_vSwitch.other_config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevalidateSettings {
    /// Time without packets after which a flow goes (`max-idle`).
    pub max_idle: Duration,
    /// Longest time between the starts of two passes (`max-revalidator`).
    pub max_interval: Duration,
    /// Packets per second below which a flow is removed rather than translated again when passes
    /// take long (`min-revalidate-pps`); 0 always translates.
    pub min_packet_rate: u32,
    /// What the limit of flows never adapts to more than (`flow-limit`).
    pub flow_limit: usize,
    /// By how much the counters of flows in hardware lag (`offloaded-stats-delay`).
    pub hardware_delay: Duration,
}

impl Default for RevalidateSettings {
    fn default() -> Self {
        Self {
            max_idle: Duration::from_secs(10),
            max_interval: Duration::from_millis(500),
            min_packet_rate: 5,
            flow_limit: 200_000,
            hardware_delay: Duration::from_secs(2),
        }
    }
}

/// A flow that is not to stay as it is, and what is to be done to it.
type Change = (Arc<FlowRecord>, FlowChange);

/// A pass over all flows.
#[derive(Debug)]
struct Pass {
    start: Duration,
    epoch: u64,
    /// The switches of that epoch or later.
    switches: Arc<Switches>,
    /// Flows at its start.
    total: usize,
    /// The flows that were not looked at yet.
    flows: std::vec::IntoIter<Arc<FlowRecord>>,
    /// Flows that are there, as far as the pass knows.
    left: usize,
    has_warned: bool,
}

/// What passes have found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevalidateStatistics {
    /// Flows at the start of the last pass.
    pub flows: usize,
    /// The same, averaged over passes.
    pub average: usize,
    /// The most there ever were.
    pub maximum: usize,
    /// How long the last pass took.
    pub duration: Duration,
    /// Flows that revalidation keeps records of.
    pub known: usize,
}

/// Revalidates the flows of one datapath.
#[derive(Debug)]
pub struct Revalidator {
    upcalls: Arc<Upcalls>,
    settings: RevalidateSettings,
    installed: InstalledFlows,
    statistics: RevalidateStatistics,
    /// The pass that is under way.
    pass: Option<Pass>,
    /// When the last pass started, and the epoch then.
    last: Option<(Duration, u64)>,
    is_paused: bool,
    /// Whether passes know flows by their names alone.
    is_terse: bool,
}

impl Revalidator {
    /// Revalidates flows that `upcalls` made.
    pub fn new(upcalls: Arc<Upcalls>) -> Self {
        Self {
            upcalls,
            settings: RevalidateSettings::default(),
            installed: InstalledFlows::default(),
            statistics: RevalidateStatistics::default(),
            pass: None,
            last: None,
            is_paused: false,
            is_terse: true,
        }
    }

    /// Changes the settings.
    pub fn set_settings(&mut self, settings: RevalidateSettings) {
        self.settings = settings;
        let limit = self.upcalls.flow_limit().min(settings.flow_limit);
        self.upcalls.set_flow_limit(limit);
    }

    /// Stops passes that are due, or lets them go on (`revalidator/pause`, `revalidator/resume`).
    pub fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Whether a pass is under way.
    pub fn is_in_pass(&self) -> bool {
        self.pass.is_some()
    }

    /// Sets whether passes know flows by their names alone (`upcall/enable-ufid`), or tell the log
    /// of each in full.
    pub fn set_terse(&mut self, is_terse: bool) {
        self.is_terse = is_terse;
    }

    /// When to [`step`](Self::step), by the switch's clock; `None` while paused.
    pub fn due(&self) -> Option<Duration> {
        if self.is_paused {
            return None;
        }
        if self.pass.is_some() {
            return Some(Duration::ZERO);
        }
        let Some((start, epoch)) = self.last else { return Some(Duration::ZERO) };
        let interval = match epoch == self.upcalls.epoch().get() {
            true => self.settings.max_idle.min(self.settings.max_interval),
            // A clock that stands does not keep changes from being seen.
            false if clock::is_stopped() => Duration::ZERO,
            false => SHORTEST_INTERVAL,
        };
        Some(start + interval)
    }

    /// What passes have found out.
    pub fn statistics(&self) -> RevalidateStatistics {
        RevalidateStatistics { known: self.installed.len(), ..self.statistics }
    }

    /// Text of `upcall/show` for the datapath with this name, which has `flows` flows now.
    pub fn show(&self, datapath: &str, flows: usize) -> String {
        let RevalidateStatistics { average, maximum, duration, known, .. } = self.statistics();
        let limit = self.upcalls.flow_limit();
        format!(
            "{datapath}:\n  flows         : (current {flows}) (avg {average}) (max {maximum}) \
             (limit {limit})\n  dump duration : {}ms\n  ufid enabled : {}\n\n  \
             0: (keys {known})\n",
            duration.as_millis().max(1),
            self.is_terse
        )
    }

    /// What a flow was made of, by lines as `ofproto/detrace` has them: nothing while that is not
    /// known, and nothing at all if there is no such flow.
    pub fn origin(&self, ufid: Ufid, thread: WorkerId) -> Option<Option<String>> {
        let effects = self.installed.effects(ufid, thread)?;
        Some(effects.map(|effects| origin_text(effects, &self.upcalls.switches())))
    }

    /// Makes a whole pass over all flows, after the one that is under way.
    pub fn run(&mut self, datapath: &mut Datapath) {
        while self.pass.is_some() {
            self.step(datapath);
        }
        self.step(datapath);
        while self.pass.is_some() {
            self.step(datapath);
        }
    }

    /// Goes on with the pass that is under way, or begins one.
    pub fn step(&mut self, datapath: &mut Datapath) {
        let mut pass = self.pass.take().unwrap_or_else(|| self.begin(datapath, clock::now()));
        let mut changes = vec![];
        let flows: Vec<_> = pass.flows.by_ref().take(STEP).collect();
        for flow in flows.into_iter().filter(|flow| !flow.is_dead()) {
            changes.extend(self.judge(&flow, &mut pass).map(|change| (flow, change)));
        }
        self.apply(datapath, changes);
        self.upcalls.set_flow_count(datapath.flow_count());
        if pass.flows.len() > 0 {
            self.pass = Some(pass);
            return;
        }
        MISSING_FLOW.add(self.installed.forget_unseen() as u64);
        pass.switches.recirculations().expire(clock::now());
        // The counters of rules are as fresh as they get.
        pass.switches.iter().for_each(|switch| switch.tables.expire(clock::now()));
        self.last = Some((pass.start, pass.epoch));
        self.conclude(pass.total, clock::now().saturating_sub(pass.start));
    }

    fn begin(&self, datapath: &Datapath, start: Duration) -> Pass {
        // Before the switches, so that these are not older.
        let epoch = self.upcalls.epoch().get();
        let flows = datapath.dump_flows(None);
        if !self.is_terse {
            flows.iter().for_each(|flow| log_dump(&datapath.title(), flow));
        }
        if flows.len() >= self.upcalls.flow_limit() {
            FLOW_LIMIT_HIT.add(1);
        }
        Pass {
            start,
            epoch,
            switches: self.upcalls.switches(),
            total: flows.len(),
            left: flows.len(),
            flows: flows.into_iter(),
            has_warned: false,
        }
    }

    /// Removes every flow (`revalidator/purge`), and lets the packets that came have their
    /// effects.
    pub fn purge(&mut self, datapath: &mut Datapath) {
        let (now, switches) = (clock::now(), self.upcalls.switches());
        let epoch = self.upcalls.epoch().get();
        let flows = datapath.dump_flows(None);
        for flow in &flows {
            self.make_known(flow, &switches, epoch, now);
        }
        datapath.flush_flows();
        flows.iter().for_each(|flow| self.installed.remove(flow));
        self.pass = None;
        self.installed.forget_unseen();
        self.upcalls.set_flow_count(datapath.flow_count());
    }

    /// Finds out what the packets of a flow do beside its actions, if nobody knows.
    fn make_known(
        &mut self,
        flow: &Arc<FlowRecord>,
        switches: &Switches,
        epoch: u64,
        now: Duration,
    ) {
        let installed = self.installed.get(flow, now);
        if installed.is_unknown()
            && installed.new_packets() > 0
            && let Ok(translation) = translate(switches, Request::flow(flow.key()))
        {
            installed.set_true(epoch, flow_actions(&translation), translation);
        }
    }

    /// Says how a flow is to change, if it is.
    fn judge(&mut self, flow: &Arc<FlowRecord>, pass: &mut Pass) -> Option<FlowChange> {
        let limit = self.upcalls.flow_limit();
        let is_emergency = pass.left > limit * 2;
        if is_emergency {
            self.warn_of_emergency(pass, limit);
        }
        let max_idle = if pass.left > limit { CROWDED_IDLE } else { self.settings.max_idle };
        let change = match is_emergency {
            true => Some(FlowChange::Remove),
            false => self.judge_one(flow, pass, max_idle),
        };
        match change {
            Some(FlowChange::Remove) => {
                pass.left = pass.left.saturating_sub(1);
                self.make_known(flow, &pass.switches, pass.epoch, pass.start);
            }
            _ => self.installed.get(flow, pass.start).count(),
        }
        change
    }

    fn warn_of_emergency(&self, pass: &mut Pass, limit: usize) {
        if std::mem::replace(&mut pass.has_warned, true) {
            return;
        }
        FLOW_LIMIT_KILL.add(1);
        warn!(
            target: "ofproto_dpif_upcall",
            limited = true,
            "Number of datapath flows ({}) twice as high as current dynamic flow limit ({}).  \
             Starting to delete flows unconditionally as an emergency measure.",
            pass.left,
            limit * 2
        );
    }

    fn judge_one(
        &mut self,
        flow: &Arc<FlowRecord>,
        pass: &Pass,
        max_idle: Duration,
    ) -> Option<FlowChange> {
        let last_duration = self.statistics.duration;
        let installed = self.installed.get(flow, pass.start);
        let statistics = flow.statistics();
        let used = statistics.used.unwrap_or(installed.created);
        let lag = match flow.offload_state() {
            OffloadState::Full => self.settings.hardware_delay,
            _ => Duration::ZERO,
        };
        if used + max_idle + lag < pass.start {
            return Some(FlowChange::Remove);
        }
        let actions = flow.actions();
        if installed.is_true_at(pass.epoch, &actions) {
            return None;
        }
        let is_slow = last_duration >= self.settings.max_interval / 2;
        let rate = self.settings.min_packet_rate;
        if is_slow && rate != 0 && statistics.used.is_some() {
            // Seldom used flows come back by themselves, at less cost.
            let unused = pass.start.saturating_sub(used).as_millis();
            let between = unused / u128::from(installed.new_packets().max(1));
            if between >= u128::from(1000 / rate) {
                return Some(FlowChange::Remove);
            }
        }
        let Ok(translation) = translate(&pass.switches, Request::flow(flow.key())) else {
            installed.set_lost();
            return Some(FlowChange::Remove);
        };
        // It may take packets for which something else would be right.
        let is_too_wide = translation.is_transient || !flow.mask().covers(&translation.mask);
        let wanted = flow_actions(&translation);
        let is_true = wanted == actions;
        // The next pass sees at a glance that they are the same.
        let actions = if is_true { actions } else { wanted };
        installed.set_true(pass.epoch, Arc::clone(&actions), translation);
        match (is_too_wide, is_true) {
            (true, _) => Some(FlowChange::Remove),
            (false, true) => None,
            (false, false) => Some(FlowChange::SetActions(actions)),
        }
    }

    /// Changes flows. The packets that the removed ones still got have their effects, too.
    fn apply(&mut self, datapath: &mut Datapath, changes: Vec<Change>) {
        let is_removal = |(_, change): &&Change| matches!(change, FlowChange::Remove);
        let removed: Vec<_> =
            changes.iter().filter(is_removal).map(|(flow, _)| Arc::clone(flow)).collect();
        if !changes.is_empty() {
            datapath.change_flows(changes);
        }
        removed.iter().for_each(|flow| self.installed.remove(flow));
    }

    /// Draws conclusions from how long a pass took.
    fn conclude(&mut self, flows: usize, duration: Duration) {
        let milliseconds = duration.as_millis().max(1) as usize;
        let mut limit = self.upcalls.flow_limit();
        if milliseconds > 2000 {
            limit /= milliseconds / 1000;
            FLOW_LIMIT_SCALED.add(1);
            warn!(
                target: "ofproto_dpif_upcall",
                "Spent an unreasonably long {milliseconds}ms dumping flows"
            );
        } else if milliseconds > 1300 {
            limit = limit * 3 / 4;
            FLOW_LIMIT_REDUCED.add(1);
        } else if milliseconds < 1000 && limit < flows * 1000 / milliseconds {
            limit += 1000;
            FLOW_LIMIT_GREW.add(1);
        }
        self.upcalls.set_flow_limit(limit.max(LEAST_FLOW_LIMIT).min(self.settings.flow_limit));
        let statistics = &mut self.statistics;
        statistics.flows = flows;
        statistics.average = (statistics.average + flows) / 2;
        statistics.maximum = statistics.maximum.max(flows);
        statistics.duration = duration;
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

#[cfg(test)]
mod tests;
