//! From attributes to a key and a mask: which attributes a packet has follows from those before.

use netdev::wire::ethernet::{MIN_TYPE, ether_type};
use netdev::wire::{ip_protocol, mpls, vlan};

use super::attribute::Attribute;
use super::field::{Field, Prerequisite};
use super::key::{
    ETH_TYPE_NONE, FRAG_LATER, FlowKey, MAX_MPLS_LABELS, MAX_VLANS, NO_PORT, VlanKey,
};
use super::parse::AttributeValue;

/// Why attributes make no flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// An attribute comes twice.
    #[error("duplicate {} attribute in flow key", .0.name())]
    Duplicate(Attribute),
    /// A tunnel without time to live.
    #[error("tunnel options missing TTL: add ttl= to tunnel()")]
    NoTunnelTtl,
    /// The value of `eth_type` is a length.
    #[error("invalid Ethertype {0:#06x} in flow key: Ethertypes start at 0x0600")]
    EthType(u16),
    /// A frame without Ethertype is matched by part of its type.
    #[error(
        "can't bitwise match non-Ethernet II \"Ethertype\" {value:#06x} (with mask {mask:#06x})"
    )]
    PartialEthType {
        /// Type of the frame.
        value: u16,
        /// Its mask.
        mask: u16,
    },
    /// A frame without Ethertype whose mask says nothing about it.
    #[error("mask expected for non-Ethernet II frame: add eth_type(0/0xffff)")]
    NoEthTypeMask,
    /// Fields behind the Ethertype are matched, but the Ethertype is not.
    #[error(
        "unexpected {} matching with masked Ethertype {value:#06x}/{mask:#06x}",
        .attribute.name()
    )]
    MaskedEthType {
        /// What is matched.
        attribute: Attribute,
        /// Ethertype.
        value: u16,
        /// Its mask.
        mask: u16,
    },
    /// Fields of the transport header are matched, but the protocol is not.
    #[error("flow matches on {} but does not define an L4 protocol (mask {mask:#04x})", .attribute.name())]
    MaskedProtocol {
        /// What is matched.
        attribute: Attribute,
        /// Mask of the protocol.
        mask: u8,
    },
    /// Neighbour discovery is matched, but the type or code is not.
    #[error("flow matches on {} but not on the whole icmpv6 type and code", .0.name())]
    MaskedIcmpType(Attribute),
    /// A tag without the bit that says that it is there.
    #[error("vlan tag {0:#06x} is nonzero but its CFI bit is not set")]
    VlanWithoutCfi(u16),
    /// The bottom of the stack is not at its end.
    #[error("MPLS BOS set in label {0}, which is not the innermost")]
    InnerBottom(usize),
}

/// Whether attributes are those that such a packet has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fitness {
    /// They are.
    Perfect,
    /// Attributes are missing; their fields are 0.
    TooLittle(Vec<Attribute>),
    /// There are attributes that such a packet does not have; they are ignored.
    TooMuch(Vec<Attribute>),
}

/// The key that attributes describe.
pub(crate) fn key_of(
    attributes: &[AttributeValue],
    vlan_limit: usize,
) -> Result<(FlowKey, Fitness), FlowError> {
    convert(attributes, None, vlan_limit)
}

/// The mask that they describe. `key` is what [`key_of`] made of them.
pub(crate) fn mask_of(
    attributes: &[AttributeValue],
    key: &FlowKey,
    vlan_limit: usize,
) -> Result<(FlowKey, Fitness), FlowError> {
    convert(attributes, Some(key), vlan_limit)
}

/// A conversion of the attributes of one level: all, or those in one `encap`.
struct Level<'a> {
    present: Vec<&'a AttributeValue>,
    expected: Vec<Attribute>,
    is_mask: bool,
}

impl<'a> Level<'a> {
    fn new(attributes: &'a [AttributeValue], is_mask: bool) -> Result<Self, FlowError> {
        let mut present: Vec<_> = attributes.iter().collect();
        present.sort_by_key(|value| value.attribute);
        let twice = present.windows(2).find(|pair| pair[0].attribute == pair[1].attribute);
        match twice {
            Some(pair) => Err(FlowError::Duplicate(pair[0].attribute)),
            None => Ok(Self { present, expected: vec![], is_mask }),
        }
    }

