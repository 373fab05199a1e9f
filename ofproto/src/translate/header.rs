//! Changes of the packet's headers that move the others.

use dpif::flow::{FlowKey, MAX_MPLS_LABELS, MAX_VLANS, NshKey, VlanKey};
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::{mpls, vlan};

/// Bits of a label stack entry (RFC 3032, section 2.1).
pub(super) mod entry {
    pub(in crate::translate) const LABEL_MASK: u32 = 0xffff_f000;
    pub(in crate::translate) const LABEL_SHIFT: u32 = 12;
    pub(in crate::translate) const CLASS_MASK: u32 = 0x0e00;
    pub(in crate::translate) const CLASS_SHIFT: u32 = 9;
    pub(in crate::translate) const TTL_MASK: u32 = 0xff;
}

/// Labels that say that IP follows (RFC 3032, section 2.1).
const IPV4_EXPLICIT_NULL: u32 = 0;
const IPV6_EXPLICIT_NULL: u32 = 2;
/// Time to live of a label in front of what has none.
const DEFAULT_TTL: u32 = 64;
/// Bits of the type of service that name the class.
pub(super) const DSCP_MASK: u8 = 0xfc;
const DSCP_SHIFT: u8 = 2;

const ALL_BITS: VlanKey = VlanKey {
    tci: zerocopy::network_endian::U16::MAX_VALUE,
    tpid: zerocopy::network_endian::U16::MAX_VALUE,
};

/// Number of VLAN tags.
fn vlan_tags(key: &FlowKey) -> usize {
    key.vlans.iter().take_while(|tag| tag.tci.get() & vlan::CFI != 0).count()
}

/// Takes the outermost VLAN tag off. What is looked at is noted in `read`.
pub(super) fn pop_vlan(key: &mut FlowKey, read: &mut FlowKey) {
    let tags = vlan_tags(key);
    if tags > 1 {
        read.vlans.iter_mut().take(tags).skip(1).for_each(|tag| *tag = ALL_BITS);
    }
    if tags > 0 {
        key.vlans.rotate_left(1);
        if let Some(last) = key.vlans.last_mut() {
            *last = VlanKey::default();
        }
    }
}

/// Puts an empty VLAN tag in front.
pub(super) fn push_vlan(key: &mut FlowKey, read: &mut FlowKey, tpid: u16) {
    read.vlans.iter_mut().take(vlan_tags(key)).for_each(|tag| *tag = ALL_BITS);
    key.vlans.rotate_right(1);
    let [first, ..] = &mut key.vlans;
    *first = VlanKey { tpid: tpid.into(), tci: vlan::CFI.into() };
}

/// Number of MPLS labels. The bits that tell it are noted in `read`.
pub(super) fn mpls_labels(key: &FlowKey, read: &mut FlowKey) -> usize {
    if !mpls::is_mpls(key.eth_type.get()) {
        return 0;
    }
    let mut set = 0;
    for (index, (entry, read)) in key.mpls.iter().zip(&mut read.mpls).enumerate() {
        read.set(read.get() | mpls::BOTTOM);
        if entry.get() & mpls::BOTTOM != 0 {
            return index + 1;
        }
        set += usize::from(entry.get() != 0);
    }
    set
}

