//! Queues of existing devices, by way of packet sockets. One call moves a whole batch; packets of
//! up to 64 KiB that the kernel did not cut up come and go in one piece.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::counters::Losses;
use super::links::Device;
use super::outgoing::{Outgoing, VnetHeaders};
use super::packet_socket::{Message, PacketSocket, SPILL_LENGTH};
use super::vnet_header::{TAP_LENGTH, VnetHeader};
use crate::offload::TransmitOffloads;
use crate::packet::{BATCH_SIZE, Batch, FramePool, PacketMut};
use crate::queue::{QueueError, RxQueue, SendReport, TxQueue};

/// The kernel finishes checksums and cuts TCP segments for devices that cannot. Which kernels can
/// cut UDP in this way is not known.
pub(super) const OFFLOADS: TransmitOffloads = TransmitOffloads::TCP_CHECKSUM
    .union(TransmitOffloads::UDP_CHECKSUM)
    .union(TransmitOffloads::TCP_SEGMENTATION);

/// The receive queue of a device.
#[derive(Debug)]
pub(super) struct SystemRxQueue {
    device: Arc<Device>,
    index: u32,
    /// Shared with the port, which asks it for losses.
    socket: Arc<PacketSocket>,
    losses: Arc<Losses>,
    /// Empty packets to receive into.
    spare: Batch,
    /// What large packets have beyond their first frame.
    spill: Vec<u8>,
}

impl SystemRxQueue {
    pub(super) fn open(
        device: &Arc<Device>,
        losses: &Arc<Losses>,
        pool: &Arc<FramePool>,
    ) -> Result<Self, Errno> {
        let index = device.link()?.index;
        Ok(Self {
            device: Arc::clone(device),
            index,
            socket: Arc::new(PacketSocket::receiving(index)?),
            losses: Arc::clone(losses),
            spare: Batch::new(pool),
            spill: vec![0; BATCH_SIZE * SPILL_LENGTH],
        })
    }

    pub(super) fn socket(&self) -> &Arc<PacketSocket> {
        &self.socket
    }

    fn receive_messages(&mut self, batch: &mut Batch) -> Result<usize, Errno> {
        self.spare.fill(BATCH_SIZE);
        let count = batch.room().min(self.spare.len());
        if count == 0 {
            return Ok(0);
        }
        let mut messages = [Message::default(); BATCH_SIZE];
        let received =
            match self.socket.receive(&mut self.spare, count, &mut self.spill, &mut messages) {
                Ok(received) => received,
                // The device was set down, once for every time, or was removed.
                Err(Errno::AGAIN | Errno::INTR | Errno::NETDOWN) => {
                    self.device.usable(self.index)?;
                    return Ok(0);
                }
                Err(errno) => return Err(errno),
            };
        let mut taken = 0;
        let found = messages.iter().take(received).zip(self.spill.chunks(SPILL_LENGTH));
        for (message, spill) in found {
            let packet = self.spare.get_mut(taken);
            if packet.is_some_and(|mut packet| take_over(&mut packet, message, spill)) {
                taken += 1;
            } else {
                self.spare.remove(taken);
                self.losses.add_received(1);
            }
        }
        Ok(self.spare.move_front(taken, batch))
    }
}

/// Makes `message` the content of `packet`. False when it is cut short, the switch does not know
/// how to handle it, or there are too few free frames.
fn take_over(packet: &mut PacketMut<'_>, message: &Message, spill: &[u8]) -> bool {
    let room = packet.receive_buffer().len();
    packet.set_received(message.length);
    packet.descriptor_mut().set_vlan(message.tag);
    let more = spill.get(..message.length.saturating_sub(room)).unwrap_or(&[]);
    !message.is_truncated
        && packet.append(more)
        && VnetHeader::parse(message.header).apply(packet).is_ok()
}

impl RxQueue for SystemRxQueue {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        self.receive_messages(batch).map_err(|errno| QueueError::Device {
            port: self.device.name().to_owned(),
            queue: 0,
            errno,
        })
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// A transmit queue of a device.
#[derive(Debug)]
pub(super) struct SystemTxQueue {
    socket: PacketSocket,
    outgoing: Outgoing,
}

impl SystemTxQueue {
    pub(super) fn open(device: &Arc<Device>, losses: &Arc<Losses>) -> Result<Self, Errno> {
        let index = device.link()?.index;
        let outgoing = Outgoing { device: Arc::clone(device), index, losses: Arc::clone(losses) };
        Ok(Self { socket: PacketSocket::sending(index)?, outgoing })
    }
}

impl TxQueue for SystemTxQueue {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let mut headers: VnetHeaders = [[0; TAP_LENGTH]; BATCH_SIZE];
        let mut report = self.outgoing.prepare(batch, &mut headers);
        let mut done = 0;
        while done < batch.len() {
            match self.socket.send(batch, done, &headers) {
                Ok(sent) => {
                    done += sent;
                    report.sent += sent as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => {
                    done += 1;
                    self.outgoing.count(errno, &mut report);
                }
            }
        }
        batch.clear();
        self.outgoing.losses.add_sent(report);
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        OFFLOADS
    }
}
