//! Queues of ports that replay or discard.

use std::num::NonZeroU32;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::options::Options;
use super::{Frames, Shared, record};
use crate::clock;
use crate::headers::fits;
use crate::offload::TransmitOffloads;
use crate::packet::{BATCH_SIZE, Batch, PacketRef};
use crate::pcap::PcapWriter;
use crate::queue::{QueueError, RxQueue, SendReport, TxQueue};

const ETHERNET_HEADER_LENGTH: usize = 14;

/// Yields nothing.
#[derive(Debug)]
pub(super) struct NullRxQueue;

impl RxQueue for NullRxQueue {
    fn receive(&mut self, _batch: &mut Batch) -> Result<usize, QueueError> {
        Ok(0)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Yields the frames of a capture file, in order.
#[derive(Debug)]
pub(super) struct ReplayRxQueue {
    frames: Arc<Frames>,
    shared: Arc<Shared>,
    is_infinite: bool,
    pace: Option<Pace>,
    /// The frame that is next.
    next: usize,
}

impl ReplayRxQueue {
    pub(super) fn open(frames: &Arc<Frames>, shared: &Arc<Shared>, options: &Options) -> Self {
        Self {
            frames: Arc::clone(frames),
            shared: Arc::clone(shared),
            is_infinite: options.files.infinite_rx,
            pace: options.rate.map(Pace::new),
            next: 0,
        }
    }

    /// Makes the next frame the content of packet `index`, which is empty.
    #[inline]
    fn yield_to(&mut self, batch: &mut Batch, index: usize) -> Option<u64> {
        if self.next == self.frames.len() && self.is_infinite {
            self.next = 0;
        }
        let (frames, length) = self.frames.get_with_rest(self.next)?;
        let put = |batch: &mut Batch| {
            batch.get_mut(index).is_some_and(|mut packet| packet.receive_copy(frames, length))
        };
        if !put(batch) {
            // The pool may be empty because its last frames are in this batch.
            truncate(batch, index + 1);
            put(batch).then_some(())?;
        }
        self.next += 1;
        Some(length as u64)
    }
}

/// Drops the packets behind the first `length`.
fn truncate(batch: &mut Batch, length: usize) {
    while batch.len() > length {
        batch.remove(batch.len() - 1);
    }
}

impl RxQueue for ReplayRxQueue {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        if !self.shared.is_up.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let due = self.pace.as_mut().map_or(BATCH_SIZE, Pace::due);
        let first = batch.len();
        batch.fill(due);
        let (mut end, mut bytes) = (first, 0);
        while end < batch.len()
            && let Some(length) = self.yield_to(batch, end)
        {
            bytes += length;
            end += 1;
        }
        truncate(batch, end);
        let filled = end - first;
        if filled > 0 {
            self.shared.received.add(filled as u64, bytes);
            if let Some(pace) = &mut self.pace {
                pace.yielded += filled as u64;
            }
        }
        Ok(filled)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Holds a queue to a number of packets per second.
#[derive(Debug)]
struct Pace {
    rate: NonZeroU32,
    started: Duration,
    yielded: u64,
}

impl Pace {
    fn new(rate: NonZeroU32) -> Self {
        Self { rate, started: clock::now(), yielded: 0 }
    }

    /// Packets that are due now. A queue that was not polled for long does not catch up.
    fn due(&mut self) -> usize {
        let elapsed = clock::now().saturating_sub(self.started).as_nanos();
        let total = elapsed.saturating_mul(self.rate.get().into()) / 1_000_000_000;
        let total = u64::try_from(total).unwrap_or(u64::MAX);
        let due = total.saturating_sub(self.yielded).min(BATCH_SIZE as u64);
        self.yielded = total - due;
        due as usize
    }
}

/// Discards packets, after recording them where that is wanted.
#[derive(Debug)]
pub(super) struct ReplayTxQueue {
    recorder: Option<Arc<Mutex<PcapWriter>>>,
    shared: Arc<Shared>,
    /// One packet in one piece.
    frame: Vec<u8>,
}

impl ReplayTxQueue {
    pub(super) fn open(recorder: Option<Arc<Mutex<PcapWriter>>>, shared: &Arc<Shared>) -> Self {
        Self { recorder, shared: Arc::clone(shared), frame: Vec::new() }
    }

    fn record(&mut self, packet: PacketRef<'_>) {
        let Some(recorder) = &self.recorder else {
            return;
        };
        self.frame.clear();
        packet.segments().for_each(|segment| self.frame.extend(segment));
        // A panic under the lock would have been in writing one frame.
        let mut recorder = recorder.lock().unwrap_or_else(PoisonError::into_inner);
        record(Some(&mut recorder), &self.frame);
    }
}

impl TxQueue for ReplayTxQueue {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let mut report = SendReport::default();
        let longest = self.shared.mtu.load(Ordering::Relaxed) as usize + ETHERNET_HEADER_LENGTH;
        let is_up = self.shared.is_up.load(Ordering::Relaxed);
        let mut bytes = 0;
        for packet in batch.iter() {
            if !is_up {
                report.device_error += 1;
            } else if !fits(packet, packet.len(), longest) {
                report.mtu_exceeded += 1;
            } else {
                report.sent += 1;
                bytes += packet.len() as u64;
                self.record(packet);
            }
        }
        batch.clear();
        if report.sent > 0 {
            self.shared.sent.add(report.sent, bytes);
        }
        if report.dropped() > 0 {
            self.shared.lost.fetch_add(report.dropped(), Ordering::Relaxed);
        }
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::empty()
    }
}
