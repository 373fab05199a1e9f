//! The threads of a datapath, and what they tell about themselves.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use netdev::packet::Packet;

use super::{Datapath, PortNumber};
use crate::action::Action;
use crate::flow_table::WorkerId;
use crate::pmd::assign::Core;
use crate::pmd::mailbox::Mailbox;
use crate::pmd::pipeline::{Pipeline, Shared};
use crate::pmd::statistics::{Load, Snapshot, Statistics};
use crate::pmd::worker::Worker;

/// The controlling thread's own worker.
pub(super) struct MainThread {
    pub(super) worker: Worker,
    pub(super) statistics: Arc<Statistics>,
    busy: Arc<Load>,
}

/// A poll thread.
pub(super) struct PollThread {
    pub(super) mailbox: Arc<Mailbox<Worker>>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) busy: Arc<Load>,
    pub(super) is_isolated: bool,
    /// Transmit queue of each port that it uses.
    pub(super) tx_queue: usize,
    pub(super) handle: JoinHandle<()>,
}

impl MainThread {
    pub(super) fn new(shared: Shared) -> Self {
        let statistics = Arc::new(Statistics::new());
        let busy = Arc::new(Load::default());
        let pipeline = Pipeline::new(WorkerId::Main, shared, Arc::clone(&statistics));
        let worker = Worker::new(pipeline, Arc::clone(&statistics), Arc::clone(&busy));
        Self { worker, statistics, busy }
    }

    pub(super) fn poll(&mut self) -> usize {
        let (received, _) = self.worker.poll();
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
    /// Cycles that it was busy, past intervals, but for the work on its queues.
    pub overhead: Arc<Load>,
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
        let polling = self.threads.iter().map(|(&core, thread)| {
            let id = WorkerId::Core(core.core);
            let (counters, elapsed) = thread.statistics.snapshot();
            ThreadStatus {
                id,
                core: Some(core),
                counters,
                elapsed,
                is_isolated: thread.is_isolated,
                max_sleep: self.max_sleep(core),
                queues: self.queue_status(id),
                overhead: Arc::clone(&thread.busy),
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
            overhead: Arc::clone(&self.main.busy),
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

    /// Lets the statistics of all threads start from 0.
    pub fn clear_statistics(&self) {
        self.main.statistics.clear();
        self.threads.values().for_each(|thread| thread.statistics.clear());
    }

    /// Longest sleep of the poll thread on a core, in microseconds.
    pub(super) fn max_sleep(&self, core: Core) -> u32 {
        self.settings.core_sleeps.get(&core.core).copied().unwrap_or(self.settings.max_sleep)
    }
}
