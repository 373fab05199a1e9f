use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ovsdb::operation::Outcome;
use crate::ovsdb::test_support::{mask, run, schema, transact};

fn database() -> Database {
    Database::new(schema())
}

/// All rows: of each table that has some, one string for each, sorted.
fn contents(database: &Database) -> Vec<(String, Vec<String>)> {
    let tables = database.tables().iter().filter(|table| table.row_count() > 0);
    tables
        .map(|table| {
            let columns: Vec<_> = table.schema().own_columns().map(|(column, _)| column).collect();
            let mut rows: Vec<_> = table
                .rows()
                .map(|(uuid, row)| format!("{uuid} {}", row.to_json(table.schema(), &columns)))
                .collect();
            rows.sort();
            (table.schema().name().to_owned(), rows)
        })
        .collect()
}

fn row_counts(database: &Database) -> [usize; 3] {
    ["Root", "Part", "Fan"]
        .map(|name| database.table(database.table_index(name).unwrap()).row_count())
}

fn part(name: &str, next: Value) -> Value {
    json!({"op": "insert", "table": "Part", "uuid-name": name, "row": {"label": name, "next": next}})
}

fn named(name: &str) -> Value {
    json!(["named-uuid", name])
}

fn none() -> Value {
    json!(["set", []])
}

/// The error behind the results of operations that each succeed, but not together.
fn failure(database: &mut Database, operations: Value) -> Value {
    let before = contents(database);
    let count = operations.as_array().unwrap().len();
    let results = transact(database, operations);
    assert_eq!(contents(database), before);
    let results = results.as_array().unwrap();
    assert_eq!(results.len(), count + 1, "{results:?}");
    mask(&results[count])
}

fn violation(kind: &str, details: &str) -> Value {
    json!({"error": kind, "details": details})
}

#[test]
fn rows_outside_the_root_go_with_the_last_reference() {
    let mut database = database();
    transact(&mut database, json!([part("alone", none())]));
    assert_eq!(row_counts(&database), [0, 0, 0]);
    transact(
        &mut database,
        json!([part("p", named("q")), part("q", named("r")), part("r", none()),
               {"op": "insert", "table": "Root", "row": {"name": "a", "parts": named("p")}},
               {"op": "insert", "table": "Root", "row": {"name": "b", "parts": named("q")}}]),
    );
    assert_eq!(row_counts(&database), [2, 3, 0]);
    let release = |name: &str| {
        json!([{"op": "update", "table": "Root", "where": [["name", "==", name]],
                "row": {"parts": none()}}])
    };
    transact(&mut database, release("a"));
    assert_eq!(row_counts(&database), [2, 2, 0]);
    transact(&mut database, release("b"));
    assert_eq!(row_counts(&database), [2, 0, 0]);
}

#[test]
fn a_row_keeps_itself_only_with_others() {
    let mut database = database();
    transact(
        &mut database,
        json!([part("p", named("p")),
               {"op": "insert", "table": "Root", "row": {"parts": named("p")}}]),
    );
    assert_eq!(row_counts(&database), [1, 1, 0]);
    transact(&mut database, json!([{"op": "delete", "table": "Root", "where": []}]));
    assert_eq!(row_counts(&database), [0, 0, 0]);
}

#[test]
fn a_row_in_use_cannot_be_deleted() {
    let mut database = database();
    transact(
        &mut database,
        json!([part("p", none()),
               {"op": "insert", "table": "Root", "row": {"name": "a", "parts": named("p")}},
               {"op": "insert", "table": "Root", "row": {"name": "b", "parts": named("p")}}]),
    );
    assert_eq!(
        failure(&mut database, json!([{"op": "delete", "table": "Part", "where": []}])),
        violation(
            "referential integrity violation",
            "cannot delete Part row <0> because of 2 remaining reference(s)"
        )
    );
    transact(
        &mut database,
        json!([{"op": "delete", "table": "Part", "where": []},
               {"op": "update", "table": "Root", "where": [], "row": {"parts": none()}}]),
    );
    assert_eq!(row_counts(&database), [2, 0, 0]);
}

