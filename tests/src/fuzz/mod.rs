//! Parsers of outside bytes, each behind a function that takes any bytes whatever. It must end
//! without a panic, and what it checks must hold.
//!
//! The same functions are fuzz targets (`tests/fuzz`) and replay the committed corpus as a test.

mod openflow;
mod tunnel;

use std::time::Duration;

use serde_json::{Value, json};
use vswitchd::appctl::registry::{Call, Command, Format, Handler, Registry};
use vswitchd::jsonrpc::{FrameError, Framer, Message, parse_json};
use vswitchd::log::Spec;
use vswitchd::ovsdb::database::Database;
use vswitchd::ovsdb::operation::{Context, Outcome, execute};
use vswitchd::ovsdb::record;
use vswitchd::ovsdb::schema::DatabaseSchema;
use vswitchd::ovsdb::storage::Storage;

pub use openflow::*;
pub use tunnel::tunnel_pop;

use crate::Directory;

/// Longest text that the framer is asked to accept.
const TEXT_LIMIT: usize = 4096;

/// One parser under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also that of its corpus directory.
    pub name: &'static str,
    /// Gives it bytes.
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 15] = [
    Target { name: "appctl_request", run: appctl_request },
    Target { name: "database_file", run: database_file },
    Target { name: "datapath_text", run: datapath_text },
    Target { name: "json_rpc", run: json_rpc },
    Target { name: "log_spec", run: log_spec },
    Target { name: "openflow_10", run: openflow_10 },
    Target { name: "openflow_11", run: openflow_11 },
    Target { name: "openflow_12", run: openflow_12 },
    Target { name: "openflow_13", run: openflow_13 },
    Target { name: "openflow_14", run: openflow_14 },
    Target { name: "openflow_15", run: openflow_15 },
    Target { name: "openflow_stream", run: openflow_stream },
    Target { name: "openflow_text", run: openflow_text },
    Target { name: "ovsdb_transaction", run: ovsdb_transaction },
    Target { name: "tunnel_pop", run: tunnel_pop },
];

/// All texts that a framer finds, and the error that ended it.
fn frames<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Option<FrameError>) {
    let mut framer = Framer::new(TEXT_LIMIT);
    let mut texts = Vec::new();
    for piece in pieces {
        framer.push(piece);
        loop {
            match framer.next_text() {
                Ok(Some(text)) => texts.push(text),
                Ok(None) => break,
                Err(error) => return (texts, Some(error)),
            }
        }
    }
    (texts, framer.finish().err())
}

/// JSON-RPC: cutting a stream into texts does not depend on how it arrives, and a message that
/// was understood survives being written and read again.
pub fn json_rpc(bytes: &[u8]) {
    let whole = frames(std::iter::once(bytes));
    assert_eq!(whole, frames(bytes.chunks(1)));
    for text in whole.0 {
        let Ok(json) = parse_json(&text) else { continue };
        let Ok(message) = Message::from_json(json) else { continue };
        let again = parse_json(&message.clone().into_json().to_string()).expect("our own text");
        assert_eq!(Message::from_json(again).expect("our own message"), message);
    }
}

/// Log specifications (`-v`, `vlog/set`): text is understood or refused with a message.
pub fn log_spec(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = text.parse::<Spec>() {
        assert!(!error.to_string().is_empty());
    }
}

/// A schema with a column of every kind that a transaction can get wrong.
fn schema() -> DatabaseSchema {
    let json = json!({"name": "fuzz", "version": "1.0.0", "tables": {
        "a": {"isRoot": true, "indexes": [["n"]], "maxRows": 8, "columns": {
            "n": {"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 9}}},
            "r": {"type": "real", "mutable": false},
            "s": {"type": {"key": {"type": "string", "enum": ["set", ["x", "y"]]},
                "min": 0, "max": "unlimited"}},
            "m": {"type": {"key": "string", "value": "string", "min": 0, "max": 3}},
            "strong": {"type": {"key": {"type": "uuid", "refTable": "b"},
                "min": 0, "max": "unlimited"}},
            "weak": {"type": {"key": {"type": "uuid", "refTable": "b", "refType": "weak"},
                "min": 0, "max": "unlimited"}}}},
        "b": {"columns": {
            "t": {"type": {"key": "boolean", "min": 0, "max": 1}},
            "up": {"type": {"key": {"type": "uuid", "refTable": "a"}, "min": 0}}}}}});
    DatabaseSchema::from_json(&json).expect("a schema")
}

/// OVSDB transactions: each line is one array of operations, run in turn on one database.
pub fn ovsdb_transaction(bytes: &[u8]) {
    let mut database = Database::new(schema());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(Value::Array(operations)) = serde_json::from_slice(line) else { continue };
        let context =
            Context { holds_lock: &|_| true, read_only: false, elapsed: Duration::from_secs(1) };
        let changes = match execute(&database, &operations, &context) {
            Outcome::Failed(results) => {
                assert_eq!(results.len(), operations.len());
                continue;
            }
            Outcome::Waiting(_) => continue,
            Outcome::Succeeded(results, transaction) => {
                assert_eq!(results.len(), operations.len());
                transaction.prepare()
            }
        };
        if let Ok(changes) = changes {
            database.apply(&changes);
            check(&database);
        }
    }
}

