//! Flow monitors: controllers that are told how flow tables change.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use netdev::coverage::Counter;

use super::connections::Connections;
use super::outbox::Class;
use super::peer::Peer;
use crate::classifier::{Mask, MaskedKey};
use crate::flow::Flow;
use crate::openflow::action::Action;
use crate::openflow::error::OfError;
use crate::openflow::flow_match::Match;
use crate::openflow::kind::{Raw, Replies};
use crate::openflow::message::{
    FlowUpdate, FullUpdate, GROUP_ANY, Monitor, MonitorRequest, TABLE_ALL, UpdateEvent,
    decode_monitor_cancel, encode_monitor_pause, monitor_flag,
};
use crate::openflow::port::PortNo;
use crate::openflow::tlv_map::TlvMap;
use crate::openflow::version::Version;
use crate::rule::Rule;
use crate::switch::Switch;
use crate::tables::{Criteria, N_TABLES, Source, TableEvent};

pub(crate) static PAUSED: Counter = Counter::new("ofmonitor_pause");
pub(crate) static RESUMED: Counter = Counter::new("ofmonitor_resume");

/// Bytes of updates that may wait for a peer before its monitors pause.
const MOST_BYTES: usize = 128 * 1024;

/// What tells a rule from others for as long as it is in the tables.
type Place = (u8, u32, Match);

/// What happened while monitors were paused, so that it can be told later.
#[derive(Debug, Default)]
struct Pause {
    added: HashSet<Place>,
    modified: HashSet<Place>,
}

/// The monitors of one peer.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    monitors: BTreeMap<u32, FlowMonitor>,
    pause: Option<Pause>,
}

#[derive(Debug)]
struct FlowMonitor {
    settings: Monitor,
    key: MaskedKey,
}

impl FlowMonitor {
    fn new(settings: Monitor, tlv: &TlvMap) -> Self {
        let (value, mask) = Flow::of_match(&settings.flow_match, tlv);
        let key = MaskedKey::new(&value, Arc::new(Mask::new(&mask)));
        Self { settings, key }
    }

    fn criteria(&self) -> Criteria {
        Criteria {
            table: self.settings.table_id,
            flow_match: self.settings.flow_match.clone(),
            out_port: self.settings.out_port,
            out_group: self.settings.out_group,
            ..Criteria::all()
        }
    }

    /// Whether it is to report a change of this kind.
    fn takes(&self, change: &Change<'_>) -> bool {
        let Monitor { flags, out_port, out_group, table_id, .. } = self.settings;
        let rule = change.rule;
        let before = change.old_actions.unwrap_or_default();
        flags & change.flag != 0
            && (table_id == TABLE_ALL || table_id == rule.table)
            && (out_port == PortNo::NONE
                || rule.actions.iter().chain(before).any(|action| action.outputs_to(out_port)))
            && (out_group == GROUP_ANY
                || rule.actions.iter().any(|action| action.uses_group(out_group)))
            && rule.key.is_within(&self.key)
    }
}

/// A change of a rule.
struct Change<'a> {
    rule: &'a Rule,
    old_actions: Option<&'a [Action]>,
    event: UpdateEvent,
    flag: u16,
    reason: u8,
    source: Source,
}

impl<'a> Change<'a> {
    fn of_event(event: &'a TableEvent) -> Option<Self> {
        let change = match event {
            TableEvent::Added { rule, old_actions, source } => Self {
                rule,
                old_actions: old_actions.as_deref(),
                event: UpdateEvent::Added,
                flag: monitor_flag::ADD,
                reason: 0,
                source: *source,
            },
            TableEvent::Modified { rule, old_actions, source } => Self {
                rule,
                old_actions: old_actions.as_deref(),
                event: UpdateEvent::Modified,
                flag: monitor_flag::MODIFY,
                reason: 0,
                source: *source,
            },
            TableEvent::Removed { rule, reason, source } => Self {
                rule,
                old_actions: None,
                event: UpdateEvent::Removed,
                flag: monitor_flag::REMOVED,
                reason: reason.0,
                source: *source,
            },
            TableEvent::Vacancy { .. } => return None,
        };
        change.rule.is_visible().then_some(change)
    }
}

fn full_update(rule: &Rule, event: UpdateEvent, reason: u8, flags: u16) -> FlowUpdate {
    let with_actions = flags & monitor_flag::INSTRUCTIONS != 0;
    FlowUpdate::Full(Box::new(FullUpdate {
        event,
        reason,
        idle_timeout: rule.idle_timeout(),
        hard_timeout: rule.hard_timeout(),
        table_id: rule.table,
        priority: rule.priority as u16,
        cookie: rule.cookie,
        flow_match: rule.flow_match.clone(),
        actions: if with_actions { rule.actions.to_vec() } else { vec![] },
    }))
}

