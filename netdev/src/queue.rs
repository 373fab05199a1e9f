//! The data side of a port: queues that move packets between a device and the datapath.
//!
//! A queue belongs to one thread at a time. [`Port::open_rx`](crate::port::Port::open_rx) and
//! [`Port::open_tx`](crate::port::Port::open_tx) make queues, which stay valid when the port
//! itself is changed or dropped: a queue whose device is gone fails, it does not dangle.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::errno;
use crate::flow_api::RestoreInfo;
use crate::offload::TransmitOffloads;
use crate::packet::Batch;

/// Receives the packets of one receive queue.
pub trait RxQueue: Send {
    /// Appends packets that have arrived to `batch`, as many as it has room for, and returns how
    /// many; 0 when none waits. Never blocks. `batch` is for the pool with which the queue was
    /// opened. The queue fills in the descriptor (RSS hash, mark, checksum and segmentation
    /// state, VLAN tag) except `in_port`, which the caller sets.
    ///
    /// # Errors
    /// When the device failed. The caller may try again; a device that is gone keeps failing.
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError>;

    /// Becomes readable when a packet arrives. `None` when the queue can only be polled.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Takes word of how far the device got with packet `index` of the batch received last, for
    /// queues of devices that [may stop half way](crate::flow_api::Capabilities::RESTORE).
    fn restore_info(&mut self, index: usize) -> Option<RestoreInfo> {
        let _ = index;
        None
    }
}

/// Sends packets to one transmit queue.
pub trait TxQueue: Send {
    /// Sends the packets of `batch` in order and leaves it empty. Never blocks: what cannot be
    /// sent now is dropped and counted.
    fn send(&mut self, batch: &mut Batch) -> SendReport;

    /// Work on a packet that the queue does itself. What else a packet needs (a partial checksum
    /// finished, a large packet cut up) has been done before it comes to [`Self::send`].
    fn offloads(&self) -> TransmitOffloads;
}

/// What became of the packets of a batch. The counts add up to the packets of the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct SendReport {
    /// Handed to the device.
    pub sent: u64,
    /// Dropped because they are longer than the port's MTU allows.
    pub mtu_exceeded: u64,
    /// Dropped because the device had no room.
    pub no_room: u64,
    /// Dropped because a header that has to be finished is malformed or cut short.
    pub invalid: u64,
    /// Dropped because the device is down or gone, or refused them.
    pub device_error: u64,
}

impl SendReport {
    /// Packets that were not sent.
    pub fn dropped(&self) -> u64 {
        self.mtu_exceeded + self.no_room + self.invalid + self.device_error
    }
}

impl std::ops::AddAssign for SendReport {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.mtu_exceeded += other.mtu_exceeded;
        self.no_room += other.no_room;
        self.invalid += other.invalid;
        self.device_error += other.device_error;
    }
}

/// Why a queue could not receive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The device failed or is gone.
    #[error("{port}: could not receive from queue {queue} ({})", errno::description(*.errno))]
    Device {
        /// Name of the port.
        port: String,
        /// Number of the receive queue.
        queue: usize,
        /// Cause; `ENODEV` when the device was removed.
        errno: Errno,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_add_up() {
        let mut total =
            SendReport { sent: 3, mtu_exceeded: 1, no_room: 2, invalid: 4, device_error: 8 };
        total += SendReport { sent: 10, mtu_exceeded: 1, no_room: 1, invalid: 1, device_error: 1 };
        assert_eq!(
            total,
            SendReport { sent: 13, mtu_exceeded: 2, no_room: 3, invalid: 5, device_error: 9 }
        );
        assert_eq!(total.dropped(), 19);
    }
}
