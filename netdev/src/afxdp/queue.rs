//! The queues of an AF_XDP port: each receive queue and the transmit queue beside it share one
//! socket.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use rustix::io::Errno;

use super::attachment::Attachment;
use super::metadata;
use super::ring::{Consumer, Producer};
use super::socket::{Socket, TRANSMIT_METADATA_LENGTH};
use crate::checksum;
use crate::errno::description;
use crate::headers::fits;
use crate::linux::counters::Counters;
use crate::linux::links::Device;
use crate::offload::TransmitOffloads;
use crate::packet::{
    BATCH_SIZE, Batch, Checksum, Drain, FRAME_SIZE, FramePool, Layer, Loan, MAX_PIECES, Packet,
    PacketMut, PacketRef, Piece,
};
use crate::queue::{QueueError, RxQueue, SendReport, TxQueue};

const ETHERNET_HEADER_LENGTH: usize = 14;
/// Bits of an entry's options (linux/if_xdp.h).
const CONTINUES: u32 = libc::XDP_PKT_CONTD;
const HAS_METADATA: u32 = libc::XDP_TX_METADATA;
const FINISH_CHECKSUM: u64 = libc::XDP_TXMD_FLAGS_CHECKSUM as u64;

/// Most frames of a packet that the kernel sends: those that its own buffers can refer to, as
/// kernels are built by default (`CONFIG_MAX_SKB_FRAGS`).
pub(super) const MAX_SENT_PIECES: usize = 17;
/// Bytes of a packet that surely fit into one frame when the packet is copied.
pub(super) const COPIED_PIECE_LENGTH: usize = FRAME_SIZE - 320;

/// Calls that are made for packets of one batch before the others wait for the next.
const MAX_KICKS: usize = 8;

/// What both queues of a socket share. Fields are dropped in this order: frames are taken back
/// when the kernel has let go of them.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) socket: Socket,
    transmit: Mutex<Transmit>,
    /// Loan of the receive queue, when that was dropped.
    returned: Mutex<Option<Loan>>,
    device: Arc<Device>,
    index: u32,
    queue: u32,
    counters: Arc<Counters>,
    /// Frames that are lent for receiving and for sending.
    lent_to_receive: AtomicU32,
    lent_to_send: AtomicU32,
    /// Keeps the program attached.
    pub(super) attachment: Arc<Attachment>,
    pub(super) pool: Arc<FramePool>,
}

#[derive(Debug)]
struct Transmit {
    producer: Producer,
    completed: Consumer,
    loan: Loan,
}

