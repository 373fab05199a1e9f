//! Action `set`: overwrites bits of header fields and keeps checksums true.
//!
//! A field that the packet does not have is left alone, as OVS does.

use netdev::packet::{Checksum, Layer, NO_LAYER, PacketMut};
use netdev::wire::arp::ArpHeader;
use netdev::wire::checksum::update16;
use netdev::wire::ethernet::{EthernetHeader, MacAddress, ether_type};
use netdev::wire::icmp::IcmpHeader;
use netdev::wire::icmpv6::{Icmpv6Header, LinkAddressOption, SOURCE_LINK_ADDRESS};
use netdev::wire::ip_protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
use netdev::wire::ipv4::Ipv4Header;
use netdev::wire::ipv6::{Ipv6Header, LABEL_MASK};
use netdev::wire::mpls::MplsEntry;
use netdev::wire::nsh::{MD_TYPE1, NshHeader};
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use super::checksum::{Change, Place, around_sctp, defer, update};
use super::header::{edit, read};
use crate::action::{MaskedField, SetFields};
use crate::flow::{FRAG_LATER, Field, FlowKey};

/// The fields to set.
#[derive(Clone, Copy)]
struct Wanted<'a>(&'a [MaskedField]);

impl Wanted<'_> {
    fn find(self, field: Field) -> Option<(u128, u128)> {
        let mut fields = self.0.iter();
        fields.find(|wanted| wanted.field == field).map(|wanted| (wanted.value, wanted.mask))
    }

    fn has(self, fields: &[Field]) -> bool {
        fields.iter().any(|&field| self.find(field).is_some())
    }

    /// `old` with those bits of a field that are to be set.
    fn apply(self, field: Field, old: u128) -> u128 {
        self.find(field).map_or(old, |(value, mask)| old & !mask | value & mask)
    }

    fn u8(self, field: Field, old: u8) -> u8 {
        self.apply(field, old.into()) as u8
    }

    fn u16(self, field: Field, old: U16) -> U16 {
        U16::new(self.apply(field, old.get().into()) as u16)
    }

    fn u32(self, field: Field, old: U32) -> U32 {
        U32::new(self.apply(field, old.get().into()) as u32)
    }

    fn address(self, field: Field, old: [u8; 16]) -> [u8; 16] {
        self.apply(field, u128::from_be_bytes(old)).to_be_bytes()
    }

    fn mac(self, field: Field, MacAddress([a, b, c, d, e, f]): MacAddress) -> MacAddress {
        let old = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let [_, _, a, b, c, d, e, f] = (self.apply(field, old.into()) as u64).to_be_bytes();
        MacAddress([a, b, c, d, e, f])
    }
}

/// Sets fields of `packet`. `key` is the key of the packet, extracted just now, and `label` the
/// offset of its outermost MPLS label, if it has one. `None` when a header is cut short.
pub(super) fn set(
    packet: &mut PacketMut<'_>,
    key: &FlowKey,
    fields: &SetFields,
    label: Option<usize>,
) -> Option<()> {
    let wanted = Wanted(&fields.fields);
    metadata(packet, wanted);
    if wanted.has(&[Field::EthDst, Field::EthSrc]) && key.is_ethernet() {
        edit(packet, 0, |header: &mut EthernetHeader| {
            header.destination = wanted.mac(Field::EthDst, header.destination);
            header.source = wanted.mac(Field::EthSrc, header.source);
        })?;
    }
    if let Some(label) = label
        && wanted.has(&[Field::Mpls0])
    {
        edit(packet, label, |MplsEntry(entry)| *entry = wanted.u32(Field::Mpls0, *entry))?;
    }
    if packet.view().descriptor().l3 == NO_LAYER {
        return Some(());
    }
    match key.eth_type.get() {
        ether_type::IPV4 if key.ipv4_src.get() | key.ipv4_dst.get() != 0 || key.ip_proto != 0 => {
            ipv4(packet, key, wanted)?;
        }
        ether_type::IPV6 => ipv6(packet, key, wanted)?,
        ether_type::ARP | ether_type::RARP => return arp(packet, wanted),
        ether_type::NSH => return nsh(packet, wanted),
        _ => return Some(()),
    }
    if packet.view().descriptor().l4 == NO_LAYER || key.ip_frag & FRAG_LATER != 0 {
        return Some(());
    }
    transport(packet, key, wanted)
}

