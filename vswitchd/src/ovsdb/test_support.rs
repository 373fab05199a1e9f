//! What the tests of this module share.

use std::time::Duration;

use serde_json::{Value, json};

use super::atom::parse_uuid;
use super::database::Database;
use super::operation::{Context, Outcome, execute};
use super::schema::DatabaseSchema;

/// A schema with a table for every kind of column and constraint.
pub(crate) fn schema() -> DatabaseSchema {
    let integer =
        |min: i64, max: i64| json!({"type": "integer", "minInteger": min, "maxInteger": max});
    let reference =
        |table: &str, kind: &str| json!({"type": "uuid", "refTable": table, "refType": kind});
    DatabaseSchema::from_json(&json!({
        "name": "Test",
        "version": "1.0.0",
        "cksum": "77 88",
        "tables": {
            "Root": {
                "isRoot": true,
                "indexes": [["name"]],
                "columns": {
                    "name": {"type": "string"},
                    "number": {"type": {"key": integer(0, 100)}},
                    "real": {"type": {"key": "real", "min": 0}},
                    "integers": {"type": {"key": "integer", "min": 0, "max": 3}},
                    "words": {"type": {
                        "key": "string", "value": "integer", "min": 0, "max": "unlimited"}},
                    "colour": {"type": {
                        "key": {"type": "string", "enum": ["set", ["red", "green"]]}, "min": 0}},
                    "fixed": {"type": "string", "mutable": false},
                    "volatile": {"type": "integer", "ephemeral": true},
                    "parts": {"type": {
                        "key": reference("Part", "strong"), "min": 0, "max": "unlimited"}},
                    "likes": {"type": {
                        "key": reference("Part", "weak"), "min": 0, "max": "unlimited"}}}},
            "Part": {
                "columns": {
                    "label": {"type": "string"},
                    "next": {"type": {"key": reference("Part", "strong"), "min": 0}}}},
            "Fan": {
                "isRoot": true,
                "columns": {
                    "idol": {"type": {"key": reference("Root", "weak")}},
                    "rank": {"type": {
                        "key": "integer", "value": reference("Root", "weak"),
                        "min": 0, "max": "unlimited"}}}},
            "Single": {
                "isRoot": true,
                "maxRows": 1,
                "columns": {"size": {"type": {"key": integer(1, 9)}}}}}}))
    .unwrap()
}

/// Runs operations without locks, at the moment they are asked for.
pub(crate) fn run<'a>(database: &'a Database, operations: &Value) -> Outcome<'a> {
    let context = Context { holds_lock: &|_| false, read_only: false, elapsed: Duration::ZERO };
    execute(database, operations.as_array().unwrap(), &context)
}

/// Runs operations, makes the changes if all goes well, and gives the results.
pub(crate) fn transact(database: &mut Database, operations: Value) -> Value {
    let (results, changes) = match run(database, &operations) {
        Outcome::Failed(results) => (results, None),
        Outcome::Waiting(_) => panic!("{operations} has to wait"),
        Outcome::Succeeded(mut results, transaction) => match transaction.prepare() {
            Ok(changes) => (results, Some(changes)),
            Err(error) => {
                results.push(error.to_json());
                (results, None)
            }
        },
    };
    if let Some(changes) = changes {
        database.apply(&changes);
    }
    results.into()
}

/// Replaces the UUIDs in `json`, wherever they are, by `<0>`, `<1>` ... in the order in which
/// they first appear.
pub(crate) fn mask(json: &Value) -> Value {
    let text = json.to_string();
    let (mut rest, mut masked, mut seen) = (text.as_str(), String::new(), Vec::new());
    while let Some(first) = rest.chars().next() {
        if let Some((uuid, tail)) = rest.split_at_checked(36)
            && parse_uuid(uuid).is_some()
        {
            let number = seen.iter().position(|known| *known == uuid).unwrap_or_else(|| {
                seen.push(uuid);
                seen.len() - 1
            });
            masked += &format!("<{number}>");
            rest = tail;
        } else {
            masked.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    serde_json::from_str(&masked).unwrap()
}
