//! Finishing in software the checksums that a packet's receiver was to leave to the device that
//! sends it: IPv4 headers, TCP, UDP and SCTP.

use zerocopy::IntoBytes;

use crate::headers::{Headers, IpVersion, Transport};
use crate::offload::TransmitOffloads;
use crate::packet::{Checksum, Descriptor, Layer, NO_LAYER, PacketMut, PacketRef};
use crate::wire::checksum::{Sum, checksum, crc32c};
use crate::wire::ipv4::Ipv4Header;
use crate::wire::ipv6::Ipv6Header;
use crate::wire::{ip_protocol, split, split_mut};

const IPV4_CHECKSUM_OFFSET: usize = 10;
const UDP_LENGTH_OFFSET: usize = 4;
const MAX_IPV4_HEADER_LENGTH: usize = 60;

/// A header whose checksum is to be finished is malformed or cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a header with a partial checksum is malformed or cut short")]
pub struct InvalidHeader;

/// Whether [`finish`] has work on a packet for a device with `offloads`.
#[inline]
pub(crate) fn is_pending(packet: PacketRef<'_>, offloads: TransmitOffloads) -> bool {
    let descriptor = packet.descriptor();
    let is_partial = |layer| descriptor.checksum(layer) == Checksum::Partial;
    let layers = [Layer::Ip, Layer::Transport, Layer::InnerIp, Layer::InnerTransport];
    layers.into_iter().any(|layer| is_partial(layer) && !device_does(packet, layer, offloads))
}

/// Finishes the partial checksums of a packet that a device with `offloads` does not finish
/// itself. A checksum inside a tunnel also when it goes into the checksum of the tunnel, and that
/// cannot be told without it.
///
/// # Errors
/// When a header is not there to be finished. The packet is of no use then.
pub fn finish(packet: &mut PacketMut<'_>, offloads: TransmitOffloads) -> Result<(), InvalidHeader> {
    let is_due = |packet: &PacketMut<'_>, layer| {
        packet.view().descriptor().checksum(layer) == Checksum::Partial
            && !device_does(packet.view(), layer, offloads)
    };
    if packet.view().descriptor().lacks_ip_checksum_alone()
        && is_due(packet, Layer::Ip)
        && finish_plain_ipv4(packet).is_some()
    {
        return Ok(());
    }
    let inner = [Layer::InnerIp, Layer::InnerTransport];
    for layer in inner {
        if is_due(packet, layer) {
            finish_layer(packet, layer)?;
        }
    }
    let goes_into_outer =
        is_tunnelled(packet.view().descriptor()) && is_due(packet, Layer::Transport);
    if goes_into_outer && finish_outer_udp(packet).is_none() {
        for layer in inner {
            if packet.view().descriptor().checksum(layer) == Checksum::Partial {
                finish_layer(packet, layer)?;
            }
        }
    }
    for layer in [Layer::Ip, Layer::Transport] {
        if is_due(packet, layer) {
            finish_layer(packet, layer)?;
        }
    }
    Ok(())
}

fn is_tunnelled(descriptor: &Descriptor) -> bool {
    descriptor.inner_l3 != NO_LAYER
}

/// Whether a device with `offloads` finishes the checksum of `layer` itself.
fn device_does(packet: PacketRef<'_>, layer: Layer, offloads: TransmitOffloads) -> bool {
    let needed = match (layer, is_tunnelled(packet.descriptor())) {
        (Layer::Ip, true) => TransmitOffloads::OUTER_IP_CHECKSUM,
        (Layer::Transport, true) => TransmitOffloads::OUTER_UDP_CHECKSUM,
        (Layer::Ip | Layer::InnerIp, _) => TransmitOffloads::IP_CHECKSUM,
        (Layer::Transport | Layer::InnerTransport, _) => {
            match transport(packet, layer).map(|(_, transport)| transport.protocol) {
                Some(ip_protocol::TCP) => TransmitOffloads::TCP_CHECKSUM,
                Some(ip_protocol::UDP) => TransmitOffloads::UDP_CHECKSUM,
                Some(ip_protocol::SCTP) => TransmitOffloads::SCTP_CHECKSUM,
                // A place is all that such a device needs to know.
                _ => TransmitOffloads::TCP_CHECKSUM | TransmitOffloads::UDP_CHECKSUM,
            }
        }
    };
    offloads.contains(needed)
}

