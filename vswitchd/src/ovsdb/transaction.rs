//! Transactions: changes that are collected over a database and then checked together.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::atom::AtomType;
use super::column_type::Strength;
use super::condition::Condition;
use super::database::{Changes, Database, ReferenceColumn, RowChange, Table, TableIndex};
use super::datum::Datum;
use super::error::{Error, ErrorKind};
use super::row::Row;
use super::schema::{ColumnIndex, TableSchema};

/// A row that the transaction touched: before it (`None` if it inserts the row), and now (`None`
/// if it deletes the row). One of the two is there.
#[derive(Clone, Debug)]
struct Change {
    old: Option<Arc<Row>>,
    new: Option<Arc<Row>>,
}

/// Changes over a database that nobody else sees.
#[derive(Clone, Debug)]
pub struct Transaction<'a> {
    database: &'a Database,
    /// The touched rows of each table.
    changes: Vec<BTreeMap<Uuid, Change>>,
    /// The rows of each table that came to have a key in an index which they did not have before.
    rekeyed: Vec<BTreeSet<Uuid>>,
    comment: Option<String>,
}

/// Counts of strong references, by the row that is referenced.
type References = HashMap<(TableIndex, Uuid), usize>;

impl<'a> Transaction<'a> {
    /// A transaction that changes nothing.
    pub fn new(database: &'a Database) -> Self {
        let tables = database.tables().len();
        Self {
            database,
            changes: vec![BTreeMap::new(); tables],
            rekeyed: vec![BTreeSet::new(); tables],
            comment: None,
        }
    }

