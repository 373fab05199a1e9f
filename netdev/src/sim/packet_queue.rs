//! The packet queues of a software NIC.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::engine::Exit;
use super::frame;
use super::nic::{Nic, lock};
use super::ring::{Arrival, Ring, Source};
use super::table::Place;
use crate::clock;
use crate::flow_api::{HeaderFields, Parsed, RestoreInfo};
use crate::headers::fits;
use crate::offload::TransmitOffloads;
use crate::packet::{BATCH_SIZE, Batch};
use crate::queue::{QueueError, RxQueue, SendReport, TxQueue};
use crate::replay::Frames;

const ETHERNET_HEADER_LENGTH: usize = 14;

/// What was found out about a frame of a file when it arrived last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The version of the rules then.
    version: u64,
    hash: Option<u32>,
    mark: u32,
    place: Option<Place>,
}

/// Frames of a file that arrive in turn.
#[derive(Debug)]
struct Replay {
    frames: Arc<Frames>,
    is_infinite: bool,
    next: usize,
    /// For each frame, unless more than a mark may become of it.
    seen: Vec<Option<Seen>>,
    parsed: Vec<Option<Parsed>>,
}

impl Replay {
    fn new(frames: &Arc<Frames>, is_infinite: bool) -> Self {
        let parsed: Vec<_> = (0..frames.len())
            .map(|number| HeaderFields::parse(frames.get(number).unwrap_or(&[])))
            .collect();
        let seen = vec![None; parsed.len()];
        Self { frames: Arc::clone(frames), is_infinite, next: 0, seen, parsed }
    }

    /// Lets frames arrive until the ring is full.
    fn fill(&mut self, nic: &Nic, ring: &mut Ring) {
        let now = clock::now();
        let (mut packets, mut bytes, mut forwarded) = (0, 0, vec![]);
        let mut engine = nic.engine();
        engine.advance(now);
        let version = engine.version();
        // Frames that rules keep from software must not keep this loop from its end.
        let mut most = ring.size();
        while ring.room() > 0 && most > 0 {
            most -= 1;
            if self.next == self.frames.len() && self.is_infinite {
                self.next = 0;
            }
            let (number, Some(frame)) = (self.next, self.frames.get(self.next)) else { break };
            self.next += 1;
            (packets, bytes) = (packets + 1, bytes + frame.len() as u64);
            let known = self.seen.get(number).copied().flatten();
            if let Some(seen) = known.filter(|seen| seen.version == version) {
                let Seen { hash, mark, place, .. } = seen;
                engine.count_again(place, mark, frame.len(), now);
                let source = Source::Replay(number);
                ring.push(Arrival { source, mark, hash, restore: None });
                continue;
            }
            let parsed = self.parsed.get(number).and_then(Option::as_ref);
            let hash = parsed.map(|parsed| frame::hash(&parsed.fields));
            let outcome = engine.process(frame, parsed, now);
            if let Some(place) = self.seen.get_mut(number) {
                let (mark, found) = (outcome.mark, outcome.place);
                let seen = Seen { version, hash, mark, place: found };
                *place = engine.is_plain(&outcome).then_some(seen);
            }
            match outcome.exit {
                Exit::Drop => {}
                Exit::Port(device) => {
                    forwarded.push((device, outcome.bytes.unwrap_or_else(|| frame.to_vec())));
                }
                Exit::Software(_) => {
                    let source = outcome.bytes.map_or(Source::Replay(number), Source::Ring);
                    let restore = outcome.restore.map(Box::new);
                    ring.push(Arrival { source, mark: outcome.mark, hash, restore });
                }
            }
        }
        drop(engine);
        nic.received.add(packets, bytes);
        nic.forward(forwarded, 0);
    }
}

/// A receive queue.
#[derive(Debug)]
pub(super) struct SimRxQueue {
    nic: Arc<Nic>,
    ring: Arc<Mutex<Ring>>,
    replay: Option<Replay>,
    /// Where the packets of the last batch that need it stood with the device.
    restored: [Option<Box<RestoreInfo>>; BATCH_SIZE],
}

impl SimRxQueue {
    pub(super) fn open(
        nic: &Arc<Nic>,
        ring: Arc<Mutex<Ring>>,
        frames: &Arc<Frames>,
        is_infinite: bool,
    ) -> Self {
        let replay = (frames.len() > 0).then(|| Replay::new(frames, is_infinite));
        Self { nic: Arc::clone(nic), ring, replay, restored: [const { None }; BATCH_SIZE] }
    }
}

impl RxQueue for SimRxQueue {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        if !self.nic.is_up.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let mut ring = lock(&self.ring);
        if let Some(replay) = &mut self.replay
            && ring.room() >= BATCH_SIZE.min(ring.size())
        {
            replay.fill(&self.nic, &mut ring);
        }
        let first = batch.len();
        let waiting = ring.size() - ring.room();
        let filled = batch.fill(waiting);
        let mut end = first;
        while end < first + filled
            && let Some(arrival) = ring.front()
        {
            let bytes = match &arrival.source {
                Source::Ring(bytes) => bytes.as_slice(),
                Source::Replay(number) => {
                    let replay = self.replay.as_ref();
                    replay.and_then(|replay| replay.frames.get(*number)).unwrap_or(&[])
                }
            };
            let Some(mut packet) = batch.get_mut(end) else { break };
            if !packet.receive_copy(bytes, bytes.len()) {
                // The frame waits until the pool has room again.
                break;
            }
            let descriptor = packet.descriptor_mut();
            descriptor.mark = arrival.mark;
            descriptor.set_rss_hash(arrival.hash);
            if let Some(place) = self.restored.get_mut(end - first) {
                place.clone_from(&arrival.restore);
            }
            ring.pop();
            end += 1;
        }
        drop(ring);
        while batch.len() > end {
            batch.remove(batch.len() - 1);
        }
        if end == first {
            // A poll thread leaves the processor to others while there is nothing to do.
            std::thread::yield_now();
        }
        Ok(end - first)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn restore_info(&mut self, index: usize) -> Option<RestoreInfo> {
        self.restored.get_mut(index)?.take().map(|info| *info)
    }
}

/// A transmit queue.
#[derive(Debug)]
pub(super) struct SimTxQueue {
    nic: Arc<Nic>,
    /// The packets of a batch, each in one piece; buffers are used again.
    frames: Vec<Vec<u8>>,
}

impl SimTxQueue {
    pub(super) fn open(nic: &Arc<Nic>) -> Self {
        Self { nic: Arc::clone(nic), frames: vec![] }
    }
}

impl TxQueue for SimTxQueue {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let mut report = SendReport::default();
        let longest = self.nic.mtu.load(Ordering::Relaxed) as usize + ETHERNET_HEADER_LENGTH;
        let is_up = self.nic.is_up.load(Ordering::Relaxed);
        let mut used = 0;
        for packet in batch.iter() {
            if !is_up {
                report.device_error += 1;
                continue;
            }
            if !fits(packet, packet.len(), longest) {
                report.mtu_exceeded += 1;
                continue;
            }
            if used == self.frames.len() {
                self.frames.push(vec![]);
            }
            if let Some(frame) = self.frames.get_mut(used) {
                frame.clear();
                packet.segments().for_each(|segment| frame.extend_from_slice(segment));
            }
            used += 1;
            report.sent += 1;
        }
        batch.clear();
        self.nic.leave(self.frames.iter().take(used).map(Vec::as_slice));
        if report.dropped() > 0 {
            self.nic.unsent.fetch_add(report.dropped(), Ordering::Relaxed);
        }
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::empty()
    }
}
