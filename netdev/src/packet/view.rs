//! Reading and changing a packet, wherever it is kept.

use std::sync::Arc;

use super::memory::{FRAME_SIZE, Frame};
use super::{Descriptor, FramePool};

/// A packet, for reading.
#[derive(Debug, Clone, Copy)]
pub struct PacketRef<'a> {
    pool: &'a Arc<FramePool>,
    frame: &'a Frame,
}

/// A packet, for changing it.
#[derive(Debug)]
pub struct PacketMut<'a> {
    pool: &'a Arc<FramePool>,
    frame: &'a mut Frame,
}

/// The data of a packet, frame by frame.
#[derive(Debug, Clone)]
pub struct Segments<'a> {
    pool: &'a FramePool,
    next: Option<&'a Frame>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (descriptor, bytes) = self.pool.memory().parts(self.next?);
        self.next = descriptor.next.as_ref();
        Some(data(descriptor, bytes))
    }
}

#[inline]
fn data<'a>(descriptor: &Descriptor, bytes: &'a [u8; FRAME_SIZE]) -> &'a [u8] {
    let start = usize::from(descriptor.offset);
    bytes.get(start..start + usize::from(descriptor.length)).unwrap_or(&[])
}

impl<'a> PacketRef<'a> {
    #[inline]
    pub(super) fn new(pool: &'a Arc<FramePool>, frame: &'a Frame) -> Self {
        Self { pool, frame }
    }

    /// What is known about the packet.
    #[inline]
    pub fn descriptor(&self) -> &'a Descriptor {
        self.pool.memory().parts(self.frame).0
    }

    /// The data in the first frame: all of it, unless the packet has several.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        let (descriptor, bytes) = self.pool.memory().parts(self.frame);
        data(descriptor, bytes)
    }

    /// What is known about the packet, and its data, if they are all in one frame.
    #[inline]
    pub fn whole(&self) -> Option<(&'a Descriptor, &'a [u8])> {
        let (descriptor, bytes) = self.pool.memory().parts(self.frame);
        descriptor.is_whole().then(|| (descriptor, data(descriptor, bytes)))
    }

    /// The data, frame by frame.
    pub fn segments(&self) -> Segments<'a> {
        Segments { pool: self.pool, next: Some(self.frame) }
    }

    /// Bytes in all frames.
    #[inline]
    pub fn len(&self) -> usize {
        let descriptor = self.descriptor();
        match descriptor.next {
            None => usize::from(descriptor.length),
            Some(_) => self.segments().map(<[u8]>::len).sum(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from `offset` on to `out`, across frames, and returns how many there were.
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) -> usize {
        let (mut skip, mut copied) = (offset, 0);
        for segment in self.segments() {
            let (before, segment) = segment.split_at(skip.min(segment.len()));
            skip -= before.len();
            let free = &mut out[copied..];
            let count = free.len().min(segment.len());
            free[..count].copy_from_slice(&segment[..count]);
            copied += count;
        }
        copied
    }

    /// `length` bytes from `offset` on: in place when one frame holds them, else copied to the
    /// front of `scratch`. Nothing when the packet ends before, or `scratch` is too short.
    pub fn header<'b>(
        &self,
        offset: usize,
        length: usize,
        scratch: &'b mut [u8],
    ) -> Option<&'b [u8]>
    where
        'a: 'b,
    {
        let end = offset.checked_add(length)?;
        if let Some(bytes) = self.data().get(offset..end) {
            return Some(bytes);
        }
        let scratch = scratch.get_mut(..length)?;
        (end <= self.len() && self.copy_out(offset, scratch) == length).then_some(scratch)
    }
}

impl<'a> PacketMut<'a> {
    #[inline]
    pub(super) fn new(pool: &'a Arc<FramePool>, frame: &'a mut Frame) -> Self {
        Self { pool, frame }
    }

