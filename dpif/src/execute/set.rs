//! Action `set`: overwrites bits of header fields and keeps checksums true.
//!
//! A field that the packet does not have is left alone, as OVS does.

use netdev::packet::{Checksum, Layer, NO_LAYER, PacketMut};
use netdev::wire::arp::ArpHeader;
use netdev::wire::checksum::update16;
use netdev::wire::ethernet::{EthernetHeader, ether_type};
use netdev::wire::icmp::IcmpHeader;
use netdev::wire::icmpv6::{Icmpv6Header, LinkAddressOption, SOURCE_LINK_ADDRESS};
use netdev::wire::ip_protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
use netdev::wire::ipv4::Ipv4Header;
use netdev::wire::ipv6::{Ipv6Header, LABEL_MASK};
use netdev::wire::mpls::MplsEntry;
use netdev::wire::nsh::{MD_TYPE1, NshHeader};
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use super::checksum::{Change, Place, around_sctp, update};
use super::header::{Masked, edit, mask_bytes, read};
use crate::flow::{FRAG_LATER, FlowKey};

/// Overwrites the bits of `packet` that are 1 in `mask` by those of `new`. `key` is the key of the
/// packet, extracted just now, and `label` the offset of its outermost MPLS label, if it has one. `None`
/// when a header is cut short.
pub(super) fn set(
    packet: &mut PacketMut<'_>,
    key: &FlowKey,
    new: &FlowKey,
    mask: &FlowKey,
    label: Option<usize>,
) -> Option<()> {
    metadata(packet, new, mask);
    if !mask.eth_dst.is_zero() || !mask.eth_src.is_zero() {
        ethernet(packet, key, new, mask)?;
    }
    if let Some(label) = label
        && mask.mpls[0].get() != 0
    {
        edit(packet, label, |MplsEntry(entry)| {
            entry.set(entry.get().masked(new.mpls[0].get(), mask.mpls[0].get()));
        })?;
    }
    if packet.view().descriptor().l3 == NO_LAYER {
        return Some(());
    }
    match key.eth_type.get() {
        ether_type::IPV4 if key.ipv4_src.get() | key.ipv4_dst.get() != 0 || key.ip_proto != 0 => {
            ipv4(packet, key, new, mask)?;
        }
        ether_type::IPV6 => ipv6(packet, key, new, mask)?,
        ether_type::ARP | ether_type::RARP => return arp(packet, new, mask),
        ether_type::NSH => return nsh(packet, new, mask),
        _ => return Some(()),
    }
    if packet.view().descriptor().l4 == NO_LAYER || key.ip_frag & FRAG_LATER != 0 {
        return Some(());
    }
    transport(packet, key, new, mask)
}

fn metadata(packet: &mut PacketMut<'_>, new: &FlowKey, mask: &FlowKey) {
    let descriptor = packet.descriptor_mut();
    let mark = descriptor.skb_mark.masked(new.skb_mark.get(), mask.skb_mark.get());
    descriptor.skb_mark = mark;
    let priority = descriptor.skb_priority;
    descriptor.skb_priority = priority.masked(new.skb_priority.get(), mask.skb_priority.get());
}

fn ethernet(
    packet: &mut PacketMut<'_>,
    key: &FlowKey,
    new: &FlowKey,
    mask: &FlowKey,
) -> Option<()> {
    if !key.is_ethernet() {
        return Some(());
    }
    edit(packet, 0, |header: &mut EthernetHeader| {
        mask_bytes(&mut header.destination.0, &new.eth_dst.0, &mask.eth_dst.0);
        mask_bytes(&mut header.source.0, &new.eth_src.0, &mask.eth_src.0);
    })
}

