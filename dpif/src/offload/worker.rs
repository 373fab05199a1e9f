//! Offload workers: threads that put rules in and take them out while poll threads forward.
//!
//! A poll thread never waits for a worker. A request that finds the queue full is counted; when it
//! is about a flow that a worker knows, it is kept for later. A new flow stays in software and is
//! offered again when there is room.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use netdev::{clock, cpu};

use super::engine::{Engine, OpenPort};
use super::inbox::Inbox;
use super::mark::MarkPool;
use super::provider::TunnelEnd;
use super::reason::{OffloadState, Reason};
use super::statistics::WorkerStatistics;
use super::{BACKPRESSURE, OFFERED_AGAIN};
use crate::datapath::PortNumber;
use crate::flow_table::FlowRecord;

/// Requests that wait for a worker at most.
const QUEUE: usize = 16 * 1024;
/// Requests that a worker takes before it looks at devices again.
const BURST: usize = 1024;
/// How long a worker sleeps between two looks at its queue while it is busy. Nobody has to wake it
/// then, which would cost a poll thread more than all else that it does for a new flow.
const BUSY_SLEEP: Duration = Duration::from_micros(100);
/// Looks at an empty queue after which a worker is not busy any more.
const BUSY_LOOKS: u32 = 100;
/// How long it sleeps at most otherwise.
const IDLE_SLEEP: Duration = Duration::from_millis(50);

/// What a worker is asked for.
pub(crate) enum Request {
    /// To take a port.
    Open(OpenPort),
    /// To give up a port, and to say when that is done.
    Close { port: PortNumber, reason: Reason, done: SyncSender<()> },
    /// To take a tunnel port.
    OpenTunnel { port: PortNumber, end: TunnelEnd },
    /// To give up a tunnel port.
    CloseTunnel { port: PortNumber },
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
        if cfg!(feature = "broken-wait") {
            self.send(request);
            return Ok(());
        }
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

    /// The way to a queue with room for `room` requests, whose other end the test has.
    #[cfg(test)]
    pub(crate) fn unattended(room: usize) -> (Self, Receiver<Request>) {
        let (requests, receiver) = sync_channel(room);
        (Self { requests, statistics: Arc::default() }, receiver)
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
    let mut looks = BUSY_LOOKS;
    loop {
        let first = if engine.is_waiting() || looks < BUSY_LOOKS {
            requests.try_recv().ok().or_else(|| {
                looks += 1;
                thread::sleep(BUSY_SLEEP);
                None
            })
        } else {
            match requests.recv_timeout(sleep(&engine)) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        };
        let burst = first.into_iter().chain(requests.try_iter()).take(BURST);
        for request in burst {
            looks = 0;
            statistics.taken();
            match request {
                Request::Open(port) => engine.open(port),
                Request::Close { port, reason, done } => {
                    engine.close(port, reason, clock::now());
                    // Nobody waits any more when this fails.
                    let _ = done.send(());
                }
                Request::OpenTunnel { port, end } => engine.open_tunnel(port, end),
                Request::CloseTunnel { port } => engine.close_tunnel(port),
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
        engine.run(clock::now());
    }
}

fn sleep(engine: &Engine) -> Duration {
    let until = engine.deadline().map(|deadline| deadline.saturating_sub(clock::now()));
    // The switch's clock may stand still.
    IDLE_SLEEP.min(until.unwrap_or(IDLE_SLEEP)).max(BUSY_SLEEP)
}

/// A thread's way to the workers.
#[derive(Default)]
pub(crate) struct Clients {
    workers: Vec<WorkerHandle>,
    /// Removals and changes that found no room.
    backlog: VecDeque<Request>,
    /// Whether there may be flows that found no room, and since the last pass over all of them.
    refused: bool,
    refused_lately: bool,
}

impl Clients {
    pub(crate) fn new(workers: Vec<WorkerHandle>) -> Self {
        Self { workers, ..Self::default() }
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

    /// Offers a flow that is new. One that finds no room stays in software for now.
    pub(crate) fn offer(&mut self, flow: &Arc<FlowRecord>, inbox: &Arc<Inbox>) {
        flow.offload().set(OffloadState::No(Reason::Pending));
        if !self.has_room_for(flow, inbox) {
            BACKPRESSURE.add(1);
            flow.offload().set(OffloadState::No(Reason::Backlog));
            (self.refused, self.refused_lately) = (true, true);
        }
    }

    /// Offers a flow that found no room before; says whether it does now.
    pub(crate) fn offer_again(&self, flow: &Arc<FlowRecord>, inbox: &Arc<Inbox>) -> bool {
        flow.offload().set(OffloadState::No(Reason::Pending));
        let is_taken = self.has_room_for(flow, inbox);
        if is_taken {
            OFFERED_AGAIN.add(1);
        } else {
            flow.offload().set(OffloadState::No(Reason::Backlog));
        }
        is_taken
    }

    /// Hands a flow over, if there is room.
    fn has_room_for(&self, flow: &Arc<FlowRecord>, inbox: &Arc<Inbox>) -> bool {
        let (flow, inbox) = (Arc::clone(flow), Arc::clone(inbox));
        self.send(Request::Put { flow, inbox, offered: cpu::cycles() }).is_none()
    }

    /// Whether there may be flows that found no room.
    #[inline]
    pub(crate) fn has_refused(&self) -> bool {
        self.refused
    }

    /// All flows have been looked at for such.
    pub(crate) fn end_pass(&mut self) {
        self.refused = self.refused_lately;
        self.refused_lately = false;
    }

    /// Lets a worker know that a flow does something else than before.
    pub(crate) fn change(&mut self, flow: &Arc<FlowRecord>, inbox: &Arc<Inbox>) {
        if flow.offload().get() == OffloadState::No(Reason::Backlog) {
            // From here on a worker knows it.
            flow.offload().set(OffloadState::No(Reason::Pending));
        }
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
