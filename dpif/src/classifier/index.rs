//! The hash table of a subtable: from the hash of a masked key to the flows that may have it.
//!
//! Buckets are probed in order from the one that the hash names to the first that is not full.
//! The tag is the whole hash, so the table grows without reading keys. It grows a little with
//! each insertion, so that no packet waits for a large table to be copied.

use netdev::cpu;

use crate::bucket::{Bucket, NO_FLOW, SLOTS};

/// Buckets of a new table.
const FIRST_BUCKETS: usize = 4;
/// Buckets allocated per step of growth.
const ALLOCATED_PER_STEP: usize = 512;
/// Buckets moved per step of growth.
const MOVED_PER_STEP: usize = 32;

/// Stands in a table that is being left for a flow that was removed from it.
const REMOVED: u32 = u32::MAX;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Index {
    table: Table,
    growth: Growth,
    len: usize,
}

#[derive(Debug)]
enum Growth {
    None,
    /// The table with twice the buckets, as far as it is allocated.
    Allocating(Vec<Bucket>),
    /// The table that is being left, and its first bucket that was not yet moved. Moved buckets
    /// keep what was in them, because others were displaced past them.
    Moving(Table, usize),
}

/// A power of two of buckets.
#[derive(Debug)]
struct Table(Vec<Bucket>);

impl Table {
    #[inline]
    fn mask(&self) -> usize {
        self.0.len() - 1
    }

    /// The first flow with this hash that `verify` accepts.
    #[inline]
    fn find(&self, hash: u32, mut verify: impl FnMut(u32) -> bool) -> Option<u32> {
        for step in 0..self.0.len() {
            let bucket = self.0.get((hash as usize).wrapping_add(step) & self.mask())?;
            let mut matches = bucket.matches(hash);
            while matches != 0 {
                let flow = bucket.flow(matches.trailing_zeros());
                if verify(flow) {
                    return Some(flow);
                }
                matches &= matches - 1;
            }
            if !bucket.is_full() {
                return None;
            }
        }
        None
    }

    fn insert(&mut self, hash: u32, flow: u32) {
        let mask = self.mask();
        let mut at = hash as usize;
        while self.0.get_mut(at & mask).is_some_and(|bucket| !bucket.push(hash, flow)) {
            at += 1;
        }
    }

    /// Bucket and slot of a flow.
    fn position(&self, hash: u32, flow: u32) -> Option<(usize, usize)> {
        for step in 0..self.0.len() {
            let at = (hash as usize).wrapping_add(step) & self.mask();
            let bucket = self.0.get(at)?;
            let slots = bucket.tags.iter().zip(&bucket.flows);
            if let Some(slot) = slots.clone().position(|slot| slot == (&hash, &flow)) {
                return Some((at, slot));
            }
            if !bucket.is_full() {
                return None;
            }
        }
        None
    }

    fn remove(&mut self, hash: u32, flow: u32) -> bool {
        let Some((at, slot)) = self.position(hash, flow) else {
            return false;
        };
        let mask = self.mask();
        let Some(bucket) = self.0.get_mut(at) else {
            return false;
        };
        let was_full = bucket.is_full();
        bucket.remove(slot);
        if !was_full {
            return true;
        }
        // Flows displaced past this bucket would no longer be found: put them back in.
        let mut displaced = vec![];
        let mut next = at + 1;
        while let Some(bucket) = self.0.get_mut(next & mask).filter(|_| next & mask != at) {
            let was_full = bucket.is_full();
            for slot in (0..SLOTS).rev() {
                let (tag, flow) = (bucket.tags[slot], bucket.flows[slot]);
                if flow != NO_FLOW && tag as usize & mask != next & mask {
                    displaced.push((tag, flow));
                    bucket.remove(slot);
                }
            }
            if !was_full {
                break;
            }
            next += 1;
        }
        for (tag, flow) in displaced {
            self.insert(tag, flow);
        }
        true
    }
}

impl Default for Index {
    fn default() -> Self {
        Self { table: Table(vec![Bucket::EMPTY; FIRST_BUCKETS]), growth: Growth::None, len: 0 }
    }
}

