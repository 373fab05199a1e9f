use std::collections::BTreeMap;

use super::*;
use crate::ovsdb::client::transaction::{Expected, Outcome, Transaction};

fn operations(transaction: &Transaction) -> Value {
    transaction.compile(&cache(), None).map_or(Value::Null, |compiled| compiled.operations.into())
}

fn where_is(number: u128) -> Value {
    json!([["_uuid", "==", reference(number)]])
}

#[test]
fn what_the_copy_has_already_is_not_sent() {
    let mut transaction = Transaction::new();
    transaction.comment("nothing");
    transaction.set("Open_vSwitch", uuid(1), "next_cfg", 7);
    transaction.set("Open_vSwitch", uuid(1), "other_config", strings([("b", "2"), ("a", "1")]));
    transaction.insert_elements("Port", uuid(3), "trunks", integers([1, 3]));
    transaction.delete_elements("Port", uuid(3), "trunks", integers([4]));
    transaction.verify("Port", uuid(3), "name");
    transaction.increment("Open_vSwitch", uuid(1), "next_cfg");
    // What the database lacks cannot be written.
    transaction.set("Port", uuid(3), "bond_mode", "none");
    transaction.insert_elements("Port", uuid(3), "bond_mode", integers([1]));
    transaction.set("AutoAttach", uuid(3), "name", "none");
    // A row that nothing refers to goes by itself.
    transaction.delete("Bridge", uuid(2));
    assert_eq!(operations(&transaction), Value::Null);
}

#[test]
fn only_changed_columns_are_sent() {
    let mut transaction = Transaction::new();
    transaction.comment("first");
    transaction.comment("second");
    transaction.set("Open_vSwitch", uuid(1), "next_cfg", 7);
    transaction.set("Open_vSwitch", uuid(1), "cur_cfg", 7);
    transaction.set("Open_vSwitch", uuid(1), "other_config", Datum::empty_map());
    transaction.verify("Open_vSwitch", uuid(1), "next_cfg");
    transaction.verify("Open_vSwitch", uuid(1), "other_config");
    transaction.delete("Port", uuid(4));
    let compiled = transaction.compile(&cache(), Some("ovs_vswitchd")).unwrap();
    assert_eq!(
        Value::from(compiled.operations),
        json!([
            {
                "op": "wait", "table": "Open_vSwitch", "timeout": 0, "where": where_is(1),
                "columns": ["next_cfg", "other_config"], "until": "==",
                "rows": [{
                    "next_cfg": 7, "other_config": ["map", [["a", "1"], ["b", "2"]]],
                }],
            },
            {
                "op": "update", "table": "Open_vSwitch", "where": where_is(1),
                "row": {"cur_cfg": 7, "other_config": ["map", []]},
            },
            {"op": "delete", "table": "Port", "where": where_is(4)},
            {"op": "comment", "comment": "first\nsecond"},
            {"op": "assert", "lock": "ovs_vswitchd"},
        ])
    );
}

#[test]
fn new_rows_are_referred_to_by_name() {
    let mut transaction = Transaction::new();
    let port = transaction.insert("Port");
    transaction.set("Port", port, "name", "new");
    transaction.insert_elements("Bridge", uuid(2), "ports", port.into());
    let queues = vec![(Atom::from(1), Atom::from(port)), (Atom::from(2), Atom::from(uuid(3)))];
    transaction.set("Bridge", uuid(2), "queues", Datum::map(queues).unwrap());
    let name = format!("row{}", port.simple());
    assert_eq!(
        operations(&transaction),
        json!([
            {
                "op": "update", "table": "Bridge", "where": where_is(2),
                "row": {"queues": ["map", [[1, ["named-uuid", name]], [2, reference(3)]]]},
            },
            {
                "op": "mutate", "table": "Bridge", "where": where_is(2),
                "mutations": [["ports", "insert", ["named-uuid", name]]],
            },
            {"op": "insert", "table": "Port", "uuid-name": name, "row": {"name": "new"}},
        ])
    );
}

