//! The flow tables of a switch.
//!
//! The control thread changes them; so does translation, where a rule learns others. Whoever looks
//! a packet up does so in one version of the tables, in which a bundle is there whole or not at
//! all.

mod criteria;
mod event;
mod eviction;
mod expiry;
mod internal;
mod learn;
mod settings;
#[cfg(test)]
mod tests;
mod tlv;
mod transaction;
mod version;
mod writer;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::classifier::{Classifier, Mask, MaskedKey};
use crate::epoch::Epoch;
use crate::flow::Flow;
use crate::news::News;
use crate::openflow::error::OfError;
use crate::openflow::field::Field;
use crate::openflow::flow_match::Match;
use crate::openflow::message::{FlowMod, FlowRemovedReason, TableMiss};
use crate::openflow::tlv_map::TlvMap;
use crate::rule::{Rule, RuleParts};
pub use criteria::Criteria;
use event::Events;
pub use event::{Source, TableEvent};
pub(crate) use expiry::EXPIRED;
pub use internal::InternalRule;
pub use learn::{LearnResult, Learned};
pub use settings::{Overflow, TableSettings};
pub use transaction::Transaction;
pub(crate) use transaction::check as check_flow_mod;
pub use version::Version;
use version::Versions;
use writer::Writer;

/// Tables that controllers may use; the one behind them belongs to the switch.
pub const N_TABLES: u8 = 254;
/// The table of the switch itself, where packets that are to be dropped or sent to the controller
/// for want of a rule go on.
pub const TABLE_INTERNAL: u8 = 254;
/// The fields whose prefixes a table tracks unless it is told others.
const DEFAULT_PREFIX_FIELDS: [Field; 4] =
    [Field::IPV4_DST, Field::IPV4_SRC, Field::IPV6_DST, Field::IPV6_SRC];

/// See the [module](self).
#[derive(Debug)]
pub struct Tables {
    tables: Vec<Table>,
    versions: Versions,
    writer: Mutex<Writer>,
    internal: Vec<Arc<Rule>>,
    events: Events,
    epoch: Arc<Epoch>,
    /// The tunnel options that are mapped to fields.
    tlv: RwLock<Arc<TlvMap>>,
}

/// What lookups need of a table.
#[derive(Debug)]
struct Table {
    classifier: RwLock<Classifier>,
    miss: RwLock<Option<TableMiss>>,
    matched: AtomicU64,
    missed: AtomicU64,
}

/// What a table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCounts {
    /// Rules that controllers see.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Those of them that a rule took.
    pub matched: u64,
}

/// What a lookup found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The rule.
    pub rule: Arc<Rule>,
    /// If the rule is that of a conjunction: the rules that are its parts and took the packet.
    pub parts: Vec<Arc<Rule>>,
}

