//! Group modifications (OpenFlow 1.5, section 7.3.4.3).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::{Group, GroupBucket, Groups, NEVER, Select};
use crate::openflow::error::OfError;
use crate::openflow::message::{GROUP_ALL, GROUP_MAX, GroupCommand, GroupMod, bucket_id};

/// A change that was begun.
#[derive(Debug, Default)]
pub struct GroupChange {
    /// The group that was added, or replaced another.
    pub new: Option<Arc<Group>>,
    /// The groups that were replaced or deleted.
    pub old: Vec<Arc<Group>>,
}

impl GroupChange {
    /// Numbers of the groups that were deleted, whose rules are to go.
    pub fn deleted(&self) -> impl Iterator<Item = u32> {
        let none_is_new = self.new.is_none();
        self.old.iter().filter(move |_| none_is_new).map(|group| group.id)
    }
}

impl Groups {
    /// Begins a change that is to be seen from `version` of the tables on. Afterwards it must be
    /// [finished](Self::finish) or [reverted](Self::revert); several are reverted in the opposite
    /// order.
    ///
    /// # Errors
    /// When there is no such group or bucket, or it exists already.
    pub fn begin(&self, group_mod: &GroupMod, version: u64) -> Result<GroupChange, OfError> {
        let old = self.get(group_mod.group_id);
        match (group_mod.command, old) {
            (GroupCommand::Delete, _) if group_mod.group_id == GROUP_ALL => {
                Ok(self.begin_delete(self.all(), version))
            }
            (GroupCommand::Delete, old) => {
                Ok(self.begin_delete(old.into_iter().collect(), version))
            }
            (GroupCommand::Add, Some(_)) => Err(OfError::GroupModGroupExists),
            (GroupCommand::Add | GroupCommand::AddOrModify, None) => {
                let group = Arc::new(new_group(group_mod, version)?);
                self.push(&group);
                Ok(GroupChange { new: Some(group), old: Vec::new() })
            }
            (_, None) => Err(OfError::GroupModUnknownGroup),
            (_, Some(old)) => {
                let group = Arc::new(replacement(group_mod, &old, version)?);
                old.removed_in.store(version, Ordering::Release);
                self.push(&group);
                Ok(GroupChange { new: Some(group), old: vec![old] })
            }
        }
    }

    fn begin_delete(&self, old: Vec<Arc<Group>>, version: u64) -> GroupChange {
        old.iter().for_each(|group| group.removed_in.store(version, Ordering::Release));
        GroupChange { new: None, old }
    }

    /// Forgets the groups that a change replaced or deleted. To be called once the version is
    /// published.
    pub fn finish(&self, change: &GroupChange) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        change.old.iter().for_each(|group| forget(&mut groups, group));
    }

    /// Undoes a change. To be called instead of publishing the version.
    pub fn revert(&self, change: &GroupChange) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        change.new.iter().for_each(|group| forget(&mut groups, group));
        change.old.iter().for_each(|group| group.removed_in.store(NEVER, Ordering::Release));
    }

    fn push(&self, group: &Arc<Group>) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        groups.entry(group.id).or_default().push(Arc::clone(group));
    }
}

fn forget(groups: &mut BTreeMap<u32, Vec<Arc<Group>>>, group: &Arc<Group>) {
    if let Some(versions) = groups.get_mut(&group.id) {
        versions.retain(|other| !Arc::ptr_eq(other, group));
        if versions.is_empty() {
            groups.remove(&group.id);
        }
    }
}

/// The group that a modification describes.
fn new_group(group_mod: &GroupMod, version: u64) -> Result<Group, OfError> {
    if group_mod.group_id > GROUP_MAX {
        return Err(OfError::GroupModInvalidGroup);
    }
    Ok(Group::new(
        group_mod.group_id,
        group_mod.group_type,
        group_mod.buckets.clone(),
        group_mod.selection.clone(),
        version,
    ))
}

/// The group that takes the place of `old`. It has the age of the old one; of the counters, only
/// those of buckets that are kept.
fn replacement(group_mod: &GroupMod, old: &Group, version: u64) -> Result<Group, OfError> {
    let of_buckets =
        matches!(group_mod.command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket);
    let mut group = if of_buckets {
        Group::new(
            old.id,
            old.group_type,
            group_mod.buckets.clone(),
            old.selection.clone(),
            version,
        )
    } else {
        new_group(group_mod, version)?
    };
    match group_mod.command {
        GroupCommand::InsertBucket => {
            group.buckets = insert(&old.buckets, group.buckets, group_mod.command_bucket_id)?;
        }
        GroupCommand::RemoveBucket => {
            group.buckets = remove(&old.buckets, group_mod.command_bucket_id)?;
        }
        _ => {}
    }
    group.created = old.created;
    group.id_since = old.id_since;
    group.select = Select::modified(group.id, group.group_type, &group.buckets, &group.selection);
    Ok(group)
}

type Buckets = Vec<Arc<GroupBucket>>;

fn position(buckets: &[Arc<GroupBucket>], id: u32) -> Result<usize, OfError> {
    let place = buckets.iter().position(|bucket| bucket.bucket.bucket_id == id);
    place.ok_or(OfError::GroupModUnknownBucket)
}

/// The buckets `old` with `new` behind the one with number `place`, or at either end.
fn insert(old: &[Arc<GroupBucket>], new: Buckets, place: u32) -> Result<Buckets, OfError> {
    let split = match place {
        bucket_id::FIRST => 0,
        bucket_id::LAST => old.len(),
        id => position(old, id)? + 1,
    };
    let mut buckets = old.to_vec();
    buckets.splice(split..split, new);
    let mut ids: Vec<u32> = buckets.iter().map(|bucket| bucket.bucket.bucket_id).collect();
    ids.sort_unstable();
    match ids.windows(2).any(|pair| pair.first() == pair.last()) {
        true => Err(OfError::GroupModBucketExists),
        false => Ok(buckets),
    }
}

/// The buckets without the one with number `place`, the one at either end, or any.
fn remove(old: &[Arc<GroupBucket>], place: u32) -> Result<Buckets, OfError> {
    let skipped = match place {
        bucket_id::ALL => return Ok(Vec::new()),
        bucket_id::FIRST => 0,
        bucket_id::LAST => old.len().saturating_sub(1),
        id => position(old, id)?,
    };
    let kept = old.iter().zip(0..).filter(|(_, index)| *index != skipped);
    Ok(kept.map(|(bucket, _)| Arc::clone(bucket)).collect())
}
