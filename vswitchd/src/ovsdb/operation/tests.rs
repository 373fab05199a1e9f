use super::*;
use crate::ovsdb::test_support::{mask, run, schema, transact};

fn database() -> Database {
    Database::new(schema())
}

/// A database with the roots a (1), b (2) and c (3).
fn filled() -> Database {
    let mut database = database();
    let insert = |name: &str, number: i64| json!({"op": "insert", "table": "Root", "row": {"name": name, "number": number}});
    transact(&mut database, json!([insert("a", 1), insert("b", 2), insert("c", 3)]));
    database
}

/// Names and numbers of the roots, as a select gives them.
fn roots(database: &mut Database) -> Value {
    let select = json!({"op": "select", "table": "Root", "where": [],
                        "columns": ["name", "number"], "sort": ["name"]});
    transact(database, json!([select]))[0]["rows"].clone()
}

fn error(kind: &str, details: &str) -> Value {
    json!({"error": kind, "details": details})
}

/// The results of one operation that fails, without the JSON it complains about.
fn failure(database: &mut Database, operation: Value) -> Value {
    let before = roots(database);
    let mut results = transact(database, json!([operation]));
    assert_eq!(roots(database), before);
    assert_eq!(results.as_array().unwrap().len(), 1, "{results}");
    let mut result = results[0].take();
    result.as_object_mut().unwrap().remove("syntax");
    result
}

#[test]
fn insert_gives_defaults_and_uuids() {
    let mut database = database();
    let results = transact(
        &mut database,
        json!([{"op": "insert", "table": "Root", "row": {"name": "x"}},
               {"op": "select", "table": "Root", "where": []}]),
    );
    assert_eq!(
        mask(&results),
        json!([
            {"uuid": ["uuid", "<0>"]},
            {"rows": [{
                "_uuid": ["uuid", "<0>"], "_version": ["uuid", "<1>"], "name": "x", "number": 0,
                "real": ["set", []], "integers": ["set", []], "words": ["map", []],
                "colour": ["set", []], "fixed": "", "volatile": 0, "parts": ["set", []],
                "likes": ["set", []]}]}])
    );
}

#[test]
fn insert_takes_a_uuid_that_nothing_has() {
    let mut database = database();
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    let insert = json!({"op": "insert", "table": "Root", "uuid": uuid, "row": {}});
    assert_eq!(transact(&mut database, json!([insert])), json!([{"uuid": ["uuid", uuid]}]));
    let duplicate = error(
        "duplicate uuid",
        "This UUID would duplicate a UUID already present within the \"Root\" table or deleted \
         from this table within the same transaction.",
    );
    assert_eq!(failure(&mut database, insert.clone()), duplicate);
    let mut results =
        transact(&mut database, json!([{"op": "delete", "table": "Root", "where": []}, insert]));
    results[1].as_object_mut().unwrap().remove("syntax");
    assert_eq!(results, json!([{"count": 1}, duplicate]));
    let bad = json!({"op": "insert", "table": "Root", "uuid": "x", "row": {}});
    assert_eq!(failure(&mut database, bad), error("syntax error", "bad uuid"));
}

#[test]
fn names_of_uuids_tie_operations_together() {
    let mut database = database();
    let results = transact(
        &mut database,
        json!([{"op": "insert", "table": "Root", "row": {
                    "parts": ["set", [["named-uuid", "p"], ["named-uuid", "q"]]]}},
               {"op": "insert", "table": "Part", "uuid-name": "p", "row": {"label": "P"}},
               {"op": "insert", "table": "Part", "uuid-name": "q", "row": {"label": "Q"}},
               {"op": "select", "table": "Part", "where": [["_uuid", "==", ["named-uuid", "q"]]],
                "columns": ["_uuid", "label"]}]),
    );
    assert_eq!(
        mask(&results),
        json!([{"uuid": ["uuid", "<0>"]}, {"uuid": ["uuid", "<1>"]}, {"uuid": ["uuid", "<2>"]},
               {"rows": [{"_uuid": ["uuid", "<2>"], "label": "Q"}]}])
    );
    let twice = json!({"op": "insert", "table": "Root", "uuid-name": "r", "row": {}});
    let results = transact(&mut database, json!([twice, twice]));
    assert_eq!(
        results[1],
        json!({"error": "duplicate uuid-name", "syntax": "\"r\"",
               "details": "This \"uuid-name\" appeared on an earlier \"insert\" operation."})
    );
    let mut results = transact(
        &mut database,
        json!([{"op": "insert", "table": "Root", "row": {"name": "y",
                "parts": ["named-uuid", "never"]}}]),
    );
    assert_eq!(
        mask(&results[1].take()),
        error(
            "referential integrity violation",
            "Table Root column parts row <0> references nonexistent row <1> in table Part."
        )
    );
}

