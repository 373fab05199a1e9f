//! Hashes of keys, stage by stage.

use std::hash::{BuildHasher, RandomState};

/// An odd constant without structure: digits of pi in hexadecimal, the last bit set.
const SECRET: u64 = 0x243f_6a88_85a3_08d3;

/// The hash of the words so far. It starts from a number that nobody outside knows, so that
/// nobody can make packets whose hashes are the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(u64);

impl Hash {
    /// A start.
    pub(super) fn new() -> Self {
        Self(RandomState::new().hash_one(SECRET))
    }

    /// The start for what nobody would gain by making alike, and is compared in any case.
    pub(super) fn unkeyed() -> Self {
        Self(SECRET)
    }

    /// With another word.
    pub(super) fn with(self, word: u32) -> Self {
        let product = u128::from(self.0 ^ u64::from(word)) * u128::from(self.0 | SECRET);
        Self(product as u64 ^ (product >> 64) as u64)
    }

    /// With more words.
    pub(super) fn with_all(self, words: &[u32]) -> Self {
        words.iter().fold(self, |hash, word| hash.with(*word))
    }

    /// As a number.
    pub(super) fn get(self) -> u64 {
        self.0
    }
}
