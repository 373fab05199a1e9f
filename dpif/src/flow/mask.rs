//! Masks: which bits of a key matter.

use super::field::Field;
use super::hash::Hasher;
use super::key::{FlowKey, LINE_WORDS, LineSet};

/// A mask over flow keys: a 1 bit matters. Loops over keys skip the lines in which no bit does.
#[derive(Debug, Clone, Eq)]
pub struct FlowMask {
    bits: FlowKey,
    lines: LineSet,
}

impl PartialEq for FlowMask {
    fn eq(&self, other: &Self) -> bool {
        let (own, others) = (self.bits.lines(), other.bits.lines());
        self.lines == other.lines && self.lines.indices().all(|line| own[line] == others[line])
    }
}

impl Default for FlowMask {
    /// The mask that lets every key match.
    fn default() -> Self {
        Self::new(FlowKey::default())
    }
}

impl FlowMask {
    /// A mask of these bits.
    pub fn new(bits: FlowKey) -> Self {
        let lines = LineSet::used_by(&bits);
        Self { bits, lines }
    }

    /// The mask with every bit of each field that packets with this key have.
    pub fn exact_for(key: &FlowKey) -> Self {
        let mut bits = FlowKey::default();
        for field in Field::ALL.iter().filter(|field| field.prerequisite().holds(key)) {
            bits.set(*field, field.bits());
        }
        if key.tunnel.is_set() {
            bits.tunnel.options_length = u8::MAX;
            let used = key.tunnel.used_options().len();
            bits.tunnel.options.iter_mut().take(used).for_each(|byte| *byte = u8::MAX);
        }
        Self::new(bits)
    }

    /// The bits.
    pub fn bits(&self) -> &FlowKey {
        &self.bits
    }

    /// The lines in which a bit matters.
    pub fn lines(&self) -> LineSet {
        self.lines
    }

    /// Whether every bit that matters to `other` matters to this mask too.
    pub fn covers(&self, other: &Self) -> bool {
        let lines = self.bits.lines().iter().zip(other.bits.lines());
        lines.flat_map(|(own, other)| own.iter().zip(other)).all(|(own, other)| other & !own == 0)
    }

    /// `key` without the bits that do not matter.
    pub fn masked(&self, key: &FlowKey) -> FlowKey {
        let mut masked = FlowKey::default();
        let lines = masked.lines_mut().iter_mut().zip(key.lines()).zip(self.bits.lines());
        for ((masked, key), mask) in lines {
            for word in 0..LINE_WORDS {
                masked[word] = key[word] & mask[word];
            }
        }
        masked
    }

    /// Whether `key` equals `masked`, an already masked key, in every bit that matters.
    #[inline]
    pub fn matches(&self, key: &FlowKey, masked: &FlowKey) -> bool {
        let (key, bits, masked) = (key.lines(), self.bits.lines(), masked.lines());
        self.lines.indices().all(|line| {
            let (key, bits, masked) = (&key[line], &bits[line], &masked[line]);
            let mut differences = 0;
            for word in 0..LINE_WORDS {
                differences |= key[word] & bits[word] ^ masked[word];
            }
            differences == 0
        })
    }

    /// Hash of the bits of `key` that matter. Every user of a table needs the same `seed`.
    #[inline]
    pub fn hash(&self, key: &FlowKey, seed: u64) -> u32 {
        let (key, bits) = (key.lines(), self.bits.lines());
        let mut hasher = Hasher::new(seed);
        if self.lines == LineSet::FIRST {
            // Nearly all do, and need no loop.
            hasher.add(0, &std::array::from_fn(|word| key[0][word] & bits[0][word]));
            return hasher.finish();
        }
        for line in self.lines.indices() {
            let mut masked = key[line];
            for word in 0..LINE_WORDS {
                masked[word] &= bits[line][word];
            }
            hasher.add(line, &masked);
        }
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use zerocopy::{FromBytes, IntoBytes};

    use super::*;

    /// Keys and masks with few bits set, so that they meet.
    fn sparse() -> impl Strategy<Value = FlowKey> {
        vec((0..size_of::<FlowKey>(), any::<u8>()), 0..6).prop_map(|bytes| {
            let mut key = [0; size_of::<FlowKey>()];
            for (at, byte) in bytes {
                key[at] = byte;
            }
            FlowKey::read_from_bytes(&key).unwrap()
        })
    }

    proptest! {
        #[test]
        fn masks_compares_and_hashes_as_bytes_do(
            mask in sparse(), one in sparse(), two in sparse(), seed in any::<u64>(),
        ) {
            let and = |key: &FlowKey| -> Vec<u8> {
                key.as_bytes().iter().zip(mask.as_bytes()).map(|(a, b)| a & b).collect()
            };
            let mask = FlowMask::new(mask.clone());
            let masked = mask.masked(&two);
            prop_assert_eq!(masked.as_bytes(), and(&two));
            let other = FlowMask::new(one.clone());
            prop_assert_eq!(mask == other, mask.bits().as_bytes() == one.as_bytes());
            let equal = and(&one) == and(&two);
            prop_assert_eq!(mask.matches(&one, &masked), equal);
            prop_assert!(mask.matches(&two, &masked));
            prop_assert_eq!(mask.hash(&two, seed), mask.hash(&masked, seed));
            if equal {
                prop_assert_eq!(mask.hash(&one, seed), mask.hash(&two, seed));
            } else {
                // True for all but one of 2^32 pairs.
                prop_assert_ne!(mask.hash(&one, seed), mask.hash(&two, seed));
            }
        }
    }

    #[test]
    fn hashes_of_neighbouring_flows_differ() {
        let mut bits = FlowKey::default();
        for field in [Field::Ipv4Src, Field::Ipv4Dst, Field::TpSrc, Field::TpDst, Field::CtMark] {
            bits.set(field, u128::MAX);
        }
        let mask = FlowMask::new(bits);
        let mut hashes = HashSet::new();
        let mut keys = 0;
        for source in 0..64 {
            for port in 0..64 {
                for mark in 0..16 {
                    let mut key = FlowKey::default();
                    key.set(Field::Ipv4Src, 0x0a00_0000 + source);
                    key.set(Field::Ipv4Dst, 0x0a00_0000 + port);
                    key.set(Field::TpSrc, port << 8);
                    key.set(Field::TpDst, source);
                    key.set(Field::CtMark, mark);
                    hashes.insert(mask.hash(&key, 1));
                    keys += 1;
                }
            }
        }
        // Of 65,536 random numbers of 32 bits about half a pair is equal.
        assert!(hashes.len() >= keys - 4, "{} hashes of {keys} keys", hashes.len());
    }

    #[test]
    fn the_exact_mask_has_the_fields_of_the_packet() {
        use Field::*;
        let mut key = FlowKey::default();
        key.set(EthType, 0x0806);
        let mask = FlowMask::exact_for(&key);
        let set: Vec<_> =
            Field::ALL.iter().filter(|field| mask.bits().get(**field) != 0).copied().collect();
        assert_eq!(
            set,
            [
                RecircId,
                DpHash,
                SkbPriority,
                InPort,
                SkbMark,
                CtState,
                CtZone,
                CtMark,
                CtLabel,
                PacketNamespace,
                PacketType,
                EthSrc,
                EthDst,
                VlanTci,
                VlanTpid,
                EthType,
                Ipv4Src,
                Ipv4Dst,
                IpProto,
                ArpSha,
                ArpTha,
            ]
        );
    }
}
