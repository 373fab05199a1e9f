use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::openflow::error::OfError;
use crate::openflow::message::{GROUP_ALL, GROUP_ANY, GroupCommand, GroupMod, bucket_id};
use crate::openflow::port::PortNo;

fn bucket(id: u32, weight: u16) -> Bucket {
    Bucket {
        bucket_id: id,
        weight,
        watch_port: PortNo::NONE,
        watch_group: GROUP_ANY,
        actions: Vec::new(),
    }
}

fn group_mod(command: GroupCommand, id: u32, place: u32, buckets: &[u32]) -> GroupMod {
    GroupMod {
        command,
        group_type: GroupType::Select,
        group_id: id,
        command_bucket_id: place,
        buckets: buckets.iter().map(|&id| bucket(id, 1)).collect(),
        selection: SelectionMethod::default(),
    }
}

fn bucket_ids(group: &Group) -> Vec<u32> {
    group.buckets.iter().map(|bucket| bucket.bucket.bucket_id).collect()
}

/// Which bucket each hash value stands for when buckets have these weights.
fn divided(weights: &[u16]) -> Option<Vec<u16>> {
    let buckets = weights.iter().zip(0..).map(|(&weight, id)| bucket(id, weight)).collect();
    let group = Group::new(1, GroupType::Select, buckets, SelectionMethod::default(), 1);
    match group.select {
        Select::DpHash(hash) => Some(hash.buckets),
        Select::Default | Select::Fields => None,
    }
}

fn hits(weights: &[u16]) -> Option<Vec<usize>> {
    let map = divided(weights)?;
    let count = |index| map.iter().filter(|&&other| usize::from(other) == index).count();
    Some((0..weights.len()).map(count).collect())
}

#[test]
fn hash_values_are_divided_by_weight() {
    assert_eq!(divided(&[1, 1]).unwrap(), [0, 1].repeat(8));
    assert_eq!(hits(&[5, 6]), Some(vec![7, 9]));
    assert_eq!(hits(&[7, 8]), Some(vec![7, 9]));
    assert_eq!(hits(&[0, 3]), Some(vec![0, 16]));
    assert_eq!(hits(&[1, 255]), Some(vec![1, 255]));
    assert_eq!(hits(&[1, 256]), None);
    assert_eq!(hits(&[0, 0]), None);
    assert_eq!(hits(&[]), None);
}

#[test]
fn the_selection_method_decides_how_to_choose() {
    let select = |method: &str, param| {
        let selection = SelectionMethod { method: method.to_owned(), param, fields: Vec::new() };
        Group::new(1, GroupType::Select, vec![bucket(0, 1)], selection, 1).select
    };
    let hash = |algorithm, basis| Select::DpHash(DpHash { algorithm, basis, buckets: vec![0; 16] });
    assert_eq!(select("dp_hash", 7), hash(0, 7));
    assert_eq!(select("dp_hash", 1 << 32 | 7), hash(1, 7));
    assert_eq!(select("dp_hash", 2 << 32 | 7), hash(0, 7));
    assert_eq!(select("", 0), hash(1, 0));
    assert_eq!(select("hash", 0), Select::Default);
}

#[test]
fn a_change_shows_from_its_version_on() {
    let groups = Groups::default();
    let first = groups.begin(&group_mod(GroupCommand::Add, 1, bucket_id::ALL, &[0]), 2).unwrap();
    groups.finish(&first);
    let modify = group_mod(GroupCommand::Modify, 1, bucket_id::ALL, &[5]);
    let second = groups.begin(&modify, 3).unwrap();
    let seen = |version| groups.get_in(1, version).as_deref().map(bucket_ids);
    assert_eq!([seen(1), seen(2), seen(3)], [None, Some(vec![0]), Some(vec![5])]);
    let delete = group_mod(GroupCommand::Delete, GROUP_ALL, bucket_id::ALL, &[]);
    let third = groups.begin(&delete, 3).unwrap();
    assert_eq!(third.deleted().collect::<Vec<_>>(), [1]);
    assert_eq!([seen(1), seen(2), seen(3)], [None, Some(vec![0]), None]);
    assert!(groups.get(1).is_none() && groups.all().is_empty());

    groups.revert(&third);
    assert_eq!(groups.get(1).as_deref().map(bucket_ids), Some(vec![5]));
    groups.revert(&second);
    assert_eq!([seen(2), seen(3)], [Some(vec![0]), Some(vec![0])]);
}

