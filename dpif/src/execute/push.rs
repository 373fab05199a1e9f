//! Actions that put headers in front of a packet, or take them off. `None` means that a header is
//! cut short, or that there is no room for it. Taking off what is not there does nothing, as in OVS.

use netdev::packet::{NO_LAYER, PacketMut};
use netdev::wire::ethernet::{EthernetHeader, MacAddress, ether_type};
use netdev::wire::mpls::{MplsEntry, is_mpls};
use netdev::wire::nsh::{MD_TYPE1, MD_TYPE1_LENGTH, NshHeader};
use netdev::wire::vlan::{CFI, VlanHeader, is_tag};
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use super::header::{edit, read};
use crate::flow::NshKey;

/// Bytes of the two addresses of an Ethernet header.
const ADDRESSES: usize = 12;

/// Makes room for `count` bytes at `offset`.
fn open_gap(packet: &mut PacketMut<'_>, offset: usize, count: usize) -> Option<()> {
    let pushed = packet.push_front(count)?;
    debug_assert_eq!(pushed.len(), count);
    let bytes = packet.data_mut();
    if bytes.len() < count + offset {
        return None;
    }
    bytes.copy_within(count..count + offset, 0);
    Some(())
}

/// Removes `count` bytes at `offset`.
fn close_gap(packet: &mut PacketMut<'_>, offset: usize, count: usize) -> Option<()> {
    let bytes = packet.data_mut();
    if bytes.len() < offset + count {
        return None;
    }
    bytes.copy_within(..offset, count);
    packet.pull_front(count).then_some(())
}

/// Puts a tag in front, and before that the one beside the frame.
pub(super) fn push_vlan(packet: &mut PacketMut<'_>, tpid: u16, tci: u16) -> Option<()> {
    if let Some(beside) = packet.view().descriptor().vlan() {
        insert_tag(packet, beside.tpid, beside.tci)?;
    }
    packet.descriptor_mut().set_vlan(None);
    insert_tag(packet, tpid, tci & !CFI)
}

fn insert_tag(packet: &mut PacketMut<'_>, tpid: u16, tci: u16) -> Option<()> {
    open_gap(packet, ADDRESSES, size_of::<VlanHeader>())?;
    let tag = VlanHeader { tpid: U16::new(tpid), tci: U16::new(tci) };
    packet.write(ADDRESSES, tag.as_bytes()).then_some(())
}

/// Takes the outermost tag off.
pub(super) fn pop_vlan(packet: &mut PacketMut<'_>) -> Option<()> {
    if packet.view().descriptor().vlan().is_some() {
        packet.descriptor_mut().set_vlan(None);
        return Some(());
    }
    let tag: VlanHeader = read(packet.view(), ADDRESSES)?;
    if !is_tag(tag.tpid.get()) {
        return Some(());
    }
    close_gap(packet, ADDRESSES, size_of::<VlanHeader>())
}

/// Offset and Ethertype of what follows the tags of an Ethernet frame, where MPLS labels are.
fn behind_tags(packet: &PacketMut<'_>) -> Option<(usize, u16)> {
    match packet.view().descriptor().l3_type {
        0 => {}
        eth_type => return Some((0, eth_type)),
    }
    let mut at = ADDRESSES;
    loop {
        let found = read::<U16>(packet.view(), at)?.get();
        match is_tag(found) {
            true => at += size_of::<VlanHeader>(),
            false => return Some((at + size_of::<U16>(), found)),
        }
    }
}

/// Offset of the outermost MPLS label.
pub(super) fn label_offset(packet: &PacketMut<'_>) -> Option<usize> {
    behind_tags(packet).filter(|(_, eth_type)| is_mpls(*eth_type)).map(|(at, _)| at)
}

fn set_eth_type(packet: &mut PacketMut<'_>, label: usize, eth_type: u16) -> Option<()> {
    let Some(at) = label.checked_sub(size_of::<U16>()) else {
        packet.descriptor_mut().l3_type = eth_type;
        return Some(());
    };
    edit(packet, at, |found: &mut U16| found.set(eth_type))
}

