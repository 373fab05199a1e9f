//! An AF_XDP port.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::attachment::{Attachment, Target};
use super::doctor::{self, Examined};
use super::error::OpenError;
use super::options::{MAX_QUEUES, Mode, Options};
use super::ports::{AfxdpPorts, State};
use super::queue::{AfxdpRxQueue, AfxdpTxQueue, COPIED_PIECE_LENGTH, MAX_SENT_PIECES, Shared};
use super::socket::{Kind, Socket};
use crate::ethernet_address::EthernetAddress;
use crate::features::{Duplex, LinkFeatures, LinkSpeed};
use crate::linux::ethtool;
use crate::linux::port::KernelPort;
use crate::packet::{FRAME_SIZE, FramePool};
use crate::port::{Finding, Port, PortError};
use crate::queue::{RxQueue, TxQueue};
use crate::statistics::Statistics;

/// Bytes that the kernel leaves free in front of a received packet (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM: usize = 256;
/// Bytes of a frame beside its payload: Ethernet header and a tag.
const OVERHEAD: usize = 18;

/// A way to open a port.
#[derive(Clone, Copy)]
struct Attempt {
    mode: Mode,
    has_fragments: bool,
}

/// A port of type `afxdp` or `afxdp-nonpmd`.
#[derive(Debug)]
pub(crate) struct AfxdpPort {
    /// The device as any other of the kernel.
    device: KernelPort,
    is_polled: bool,
    options: Options,
    /// Counts changes of `options`.
    generation: u64,
    state: Arc<State>,
    ports: Arc<AfxdpPorts>,
}

impl AfxdpPort {
    /// Opens the existing device `name`. `is_polled` says whether poll threads receive from it.
    pub(crate) fn open(
        ports: &Arc<AfxdpPorts>,
        name: &str,
        is_polled: bool,
    ) -> Result<Self, PortError> {
        Ok(Self {
            device: KernelPort::open_system(ports.links(), name)?,
            is_polled,
            options: Options::default(),
            generation: 0,
            state: ports.add(name),
            ports: Arc::clone(ports),
        })
    }

    fn unusable(&self, error: &OpenError) -> PortError {
        PortError::Unusable {
            port: self.name().to_owned(),
            problem: error.to_string(),
            errno: error.errno(),
        }
    }

    /// Receive queues of the device. Drivers that do not tell have one.
    fn device_queues(&self) -> u32 {
        ethtool::receive_queues(self.name()).unwrap_or(1).max(1)
    }

    /// Receive queues that have a socket.
    fn queues(&self) -> u32 {
        self.options.queues.unwrap_or_else(|| self.device_queues().min(MAX_QUEUES))
    }

    /// Largest MTU whose packets fit, received and sent.
    fn max_mtu(&self) -> usize {
        let in_use = self.state.lock().in_use;
        let has_fragments =
            in_use.map_or(self.options.multi_buffer, |(_, kind)| kind.has_fragments);
        let longest = match has_fragments {
            true => MAX_SENT_PIECES * COPIED_PIECE_LENGTH,
            false => FRAME_SIZE - KERNEL_HEADROOM,
        };
        longest - OVERHEAD
    }

    /// Whether packets may come with checksums that were left to be finished: from programs and
    /// other namespaces of this host, that is.
    fn may_be_partial(&self, mode: Mode) -> bool {
        let is_virtual =
            !std::path::Path::new("/sys/class/net").join(self.name()).join("device").exists();
        is_virtual || mode == Mode::Generic
    }