fn ipv4(packet: &mut PacketMut<'_>, key: &FlowKey, new: &FlowKey, mask: &FlowKey) -> Option<()> {
    let is_wanted =
        mask.ipv4_src.get() | mask.ipv4_dst.get() != 0 || mask.ip_tos | mask.ip_ttl != 0;
    if !is_wanted {
        return Some(());
    }
    let l3 = usize::from(packet.view().descriptor().l3);
    let old: Ipv4Header = read(packet.view(), l3)?;
    let mut header = old;
    header.source.set(old.source.get().masked(new.ipv4_src.get(), mask.ipv4_src.get()));
    header.destination.set(old.destination.get().masked(new.ipv4_dst.get(), mask.ipv4_dst.get()));
    header.tos = old.tos.masked(new.ip_tos, mask.ip_tos);
    header.ttl = old.ttl.masked(new.ip_ttl, mask.ip_ttl);
    if packet.view().descriptor().checksum(Layer::Ip) != Checksum::Partial {
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
        if key.ip_proto != ICMPV6 {
            update(packet, key.ip_proto, Place::PseudoHeader, &change)?;
        }
    }
    packet.write(l3, header.as_bytes()).then_some(())
}

fn ipv6(packet: &mut PacketMut<'_>, key: &FlowKey, new: &FlowKey, mask: &FlowKey) -> Option<()> {
    let is_wanted = mask.ipv6_src != [0; 16]
        || mask.ipv6_dst != [0; 16]
        || mask.ipv6_label.get() != 0
        || mask.ip_tos | mask.ip_ttl != 0;
    if !is_wanted {
        return Some(());
    }
    let l3 = usize::from(packet.view().descriptor().l3);
    let old: Ipv6Header = read(packet.view(), l3)?;
    let mut header = old;
    mask_bytes(&mut header.source, &new.ipv6_src, &mask.ipv6_src);
    mask_bytes(&mut header.destination, &new.ipv6_dst, &mask.ipv6_dst);
    let word = |label: &U32, tos: u8| label.get() & LABEL_MASK | u32::from(tos) << 20;
    let values = word(&new.ipv6_label, new.ip_tos);
    header.flow.set(old.flow.get().masked(values, word(&mask.ipv6_label, mask.ip_tos)));
    header.hop_limit = old.hop_limit.masked(new.ip_ttl, mask.ip_ttl);
    let addresses = |header: &Ipv6Header| [header.source, header.destination];
    if packet.view().descriptor().l4 != NO_LAYER && key.ip_frag & FRAG_LATER == 0 {
        let (before, after) = (addresses(&old), addresses(&header));
        let change = Change { old: before.as_bytes(), new: after.as_bytes() };
        update(packet, key.ip_proto, Place::PseudoHeader, &change)?;
    }
    packet.write(l3, header.as_bytes()).then_some(())
}

fn arp(packet: &mut PacketMut<'_>, new: &FlowKey, mask: &FlowKey) -> Option<()> {
    let l3 = usize::from(packet.view().descriptor().l3);
    edit(packet, l3, |header: &mut ArpHeader| {
        let operation = header.operation.get();
        header.operation.set(operation.masked(new.ip_proto.into(), mask.ip_proto.into()));
        header
            .source_ip
            .set(header.source_ip.get().masked(new.ipv4_src.get(), mask.ipv4_src.get()));
        header
            .target_ip
            .set(header.target_ip.get().masked(new.ipv4_dst.get(), mask.ipv4_dst.get()));
        mask_bytes(&mut header.source_mac.0, &new.arp_sha.0, &mask.arp_sha.0);
        mask_bytes(&mut header.target_mac.0, &new.arp_tha.0, &mask.arp_tha.0);
    })
}

fn nsh(packet: &mut PacketMut<'_>, new: &FlowKey, mask: &FlowKey) -> Option<()> {
    let l3 = usize::from(packet.view().descriptor().l3);
    let (new, mask) = (&new.nsh, &mask.nsh);
    let header: NshHeader = read(packet.view(), l3)?;
    edit(packet, l3, |header: &mut NshHeader| {
        let flags = header.flags().masked(new.flags, mask.flags);
        let ttl = header.ttl().masked(new.ttl, mask.ttl);
        header.base = NshHeader::base(flags, ttl, header.length());
        header.path.set(header.path.get().masked(new.path.get(), mask.path.get()));
    })?;
    if header.md_type & 0xf != MD_TYPE1 {
        return Some(());
    }
    edit(packet, l3 + size_of::<NshHeader>(), |context: &mut [U32; 4]| {
        for ((old, new), mask) in context.iter_mut().zip(new.context).zip(mask.context) {
            old.set(old.get().masked(new.get(), mask.get()));
        }
    })
}

