//! Ports of types `system`, `tap` and `internal`.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use rtnetlink::packet_route::link::Stats64;
use rustix::io::Errno;

use super::counters::Counters;
use super::ethtool::{DriverInfo, LinkSettings};
use super::links::{Device, Links};
use super::netlink;
use super::packet_socket::PacketSocket;
use super::system_queue::{self, SystemRxQueue, SystemTxQueue};
use super::tap::{MAX_QUEUES, Tap};
use super::tap_queue::{TapRxQueue, TapTxQueue};
use crate::ethernet_address::EthernetAddress;
use crate::features::{Duplex, LinkFeatures, LinkSpeed};
use crate::packet::FramePool;
use crate::port::{Port, PortError};
use crate::queue::{RxQueue, TxQueue};
use crate::statistics::Statistics;

/// Names that the kernel's own configuration files claim (`/proc/sys/net/ipv4/conf`).
const FORBIDDEN_NAMES: [&str; 2] = ["all", "default"];

/// A port that is a network device of the kernel.
#[derive(Debug)]
pub(crate) struct KernelPort {
    device: Arc<Device>,
    kind: Kind,
    counters: Arc<Counters>,
    /// What the receive queue of a device of type `system` receives from.
    receiving: Weak<PacketSocket>,
    /// Option `n_rxq`, where it is set and means something.
    wanted_queues: Option<usize>,
    /// Option `pmd`: whether poll threads receive from the device.
    is_polled: bool,
}

#[derive(Debug)]
enum Kind {
    /// A device that is there without us.
    System,
    /// A device of ours: frames that it sends are those that the switch receives.
    Tap(Tap),
    /// A tap device that is the host's own port of the switch, and stays while the switch
    /// restarts.
    Internal(Tap),
}

impl KernelPort {
    /// Opens the existing device `name`.
    pub(crate) fn open_system(links: &Links, name: &str) -> Result<Self, PortError> {
        Self::open(links, name, || Ok(Kind::System))
    }

    /// Creates tap device `name`.
    pub(crate) fn open_tap(links: &Links, name: &str) -> Result<Self, PortError> {
        Self::open(links, name, || Ok(Kind::Tap(Tap::open(name, false)?)))
    }

    /// Creates tap device `name`, or takes over the one that was left behind.
    pub(crate) fn open_internal(links: &Links, name: &str) -> Result<Self, PortError> {
        Self::open(links, name, || Ok(Kind::Internal(Tap::open(name, true)?)))
    }

    fn open(
        links: &Links,
        name: &str,
        open_kind: impl FnOnce() -> Result<Kind, Errno>,
    ) -> Result<Self, PortError> {
        let open = || {
            if FORBIDDEN_NAMES.contains(&name) {
                tracing::warn!(
                    target: "netdev_linux",
                    limited = true,
                    "{name}: Linux forbids network device with this name"
                );
                return Err(Errno::INVAL);
            }
            if name.len() >= libc::IFNAMSIZ {
                return Err(Errno::NAMETOOLONG);
            }
            let kind = open_kind()?;
            let tap = match &kind {
                Kind::System => None,
                Kind::Tap(tap) | Kind::Internal(tap) => tap.queue(0),
            };
            let device = links.open(name, tap)?;
            Ok(Self {
                device,
                kind,
                counters: Arc::default(),
                receiving: Weak::new(),
                wanted_queues: None,
                is_polled: false,
            })
        };
        open().map_err(|errno| PortError::Open { port: name.to_owned(), errno })
    }

    /// The device.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// What queues count.
    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn could_not_read(&self, what: &'static str) -> impl Fn(Errno) -> PortError {
        move |errno| PortError::Get { port: self.device.name().to_owned(), what, errno }
    }

    fn set(
        &self,
        setting: &'static str,
        value: impl ToString,
        change: impl FnOnce(u32) -> Result<(), Errno>,
    ) -> Result<(), PortError> {
        self.device.change(change).map_err(|errno| PortError::Set {
            port: self.device.name().to_owned(),
            setting,
            value: value.to_string(),
            errno,
        })
    }

    fn link_settings(&self) -> Result<LinkSettings, Errno> {
        // The name may be another device's by now.
        self.device.index()?;
        LinkSettings::read(self.device.name())
    }
}

impl Port for KernelPort {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn port_type(&self) -> &str {
        match self.kind {
            Kind::System => "system",
            Kind::Tap(_) => "tap",
            Kind::Internal(_) => "internal",
        }
    }