/// The IP header that `layer` is or follows.
fn headers(packet: PacketRef<'_>, layer: Layer) -> Option<Headers> {
    match layer {
        Layer::Ip | Layer::Transport => Headers::outer(packet),
        Layer::InnerIp | Layer::InnerTransport => {
            let l3 = packet.descriptor().inner_l3;
            (l3 != NO_LAYER).then(|| Headers::at(packet, l3.into()))?
        }
    }
}

/// The transport header of `layer`, when it is one that is known, and agrees with where the
/// device that received the packet said the checksum starts.
fn transport(packet: PacketRef<'_>, layer: Layer) -> Option<(Headers, Transport)> {
    let headers = headers(packet, layer)?;
    let transport = headers.transport?;
    let start = usize::from(packet.descriptor().checksum_start);
    let is_there = start == 0 || start == transport.l4;
    (is_there && checksum_offset(transport.protocol).is_some()).then_some((headers, transport))
}

/// Where a transport header holds its checksum, from its start.
fn checksum_offset(protocol: u8) -> Option<usize> {
    match protocol {
        ip_protocol::TCP => Some(16),
        ip_protocol::UDP => Some(6),
        ip_protocol::SCTP => Some(8),
        _ => None,
    }
}

fn finish_layer(packet: &mut PacketMut<'_>, layer: Layer) -> Result<(), InvalidHeader> {
    match layer {
        Layer::Ip | Layer::InnerIp => {
            let headers = headers(packet.view(), layer).ok_or(InvalidHeader)?;
            if headers.version == IpVersion::V4 {
                finish_ipv4_header(packet, &headers).ok_or(InvalidHeader)?;
            }
        }
        Layer::Transport | Layer::InnerTransport => {
            match transport(packet.view(), layer) {
                Some((headers, transport)) => finish_transport(packet, &headers, transport),
                None => finish_at_place(packet),
            }
            .ok_or(InvalidHeader)?;
            let descriptor = packet.descriptor_mut();
            (descriptor.checksum_start, descriptor.checksum_offset) = (0, 0);
        }
    }
    packet.descriptor_mut().set_checksum(layer, Checksum::Good);
    Ok(())
}

/// Fills in the checksum of an outermost IPv4 header without options whose place is known, as a
/// tunnel leaves it. Nothing happens where it is not.
#[inline]
fn finish_plain_ipv4(packet: &mut PacketMut<'_>) -> Option<()> {
    let (descriptor, bytes) = packet.parts_mut();
    let l3 = usize::from(descriptor.l3);
    let (header, _) = split_mut::<Ipv4Header>(bytes.get_mut(l3..)?)?;
    (header.version_length == Ipv4Header::PLAIN).then_some(())?;
    header.checksum.set(0);
    header.checksum.set(checksum(header.as_bytes()));
    descriptor.set_checksum(Layer::Ip, Checksum::Good);
    Some(())
}

/// Fills in the checksum of an IPv4 header.
pub(crate) fn finish_ipv4_header(packet: &mut PacketMut<'_>, headers: &Headers) -> Option<()> {
    let place = headers.l3 + IPV4_CHECKSUM_OFFSET;
    packet.write(place, &[0; 2]).then_some(())?;
    let mut scratch = [0; MAX_IPV4_HEADER_LENGTH];
    let length = headers.l3_end - headers.l3;
    let sum = checksum(packet.view().header(headers.l3, length, &mut scratch)?);
    packet.write(place, &sum.to_be_bytes()).then_some(())
}

/// Computes a transport checksum anew, whatever the field holds.
fn finish_transport(
    packet: &mut PacketMut<'_>,
    headers: &Headers,
    transport: Transport,
) -> Option<()> {
    let Transport { protocol, l4 } = transport;
    let place = l4 + checksum_offset(protocol)?;
    let end = transport_end(packet.view(), headers, transport)?;
    if protocol == ip_protocol::SCTP {
        (place + 4 <= end && packet.write(place, &[0; 4])).then_some(())?;
        let crc = crc32c(range(packet.view(), l4, end));
        // RFC 9260 appendix A puts the bytes in reverse order.
        return packet.write(place, &crc.to_le_bytes()).then_some(());
    }
    (place + 2 <= end && packet.write(place, &[0; 2])).then_some(())?;
    let pseudo = pseudo_header(packet.view(), headers, protocol, end - l4)?;
    let sum = add_range(pseudo, packet.view(), l4, end).finish();
    // 0 says that there is none (RFC 768).
    let sum = if protocol == ip_protocol::UDP && sum == 0 { 0xffff } else { sum };
    packet.write(place, &sum.to_be_bytes()).then_some(())
}