    fn find(&self, attribute: Attribute) -> Option<&'a AttributeValue> {
        let found = self.present.binary_search_by_key(&attribute, |value| value.attribute);
        found.ok().and_then(|index| self.present.get(index).copied())
    }

    /// The key or mask of an attribute.
    fn fields(&self, attribute: Attribute) -> Option<&'a FlowKey> {
        let value = self.find(attribute)?;
        Some(if self.is_mask { &value.mask } else { &value.key })
    }

    fn need(&mut self, attribute: Attribute) {
        self.expected.push(attribute);
    }

    /// Behind a tag that is cut short there is nothing.
    fn expect_empty_encap(&mut self) {
        if self.find(Attribute::Encap).is_some_and(|encap| encap.nested.is_empty()) {
            self.need(Attribute::Encap);
        }
    }

    /// Copies the fields of an attribute of metadata, which any packet may have.
    fn take(&mut self, attribute: Attribute, to: &mut FlowKey) -> bool {
        let Some(from) = self.fields(attribute) else { return false };
        let single = attribute.single().map(|(field, _)| field);
        for field in attribute.entries().iter().map(|entry| entry.field).chain(single) {
            to.set(field, from.get(field));
        }
        self.need(attribute);
        true
    }

    fn fitness(&self) -> Fitness {
        let missing = |attribute: &&Attribute| self.find(**attribute).is_none();
        let missing: Vec<_> = self.expected.iter().filter(missing).copied().collect();
        let extra = self.present.iter().map(|value| value.attribute);
        let extra: Vec<_> = extra.filter(|extra| !self.expected.contains(extra)).collect();
        if !missing.is_empty() {
            Fitness::TooLittle(missing)
        } else if !extra.is_empty() {
            Fitness::TooMuch(extra)
        } else {
            Fitness::Perfect
        }
    }
}

fn convert(
    attributes: &[AttributeValue],
    of: Option<&FlowKey>,
    vlan_limit: usize,
) -> Result<(FlowKey, Fitness), FlowError> {
    let is_mask = of.is_some();
    let mut level = Level::new(attributes, is_mask)?;
    let mut to = FlowKey::default();
    metadata(&mut level, &mut to)?;
    let has_packet_type = level.take(Attribute::PacketType, &mut to);
    if has_packet_type && of.unwrap_or(&to).packet_namespace.get() == 1 {
        to.eth_type = to.packet_type;
    }
    if level.take(Attribute::Ethernet, &mut to) {
        if !is_mask {
            to.packet_namespace.set(0);
            to.packet_type.set(0);
        }
    } else if let Some(fields) = level.fields(Attribute::EthType) {
        // Neither eth() nor a type: the packet starts with what the Ethertype says.
        if !is_mask && !has_packet_type {
            to.packet_namespace.set(1);
            to.packet_type = fields.eth_type;
        }
        level.need(Attribute::EthType);
    }
    eth_type(&mut level, &mut to, of)?;

    let has_tag = match of {
        Some(key) => key.vlans[0].tci.get() & vlan::CFI != 0,
        None => vlan::is_tag(to.eth_type.get()),
    };
    if has_tag {
        return Ok((vlans(level, &mut to, of, vlan_limit)?, to)).map(|(fitness, to)| (to, fitness));
    }
    if is_mask {
        // Without a tag in the text the packet has none.
        to.vlans[0].tpid.set(u16::MAX);
        to.vlans[0].tci.set(u16::MAX);
        if let Some(fields) = level.fields(Attribute::Vlan) {
            to.vlans[0].tci = fields.vlans[0].tci;
            level.need(Attribute::Vlan);
            level.expect_empty_encap();
        }
    }
    if let Some(fitness) = network(&mut level, &mut to, of)? {
        return Ok((to, fitness));
    }
    Ok((to, level.fitness()))
}

fn metadata(level: &mut Level<'_>, to: &mut FlowKey) -> Result<(), FlowError> {
    if !level.take(Attribute::RecircId, to) && level.is_mask {
        to.recirc_id.set(u32::MAX);
    }
    for attribute in [
        Attribute::DpHash,
        Attribute::SkbPriority,
        Attribute::SkbMark,
        Attribute::CtZone,
        Attribute::CtMark,
        Attribute::CtTuple4,
        Attribute::CtTuple6,
    ] {
        level.take(attribute, to);
    }
    if let Some(fields) = level.fields(Attribute::CtState) {
        to.ct_state = fields.ct_state;
        level.need(Attribute::CtState);
    }
    if let Some(fields) = level.fields(Attribute::CtLabel) {
        to.ct_label = fields.ct_label;
        level.need(Attribute::CtLabel);
    }
    if let Some(tunnel) = level.find(Attribute::Tunnel) {
        if !tunnel.has_ttl {
            return Err(FlowError::NoTunnelTtl);
        }
        to.tunnel = if level.is_mask { tunnel.mask.tunnel } else { tunnel.key.tunnel };
        level.need(Attribute::Tunnel);
    }
    if !level.take(Attribute::InPort, to) && !level.is_mask {
        to.in_port.set(NO_PORT);
    }
    Ok(())
}

