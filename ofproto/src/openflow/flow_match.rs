//! What a flow matches: values and masks of fields.

use super::field::{Field, Prerequisite};
use super::port::PortNo;
use super::slot::{Slot, TUN_METADATA_LEN};
use super::value::{Value, low_ones};

/// Ethernet types that prerequisites speak of.
pub(crate) mod eth_type {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const ARP: u16 = 0x0806;
    pub(crate) const RARP: u16 = 0x8035;
    pub(crate) const IPV6: u16 = 0x86dd;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(crate) const MPLS_MULTICAST: u16 = 0x8848;
    pub(crate) const NSH: u16 = 0x894f;
}

/// IP protocols that prerequisites speak of.
pub(crate) mod ip_proto {
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const ICMPV6: u8 = 58;
    pub(crate) const SCTP: u8 = 132;
}

/// Bits of the field `ct_state`.
pub(crate) mod ct_state {
    pub(crate) const INVALID: u32 = 0x10;
    pub(crate) const TRACKED: u32 = 0x20;
    /// Bits that only a valid connection has.
    pub(crate) const IMPLY_VALID: u32 = 0xcf;
}

/// The bit of a VLAN tag that says there is one.
pub const VLAN_PRESENT: u16 = 0x1000;
/// The VLAN identifier of a tag.
pub const VLAN_VID: u16 = 0x0fff;
/// The priority of a tag.
pub const VLAN_PCP: u16 = 0xe000;

/// In a packed entry's length byte: the mask was given, even if it is all ones.
const MASKED: u8 = 0x80;

/// Bytes that tunnel metadata fields of one match may take together.
pub const TUN_METADATA_TOTAL: usize = 256;

/// The fields that a flow matches. The empty match matches every packet.
///
/// Stored packed, one entry for each slot that has any bit to match, in the order of the slots:
/// slot, length, value, mask. Value bits that the mask leaves out are zero, so equal matches have
/// equal bytes.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Match {
    packed: Vec<u8>,
}

/// What a match says about one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The slot.
    pub slot: Slot,
    /// The value, zero outside of the mask.
    pub value: Value,
    /// The bits that must be equal.
    pub mask: Value,
    /// Bytes of the value. Varies for tunnel metadata only.
    pub len: usize,
    /// Whether a mask was given for tunnel metadata; else whether the mask is not all ones.
    pub masked: bool,
}

/// Tunnel metadata that do not fit into one match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tunnel metadata need {needed} bytes, a match has {TUN_METADATA_TOTAL}")]
pub struct TunMetadataFull {
    /// Bytes of all tunnel metadata fields together.
    pub needed: usize,
}

/// Walks over the packed entries: start, slot, length byte, value bytes, mask bytes.
struct Entries<'a> {
    packed: &'a [u8],
    position: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = (usize, Slot, u8, &'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.position;
        let (&[slot, len], rest) = self.packed.get(start..)?.split_first_chunk::<2>()?;
        let bytes = usize::from(len & !MASKED);
        let (value, rest) = rest.split_at_checked(bytes)?;
        let (mask, _) = rest.split_at_checked(bytes)?;
        self.position += 2 + 2 * bytes;
        Some((start, Slot::from_code(slot), len, value, mask))
    }
}

