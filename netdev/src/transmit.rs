//! The way of a batch to a transmit queue: what the queue cannot do itself is done in software.

use crate::checksum;
use crate::offload::TransmitOffloads;
use crate::packet::{Batch, Packet, PacketMut, PacketRef, Segmentation, VlanTag};
use crate::queue::{SendReport, TxQueue};
use crate::segmentation::{self, Segmenter};

const ADDRESSES_LENGTH: usize = 12;
const VLAN_TAG_LENGTH: usize = 4;

/// Sends the packets of `batch` in order and leaves it empty. Large packets are cut up, partial
/// checksums finished and tags put into the frame as far as `queue` does not do so itself. The
/// report counts the packets that large ones were cut into.
pub fn send(queue: &mut dyn TxQueue, batch: &mut Batch) -> SendReport {
    // Nearly all packets are.
    if batch.iter().all(|packet| packet.descriptor().is_finished()) {
        return queue.send(batch);
    }
    let offloads = queue.offloads();
    if batch.iter().any(|packet| segmentation::is_pending(packet.descriptor(), offloads)) {
        return cut_and_send(queue, offloads, batch);
    }
    let mut report = prepare(batch, 0, offloads);
    report += queue.send(batch);
    report
}

/// Bytes of the longest frame that a packet becomes, without a tag beside it. Nothing when it is
/// to be cut up and its headers do not say how.
pub fn longest_frame(packet: PacketRef<'_>) -> Option<usize> {
    match packet.descriptor().segmentation {
        Segmentation::None => Some(packet.len()),
        _ => segmentation::longest_segment(packet).ok(),
    }
}

/// Prepares the packets of `batch` from `first` on, and drops those that are malformed.
fn prepare(batch: &mut Batch, first: usize, offloads: TransmitOffloads) -> SendReport {
    let mut report = SendReport::default();
    let mut index = first;
    while let Some(mut packet) = batch.get_mut(index) {
        if insert_tag(&mut packet) && finish(&mut packet, offloads) {
            index += 1;
        } else {
            batch.remove(index);
            report.invalid += 1;
        }
    }
    report
}

#[inline]
fn finish(packet: &mut PacketMut<'_>, offloads: TransmitOffloads) -> bool {
    !checksum::is_pending(packet.view(), offloads) || checksum::finish(packet, offloads).is_ok()
}

fn cut_and_send(
    queue: &mut dyn TxQueue,
    offloads: TransmitOffloads,
    batch: &mut Batch,
) -> SendReport {
    let mut report = SendReport::default();
    let mut ready = Batch::new(batch.pool());
    while let Some(mut packet) = batch.remove(0) {
        if segmentation::is_pending(packet.view().descriptor(), offloads) {
            if insert_tag(&mut packet.view_mut()) {
                report += cut(queue, offloads, &packet, &mut ready);
            } else {
                report.invalid += 1;
            }
        } else {
            let first = ready.len();
            // There is room: a full batch is sent at once.
            report.no_room += u64::from(ready.push(packet).is_err());
            report += prepare(&mut ready, first, offloads);
        }
        if ready.room() == 0 {
            report += queue.send(&mut ready);
        }
    }
    report += queue.send(&mut ready);
    report
}

/// Cuts `packet` up and sends the segments by way of `ready`, in which some may stay.
fn cut(
    queue: &mut dyn TxQueue,
    offloads: TransmitOffloads,
    packet: &Packet,
    ready: &mut Batch,
) -> SendReport {
    let mut report = SendReport::default();
    let Ok(mut segments) = Segmenter::new(packet.view()) else {
        report.invalid = 1;
        return report;
    };
    loop {
        let first = ready.len();
        let added = segments.fill(ready);
        report += prepare(ready, first, offloads);
        if segments.left() == 0 {
            return report;
        }
        if added == 0 && first == 0 {
            // No frame is free, and none gets free by sending.
            report.no_room += segments.left() as u64;
            return report;
        }
        report += queue.send(ready);
    }
}

/// Cuts a large packet up and gives the packets that it becomes to `take`, with nothing left for a
/// device to do. The report counts these, and those that were lost.
pub fn cut_up(packet: &mut Packet, mut take: impl FnMut(Packet)) -> SendReport {
    let mut report = SendReport::default();
    let is_tagged = insert_tag(&mut packet.view_mut());
    let segments = Segmenter::new(packet.view());
    let (true, Ok(mut segments)) = (is_tagged, segments) else {
        report.invalid = 1;
        return report;
    };
    let mut ready = Batch::new(packet.pool());
    while segments.left() > 0 {
        if segments.fill(&mut ready) == 0 {
            report.no_room += segments.left() as u64;
            return report;
        }
        report += prepare(&mut ready, 0, TransmitOffloads::empty());
        report.sent += ready.len() as u64;
        let mut drain = ready.drain();
        while let Some(packet) = drain.next_packet() {
            take(packet);
        }
    }
    report
}

/// Puts a tag that is carried beside the frame into it, as the outermost. False when the packet
/// has no headroom left, or is no Ethernet frame.
#[inline]
pub fn insert_tag(packet: &mut PacketMut<'_>) -> bool {
    let Some(VlanTag { tpid, tci }) = packet.view().descriptor().vlan() else {
        return true;
    };
    let is_ethernet = packet.view().descriptor().l3_type == 0;
    let has_addresses = packet.view().data().len() >= ADDRESSES_LENGTH;
    if !is_ethernet || !has_addresses || packet.push_front(VLAN_TAG_LENGTH).is_none() {
        return false;
    }
    packet.descriptor_mut().set_vlan(None);
    packet.data_mut().copy_within(VLAN_TAG_LENGTH..VLAN_TAG_LENGTH + ADDRESSES_LENGTH, 0);
    let [a, b] = tpid.to_be_bytes();
    let [c, d] = tci.to_be_bytes();
    packet.write(ADDRESSES_LENGTH, &[a, b, c, d])
}

#[cfg(test)]
mod tests;