#[test]
fn who_holds_an_old_version_finds_what_came_in_its_place() {
    let groups = Groups::default();
    let first = groups.begin(&group_mod(GroupCommand::Add, 1, bucket_id::ALL, &[0]), 2).unwrap();
    let modify = group_mod(GroupCommand::Modify, 1, bucket_id::ALL, &[5]);
    groups.finish(&first);
    let second = groups.begin(&modify, 3).unwrap();
    groups.finish(&second);
    let seen = |version| groups.get_in(1, version).as_deref().map(bucket_ids);
    assert_eq!([seen(1), seen(2), seen(3)], [None, Some(vec![5]), Some(vec![5])]);
}

#[test]
fn kept_buckets_keep_their_counters() {
    let groups = Groups::default();
    groups.begin(&group_mod(GroupCommand::Add, 1, bucket_id::ALL, &[1, 2]), 1).unwrap();
    let old = groups.get(1).unwrap();
    old.add(3, 180);
    old.buckets[1].add(3, 180);
    let insert = group_mod(GroupCommand::InsertBucket, 1, 1, &[7, 8]);
    groups.begin(&insert, 2).unwrap();
    let new = groups.get(1).unwrap();
    assert_eq!((bucket_ids(&new), new.created), (vec![1, 7, 8, 2], old.created));
    let counts: Vec<_> = new.buckets.iter().map(|bucket| bucket.counts()).collect();
    assert_eq!((new.counts(), counts), ((0, 0), vec![(0, 0), (0, 0), (0, 0), (3, 180)]));
}

/// What a model of groups, by number their buckets, says to a change.
fn change(
    model: &BTreeMap<u32, Vec<u32>>,
    group_mod: &GroupMod,
) -> Result<BTreeMap<u32, Vec<u32>>, OfError> {
    let mut model = model.clone();
    let id = group_mod.group_id;
    let new: Vec<u32> = group_mod.buckets.iter().map(|bucket| bucket.bucket_id).collect();
    let place = group_mod.command_bucket_id;
    match (group_mod.command, model.get_mut(&id)) {
        (GroupCommand::Delete, _) if id == GROUP_ALL => model.clear(),
        (GroupCommand::Delete, _) => {
            model.remove(&id);
        }
        (GroupCommand::Add, Some(_)) => return Err(OfError::GroupModGroupExists),
        (GroupCommand::Add | GroupCommand::AddOrModify, None) => {
            model.insert(id, new);
        }
        (_, None) => return Err(OfError::GroupModUnknownGroup),
        (GroupCommand::Modify | GroupCommand::AddOrModify, Some(buckets)) => *buckets = new,
        (GroupCommand::InsertBucket, Some(buckets)) => {
            let at = match place {
                bucket_id::FIRST => Some(0),
                bucket_id::LAST => Some(buckets.len()),
                id => buckets.iter().position(|bucket| *bucket == id).map(|index| index + 1),
            };
            let at = at.ok_or(OfError::GroupModUnknownBucket)?;
            if new.iter().any(|bucket| buckets.contains(bucket)) {
                return Err(OfError::GroupModBucketExists);
            }
            for bucket in new.into_iter().rev() {
                buckets.insert(at, bucket);
            }
        }
        (GroupCommand::RemoveBucket, Some(buckets)) => match place {
            bucket_id::ALL => buckets.clear(),
            bucket_id::FIRST => drop(buckets.drain(..buckets.len().min(1))),
            bucket_id::LAST => drop(buckets.pop()),
            id if buckets.contains(&id) => buckets.retain(|bucket| *bucket != id),
            _ => return Err(OfError::GroupModUnknownBucket),
        },
    }
    Ok(model)
}