impl Index {
    /// Number of flows.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Asks for the bucket of `hash` ahead of [`Self::find`].
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        if let Some(bucket) = self.table.0.get(hash as usize & self.table.mask()) {
            cpu::prefetch(bucket);
        }
    }

    /// A guess from the bucket that `hash` names alone: the flow with this hash, or [`NO_FLOW`], and
    /// in that case whether another bucket may have one. When several have the hash, the guess may
    /// be no flow of theirs.
    #[inline]
    pub(crate) fn candidate(&self, hash: u32) -> (u32, bool) {
        let Some(bucket) = self.table.0.get(hash as usize & self.table.mask()) else {
            return (NO_FLOW, false);
        };
        let flow = bucket.guess(hash);
        (flow, flow == NO_FLOW && (bucket.is_full() || self.is_moving()))
    }

    #[inline]
    fn is_moving(&self) -> bool {
        matches!(self.growth, Growth::Moving(..))
    }

    /// The first flow with this hash that `verify` accepts. `verify` also gets numbers of flows
    /// that are not, or no longer, in the table.
    #[inline]
    pub(crate) fn find(&self, hash: u32, mut verify: impl FnMut(u32) -> bool) -> Option<u32> {
        match (self.table.find(hash, &mut verify), &self.growth) {
            (None, Growth::Moving(old, _)) => old.find(hash, verify),
            (found, _) => found,
        }
    }

    /// Adds a flow.
    pub(crate) fn insert(&mut self, hash: u32, flow: u32) {
        self.grow();
        self.table.insert(hash, flow);
        self.len += 1;
    }

    /// Removes a flow; false when it is not there.
    pub(crate) fn remove(&mut self, hash: u32, flow: u32) -> bool {
        let mut removed = self.table.remove(hash, flow);
        if let Growth::Moving(old, _) = &mut self.growth
            && let Some((at, slot)) = old.position(hash, flow)
            && let Some(bucket) = old.0.get_mut(at)
        {
            // The bucket stays full, for flows displaced past it.
            bucket.flows[slot % SLOTS] = REMOVED;
            removed = true;
        }
        self.len -= usize::from(removed);
        removed
    }

    /// One step of growth, if it is due.
    fn grow(&mut self) {
        let grown = 2 * self.table.0.len();
        match &mut self.growth {
            Growth::None if 2 * self.len < self.table.0.len() * SLOTS => {}
            Growth::None => {
                self.growth = Growth::Allocating(Vec::with_capacity(grown));
                self.grow();
            }
            Growth::Allocating(fresh) => {
                let len = grown.min(fresh.len() + ALLOCATED_PER_STEP);
                fresh.resize(len, Bucket::EMPTY);
                if len == grown {
                    let fresh = Table(std::mem::take(fresh));
                    let old = std::mem::replace(&mut self.table, fresh);
                    self.growth = Growth::Moving(old, 0);
                }
            }
            Growth::Moving(old, moved) => {
                let buckets = old.0.iter().skip(*moved).take(MOVED_PER_STEP);
                for bucket in buckets {
                    for (&tag, &flow) in bucket.tags.iter().zip(&bucket.flows) {
                        if flow != NO_FLOW && flow != REMOVED {
                            self.table.insert(tag, flow);
                        }
                    }
                }
                *moved += MOVED_PER_STEP;
                if *moved >= old.0.len() {
                    self.growth = Growth::None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Hashes that collide, and some that do not.
    fn hash(flow: u32, spread: u32) -> u32 {
        flow.wrapping_mul(0x9e37_79b1) % spread
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn finds_what_a_set_holds(
            operations in prop::collection::vec((any::<bool>(), 1..600u32), 1..1500),
            spread in prop::sample::select(vec![1, 3, 40, 1000, u32::MAX]),
        ) {
            let mut index = Index::default();
            let mut model = BTreeSet::new();
            for (insert, flow) in operations {
                let hash = hash(flow, spread);
                if insert && model.insert(flow) {
                    index.insert(hash, flow);
                } else if !insert {
                    prop_assert_eq!(index.remove(hash, flow), model.remove(&flow));
                }
                prop_assert_eq!(index.len(), model.len());
            }
            for flow in (1..600).filter(|flow| model.contains(flow)) {
                let (candidate, is_elsewhere) = index.candidate(hash(flow, spread));
                prop_assert!(candidate != NO_FLOW || is_elsewhere, "{} is passed over", flow);
                let namesakes = model.iter().filter(|other| hash(**other, spread) == hash(flow, spread));
                if candidate != NO_FLOW && namesakes.count() == 1 {
                    prop_assert_eq!(candidate, flow);
                }
            }
            for flow in 1..600 {
                let found = index.find(hash(flow, spread), |other| other == flow).is_some();
                let current = found && index.table.position(hash(flow, spread), flow).is_some();
                prop_assert!(found || !model.contains(&flow), "{} is lost", flow);
                // A table that is being left may still show what was removed.
                prop_assert!(model.contains(&flow) || !current, "{} is still there", flow);
            }
        }
    }

    #[test]
    fn grows_in_small_steps() {
        let mut index = Index::default();
        for flow in 1..=100_000 {
            index.insert(hash(flow, u32::MAX), flow);
        }
        assert!(
            (1..=100_000).all(|flow| {
                index.find(hash(flow, u32::MAX), |other| other == flow) == Some(flow)
            })
        );
        let slots = index.table.0.len() * SLOTS;
        assert!((200_000..=524_288).contains(&slots), "{slots} slots");
    }
}
