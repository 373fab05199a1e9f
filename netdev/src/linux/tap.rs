//! Tap devices: Ethernet devices of the kernel whose other end is a file.

use std::fs::File;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use super::ioctl;
use crate::errno;

const CLONE_DEVICE: &str = "/dev/net/tun";

/// The file of a tap device. Dropping it removes the device, unless it is to stay.
#[derive(Debug)]
pub(super) struct Tap {
    file: File,
    /// Whether the device outlives this process if that dies.
    is_persistent: bool,
    /// Whether the kernel passes frames with partial checksums, and takes them.
    has_partial_checksums: bool,
}

impl Tap {
    /// Creates tap device `name`, or takes over the one that exists.
    pub(super) fn open(name: &str, is_persistent: bool) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = open(CLONE_DEVICE, flags, Mode::empty()).inspect_err(|errno| {
            let cause = errno::description(*errno);
            tracing::warn!(target: "netdev_linux", "opening \"{CLONE_DEVICE}\" failed: {cause}");
        })?;
        let warn = |errno: &Errno| {
            let cause = errno::description(*errno);
            tracing::warn!(target: "netdev_linux", "{name}: creating tap device failed: {cause}");
        };
        ioctl::create_tap(&file, name).inspect_err(warn)?;
        if is_persistent {
            ioctl::set_persistent(&file, true).inspect_err(warn)?;
        }
        let has_partial_checksums = match ioctl::accept_partial_checksums(&file) {
            Ok(()) => true,
            Err(_) => {
                tracing::info!(
                    target: "netdev_linux",
                    "{name}: Disabling checksum and segment offloading due to missing kernel \
                     support"
                );
                false
            }
        };
        Ok(Self { file: file.into(), is_persistent, has_partial_checksums })
    }

    pub(super) fn has_partial_checksums(&self) -> bool {
        self.has_partial_checksums
    }

    /// Lets a persistent device stay when this is dropped.
    pub(super) fn leave_behind(&mut self) {
        self.is_persistent = false;
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.is_persistent
            && let Err(errno) = ioctl::set_persistent(&self.file, false)
        {
            let cause = errno::description(errno);
            tracing::warn!(target: "netdev_linux", "removing tap device failed: {cause}");
        }
    }
}
