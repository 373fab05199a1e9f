//! Which megaflows hardware can match, and as what pattern of headers.
//!
//! A pattern takes no packet that its flow does not. Where hardware and the flow key might see a
//! packet differently, the flow stays in software.

use netdev::flow_api::{HeaderFields, LayerFields, TunnelFields, VlanFields};
use netdev::wire::ethernet::ether_type;
use netdev::wire::{mpls, vlan};
use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

use super::provider::TunnelEnd;
use super::reason::Reason;
use crate::flow::{Field, FlowKey, FlowMask, LineSet, tunnel_flag};

/// The headers that a flow takes: values under a mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) values: HeaderFields,
    pub(crate) mask: HeaderFields,
}

/// Fields that a pattern can say nothing about. Packets that come from a port have 0 in them; a
/// flow that asks for 0 there asks for nothing.
const ALWAYS_ZERO: [Field; 10] = [
    Field::RecircId,
    Field::DpHash,
    Field::SkbPriority,
    Field::SkbMark,
    Field::CtState,
    Field::CtZone,
    Field::CtMark,
    Field::CtLabel,
    Field::PacketNamespace,
    Field::PacketType,
];

/// The same of packets that come through no tunnel.
const NO_TUNNEL: [Field; 3] = [Field::TunId, Field::TunIpv4Dst, Field::TunIpv6Dst];

/// Fields of a tunnel that a pattern has words for.
const TUNNEL: [Field; 10] = [
    Field::TunId,
    Field::TunIpv4Src,
    Field::TunIpv4Dst,
    Field::TunIpv6Src,
    Field::TunIpv6Dst,
    Field::TunTos,
    Field::TunTtl,
    Field::TunTpSrc,
    Field::TunTpDst,
    Field::TunFlags,
];

/// The pattern of a flow.
///
/// # Errors
/// When there is none, with what stands in its way.
pub(crate) fn pattern(key: &FlowKey, mask: &FlowMask) -> Result<Pattern, Reason> {
    let mut pattern = Pattern { values: HeaderFields::default(), mask: HeaderFields::default() };
    need_zero(key, mask, &NO_TUNNEL)?;
    layer(key, mask, &mut pattern.values.outer, &mut pattern.mask.outer, &NO_TUNNEL)?;
    if mask.bits().tunnel.options_length != 0 {
        return Err(Reason::Field(Field::TunId));
    }
    pattern.tidy();
    Ok(pattern)
}

/// The pattern of a flow whose packets come through a tunnel: of them as they are on the wire.
///
/// # Errors
/// When there is none, with what stands in its way.
pub(crate) fn pattern_inside(
    key: &FlowKey,
    mask: &FlowMask,
    end: TunnelEnd,
) -> Result<Pattern, Reason> {
    let mut pattern = Pattern { values: HeaderFields::default(), mask: HeaderFields::default() };
    let (values, wanted) = (&mut pattern.values, &mut pattern.mask);
    layer(key, mask, &mut values.inner, &mut wanted.inner, &TUNNEL)?;
    let (tunnel, bits) = (&key.tunnel, &mask.bits().tunnel);
    let known = tunnel_flag::DONT_FRAGMENT | tunnel_flag::CSUM | tunnel_flag::KEY;
    let is_keyless = bits.flags.get() & tunnel_flag::KEY & !tunnel.flags.get() != 0;
    if bits.flags.get() & tunnel.flags.get() & !known != 0 || is_keyless {
        return Err(Reason::Field(Field::TunFlags));
    }
    if bits.options_length != 0 && tunnel.options_length != 0
        || bits.options.iter().any(|byte| *byte != 0)
        || (tunnel.id.get() & bits.id.get()) >> 24 != 0
    {
        return Err(Reason::Field(Field::TunId));
    }
    let flags = |flags: u16| {
        let flag = |from, to| if flags & from != 0 { to } else { 0 };
        flag(tunnel_flag::DONT_FRAGMENT, TunnelFields::DONT_FRAGMENT)
            | flag(tunnel_flag::CSUM, TunnelFields::CHECKSUM)
    };
    values.tunnel = TunnelFields::new(end.kind, tunnel.id.get() as u32);
    wanted.tunnel = TunnelFields::mask();
    wanted.tunnel.id.set(bits.id.get() as u32 & 0xff_ffff);
    (values.tunnel.flags, wanted.tunnel.flags) =
        (flags(tunnel.flags.get()), flags(bits.flags.get()));
    let (values, wanted) = (&mut values.outer, &mut wanted.outer);
    let is_ipv4 = tunnel.ipv4_src.get() | tunnel.ipv4_dst.get() != 0;
    values.eth_type.set(if is_ipv4 { ether_type::IPV4 } else { ether_type::IPV6 });
    wanted.eth_type.set(u16::MAX);
    if is_ipv4 {
        put(&mut values.ip_src, tunnel.ipv4_src.as_bytes());
        put(&mut wanted.ip_src, bits.ipv4_src.as_bytes());
        put(&mut values.ip_dst, tunnel.ipv4_dst.as_bytes());
        put(&mut wanted.ip_dst, bits.ipv4_dst.as_bytes());
    } else {
        (values.ip_src, wanted.ip_src) = (tunnel.ipv6_src, bits.ipv6_src);
        (values.ip_dst, wanted.ip_dst) = (tunnel.ipv6_dst, bits.ipv6_dst);
    }
    (values.ip_tos, wanted.ip_tos) = (tunnel.tos, bits.tos);
    (values.ip_ttl, wanted.ip_ttl) = (tunnel.ttl, bits.ttl);
    (values.tp_src, wanted.tp_src) = (tunnel.tp_src, bits.tp_src);
    // The port is what tells tunnel ports of one protocol from one another.
    values.tp_dst.set(end.udp_port);
    wanted.tp_dst.set(u16::MAX);
    if (tunnel.tp_dst.get() ^ end.udp_port) & bits.tp_dst.get() != 0 {
        return Err(Reason::Field(Field::TunTpDst));
    }
    pattern.tidy();
    Ok(pattern)
}

