//! Ports in memory, frames, and a user of the datapath, for tests.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use netdev::ethernet_address::EthernetAddress;
use netdev::offload::TransmitOffloads;
use netdev::packet::{
    Batch, Checksum, FramePool, Layer, PacketMut, PacketRef, Segmentation, VlanTag,
};
use netdev::port::{Port, PortError};
use netdev::queue::{QueueError, RxQueue, SendReport, TxQueue};
use netdev::statistics::Statistics;
use netdev::wire::checksum::{Sum, checksum, update16};
use netdev::wire::ipv4::Ipv4Header;
use netdev::wire::ipv6::Ipv6Header;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use crate::action::{Action, Userdata, Userspace};
use crate::flow::{FlowKey, FlowMask};
use crate::upcall::{Megaflow, Upcall, UpcallError, UpcallHandler};

type Frames = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// A port whose far side is the test.
pub(crate) struct MemoryPort {
    name: String,
    needs_pmd: bool,
    pub(crate) received: Vec<Frames>,
    pub(crate) sent: Frames,
    /// What the port knows about each packet that it receives.
    pub(crate) knowledge: Arc<Mutex<Knowledge>>,
    pub(crate) offloads: TransmitOffloads,
}

/// What a device may say about a packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    pub(crate) rss_hash: Option<u32>,
    pub(crate) vlan: Option<VlanTag>,
    pub(crate) segmentation: Segmentation,
    pub(crate) segment_size: u16,
    /// Where the transport checksum is to be finished.
    pub(crate) partial: Option<(u16, u16)>,
}

impl Knowledge {
    pub(crate) fn apply(&self, packet: &mut PacketMut<'_>) {
        let descriptor = packet.descriptor_mut();
        descriptor.set_rss_hash(self.rss_hash);
        descriptor.set_vlan(self.vlan);
        descriptor.segmentation = self.segmentation;
        descriptor.segment_size = self.segment_size;
        if let Some((start, offset)) = self.partial {
            descriptor.set_checksum(Layer::Transport, Checksum::Partial);
            (descriptor.checksum_start, descriptor.checksum_offset) = (start, offset);
        }
    }
}

impl MemoryPort {
    pub(crate) fn new(name: &str, queues: usize, needs_pmd: bool) -> Self {
        let received = (0..queues).map(|_| Frames::default()).collect();
        Self {
            name: name.to_owned(),
            needs_pmd,
            received,
            sent: Frames::default(),
            knowledge: Arc::default(),
            // What is to be finished is left as the datapath made it.
            offloads: TransmitOffloads::all(),
        }
    }

    /// Lets a frame arrive.
    pub(crate) fn arrive(&self, queue: usize, frame: Vec<u8>) {
        self.arrive_together(queue, [frame]);
    }

    /// Lets frames arrive that are received together.
    pub(crate) fn arrive_together<const N: usize>(&self, queue: usize, frames: [Vec<u8>; N]) {
        self.received[queue].lock().unwrap().extend(frames);
    }

    /// Takes the frames that were sent.
    pub(crate) fn take_sent(&self) -> Vec<Vec<u8>> {
        self.sent.lock().unwrap().drain(..).collect()
    }

    /// Frames that nobody has received yet.
    pub(crate) fn waiting(&self) -> usize {
        self.received.iter().map(|queue| queue.lock().unwrap().len()).sum()
    }
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn port_type(&self) -> &str {
        "memory"
    }

