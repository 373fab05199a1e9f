//! Changes to a database, and the operations (RFC 7047 section 5.2) that make them.
//!
//! Only what differs from the copy is sent, so that an owner can write all its columns each time
//! and an idle switch still sends nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tracing::warn;
use uuid::Uuid;

use super::cache::{Cache, Table};
use crate::ovsdb::atom::{Atom, parse_uuid};
use crate::ovsdb::datum::Datum;

/// Changes that happen together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    comments: Vec<String>,
    rows: BTreeMap<(String, Uuid), Change>,
    increment: Option<Increment>,
}

/// What happens to one row.
#[derive(Clone, Debug, Default)]
struct Change {
    kind: Kind,
    /// Columns that get a new value.
    set: BTreeMap<String, Datum>,
    /// Columns that gain elements.
    insert: BTreeMap<String, Datum>,
    /// Columns that lose elements.
    delete: BTreeMap<String, Datum>,
    /// Columns whose values must not have changed meanwhile.
    verify: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// The row exists.
    #[default]
    Update,
    /// The row is new.
    Insert,
    /// The row goes away.
    Delete,
}

#[derive(Clone, Debug)]
struct Increment {
    table: String,
    row: Uuid,
    column: String,
}

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The database has all these values already; nothing was sent.
    Unchanged,
    /// The changes are made.
    Success {
        /// UUIDs of new rows, by those that [`Transaction::insert`] gave.
        inserted: BTreeMap<Uuid, Uuid>,
        /// The incremented value, if there was one to increment.
        incremented: Option<i64>,
    },
    /// An `abort` operation ended the transaction.
    Aborted,
    /// The database changed meanwhile, or the connection is down: compute the transaction again.
    TryAgain,
    /// Another client holds the lock.
    NotLocked,
    /// The server refuses the changes, with this error.
    Error(String),
}

/// What to send, and how to understand the reply.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) operations: Vec<Value>,
    pub(super) expected: Expected,
}

/// Which results of a transaction are of interest, by their places in the reply.
#[derive(Debug, Default)]
pub(super) struct Expected {
    inserted: Vec<(usize, Uuid)>,
    incremented: Option<(usize, String)>,
}

impl Transaction {
    /// No changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line to what the database's log says about the transaction.
    pub fn comment(&mut self, text: &str) {
        self.comments.push(text.to_owned());
    }

    /// Adds a row. The UUID stands for it in this transaction; the server chooses another one.
    pub fn insert(&mut self, table: &str) -> Uuid {
        let uuid = Uuid::new_v4();
        self.change(table, uuid).kind = Kind::Insert;
        uuid
    }

    /// Deletes a row. One of a table that is no root goes when nothing refers to it any more.
    pub fn delete(&mut self, table: &str, row: Uuid) {
        self.change(table, row).kind = Kind::Delete;
    }

    /// Gives a column a new value.
    pub fn set(&mut self, table: &str, row: Uuid, column: &str, value: impl Into<Datum>) {
        self.change(table, row).set.insert(column.to_owned(), value.into());
    }

    /// Adds elements to a set or pairs to a map, whatever else is in there.
    pub fn insert_elements(&mut self, table: &str, row: Uuid, column: &str, elements: Datum) {
        let insert = &mut self.change(table, row).insert;
        let all = insert.get(column).map(|earlier| elements.union(earlier));
        insert.insert(column.to_owned(), all.unwrap_or(elements));
    }

    /// Removes elements from a set, or pairs with these keys from a map.
    pub fn delete_elements(&mut self, table: &str, row: Uuid, column: &str, keys: Datum) {
        let delete = &mut self.change(table, row).delete;
        let all = delete.get(column).map(|earlier| keys.union(earlier));
        delete.insert(column.to_owned(), all.unwrap_or(keys));
    }

    /// Makes the transaction fail with [`Outcome::TryAgain`] if the column no longer has the value
    /// that the copy has.
    pub fn verify(&mut self, table: &str, row: Uuid, column: &str) {
        self.change(table, row).verify.insert(column.to_owned());
    }

    /// Adds 1 to an integer column if anything else changes, and reports the sum.
    pub fn increment(&mut self, table: &str, row: Uuid, column: &str) {
        self.increment = Some(Increment { table: table.into(), row, column: column.into() });
    }

    fn change(&mut self, table: &str, row: Uuid) -> &mut Change {
        self.rows.entry((table.to_owned(), row)).or_default()
    }

