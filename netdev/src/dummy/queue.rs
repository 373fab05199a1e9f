//! Queues of a dummy port.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};

use rustix::io::Errno;

use super::Dummy;
use crate::offload::TransmitOffloads;
use crate::packet::Batch;
use crate::port::PortError;
use crate::queue::{QueueError, RxQueue, SendReport, TxQueue};

/// Most frames that wait in a receive queue; what comes after is dropped.
const MAX_WAITING: usize = 100;

/// Frames and bytes that passed through a queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueCounters {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl QueueCounters {
    pub(super) fn count(&mut self, frame: &[u8]) {
        self.packets += 1;
        self.bytes += u64::try_from(frame.len()).unwrap_or(u64::MAX);
    }
}

/// Frames that wait to be received, and counters of those that were.
#[derive(Debug, Default)]
pub(super) struct ReceiveQueue {
    /// Each with its mark.
    frames: VecDeque<(Vec<u8>, u32)>,
    pub(super) received: QueueCounters,
}

impl ReceiveQueue {
    /// Appends `frame`; false when the queue was full and the frame is lost.
    pub(super) fn push(&mut self, frame: Vec<u8>, mark: u32) -> bool {
        let has_room = self.frames.len() < MAX_WAITING;
        if has_room {
            self.frames.push_back((frame, mark));
        }
        has_room
    }

    /// The oldest frame and its mark, which stay until they are [taken](Self::take).
    pub(super) fn oldest(&self) -> Option<(&[u8], u32)> {
        self.frames.front().map(|(frame, mark)| (frame.as_slice(), *mark))
    }

    /// Removes the oldest frame and counts it as received.
    pub(super) fn take(&mut self) {
        if let Some((frame, _)) = self.frames.pop_front() {
            self.received.count(&frame);
        }
    }
}

/// A receive queue as the datapath polls it.
#[derive(Debug)]
pub(super) struct DummyRxQueue {
    /// Gone when the port was closed.
    dummy: Weak<Dummy>,
    port: String,
    queue: usize,
}

impl DummyRxQueue {
    pub(super) fn open(dummy: &Arc<Dummy>, queue: usize) -> Result<Self, PortError> {
        let port = dummy.name().to_owned();
        if queue >= dummy.receive_queues() {
            return Err(PortError::Get { port, what: "receive queue", errno: Errno::NODEV });
        }
        Ok(Self { dummy: Arc::downgrade(dummy), port, queue })
    }
}

impl RxQueue for DummyRxQueue {
    /// Receives at most one packet at a time, so that packets injected together still pass the
    /// datapath one after the other.
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        match self.dummy.upgrade() {
            Some(dummy) => Ok(dummy.receive(self.queue, batch)),
            None => Err(QueueError::Device {
                port: self.port.clone(),
                queue: self.queue,
                errno: Errno::NODEV,
            }),
        }
    }

    /// The control thread waits for all dummies at once: [`DummyPorts::received`].
    ///
    /// [`DummyPorts::received`]: super::DummyPorts::received
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A transmit queue as the datapath fills it.
#[derive(Debug)]
pub(super) struct DummyTxQueue {
    dummy: Weak<Dummy>,
    queue: usize,
    /// One packet in one piece.
    frame: Vec<u8>,
}

impl DummyTxQueue {
    pub(super) fn open(dummy: &Arc<Dummy>, queue: usize) -> Self {
        Self { dummy: Arc::downgrade(dummy), queue, frame: Vec::new() }
    }
}

impl TxQueue for DummyTxQueue {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let mut report = SendReport::default();
        if let Some(dummy) = self.dummy.upgrade() {
            for mut packet in batch.iter_mut() {
                report += dummy.send(self.queue, &mut packet, &mut self.frame);
            }
        } else {
            report.device_error = batch.len() as u64;
        }
        batch.clear();
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        self.dummy.upgrade().map_or(TransmitOffloads::empty(), |dummy| dummy.transmit_offloads())
    }
}
