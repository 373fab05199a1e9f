//! Up to 32 packets on their way together.

use std::sync::Arc;

use super::memory::Frame;
use super::{FramePool, Packet, PacketMut, PacketRef};

/// Most packets of a batch.
pub const BATCH_SIZE: usize = 32;

/// An ordered batch of packets from one pool. It owns their frames and returns what is left in it
/// when dropped, all at once.
#[derive(Debug)]
pub struct Batch {
    pool: Arc<FramePool>,
    /// The first `len` places are taken, the others are not.
    frames: [Option<Frame>; BATCH_SIZE],
    len: usize,
}

impl Batch {
    /// An empty batch for packets of `pool`.
    pub fn new(pool: &Arc<FramePool>) -> Self {
        Self { pool: Arc::clone(pool), frames: [const { None }; BATCH_SIZE], len: 0 }
    }

    /// The pool whose packets go into the batch.
    #[inline]
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Packets that still fit.
    #[inline]
    pub fn room(&self) -> usize {
        BATCH_SIZE - self.len
    }

    /// Appends up to `count` empty packets and returns how many: fewer when the batch gets full
    /// or the pool runs out of frames.
    #[inline]
    pub fn fill(&mut self, count: usize) -> usize {
        let end = BATCH_SIZE.min(self.len.saturating_add(count));
        let added = self.pool.take(&mut self.frames[self.len..end]);
        self.len += added;
        added
    }

    /// Appends a packet. Gives it back when the batch is full or the packet is from another pool.
    pub fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.len == BATCH_SIZE || !Arc::ptr_eq(packet.pool(), &self.pool) {
            return Err(packet);
        }
        self.frames[self.len] = packet.into_frame();
        self.len += 1;
        Ok(())
    }

    /// Appends a packet by its first frame, which must be from this pool. Leaves it where it is,
    /// and the result is false, when the batch is full or there is none.
    #[inline]
    pub(super) fn push_frame(&mut self, frame: &mut Option<Frame>) -> bool {
        match self.frames.get_mut(self.len) {
            Some(place) if frame.is_some() => {
                *place = frame.take();
                self.len += 1;
                true
            }
            _ => false,
        }
    }

    /// The packet appended last.
    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<PacketMut<'_>> {
        self.get_mut(self.len.checked_sub(1)?)
    }

    /// Takes out packet `index`; those behind it move up.
    pub fn remove(&mut self, index: usize) -> Option<Packet> {
        if index >= self.len {
            return None;
        }
        let frame = self.frames[index].take();
        self.frames[index..self.len].rotate_left(1);
        self.len -= 1;
        frame.map(|frame| Packet::from_frame(&self.pool, frame))
    }

    /// Moves as many packets as fit to the end of `to`, from the front and in order, and returns
    /// how many: none when `to` is for another pool.
    #[inline]
    pub fn move_to(&mut self, to: &mut Self) -> usize {
        self.move_front(self.len, to)
    }

    /// Moves up to `count` packets, as [`Self::move_to`] does.
    #[inline]
    pub fn move_front(&mut self, count: usize, to: &mut Self) -> usize {
        if !Arc::ptr_eq(&self.pool, &to.pool) {
            return 0;
        }
        let moved = count.min(self.len).min(to.room());
        let from = self.frames[..moved].iter_mut();
        for (place, frame) in to.frames[to.len..].iter_mut().zip(from) {
            *place = frame.take();
        }
        to.len += moved;
        self.frames[..self.len].rotate_left(moved);
        self.len -= moved;
        moved
    }

    /// Takes the packets out one by one, in order. Those that are left when the result is dropped
    /// are dropped, all at once.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        Drain { batch: self, next: 0 }
    }

    /// Drops every packet, all at once.
    #[inline]
    pub fn clear(&mut self) {
        self.pool.give_back(&mut self.frames[..self.len]);
        self.len = 0;
    }

    /// Packet `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<PacketRef<'_>> {
        let frame = self.frames.get(index)?.as_ref()?;
        Some(PacketRef::new(&self.pool, frame))
    }

    /// Packet `index`, for changing it.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<PacketMut<'_>> {
        let frame = self.frames.get_mut(index)?.as_mut()?;
        Some(PacketMut::new(&self.pool, frame))
    }

    /// The packets in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = PacketRef<'_>> {
        self.frames[..self.len].iter().flatten().map(|frame| PacketRef::new(&self.pool, frame))
    }

    /// The packets in order, for changing them.
    #[inline]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = PacketMut<'_>> {
        let frames = self.frames[..self.len].iter_mut().flatten();
        frames.map(|frame| PacketMut::new(&self.pool, frame))
    }
}

/// Packets that are being taken out of a batch; see [`Batch::drain`].
#[derive(Debug)]
pub struct Drain<'a> {
    batch: &'a mut Batch,
    next: usize,
}

impl Drain<'_> {
    /// Takes out the next packet.
    #[inline]
    pub fn next_packet(&mut self) -> Option<Packet> {
        let frame = self.next_frame()?;
        Some(Packet::from_frame(&self.batch.pool, frame))
    }

    /// Takes out the first frame of the next packet.
    #[inline]
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        let frame = self.batch.frames.get_mut(self.next)?.take()?;
        self.next += 1;
        Some(frame)
    }

    /// Reads the next packet.
    #[inline]
    pub(crate) fn peek(&self) -> Option<PacketRef<'_>> {
        self.batch.get(self.next)
    }

    /// The next packet, for changing it.
    #[inline]
    pub(crate) fn peek_mut(&mut self) -> Option<PacketMut<'_>> {
        self.batch.get_mut(self.next)
    }

    /// Moves the next packet to the end of `to`. Nothing happens, and the result is false, when
    /// there is none, or `to` is full or for another pool.
    #[inline]
    pub fn move_next_to(&mut self, to: &mut Batch) -> bool {
        if !Arc::ptr_eq(&self.batch.pool, &to.pool) {
            return false;
        }
        let (from, place) = (self.batch.frames.get_mut(self.next), to.frames.get_mut(to.len));
        let (Some(from @ Some(_)), Some(place)) = (from, place) else {
            return false;
        };
        *place = from.take();
        to.len += 1;
        self.next += 1;
        true
    }

    /// The pool of the packets.
    #[inline]
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.batch.pool
    }

    /// Drops the next packet.
    #[inline]
    pub fn skip(&mut self) {
        // Its frame goes back with what else is left.
        self.next += 1;
    }
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        self.batch.clear();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.clear();
    }
}
