//! The ports that a thread sends to, and what waits to be sent to them.

use std::sync::Arc;
use std::time::Duration;

use netdev::packet::{Batch, Drain, FramePool, Packet};
use netdev::queue::TxQueue;

use super::statistics::Counters;
use crate::datapath::PortNumber;
use crate::drop::{DropReason, Drops};
use crate::port_map::PortMap;

struct Port {
    queue: Box<dyn TxQueue>,
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
    /// Adds a port, or gives it another queue.
    pub(crate) fn add(&mut self, number: PortNumber, queue: Box<dyn TxQueue>) {
        self.ports.insert(number, Port { queue, waiting: None, deadline: Duration::ZERO });
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
                    port.send(counters, drops);
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
                port.send(counters, drops);
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
                port.send(counters, drops);
                port.room_for(from.pool());
            }
        }
    }

    /// Sends what has waited long enough, or everything when `all` is set.
    pub(crate) fn flush(&mut self, all: bool, counters: &Counters, drops: &mut Drops) {
        let (ports, now) = (&mut self.ports, self.now);
        self.waiting.retain(|&number| {
            let Some(port) = ports.get_mut(number) else { return false };
            let is_due = all || port.deadline <= now;
            if is_due {
                port.send(counters, drops);
            }
            !is_due
        });
    }
}

impl Port {
    /// Sends what waits.
    fn send(&mut self, counters: &Counters, drops: &mut Drops) {
        let Some(waiting) = self.waiting.as_mut().filter(|waiting| !waiting.is_empty()) else {
            return;
        };
        counters.sent.add(waiting.len() as u64);
        counters.sent_batches.add(1);
        let report = self.queue.send(waiting);
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
        self.waiting.take_if(|waiting| !Arc::ptr_eq(waiting.pool(), pool));
        self.waiting.get_or_insert_with(|| Batch::new(pool))
    }
}