impl Table {
    fn new() -> Self {
        Self {
            classifier: RwLock::new(Classifier::new(&DEFAULT_PREFIX_FIELDS)),
            miss: RwLock::new(None),
            matched: AtomicU64::new(0),
            missed: AtomicU64::new(0),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Classifier> {
        self.classifier.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Classifier> {
        self.classifier.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules in a version.
    fn all(&self, version: u64) -> Vec<Arc<Rule>> {
        let key = self.key(&Match::new(), &TlvMap::default());
        self.read().within(&key, version).into_iter().cloned().collect()
    }

    fn set_miss(&self, miss: Option<TableMiss>) {
        *self.miss.write().unwrap_or_else(PoisonError::into_inner) = miss;
    }

    /// The key of rules of the table that match this.
    fn key(&self, flow_match: &Match, tlv: &TlvMap) -> MaskedKey {
        let (value, mask) = Flow::of_match(flow_match, tlv);
        let mask = self.read().shared_mask(Mask::new(&mask));
        MaskedKey::new(&value, mask)
    }
}

impl Tables {
    /// Tables with nothing but the rules of the switch itself. Changes of them count in `epoch`, and
    /// are `news`.
    pub fn new(epoch: Arc<Epoch>, news: News) -> Self {
        let mut tables = Self {
            tables: (0..=TABLE_INTERNAL).map(|_| Table::new()).collect(),
            versions: Versions::default(),
            writer: Mutex::new(Writer::new(usize::from(TABLE_INTERNAL) + 1)),
            internal: Vec::new(),
            events: Events::new(news),
            epoch,
            tlv: RwLock::default(),
        };
        tables.internal = internal::add_rules(&tables);
        tables.take_events();
        tables
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        self.versions.newest().number()
    }

    /// The newest version. As long as the result lives, lookups in it find all its rules.
    pub fn pin(&self) -> Arc<Version> {
        self.versions.newest()
    }

    fn table(&self, table: u8) -> Option<&Table> {
        self.tables.get(usize::from(table))
    }

    /// The rule of a table that takes a packet. Every bit of the packet that tells this rule from
    /// others is noted in `read`, a mask.
    pub fn lookup(
        &self,
        table: u8,
        version: u64,
        flow: &Flow,
        read: &mut Flow,
    ) -> Option<Arc<Rule>> {
        self.find(table, version, flow, read).map(|found| found.rule)
    }

    /// As [`lookup`](Self::lookup), and tells the parts of a conjunctive match.
    pub fn find(&self, table: u8, version: u64, flow: &Flow, read: &mut Flow) -> Option<Found> {
        let classifier = self.table(table)?.read();
        let mut parts = Vec::new();
        let rule = classifier.lookup(version, flow, read, &mut parts)?;
        Some(Found { rule: Arc::clone(rule), parts })
    }

    /// What happens to packets that no rule of a table takes; `None` where no controller has said
    /// so, which is up to the version of OpenFlow.
    pub fn miss(&self, table: u8) -> Option<TableMiss> {
        *self.table(table)?.miss.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A rule of the switch itself.
    pub fn internal(&self, rule: InternalRule) -> Option<&Arc<Rule>> {
        self.internal.get(rule as usize)
    }

    /// Counts packets that were looked up in a table.
    pub fn count(&self, table: u8, is_match: bool, packets: u64) {
        if let Some(table) = self.table(table) {
            let counter = if is_match { &table.matched } else { &table.missed };
            counter.fetch_add(packets, Ordering::Relaxed);
        }
    }

    /// What a table counted.
    pub fn counts(&self, table: u8) -> Option<TableCounts> {
        let active = {
            let writer = self.writer();
            let state = writer.table(table)?;
            state.flows - state.hidden
        };
        let table = self.table(table)?;
        let matched = table.matched.load(Ordering::Relaxed);
        let lookups = matched + table.missed.load(Ordering::Relaxed);
        Some(TableCounts { active, lookups, matched })
    }

    /// Begins changes that are to become visible together.
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Does a flow modification.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with; nothing has changed then.
    pub fn modify(&self, flow_mod: &FlowMod, source: Source) -> Result<(), OfError> {
        let mut transaction = self.begin();
        transaction.modify(flow_mod, source)?;
        transaction.commit();
        Ok(())
    }

    /// Adds a rule of the switch itself, in place of the one with the same match and priority.
    ///
    /// # Errors
    /// `FlowModTableFull` when the table is full.
    pub fn add(&self, parts: RuleParts) -> Result<Arc<Rule>, OfError> {
        let mut transaction = self.begin();
        let rule = transaction.add(parts)?;
        transaction.commit();
        Ok(rule)
    }

    /// Removes a rule, if it is still there.
    pub fn remove(&self, rule: &Arc<Rule>, reason: FlowRemovedReason) {
        let mut transaction = self.begin();
        transaction.remove(rule, reason, Source::Switch);
        transaction.commit();
    }

    /// Removes all rules of the tables that controllers use, those that they do not see included.
    pub fn clear(&self) {
        let mut transaction = self.begin();
        let everything = Criteria { include_hidden: true, ..Criteria::all() };
        for rule in self.select_in(&everything, transaction.version()) {
            transaction.remove(&rule, FlowRemovedReason::DELETE, Source::Switch);
        }
        transaction.commit();
    }

    /// Removes the rules that use a group.
    pub fn remove_users_of_group(&self, group: u32) {
        let mut transaction = self.begin();
        transaction.remove_users_of_group(group, Source::Switch);
        transaction.commit();
    }

    /// Removes the rules that use a meter.
    pub fn remove_users_of_meter(&self, meter: u32) {
        let mut transaction = self.begin();
        transaction.remove_users_of_meter(meter);
        transaction.commit();
    }

    /// Number of rules that use a group.
    pub fn users_of_group(&self, group: u32) -> usize {
        self.writer().users_of_group(group).len()
    }

    /// Number of rules that use a meter.
    pub fn users_of_meter(&self, meter: u32) -> usize {
        self.writer().users_of_meter(meter).len()
    }

    /// The rules that meet the criteria, in the order in which Open vSwitch lists them.
    pub fn select(&self, criteria: &Criteria) -> Vec<Arc<Rule>> {
        let version = self.pin();
        self.select_in(criteria, version.number())
    }

    fn select_in(&self, criteria: &Criteria, version: u64) -> Vec<Arc<Rule>> {
        self.select_with(criteria, version, &self.tlv())
    }

    fn select_with(&self, criteria: &Criteria, version: u64, tlv: &TlvMap) -> Vec<Arc<Rule>> {
        let mut rules = Vec::new();
        for table in criteria.tables().filter_map(|table| self.table(table)) {
            let key = table.key(&criteria.flow_match, tlv);
            let classifier = table.read();
            let candidates = match criteria.priority {
                Some(priority) => {
                    classifier.find_exactly(&key, priority, version).into_iter().collect()
                }
                None => classifier.within(&key, version),
            };
            rules.extend(candidates.into_iter().filter(|rule| criteria.has(rule)).cloned());
        }
        rules
    }

    /// What happened to rules and tables since this was last asked.
    pub fn take_events(&self) -> Vec<TableEvent> {
        self.events.take()
    }
}
