//! What packets go through before they are handed to a kernel device.

use std::sync::Arc;

use rustix::io::Errno;

use super::counters::Counters;
use super::links::Device;
use super::vnet_header::{TAP_LENGTH, VnetHeader};
use crate::errno;
use crate::headers::fits;
use crate::packet::{BATCH_SIZE, Batch};
use crate::queue::SendReport;
use crate::transmit::longest_frame;

const ETHERNET_HEADER_LENGTH: usize = 14;

/// Headers for the packets of a batch.
pub(super) type VnetHeaders = [[u8; TAP_LENGTH]; BATCH_SIZE];

/// Checks the packets for one device and makes their headers.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) device: Arc<Device>,
    /// Number of the device that the queue was opened on, unless a file stands for it.
    pub(super) index: Option<u32>,
    pub(super) counters: Arc<Counters>,
}

impl Outgoing {
    /// Makes the headers of the packets and drops those that cannot be sent: all when the device
    /// is down or gone.
    pub(super) fn prepare(&self, batch: &mut Batch, headers: &mut VnetHeaders) -> SendReport {
        let mut report = SendReport::default();
        let longest = match self.device.usable(self.index) {
            Ok(usable) if usable.is_up => usable.mtu as usize + ETHERNET_HEADER_LENGTH,
            _ => {
                report.device_error = batch.len() as u64;
                batch.clear();
                return report;
            }
        };
        let mut index = 0;
        while let (Some(mut packet), Some(header)) = (batch.get_mut(index), headers.get_mut(index))
        {
            let is_ethernet = packet.view().len() >= ETHERNET_HEADER_LENGTH;
            let longest_frame = longest_frame(packet.view()).filter(|_| is_ethernet);
            let prepared = longest_frame.and_then(|length| {
                let fits = fits(packet.view(), length, longest);
                Some((length, fits, VnetHeader::of(&mut packet).ok()?))
            });
            match prepared {
                Some((_, true, vnet_header)) => {
                    *header = vnet_header.bytes();
                    index += 1;
                    continue;
                }
                Some((length, false, _)) => {
                    self.warn_of_mtu(length, longest - ETHERNET_HEADER_LENGTH);
                    report.mtu_exceeded += 1;
                }
                None => report.invalid += 1,
            }
            batch.remove(index);
        }
        report
    }

    /// Counts a packet that the kernel did not take.
    pub(super) fn count(&self, errno: Errno, report: &mut SendReport) {
        match errno {
            Errno::AGAIN | Errno::NOBUFS => report.no_room += 1,
            Errno::MSGSIZE => report.mtu_exceeded += 1,
            // A tap device that is down; in another namespace that cannot be seen.
            Errno::IO => report.device_error += 1,
            _ => {
                report.device_error += 1;
                let (name, cause) = (self.device.name(), errno::description(errno));
                tracing::warn!(
                    target: "netdev_linux",
                    limited = true,
                    "error sending Ethernet packet on {name}: {cause}"
                );
            }
        }
    }

    fn warn_of_mtu(&self, length: usize, mtu: usize) {
        let name = self.device.name();
        tracing::warn!(
            target: "netdev_linux",
            limited = true,
            "{name}: dropped a packet of {length} bytes, longer than the MTU of {mtu} bytes allows"
        );
    }
}
