//! The ports that a thread sends to, and what waits to be sent to them.

use std::sync::Arc;
use std::time::Duration;

use netdev::packet::{Batch, Drain, FramePool, Packet};

use super::statistics::Counters;
use super::steering::{self, TxQueues};
use crate::datapath::PortNumber;
use crate::drop::{DropReason, Drops};
use crate::port_map::PortMap;

struct Port {
    queues: TxQueues,
    waiting: Option<Batch>,
    /// When what waits is sent at the latest.
    deadline: Duration,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Transmit {
    ports: PortMap<Port>,
    /// Ports for which packets wait.
    waiting: Vec<PortNumber>,
    /// How long packets may wait for more to be sent with them (`tx-flush-interval`).
    pub(crate) flush_interval: Duration,
    pub(crate) now: Duration,
}

impl Transmit {
    /// Adds a port, or gives it other queues. What waits for it is lost.
    pub(crate) fn add(&mut self, number: PortNumber, queues: TxQueues) {
        self.ports.insert(number, Port { queues, waiting: None, deadline: Duration::ZERO });
        self.waiting.retain(|&port| port != number);
    }

    /// Takes a port off. What waits for it is lost.
    pub(crate) fn remove(&mut self, number: PortNumber) {
        self.ports.remove(number);
        self.waiting.retain(|&port| port != number);
    }

    /// Whether no packet waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends one packet to what waits for a port.
    pub(crate) fn push(
        &mut self,
        number: PortNumber,
        packet: Packet,
        counters: &Counters,
        drops: &mut Drops,
    ) {
        let Some(port) = self.ports.get_mut(number) else {
            drops.add(DropReason::InvalidPort, 1);
            return;
        };
        let packet = match &mut port.waiting {
            Some(waiting) if !waiting.is_empty() => match waiting.push(packet) {
                Ok(()) => return,
                // Full, or for another pool.
                Err(packet) => {
                    port.send(self.now, counters, drops);
                    packet
                }
            },
            _ => {
                self.waiting.push(number);
                port.deadline = self.now + self.flush_interval;
                packet
            }
        };
        // What was made for this pool takes it.
        let _ = port.room_for(packet.pool()).push(packet);
    }

    /// Moves the next packet of `from` to what waits for a port.
    #[inline]
    pub(crate) fn push_next(
        &mut self,
        number: PortNumber,
        from: &mut Drain<'_>,
        counters: &Counters,
        drops: &mut Drops,
    ) {
        let Some(port) = self.ports.get_mut(number) else {
            drops.add(DropReason::InvalidPort, 1);
            from.skip();
            return;
        };
        match &mut port.waiting {
            Some(waiting) if !waiting.is_empty() => {
                if from.move_next_to(waiting) {
                    return;
                }
                port.send(self.now, counters, drops);
            }
            _ => {
                self.waiting.push(number);
                port.deadline = self.now + self.flush_interval;
            }
        }
        let waiting = port.room_for(from.pool());
        from.move_next_to(waiting);
    }

    /// Moves a whole batch to what waits for a port.
    pub(crate) fn push_all(
        &mut self,
        number: PortNumber,
        from: &mut Batch,
        counters: &Counters,
        drops: &mut Drops,
    ) {
        let Some(port) = self.ports.get_mut(number) else {
            drops.add(DropReason::InvalidPort, from.len() as u64);
            from.clear();
            return;
        };
        let was_empty = port.waiting.as_ref().is_none_or(Batch::is_empty);
        if was_empty && !from.is_empty() {
            self.waiting.push(number);
            port.deadline = self.now + self.flush_interval;
        }
        while !from.is_empty() {
            let moved = port.waiting.as_mut().map_or(0, |waiting| from.move_to(waiting));
            if moved == 0 {
                port.send(self.now, counters, drops);
                port.room_for(from.pool());
            }
        }
    }

    /// Leaves shared queues that were not used of late to other threads.
    pub(crate) fn release_idle(&mut self) {
        let now = self.now;
        self.ports.values_mut().for_each(|port| port.queues.release_idle(now));
    }