#[test]
fn values_must_meet_the_schema() {
    let mut database = database();
    let mut insert =
        |row: Value| failure(&mut database, json!({"op": "insert", "table": "Root", "row": row}));
    assert_eq!(
        insert(json!({"number": 101})),
        error("constraint violation", "101 is not in the valid range 0 to 100 (inclusive)")
    );
    assert_eq!(
        insert(json!({"colour": "blue"})),
        error("constraint violation", "blue is not one of the allowed values ([green, red])")
    );
    assert_eq!(
        insert(json!({"integers": ["set", [1, 2, 3, 4]]})),
        error("syntax error", "set must have 0 to 3 members but 4 are present")
    );
    assert_eq!(
        insert(json!({"shape": 1})),
        error("unknown column", "No column shape in table Root.")
    );
    assert_eq!(
        insert(json!({"words": ["map", [["a", 1], ["a", 2]]]})),
        error("ovsdb error", "map contains duplicate key")
    );
    // The default of this column is not allowed.
    assert_eq!(
        failure(&mut database, json!({"op": "insert", "table": "Single", "row": {}})),
        error("constraint violation", "0 is not in the valid range 1 to 9 (inclusive)")
    );
}

#[test]
fn malformed_operations_are_refused() {
    let mut database = filled();
    let mut problem = |operation: Value| failure(&mut database, operation)["details"].clone();
    let failed = |problem: &str| format!("Parsing ovsdb operation 1 of 1 failed: {problem}");
    assert_eq!(problem(json!(1)), failed("Object expected."));
    assert_eq!(problem(json!({})), failed("Required 'op' member is missing."));
    assert_eq!(problem(json!({"op": "upsert"})), failed("No operation \"upsert\""));
    assert_eq!(
        problem(json!({"op": "select", "table": "Shapes", "where": []})),
        failed("No table named Shapes.")
    );
    assert_eq!(
        problem(json!({"op": "delete", "table": "Root", "where": {}})),
        failed("Type mismatch for member 'where'.")
    );
    assert_eq!(
        problem(json!({"op": "delete", "table": "Root", "where": [], "limit": 1})),
        failed("Member 'limit' is present but not allowed here.")
    );
    assert_eq!(
        problem(json!({"op": "select", "table": "Root", "where": [["name", "=="]]})),
        "Parse error in condition."
    );
    assert_eq!(
        problem(json!({"op": "select", "table": "Root", "where": [["name", "like", "a"]]})),
        "No function named like."
    );
    assert_eq!(
        problem(json!({"op": "select", "table": "Root", "where": [["name", "<", "a"]]})),
        "Type mismatch: \"<\" operator may not be applied to column name of type string."
    );
    assert_eq!(
        problem(json!({"op": "select", "table": "Root", "where": [], "columns": ["x"]})),
        "x is not a valid column name"
    );
    assert_eq!(
        problem(json!({"op": "mutate", "table": "Root", "where": [],
                       "mutations": [["number", "^=", 1]]})),
        "No mutator named ^=."
    );
    assert_eq!(
        problem(json!({"op": "mutate", "table": "Root", "where": [],
                       "mutations": [["name", "+=", 1]]})),
        "Type mismatch: \"+=\" operator may not be applied to column name of type string."
    );
    assert_eq!(
        problem(json!({"op": "mutate", "table": "Root", "where": [],
                       "mutations": [["words", "+=", 1]]})),
        "Type mismatch: \"+=\" operator may not be applied to column words of type map of \
         (string, integer) pairs."
    );
}

#[test]
fn a_failed_operation_undoes_those_before_it() {
    let mut database = filled();
    let results = transact(
        &mut database,
        json!([{"op": "delete", "table": "Root", "where": []},
               {"op": "abort"},
               {"op": "delete", "table": "Root", "where": []}]),
    );
    assert_eq!(results, json!([{"count": 3}, error("aborted", "aborted by request"), null]));
    assert_eq!(roots(&mut database).as_array().unwrap().len(), 3);
}

