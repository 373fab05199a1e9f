//! What one poll thread has of offload: what its ports can do, its flows by mark, and the way to
//! the workers.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use netdev::flow_api::Capabilities;
use netdev::packet::Batch;

pub(crate) use super::inbox::{Association, Inbox};
use super::mark::{Mark, MarkMiss, MarkTable};
use super::port_cache::PortCache;
use super::reason::{OffloadState, Reason};
use super::worker::{Clients, WorkerHandle};
use super::{MARK_FOREIGN, MARK_STALE, MARK_UNKNOWN};
use crate::datapath::PortNumber;
use crate::flow_table::{FlowRecord, FlowTable};

/// Older marks of a flow that still lead to it.
const MAX_OTHERS: usize = 32;
/// Flows that are looked at per round for some to offer again.
const LOOKS: u32 = 32;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct OffloadStage {
    pub(crate) ports: PortCache,
    marks: MarkTable,
    /// Older marks of flows that have more than one: that come through a tunnel, or whose rule came
    /// anew. By flow number.
    others: HashMap<u32, Vec<Mark>>,
    inbox: Arc<Inbox>,
    clients: Clients,
    /// Number of the flow from which on those that found no room are looked for.
    next: u32,
}

impl OffloadStage {
    /// Has the thread speak to these workers; none when offload is off.
    pub(crate) fn set_workers(&mut self, workers: Vec<WorkerHandle>) {
        if workers.is_empty() {
            self.marks.clear();
            self.others.clear();
        }
        self.clients = Clients::new(workers);
    }

    /// Where the thread hears of marks.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Whether flows of a port may become rules.
    fn takes_rules(&self, flow: &FlowRecord) -> bool {
        !self.ports.capabilities(PortNumber(flow.key().in_port.get())).is_empty()
    }

    /// A flow was installed.
    pub(crate) fn added(&mut self, flow: &Arc<FlowRecord>) {
        if self.takes_rules(flow) {
            self.clients.offer(flow, &self.inbox);
        } else if self.clients.is_on() {
            flow.offload().set(OffloadState::No(Reason::NoHardware));
        }
    }

    /// A flow does something else than before.
    pub(crate) fn changed(&mut self, flow: &Arc<FlowRecord>) {
        if self.takes_rules(flow) {
            self.clients.change(flow, &self.inbox);
        }
    }

    /// A flow was removed. Its mark leads nowhere from here on.
    pub(crate) fn removed(&mut self, flow: &Arc<FlowRecord>) {
        if let Some(mark) = flow.mark_on_thread().filter(|_| !cfg!(feature = "broken-association"))
        {
            self.marks.remove(Mark::from(mark));
            let others = self.others.remove(&flow.number_on_thread());
            others.iter().flatten().for_each(|mark| self.marks.remove(*mark));
        }
        // A worker has never heard of one that found no room.
        if self.takes_rules(flow) && flow.offload().get() != OffloadState::No(Reason::Backlog) {
            self.clients.remove(flow);
        }
    }

    /// What the thread, which has these flows, has not heard yet.
    #[inline]
    pub(crate) fn news(&mut self, flows: &FlowTable) -> Vec<Association> {
        self.clients.send_backlog();
        if self.clients.has_refused() {
            self.offer_again(flows);
        }
        self.inbox.take()
    }

    /// Offers some of the flows again that found no room.
    #[cold]
    fn offer_again(&mut self, flows: &FlowTable) {
        for number in self.next..flows.end().min(self.next + LOOKS) {
            self.next = number + 1;
            let flow = flows.record(number);
            let is_refused =
                |flow: &&Arc<FlowRecord>| flow.offload().get() == OffloadState::No(Reason::Backlog);
            if let Some(flow) = flow.filter(is_refused)
                && !self.clients.offer_again(flow, &self.inbox)
            {
                self.next = number;
                return;
            }
        }
        if self.next >= flows.end() {
            self.next = 0;
            self.clients.end_pass();
        }
    }

    /// Lets the mark of a flow of this thread lead to it.
    pub(crate) fn associate(&mut self, flow: &FlowRecord, mark: Mark) {
        if let Some(old) = flow.mark_on_thread() {
            let others = self.others.entry(flow.number_on_thread()).or_default();
            if others.len() == MAX_OTHERS {
                self.marks.remove(others.remove(0));
            }
            others.push(Mark::from(old));
        }
        flow.set_mark_on_thread(mark.number());
        let port = PortNumber(flow.key().in_port.get());
        self.marks.insert(mark, flow.number_on_thread(), port);
    }

    /// Finds the flows of a batch by their marks, where they have one, and returns the bits of those
    /// that have. A mark that leads nowhere is as good as none.
    #[inline]
    pub(crate) fn find_marked(&self, batch: &Batch, flows: &mut [u32]) -> u32 {
        let (mut found, mut bit) = (0, 1);
        for (packet, flow) in batch.iter().zip(flows) {
            let descriptor = packet.descriptor();
            if let Some(mark) = NonZeroU32::new(descriptor.mark) {
                match self.marks.find(mark, PortNumber(descriptor.in_port)) {
                    Ok(number) => {
                        *flow = number;
                        found |= bit;
                    }
                    Err(miss) => count_miss(miss),
                }
            }
            bit <<= 1;
        }
        found
    }

