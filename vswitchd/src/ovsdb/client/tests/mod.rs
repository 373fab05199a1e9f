//! What the tests of the client share: a small schema, and rows with known UUIDs.

mod cache;
mod property;
mod session;
mod transaction;

use serde_json::{Value, json};
use uuid::Uuid;

use super::MonitoredTable;
use super::cache::Cache;
use super::update::Method;
use crate::ovsdb::atom::Atom;
use crate::ovsdb::datum::Datum;
use crate::ovsdb::schema::DatabaseSchema;

/// A database with the shapes of columns that the real one has.
fn schema_json() -> Value {
    let text = include_str!("../../../../tests/ovsdb_client/schema.json");
    serde_json::from_str(text).unwrap()
}

fn schema() -> DatabaseSchema {
    DatabaseSchema::from_json(&schema_json()).unwrap()
}

/// All of [`schema_json`], of which `cur_cfg` and `statistics` are only written.
fn monitored() -> Vec<MonitoredTable> {
    vec![
        MonitoredTable::new("Open_vSwitch")
            .read(&["bridges", "next_cfg", "other_config"])
            .write(&["cur_cfg"]),
        MonitoredTable::new("Bridge").read(&["name", "ports", "queues", "stp_enable", "tag"]),
        MonitoredTable::new("Port").read(&["name", "trunks"]).write(&["statistics"]),
    ]
}

fn uuid(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn reference(number: u128) -> Value {
    json!(["uuid", uuid(number).to_string()])
}

/// `<table-updates2>` with one change of one row.
fn update(table: &str, number: u128, change: &Value) -> Value {
    json!({ table: { uuid(number).to_string(): change } })
}

/// The root row 1, with bridge 2, with ports 3 and 4, and 5 which does not exist.
fn contents() -> Value {
    let row =
        |number: u128, columns: Value| json!({ uuid(number).to_string(): {"initial": columns} });
    json!({
        "Open_vSwitch": row(1, json!({
            "bridges": reference(2), "next_cfg": 7,
            "other_config": ["map", [["a", "1"], ["b", "2"]]],
        })),
        "Bridge": row(2, json!({
            "name": "br0", "ports": ["set", [reference(3), reference(4), reference(5)]],
            "queues": ["map", [[10, reference(4)]]], "stp_enable": true, "tag": 9,
        })),
        "Port": {
            uuid(3).to_string(): {"initial": {"name": "p0", "trunks": ["set", [1, 2, 3]]}},
            uuid(4).to_string(): {"initial": {"name": "p1"}},
        },
    })
}

/// A copy that holds [`contents`].
fn cache() -> Cache {
    let mut cache = Cache::new("Open_vSwitch");
    assert!(!cache.set_schema(&schema(), &monitored()));
    assert_eq!(cache.replace(&contents(), Method::Cond), Ok(true));
    cache
}

fn strings<const N: usize>(pairs: [(&str, &str); N]) -> Datum {
    Datum::map(pairs.map(|(key, value)| (Atom::from(key), Atom::from(value))).into()).unwrap()
}

fn integers<const N: usize>(values: [i64; N]) -> Datum {
    Datum::set(values.map(Atom::from).into()).unwrap()
}
