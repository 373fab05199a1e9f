//! A set of hashes that knows how often each is there.

use hashbrown::HashTable;

/// See the [module](self). It has only 32 bits of each hash, so that a hash may seem to be there
/// that is not; that costs time only.
#[derive(Debug, Default)]
pub(super) struct Index(HashTable<(u32, u32)>);

/// Spreads a short hash over all bits, of which tables use the highest, too.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Index {
    pub(super) fn add(&mut self, hash: u64) {
        let hash = hash as u32;
        let same = |&(other, _): &(u32, u32)| other == hash;
        let entry = self.0.entry(spread(hash), same, |&(other, _)| spread(other));
        entry.or_insert((hash, 0)).get_mut().1 += 1;
    }

    /// Takes back one [`add`](Self::add).
    pub(super) fn remove(&mut self, hash: u64) {
        let hash = hash as u32;
        let Ok(mut entry) = self.0.find_entry(spread(hash), |&(other, _)| other == hash) else {
            return;
        };
        entry.get_mut().1 -= 1;
        if entry.get().1 == 0 {
            entry.remove();
        }
    }

    pub(super) fn has(&self, hash: u64) -> bool {
        let hash = hash as u32;
        self.0.find(spread(hash), |&(other, _)| other == hash).is_some()
    }
}
