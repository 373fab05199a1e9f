//! Queues of tap devices: one call per packet, of up to 64 KiB.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::{Errno, readv, writev};

use super::counters::Counters;
use super::links::Device;
use super::outgoing::{Outgoing, VnetHeaders};
use super::vnet_header::{PACKET_LENGTH, TAP_LENGTH, VnetHeader};
use crate::offload::TransmitOffloads;
use crate::packet::{BATCH_SIZE, Batch, FramePool, PacketMut, PacketRef};
use crate::queue::{QueueError, RxQueue, SendReport, TxQueue};

/// Room behind the first frame of a packet, for what a large packet has more.
const SPILL_LENGTH: usize = 1 << 16;
/// Most pieces of a packet that is sent. A packet of 64 KiB has 36 and its header.
const MAX_PIECES: usize = 64;

/// A receive queue of a tap device.
#[derive(Debug)]
pub(super) struct TapRxQueue {
    device: Arc<Device>,
    file: Arc<OwnedFd>,
    queue: usize,
    counters: Arc<Counters>,
    /// Empty packets to receive into.
    spare: Batch,
    /// What a large packet has beyond its first frame.
    spill: Vec<u8>,
}

impl TapRxQueue {
    pub(super) fn open(
        device: &Arc<Device>,
        file: &Arc<OwnedFd>,
        queue: usize,
        counters: &Arc<Counters>,
        pool: &Arc<FramePool>,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            file: Arc::clone(file),
            queue,
            counters: Arc::clone(counters),
            spare: Batch::new(pool),
            spill: vec![0; SPILL_LENGTH],
        }
    }

    fn receive_packets(&mut self, batch: &mut Batch) -> Result<usize, Errno> {
        self.spare.fill(BATCH_SIZE);
        let count = batch.room().min(self.spare.len());
        let (mut taken, mut bytes) = (0, 0);
        for _ in 0..count {
            let Some(mut packet) = self.spare.get_mut(taken) else {
                break;
            };
            match receive_packet(&self.file, &mut packet, &mut self.spill) {
                Ok(Some(length)) => {
                    taken += 1;
                    bytes += length as u64;
                }
                Ok(None) => {
                    self.spare.remove(taken);
                    self.counters.add_lost(1);
                }
                Err(Errno::AGAIN | Errno::INTR) if taken == 0 => {
                    self.device.usable(None)?;
                    break;
                }
                // An error that stays is found the next time.
                Err(_) if taken > 0 => break,
                // The file has lost its device.
                Err(Errno::BADFD) => return Err(Errno::NODEV),
                Err(errno) => return Err(errno),
            }
        }
        self.counters.add_received(taken as u64, bytes);
        Ok(self.spare.move_front(taken, batch))
    }
}

/// Reads one packet, and returns its length. None when it is lost: it does not fit, the switch does not know how to
/// handle it, or there are too few free frames.
fn receive_packet(
    file: &OwnedFd,
    packet: &mut PacketMut<'_>,
    spill: &mut [u8],
) -> Result<Option<usize>, Errno> {
    let mut header = [0; TAP_LENGTH];
    let first = packet.receive_buffer();
    let (room, more_room) = (first.len(), spill.len());
    let pieces =
        &mut [IoSliceMut::new(&mut header), IoSliceMut::new(first), IoSliceMut::new(spill)];
    let length = readv(file, pieces)?.saturating_sub(TAP_LENGTH);
    packet.set_received(length);
    let more = length.saturating_sub(room);
    let (header, _) = header.split_first_chunk::<PACKET_LENGTH>().ok_or(Errno::PROTO)?;
    // The kernel cuts off what does not fit, and does not say so.
    let is_whole = more < more_room
        && packet.append(spill.get(..more).unwrap_or(&[]))
        && VnetHeader::parse(*header).apply(packet).is_ok();
    Ok(is_whole.then_some(length))
}

impl RxQueue for TapRxQueue {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        self.receive_packets(batch).map_err(|errno| QueueError::Device {
            port: self.device.name().to_owned(),
            queue: self.queue,
            errno,
        })
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

/// A transmit queue of a tap device.
#[derive(Debug)]
pub(super) struct TapTxQueue {
    file: Arc<OwnedFd>,
    offloads: TransmitOffloads,
    outgoing: Outgoing,
}

impl TapTxQueue {
    pub(super) fn open(
        device: &Arc<Device>,
        file: &Arc<OwnedFd>,
        offloads: TransmitOffloads,
        counters: &Arc<Counters>,
    ) -> Self {
        let (device, counters) = (Arc::clone(device), Arc::clone(counters));
        let outgoing = Outgoing { device, index: None, counters };
        Self { file: Arc::clone(file), offloads, outgoing }
    }
}

impl TxQueue for TapTxQueue {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let mut headers: VnetHeaders = [[0; TAP_LENGTH]; BATCH_SIZE];
        let mut report = self.outgoing.prepare(batch, &mut headers);
        let mut bytes = 0;
        for (packet, header) in batch.iter().zip(&headers) {
            match send_packet(&self.file, packet, header) {
                Ok(()) => {
                    report.sent += 1;
                    bytes += packet.len() as u64;
                }
                Err(errno) => self.outgoing.count(errno, &mut report),
            }
        }
        batch.clear();
        self.outgoing.counters.add_sent(report, bytes);
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        self.offloads
    }
}

fn send_packet(
    file: &OwnedFd,
    packet: PacketRef<'_>,
    header: &[u8; TAP_LENGTH],
) -> Result<(), Errno> {
    let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
    let parts = std::iter::once(header.as_slice()).chain(packet.segments());
    let mut count = 0;
    for part in parts {
        *pieces.get_mut(count).ok_or(Errno::TOOBIG)? = IoSlice::new(part);
        count += 1;
    }
    let pieces = pieces.get(..count).unwrap_or(&pieces);
    // The kernel takes a frame as a whole or not at all.
    rustix::io::retry_on_intr(|| writev(file, pieces)).map(drop)
}
