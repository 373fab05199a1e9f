//! Masks and masked values, of which only the words with bits are stored.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use zerocopy::{transmute_mut, transmute_ref};

use super::hash;
use super::stage::STAGE_BITS;
use crate::flow::{FLOW_WORDS, Flow};

/// Words of 32 bits of a flow: fewer bits are stored in vain than with words of 64.
pub(super) const WORDS: usize = 2 * FLOW_WORDS;
/// A byte is the index of a word.
const _: () = assert!(WORDS <= 1 << u8::BITS);

fn words(flow: &Flow) -> &[u32; WORDS] {
    transmute_ref!(flow.words())
}

fn words_mut(flow: &mut Flow) -> &mut [u32; WORDS] {
    transmute_mut!(flow.words_mut())
}

/// The bits of one word of a flow that a mask has in one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MaskWord {
    pub(super) bits: u32,
    /// Index of the word.
    pub(super) word: u8,
    pub(super) stage: u8,
}

/// A mask: its words with bits, in the order of stages.
#[derive(Debug, PartialEq, Eq)]
pub struct Mask {
    words: Box<[MaskWord]>,
    hash: u64,
}

impl Hash for Mask {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Mask {
    /// The mask that has the bits of `flow`.
    pub fn new(flow: &Flow) -> Self {
        let mut words = Vec::new();
        for (index, pair) in flow.words().iter().enumerate() {
            // Almost all are zero.
            if *pair != 0 {
                let [first, second]: &[u32; 2] = transmute_ref!(pair);
                let place = 2 * index as u8;
                words.extend(of_stages(place, *first).chain(of_stages(place + 1, *second)));
            }
        }
        words.sort_unstable_by_key(|word| (word.stage, word.word));
        let hash = words.iter().fold(hash::Hash::unkeyed(), |hash, word| {
            hash.with(word.bits).with(u32::from_be_bytes([0, 0, word.word, word.stage]))
        });
        Self { words: words.into(), hash: hash.get() }
    }

    /// The words of each stage that has any.
    pub(super) fn stages(&self) -> impl Iterator<Item = &[MaskWord]> {
        self.words.chunk_by(|a, b| a.stage == b.stage)
    }

    /// The bits of `flow` under the mask.
    pub(super) fn values(&self, flow: &Flow) -> Box<[u32]> {
        self.masked(flow).collect()
    }

    fn masked(&self, flow: &Flow) -> impl Iterator<Item = u32> {
        self.words.iter().map(|word| word.of(flow))
    }

    /// Whether the bits of `flow` under the mask are `values`.
    pub(super) fn matches(&self, values: &[u32], flow: &Flow) -> bool {
        self.masked(flow).eq(values.iter().copied())
    }

    /// Adds the bits of the mask to `flow`, which is a mask.
    pub(super) fn add_to(&self, flow: &mut Flow) {
        self.words.iter().for_each(|word| word.add_to(flow));
    }

    /// Adds the bits of the first `count` words of the mask to `flow`, which is a mask.
    pub(super) fn add_words_to(&self, count: usize, flow: &mut Flow) {
        self.words.iter().take(count).for_each(|word| word.add_to(flow));
    }

    /// A flow that has `values` under the mask, zeros elsewhere.
    pub(super) fn flow_of(&self, values: &[u32]) -> Flow {
        let mut flow = Flow::default();
        for (word, value) in self.words.iter().zip(values) {
            MaskWord { bits: *value, ..*word }.add_to(&mut flow);
        }
        flow
    }

    /// Whether the mask has all bits of `other`.
    pub(super) fn contains(&self, other: &Mask) -> bool {
        let has = |word: &MaskWord| word.bits & !self.bits(word) == 0;
        other.words.iter().all(has)
    }

    /// The bits at the place of `word`.
    fn bits(&self, word: &MaskWord) -> u32 {
        self.position(word).and_then(|at| self.words.get(at)).map_or(0, |word| word.bits)
    }

