//! Offload workers: threads that put rules in and take them out while poll threads forward.
//!
//! A poll thread never waits for a worker: a request that finds the queue full is dropped and
//! counted when it is about a new flow, which stays in software, and kept for later when it is
//! about one that a worker knows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use netdev::{clock, cpu};

use super::BACKPRESSURE;
use super::engine::{Engine, OpenPort};
use super::inbox::Inbox;
use super::mark::MarkPool;
use super::reason::{OffloadState, Reason};
use super::statistics::WorkerStatistics;
use crate::datapath::PortNumber;
use crate::flow_table::FlowRecord;

/// Requests that wait for a worker at most.
const QUEUE: usize = 16 * 1024;
/// Requests that a worker takes before it looks at devices again.
const BURST: usize = 1024;
/// How long a worker sleeps at most while a device owes it an answer.
const ANSWER_SLEEP: Duration = Duration::from_micros(100);
/// How long it sleeps at most otherwise.
const IDLE_SLEEP: Duration = Duration::from_millis(50);

/// What a worker is asked for.
pub(crate) enum Request {
    /// To take a port.
    Open(OpenPort),
    /// To give up a port, and to say when that is done.
    Close { port: PortNumber, reason: Reason, done: SyncSender<()> },
    /// To put in a rule for a flow, or to bring it up to date.
    Put { flow: Arc<FlowRecord>, inbox: Arc<Inbox>, offered: u64 },
    /// To take out the rule of a flow.
    Remove { flow: Arc<FlowRecord> },
    /// To look at the counters of all rules now, and to say when that is done.
    Count { done: SyncSender<()> },
    /// To end.
    Quit,
}

/// The way to a worker.
#[derive(Clone)]
pub(crate) struct WorkerHandle {
    requests: SyncSender<Request>,
    statistics: Arc<WorkerStatistics>,
}

impl WorkerHandle {
    /// Hands over a request, and waits for room where there is none. Not for poll threads.
    pub(crate) fn send(&self, request: Request) {
        self.statistics.sent.fetch_add(1, Ordering::Relaxed);
        // A worker that has ended has no rules either.
        let _ = self.requests.send(request);
    }

    fn try_send(&self, request: Request) -> Result<(), Request> {
        match self.requests.try_send(request) {
            Ok(()) => {
                self.statistics.sent.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(TrySendError::Full(request)) => Err(request),
            Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    }

    pub(crate) fn statistics(&self) -> &WorkerStatistics {
        &self.statistics
    }
}

/// A worker and its thread.
pub(crate) struct Worker {
    pub(crate) handle: WorkerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts worker `number` of `count`.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(crate) fn start(number: u32, count: u32) -> std::io::Result<Self> {
        let (requests, receiver) = sync_channel(QUEUE);
        let statistics = Arc::new(WorkerStatistics::default());
        let engine = Engine::new(MarkPool::new(number, count, u32::MAX), Arc::clone(&statistics));
        let handle = WorkerHandle { requests, statistics: Arc::clone(&statistics) };
        let thread = Builder::new()
            .name(format!("hw_offload/id:{number}"))
            .spawn(move || run(engine, &receiver, &statistics))?;
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.handle.send(Request::Quit);
        if let Some(thread) = self.thread.take() {
            // What a thread dies of, it has said itself.
            let _ = thread.join();
        }
    }
}

fn run(mut engine: Engine, requests: &Receiver<Request>, statistics: &WorkerStatistics) {
    loop {
        match requests.recv_timeout(sleep(&engine)) {
            Ok(request) => {
                let burst = std::iter::once(request).chain(requests.try_iter()).take(BURST);
                for request in burst {
                    statistics.taken();
                    match request {
                        Request::Open(port) => engine.open(port),
                        Request::Close { port, reason, done } => {
                            engine.close(port, reason, clock::now());
                            // Nobody waits any more when this fails.
                            let _ = done.send(());
                        }
                        Request::Put { flow, inbox, offered } => engine.put(flow, inbox, offered),
                        Request::Count { done } => {
                            engine.count(clock::now());
                            // Nobody waits any more when this fails.
                            let _ = done.send(());
                        }
                        Request::Remove { flow } => engine.remove(&flow, clock::now()),
                        Request::Quit => return,
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        engine.run(clock::now());
    }
}

fn sleep(engine: &Engine) -> Duration {
    let limit = if engine.is_waiting() { ANSWER_SLEEP } else { IDLE_SLEEP };
    let until = engine.deadline().map(|deadline| deadline.saturating_sub(clock::now()));
    // The switch's clock may stand still.
    limit.min(until.unwrap_or(limit)).max(Duration::from_micros(50))
}

/// A thread's way to the workers.
#[derive(Default)]
pub(crate) struct Clients {
    workers: Vec<WorkerHandle>,
    /// Removals and changes that found no room.
    backlog: VecDeque<Request>,
}

impl Clients {
    pub(crate) fn new(workers: Vec<WorkerHandle>) -> Self {
        Self { workers, backlog: VecDeque::new() }
    }

    /// Whether there are workers.
    pub(crate) fn is_on(&self) -> bool {
        !self.workers.is_empty()
    }

    /// The worker that a flow belongs to, on whatever thread it is.
    fn worker(&self, flow: &FlowRecord) -> Option<&WorkerHandle> {
        // All threads have the same masked key and so the same hash.
        let place = flow.mask().hash(flow.key(), 0) as usize % self.workers.len().max(1);
        self.workers.get(place)
    }

    /// Offers a flow that is new. One that finds no room stays in software.
    pub(crate) fn offer(&mut self, flow: &Arc<FlowRecord>, inbox: &Arc<Inbox>) {
        let Some(worker) = self.worker(flow) else { return };
        let (flow, inbox) = (Arc::clone(flow), Arc::clone(inbox));
        flow.offload().set(OffloadState::No(Reason::Pending));
        let request = Request::Put { flow, inbox, offered: cpu::cycles() };
        if let Err(Request::Put { flow, .. }) = worker.try_send(request) {
            BACKPRESSURE.add(1);
            flow.offload().set(OffloadState::No(Reason::Backlog));
        }
    }

    /// Lets a worker know that a flow does something else than before.
    pub(crate) fn change(&mut self, flow: &Arc<FlowRecord>, inbox: &Arc<Inbox>) {
        let (flow, inbox) = (Arc::clone(flow), Arc::clone(inbox));
        self.send_or_keep(Request::Put { flow, inbox, offered: cpu::cycles() });
    }

    /// Lets a worker know that a flow is gone.
    pub(crate) fn remove(&mut self, flow: &Arc<FlowRecord>) {
        self.send_or_keep(Request::Remove { flow: Arc::clone(flow) });
    }

    /// Sends a request, or keeps it for [`Self::send_backlog`]. Those of one flow keep their order.
    fn send_or_keep(&mut self, request: Request) {
        let kept = if self.backlog.is_empty() { self.send(request) } else { Some(request) };
        if let Some(request) = kept {
            BACKPRESSURE.add(1);
            self.backlog.push_back(request);
        }
    }

    /// Returns a request that found no room.
    fn send(&self, request: Request) -> Option<Request> {
        let (Request::Put { flow, .. } | Request::Remove { flow }) = &request else { return None };
        self.worker(flow)?.try_send(request).err()
    }

    /// Sends what found no room before.
    #[inline]
    pub(crate) fn send_backlog(&mut self) {
        while let Some(request) = self.backlog.pop_front() {
            if let Some(request) = self.send(request) {
                self.backlog.push_front(request);
                return;
            }
        }
    }
}
