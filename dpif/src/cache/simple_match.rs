//! Simple match: when no flow of a port looks at more than Ethertype, fragment bits and VLAN, these
//! few bits of a packet name its flow, and its key is not needed.

use std::collections::HashMap;

use netdev::wire::vlan;

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
        match SimpleKey::of_flow(key, mask) {
            Some(simple) => {
                self.flows.insert(simple, flow);
            }
            None => self.others += 1,
        }
    }

    /// Forgets a flow of the port.
    pub(crate) fn remove(&mut self, key: &FlowKey, mask: &FlowMask) {
        match SimpleKey::of_flow(key, mask) {
            Some(simple) => {
                self.flows.remove(&simple);
            }
            None => self.others -= 1,
        }
    }
}
