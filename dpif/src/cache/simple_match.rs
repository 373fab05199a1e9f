//! Simple match: when no flow of a port looks at more than Ethertype, fragment bits and VLAN, these
//! few bits of a packet name its flow, and its key is not needed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use netdev::packet::PacketRef;
use netdev::wire::ethernet::ether_type;
use netdev::wire::{ip_protocol, vlan};

use crate::flow::{FlowKey, FlowMask};

/// Bits of a VLAN tag that count: whether there is one, and the VLAN.
const TCI: u16 = vlan::CFI | 0xfff;

/// What simple match looks at, beside the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SimpleKey {
    eth_type: u16,
    tci: u16,
    ip_frag: u8,
}

impl SimpleKey {
    /// That part of a key.
    #[inline]
    pub(crate) fn of(key: &FlowKey) -> Self {
        let [outer, _] = &key.vlans;
        Self { eth_type: key.eth_type.get(), tci: outer.tci.get() & TCI, ip_frag: key.ip_frag }
    }

    /// The key of a packet that is ordinary, with its TCP flags: untagged, IPv4 without options, not
    /// a fragment, TCP or UDP. Nothing for others, whose keys take more to find.
    #[inline]
    pub(crate) fn of_packet(packet: &PacketRef<'_>) -> Option<(Self, u16)> {
        let (descriptor, bytes) = packet.whole()?;
        let head = bytes.first_chunk::<48>()?;
        let half = |at: usize| u32::from(u16::from_be_bytes([head[at], head[at + 1]]));
        let (transport, flags) = match head[23] {
            ip_protocol::UDP => (0, 0),
            // A header that is too short has no flags.
            ip_protocol::TCP if head[46] >> 4 >= 5 => {
                (u32::from(head[46] >> 4) * 4, half(46) as u16 & 0xfff)
            }
            _ => return None,
        };
        let length = half(16);
        let mut unusual = half(12) ^ u32::from(ether_type::IPV4);
        unusual |= u32::from(head[14]) ^ 0x45;
        unusual |= half(20) & 0x3fff;
        unusual |=
            u32::from(length < 20 + transport) | u32::from(length as usize > bytes.len() - 14);
        unusual |= u32::from(descriptor.l3_type) | descriptor.recirc_id;
        unusual |= u32::from(descriptor.vlan().is_some());
        let key = Self { eth_type: ether_type::IPV4, tci: 0, ip_frag: 0 };
        (unusual == 0).then_some((key, flags))
    }

    /// That part of the key of a flow, if the flow looks at it alone and at all of it.
    fn of_flow(key: &FlowKey, mask: &FlowMask) -> Option<Self> {
        let mut allowed = FlowKey::default();
        allowed.recirc_id.set(u32::MAX);
        allowed.in_port.set(u32::MAX);
        allowed.packet_namespace.set(u16::MAX);
        allowed.packet_type.set(u16::MAX);
        allowed.eth_type.set(u16::MAX);
        allowed.vlans[0].tci.set(TCI);
        allowed.ip_frag = u8::MAX;
        let bits = mask.bits();
        let has_other_bits = FlowMask::new(allowed).masked(bits) != *bits;
        let is_partial = bits.eth_type.get() != u16::MAX
            || bits.vlans[0].tci.get() != TCI
            || bits.recirc_id.get() != u32::MAX
            || key.is_ip() && bits.ip_frag & 3 != 3;
        let is_simple =
            !has_other_bits && !is_partial && key.recirc_id.get() == 0 && key.is_ethernet();
        is_simple.then(|| Self::of(key))
    }
}

/// The flows of a port, as far as they are simple.
#[derive(Debug, Default)]
pub(crate) struct SimpleMatch {
    flows: HashMap<SimpleKey, u32>,
    others: usize,
}

