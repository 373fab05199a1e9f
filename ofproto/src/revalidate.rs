//! Keeping installed flows true: they are looked at in turn, translated again when something they
//! depend on changed, and removed when nobody used them for a while.

mod installed;
mod origin;
mod pass;
mod thread;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::available_parallelism;
use std::time::Duration;

use dpif::WorkerId;
use dpif::datapath::{Datapath, FlowChange};
use dpif::flow::Ufid;
use netdev::clock;
use netdev::coverage::Counter;
use tracing::{error, info, warn};

use crate::news::News;
use crate::upcall::{FLOW_LIMIT_HIT, Upcalls};
use installed::{SHARDS, Shards};
use origin::origin_text;
use pass::{Change, Pass};
use thread::{Outcome, QUEUE, Reporter, Share, Thread};

pub(crate) static MISSING_FLOW: Counter = Counter::new("revalidate_missing_dp_flow");
pub(crate) static FLOW_LIMIT_KILL: Counter = Counter::new("upcall_flow_limit_kill");
pub(crate) static FLOW_LIMIT_GREW: Counter = Counter::new("upcall_flow_limit_grew");
pub(crate) static FLOW_LIMIT_REDUCED: Counter = Counter::new("upcall_flow_limit_reduced");
pub(crate) static FLOW_LIMIT_SCALED: Counter = Counter::new("upcall_flow_limit_scaled");

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
    /// By how much the counters of flows in hardware lag (`offloaded-stats-delay`).
    pub hardware_delay: Duration,
    /// Number of threads (`n-revalidator-threads`); 0 lets the number of cores decide.
    pub threads: usize,
}

impl RevalidateSettings {
    /// The number of threads: as many as Open vSwitch has, but no more than have work.
    fn threads(&self) -> usize {
        let cores = available_parallelism().map_or(1, usize::from).max(2);
        let threads = if self.threads == 0 { cores / 4 + 1 } else { self.threads };
        threads.min(SHARDS)
    }
}

impl Default for RevalidateSettings {
    fn default() -> Self {
        Self {
            max_idle: Duration::from_secs(10),
            max_interval: Duration::from_millis(500),
            min_packet_rate: 5,
            flow_limit: 200_000,
            hardware_delay: Duration::from_secs(2),
            threads: 0,
        }
    }
}