/// Puts a label in front of the network header, or of other labels.
pub(super) fn push_mpls(packet: &mut PacketMut<'_>, entry: u32, eth_type: u16) -> Option<()> {
    if !is_mpls(eth_type) {
        return Some(());
    }
    let (label, _) = behind_tags(packet)?;
    open_gap(packet, label, size_of::<MplsEntry>())?;
    packet.write(label, MplsEntry(U32::new(entry)).as_bytes()).then_some(())?;
    set_eth_type(packet, label, eth_type)
}

/// Takes the outermost label off.
pub(super) fn pop_mpls(packet: &mut PacketMut<'_>, eth_type: u16) -> Option<()> {
    let Some(label) = label_offset(packet) else { return Some(()) };
    // A whole frame in a packet of its own starts with Ethernet.
    let eth_type = if label == 0 && eth_type == ether_type::TEB { 0 } else { eth_type };
    set_eth_type(packet, label, eth_type)?;
    close_gap(packet, label, size_of::<MplsEntry>())
}

/// Puts an Ethernet header in front of a packet that starts with its network header.
pub(super) fn push_ethernet(
    packet: &mut PacketMut<'_>,
    source: MacAddress,
    destination: MacAddress,
) -> Option<()> {
    let l3_type = packet.view().descriptor().l3_type;
    if l3_type == 0 {
        return None;
    }
    let header = EthernetHeader { destination, source, ether_type: U16::new(l3_type) };
    packet.push_front(size_of::<EthernetHeader>())?;
    packet.descriptor_mut().l3_type = 0;
    packet.write(0, header.as_bytes()).then_some(())
}

/// Takes the Ethernet header off a frame without tags.
pub(super) fn pop_ethernet(packet: &mut PacketMut<'_>) -> Option<()> {
    let header: EthernetHeader = read(packet.view(), 0)?;
    let descriptor = packet.view().descriptor();
    let has_tag = is_tag(header.ether_type.get()) || descriptor.vlan().is_some();
    if has_tag || descriptor.l3_type != 0 {
        return None;
    }
    packet.descriptor_mut().l3_type = header.ether_type.get();
    packet.pull_front(size_of::<EthernetHeader>()).then_some(())
}

/// Puts a network service header in front of everything.
pub(super) fn push_nsh(packet: &mut PacketMut<'_>, nsh: &NshKey) -> Option<()> {
    let next_protocol = match packet.view().descriptor().l3_type {
        0 => 3,
        ether_type::IPV4 => 1,
        ether_type::IPV6 => 2,
        ether_type::NSH => 4,
        _ => return None,
    };
    if nsh.md_type != MD_TYPE1 || packet.view().descriptor().vlan().is_some() {
        return None;
    }
    let header = NshHeader {
        base: NshHeader::base(nsh.flags, nsh.ttl, MD_TYPE1_LENGTH),
        md_type: nsh.md_type,
        next_protocol,
        path: nsh.path,
    };
    packet.push_front(MD_TYPE1_LENGTH)?;
    packet.write(0, header.as_bytes());
    packet.write(size_of::<NshHeader>(), nsh.context.as_bytes());
    let descriptor = packet.descriptor_mut();
    (descriptor.l3, descriptor.l4) = (0, NO_LAYER);
    descriptor.l3_type = ether_type::NSH;
    Some(())
}

/// Takes the network service header off.
pub(super) fn pop_nsh(packet: &mut PacketMut<'_>) -> Option<()> {
    if packet.view().descriptor().l3_type != ether_type::NSH {
        return None;
    }
    let header: NshHeader = read(packet.view(), 0)?;
    let inner = match header.next_protocol {
        1 => ether_type::IPV4,
        2 => ether_type::IPV6,
        3 => 0,
        4 => ether_type::NSH,
        _ => return None,
    };
    if header.length() < size_of::<NshHeader>() {
        return None;
    }
    packet.pull_front(header.length()).then_some(())?;
    packet.descriptor_mut().l3_type = inner;
    Some(())
}
