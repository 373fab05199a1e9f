//! What one poll thread has of offload: what its ports can do, its flows by mark, and the way to
//! the workers.

use std::num::NonZeroU32;
use std::sync::Arc;

use netdev::flow_api::Capabilities;
use netdev::packet::Batch;
use netdev::queue::RxQueue;

pub(crate) use super::inbox::{Association, Inbox};
use super::mark::{Mark, MarkMiss, MarkTable};
use super::port_cache::PortCache;
use super::reason::{OffloadState, Reason};
use super::worker::{Clients, WorkerHandle};
use super::{MARK_FOREIGN, MARK_STALE, MARK_UNKNOWN, RECOVERED};
use crate::datapath::PortNumber;
use crate::drop::{DropReason, Drops};
use crate::flow_table::FlowRecord;

/// See the [module](self).
#[derive(Default)]
pub(crate) struct OffloadStage {
    pub(crate) ports: PortCache,
    marks: MarkTable,
    inbox: Arc<Inbox>,
    clients: Clients,
}

impl OffloadStage {
    /// Has the thread speak to these workers; none when offload is off.
    pub(crate) fn set_workers(&mut self, workers: Vec<WorkerHandle>) {
        if workers.is_empty() {
            self.marks.clear();
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
        }
        if self.takes_rules(flow) {
            self.clients.remove(flow);
        }
    }

    /// What the thread has not heard yet.
    #[inline]
    pub(crate) fn news(&mut self) -> Vec<Association> {
        self.clients.send_backlog();
        self.inbox.take()
    }

    /// Lets the mark of a flow of this thread lead to it.
    pub(crate) fn associate(&mut self, flow: &FlowRecord, mark: Mark, number: u32) {
        if let Some(old) = flow.mark_on_thread() {
            self.marks.remove(Mark::from(old));
        }
        flow.set_mark_on_thread(mark.number());
        self.marks.insert(mark, number, PortNumber(flow.key().in_port.get()));
    }

    /// Finds the flows of a batch that came in on `port` by their marks, where they have one, and
    /// returns the bits of those that have. A mark that leads nowhere is as good as none.
    #[inline]
    pub(crate) fn find_marked(&self, batch: &Batch, port: PortNumber, flows: &mut [u32]) -> u32 {
        let (mut found, mut bit) = (0, 1);
        for (packet, flow) in batch.iter().zip(flows) {
            if let Some(mark) = NonZeroU32::new(packet.descriptor().mark) {
                match self.marks.find(mark, port) {
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

/// Puts packets right whose processing the hardware has begun and not finished. Those whose outer
/// headers are still there go on as if it had not begun; no tunnel port could take the others, so
/// they are dropped.
pub(crate) fn recover(queue: &mut dyn RxQueue, batch: &mut Batch, drops: &mut Drops) {
    let mut place = 0;
    for received in 0..batch.len() {
        let Some(info) = queue.restore_info(received) else {
            place += 1;
            continue;
        };
        RECOVERED.add(1);
        if !info.is_encapsulated {
            batch.remove(place);
            drops.add(DropReason::HardwareMiss, 1);
            continue;
        }
        if let Some(mut packet) = batch.get_mut(place) {
            // It was that of a rule for the tunnel, not for what is in it.
            packet.descriptor_mut().mark = 0;
        }
        place += 1;
    }
}