/// What every transaction has to leave true.
fn check(database: &Database) {
    let select = |table| json!({"op": "select", "table": table, "where": []});
    let context = Context { holds_lock: &|_| false, read_only: true, elapsed: Duration::ZERO };
    let Outcome::Succeeded(results, _) = execute(database, &[select("a"), select("b")], &context)
    else {
        panic!("the tables cannot be read")
    };
    let rows = |index: usize| results[index]["rows"].as_array().expect("rows");
    assert!(rows(0).len() <= 8);
    let numbers = rows(0).iter().map(|row| row["n"].as_i64().expect("an integer"));
    let mut numbers = numbers.collect::<Vec<_>>();
    assert!(numbers.iter().all(|number| (0..10).contains(number)));
    numbers.sort_unstable();
    let count = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "the index has a duplicate");
    // Every reference leads to a row, and every row of `b` has one.
    let mut referenced = std::collections::BTreeSet::new();
    for row in rows(0) {
        for column in ["strong", "weak"] {
            for uuid in set(&row[column]) {
                let found = rows(1).iter().any(|row| row["_uuid"] == uuid);
                assert!(found, "{column} reference to {uuid}, which is not there");
                if column == "strong" {
                    referenced.insert(uuid.to_string());
                }
            }
        }
    }
    for row in rows(1) {
        assert!(referenced.contains(&row["_uuid"].to_string()), "{row} is garbage");
    }
}

/// The elements of a set in its JSON notation, in which one element stands for itself.
fn set(json: &Value) -> Vec<Value> {
    match json.as_array().map(Vec::as_slice) {
        Some([word, Value::Array(elements)]) if word == "set" => elements.clone(),
        _ => vec![json.clone()],
    }
}

/// Database files: any file is opened or refused with a message that names it. What was opened
/// is the same when it is opened again.
pub fn database_file(bytes: &[u8]) {
    let directory = Directory::in_memory();
    directory.write("fuzz.db", bytes);
    let path = directory.path("fuzz.db");
    let open = || Storage::open(&path, schema(), false, Duration::ZERO, Duration::ZERO);
    let database = match open() {
        Err(error) => {
            assert!(error.to_string().contains("fuzz.db"), "{error}");
            return;
        }
        Ok((_, database)) => database,
    };
    check(&database);
    let (_, again) = open().expect("our own file");
    let content = |database| record::database_to_json(database, "", Duration::ZERO);
    assert_eq!(content(&again), content(&database));
}

/// Requests on the control socket: a command runs only with arguments of the right number, and
/// everything else is refused with a message.
pub fn appctl_request(bytes: &[u8]) {
    let handler = Handler::Connection;
    let command =
        Command { name: "a", usage: Some("b [c]"), min_arguments: 1, max_arguments: 2, handler };
    let registry = Registry::new(&[command]);
    for text in frames(std::iter::once(bytes)).0 {
        let Ok(json) = parse_json(&text) else { continue };
        let Ok(Message::Request { method, params, .. }) = Message::from_json(json) else {
            continue;
        };
        let fits = method == "a" && (1..=2).contains(&params.len());
        match Call::from_request(method, params, Format::Text) {
            Err(message) => assert!(message.contains("is not a string")),
            Ok(call) => match registry.find(&call) {
                Ok(_) => assert!(fits),
                Err(error) => assert!(!fits && error.to_string().contains(&call.command)),
            },
        }
    }
}