    fn set_options(&mut self, _: &BTreeMap<String, String>) -> Result<(), PortError> {
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn ethernet_address(&self) -> Result<EthernetAddress, PortError> {
        Err(self.not_supported("an address"))
    }

    fn set_ethernet_address(&mut self, _: EthernetAddress) -> Result<(), PortError> {
        Err(self.not_supported("an address"))
    }

    fn mtu(&self) -> Result<u32, PortError> {
        Err(self.not_supported("an MTU"))
    }

    fn set_mtu(&mut self, _: u32) -> Result<(), PortError> {
        Err(self.not_supported("an MTU"))
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        Ok(true)
    }

    fn set_admin_up(&mut self, _: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn status(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        Ok(Statistics::default())
    }

    fn change_sequence(&self) -> u64 {
        0
    }

    fn rx_queues(&self) -> usize {
        self.received.len()
    }

    fn needs_pmd(&self) -> bool {
        self.needs_pmd
    }

    fn open_rx(&mut self, queue: usize, _: &Arc<FramePool>) -> Result<Box<dyn RxQueue>, PortError> {
        Ok(Box::new(MemoryRx(Arc::clone(&self.received[queue]), Arc::clone(&self.knowledge))))
    }

    fn open_tx(&mut self, _: usize) -> Result<Box<dyn TxQueue>, PortError> {
        Ok(Box::new(MemoryTx(Arc::clone(&self.sent), self.offloads)))
    }
}

struct MemoryRx(Frames, Arc<Mutex<Knowledge>>);

impl RxQueue for MemoryRx {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let mut frames = self.0.lock().unwrap();
        let filled = batch.fill(frames.len().min(batch.room()));
        for (mut packet, frame) in batch.iter_mut().zip(frames.drain(..filled)) {
            assert!(packet.append(&frame));
            self.1.lock().unwrap().apply(&mut packet);
        }
        Ok(filled)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct MemoryTx(Frames, TransmitOffloads);

impl TxQueue for MemoryTx {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let mut frames = self.0.lock().unwrap();
        let sent = batch.len() as u64;
        frames.extend(batch.iter().map(|packet| bytes_of(&packet)));
        batch.clear();
        SendReport { sent, ..SendReport::default() }
    }

    fn offloads(&self) -> TransmitOffloads {
        self.1
    }
}

/// The bytes of a packet.
pub(crate) fn bytes_of(packet: &PacketRef<'_>) -> Vec<u8> {
    packet.segments().flatten().copied().collect()
}

/// A valid UDP frame over IPv4.
pub(crate) fn udp(source: u32, destination: u32, ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let length = 8 + data.len() as u16;
    let mut transport: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    transport.extend(length.to_be_bytes());
    transport.extend([0, 0]);
    transport.extend(data);
    let mut frame = ip(false, 17, transport, 6);
    let old: [u8; 8] = frame[26..34].try_into().unwrap();
    let new = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    frame[26..34].copy_from_slice(&new);
    for field in [24, 40] {
        for (old, new) in old.chunks(2).zip(new.chunks(2)) {
            let half = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
            let mut sum = U16::new(half(&frame[field..]));
            update16(&mut sum, half(old), half(new));
            frame[field..field + 2].copy_from_slice(sum.as_bytes());
        }
    }
    frame
}

/// What [`TestHandler`] asks.
type Answer = dyn Fn(&FlowKey) -> Option<(FlowKey, Vec<Action>)> + Send + Sync;

/// Answers misses by a function from keys to masks and actions, and counts.
pub(crate) struct TestHandler {
    answer: Box<Answer>,
    pub(crate) misses: AtomicU64,
    /// Packets that came to userspace, and what they were to do next.
    pub(crate) userspace: Mutex<Vec<(Vec<u8>, Userdata)>>,
    pub(crate) next: Mutex<Vec<Action>>,
}

impl TestHandler {
    pub(crate) fn new(
        answer: impl Fn(&FlowKey) -> Option<(FlowKey, Vec<Action>)> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            answer: Box::new(answer),
            misses: AtomicU64::new(0),
            userspace: Mutex::default(),
            next: Mutex::default(),
        })
    }
}

impl UpcallHandler for TestHandler {
    fn miss(&self, _: PacketRef<'_>, key: &FlowKey) -> Result<Upcall, UpcallError> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let (mask, actions) =
            (self.answer)(key).ok_or(UpcallError::UnknownPort { port: key.in_port.get() })?;
        let actions: Arc<[Action]> = actions.into();
        let install = Megaflow { mask: FlowMask::new(mask), actions: Arc::clone(&actions) };
        Ok(Upcall { actions, install: Some(install) })
    }

    fn userspace(
        &self,
        packet: PacketRef<'_>,
        _: &FlowKey,
        action: &Userspace,
    ) -> Result<Arc<[Action]>, UpcallError> {
        self.userspace.lock().unwrap().push((bytes_of(&packet), action.userdata.clone()));
        Ok(self.next.lock().unwrap().clone().into())
    }
}

/// An Ethernet frame that carries an IP packet with this transport header and data, whose
/// checksums are right. The checksum of the transport header lies at `field`.
pub(crate) fn ip(is_ipv6: bool, protocol: u8, mut transport: Vec<u8>, field: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let sum = if is_ipv6 {
        let mut header = Ipv6Header { next_header: protocol, hop_limit: 64, ..Default::default() };
        header.flow.set(6 << 28 | 0x12345);
        header.payload_length.set(transport.len() as u16);
        header.source = [0x20; 16];
        header.destination = [0x30; 16];
        frame.extend([0x86, 0xdd]);
        frame.extend(header.as_bytes());
        Sum::of_pseudo_ipv6(&header, protocol, transport.len())
    } else {
        let mut header =
            Ipv4Header { version_length: 0x45, ttl: 64, protocol, ..Ipv4Header::default() };
        header.total_length.set(20 + transport.len() as u16);
        header.source.set(0x0a00_0001);
        header.destination.set(0x0a00_0002);
        header.checksum.set(checksum(header.as_bytes()));
        frame.extend([8, 0]);
        frame.extend(header.as_bytes());
        Sum::of_pseudo_ipv4(&header, protocol, transport.len())
    };
    // ICMP has no pseudo header.
    let sum = if protocol == 1 { Sum::default() } else { sum };
    transport[field..field + 2].fill(0);
    let sum = sum.add_bytes(&transport).finish();
    transport[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    frame.extend(transport);
    frame
}

/// Whether all checksums of a frame that [`ip`] could have made are right.
pub(crate) fn has_right_checksums(frame: &[u8]) -> bool {
    let (header, protocol, sum, transport) = if frame[12] == 8 {
        let header = Ipv4Header::read_from_bytes(&frame[14..34]).unwrap();
        let transport = &frame[34..];
        let sum = Sum::of_pseudo_ipv4(&header, header.protocol, transport.len());
        (checksum(&frame[14..34]), header.protocol, sum, transport)
    } else {
        let header = Ipv6Header::read_from_bytes(&frame[14..54]).unwrap();
        let transport = &frame[54..];
        let sum = Sum::of_pseudo_ipv6(&header, header.next_header, transport.len());
        (0, header.next_header, sum, transport)
    };
    let sum = if protocol == 1 { Sum::default() } else { sum };
    header == 0 && sum.add_bytes(transport).finish() == 0
}