    /// The operations that turn the content of `cache` into what is wanted, `None` if there are
    /// none. They assert that the client holds `lock`, if one is given.
    pub(super) fn compile(&self, cache: &Cache, lock: Option<&str>) -> Option<Compiled> {
        let writer = Writer {
            new_rows: self
                .rows
                .iter()
                .filter(|(_, change)| change.kind == Kind::Insert)
                .map(|((_, uuid), _)| *uuid)
                .collect(),
        };
        let mut operations = Vec::new();
        let mut expected = Expected::default();
        // A table that the database lacks cannot be changed, nor could the owner read it.
        let rows: Vec<_> = self
            .rows
            .iter()
            .filter_map(|((name, uuid), change)| Some((cache.table(name)?, *uuid, change)))
            .collect();
        for (table, uuid, change) in &rows {
            operations.extend(writer.verification(table, *uuid, change));
        }
        let conditions = operations.len();
        for (table, uuid, change) in &rows {
            writer.changes(table, *uuid, change, &mut operations, &mut expected);
        }
        if operations.len() == conditions {
            return None;
        }
        if let Some(Increment { table, row, column }) = &self.increment {
            let row = writer.where_is(*row);
            operations.push(json!({
                "op": "mutate", "table": table, "where": row, "mutations": [[column, "+=", 1]]
            }));
            expected.incremented = Some((operations.len(), column.clone()));
            operations.push(json!({
                "op": "select", "table": table, "where": row, "columns": [column]
            }));
        }
        if !self.comments.is_empty() {
            operations.push(json!({"op": "comment", "comment": self.comments.join("\n")}));
        }
        if let Some(lock) = lock {
            operations.push(json!({"op": "assert", "lock": lock}));
        }
        Some(Compiled { operations, expected })
    }
}

/// Writes operations of a transaction that inserts some rows.
struct Writer {
    new_rows: BTreeSet<Uuid>,
}

impl Writer {
    /// `wait` operations that fail if the database is not what the copy says.
    fn verification(&self, table: &Table, uuid: Uuid, change: &Change) -> Vec<Value> {
        let name = table.schema.name();
        let mut operations = Vec::new();
        if let Some(row) = table.rows.get(&uuid) {
            let values: Map<_, _> = change
                .verify
                .iter()
                .filter_map(|column| Some((column.clone(), table.value(row, column)?.to_json())))
                .collect();
            if !values.is_empty() {
                let columns: Vec<_> = values.keys().collect();
                operations.push(json!({
                    "op": "wait", "table": name, "timeout": 0, "where": self.where_is(uuid),
                    "columns": columns, "until": "==", "rows": [values]
                }));
            }
        }
        // Two clients that both find no row of a table with one row at most: only one may win.
        if change.kind == Kind::Insert
            && table.schema.max_rows() == Some(1)
            && table.rows.is_empty()
        {
            operations.push(json!({
                "op": "wait", "table": name, "timeout": 0, "where": [], "until": "==", "rows": []
            }));
        }
        operations
    }

    fn changes(
        &self,
        table: &Table,
        uuid: Uuid,
        change: &Change,
        operations: &mut Vec<Value>,
        expected: &mut Expected,
    ) {
        let name = table.schema.name();
        let known = |column: &&String| table.schema.column(column).is_some();
        let old = table.rows.get(&uuid);
        let old_value = |column: &str| old.and_then(|row| table.value(row, column));
        if change.kind == Kind::Delete {
            if table.schema.is_root() {
                let row = self.where_is(uuid);
                operations.push(json!({"op": "delete", "table": name, "where": row}));
            }
            return;
        }
        let row: Map<_, _> = change
            .set
            .iter()
            .filter(|(column, value)| known(column) && old_value(column) != Some(value))
            .map(|(column, value)| (column.clone(), self.datum(value)))
            .collect();
        if change.kind == Kind::Insert {
            expected.inserted.push((operations.len(), uuid));
            operations.push(json!({
                "op": "insert", "table": name, "uuid-name": row_name(uuid), "row": row
            }));
        } else if !row.is_empty() {
            operations.push(json!({
                "op": "update", "table": name, "where": self.where_is(uuid), "row": row
            }));
        }

        let mut mutations = Vec::new();
        // A value that is set is what the elements are added to and removed from.
        let base = |column: &str| change.set.get(column).or_else(|| old_value(column));
        for (column, keys) in change.delete.iter().filter(|(column, _)| known(column)) {
            let there = |key: &&Atom| base(column).is_none_or(|datum| datum.contains_key(key));
            let keys: Vec<_> = keys.keys().filter(there).map(|key| self.atom(key)).collect();
            if !keys.is_empty() {
                mutations.push(json!([column, "delete", ["set", keys]]));
            }
        }
        for (column, elements) in change.insert.iter().filter(|(column, _)| known(column)) {
            let (replaced, elements) = missing(base(column), elements);
            if !replaced.is_empty() {
                let keys: Vec<_> = replaced.iter().map(|key| self.atom(key)).collect();
                mutations.push(json!([column, "delete", ["set", keys]]));
            }
            if !elements.is_empty() {
                mutations.push(json!([column, "insert", self.datum(&elements)]));
            }
        }
        if !mutations.is_empty() {
            operations.push(json!({
                "op": "mutate", "table": name, "where": self.where_is(uuid),
                "mutations": mutations
            }));
        }
    }

