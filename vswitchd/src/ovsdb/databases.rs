//! The databases that a server serves: the one in the file, and `_Server`, which describes the
//! databases (ovsdb-server(5)).

use serde_json::json;
use uuid::Uuid;

use super::database::{Changes, Database};
use super::datum::Datum;
use super::error::Error;
use super::history::History;
use super::schema::DatabaseSchema;
use super::transaction::Transaction;

/// The place of a database among those that are served.
pub type DatabaseIndex = usize;

/// The place of the database in the file.
pub const MAIN: DatabaseIndex = 0;

/// A database with its latest changes.
#[derive(Debug)]
pub struct Served {
    database: Database,
    history: History,
}

impl Served {
    fn new(database: Database) -> Self {
        Self { database, history: History::default() }
    }

    /// The content.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The latest changes.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Makes changes that were prepared on the content as it is now.
    pub fn apply(&mut self, changes: Changes) {
        self.database.apply(&changes);
        let rows = self.database.tables().iter().map(|table| table.row_count()).sum();
        self.history.push(changes.rows, rows);
    }
}

/// The databases of a server.
#[derive(Debug)]
pub struct Databases([Served; 2]);

impl Databases {
    /// Serves `main` and a `_Server` that describes it.
    ///
    /// # Errors
    /// The schema of `_Server` is broken.
    pub fn new(main: Database) -> Result<Self, Error> {
        let server = describe(&main)?;
        Ok(Self([Served::new(main), Served::new(server)]))
    }

    /// A database by its place, [`MAIN`] or what [`Self::find`] gave.
    pub fn get(&self, index: DatabaseIndex) -> &Served {
        &self.0[index]
    }

    /// A database by its place, to be changed.
    pub fn get_mut(&mut self, index: DatabaseIndex) -> &mut Served {
        &mut self.0[index]
    }

    /// The names of the databases, in order of their places.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|served| served.database.schema().name.as_str())
    }

    /// The place of a database.
    pub fn find(&self, name: &str) -> Option<DatabaseIndex> {
        self.names().position(|found| found == name)
    }
}

/// The `_Server` database of a server that serves `main` alone.
fn describe(main: &Database) -> Result<Database, Error> {
    let schema = DatabaseSchema::from_json(&json!({
        "name": "_Server",
        "version": "1.2.0",
        "cksum": "3009684573 744",
        "tables": {"Database": {"isRoot": true, "columns": {
            "name": {"type": "string"},
            "model": {"type": {"key": {
                "type": "string", "enum": ["set", ["standalone", "clustered", "relay"]]}}},
            "connected": {"type": "boolean"},
            "leader": {"type": "boolean"},
            "schema": {"type": {"key": "string", "min": 0}},
            "cid": {"type": {"key": "uuid", "min": 0}},
            "sid": {"type": {"key": "uuid", "min": 0}},
            "index": {"type": {"key": "integer", "min": 0}}}}}}))?;
    let mut server = Database::new(schema);
    let mut transaction = Transaction::new(&server);
    if let Some(index) = server.table_index("Database") {
        let table = server.table(index);
        for described in [main.schema(), server.schema()] {
            let mut row = table.default().clone();
            for (column, value) in [
                ("name", Datum::from(described.name.as_str())),
                ("model", Datum::from("standalone")),
                ("connected", Datum::from(true)),
                ("leader", Datum::from(true)),
                ("schema", Datum::from(described.to_json().to_string().as_str())),
            ] {
                if let Some(column) = table.schema().column_index(column) {
                    row.set(column, value);
                }
            }
            transaction.insert(index, Uuid::new_v4(), row);
        }
    }
    let changes = transaction.prepare()?;
    server.apply(&changes);
    Ok(server)
}
