//! Queues of a dummy port.

use std::collections::VecDeque;

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
    frames: VecDeque<Vec<u8>>,
    pub(super) received: QueueCounters,
}

impl ReceiveQueue {
    /// Appends `frame`; false when the queue was full and the frame is lost.
    pub(super) fn push(&mut self, frame: Vec<u8>) -> bool {
        let has_room = self.frames.len() < MAX_WAITING;
        if has_room {
            self.frames.push_back(frame);
        }
        has_room
    }

    /// Takes the oldest frame and counts it as received.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.received.count(&frame);
        Some(frame)
    }
}
