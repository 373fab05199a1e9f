//! Keeping the checksum of a transport header true when what it covers changes.

use netdev::packet::{Checksum, Descriptor, Layer, NO_LAYER, PacketMut, PacketRef};
use netdev::wire::checksum::{Sum, crc32c};
use netdev::wire::ethernet::ether_type;
use netdev::wire::ip_protocol::{ICMPV6, SCTP, TCP, UDP};
use netdev::wire::ipv4::Ipv4Header;
use netdev::wire::ipv6::Ipv6Header;
use netdev::wire::sctp::SctpHeader;
use zerocopy::network_endian::U16;

use super::header::{edit, read};
use crate::flow::FlowKey;

/// Offset of the checksum in a transport header that uses the Internet checksum.
fn field_offset(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        ICMPV6 => Some(2),
        _ => None,
    }
}

/// Bytes that went from `old` to `new`, at an even place.
pub(super) struct Change<'a> {
    pub(super) old: &'a [u8],
    pub(super) new: &'a [u8],
}

/// Whether a change lies in the pseudo header or in the packet itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    PseudoHeader,
    Packet,
}

/// Leaves the checksum of the transport header of a packet that is about to be changed to whoever
/// sends it, if a device said that it is right: such a device can most likely send what another
/// finishes. Returns whether that is so.
pub(super) fn defer(packet: &mut PacketMut<'_>, key: &FlowKey) -> Option<bool> {
    let descriptor = packet.view().descriptor();
    let is_good = descriptor.checksum(Layer::Transport) == Checksum::Good;
    // Where it is found again without a look at anything but plain headers.
    let header = if key.eth_type.get() == ether_type::IPV6 { 40 } else { 20 };
    let is_plain = key.ip_frag == 0 && descriptor.l4 == descriptor.l3.saturating_add(header);
    if !is_good || !is_plain || !matches!(key.ip_proto, TCP | UDP) {
        return Some(false);
    }
    let offset = usize::from(descriptor.l4) + field_offset(key.ip_proto)?;
    if key.ip_proto == UDP && read::<U16>(packet.view(), offset)?.get() == 0 {
        return Some(false);
    }
    let descriptor = packet.descriptor_mut();
    descriptor.set_checksum(Layer::Transport, Checksum::Partial);
    (descriptor.checksum_start, descriptor.checksum_offset) = (0, 0);
    Some(true)
}

/// Changes the checksum of the transport header of a packet, if it has one, for `change`. A
/// checksum that is right stays right, and one that is wrong stays wrong.
pub(super) fn update(
    packet: &mut PacketMut<'_>,
    protocol: u8,
    place: Place,
    change: &Change<'_>,
) -> Option<()> {
    let descriptor = packet.view().descriptor();
    let is_partial = descriptor.checksum(Layer::Transport) == Checksum::Partial;
    // A partial checksum is the sum of the pseudo header alone.
    if is_partial && place == Place::Packet || descriptor.l4 == NO_LAYER {
        return Some(());
    }
    let Some(field) = field_offset(protocol) else { return Some(()) };
    let offset = usize::from(descriptor.l4) + field;
    let old: U16 = read(packet.view(), offset)?;
    if protocol == UDP && old.get() == 0 && !is_partial {
        return Some(());
    }
    let sum = if is_partial { old.get() } else { !old.get() };
    let inverted: [u8; 64] = std::array::from_fn(|at| change.old.get(at).map_or(0, |byte| !byte));
    let inverted = inverted.get(..change.old.len())?;
    let sum = Sum::default().add_u32(sum.into()).add_bytes(inverted).add_bytes(change.new);
    let new = match (is_partial, sum.fold()) {
        (true, sum) => sum,
        (false, sum) if protocol == UDP && sum == u16::MAX => sum,
        (false, sum) => !sum,
    };
    edit(packet, offset, |checksum: &mut U16| checksum.set(new))
}

/// Runs `change` and recomputes the checksum of an SCTP packet, if it is one. One that was wrong
/// stays as far from right as it was.
pub(super) fn around_sctp(
    packet: &mut PacketMut<'_>,
    protocol: u8,
    change: impl FnOnce(&mut PacketMut<'_>) -> Option<()>,
) -> Option<()> {
    let descriptor: &Descriptor = packet.view().descriptor();
    let is_partial = descriptor.checksum(Layer::Transport) == Checksum::Partial;
    let l4 = usize::from(descriptor.l4);
    if protocol != SCTP || is_partial {
        return change(packet);
    }
    let before = sctp_checksum(packet, l4)?;
    change(packet)?;
    let after = sctp_checksum(packet, l4)?;
    edit(packet, l4, |header: &mut SctpHeader| {
        header.checksum.set(header.checksum.get() ^ before ^ after);
    })
}

/// The checksum that an SCTP packet should have. What follows the IP packet in the frame does not
/// count.
fn sctp_checksum(packet: &mut PacketMut<'_>, l4: usize) -> Option<u32> {
    let stored = read::<SctpHeader>(packet.view(), l4)?.checksum;
    let mut left = network_end(packet.view())?.saturating_sub(l4);
    edit(packet, l4, |header: &mut SctpHeader| header.checksum.set(0))?;
    let mut skip = l4;
    let segments = packet.view();
    let parts = segments.segments().map(|segment| {
        let (before, rest) = segment.split_at(skip.min(segment.len()));
        skip -= before.len();
        let (own, _) = rest.split_at(left.min(rest.len()));
        left -= own.len();
        own
    });
    let checksum = crc32c(parts);
    edit(packet, l4, |header: &mut SctpHeader| header.checksum = stored)?;
    Some(checksum)
}

/// Where the IP packet ends, from the start of the frame.
fn network_end(packet: PacketRef<'_>) -> Option<usize> {
    let l3 = usize::from(packet.descriptor().l3);
    let header = read::<Ipv4Header>(packet, l3)?;
    let length = match header.version_length >> 4 {
        4 => usize::from(header.total_length.get()),
        _ => {
            let header = read::<Ipv6Header>(packet, l3)?;
            size_of::<Ipv6Header>() + usize::from(header.payload_length.get())
        }
    };
    Some(l3 + length)
}