impl Shared {
    pub(super) fn new(
        socket: Socket,
        attachment: &Arc<Attachment>,
        device: &Arc<Device>,
        (index, queue): (u32, u32),
        counters: &Arc<Counters>,
        pool: &Arc<FramePool>,
    ) -> Self {
        let transmit = Transmit {
            producer: Producer::new(&socket.transmit),
            completed: Consumer::new(&socket.completion),
            loan: Loan::new(pool),
        };
        Self {
            socket,
            transmit: Mutex::new(transmit),
            returned: Mutex::new(None),
            device: Arc::clone(device),
            index,
            queue,
            counters: Arc::clone(counters),
            lent_to_receive: AtomicU32::new(0),
            lent_to_send: AtomicU32::new(0),
            attachment: Arc::clone(attachment),
            pool: Arc::clone(pool),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Transmit> {
        // A panic under the lock leaves at worst frames lent.
        self.transmit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what is left over from earlier, and takes back the frames of what was sent, unless
    /// another thread is about to.
    #[inline]
    fn look_after_sent(&self) {
        if self.lent_to_send.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut transmit = match self.transmit.try_lock() {
            Ok(transmit) => transmit,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        transmit.collect(self);
        if transmit.producer.waiting(&self.socket.transmit) > 0 {
            transmit.kick(self);
        }
    }
}

impl Transmit {
    /// Takes back the frames of packets that were sent.
    fn collect(&mut self, shared: &Shared) {
        let ring = &shared.socket.completion;
        let available = self.completed.available(ring, u32::MAX);
        if available == 0 {
            return;
        }
        let completed = &self.completed;
        let addresses = (0..available).map(|index| {
            let [address] = completed.peek(ring, index);
            address
        });
        self.loan.take_back(addresses);
        self.completed.skip(available);
        self.completed.publish(ring);
        shared.lent_to_send.store(self.loan.count() as u32, Ordering::Relaxed);
    }

    /// Lets the kernel send what waits, as far as it can now.
    fn kick(&mut self, shared: &Shared) {
        let ring = &shared.socket.transmit;
        let mut waiting = self.producer.waiting(ring);
        for _ in 0..MAX_KICKS {
            match shared.socket.wake_sender() {
                Ok(()) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::BUSY | Errno::INTR) => {}
                // The device is down or gone, which is told elsewhere.
                Err(Errno::NETDOWN | Errno::NXIO) => return,
                Err(errno) => {
                    let (name, cause) = (shared.device.name(), description(errno));
                    tracing::warn!(
                        target: "netdev_afxdp",
                        limited = true,
                        "{name}: error sending AF_XDP packet: {cause}."
                    );
                    return;
                }
            }
            let left = self.producer.waiting(ring);
            if left == 0 || left >= waiting {
                return;
            }
            waiting = left;
            // Room for what becomes of the rest.
            self.collect(shared);
        }
    }

    /// Puts the next packet into the ring. It must be good to be lent, and there must be room.
    fn put(&mut self, shared: &Shared, packets: &mut Drain<'_>, has_metadata: bool) {
        let ring = &shared.socket.transmit;
        let (producer, mut last) = (&mut self.producer, None::<(Piece, u32)>);
        self.loan.lend_next(packets, |piece| {
            if let Some((before, options)) = last.replace((piece, 0)) {
                producer.put(ring, entry(before, options | CONTINUES));
            } else if has_metadata {
                // The metadata lies in front of what is sent.
                let Piece { address, length } = piece;
                let length = length.saturating_sub(TRANSMIT_METADATA_LENGTH as u32);
                let address = address + TRANSMIT_METADATA_LENGTH as u64;
                last = Some((Piece { address, length }, HAS_METADATA));
            }
        });
        if let Some((piece, options)) = last {
            producer.put(ring, entry(piece, options));
        }
    }
}

fn entry(Piece { address, length }: Piece, options: u32) -> [u64; 2] {
    let [a, b, c, d] = length.to_ne_bytes();
    let [e, f, g, h] = options.to_ne_bytes();
    [address, u64::from_ne_bytes([a, b, c, d, e, f, g, h])]
}

/// The piece of an entry, and its options.
#[inline]
fn parse_entry([address, rest]: [u64; 2]) -> (Piece, u32) {
    let [a, b, c, d, e, f, g, h] = rest.to_ne_bytes();
    let length = u32::from_ne_bytes([a, b, c, d]);
    (Piece { address, length }, u32::from_ne_bytes([e, f, g, h]))
}

/// A receive queue.
#[derive(Debug)]
pub(super) struct AfxdpRxQueue {
    shared: Arc<Shared>,
    received: Consumer,
    fill: Producer,
    /// Present until the queue is dropped.
    loan: Option<Loan>,
    /// Most frames to lend.
    most: usize,
    /// Whether the other end may leave checksums to be finished without telling.
    may_be_partial: bool,
    /// Whether the program may have put something in front of packets.
    has_metadata: bool,
}

/// What arrived.
#[derive(Default)]
struct Arrived {
    packets: u64,
    bytes: u64,
    lost: u64,
    entries: u32,
}

impl AfxdpRxQueue {
    pub(super) fn open(shared: &Arc<Shared>, pool: &Arc<FramePool>, may_be_partial: bool) -> Self {
        let socket = &shared.socket;
        let (received, fill) = (Consumer::new(&socket.received), Producer::new(&socket.fill));
        let loan = Some(Loan::new(pool));
        let has_metadata = shared.attachment.has_metadata;
        let counts = pool.counts();
        // Half of what is free at most, so that every port gets some.
        let most = (socket.fill.capacity() as usize).min((counts.shared + counts.cached) / 2);
        let shared = Arc::clone(shared);
        let mut queue = Self { shared, received, fill, loan, most, may_be_partial, has_metadata };
        queue.refill();
        queue
    }

    /// Lends frames to be filled, in bulk, as far as there is room.
    #[inline]
    fn refill(&mut self) {
        let ring = &self.shared.socket.fill;
        let (fill, Some(loan)) = (&mut self.fill, &mut self.loan) else { return };
        let mut room = fill.room(ring, BATCH_SIZE as u32) as usize;
        room = room.min(self.most.saturating_sub(loan.count()));
        if room < BATCH_SIZE {
            return;
        }
        while room >= BATCH_SIZE {
            let lent = loan.lend_free(BATCH_SIZE, |address| fill.put(ring, [address]));
            if lent < BATCH_SIZE {
                break;
            }
            room -= lent;
        }
        fill.publish(ring);
        self.shared.lent_to_receive.store(loan.count() as u32, Ordering::Relaxed);
    }

    /// Takes packets out of the ring.
    #[inline]
    fn take(&mut self, batch: &mut Batch) -> Arrived {
        let ring = &self.shared.socket.received;
        let available = self.received.available(ring, BATCH_SIZE as u32);
        let mut arrived = Arrived::default();
        let Some(loan) = &mut self.loan else { return arrived };
        let mut pieces = [Piece::default(); MAX_PIECES];
        while batch.room() > 0 && arrived.entries < available {
            // One piece after the other, to the last of the packet.
            let (mut count, mut is_whole) = (0, false);
            for (index, place) in (arrived.entries..available).zip(&mut pieces) {
                let (piece, options) = parse_entry(self.received.peek(ring, index));
                *place = piece;
                count += 1;
                if options & CONTINUES == 0 {
                    is_whole = true;
                    break;
                }
            }
            let found = pieces.get(..count).unwrap_or(&[]);
            if is_whole {
                let (may_be_partial, has_metadata) = (self.may_be_partial, self.has_metadata);
                let mut length = 0;
                let taken = loan.receive(found, batch, |mut packet| {
                    length = packet.view().len() as u64;
                    if has_metadata {
                        metadata::apply(&mut packet);
                    }
                    if may_be_partial {
                        checksum::detect_partial(&mut packet);
                    }
                });
                if taken {
                    arrived.packets += 1;
                    arrived.bytes += length;
                } else {
                    arrived.lost += 1;
                }
            } else if count < MAX_PIECES {
                // The rest is on its way.
                break;
            } else {
                // No packet is that long.
                loan.take_back(found.iter().map(|piece| piece.address));
                arrived.lost += 1;
            }
            arrived.entries += count as u32;
        }
        self.received.skip(arrived.entries);
        self.received.publish(ring);
        self.shared.lent_to_receive.store(loan.count() as u32, Ordering::Relaxed);
        arrived
    }
}

impl RxQueue for AfxdpRxQueue {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let arrived = self.take(batch);
        if arrived.entries == 0 {
            // Frames that were missing may be free by now.
            self.refill();
            self.shared.socket.wake_receiver();
            self.shared.look_after_sent();
            return Ok(0);
        }
        self.refill();
        self.shared.socket.wake_receiver();
        self.shared.counters.add_received(arrived.packets, arrived.bytes);
        self.shared.counters.add_lost(arrived.lost);
        Ok(arrived.packets as usize)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.socket.as_fd())
    }
}

impl Drop for AfxdpRxQueue {
    fn drop(&mut self) {
        // Until the socket is closed, the kernel may write to the frames.
        let mut returned = self.shared.returned.lock().unwrap_or_else(PoisonError::into_inner);
        *returned = self.loan.take();
    }
}

/// A transmit queue, or one of several ways to the same.
#[derive(Debug)]
pub(super) struct AfxdpTxQueue {
    shared: Arc<Shared>,
}

impl AfxdpTxQueue {
    pub(super) fn open(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// How many entries the packet takes when its frames are lent as they are; none when they
    /// cannot be.
    fn pieces(&self, transmit: &Transmit, packet: PacketRef<'_>) -> Option<usize> {
        let socket = &self.shared.socket;
        let (start, length) = transmit.loan.pool().region();
        let mut count = 0;
        for segment in packet.segments().filter(|segment| !segment.is_empty()) {
            let place = (segment.as_ptr() as u64).wrapping_sub(start);
            let offset = place % FRAME_SIZE as u64;
            let is_free = !socket.has_metadata || offset >= TRANSMIT_METADATA_LENGTH as u64;
            if place >= length || !is_free {
                return None;
            }
            count += 1;
        }
        let most = if socket.kind.has_fragments { MAX_SENT_PIECES } else { 1 };
        (count <= most).then_some(count)
    }

    /// Puts the next packet into the ring, or counts why not.
    fn send_next(
        &self,
        transmit: &mut Transmit,
        packets: &mut Drain<'_>,
        longest: usize,
        report: &mut SendReport,
    ) -> u64 {
        let Some(packet) = packets.peek() else { return 0 };
        let length = packet.len();
        if length < ETHERNET_HEADER_LENGTH {
            report.invalid += 1;
            packets.skip();
            return 0;
        }
        if !fits(packet, length, longest) {
            self.warn_of_mtu(length, longest - ETHERNET_HEADER_LENGTH);
            report.mtu_exceeded += 1;
            packets.skip();
            return 0;
        }
        let Some(pieces) = self.pieces(transmit, packet) else {
            return self.send_copy(transmit, packets, report);
        };
        let ring = &self.shared.socket.transmit;
        if transmit.producer.room(ring, pieces as u32) < pieces as u32 {
            report.no_room += 1;
            packets.skip();
            return 0;
        }
        let prepared = packets.peek_mut().and_then(|mut packet| prepare_checksum(&mut packet));
        let Some(has_metadata) = prepared else {
            report.invalid += 1;
            packets.skip();
            return 0;
        };
        transmit.put(&self.shared, packets, has_metadata);
        report.sent += 1;
        length as u64
    }

    /// Sends a copy of the next packet, in frames of the pool that the socket knows.
    fn send_copy(
        &self,
        transmit: &mut Transmit,
        packets: &mut Drain<'_>,
        report: &mut SendReport,
    ) -> u64 {
        let Some(packet) = packets.next_packet() else { return 0 };
        let length = packet.view().len();
        let pool = Arc::clone(transmit.loan.pool());
        let most = if self.shared.socket.kind.has_fragments { MAX_SENT_PIECES } else { 1 };
        if length > most * COPIED_PIECE_LENGTH {
            self.warn_of_mtu(length, most * COPIED_PIECE_LENGTH - ETHERNET_HEADER_LENGTH);
            report.mtu_exceeded += 1;
            return 0;
        }
        let Some(copy) = copy_to(&pool, &packet) else {
            report.no_room += 1;
            return 0;
        };
        let mut batch = Batch::new(&pool);
        // It is empty, and for this pool.
        let _ = batch.push(copy);
        let mut copies = batch.drain();
        match copies.peek().and_then(|copy| self.pieces(transmit, copy)) {
            Some(_) => self.send_next(transmit, &mut copies, length, report),
            None => {
                report.mtu_exceeded += 1;
                0
            }
        }
    }

    fn warn_of_mtu(&self, length: usize, mtu: usize) {
        let name = self.shared.device.name();
        tracing::warn!(
            target: "netdev_afxdp",
            limited = true,
            "{name}: dropped a packet of {length} bytes, longer than the MTU of {mtu} bytes allows"
        );
    }
}

/// A copy of `packet` in frames of `pool`.
fn copy_to(pool: &Arc<FramePool>, packet: &Packet) -> Option<Packet> {
    let mut copy = pool.packet()?;
    let mut to = copy.view_mut();
    packet.view().segments().all(|segment| to.append(segment)).then_some(())?;
    to.descriptor_mut().copy_knowledge(packet.view().descriptor());
    Some(copy)
}

/// Says in front of the packet where its checksum is to be finished, if it has one to be. Returns
/// whether it does; nothing when the packet is malformed.
#[inline]
fn prepare_checksum(packet: &mut PacketMut<'_>) -> Option<bool> {
    let descriptor = packet.view().descriptor();
    let is_partial = |layer| descriptor.checksum(layer) == Checksum::Partial;
    let layers = [Layer::InnerTransport, Layer::Transport];
    let Some(layer) = layers.into_iter().find(|layer| is_partial(*layer)) else {
        return Some(false);
    };
    let (start, offset) = checksum::prepare_for_device(packet, layer).ok()?;
    let starts_here = !packet.view().data().is_empty();
    let room = starts_here.then(|| packet.push_front(TRANSMIT_METADATA_LENGTH)).flatten();
    let Some(room) = room else {
        checksum::finish(packet, TransmitOffloads::empty()).ok()?;
        return Some(false);
    };
    room.fill(0);
    let (flags, rest) = room.split_first_chunk_mut()?;
    *flags = FINISH_CHECKSUM.to_ne_bytes();
    let (start_place, rest) = rest.split_first_chunk_mut()?;
    *start_place = start.to_ne_bytes();
    *rest.first_chunk_mut()? = offset.to_ne_bytes();
    Some(true)
}

impl TxQueue for AfxdpTxQueue {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let shared = &*self.shared;
        let mut report = SendReport::default();
        let longest = match shared.device.usable(Some(shared.index)) {
            Ok(usable) if usable.is_up => usable.mtu as usize + ETHERNET_HEADER_LENGTH,
            _ => {
                report.device_error = batch.len() as u64;
                batch.clear();
                shared.counters.add_sent(report, 0);
                return report;
            }
        };
        let mut bytes = 0;
        let mut transmit = shared.lock();
        transmit.collect(shared);
        let mut packets = batch.drain();
        while packets.peek().is_some() {
            bytes += self.send_next(&mut transmit, &mut packets, longest, &mut report);
        }
        drop(packets);
        transmit.producer.publish(&shared.socket.transmit);
        shared.lent_to_send.store(transmit.loan.count() as u32, Ordering::Relaxed);
        if report.sent > 0 {
            transmit.kick(shared);
        }
        drop(transmit);
        shared.counters.add_sent(report, bytes);
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        let socket = &self.shared.socket;
        // Devices that read frames by themselves may know nothing of metadata, and would not tell.
        if socket.has_metadata && !socket.kind.is_zero_copy {
            TransmitOffloads::TCP_CHECKSUM | TransmitOffloads::UDP_CHECKSUM
        } else {
            TransmitOffloads::empty()
        }
    }
}

/// Where the frames of one socket are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketFrames {
    /// Number of the receive queue.
    pub queue: u32,
    /// Free frames that wait to be filled.
    pub fill: u32,
    /// Frames with packets that wait to be processed.
    pub received: u32,
    /// Frames with packets that wait to be sent.
    pub transmit: u32,
    /// Frames of sent packets, to be taken back.
    pub completion: u32,
    /// Frames in the hands of the driver.
    pub driver: u32,
}

impl Shared {
    /// Frames that are lent to the socket.
    pub(super) fn lent(&self) -> u32 {
        let lent = |count: &AtomicU32| count.load(Ordering::Relaxed);
        lent(&self.lent_to_receive) + lent(&self.lent_to_send)
    }

    /// Where the frames of the socket are. Exact when nothing moves.
    pub(super) fn frames(&self) -> SocketFrames {
        let Socket { fill, received, transmit, completion, .. } = &self.socket;
        let frames = SocketFrames {
            queue: self.queue,
            fill: fill.waiting(),
            received: received.waiting(),
            transmit: transmit.waiting(),
            completion: completion.waiting(),
            driver: 0,
        };
        let known = frames.fill + frames.received + frames.transmit + frames.completion;
        SocketFrames { driver: self.lent().saturating_sub(known), ..frames }
    }
}
