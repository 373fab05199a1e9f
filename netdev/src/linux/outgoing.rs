//! What packets go through before they are handed to a kernel device.

use std::sync::Arc;

use rustix::io::Errno;

use super::counters::Losses;
use super::links::Device;
use super::vnet_header::{TAP_LENGTH, VnetHeader};
use crate::errno;
use crate::packet::{BATCH_SIZE, Batch, PacketRef, Segmentation};
use crate::queue::SendReport;
use crate::segmentation::longest_segment;
use crate::wire::vlan;

const ETHERNET_HEADER_LENGTH: usize = 14;
const VLAN_TAG_LENGTH: usize = 4;
const ETHER_TYPE_OFFSET: usize = 12;

/// Headers for the packets of a batch.
pub(super) type VnetHeaders = [[u8; TAP_LENGTH]; BATCH_SIZE];

/// Checks the packets for one device and makes their headers.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) device: Arc<Device>,
    /// Number of the device that the queue was opened on.
    pub(super) index: u32,
    pub(super) losses: Arc<Losses>,
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
            let prepared = length_on_wire(packet.view()).and_then(|length| {
                let fits = length <= longest + tag_length(packet.view());
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

/// Bytes of the longest frame that a packet becomes; nothing when it is malformed.
fn length_on_wire(packet: PacketRef<'_>) -> Option<usize> {
    if packet.len() < ETHERNET_HEADER_LENGTH {
        return None;
    }
    match packet.descriptor().segmentation {
        Segmentation::None => Some(packet.len()),
        _ => longest_segment(packet).ok(),
    }
}

/// Bytes by which a frame may be longer because it has a tag.
fn tag_length(packet: PacketRef<'_>) -> usize {
    let mut scratch = [0; 2];
    let bytes = packet.header(ETHER_TYPE_OFFSET, 2, &mut scratch);
    let ether_type = bytes.and_then(|bytes| bytes.try_into().ok()).map(u16::from_be_bytes);
    if ether_type.is_some_and(vlan::is_tag) { VLAN_TAG_LENGTH } else { 0 }
}