/// Finishes the checksum of a tunnel's UDP header without a look at what is inside the packet
/// inside: with a checksum that is right, or will be, its bytes from there on add up to what its
/// pseudo header lacks (RFC 1071 section 2). Nothing happens where that is not known.
fn finish_outer_udp(packet: &mut PacketMut<'_>) -> Option<()> {
    let view = packet.view();
    let descriptor = view.descriptor();
    let outer = headers(view, Layer::Transport)?;
    let udp = outer.transport.filter(|outer| outer.protocol == ip_protocol::UDP)?;
    let inner = headers(view, Layer::InnerTransport)?;
    let transport = inner.transport.filter(|inner| inner.protocol != ip_protocol::SCTP)?;
    let field = transport.l4 + checksum_offset(transport.protocol)?;
    let end = transport_end(view, &outer, udp)?;
    let is_known = match descriptor.checksum(Layer::InnerTransport) {
        Checksum::Partial => true,
        // 0 says that there is none.
        Checksum::Good => {
            let mut bytes = [0; 2];
            view.copy_out(field, &mut bytes) == 2 && bytes != [0; 2]
        }
        Checksum::Unknown | Checksum::Bad => false,
    };
    let is_even = (inner.l3 - udp.l4) % 2 == 0;
    let ends = [end, inner.end, transport_end(view, &inner, transport)?];
    if !is_known || !is_even || ends.iter().any(|other| *other != end) {
        return None;
    }
    let place = udp.l4 + checksum_offset(ip_protocol::UDP)?;
    packet.write(place, &[0; 2]).then_some(())?;
    let view = packet.view();
    let sum = pseudo_header(view, &outer, ip_protocol::UDP, end - udp.l4)?;
    let sum = add_range(sum, view, udp.l4, inner.l3);
    let is_filled_in = view.descriptor().checksum(Layer::InnerIp) == Checksum::Partial;
    let sum = match inner.version {
        // So do the bytes of an IPv4 header.
        IpVersion::V4 if is_filled_in => sum,
        _ => add_range(sum, view, inner.l3, transport.l4),
    };
    let pseudo = pseudo_header(view, &inner, transport.protocol, end - transport.l4)?;
    let sum = sum.add_u32(u32::from(pseudo.finish())).finish();
    let sum = if sum == 0 { 0xffff } else { sum };
    packet.write(place, &sum.to_be_bytes()).then_some(())?;
    packet.descriptor_mut().set_checksum(Layer::Transport, Checksum::Good);
    Some(())
}

/// Finishes a checksum of which only the place is known, and whose field holds the sum of what
/// does not follow.
fn finish_at_place(packet: &mut PacketMut<'_>) -> Option<()> {
    let descriptor = packet.view().descriptor();
    let start = usize::from(descriptor.checksum_start);
    let place = start + usize::from(descriptor.checksum_offset);
    let end = packet.view().len();
    (start != 0 && place + 2 <= end).then_some(())?;
    let sum = add_range(Sum::default(), packet.view(), start, end).finish();
    // 0 and its complement are the same number, but in UDP 0 says that there is no checksum.
    let sum = if sum == 0 { 0xffff } else { sum };
    packet.write(place, &sum.to_be_bytes()).then_some(())
}

