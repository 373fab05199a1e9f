//! Monitors: what clients are told of changes (RFC 7047 sections 4.1.5 and 4.1.6, and the
//! conditional monitors of ovsdb-server(7)).

use std::collections::BTreeMap;
use std::sync::Arc;

use bitflags::bitflags;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::condition::Condition;
use super::database::{Database, RowChange, Table, TableIndex};
use super::error::{Error, ErrorKind};
use super::object::ObjectReader;
use super::row::Row;
use super::schema::{ColumnIndex, ColumnSchema, TableSchema, UUID_COLUMN};

bitflags! {
    /// Kinds of changes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Select: u8 {
        const INITIAL = 1;
        const INSERT = 2;
        const DELETE = 4;
        const MODIFY = 8;
    }
}

/// The request that made a monitor, which decides the form of its updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `monitor`.
    Plain,
    /// `monitor_cond`.
    Conditional,
    /// `monitor_cond_since`.
    Since,
}

impl Version {
    /// The method of the notifications.
    pub fn notification(self) -> &'static str {
        match self {
            Self::Plain => "update",
            Self::Conditional => "update2",
            Self::Since => "update3",
        }
    }
}

/// What is monitored of a table.
#[derive(Debug)]
struct MonitoredTable {
    /// The kinds that some column is monitored for.
    select: Select,
    columns: Vec<(ColumnIndex, Select)>,
    condition: Condition,
}

/// A row before and after the changes that the client was not yet told of.
type Pending = (Option<Arc<Row>>, Option<Arc<Row>>);

/// A monitor of one client.
#[derive(Debug)]
pub struct Monitor {
    version: Version,
    tables: BTreeMap<TableIndex, MonitoredTable>,
    pending: BTreeMap<(TableIndex, Uuid), Pending>,
}

/// The requests for one table: an array of them, or one alone.
fn requests(json: &Value) -> &[Value] {
    match json {
        Value::Array(requests) => requests,
        request => std::slice::from_ref(request),
    }
}

fn no_table(name: &str) -> Error {
    Error::new(ErrorKind::Syntax, format!("no table named {name}"))
}

impl MonitoredTable {
    fn from_json(json: &Value, schema: &TableSchema, version: Version) -> Result<Self, Error> {
        let mut table =
            Self { select: Select::empty(), columns: Vec::new(), condition: Condition::default() };
        for request in requests(json) {
            table.add(request, schema, version)?;
        }
        table.columns.sort_by_key(|(column, _)| *column);
        Ok(table)
    }

    fn add(&mut self, json: &Value, schema: &TableSchema, version: Version) -> Result<(), Error> {
        let name = schema.name();
        let mut reader = ObjectReader::new(json, format_args!("table {name}"))?;
        let clauses = match version {
            Version::Plain => None,
            _ => reader.optional_as("where", Value::as_array)?,
        };
        let columns_json = reader.optional_as("columns", |json| json.is_array().then_some(json))?;
        let select = reader.optional_as("select", |json| json.is_object().then_some(json))?;
        reader.finish()?;
        let select = match select {
            None => Select::all(),
            Some(json) => select_from_json(json, name)?,
        };
        let columns = match columns_json {
            Some(json) => columns_from_json(json, schema)?,
            None => (UUID_COLUMN + 1..schema.columns().len()).collect(),
        };
        for column in columns {
            if self.columns.iter().any(|(found, _)| *found == column) {
                let name = schema.columns().get(column).map_or("", |column| &column.name);
                let problem = format!("column {name} mentioned more than once");
                return Err(Error::syntax(columns_json.unwrap_or(json), problem));
            }
            self.columns.push((column, select));
        }
        self.select |= select;
        if let Some(clauses) = clauses {
            self.condition = Condition::from_json(clauses, schema, None)?;
        }
        Ok(())
    }

