//! What a server tells of itself in its database `_Server` (ovsdb-server(5)).

use super::cache::Cache;
use super::monitored::MonitoredTable;
use crate::ovsdb::schema::DatabaseSchema;

pub(super) const NAME: &str = "_Server";

/// Why a server is of no use, for its log line.
type Problem = String;

pub(super) struct ServerDatabase {
    pub(super) cache: Cache,
    /// Greatest index of a clustered database that was seen, against servers that lag behind.
    min_index: i64,
}

impl ServerDatabase {
    pub(super) fn new() -> Self {
        Self { cache: Cache::new(NAME), min_index: 0 }
    }

    pub(super) fn set_schema(&mut self, schema: &DatabaseSchema) {
        let columns = ["name", "model", "connected", "leader", "schema", "cid", "index"];
        self.cache.set_schema(schema, &[MonitoredTable::new("Database").read(&columns)]);
    }

    /// The schema of a database, if this server is one to use for it. In a cluster only the leader
    /// is, whose content is never out of date.
    pub(super) fn usable_schema(&mut self, database: &str) -> Result<String, Problem> {
        let row = self
            .cache
            .rows("Database")
            .find(|row| row.optional_string("name") == Some(database))
            .ok_or_else(|| format!("server does not have {database} database"))?;
        let schema = row.optional_string("schema").map(str::to_owned);
        let connected = row.boolean("connected");
        let elsewhere = |problem: &str| Err(format!("{problem}; trying another server"));
        match (row.string("model"), schema) {
            ("clustered", None) => {
                elsewhere("clustered database server has not yet joined cluster")
            }
            ("clustered", _) if !connected => {
                elsewhere("clustered database server is disconnected from cluster")
            }
            ("clustered", _) if !row.boolean("leader") => {
                elsewhere("clustered database server is not cluster leader")
            }
            ("clustered", _) if row.integer("index") < self.min_index => {
                elsewhere("clustered database server has stale data")
            }
            ("clustered", Some(schema)) => {
                self.min_index = row.integer("index");
                Ok(schema)
            }
            ("relay", None) => {
                elsewhere("relay database server has not yet connected to the relay source")
            }
            ("relay", _) if !connected => {
                elsewhere("relay database server is disconnected from the relay source")
            }
            ("relay", _) => elsewhere("relay database server cannot be a leader"),
            (_, None) => Err("missing database schema".to_owned()),
            (_, Some(schema)) => Ok(schema),
        }
    }
}