/// Finds out whether the field of the transport checksum holds no more than what the checksum is to
/// be made of: then its sender left it to be finished, and the port that received it could not tell.
/// A finished checksum that happens to look so (one of 2^16) is merely computed again.
pub(crate) fn detect_partial(packet: &mut PacketMut<'_>) {
    let find = |packet: PacketRef<'_>| {
        let headers = Headers::outer(packet)?;
        let transport = headers.transport?;
        let offset = checksum_offset(transport.protocol)?;
        let end = transport_end(packet, &headers, transport)?;
        let mut scratch = [0; 4];
        let is_partial = if transport.protocol == ip_protocol::SCTP {
            packet.header(transport.l4 + offset, 4, &mut scratch)? == [0; 4]
        } else {
            let length = end.checked_sub(transport.l4)?;
            let sum = pseudo_header(packet, &headers, transport.protocol, length)?.fold();
            packet.header(transport.l4 + offset, 2, &mut scratch)? == sum.to_be_bytes()
        };
        is_partial.then_some((u16::try_from(transport.l4).ok()?, offset as u16))
    };
    if let Some((start, offset)) = find(packet.view()) {
        let descriptor = packet.descriptor_mut();
        descriptor.set_checksum(Layer::Transport, Checksum::Partial);
        (descriptor.checksum_start, descriptor.checksum_offset) = (start, offset);
    }
}

/// Says where the transport checksum of a packet is to be finished, and makes its field hold the
/// sum of the pseudo header, as devices expect. The place is from the start of the packet, and
/// from there.
///
/// # Errors
/// When there is no such place.
pub(crate) fn prepare_for_device(
    packet: &mut PacketMut<'_>,
    layer: Layer,
) -> Result<(u16, u16), InvalidHeader> {
    let Some((headers, transport)) = transport(packet.view(), layer) else {
        let descriptor = packet.view().descriptor();
        let (start, offset) = (descriptor.checksum_start, descriptor.checksum_offset);
        return if start == 0 { Err(InvalidHeader) } else { Ok((start, offset)) };
    };
    let mut prepare = || {
        let Transport { protocol, l4 } = transport;
        let offset = checksum_offset(protocol)?;
        let end = transport_end(packet.view(), &headers, transport)?;
        let sum = pseudo_header(packet.view(), &headers, protocol, end - l4)?.fold();
        packet.write(l4 + offset, &sum.to_be_bytes()).then_some(())?;
        Some((u16::try_from(l4).ok()?, u16::try_from(offset).ok()?))
    };
    prepare().ok_or(InvalidHeader)
}

/// Where what a transport checksum covers ends.
fn transport_end(packet: PacketRef<'_>, headers: &Headers, transport: Transport) -> Option<usize> {
    if transport.protocol != ip_protocol::UDP {
        return Some(headers.end);
    }
    let mut scratch = [0; 2];
    let length = packet.header(transport.l4 + UDP_LENGTH_OFFSET, 2, &mut scratch)?;
    let end = transport.l4 + usize::from(u16::from_be_bytes(length.try_into().ok()?));
    // A large packet to be segmented may say anything.
    Some(if end <= transport.l4 || end > headers.end { headers.end } else { end })
}

fn pseudo_header(
    packet: PacketRef<'_>,
    headers: &Headers,
    protocol: u8,
    length: usize,
) -> Option<Sum> {
    let mut scratch = [0; size_of::<Ipv6Header>()];
    Some(match headers.version {
        IpVersion::V4 => {
            let bytes = packet.header(headers.l3, size_of::<Ipv4Header>(), &mut scratch)?;
            Sum::of_pseudo_ipv4(split(bytes)?.0, protocol, length)
        }
        IpVersion::V6 => {
            let bytes = packet.header(headers.l3, size_of::<Ipv6Header>(), &mut scratch)?;
            Sum::of_pseudo_ipv6(split(bytes)?.0, protocol, length)
        }
    })
}

/// The sum of the bytes of a packet from `start` to `end`, added to `sum`.
pub fn add_range(sum: Sum, packet: PacketRef<'_>, start: usize, end: usize) -> Sum {
    range(packet, start, end).fold(sum, Sum::add_bytes)
}

/// The bytes of a packet from `start` to `end`, frame by frame.
pub(crate) fn range(
    packet: PacketRef<'_>,
    start: usize,
    end: usize,
) -> impl Iterator<Item = &[u8]> {
    let mut skip = start;
    let mut left = end.saturating_sub(start);
    packet.segments().map(move |segment| {
        let (before, segment) = segment.split_at(skip.min(segment.len()));
        skip -= before.len();
        let (here, _) = segment.split_at(left.min(segment.len()));
        left -= here.len();
        here
    })
}

#[cfg(test)]
mod tests;