#[test]
fn the_only_row_of_a_table_is_inserted_once() {
    let mut transaction = Transaction::new();
    let root = transaction.insert("Open_vSwitch");
    let mut cache = cache();
    cache.replace(&json!({}), Method::Cond).unwrap();
    let name = format!("row{}", root.simple());
    assert_eq!(
        Value::from(transaction.compile(&cache, None).unwrap().operations),
        json!([
            {
                "op": "wait", "table": "Open_vSwitch", "timeout": 0, "where": [],
                "until": "==", "rows": [],
            },
            {"op": "insert", "table": "Open_vSwitch", "uuid-name": name, "row": {}},
        ])
    );
}

#[test]
fn elements_come_and_go_one_by_one() {
    let mut transaction = Transaction::new();
    transaction.insert_elements("Port", uuid(3), "trunks", integers([3, 4]));
    transaction.insert_elements("Port", uuid(3), "trunks", integers([5]));
    transaction.delete_elements("Port", uuid(3), "trunks", integers([1, 9]));
    transaction.delete_elements("Port", uuid(3), "trunks", integers([2]));
    transaction.insert_elements(
        "Open_vSwitch",
        uuid(1),
        "other_config",
        strings([("a", "1"), ("b", "3"), ("c", "4")]),
    );
    assert_eq!(
        operations(&transaction),
        json!([
            {
                "op": "mutate", "table": "Open_vSwitch", "where": where_is(1),
                "mutations": [
                    ["other_config", "delete", ["set", ["b"]]],
                    ["other_config", "insert", ["map", [["b", "3"], ["c", "4"]]]],
                ],
            },
            {
                "op": "mutate", "table": "Port", "where": where_is(3),
                "mutations": [
                    ["trunks", "delete", ["set", [1, 2]]],
                    ["trunks", "insert", ["set", [4, 5]]],
                ],
            },
        ])
    );
}

#[test]
fn the_results_give_the_outcome() {
    let mut transaction = Transaction::new();
    let port = transaction.insert("Port");
    transaction.increment("Open_vSwitch", uuid(1), "next_cfg");
    let compiled = transaction.compile(&cache(), None).unwrap();
    assert_eq!(
        Value::from(compiled.operations[1..].to_vec()),
        json!([
            {
                "op": "mutate", "table": "Open_vSwitch", "where": where_is(1),
                "mutations": [["next_cfg", "+=", 1]],
            },
            {
                "op": "select", "table": "Open_vSwitch", "where": where_is(1),
                "columns": ["next_cfg"],
            },
        ])
    );
    let selected = json!({"rows": [{"next_cfg": 8}]});
    assert_eq!(
        compiled.expected.outcome(&json!([{"uuid": reference(6)}, {"count": 1}, selected])),
        Outcome::Success { inserted: BTreeMap::from([(port, uuid(6))]), incremented: Some(8) }
    );
    let lacks = "reply to \"transact\" lacks a result of an insert or select operation";
    for results in [json!([]), json!([{"uuid": reference(6)}, {"count": 1}, {"rows": []}])] {
        assert_eq!(compiled.expected.outcome(&results), Outcome::Error(lacks.to_owned()));
    }
}

#[test]
fn errors_give_the_outcome() {
    let text = |text: &str| Outcome::Error(text.to_owned());
    let cases = [
        (
            json!([{}, {"count": 1}]),
            Outcome::Success { inserted: BTreeMap::new(), incremented: None },
        ),
        (json!([{"error": "timed out"}, null]), Outcome::TryAgain),
        (json!([{"error": "unknown database"}]), Outcome::TryAgain),
        (json!([{}, {"error": "aborted"}]), Outcome::Aborted),
        (json!([{"error": "not owner", "details": "no"}, null]), Outcome::NotLocked),
        (json!([{"error": "not allowed", "details": "no"}]), text("not allowed: no")),
        (
            json!([{}, {"error": "constraint violation", "details": "0 is bad"}, null]),
            text("constraint violation: 0 is bad"),
        ),
        (json!([{"error": "resources exhausted"}]), text("resources exhausted")),
        (json!([{"error": 1}]), text(r#"{"error":1}"#)),
        (json!([1]), text("1")),
        (json!({}), text("{}")),
    ];
    for (results, outcome) in cases {
        assert_eq!(Expected::default().outcome(&results), outcome, "{results}");
    }
}
