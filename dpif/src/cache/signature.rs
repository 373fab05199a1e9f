//! The signature cache: from the hash of a packet to the flow that took the last such packet.
//!
//! A hit is a guess, which the caller checks against the flow itself. So an entry may be stale:
//! it is right, or it is a miss.
//!
//! One table serves what operators know as two caches. An entry is marked when the exact-match
//! cache would have taken it (`emc-insert-inv-prob`); whether others count as hits of the
//! signature cache is up to the caller (`smc-enable`).

use netdev::cpu;

use crate::bucket::{Bucket, NO_FLOW, SLOTS};

/// Buckets of a new table: 16,384 slots.
const FIRST_BUCKETS: usize = 2048;
/// Buckets of the largest table: 2 million slots, 16 MiB.
const MAX_BUCKETS: usize = 1 << 18;
/// Buckets allocated per [`SignatureCache::grow`].
const ALLOCATED_PER_STEP: usize = 1024;
/// Look-ups after which evictions are weighed.
const WEIGHED_LOOKUPS: u32 = 1 << 16;
/// Doubling is due when one look-up in this many evicts an entry.
const LOOKUPS_PER_EVICTION: u32 = 64;

/// Marks an entry of the exact-match cache. Flow numbers stay below.
const EXACT: u32 = 1 << 31;

/// A guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u32);

impl Entry {
    /// The flow; 0 when there is no guess.
    #[inline]
    pub(crate) fn flow(self) -> u32 {
        self.0 & !EXACT
    }

    /// Whether the exact-match cache would have it.
    #[inline]
    pub(crate) fn is_exact(self) -> bool {
        self.0 & EXACT != 0
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct SignatureCache {
    buckets: Vec<Bucket>,
    /// The next, larger table while it is being allocated.
    fresh: Vec<Bucket>,
    is_growing: bool,
    lookups: u32,
    evictions: u32,
    victim: usize,
}

impl SignatureCache {
    pub(crate) fn new() -> Self {
        Self {
            buckets: vec![Bucket::EMPTY; FIRST_BUCKETS],
            fresh: vec![],
            is_growing: false,
            lookups: 0,
            evictions: 0,
            victim: 0,
        }
    }

    #[inline]
    fn at(&self, hash: u32) -> usize {
        // Flows beyond the table are told apart by tags, which hold the whole hash.
        hash as usize & (self.buckets.len() - 1)
    }

    /// Asks for the bucket of `hash` ahead of [`Self::find`].
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        if let Some(bucket) = self.buckets.get(self.at(hash)) {
            cpu::prefetch(bucket);
        }
    }

    /// The guess for `hash`.
    #[inline]
    pub(crate) fn find(&self, hash: u32) -> Entry {
        let Some(bucket) = self.buckets.get(self.at(hash)) else {
            return Entry(NO_FLOW);
        };
        // No two slots have the same tag.
        Entry(bucket.guess(hash))
    }

    /// Notes look-ups made, and doubles the table when too many of them evict others. Called once
    /// per batch.
    pub(crate) fn weigh(&mut self, lookups: u32) {
        if self.is_growing {
            self.grow();
            return;
        }
        self.lookups += lookups;
        if self.lookups < WEIGHED_LOOKUPS {
            return;
        }
        let is_crowded = self.evictions > self.lookups / LOOKUPS_PER_EVICTION;
        if is_crowded && self.buckets.len() < MAX_BUCKETS {
            self.fresh.reserve_exact(2 * self.buckets.len());
            self.is_growing = true;
        }
        (self.lookups, self.evictions) = (0, 0);
    }

    /// Allocates a bit of the larger table, so that no batch waits for all of it, and starts using
    /// it, empty, when it is complete.
    fn grow(&mut self) {
        let grown = 2 * self.buckets.len();
        let len = grown.min(self.fresh.len() + ALLOCATED_PER_STEP);
        self.fresh.resize(len, Bucket::EMPTY);
        if len == grown {
            self.buckets = std::mem::take(&mut self.fresh);
            self.is_growing = false;
        }
    }

    /// Remembers `flow` for `hash`; `exact` marks it.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, flow: u32, exact: bool) {
        let at = self.at(hash);
        let Some(bucket) = self.buckets.get_mut(at) else {
            return;
        };
        let entry = if exact { flow | EXACT } else { flow };
        let matches = bucket.matches(hash);
        let slot = matches.trailing_zeros() as usize;
        if matches != 0 && bucket.flow(slot as u32) != NO_FLOW {
            bucket.flows[slot % SLOTS] = entry;
        } else if !bucket.push(hash, entry) {
            self.evictions += 1;
            self.victim = self.victim.wrapping_add(1);
            bucket.tags[self.victim % SLOTS] = hash;
            bucket.flows[self.victim % SLOTS] = entry;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_guess_is_the_last_flow_of_the_hash_or_none(
            entries in prop::collection::vec((any::<u32>(), 1..1000u32, any::<bool>()), 1..500),
            crowd in 0..32u32,
        ) {
            let mut cache = SignatureCache::new();
            let mut model = HashMap::new();
            for (hash, flow, exact) in entries {
                // Without low bits all hashes share a few buckets.
                let hash = hash & (u32::MAX << crowd);
                cache.insert(hash, flow, exact);
                model.insert(hash, (flow, exact));
                let entry = cache.find(hash);
                prop_assert_eq!((entry.flow(), entry.is_exact()), (flow, exact));
            }
            for (hash, expected) in model {
                let entry = cache.find(hash);
                if entry.flow() != NO_FLOW {
                    prop_assert_eq!((entry.flow(), entry.is_exact()), expected);
                }
            }
        }
    }

    #[test]
    fn grows_until_evictions_are_rare() {
        let mut cache = SignatureCache::new();
        let hash = |flow: u32| flow.wrapping_mul(0x9e37_79b1);
        for _ in 0..40 {
            for flow in 1..=100_000 {
                if cache.find(hash(flow)).flow() != flow {
                    cache.insert(hash(flow), flow, false);
                }
                if flow % 32 == 0 {
                    cache.weigh(32);
                }
            }
        }
        let found = (1..=100_000).filter(|&flow| cache.find(hash(flow)).flow() == flow).count();
        assert!(found > 98_000, "{found}");
        assert!(cache.buckets.len() <= MAX_BUCKETS);
    }
}