fn any_group_mod() -> impl Strategy<Value = GroupMod> {
    let commands = prop::sample::select(vec![
        GroupCommand::Add,
        GroupCommand::Modify,
        GroupCommand::AddOrModify,
        GroupCommand::Delete,
        GroupCommand::InsertBucket,
        GroupCommand::RemoveBucket,
    ]);
    let ids = prop_oneof![9 => 0u32..3, 1 => Just(GROUP_ALL)];
    let places = prop_oneof![4 => 0u32..5, 1 => Just(bucket_id::FIRST), 1 => Just(bucket_id::LAST)];
    let buckets = prop::sample::subsequence(vec![4, 0, 3, 1, 2], 0..4);
    (commands, ids, places, buckets).prop_map(|(command, id, place, buckets)| {
        // A number for all groups is in deletions alone.
        let command = if id == GROUP_ALL { GroupCommand::Delete } else { command };
        group_mod(command, id, place, &buckets)
    })
}

fn contents(groups: &Groups) -> BTreeMap<u32, Vec<u32>> {
    groups.all().iter().map(|group| (group.id, bucket_ids(group))).collect()
}

proptest! {
    /// Groups do what the model does, whether changes are kept or, in bundles, reverted.
    #[test]
    fn groups_follow_a_model(
        bundles in prop::collection::vec(
            (prop::collection::vec(any_group_mod(), 1..6), any::<bool>()),
            1..12,
        ),
    ) {
        let groups = Groups::default();
        let mut model = BTreeMap::new();
        for ((bundle, keep), version) in bundles.into_iter().zip(1..) {
            let mut wanted = model.clone();
            let mut begun = Vec::new();
            for group_mod in &bundle {
                match (change(&wanted, group_mod), groups.begin(group_mod, version)) {
                    (Ok(after), Ok(change)) => {
                        wanted = after;
                        begun.push(change);
                    }
                    (Err(expected), Err(error)) => prop_assert_eq!(expected, error),
                    (expected, found) => prop_assert!(false, "{:?} {:?}", expected, found),
                }
                prop_assert_eq!(&contents(&groups), &wanted);
                for id in 0..3 {
                    let seen = |version| groups.get_in(id, version).as_deref().map(bucket_ids);
                    prop_assert_eq!(seen(version - 1), model.get(&id).cloned());
                    prop_assert_eq!(seen(version), wanted.get(&id).cloned());
                }
            }
            if keep {
                begun.iter().for_each(|change| groups.finish(change));
                model = wanted;
            } else {
                begun.iter().rev().for_each(|change| groups.revert(change));
            }
            prop_assert_eq!(&contents(&groups), &model);
            let kept = groups.groups.read().unwrap();
            prop_assert!(kept.values().all(|versions| versions.len() == 1));
        }
    }

    /// Every bucket with weight has hash values, and none is off its share by more than one.
    #[test]
    fn shares_of_hash_values_are_fair(weights in prop::collection::vec(0u16..20, 1..40)) {
        let Some(hits) = hits(&weights) else { return Ok(()) };
        let values: usize = hits.iter().sum();
        let total: usize = weights.iter().map(|weight| usize::from(*weight)).sum();
        prop_assert!(values.is_power_of_two() && (16..=256).contains(&values));
        for (hits, weight) in hits.iter().zip(&weights) {
            prop_assert_eq!(*hits == 0, *weight == 0);
            let share = values as f64 * f64::from(*weight) / total as f64;
            prop_assert!((*hits as f64 - share).abs() <= 2.0, "{} of {}", hits, share);
        }
    }
}
