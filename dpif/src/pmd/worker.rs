//! What one thread owns: receive queues, and the [`Pipeline`] that their packets go through.

use std::sync::Arc;
use std::time::Duration;

use netdev::flow_api::Capabilities;
use netdev::packet::{Batch, FramePool};
use netdev::queue::RxQueue;
use netdev::{clock, cpu};
use tracing::error;

use super::lookup::CachePolicy;
use super::metrics::{IterationLog, Metrics};
use super::pipeline::Pipeline;
use super::statistics::{LOAD_INTERVAL, Load, Statistics, ThreadLoad};
use crate::datapath::PortNumber;
use crate::offload::DrainWatch;

/// How often subtables are ranked, and idle transmit queues left to others.
const RANK_INTERVAL: Duration = Duration::from_secs(1);

/// Settings that all threads of a datapath share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knobs {
    /// One packet in so many enters the exact-match cache (`emc-insert-inv-prob`); 0 is none.
    pub exact_one_in: u32,
    /// Whether hits of the signature cache are counted as such (`smc-enable`).
    pub signature_cache: bool,
    /// How long packets may wait for more to be sent with them (`tx-flush-interval`).
    pub flush_interval: Duration,
    /// Whether every round is looked at (`pmd-perf-metrics`).
    pub metrics: bool,
    /// VLAN tags that a flow may look at (`vlan-limit`).
    pub vlan_limit: usize,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            exact_one_in: 100,
            signature_cache: false,
            flush_interval: Duration::ZERO,
            metrics: false,
            vlan_limit: 1,
        }
    }
}

/// A receive queue and what its thread keeps about it.
pub(crate) struct Receive {
    pub(crate) port: PortNumber,
    pub(crate) number: usize,
    pub(crate) queue: Box<dyn RxQueue>,
    /// Whether packets of the port may enter the exact-match cache (`emc-enable`).
    pub(crate) exact_enabled: bool,
    pub(crate) load: Arc<Load>,
    /// Tells when no packet is left that hardware has marked before.
    pub(crate) watch: DrainWatch,
    batch: Batch,
}

impl Receive {
    pub(crate) fn new(
        port: PortNumber,
        number: usize,
        queue: Box<dyn RxQueue>,
        exact_enabled: bool,
        load: Arc<Load>,
        pool: &Arc<FramePool>,
    ) -> Self {
        let (watch, batch) = (DrainWatch::default(), Batch::new(pool));
        Self { port, number, queue, exact_enabled, load, watch, batch }
    }
}

/// See the [module](self).
pub(crate) struct Worker {
    pub(crate) queues: Vec<Receive>,
    pub(crate) pipeline: Pipeline,
    knobs: Knobs,
    iteration_log: IterationLog,
    statistics: Arc<Statistics>,
    load: Arc<ThreadLoad>,
    /// When the last round ended.
    round_end: u64,
    next_rank: Duration,
    next_interval: Duration,
    pub(crate) max_sleep: Duration,
    pub(crate) is_quitting: bool,
}

impl Worker {
    pub(crate) fn new(
        pipeline: Pipeline,
        statistics: Arc<Statistics>,
        load: Arc<ThreadLoad>,
    ) -> Self {
        let now = clock::now();
        Self {
            queues: vec![],
            pipeline,
            knobs: Knobs::default(),
            iteration_log: IterationLog::default(),
            statistics,
            load,
            round_end: cpu::cycles(),
            next_rank: now + RANK_INTERVAL,
            next_interval: now + LOAD_INTERVAL,
            max_sleep: Duration::ZERO,
            is_quitting: false,
        }
    }

    pub(crate) fn set_knobs(&mut self, knobs: Knobs) {
        self.knobs = knobs;
        self.pipeline.vlan_limit = knobs.vlan_limit;
        self.pipeline.transmit.flush_interval = knobs.flush_interval;
        let metrics = self.pipeline.metrics.take().filter(|_| knobs.metrics);
        self.pipeline.metrics =
            metrics.or_else(|| knobs.metrics.then(|| Box::new(Metrics::new(self.iteration_log))));
    }

    /// Changes how suspicious rounds are logged.
    pub(crate) fn set_iteration_log(&mut self, log: IterationLog) {
        self.iteration_log = log;
        if let Some(metrics) = &mut self.pipeline.metrics {
            metrics.set_log(log);
        }
    }

