//! From the bytes of a packet to its header fields, as strict hardware sees them: a packet in
//! which anything contradicts has none, and so matches no rule that looks at headers.

use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

use super::{HeaderFields, LayerFields, TunnelFields, TunnelKind, VlanFields};
use crate::wire::checksum::{Sum, checksum};
use crate::wire::ethernet::{self, EthernetHeader, ether_type};
use crate::wire::geneve::GeneveHeader;
use crate::wire::icmp::IcmpHeader;
use crate::wire::ipv4::{self, Ipv4Header};
use crate::wire::ipv6::Ipv6Header;
use crate::wire::sctp::SctpHeader;
use crate::wire::tcp::{self, TcpHeader};
use crate::wire::udp::UdpHeader;
use crate::wire::vlan;
use crate::wire::vxlan::VxlanHeader;
use crate::wire::{ip_protocol, split};

/// UDP port of VXLAN (RFC 7348, 8).
const VXLAN_PORT: u16 = 4789;
/// UDP port of Geneve (RFC 8926, 7).
const GENEVE_PORT: u16 = 6081;

/// What the headers of a packet say, and where the inner packet starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The fields.
    pub fields: HeaderFields,
    /// Where the inner Ethernet header starts; 0 when there is no tunnel.
    pub inner_start: usize,
    /// Where the inner packet ends: what follows is padding.
    pub inner_end: usize,
}

impl HeaderFields {
    /// The fields of a packet that starts with Ethernet; `None` when it contradicts itself, or
    /// has headers that are not looked into (IPv6 extensions, 802.3).
    pub fn parse(packet: &[u8]) -> Option<Parsed> {
        let (outer, rest) = layer(packet)?;
        let mut parsed = Parsed::default();
        parsed.fields.outer = outer;
        let is_whole = outer.ip_proto == ip_protocol::UDP && outer.ip_frag == 0;
        let Some((tunnel, inner)) =
            rest.filter(|_| is_whole).and_then(|rest| match outer.tp_dst.get() {
                VXLAN_PORT => vxlan(rest),
                GENEVE_PORT => geneve(rest),
                _ => None,
            })
        else {
            return Some(parsed);
        };
        let Some(flags) = outer_flags(packet, &outer) else { return Some(parsed) };
        if let Some((inner_fields, _)) = layer(inner) {
            parsed.fields.tunnel = tunnel;
            parsed.fields.inner = inner_fields;
            parsed.inner_start = inner.as_ptr().addr() - packet.as_ptr().addr();
            parsed.inner_end = parsed.inner_start + inner.len();
            parsed.fields.tunnel.flags = flags;
        }
        Some(parsed)
    }
}

/// The flags of a tunnel with these headers around it; `None` when they are not what a tunnel's end
/// would take: with IPv4 options or a wrong checksum.
fn outer_flags(packet: &[u8], outer: &LayerFields) -> Option<u8> {
    let tags = outer.vlans.iter().filter(|tag| tag.tpid.get() != 0).count();
    let ip = packet.get(size_of::<EthernetHeader>() + tags * size_of::<VlanFields>()..)?;
    let (sum, dont_fragment, udp) = if outer.eth_type.get() == ether_type::IPV4 {
        let (header, rest) = split::<Ipv4Header>(ip)?;
        if header.header_length() != size_of::<Ipv4Header>() || checksum(header.as_bytes()) != 0 {
            return None;
        }
        let length = usize::from(header.total_length.get()).checked_sub(size_of::<Ipv4Header>())?;
        let sum = Sum::of_pseudo_ipv4(header, ip_protocol::UDP, length);
        (sum, header.fragment.get() & ipv4::DONT_FRAGMENT != 0, rest.get(..length)?)
    } else {
        let (header, rest) = split::<Ipv6Header>(ip)?;
        let length = usize::from(header.payload_length.get());
        (Sum::of_pseudo_ipv6(header, ip_protocol::UDP, length), false, rest.get(..length)?)
    };
    let (header, _) = split::<UdpHeader>(udp)?;
    if usize::from(header.length.get()) != udp.len() {
        return None;
    }
    let has_checksum = header.checksum.get() != 0;
    let is_right = !has_checksum || sum.add_bytes(udp).finish() == 0;
    let flag = |is_set, flag| if is_set { flag } else { 0 };
    is_right.then_some(
        flag(dont_fragment, TunnelFields::DONT_FRAGMENT)
            | flag(has_checksum, TunnelFields::CHECKSUM),
    )
}

fn vxlan(bytes: &[u8]) -> Option<(TunnelFields, &[u8])> {
    let (header, inner) = split::<VxlanHeader>(bytes)?;
    // The I flag alone, so that nothing behind the header is of another kind.
    (header.flags.get() == 0x0800_0000)
        .then(|| (TunnelFields::new(TunnelKind::Vxlan, header.vni.get() >> 8), inner))
}

fn geneve(bytes: &[u8]) -> Option<(TunnelFields, &[u8])> {
    let (header, inner) = split::<GeneveHeader>(bytes)?;
    let is_plain = header.version_length == 0
        && header.control_critical == 0
        && header.protocol.get() == ether_type::TEB;
    is_plain.then(|| (TunnelFields::new(TunnelKind::Geneve, header.vni.get() >> 8), inner))
}

