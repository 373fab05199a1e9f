//! The rows of a database.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use uuid::Uuid;

use super::column_type::Strength;
use super::datum::Datum;
use super::row::Row;
use super::schema::{ColumnIndex, DatabaseSchema, TableSchema};

/// The place of a table among the tables of its database, which are sorted by name.
pub type TableIndex = usize;

/// A row with what the database knows of it.
#[derive(Clone, Debug)]
struct Entry {
    row: Arc<Row>,
    /// Strong references from other rows.
    references: usize,
}

/// The references that a column makes, by key and by value.
#[derive(Clone, Debug)]
pub struct ReferenceColumn {
    /// The column.
    pub column: ColumnIndex,
    /// What the atoms of its set, or the keys of its map, refer to.
    pub key: Option<(TableIndex, Strength)>,
    /// What the values of its map refer to.
    pub value: Option<(TableIndex, Strength)>,
}

impl ReferenceColumn {
    /// The rows that `datum`, a value of this column, refers to with the given strength.
    pub fn targets(
        &self,
        datum: &Datum,
        strength: Strength,
    ) -> impl Iterator<Item = (TableIndex, Uuid)> {
        let of = |reference: Option<(TableIndex, Strength)>| {
            reference.filter(|(_, found)| *found == strength).map(|(table, _)| table)
        };
        let (key, value) = (of(self.key), of(self.value));
        let keys = key.into_iter().flat_map(move |table| {
            datum.keys().filter_map(move |atom| Some((table, atom.as_uuid()?)))
        });
        let values = value.into_iter().flat_map(move |table| {
            datum.values().filter_map(move |atom| Some((table, atom.as_uuid()?)))
        });
        keys.chain(values)
    }

    /// Whether the column has references of the given strength.
    pub fn has(&self, strength: Strength) -> bool {
        [self.key, self.value].into_iter().flatten().any(|(_, found)| found == strength)
    }
}

/// A table: its rows by UUID, and its indexes.
#[derive(Clone, Debug)]
pub struct Table {
    schema: TableSchema,
    default: Row,
    reference_columns: Vec<ReferenceColumn>,
    rows: BTreeMap<Uuid, Entry>,
    /// One for each index of the schema: the row that has the given values.
    indexes: Vec<HashMap<Vec<Datum>, Uuid>>,
}

impl Table {
    /// What the table holds.
    pub fn schema(&self) -> &TableSchema {
        &self.schema
    }

    /// The row that has every column at its default.
    pub fn default(&self) -> &Row {
        &self.default
    }

    /// The columns that refer to rows.
    pub fn reference_columns(&self) -> &[ReferenceColumn] {
        &self.reference_columns
    }

    /// The number of rows.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// A row.
    pub fn row(&self, uuid: Uuid) -> Option<&Arc<Row>> {
        self.rows.get(&uuid).map(|entry| &entry.row)
    }

    /// All rows, by UUID.
    pub fn rows(&self) -> impl Iterator<Item = (Uuid, &Arc<Row>)> {
        self.rows.iter().map(|(uuid, entry)| (*uuid, &entry.row))
    }

    /// How many strong references other rows have to a row.
    pub fn references(&self, uuid: Uuid) -> usize {
        self.rows.get(&uuid).map_or(0, |entry| entry.references)
    }

    /// The row that has `key` in the columns of the index numbered `index`.
    pub fn find(&self, index: usize, key: &[Datum]) -> Option<Uuid> {
        self.indexes.get(index)?.get(key).copied()
    }

    /// The keys of a row in each index.
    fn keys<'a>(schema: &'a TableSchema, row: &'a Row) -> impl Iterator<Item = Vec<Datum>> + 'a {
        schema.indexes().iter().map(|columns| row.select(columns))
    }
}

/// A change of one row.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// The table of the row.
    pub table: TableIndex,
    /// The row.
    pub uuid: Uuid,
    /// The row before; `None` if it was inserted.
    pub old: Option<Arc<Row>>,
    /// The row after; `None` if it was deleted.
    pub new: Option<Arc<Row>>,
}

/// Changes that are known to leave the database consistent, from
/// [`super::transaction::Transaction::prepare`].
#[derive(Debug, Default)]
pub struct Changes {
    /// The rows that changed, by table and UUID.
    pub rows: Vec<RowChange>,
    /// How many strong references there are then to rows for which this changed.
    pub references: HashMap<(TableIndex, Uuid), usize>,
    /// What the client says about the transaction.
    pub comment: Option<String>,
}

/// A database in memory.
#[derive(Clone, Debug)]
pub struct Database {
    schema: DatabaseSchema,
    tables: Vec<Table>,
}

impl Database {
    /// A database without rows.
    pub fn new(schema: DatabaseSchema) -> Self {
        let names: Vec<_> = schema.tables().map(TableSchema::name).collect();
        let resolve = |reference: Option<(&str, Strength)>| {
            let (table, strength) = reference?;
            names.binary_search(&table).ok().map(|index| (index, strength))
        };
        let tables = schema
            .tables()
            .map(|table| Table {
                default: Row::default_of(table),
                reference_columns: table
                    .own_columns()
                    .map(|(column, schema)| ReferenceColumn {
                        column,
                        key: resolve(schema.column_type.key().reference()),
                        value: resolve(
                            schema.column_type.value().and_then(|value| value.reference()),
                        ),
                    })
                    .filter(|column| column.key.is_some() || column.value.is_some())
                    .collect(),
                rows: BTreeMap::new(),
                indexes: vec![HashMap::new(); table.indexes().len()],
                schema: table.clone(),
            })
            .collect();
        Self { tables, schema }
    }

    /// What the database holds.
    pub fn schema(&self) -> &DatabaseSchema {
        &self.schema
    }

    /// The tables, by name.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// A table.
    ///
    /// # Panics
    /// `index` is not the place of a table of this database.
    pub fn table(&self, index: TableIndex) -> &Table {
        &self.tables[index]
    }

    /// The place of a table.
    pub fn table_index(&self, name: &str) -> Option<TableIndex> {
        self.tables.binary_search_by(|table| table.schema.name().cmp(name)).ok()
    }

    /// Makes changes that were prepared on this database as it is now.
    pub fn apply(&mut self, changes: &Changes) {
        // All old keys go before new ones come, since rows may have exchanged theirs.
        for change in &changes.rows {
            if let (Some(table), Some(old)) = (self.tables.get_mut(change.table), &change.old) {
                for (index, key) in table.indexes.iter_mut().zip(Table::keys(&table.schema, old)) {
                    index.remove(&key);
                }
            }
        }
        for change in &changes.rows {
            let Some(table) = self.tables.get_mut(change.table) else { continue };
            let Some(new) = &change.new else {
                table.rows.remove(&change.uuid);
                continue;
            };
            for (index, key) in table.indexes.iter_mut().zip(Table::keys(&table.schema, new)) {
                index.insert(key, change.uuid);
            }
            let references = table.references(change.uuid);
            table.rows.insert(change.uuid, Entry { row: Arc::clone(new), references });
        }
        for ((table, uuid), references) in &changes.references {
            if let Some(entry) =
                self.tables.get_mut(*table).and_then(|table| table.rows.get_mut(uuid))
            {
                entry.references = *references;
            }
        }
    }
}