    /// The columns that changes of a kind are sent for, with their places and names.
    fn columns<'a>(
        &'a self,
        schema: &'a TableSchema,
        kind: Select,
    ) -> impl Iterator<Item = (ColumnIndex, &'a ColumnSchema)> {
        self.columns
            .iter()
            .filter(move |(_, select)| select.contains(kind))
            .filter_map(|(index, _)| Some((*index, schema.columns().get(*index)?)))
    }

    fn values(&self, schema: &TableSchema, kind: Select, row: &Row) -> Map<String, Value> {
        self.columns(schema, kind)
            .map(|(index, column)| (column.name.clone(), row[index].to_json()))
            .collect()
    }

    /// The kind of a change as a client sees it that knows only rows which meet the conditions.
    fn kind(old: Option<&Row>, new: Option<&Row>, initial: bool) -> Option<Select> {
        match (old, new) {
            (None, Some(_)) if initial => Some(Select::INITIAL),
            (None, Some(_)) => Some(Select::INSERT),
            (Some(_), None) => Some(Select::DELETE),
            (Some(_), Some(_)) => Some(Select::MODIFY),
            (None, None) => None,
        }
    }

    /// What to tell of a change; `None` if nothing. The rows are `None` where the client does not
    /// (yet, or any more) know the row.
    fn row_update(
        &self,
        table: &Table,
        version: Version,
        old: Option<&Row>,
        new: Option<&Row>,
        initial: bool,
    ) -> Option<Value> {
        let schema = table.schema();
        let kind = Self::kind(old, new, initial).filter(|kind| self.select.contains(*kind))?;
        let is_changed = |column: ColumnIndex| match (old, new) {
            (Some(old), Some(new)) => old[column] != new[column],
            _ => true,
        };
        if kind == Select::MODIFY && !self.columns.iter().any(|(column, _)| is_changed(*column)) {
            return None;
        }
        Some(match version {
            Version::Plain => {
                let mut update = Map::new();
                if let Some(old) = old {
                    let changed: Map<_, _> = self
                        .columns(schema, kind)
                        .filter(|(index, _)| is_changed(*index))
                        .map(|(index, column)| (column.name.clone(), old[index].to_json()))
                        .collect();
                    update.insert("old".into(), Value::Object(changed));
                }
                if let Some(new) = new {
                    let values = self.values(schema, kind, new);
                    update.insert("new".into(), Value::Object(values));
                }
                Value::Object(update)
            }
            Version::Conditional | Version::Since => match (old, new) {
                (_, None) => json!({ "delete": null }),
                (Some(old), Some(new)) => {
                    let changed: Map<_, _> = self
                        .columns(schema, kind)
                        .filter(|(index, _)| is_changed(*index))
                        .map(|(index, column)| {
                            let diff = old[index].diff(&new[index], &column.column_type);
                            (column.name.clone(), diff.to_json())
                        })
                        .collect();
                    Value::from_iter([("modify", Value::Object(changed))])
                }
                (None, Some(new)) => {
                    let values: Map<_, _> = self
                        .columns(schema, kind)
                        .filter(|(index, _)| new[*index] != table.default()[*index])
                        .map(|(index, column)| (column.name.clone(), new[index].to_json()))
                        .collect();
                    let name = if initial { "initial" } else { "insert" };
                    Value::from_iter([(name, Value::Object(values))])
                }
            },
        })
    }
}

fn select_from_json(json: &Value, table: &str) -> Result<Select, Error> {
    let mut reader = ObjectReader::new(json, format_args!("table {table} select"))?;
    let mut select = Select::empty();
    for (name, kind) in [
        ("initial", Select::INITIAL),
        ("insert", Select::INSERT),
        ("delete", Select::DELETE),
        ("modify", Select::MODIFY),
    ] {
        select.set(kind, reader.optional_as(name, Value::as_bool)?.unwrap_or(true));
    }
    reader.finish()?;
    Ok(select)
}

fn columns_from_json(json: &Value, schema: &TableSchema) -> Result<Vec<ColumnIndex>, Error> {
    let malformed = || Error::syntax(json, "array of column names expected");
    let column = |name: &Value| {
        let name = name.as_str().ok_or_else(malformed)?;
        schema
            .column_index(name)
            .ok_or_else(|| Error::syntax(json, format!("{name} is not a valid column name")))
    };
    json.as_array().ok_or_else(malformed)?.iter().map(column).collect()
}

/// Updates by table and row, as they are sent.
#[derive(Default)]
struct Updates(Map<String, Value>);

impl Updates {
    fn add(&mut self, table: &str, uuid: Uuid, update: Value) {
        let rows = self.0.entry(table).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(rows) = rows {
            rows.insert(uuid.to_string(), update);
        }
    }
}

impl Monitor {
    /// Reads the requests of a monitor, by table.
    ///
    /// # Errors
    /// A syntax error, or an error in a condition.
    pub fn from_json(json: &Value, database: &Database, version: Version) -> Result<Self, Error> {
        let requests = json
            .as_object()
            .ok_or_else(|| Error::syntax(json, "monitor-requests must be object"))?;
        let mut tables = BTreeMap::new();
        for (name, request) in requests {
            let index = database.table_index(name).ok_or_else(|| no_table(name))?;
            let schema = database.table(index).schema();
            tables.insert(index, MonitoredTable::from_json(request, schema, version)?);
        }
        Ok(Self { version, tables, pending: BTreeMap::new() })
    }