#[test]
fn conditions_choose_rows() {
    let mut database = database();
    let rows = [
        json!({"name": "a", "number": 1, "real": 0.5, "integers": ["set", [1, 2]]}),
        json!({"name": "b", "number": 2, "integers": ["set", [2, 3]], "words": ["map", [["x", 1]]]}),
        json!({"name": "c", "number": 3, "real": 1.5, "words": ["map", [["x", 1], ["y", 2]]]}),
    ];
    let inserts = rows.map(|row| json!({"op": "insert", "table": "Root", "row": row}));
    transact(&mut database, inserts.as_slice().into());
    let mut names = |clauses: Value| {
        let select = json!({"op": "select", "table": "Root", "where": clauses,
                            "columns": ["name"], "sort": ["name"]});
        let results = transact(&mut database, json!([select]));
        let rows = results[0]["rows"].as_array().unwrap_or_else(|| panic!("{results}"));
        rows.iter().map(|row| row["name"].as_str().unwrap()).collect::<String>()
    };
    for (clauses, expected) in [
        (json!([]), "abc"),
        (json!([true]), "abc"),
        (json!([["number", ">", 1], false]), ""),
        (json!([["number", "<", 2]]), "a"),
        (json!([["number", "<=", 2]]), "ab"),
        (json!([["number", ">=", 2], ["number", "!=", 3]]), "b"),
        (json!([["real", ">", 0]]), "ac"),
        (json!([["real", "<", 1]]), "a"),
        (json!([["real", "==", ["set", []]]]), "b"),
        (json!([["name", "==", "b"]]), "b"),
        (json!([["name", "==", "b"], ["number", "==", 3]]), ""),
        (json!([["name", "==", "z"]]), ""),
        (json!([["integers", "includes", 2]]), "ab"),
        (json!([["integers", "includes", ["set", [2, 3]]]]), "b"),
        (json!([["integers", "includes", ["set", []]]]), "abc"),
        (json!([["integers", "excludes", ["set", [1, 7]]]]), "bc"),
        (json!([["integers", "==", ["set", [2, 1]]]]), "a"),
        (json!([["integers", "!=", ["set", [2, 1]]]]), "bc"),
        (json!([["words", "includes", ["map", [["x", 1]]]]]), "bc"),
        (json!([["words", "excludes", ["map", [["y", 2]]]]]), "ab"),
    ] {
        assert_eq!(names(clauses.clone()), expected, "{clauses}");
    }
}

#[test]
fn conditions_see_what_the_transaction_did() {
    let mut database = filled();
    let select = |name: &str| {
        json!({"op": "select", "table": "Root", "where": [["name", "==", name]],
               "columns": ["number"]})
    };
    let results = transact(
        &mut database,
        json!([{"op": "update", "table": "Root", "where": [["name", "==", "a"]],
                "row": {"name": "d"}},
               select("a"), select("d"),
               {"op": "delete", "table": "Root", "where": [["name", "==", "d"]]},
               select("d"),
               {"op": "insert", "table": "Root", "row": {"name": "e", "number": 5}},
               select("e")]),
    );
    assert_eq!(
        [&results[1], &results[2], &results[4], &results[6]],
        [
            &json!({"rows": []}),
            &json!({"rows": [{"number": 1}]}),
            &json!({"rows": []}),
            &json!({"rows": [{"number": 5}]})
        ]
    );
}

#[test]
fn select_without_uuid_drops_equal_rows() {
    let mut database = filled();
    let results = transact(
        &mut database,
        json!([{"op": "select", "table": "Root", "where": [], "columns": ["fixed"]}]),
    );
    assert_eq!(results, json!([{"rows": [{"fixed": ""}]}]));
}

#[test]
fn update_changes_the_rows_that_match() {
    let mut database = filled();
    let update = json!({"op": "update", "table": "Root", "where": [["number", ">", 1]],
                        "row": {"number": 9}});
    assert_eq!(transact(&mut database, json!([update])), json!([{"count": 2}]));
    assert_eq!(
        roots(&mut database),
        json!([{"name": "a", "number": 1}, {"name": "b", "number": 9}, {"name": "c", "number": 9}])
    );
    let fixed = json!({"op": "update", "table": "Root", "where": [], "row": {"fixed": "x"}});
    assert_eq!(
        failure(&mut database, fixed),
        error("constraint violation", "Cannot update immutable column fixed in table Root.")
    );
}

