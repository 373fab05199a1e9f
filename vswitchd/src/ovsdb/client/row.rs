//! Typed views of rows. A column that the database lacks reads as its default: nothing, zero,
//! false or empty.

use uuid::Uuid;

use super::cache::{Column, Table};
use crate::ovsdb::atom::Atom;
use crate::ovsdb::column_type::ColumnType;
use crate::ovsdb::datum::Datum;

/// A row of the copy.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    uuid: Uuid,
    table: &'a Table,
    values: &'a [Datum],
}

impl<'a> Row<'a> {
    pub(super) fn new(uuid: Uuid, table: &'a Table, values: &'a [Datum]) -> Self {
        Self { uuid, table, values }
    }

    /// Its UUID.
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// Name of its table.
    pub fn table(&self) -> &'a str {
        self.table.schema.name()
    }

    /// A column's value; `None` if the column is not monitored or the database lacks it.
    pub fn datum(&self, column: &str) -> Option<&'a Datum> {
        self.table.value(self.values, column)
    }

    pub(super) fn column_type(&self, column: &str) -> Option<&'a ColumnType> {
        let is_it = |found: &&Column| found.name == column;
        self.table.columns.iter().find(is_it).map(|column| &column.column_type)
    }

    fn atoms(&self, column: &str) -> &'a [Atom] {
        self.datum(column).map(Datum::as_set).unwrap_or_default()
    }

    /// The first string of a column.
    pub fn optional_string(&self, column: &str) -> Option<&'a str> {
        self.strings(column).next()
    }

    /// The first string of a column, or the empty string.
    pub fn string(&self, column: &str) -> &'a str {
        self.optional_string(column).unwrap_or_default()
    }

    /// All strings of a column, in order.
    pub fn strings(&self, column: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.atoms(column).iter().filter_map(as_string)
    }

    /// The first integer of a column.
    pub fn optional_integer(&self, column: &str) -> Option<i64> {
        self.integers(column).next()
    }

    /// The first integer of a column, or 0.
    pub fn integer(&self, column: &str) -> i64 {
        self.optional_integer(column).unwrap_or_default()
    }

    /// All integers of a column, in order.
    pub fn integers(&self, column: &str) -> impl Iterator<Item = i64> + use<'a> {
        self.atoms(column).iter().filter_map(|atom| match atom {
            Atom::Integer(value) => Some(*value),
            _ => None,
        })
    }

    /// The first boolean of a column.
    pub fn optional_boolean(&self, column: &str) -> Option<bool> {
        self.atoms(column).iter().find_map(|atom| match atom {
            Atom::Boolean(value) => Some(*value),
            _ => None,
        })
    }

    /// The first boolean of a column, or false.
    pub fn boolean(&self, column: &str) -> bool {
        self.optional_boolean(column).unwrap_or_default()
    }

    /// The first UUID of a column.
    pub fn optional_uuid(&self, column: &str) -> Option<Uuid> {
        self.uuids(column).next()
    }

    /// All UUIDs of a column, in order; of a map, those among its keys and values.
    pub fn uuids(&self, column: &str) -> impl Iterator<Item = Uuid> + use<'a> {
        self.datum(column).into_iter().flat_map(Datum::uuids)
    }

    /// A column that maps strings to strings.
    pub fn map(&self, column: &str) -> StringMap<'a> {
        StringMap::new(self.datum(column))
    }
}

/// A column that maps strings to strings.
#[derive(Clone, Copy, Debug)]
pub struct StringMap<'a>(Option<&'a Datum>);

impl<'a> StringMap<'a> {
    /// The strings of a map; without one there are none.
    pub(crate) fn new(map: Option<&'a Datum>) -> Self {
        Self(map)
    }

    /// What `key` maps to.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.0.and_then(|map| map.get(&Atom::from(key))).and_then(as_string)
    }

    /// All pairs, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let pairs = self.0.map(Datum::as_map).unwrap_or_default();
        pairs.iter().filter_map(|(key, value)| as_string(key).zip(as_string(value)))
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

fn as_string(atom: &Atom) -> Option<&str> {
    match atom {
        Atom::String(text) => Some(text),
        _ => None,
    }
}
