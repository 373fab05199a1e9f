//! The JSON of log records: what a transaction changed.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::atom::parse_uuid;
use super::database::{Changes, Database, RowChange, Table};
use super::datum::Datum;
use super::error::{Error, ErrorKind};
use super::row::{Row, unknown_column};
use super::schema::ColumnSchema;
use super::transaction::Transaction;

/// The record of `changes` to `database`, made at `date` since the Unix epoch. `None` if nothing
/// changed that outlives the server.
pub fn to_json(database: &Database, changes: &Changes, date: Duration) -> Option<Value> {
    let mut tables = Map::new();
    for change in &changes.rows {
        let table = database.table(change.table);
        if let Some(row) = row_to_json(table, change) {
            let name = table.schema().name();
            let table = tables.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(rows) = table {
                rows.insert(change.uuid.to_string(), row);
            }
        }
    }
    (!tables.is_empty()).then(|| annotate(tables, changes.comment.as_deref(), date))
}

/// The record that makes all of `database` out of an empty one.
pub fn database_to_json(database: &Database, comment: &str, date: Duration) -> Value {
    let mut tables = Map::new();
    for table in database.tables().iter().filter(|table| table.row_count() > 0) {
        let rows: Map<_, _> = table
            .rows()
            .map(|(uuid, row)| (uuid.to_string(), inserted_to_json(table, row)))
            .collect();
        tables.insert(table.schema().name().into(), Value::Object(rows));
    }
    annotate(tables, Some(comment), date)
}

fn annotate(mut tables: Map<String, Value>, comment: Option<&str>, date: Duration) -> Value {
    if let Some(comment) = comment {
        tables.insert("_comment".into(), comment.into());
    }
    tables.insert("_is_diff".into(), true.into());
    tables.insert("_date".into(), json!(u64::try_from(date.as_millis()).unwrap_or(u64::MAX)));
    Value::Object(tables)
}

fn row_to_json(table: &Table, change: &RowChange) -> Option<Value> {
    let Some(new) = &change.new else { return Some(Value::Null) };
    let Some(old) = &change.old else { return Some(inserted_to_json(table, new)) };
    let columns: Map<_, _> = table
        .schema()
        .own_columns()
        .filter(|(index, column)| !column.ephemeral && old[*index] != new[*index])
        .map(|(index, column)| {
            let diff = old[index].diff(&new[index], &column.column_type);
            (column.name.clone(), diff.to_json())
        })
        .collect();
    (!columns.is_empty()).then_some(Value::Object(columns))
}

fn inserted_to_json(table: &Table, row: &Row) -> Value {
    let columns: Map<_, _> = table
        .schema()
        .own_columns()
        .filter(|(index, column)| !column.ephemeral && row[*index] != table.default()[*index])
        .map(|(index, column)| (column.name.clone(), row[index].to_json()))
        .collect();
    Value::Object(columns)
}

/// Makes the changes of a record. Records with differences (`_is_diff`) and with whole values
/// are understood.
///
/// # Errors
/// The record does not fit the database.
pub fn replay(record: &Value, transaction: &mut Transaction<'_>) -> Result<(), Error> {
    let members = record.as_object().ok_or_else(|| Error::syntax(record, "object expected"))?;
    let is_diff = members.get("_is_diff") == Some(&Value::Bool(true));
    for (name, rows) in members.iter().filter(|(name, _)| !is_annotation(name)) {
        let database = transaction.database();
        let index = database.table_index(name).ok_or_else(|| {
            Error::new(ErrorKind::UnknownTable, format!("No table named {name}."))
        })?;
        let rows = rows.as_object().ok_or_else(|| Error::syntax(rows, "object expected"))?;
        for (uuid, columns) in rows {
            let uuid = parse_uuid(uuid).ok_or_else(|| {
                Error::new(ErrorKind::Syntax, format!("\"{uuid}\" is not a valid UUID"))
            })?;
            let exists = transaction.row(index, uuid).is_some();
            let table = database.table(index);
            if columns.is_null() {
                if !exists {
                    let problem = format!("transaction deletes row {uuid} that does not exist");
                    return Err(Error::new(ErrorKind::Syntax, problem));
                }
                transaction.delete(index, uuid);
            } else if exists {
                transaction
                    .modify(index, uuid, |row| replay_row(columns, table, is_diff, row))
                    .unwrap_or(Ok(()))?;
            } else {
                let mut row = table.default().clone();
                replay_row(columns, table, false, &mut row)?;
                transaction.insert(index, uuid, row);
            }
        }
    }
    Ok(())
}

fn is_annotation(name: &str) -> bool {
    matches!(name, "_date" | "_comment" | "_is_diff")
}

fn replay_row(columns: &Value, table: &Table, is_diff: bool, row: &mut Row) -> Result<(), Error> {
    let members =
        columns.as_object().ok_or_else(|| Error::syntax(columns, "row must be JSON object"))?;
    for (name, value) in members {
        let (index, ColumnSchema { column_type, .. }) = table
            .schema()
            .column(name)
            .ok_or_else(|| unknown_column(columns, name, table.schema()))?;
        let new = if is_diff {
            let diff = Datum::from_json(value, &column_type.any_number(), None)?;
            let new = row[index].diff(&diff, column_type);
            let allowed = column_type.min() as usize..=column_type.max() as usize;
            if !allowed.contains(&new.len()) {
                let problem = format!(
                    "difference leaves {} elements in column {name}, which is {column_type}",
                    new.len()
                );
                return Err(Error::syntax(value, problem));
            }
            new
        } else {
            Datum::from_json(value, column_type, None)?
        };
        row.set(index, new);
    }
    Ok(())
}
