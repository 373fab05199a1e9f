//! A port: what the configuration, the database and OpenFlow need of it, and the way to its
//! [queues](crate::queue).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustix::io::Errno;

use crate::dummy::Dummy;
use crate::errno;
use crate::ethernet_address::EthernetAddress;
use crate::features::{Duplex, LinkFeatures, LinkSpeed};
use crate::flow_api::FlowDevice;
use crate::packet::FramePool;
use crate::queue::{RxQueue, TxQueue};
use crate::statistics::Statistics;
use crate::tunnel::{Tunnel, TunnelTraffic};

/// A network device that the switch sends to and receives from, or a patch to another bridge.
pub trait Port: Send {
    /// The name under which the port was opened.
    fn name(&self) -> &str;

    /// The type under which the port was opened, such as `system` or `dummy`.
    fn port_type(&self) -> &str;

    /// Replaces all options of the port by `options` (column `options` of table `Interface`).
    /// Keys that the port type does not know are ignored, missing ones return to their defaults.
    ///
    /// # Errors
    /// [`PortError::Options`] names the option that is missing or out of range; the port is left
    /// as it was.
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), PortError>;

    /// The options in effect, as `dpif/show` lists them.
    fn options(&self) -> BTreeMap<String, String>;

    /// The address that the port sends from.
    ///
    /// # Errors
    /// When the device is gone.
    fn ethernet_address(&self) -> Result<EthernetAddress, PortError>;

    /// Gives the port another address.
    ///
    /// # Errors
    /// When the port type or the kernel refuses.
    fn set_ethernet_address(&mut self, address: EthernetAddress) -> Result<(), PortError>;

    /// Largest payload of an Ethernet frame in bytes: without Ethernet header, VLAN tag and frame
    /// check sequence.
    ///
    /// # Errors
    /// When the port type has no such limit, or the device is gone.
    fn mtu(&self) -> Result<u32, PortError>;

    /// Changes the [`mtu`](Self::mtu).
    ///
    /// # Errors
    /// When the port type has no such limit, or `mtu` is out of the device's range.
    fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError>;

    /// The kernel's number for the device, if it has one.
    fn ifindex(&self) -> Option<u32> {
        None
    }

    /// Whether the port is set up to carry traffic.
    ///
    /// # Errors
    /// When the device is gone.
    fn admin_up(&self) -> Result<bool, PortError>;

    /// Sets the port up or down.
    ///
    /// # Errors
    /// When the port type or the kernel refuses.
    fn set_admin_up(&mut self, up: bool) -> Result<(), PortError>;

    /// Whether the port is up and its link works.
    fn carrier(&self) -> bool {
        self.admin_up().unwrap_or(false)
    }

    /// How often the link came or went since the port was opened.
    fn carrier_resets(&self) -> u64 {
        0
    }

    /// Rates of the link, where it has any.
    fn speed(&self) -> Option<LinkSpeed> {
        None
    }

    /// Duplex of the link, where it has any.
    fn duplex(&self) -> Option<Duplex> {
        None
    }

    /// Features of the link for OpenFlow port descriptions.
    ///
    /// # Errors
    /// When the port type has none.
    fn features(&self) -> Result<LinkFeatures, PortError> {
        Err(self.not_supported("reporting link features"))
    }

    /// The NUMA node that the device hangs off, where it is known.
    fn numa_node(&self) -> Option<u32> {
        None
    }

    /// Column `status` of table `Interface`.
    fn status(&self) -> BTreeMap<String, String>;

    /// The port's counters.
    ///
    /// # Errors
    /// When the device is gone.
    fn statistics(&self) -> Result<Statistics, PortError>;

    /// A number that grows whenever anything observable of the port but its counters changed.
    fn change_sequence(&self) -> u64;

    /// Number of receive queues, which are numbered from 0.
    fn rx_queues(&self) -> usize {
        0
    }

    /// Numbers of the queues among which the port schedules what it sends (`Queue` table of the
    /// database).
    fn scheduling_queues(&self) -> &[u32] {
        &[]
    }

    /// A number that grows when queues that are open have to be opened anew, because a setting
    /// that they were opened with changed.
    fn queue_generation(&self) -> u64 {
        0
    }

    /// Whether poll threads are to receive from the port. Otherwise the thread that controls the
    /// datapath does.
    fn needs_pmd(&self) -> bool {
        false
    }

    /// Opens receive queue `queue` for packets of `pool`. A receive queue is open once at a time.
    ///
    /// # Errors
    /// When there is no such queue, or the device is gone.
    fn open_rx(
        &mut self,
        queue: usize,
        pool: &Arc<FramePool>,
    ) -> Result<Box<dyn RxQueue>, PortError> {
        let _ = (queue, pool);
        Err(self.not_supported("receiving"))
    }

    /// Number of transmit queues that threads can tell apart, which are numbered from 0. A port
    /// of one queue gives each thread its own way to it.
    fn tx_queues(&self) -> usize {
        1
    }

    /// Opens transmit queue `queue` for one thread. One may be open several times. Numbers
    /// beyond [`tx_queues`](Self::tx_queues) start again from the first.
    ///
    /// # Errors
    /// When the device is gone.
    fn open_tx(&mut self, queue: usize) -> Result<Box<dyn TxQueue>, PortError> {
        let _ = queue;
        Err(self.not_supported("sending"))
    }

    /// The way to rules in the port's hardware, where it has any.
    fn flow_device(&self) -> Option<Arc<dyn FlowDevice>> {
        None
    }

    /// The shared state of a dummy port.
    fn dummy(&self) -> Option<Arc<Dummy>> {
        None
    }

    /// What a patch port carried, which translation counts.
    fn patch_traffic(&self) -> Option<Arc<TunnelTraffic>> {
        None
    }

    /// What about the port will break what its users expect.
    fn findings(&self) -> Vec<Finding> {
        vec![]
    }

    /// The settings and counters of a tunnel port, once it has any.
    fn tunnel(&self) -> Option<Tunnel> {
        None
    }

    /// Lets a device that belongs to the switch stay in the kernel when the port is dropped, to be
    /// taken over by the next process. Other devices are left as they are anyway.
    fn leave_device_behind(&mut self) {}

    /// The error of an `operation` (such as `setting the MTU`) that this port type cannot do.
    fn not_supported(&self, operation: &'static str) -> PortError {
        PortError::NotSupported {
            port: self.name().to_owned(),
            port_type: self.port_type().to_owned(),
            operation,
        }
    }
}