    /// The packet, for reading.
    #[inline]
    pub fn view(&self) -> PacketRef<'_> {
        PacketRef::new(self.pool, self.frame)
    }

    /// What is known about the packet.
    #[inline]
    pub fn descriptor_mut(&mut self) -> &mut Descriptor {
        self.pool.memory().parts_mut(self.frame).0
    }

    /// The data in the first frame.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        self.parts_mut().1
    }

    /// What is known about the packet, and the data in the first frame.
    #[inline]
    pub fn parts_mut(&mut self) -> (&mut Descriptor, &mut [u8]) {
        let (descriptor, bytes) = self.pool.memory().parts_mut(self.frame);
        let start = usize::from(descriptor.offset);
        let end = start + usize::from(descriptor.length);
        (descriptor, bytes.get_mut(start..end).unwrap_or(&mut []))
    }

    /// The room that an empty packet has for data in its first frame, for a port to receive into;
    /// [`Self::set_received`] says how much it used.
    #[inline]
    pub fn receive_buffer(&mut self) -> &mut [u8] {
        let (descriptor, bytes) = self.pool.memory().parts_mut(self.frame);
        bytes.get_mut(usize::from(descriptor.offset)..).unwrap_or(&mut [])
    }

    /// Copies bytes to an empty packet, as [`Self::append`] does. Short ones are copied with what
    /// follows them in `source`, whose first `length` bytes they are.
    #[inline]
    pub(crate) fn receive_copy(&mut self, source: &[u8], length: usize) -> bool {
        const SHORT: usize = 64;
        let (descriptor, bytes) = self.pool.memory().parts_mut(self.frame);
        let room = bytes.get_mut(usize::from(descriptor.offset)..).unwrap_or(&mut []);
        if length <= SHORT
            && let Some(from) = source.first_chunk::<SHORT>()
            && let Some(to) = room.first_chunk_mut::<SHORT>()
        {
            *to = *from;
            descriptor.length = length as u16;
            return true;
        }
        source.get(..length).is_some_and(|bytes| self.append(bytes))
    }

    /// Makes the first `length` bytes of [`Self::receive_buffer`] the data, or all of it when
    /// that is shorter.
    #[inline]
    pub fn set_received(&mut self, length: usize) {
        let (descriptor, _) = self.pool.memory().parts_mut(self.frame);
        let room = FRAME_SIZE as u16 - descriptor.offset;
        descriptor.length = u16::try_from(length).map_or(room, |length| length.min(room));
    }

    /// Makes room for `count` bytes at the front and returns them with what was there before.
    /// Offsets of layers move along. Nothing happens when the headroom is shorter.
    pub fn push_front(&mut self, count: usize) -> Option<&mut [u8]> {
        let (descriptor, bytes) = self.pool.memory().parts_mut(self.frame);
        let count = u16::try_from(count).ok()?;
        descriptor.offset = descriptor.offset.checked_sub(count)?;
        descriptor.length += count;
        descriptor.shift(i32::from(count));
        let start = usize::from(descriptor.offset);
        bytes.get_mut(start..start + usize::from(count))
    }

    /// Makes the headroom `count` bytes long at least, so that [`Self::push_front`] finds as much.
    /// Where it is shorter, the data moves within its frame, or to another one. Returns false and
    /// leaves the packet as it was when no frame is free, or none is so long.
    pub fn reserve_front(&mut self, count: usize) -> bool {
        let memory = self.pool.memory();
        let (descriptor, bytes) = memory.parts_mut(self.frame);
        let (start, length) = (usize::from(descriptor.offset), usize::from(descriptor.length));
        if count <= start {
            return true;
        }
        if count + length <= FRAME_SIZE {
            let to = FRAME_SIZE - length;
            bytes.copy_within(start..start + length, to);
            descriptor.offset = to as u16;
            return true;
        }
        let mut taken = [None];
        if count > FRAME_SIZE || self.pool.take(&mut taken) == 0 {
            return false;
        }
        let [Some(mut frame)] = taken else { return false };
        let (behind, room) = memory.parts_mut(&mut frame);
        room[..length].copy_from_slice(&bytes[start..start + length]);
        (behind.offset, behind.length) = (0, descriptor.length);
        behind.next = descriptor.next.take();
        descriptor.next = Some(frame);
        (descriptor.offset, descriptor.length) = (FRAME_SIZE as u16, 0);
        true
    }

    /// Removes `count` bytes from the front. Offsets of layers move along; those of removed
    /// headers are forgotten. Nothing happens when the packet is shorter.
    pub fn pull_front(&mut self, count: usize) -> bool {
        if count > self.view().len() {
            return false;
        }
        let memory = self.pool.memory();
        let (first, _) = memory.parts_mut(self.frame);
        first.shift(i32::try_from(count).map_or(i32::MIN / 2, |count| -count));
        let mut left = count;
        let mut frame = &mut *self.frame;
        loop {
            let (descriptor, _) = memory.parts_mut(frame);
            let here = left.min(usize::from(descriptor.length)) as u16;
            descriptor.offset += here;
            descriptor.length -= here;
            left -= usize::from(here);
            match &mut descriptor.next {
                Some(next) if left > 0 => frame = next,
                _ => return true,
            }
        }
    }

    /// Appends bytes, in further frames as far as they do not fit. Returns false and leaves the
    /// packet as it was when the pool has too few free frames.
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let before = self.view().len();
        let memory = self.pool.memory();
        let mut rest = bytes;
        let mut frame = &mut *self.frame;
        loop {
            let (descriptor, room) = memory.parts_mut(frame);
            if descriptor.next.is_none() {
                let end = usize::from(descriptor.offset) + usize::from(descriptor.length);
                let room = room.get_mut(end..).unwrap_or(&mut []);
                let (here, later) = rest.split_at(rest.len().min(room.len()));
                room[..here.len()].copy_from_slice(here);
                descriptor.length += here.len() as u16;
                rest = later;
                if rest.is_empty() {
                    return true;
                }
                self.pool.take(std::slice::from_mut(&mut descriptor.next));
            }
            match &mut descriptor.next {
                Some(next) => frame = next,
                None => break,
            }
        }
        self.truncate(before);
        false
    }

    /// Removes what is behind the first `length` bytes, and the frames that held it.
    pub fn truncate(&mut self, length: usize) {
        let memory = self.pool.memory();
        let mut left = length;
        let mut frame = &mut *self.frame;
        loop {
            let (descriptor, _) = memory.parts_mut(frame);
            let here = left.min(usize::from(descriptor.length)) as u16;
            descriptor.length = here;
            left -= usize::from(here);
            if left == 0 {
                self.pool.give_back(std::slice::from_mut(&mut descriptor.next));
            }
            match &mut descriptor.next {
                Some(next) => frame = next,
                None => return,
            }
        }
    }

    /// Overwrites bytes from `offset` on, across frames. Returns false and changes nothing when
    /// the packet ends before.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> bool {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.view().len()) {
            return false;
        }
        let memory = self.pool.memory();
        let (mut skip, mut rest) = (offset, bytes);
        let mut frame = &mut *self.frame;
        loop {
            let (descriptor, room) = memory.parts_mut(frame);
            let start = usize::from(descriptor.offset);
            let data = &mut room[start..start + usize::from(descriptor.length)];
            let (before, data) = data.split_at_mut(skip.min(data.len()));
            skip -= before.len();
            let (here, later) = rest.split_at(rest.len().min(data.len()));
            data[..here.len()].copy_from_slice(here);
            rest = later;
            match &mut descriptor.next {
                Some(next) if !rest.is_empty() => frame = next,
                _ => return true,
            }
        }
    }
}
