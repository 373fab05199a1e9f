//! Ports of type `sim`: software NICs whose hardware has rules.
//!
//! A `sim` port is in memory. Its wire leads to another `sim` port (`options:peer`), or frames
//! arrive from a capture file (`rx_pcap`) and what is sent is recorded (`tx_pcap`). In front of
//! its receive rings it has what a NIC with flow rules has: tables, queues of requests that are
//! carried out later and in any order, marks that packets carry from the moment they arrive,
//! counters that lag, limits, and faults. All choices that it makes at random follow from one
//! seed. So offload can be tried, and proved, without a NIC.

mod audit;
mod engine;
mod fault;
mod frame;
mod index;
mod nic;
mod options;
mod packet_queue;
mod ring;
mod rule_queue;
mod table;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::ethernet_address::EthernetAddress;
use crate::flow_api::{DeviceId, FlowDevice};
use crate::packet::FramePool;
use crate::port::{Port, PortError};
use crate::queue::{RxQueue, TxQueue};
use crate::replay::Frames;
use crate::statistics::Statistics;
pub use audit::{Event, Totals};
pub use fault::Faults;
pub use nic::Nic;
use nic::{SimFlowDevice, lock};
use options::Options;
use packet_queue::{SimRxQueue, SimTxQueue};

const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65535;

/// Every `sim` port of the process.
#[derive(Debug, Default)]
pub struct SimPorts {
    /// In the order in which they were opened.
    ports: Mutex<Vec<Weak<Nic>>>,
    opened: AtomicU32,
}

impl SimPorts {
    /// The open `sim` port `name`.
    pub fn get(&self, name: &str) -> Option<Arc<Nic>> {
        self.all().into_iter().find(|nic| nic.name() == name)
    }

    /// All open `sim` ports, oldest first.
    pub fn all(&self) -> Vec<Arc<Nic>> {
        lock(&self.ports).iter().filter_map(Weak::upgrade).collect()
    }

    fn by_id(&self, id: DeviceId) -> Option<Arc<Nic>> {
        self.all().into_iter().find(|nic| nic.id() == id)
    }

    /// Opens a port.
    ///
    /// # Errors
    /// When the system has no random numbers for an address.
    pub fn open(self: &Arc<Self>, name: &str) -> Result<SimPort, PortError> {
        let mut address = [0; 6];
        getrandom(&mut address, GetRandomFlags::empty())
            .map_err(|errno| PortError::Open { port: name.to_owned(), errno })?;
        let id = DeviceId(self.opened.fetch_add(1, Ordering::Relaxed));
        let nic = Arc::new(Nic::new(name, id, Arc::downgrade(self)));
        let mut ports = lock(&self.ports);
        ports.retain(|port| port.strong_count() > 0);
        ports.push(Arc::downgrade(&nic));
        Ok(SimPort {
            nic,
            address: EthernetAddress(address).made_local_station(),
            options: Options::default(),
            given: BTreeMap::new(),
            frames: Arc::default(),
            change_sequence: 1,
        })
    }
}

/// A `sim` port as the bridge holds it.
#[derive(Debug)]
pub struct SimPort {
    nic: Arc<Nic>,
    address: EthernetAddress,
    options: Options,
    given: BTreeMap<String, String>,
    frames: Arc<Frames>,
    change_sequence: u64,
}

impl SimPort {
    /// The device.
    pub fn nic(&self) -> &Arc<Nic> {
        &self.nic
    }
}

impl Port for SimPort {
    fn name(&self) -> &str {
        self.nic.name()
    }

    fn port_type(&self) -> &str {
        "sim"
    }

    /// Queues that are open go on with the file under which they were opened.
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), PortError> {
        let bad = |problem| PortError::Options { port: self.nic.name().to_owned(), problem };
        let parsed = Options::parse(options).map_err(bad)?;
        if parsed == self.options {
            return Ok(());
        }
        let (frames, recorder) = parsed.files.open().map_err(|error| bad(error.to_string()))?;
        self.nic.set_options(&parsed, recorder);
        self.frames = Arc::new(frames);
        self.options = parsed;
        self.given = options.clone();
        self.change_sequence += 1;
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        self.given.clone()
    }

    fn ethernet_address(&self) -> Result<EthernetAddress, PortError> {
        Ok(self.address)
    }

    fn set_ethernet_address(&mut self, address: EthernetAddress) -> Result<(), PortError> {
        if self.address != address {
            self.address = address;
            self.change_sequence += 1;
        }
        Ok(())
    }

    fn mtu(&self) -> Result<u32, PortError> {
        Ok(self.nic.mtu.load(Ordering::Relaxed))
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        if !MTU_RANGE.contains(&mtu) {
            return Err(PortError::Set {
                port: self.name().to_owned(),
                setting: "MTU",
                value: mtu.to_string(),
                errno: Errno::INVAL,
            });
        }
        if self.nic.mtu.swap(mtu, Ordering::Relaxed) != mtu {
            self.change_sequence += 1;
        }
        Ok(())
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        Ok(self.nic.is_up.load(Ordering::Relaxed))
    }

    fn set_admin_up(&mut self, up: bool) -> Result<(), PortError> {
        if self.nic.is_up.swap(up, Ordering::Relaxed) != up {
            self.change_sequence += 1;
        }
        Ok(())
    }

    fn status(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        let load = |counter: &std::sync::atomic::AtomicU64| Some(counter.load(Ordering::Relaxed));
        Ok(Statistics {
            rx_packets: load(&self.nic.received.packets),
            rx_bytes: load(&self.nic.received.bytes),
            tx_packets: load(&self.nic.sent.packets),
            tx_bytes: load(&self.nic.sent.bytes),
            tx_dropped: load(&self.nic.unsent),
            rx_missed_errors: Some(self.nic.missed()),
            ..Statistics::default()
        })
    }

    fn change_sequence(&self) -> u64 {
        self.change_sequence
    }

    fn rx_queues(&self) -> usize {
        self.options.files.rx_queues
    }

    fn needs_pmd(&self) -> bool {
        true
    }

    fn open_rx(
        &mut self,
        queue: usize,
        _pool: &Arc<FramePool>,
    ) -> Result<Box<dyn RxQueue>, PortError> {
        let Some(ring) = self.nic.ring(queue) else {
            let (port, errno) = (self.name().to_owned(), Errno::NODEV);
            return Err(PortError::Get { port, what: "receive queue", errno });
        };
        let is_infinite = self.options.files.infinite_rx;
        Ok(Box::new(SimRxQueue::open(&self.nic, ring, &self.frames, is_infinite)))
    }

    fn open_tx(&mut self, _queue: usize) -> Result<Box<dyn TxQueue>, PortError> {
        Ok(Box::new(SimTxQueue::open(&self.nic)))
    }

    fn flow_device(&self) -> Option<Arc<dyn FlowDevice>> {
        Some(Arc::new(SimFlowDevice(Arc::clone(&self.nic))))
    }
}

#[cfg(test)]
mod tests;