    /// Sends what has waited long enough, or everything when `all` is set.
    pub(crate) fn flush(&mut self, all: bool, counters: &Counters, drops: &mut Drops) {
        let (ports, now) = (&mut self.ports, self.now);
        self.waiting.retain(|&number| {
            let Some(port) = ports.get_mut(number) else { return false };
            let is_due = all || port.deadline <= now;
            if is_due {
                port.send(now, counters, drops);
            }
            !is_due
        });
    }
}

impl Port {
    /// Sends what waits.
    fn send(&mut self, now: Duration, counters: &Counters, drops: &mut Drops) {
        let Some(waiting) = self.waiting.as_mut().filter(|waiting| !waiting.is_empty()) else {
            return;
        };
        counters.sent.add(waiting.len() as u64);
        counters.sent_batches.add(1);
        let report = self.queues.send(waiting, now);
        for (reason, count) in [
            (DropReason::MtuExceeded, report.mtu_exceeded),
            (DropReason::TransmitFull, report.no_room),
            (DropReason::TransmitInvalid, report.invalid),
            (DropReason::TransmitError, report.device_error),
        ] {
            if count > 0 {
                drops.add(reason, count);
            }
        }
    }

    /// An empty batch for packets of `pool`. Call it when nothing waits.
    fn room_for(&mut self, pool: &Arc<FramePool>) -> &mut Batch {
        steering::room_for(&mut self.waiting, pool)
    }
}

#[cfg(test)]
mod tests {
    use netdev::port::Port as _;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::MemoryPort;

    const PORTS: [PortNumber; 2] = [PortNumber(1), PortNumber(70_000)];

    fn batch(pool: &Arc<FramePool>, first: u8, count: u8) -> Batch {
        let mut batch = Batch::new(pool);
        batch.fill(count.into());
        for (mut packet, number) in batch.iter_mut().zip(first..) {
            assert!(packet.append(&[number]));
        }
        batch
    }

    proptest! {
        /// However packets come, from whatever pool, they leave in order, and none stays behind.
        #[test]
        fn packets_of_a_port_stay_in_order(
            steps in prop::collection::vec((0..3u8, 0..2usize, 0..2usize, 1..33u8), 1..40),
            is_flushed in any::<bool>(),
        ) {
            let pools = [FramePool::new(256).unwrap(), FramePool::new(256).unwrap()];
            let mut ports = [MemoryPort::new("a", 1, false), MemoryPort::new("b", 1, false)];
            let mut transmit = Transmit::default();
            for (number, port) in PORTS.into_iter().zip(&mut ports) {
                transmit.add(number, TxQueues::Own(port.open_tx(0).unwrap()));
            }
            let (counters, mut drops) = (Counters::default(), Drops::new());
            let mut expected = [vec![], vec![]];
            let mut pushed = 0u8;
            for (kind, port, pool, count) in steps {
                let mut batch = batch(&pools[pool], 0, count);
                for mut packet in batch.iter_mut() {
                    packet.data_mut()[0] = pushed;
                    expected[port].push(vec![pushed]);
                    pushed = pushed.wrapping_add(1);
                }
                let number = PORTS[port];
                match kind {
                    0 => transmit.push_all(number, &mut batch, &counters, &mut drops),
                    1 => {
                        let mut drain = batch.drain();
                        for _ in 0..count {
                            transmit.push_next(number, &mut drain, &counters, &mut drops);
                        }
                    }
                    _ => {
                        while let Some(packet) = batch.remove(0) {
                            transmit.push(number, packet, &counters, &mut drops);
                        }
                    }
                }
                transmit.flush(is_flushed, &counters, &mut drops);
            }
            transmit.flush(true, &counters, &mut drops);
            prop_assert!(transmit.is_idle());
            prop_assert_eq!(counters.sent.get(), expected.iter().flatten().count() as u64);
            for (port, expected) in ports.iter().zip(expected) {
                prop_assert_eq!(port.take_sent(), expected);
            }
            prop_assert_eq!(pools.map(|pool| pool.counts().held), [0, 0]);
        }
    }

    #[test]
    fn packets_wait_for_others_as_long_as_they_may() {
        let pool = FramePool::new(64).unwrap();
        let mut port = MemoryPort::new("a", 1, false);
        let mut transmit = Transmit::default();
        transmit.add(PortNumber(1), TxQueues::Own(port.open_tx(0).unwrap()));
        transmit.flush_interval = Duration::from_millis(1);
        let (counters, mut drops) = (Counters::default(), Drops::new());
        for (now, sent) in [(10, 0), (10, 0), (11, 3), (11, 0), (12, 2)] {
            transmit.now = Duration::from_millis(now);
            let mut batch = batch(&pool, 0, 1);
            transmit.push_all(PortNumber(1), &mut batch, &counters, &mut drops);
            transmit.flush(false, &counters, &mut drops);
            assert_eq!(port.take_sent().len(), sent, "at {now} ms");
        }
        assert!(transmit.is_idle());
        let mut batch = batch(&pool, 0, 2);
        transmit.push_all(PortNumber(9), &mut batch, &counters, &mut drops);
        transmit.remove(PortNumber(1));
        assert!(transmit.is_idle());
        assert_eq!(pool.counts().held, 0);
    }
}
