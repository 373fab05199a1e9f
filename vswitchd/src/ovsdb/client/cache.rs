//! A copy of the monitored part of a database.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tracing::warn;
use uuid::Uuid;

use super::monitored::MonitoredTable;
use super::row::Row;
use super::update::{self, Method, RowUpdate, UpdateError};
use crate::ovsdb::column_type::ColumnType;
use crate::ovsdb::datum::Datum;
use crate::ovsdb::schema::{DatabaseSchema, TableSchema};

/// The copy: tables, their rows, the columns of these.
#[derive(Clone, Debug)]
pub struct Cache {
    database: String,
    tables: BTreeMap<String, Table>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) schema: TableSchema,
    /// The monitored columns that the database has, by name.
    pub(super) columns: Vec<Column>,
    /// For each row a value for each of `columns`.
    pub(super) rows: BTreeMap<Uuid, Vec<Datum>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) column_type: ColumnType,
    alert: bool,
}

impl Table {
    fn new(schema: &TableSchema, monitored: &MonitoredTable, database: &str) -> Self {
        let mut columns = Vec::new();
        for column in &monitored.columns {
            match schema.column(&column.name) {
                Some((_, found)) => columns.push(Column {
                    name: column.name.clone(),
                    column_type: found.column_type.clone(),
                    alert: column.alert,
                }),
                None => warn!(
                    target: "ovsdb_idl",
                    "{} table in {database} database lacks {} column (database needs upgrade?)",
                    monitored.name,
                    column.name
                ),
            }
        }
        columns.sort_by(|a, b| a.name.cmp(&b.name));
        Self { schema: schema.clone(), columns, rows: BTreeMap::new() }
    }

    /// The value of a column in one of `rows`.
    pub(super) fn value<'a>(&self, row: &'a [Datum], column: &str) -> Option<&'a Datum> {
        let index = self.columns.binary_search_by(|found| found.name.as_str().cmp(column)).ok()?;
        row.get(index)
    }

    /// Whether two rows differ in a column whose changes are told.
    fn differs(&self, old: &[Datum], new: &[Datum]) -> bool {
        self.columns.iter().zip(old.iter().zip(new)).any(|(column, (a, b))| column.alert && a != b)
    }

    /// Takes an update of one row. Returns whether it is one to tell.
    fn apply(&mut self, uuid: Uuid, update: &RowUpdate<'_>) -> Result<bool, UpdateError> {
        let error = |action| UpdateError::Inconsistent {
            action,
            uuid,
            table: self.schema.name().to_owned(),
        };
        let old = self.rows.get(&uuid);
        let new = match (update, old) {
            (RowUpdate::Delete, Some(_)) => {
                self.rows.remove(&uuid);
                return Ok(true);
            }
            (RowUpdate::Delete, None) => return Err(error("delete missing")),
            (RowUpdate::Insert(values), None) => {
                let default = |column: &Column| Datum::default_of(&column.column_type);
                let defaults: Vec<_> = self.columns.iter().map(default).collect();
                self.changed(uuid, &defaults, values, false)
            }
            (RowUpdate::Insert(_), Some(_)) => return Err(error("add existing")),
            (RowUpdate::Replace(values), Some(old)) => self.changed(uuid, old, values, false),
            (RowUpdate::Difference(values), Some(old)) => self.changed(uuid, old, values, true),
            (RowUpdate::Replace(_) | RowUpdate::Difference(_), None) => {
                return Err(error("modify missing"));
            }
        };
        let tell = old.is_none_or(|old| self.differs(old, &new));
        self.rows.insert(uuid, new);
        Ok(tell)
    }

    /// A row with values that the server sent, which are differences if `difference`.
    fn changed(
        &self,
        uuid: Uuid,
        row: &[Datum],
        values: &Map<String, Value>,
        difference: bool,
    ) -> Vec<Datum> {
        let new_value = |column: &Column, old: &Datum| {
            let json = values.get(&column.name)?;
            let column_type = &column.column_type;
            let parsed = if difference {
                Datum::from_json(json, &column_type.any_number(), None)
                    .map(|difference| old.diff(&difference, column_type))
            } else {
                Datum::from_json(json, column_type, None)
            };
            parsed
                .inspect_err(|error| {
                    warn!(
                        target: "ovsdb_idl",
                        limited = true,
                        "error parsing column {} in row {uuid} in table {}: {error}",
                        column.name,
                        self.schema.name()
                    );
                })
                .ok()
        };
        self.columns
            .iter()
            .zip(row)
            .map(|(column, old)| new_value(column, old).unwrap_or_else(|| old.clone()))
            .collect()
    }
}