    /// The number of the flow that a mark leads to.
    #[cfg(test)]
    pub(crate) fn find(&self, mark: NonZeroU32, port: PortNumber) -> Option<u32> {
        self.marks.find(mark, port).ok()
    }

    /// What the port's hardware can do.
    #[inline]
    pub(crate) fn capabilities(&self, port: PortNumber) -> Capabilities {
        self.ports.capabilities(port)
    }
}

#[cold]
fn count_miss(miss: MarkMiss) {
    let counter = match miss {
        MarkMiss::Unknown => &MARK_UNKNOWN,
        MarkMiss::Stale => &MARK_STALE,
        MarkMiss::Foreign => &MARK_FOREIGN,
    };
    counter.add(1);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;
    use std::sync::mpsc::RecvTimeoutError::Timeout;

    use netdev::flow_api::Capabilities;

    use super::*;
    use crate::action::Action;
    use crate::flow::{Field, FlowKey, FlowMask, Ufid};
    use crate::flow_table::WorkerId;
    use crate::offload::worker::Request;
    use crate::offload::{BACKPRESSURE, OFFERED_AGAIN};

    fn flow(number: u32) -> Arc<FlowRecord> {
        let mut key = FlowKey::default();
        key.set(Field::InPort, 1);
        key.set(Field::TpDst, number.into());
        let (ufid, actions): (_, Arc<[Action]>) = (Ufid(number.into()), Arc::new([]));
        let mask = FlowMask::exact_for(&key);
        Arc::new(FlowRecord::new(ufid, WorkerId::Main, key, mask, actions))
    }

    fn taken(requests: &Receiver<Request>) -> Vec<(bool, Ufid)> {
        let requests = requests.try_iter();
        let requests = requests.filter_map(|request| match request {
            Request::Put { flow, .. } => Some((true, flow.ufid())),
            Request::Remove { flow } => Some((false, flow.ufid())),
            _ => None,
        });
        requests.collect()
    }

    /// A full queue keeps a flow in software until there is room; one that goes meanwhile is
    /// nothing to a worker, and one that changes is sent as it is by then.
    #[test]
    fn flows_that_found_no_room_are_offered_again() {
        let (done, end) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            fill_a_queue_that_nobody_empties();
            done.send(()).unwrap();
        });
        // A poll thread that waits for a worker waits for ever.
        let limit = std::time::Duration::from_secs(20);
        assert_ne!(end.recv_timeout(limit), Err(Timeout), "invariant 11: a poll thread waits");
        thread.join().unwrap();
    }

    fn fill_a_queue_that_nobody_empties() {
        let (handle, requests) = WorkerHandle::unattended(2);
        let (mut stage, mut flows) = (OffloadStage::default(), FlowTable::new());
        stage.set_workers(vec![handle]);
        stage.ports.set(PortNumber(1), Capabilities::MARK);
        let counted = || [BACKPRESSURE.get(), OFFERED_AGAIN.get()];
        let before = counted();
        let all: Vec<_> = (0..6).map(flow).collect();
        let numbers: Vec<u32> = all.iter().map(|flow| flows.insert(Arc::clone(flow), 0)).collect();
        all.iter().for_each(|flow| stage.added(flow));
        let states = |all: &[Arc<FlowRecord>]| -> Vec<_> {
            all.iter().map(|flow| flow.offload_state()).collect()
        };
        let (pending, backlog) =
            (OffloadState::No(Reason::Pending), OffloadState::No(Reason::Backlog));
        assert_eq!(states(&all), [pending, pending, backlog, backlog, backlog, backlog]);
        stage.removed(&flows.remove(numbers[2]).unwrap());
        stage.changed(&all[3]);
        assert_eq!(states(&all)[3], pending);
        // Rounds in which the worker takes nothing.
        (0..40).for_each(|_| drop(stage.news(&flows)));
        assert_eq!(taken(&requests), [(true, Ufid(0)), (true, Ufid(1))]);
        // What a worker must hear comes first, then those that were refused.
        stage.news(&flows);
        assert_eq!(taken(&requests), [(true, Ufid(3)), (true, Ufid(4))]);
        (0..40).for_each(|_| drop(stage.news(&flows)));
        assert_eq!(taken(&requests), [(true, Ufid(5))]);
        stage.removed(&flows.remove(numbers[4]).unwrap());
        (0..40).for_each(|_| drop(stage.news(&flows)));
        assert_eq!(taken(&requests), [(false, Ufid(4))]);
        assert_eq!(states(&all), [pending, pending, backlog, pending, pending, pending]);
        assert!(!stage.clients.has_refused());
        // Four were refused, and the change of one had to wait.
        assert_eq!(counted(), [before[0] + 5, before[1] + 2]);
    }
}
