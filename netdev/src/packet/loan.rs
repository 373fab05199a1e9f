//! Frames in the hands of a device that reads and writes them by itself, such as an AF_XDP socket.

use std::sync::Arc;

use super::batch::{BATCH_SIZE, Batch, Drain};
use super::descriptor::Descriptor;
use super::memory::{FRAME_SIZE, Frame};
use super::{FramePool, PacketMut};

/// Most frames that a packet may have when it is lent or received.
pub(crate) const MAX_PIECES: usize = 64;

/// A part of a packet: where it lies in the region of its pool, and how many bytes it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) length: u32,
}

/// Frames of one pool that were lent to a device. It keeps the right to each of them, so nothing
/// in the switch can reach a frame while the device may. Drop it only when the device has let go of
/// all: those that are still lent return to the pool then.
#[derive(Debug)]
pub(crate) struct Loan {
    pool: Arc<FramePool>,
    /// By place in the pool.
    lent: Vec<Option<Frame>>,
    count: usize,
}

impl Loan {
    pub(crate) fn new(pool: &Arc<FramePool>) -> Self {
        let lent = (0..pool.memory().count()).map(|_| None).collect();
        Self { pool: Arc::clone(pool), lent, count: 0 }
    }

    pub(crate) fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// Frames that are lent now.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Lends up to `count` free frames, [`BATCH_SIZE`] at most, and tells `put` where each starts.
    /// Returns how many there were.
    pub(crate) fn lend_free(&mut self, count: usize, mut put: impl FnMut(u64)) -> usize {
        let mut frames = [const { None }; BATCH_SIZE];
        let taken = self.pool.take(frames.get_mut(..count.min(BATCH_SIZE)).unwrap_or(&mut []));
        for frame in frames.into_iter().flatten() {
            put(self.lend(frame));
        }
        taken
    }

    /// Lends the next packet of `packets`, which must be from this pool, and tells `put` its
    /// pieces. Frames without data return to the pool.
    pub(crate) fn lend_next(&mut self, packets: &mut Drain<'_>, mut put: impl FnMut(Piece)) {
        let mut next = packets.next_frame();
        while let Some(mut frame) = next {
            let (descriptor, _) = self.pool.memory().parts_mut(&mut frame);
            let (offset, length) = (descriptor.offset, descriptor.length);
            next = descriptor.next.take();
            if length == 0 {
                self.pool.give_back(&mut [Some(frame)]);
                continue;
            }
            let address = self.lend(frame) + u64::from(offset);
            put(Piece { address, length: length.into() });
        }
    }

    /// Takes frames back and returns them to the pool. Addresses of frames that are not lent are
    /// left alone. Returns how many were.
    pub(crate) fn take_back(&mut self, addresses: impl Iterator<Item = u64>) -> usize {
        let mut frames = [const { None }; BATCH_SIZE];
        let (mut filled, mut total) = (0, 0);
        for address in addresses {
            let Some(frame) = self.reclaim(address) else { continue };
            total += 1;
            if let Some(place) = frames.get_mut(filled) {
                *place = Some(frame);
                filled += 1;
            }
            if filled == BATCH_SIZE {
                self.pool.give_back(&mut frames);
                filled = 0;
            }
        }
        self.pool.give_back(&mut frames);
        total
    }

    /// Takes back the frames of a packet that was received into lent ones, appends it to `batch`,
    /// which must be for this pool and have room, and gives it to `look`. False when a piece lies in
    /// no lent frame; the packet is lost then.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        pieces: &[Piece],
        batch: &mut Batch,
        look: impl FnOnce(PacketMut<'_>),
    ) -> bool {
        let mut rest = None;
        let mut is_whole = true;
        // From the last, so that each finds the one that follows.
        for &Piece { address, length } in pieces.iter().rev() {
            let Some(mut frame) = self.reclaim(address) else {
                is_whole = false;
                continue;
            };
            let offset = address % FRAME_SIZE as u64;
            let room = FRAME_SIZE as u64 - offset;
            let (descriptor, _) = self.pool.memory().parts_mut(&mut frame);
            *descriptor = Descriptor::empty_at(offset as u16);
            descriptor.length = u64::from(length).min(room) as u16;
            descriptor.next = rest.take();
            rest = Some(frame);
        }
        let pushed = is_whole && batch.push_frame(&mut rest);
        if pushed {
            if let Some(packet) = batch.last_mut() {
                look(packet);
            }
        } else {
            self.pool.give_back(&mut [rest]);
        }
        pushed
    }

    fn lend(&mut self, frame: Frame) -> u64 {
        let slot = self.pool.memory().slot(&frame);
        // There is a place for each frame of the pool.
        if let Some(place) = self.lent.get_mut(slot) {
            *place = Some(frame);
            self.count += 1;
        }
        (slot * FRAME_SIZE) as u64
    }

    #[inline]
    fn reclaim(&mut self, address: u64) -> Option<Frame> {
        let slot = usize::try_from(address / FRAME_SIZE as u64).ok()?;
        let frame = self.lent.get_mut(slot)?.take()?;
        self.count -= 1;
        Some(frame)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if self.count > 0 {
            self.pool.give_back(&mut self.lent);
        }
    }
}