    /// Gives up a receive queue.
    pub(crate) fn take_queue(&mut self, port: PortNumber, number: usize) -> Option<Receive> {
        let is_meant = |queue: &Receive| queue.port == port && queue.number == number;
        let place = self.queues.iter().position(is_meant)?;
        Some(self.queues.remove(place))
    }

    /// What packets of no receive queue do to the caches.
    pub(crate) fn quiet_policy(&self) -> CachePolicy {
        CachePolicy { exact_one_in: 0, signature: self.knobs.signature_cache }
    }

    /// One round over the receive queues. Returns the packets received, and the most from one
    /// queue.
    pub(crate) fn poll(&mut self) -> (usize, usize) {
        let start = cpu::cycles();
        let now = clock::now();
        self.pipeline.set_now(now);
        self.pipeline.hear_of_marks();
        let (mut received, mut most) = (0, 0);
        let mut mark = start;
        for queue in &mut self.queues {
            let policy = CachePolicy {
                exact_one_in: if queue.exact_enabled { self.knobs.exact_one_in } else { 0 },
                signature: self.knobs.signature_cache,
            };
            let count = receive(queue, &mut self.pipeline, policy);
            let end = cpu::cycles();
            if count > 0 {
                queue.load.add(end.wrapping_sub(mark));
                (received, most) = (received + count, most.max(count));
            }
            mark = end;
        }
        let is_idle = received == 0;
        if is_idle && !self.pipeline.transmit.is_idle() {
            self.pipeline.flush(false);
        }
        self.keep_house(now);

        let end = cpu::cycles();
        let spent = end.wrapping_sub(start);
        // Sleep between rounds counts too.
        self.load.total.add(end.wrapping_sub(self.round_end));
        self.round_end = end;
        let counters = self.statistics.counters();
        if is_idle {
            counters.idle_iterations.add(1);
            counters.idle_cycles.add(spent);
        } else {
            self.load.busy.add(spent);
            counters.busy_iterations.add(1);
            counters.busy_cycles.add(spent);
        }
        if let Some(metrics) = &mut self.pipeline.metrics {
            metrics.end_iteration(now.as_millis() as u64, spent, received as u64);
        }
        (received, most)
    }

    /// What is due now and then.
    fn keep_house(&mut self, now: Duration) {
        self.pipeline.drops.publish();
        self.pipeline.tunnels.events.publish();
        if now >= self.next_rank {
            self.next_rank = now + RANK_INTERVAL;
            self.pipeline.lookup.rank();
            self.pipeline.transmit.release_idle();
        }
        if now >= self.next_interval {
            self.next_interval = now + LOAD_INTERVAL;
            self.load.busy.end_interval();
            self.load.total.end_interval();
            self.queues.iter().for_each(|queue| queue.load.end_interval());
        }
    }

    /// Puts what a panic interrupted in a state from which work can go on: without flows, and
    /// without the packets that were on their way.
    pub(crate) fn recover(&mut self) {
        self.queues.iter_mut().for_each(|queue| queue.batch.clear());
        self.pipeline.reset();
    }
}

/// Receives a batch from one queue, and processes it.
fn receive(queue: &mut Receive, pipeline: &mut Pipeline, policy: CachePolicy) -> usize {
    let count = match queue.queue.receive(&mut queue.batch) {
        Ok(0) => {
            queue.watch.received(0);
            return 0;
        }
        Ok(count) => count,
        Err(problem) => {
            error!(target: "dpif_netdev", limited = true, "error receiving data: {problem}");
            return 0;
        }
    };
    for mut packet in queue.batch.iter_mut() {
        packet.descriptor_mut().in_port = queue.port.0;
    }
    pipeline.counters().received.add(count as u64);
    if let Some(metrics) = &mut pipeline.metrics {
        metrics.batch(count as u64);
    }
    let capabilities = pipeline.offload.capabilities(queue.port);
    if capabilities.is_empty() {
        pipeline.process(&mut queue.batch, policy);
    } else {
        queue.watch.received(count);
        if capabilities.contains(Capabilities::RESTORE) {
            pipeline.process_restored(&mut *queue.queue, &mut queue.batch, policy);
        } else {
            pipeline.process_marked(&mut queue.batch, policy, 0);
        }
    }
    pipeline.flush(false);
    count
}