fn metadata(packet: &mut PacketMut<'_>, wanted: Wanted<'_>) {
    let descriptor = packet.descriptor_mut();
    descriptor.skb_mark = wanted.apply(Field::SkbMark, descriptor.skb_mark.into()) as u32;
    let priority = descriptor.skb_priority;
    descriptor.skb_priority = wanted.apply(Field::SkbPriority, priority.into()) as u32;
}

fn ipv4(packet: &mut PacketMut<'_>, key: &FlowKey, wanted: Wanted<'_>) -> Option<()> {
    if !wanted.has(&[Field::Ipv4Src, Field::Ipv4Dst, Field::IpTos, Field::IpTtl]) {
        return Some(());
    }
    let l3 = usize::from(packet.view().descriptor().l3);
    let old: Ipv4Header = read(packet.view(), l3)?;
    let mut header = old;
    header.source = wanted.u32(Field::Ipv4Src, old.source);
    header.destination = wanted.u32(Field::Ipv4Dst, old.destination);
    header.tos = wanted.u8(Field::IpTos, old.tos);
    header.ttl = wanted.u8(Field::IpTtl, old.ttl);
    let state = packet.view().descriptor().checksum(Layer::Ip);
    if state == Checksum::Good {
        // Devices that check it also fill it in.
        packet.descriptor_mut().set_checksum(Layer::Ip, Checksum::Partial);
    } else if state != Checksum::Partial {
        let words = |header: &Ipv4Header| {
            let mut words = [U16::default(); 10];
            words.as_mut_bytes().copy_from_slice(header.as_bytes());
            words
        };
        for (old, new) in words(&old).iter().zip(&words(&header)).filter(|(old, new)| old != new) {
            update16(&mut header.checksum, old.get(), new.get());
        }
    }
    let addresses = |header: &Ipv4Header| [header.source, header.destination];
    if packet.view().descriptor().l4 != NO_LAYER && key.ip_frag & FRAG_LATER == 0 {
        let (before, after) = (addresses(&old), addresses(&header));
        let change = Change { old: before.as_bytes(), new: after.as_bytes() };
        if key.ip_proto != ICMPV6 && (before == after || !defer(packet, key)?) {
            update(packet, key.ip_proto, Place::PseudoHeader, &change)?;
        }
    }
    packet.write(l3, header.as_bytes()).then_some(())
}

fn ipv6(packet: &mut PacketMut<'_>, key: &FlowKey, wanted: Wanted<'_>) -> Option<()> {
    let fields = [Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label, Field::IpTos, Field::IpTtl];
    if !wanted.has(&fields) {
        return Some(());
    }
    let l3 = usize::from(packet.view().descriptor().l3);
    let old: Ipv6Header = read(packet.view(), l3)?;
    let mut header = old;
    header.source = wanted.address(Field::Ipv6Src, old.source);
    header.destination = wanted.address(Field::Ipv6Dst, old.destination);
    header.hop_limit = wanted.u8(Field::IpTtl, old.hop_limit);
    let flow = old.flow.get();
    let label = wanted.u32(Field::Ipv6Label, U32::new(flow & LABEL_MASK)).get() & LABEL_MASK;
    let class = wanted.u8(Field::IpTos, (flow >> 20) as u8);
    header.flow.set(flow & 0xf000_0000 | u32::from(class) << 20 | label);
    let addresses = |header: &Ipv6Header| [header.source, header.destination];
    if packet.view().descriptor().l4 != NO_LAYER && key.ip_frag & FRAG_LATER == 0 {
        let (before, after) = (addresses(&old), addresses(&header));
        let change = Change { old: before.as_bytes(), new: after.as_bytes() };
        if before == after || !defer(packet, key)? {
            update(packet, key.ip_proto, Place::PseudoHeader, &change)?;
        }
    }
    packet.write(l3, header.as_bytes()).then_some(())
}

fn arp(packet: &mut PacketMut<'_>, wanted: Wanted<'_>) -> Option<()> {
    let l3 = usize::from(packet.view().descriptor().l3);
    edit(packet, l3, |header: &mut ArpHeader| {
        header.operation = wanted.u16(Field::IpProto, header.operation);
        header.source_ip = wanted.u32(Field::Ipv4Src, header.source_ip);
        header.target_ip = wanted.u32(Field::Ipv4Dst, header.target_ip);
        header.source_mac = wanted.mac(Field::ArpSha, header.source_mac);
        header.target_mac = wanted.mac(Field::ArpTha, header.target_mac);
    })
}

