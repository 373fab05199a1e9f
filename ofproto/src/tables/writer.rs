//! What only those who change the tables need: counts, limits and indices of rules.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::expiry::Expiry;
use super::settings::TableState;
use super::version::VersionsInUse;
use crate::openflow::action::{Action, Learn};
use crate::rule::Rule;

/// What a rule uses and cannot be without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Resource {
    Group(u32),
    Meter(u32),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Writer {
    tables: Vec<TableState>,
    pub(super) expiry: Expiry,
    users: HashMap<Resource, BTreeMap<u64, Arc<Rule>>>,
    /// How many rules learn rules with a cookie into a table that are to go with them.
    learning: HashMap<(u64, u8), u32>,
    next_serial: u64,
    pub(super) in_use: VersionsInUse,
    /// Rules that are not in this version any more, but may be in older ones.
    retired: VecDeque<(u64, Vec<Arc<Rule>>)>,
}

/// The groups and meters that an action uses, directly or within. Actions that send to controllers
/// by way of a meter do without it once it is gone.
fn resources(action: &Action, found: &mut Vec<Resource>) {
    match action {
        Action::Group(group) => found.push(Resource::Group(*group)),
        Action::Meter(meter) => found.push(Resource::Meter(*meter)),
        _ => action.nested().iter().for_each(|action| resources(action, found)),
    }
}

/// The cookies and tables of the rules that are to go with a rule that learned them.
fn learned(rule: &Rule) -> impl Iterator<Item = (u64, u8)> {
    rule.actions.iter().filter_map(|action| match action {
        Action::Learn(learn) if learn.flags & Learn::DELETE_LEARNED != 0 => {
            Some((learn.cookie, learn.table_id))
        }
        _ => None,
    })
}

impl Writer {
    pub(super) fn new(tables: usize) -> Self {
        Self {
            tables: (0..tables).map(|_| TableState::default()).collect(),
            expiry: Expiry::default(),
            users: HashMap::new(),
            learning: HashMap::new(),
            next_serial: 0,
            in_use: VersionsInUse::default(),
            retired: VecDeque::new(),
        }
    }

    pub(super) fn table(&self, table: u8) -> Option<&TableState> {
        self.tables.get(usize::from(table))
    }

    pub(super) fn table_mut(&mut self, table: u8) -> Option<&mut TableState> {
        self.tables.get_mut(usize::from(table))
    }

    /// A number for a new rule.
    pub(super) fn take_serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    /// Puts a rule into the indices.
    pub(super) fn link(&mut self, rule: &Arc<Rule>) {
        if let Some(table) = self.table_mut(rule.table) {
            table.flows += 1;
            table.hidden += u32::from(!rule.is_visible());
            table.link(rule);
        }
        self.expiry.add(rule);
        self.for_users(rule, |users| {
            users.insert(rule.serial, Arc::clone(rule));
        });
    }

    /// Takes a rule out of the indices.
    pub(super) fn unlink(&mut self, rule: &Arc<Rule>) {
        if let Some(table) = self.table_mut(rule.table) {
            table.flows -= 1;
            table.hidden -= u32::from(!rule.is_visible());
            table.unlink(rule);
        }
        self.expiry.remove(rule);
        self.for_users(rule, |users| {
            users.remove(&rule.serial);
        });
    }

    fn for_users(&mut self, rule: &Rule, mut change: impl FnMut(&mut BTreeMap<u64, Arc<Rule>>)) {
        let mut found = Vec::new();
        rule.actions.iter().for_each(|action| resources(action, &mut found));
        for resource in found {
            let users = self.users.entry(resource).or_default();
            change(users);
            if users.is_empty() {
                self.users.remove(&resource);
            }
        }
    }

    fn users(&self, resource: Resource) -> Vec<Arc<Rule>> {
        self.users.get(&resource).into_iter().flat_map(|users| users.values().cloned()).collect()
    }

    /// The rules that use a group, oldest first.
    pub(super) fn users_of_group(&self, group: u32) -> Vec<Arc<Rule>> {
        self.users(Resource::Group(group))
    }

    /// The rules that use a meter, oldest first.
    pub(super) fn users_of_meter(&self, meter: u32) -> Vec<Arc<Rule>> {
        self.users(Resource::Meter(meter))
    }

    /// Counts a rule that others go with.
    pub(super) fn add_learning(&mut self, rule: &Rule) {
        learned(rule).for_each(|key| *self.learning.entry(key).or_default() += 1);
    }

    /// Takes back an [`add_learning`](Self::add_learning). Returns cookie and table of rules that
    /// nobody learns any more.
    pub(super) fn remove_learning(&mut self, rule: &Rule) -> Vec<(u64, u8)> {
        let mut dead = Vec::new();
        for key in learned(rule) {
            if let Some(count) = self.learning.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    self.learning.remove(&key);
                    dead.push(key);
                }
            }
        }
        dead
    }

    /// Notes rules that are not in a version any more.
    pub(super) fn retire(&mut self, version: u64, rules: Vec<Arc<Rule>>) {
        if !rules.is_empty() {
            self.retired.push_back((version, rules));
        }
    }

    /// The rules that are in no version any more that somebody uses. They are for the classifiers
    /// to forget.
    pub(super) fn take_unused(&mut self) -> Vec<Arc<Rule>> {
        if self.retired.is_empty() {
            return Vec::new();
        }
        let oldest = self.in_use.oldest().unwrap_or(u64::MAX);
        let unused = self.retired.iter().take_while(|(version, _)| *version <= oldest).count();
        self.retired.drain(..unused).flat_map(|(_, rules)| rules).collect()
    }
}