fn place(rule: &Rule) -> Place {
    (rule.table, rule.priority, rule.flow_match.clone())
}

impl Monitors {
    /// Notes a change while paused. Returns whether it is to be told all the same.
    fn note(&mut self, change: &Change<'_>) -> bool {
        let Some(pause) = &mut self.pause else { return true };
        let place = place(change.rule);
        match change.event {
            UpdateEvent::Removed => {
                pause.modified.remove(&place);
                // Those who never heard of it need not hear that it went.
                return !pause.added.remove(&place);
            }
            UpdateEvent::Modified => {
                if !pause.added.contains(&place) {
                    pause.modified.insert(place);
                }
            }
            UpdateEvent::Added | UpdateEvent::Initial => {
                pause.modified.remove(&place);
                pause.added.insert(place);
            }
        }
        false
    }

    /// The updates for changes; own changes are abbreviated to one update for each message.
    fn updates(&mut self, connection: u64, changes: &[Change<'_>]) -> Vec<FlowUpdate> {
        let mut updates = vec![];
        let mut abbreviated = None;
        for change in changes {
            if self.monitors.is_empty() || !self.note(change) {
                continue;
            }
            let taking = self.monitors.values().filter(|monitor| monitor.takes(change));
            let flags = taking.fold(0, |flags, monitor| flags | monitor.settings.flags);
            if flags == 0 {
                continue;
            }
            match change.source {
                Source::Peer { connection: own, xid }
                    if own == connection
                        && flags & monitor_flag::ONLY_OWN == 0
                        && self.pause.is_none() =>
                {
                    if abbreviated != Some(xid) {
                        abbreviated = Some(xid);
                        updates.push(FlowUpdate::Abbreviated(xid));
                    }
                }
                _ => updates.push(full_update(change.rule, change.event, change.reason, flags)),
            }
        }
        updates
    }

    /// The rules that monitors take, each with the flags that say what of it they are to be told.
    /// While paused, those that changed since; otherwise those of `ids`, if they asked for them.
    fn collect(&self, switch: &Switch, ids: &[u32]) -> Vec<(Arc<Rule>, u16)> {
        let mut found: Vec<(Arc<Rule>, u16)> = vec![];
        let mut index = BTreeMap::new();
        for (id, monitor) in &self.monitors {
            let flags = monitor.settings.flags;
            if self.pause.is_none() && (!ids.contains(id) || flags & monitor_flag::INITIAL == 0) {
                continue;
            }
            for rule in switch.tables().select(&monitor.criteria()) {
                let news = match &self.pause {
                    None => monitor_flag::INITIAL,
                    Some(pause) => {
                        let place = place(&rule);
                        let changed = if pause.added.contains(&place) {
                            monitor_flag::ADD | monitor_flag::MODIFY
                        } else if pause.modified.contains(&place) {
                            monitor_flag::MODIFY
                        } else {
                            0
                        };
                        if changed & flags == 0 { continue } else { changed }
                    }
                };
                let news = news | flags & monitor_flag::INSTRUCTIONS;
                let at = *index.entry(Arc::as_ptr(&rule)).or_insert(found.len());
                match found.get_mut(at) {
                    Some((_, flags)) => *flags |= news,
                    None => found.push((rule, news)),
                }
            }
        }
        found
    }

    /// Whether monitors pause and everything sent before has arrived.
    pub(super) fn may_resume(&self, waiting: usize) -> bool {
        self.pause.is_some() && waiting == 0
    }
}

/// Messages with updates of rules as they are now.
fn refresh(rules: &[(Arc<Rule>, u16)], version: Version, xid: u32) -> Vec<Vec<u8>> {
    let mut replies = Replies::new(FlowUpdate::reply_kind(version), version, xid);
    for (rule, flags) in rules {
        let event = if flags & monitor_flag::INITIAL != 0 {
            UpdateEvent::Initial
        } else if flags & monitor_flag::ADD != 0 {
            UpdateEvent::Added
        } else {
            UpdateEvent::Modified
        };
        full_update(rule, event, 0, *flags).append(&mut replies, version);
    }
    replies.finish()
}

impl Peer {
    /// Tells the peer of changes as far as it monitors them.
    fn monitor(&mut self, changes: &[Change<'_>]) {
        let updates = self.monitors.updates(self.id.0, changes);
        if !updates.is_empty() {
            let version = self.version;
            let mut replies = Replies::new(FlowUpdate::reply_kind(version), version, 0);
            for update in &updates {
                update.append(&mut replies, version);
            }
            for message in replies.finish() {
                self.send(Class::Monitor, message);
            }
        }
        if self.monitors.pause.is_none() && self.outbox.waiting(Class::Monitor).bytes > MOST_BYTES {
            PAUSED.add(1);
            self.monitors.pause = Some(Pause::default());
            self.send(Class::Monitor, encode_monitor_pause(true, self.version, 0));
        }
    }

    /// Goes on to tell the peer of changes, if everything before has arrived.
    fn resume_monitors(&mut self, switch: &Switch) {
        if !self.monitors.may_resume(self.outbox.waiting(Class::Monitor).messages) {
            return;
        }
        RESUMED.add(1);
        let rules = self.monitors.collect(switch, &[]);
        self.monitors.pause = None;
        if !rules.is_empty() {
            for message in refresh(&rules, self.version, 0) {
                self.send(Class::Reply, message);
            }
        }
        self.send(Class::Reply, encode_monitor_pause(false, self.version, 0));
    }

    /// Carries out requests about monitors. Returns the ids of those that are new.
    fn change_monitors(
        &mut self,
        requests: Vec<MonitorRequest>,
        tlv: &TlvMap,
        new: &mut Vec<u32>,
    ) -> Result<(), OfError> {
        let monitors = &mut self.monitors.monitors;
        for request in requests {
            let settings = match request {
                MonitorRequest::Delete(id) => {
                    monitors.remove(&id).ok_or(OfError::FlowMonitorUnknownMonitor)?;
                    continue;
                }
                MonitorRequest::Add(settings) => {
                    check_table(&settings)?;
                    if monitors.contains_key(&settings.id) {
                        return Err(OfError::FlowMonitorMonitorExists);
                    }
                    settings
                }
                MonitorRequest::Modify(settings) => {
                    check_table(&settings)?;
                    monitors.remove(&settings.id).ok_or(OfError::FlowMonitorUnknownMonitor)?;
                    settings
                }
            };
            new.push(settings.id);
            monitors.insert(settings.id, FlowMonitor::new(settings, tlv));
        }
        Ok(())
    }
}

fn check_table(monitor: &Monitor) -> Result<(), OfError> {
    // The switch's own table counts.
    let exists = monitor.table_id == TABLE_ALL || monitor.table_id <= N_TABLES;
    if exists { Ok(()) } else { Err(OfError::BadRequestTableId) }
}

/// Starts, changes and stops monitors as the `parts` of a request ask for. Returns the rules that
/// exist, for monitors that ask for them.
///
/// # Errors
/// The error that Open vSwitch replies with, and the index of the part to which it does. No monitor
/// was started then.
pub(super) fn request(
    peer: &mut Peer,
    switch: &Switch,
    parts: &[Raw<'_>],
) -> Result<Vec<Vec<u8>>, (usize, OfError)> {
    let mut new = vec![];
    for (index, part) in parts.iter().enumerate() {
        let requests = MonitorRequest::decode(part);
        let changed =
            requests.and_then(|requests| peer.change_monitors(requests, switch.tlv(), &mut new));
        if let Err(error) = changed {
            peer.monitors.monitors.retain(|id, _| !new.contains(id));
            return Err((index, error));
        }
    }
    let xid = parts.last().map_or(0, |part| part.header.xid);
    Ok(refresh(&peer.monitors.collect(switch, &new), peer.version, xid))
}

/// Stops a monitor.
pub(super) fn cancel(peer: &mut Peer, raw: &Raw<'_>) -> Result<Vec<Vec<u8>>, OfError> {
    let id = decode_monitor_cancel(raw)?;
    let removed = peer.monitors.monitors.remove(&id);
    removed.map(|_| vec![]).ok_or(OfError::FlowMonitorUnknownMonitor)
}

impl Connections {
    /// Tells peers of changes of flow tables, as far as they monitor them.
    pub(super) fn monitor(&mut self, events: &[TableEvent]) {
        let changes: Vec<_> = events.iter().filter_map(Change::of_event).collect();
        if !changes.is_empty() {
            self.peers_mut().for_each(|peer| peer.monitor(&changes));
        }
    }

    /// Has monitors go on that paused until everything before has arrived.
    pub(super) fn resume_monitors(&mut self, switch: &Switch) {
        self.peers_mut().for_each(|peer| peer.resume_monitors(switch));
    }
}
