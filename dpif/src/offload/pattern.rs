//! Which megaflows hardware can match, and as what pattern of headers.
//!
//! A pattern takes no packet that its flow does not. Where hardware and the flow key might see a
//! packet differently, the flow stays in software.

use netdev::flow_api::{HeaderFields, LayerFields, VlanFields};
use netdev::wire::ethernet::ether_type;
use netdev::wire::{mpls, vlan};
use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

use super::reason::Reason;
use crate::flow::{Field, FlowKey, FlowMask};

/// The headers that a flow takes: values under a mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) values: HeaderFields,
    pub(crate) mask: HeaderFields,
}

/// Fields that a pattern can say nothing about. Packets that come from a port have 0 in those of
/// the first list; a flow that asks for 0 there asks for nothing.
const ALWAYS_ZERO: [Field; 13] = [
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
    Field::TunId,
    Field::TunIpv4Dst,
    Field::TunIpv6Dst,
];

/// The pattern of a flow.
///
/// # Errors
/// When there is none, with what stands in its way.
pub(crate) fn pattern(key: &FlowKey, mask: &FlowMask) -> Result<Pattern, Reason> {
    let bits = mask.bits();
    for field in ALWAYS_ZERO {
        if key.get(field) & bits.get(field) != 0 {
            return Err(Reason::Field(field));
        }
    }
    if !key.is_ethernet() {
        return Err(Reason::NotEthernet);
    }
    if bits.eth_type.get() != u16::MAX {
        return Err(Reason::AnyEthertype);
    }
    let mut pattern = Pattern { values: HeaderFields::default(), mask: HeaderFields::default() };
    let (values, wanted) = (&mut pattern.values.outer, &mut pattern.mask.outer);
    (values.eth_dst, wanted.eth_dst) = (key.eth_dst, bits.eth_dst);
    (values.eth_src, wanted.eth_src) = (key.eth_src, bits.eth_src);
    (values.eth_type, wanted.eth_type) = (key.eth_type, bits.eth_type);
    tags(key, bits, values, wanted)?;
    rest(key, bits, values, wanted)?;
    if let Some(field) = unsaid(key, bits) {
        return Err(Reason::Field(field));
    }
    for (value, mask) in pattern.values.words_mut().iter_mut().zip(*pattern.mask.words()) {
        *value &= mask;
    }
    Ok(pattern)
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
fn unsaid(key: &FlowKey, bits: &FlowKey) -> Option<Field> {
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
        field => ALWAYS_ZERO.contains(&field) || is_absent(field, key, bits),
    };
    let asked = Field::ALL.iter().copied().filter(|field| bits.get(*field) != 0);
    let mut asked = asked.filter(|field| !is_said(*field));
    asked.next().or((bits.tunnel.options_length != 0).then_some(Field::TunId))
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