    fn position(&self, word: &MaskWord) -> Option<usize> {
        let place = |word: &MaskWord| (word.stage, word.word);
        self.words.binary_search_by_key(&place(word), place).ok()
    }
}

/// A word of a mask, for each stage of which it has bits.
fn of_stages(word: u8, bits: u32) -> impl Iterator<Item = MaskWord> {
    (0u8..).zip(STAGE_BITS.iter()).filter_map(move |(stage, stage_bits)| {
        let bits = bits & words(stage_bits).get(usize::from(word))?;
        (bits != 0).then_some(MaskWord { bits, word, stage })
    })
}

impl MaskWord {
    /// The bits of `flow` under the mask.
    pub(super) fn of(&self, flow: &Flow) -> u32 {
        words(flow).get(usize::from(self.word)).copied().unwrap_or(0) & self.bits
    }

    /// Adds its bits to a mask.
    pub(super) fn add_to(&self, flow: &mut Flow) {
        if let Some(word) = words_mut(flow).get_mut(usize::from(self.word)) {
            *word |= self.bits;
        }
    }
}

/// What a rule matches: a mask, which rules share, and the values under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedKey {
    pub(super) mask: Arc<Mask>,
    /// One for each word of the mask.
    pub(super) values: Box<[u32]>,
}

impl MaskedKey {
    /// The key for packets that are like `value` under `mask`.
    pub fn new(value: &Flow, mask: Arc<Mask>) -> Self {
        Self { values: mask.values(value), mask }
    }

    /// Whether every packet that has this key has the key `other`, too.
    pub fn is_within(&self, other: &MaskedKey) -> bool {
        self.mask.contains(&other.mask) && self.agrees(other)
    }

    /// Whether a packet can have both keys.
    pub fn agrees(&self, other: &MaskedKey) -> bool {
        let words = other.mask.words.iter().zip(&other.values);
        words.into_iter().all(|(word, value)| {
            let Some(at) = self.mask.position(word) else { return true };
            let own = self.mask.words.get(at).zip(self.values.get(at));
            own.is_none_or(|(own, own_value)| (own_value ^ value) & own.bits & word.bits == 0)
        })
    }

    /// Whether a packet has the key.
    pub fn matches(&self, flow: &Flow) -> bool {
        self.mask.matches(&self.values, flow)
    }

    /// Whether every packet has the key.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::field::Field;

    fn key(fields: &[(Field, u128, u128)]) -> MaskedKey {
        let (mut value, mut mask) = (Flow::default(), Flow::default());
        for &(field, bits, field_mask) in fields {
            value.set_field(field, bits, field_mask);
            mask.set_field(field, field_mask, field_mask);
        }
        MaskedKey::new(&value, Arc::new(Mask::new(&mask)))
    }

    #[test]
    fn narrower_keys_are_within_wider_ones() {
        let wide = key(&[(Field::IPV4_DST, 0x0a00_0000, 0xff00_0000)]);
        let narrow = key(&[(Field::IPV4_DST, 0x0a01_0000, 0xffff_0000), (Field::reg(3), 7, !0)]);
        let other = key(&[(Field::IPV4_DST, 0x0b01_0000, 0xffff_0000)]);
        let all = key(&[]);
        assert!(narrow.is_within(&wide) && !wide.is_within(&narrow));
        assert!(!other.is_within(&wide) && other.is_within(&all) && all.is_empty());
        assert!(narrow.agrees(&wide) && wide.agrees(&narrow) && !other.agrees(&wide));
        assert!(key(&[(Field::reg(2), 1, !0)]).agrees(&other));
    }

    #[test]
    fn words_are_stored_by_stage() {
        let key = key(&[
            (Field::TCP_DST, 80, !0),
            (Field::IPV4_SRC, 1, !0),
            (Field::ETH_TYPE, 0x800, !0),
            (Field::METADATA, 9, !0),
        ]);
        let stages = key.mask.stages().map(|words| words[0].stage);
        assert_eq!(stages.collect::<Vec<_>>(), [0, 1, 2, 3]);
    }
}
