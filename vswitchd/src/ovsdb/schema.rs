//! Schemas of databases (RFC 7047 section 3.2).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::atom::{AtomType, json_integer};
use super::column_type::{ColumnType, Strength};
use super::error::{Error, ErrorKind};
use super::object::{ObjectReader, as_id, is_id};

/// The place of a column among the columns of its table.
pub type ColumnIndex = usize;

/// The place of `_uuid` among the columns of every table.
pub const UUID_COLUMN: ColumnIndex = 0;
/// The place of `_version` among the columns of every table.
pub const VERSION_COLUMN: ColumnIndex = 1;

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub column_type: ColumnType,
    /// Whether its value is lost when the server ends.
    pub ephemeral: bool,
    /// Whether its value can change after the row was inserted.
    pub mutable: bool,
}

impl ColumnSchema {
    fn from_json(json: &Value, name: &str) -> Result<Self, Error> {
        let mut reader = ObjectReader::new(json, format_args!("schema for column {name}"))?;
        let mutable = reader.optional_as("mutable", Value::as_bool)?.unwrap_or(true);
        let ephemeral = reader.optional_as("ephemeral", Value::as_bool)?.unwrap_or(false);
        let column_type = reader.required("type")?;
        reader.finish()?;
        let column_type = ColumnType::from_json(column_type)?;
        // A weak reference goes with the row it names, so its column must be able to change.
        let weak = column_type.references().any(|(_, strength)| strength == Strength::Weak);
        Ok(Self { name: name.into(), column_type, ephemeral, mutable: mutable || weak })
    }

    fn to_json(&self) -> Value {
        let mut object = Map::new();
        if !self.mutable {
            object.insert("mutable".into(), false.into());
        }
        if self.ephemeral {
            object.insert("ephemeral".into(), true.into());
        }
        object.insert("type".into(), self.column_type.to_json());
        Value::Object(object)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    name: String,
    /// `_uuid`, `_version`, then the others by name.
    columns: Vec<ColumnSchema>,
    max_rows: Option<u32>,
    is_root: bool,
    indexes: Vec<Vec<ColumnIndex>>,
}

impl TableSchema {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All columns: `_uuid`, `_version`, then the others by name.
    pub fn columns(&self) -> &[ColumnSchema] {
        &self.columns
    }

    /// The columns that the schema names, with their places; not `_uuid` and `_version`.
    pub fn own_columns(&self) -> impl Iterator<Item = (ColumnIndex, &ColumnSchema)> {
        self.columns.iter().enumerate().skip(VERSION_COLUMN + 1)
    }

    /// The most rows that the table can have; `None` if there is no limit.
    pub fn max_rows(&self) -> Option<u32> {
        self.max_rows
    }

    /// Whether its rows live without being referenced.
    pub fn is_root(&self) -> bool {
        self.is_root
    }

    /// Sets of columns of which no two rows have the same values.
    pub fn indexes(&self) -> &[Vec<ColumnIndex>] {
        &self.indexes
    }

    /// The place of a column.
    pub fn column_index(&self, name: &str) -> Option<ColumnIndex> {
        match name {
            "_uuid" => Some(UUID_COLUMN),
            "_version" => Some(VERSION_COLUMN),
            _ => {
                let first = VERSION_COLUMN + 1;
                let own = self.columns.get(first..)?;
                own.binary_search_by(|column| column.name.as_str().cmp(name))
                    .ok()
                    .map(|index| first + index)
            }
        }
    }

    /// A column with its place.
    pub fn column(&self, name: &str) -> Option<(ColumnIndex, &ColumnSchema)> {
        let index = self.column_index(name)?;
        self.columns.get(index).map(|column| (index, column))
    }

    /// Reads an array of names of columns, no two the same.
    ///
    /// # Errors
    /// A syntax error.
    pub fn columns_from_json(&self, json: &Value) -> Result<Vec<ColumnIndex>, Error> {
        let malformed = || Error::syntax(json, "array of distinct column names expected");
        let mut columns = Vec::new();
        for element in json.as_array().ok_or_else(malformed)? {
            let name = element.as_str().ok_or_else(malformed)?;
            let index = self
                .column_index(name)
                .ok_or_else(|| Error::syntax(json, format!("{name} is not a valid column name")))?;
            if columns.contains(&index) {
                return Err(malformed());
            }
            columns.push(index);
        }
        Ok(columns)
    }