impl Pattern {
    fn tidy(&mut self) {
        for (value, mask) in self.values.words_mut().iter_mut().zip(*self.mask.words()) {
            *value &= mask;
        }
    }
}

fn need_zero(key: &FlowKey, mask: &FlowMask, fields: &[Field]) -> Result<(), Reason> {
    let is_looked_at = |field: &&Field| mask.lines().meets(LineSet::of(**field));
    let mut fields = fields.iter().filter(is_looked_at);
    match fields.find(|field| key.get(**field) & mask.bits().get(**field) != 0) {
        Some(field) => Err(Reason::Field(*field)),
        None => Ok(()),
    }
}

/// The headers from Ethernet on that a flow takes. `others` are fields of which somebody else takes
/// care.
fn layer(
    key: &FlowKey,
    mask: &FlowMask,
    values: &mut LayerFields,
    wanted: &mut LayerFields,
    others: &[Field],
) -> Result<(), Reason> {
    let bits = mask.bits();
    need_zero(key, mask, &ALWAYS_ZERO)?;
    if !key.is_ethernet() {
        return Err(Reason::NotEthernet);
    }
    if bits.eth_type.get() != u16::MAX {
        return Err(Reason::AnyEthertype);
    }
    (values.eth_dst, wanted.eth_dst) = (key.eth_dst, bits.eth_dst);
    (values.eth_src, wanted.eth_src) = (key.eth_src, bits.eth_src);
    (values.eth_type, wanted.eth_type) = (key.eth_type, bits.eth_type);
    tags(key, bits, values, wanted)?;
    rest(key, bits, values, wanted)?;
    match unsaid(key, mask, others) {
        Some(field) => Err(Reason::Field(field)),
        None => Ok(()),
    }
}

/// The VLAN tags of a pattern: it always says how many there are.
fn tags(
    key: &FlowKey,
    bits: &FlowKey,
    values: &mut LayerFields,
    wanted: &mut LayerFields,
) -> Result<(), Reason> {
    let eth_type = key.eth_type.get();
    if vlan::is_tag(eth_type) {
        return Err(Reason::HiddenTag);
    }
    let knows = |place: usize| {
        let mask = bits.vlans.get(place).map_or(0, |tag| tag.tci.get());
        mask & vlan::CFI != 0
    };
    if !knows(0) {
        return Err(Reason::AnyTag);
    }
    let has = |place: usize| key.vlans.get(place).is_some_and(|tag| tag.tci.get() & vlan::CFI != 0);
    let count = match (has(0), has(1) && knows(1)) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    };
    let places = values.vlans.iter_mut().zip(&mut wanted.vlans).enumerate();
    for (place, (value, mask)) in places {
        if place >= count {
            // No tag protocol: no tag.
            *mask = VlanFields { tci: U16::new(0), tpid: U16::new(u16::MAX) };
            continue;
        }
        if let (Some(tag), Some(bits)) = (key.vlans.get(place), bits.vlans.get(place)) {
            *value = VlanFields { tci: tag.tci, tpid: tag.tpid };
            *mask = VlanFields { tci: U16::new(bits.tci.get() | vlan::CFI), tpid: bits.tpid };
        }
    }
    Ok(())
}