/// The number that bytes spell, the last 16 at most.
fn big_endian(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

impl Entry {
    fn of((_, slot, len, value, mask): <Entries<'_> as Iterator>::Item) -> Self {
        Self {
            slot,
            value: Value::from_bytes(value),
            mask: Value::from_bytes(mask),
            len: value.len(),
            masked: len & MASKED != 0,
        }
    }
}

impl Match {
    /// A match of every packet.
    pub fn new() -> Match {
        Match::default()
    }

    /// Whether every packet matches.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    fn raw_entries(&self) -> Entries<'_> {
        Entries { packed: &self.packed, position: 0 }
    }

    /// The slots with at least one bit to match, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.raw_entries().map(Entry::of)
    }

    /// As [`entries`](Self::entries), but only slot, value and mask, and no tunnel metadata.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (Slot, u128, u128)> {
        let entries = self.raw_entries();
        entries
            .filter(|(_, slot, ..)| slot.tun_metadata_index().is_none())
            .map(|(_, slot, _, value, mask)| (slot, big_endian(value), big_endian(mask)))
    }

    /// What it says about tunnel metadata.
    pub fn tunnel_metadata(&self) -> impl Iterator<Item = Entry> {
        let entries = self.raw_entries();
        entries.filter(|(_, slot, ..)| slot.tun_metadata_index().is_some()).map(Entry::of)
    }

    /// What the match says about `slot`, `None` when nothing.
    pub fn entry(&self, slot: Slot) -> Option<Entry> {
        self.raw_entries().find(|(_, found, ..)| *found == slot).map(Entry::of)
    }

    /// Value and mask of a slot of at most 16 bytes, zeros when the slot is not matched.
    pub fn get(&self, slot: Slot) -> (u128, u128) {
        let found = self.raw_entries().find(|(_, found, ..)| *found == slot);
        found.map_or((0, 0), |(_, _, _, value, mask)| (big_endian(value), big_endian(mask)))
    }

    /// The value of a slot, zero when it is not matched.
    pub fn value(&self, slot: Slot) -> u128 {
        self.get(slot).0
    }

    /// The mask of a slot, zero when it is not matched.
    pub fn mask(&self, slot: Slot) -> u128 {
        self.get(slot).1
    }

    /// Puts `bytes` (an entry or nothing) in the place of `slot`'s entry.
    fn replace(&mut self, slot: Slot, bytes: &[u8]) {
        let mut place = self.packed.len()..self.packed.len();
        for (start, found, _, value, _) in self.raw_entries() {
            if found >= slot {
                let len = if found == slot { 2 + 2 * value.len() } else { 0 };
                place = start..start + len;
                break;
            }
        }
        if place.end == self.packed.len() {
            self.packed.truncate(place.start);
            self.packed.extend_from_slice(bytes);
        } else if !(place.is_empty() && bytes.is_empty()) {
            self.packed.splice(place, bytes.iter().copied());
        }
    }

    /// Sets value and mask of a slot of fixed length; a zero mask removes it.
    pub fn set(&mut self, slot: Slot, value: u128, mask: u128) {
        let len = slot.bytes().min(16);
        let mask = mask & low_ones(len * 8);
        if mask == 0 {
            return self.replace(slot, &[]);
        }
        let masked = if mask == low_ones(len * 8) { 0 } else { MASKED };
        let (value, mask) = ((value & mask).to_be_bytes(), mask.to_be_bytes());
        let numbers = value.iter().skip(16 - len).chain(mask.iter().skip(16 - len));
        let mut bytes = [0; 2 + 2 * 16];
        let entry = [slot.code(), len as u8 | masked];
        for (byte, from) in bytes.iter_mut().zip(entry.iter().chain(numbers)) {
            *byte = *from;
        }
        self.replace(slot, bytes.get(..2 + 2 * len).unwrap_or(&bytes));
    }

    /// Makes the match require exactly `value` in a slot.
    pub fn set_exact(&mut self, slot: Slot, value: u128) {
        self.set(slot, value, u128::MAX);
    }

    /// Stops matching a slot.
    pub fn remove(&mut self, slot: Slot) {
        self.replace(slot, &[]);
    }

    /// Sets tunnel metadata field `index` to `len` bytes of value and mask. A zero mask and length
    /// match the presence of the option. `masked` tells whether a mask was given.
    ///
    /// # Errors
    /// [`TunMetadataFull`] when all the metadata of the match would take over 256 bytes.
    pub fn set_tun_metadata(
        &mut self,
        index: u8,
        value: &Value,
        mask: &Value,
        len: usize,
        masked: bool,
    ) -> Result<(), TunMetadataFull> {
        let slot = Slot::tun_metadata(index);
        let len = len.min(TUN_METADATA_LEN);
        let others: usize = self
            .raw_entries()
            .filter(|(_, found, ..)| found.tun_metadata_index().is_some() && *found != slot)
            .map(|(_, _, _, value, _)| value.len().next_multiple_of(4))
            .sum();
        let needed = others + len.next_multiple_of(4);
        if needed > TUN_METADATA_TOTAL {
            return Err(TunMetadataFull { needed });
        }
        let mut bytes = vec![slot.code(), len as u8 | if masked { MASKED } else { 0 }];
        bytes.extend(value.and(mask).to_bytes(len));
        bytes.extend(mask.to_bytes(len));
        self.replace(slot, &bytes);
        Ok(())
    }

    /// Requires that the option of tunnel metadata field `index` is absent: an entry of no bytes
    /// and without a mask. Only what is told of packets has that.
    pub fn set_tun_metadata_absent(&mut self, index: u8) {
        let slot = Slot::tun_metadata(index);
        self.replace(slot, &[slot.code(), 0]);
    }

    /// Requires an Ethernet packet unless the match says something about the packet type.
    pub fn require_ethernet(&mut self) {
        if self.mask(Slot::PACKET_TYPE) == 0 {
            self.set_exact(Slot::PACKET_TYPE, 0);
        }
    }

    /// Whether the match requires exactly the Ethernet packet type.
    pub fn is_ethernet_only(&self) -> bool {
        self.get(Slot::PACKET_TYPE) == (0, 0xffff_ffff)
    }

    /// Whether packets of the match's packet type are Ethernet frames.
    pub fn is_ethernet(&self) -> bool {
        self.value(Slot::PACKET_TYPE) == 0
    }

    /// The Ethernet type of the match's packets, from the Ethernet header or the packet type; 0
    /// when it is not known.
    pub fn eth_type(&self) -> u16 {
        match self.value(Slot::PACKET_TYPE) as u32 {
            0 => self.value(Slot::ETH_TYPE) as u16,
            packet_type if packet_type >> 16 == 1 => packet_type as u16,
            _ => 0,
        }
    }

    /// Whether the match's packets are IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        matches!(self.eth_type(), eth_type::IPV4 | eth_type::IPV6)
    }

    /// The IP protocol of the match's packets, `None` when they are not known to be IP.
    pub fn ip_proto(&self) -> Option<u8> {
        self.is_ip().then(|| self.value(Slot::NW_PROTO) as u8)
    }

    /// Whether the match's packets are neighbor solicitations or advertisements.
    pub fn is_neighbor_discovery(&self) -> bool {
        self.meets(Prerequisite::Icmpv6)
            && self.value(Slot::TP_DST) == 0
            && matches!(self.value(Slot::TP_SRC), 135 | 136)
    }

    /// Whether the match meets a prerequisite.
    pub fn meets(&self, prerequisite: Prerequisite) -> bool {
        let proto =
            |number: u8| self.ip_proto() == Some(number) && self.value(Slot::NW_FRAG) & 2 == 0;
        let icmp = |kind: u16, number: u8| {
            self.eth_type() == kind && self.value(Slot::NW_PROTO) == u128::from(number)
        };
        let nd = |kind: u128| self.is_neighbor_discovery() && self.value(Slot::TP_SRC) == kind;
        match prerequisite {
            Prerequisite::None => true,
            Prerequisite::Ethernet => self.is_ethernet(),
            Prerequisite::Arp => matches!(self.eth_type(), eth_type::ARP | eth_type::RARP),
            Prerequisite::Vlan => {
                self.is_ethernet() && self.value(Slot::VLAN_TCI) & u128::from(VLAN_PRESENT) != 0
            }
            Prerequisite::Ipv4 => self.eth_type() == eth_type::IPV4,
            Prerequisite::Ipv6 => self.eth_type() == eth_type::IPV6,
            Prerequisite::Ip => self.is_ip(),
            Prerequisite::Nsh => self.eth_type() == eth_type::NSH,
            Prerequisite::Ct => {
                let (state, mask) = self.get(Slot::CT_STATE);
                let (state, mask) = (state as u32, mask as u32);
                state & ct_state::IMPLY_VALID != 0
                    || (state & ct_state::TRACKED != 0
                        && mask & ct_state::INVALID != 0
                        && state & ct_state::INVALID == 0)
            }
            Prerequisite::Mpls => {
                matches!(self.eth_type(), eth_type::MPLS | eth_type::MPLS_MULTICAST)
            }
            Prerequisite::Tcp => proto(ip_proto::TCP),
            Prerequisite::Udp => proto(ip_proto::UDP),
            Prerequisite::Sctp => proto(ip_proto::SCTP),
            Prerequisite::Icmpv4 => icmp(eth_type::IPV4, ip_proto::ICMP),
            Prerequisite::Icmpv6 => icmp(eth_type::IPV6, ip_proto::ICMPV6),
            Prerequisite::Nd => self.is_neighbor_discovery(),
            Prerequisite::NdSolicit => nd(135),
            Prerequisite::NdAdvert => nd(136),
        }
    }

    /// The slot bits that tell whether a field is matched, at their place in the slot.
    fn field_bits(field: Field) -> u128 {
        match field {
            Field::VLAN_TCI => 0xffff,
            Field::DL_VLAN | Field::VLAN_VID => u128::from(VLAN_PRESENT | VLAN_VID),
            Field::DL_VLAN_PCP | Field::VLAN_PCP => u128::from(VLAN_PCP),
            Field::IP_DSCP => 0xfc,
            Field::IP_FRAG => 3,
            _ if field.slot().bytes() <= field.bytes() && field.offset() == 0 => u128::MAX,
            // A field with one byte of a two-byte slot takes all of the slot.
            _ if field.slot().bytes() == 2 => u128::MAX,
            _ => low_ones(field.bits()) << field.offset(),
        }
    }

    /// Whether the match says nothing about `field`.
    pub fn is_wild(&self, field: Field) -> bool {
        match field.is_variable() {
            true => self.entry(field.slot()).is_none(),
            false => self.mask(field.slot()) & Match::shared_bits(field) == 0,
        }
    }

    /// As [`Match::field_bits`], within a slot that several fields share.
    fn shared_bits(field: Field) -> u128 {
        match (field.slot(), field) {
            (Slot::NSH_PATH, _) => low_ones(field.bits()) << field.offset(),
            (Slot::NW_TOS, Field::IP_ECN) => 3,
            (Slot::NW_TOS, _) => 0xfc,
            _ => Match::field_bits(field),
        }
    }

    /// Value and mask of a field, as the field's own bytes; zeros when it is not matched.
    pub fn field(&self, field: Field) -> (Value, Value) {
        if field.is_variable() {
            let entry = self.entry(field.slot());
            return entry.map_or((Value::ZERO, Value::ZERO), |entry| (entry.value, entry.mask));
        }
        let (value, mask) = self.get(field.slot());
        let width = match field {
            Field::VLAN_VID => 0x1fff,
            Field::DL_VLAN => 0xfff,
            _ => low_ones(field.bytes() * 8),
        };
        let bits = Match::shared_bits(field) & (width << field.offset());
        let of = |number: u128| (number & bits) >> field.offset();
        match field {
            Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => {
                let port = u128::from(PortNo(value as u16).to_u32());
                let mask = if mask == 0 { 0 } else { 0xffff_ffff };
                (Value::from(port & mask), Value::from(mask))
            }
            _ => (Value::from(of(value)), Value::from(of(mask))),
        }
    }

    /// Matches `field` against `value` under `mask`, replacing what the match said about it.
    ///
    /// # Errors
    /// [`TunMetadataFull`] when tunnel metadata do not fit.
    pub fn set_field(
        &mut self,
        field: Field,
        value: &Value,
        mask: &Value,
    ) -> Result<(), TunMetadataFull> {
        if let Some(index) = field.slot().tun_metadata_index() {
            let masked = !mask.is_ones(field.bytes() * 8);
            let len = match masked {
                true => value.significant_bytes().max(mask.significant_bytes()),
                false => value.significant_bytes(),
            };
            return self.set_tun_metadata(index, value, mask, len, masked);
        }
        let exact = mask.is_ones(field.bytes() * 8);
        let (value, mask) = (value.low(), mask.low());
        let slot = field.slot();
        let (old_value, old_mask) = self.get(slot);
        let bits = Match::shared_bits(field);
        let (mut new_value, mut new_mask) = (value << field.offset(), mask << field.offset());
        let mut keep = !bits;
        match field {
            Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => {
                let port = PortNo::from_u32(value as u32).unwrap_or(PortNo::NONE);
                (new_value, new_mask) = (u128::from(port.0), if mask == 0 { 0 } else { u128::MAX });
            }
            // "No VLAN" of OpenFlow 1.0.
            Field::DL_VLAN if exact && value == 0xffff => {
                self.set(slot, 0, 0xffff);
                return Ok(());
            }
            Field::DL_VLAN if mask != 0 => {
                new_value |= u128::from(VLAN_PRESENT);
                new_mask |= u128::from(VLAN_PRESENT);
            }
            Field::DL_VLAN_PCP | Field::VLAN_PCP if mask != 0 => {
                new_value |= u128::from(VLAN_PRESENT);
                new_mask |= u128::from(VLAN_PRESENT);
                keep &= !u128::from(VLAN_PRESENT);
                let set = u128::from(VLAN_PCP | VLAN_PRESENT);
                (new_value, new_mask) = (new_value & set, new_mask & set);
                return self.merge(slot, (old_value, old_mask), keep, (new_value, new_mask));
            }
            Field::IPV6_LABEL if mask & 0xf_ffff == 0xf_ffff => new_mask = 0xffff_ffff,
            _ if slot.bytes() == 2 && field.bytes() == 1 && exact => new_mask = 0xffff,
            _ => {}
        }
        self.merge(slot, (old_value, old_mask), keep, (new_value & bits, new_mask & bits))
    }

    fn merge(
        &mut self,
        slot: Slot,
        old: (u128, u128),
        keep: u128,
        new: (u128, u128),
    ) -> Result<(), TunMetadataFull> {
        self.set(slot, old.0 & keep | new.0, old.1 & keep | new.1);
        Ok(())
    }
}

