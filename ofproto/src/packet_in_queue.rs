//! Packets on their way to controllers: upcalls on any thread put them in, the control thread
//! takes them out.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::news::News;
use crate::openflow::message::PacketIn;
use crate::switches::SwitchId;
use netdev::coverage::Counter;

pub(crate) static OVERFLOW: Counter = Counter::new("packet_in_overflow");

/// Packets that may wait. Those that come when there are as many are lost.
const CAPACITY: usize = 1024;

/// A packet for the controllers of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedPacketIn {
    /// The switch.
    pub switch: SwitchId,
    /// The number of the controllers that get it.
    pub controller_id: u16,
    /// Bytes of the packet that they get, unless they say otherwise.
    pub max_len: u16,
    /// Whether they may resume it. Otherwise the message has no continuation.
    pub is_continuation: bool,
    /// The message, with the whole packet.
    pub message: PacketIn,
}

/// See the [module](self).
#[derive(Debug)]
pub struct PacketInQueue {
    waiting: Mutex<VecDeque<QueuedPacketIn>>,
    news: News,
}

impl PacketInQueue {
    /// An empty queue. Packets in it are `news`.
    pub(crate) fn new(news: News) -> Self {
        Self { waiting: Mutex::default(), news }
    }

    /// Adds a packet, or counts it as lost if too many wait.
    pub fn push(&self, packet: QueuedPacketIn) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= CAPACITY {
            OVERFLOW.add(1);
            return;
        }
        waiting.push_back(packet);
        drop(waiting);
        self.news.arrive();
    }

    /// Takes all packets, in the order in which they came.
    pub fn take(&self) -> VecDeque<QueuedPacketIn> {
        std::mem::take(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::action::PacketInReason;
    use crate::openflow::flow_match::Match;
    use crate::openflow::message::Continuation;

    fn packet(controller_id: u16) -> QueuedPacketIn {
        let message = PacketIn {
            packet: vec![],
            total_len: 0,
            buffer_id: u32::MAX,
            reason: PacketInReason::ACTION,
            table_id: 0,
            cookie: None,
            metadata: Match::new(),
            userdata: vec![],
            continuation: Continuation::default(),
        };
        let switch = SwitchId([0; 16]);
        QueuedPacketIn { switch, controller_id, max_len: 0, is_continuation: false, message }
    }

    #[test]
    fn packets_beyond_the_capacity_are_lost() {
        let queue = PacketInQueue::new(News::default());
        let lost = OVERFLOW.get();
        for id in 0..CAPACITY as u16 + 2 {
            queue.push(packet(id));
        }
        let expected: Vec<_> = (0..CAPACITY as u16).map(packet).collect();
        assert_eq!(queue.take(), expected);
        assert_eq!(OVERFLOW.get() - lost, 2);
        assert_eq!(queue.take(), []);
    }
}