#[test]
fn only_real_changes_make_a_new_version() {
    let mut database = filled();
    let mut version = |operation: Value| {
        let results =
            transact(&mut database, json!([operation, {"op": "comment", "comment": "so"}]));
        assert_eq!(results[1], json!({}));
        let select = json!({"op": "select", "table": "Root", "where": [["name", "==", "a"]],
                            "columns": ["_version"]});
        transact(&mut database, json!([select]))
    };
    let update = |number: i64| {
        json!({"op": "update", "table": "Root", "where": [["name", "==", "a"]],
               "row": {"number": number}})
    };
    let first = version(update(1));
    assert_eq!(version(update(1)), first);
    let second = version(update(2));
    assert_ne!(second, first);
    assert_eq!(version(json!({"op": "delete", "table": "Root", "where": [false]})), second);
}

#[test]
fn mutations_compute() {
    let mut database = filled();
    let mut mutate = |mutations: Value| {
        let mutate = json!({"op": "mutate", "table": "Root", "where": [["name", "==", "a"]],
                            "mutations": mutations});
        let select = json!({"op": "select", "table": "Root", "where": [["name", "==", "a"]],
                            "columns": ["number", "real", "integers", "words"]});
        let mut results = transact(&mut database, json!([mutate, select]));
        if results[0] == json!({"count": 1}) {
            results[1]["rows"][0].take()
        } else {
            let error = &results[0];
            format!("{}: {}", error["error"].as_str().unwrap(), error["details"].as_str().unwrap())
                .into()
        }
    };
    let row = |number: i64, real: Value, integers: Value, words: Value| {
        json!({"number": number, "real": real, "integers": ["set", integers],
               "words": ["map", words]})
    };
    let none = || json!(["set", []]);
    assert_eq!(
        mutate(json!([["number", "+=", 19], ["number", "/=", 3], ["number", "%=", 4]])),
        row(2, none(), json!([]), json!([]))
    );
    assert_eq!(
        mutate(json!([["number", "*=", 7], ["number", "-=", 4], ["real", "insert", 1.5]])),
        row(10, json!(1.5), json!([]), json!([]))
    );
    assert_eq!(
        mutate(json!([
            ["real", "/=", 2],
            ["real", "+=", 1],
            ["integers", "insert", ["set", [3, 1]]],
            ["words", "insert", ["map", [["a", 1], ["b", 2], ["c", 3]]]]
        ])),
        row(10, json!(1.75), json!([1, 3]), json!([["a", 1], ["b", 2], ["c", 3]]))
    );
    assert_eq!(
        mutate(json!([
            ["integers", "*=", 10],
            ["words", "insert", ["map", [["a", 9], ["d", 4]]]],
            ["words", "delete", ["map", [["b", 7], ["c", 3]]]]
        ])),
        row(10, json!(1.75), json!([10, 30]), json!([["a", 1], ["b", 2], ["d", 4]]))
    );
    assert_eq!(
        mutate(json!([
            ["words", "delete", ["set", ["a", "d", "x"]]],
            ["integers", "delete", ["set", [1, 2, 3, 4, 30]]],
            ["integers", "insert", ["set", [1, 2]]]
        ])),
        json!({"number": 10, "real": 1.75, "integers": ["set", [1, 2, 10]],
               "words": ["map", [["b", 2]]]})
    );
    for (mutations, problem) in [
        (json!([["number", "/=", 0]]), "domain error: Division by zero."),
        (json!([["number", "%=", 0]]), "domain error: Division by zero."),
        (json!([["real", "/=", 0]]), "domain error: Division by zero."),
        (
            json!([["integers", "*=", i64::MAX]]),
            "range error: Result of \"*=\" operation is out of range.",
        ),
        (
            json!([["real", "*=", 1e308], ["real", "*=", 1e308]]),
            "range error: Result of \"*=\" operation is out of range.",
        ),
        (
            json!([["number", "+=", 91]]),
            "constraint violation: 101 is not in the valid range 0 to 100 (inclusive)",
        ),
        (
            json!([["integers", "/=", 100]]),
            "constraint violation: Result of \"/=\" operation contains duplicates.",
        ),
        (
            json!([["integers", "insert", 4]]),
            "constraint violation: Attempted to store 4 elements in set of up to 3 integers.",
        ),
        (
            json!([["fixed", "insert", "x"]]),
            "constraint violation: Cannot mutate immutable column fixed in table Root.",
        ),
        (
            json!([["real", "%=", 2]]),
            "syntax error: Type mismatch: \"%=\" operator may not be applied to column real of \
             type set of up to 1 reals.",
        ),
    ] {
        assert_eq!(mutate(mutations), problem);
    }
}

