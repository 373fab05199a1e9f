//! Where the IP header and the transport header of a packet are, for work on checksums and
//! segments. Only what such work can rely on is found: whole headers, and no fragments.

use crate::packet::PacketRef;
use crate::wire::ethernet::ether_type;
use crate::wire::ipv4::{self, Ipv4Header};
use crate::wire::ipv6::{ExtensionHeader, Ipv6Header};
use crate::wire::vlan::{self, VlanHeader};
use crate::wire::{ip_protocol, split};

const ETHER_TYPE_OFFSET: usize = 12;
/// Longest header that is looked at in one piece.
const MAX_HEADER_LENGTH: usize = 60;

/// Version of an IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IpVersion {
    V4,
    V6,
}

/// An IP header and what follows it. Offsets are in bytes from the start of the packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    pub(crate) version: IpVersion,
    /// Where the IP header starts.
    pub(crate) l3: usize,
    /// Where the IP header ends, options included, IPv6 extension headers excluded.
    pub(crate) l3_end: usize,
    /// Where the IP packet ends as it says itself; what follows is padding.
    pub(crate) end: usize,
    /// The transport header; none in fragments and behind routing headers in use, which change
    /// the pseudo header.
    pub(crate) transport: Option<Transport>,
}

/// A transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transport {
    /// Its protocol, as in [`ip_protocol`].
    pub(crate) protocol: u8,
    /// Where it starts.
    pub(crate) l4: usize,
}

impl Headers {
    /// The outermost IP header of a packet, and its transport header.
    pub(crate) fn outer(packet: PacketRef<'_>) -> Option<Self> {
        if packet.descriptor().l3_type != 0 {
            return Self::at(packet, 0);
        }
        let mut offset = ETHER_TYPE_OFFSET;
        loop {
            let ether_type = half_word(packet, offset)?;
            offset += 2;
            match ether_type {
                _ if vlan::is_tag(ether_type) => offset += 2,
                ether_type::IPV4 | ether_type::IPV6 => return Self::at(packet, offset),
                _ => return None,
            }
        }
    }

    /// The IP header at `l3`, and its transport header.
    pub(crate) fn at(packet: PacketRef<'_>, l3: usize) -> Option<Self> {
        let mut scratch = [0; MAX_HEADER_LENGTH];
        let version = packet.header(l3, 1, &mut scratch)?.first()? >> 4;
        match version {
            4 => Self::ipv4(packet, l3),
            6 => Self::ipv6(packet, l3),
            _ => None,
        }
    }

    fn ipv4(packet: PacketRef<'_>, l3: usize) -> Option<Self> {
        let mut scratch = [0; MAX_HEADER_LENGTH];
        let bytes = packet.header(l3, size_of::<Ipv4Header>(), &mut scratch)?;
        let (header, _) = split::<Ipv4Header>(bytes)?;
        let l3_end = l3 + header.header_length();
        let end = l3 + usize::from(header.total_length.get());
        if header.header_length() < size_of::<Ipv4Header>() || l3_end > end || end > packet.len() {
            return None;
        }
        let is_whole = header.fragment.get() & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) == 0;
        let transport = is_whole.then_some(Transport { protocol: header.protocol, l4: l3_end });
        Some(Self { version: IpVersion::V4, l3, l3_end, end, transport })
    }

    fn ipv6(packet: PacketRef<'_>, l3: usize) -> Option<Self> {
        let mut scratch = [0; MAX_HEADER_LENGTH];
        let bytes = packet.header(l3, size_of::<Ipv6Header>(), &mut scratch)?;
        let (header, _) = split::<Ipv6Header>(bytes)?;
        let l3_end = l3 + size_of::<Ipv6Header>();
        let end = l3_end + usize::from(header.payload_length.get());
        if end > packet.len() {
            return None;
        }
        let transport = ipv6_transport(packet, header.next_header, l3_end, end);
        Some(Self { version: IpVersion::V6, l3, l3_end, end, transport })
    }
}

/// Walks the extension headers from `offset` to the transport header.
fn ipv6_transport(
    packet: PacketRef<'_>,
    first: u8,
    offset: usize,
    end: usize,
) -> Option<Transport> {
    let (mut protocol, mut l4) = (first, offset);
    loop {
        let unit = match protocol {
            ip_protocol::HOP_BY_HOP | ip_protocol::ROUTING | ip_protocol::DESTINATION_OPTIONS => 8,
            ip_protocol::AUTHENTICATION => 4,
            ip_protocol::FRAGMENT => return None,
            _ => return (l4 <= end).then_some(Transport { protocol, l4 }),
        };
        let mut scratch = [0; size_of::<ExtensionHeader>()];
        let bytes = packet.header(l4, size_of::<ExtensionHeader>(), &mut scratch)?;
        let (header, _) = split::<ExtensionHeader>(bytes)?;
        let [_, segments_left, ..] = header.data;
        if protocol == ip_protocol::ROUTING && segments_left != 0 {
            return None;
        }
        l4 += 8 + usize::from(header.length) * unit;
        protocol = header.next_header;
    }
}

/// Whether `length` bytes of `packet` are no more than `longest`, to which a tag does not count.
#[inline]
pub(crate) fn fits(packet: PacketRef<'_>, length: usize, longest: usize) -> bool {
    length <= longest || length <= longest + tag_length(packet)
}

fn tag_length(packet: PacketRef<'_>) -> usize {
    let ether_type = half_word(packet, ETHER_TYPE_OFFSET);
    if ether_type.is_some_and(vlan::is_tag) { size_of::<VlanHeader>() } else { 0 }
}

fn half_word(packet: PacketRef<'_>, offset: usize) -> Option<u16> {
    let mut scratch = [0; 2];
    let bytes = packet.header(offset, 2, &mut scratch)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}
