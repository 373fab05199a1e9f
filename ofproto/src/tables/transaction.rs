//! Changes of rules that become visible together, or not at all.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use netdev::clock;

use super::writer::Writer;
use super::{Criteria, N_TABLES, Source, TABLE_INTERNAL, TableEvent, Tables};
use crate::openflow::action::Action;
use crate::openflow::error::OfError;
use crate::openflow::message::{
    FlowFlags, FlowMod, FlowModCommand, FlowRemovedReason, NO_BUFFER, TABLE_ALL,
};
use crate::openflow::slot::Slot;
use crate::rule::{Lineage, Rule, RuleParts};

/// A cookie that modifications do not change to.
pub(super) const NO_COOKIE: u64 = u64::MAX;

/// One change.
#[derive(Debug)]
enum Change {
    Added {
        rule: Arc<Rule>,
    },
    /// `is_added`: by a message that adds, not one that modifies.
    Replaced {
        old: Arc<Rule>,
        new: Arc<Rule>,
        is_added: bool,
    },
    /// Another came in its place, because the table is full.
    Evicted {
        old: Arc<Rule>,
        new: Arc<Rule>,
    },
    Removed {
        rule: Arc<Rule>,
        reason: FlowRemovedReason,
    },
}

/// Changes that wait for [`commit`](Self::commit). Dropped without, they are undone. Others that
/// want to change rules wait meanwhile; that goes for learning, too, so a packet must not be
/// translated as one that arrived while its thread has a transaction.
#[derive(Debug)]
pub struct Transaction<'a> {
    tables: &'a Tables,
    pub(super) writer: MutexGuard<'a, Writer>,
    /// The version in which they will be visible.
    version: u64,
    changes: Vec<(Change, Source)>,
    publishes_always: bool,
}

/// How a rule comes into the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    /// By a message that modifies.
    is_modify: bool,
    changes_cookie: bool,
    keeps_counts: bool,
    /// From when on timeouts count.
    at: Duration,
}

/// Checks what a flow modification says apart from its actions.
///
/// # Errors
/// The error that Open vSwitch replies with, in a bundle when the message is added to it.
pub(crate) fn check(flow_mod: &FlowMod) -> Result<(), OfError> {
    if matches!(flow_mod.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict) {
        return Ok(());
    }
    let flow_match = &flow_mod.flow_match;
    let hidden = [Slot::RECIRC_ID, Slot::DP_HASH];
    if flow_mod.table_id == TABLE_INTERNAL || hidden.iter().any(|slot| flow_match.mask(*slot) != 0)
    {
        return Err(OfError::BadRequestEperm);
    }
    match flow_mod.buffer_id {
        NO_BUFFER => Ok(()),
        _ => Err(OfError::BadRequestBufferUnknown),
    }
}

/// The rule that a flow modification adds.
fn parts_of(flow_mod: &FlowMod, actions: &Arc<[Action]>) -> RuleParts {
    RuleParts {
        table: if flow_mod.table_id == TABLE_ALL { 0 } else { flow_mod.table_id },
        priority: flow_mod.priority.into(),
        flow_match: flow_mod.flow_match.clone(),
        cookie: flow_mod.new_cookie,
        idle_timeout: flow_mod.idle_timeout,
        hard_timeout: flow_mod.hard_timeout,
        importance: flow_mod.importance,
        flags: flow_mod.flags,
        actions: Arc::clone(actions),
    }
}

impl<'a> Transaction<'a> {
    pub(super) fn new(tables: &'a Tables) -> Self {
        let writer = tables.writer();
        let version = tables.version() + 1;
        Self { tables, writer, version, changes: Vec::new(), publishes_always: false }
    }

    /// The version in which the changes so far can be seen, even before they are committed.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Does a flow modification whose actions use nothing that may be missing.
    ///
    /// # Errors
    /// As [`modify_checked`](Self::modify_checked).
    pub fn modify(&mut self, flow_mod: &FlowMod, source: Source) -> Result<(), OfError> {
        self.modify_checked(flow_mod, source, |_| Ok(()))
    }