    /// Reads an array of names of columns, no two the same; all columns without it.
    ///
    /// # Errors
    /// A syntax error.
    pub fn columns_from_json_or_all(
        &self,
        json: Option<&Value>,
    ) -> Result<Vec<ColumnIndex>, Error> {
        match json {
            Some(json) => self.columns_from_json(json),
            None => Ok((0..self.columns.len()).collect()),
        }
    }

    fn from_json(json: &Value, name: &str) -> Result<Self, Error> {
        let mut reader = ObjectReader::new(json, format_args!("table schema for table {name}"))?;
        let columns = reader.required_as("columns", Value::as_object)?;
        // Kept by ovsdb-server for schemas that have it, but without effect.
        reader.optional_as("mutable", Value::as_bool)?;
        let max_rows = reader.optional_as("maxRows", json_integer)?;
        let is_root = reader.optional_as("isRoot", Value::as_bool)?.unwrap_or(false);
        let indexes = reader.optional_as("indexes", Value::as_array)?;
        reader.finish()?;

        if max_rows.is_some_and(|rows| rows <= 0) {
            return Err(Error::syntax(json, "maxRows must be at least 1"));
        }
        if columns.is_empty() {
            return Err(Error::syntax(json, "table must have at least one column"));
        }
        let standard = |name: &str, ephemeral| ColumnSchema {
            name: name.into(),
            column_type: AtomType::Uuid.into(),
            ephemeral,
            mutable: false,
        };
        let mut own = Vec::new();
        for (column, definition) in columns {
            check_name(json, column)?;
            own.push(ColumnSchema::from_json(definition, column)?);
        }
        own.sort_by(|a, b| a.name.cmp(&b.name));
        let mut schema = Self {
            name: name.into(),
            columns: vec![standard("_uuid", false), standard("_version", true)],
            // A limit too great for the type is none.
            max_rows: max_rows.and_then(|rows| u32::try_from(rows).ok()),
            is_root,
            indexes: Vec::new(),
        };
        schema.columns.append(&mut own);
        for index in indexes.into_iter().flatten() {
            let index = schema.columns_from_json(index)?;
            if index.is_empty() {
                return Err(Error::syntax(json, "index must have at least one column"));
            }
            if let Some(column) = schema.selected(&index).find(|column| column.ephemeral) {
                let problem =
                    format!("ephemeral columns (such as {}) may not be indexed", column.name);
                return Err(Error::syntax(json, problem));
            }
            schema.indexes.push(index);
        }
        Ok(schema)
    }

    /// The columns at the given places.
    pub fn selected<'a>(
        &'a self,
        columns: &'a [ColumnIndex],
    ) -> impl Iterator<Item = &'a ColumnSchema> {
        columns.iter().filter_map(|index| self.columns.get(*index))
    }

    fn to_json(&self, default_is_root: bool) -> Value {
        let mut object = Map::new();
        if self.is_root != default_is_root {
            object.insert("isRoot".into(), self.is_root.into());
        }
        let columns: Map<_, _> =
            self.own_columns().map(|(_, column)| (column.name.clone(), column.to_json())).collect();
        object.insert("columns".into(), Value::Object(columns));
        if let Some(rows) = self.max_rows {
            object.insert("maxRows".into(), rows.into());
        }
        if !self.indexes.is_empty() {
            let indexes: Vec<Vec<&str>> = self
                .indexes
                .iter()
                .map(|index| self.selected(index).map(|column| column.name.as_str()).collect())
                .collect();
            object.insert("indexes".into(), json!(indexes));
        }
        Value::Object(object)
    }
}

fn check_name(json: &Value, name: &str) -> Result<(), Error> {
    if name.starts_with('_') {
        Err(Error::syntax(json, "names beginning with \"_\" are reserved"))
    } else if !is_id(name) {
        Err(Error::syntax(json, "name must be a valid id"))
    } else {
        Ok(())
    }
}