/// A pass that is under way.
#[derive(Debug)]
struct Progress {
    pass: Arc<Pass>,
    /// Threads that have not done their share.
    running: usize,
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

/// Revalidates the flows of one datapath. Threads judge them; the control thread begins passes and
/// changes flows.
#[derive(Debug)]
pub struct Revalidator {
    upcalls: Arc<Upcalls>,
    settings: RevalidateSettings,
    known: Arc<Shards>,
    statistics: RevalidateStatistics,
    /// What the threads say. It goes before them, so that none waits to be heard for ever.
    outcomes: Receiver<Outcome>,
    reporter: Reporter,
    threads: Vec<Thread>,
    progress: Option<Progress>,
    /// When the last pass started, and the epoch then.
    last: Option<(Duration, u64)>,
    is_paused: bool,
    /// Whether passes know flows by their names alone.
    is_terse: bool,
}

impl Revalidator {
    /// Revalidates flows that `upcalls` made. It is `news` that there is something to
    /// [`collect`](Self::collect).
    pub fn new(upcalls: Arc<Upcalls>, news: News) -> Self {
        let (sender, outcomes) = sync_channel(QUEUE);
        Self {
            upcalls,
            settings: RevalidateSettings::default(),
            known: Arc::default(),
            statistics: RevalidateStatistics::default(),
            outcomes,
            reporter: Reporter { outcomes: sender, news },
            threads: vec![],
            progress: None,
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

    /// Sets whether passes know flows by their names alone (`upcall/enable-ufid`), or tell the log
    /// of each in full.
    pub fn set_terse(&mut self, is_terse: bool) {
        self.is_terse = is_terse;
    }

    /// When to [`begin`](Self::begin) a pass, by the switch's clock; `None` while paused or during
    /// a pass.
    pub fn due(&self) -> Option<Duration> {
        if self.is_paused || self.progress.is_some() {
            return None;
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
        self.statistics
    }

    /// Text of `upcall/show` for the datapath with this name, which has `flows` flows now.
    pub fn show(&self, datapath: &str, flows: usize) -> String {
        let RevalidateStatistics { average, maximum, duration, .. } = self.statistics();
        let limit = self.upcalls.flow_limit();
        let keys = self.threads.iter().map(|thread| {
            let keys = self.known.count(|shard| thread.share.has(shard));
            format!("  {}: (keys {keys})\n", thread.number)
        });
        format!(
            "{datapath}:\n  flows         : (current {flows}) (avg {average}) (max {maximum}) \
             (limit {limit})\n  dump duration : {}ms\n  ufid enabled : {}\n\n{}",
            duration.as_millis().max(1),
            self.is_terse,
            keys.collect::<String>()
        )
    }

    /// What a flow was made of, by lines as `ofproto/detrace` has them: nothing while that is not
    /// known, and nothing at all if there is no such flow.
    pub fn origin(&self, ufid: Ufid, thread: WorkerId) -> Option<Option<String>> {
        let known = self.known.of(ufid)?;
        let effects = known.effects(ufid, thread)?;
        Some(effects.map(|effects| origin_text(effects, &self.upcalls.switches())))
    }

    /// Makes a whole pass over all flows, after the one that is under way.
    pub fn run(&mut self, datapath: &mut Datapath) {
        self.finish(datapath);
        self.start(datapath, false);
        self.finish(datapath);
    }

    /// Removes every flow (`revalidator/purge`), and lets the packets that came have their
    /// effects.
    pub fn purge(&mut self, datapath: &mut Datapath) {
        self.finish(datapath);
        self.start(datapath, true);
        self.finish(datapath);
    }

    /// Begins a pass. While the clock stands, nothing else happens before its end.
    pub fn begin(&mut self, datapath: &mut Datapath) {
        self.start(datapath, false);
        if clock::is_stopped() {
            self.finish(datapath);
        }
    }

    /// Takes in what the threads found out, and changes flows.
    pub fn collect(&mut self, datapath: &mut Datapath) {
        while let Ok(outcome) = self.outcomes.try_recv() {
            self.take(outcome, datapath);
        }
    }

    /// Waits for the end of the pass that is under way, if one is.
    fn finish(&mut self, datapath: &mut Datapath) {
        while self.progress.is_some()
            && let Ok(outcome) = self.outcomes.recv()
        {
            self.take(outcome, datapath);
        }
    }

    /// Starts the threads, unless there are as many as there should be.
    fn start_threads(&mut self) {
        let count = self.settings.threads();
        if self.threads.len() == count {
            return;
        }
        info!(target: "ofproto_dpif_upcall", "Setting n-revalidator-threads to {count}");
        self.threads.clear();
        for rest in 0..count {
            let share = Share { rest, count };
            match Thread::start(share, Arc::clone(&self.known), self.reporter.clone()) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => error!(
                    target: "ofproto_dpif_upcall", limited = true,
                    "cannot start a thread; some flows are not revalidated: {error}"
                ),
            }
        }
    }

    fn start(&mut self, datapath: &Datapath, is_purge: bool) {
        self.start_threads();
        let pass = Arc::new(self.pass(datapath, clock::now(), is_purge));
        let running = self.threads.iter().filter(|thread| thread.begin(&pass)).count();
        self.last = Some((pass.start, pass.epoch));
        self.progress = (running > 0).then_some(Progress { pass, running });
    }

    /// A pass at `start` over all flows that are there now.
    fn pass(&self, datapath: &Datapath, start: Duration, is_purge: bool) -> Pass {
        // Before the switches, so that these are not older.
        let epoch = self.upcalls.epoch().get();
        let total = datapath.flow_count();
        if total >= self.upcalls.flow_limit() {
            FLOW_LIMIT_HIT.add(1);
        }
        Pass {
            start,
            epoch,
            switches: self.upcalls.switches(),
            upcalls: Arc::clone(&self.upcalls),
            settings: self.settings,
            last_duration: self.statistics.duration,
            flows: datapath.flow_view(),
            is_purge,
            title: (!self.is_terse && !is_purge).then(|| datapath.title()),
            total,
            left: AtomicUsize::new(total),
            has_warned: AtomicBool::new(false),
        }
    }

    fn take(&mut self, outcome: Outcome, datapath: &mut Datapath) {
        match outcome {
            Outcome::Changes(changes) => self.apply(datapath, changes),
            Outcome::Done(gone) => {
                MISSING_FLOW.add(gone as u64);
                let Some(progress) = &mut self.progress else { return };
                progress.running -= 1;
                if progress.running == 0
                    && let Some(Progress { pass, .. }) = self.progress.take()
                {
                    self.end(&pass, datapath);
                }
            }
        }
    }

    /// Changes flows. The packets that the removed ones still got have their effects, too.
    fn apply(&self, datapath: &mut Datapath, changes: Vec<Change>) {
        let is_removal = |(_, change): &&Change| matches!(change, FlowChange::Remove);
        let removed: Vec<_> =
            changes.iter().filter(is_removal).map(|(flow, _)| Arc::clone(flow)).collect();
        datapath.change_flows(changes);
        for flow in removed {
            if let Some(mut known) = self.known.of(flow.ufid()) {
                known.remove(&flow);
            }
        }
        self.upcalls.set_flow_count(datapath.flow_count());
    }

    fn end(&mut self, pass: &Pass, datapath: &Datapath) {
        self.upcalls.set_flow_count(datapath.flow_count());
        self.statistics.known = self.known.count(|_| true);
        if pass.is_purge {
            return;
        }
        pass.switches.recirculations().expire(clock::now());
        // The counters of rules are as fresh as they get.
        pass.switches.iter().for_each(|switch| switch.tables.expire(clock::now()));
        self.conclude(pass.total, clock::now().saturating_sub(pass.start));
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

#[cfg(test)]
mod tests;
