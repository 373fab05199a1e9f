//! A set of prefixes, as of addresses, that tells which of them a value has and how many of its
//! bits one must know to be sure of that.

use std::collections::BTreeMap;
use std::ops::Bound;

/// The first bits of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix {
    /// Most significant first; zero behind the prefix.
    bits: [u8; 16],
    length: u8,
}

impl Prefix {
    /// The first `length` bits of `value`, whose first bit is the highest.
    fn new(value: u128, length: u8) -> Self {
        Self { bits: (value & first_ones(length)).to_be_bytes(), length }
    }

    /// Number of first bits that are the same in `value`.
    fn common_bits(&self, value: u128) -> u8 {
        let differing = (u128::from_be_bytes(self.bits) ^ value) & first_ones(self.length);
        (differing.leading_zeros() as u8).min(self.length)
    }
}

/// A number whose `length` highest bits are ones.
pub(super) fn first_ones(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// What [`Prefixes::find`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Bit `n` says that the first `n + 1` bits of the value are a prefix of the set.
    lengths: u128,
    /// First bits of the value that suffice to know that.
    pub(super) needed: u8,
}

impl Found {
    /// For a value of which nothing is known: all prefixes may be there.
    pub(super) const ANY: Self = Self { lengths: u128::MAX, needed: 0 };

    /// Whether a prefix of `length` bits was found.
    pub(super) fn has(&self, length: u8) -> bool {
        self.lengths & 1 << (length - 1) != 0
    }
}

/// See the [module](self). Each prefix is there as often as it was added.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    counts: BTreeMap<Prefix, u32>,
    /// How many prefixes have a length.
    lengths: BTreeMap<u8, u32>,
}

impl Prefixes {
    /// Adds the first `length` bits, at least one, of `value`.
    pub(super) fn add(&mut self, value: u128, length: u8) {
        *self.counts.entry(Prefix::new(value, length)).or_default() += 1;
        *self.lengths.entry(length).or_default() += 1;
    }

    /// Takes back one [`add`](Self::add).
    pub(super) fn remove(&mut self, value: u128, length: u8) {
        remove_one(&mut self.counts, &Prefix::new(value, length));
        remove_one(&mut self.lengths, &length);
    }

    /// Which prefixes of the set `value` has.
    pub(super) fn find(&self, value: u128) -> Found {
        let has = |&length: &u8| self.counts.contains_key(&Prefix::new(value, length));
        let lengths = || self.lengths.keys().copied().filter(has);
        // The prefixes next to the value in order are the ones with most bits in common. If they
        // differ from it behind its longest prefix, that bit must be known too.
        let place = Prefix { bits: value.to_be_bytes(), length: u8::MAX };
        let before = self.counts.range(..place).next_back();
        let behind = self.counts.range((Bound::Excluded(place), Bound::Unbounded)).next();
        let differing = [before, behind].into_iter().flatten().filter_map(|(prefix, _)| {
            let common = prefix.common_bits(value);
            (common < prefix.length).then_some(common + 1)
        });
        Found {
            lengths: lengths().map(|length| 1 << (length - 1)).fold(0, |all, bit: u128| all | bit),
            needed: lengths().chain(differing).max().unwrap_or(0),
        }
    }
}

fn remove_one<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = u128> {
        // Few bits, so that values have prefixes in common.
        (0u128..32, 0u128..4).prop_map(|(high, low)| high << 123 | low << 60)
    }

    proptest! {
        #[test]
        fn finds_what_a_scan_finds(
            kept in prop::collection::vec((value(), 1u8..=128), 0..12),
            removed in prop::collection::vec((value(), 1u8..=128), 0..6),
            value in value(),
        ) {
            let mut set = Prefixes::default();
            kept.iter().chain(&removed).for_each(|&(value, length)| set.add(value, length));
            removed.iter().for_each(|&(value, length)| set.remove(value, length));
            prop_assert_eq!(set.lengths.values().sum::<u32>() as usize, kept.len());
            let found = set.find(value);
            for length in 1..=128 {
                let is_there = kept.iter().any(|&(kept, kept_length)| {
                    kept_length == length && Prefix::new(kept, length) == Prefix::new(value, length)
                });
                prop_assert_eq!(found.has(length), is_there);
            }
            // The bits suffice, and fewer would not.
            let same = |bits: u8| kept.iter().filter(move |&&(kept, length)| {
                (kept ^ value) & first_ones(length.min(bits)) == 0
            });
            let longest = |bits| same(bits).map(|&(_, length)| length).max().unwrap_or(0);
            prop_assert!(longest(found.needed) <= found.needed);
            if found.needed > 0 {
                prop_assert!(longest(found.needed - 1) > found.needed - 1);
            }
        }
    }
}