/// Whether `text` is three numbers with dots between them.
fn is_version(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok())
}

/// A database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSchema {
    /// Its name.
    pub name: String,
    /// Its version, as `x.y.z`; empty if it has none.
    pub version: String,
    /// A checksum that its author made; empty if there is none.
    pub checksum: String,
    tables: BTreeMap<String, TableSchema>,
}

impl DatabaseSchema {
    /// The tables, by name.
    pub fn tables(&self) -> impl Iterator<Item = &TableSchema> {
        self.tables.values()
    }

    /// A table.
    pub fn table(&self, name: &str) -> Option<&TableSchema> {
        self.tables.get(name)
    }

    /// Reads a `<database-schema>`.
    ///
    /// # Errors
    /// A syntax error.
    pub fn from_json(json: &Value) -> Result<Self, Error> {
        let mut reader = ObjectReader::new(json, "database schema")?;
        let name = reader.required_as("name", as_id)?.to_owned();
        let version = reader.optional_as("version", Value::as_str)?;
        let checksum = reader.optional_as("cksum", Value::as_str)?.unwrap_or_default().to_owned();
        let tables = reader.required_as("tables", Value::as_object)?;
        reader.finish()?;

        if let Some(version) = version.filter(|version| !is_version(version)) {
            let problem = format!("schema version \"{version}\" not in format x.y.z");
            return Err(Error::syntax(json, problem));
        }
        let version = version.unwrap_or_default().to_owned();
        let mut schema = Self { name, version, checksum, tables: BTreeMap::new() };
        for (table, definition) in tables {
            check_name(json, table)?;
            schema.tables.insert(table.clone(), TableSchema::from_json(definition, table)?);
        }
        // A schema without any root table is from a time before garbage collection.
        if !schema.tables().any(TableSchema::is_root) {
            schema.tables.values_mut().for_each(|table| table.is_root = true);
        }
        schema.check_references()?;
        Ok(schema)
    }

    /// Checks that references name tables. Makes columns persistent whose strong references are
    /// all that keeps rows of other tables, so that replaying the log finds the same rows.
    fn check_references(&mut self) -> Result<(), Error> {
        let roots: BTreeMap<_, _> =
            self.tables.iter().map(|(name, table)| (name.clone(), table.is_root)).collect();
        for column in self.tables.values_mut().flat_map(|table| &mut table.columns) {
            let mut keeps_rows = false;
            let types =
                [("key", Some(column.column_type.key())), ("value", column.column_type.value())];
            for (part, base) in types {
                let Some((table, strength)) = base.and_then(|base| base.reference()) else {
                    continue;
                };
                let is_root = roots.get(table).ok_or_else(|| {
                    Error::new(
                        ErrorKind::Syntax,
                        format!("column {} {part} refers to undefined table {table}", column.name),
                    )
                })?;
                keeps_rows |= strength == Strength::Strong && !is_root;
            }
            column.ephemeral &= !keeps_rows;
        }
        Ok(())
    }

    /// The `<database-schema>` in JSON.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("name".into(), self.name.as_str().into());
        if !self.version.is_empty() {
            object.insert("version".into(), self.version.as_str().into());
        }
        if !self.checksum.is_empty() {
            object.insert("cksum".into(), self.checksum.as_str().into());
        }
        let all_root = self.tables().all(TableSchema::is_root);
        let tables: Map<_, _> =
            self.tables().map(|table| (table.name.clone(), table.to_json(all_root))).collect();
        object.insert("tables".into(), Value::Object(tables));
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(tables: Value) -> Value {
        json!({"name": "D", "version": "1.2.3", "tables": tables})
    }

