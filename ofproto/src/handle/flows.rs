//! Messages about flows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use netdev::clock;
use tracing::{info, warn};

use super::{Reply, duration};
use crate::openflow::action::Action;
use crate::openflow::error::OfError;
use crate::openflow::kind::{Kind, Raw, Replies};
use crate::openflow::message::{AggregateStats, FlowFormat, FlowMod, FlowStats, FlowStatsRequest};
use crate::openflow::port::PortNo;
use crate::openflow::version::Version;
use crate::rule::Rule;
use crate::switch::Switch;
use crate::tables::{Criteria, Source, TABLE_INTERNAL, Transaction};

/// Number of the tables, the switch's own included.
const N_TABLES: u8 = TABLE_INTERNAL + 1;

/// Reads a flow modification.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(super) fn decode_flow_mod(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
    format: FlowFormat,
) -> Result<FlowMod, OfError> {
    FlowMod::decode(raw, &switch.decode_context(version), format, PortNo::MAX, N_TABLES)
}

pub(super) fn flow_mod(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
    format: FlowFormat,
    source: Source,
) -> Result<Reply, OfError> {
    let flow_mod = decode_flow_mod(switch, raw, version, format)?;
    let mut transaction = switch.tables().begin();
    modify(switch, &mut transaction, &flow_mod, source)?;
    transaction.commit();
    Ok(Reply::FlowMod(flow_mod.command))
}

/// Does a flow modification, which becomes visible with the transaction.
///
/// # Errors
/// The error that Open vSwitch replies with; this modification has changed nothing then.
pub(super) fn modify(
    switch: &Switch,
    transaction: &mut Transaction<'_>,
    flow_mod: &FlowMod,
    source: Source,
) -> Result<(), OfError> {
    transaction.modify_checked(flow_mod, source, |actions| check_actions(switch, actions))
}

/// Checks that the groups and meters that actions use are there.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn check_actions(switch: &Switch, actions: &[Action]) -> Result<(), OfError> {
    for action in actions {
        match action {
            Action::Meter(id) if switch.meters().get(*id).is_none() => {
                return Err(OfError::MeterModInvalidMeter);
            }
            Action::Group(id) if switch.groups().get(*id).is_none() => {
                return Err(OfError::BadActionOutGroup);
            }
            Action::Controller(controller) => {
                let unknown = controller.meter_id.filter(|id| switch.meters().get(*id).is_none());
                if let Some(id) = unknown {
                    info!(
                        target: "ofproto", limited = true,
                        "{}: controller action specified an unknown meter id: {}",
                        switch.name(), id as i32
                    );
                }
            }
            _ => check_actions(switch, action.nested())?,
        }
    }
    Ok(())
}

pub(super) fn flow_stats(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let request = FlowStatsRequest::decode(raw, &switch.decode_context(version))?;
    let rules = switch.tables().select(&Criteria::of_request(&request));
    Ok(Reply::Flows(FlowReplies::new(rules, raw, version)))
}

/// The statistics of flows, as messages that are made one by one, because there may be very many.
#[derive(Debug)]
pub struct FlowReplies {
    rules: std::vec::IntoIter<Arc<Rule>>,
    kind: Kind,
    version: Version,
    /// What the messages are made from; `None` when all are made.
    replies: Option<Replies>,
    made: VecDeque<Vec<u8>>,
}

impl FlowReplies {
    fn new(rules: Vec<Arc<Rule>>, raw: &Raw<'_>, version: Version) -> Self {
        let kind = FlowStats::reply_kind(raw.kind, version);
        let replies = Some(Replies::new(kind, version, raw.header.xid));
        Self { rules: rules.into_iter(), kind, version, replies, made: VecDeque::new() }
    }
}

impl Iterator for FlowReplies {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let now = clock::now();
        while self.made.is_empty() {
            let replies = self.replies.as_mut()?;
            match self.rules.next() {
                Some(rule) => {
                    if !statistics(&rule, now).append(replies, self.kind, self.version) {
                        warn!(
                            target: "ofp_flow", limited = true,
                            "Flow exceeded the maximum flow statistics reply size and was excluded \
                             from the response set"
                        );
                    }
                    self.made.extend(replies.take_full());
                }
                None => self.made.extend(self.replies.take()?.finish()),
            }
        }
        self.made.pop_front()
    }
}

/// Seconds that have passed, as OpenFlow's 16 bits can tell them.
fn age(since: Duration, now: Duration) -> u32 {
    now.saturating_sub(since).as_secs().min(u16::MAX.into()) as u32
}

fn statistics(rule: &Rule, now: Duration) -> FlowStats {
    let counters = rule.statistics();
    let (duration_sec, duration_nsec) = duration(rule.created, now);
    FlowStats {
        flow_match: rule.flow_match.clone(),
        table_id: rule.table,
        priority: rule.priority as u16,
        cookie: rule.cookie,
        duration_sec,
        duration_nsec,
        idle_timeout: rule.idle_timeout(),
        hard_timeout: rule.hard_timeout(),
        importance: rule.importance,
        idle_age: Some(age(counters.used(), now)),
        hard_age: Some(age(rule.modified(), now)),
        packet_count: counters.packets(),
        byte_count: counters.bytes(),
        flags: rule.flags,
        actions: rule.actions.to_vec(),
    }
}

pub(super) fn aggregate_stats(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let request = FlowStatsRequest::decode(raw, &switch.decode_context(version))?;
    let rules = switch.tables().select(&Criteria::of_request(&request));
    let sum = |count: fn(&Rule) -> u64| rules.iter().map(|rule| count(rule)).sum();
    let stats = AggregateStats {
        packet_count: sum(|rule| rule.statistics().packets()),
        byte_count: sum(|rule| rule.statistics().bytes()),
        flow_count: rules.len() as u32,
    };
    Ok(Reply::Messages(vec![stats.encode(raw.kind, version, raw.header.xid)]))
}