/// Puts a label in front of `labels` others, fewer than [`MAX_MPLS_LABELS`]. Behind a first label
/// nothing is known of the packet.
pub(super) fn push_mpls(key: &mut FlowKey, labels: usize, eth_type: u16, read: &mut FlowKey) {
    if labels > 0 {
        read.mpls.iter_mut().take(labels).for_each(|entry| entry.set(u32::MAX));
        key.mpls.rotate_right(1);
        let [first, second, ..] = &mut key.mpls;
        first.set(second.get() & !mpls::BOTTOM);
    } else {
        let label = match key.eth_type.get() {
            ether_type::IPV6 => IPV6_EXPLICIT_NULL,
            _ => IPV4_EXPLICIT_NULL,
        };
        let (mut class, mut ttl) = (0, DEFAULT_TTL);
        if key.is_ethernet() && key.is_ip() {
            class = u32::from((key.ip_tos & DSCP_MASK) >> DSCP_SHIFT) & 7;
            read.ip_tos |= DSCP_MASK;
            read.ip_ttl = u8::MAX;
            if key.ip_ttl != 0 {
                ttl = key.ip_ttl.into();
            }
        }
        let [first, ..] = &mut key.mpls;
        let class = class << entry::CLASS_SHIFT;
        first.set(label << entry::LABEL_SHIFT | class | mpls::BOTTOM | ttl);
        clear_network(key);
        key.dp_hash.set(0);
    }
    key.eth_type.set(eth_type);
}

/// Takes the first of `labels` off, as [`mpls_labels`] counted them; returns whether that can be
/// done.
pub(super) fn pop_mpls(
    key: &mut FlowKey,
    labels: usize,
    eth_type: u16,
    read: &mut FlowKey,
) -> bool {
    if labels == 0 {
        return false;
    }
    if labels == MAX_MPLS_LABELS
        && let (Some(last), Some(read)) = (key.mpls.last(), read.mpls.last_mut())
    {
        read.set(read.get() | mpls::BOTTOM);
        if last.get() & mpls::BOTTOM == 0 {
            // What would come behind it is not known.
            return false;
        }
    }
    read.mpls.iter_mut().take(labels).skip(1).for_each(|entry| entry.set(u32::MAX));
    key.mpls.rotate_left(1);
    if let Some(last) = key.mpls.get_mut(labels - 1..) {
        last.iter_mut().for_each(|entry| entry.set(0));
    }
    key.eth_type.set(eth_type);
    true
}

/// Sets bits of the outermost label of a packet that has one.
pub(super) fn set_mpls(key: &mut FlowKey, read: &mut FlowKey, mask: u32, value: u32) {
    if mpls::is_mpls(key.eth_type.get()) {
        let ([entry, ..], [read, ..]) = (&mut key.mpls, &mut read.mpls);
        read.set(read.get() | mask);
        entry.set(entry.get() & !mask | value & mask);
    }
}

/// Forgets everything from the network header on.
fn clear_network(key: &mut FlowKey) {
    key.ipv4_src.set(0);
    key.ipv4_dst.set(0);
    (key.ipv6_src, key.ipv6_dst) = ([0; 16], [0; 16]);
    key.ipv6_label.set(0);
    (key.ip_frag, key.ip_tos, key.ip_ttl, key.ip_proto) = (0, 0, 0, 0);
    (key.nd_target, key.nd_option) = ([0; 16], 0);
    (key.arp_sha, key.arp_tha) = (MacAddress::default(), MacAddress::default());
    key.tcp_flags.set(0);
    key.tp_src.set(0);
    key.tp_dst.set(0);
    key.ct_tp_src.set(0);
    key.ct_tp_dst.set(0);
    key.igmp_group.set(0);
    key.nsh = NshKey::default();
}

/// Forgets all headers of the packet.
pub(super) fn clear_headers(key: &mut FlowKey) {
    (key.eth_src, key.eth_dst) = (MacAddress::default(), MacAddress::default());
    key.vlans = [VlanKey::default(); MAX_VLANS];
    key.mpls = Default::default();
    clear_network(key);
}

/// Forgets what connection tracking found.
pub(crate) fn clear_conntrack(key: &mut FlowKey) {
    (key.ct_state, key.ct_proto) = (0, 0);
    key.ct_zone.set(0);
    key.ct_mark.set(0);
    key.ct_label = [0; 16];
    key.ct_tp_src.set(0);
    key.ct_tp_dst.set(0);
    key.ct_ipv4_src.set(0);
    key.ct_ipv4_dst.set(0);
    (key.ct_ipv6_src, key.ct_ipv6_dst) = ([0; 16], [0; 16]);
}
