//! The threads of a datapath, and what they tell about themselves.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use netdev::packet::Packet;

use super::{Datapath, PortNumber};
use crate::action::Action;
use crate::flow_table::WorkerId;
use crate::offload::stage::Inbox;
use crate::pmd::assign::Core;
use crate::pmd::mailbox::Mailbox;
use crate::pmd::metrics::Metrics;
use crate::pmd::pipeline::{Pipeline, Shared};
use crate::pmd::statistics::{Load, Snapshot, Statistics, ThreadLoad};
use crate::pmd::worker::Worker;

/// The controlling thread's own worker.
pub(super) struct MainThread {
    pub(super) worker: Worker,
    pub(super) statistics: Arc<Statistics>,
    load: Arc<ThreadLoad>,
}

/// A poll thread.
pub(super) struct PollThread {
    pub(super) mailbox: Arc<Mailbox<Worker>>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) load: Arc<ThreadLoad>,
    pub(super) is_isolated: bool,
    /// Longest sleep, in microseconds.
    pub(super) max_sleep: u32,
    /// Transmit queue of each port that it uses.
    pub(super) tx_queue: usize,
    /// Where it hears of marks.
    pub(super) inbox: Arc<Inbox>,
    pub(super) handle: JoinHandle<()>,
}

impl MainThread {
    pub(super) fn new(shared: Shared) -> Self {
        let statistics = Arc::new(Statistics::new());
        let load = Arc::new(ThreadLoad::default());
        let pipeline = Pipeline::new(WorkerId::Main, shared, Arc::clone(&statistics));
        let worker = Worker::new(pipeline, Arc::clone(&statistics), Arc::clone(&load));
        Self { worker, statistics, load }
    }

    pub(super) fn poll(&mut self) -> usize {
        let (received, _) = self.worker.poll();
        // Nobody comes back later to send what waits for more.
        self.worker.pipeline.flush(true);
        received
    }

    pub(super) fn wait_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.worker.queues.iter().filter_map(|queue| queue.queue.wait_fd())
    }

    pub(super) fn execute(&mut self, packet: Packet, actions: &[Action]) {
        let worker = &mut self.worker;
        worker.pipeline.set_now(netdev::clock::now());
        let policy = worker.quiet_policy();
        worker.pipeline.execute(packet, actions, policy);
        worker.pipeline.flush(true);
        worker.pipeline.drops.publish();
        worker.pipeline.tunnels.events.publish();
    }
}

/// A thread and what it has done since its statistics were cleared.
#[derive(Clone, Debug)]
pub struct ThreadStatus {
    /// Which thread.
    pub id: WorkerId,
    /// The core of a poll thread.
    pub core: Option<Core>,
    /// Counters.
    pub counters: Snapshot,
    /// For how long they have been counting.
    pub elapsed: Duration,
    /// Whether it polls pinned queues only.
    pub is_isolated: bool,
    /// Longest sleep of the thread in microseconds.
    pub max_sleep: u32,
    /// Its receive queues, by port and number.
    pub queues: Vec<QueueStatus>,
    /// What it did with its time, in past intervals.
    pub load: Arc<ThreadLoad>,
}

/// A receive queue.
#[derive(Clone, Debug)]
pub struct QueueStatus {
    /// Number of its port.
    pub port: PortNumber,
    /// Name of its port.
    pub name: String,
    /// Number of the queue.
    pub queue: usize,
    /// Cycles spent on its packets, in past intervals.
    pub load: Arc<Load>,
}

impl Datapath {
    /// The threads: poll threads in the order of their cores, then the controlling thread.
    pub fn thread_status(&self) -> Vec<ThreadStatus> {
        let mut polling: Vec<_> = self.threads.iter().collect();
        polling.sort_by_key(|(core, _)| core.core);
        let polling = polling.into_iter().map(|(&core, thread)| {
            let id = WorkerId::Core(core.core);
            let (counters, elapsed) = thread.statistics.snapshot();
            ThreadStatus {
                id,
                core: Some(core),
                counters,
                elapsed,
                is_isolated: thread.is_isolated,
                max_sleep: thread.max_sleep,
                queues: self.queue_status(id),
                load: Arc::clone(&thread.load),
            }
        });
        let (counters, elapsed) = self.main.statistics.snapshot();
        let main = ThreadStatus {
            id: WorkerId::Main,
            core: None,
            counters,
            elapsed,
            is_isolated: false,
            max_sleep: 0,
            queues: self.queue_status(WorkerId::Main),
            load: Arc::clone(&self.main.load),
        };
        polling.chain([main]).collect()
    }

    fn queue_status(&self, id: WorkerId) -> Vec<QueueStatus> {
        let queues = self.ports.iter().flat_map(|(&port, state)| {
            let own = state.queues.iter().enumerate().filter(|(_, queue)| queue.owner == Some(id));
            own.map(move |(number, queue)| QueueStatus {
                port,
                name: state.name.clone(),
                queue: number,
                load: Arc::clone(&queue.load),
            })
        });
        queues.collect()
    }

    /// What is known of the rounds of a poll thread, if that is wanted.
    pub fn metrics(&self, core: u32) -> Option<Box<Metrics>> {
        let mut threads = self.threads.iter();
        let (_, thread) = threads.find(|(own, _)| own.core == core)?;
        thread.mailbox.run(|worker| worker.pipeline.metrics.clone()).ok()?
    }

    /// Lets the statistics of one poll thread start from 0, or those of all threads.
    pub fn clear_statistics(&self, core: Option<u32>) {
        if core.is_none() {
            self.main.statistics.clear();
        }
        let meant = self.threads.iter().filter(|(own, _)| core.is_none_or(|core| own.core == core));
        for (_, thread) in meant {
            thread.statistics.clear();
            // A thread that has ended has nothing left to clear.
            let _ = thread.mailbox.run(|worker| {
                if let Some(metrics) = &mut worker.pipeline.metrics {
                    metrics.clear();
                }
            });
        }
    }
}
