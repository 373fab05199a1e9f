//! The operations of a transaction (RFC 7047 section 5.2).

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::atom::{json_integer, parse_uuid};
use super::condition::Condition;
use super::database::{Database, Table, TableIndex};
use super::datum::Datum;
use super::error::{Error, ErrorKind};
use super::mutation::Mutation;
use super::named_uuid::SymbolTable;
use super::object::{ObjectReader, as_id};
use super::row::columns_from_json;
use super::schema::{ColumnIndex, UUID_COLUMN};
use super::transaction::Transaction;

/// Where and when a transaction runs.
pub struct Context<'a> {
    /// Whether the client holds the lock with this name.
    pub holds_lock: &'a dyn Fn(&str) -> bool,
    /// Whether the client may change the database.
    pub read_only: bool,
    /// Time since the client asked for the transaction.
    pub elapsed: Duration,
}

/// What came of running the operations of a transaction.
pub enum Outcome<'a> {
    /// An operation failed; the results are for the client.
    Failed(Vec<Value>),
    /// A `wait` has not come true, and may do so until this much time has passed since the
    /// client asked for the transaction; without limit if `None`.
    Waiting(Option<Duration>),
    /// All operations succeeded, with these results.
    Succeeded(Vec<Value>, Transaction<'a>),
}

/// Why an operation did not succeed.
enum Failure {
    Error(Error),
    /// It may succeed later.
    Wait,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

struct Execution<'a, 'b> {
    transaction: Transaction<'a>,
    symbols: SymbolTable,
    context: &'b Context<'b>,
    /// The shortest time that a `wait` operation allows.
    timeout: Option<Duration>,
}

/// Runs operations on a database, which stays as it is.
pub fn execute<'a>(
    database: &'a Database,
    operations: &[Value],
    context: &Context<'_>,
) -> Outcome<'a> {
    let mut execution = Execution {
        transaction: Transaction::new(database),
        symbols: SymbolTable::default(),
        context,
        timeout: None,
    };
    let mut results = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let name = format!("ovsdb operation {} of {}", index + 1, operations.len());
        match execution.run(operation, &name) {
            Ok(result) => results.push(result),
            Err(Failure::Wait) => return Outcome::Waiting(execution.timeout),
            Err(Failure::Error(error)) => {
                results.push(error.to_json());
                results.resize(operations.len(), Value::Null);
                return Outcome::Failed(results);
            }
        }
    }
    Outcome::Succeeded(results, execution.transaction)
}