fn nsh(packet: &mut PacketMut<'_>, wanted: Wanted<'_>) -> Option<()> {
    let l3 = usize::from(packet.view().descriptor().l3);
    let header: NshHeader = read(packet.view(), l3)?;
    edit(packet, l3, |header: &mut NshHeader| {
        let flags = wanted.u8(Field::NshFlags, header.flags());
        let ttl = wanted.u8(Field::NshTtl, header.ttl());
        header.base = NshHeader::base(flags, ttl, header.length());
        header.path = wanted.u32(Field::NshPath, header.path);
    })?;
    if header.md_type & 0xf != MD_TYPE1 {
        return Some(());
    }
    edit(packet, l3 + size_of::<NshHeader>(), |context: &mut [U32; 4]| {
        let fields = [Field::NshC1, Field::NshC2, Field::NshC3, Field::NshC4];
        for (word, field) in context.iter_mut().zip(fields) {
            *word = wanted.u32(field, *word);
        }
    })
}

fn transport(packet: &mut PacketMut<'_>, key: &FlowKey, wanted: Wanted<'_>) -> Option<()> {
    let l4 = usize::from(packet.view().descriptor().l4);
    let has_ports = wanted.has(&[Field::TpSrc, Field::TpDst]);
    match key.ip_proto {
        TCP | UDP | SCTP if has_ports => {
            let old: [U16; 2] = read(packet.view(), l4)?;
            let [source, destination] = old;
            let ports = [wanted.u16(Field::TpSrc, source), wanted.u16(Field::TpDst, destination)];
            let change = Change { old: old.as_bytes(), new: ports.as_bytes() };
            if old == ports || !defer(packet, key)? {
                update(packet, key.ip_proto, Place::Packet, &change)?;
            }
            around_sctp(packet, key.ip_proto, |packet| {
                packet.write(l4, ports.as_bytes()).then_some(())
            })?;
            // The hash over addresses and ports is another one now.
            packet.descriptor_mut().set_rss_hash(None);
            Some(())
        }
        ICMP if has_ports => edit(packet, l4, |header: &mut IcmpHeader| {
            let old = u16::from_be_bytes([header.message_type, header.code]);
            header.message_type = wanted.u8(Field::TpSrc, header.message_type);
            header.code = wanted.u8(Field::TpDst, header.code);
            let now = u16::from_be_bytes([header.message_type, header.code]);
            update16(&mut header.checksum, old, now);
        }),
        ICMPV6 => {
            if has_ports {
                edit(packet, l4, |header: &mut Icmpv6Header| {
                    let old = u16::from_be_bytes([header.message_type, header.code]);
                    header.message_type = wanted.u8(Field::TpSrc, header.message_type);
                    header.code = wanted.u8(Field::TpDst, header.code);
                    let now = u16::from_be_bytes([header.message_type, header.code]);
                    update16(&mut header.checksum, old, now);
                })?;
            }
            neighbour(packet, l4, wanted)
        }
        _ => Some(()),
    }
}

/// Flags, target and link-layer address options of neighbour discovery.
fn neighbour(packet: &mut PacketMut<'_>, l4: usize, wanted: Wanted<'_>) -> Option<()> {
    if !wanted.has(&[Field::NdTarget, Field::ArpSha, Field::ArpTha, Field::IgmpGroup]) {
        return Some(());
    }
    let header: Icmpv6Header = read(packet.view(), l4)?;
    let reserved = wanted.u32(Field::IgmpGroup, header.data);
    let change = Change { old: header.data.as_bytes(), new: reserved.as_bytes() };
    update(packet, ICMPV6, Place::Packet, &change)?;
    packet.write(l4 + 4, reserved.as_bytes());

    let target = l4 + size_of::<Icmpv6Header>();
    let old: [u8; 16] = read(packet.view(), target)?;
    let address = wanted.address(Field::NdTarget, old);
    let change = Change { old: &old, new: &address };
    update(packet, ICMPV6, Place::Packet, &change)?;
    packet.write(target, &address);

    let mut at = target + 16;
    while let Some(old) = read::<LinkAddressOption>(packet.view(), at) {
        let length = 8 * usize::from(old.length);
        if length == 0 {
            break;
        }
        if length == size_of::<LinkAddressOption>() {
            let mut option = old;
            let field = match old.option_type {
                SOURCE_LINK_ADDRESS => Field::ArpSha,
                _ => Field::ArpTha,
            };
            option.address = wanted.mac(field, old.address);
            let change = Change { old: old.as_bytes(), new: option.as_bytes() };
            update(packet, ICMPV6, Place::Packet, &change)?;
            packet.write(at, option.as_bytes());
        }
        at += length;
    }
    Some(())
}
