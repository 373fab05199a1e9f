//! Prefix tracking: which prefixes of a field the rules of a classifier match, so that a lookup
//! can pass over subtables and need not look at all bits that they match.

use netdev::wire::ethernet::ether_type;
use zerocopy::IntoBytes;

use super::mask::MaskWord;
use super::prefixes::{Found, Prefixes, first_ones};
use super::stage::STAGE_BITS;
use crate::flow::Flow;
use crate::openflow::field::{Field, Prerequisite};

/// Most fields whose prefixes a classifier tracks.
pub const MAX_PREFIX_FIELDS: usize = 4;

/// The fields of which prefixes may be tracked.
const FIELDS: [Field; 13] = [
    Field::TUN_ID,
    Field::TUN_SRC,
    Field::TUN_DST,
    Field::TUN_IPV6_SRC,
    Field::TUN_IPV6_DST,
    Field::CT_NW_SRC,
    Field::CT_NW_DST,
    Field::CT_IPV6_SRC,
    Field::CT_IPV6_DST,
    Field::IPV4_SRC,
    Field::IPV4_DST,
    Field::IPV6_SRC,
    Field::IPV6_DST,
];

/// Whether prefixes of a field can be tracked.
pub fn has_prefixes(field: Field) -> bool {
    FIELDS.contains(&field)
}

/// Bits of the connection state of which a packet of a valid connection has one.
const CT_VALID: u8 = 0x01 | 0x02 | 0x08;

/// Whether a packet has one of [`FIELDS`].
fn has_field(flow: &Flow, field: Field) -> bool {
    match field.prerequisite() {
        Prerequisite::Ipv4 => flow.packet.eth_type.get() == ether_type::IPV4,
        Prerequisite::Ipv6 => flow.packet.eth_type.get() == ether_type::IPV6,
        Prerequisite::Ct => flow.packet.ct_state & CT_VALID != 0,
        _ => true,
    }
}

/// The prefixes of one field.
#[derive(Debug)]
pub(super) struct Trie {
    pub(super) field: Field,
    bytes: std::ops::Range<usize>,
    stage: u8,
    pub(super) prefixes: Prefixes,
}

impl Trie {
    /// Without prefixes; `None` when prefixes of the field cannot be tracked.
    pub(super) fn new(field: Field) -> Option<Self> {
        let bytes = Flow::field_bytes(field).filter(|_| has_prefixes(field))?;
        let stage = (0..)
            .zip(STAGE_BITS.iter())
            .find(|(_, bits)| bits.as_bytes().get(bytes.start).is_some_and(|byte| *byte != 0))?;
        Some(Self { field, bytes, stage: stage.0, prefixes: Prefixes::default() })
    }

    /// The field of a flow, its first bit highest.
    pub(super) fn value(&self, flow: &Flow) -> u128 {
        let mut value = [0; 16];
        let bytes = flow.as_bytes().get(self.bytes.clone()).unwrap_or(&[]);
        value.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        u128::from_be_bytes(value)
    }

    /// Number of bits if `mask` has a prefix of the field, else 0.
    pub(super) fn prefix_length(&self, mask: &Flow) -> u8 {
        let bits = self.value(mask);
        let length = bits.leading_ones() as u8;
        if bits == first_ones(length) { length } else { 0 }
    }

    /// Adds the first bits of the field to `mask`.
    fn add_bits(&self, mask: &mut Flow, length: u8) {
        let bytes = mask.as_mut_bytes().get_mut(self.bytes.clone()).unwrap_or(&mut []);
        for (byte, bits) in bytes.iter_mut().zip(first_ones(length).to_be_bytes()) {
            *byte |= bits;
        }
    }
}

/// What the tries say of the packet of one lookup, found out when it is first needed.
pub(super) struct Answers<'a> {
    tries: &'a [Trie],
    found: [Option<Found>; MAX_PREFIX_FIELDS],
}

impl<'a> Answers<'a> {
    pub(super) fn new(tries: &'a [Trie]) -> Self {
        Self { tries, found: [None; MAX_PREFIX_FIELDS] }
    }

    /// Whether no rule of a subtable with prefixes of these lengths can take the packet, and that
    /// can be told by bits that the subtable would look at in this stage anyway. They are then
    /// noted in `read`.
    pub(super) fn exclude(
        &mut self,
        lengths: &[u8; MAX_PREFIX_FIELDS],
        stage: &[MaskWord],
        flow: &Flow,
        read: &mut Flow,
    ) -> bool {
        let Some(stage) = stage.first().map(|word| word.stage) else { return false };
        let tries = self.tries.iter().zip(&mut self.found).zip(lengths);
        for ((trie, found), &length) in tries.filter(|(_, length)| **length != 0) {
            if trie.stage != stage {
                continue;
            }
            let found = *found.get_or_insert_with(|| match has_field(flow, trie.field) {
                true => trie.prefixes.find(trie.value(flow)),
                false => Found::ANY,
            });
            if found.has(length) {
                continue;
            }
            if found.needed <= length {
                trie.add_bits(read, found.needed);
                return true;
            }
            let needed = first_ones(found.needed);
            if trie.value(read) & needed == needed {
                return true;
            }
        }
        false
    }
}