fn eth_type(
    level: &mut Level<'_>,
    to: &mut FlowKey,
    of: Option<&FlowKey>,
) -> Result<(), FlowError> {
    if let Some(fields) = level.fields(Attribute::EthType) {
        let value = fields.eth_type.get();
        match of.map(|key| key.eth_type.get()) {
            None if value < MIN_TYPE && value != ETH_TYPE_NONE => {
                return Err(FlowError::EthType(value));
            }
            Some(key) if key < MIN_TYPE && value != u16::MAX => {
                return Err(FlowError::PartialEthType { value: key, mask: value });
            }
            _ => {}
        }
        to.eth_type.set(value);
        level.need(Attribute::EthType);
        return Ok(());
    }
    match of {
        // It is the packet type, whatever other attributes there are.
        None if to.packet_namespace.get() == 1 => {}
        None => {
            let network = [
                (Attribute::Ipv4, ether_type::IPV4),
                (Attribute::Ipv6, ether_type::IPV6),
                (Attribute::Mpls, ether_type::MPLS),
            ];
            let known = network.iter().find(|(attribute, _)| level.find(*attribute).is_some());
            to.eth_type.set(known.map_or(ETH_TYPE_NONE, |(_, eth_type)| *eth_type));
        }
        Some(key) if !key.is_ethernet() => to.eth_type.set(u16::MAX),
        // An empty encap() says it as well as eth_type(0/0xffff) does.
        Some(key) if key.eth_type.get() < MIN_TYPE && level.present.is_empty() => {
            to.eth_type.set(u16::MAX);
        }
        Some(key) if key.eth_type.get() < MIN_TYPE => return Err(FlowError::NoEthTypeMask),
        Some(_) => {}
    }
    Ok(())
}

/// VLAN tags, each of which nests what it encapsulates.
fn vlans(
    mut level: Level<'_>,
    to: &mut FlowKey,
    of: Option<&FlowKey>,
    vlan_limit: usize,
) -> Result<Fitness, FlowError> {
    for index in 0..vlan_limit.min(MAX_VLANS) {
        let has_tag = match of {
            Some(key) => key.vlans[index].tci.get() & vlan::CFI != 0,
            None => vlan::is_tag(to.eth_type.get()),
        };
        if !has_tag {
            if let Some(fields) = level.fields(Attribute::Vlan) {
                to.vlans[index].tci = fields.vlans[0].tci;
                level.need(Attribute::Vlan);
                level.expect_empty_encap();
            }
            break;
        }
        let encap = level.find(Attribute::Encap);
        let tag = level.fields(Attribute::Vlan);
        for (attribute, present) in
            [(Attribute::Vlan, tag.is_some()), (Attribute::Encap, encap.is_some())]
        {
            if of.is_none() || present {
                level.need(attribute);
            }
        }
        to.vlans[index].tpid = to.eth_type;
        to.eth_type.set(0);
        to.vlans[index].tci = tag.map_or_else(Default::default, |fields| fields.vlans[0].tci);
        let fitness = level.fitness();
        let Some(encap) = encap else { return Ok(fitness) };
        if of.is_none() {
            match to.vlans[index].tci.get() {
                _ if tag.is_none() => return Ok(fitness),
                0 if fitness == Fitness::Perfect && !encap.nested.is_empty() => {
                    let extra = encap.nested.iter().map(|value| value.attribute).collect();
                    return Ok(Fitness::TooMuch(extra));
                }
                // The tag was cut short: extraction takes its protocol for the Ethertype.
                0 => {
                    to.eth_type = to.vlans[index].tpid;
                    to.vlans[index] = VlanKey::default();
                    return Ok(fitness);
                }
                tci if tci & vlan::CFI == 0 => return Err(FlowError::VlanWithoutCfi(tci)),
                _ => {}
            }
        }
        level = Level::new(&encap.nested, of.is_some())?;
        eth_type(&mut level, to, of)?;
        if let Some(fitness) = network(&mut level, to, of)? {
            return Ok(fitness);
        }
    }
    Ok(level.fitness())
}

