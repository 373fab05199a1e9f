//! Tap devices: Ethernet devices of the kernel whose other end is a file, or one per queue.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::{ioctl, netlink, vnet_header};
use crate::errno;
use crate::offload::TransmitOffloads;

const CLONE_DEVICE: &str = "/dev/net/tun";

/// Work that the kernel may leave to whoever reads from a tap device, from most to least
/// (`linux/if_tun.h`), and what the switch may leave to the kernel then.
const OFFLOADS: [(u32, TransmitOffloads); 3] = [
    (
        CHECKSUM | TCP_SEGMENTATION | UDP_SEGMENTATION,
        TransmitOffloads::TCP_CHECKSUM
            .union(TransmitOffloads::UDP_CHECKSUM)
            .union(TransmitOffloads::TCP_SEGMENTATION)
            .union(TransmitOffloads::UDP_SEGMENTATION),
    ),
    (
        CHECKSUM | TCP_SEGMENTATION,
        TransmitOffloads::TCP_CHECKSUM
            .union(TransmitOffloads::UDP_CHECKSUM)
            .union(TransmitOffloads::TCP_SEGMENTATION),
    ),
    (CHECKSUM, TransmitOffloads::TCP_CHECKSUM.union(TransmitOffloads::UDP_CHECKSUM)),
];
const CHECKSUM: u32 = libc::TUN_F_CSUM as u32;
const TCP_SEGMENTATION: u32 =
    libc::TUN_F_TSO4 as u32 | libc::TUN_F_TSO6 as u32 | libc::TUN_F_TSO_ECN as u32;
const UDP_SEGMENTATION: u32 = libc::TUN_F_USO4 as u32 | libc::TUN_F_USO6 as u32;

/// Most queues that the kernel gives a tap device.
pub(super) const MAX_QUEUES: usize = 256;

/// The files of a tap device. Dropping them removes the device, unless it is to stay.
#[derive(Debug)]
pub(super) struct Tap {
    name: String,
    /// Shared with the queues that are open for packets. Never empty.
    queues: Vec<Arc<OwnedFd>>,
    /// Whether the device can have several queues. One of the administrator may not.
    has_multiple_queues: bool,
    /// Whether the device outlives this process if that dies.
    is_persistent: bool,
    offloads: TransmitOffloads,
}

impl Tap {
    /// Creates tap device `name`, or takes over the one that exists if no process uses it.
    pub(super) fn open(name: &str, is_persistent: bool) -> Result<Self, Errno> {
        let file = open_clone_device()?;
        let warn = |errno: &Errno| {
            let cause = errno::description(*errno);
            tracing::warn!(target: "netdev_linux", "{name}: creating tap device failed: {cause}");
        };
        // The kernel would let us share a device with several queues.
        let attach = || match netlink::is_attached_tap(name) {
            true => Err(Errno::BUSY),
            false => match ioctl::attach_tap(&file, name, true) {
                Ok(()) => Ok(true),
                Err(_) => ioctl::attach_tap(&file, name, false).map(|()| false),
            },
        };
        let has_multiple_queues = attach().inspect_err(warn)?;
        ioctl::set_vnet_header_length(&file, vnet_header::TAP_LENGTH).inspect_err(warn)?;
        if is_persistent {
            ioctl::set_persistent(&file, true).inspect_err(warn)?;
        }
        let accepted =
            OFFLOADS.into_iter().find(|(wanted, _)| ioctl::set_offloads(&file, *wanted).is_ok());
        if accepted.is_none() {
            tracing::info!(
                target: "netdev_linux",
                "{name}: Disabling checksum and segment offloading due to missing kernel support"
            );
        }
        Ok(Self {
            name: name.to_owned(),
            queues: vec![Arc::new(file)],
            has_multiple_queues,
            is_persistent,
            offloads: accepted.map_or(TransmitOffloads::empty(), |(_, offloads)| offloads),
        })
    }

    /// What the kernel does to packets that are sent.
    pub(super) fn offloads(&self) -> TransmitOffloads {
        self.offloads
    }

    /// Number of queues.
    pub(super) fn queues(&self) -> usize {
        self.queues.len()
    }

    /// The file of a queue.
    pub(super) fn queue(&self, queue: usize) -> Option<&Arc<OwnedFd>> {
        self.queues.get(queue)
    }

    /// Changes the number of queues to `count`, at least 1.
    ///
    /// # Errors
    /// `EINVAL` when a device of the administrator has only one.
    pub(super) fn set_queues(&mut self, count: usize) -> Result<(), Errno> {
        if count > 1 && !self.has_multiple_queues {
            return Err(Errno::INVAL);
        }
        self.queues.truncate(count.max(1));
        while self.queues.len() < count {
            let file = open_clone_device()?;
            ioctl::attach_tap(&file, &self.name, true)?;
            self.queues.push(Arc::new(file));
        }
        Ok(())
    }

    /// Lets a persistent device stay when this is dropped.
    pub(super) fn leave_behind(&mut self) {
        self.is_persistent = false;
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.is_persistent
            && let Some(file) = self.queues.first()
            && let Err(errno) = ioctl::set_persistent(file, false)
        {
            let cause = errno::description(errno);
            tracing::warn!(target: "netdev_linux", "removing tap device failed: {cause}");
        }
    }
}

fn open_clone_device() -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(CLONE_DEVICE, flags, Mode::empty()).inspect_err(|errno| {
        let cause = errno::description(*errno);
        tracing::warn!(target: "netdev_linux", "opening \"{CLONE_DEVICE}\" failed: {cause}");
    })
}