    /// Does a flow modification. If a rule is to get its actions, `check_actions` says whether what
    /// they use is there.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with. This modification has changed nothing then; those
    /// before have.
    pub fn modify_checked(
        &mut self,
        flow_mod: &FlowMod,
        source: Source,
        check_actions: impl FnOnce(&[Action]) -> Result<(), OfError>,
    ) -> Result<(), OfError> {
        check(flow_mod)?;
        let manner = Manner {
            is_modify: flow_mod.command != FlowModCommand::Add,
            changes_cookie: flow_mod.modify_cookie,
            keeps_counts: !flow_mod.flags.has(FlowFlags::RESET_COUNTS),
            at: clock::now(),
        };
        match flow_mod.command {
            FlowModCommand::Add => {
                check_actions(&flow_mod.actions)?;
                let actions = flow_mod.actions.as_slice().into();
                self.insert(parts_of(flow_mod, &actions), manner, source).map(|_| ())
            }
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
                self.change(flow_mod, manner, source, check_actions)
            }
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
                for rule in self.collect(&Criteria::of_flow_mod(flow_mod))? {
                    self.remove(&rule, FlowRemovedReason::DELETE, source);
                }
                Ok(())
            }
        }
    }

    /// Adds a rule of the switch itself, in place of the one with the same match and priority.
    ///
    /// # Errors
    /// `FlowModTableFull` when the table is full.
    pub fn add(&mut self, parts: RuleParts) -> Result<Arc<Rule>, OfError> {
        let at = clock::now();
        let manner = Manner { is_modify: false, changes_cookie: true, keeps_counts: true, at };
        self.insert(parts, manner, Source::Switch)
    }

    /// Adds a rule that a packet taught at `at`, or changes the one with the same match and
    /// priority to it.
    ///
    /// # Errors
    /// `BadRequestEperm` for the table of the switch itself, `FlowModTableFull` when the table is
    /// full.
    pub(super) fn learn(&mut self, parts: RuleParts, at: Duration) -> Result<Arc<Rule>, OfError> {
        if parts.table == TABLE_INTERNAL {
            return Err(OfError::BadRequestEperm);
        }
        let manner = Manner { is_modify: true, changes_cookie: true, keeps_counts: true, at };
        self.insert(parts, manner, Source::Switch)
    }

    /// Makes the commit publish a version even if no rule changed, for what else is to be visible
    /// with it.
    pub fn publish_always(&mut self) {
        self.publishes_always = true;
    }

    /// Removes a rule, if it is still there.
    pub fn remove(&mut self, rule: &Arc<Rule>, reason: FlowRemovedReason, source: Source) {
        if !rule.is_removed() {
            rule.set_removed_in(Some(self.version));
            self.writer.unlink(rule);
            self.changes.push((Change::Removed { rule: Arc::clone(rule), reason }, source));
        }
    }

    /// Removes the rules that use a group.
    pub fn remove_users_of_group(&mut self, group: u32, source: Source) {
        for rule in self.writer.users_of_group(group) {
            self.remove(&rule, FlowRemovedReason::GROUP_DELETE, source);
        }
    }

    /// Removes the rules that use a meter.
    pub fn remove_users_of_meter(&mut self, meter: u32) {
        for rule in self.writer.users_of_meter(meter) {
            self.remove(&rule, FlowRemovedReason::METER_DELETE, Source::Switch);
        }
    }

    /// The rules that a message may change.
    ///
    /// # Errors
    /// `BadRequestEperm` when there are none but rules of the switch itself.
    fn collect(&self, criteria: &Criteria) -> Result<Vec<Arc<Rule>>, OfError> {
        let mut rules = self.tables.select_in(criteria, self.version);
        let found = rules.len();
        rules.retain(|rule| rule.table < N_TABLES);
        if rules.is_empty() && found > 0 { Err(OfError::BadRequestEperm) } else { Ok(rules) }
    }

    /// Changes rules, or adds one if there is none to change and the message may add.
    fn change(
        &mut self,
        flow_mod: &FlowMod,
        manner: Manner,
        source: Source,
        check_actions: impl FnOnce(&[Action]) -> Result<(), OfError>,
    ) -> Result<(), OfError> {
        let rules = self.collect(&Criteria::of_flow_mod(flow_mod))?;
        let may_add = flow_mod.new_cookie != NO_COOKIE && flow_mod.cookie_mask == 0;
        if rules.is_empty() && !may_add {
            return Ok(());
        }
        check_actions(&flow_mod.actions)?;
        let actions = flow_mod.actions.as_slice().into();
        let parts = parts_of(flow_mod, &actions);
        if rules.is_empty() {
            return self.insert(parts, manner, source).map(|_| ());
        }
        for rule in rules {
            self.replace(&rule, parts.clone(), manner, source);
        }
        Ok(())
    }

    /// Adds a rule, in place of the one with the same match and priority.
    fn insert(
        &mut self,
        parts: RuleParts,
        manner: Manner,
        source: Source,
    ) -> Result<Arc<Rule>, OfError> {
        let table = self.tables.table(parts.table).ok_or(OfError::BadRequestTableId)?;
        let key = table.key(&parts.flow_match, &self.tables.tlv());
        let classifier = table.read();
        let old = classifier.find_exactly(&key, parts.priority, self.version).cloned();
        let overlaps = old.is_none()
            && parts.flags.has(FlowFlags::CHECK_OVERLAP)
            && classifier.overlaps(&key, parts.priority, self.version);
        drop(classifier);
        if overlaps {
            return Err(OfError::FlowModOverlap);
        }
        if let Some(old) = old {
            let manner = Manner { changes_cookie: true, ..manner };
            return Ok(self.replace(&old, parts, manner, source));
        }
        let evicted = match self.writer.table_mut(parts.table) {
            Some(state) if state.is_full() => {
                Some(state.choose_to_evict().ok_or(OfError::FlowModTableFull)?)
            }
            _ => None,
        };
        if let Some(old) = &evicted {
            old.set_removed_in(Some(self.version));
            self.writer.unlink(old);
        }
        let serial = self.writer.take_serial();
        let rule = Arc::new(Rule::new(parts, key, serial, self.version, Lineage::none(manner.at)));
        self.put(&rule);
        let new = Arc::clone(&rule);
        let change = match evicted {
            Some(old) => Change::Evicted { old, new },
            None => Change::Added { rule: new },
        };
        self.changes.push((change, source));
        Ok(rule)
    }

    /// Puts a rule into the tables in place of another with the same match and priority. A
    /// modification changes actions and perhaps the cookie only.
    fn replace(
        &mut self,
        old: &Arc<Rule>,
        wanted: RuleParts,
        manner: Manner,
        source: Source,
    ) -> Arc<Rule> {
        let changes_cookie = manner.changes_cookie && wanted.cookie != NO_COOKIE;
        let cookie = if changes_cookie { wanted.cookie } else { old.cookie };
        let parts = if manner.is_modify {
            RuleParts { cookie, actions: wanted.actions, ..old.parts() }
        } else {
            RuleParts { cookie, ..wanted }
        };
        let lineage = Lineage::of(old, manner.is_modify, manner.keeps_counts, manner.at);
        let serial = self.writer.take_serial();
        let new = Arc::new(Rule::new(parts, old.key.clone(), serial, self.version, lineage));
        old.set_removed_in(Some(self.version));
        self.writer.unlink(old);
        self.put(&new);
        let old = Arc::clone(old);
        let change = Change::Replaced { old, new: Arc::clone(&new), is_added: !manner.is_modify };
        self.changes.push((change, source));
        new
    }

    fn put(&mut self, rule: &Arc<Rule>) {
        if let Some(table) = self.tables.table(rule.table) {
            table.write().insert(Arc::clone(rule));
        }
        self.writer.link(rule);
    }

    /// Makes all changes visible at once.
    pub fn commit(mut self) {
        if self.changes.is_empty() && !self.publishes_always {
            return;
        }
        self.tables.versions.publish(self.version, &mut self.writer.in_use);
        self.tables.epoch.advance();
        let mut events = Vec::new();
        let mut retired = Vec::new();
        let mut dead = VecDeque::new();
        let mut changes = VecDeque::from(std::mem::take(&mut self.changes));
        while let Some((change, source)) = changes.pop_front() {
            self.finish(change, source, &mut events, &mut retired, &mut dead);
            // Rules that nobody learns any more go, too, and perhaps others with them.
            if changes.is_empty() && !dead.is_empty() {
                self.writer.retire(self.version, std::mem::take(&mut retired));
                self.version += 1;
                for (cookie, table) in dead.drain(..) {
                    let criteria =
                        Criteria { table, cookie, cookie_mask: u64::MAX, ..Criteria::all() };
                    for rule in self.collect(&criteria).unwrap_or_default() {
                        self.remove(&rule, FlowRemovedReason::DELETE, Source::Switch);
                    }
                }
                changes.extend(std::mem::take(&mut self.changes));
                self.tables.versions.publish(self.version, &mut self.writer.in_use);
                self.tables.epoch.advance();
            }
        }
        self.writer.retire(self.version, retired);
        self.tables.events.push(events);
        self.tables.forget_unused(&mut self.writer);
    }

    /// What is due after a change became visible.
    fn finish(
        &mut self,
        change: Change,
        source: Source,
        events: &mut Vec<TableEvent>,
        retired: &mut Vec<Arc<Rule>>,
        dead: &mut VecDeque<(u64, u8)>,
    ) {
        let writer = &mut self.writer;
        match change {
            Change::Added { rule } => {
                writer.add_learning(&rule);
                let table = rule.table;
                events.push(TableEvent::Added { rule, old_actions: None, source });
                events.extend(writer.table_mut(table).and_then(|state| state.vacancy_event(table)));
            }
            Change::Replaced { old, new: rule, is_added } => {
                writer.add_learning(&rule);
                dead.extend(writer.remove_learning(&old));
                let old_actions = (rule.actions != old.actions).then(|| Arc::clone(&old.actions));
                if is_added {
                    events.push(TableEvent::Added { rule, old_actions, source });
                } else if old_actions.is_some() || rule.cookie != old.cookie {
                    events.push(TableEvent::Modified { rule, old_actions, source });
                }
                retired.push(old);
            }
            Change::Evicted { old, new } => {
                writer.add_learning(&new);
                dead.extend(writer.remove_learning(&old));
                let reason = FlowRemovedReason::EVICTION;
                events.push(TableEvent::Removed { rule: Arc::clone(&old), reason, source });
                retired.push(old);
            }
            Change::Removed { rule, reason } => {
                dead.extend(writer.remove_learning(&rule));
                retired.push(Arc::clone(&rule));
                let table = rule.table;
                events.push(TableEvent::Removed { rule, reason, source });
                events.extend(writer.table_mut(table).and_then(|state| state.vacancy_event(table)));
            }
        }
    }

    fn put_back(&mut self, rule: &Arc<Rule>) {
        rule.set_removed_in(None);
        self.writer.link(rule);
    }

    fn take_away(&mut self, rule: &Arc<Rule>) {
        self.writer.unlink(rule);
        if let Some(table) = self.tables.table(rule.table) {
            table.write().remove(rule);
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        while let Some((change, _)) = self.changes.pop() {
            match change {
                Change::Added { rule } => self.take_away(&rule),
                Change::Replaced { old, new, .. } | Change::Evicted { old, new } => {
                    self.take_away(&new);
                    self.put_back(&old);
                }
                Change::Removed { rule, .. } => self.put_back(&rule),
            }
        }
    }
}

impl Tables {
    /// Takes rules out of the classifiers that nobody can look up any more. Each lock is short, so
    /// that packets need not wait.
    pub(super) fn forget_unused(&self, writer: &mut Writer) {
        let mut unused = writer.take_unused();
        unused.sort_by_key(|rule| rule.table);
        for rules in unused.chunk_by(|a, b| a.table == b.table) {
            let Some(table) = rules.first().and_then(|rule| self.table(rule.table)) else {
                continue;
            };
            let all = {
                let mut classifier = table.write();
                (classifier.len() == rules.len()).then(|| classifier.take_all())
            };
            if all.is_none() {
                rules.iter().for_each(|rule| table.write().remove(rule));
            }
        }
    }
}