    /// Finds a mode that works, and opens the socket of the first queue in it.
    fn open_first(&self, target: &Target, pool: &Arc<FramePool>) -> Result<Arc<Shared>, OpenError> {
        // Where it is refused, registering frames may fail, and says so.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
        let (wanted, available) = (self.queues(), self.device_queues());
        if wanted > available {
            return Err(OpenError::TooFewQueues { wanted, available });
        }
        let mut attached: Option<(bool, bool, Arc<Attachment>)> = None;
        let mut problem = None;
        for Attempt { mode, has_fragments } in self.attempts(target) {
            let is_generic = mode == Mode::Generic;
            let opened = match &attached {
                Some((generic, fragments, attachment))
                    if (*generic, *fragments) == (is_generic, has_fragments) =>
                {
                    Ok(Arc::clone(attachment))
                }
                _ => {
                    // The one before makes way first.
                    attached = None;
                    Attachment::new(target.clone(), mode, wanted, has_fragments).map(Arc::new)
                }
            };
            let opened = opened.and_then(|attachment| {
                attached = Some((is_generic, has_fragments, Arc::clone(&attachment)));
                let kind = Kind::new(mode, has_fragments, &self.options);
                let shared = self.open_socket(target, 0, kind, &attachment, pool)?;
                Ok((attachment, kind, shared))
            });
            match opened {
                Ok((attachment, kind, shared)) => {
                    let (name, mode_name) = (&target.name, mode.name());
                    tracing::info!(
                        target: "netdev_afxdp",
                        "{name}: {mode_name} XDP mode will be in use."
                    );
                    let mut open = self.state.lock();
                    open.attachment = Arc::downgrade(&attachment);
                    open.in_use = Some((mode, kind));
                    open.change_sequence += 1;
                    return Ok(shared);
                }
                Err(error) if error.depends_on_mode() => {
                    problem = problem.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        Err(problem.unwrap_or(OpenError::System { what: "choosing a mode", errno: Errno::INVAL }))
    }

    /// What to try, the best first.
    fn attempts(&self, target: &Target) -> Vec<Attempt> {
        let fits_one_frame = target.mtu as usize + OVERHEAD <= FRAME_SIZE - KERNEL_HEADROOM;
        let fragments: &[bool] = if self.options.multi_buffer { &[true, false] } else { &[false] };
        let attempt = |mode, &has_fragments| Attempt { mode, has_fragments };
        if fits_one_frame {
            let modes = self.options.modes();
            return modes
                .flat_map(|mode| fragments.iter().map(move |f| attempt(mode, f)))
                .collect();
        }
        // Frames of full length matter more than speed.
        let with = |f| self.options.modes().map(move |mode| attempt(mode, f));
        fragments.iter().flat_map(with).collect()
    }

    fn open_socket(
        &self,
        target: &Target,
        queue: u32,
        kind: Kind,
        attachment: &Arc<Attachment>,
        pool: &Arc<FramePool>,
    ) -> Result<Arc<Shared>, OpenError> {
        let place = (target.index, queue);
        let sharing = self.ports.socket_to_share(pool, kind);
        let shared = sharing.as_ref().map(|shared| &shared.socket);
        let socket = Socket::open(place, kind, &self.options, pool, shared)?;
        attachment.set_socket(queue, &socket)?;
        let (device, counters) = (self.device.device(), self.device.counters());
        Ok(Arc::new(Shared::new(socket, attachment, device, place, counters, pool)))
    }

    fn open_queue(&self, queue: u32, pool: &Arc<FramePool>) -> Result<AfxdpRxQueue, OpenError> {
        let link = self.device.device().link().map_err(OpenError::of("finding the device"))?;
        let target = Target { name: link.name, index: link.index, mtu: link.mtu };
        let (attachment, in_use) = {
            let mut open = self.state.lock();
            open.failure = None;
            (open.attachment.upgrade(), open.in_use)
        };
        let shared = match (queue, attachment, in_use) {
            (1.., Some(attachment), Some((_, kind))) => {
                self.open_socket(&target, queue, kind, &attachment, pool)?
            }
            _ => self.open_first(&target, pool)?,
        };
        let mut open = self.state.lock();
        let place = queue as usize;
        if open.sockets.len() <= place {
            open.sockets.resize(place + 1, Weak::new());
        }
        if let Some(place) = open.sockets.get_mut(place) {
            *place = Arc::downgrade(&shared);
        }
        let mode = open.in_use.map_or(Mode::Generic, |(mode, _)| mode);
        drop(open);
        if queue == 0 {
            // Ports may be added before they are set up.
            let port = self.examined().map(|port| Examined { is_up: true, ..port });
            let findings = port.as_ref().map_or_else(Vec::new, doctor::examine);
            for Finding { problem, remedy } in findings {
                let name = &target.name;
                tracing::warn!(target: "netdev_afxdp", "{name}: {problem} (to mend it: {remedy}).");
            }
        }
        Ok(AfxdpRxQueue::open(&shared, pool, self.may_be_partial(mode)))
    }
}

impl Port for AfxdpPort {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn port_type(&self) -> &str {
        if self.is_polled { "afxdp" } else { "afxdp-nonpmd" }
    }

    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), PortError> {
        let bad = |problem| PortError::Options { port: self.name().to_owned(), problem };
        let options = Options::parse(options).map_err(bad)?;
        let available = self.device_queues();
        if let Some(wanted) = options.queues.filter(|wanted| *wanted > available) {
            return Err(bad(OpenError::TooFewQueues { wanted, available }.to_string()));
        }
        if options != self.options {
            self.options = options;
            self.generation += 1;
        }
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        let Options {
            needs_wakeup,
            multi_buffer,
            busy_poll,
            receive_entries,
            transmit_entries,
            ..
        } = self.options;
        let mut shown = vec![
            ("n_rxq", self.queues().to_string()),
            ("n_rxq_desc", receive_entries.to_string()),
            ("n_txq_desc", transmit_entries.to_string()),
            ("use-need-wakeup", needs_wakeup.to_string()),
            ("xdp-mode", self.options.mode_name().to_owned()),
        ];
        if busy_poll > 0 {
            shown.push(("busy-poll", busy_poll.to_string()));
        }
        match self.state.lock().in_use {
            Some((mode, kind)) => {
                shown.push(("multi-buffer", kind.has_fragments.to_string()));
                shown.push(("xdp-mode-in-use", mode.name().to_owned()));
            }
            None => shown.push(("multi-buffer", multi_buffer.to_string())),
        }
        let dropped: u64 = self.socket_counters().into_iter().map(|(_, value)| value).sum();
        shown.push(("drops", dropped.to_string()));
        shown.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn ethernet_address(&self) -> Result<EthernetAddress, PortError> {
        self.device.ethernet_address()
    }

    fn set_ethernet_address(&mut self, address: EthernetAddress) -> Result<(), PortError> {
        self.device.set_ethernet_address(address)
    }

    fn mtu(&self) -> Result<u32, PortError> {
        self.device.mtu()
    }

    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        let most = self.max_mtu();
        if mtu as usize > most {
            let name = self.name();
            tracing::warn!(
                target: "netdev_afxdp",
                "{name}: an MTU of {mtu} is too large; packets of at most {most} bytes and their \
                 Ethernet header fit."
            );
            let (port, setting, value) = (name.to_owned(), "MTU", mtu.to_string());
            return Err(PortError::Set { port, setting, value, errno: Errno::INVAL });
        }
        self.device.set_mtu(mtu)
    }

    fn ifindex(&self) -> Option<u32> {
        self.device.ifindex()
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        if let Some(error) = &self.state.lock().failure {
            return Err(self.unusable(error));
        }
        self.device.admin_up()
    }

    fn set_admin_up(&mut self, up: bool) -> Result<(), PortError> {
        self.device.set_admin_up(up)
    }

    fn carrier(&self) -> bool {
        self.device.carrier()
    }

    fn carrier_resets(&self) -> u64 {
        self.device.carrier_resets()
    }

    fn speed(&self) -> Option<LinkSpeed> {
        self.device.speed()
    }

    fn duplex(&self) -> Option<Duplex> {
        self.device.duplex()
    }

    fn features(&self) -> Result<LinkFeatures, PortError> {
        self.device.features()
    }

    fn numa_node(&self) -> Option<u32> {
        self.device.numa_node()
    }

    fn status(&self) -> BTreeMap<String, String> {
        let mut status = self.device.status();
        let sockets = self.state.sockets();
        let Some((mode, kind)) = self.state.lock().in_use else { return status };
        let is_zero_copy = sockets.iter().all(|shared| shared.socket.is_zero_copy());
        if let Some(shared) = sockets.first() {
            let told = if shared.attachment.has_metadata { "hash,vlan" } else { "none" };
            status.insert("rx-metadata".to_owned(), told.to_owned());
            status.extend(AfxdpTxQueue::open(Arc::clone(shared)).offloads().status());
        }
        for (key, value) in [
            ("xdp-mode", mode.name().to_owned()),
            ("xdp-mode-in-use", mode.name().to_owned()),
            ("multi-buffer", kind.has_fragments.to_string()),
            ("zero-copy", is_zero_copy.to_string()),
            ("n_rxq_desc", self.options.receive_entries.to_string()),
            ("n_txq_desc", self.options.transmit_entries.to_string()),
            ("max_mtu", self.max_mtu().to_string()),
        ] {
            status.insert(key.to_owned(), value);
        }
        status
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        let mut statistics = self.device.statistics()?;
        let counters = self.socket_counters();
        let dropped: u64 =
            counters.iter().filter(|(name, _)| name.contains("_rx_")).map(|(_, value)| value).sum();
        statistics.rx_dropped = Some(statistics.rx_dropped.unwrap_or(0).saturating_add(dropped));
        statistics.custom.extend(counters);
        Ok(statistics)
    }

    fn change_sequence(&self) -> u64 {
        self.device.change_sequence() + self.state.lock().change_sequence
    }

    fn rx_queues(&self) -> usize {
        self.queues() as usize
    }

    fn queue_generation(&self) -> u64 {
        self.generation
    }

    fn needs_pmd(&self) -> bool {
        self.is_polled
    }

    fn findings(&self) -> Vec<Finding> {
        self.examined().map_or_else(Vec::new, |port| doctor::examine(&port))
    }

    fn open_rx(
        &mut self,
        queue: usize,
        pool: &Arc<FramePool>,
    ) -> Result<Box<dyn RxQueue>, PortError> {
        let number = u32::try_from(queue).unwrap_or(u32::MAX);
        match self.open_queue(number, pool) {
            Ok(queue) => Ok(Box::new(queue)),
            Err(error) => {
                let name = self.name();
                tracing::error!(
                    target: "netdev_afxdp",
                    "{name}: Failed to create AF_XDP socket on queue {number}: {error}."
                );
                Err(self.unusable(&error))
            }
        }
    }

    /// Each receive queue has one beside it.
    fn tx_queues(&self) -> usize {
        self.queues() as usize
    }

    fn open_tx(&mut self, queue: usize) -> Result<Box<dyn TxQueue>, PortError> {
        let sockets = self.state.sockets();
        let number = queue.checked_rem(sockets.len()).unwrap_or(0);
        match sockets.into_iter().nth(number) {
            Some(shared) => Ok(Box::new(AfxdpTxQueue::open(shared))),
            None => Err(PortError::Get {
                port: self.name().to_owned(),
                what: "transmit queue",
                errno: Errno::NODEV,
            }),
        }
    }
}

impl AfxdpPort {
    /// What a look for findings goes by; nothing when the device is gone.
    fn examined(&self) -> Option<Examined> {
        let link = self.device.device().link().ok()?;
        let (sockets, in_use) = (self.state.sockets(), self.state.lock().in_use);
        let is_open = !sockets.is_empty();
        Some(Examined {
            is_up: link.is_up,
            mtu: link.mtu as usize,
            max_mtu: self.max_mtu(),
            queues: self.queues(),
            device_queues: self.device_queues(),
            in_use: in_use.filter(|_| is_open),
            sees_tags: sockets.iter().all(|shared| shared.attachment.has_metadata),
            takes_tags_out: ethtool::takes_tags_out(&link.name).unwrap_or(false),
            is_pair: link.peer_index.is_some(),
            frame_bytes: sockets.first().map_or(0, |shared| shared.pool.region().1),
            locked_memory: locked_memory(),
            name: link.name,
        })
    }

    /// Packets that the kernel could not pass through each socket, and why.
    fn socket_counters(&self) -> Vec<(String, u64)> {
        let mut counters = vec![];
        for (queue, shared) in self.state.sockets().iter().enumerate() {
            let Ok(statistics) = shared.socket.statistics() else { continue };
            counters.extend(
                [
                    ("rx_dropped", Some(statistics.rx_dropped)),
                    ("rx_invalid_descs", Some(statistics.rx_invalid_descs)),
                    ("rx_ring_full", statistics.rx_ring_full),
                    ("rx_fill_ring_empty_descs", statistics.rx_fill_ring_empty_descs),
                    ("tx_invalid_descs", Some(statistics.tx_invalid_descs)),
                ]
                .into_iter()
                .filter_map(|(name, value)| Some((format!("xsk_queue_{queue}_{name}"), value?))),
            );
        }
        counters
    }
}

/// How much memory may be locked, if there is a limit for this process.
fn locked_memory() -> Option<u64> {
    let is_free =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    getrlimit(Resource::Memlock).current.filter(|_| !is_free)
}

#[cfg(test)]
impl AfxdpPort {
    /// Detaches the program, as another process may.
    pub(super) fn detach(&self) {
        self.state.lock().attachment.upgrade().unwrap().detach();
    }
}
