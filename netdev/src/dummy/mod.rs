//! Ports in memory, driven by tests and by appctl commands.
//!
//! A dummy is shared: the bridge holds it as a [`Port`], the datapath moves its frames, and
//! commands such as `netdev-dummy/receive` find it by name in [`DummyPorts`].

mod address;
mod arp;
mod connection;
mod options;
mod queue;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;
use tokio::sync::Notify;

use crate::checksum;
use crate::coverage::Counter;
use crate::errno;
use crate::ethernet_address::EthernetAddress;
use crate::network::Network;
use crate::offload::TransmitOffloads;
use crate::packet::{Batch, FramePool, PacketMut, Segmentation};
use crate::pcap::PcapWriter;
use crate::port::{Port, PortError};
use crate::queue::{RxQueue, SendReport, TxQueue};
use crate::statistics::Statistics;
use connection::Connection;
use options::{Options, Queues};
use queue::{DummyRxQueue, DummyTxQueue, QueueCounters, ReceiveQueue};

/// Frames lost because a dummy port's receive queue was full or missing.
pub static RECEIVE_QUEUE_FULL: Counter = Counter::new("netdev_dummy_rxq_full");
/// Frames lost because a dummy port's stream could not take them.
pub static STREAM_FULL: Counter = Counter::new("netdev_dummy_stream_full");

const ETHERNET_HEADER_LENGTH: usize = 14;
const VLAN_TAG_LENGTH: usize = 4;
/// EtherType of IEEE 802.1Q.
const VLAN_ETHER_TYPE: [u8; 2] = [0x81, 0x00];
const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65535;

/// What stood between the wire and a receive queue made of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intercepted {
    /// The mark that the frame carries from here on; 0 is none.
    pub mark: u32,
    /// Whether the frame does not come to the receive queue.
    pub is_taken: bool,
}

/// What stands between the wire and the receive queues of a dummy port.
pub type Interceptor = Box<dyn Fn(&[u8]) -> Intercepted + Send + Sync>;

/// Every dummy port of the process, by name.
#[derive(Debug, Default)]
pub struct DummyPorts {
    /// In the order in which they were opened.
    ports: Mutex<Vec<Weak<Dummy>>>,
    opened: AtomicU32,
    received: Arc<Notify>,
    /// Where relative paths of sockets start from.
    run_directory: PathBuf,
}

impl DummyPorts {
    /// No ports yet. Relative paths of their sockets will start from `run_directory`.
    pub(crate) fn new(run_directory: &Path) -> Self {
        Self { run_directory: run_directory.to_owned(), ..Self::default() }
    }

    /// The open dummy port `name`.
    pub fn get(&self, name: &str) -> Option<Arc<Dummy>> {
        self.all().into_iter().find(|dummy| dummy.name == name)
    }

    /// All open dummy ports, oldest first.
    pub fn all(&self) -> Vec<Arc<Dummy>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Completes when a frame has arrived at some dummy port since the last completion.
    pub async fn received(&self) {
        self.received.notified().await;
    }