impl std::fmt::Debug for Match {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.entries()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A plain map is the oracle for the packed bytes.
        #[test]
        fn packed_entries_are_a_sorted_map(
            steps in prop::collection::vec((0u8..70, any::<u128>(), any::<u128>()), 0..40),
        ) {
            let mut flow_match = Match::new();
            let mut oracle = std::collections::BTreeMap::new();
            for (code, value, mask) in steps {
                let slot = Slot::from_code(code);
                let mask = if code % 3 == 0 { 0 } else { mask };
                flow_match.set(slot, value, mask);
                let mask = mask & low_ones(slot.bytes() * 8);
                match mask {
                    0 => oracle.remove(&slot),
                    _ => oracle.insert(slot, (value & mask, mask)),
                };
            }
            let seen: Vec<_> =
                flow_match.entries().map(|e| (e.slot, (e.value.low(), e.mask.low()))).collect();
            prop_assert_eq!(seen, oracle.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn fields_read_back(place in 0u8..211, value in any::<u128>()) {
            let field = Field::from_place(place).unwrap();
            let mut flow_match = Match::new();
            let value = match field {
                Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => value % 0xff00,
                Field::IP_DSCP => value & 0xfc,
                Field::ARP_OP => value & 0xff,
                _ => value & low_ones(field.bits().min(128)),
            };
            let all = Value::ones(field.bytes() * 8);
            prop_assert!(flow_match.is_wild(field));
            flow_match.set_field(field, &Value::from(value), &all).unwrap();
            prop_assert_eq!(flow_match.field(field).0, Value::from(value), "{:?}", field);
            prop_assert!(field.is_variable() || !flow_match.is_wild(field));
        }
    }

    #[test]
    fn vlan_fields_share_a_tag() {
        let mut flow_match = Match::new();
        let exact = Value::ones(16);
        flow_match.set_field(Field::DL_VLAN, &Value::from(5), &exact).unwrap();
        assert_eq!(flow_match.get(Slot::VLAN_TCI), (0x1005, 0x1fff));
        flow_match.set_field(Field::DL_VLAN_PCP, &Value::from(3), &Value::ones(8)).unwrap();
        assert_eq!(flow_match.get(Slot::VLAN_TCI), (0x7005, 0xffff));
        flow_match.set_field(Field::DL_VLAN, &Value::from(0xffff), &exact).unwrap();
        assert_eq!(flow_match.get(Slot::VLAN_TCI), (0, 0xffff));
    }

    #[test]
    fn icmp_types_cover_the_whole_port() {
        let mut flow_match = Match::new();
        flow_match.set_field(Field::ICMPV4_TYPE, &Value::from(8), &Value::ones(8)).unwrap();
        assert_eq!(flow_match.get(Slot::TP_SRC), (8, 0xffff));
    }

    #[test]
    fn tunnel_metadata_are_limited() {
        let mut flow_match = Match::new();
        let ones = Value::ones(992);
        for index in 0..2 {
            flow_match.set_field(Field::tun_metadata(index), &ones, &ones).unwrap();
        }
        let result = flow_match.set_field(Field::tun_metadata(2), &ones, &ones);
        assert_eq!(result, Err(TunMetadataFull { needed: 372 }));
        assert_eq!(flow_match.entries().count(), 2);
        flow_match.set_field(Field::tun_metadata(1), &Value::ZERO, &ones).unwrap();
        let entry = flow_match.entry(Slot::tun_metadata(1)).unwrap();
        assert_eq!((entry.len, entry.masked), (0, false));
    }

    #[test]
    fn prerequisites() {
        let mut flow_match = Match::new();
        assert!(!flow_match.meets(Prerequisite::Ip) && flow_match.meets(Prerequisite::Ethernet));
        flow_match.set_exact(Slot::PACKET_TYPE, 0x1_86dd);
        assert!(flow_match.meets(Prerequisite::Ipv6) && !flow_match.meets(Prerequisite::Ethernet));
        flow_match.set_exact(Slot::NW_PROTO, 58);
        flow_match.set_exact(Slot::TP_SRC, 135);
        assert!(flow_match.meets(Prerequisite::NdSolicit));
        assert!(!flow_match.meets(Prerequisite::NdAdvert));
        flow_match.set(Slot::CT_STATE, 0x20, 0x30);
        assert!(flow_match.meets(Prerequisite::Ct));
        flow_match.set(Slot::CT_STATE, 0x20, 0x20);
        assert!(!flow_match.meets(Prerequisite::Ct));
    }
}