/// The headers from Ethernet to transport, and what follows a UDP header.
fn layer(packet: &[u8]) -> Option<(LayerFields, Option<&[u8]>)> {
    let (header, mut rest) = split::<EthernetHeader>(packet)?;
    let mut fields = LayerFields {
        eth_dst: header.destination,
        eth_src: header.source,
        ..LayerFields::default()
    };
    let mut eth_type = header.ether_type.get();
    for place in &mut fields.vlans {
        if !vlan::is_tag(eth_type) {
            break;
        }
        // What follows a tag has the layout of a tag, one field further on.
        let (tci, behind) = split::<U16>(rest)?;
        let (next, behind) = split::<U16>(behind)?;
        *place = VlanFields { tci: U16::new(tci.get() | vlan::CFI), tpid: U16::new(eth_type) };
        (eth_type, rest) = (next.get(), behind);
    }
    if eth_type < ethernet::MIN_TYPE || vlan::is_tag(eth_type) {
        return None;
    }
    fields.eth_type = U16::new(eth_type);
    let rest = match eth_type {
        ether_type::IPV4 => ipv4_header(rest, &mut fields)?,
        ether_type::IPV6 => ipv6_header(rest, &mut fields)?,
        _ => return Some((fields, None)),
    };
    if fields.ip_frag & 2 != 0 {
        return Some((fields, None));
    }
    let udp_data = transport(rest, &mut fields)?;
    Some((fields, udp_data))
}

fn ipv4_header<'a>(bytes: &'a [u8], fields: &mut LayerFields) -> Option<&'a [u8]> {
    let (header, _) = split::<Ipv4Header>(bytes)?;
    let (length, total) = (header.header_length(), usize::from(header.total_length.get()));
    if header.version_length >> 4 != 4 || length < size_of::<Ipv4Header>() || total < length {
        return None;
    }
    let fragment = header.fragment.get();
    let is_later = fragment & ipv4::OFFSET_MASK != 0;
    let is_fragment = is_later || fragment & ipv4::MORE_FRAGMENTS != 0;
    fields.ip_frag = u8::from(is_fragment) | u8::from(is_later) << 1;
    (fields.ip_proto, fields.ip_tos, fields.ip_ttl) = (header.protocol, header.tos, header.ttl);
    put_ipv4(&mut fields.ip_src, header.source.get());
    put_ipv4(&mut fields.ip_dst, header.destination.get());
    bytes.get(length..total)
}

fn put_ipv4(field: &mut [u8; 16], address: u32) {
    for (byte, value) in field.iter_mut().zip(address.to_be_bytes()) {
        *byte = value;
    }
}

fn ipv6_header<'a>(bytes: &'a [u8], fields: &mut LayerFields) -> Option<&'a [u8]> {
    let (header, rest) = split::<Ipv6Header>(bytes)?;
    let flow = header.flow.get();
    let is_extended = matches!(
        header.next_header,
        ip_protocol::HOP_BY_HOP
            | ip_protocol::ROUTING
            | ip_protocol::FRAGMENT
            | ip_protocol::AUTHENTICATION
            | ip_protocol::DESTINATION_OPTIONS
    );
    if flow >> 28 != 6 || is_extended {
        return None;
    }
    (fields.ip_proto, fields.ip_ttl) = (header.next_header, header.hop_limit);
    fields.ip_tos = (flow >> 20) as u8;
    (fields.ip_src, fields.ip_dst) = (header.source, header.destination);
    rest.get(..usize::from(header.payload_length.get()))
}

/// Reads the transport header, if it is one of those that are looked at. Returns what follows
/// that of UDP.
fn transport<'a>(bytes: &'a [u8], fields: &mut LayerFields) -> Option<Option<&'a [u8]>> {
    match fields.ip_proto {
        ip_protocol::TCP => {
            let (header, _) = split::<TcpHeader>(bytes)?;
            let length = header.header_length();
            if length < size_of::<TcpHeader>() || length > bytes.len() {
                return None;
            }
            (fields.tp_src, fields.tp_dst) = (header.source, header.destination);
            fields.tcp_flags = U16::new(header.offset_flags.get() & tcp::FLAGS_MASK);
        }
        ip_protocol::UDP => {
            let (header, rest) = split::<UdpHeader>(bytes)?;
            (fields.tp_src, fields.tp_dst) = (header.source, header.destination);
            return Some(Some(rest));
        }
        ip_protocol::SCTP => {
            let (header, _) = split::<SctpHeader>(bytes)?;
            (fields.tp_src, fields.tp_dst) = (header.source, header.destination);
        }
        ip_protocol::ICMP | ip_protocol::ICMPV6 => {
            let (header, _) = split::<IcmpHeader>(bytes)?;
            (fields.tp_src, fields.tp_dst) =
                (U16::new(header.message_type.into()), U16::new(header.code.into()));
        }
        // Its type is matched on, and what follows it is not looked at.
        ip_protocol::IGMP => return None,
        _ => {}
    }
    Some(None)
}