/// Something about a port that will break what its users expect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What will break, and why.
    pub problem: String,
    /// The command that mends it.
    pub remedy: String,
}

/// Why a port could not be opened or changed. The text suits column `error` of table `Interface`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// No port type has the name.
    #[error("could not open network device {port} (unknown type \"{port_type}\")")]
    UnknownType {
        /// Name of the port.
        port: String,
        /// Name that is no type.
        port_type: String,
    },
    /// The device does not exist, cannot be used or could not be created.
    #[error("could not open network device {port} ({})", errno::description(*.errno))]
    Open {
        /// Name of the port.
        port: String,
        /// Cause.
        errno: Errno,
    },
    /// The device is there, but cannot be used in the way that the port type does.
    #[error("could not open network device {port} ({problem})")]
    Unusable {
        /// Name of the port.
        port: String,
        /// The cause, and what to do about it.
        problem: String,
        /// The system error that comes closest.
        errno: Errno,
    },
    /// An option is missing, unknown or out of range.
    #[error("{port}: {problem}")]
    Options {
        /// Name of the port.
        port: String,
        /// The option, its value, and what would be right.
        problem: String,
    },
    /// An option that another port does not allow.
    #[error("{port}: {problem}")]
    Conflict {
        /// Name of the port.
        port: String,
        /// The option, and what the other port has.
        problem: String,
    },
    /// The port type cannot do that.
    #[error("{port}: {operation} is not supported by type {port_type}")]
    NotSupported {
        /// Name of the port.
        port: String,
        /// Type of the port.
        port_type: String,
        /// What was asked.
        operation: &'static str,
    },
    /// A setting was refused.
    #[error("{port}: could not set {setting} to {value} ({})", errno::description(*.errno))]
    Set {
        /// Name of the port.
        port: String,
        /// What was to be set.
        setting: &'static str,
        /// The value it was to have.
        value: String,
        /// Cause.
        errno: Errno,
    },
    /// The state of the device could not be read.
    #[error("{port}: could not read {what} ({})", errno::description(*.errno))]
    Get {
        /// Name of the port.
        port: String,
        /// What was to be read.
        what: &'static str,
        /// Cause; `ENODEV` when the device was removed.
        errno: Errno,
    },
}

impl PortError {
    /// The system error that comes closest, for messages in the words of OVS.
    pub fn errno(&self) -> Errno {
        match self {
            Self::UnknownType { .. } => Errno::AFNOSUPPORT,
            Self::Options { .. } => Errno::INVAL,
            Self::Conflict { .. } => Errno::EXIST,
            Self::NotSupported { .. } => Errno::OPNOTSUPP,
            Self::Open { errno, .. }
            | Self::Unusable { errno, .. }
            | Self::Set { errno, .. }
            | Self::Get { errno, .. } => *errno,
        }
    }
}