    /// All have `pmd`, whether poll threads are to receive from the device. Tap devices have
    /// `n_rxq`, the number of their queues.
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), PortError> {
        let port = self.device.name();
        let bad = |problem| PortError::Options { port: port.to_owned(), problem };
        let is_polled = match options.get("pmd").map(|value| value.to_ascii_lowercase()).as_deref()
        {
            None | Some("false") => false,
            Some("true") => true,
            Some(value) => return Err(bad(format!("pmd={value} is neither true nor false"))),
        };
        let (Kind::Tap(tap) | Kind::Internal(tap)) = &mut self.kind else {
            self.is_polled = is_polled;
            return Ok(());
        };
        let parse = |value: &String| {
            let count = value.trim().parse().ok().filter(|count| (1..=MAX_QUEUES).contains(count));
            count.ok_or_else(|| {
                bad(format!("n_rxq={value} is not a number of queues (1 to {MAX_QUEUES})"))
            })
        };
        let wanted = options.get("n_rxq").map(parse).transpose()?;
        let count = wanted.unwrap_or(1);
        tap.set_queues(count).map_err(|errno| PortError::Set {
            port: port.to_owned(),
            setting: "number of queues",
            value: count.to_string(),
            errno,
        })?;
        self.wanted_queues = wanted;
        self.is_polled = is_polled;
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        let queues = self.wanted_queues.map(|count| ("n_rxq".to_owned(), count.to_string()));
        let polled = self.is_polled.then(|| ("pmd".to_owned(), "true".to_owned()));
        queues.into_iter().chain(polled).collect()
    }

    fn ethernet_address(&self) -> Result<EthernetAddress, PortError> {
        let address = self.device.link().and_then(|link| link.address.ok_or(Errno::AFNOSUPPORT));
        address.map_err(self.could_not_read("Ethernet address"))
    }

    fn set_ethernet_address(&mut self, address: EthernetAddress) -> Result<(), PortError> {
        if self.device.link().is_ok_and(|link| link.address == Some(address)) {
            return Ok(());
        }
        self.set("Ethernet address", address, |index| netlink::set_address(index, address))
    }

    fn mtu(&self) -> Result<u32, PortError> {
        self.device.link().map(|link| link.mtu).map_err(self.could_not_read("MTU"))
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        if self.device.link().is_ok_and(|link| link.mtu == mtu) {
            return Ok(());
        }
        self.set("MTU", mtu, |index| netlink::set_mtu(index, mtu))
    }

    fn ifindex(&self) -> Option<u32> {
        self.device.index().ok()
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        self.device.link().map(|link| link.is_up).map_err(self.could_not_read("admin state"))
    }

    fn set_admin_up(&mut self, up: bool) -> Result<(), PortError> {
        if self.device.link().is_ok_and(|link| link.is_up == up) {
            return Ok(());
        }
        let state = if up { "up" } else { "down" };
        self.set("admin state", state, |index| netlink::set_up(index, up))
    }

    fn carrier(&self) -> bool {
        self.device.link().is_ok_and(|link| link.is_up && link.is_running)
    }

    fn carrier_resets(&self) -> u64 {
        self.device.carrier_resets()
    }

    fn speed(&self) -> Option<LinkSpeed> {
        self.link_settings().ok().map(|settings| settings.speed)
    }

    fn duplex(&self) -> Option<Duplex> {
        self.link_settings().ok()?.duplex
    }

    fn features(&self) -> Result<LinkFeatures, PortError> {
        let settings = self.link_settings().map_err(self.could_not_read("link features"))?;
        Ok(settings.features)
    }

    fn numa_node(&self) -> Option<u32> {
        let name = self.device.name();
        let node = std::fs::read_to_string(format!("/sys/class/net/{name}/device/numa_node"));
        // Virtual devices have no node, or -1.
        node.ok()?.trim().parse().ok()
    }

    fn status(&self) -> BTreeMap<String, String> {
        let offloads = match &self.kind {
            Kind::Tap(tap) | Kind::Internal(tap) => tap.offloads(),
            Kind::System => system_queue::OFFLOADS,
        };
        let mut status = offloads.status();
        let Ok(link) = self.device.index().and_then(|_| self.device.link()) else {
            return status;
        };
        if let Ok(driver) = DriverInfo::read(&link.name) {
            status.insert("driver_name".to_owned(), driver.driver);
            status.insert("driver_version".to_owned(), driver.version);
            status.insert("firmware_version".to_owned(), driver.firmware_version);
        }
        if let Some(index) = link.peer_index {
            status.insert("peer_ifindex".to_owned(), index.to_string());
        }
        status
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        let counters = match self.device.index().and_then(netlink::statistics) {
            // Nobody tells what the kernel counted in another namespace.
            Err(Errno::OPNOTSUPP) => Ok(Stats64::default()),
            counters => counters.map_err(self.could_not_read("statistics")),
        }?;
        let mut statistics = match self.kind {
            Kind::System => device_statistics(counters),
            Kind::Tap(_) | Kind::Internal(_) => tap_statistics(counters),
        };
        if let Some(lost) = self.receiving.upgrade().and_then(|socket| socket.take_lost().ok()) {
            self.counters.add_lost(lost.into());
        }
        self.counters.add_to(&mut statistics);
        Ok(statistics)
    }

    fn change_sequence(&self) -> u64 {
        self.device.change_sequence()
    }

    fn rx_queues(&self) -> usize {
        match &self.kind {
            Kind::System => 1,
            Kind::Tap(tap) | Kind::Internal(tap) => tap.queues(),
        }
    }

    fn needs_pmd(&self) -> bool {
        self.is_polled
    }

    fn open_rx(
        &mut self,
        queue: usize,
        pool: &Arc<FramePool>,
    ) -> Result<Box<dyn RxQueue>, PortError> {
        let (device, counters) = (&self.device, &self.counters);
        let opened: Result<Box<dyn RxQueue>, Errno> = match &self.kind {
            Kind::System if queue == 0 => {
                SystemRxQueue::open(device, counters, pool).map(|queue| {
                    self.receiving = Arc::downgrade(queue.socket());
                    Box::new(queue) as _
                })
            }
            Kind::System => Err(Errno::NODEV),
            Kind::Tap(tap) | Kind::Internal(tap) => match tap.queue(queue) {
                Some(file) => {
                    Ok(Box::new(TapRxQueue::open(device, file, queue, counters, pool)) as _)
                }
                None => Err(Errno::NODEV),
            },
        };
        opened.map_err(self.could_not_read("receive queue"))
    }

    /// Each thread has a packet socket of its own, so that devices of type `system` have one queue
    /// for all.
    fn tx_queues(&self) -> usize {
        match &self.kind {
            Kind::System => 1,
            Kind::Tap(tap) | Kind::Internal(tap) => tap.queues(),
        }
    }

    fn open_tx(&mut self, queue: usize) -> Result<Box<dyn TxQueue>, PortError> {
        let (device, counters) = (&self.device, &self.counters);
        let opened: Result<Box<dyn TxQueue>, Errno> = match &self.kind {
            Kind::System => SystemTxQueue::open(device, counters).map(|queue| Box::new(queue) as _),
            Kind::Tap(tap) | Kind::Internal(tap) => {
                match tap.queue(queue.checked_rem(self.tx_queues()).unwrap_or(0)) {
                    Some(file) => {
                        Ok(Box::new(TapTxQueue::open(device, file, tap.offloads(), counters)) as _)
                    }
                    None => Err(Errno::NODEV),
                }
            }
        };
        opened.map_err(self.could_not_read("transmit queue"))
    }

    fn leave_device_behind(&mut self) {
        if let Kind::Internal(tap) = &mut self.kind {
            tap.leave_behind();
        }
    }
}

