//! What peers are told without asking.

use std::time::Duration;

use netdev::clock;

use super::connections::Connections;
use super::event::ConnectionId;
use super::outbox::Class;
use crate::handle::Forward;
use crate::openflow::message::{
    AsyncMessage, Bucket, FlowFlags, FlowRemoved, FlowRemovedReason, GroupCommand, GroupMod,
    TableStatus, encode_request_forward,
};
use crate::openflow::version::Version;
use crate::rule::Rule;
use crate::switch::{PortChange, Switch};
use crate::tables::TableEvent;

/// Reasons to forward requests (`ofp14_requestforward_reason`).
const GROUP_MOD: u8 = 0;
const METER_MOD: u8 = 1;

impl Connections {
    /// Tells peers what happened to ports, flows and tables of the switch since this was last
    /// called. `source` is the peer whose message did it, if one did.
    pub(super) fn tell(&mut self, switch: &mut Switch, source: Option<ConnectionId>) {
        for change in switch.take_port_changes() {
            self.tell_of_port(&change, source);
        }
        let events = switch.tables().take_events();
        self.monitor(&events);
        for event in events {
            match event {
                TableEvent::Removed { rule, reason, .. } => self.tell_of_removal(&rule, reason),
                TableEvent::Vacancy { reason, table } => {
                    self.tell_of_table(&TableStatus { reason, desc: table });
                }
                TableEvent::Added { .. } | TableEvent::Modified { .. } => {}
            }
        }
    }

    fn tell_of_port(&self, change: &PortChange, source: Option<ConnectionId>) {
        let reason = change.status.reason as u8;
        let before = change.old.as_ref().map(|old| {
            let mut status = change.status.clone();
            status.port = old.clone();
            status
        });
        for peer in self.peers().filter(|peer| peer.receives(AsyncMessage::PortStatus, reason)) {
            // From 1.5 on those who asked for a change are told of it, too.
            if change.requested && Some(peer.id) == source && peer.version < Version::V15 {
                continue;
            }
            let message = change.status.encode(peer.version, 0);
            // What changed may be nothing that this version tells.
            if before.as_ref().is_none_or(|before| before.encode(peer.version, 0) != message) {
                peer.send(Class::Other, message);
            }
        }
    }

    fn tell_of_removal(&self, rule: &Rule, reason: FlowRemovedReason) {
        if !rule.flags.has(FlowFlags::SEND_FLOW_REM) || !rule.is_visible() {
            return;
        }
        let age = clock::now().saturating_sub(rule.created);
        let age = Duration::from_millis(age.as_millis() as u64);
        let counters = rule.statistics();
        let removed = FlowRemoved {
            flow_match: rule.flow_match.clone(),
            priority: rule.priority as u16,
            cookie: rule.cookie,
            reason,
            table_id: rule.table,
            duration_sec: age.as_secs() as u32,
            duration_nsec: age.subsec_nanos(),
            idle_timeout: rule.idle_timeout(),
            hard_timeout: rule.hard_timeout(),
            packet_count: counters.packets(),
            byte_count: counters.bytes(),
        };
        for peer in self.peers().filter(|peer| peer.receives(AsyncMessage::FlowRemoved, reason.0)) {
            // They count as replies, so that one who does not read cannot add flows for ever.
            peer.send(Class::Reply, removed.encode(peer.version, 0, peer.flow_format));
        }
    }

    fn tell_of_table(&self, status: &TableStatus) {
        let reason = status.reason as u8;
        for peer in self.peers().filter(|peer| peer.receives(AsyncMessage::TableStatus, reason)) {
            if peer.version >= Version::V14 {
                peer.send(Class::Other, status.encode(peer.version, 0));
            }
        }
    }

    /// Tells other peers what one did to groups or meters.
    pub(super) fn forward(&self, request: &Forward, xid: u32, source: ConnectionId) {
        let reason = match request {
            Forward::Group { .. } => GROUP_MOD,
            Forward::Meter(_) => METER_MOD,
        };
        let others = self.peers().filter(|peer| peer.id != source);
        for peer in others.filter(|peer| peer.receives(AsyncMessage::RequestForward, reason)) {
            let version = peer.version;
            let message = match request {
                Forward::Group { group_mod, buckets, existed } => {
                    for_version(group_mod, buckets.as_deref(), *existed, version)
                        .encode(version, xid)
                }
                // There are no meters before.
                Forward::Meter(_) if version < Version::V13 => continue,
                Forward::Meter(meter_mod) => meter_mod.encode(version, xid),
            };
            peer.send(Class::Other, encode_request_forward(&message, version, 0));
        }
    }
}

/// A group modification as `version` can express it; `buckets` are those of the group afterwards.
fn for_version(
    group_mod: &GroupMod,
    buckets: Option<&[Bucket]>,
    existed: bool,
    version: Version,
) -> GroupMod {
    let mut group_mod = group_mod.clone();
    let has_bucket_commands = matches!(version, Version::V10 | Version::V15);
    match group_mod.command {
        GroupCommand::InsertBucket | GroupCommand::RemoveBucket if !has_bucket_commands => {
            group_mod.command = GroupCommand::Modify;
            group_mod.buckets = buckets.unwrap_or_default().to_vec();
        }
        GroupCommand::AddOrModify => {
            group_mod.command = if existed { GroupCommand::Modify } else { GroupCommand::Add };
        }
        _ => {}
    }
    group_mod
}