#[test]
fn weak_references_go_with_their_rows() {
    let mut database = database();
    transact(
        &mut database,
        json!([part("p", none()), part("q", none()),
               {"op": "insert", "table": "Root", "row": {
                   "name": "a", "parts": ["set", [named("p"), named("q")]]}},
               {"op": "insert", "table": "Root", "row": {
                   "name": "b", "likes": ["set", [named("p"), named("q"), named("never")]]}}]),
    );
    let likes = json!([{"op": "select", "table": "Root", "where": [["name", "==", "b"]],
                        "columns": ["likes", "_version"]}]);
    let before = transact(&mut database, likes.clone());
    assert_eq!(
        mask(&before),
        json!([{"rows": [{"_version": ["uuid", "<0>"],
                          "likes": ["set", [["uuid", "<1>"], ["uuid", "<2>"]]]}]}])
    );
    let find = json!([{"op": "select", "table": "Part", "where": [["label", "==", "p"]],
                       "columns": ["_uuid"]}]);
    let p = transact(&mut database, find)[0]["rows"][0]["_uuid"].clone();
    transact(
        &mut database,
        json!([{"op": "mutate", "table": "Root", "where": [],
                "mutations": [["parts", "delete", p]]}]),
    );
    assert_eq!(row_counts(&database), [2, 1, 0]);
    let after = transact(&mut database, likes);
    assert_eq!(
        mask(&after),
        json!([{"rows": [{"_version": ["uuid", "<0>"], "likes": ["uuid", "<1>"]}]}])
    );
    assert_ne!(after[0]["rows"][0]["_version"], before[0]["rows"][0]["_version"]);
    assert_ne!(after[0]["rows"][0]["likes"], p);
}

#[test]
fn weak_references_in_maps_take_their_keys_along() {
    let mut database = database();
    transact(
        &mut database,
        json!([{"op": "insert", "table": "Root", "uuid-name": "a", "row": {"name": "a"}},
               {"op": "insert", "table": "Root", "uuid-name": "b", "row": {"name": "b"}},
               {"op": "insert", "table": "Fan", "row": {
                   "idol": named("a"),
                   "rank": ["map", [[1, named("a")], [2, named("b")], [3, named("b")]]]}}]),
    );
    transact(
        &mut database,
        json!([{"op": "delete", "table": "Root", "where": [["name", "==", "b"]]}]),
    );
    let rank = json!([{"op": "select", "table": "Fan", "where": [], "columns": ["rank"]}]);
    assert_eq!(
        mask(&transact(&mut database, rank)),
        json!([{"rows": [{"rank": ["map", [[1, ["uuid", "<0>"]]]]}]}])
    );
}

#[test]
fn a_weak_reference_that_must_be_there_keeps_its_row() {
    let mut database = database();
    assert_eq!(
        failure(&mut database, json!([{"op": "insert", "table": "Fan", "row": {}}])),
        violation(
            "constraint violation",
            "Weak reference column \"idol\" in \"Fan\" row <0> (inserted within this transaction) \
             contained all-zeros UUID (probably as the default value for this column) but \
             deleting this value caused a constraint volation because this column is not allowed \
             to be empty."
        )
    );
    assert_eq!(
        failure(
            &mut database,
            json!([{"op": "insert", "table": "Fan", "row": {"idol": named("nobody")}}])
        ),
        violation(
            "constraint violation",
            "Deletion of 1 weak reference(s) to deleted (or never-existing) rows from column \
             \"idol\" in \"Fan\" row <0> (inserted within this transaction) caused this column to \
             become empty, but constraints on this column disallow an empty column."
        )
    );
    transact(
        &mut database,
        json!([{"op": "insert", "table": "Root", "uuid-name": "a", "row": {}},
               {"op": "insert", "table": "Fan", "row": {"idol": named("a")}}]),
    );
    assert_eq!(
        failure(&mut database, json!([{"op": "delete", "table": "Root", "where": []}])),
        violation(
            "constraint violation",
            "Deletion of 1 weak reference(s) to deleted (or never-existing) rows from column \
             \"idol\" in \"Fan\" row <0> caused this column to become empty, but constraints on \
             this column disallow an empty column."
        )
    );
}

#[test]
fn a_table_has_no_more_rows_than_it_may() {
    let mut database = database();
    let insert = json!({"op": "insert", "table": "Single", "row": {"size": 1}});
    let too_many = violation(
        "constraint violation",
        "transaction causes \"Single\" table to contain 2 rows, greater than the schema-defined \
         limit of 1 row(s)",
    );
    assert_eq!(failure(&mut database, json!([insert, insert])), too_many);
    transact(&mut database, json!([insert]));
    assert_eq!(failure(&mut database, json!([insert])), too_many);
    let delete = json!({"op": "delete", "table": "Single", "where": []});
    assert_eq!(
        mask(&transact(&mut database, json!([delete, insert]))),
        json!([{"count": 1}, {"uuid": ["uuid", "<0>"]}])
    );
}

