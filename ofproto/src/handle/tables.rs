//! Messages about flow tables.

use std::collections::BTreeMap;

use tracing::info;

use super::Reply;
use crate::openflow::action::{Instruction, action_types};
use crate::openflow::error::OfError;
use crate::openflow::kind::{Kind, Raw, Replies};
use crate::openflow::message::{
    ActionFeatures, FieldSet, InstructionFeatures, TableFeatures, TableFeaturesCommand, TableMod,
    TableStats,
};
use crate::openflow::version::Version;
use crate::switch::Switch;
use crate::tables::{Criteria, N_TABLES, TABLE_INTERNAL, Tables};

/// Rules that a table without a limit is said to hold at most.
const MAX_ENTRIES: u32 = 1_000_000;

pub(super) fn table_mod(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    switch.tables().modify_table(&TableMod::decode(raw, version)?)?;
    Ok(Reply::none())
}

pub(super) fn table_desc(switch: &Switch, raw: &Raw<'_>, version: Version) -> Reply {
    let mut replies = Replies::new(Kind::TableDescStatsReply14, version, raw.header.xid);
    for table in (0..N_TABLES).filter_map(|table| switch.tables().desc(table)) {
        table.append(&mut replies);
    }
    Reply::Messages(replies.finish())
}

pub(super) fn table_stats(switch: &Switch, raw: &Raw<'_>, version: Version) -> Reply {
    let tables = switch.tables();
    let features = Common::new(version);
    let mut replies = Replies::new(TableStats::reply_kind(version), version, raw.header.xid);
    for table in 0..N_TABLES {
        let Some(counts) = tables.counts(table) else { continue };
        let hidden = if table == 0 { hidden_rules(tables) } else { 0 };
        let stats = TableStats {
            table_id: table,
            active_count: counts.active.saturating_sub(hidden),
            lookup_count: counts.lookups,
            matched_count: counts.matched,
        };
        stats.append(&features.of(tables, table), &mut replies, version);
    }
    Reply::Messages(replies.finish())
}

/// Rules of the first table that controllers do not see.
fn hidden_rules(tables: &Tables) -> u32 {
    let first = Criteria { table: 0, include_hidden: true, ..Criteria::all() };
    tables.select(&first).iter().filter(|rule| !rule.is_visible()).count() as u32
}

/// What is the same for all tables.
struct Common {
    flows: InstructionFeatures,
    match_fields: FieldSet,
    mask: FieldSet,
}

impl Common {
    fn new(version: Version) -> Self {
        let actions = action_types(version).iter().fold(0, |bits, (number, _)| bits | 1 << number);
        let set_fields = FieldSet::of(|field| field.has_oxm() && field.writable());
        let actions = ActionFeatures { actions, set_fields };
        let instructions = Instruction::ALL.iter();
        let instructions = instructions.fold(0, |bits, known| bits | 1 << known.number());
        Self {
            flows: InstructionFeatures {
                next_tables: [0; 4],
                instructions,
                write: actions,
                apply: actions,
            },
            match_fields: FieldSet::of(|field| field.has_oxm()),
            mask: FieldSet::of(|field| field.has_oxm() && field.maskable()),
        }
    }

    /// What a table can do.
    fn of(&self, tables: &Tables, table: u8) -> TableFeatures {
        let mut flows = self.flows;
        (table + 1..N_TABLES).for_each(|next| flows.add_next_table(next));
        if table + 1 >= N_TABLES {
            flows.instructions &= !(1 << Instruction::GotoTable.number());
        }
        TableFeatures {
            table_id: table,
            command: TableFeaturesCommand::Replace,
            name: tables.name(table).into_bytes(),
            metadata_match: u64::MAX,
            metadata_write: u64::MAX,
            miss_config: tables.miss(table),
            eviction: Some(false),
            vacancy_events: Some(false),
            max_entries: tables.limit(table).unwrap_or(MAX_ENTRIES).min(MAX_ENTRIES),
            any_properties: true,
            nonmiss: flows,
            miss: flows,
            match_fields: self.match_fields,
            mask: self.mask,
            wildcard: self.match_fields,
        }
    }
}

