//! Where the rules of a table are, by the hash of their keys: an open-addressed table.

use super::table::Place;
use crate::cpu;

/// Entries of the smallest index.
const SMALLEST: usize = 64;

/// A rule's place under the hash of its key.
#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u64,
    place: Place,
}

const FREE: Entry = Entry { hash: 0, place: Place::NONE };

/// See the [module](self).
///
/// The highest bits of a hash say where its entry belongs, so that a larger index has the entries
/// in the same order, and growth reads and writes memory from one end to the other. An entry lies
/// where it belongs or in the places behind, with no free one between.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// None, or a power of two of them.
    entries: Vec<Entry>,
    used: usize,
}

impl Index {
    /// How many places it holds.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Where an entry with this hash belongs.
    fn home(&self, hash: u64) -> usize {
        let bits = self.entries.len().trailing_zeros();
        hash.checked_shr(u64::BITS - bits).unwrap_or(0) as usize
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & self.entries.len().wrapping_sub(1)
    }

    /// Asks for the entries of a hash ahead of their use.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(entry) = self.entries.get(self.home(hash)) {
            cpu::prefetch(entry);
        }
    }

    /// The number of the entry with this hash that `is_meant`, or that of the free one where it
    /// would be.
    #[inline]
    fn seek(&self, hash: u64, is_meant: impl Fn(Place) -> bool) -> usize {
        let mut at = self.home(hash);
        while let Some(entry) = self.entries.get(at)
            && entry.place != Place::NONE
            && !(entry.hash == hash && is_meant(entry.place))
        {
            at = self.next(at);
        }
        at
    }

    fn place(&self, at: usize) -> Option<Place> {
        self.entries.get(at).map(|entry| entry.place).filter(|place| *place != Place::NONE)
    }

    /// The place with this hash that `is_meant`.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_meant: impl Fn(Place) -> bool) -> Option<Place> {
        self.place(self.seek(hash, is_meant))
    }

    /// Adds a place, unless one with this hash `is_meant` already; says whether it did.
    #[inline]
    pub(super) fn insert(
        &mut self,
        hash: u64,
        place: Place,
        is_meant: impl Fn(Place) -> bool,
    ) -> bool {
        // Three quarters full is where runs of entries become long.
        if self.used >= self.entries.len() / 4 * 3 {
            self.grow();
        }
        let at = self.seek(hash, is_meant);
        match self.entries.get_mut(at) {
            Some(entry) if entry.place == Place::NONE => *entry = Entry { hash, place },
            _ => return false,
        }
        self.used += 1;
        true
    }

    fn grow(&mut self) {
        let size = (self.entries.len() * 2).max(SMALLEST);
        let old = std::mem::replace(&mut self.entries, vec![FREE; size]);
        for entry in old.into_iter().filter(|entry| entry.place != Place::NONE) {
            let at = self.seek(entry.hash, |_| false);
            if let Some(place) = self.entries.get_mut(at) {
                *place = entry;
            }
        }
    }

    /// Takes out a place with its hash.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, place: Place) {
        let mut hole = self.seek(hash, |other| other == place);
        if self.place(hole).is_none() {
            return;
        }
        self.used -= 1;
        let last = self.entries.len().wrapping_sub(1);
        let mut at = self.next(hole);
        // Entries behind that would not be found past the hole move up.
        while let Some(entry) = self.entries.get(at).copied()
            && entry.place != Place::NONE
        {
            let from_home = at.wrapping_sub(self.home(entry.hash)) & last;
            if from_home >= at.wrapping_sub(hole) & last {
                if let Some(free) = self.entries.get_mut(hole) {
                    *free = entry;
                }
                hole = at;
            }
            at = self.next(at);
        }
        if let Some(free) = self.entries.get_mut(hole) {
            *free = FREE;
        }
    }

    /// Takes out everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes and goes, the index has what a map has. Few hashes make long runs, at
        /// the end of the entries too.
        #[test]
        fn an_index_equals_a_map(steps in prop::collection::vec((any::<bool>(), 0..200u32), 1..600)) {
            let (mut index, mut map) = (Index::default(), BTreeMap::new());
            let hash = |key: u32| u64::from(key % 7).wrapping_neg() << 57 | u64::from(key % 50);
            for (is_insert, key) in steps {
                let place = Place { queue: 1, slot: key };
                if is_insert {
                    let is_new = map.insert(key, place).is_none();
                    prop_assert_eq!(index.insert(hash(key), place, |other| other == place), is_new);
                } else {
                    map.remove(&key);
                    index.remove(hash(key), place);
                }
                prop_assert_eq!(index.len(), map.len());
            }
            for key in 0..200 {
                let found = index.find(hash(key), |other| other.slot == key);
                prop_assert_eq!(found, map.get(&key).copied());
            }
            index.clear();
            prop_assert_eq!((index.len(), index.find(hash(1), |_| true)), (0, None));
        }
    }
}