#[test]
fn values_of_an_index_are_unique() {
    let mut database = database();
    let insert = |name: &str, number: i64| json!({"op": "insert", "table": "Root", "row": {"name": name, "number": number}});
    let duplicate = |name: &str, first: &str, second: &str| {
        violation(
            "constraint violation",
            &format!(
                "Transaction causes multiple rows in \"Root\" table to have identical values \
                 ({name}) for index on column \"name\".  First row, with UUID <0>, {first}  \
                 Second row, with UUID <1>, {second}"
            ),
        )
    };
    let inserted = "was inserted by this transaction.";
    assert_eq!(
        failure(&mut database, json!([insert("a", 1), insert("a", 2)])),
        duplicate("a", inserted, inserted)
    );
    transact(&mut database, json!([insert("a", 1), insert("b", 2)]));
    assert_eq!(
        failure(&mut database, json!([insert("b", 3)])),
        duplicate(
            "b",
            inserted,
            "existed in the database before this transaction and was not modified by the \
             transaction."
        )
    );
    let rename = |from: &str, to: &str| {
        json!({"op": "update", "table": "Root", "where": [["name", "==", from]],
               "row": {"name": to, "number": 7}})
    };
    assert_eq!(
        failure(
            &mut database,
            json!([rename("a", "b"), {"op": "update", "table": "Root",
                   "where": [["number", "==", 2]], "row": {"number": 8}}])
        ),
        duplicate(
            "b",
            "existed in the database before this transaction, which modified some of the row's \
             columns but not any columns in this index.",
            "had the following index values before the transaction: a."
        )
    );
    // Rows may exchange values.
    let results =
        transact(&mut database, json!([rename("a", "c"), rename("b", "a"), rename("c", "b")]));
    assert_eq!(results, json!([{"count": 1}, {"count": 1}, {"count": 1}]));
}

#[test]
fn what_is_undone_is_no_change() {
    let mut database = database();
    let insert = json!({"op": "insert", "table": "Root", "row": {"name": "a", "number": 1}});
    transact(&mut database, json!([insert]));
    let number = |number: i64| json!({"op": "update", "table": "Root", "where": [], "row": {"number": number}});
    let operations = json!([number(2), {"op": "insert", "table": "Root", "row": {"name": "b"}},
                            {"op": "delete", "table": "Root", "where": [["name", "==", "b"]]},
                            number(1), {"op": "comment", "comment": "one"},
                            {"op": "comment", "comment": "two"}]);
    let Outcome::Succeeded(_, transaction) = run(&database, &operations) else {
        panic!("fails");
    };
    let changes = transaction.prepare().unwrap();
    assert!(changes.rows.is_empty());
    assert_eq!(changes.comment.as_deref(), Some("one\ntwo"));
}