/// Answers a request for the features of tables, which may come in several `parts` and ask for
/// changes first.
///
/// # Errors
/// The error that Open vSwitch replies with, and the index of the part to which it does.
pub(crate) fn table_features(
    switch: &Switch,
    parts: &[Raw<'_>],
    version: Version,
) -> Result<Reply, (usize, OfError)> {
    let Some((last, before)) = parts.split_last() else { return Ok(Reply::none()) };
    let tables = switch.tables();
    let common = Common::new(version);
    if !before.is_empty() || !last.body.is_empty() {
        let wanted = read_features(parts, version)?;
        change_features(tables, &common, wanted).map_err(|error| (before.len(), error))?;
    }
    let kind = Kind::TableFeaturesStatsReply13;
    let mut replies = Replies::new(kind, version, last.header.xid);
    for table in 0..N_TABLES {
        common.of(tables, table).append(&mut replies, version);
    }
    Ok(Reply::Messages(replies.finish()))
}

/// The features that a request asks for, by table, and what it is to do.
type Wanted = (TableFeaturesCommand, BTreeMap<u8, TableFeatures>);

fn read_features(parts: &[Raw<'_>], version: Version) -> Result<Wanted, (usize, OfError)> {
    let mut command = None;
    let mut wanted = BTreeMap::new();
    for (index, part) in parts.iter().enumerate() {
        let features = TableFeatures::decode(part, version, false);
        for features in features.map_err(|error| (index, error))? {
            command.get_or_insert(features.command);
            let table = features.table_id;
            if wanted.insert(table, features).is_some() {
                info!(target: "ofproto", limited = true, "duplicate table {table}");
                return Err((index, OfError::TableFeaturesDupTable));
            }
        }
    }
    Ok((command.unwrap_or_default(), wanted))
}

/// Changes what may be changed of tables: their names. All else must be asked for as it is, or
/// less.
fn change_features(
    tables: &Tables,
    common: &Common,
    (command, mut wanted): Wanted,
) -> Result<(), OfError> {
    if wanted.is_empty() {
        return Ok(());
    }
    if wanted.contains_key(&TABLE_INTERNAL) {
        info!(target: "ofproto", limited = true, "can't modify hidden table {TABLE_INTERNAL}");
        return Err(OfError::TableFeaturesEperm);
    }
    let known: Vec<TableFeatures> = (0..N_TABLES).map(|table| common.of(tables, table)).collect();
    match command {
        TableFeaturesCommand::Replace => {}
        TableFeaturesCommand::Modify => {
            for old in &known {
                let new = wanted.entry(old.table_id).or_insert_with(|| old.clone());
                if !new.any_properties {
                    new.copy_properties(old);
                }
            }
        }
        TableFeaturesCommand::Enable | TableFeaturesCommand::Disable => {
            return Err(OfError::TableFeaturesEperm);
        }
    }
    if let Some(missing) = (0..N_TABLES).find(|table| !wanted.contains_key(table)) {
        info!(target: "ofproto", limited = true, "can't disable table {missing}");
        return Err(OfError::TableFeaturesEperm);
    }
    let pairs = || known.iter().filter_map(|old| Some((old, wanted.get(&old.table_id)?)));
    if pairs().any(|(old, new)| old.max_entries != new.max_entries) {
        info!(target: "ofproto", limited = true, "can't change max_entries");
        return Err(OfError::TableFeaturesEperm);
    }
    for (old, new) in pairs() {
        let (table, name) = (old.table_id, String::from_utf8_lossy(&new.name));
        if !tables.may_set_name(table, &name) {
            info!(
                target: "ofproto", limited = true,
                "can't change name of table {table} to {name} because it is already set to {} via \
                 OVSDB",
                tables.name(table)
            );
            return Err(OfError::TableFeaturesEperm);
        }
        if !old.is_superset_of(new) {
            info!(
                target: "ofproto", limited = true,
                "can't increase table features for table {table}"
            );
            return Err(OfError::TableFeaturesEperm);
        }
    }
    for (old, new) in pairs() {
        tables.set_name(old.table_id, Some(&String::from_utf8_lossy(&new.name)));
    }
    Ok(())
}