/// What follows the Ethertype.
fn rest(
    key: &FlowKey,
    bits: &FlowKey,
    values: &mut LayerFields,
    wanted: &mut LayerFields,
) -> Result<(), Reason> {
    let is_ipv4 = match key.eth_type.get() {
        ether_type::IPV4 => true,
        ether_type::IPV6 => false,
        _ => return Ok(()),
    };
    (values.ip_frag, wanted.ip_frag) = (key.ip_frag, bits.ip_frag & 3);
    (values.ip_proto, wanted.ip_proto) = (key.ip_proto, bits.ip_proto);
    (values.ip_tos, wanted.ip_tos) = (key.ip_tos, bits.ip_tos);
    (values.ip_ttl, wanted.ip_ttl) = (key.ip_ttl, bits.ip_ttl);
    if is_ipv4 {
        put(&mut values.ip_src, key.ipv4_src.as_bytes());
        put(&mut wanted.ip_src, bits.ipv4_src.as_bytes());
        put(&mut values.ip_dst, key.ipv4_dst.as_bytes());
        put(&mut wanted.ip_dst, bits.ipv4_dst.as_bytes());
    } else {
        (values.ip_src, wanted.ip_src) = (key.ipv6_src, bits.ipv6_src);
        (values.ip_dst, wanted.ip_dst) = (key.ipv6_dst, bits.ipv6_dst);
    }
    let transport = bits.tp_src.get() | bits.tp_dst.get() | bits.tcp_flags.get();
    if transport != 0 && bits.ip_proto != u8::MAX {
        // What lies at the place of ports depends on the protocol.
        return Err(Reason::AnyProtocol);
    }
    (values.tp_src, wanted.tp_src) = (key.tp_src, bits.tp_src);
    (values.tp_dst, wanted.tp_dst) = (key.tp_dst, bits.tp_dst);
    (values.tcp_flags, wanted.tcp_flags) = (key.tcp_flags, bits.tcp_flags);
    Ok(())
}

fn put(field: &mut [u8; 16], bytes: &[u8]) {
    field.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
}

/// A field that the flow looks at and a pattern has no word for.
fn unsaid(key: &FlowKey, mask: &FlowMask, others: &[Field]) -> Option<Field> {
    let bits = mask.bits();
    let is_said = |field: Field| match field {
        Field::InPort
        | Field::EthSrc
        | Field::EthDst
        | Field::EthType
        | Field::VlanTci
        | Field::VlanTpid
        | Field::InnerVlanTci
        | Field::InnerVlanTpid => true,
        Field::IpFrag
        | Field::IpProto
        | Field::IpTos
        | Field::IpTtl
        | Field::TpSrc
        | Field::TpDst
        | Field::TcpFlags
        | Field::Ipv6Src
        | Field::Ipv6Dst => key.is_ip(),
        Field::Ipv4Src | Field::Ipv4Dst => key.eth_type.get() == ether_type::IPV4,
        field => {
            ALWAYS_ZERO.contains(&field) || others.contains(&field) || is_absent(field, key, bits)
        }
    };
    let all = Field::ALL.iter().copied();
    let is_asked = |field: &Field| mask.lines().meets(LineSet::of(*field)) && bits.get(*field) != 0;
    let mut asked = all.filter(is_asked);
    asked.find(|field| !is_said(*field))
}

/// Whether packets that the rest of the pattern takes never have the field, so that asking for 0
/// is asking for nothing.
fn is_absent(field: Field, key: &FlowKey, bits: &FlowKey) -> bool {
    let knows_protocol = !key.is_ip() || bits.ip_proto == u8::MAX;
    key.get(field) == 0
        && knows_protocol
        && !mpls::is_mpls(key.eth_type.get())
        && !field.prerequisite().holds(key)
}

#[cfg(test)]
mod tests;