/// An operation on rows that are named by small numbers.
#[derive(Clone, Debug)]
enum Step {
    InsertRoot { name: u8, parts: Vec<u8>, likes: Vec<u8> },
    InsertPart { label: u8, next: Option<u8> },
    InsertFan { idol: u8 },
    SetParts { root: u8, parts: Vec<u8> },
    SetNext { part: u8, next: Option<u8> },
    Rename { root: u8, name: u8 },
    DeleteRoot { root: u8 },
    DeletePart { part: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let small = 0_u8..5;
    let some = || proptest::collection::vec(0_u8..5, 0..3);
    let maybe = || proptest::option::of(0_u8..5);
    prop_oneof![
        (small.clone(), some(), some()).prop_map(|(name, parts, likes)| Step::InsertRoot {
            name,
            parts,
            likes
        }),
        (small.clone(), maybe()).prop_map(|(label, next)| Step::InsertPart { label, next }),
        small.clone().prop_map(|idol| Step::InsertFan { idol }),
        (small.clone(), some()).prop_map(|(root, parts)| Step::SetParts { root, parts }),
        (small.clone(), maybe()).prop_map(|(part, next)| Step::SetNext { part, next }),
        (small.clone(), small.clone()).prop_map(|(root, name)| Step::Rename { root, name }),
        small.clone().prop_map(|root| Step::DeleteRoot { root }),
        small.prop_map(|part| Step::DeletePart { part }),
    ]
}

/// The UUID of the row of a table that a number stands for.
fn uuid(table: u8, number: u8) -> Value {
    json!(["uuid", Uuid::from_u128((u128::from(table) << 64) + u128::from(number) + 1).to_string()])
}

fn operation(step: &Step) -> Value {
    let is = |table: u8, number: u8| json!([["_uuid", "==", uuid(table, number)]]);
    let set = |numbers: &[u8]| {
        let numbers: BTreeSet<_> = numbers.iter().collect();
        json!(["set", numbers.into_iter().map(|number| uuid(1, *number)).collect::<Vec<_>>()])
    };
    let maybe = |number: &Option<u8>| set(&number.iter().copied().collect::<Vec<_>>());
    match step {
        Step::InsertRoot { name, parts, likes } => {
            json!({"op": "insert", "table": "Root", "uuid": uuid(0, *name)[1],
                   "row": {"name": name.to_string(), "parts": set(parts), "likes": set(likes)}})
        }
        Step::InsertPart { label, next } => {
            json!({"op": "insert", "table": "Part", "uuid": uuid(1, *label)[1],
                   "row": {"label": label.to_string(), "next": maybe(next)}})
        }
        Step::InsertFan { idol } => {
            json!({"op": "insert", "table": "Fan", "row": {"idol": uuid(0, *idol)}})
        }
        Step::SetParts { root, parts } => {
            json!({"op": "update", "table": "Root", "where": is(0, *root),
                   "row": {"parts": set(parts)}})
        }
        Step::SetNext { part, next } => {
            json!({"op": "update", "table": "Part", "where": is(1, *part),
                   "row": {"next": maybe(next)}})
        }
        Step::Rename { root, name } => {
            json!({"op": "update", "table": "Root", "where": is(0, *root),
                   "row": {"name": name.to_string()}})
        }
        Step::DeleteRoot { root } => {
            json!({"op": "delete", "table": "Root", "where": is(0, *root)})
        }
        Step::DeletePart { part } => {
            json!({"op": "delete", "table": "Part", "where": is(1, *part)})
        }
    }
}

/// Checks everything that must hold of a database, from its rows alone.
fn check(database: &Database) {
    let mut counts: HashMap<(TableIndex, Uuid), usize> = HashMap::new();
    for (index, table) in database.tables().iter().enumerate() {
        let mut names = HashSet::new();
        for (uuid, row) in table.rows() {
            assert_eq!(row.uuid(), uuid);
            for column in table.reference_columns() {
                for strength in [Strength::Strong, Strength::Weak] {
                    for target in column.targets(&row[column.column], strength) {
                        assert!(database.table(target.0).row(target.1).is_some());
                        if strength == Strength::Strong && target != (index, uuid) {
                            *counts.entry(target).or_default() += 1;
                        }
                    }
                }
            }
            for (number, columns) in table.schema().indexes().iter().enumerate() {
                let key = row.select(columns);
                assert_eq!(table.find(number, &key), Some(uuid));
                assert!(names.insert(key));
            }
        }
    }
    for (index, table) in database.tables().iter().enumerate() {
        for (uuid, _) in table.rows() {
            let count = counts.get(&(index, uuid)).copied().unwrap_or(0);
            assert_eq!(table.references(uuid), count);
            assert!(table.schema().is_root() || count > 0);
        }
    }
}

/// Checks that queries through an index find what looking at every row finds.
fn check_queries(transaction: &Transaction<'_>) {
    let table = transaction.database().table_index("Root").unwrap();
    let schema = transaction.database().table(table).schema();
    for name in 0..5 {
        let clause = json!(["name", "==", name.to_string()]);
        let condition = Condition::from_json(&[clause], schema, None).unwrap();
        let found: BTreeSet<_> =
            transaction.query(table, &condition).into_iter().map(|(uuid, _)| uuid).collect();
        let expected: BTreeSet<_> = transaction
            .rows(table)
            .filter(|(_, row)| condition.all_true_for(row))
            .map(|(uuid, _)| uuid)
            .collect();
        assert_eq!(found, expected);
    }
}

proptest! {
    #[test]
    fn every_transaction_leaves_the_database_consistent(
        transactions in proptest::collection::vec(proptest::collection::vec(step(), 1..6), 1..12)
    ) {
        let mut database = database();
        for steps in transactions {
            let before = contents(&database);
            let operations: Vec<_> = steps.iter().map(operation).collect();
            if let Outcome::Succeeded(_, transaction) = run(&database, &operations.clone().into()) {
                check_queries(&transaction);
            }
            let results = transact(&mut database, operations.into());
            let failed = results.as_array().unwrap().iter().any(|result| result["error"].is_string());
            if failed {
                prop_assert_eq!(contents(&database), before);
            }
            check(&database);
        }
    }
}