    /// The form of the updates.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The rows that there are when the monitor starts.
    pub fn initial(&self, database: &Database) -> Value {
        let mut updates = Updates::default();
        for (index, monitored) in &self.tables {
            let table = database.table(*index);
            for (uuid, row) in table.rows() {
                if monitored.condition.any_true_for(row) {
                    let update = monitored.row_update(table, self.version, None, Some(row), true);
                    if let Some(update) = update {
                        updates.add(table.schema().name(), uuid, update);
                    }
                }
            }
        }
        Value::Object(updates.0)
    }

    /// Takes note of changes.
    pub fn record<'a>(&mut self, changes: impl IntoIterator<Item = &'a RowChange>) {
        for change in changes {
            if !self.tables.contains_key(&change.table) {
                continue;
            }
            let key = (change.table, change.uuid);
            let (old, new) = (change.old.clone(), change.new.clone());
            match self.pending.get_mut(&key) {
                None => {
                    self.pending.insert(key, (old, new));
                }
                Some((None, _)) if new.is_none() => {
                    // Came and went without being told of.
                    self.pending.remove(&key);
                }
                Some(pending) => pending.1 = new,
            }
        }
    }

    /// What the client has to be told of since it was told last; `None` if nothing.
    pub fn take_update(&mut self, database: &Database) -> Option<Value> {
        let mut updates = Updates::default();
        for ((index, uuid), (old, new)) in std::mem::take(&mut self.pending) {
            let Some(monitored) = self.tables.get(&index) else { continue };
            let table = database.table(index);
            let known = |row: &Option<Arc<Row>>| {
                row.clone().filter(|row| monitored.condition.any_true_for(row))
            };
            let (old, new) = (known(&old), known(&new));
            let update =
                monitored.row_update(table, self.version, old.as_deref(), new.as_deref(), false);
            if let Some(update) = update {
                updates.add(table.schema().name(), uuid, update);
            }
        }
        (!updates.0.is_empty()).then_some(Value::Object(updates.0))
    }

    /// Changes conditions. There must be no update left to take. Gives the update that tells of
    /// rows which meet only the old or only the new condition, if there are any.
    ///
    /// # Errors
    /// A syntax error, or an error in a condition; the monitor is as before then.
    pub fn change_conditions(
        &mut self,
        json: &Value,
        database: &Database,
    ) -> Result<Option<Value>, Error> {
        let requests = json.as_object().ok_or_else(|| {
            Error::new(ErrorKind::Syntax, "monitor-cond-change-requests must be object")
        })?;
        let mut conditions = Vec::new();
        for (name, request) in requests {
            let index = database.table_index(name).ok_or_else(|| no_table(name))?;
            if !self.tables.contains_key(&index) {
                let problem = format!("no table named {name} in monitor session");
                return Err(Error::new(ErrorKind::Syntax, problem));
            }
            let requests = request.as_array().ok_or_else(|| {
                let problem = format!("table {name} no monitor-cond-change JSON array");
                Error::new(ErrorKind::Syntax, problem)
            })?;
            for request in requests {
                let condition = condition_change(request, database.table(index).schema())?;
                conditions.push((index, condition));
            }
        }
        if self.version == Version::Plain {
            return Ok(None);
        }
        let mut updates = Updates::default();
        for (index, condition) in conditions {
            if let Some(monitored) = self.tables.get_mut(&index) {
                let old = std::mem::replace(&mut monitored.condition, condition);
                let table = database.table(index);
                monitored.tell_difference(&old, table, self.version, &mut updates);
            }
        }
        Ok((!updates.0.is_empty()).then_some(Value::Object(updates.0)))
    }
}

impl MonitoredTable {
    /// Tells of the rows that meet only the condition `before` or only the one in force.
    fn tell_difference(
        &self,
        before: &Condition,
        table: &Table,
        version: Version,
        updates: &mut Updates,
    ) {
        for (uuid, row) in table.rows() {
            let old = before.any_true_for(row).then_some(&**row);
            let new = self.condition.any_true_for(row).then_some(&**row);
            if let Some(update) = self.row_update(table, version, old, new, false) {
                updates.add(table.schema().name(), uuid, update);
            }
        }
    }
}

fn condition_change(json: &Value, schema: &TableSchema) -> Result<Condition, Error> {
    let mut reader = ObjectReader::new(json, format_args!("table {}", schema.name()))?;
    let columns = reader.optional_as("columns", Value::as_array)?;
    let clauses = reader.optional_as("where", Value::as_array)?;
    reader.finish()?;
    if columns.is_some() {
        return Err(Error::syntax(json, "changing columns is unsupported"));
    }
    Condition::from_json(clauses.map(Vec::as_slice).unwrap_or_default(), schema, None)
}