    /// Opens a dummy port under `port_type`, which is not `dummy` where dummies stand in for
    /// another type.
    pub(crate) fn open(&self, name: &str, port_type: &str) -> DummyPort {
        // OVS gives the first number to the datapath's own port, which is none here.
        let number = self.opened.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let [a, b, c, d] = 0xaa55_0000_u32.wrapping_add(number).to_be_bytes();
        let dummy = Arc::new(Dummy {
            name: name.to_owned(),
            port_type: port_type.to_owned(),
            received: Arc::clone(&self.received),
            run_directory: self.run_directory.clone(),
            state: Mutex::new(State {
                address: EthernetAddress([0xaa, 0x55, a, b, c, d]),
                mtu: 1500,
                admin_up: true,
                options: Options::default(),
                ip_addresses: Vec::new(),
                receive: vec![ReceiveQueue::default()],
                transmitted: vec![QueueCounters::default()],
                receive_pcap: None,
                transmit_pcap: None,
                connection: None,
                change_sequence: 1,
            }),
            interceptor: Mutex::default(),
        });
        let mut ports = self.lock();
        ports.retain(|port| port.strong_count() > 0);
        ports.push(Arc::downgrade(&dummy));
        DummyPort(dummy)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Dummy>>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shared state of a dummy port: what the datapath and the commands do with it.
pub struct Dummy {
    name: String,
    port_type: String,
    received: Arc<Notify>,
    run_directory: PathBuf,
    state: Mutex<State>,
    interceptor: Mutex<Option<Arc<Interceptor>>>,
}

impl std::fmt::Debug for Dummy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dummy")
            .field("name", &self.name)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct State {
    address: EthernetAddress,
    mtu: u32,
    admin_up: bool,
    options: Options,
    ip_addresses: Vec<Network>,
    receive: Vec<ReceiveQueue>,
    transmitted: Vec<QueueCounters>,
    receive_pcap: Option<PcapWriter>,
    transmit_pcap: Option<PcapWriter>,
    connection: Option<Connection>,
    change_sequence: u64,
}

impl State {
    /// Records `frame` and puts it on a receive queue; false when it is lost.
    fn arrive(&mut self, queue: usize, frame: Vec<u8>, mark: u32) -> bool {
        record(&mut self.receive_pcap, &frame);
        let queued = self.receive.get_mut(queue).is_some_and(|queue| queue.push(frame, mark));
        if !queued {
            RECEIVE_QUEUE_FULL.add(1);
        }
        queued
    }

    fn set_queues(&mut self, queues: Queues) {
        let Queues { receive, transmit, numa_node: _ } = queues;
        let (receive, transmit) = (receive as usize, transmit as usize);
        if (receive, transmit) == (self.receive.len(), self.transmitted.len()) {
            return;
        }
        // All counters start again, so that those of the queues add up to those of the port.
        self.receive.resize_with(receive, ReceiveQueue::default);
        for queue in &mut self.receive {
            queue.received = QueueCounters::default();
        }
        self.transmitted = vec![QueueCounters::default(); transmit];
    }

    fn statistics(&self) -> Statistics {
        let received = self.receive.iter().map(|queue| queue.received);
        let transmitted = self.transmitted.iter().copied();
        let rx_packets = received.clone().map(|queue| queue.packets).sum();
        let mut custom = vec![
            ("rx_custom_packets_1".to_owned(), rx_packets),
            ("rx_custom_packets_2".to_owned(), rx_packets),
        ];
        for (i, QueueCounters { packets, bytes }) in received.clone().enumerate() {
            custom.push((format!("rx_q{i}_bytes"), bytes));
            custom.push((format!("rx_q{i}_packets"), packets));
        }
        for (i, QueueCounters { packets, bytes }) in transmitted.clone().enumerate() {
            custom.push((format!("tx_q{i}_bytes"), bytes));
            custom.push((format!("tx_q{i}_packets"), packets));
        }
        Statistics {
            rx_packets: Some(rx_packets),
            tx_packets: Some(transmitted.clone().map(|queue| queue.packets).sum()),
            rx_bytes: Some(received.map(|queue| queue.bytes).sum()),
            tx_bytes: Some(transmitted.map(|queue| queue.bytes).sum()),
            custom,
            ..Statistics::default()
        }
    }
}

fn record(pcap: &mut Option<PcapWriter>, frame: &[u8]) {
    if let Some(Err(error)) = pcap.as_mut().map(|pcap| pcap.write(frame)) {
        tracing::warn!(target: "pcap", limited = true, "{error}");
    }
}

impl Dummy {
    /// The name under which the port was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether poll threads, not the control thread, are to receive from the port.
    pub fn is_pmd(&self) -> bool {
        self.port_type == "dummy-pmd"
    }

    /// How many receive queues the port has.
    pub fn receive_queues(&self) -> usize {
        self.lock().receive.len()
    }

    /// Puts `frame` on receive queue `queue`, as if it had arrived from outside. A frame for a
    /// queue that is full or does not exist is dropped.
    pub fn inject(&self, queue: usize, frame: Vec<u8>) {
        let interceptor = self.interceptor().clone();
        let intercepted = interceptor.map_or(Intercepted::default(), |of| of(&frame));
        if intercepted.is_taken {
            record(&mut self.lock().receive_pcap, &frame);
        } else if self.lock().arrive(queue, frame, intercepted.mark) {
            self.received.notify_one();
        }
    }

    fn interceptor(&self) -> MutexGuard<'_, Option<Arc<Interceptor>>> {
        self.interceptor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something between the wire and the receive queues, or takes it away.
    pub fn set_interceptor(&self, interceptor: Option<Interceptor>) {
        *self.interceptor() = interceptor.map(Arc::new);
    }

    /// Puts a whole frame on the wire, by the transmit queue that its hash picks.
    pub fn transmit(&self, frame: &[u8], hash: u32) {
        let mut state = self.lock();
        let queue = hash as usize % state.transmitted.len().max(1);
        if let Some(counters) = state.transmitted.get_mut(queue) {
            counters.count(frame);
        }
        if let Some(connection) = &state.connection {
            STREAM_FULL.add(connection.send(frame));
        }
        record(&mut state.transmit_pcap, frame);
    }

    /// Moves the oldest frame of receive queue `queue` to the end of `batch`, and returns how many
    /// frames it moved. A queue that options took away is empty until its thread lets go of it.
    fn receive(&self, queue: usize, batch: &mut Batch) -> usize {
        let mut state = self.lock();
        let Some(queue) = state.receive.get_mut(queue) else { return 0 };
        let Some((frame, mark)) = queue.oldest() else {
            drop(state);
            if self.is_pmd() {
                // A poll thread leaves the processor to others while there is nothing to do.
                std::thread::yield_now();
            }
            return 0;
        };
        if batch.fill(1) == 0 {
            return 0;
        }
        let last = batch.len() - 1;
        if !batch.get_mut(last).is_some_and(|mut packet| packet.append(frame)) {
            // The frame waits until the pool has room again.
            batch.remove(last);
            return 0;
        }
        queue.take();
        if let Some(mut packet) = batch.get_mut(last) {
            packet.descriptor_mut().mark = mark;
            state.options.mark_received(&mut packet);
        }
        1
    }

    /// Sends `packet` by transmit queue `queue`: to the streams that are connected. An ARP request
    /// for an address of the port is answered on receive queue 0. `frame` is overwritten.
    fn send(&self, queue: usize, packet: &mut PacketMut<'_>, frame: &mut Vec<u8>) -> SendReport {
        let mut state = self.lock();
        let mut scratch = [0; 2];
        let Some(ether_type) = packet.view().header(12, 2, &mut scratch) else {
            return SendReport { invalid: 1, ..SendReport::default() };
        };
        let tag = if ether_type == VLAN_ETHER_TYPE { VLAN_TAG_LENGTH } else { 0 };
        let is_large = packet.view().descriptor().segmentation != Segmentation::None;
        let longest = state.mtu as usize + ETHERNET_HEADER_LENGTH + tag;
        if packet.view().len() > longest && !is_large {
            return SendReport { mtu_exceeded: 1, ..SendReport::default() };
        }
        if checksum::finish(packet, state.options.omitted_offloads()).is_err() {
            return SendReport { invalid: 1, ..SendReport::default() };
        }
        frame.clear();
        packet.view().segments().for_each(|segment| frame.extend(segment));
        if let Some(counters) = state.transmitted.get_mut(queue) {
            counters.count(frame);
        }
        if let Some(connection) = &state.connection {
            STREAM_FULL.add(connection.send(frame));
        }
        let is_ours = |ip| state.ip_addresses.iter().any(|ours| ours.address == IpAddr::V4(ip));
        if let Some(reply) = arp::reply(frame, state.address, is_ours)
            && state.arrive(0, reply, 0)
        {
            self.received.notify_one();
        }
        record(&mut state.transmit_pcap, frame);
        SendReport { sent: 1, ..SendReport::default() }
    }

    fn transmit_offloads(&self) -> TransmitOffloads {
        self.lock().options.transmit_offloads()
    }

    /// Whether the port's stream is connected; none unless option `stream` is set.
    pub fn is_connected(&self) -> Option<bool> {
        let state = self.lock();
        match (&state.options.connection, &state.connection) {
            (Some(options::Connection::Active(_)), Some(open)) => Some(open.is_connected()),
            _ => None,
        }
    }

    /// Sets the port up or down.
    pub fn set_admin_up(&self, up: bool) {
        let mut state = self.lock();
        if state.admin_up != up {
            state.admin_up = up;
            state.change_sequence += 1;
        }
    }

    /// Gives the port an IP address.
    pub fn add_ip_address(&self, address: Network) {
        let mut state = self.lock();
        state.ip_addresses.push(address);
        state.change_sequence += 1;
    }

    /// The port's IP addresses.
    pub fn ip_addresses(&self) -> Vec<Network> {
        self.lock().ip_addresses.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A dummy port as the bridge holds it. Dropping it closes the port.
#[derive(Debug)]
pub(crate) struct DummyPort(Arc<Dummy>);

impl Port for DummyPort {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn port_type(&self) -> &str {
        &self.0.port_type
    }

    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), PortError> {
        let parsed = Options::parse(&self.0.name, self.0.is_pmd(), options, &self.0.run_directory)?;
        let bad = |problem| PortError::Options { port: self.0.name.clone(), problem };
        let open_pcap = |path: &Option<PathBuf>| {
            path.as_deref()
                .map(PcapWriter::append)
                .transpose()
                .map_err(|error| bad(error.to_string()))
        };
        let receive_pcap = open_pcap(&parsed.receive_pcap)?;
        let transmit_pcap = open_pcap(&parsed.transmit_pcap)?;
        let mut state = self.0.lock();
        if state.options.connection != parsed.connection {
            let open = |wanted| Connection::open(wanted, &self.0);
            state.connection =
                parsed.connection.as_ref().map(open).transpose().map_err(|error| {
                    bad(format!("could not open stream ({})", errno::io_description(&error)))
                })?;
        }
        (state.receive_pcap, state.transmit_pcap) = (receive_pcap, transmit_pcap);
        if state.options != parsed {
            state.set_queues(parsed.queues);
            state.options = parsed;
            state.change_sequence += 1;
        }
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        self.0.lock().options.show(self.0.is_pmd())
    }

    fn ethernet_address(&self) -> Result<EthernetAddress, PortError> {
        Ok(self.0.lock().address)
    }

    fn set_ethernet_address(&mut self, address: EthernetAddress) -> Result<(), PortError> {
        let mut state = self.0.lock();
        if state.address != address {
            state.address = address;
            state.change_sequence += 1;
        }
        Ok(())
    }

    fn mtu(&self) -> Result<u32, PortError> {
        Ok(self.0.lock().mtu)
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        if !MTU_RANGE.contains(&mtu) {
            return Err(PortError::Set {
                port: self.0.name.clone(),
                setting: "MTU",
                value: mtu.to_string(),
                errno: Errno::INVAL,
            });
        }
        let mut state = self.0.lock();
        if state.mtu != mtu {
            state.mtu = mtu;
            state.change_sequence += 1;
        }
        Ok(())
    }

    fn scheduling_queues(&self) -> &[u32] {
        &[0]
    }

    fn ifindex(&self) -> Option<u32> {
        self.0.lock().options.ifindex
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        Ok(self.0.lock().admin_up)
    }

    fn set_admin_up(&mut self, up: bool) -> Result<(), PortError> {
        self.0.set_admin_up(up);
        Ok(())
    }

    fn numa_node(&self) -> Option<u32> {
        Some(self.0.lock().options.queues.numa_node)
    }

    fn status(&self) -> BTreeMap<String, String> {
        self.0.lock().options.transmit_offloads().status()
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        Ok(self.0.lock().statistics())
    }

    fn change_sequence(&self) -> u64 {
        self.0.lock().change_sequence
    }

    fn rx_queues(&self) -> usize {
        self.0.receive_queues()
    }

    fn needs_pmd(&self) -> bool {
        self.0.is_pmd()
    }

    fn dummy(&self) -> Option<Arc<Dummy>> {
        Some(Arc::clone(&self.0))
    }

    fn open_rx(
        &mut self,
        queue: usize,
        _pool: &Arc<FramePool>,
    ) -> Result<Box<dyn RxQueue>, PortError> {
        Ok(Box::new(DummyRxQueue::open(&self.0, queue)?))
    }

    fn tx_queues(&self) -> usize {
        self.0.lock().transmitted.len()
    }

    fn open_tx(&mut self, queue: usize) -> Result<Box<dyn TxQueue>, PortError> {
        let queue = queue.checked_rem(self.tx_queues()).unwrap_or(0);
        Ok(Box::new(DummyTxQueue::open(&self.0, queue)))
    }
}

#[cfg(test)]
mod tests;