    /// The database as it is without this transaction.
    pub fn database(&self) -> &'a Database {
        self.database
    }

    /// Adds a line to the comment.
    pub fn add_comment(&mut self, text: &str) {
        match &mut self.comment {
            None => self.comment = Some(text.to_owned()),
            Some(comment) => {
                comment.push('\n');
                comment.push_str(text);
            }
        }
    }

    /// A row as it is within the transaction.
    pub fn row(&self, table: TableIndex, uuid: Uuid) -> Option<&Arc<Row>> {
        match self.changes[table].get(&uuid) {
            Some(change) => change.new.as_ref(),
            None => self.database.table(table).row(uuid),
        }
    }

    /// The rows of a table as they are within the transaction.
    fn rows(&self, table: TableIndex) -> impl Iterator<Item = (Uuid, &Arc<Row>)> {
        let changes = &self.changes[table];
        let untouched =
            self.database.table(table).rows().filter(|(uuid, _)| !changes.contains_key(uuid));
        let touched =
            changes.iter().filter_map(|(uuid, change)| Some((*uuid, change.new.as_ref()?)));
        untouched.chain(touched)
    }

    /// The rows of a table for which every clause of the condition is true.
    pub fn query(&self, table: TableIndex, condition: &Condition) -> Vec<(Uuid, Arc<Row>)> {
        let matching = |(uuid, row): (Uuid, &Arc<Row>)| {
            condition.all_true_for(row).then(|| (uuid, Arc::clone(row)))
        };
        if let Some(uuid) = condition.uuid() {
            return self
                .row(table, uuid)
                .and_then(|row| matching((uuid, row)))
                .into_iter()
                .collect();
        }
        let base = self.database.table(table);
        for (index, columns) in base.schema().indexes().iter().enumerate() {
            let key: Option<Vec<_>> =
                columns.iter().map(|column| condition.equal_to(*column).cloned()).collect();
            if let Some(key) = key {
                // The index knows rows by the keys they had before the transaction.
                let found = base.find(index, &key);
                let rekeyed =
                    self.rekeyed[table].iter().copied().filter(|uuid| found != Some(*uuid));
                let candidates = found.into_iter().chain(rekeyed);
                return candidates
                    .filter_map(|uuid| matching((uuid, self.row(table, uuid)?)))
                    .collect();
            }
        }
        self.rows(table).filter_map(matching).collect()
    }

    /// Whether a row can be inserted with this UUID: none has it, and the transaction deleted
    /// none that had it.
    pub fn may_insert(&self, table: TableIndex, uuid: Uuid) -> bool {
        self.row(table, uuid).is_none() && !self.changes[table].contains_key(&uuid)
    }

    /// Inserts a row, and sets its `_uuid` and `_version`.
    pub fn insert(&mut self, table: TableIndex, uuid: Uuid, mut row: Row) {
        row.set_uuid(uuid);
        row.set_new_version();
        self.changes[table].insert(uuid, Change { old: None, new: Some(Arc::new(row)) });
        self.rekeyed[table].insert(uuid);
    }

    /// Has `change` change a row. `None` if there is no such row within the transaction.
    pub fn modify<T>(
        &mut self,
        table: TableIndex,
        uuid: Uuid,
        change: impl FnOnce(&mut Row) -> T,
    ) -> Option<T> {
        let base = self.database.table(table);
        let changes = &mut self.changes[table];
        let entry = match changes.entry(uuid) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let row = Some(Arc::clone(base.row(uuid)?));
                entry.insert(Change { old: row.clone(), new: row })
            }
        };
        let row = Arc::make_mut(entry.new.as_mut()?);
        let result = change(row);
        let mut indexed = base.schema().indexes().iter().flatten();
        if entry.old.as_ref().is_some_and(|old| indexed.any(|column| old[*column] != row[*column]))
        {
            self.rekeyed[table].insert(uuid);
        }
        Some(result)
    }

    /// Deletes a row.
    pub fn delete(&mut self, table: TableIndex, uuid: Uuid) {
        match self.database.table(table).row(uuid) {
            Some(row) => {
                let change = Change { old: Some(Arc::clone(row)), new: None };
                self.changes[table].insert(uuid, change);
            }
            None => {
                self.changes[table].remove(&uuid);
            }
        }
    }

    /// Ends the transaction: deletes rows that nothing refers to any more and weak references
    /// to rows that do not exist, and checks what can only be checked at the end.
    ///
    /// # Errors
    /// A constraint violation or a referential integrity violation.
    pub fn prepare(mut self) -> Result<Changes, Error> {
        for changes in &mut self.changes {
            changes.retain(|_, change| change.old != change.new);
        }
        let mut references = self.count_references()?;
        self.check_deleted(&references)?;
        self.collect_garbage(&mut references);
        self.check_row_counts()?;
        self.purge_weak_references()?;
        self.check_indexes()?;
        let mut rows = Vec::new();
        for (table, changes) in self.changes.into_iter().enumerate() {
            for (uuid, mut change) in changes {
                if let (Some(old), Some(new)) = (&change.old, &mut change.new) {
                    // Purging weak references may have undone what the client did.
                    if old == new {
                        continue;
                    }
                    Arc::make_mut(new).set_new_version();
                }
                rows.push(RowChange { table, uuid, old: change.old, new: change.new });
            }
        }
        Ok(Changes { rows, references, comment: self.comment })
    }

    /// Counts strong references to the rows for which the count changed. References of a row to
    /// itself do not count.
    fn count_references(&self) -> Result<References, Error> {
        let mut counts: HashMap<(TableIndex, Uuid), isize> = HashMap::new();
        for (table, changes) in self.changes.iter().enumerate() {
            let base = self.database.table(table);
            for column in strong_columns(base) {
                for (uuid, change) in changes {
                    let value =
                        |row: &Option<Arc<Row>>| row.as_ref().map(|row| row[column.column].clone());
                    let (old, new) = (value(&change.old), value(&change.new));
                    let (gone, come) = match (old, new) {
                        (Some(old), Some(new)) if old == new => continue,
                        (Some(old), Some(new)) => {
                            (Some(old.subtract(&new)), Some(new.subtract(&old)))
                        }
                        values => values,
                    };
                    let targets = |datum: &Option<Datum>| -> Vec<_> {
                        datum
                            .iter()
                            .flat_map(|datum| column.targets(datum, Strength::Strong))
                            .filter(|(target, row)| (*target, *row) != (table, *uuid))
                            .collect()
                    };
                    for target in targets(&gone) {
                        *counts.entry(target).or_default() -= 1;
                    }
                    for target in targets(&come) {
                        self.check_target(base, column, *uuid, target)?;
                        *counts.entry(target).or_default() += 1;
                    }
                }
            }
        }
        Ok(counts
            .into_iter()
            .map(|((table, uuid), change)| {
                let before = self.database.table(table).references(uuid);
                ((table, uuid), before.saturating_add_signed(change))
            })
            .collect())
    }

    /// Checks that a new reference leads to a row, be it one that the transaction deletes, which
    /// has an error of its own.
    fn check_target(
        &self,
        from: &Table,
        column: &ReferenceColumn,
        uuid: Uuid,
        (table, target): (TableIndex, Uuid),
    ) -> Result<(), Error> {
        if self.changes[table].contains_key(&target)
            || self.database.table(table).row(target).is_some()
        {
            return Ok(());
        }
        let schema = from.schema();
        let name = column_name(schema, column.column);
        Err(Error::new(
            ErrorKind::ReferentialIntegrityViolation,
            format!(
                "Table {} column {name} row {uuid} references nonexistent row {target} in table \
                 {}.",
                schema.name(),
                self.database.table(table).schema().name(),
            ),
        ))
    }

    fn check_deleted(&self, references: &References) -> Result<(), Error> {
        for (table, changes) in self.changes.iter().enumerate() {
            for (uuid, _) in changes.iter().filter(|(_, change)| change.new.is_none()) {
                let count = self.reference_count(references, (table, *uuid));
                if count > 0 {
                    return Err(Error::new(
                        ErrorKind::ReferentialIntegrityViolation,
                        format!(
                            "cannot delete {} row {uuid} because of {count} remaining \
                             reference(s)",
                            self.database.table(table).schema().name()
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn reference_count(&self, references: &References, row: (TableIndex, Uuid)) -> usize {
        let before = || self.database.table(row.0).references(row.1);
        references.get(&row).copied().unwrap_or_else(before)
    }

    /// Deletes rows outside the root tables that have no references (any more), and then those
    /// that only they referred to.
    fn collect_garbage(&mut self, references: &mut References) {
        let touched = self
            .changes
            .iter()
            .enumerate()
            .flat_map(|(table, changes)| changes.keys().map(move |uuid| (table, *uuid)));
        let mut suspects: Vec<_> = touched.chain(references.keys().copied()).collect();
        while let Some((table, uuid)) = suspects.pop() {
            let base = self.database.table(table);
            if base.schema().is_root() || self.reference_count(references, (table, uuid)) > 0 {
                continue;
            }
            let Some(row) = self.row(table, uuid).cloned() else { continue };
            self.delete(table, uuid);
            for column in strong_columns(base) {
                for target in column.targets(&row[column.column], Strength::Strong) {
                    if target == (table, uuid) {
                        continue;
                    }
                    let count = self.reference_count(references, target).saturating_sub(1);
                    references.insert(target, count);
                    suspects.push(target);
                }
            }
        }
    }

    fn check_row_counts(&self) -> Result<(), Error> {
        for (table, changes) in self.changes.iter().enumerate() {
            let base = self.database.table(table);
            let Some(limit) = base.schema().max_rows() else { continue };
            let inserted = changes.values().filter(|change| change.old.is_none()).count();
            let deleted = changes.values().filter(|change| change.new.is_none()).count();
            let count = base.row_count() + inserted - deleted;
            if inserted > 0 && count > limit as usize {
                return Err(Error::new(
                    ErrorKind::ConstraintViolation,
                    format!(
                        "transaction causes \"{}\" table to contain {count} rows, greater than \
                         the schema-defined limit of {limit} row(s)",
                        base.schema().name()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Takes weak references out that lead nowhere: those of touched rows, and those of other
    /// rows to rows that the transaction deletes.
    fn purge_weak_references(&mut self) -> Result<(), Error> {
        let deleted: Vec<HashSet<Uuid>> = self
            .changes
            .iter()
            .map(|changes| {
                let gone = changes.iter().filter(|(_, change)| change.new.is_none());
                gone.map(|(uuid, _)| *uuid).collect()
            })
            .collect();
        for table in 0..self.changes.len() {
            let base = self.database.table(table);
            for column in base.reference_columns() {
                if !column.has(Strength::Weak) {
                    continue;
                }
                let dangling: Vec<_> = self
                    .rows(table)
                    .filter_map(|(uuid, row)| {
                        let touched = self.changes[table].contains_key(&uuid);
                        let datum = &row[column.column];
                        let gone: Vec<_> = column
                            .targets(datum, Strength::Weak)
                            .filter(|(table, target)| match touched {
                                true => self.row(*table, *target).is_none(),
                                false => deleted[*table].contains(target),
                            })
                            .map(|(_, target)| target)
                            .collect();
                        (!gone.is_empty()).then_some((uuid, gone))
                    })
                    .collect();
                for (uuid, gone) in dangling {
                    self.purge(table, uuid, column, &gone)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the weak references to the rows `gone` out of a column of a row.
    fn purge(
        &mut self,
        table: TableIndex,
        uuid: Uuid,
        column: &ReferenceColumn,
        gone: &[Uuid],
    ) -> Result<(), Error> {
        let schema = self.database.table(table).schema();
        let Some(row) = self.row(table, uuid) else { return Ok(()) };
        let old = &row[column.column];
        let weak = |reference: Option<(TableIndex, Strength)>| {
            reference.is_some_and(|(_, strength)| strength == Strength::Weak)
        };
        let (by_key, by_value) = (weak(column.key), weak(column.value));
        let new = old.retain(|key, value| {
            let leads_nowhere = |by: bool, atom: Option<&super::atom::Atom>| {
                by && atom.and_then(|atom| atom.as_uuid()).is_some_and(|uuid| gone.contains(&uuid))
            };
            !leads_nowhere(by_key, Some(key)) && !leads_nowhere(by_value, value)
        });
        let column_schema = schema.columns().get(column.column);
        if column_schema.is_some_and(|schema| new.len() < schema.column_type.min() as usize) {
            let name = column_name(schema, column.column);
            let table_name = schema.name();
            let inserted = self.database.table(table).row(uuid).is_none();
            let problem = if inserted && gone.contains(&Uuid::nil()) {
                format!(
                    "Weak reference column \"{name}\" in \"{table_name}\" row {uuid} (inserted \
                     within this transaction) contained all-zeros UUID (probably as the default \
                     value for this column) but deleting this value caused a constraint volation \
                     because this column is not allowed to be empty."
                )
            } else {
                format!(
                    "Deletion of {} weak reference(s) to deleted (or never-existing) rows from \
                     column \"{name}\" in \"{table_name}\" row {uuid} {}caused this column to \
                     become empty, but constraints on this column disallow an empty column.",
                    old.len() - new.len(),
                    if inserted { "(inserted within this transaction) " } else { "" }
                )
            };
            return Err(Error::new(ErrorKind::ConstraintViolation, problem));
        }
        self.modify(table, uuid, |row| row.set(column.column, new));
        Ok(())
    }

    fn check_indexes(&self) -> Result<(), Error> {
        for (table, changes) in self.changes.iter().enumerate() {
            let base = self.database.table(table);
            for (index, columns) in base.schema().indexes().iter().enumerate() {
                let mut keys: HashMap<Vec<Datum>, Uuid> = HashMap::new();
                for (uuid, change) in changes {
                    let Some(row) = &change.new else { continue };
                    let key = row.select(columns);
                    let untouched =
                        base.find(index, &key).filter(|found| !changes.contains_key(found));
                    if let Some(other) = untouched.or_else(|| keys.get(&key).copied()) {
                        return Err(self.duplicate(table, columns, other, *uuid));
                    }
                    keys.insert(key, *uuid);
                }
            }
        }
        Ok(())
    }

    /// The error about two rows that have the same values in an index.
    fn duplicate(&self, table: TableIndex, index: &[ColumnIndex], a: Uuid, b: Uuid) -> Error {
        let schema = self.database.table(table).schema();
        // In an order that does not depend on the UUIDs, which are random.
        let sort_key = |uuid: &Uuid| {
            let is_uuid = |base: Option<&super::column_type::BaseType>| {
                base.is_some_and(|base| base.atom_type() == AtomType::Uuid)
            };
            let comparable: Vec<_> = schema
                .own_columns()
                .filter(|(_, column)| {
                    let column_type = &column.column_type;
                    !is_uuid(Some(column_type.key())) && !is_uuid(column_type.value())
                })
                .map(|(column, _)| column)
                .collect();
            self.row(table, *uuid).map(|row| row.select(&comparable))
        };
        let (first, second) = if sort_key(&a) < sort_key(&b) { (b, a) } else { (a, b) };
        let names: Vec<_> =
            schema.selected(index).map(|column| format!("\"{}\"", column.name)).collect();
        let values = |row: &Row| -> String {
            english_list(&row.select(index).iter().map(Datum::to_string).collect::<Vec<_>>())
        };
        let history = |uuid: Uuid| {
            let change = self.changes[table].get(&uuid);
            match change.map(|change| (&change.old, &change.new)) {
                None | Some((_, None)) => "existed in the database before this transaction and \
                                           was not modified by the transaction."
                    .to_owned(),
                Some((None, _)) => "was inserted by this transaction.".to_owned(),
                Some((Some(old), Some(new))) if old.select(index) == new.select(index) => {
                    "existed in the database before this transaction, which modified some of the \
                     row's columns but not any columns in this index."
                        .to_owned()
                }
                Some((Some(old), _)) => format!(
                    "had the following index values before the transaction: {}.",
                    values(old)
                ),
            }
        };
        let problem = format!(
            "Transaction causes multiple rows in \"{}\" table to have identical values ({}) for \
             index on column{} {}.  First row, with UUID {first}, {}  Second row, with UUID \
             {second}, {}",
            schema.name(),
            self.row(table, first).map(|row| values(row)).unwrap_or_default(),
            if names.len() > 1 { "s" } else { "" },
            english_list(&names),
            history(first),
            history(second),
        );
        Error::new(ErrorKind::ConstraintViolation, problem)
    }
}

fn strong_columns(table: &Table) -> impl Iterator<Item = &ReferenceColumn> {
    table.reference_columns().iter().filter(|column| column.has(Strength::Strong))
}

fn column_name(schema: &TableSchema, column: ColumnIndex) -> &str {
    schema.columns().get(column).map_or("", |column| &column.name)
}

/// `a`, `a and b`, or `a, b, and c`.
fn english_list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [a, b] => format!("{a} and {b}"),
        [head @ .., last] => format!("{}, and {last}", head.join(", ")),
    }
}

#[cfg(test)]
mod tests;
