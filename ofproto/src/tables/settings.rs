//! Settings of a table, and what follows from them.

use std::sync::Arc;

use super::eviction::Eviction;
use super::{Source, TABLE_INTERNAL, TableEvent, Tables};
use crate::openflow::action::Subfield;
use crate::openflow::error::OfError;
use crate::openflow::field::Field;
use crate::openflow::message::{
    FlowRemovedReason, TABLE_ALL, TableDesc, TableMod, TableReason, Vacancy, eviction_flag,
};
use crate::rule::Rule;

/// The eviction flags of all tables: what Open vSwitch goes by.
const EVICTION_FLAGS: u32 =
    eviction_flag::OTHER | eviction_flag::IMPORTANCE | eviction_flag::LIFETIME;
/// Most bytes of a table's name (`OFP_MAX_TABLE_NAME_LEN`).
const MAX_NAME: usize = 32;

/// What happens when a rule is added to a full table (`Flow_Table.overflow_policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overflow {
    /// It is refused.
    #[default]
    Refuse,
    /// Another goes.
    Evict,
}

/// The settings that come from the configuration (`Flow_Table`).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TableSettings {
    /// Its name.
    pub name: Option<String>,
    /// Most rules.
    pub limit: Option<u32>,
    /// What happens beyond.
    pub overflow: Overflow,
    /// Rules are evicted from among those that have the most in common in these.
    pub groups: Vec<Subfield>,
    /// Fields whose prefixes are tracked; `None` are the usual ones.
    pub prefixes: Option<Vec<Field>>,
}

/// Who gave a table its name. What comes later prevails over what comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
enum NameSource {
    #[default]
    Nobody,
    OpenFlow,
    Configuration,
}

/// What those who change a table know of it.
#[derive(Debug, Default)]
pub(super) struct TableState {
    /// Number of rules.
    pub(super) flows: u32,
    /// Those of them that controllers do not see.
    pub(super) hidden: u32,
    name: String,
    name_source: NameSource,
    limit: Option<u32>,
    /// Whether the configuration asks for eviction.
    evicts_by_configuration: bool,
    /// Whether a controller did.
    evicts_by_openflow: bool,
    groups: Vec<Subfield>,
    eviction: Option<Eviction>,
    vacancy: Vacancy,
    /// The vacancy event that is next.
    next_vacancy_event: Option<TableReason>,
}

impl TableState {
    /// Whether it has as many rules as it may.
    pub(super) fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.flows >= limit)
    }

    /// A rule to make room for another.
    pub(super) fn choose_to_evict(&mut self) -> Option<Arc<Rule>> {
        self.eviction.as_mut()?.choose()
    }

    pub(super) fn link(&mut self, rule: &Arc<Rule>) {
        if let Some(eviction) = &mut self.eviction {
            eviction.add(rule);
        }
    }

    pub(super) fn unlink(&mut self, rule: &Rule) {
        if let Some(eviction) = &mut self.eviction {
            eviction.remove(rule);
        }
    }

    /// Free space in percent.
    fn vacancy(&self) -> u8 {
        let limit = u64::from(self.limit.unwrap_or(u32::MAX));
        let free = limit.saturating_sub(self.flows.into());
        (free * 100).checked_div(limit).unwrap_or(100) as u8
    }

    fn desc(&self, table_id: u8) -> TableDesc {
        let vacancy = Vacancy { current: self.vacancy(), ..self.vacancy };
        TableDesc {
            table_id,
            eviction: self.evicts_by_openflow,
            eviction_flags: Some(EVICTION_FLAGS),
            vacancy: self.next_vacancy_event.map(|_| vacancy),
        }
    }

    /// The event that is due if the space in the table has passed a threshold.
    pub(super) fn vacancy_event(&mut self, table: u8) -> Option<TableEvent> {
        let next = self.next_vacancy_event?;
        let vacancy = self.vacancy();
        let reason = if vacancy < self.vacancy.down {
            TableReason::VacancyDown
        } else if vacancy > self.vacancy.up {
            TableReason::VacancyUp
        } else {
            return None;
        };
        if reason != next {
            return None;
        }
        let event = TableEvent::Vacancy { reason, table: self.desc(table) };
        self.next_vacancy_event = Some(match reason {
            TableReason::VacancyDown => TableReason::VacancyUp,
            TableReason::VacancyUp => TableReason::VacancyDown,
        });
        Some(event)
    }

    fn set_name(&mut self, name: Option<&str>, source: NameSource) {
        let Some(name) = name else {
            if self.name_source == source {
                (self.name, self.name_source) = (String::new(), NameSource::Nobody);
            }
            return;
        };
        if source >= self.name_source {
            let fits = |(at, letter): &(usize, char)| at + letter.len_utf8() <= MAX_NAME;
            self.name = name.char_indices().take_while(fits).map(|(_, letter)| letter).collect();
            self.name_source = source;
        }
    }

    /// Applies a table modification to the state; `rules` are all of the table.
    fn apply(&mut self, table_mod: &TableMod, rules: impl FnOnce() -> Vec<Arc<Rule>>) {
        if let Some(evicts) = table_mod.eviction {
            self.evicts_by_openflow = evicts;
            self.set_eviction(rules);
        }
        if let Some(sends) = table_mod.vacancy_events {
            self.vacancy = table_mod.vacancy;
            self.next_vacancy_event = match self.next_vacancy_event {
                _ if !sends => None,
                Some(next) => Some(next),
                None if self.vacancy() < self.vacancy.up => Some(TableReason::VacancyUp),
                None => Some(TableReason::VacancyDown),
            };
        }
    }

    /// Makes what eviction needs to know of the table's rules, if it should evict.
    fn set_eviction(&mut self, rules: impl FnOnce() -> Vec<Arc<Rule>>) {
        let evicts = self.evicts_by_configuration || self.evicts_by_openflow;
        if !evicts {
            self.eviction = None;
        } else if self.eviction.as_ref().is_none_or(|old| old.fields() != self.groups) {
            let mut eviction = Eviction::new(self.groups.clone());
            rules().iter().for_each(|rule| eviction.add(rule));
            self.eviction = Some(eviction);
        }
    }
}