impl SimpleMatch {
    /// Whether every flow of the port is simple, and there is one.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.others == 0 && !self.flows.is_empty()
    }

    /// The flow of a packet.
    #[inline]
    pub(crate) fn find(&self, key: SimpleKey) -> Option<u32> {
        self.flows.get(&key).copied()
    }

    /// Notes a flow of the port.
    pub(crate) fn insert(&mut self, key: &FlowKey, mask: &FlowMask, flow: u32) {
        let place = SimpleKey::of_flow(key, mask).map(|simple| self.flows.entry(simple));
        match place {
            Some(Entry::Vacant(place)) => {
                place.insert(flow);
            }
            // Two flows for the same packets are the business of the classifier.
            Some(Entry::Occupied(_)) | None => self.others += 1,
        }
    }

    /// Forgets a flow of the port.
    pub(crate) fn remove(&mut self, key: &FlowKey, mask: &FlowMask, flow: u32) {
        let simple = SimpleKey::of_flow(key, mask);
        match simple.filter(|simple| self.flows.get(simple) == Some(&flow)) {
            Some(simple) => {
                self.flows.remove(&simple);
            }
            None => self.others -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use netdev::packet::FramePool;
    use proptest::prelude::*;

    use super::*;
    use crate::flow::{PacketKey, extract};
    use crate::testing::ip;

    proptest! {
        /// What is ordinary has the simple key and the flags that extraction finds.
        #[test]
        fn the_short_way_agrees_with_extraction(
            is_tcp in any::<bool>(),
            data in prop::collection::vec(any::<u8>(), 20..40),
            damage in prop::collection::vec((12..60usize, any::<u8>()), 0..3),
            cut in 0..80usize,
        ) {
            let (protocol, checksum) = if is_tcp { (6, 16) } else { (17, 6) };
            let mut frame = ip(false, protocol, data, checksum);
            for (place, byte) in damage {
                if let Some(damaged) = frame.get_mut(place) {
                    *damaged = byte;
                }
            }
            frame.truncate(14 + cut);
            let mut packet = FramePool::new(64).unwrap().packet_with(&frame).unwrap();
            let quick = SimpleKey::of_packet(&packet.view());
            let mut key = PacketKey::default();
            extract(&mut packet.view_mut(), None, 2, &mut key);
            if let Some((simple, flags)) = quick {
                prop_assert_eq!(simple, SimpleKey::of(key.key()));
                prop_assert_eq!(flags, key.key().tcp_flags.get());
            }
        }
    }

    #[test]
    fn one_flow_that_looks_at_more_turns_it_off() {
        let mut bits = FlowKey::default();
        bits.in_port.set(u32::MAX);
        bits.recirc_id.set(u32::MAX);
        bits.eth_type.set(u16::MAX);
        bits.vlans[0].tci.set(TCI);
        let mut key = FlowKey::default();
        key.eth_type.set(ether_type::ARP);
        let simple_mask = FlowMask::new(bits.clone());
        let mut simple = SimpleMatch::default();
        assert!(!simple.is_on());
        simple.insert(&key, &simple_mask, 5);
        assert!(simple.is_on());
        assert_eq!(simple.find(SimpleKey::of(&key)), Some(5));
        bits.ip_proto = 1;
        let other_mask = FlowMask::new(bits);
        simple.insert(&key, &other_mask, 6);
        assert!(!simple.is_on());
        simple.remove(&key, &other_mask, 6);
        assert!(simple.is_on());
        // Nor does it choose between two flows for the same packets.
        simple.insert(&key, &simple_mask, 8);
        assert!(!simple.is_on());
        simple.remove(&key, &simple_mask, 8);
        assert_eq!((simple.is_on(), simple.find(SimpleKey::of(&key))), (true, Some(5)));
        simple.remove(&key, &simple_mask, 5);
        assert!(!simple.is_on());
        // Fragments of IP packets are looked at apart.
        key.eth_type.set(ether_type::IPV4);
        simple.insert(&key, &simple_mask, 7);
        assert!(!simple.is_on());
    }
}