    #[test]
    fn json_survives_a_round_trip() {
        let json = json!({
            "name": "D",
            "version": "1.2.3",
            "cksum": "12 345",
            "tables": {
                "A": {
                    "columns": {
                        "name": {"type": "string", "mutable": false},
                        "b": {"type": {"key": {"type": "uuid", "refTable": "B"}, "min": 0}},
                        "seen": {"type": "integer", "ephemeral": true}},
                    "isRoot": true,
                    "maxRows": 2,
                    "indexes": [["name"], ["name", "b"]]},
                "B": {"columns": {"x": {"type": "integer"}}}}});
        let schema = DatabaseSchema::from_json(&json).unwrap();
        assert_eq!(schema.to_json(), json);
        let a = schema.table("A").unwrap();
        let names: Vec<_> = a.columns().iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["_uuid", "_version", "b", "name", "seen"]);
        for (index, column) in a.columns().iter().enumerate() {
            assert_eq!(a.column(&column.name), Some((index, column)));
        }
        assert_eq!(a.column_index("c"), None);
        assert_eq!(a.indexes(), [vec![3], vec![3, 2]]);
    }

    #[test]
    fn without_root_tables_all_are() {
        let json = tables(json!({"A": {"columns": {"x": {"type": "integer"}}}}));
        let schema = DatabaseSchema::from_json(&json).unwrap();
        assert!(schema.table("A").unwrap().is_root());
        assert_eq!(schema.to_json(), json);
    }

    #[test]
    fn columns_that_keep_rows_are_persistent_and_weak_ones_mutable() {
        let reference = |table: &str, strength: &str| {
            json!({"type": {"key": {"type": "uuid", "refTable": table, "refType": strength},
                            "min": 0},
                   "ephemeral": true, "mutable": false})
        };
        let schema = DatabaseSchema::from_json(&tables(json!({
            "Root": {"columns": {"root": reference("Root", "strong"),
                                 "part": reference("Part", "strong"),
                                 "weak": reference("Part", "weak")},
                     "isRoot": true},
            "Part": {"columns": {"x": {"type": "integer"}}}})))
        .unwrap();
        let found: Vec<_> = schema
            .table("Root")
            .unwrap()
            .own_columns()
            .map(|(_, column)| (column.name.as_str(), column.ephemeral, column.mutable))
            .collect();
        assert_eq!(found, [("part", false, false), ("root", true, false), ("weak", true, true)]);
    }

    #[test]
    fn refuses_what_cannot_be() {
        let problem = |json: Value| DatabaseSchema::from_json(&json).unwrap_err().details;
        let table = |table: Value| problem(tables(json!({ "T": table })));
        let x = json!({"x": {"type": "integer"}});
        assert_eq!(
            problem(json!({"name": "D", "version": "1.2", "tables": {}})),
            "schema version \"1.2\" not in format x.y.z"
        );
        assert_eq!(
            problem(json!({"name": "a b", "tables": {}})),
            "Parsing database schema failed: Type mismatch for member 'name'."
        );
        assert_eq!(
            problem(json!({"name": "D", "tables": {}, "a": 1, "b": 2, "c": 3})),
            "Parsing database schema failed: Member 'a' and 2 other members are present but not \
             allowed here."
        );
        assert_eq!(
            problem(tables(json!({"_T": {"columns": x}}))),
            "names beginning with \"_\" are reserved"
        );
        assert_eq!(table(json!({"columns": {}})), "table must have at least one column");
        assert_eq!(table(json!({"columns": x, "maxRows": 0})), "maxRows must be at least 1");
        assert_eq!(
            table(json!({"columns": x, "indexes": [["y"]]})),
            "y is not a valid column name"
        );
        assert_eq!(
            table(json!({"columns": x, "indexes": [["x", "x"]]})),
            "array of distinct column names expected"
        );
        assert_eq!(
            table(json!({"columns": x, "indexes": [[]]})),
            "index must have at least one column"
        );
        let ephemeral = json!({"e": {"type": "integer", "ephemeral": true}});
        assert_eq!(
            table(json!({"columns": ephemeral, "indexes": [["e"]]})),
            "ephemeral columns (such as e) may not be indexed"
        );
        let dangling = json!({"r": {"type": {"key": {"type": "uuid", "refTable": "U"}}}});
        assert_eq!(table(json!({"columns": dangling})), "column r key refers to undefined table U");
    }
}
