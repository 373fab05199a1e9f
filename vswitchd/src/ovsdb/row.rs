//! Rows of tables.

use std::ops::Index;

use serde_json::{Map, Value};
use uuid::Uuid;

use super::atom::Atom;
use super::datum::Datum;
use super::error::{Error, ErrorKind};
use super::named_uuid::SymbolTable;
use super::schema::{ColumnIndex, TableSchema, UUID_COLUMN, VERSION_COLUMN};

/// A row: one datum for each column of its table, in the order of
/// [`TableSchema::columns`]. Clones share the datums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row(Box<[Datum]>);

impl Index<ColumnIndex> for Row {
    type Output = Datum;

    /// The value of a column of the table that the row belongs to.
    fn index(&self, column: ColumnIndex) -> &Datum {
        &self.0[column]
    }
}

impl Row {
    /// The row that has every column at its default.
    pub fn default_of(schema: &TableSchema) -> Self {
        Self(schema.columns().iter().map(|column| Datum::default_of(&column.column_type)).collect())
    }

    /// The values, in the order of the columns.
    pub fn iter(&self) -> impl Iterator<Item = &Datum> {
        self.0.iter()
    }

    /// Changes a column.
    pub fn set(&mut self, column: ColumnIndex, value: Datum) {
        self.0[column] = value;
    }

    /// Sets `_uuid`.
    pub fn set_uuid(&mut self, uuid: Uuid) {
        self.set(UUID_COLUMN, Datum::from(uuid));
    }

    /// Sets `_version` to a new UUID.
    pub fn set_new_version(&mut self) {
        self.set(VERSION_COLUMN, Datum::from(Uuid::new_v4()));
    }

    /// The value of `_uuid`.
    pub fn uuid(&self) -> Uuid {
        match self[UUID_COLUMN].as_scalar() {
            Some(Atom::Uuid(uuid)) => *uuid,
            _ => Uuid::nil(),
        }
    }

    /// The values of the given columns.
    pub fn select(&self, columns: &[ColumnIndex]) -> Vec<Datum> {
        columns.iter().map(|column| self[*column].clone()).collect()
    }

    /// The given columns as a `<row>`.
    pub fn to_json(&self, schema: &TableSchema, columns: &[ColumnIndex]) -> Value {
        let members: Map<_, _> = columns
            .iter()
            .zip(schema.selected(columns))
            .map(|(index, column)| (column.name.clone(), self[*index].to_json()))
            .collect();
        Value::Object(members)
    }
}

/// Reads a `<row>`: the columns that it has, with their values.
///
/// # Errors
/// A syntax error, an unknown column or a constraint violation.
pub fn columns_from_json(
    json: &Value,
    schema: &TableSchema,
    mut symbols: Option<&mut SymbolTable>,
) -> Result<Vec<(ColumnIndex, Datum)>, Error> {
    let members = json.as_object().ok_or_else(|| Error::syntax(json, "row must be JSON object"))?;
    members
        .iter()
        .map(|(name, value)| {
            let (index, column) =
                schema.column(name).ok_or_else(|| unknown_column(json, name, schema))?;
            let datum = Datum::from_json(value, &column.column_type, symbols.as_deref_mut())?;
            Ok((index, datum))
        })
        .collect()
}

/// The error about a column that a table does not have.
pub fn unknown_column(json: &Value, name: &str, schema: &TableSchema) -> Error {
    let problem = format!("No column {name} in table {}.", schema.name());
    Error::in_json(ErrorKind::UnknownColumn, json, problem)
}
