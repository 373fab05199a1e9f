//! Ports in memory, frames, and a user of the datapath, for tests.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use netdev::ethernet_address::EthernetAddress;
use netdev::offload::TransmitOffloads;
use netdev::packet::{Batch, FramePool, PacketRef};
use netdev::port::{Port, PortError};
use netdev::queue::{QueueError, RxQueue, SendReport, TxQueue};
use netdev::statistics::Statistics;
use netdev::wire::checksum::{Sum, checksum};
use netdev::wire::ipv4::Ipv4Header;
use zerocopy::IntoBytes;

use crate::action::{Action, Userspace};
use crate::flow::{FlowKey, FlowMask};
use crate::upcall::{Megaflow, Upcall, UpcallError, UpcallHandler};

type Frames = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// A port whose far side is the test.
pub(crate) struct MemoryPort {
    name: String,
    needs_pmd: bool,
    pub(crate) received: Vec<Frames>,
    pub(crate) sent: Frames,
}

impl MemoryPort {
    pub(crate) fn new(name: &str, queues: usize, needs_pmd: bool) -> Self {
        let received = (0..queues).map(|_| Frames::default()).collect();
        Self { name: name.to_owned(), needs_pmd, received, sent: Frames::default() }
    }

    /// Lets a frame arrive.
    pub(crate) fn arrive(&self, queue: usize, frame: Vec<u8>) {
        self.received[queue].lock().unwrap().push_back(frame);
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
        Ok(Box::new(MemoryRx(Arc::clone(&self.received[queue]))))
    }

    fn open_tx(&mut self, _: usize) -> Result<Box<dyn TxQueue>, PortError> {
        Ok(Box::new(MemoryTx(Arc::clone(&self.sent))))
    }
}

struct MemoryRx(Frames);

impl RxQueue for MemoryRx {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let mut frames = self.0.lock().unwrap();
        let filled = batch.fill(frames.len().min(batch.room()));
        for (mut packet, frame) in batch.iter_mut().zip(frames.drain(..filled)) {
            assert!(packet.append(&frame));
        }
        Ok(filled)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct MemoryTx(Frames);

impl TxQueue for MemoryTx {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let mut frames = self.0.lock().unwrap();
        let sent = batch.len() as u64;
        frames.extend(batch.iter().map(|packet| bytes_of(&packet)));
        batch.clear();
        SendReport { sent, ..SendReport::default() }
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::empty()
    }
}

/// The bytes of a packet.
pub(crate) fn bytes_of(packet: &PacketRef<'_>) -> Vec<u8> {
    packet.segments().flatten().copied().collect()
}

/// A valid UDP frame over IPv4.
pub(crate) fn udp(source: u32, destination: u32, ports: [u16; 2], data: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let length = 28 + data.len();
    let mut ip =
        Ipv4Header { version_length: 0x45, ttl: 64, protocol: 17, ..Ipv4Header::default() };
    ip.total_length.set(length as u16);
    ip.source.set(source);
    ip.destination.set(destination);
    let sum = checksum(ip.as_bytes());
    ip.checksum.set(sum);
    let mut transport: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    transport.extend((8 + data.len() as u16).to_be_bytes());
    transport.extend([0, 0]);
    transport.extend(data);
    let sum = Sum::of_pseudo_ipv4(&ip, 17, transport.len()).add_bytes(&transport).finish();
    transport[6..8].copy_from_slice(&sum.to_be_bytes());
    frame.extend(ip.as_bytes());
    frame.extend(transport);
    frame
}

/// What [`TestHandler`] asks.
type Answer = dyn Fn(&FlowKey) -> Option<(FlowKey, Vec<Action>)> + Send + Sync;

/// Answers misses by a function from keys to masks and actions, and counts.
pub(crate) struct TestHandler {
    answer: Box<Answer>,
    pub(crate) misses: AtomicU64,
    /// Packets that came to userspace, and what they were to do next.
    pub(crate) userspace: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
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
