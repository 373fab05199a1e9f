//! Keeping installed flows true: they are looked at in turn, translated again when something they
//! depend on changed, and removed when nobody used them for a while.

mod installed;

use std::sync::Arc;
use std::time::Duration;

use dpif::action::Action;
use dpif::datapath::{Datapath, FlowPut, PutMode};
use dpif::{FlowRecord, WorkerId};
use netdev::clock;
use netdev::coverage::Counter;
use tracing::warn;

use crate::switches::Switches;
use crate::translate::{Request, translate};
use crate::upcall::{FLOW_LIMIT_HIT, Upcalls};
use installed::InstalledFlows;

pub(crate) static FLOW_LIMIT_KILL: Counter = Counter::new("upcall_flow_limit_kill");
pub(crate) static FLOW_LIMIT_GREW: Counter = Counter::new("upcall_flow_limit_grew");
pub(crate) static FLOW_LIMIT_REDUCED: Counter = Counter::new("upcall_flow_limit_reduced");
pub(crate) static FLOW_LIMIT_SCALED: Counter = Counter::new("upcall_flow_limit_scaled");

/// Time without packets after which a flow goes while there are more than the limit.
const CROWDED_IDLE: Duration = Duration::from_millis(100);
/// Shortest time between the starts of two passes.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(5);
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
}

impl Default for RevalidateSettings {
    fn default() -> Self {
        Self {
            max_idle: Duration::from_secs(10),
            max_interval: Duration::from_millis(500),
            min_packet_rate: 5,
            flow_limit: 200_000,
        }
    }
}

/// What is to be done to a flow.
#[derive(Clone, Debug)]
enum Verdict {
    Keep,
    Modify(Arc<[Action]>),
    Delete,
}

/// A flow that is not to stay as it is, and what is to be done to it.
type Change = (Arc<FlowRecord>, Verdict);

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
    /// When the last pass started, and the epoch then.
    last: Option<(Duration, u64)>,
    is_paused: bool,
}

impl Revalidator {
    /// Revalidates flows that `upcalls` made.
    pub fn new(upcalls: Arc<Upcalls>) -> Self {
        Self {
            upcalls,
            settings: RevalidateSettings::default(),
            installed: InstalledFlows::default(),
            statistics: RevalidateStatistics::default(),
            last: None,
            is_paused: false,
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

    /// When the next pass is due, by the switch's clock; `None` while paused.
    pub fn due(&self) -> Option<Duration> {
        if self.is_paused {
            return None;
        }
        let Some((start, epoch)) = self.last else { return Some(Duration::ZERO) };
        let interval = match epoch == self.upcalls.epoch().get() {
            true => self.settings.max_idle.min(self.settings.max_interval),
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
             (limit {limit})\n  dump duration : {}ms\n  ufid enabled : true\n\n  \
             0: (keys {known})\n",
            duration.as_millis().max(1)
        )
    }

    /// Makes a pass over all flows.
    pub fn run(&mut self, datapath: &mut Datapath) {
        let start = clock::now();
        let epoch = self.upcalls.epoch().get();
        let flows = datapath.dump_flows(None);
        for (flow, verdict) in self.judge(&flows, epoch, start) {
            apply(datapath, &flow, verdict);
        }
        self.upcalls.set_flow_count(datapath.flow_count());
        self.last = Some((start, epoch));
        self.conclude(flows.len(), clock::now().saturating_sub(start));
    }

    /// Removes every flow (`revalidator/purge`).
    pub fn purge(&mut self, datapath: &mut Datapath) {
        let (now, epoch) = (clock::now(), self.upcalls.epoch().get());
        for flow in datapath.dump_flows(None) {
            self.installed.get(&flow, now).count(&flow.statistics(), epoch);
        }
        datapath.flush_flows();
        self.installed = InstalledFlows::default();
        self.upcalls.set_flow_count(datapath.flow_count());
    }

    /// Looks at all flows; returns those that are not to stay as they are.
    fn judge(&mut self, flows: &[Arc<FlowRecord>], epoch: u64, now: Duration) -> Vec<Change> {
        let limit = self.upcalls.flow_limit();
        if flows.len() >= limit {
            FLOW_LIMIT_HIT.add(1);
        }
        if flows.len() > limit * 2 {
            FLOW_LIMIT_KILL.add(1);
            warn!(
                target: "ofproto_dpif_upcall",
                limited = true,
                "Number of datapath flows ({}) twice as high as current dynamic flow limit ({}).  \
                 Starting to delete flows unconditionally as an emergency measure.",
                flows.len(),
                limit * 2
            );
        }
        let switches = self.upcalls.switches();
        let (mut changes, mut left) = (Vec::new(), flows.len());
        for flow in flows {
            let max_idle = if left > limit { CROWDED_IDLE } else { self.settings.max_idle };
            let verdict = match left > limit * 2 {
                true => Verdict::Delete,
                false => self.judge_one(flow, &switches, epoch, now, max_idle),
            };
            self.installed.get(flow, now).count(&flow.statistics(), epoch);
            match verdict {
                Verdict::Keep => continue,
                Verdict::Modify(_) => {}
                Verdict::Delete => left -= 1,
            }
            changes.push((Arc::clone(flow), verdict));
        }
        self.installed.forget_unseen();
        changes
    }

    fn judge_one(
        &mut self,
        flow: &FlowRecord,
        switches: &Switches,
        epoch: u64,
        now: Duration,
        max_idle: Duration,
    ) -> Verdict {
        let statistics = flow.statistics();
        let last_duration = self.statistics.duration;
        let installed = self.installed.get(flow, now);
        let used = statistics.used.unwrap_or(installed.created);
        if used + max_idle < now {
            return Verdict::Delete;
        }
        let actions = flow.actions();
        if installed.is_true_at(epoch, &actions) {
            return Verdict::Keep;
        }
        let packets = installed.new_packets(&statistics);
        let is_slow = last_duration >= self.settings.max_interval / 2;
        let rate = self.settings.min_packet_rate;
        if is_slow && rate != 0 && statistics.used.is_some() {
            // Seldom used flows come back by themselves, at less cost.
            let between = now.saturating_sub(used).as_millis() / u128::from(packets.max(1));
            if between >= u128::from(1000 / rate) {
                return Verdict::Delete;
            }
        }
        let request = Request { key: flow.key(), is_packet: false, trace: None };
        let Ok(translation) = translate(switches, request) else {
            installed.set_lost();
            return Verdict::Delete;
        };
        let is_true = translation.actions == actions;
        let truth = if is_true { actions } else { translation.actions };
        installed.set_true(epoch, Arc::clone(&truth), translation.sightings);
        if !flow.mask().covers(&translation.mask) {
            // It takes packets for which something else would be right.
            return Verdict::Delete;
        }
        if is_true { Verdict::Keep } else { Verdict::Modify(truth) }
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

/// Does to a flow what is to be done. It may be gone already, with the thread that had it.
fn apply(datapath: &mut Datapath, flow: &FlowRecord, verdict: Verdict) {
    let thread: Option<WorkerId> = Some(flow.worker());
    let _ = match verdict {
        Verdict::Keep => return,
        Verdict::Delete => datapath.remove_flow(flow.ufid(), thread),
        Verdict::Modify(actions) => {
            let put = FlowPut {
                key: flow.key().clone(),
                mask: flow.mask().clone(),
                actions,
                ufid: Some(flow.ufid()),
                mode: PutMode::Modify,
                clear_statistics: false,
            };
            datapath.put_flow(&put, thread)
        }
    };
}

#[cfg(test)]
mod tests;
