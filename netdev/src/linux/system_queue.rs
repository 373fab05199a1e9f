//! Queues of existing devices, by way of packet sockets. Ordinary frames come through a ring that is
//! shared with the kernel. Packets of up to 64 KiB that the kernel did not cut up come and go in one
//! piece. One call sends a whole batch.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;

use super::counters::Counters;
use super::links::Device;
use super::outgoing::{Outgoing, VnetHeaders};
use super::packet_ring::{Oldest, PacketRing, RingFrame};
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
    ring: PacketRing,
    /// Changes of the device when it was last looked at.
    changes: u64,
    counters: Arc<Counters>,
    /// Empty packets to receive into.
    spare: Batch,
    /// What large packets have beyond their first frame.
    spill: Vec<u8>,
}

impl SystemRxQueue {
    pub(super) fn open(
        device: &Arc<Device>,
        counters: &Arc<Counters>,
        pool: &Arc<FramePool>,
    ) -> Result<Self, Errno> {
        let index = device.link()?.index;
        let (socket, ring) = PacketSocket::receiving(index)?;
        Ok(Self {
            device: Arc::clone(device),
            index,
            socket: Arc::new(socket),
            ring,
            changes: 0,
            counters: Arc::clone(counters),
            spare: Batch::new(pool),
            spill: vec![0; BATCH_SIZE * SPILL_LENGTH],
        })
    }

    pub(super) fn socket(&self) -> &Arc<PacketSocket> {
        &self.socket
    }

    fn receive_frames(&mut self, batch: &mut Batch) -> Result<usize, Errno> {
        self.spare.fill(BATCH_SIZE);
        let room = batch.room().min(self.spare.len());
        // Packets that are lost leave room for others, but cannot keep the thread here for ever.
        let (mut seen, mut taken, mut bytes) = (0, 0, 0);
        while seen < BATCH_SIZE && taken < room {
            let Some(packet) = self.spare.get_mut(taken) else { break };
            match self.ring.oldest() {
                None => break,
                Some(Oldest::Here(frame)) => {
                    seen += 1;
                    if take_frame(packet, &frame) {
                        taken += 1;
                        bytes += frame.data.len() as u64;
                    } else {
                        self.spare.remove(taken);
                        self.counters.add_lost(1);
                    }
                    self.ring.release(1);
                }
                Some(Oldest::Queued) => {
                    let (messages, good, more) = self.receive_messages(taken, room - taken)?;
                    if messages == 0 {
                        break;
                    }
                    (seen, taken, bytes) = (seen + messages, taken + good, bytes + more);
                }
            }
        }
        if seen == 0 {
            self.check_device()?;
        }
        self.counters.add_received(taken as u64, bytes);
        Ok(self.spare.move_front(taken, batch))
    }

    /// Receives up to `room` of the oldest packets from the socket, into spare packets from `first`
    /// on. Returns how many there were, how many of them are good, and the bytes of those.
    fn receive_messages(
        &mut self,
        first: usize,
        room: usize,
    ) -> Result<(usize, usize, u64), Errno> {
        let count = self.ring.queued(room);
        let mut messages = [Message::default(); BATCH_SIZE];
        let (packets, spill) = (&mut self.spare, &mut self.spill);
        let received = match self.socket.receive(packets, (first, count), spill, &mut messages) {
            Ok(received) => received,
            // The device was set down meanwhile, which is told once.
            Err(Errno::AGAIN | Errno::INTR | Errno::NETDOWN) => 0,
            Err(errno) => return Err(errno),
        };
        self.ring.release(received);
        let (mut next, mut bytes) = (first, 0);
        let found = messages.iter().take(received).zip(self.spill.chunks(SPILL_LENGTH));
        for (message, spill) in found {
            let packet = self.spare.get_mut(next);
            if packet.is_some_and(|mut packet| take_over(&mut packet, message, spill)) {
                next += 1;
                bytes += message.length as u64;
            } else {
                self.spare.remove(next);
                self.counters.add_lost(1);
            }
        }
        Ok((received, next - first, bytes))
    }

    /// Looks after the device when nothing came.
    fn check_device(&mut self) -> Result<(), Errno> {
        self.device.usable(Some(self.index))?;
        let changes = self.device.change_sequence();
        if std::mem::replace(&mut self.changes, changes) != changes {
            self.socket.clear_error();
        }
        Ok(())
    }
}

/// Makes a frame of the ring the content of `packet`. False when it was cut, the switch does not
/// know how to handle it, or there are too few free frames.
fn take_frame(mut packet: PacketMut<'_>, frame: &RingFrame<'_>) -> bool {
    packet.descriptor_mut().set_vlan(frame.tag);
    !frame.is_cut
        && packet.append(frame.data)
        && VnetHeader::parse(frame.header).apply(&mut packet).is_ok()
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
        self.receive_frames(batch).map_err(|errno| QueueError::Device {
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
    pub(super) fn open(device: &Arc<Device>, counters: &Arc<Counters>) -> Result<Self, Errno> {
        let index = device.link()?.index;
        let (device, counters) = (Arc::clone(device), Arc::clone(counters));
        let outgoing = Outgoing { device, index: Some(index), counters };
        Ok(Self { socket: PacketSocket::sending(index)?, outgoing })
    }
}

impl TxQueue for SystemTxQueue {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let mut headers: VnetHeaders = [[0; TAP_LENGTH]; BATCH_SIZE];
        let mut report = self.outgoing.prepare(batch, &mut headers);
        let (mut done, mut bytes) = (0, 0);
        while done < batch.len() {
            match self.socket.send(batch, done, &headers) {
                Ok(sent) => {
                    let packets = batch.iter().skip(done).take(sent);
                    bytes += packets.map(|packet| packet.len() as u64).sum::<u64>();
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
        self.outgoing.counters.add_sent(report, bytes);
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        OFFLOADS
    }
}