impl Tables {
    /// Gives a table its settings from the configuration. If it has more rules than it may, some
    /// are evicted.
    pub fn set_settings(&self, table: u8, settings: &TableSettings) {
        let Some(shared) = self.table(table) else { return };
        let mut transaction = self.begin();
        let version = transaction.version();
        let Some(state) = transaction.writer.table_mut(table) else { return };
        state.set_name(settings.name.as_deref(), NameSource::Configuration);
        if table == TABLE_INTERNAL {
            return;
        }
        let prefixes = settings.prefixes.as_deref().unwrap_or(&super::DEFAULT_PREFIX_FIELDS);
        if shared.write().set_prefix_fields(prefixes) {
            self.epoch.advance();
        }
        state.evicts_by_configuration = settings.overflow == Overflow::Evict;
        state.groups.clone_from(&settings.groups);
        state.limit = settings.limit;
        state.set_eviction(|| shared.all(version));
        let over = settings.limit.map_or(0, |limit| state.flows.saturating_sub(limit));
        for _ in 0..over {
            let state = transaction.writer.table_mut(table);
            let Some(rule) = state.and_then(|state| state.choose_to_evict()) else { break };
            transaction.remove(&rule, FlowRemovedReason::EVICTION, Source::Switch);
        }
        transaction.commit();
    }

    /// Does a table modification.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn modify_table(&self, table_mod: &TableMod) -> Result<(), OfError> {
        if table_mod.eviction_flags.is_some_and(|flags| flags != EVICTION_FLAGS) {
            return Err(OfError::TableModBadConfig);
        }
        let tables = match table_mod.table_id {
            TABLE_ALL => 0..TABLE_INTERNAL,
            TABLE_INTERNAL => return Err(OfError::TableModEperm),
            table => table..table + 1,
        };
        let mut writer = self.writer();
        let version = self.version();
        for table in tables {
            let Some((shared, state)) = self.table(table).zip(writer.table_mut(table)) else {
                continue;
            };
            if table_mod.miss.is_some() {
                shared.set_miss(table_mod.miss);
            }
            state.apply(table_mod, || shared.all(version));
        }
        // What happens to packets that miss is part of how they are translated.
        self.epoch.advance();
        Ok(())
    }

    /// Gives a table a name by OpenFlow, or with `None` takes it away, unless the configuration
    /// gave it one.
    pub fn set_name(&self, table: u8, name: Option<&str>) {
        if let Some(state) = self.writer().table_mut(table) {
            state.set_name(name, NameSource::OpenFlow);
        }
    }

    /// Whether a controller may give a table this name: it has none from the configuration, or the
    /// same.
    pub fn may_set_name(&self, table: u8, name: &str) -> bool {
        self.writer().table(table).is_some_and(|state| {
            state.name_source <= NameSource::OpenFlow || state.name.is_empty() || state.name == name
        })
    }

    /// The name of a table; empty for none.
    pub fn name(&self, table: u8) -> String {
        self.writer().table(table).map_or_else(String::new, |state| state.name.clone())
    }

    /// Most rules of a table, if that is limited.
    pub fn limit(&self, table: u8) -> Option<u32> {
        self.writer().table(table)?.limit
    }

    /// The description of a table.
    pub fn desc(&self, table: u8) -> Option<TableDesc> {
        Some(self.writer().table(table)?.desc(table))
    }
}