impl<'a> Execution<'a, '_> {
    fn run(&mut self, operation: &Value, name: &str) -> Result<Value, Failure> {
        let mut reader = ObjectReader::new(operation, name)?;
        let op = reader.required_as("op", as_id)?;
        let (result, changes) = match op {
            "insert" => (self.insert(reader)?, true),
            "select" => (self.select(reader)?, false),
            "update" => (self.update(reader)?, true),
            "mutate" => (self.mutate(reader)?, true),
            "delete" => (self.delete(reader)?, true),
            "wait" => (self.wait(reader)?, false),
            "commit" => {
                // Every commit is durable here, so there is nothing to do.
                reader.required_as("durable", Value::as_bool)?;
                reader.finish()?;
                (json!({}), true)
            }
            "abort" => {
                reader.finish()?;
                return Err(Error::new(ErrorKind::Aborted, "aborted by request").into());
            }
            "comment" => {
                let comment = reader.required_as("comment", Value::as_str)?;
                reader.finish()?;
                self.transaction.add_comment(comment);
                (json!({}), false)
            }
            "assert" => {
                let lock = reader.required_as("lock", as_id)?;
                reader.finish()?;
                if !(self.context.holds_lock)(lock) {
                    let problem = format!("Asserted lock {lock} not held.");
                    return Err(Error::new(ErrorKind::NotOwner, problem).into());
                }
                (json!({}), false)
            }
            _ => return Err(reader.error(format_args!("No operation \"{op}\"")).into()),
        };
        let database = &self.transaction.database().schema().name;
        if changes && self.context.read_only {
            let problem =
                format!("{op} operation not allowed on table in reserved database {database}");
            return Err(Error::new(ErrorKind::NotAllowed, problem).into());
        }
        Ok(result)
    }

    fn table(&self, reader: &mut ObjectReader<'_>) -> Result<(TableIndex, &'a Table), Error> {
        let name = reader.required_as("table", as_id)?;
        let database = self.transaction.database();
        let index = database
            .table_index(name)
            .ok_or_else(|| reader.error(format_args!("No table named {name}.")))?;
        Ok((index, database.table(index)))
    }

    fn condition(&mut self, clauses: &[Value], table: &Table) -> Result<Condition, Error> {
        Condition::from_json(clauses, table.schema(), Some(&mut self.symbols))
    }

    fn columns(&mut self, row: &Value, table: &Table) -> Result<Vec<(ColumnIndex, Datum)>, Error> {
        columns_from_json(row, table.schema(), Some(&mut self.symbols))
    }

    fn insert(&mut self, mut reader: ObjectReader<'_>) -> Result<Value, Error> {
        let (index, table) = self.table(&mut reader)?;
        let uuid_json = reader.optional("uuid");
        let name_json = reader.optional("uuid-name");
        let name = name_json
            .map(|json| as_id(json).ok_or_else(|| reader.mismatch("uuid-name")))
            .transpose()?;
        let row = reader.required("row")?;
        reader.finish()?;

        let mut uuid = None;
        if let Some(json) = uuid_json {
            let given = json
                .as_str()
                .and_then(parse_uuid)
                .ok_or_else(|| Error::syntax(json, "bad uuid"))?;
            if !self.transaction.may_insert(index, given) {
                return Err(Error::in_json(
                    ErrorKind::DuplicateUuid,
                    json,
                    format!(
                        "This UUID would duplicate a UUID already present within the \"{}\" \
                         table or deleted from this table within the same transaction.",
                        table.schema().name()
                    ),
                ));
            }
            uuid = Some(given);
        }
        if let (Some(json), Some(name)) = (name_json, name) {
            let symbol = self.symbols.get_or_insert(name);
            if symbol.created {
                return Err(Error::in_json(
                    ErrorKind::DuplicateUuidName,
                    json,
                    "This \"uuid-name\" appeared on an earlier \"insert\" operation.",
                ));
            }
            symbol.created = true;
            match uuid {
                Some(uuid) => symbol.uuid = uuid,
                None => uuid = Some(symbol.uuid),
            }
        }
        let uuid = uuid.unwrap_or_else(Uuid::new_v4);
        let mut new = table.default().clone();
        let columns = self.columns(row, table)?;
        let mut given = BTreeSet::new();
        for (column, datum) in columns {
            given.insert(column);
            new.set(column, datum);
        }
        for (column, schema) in table.schema().own_columns() {
            // A default need not meet the constraints of its type.
            if !given.contains(&column) {
                schema.column_type.check(&new[column])?;
            }
        }
        self.transaction.insert(index, uuid, new);
        Ok(json!({"uuid": ["uuid", uuid.to_string()]}))
    }

    fn select(&mut self, mut reader: ObjectReader<'_>) -> Result<Value, Error> {
        let (index, table) = self.table(&mut reader)?;
        let clauses = reader.required_as("where", Value::as_array)?;
        let columns = reader.optional("columns");
        let sort = reader.optional("sort");
        reader.finish()?;

        let condition = self.condition(clauses, table)?;
        let schema = table.schema();
        let columns = schema.columns_from_json_or_all(columns)?;
        let sort = sort.map(|sort| schema.columns_from_json(sort)).transpose()?.unwrap_or_default();
        let mut rows = self.transaction.query(index, &condition);
        if !columns.contains(&UUID_COLUMN) {
            let mut seen = HashSet::new();
            rows.retain(|(_, row)| seen.insert(row.select(&columns)));
        }
        if !sort.is_empty() {
            rows.sort_by_cached_key(|(_, row)| row.select(&sort));
        }
        let rows: Value = rows.iter().map(|(_, row)| row.to_json(schema, &columns)).collect();
        Ok(Value::from_iter([("rows", rows)]))
    }

    fn update(&mut self, mut reader: ObjectReader<'_>) -> Result<Value, Error> {
        let (index, table) = self.table(&mut reader)?;
        let clauses = reader.required_as("where", Value::as_array)?;
        let row = reader.required("row")?;
        let json = reader.json();
        reader.finish()?;

        let columns = self.columns(row, table)?;
        let schema = table.schema();
        let places: Vec<_> = columns.iter().map(|(column, _)| *column).collect();
        if let Some(column) = schema.selected(&places).find(|column| !column.mutable) {
            return Err(Error::in_json(
                ErrorKind::ConstraintViolation,
                json,
                format!(
                    "Cannot update immutable column {} in table {}.",
                    column.name,
                    schema.name()
                ),
            ));
        }
        let condition = self.condition(clauses, table)?;
        let rows = self.transaction.query(index, &condition);
        let count = rows.len();
        for (uuid, row) in rows {
            if columns.iter().any(|(column, value)| row[*column] != *value) {
                drop(row);
                self.transaction.modify(index, uuid, |row| {
                    for (column, value) in &columns {
                        row.set(*column, value.clone());
                    }
                });
            }
        }
        Ok(json!({ "count": count }))
    }

    fn mutate(&mut self, mut reader: ObjectReader<'_>) -> Result<Value, Error> {
        let (index, table) = self.table(&mut reader)?;
        let clauses = reader.required_as("where", Value::as_array)?;
        let mutations = reader.required_as("mutations", Value::as_array)?;
        reader.finish()?;

        let schema = table.schema();
        let mutations = mutations
            .iter()
            .map(|json| Mutation::from_json(json, schema, Some(&mut self.symbols)))
            .collect::<Result<Vec<_>, _>>()?;
        let condition = self.condition(clauses, table)?;
        let rows: Vec<_> =
            self.transaction.query(index, &condition).into_iter().map(|(uuid, _)| uuid).collect();
        for uuid in &rows {
            let result = self.transaction.modify(index, *uuid, |row| {
                mutations.iter().try_for_each(|mutation| mutation.apply(row, schema))
            });
            result.unwrap_or(Ok(()))?;
        }
        Ok(json!({ "count": rows.len() }))
    }

    fn delete(&mut self, mut reader: ObjectReader<'_>) -> Result<Value, Error> {
        let (index, table) = self.table(&mut reader)?;
        let clauses = reader.required_as("where", Value::as_array)?;
        reader.finish()?;

        let condition = self.condition(clauses, table)?;
        let rows = self.transaction.query(index, &condition);
        for (uuid, _) in &rows {
            self.transaction.delete(index, *uuid);
        }
        Ok(json!({ "count": rows.len() }))
    }

    fn wait(&mut self, mut reader: ObjectReader<'_>) -> Result<Value, Failure> {
        let (index, table) = self.table(&mut reader)?;
        let timeout_json = reader.optional("timeout");
        let milliseconds = timeout_json
            .map(|json| json_integer(json).ok_or_else(|| reader.mismatch("timeout")))
            .transpose()?;
        let clauses = reader.required_as("where", Value::as_array)?;
        let columns = reader.optional("columns");
        let until = reader.required("until")?;
        let rows = reader.required_as("rows", Value::as_array)?;
        reader.finish()?;

        let condition = self.condition(clauses, table)?;
        let schema = table.schema();
        let columns = schema.columns_from_json_or_all(columns)?;
        let timeout = match (timeout_json, milliseconds) {
            (Some(json), Some(milliseconds)) => {
                let milliseconds = u64::try_from(milliseconds)
                    .map_err(|_| Error::syntax(json, "timeout must be nonnegative"))?;
                Some(Duration::from_millis(milliseconds))
            }
            _ => None,
        };
        if let Some(timeout) = timeout {
            self.timeout = Some(self.timeout.map_or(timeout, |shortest| shortest.min(timeout)));
        }
        let until_equal = match until.as_str() {
            Some("==") => true,
            Some("!=") => false,
            _ => {
                return Err(Error::syntax(until, "\"until\" must be \"==\" or \"!=\"").into());
            }
        };
        let mut expected = HashSet::new();
        for row in rows {
            let mut values = table.default().clone();
            for (column, value) in self.columns(row, table)? {
                values.set(column, value);
            }
            expected.insert(values.select(&columns));
        }
        let found = self.transaction.query(index, &condition);
        let actual: HashSet<_> = found.iter().map(|(_, row)| row.select(&columns)).collect();
        if (actual == expected) == until_equal {
            return Ok(json!({}));
        }
        let elapsed = self.context.elapsed;
        match timeout {
            Some(timeout) if elapsed >= timeout => {
                let problem = match elapsed.as_millis() {
                    0 => "\"where\" clause test failed".to_owned(),
                    elapsed => format!("\"wait\" timed out after {elapsed} ms"),
                };
                Err(Error::new(ErrorKind::TimedOut, problem).into())
            }
            _ => Err(Failure::Wait),
        }
    }
}

#[cfg(test)]
mod tests;