    fn where_is(&self, row: Uuid) -> Value {
        json!([["_uuid", "==", self.atom(&Atom::Uuid(row))]])
    }

    fn atom(&self, atom: &Atom) -> Value {
        match atom {
            Atom::Uuid(uuid) if self.new_rows.contains(uuid) => {
                json!(["named-uuid", row_name(*uuid)])
            }
            atom => atom.to_json(),
        }
    }

    fn datum(&self, datum: &Datum) -> Value {
        if datum.is_map() {
            let pair = |(key, value): &(Atom, Atom)| json!([self.atom(key), self.atom(value)]);
            json!(["map", datum.as_map().iter().map(pair).collect::<Vec<_>>()])
        } else if let Some(atom) = datum.as_scalar() {
            self.atom(atom)
        } else {
            let atoms: Vec<_> = datum.as_set().iter().map(|atom| self.atom(atom)).collect();
            json!(["set", atoms])
        }
    }
}

/// The part of `elements` that `base` lacks, and the keys in `base` that it gives other values.
fn missing(base: Option<&Datum>, elements: &Datum) -> (Vec<Atom>, Datum) {
    let Some(base) = base else { return (Vec::new(), elements.clone()) };
    let missing = elements.subtract(base);
    let replaced = missing.as_map().iter().map(|(key, _)| key);
    (replaced.filter(|key| base.contains_key(key)).cloned().collect(), missing)
}

/// The name that stands for a new row within a transaction.
fn row_name(uuid: Uuid) -> String {
    format!("row{}", uuid.simple())
}

impl Expected {
    /// What became of a transaction, by the results of its operations.
    pub(super) fn outcome(&self, results: &Value) -> Outcome {
        let Some(results) = results.as_array() else {
            warn!(target: "ovsdb_idl", limited = true, "reply to \"transact\" is not JSON array");
            return Outcome::Error(results.to_string());
        };
        let mut worst = Outcome::Success { inserted: BTreeMap::new(), incremented: None };
        for result in results {
            let outcome = match (result, result.get("error")) {
                // Operations after one that failed.
                (Value::Null, _) => Outcome::TryAgain,
                (Value::Object(_), None) => continue,
                (Value::Object(_), Some(Value::String(error))) => match error.as_str() {
                    "timed out" | "unknown database" => Outcome::TryAgain,
                    "not owner" => Outcome::NotLocked,
                    "aborted" => Outcome::Aborted,
                    "not allowed" => Outcome::Error(error_text(result)),
                    _ => {
                        let text = error_text(result);
                        warn!(target: "ovsdb_idl", limited = true, "transaction error: {text}");
                        Outcome::Error(text)
                    }
                },
                _ => {
                    warn!(target: "ovsdb_idl", limited = true, "malformed operation reply");
                    Outcome::Error(result.to_string())
                }
            };
            if severity(&outcome) > severity(&worst) {
                worst = outcome;
            }
        }
        match worst {
            Outcome::Success { .. } => self.success(results),
            worst => worst,
        }
    }

    fn success(&self, results: &[Value]) -> Outcome {
        let inserted = |(index, name): &(usize, Uuid)| {
            let uuid = results.get(*index)?.get("uuid")?.get(1)?.as_str()?;
            Some((*name, parse_uuid(uuid)?))
        };
        let rows: BTreeMap<_, _> = self.inserted.iter().filter_map(inserted).collect();
        let incremented = self.incremented.as_ref().and_then(|(index, column)| {
            results.get(*index)?.get("rows")?.get(0)?.get(column)?.as_i64()
        });
        if rows.len() < self.inserted.len() || incremented.is_some() != self.incremented.is_some() {
            let problem = "reply to \"transact\" lacks a result of an insert or select operation";
            warn!(target: "ovsdb_idl", limited = true, "{problem}");
            return Outcome::Error(problem.to_owned());
        }
        Outcome::Success { inserted: rows, incremented }
    }
}

/// Which of several outcomes of the operations is that of the transaction.
fn severity(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Unchanged | Outcome::Success { .. } => 0,
        Outcome::TryAgain => 1,
        Outcome::Aborted => 2,
        Outcome::NotLocked => 3,
        Outcome::Error(_) => 4,
    }
}

/// An error object as text: the error, then its details.
pub(super) fn error_text(error: &Value) -> String {
    let part = |name| error.get(name).and_then(Value::as_str);
    match (part("error"), part("details")) {
        (Some(error), Some(details)) => format!("{error}: {details}"),
        (Some(error), None) => error.to_owned(),
        _ => error.to_string(),
    }
}