/// MPLS, the network layer and on. Returns the fitness if it is known before all attributes are.
fn network(
    level: &mut Level<'_>,
    to: &mut FlowKey,
    of: Option<&FlowKey>,
) -> Result<Option<Fitness>, FlowError> {
    let eth_type = of.unwrap_or(to).eth_type.get();
    let attribute = match eth_type {
        ether_type::IPV4 => Attribute::Ipv4,
        ether_type::IPV6 => Attribute::Ipv6,
        ether_type::ARP | ether_type::RARP => Attribute::Arp,
        ether_type::NSH => Attribute::Nsh,
        _ if mpls::is_mpls(eth_type) => return labels(level, to, of),
        _ => return Ok(None),
    };
    if of.is_none() {
        level.need(attribute);
    }
    if let Some(fields) = level.fields(attribute) {
        let mut matched = false;
        let path = (attribute == Attribute::Nsh).then_some(Field::NshPath);
        for field in attribute.entries().iter().map(|entry| entry.field).chain(path) {
            to.set(field, fields.get(field));
            matched |= fields.get(field) != 0;
        }
        if of.is_some() {
            let mask = to.eth_type.get();
            if matched && mask != u16::MAX {
                return Err(FlowError::MaskedEthType { attribute, value: eth_type, mask });
            }
            level.need(attribute);
        }
    }
    transport(level, to, of)?;
    Ok(None)
}

fn labels(
    level: &mut Level<'_>,
    to: &mut FlowKey,
    of: Option<&FlowKey>,
) -> Result<Option<Fitness>, FlowError> {
    if of.is_none() {
        level.need(Attribute::Mpls);
    }
    let Some(value) = level.find(Attribute::Mpls) else { return Ok(None) };
    if let Some(key) = of {
        level.need(Attribute::Mpls);
        to.mpls = value.mask.mpls;
        let mask = to.eth_type.get();
        if mask != u16::MAX && to.mpls.iter().any(|entry| entry.get() != 0) {
            let (attribute, value) = (Attribute::Mpls, key.eth_type.get());
            return Err(FlowError::MaskedEthType { attribute, value, mask });
        }
        return Ok(None);
    }
    to.mpls = value.key.mpls;
    let bottom = to.mpls.iter().position(|entry| entry.get() & mpls::BOTTOM != 0);
    match bottom {
        Some(bottom) if bottom + 1 < value.labels => Err(FlowError::InnerBottom(bottom)),
        None if value.labels < MAX_MPLS_LABELS => {
            Ok(Some(Fitness::TooLittle(vec![Attribute::Mpls])))
        }
        _ => Ok(None),
    }
}

fn transport(
    level: &mut Level<'_>,
    to: &mut FlowKey,
    of: Option<&FlowKey>,
) -> Result<(), FlowError> {
    let key = of.unwrap_or(to);
    if !key.is_ip() || key.ip_frag & FRAG_LATER != 0 {
        return Ok(());
    }
    let attribute = match (key.eth_type.get(), key.ip_proto) {
        (_, ip_protocol::TCP) => Attribute::Tcp,
        (_, ip_protocol::UDP) => Attribute::Udp,
        (_, ip_protocol::SCTP) => Attribute::Sctp,
        (ether_type::IPV4, ip_protocol::ICMP) => Attribute::Icmp,
        (ether_type::IPV6, ip_protocol::ICMPV6) => Attribute::Icmpv6,
        _ => return Ok(()),
    };
    if of.is_none() {
        level.need(attribute);
    }
    if let Some(fields) = level.fields(attribute) {
        to.tp_src = fields.tp_src;
        to.tp_dst = fields.tp_dst;
        if of.is_some() {
            if (to.tp_src.get() | to.tp_dst.get()) != 0 && to.ip_proto != u8::MAX {
                return Err(FlowError::MaskedProtocol { attribute, mask: to.ip_proto });
            }
            level.need(attribute);
        }
    }
    if attribute == Attribute::Tcp
        && let Some(fields) = level.fields(Attribute::TcpFlags)
    {
        to.tcp_flags = fields.tcp_flags;
        level.need(Attribute::TcpFlags);
    }
    if Prerequisite::Neighbour.holds(of.unwrap_or(to)) {
        neighbour(level, to, of)?;
    }
    Ok(())
}

fn neighbour(
    level: &mut Level<'_>,
    to: &mut FlowKey,
    of: Option<&FlowKey>,
) -> Result<(), FlowError> {
    if of.is_none() {
        level.need(Attribute::Nd);
    }
    for attribute in [Attribute::Nd, Attribute::NdExt] {
        let Some(fields) = level.fields(attribute) else { continue };
        let mut matched = false;
        for entry in attribute.entries() {
            to.set(entry.field, fields.get(entry.field));
            matched |= fields.get(entry.field) != 0;
        }
        let whole_type =
            to.tp_src.get() == 0xff && (attribute == Attribute::Nd || to.tp_dst.get() == 0xff);
        if of.is_some() && matched && !whole_type {
            return Err(FlowError::MaskedIcmpType(attribute));
        }
        level.need(attribute);
    }
    Ok(())
}