impl Cache {
    pub(super) fn new(database: &str) -> Self {
        Self { database: database.to_owned(), tables: BTreeMap::new() }
    }

    /// Learns what the monitored columns are, and warns of those that the database lacks. Returns
    /// whether they are what they were before; if not, the copy is emptied.
    pub(super) fn set_schema(
        &mut self,
        schema: &DatabaseSchema,
        monitored: &[MonitoredTable],
    ) -> bool {
        let mut tables = BTreeMap::new();
        for monitored in monitored {
            match schema.table(&monitored.name) {
                Some(table) => {
                    let table = Table::new(table, monitored, &self.database);
                    tables.insert(monitored.name.clone(), table);
                }
                None => warn!(
                    target: "ovsdb_idl",
                    "{} database lacks {} table (database needs upgrade?)",
                    self.database,
                    monitored.name
                ),
            }
        }
        let same = tables.len() == self.tables.len()
            && tables
                .iter()
                .zip(&self.tables)
                .all(|((_, new), (_, old))| new.schema == old.schema && new.columns == old.columns);
        if !same {
            self.tables = tables;
        }
        same
    }

    /// The `<monitor-requests>` for the monitored columns.
    pub(super) fn monitor_requests(&self) -> Value {
        let request = |table: &Table| {
            let columns: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
            json!([{"columns": columns}])
        };
        self.tables.iter().map(|(name, table)| (name.clone(), request(table))).collect()
    }

    /// Takes `<table-updates>`. Returns whether a change is to be told.
    pub(super) fn apply(&mut self, updates: &Value, method: Method) -> Result<bool, UpdateError> {
        let mut tell = false;
        for (name, update) in update::tables(updates)? {
            // The server sends nothing that was not asked for.
            let Some(table) = self.tables.get_mut(name) else { continue };
            for (uuid, row) in update::rows(update, method)? {
                tell |= table.apply(uuid, &row)?;
            }
        }
        Ok(tell)
    }

    /// Takes the whole content of the database. Returns whether a change is to be told, which
    /// here is that of any column: a server that was restarted lost the ephemeral ones, and their
    /// owner must write them again.
    pub(super) fn replace(&mut self, updates: &Value, method: Method) -> Result<bool, UpdateError> {
        let empty = |table: &Table| Table { rows: BTreeMap::new(), ..table.clone() };
        let tables = self.tables.iter().map(|(name, table)| (name.clone(), empty(table)));
        let mut new = Self { database: self.database.clone(), tables: tables.collect() };
        new.apply(updates, method)?;
        let tell = self.tables != new.tables;
        *self = new;
        Ok(tell)
    }

    /// Name of the database.
    pub fn database(&self) -> &str {
        &self.database
    }

    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    /// All rows of a table, by UUID. None if the table is not monitored or the database lacks it.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = Row<'_>> {
        self.table(table).into_iter().flat_map(|table| {
            table.rows.iter().map(|(uuid, values)| Row::new(*uuid, table, values))
        })
    }

    /// The number of values in the copy, over all tables, rows and columns.
    pub fn cells(&self) -> usize {
        self.tables.values().map(|table| table.rows.len() * table.columns.len()).sum()
    }

    /// The only row of a table that has at most one.
    pub fn singleton(&self, table: &str) -> Option<Row<'_>> {
        self.rows(table).next()
    }

    /// A row by UUID.
    pub fn row(&self, table: &str, uuid: Uuid) -> Option<Row<'_>> {
        let table = self.table(table)?;
        table.rows.get(&uuid).map(|values| Row::new(uuid, table, values))
    }

    /// The rows that a column of `row` refers to, by UUID. Rows that do not exist, or not yet, are
    /// left out.
    pub fn references<'a>(
        &'a self,
        row: Row<'a>,
        column: &str,
    ) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let value = row.datum(column);
        let table = row.column_type(column).and_then(|column_type| {
            [Some(column_type.key()), column_type.value()]
                .into_iter()
                .flatten()
                .find_map(|base| base.reference())
        });
        value.zip(table).into_iter().flat_map(move |(value, (table, _))| {
            value.uuids().filter_map(move |uuid| self.row(table, uuid))
        })
    }
}
