//! Keeping the checksum of a transport header true when what it covers changes.

use netdev::packet::{Checksum, Descriptor, Layer, NO_LAYER, PacketMut};
use netdev::wire::checksum::{Sum, crc32c};
use netdev::wire::ip_protocol::{ICMPV6, SCTP, TCP, UDP};
use netdev::wire::sctp::SctpHeader;
use zerocopy::network_endian::U16;

use super::header::{edit, read};

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

/// The checksum that an SCTP packet should have.
fn sctp_checksum(packet: &mut PacketMut<'_>, l4: usize) -> Option<u32> {
    let stored = read::<SctpHeader>(packet.view(), l4)?.checksum;
    edit(packet, l4, |header: &mut SctpHeader| header.checksum.set(0))?;
    let mut skip = l4;
    let segments = packet.view();
    let parts = segments.segments().map(|segment| {
        let (before, rest) = segment.split_at(skip.min(segment.len()));
        skip -= before.len();
        rest
    });
    let checksum = crc32c(parts);
    edit(packet, l4, |header: &mut SctpHeader| header.checksum = stored)?;
    Some(checksum)
}
