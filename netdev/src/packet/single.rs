//! One packet on its own.

use std::sync::Arc;

use super::memory::Frame;
use super::{FramePool, PacketMut, PacketRef};

/// A packet that is in no batch. It owns its frames and returns them when dropped.
#[derive(Debug)]
pub struct Packet {
    pool: Arc<FramePool>,
    /// Empty only while the packet is being taken apart.
    frame: Option<Frame>,
}

impl Packet {
    pub(super) fn from_frame(pool: &Arc<FramePool>, frame: Frame) -> Self {
        Self { pool: Arc::clone(pool), frame: Some(frame) }
    }

    pub(super) fn into_frame(mut self) -> Option<Frame> {
        self.frame.take()
    }

    /// The pool of its frames.
    pub fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    /// The packet, for reading.
    pub fn view(&self) -> PacketRef<'_> {
        match &self.frame {
            Some(frame) => PacketRef::new(&self.pool, frame),
            None => unreachable!("only `into_frame` and `drop` take the frame"),
        }
    }

    /// The packet, for changing it.
    pub fn view_mut(&mut self) -> PacketMut<'_> {
        match &mut self.frame {
            Some(frame) => PacketMut::new(&self.pool, frame),
            None => unreachable!("only `into_frame` and `drop` take the frame"),
        }
    }

    /// A copy of the bytes and of what is known about them, or nothing when the pool has too few
    /// free frames.
    pub fn copy(&self) -> Option<Self> {
        let from = self.view();
        let mut copy = self.pool.packet()?;
        let mut to = copy.view_mut();
        if !from.segments().all(|segment| to.append(segment)) {
            return None;
        }
        to.descriptor_mut().copy_knowledge(from.descriptor());
        Some(copy)
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        self.pool.give_back(std::slice::from_mut(&mut self.frame));
    }
}
