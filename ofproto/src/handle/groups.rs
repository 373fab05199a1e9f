//! Messages about groups.

use std::sync::Arc;
use std::time::Duration;

use netdev::clock;

use super::{Forward, Reply, duration};
use crate::group::{Group, GroupChange};
use crate::openflow::action::action_types;
use crate::openflow::error::OfError;
use crate::openflow::kind::{Raw, Replies};
use crate::openflow::message::{
    GROUP_ALL, GROUP_MAX, GroupCommand, GroupDesc, GroupFeatures, GroupMod, GroupStats, GroupType,
    SelectionMethod, bucket_id, decode_group_request,
};
use crate::openflow::version::Version;
use crate::switch::Switch;
use crate::tables::{Source, Transaction};

/// Every group type.
const TYPES: u32 = 0xf;
/// Weights, liveness and groups in groups (`ofp12_group_capabilities`).
const CAPABILITIES: u32 = 0x7;

pub(super) fn group_mod(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
    source: Source,
) -> Result<Reply, OfError> {
    let group_mod = GroupMod::decode(raw, &switch.decode_context(version))?;
    let mut transaction = switch.tables().begin();
    let change = begin(switch, &mut transaction, &group_mod, source)?;
    transaction.commit();
    switch.groups().finish(&change);
    Ok(Reply::Forward(Forward::group(group_mod, &change)))
}

/// Begins a change of groups that becomes visible with the transaction. Rules that use groups which
/// are deleted go.
///
/// # Errors
/// The error that Open vSwitch replies with; nothing has changed then.
pub(super) fn begin(
    switch: &Switch,
    transaction: &mut Transaction<'_>,
    group_mod: &GroupMod,
    source: Source,
) -> Result<GroupChange, OfError> {
    let change = switch.groups().begin(group_mod, transaction.version())?;
    change.deleted().for_each(|group| transaction.remove_users_of_group(group, source));
    transaction.publish_always();
    Ok(change)
}

/// Removes all groups, and rules that use them.
pub(super) fn clear(switch: &Switch) {
    let all = GroupMod {
        command: GroupCommand::Delete,
        group_type: GroupType::All,
        group_id: GROUP_ALL,
        command_bucket_id: bucket_id::ALL,
        buckets: vec![],
        selection: SelectionMethod::default(),
    };
    let mut transaction = switch.tables().begin();
    if let Ok(change) = begin(switch, &mut transaction, &all, Source::Switch) {
        transaction.commit();
        switch.groups().finish(&change);
    }
}

/// The group with a number that a request names, or all.
fn groups_of(switch: &Switch, id: u32) -> Vec<Arc<Group>> {
    match id {
        GROUP_ALL => switch.groups().all(),
        id => switch.groups().get(id).into_iter().collect(),
    }
}

pub(super) fn group_stats(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let groups = groups_of(switch, decode_group_request(raw)?);
    let now = clock::now();
    let mut replies = Replies::new(GroupStats::reply_kind(version), version, raw.header.xid);
    for group in groups {
        let users = switch.tables().users_of_group(group.id) as u32;
        statistics(&group, users, now).append(&mut replies, version);
    }
    Ok(Reply::Messages(replies.finish()))
}

fn statistics(group: &Group, users: u32, now: Duration) -> GroupStats {
    let (packet_count, byte_count) = group.counts();
    let (duration_sec, duration_nsec) = duration(group.created, now);
    GroupStats {
        group_id: group.id,
        ref_count: users,
        packet_count,
        byte_count,
        duration_sec,
        duration_nsec,
        buckets: group.buckets.iter().map(|bucket| bucket.counts()).collect(),
    }
}

pub(super) fn group_desc(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let mut replies = Replies::new(GroupDesc::reply_kind(version), version, raw.header.xid);
    for group in groups_of(switch, decode_group_request(raw)?) {
        let description = GroupDesc {
            group_type: group.group_type,
            group_id: group.id,
            buckets: group.buckets.iter().map(|bucket| bucket.bucket.clone()).collect(),
            selection: group.selection.clone(),
        };
        description.append(&mut replies, version);
    }
    Ok(Reply::Messages(replies.finish()))
}

pub(super) fn group_features(raw: &Raw<'_>, version: Version) -> Reply {
    let actions = action_types(version).iter().fold(0, |bits, (number, _)| bits | 1 << number);
    let features = GroupFeatures {
        types: TYPES,
        capabilities: CAPABILITIES,
        max_groups: [GROUP_MAX; 4],
        actions: [actions; 4],
    };
    Reply::Messages(vec![features.encode(version, raw.header.xid)])
}
