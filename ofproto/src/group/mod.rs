//! Groups: sets of actions of which a rule executes all, one or the first that is alive.

mod change;
mod select;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use netdev::clock;

use crate::openflow::message::{Bucket, GroupType, SelectionMethod};

pub use change::GroupChange;
pub use select::{DpHash, Select};

/// Version of the tables up to which a group that is not removed is there.
const NEVER: u64 = u64::MAX;

/// A bucket with its counters.
#[derive(Debug)]
pub struct GroupBucket {
    /// What it is.
    pub bucket: Bucket,
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl GroupBucket {
    /// A bucket that met no packet.
    pub fn new(bucket: Bucket) -> Self {
        Self { bucket, packets: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Counts packets.
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// A group. One that is modified is replaced by another.
#[derive(Debug)]
pub struct Group {
    /// Its number.
    pub id: u32,
    /// What it does.
    pub group_type: GroupType,
    /// Its buckets.
    pub buckets: Vec<Arc<GroupBucket>>,
    /// How it was asked to choose, if it is a select group.
    pub selection: SelectionMethod,
    /// How it chooses, if it is a select group.
    pub select: Select,
    /// When it was added, by the switch's clock.
    pub created: Duration,
    packets: AtomicU64,
    bytes: AtomicU64,
    /// The first version of the tables that has a group of this number.
    id_since: u64,
    /// The first version that has it.
    added_in: u64,
    /// The first version that does not have it any more.
    removed_in: AtomicU64,
}

impl Group {
    /// A group without packets, in all versions of the tables from `added_in` on.
    pub fn new(
        id: u32,
        group_type: GroupType,
        buckets: Vec<Bucket>,
        selection: SelectionMethod,
        added_in: u64,
    ) -> Self {
        let buckets = buckets.into_iter().map(|bucket| Arc::new(GroupBucket::new(bucket)));
        let buckets: Vec<_> = buckets.collect();
        Self {
            id,
            group_type,
            select: Select::constructed(id, group_type, &buckets, &selection),
            buckets,
            selection,
            created: clock::now(),
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            id_since: added_in,
            added_in,
            removed_in: AtomicU64::new(NEVER),
        }
    }

    /// Counts packets.
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Packets and bytes.
    pub fn counts(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Whether the group is in `version` of the tables.
    fn is_in(&self, version: u64) -> bool {
        self.added_in <= version && version < self.removed_in.load(Ordering::Acquire)
    }

    fn is_removed(&self) -> bool {
        self.removed_in.load(Ordering::Acquire) != NEVER
    }
}

/// The groups of a switch. The control thread changes them, translation reads them.
///
/// A change is begun for a version of the flow tables that is not published yet, so that groups
/// and rules change at once; then it is finished or reverted.
#[derive(Debug, Default)]
pub struct Groups {
    /// By number, a group and those that replace it in later versions.
    groups: RwLock<BTreeMap<u32, Vec<Arc<Group>>>>,
}

impl Groups {
    /// The group `id` as it is after all changes that were begun.
    pub fn get(&self, id: u32) -> Option<Arc<Group>> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        groups.get(&id)?.last().filter(|group| !group.is_removed()).cloned()
    }

    /// The group `id` in a version of the tables, or what came in its place if the group of that
    /// version is forgotten already.
    pub fn get_in(&self, id: u32, version: u64) -> Option<Arc<Group>> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        let versions = groups.get(&id)?;
        let current = versions.iter().find(|group| group.is_in(version));
        let later =
            || versions.iter().find(|group| (group.id_since..group.added_in).contains(&version));
        current.or_else(later).cloned()
    }

    /// All groups by number, as they are after all changes that were begun.
    pub fn all(&self) -> Vec<Arc<Group>> {
        let groups = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        let newest = groups.values().filter_map(|versions| versions.last());
        newest.filter(|group| !group.is_removed()).cloned().collect()
    }
}