fn transport(
    packet: &mut PacketMut<'_>,
    key: &FlowKey,
    new: &FlowKey,
    mask: &FlowKey,
) -> Option<()> {
    let l4 = usize::from(packet.view().descriptor().l4);
    let has_ports = mask.tp_src.get() | mask.tp_dst.get() != 0;
    match key.ip_proto {
        TCP | UDP | SCTP if has_ports => {
            let old: [U16; 2] = read(packet.view(), l4)?;
            let [source, destination] = &old;
            let ports = [
                U16::new(source.get().masked(new.tp_src.get(), mask.tp_src.get())),
                U16::new(destination.get().masked(new.tp_dst.get(), mask.tp_dst.get())),
            ];
            let change = Change { old: old.as_bytes(), new: ports.as_bytes() };
            update(packet, key.ip_proto, Place::Packet, &change)?;
            around_sctp(packet, key.ip_proto, |packet| {
                packet.write(l4, ports.as_bytes()).then_some(())
            })?;
            // The hash over addresses and ports is another one now.
            packet.descriptor_mut().set_rss_hash(None);
            Some(())
        }
        ICMP if has_ports => edit(packet, l4, |header: &mut IcmpHeader| {
            let old = u16::from_be_bytes([header.message_type, header.code]);
            icmp(&mut header.message_type, &mut header.code, new, mask);
            let now = u16::from_be_bytes([header.message_type, header.code]);
            update16(&mut header.checksum, old, now);
        }),
        ICMPV6 => {
            if has_ports {
                edit(packet, l4, |header: &mut Icmpv6Header| {
                    let old = u16::from_be_bytes([header.message_type, header.code]);
                    icmp(&mut header.message_type, &mut header.code, new, mask);
                    let now = u16::from_be_bytes([header.message_type, header.code]);
                    update16(&mut header.checksum, old, now);
                })?;
            }
            neighbour(packet, l4, new, mask)
        }
        _ => Some(()),
    }
}

fn icmp(message_type: &mut u8, code: &mut u8, new: &FlowKey, mask: &FlowKey) {
    *message_type = message_type.masked(new.tp_src.get() as u8, mask.tp_src.get() as u8);
    *code = code.masked(new.tp_dst.get() as u8, mask.tp_dst.get() as u8);
}

/// Target and link-layer address options of neighbour discovery.
fn neighbour(packet: &mut PacketMut<'_>, l4: usize, new: &FlowKey, mask: &FlowKey) -> Option<()> {
    let target = l4 + size_of::<Icmpv6Header>();
    if mask.nd_target != [0; 16] {
        let old: [u8; 16] = read(packet.view(), target)?;
        let mut address = old;
        mask_bytes(&mut address, &new.nd_target, &mask.nd_target);
        let change = Change { old: &old, new: &address };
        update(packet, ICMPV6, Place::Packet, &change)?;
        packet.write(target, &address);
    }
    if mask.arp_sha.is_zero() && mask.arp_tha.is_zero() {
        return Some(());
    }
    let mut at = target + 16;
    while let Some(old) = read::<LinkAddressOption>(packet.view(), at) {
        let length = 8 * usize::from(old.length);
        if length == 0 {
            break;
        }
        if length == size_of::<LinkAddressOption>() {
            let mut option = old;
            match old.option_type {
                SOURCE_LINK_ADDRESS => {
                    mask_bytes(&mut option.address.0, &new.arp_sha.0, &mask.arp_sha.0);
                }
                _ => mask_bytes(&mut option.address.0, &new.arp_tha.0, &mask.arp_tha.0),
            }
            let change = Change { old: old.as_bytes(), new: option.as_bytes() };
            update(packet, ICMPV6, Place::Packet, &change)?;
            packet.write(at, option.as_bytes());
        }
        at += length;
    }
    Some(())
}