/// What the kernel counted of a device that other stations send to and receive from. Packets and
/// bytes are counted by the queues.
fn device_statistics(counters: Stats64) -> Statistics {
    Statistics {
        rx_dropped: Some(counters.rx_dropped),
        tx_dropped: Some(counters.tx_dropped),
        rx_errors: Some(counters.rx_errors),
        tx_errors: Some(counters.tx_errors),
        rx_frame_errors: Some(counters.rx_frame_errors),
        rx_over_errors: Some(counters.rx_over_errors),
        rx_crc_errors: Some(counters.rx_crc_errors),
        rx_missed_errors: Some(counters.rx_missed_errors),
        collisions: Some(counters.collisions),
        rx_multicast_packets: Some(counters.multicast),
        ..Statistics::default()
    }
}

/// The same of a tap device. The kernel counts from the host's side, where sent and received
/// change places; its errors of the wire do not exist.
fn tap_statistics(counters: Stats64) -> Statistics {
    Statistics {
        rx_dropped: Some(counters.tx_dropped),
        tx_dropped: Some(counters.rx_dropped),
        rx_errors: Some(counters.tx_errors),
        tx_errors: Some(counters.rx_errors),
        rx_frame_errors: Some(0),
        rx_over_errors: Some(0),
        rx_crc_errors: Some(0),
        rx_missed_errors: Some(0),
        collisions: Some(counters.collisions),
        rx_multicast_packets: Some(counters.multicast),
        ..Statistics::default()
    }
}