#[test]
fn mutating_nothing_counts_rows() {
    let mut database = filled();
    let mutate = json!({"op": "mutate", "table": "Root", "where": [["number", "<", 3]],
                        "mutations": []});
    assert_eq!(transact(&mut database, json!([mutate])), json!([{"count": 2}]));
}

#[test]
fn wait_compares_the_rows_that_match() {
    let mut database = filled();
    let wait = |until: &str, rows: Value, timeout: Value| {
        json!({"op": "wait", "table": "Root", "where": [["number", "<", 3]], "columns": ["name"],
               "until": until, "rows": rows, "timeout": timeout})
    };
    let both = || json!([{"name": "a"}, {"name": "b"}]);
    let one = || json!([{"name": "a"}]);
    for (until, rows) in [("==", both()), ("!=", one())] {
        assert_eq!(transact(&mut database, json!([wait(until, rows, json!(0))])), json!([{}]));
    }
    for (until, rows) in [("!=", both()), ("==", one())] {
        assert_eq!(
            failure(&mut database, wait(until, rows, json!(0))),
            error("timed out", "\"where\" clause test failed")
        );
    }
    assert_eq!(
        failure(&mut database, wait("==", one(), json!(-1))),
        error("syntax error", "timeout must be nonnegative")
    );
    assert_eq!(
        failure(&mut database, wait("=", one(), json!(0))),
        error("syntax error", "\"until\" must be \"==\" or \"!=\"")
    );
    let short = wait("==", one(), json!(20));
    let long = wait("==", both(), json!(30));
    match run(&database, &json!([long, short])) {
        Outcome::Waiting(timeout) => assert_eq!(timeout, Some(Duration::from_millis(20))),
        _ => panic!("does not wait"),
    }
    let mut forever = wait("==", one(), json!(0));
    forever.as_object_mut().unwrap().remove("timeout");
    match run(&database, &json!([forever])) {
        Outcome::Waiting(timeout) => assert_eq!(timeout, None),
        _ => panic!("does not wait"),
    }
    let context =
        Context { holds_lock: &|_| false, read_only: false, elapsed: Duration::from_millis(21) };
    match execute(&database, &[short], &context) {
        Outcome::Failed(results) => {
            assert_eq!(results, [error("timed out", "\"wait\" timed out after 21 ms")]);
        }
        _ => panic!("does not fail"),
    }
}

#[test]
fn assert_needs_the_lock() {
    let database = database();
    let results = |name: &str| {
        let context = Context {
            holds_lock: &|held| held == "mine",
            read_only: false,
            elapsed: Duration::ZERO,
        };
        match execute(&database, &[json!({"op": "assert", "lock": name})], &context) {
            Outcome::Failed(results) | Outcome::Succeeded(results, _) => results,
            Outcome::Waiting(_) => panic!("waits"),
        }
    };
    assert_eq!(results("mine"), [json!({})]);
    assert_eq!(results("yours"), [error("not owner", "Asserted lock yours not held.")]);
}

#[test]
fn a_read_only_database_can_only_be_read() {
    let database = filled();
    let context = Context { holds_lock: &|_| false, read_only: true, elapsed: Duration::ZERO };
    let run = |operation: Value| match execute(&database, &[operation], &context) {
        Outcome::Failed(results) | Outcome::Succeeded(results, _) => results,
        Outcome::Waiting(_) => panic!("waits"),
    };
    assert_eq!(
        run(json!({"op": "delete", "table": "Root", "where": []})),
        [error("not allowed", "delete operation not allowed on table in reserved database Test")]
    );
    assert_eq!(
        run(json!({"op": "select", "table": "Root", "where": [["name", "==", "a"]],
                   "columns": ["number"]})),
        [json!({"rows": [{"number": 1}]})]
    );
    assert_eq!(run(json!({"op": "comment", "comment": "x"})), [json!({})]);
}

#[test]
fn commit_is_always_durable() {
    let mut database = database();
    assert_eq!(transact(&mut database, json!([{"op": "commit", "durable": true}])), json!([{}]));
}
