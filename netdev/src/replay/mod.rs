//! Ports without a device: type `pcap` replays a capture file and records what is sent, type
//! `null` receives nothing and discards what is sent. They carry traffic as fast as it can be
//! looked up, so they serve to measure and to repeat.

mod files;
mod options;
mod queue;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::ethernet_address::EthernetAddress;
use crate::packet::FramePool;
use crate::pcap::PcapWriter;
use crate::port::{Port, PortError};
use crate::queue::{RxQueue, TxQueue};
use crate::statistics::Statistics;
pub(crate) use files::{FileOptions, Frames, record};
use options::Options;
use queue::{NullRxQueue, ReplayRxQueue, ReplayTxQueue};

const MTU_RANGE: std::ops::RangeInclusive<u32> = 68..=65535;

/// What a port and its queues share.
#[derive(Debug)]
struct Shared {
    mtu: AtomicU32,
    is_up: AtomicBool,
    received: Counters,
    sent: Counters,
    /// Packets that were not sent.
    lost: AtomicU64,
}

/// Packets and bytes, of all queues.
#[derive(Debug, Default)]
struct Counters {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Counters {
    /// Adds a batch.
    fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A port of type `pcap` or `null`.
#[derive(Debug)]
pub(crate) struct ReplayPort {
    name: String,
    port_type: &'static str,
    address: EthernetAddress,
    options: Options,
    frames: Arc<Frames>,
    recorder: Option<Arc<Mutex<PcapWriter>>>,
    shared: Arc<Shared>,
    change_sequence: u64,
}

impl ReplayPort {
    /// Opens a port that replays and records what its options say.
    pub(crate) fn open_pcap(name: &str) -> Result<Self, PortError> {
        Self::open(name, "pcap")
    }

    /// Opens a port that does neither.
    pub(crate) fn open_null(name: &str) -> Result<Self, PortError> {
        Self::open(name, "null")
    }

    fn open(name: &str, port_type: &'static str) -> Result<Self, PortError> {
        let mut address = [0; 6];
        getrandom(&mut address, GetRandomFlags::empty())
            .map_err(|errno| PortError::Open { port: name.to_owned(), errno })?;
        Ok(Self {
            name: name.to_owned(),
            port_type,
            address: EthernetAddress(address).made_local_station(),
            options: Options::default(),
            frames: Arc::default(),
            recorder: None,
            shared: Arc::new(Shared {
                mtu: AtomicU32::new(1500),
                is_up: AtomicBool::new(true),
                received: Counters::default(),
                sent: Counters::default(),
                lost: AtomicU64::new(0),
            }),
            change_sequence: 1,
        })
    }

    fn is_replay(&self) -> bool {
        self.port_type == "pcap"
    }
}

impl Port for ReplayPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn port_type(&self) -> &str {
        self.port_type
    }

    /// Queues that are open go on with the options under which they were opened.
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), PortError> {
        if !self.is_replay() {
            return Ok(());
        }
        let bad = |problem| PortError::Options { port: self.name.clone(), problem };
        let options = Options::parse(options).map_err(bad)?;
        if options == self.options {
            return Ok(());
        }
        let (frames, recorder) = options.files.open().map_err(|error| bad(error.to_string()))?;
        self.frames = Arc::new(frames);
        self.recorder = recorder.map(|recorder| Arc::new(Mutex::new(recorder)));
        self.options = options;
        self.change_sequence += 1;
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        self.options.show()
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
        Ok(self.shared.mtu.load(Ordering::Relaxed))
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        if !MTU_RANGE.contains(&mtu) {
            return Err(PortError::Set {
                port: self.name.clone(),
                setting: "MTU",
                value: mtu.to_string(),
                errno: Errno::INVAL,
            });
        }
        if self.shared.mtu.swap(mtu, Ordering::Relaxed) != mtu {
            self.change_sequence += 1;
        }
        Ok(())
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        Ok(self.shared.is_up.load(Ordering::Relaxed))
    }

    fn set_admin_up(&mut self, up: bool) -> Result<(), PortError> {
        if self.shared.is_up.swap(up, Ordering::Relaxed) != up {
            self.change_sequence += 1;
        }
        Ok(())
    }

    fn status(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        let Shared { received, sent, lost, .. } = &*self.shared;
        let load = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed));
        Ok(Statistics {
            rx_packets: load(&received.packets),
            rx_bytes: load(&received.bytes),
            tx_packets: load(&sent.packets),
            tx_bytes: load(&sent.bytes),
            tx_dropped: load(lost),
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
        if queue >= self.options.files.rx_queues {
            let (port, errno) = (self.name.clone(), Errno::NODEV);
            return Err(PortError::Get { port, what: "receive queue", errno });
        }
        if self.frames.len() == 0 {
            return Ok(Box::new(NullRxQueue));
        }
        Ok(Box::new(ReplayRxQueue::open(&self.frames, &self.shared, &self.options)))
    }

    fn open_tx(&mut self, _queue: usize) -> Result<Box<dyn TxQueue>, PortError> {
        Ok(Box::new(ReplayTxQueue::open(self.recorder.clone(), &self.shared)))
    }
}

#[cfg(test)]
mod tests;
