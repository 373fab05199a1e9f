//! Receive rings: frames that have arrived, each with what the device found out when it did.

use std::collections::VecDeque;

use crate::flow_api::RestoreInfo;

/// Where the bytes of a frame are.
#[derive(Debug)]
pub(super) enum Source {
    /// In the ring.
    Ring(Vec<u8>),
    /// In the file that the queue replays: the number of the frame.
    Replay(usize),
}

/// A frame that has arrived. What is known of it stays as it was then, whatever happens to the
/// rule in the meantime.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) source: Source,
    /// Flow mark; 0 is none.
    pub(super) mark: u32,
    pub(super) hash: Option<u32>,
    pub(super) restore: Option<Box<RestoreInfo>>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Ring {
    arrivals: VecDeque<Arrival>,
    /// Buffers that are used again.
    spare: Vec<Vec<u8>>,
    size: usize,
    /// Frames that found no room.
    pub(super) lost: u64,
}

impl Ring {
    pub(super) fn new(size: usize) -> Self {
        Self { arrivals: VecDeque::new(), spare: vec![], size, lost: 0 }
    }

    /// Frames that fit.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Frames that still fit.
    pub(super) fn room(&self) -> usize {
        self.size - self.arrivals.len().min(self.size)
    }

    /// Appends a frame; one that finds no room is lost.
    pub(super) fn push(&mut self, arrival: Arrival) {
        if self.room() == 0 {
            self.lost += 1;
            self.recycle(arrival);
            return;
        }
        self.arrivals.push_back(arrival);
    }

    /// A copy of `bytes`, in a buffer that was used before where there is one.
    pub(super) fn buffer(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        buffer
    }

    /// The oldest frame.
    pub(super) fn front(&self) -> Option<&Arrival> {
        self.arrivals.front()
    }

    /// Removes the oldest frame.
    pub(super) fn pop(&mut self) {
        if let Some(arrival) = self.arrivals.pop_front() {
            self.recycle(arrival);
        }
    }

    fn recycle(&mut self, arrival: Arrival) {
        if let Source::Ring(buffer) = arrival.source
            && self.spare.len() < self.size
        {
            self.spare.push(buffer);
        }
    }
}
