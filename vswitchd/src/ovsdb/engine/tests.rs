use tempfile::TempDir;

use super::*;
use crate::ovsdb::test_support::{mask, schema};

struct Fixture {
    engine: Engine,
    directory: TempDir,
    now: Duration,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = open(&directory);
        Self { engine, directory, now: Duration::from_secs(100) }
    }

    fn time(&self) -> Time {
        Time { now: self.now, date: Duration::from_secs(1_000_000) }
    }

    /// Sends a request with the number `id`, and gives all that comes out for the client then.
    fn request(&mut self, session: SessionId, id: u32, method: &str, params: Value) -> Vec<Value> {
        let Value::Array(params) = params else { panic!("{params}") };
        let message = Message::Request { method: method.into(), params, id: id.into() };
        let time = self.time();
        self.engine.receive(session, message, time);
        self.output(session)
    }

    fn output(&mut self, session: SessionId) -> Vec<Value> {
        self.engine.take_output(session).into_iter().map(Message::into_json).collect()
    }

    /// Makes a request that is answered at once and alone, and gives the result.
    fn result(&mut self, session: SessionId, method: &str, params: Value) -> Value {
        let mut output = self.request(session, 1, method, params);
        assert_eq!(output.len(), 1, "{output:?}");
        assert_eq!(output[0]["error"], Value::Null, "{output:?}");
        output[0]["result"].take()
    }

    /// Makes a request that fails at once, and gives the error without the JSON that it is about.
    fn error(&mut self, session: SessionId, method: &str, params: Value) -> Value {
        let mut output = self.request(session, 1, method, params);
        assert_eq!(output.len(), 1, "{output:?}");
        assert_eq!(output[0]["result"], Value::Null, "{output:?}");
        let mut error = output[0]["error"].take();
        if let Value::Object(members) = &mut error {
            members.remove("syntax");
        }
        error
    }

    /// Runs operations in a session of their own.
    fn transact(&mut self, operations: &[Value]) -> Value {
        let session = self.engine.open_session();
        let params = [json!("Test")].iter().chain(operations).cloned().collect();
        let result = self.result(session, "transact", params);
        self.engine.close_session(session);
        result
    }
}

fn open(directory: &TempDir) -> Engine {
    let path = directory.path().join("conf.db");
    let (storage, database) =
        Storage::open(&path, schema(), false, Duration::ZERO, Duration::ZERO).unwrap();
    Engine::new(storage, database).unwrap()
}

fn uuid(number: u128) -> String {
    Uuid::from_u128(number).to_string()
}

/// Inserts a root with the UUID `number`.
fn insert(number: u128, row: Value) -> Value {
    json!({"op": "insert", "table": "Root", "uuid": uuid(number), "row": row})
}

fn update(number: u128, row: Value) -> Value {
    json!({"op": "update", "table": "Root", "where": [["_uuid", "==", ["uuid", uuid(number)]]],
           "row": row})
}

fn delete(number: u128) -> Value {
    json!({"op": "delete", "table": "Root", "where": [["_uuid", "==", ["uuid", uuid(number)]]]})
}

fn reply(id: u32, result: Value) -> Value {
    json!({"id": id, "error": null, "result": result})
}

fn notify(method: &str, params: Value) -> Value {
    json!({"id": null, "method": method, "params": params})
}

fn syntax(details: &str) -> Value {
    json!({"error": "syntax error", "details": details})
}

#[test]
fn tells_what_it_serves() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    assert_eq!(fixture.result(a, "echo", json!(["x", 1])), json!(["x", 1]));
    assert_eq!(fixture.result(a, "list_dbs", json!([])), json!(["Test", "_Server"]));
    assert_eq!(fixture.result(a, "get_schema", json!(["Test"])), schema().to_json());
    assert_eq!(mask(&fixture.result(a, "get_server_id", json!([]))), json!("<0>"));
    assert_eq!(fixture.result(a, "set_db_change_aware", json!([true])), json!({}));
    let select = json!({"op": "select", "table": "Database", "where": [["name", "==", "Test"]],
                        "columns": ["name", "model", "connected", "leader", "schema", "cid", "sid",
                                    "index"]});
    let row = json!({"name": "Test", "model": "standalone", "connected": true, "leader": true,
                     "schema": schema().to_json().to_string(), "cid": ["set", []],
                     "sid": ["set", []], "index": ["set", []]});
    assert_eq!(fixture.result(a, "transact", json!(["_Server", select])), json!([{"rows": [row]}]));
    let names = json!({"op": "select", "table": "Database", "where": [], "columns": ["name"],
                       "sort": ["name"]});
    assert_eq!(
        fixture.result(a, "transact", json!(["_Server", names])),
        json!([{"rows": [{"name": "Test"}, {"name": "_Server"}]}])
    );
}

#[test]
fn refuses_what_it_does_not_know() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    assert_eq!(fixture.error(a, "fly", json!([])), json!("unknown method"));
    assert_eq!(
        fixture.error(a, "get_schema", json!(["Nowhere"])),
        json!({"error": "unknown database",
               "details": "get_schema request specifies unknown database Nowhere"})
    );
    assert_eq!(
        fixture.error(a, "transact", json!([])),
        syntax("transact request params must begin with <db-name>")
    );
    assert_eq!(
        fixture.error(a, "set_db_change_aware", json!([1])),
        syntax("set_db_change_aware: true or false parameter expected")
    );
    assert_eq!(fixture.error(a, "convert", json!(["Test", {}]))["error"], json!("not supported"));
    assert_eq!(
        fixture.result(
            a,
            "transact",
            json!(["_Server", {
            "op": "delete", "table": "Database", "where": []}])
        ),
        json!([{"error": "not allowed", "details": "delete operation not allowed on table in \
                reserved database _Server"}])
    );
}

#[test]
fn locks_go_from_owner_to_owner() {
    let mut fixture = Fixture::new();
    let [a, b, c] = [(); 3].map(|()| fixture.engine.open_session());
    assert_eq!(fixture.result(a, "lock", json!(["l"])), json!({"locked": true}));
    assert_eq!(fixture.result(b, "lock", json!(["l"])), json!({"locked": false}));
    assert_eq!(fixture.result(c, "lock", json!(["l"])), json!({"locked": false}));
    assert_eq!(
        fixture.error(b, "lock", json!(["l"])),
        syntax("must issue \"unlock\" before new \"lock\"")
    );
    assert_eq!(fixture.result(a, "unlock", json!(["l"])), json!({}));
    assert_eq!(fixture.output(b), [notify("locked", json!(["l"]))]);
    assert_eq!(fixture.output(c), [json!(null); 0]);
    assert_eq!(
        fixture.error(a, "unlock", json!(["l"])),
        syntax("unlock: \"unlock\" without \"lock\" or \"steal\"")
    );
    // One who waits and gives up does not bother the owner.
    assert_eq!(fixture.result(c, "unlock", json!(["l"])), json!({}));
    assert_eq!(fixture.output(b), [json!(null); 0]);
    assert_eq!(fixture.result(c, "lock", json!(["l"])), json!({"locked": false}));
    fixture.engine.close_session(b);
    assert_eq!(fixture.output(c), [notify("locked", json!(["l"]))]);
    assert_eq!(
        fixture.error(a, "lock", json!(["a b"])),
        syntax("lock request params must be <id>")
    );
}

#[test]
fn locks_can_be_stolen() {
    let mut fixture = Fixture::new();
    let [a, b, c] = [(); 3].map(|()| fixture.engine.open_session());
    let assert = json!(["Test", {"op": "assert", "lock": "l"}]);
    let not_owner = json!([{"error": "not owner", "details": "Asserted lock l not held."}]);
    assert_eq!(fixture.result(a, "lock", json!(["l"])), json!({"locked": true}));
    assert_eq!(fixture.result(a, "transact", assert.clone()), json!([{}]));
    assert_eq!(fixture.result(b, "steal", json!(["l"])), json!({"locked": true}));
    assert_eq!(fixture.output(a), [notify("stolen", json!(["l"]))]);
    assert_eq!(fixture.result(a, "transact", assert.clone()), not_owner);
    assert_eq!(fixture.result(b, "transact", assert.clone()), json!([{}]));
    // A thief that is robbed is out, but one that had waited its turn comes next.
    assert_eq!(fixture.result(c, "steal", json!(["l"])), json!({"locked": true}));
    assert_eq!(fixture.output(b), [notify("stolen", json!(["l"]))]);
    assert_eq!(fixture.result(c, "unlock", json!(["l"])), json!({}));
    assert_eq!(fixture.output(a), [notify("locked", json!(["l"]))]);
    assert_eq!(fixture.result(a, "unlock", json!(["l"])), json!({}));
    assert_eq!(fixture.output(b), [json!(null); 0]);
    assert_eq!(fixture.result(b, "transact", assert), not_owner);
    assert_eq!(fixture.result(b, "unlock", json!(["l"])), json!({}));
}

#[test]
fn a_wait_is_tried_again_after_each_change() {
    let mut fixture = Fixture::new();
    let [a, b] = [(); 2].map(|()| fixture.engine.open_session());
    fixture.transact(&[insert(1, json!({"number": 1}))]);
    let wait = |number: i64, timeout: u64| {
        json!({"op": "wait", "table": "Root", "where": [], "columns": ["number"], "until": "==",
               "rows": [{"number": number}], "timeout": timeout})
    };
    let next = json!(["Test", wait(2, 5000), update(1, json!({"number": 3}))]);
    assert_eq!(fixture.request(a, 7, "transact", next.clone()), [json!(null); 0]);
    assert_eq!(fixture.engine.next_deadline(), Some(Duration::from_secs(105)));
    let mut output = fixture.request(a, 7, "transact", next);
    output[0]["error"].as_object_mut().unwrap().remove("syntax");
    assert_eq!(output[0]["error"], syntax("transact: duplicate request ID"));

    // The change that one waiting transaction makes is what the other waits for.
    let last = json!(["Test", wait(3, 9000)]);
    assert_eq!(fixture.request(b, 8, "transact", last), [json!(null); 0]);
    assert_eq!(
        fixture.transact(&[update(1, json!({"fixed": "x"}))])[0]["error"],
        "constraint violation"
    );
    assert_eq!(fixture.output(a), [json!(null); 0]);
    assert_eq!(fixture.transact(&[update(1, json!({"number": 2}))]), json!([{"count": 1}]));
    assert_eq!(fixture.output(a), [reply(7, json!([{}, {"count": 1}]))]);
    assert_eq!(fixture.output(b), [reply(8, json!([{}]))]);
    assert_eq!(fixture.engine.next_deadline(), None);
}

#[test]
fn a_wait_ends_with_its_time() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    let wait = |timeout: u64| {
        json!({"op": "wait", "table": "Root", "where": [], "columns": ["number"], "until": "!=",
               "rows": [], "timeout": timeout})
    };
    for (id, timeout) in [(1, 20), (2, 30)] {
        let params = json!(["Test", wait(timeout), {"op": "abort"}]);
        assert_eq!(fixture.request(a, id, "transact", params), [json!(null); 0]);
    }
    assert_eq!(fixture.engine.usage().triggers, 2);
    fixture.now += Duration::from_millis(19);
    fixture.engine.expire(fixture.time());
    assert_eq!(fixture.output(a), [json!(null); 0]);
    fixture.now += Duration::from_millis(3);
    fixture.engine.expire(fixture.time());
    assert_eq!(
        fixture.output(a),
        [reply(
            1,
            json!([{"error": "timed out", "details": "\"wait\" timed out after 22 ms"},
                         null])
        )]
    );
    assert_eq!(fixture.engine.next_deadline(), Some(fixture.now + Duration::from_millis(8)));
    let cancel = Message::Notify { method: "cancel".into(), params: vec![2.into()] };
    fixture.engine.receive(a, cancel, fixture.time());
    assert_eq!(fixture.output(a), [json!({"id": 2, "result": null, "error": "canceled"})]);
    assert_eq!(fixture.engine.next_deadline(), None);
}

#[test]
fn a_wait_goes_with_its_client() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    let wait = json!({"op": "wait", "table": "Root", "where": [], "columns": ["number"],
                      "until": "!=", "rows": []});
    let params = json!(["Test", wait, insert(2, json!({}))]);
    assert_eq!(fixture.request(a, 1, "transact", params), [json!(null); 0]);
    fixture.engine.close_session(a);
    fixture.transact(&[insert(1, json!({"name": "x"}))]);
    assert_eq!(fixture.engine.usage(), Usage { rows: 1, ..Usage::default() });
}

#[test]
fn a_monitor_tells_of_rows_and_changes() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    fixture.transact(&[insert(1, json!({"name": "a", "number": 1}))]);
    let requests = json!({"Root": {"columns": ["name", "number"]}});
    assert_eq!(
        fixture.result(a, "monitor", json!(["Test", "m", requests])),
        json!({"Root": {uuid(1): {"new": {"name": "a", "number": 1}}}})
    );
    let mut update_of = |operation: Value| {
        fixture.transact(&[operation]);
        fixture.output(a)
    };
    let told = |update: Value| [notify("update", json!(["m", {"Root": update}]))];
    assert_eq!(
        update_of(insert(2, json!({"name": "b"}))),
        told(json!({uuid(2): {"new": {"name": "b", "number": 0}}}))
    );
    assert_eq!(
        update_of(update(2, json!({"number": 5}))),
        told(json!({uuid(2): {"old": {"number": 0}, "new": {"name": "b", "number": 5}}}))
    );
    assert_eq!(update_of(update(2, json!({"real": 0.5}))), [json!(null); 0]);
    assert_eq!(update_of(delete(2)), told(json!({uuid(2): {"old": {"name": "b", "number": 5}}})));
}

#[test]
fn the_client_is_told_of_a_change_before_it_is_answered() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    let requests = json!({"Root": {"columns": ["name"]}});
    assert_eq!(fixture.result(a, "monitor", json!(["Test", null, requests])), json!({}));
    let output =
        fixture.request(a, 9, "transact", json!(["Test", insert(1, json!({"name": "a"}))]));
    assert_eq!(
        output,
        [
            notify("update", json!([null, {"Root": {uuid(1): {"new": {"name": "a"}}}}])),
            reply(9, json!([{"uuid": ["uuid", uuid(1)]}])),
        ]
    );
}

#[test]
fn a_slow_client_gets_one_update_for_many_changes() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    let requests = json!({"Root": {"columns": ["number"]}});
    fixture.transact(&[insert(1, json!({"name": "a"}))]);
    fixture.result(a, "monitor", json!(["Test", "m", requests]));
    fixture.transact(&[insert(2, json!({"name": "b"}))]);
    fixture.transact(&[insert(3, json!({"name": "c"}))]);
    for number in 1..9 {
        fixture.transact(&[
            update(1, json!({"number": number})),
            update(3, json!({"number": number})),
        ]);
    }
    fixture.transact(&[delete(2)]);
    assert_eq!(
        fixture.output(a),
        [notify(
            "update",
            json!(["m", {"Root": {
            uuid(1): {"old": {"number": 0}, "new": {"number": 8}},
            uuid(3): {"new": {"number": 8}}}}])
        )]
    );
    fixture.transact(&[update(1, json!({"number": 5}))]);
    fixture.transact(&[update(1, json!({"number": 8}))]);
    assert_eq!(fixture.output(a), [json!(null); 0]);
}

#[test]
fn a_monitor_tells_only_what_was_selected() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    fixture.transact(&[insert(1, json!({"name": "a", "number": 1}))]);
    let requests = json!({"Root": [
        {"columns": ["name"], "select": {"initial": false, "delete": false, "modify": false}},
        {"columns": ["number"], "select": {"initial": false, "insert": false, "delete": false}}]});
    assert_eq!(fixture.result(a, "monitor", json!(["Test", "m", requests])), json!({}));
    let mut update_of = |operation: Value| {
        fixture.transact(&[operation]);
        fixture.output(a)
    };
    let told = |update: Value| [notify("update", json!(["m", {"Root": update}]))];
    assert_eq!(
        update_of(insert(2, json!({"name": "b"}))),
        told(json!({uuid(2): {"new": {"name": "b"}}}))
    );
    assert_eq!(
        update_of(update(1, json!({"number": 2, "name": "z"}))),
        told(json!({uuid(1): {"old": {"number": 1}, "new": {"number": 2}}}))
    );
    assert_eq!(update_of(delete(1)), [json!(null); 0]);
}

#[test]
fn a_monitor_without_columns_has_all_but_the_uuid() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    fixture.transact(&[insert(1, json!({"name": "a"}))]);
    let initial = fixture.result(a, "monitor", json!(["Test", "m", {"Root": {}}]));
    let row = initial["Root"][uuid(1)]["new"].as_object().unwrap();
    let columns: Vec<_> = row.keys().map(String::as_str).collect();
    assert_eq!(
        columns,
        [
            "_version", "colour", "fixed", "integers", "likes", "name", "number", "parts", "real",
            "volatile", "words"
        ]
    );
}

#[test]
fn a_conditional_monitor_sends_differences() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    fixture.transact(&[
        insert(1, json!({"name": "a", "number": 1, "integers": ["set", [1, 2]]})),
        insert(2, json!({"name": "b"})),
    ]);
    let requests = json!({"Root": [{"columns": ["name", "number", "integers", "words", "real"]}]});
    assert_eq!(
        fixture.result(a, "monitor_cond", json!(["Test", "m", requests])),
        json!({"Root": {uuid(1): {"initial": {"name": "a", "number": 1,
                                              "integers": ["set", [1, 2]]}},
                        uuid(2): {"initial": {"name": "b"}}}})
    );
    fixture.transact(&[
        update(1, json!({"integers": ["set", [2, 3]], "words": ["map", [["k", 1]]], "real": 0.5})),
        delete(2),
        insert(3, json!({"name": "c", "number": 3})),
    ]);
    assert_eq!(
        fixture.output(a),
        [notify(
            "update2",
            json!(["m", {"Root": {
            uuid(1): {"modify": {"integers": ["set", [1, 3]], "words": ["map", [["k", 1]]],
                                 "real": 0.5}},
            uuid(2): {"delete": null},
            uuid(3): {"insert": {"name": "c", "number": 3}}}}])
        )]
    );
    fixture.transact(&[update(1, json!({"words": ["map", [["k", 2]]], "real": ["set", []]}))]);
    assert_eq!(
        fixture.output(a),
        [notify(
            "update2",
            json!(["m", {"Root": {
            uuid(1): {"modify": {"words": ["map", [["k", 2]]], "real": ["set", []]}}}}])
        )]
    );
}

#[test]
fn a_condition_decides_which_rows_are_known() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    fixture.transact(&[
        insert(1, json!({"name": "a", "number": 1})),
        insert(2, json!({"name": "b", "number": 50})),
    ]);
    let requests = |clauses: Value| json!({"Root": [{"columns": ["name"], "where": clauses}]});
    assert_eq!(
        fixture.result(
            a,
            "monitor_cond",
            json!(["Test", "m", requests(json!([["number", ">", 10], ["name", "==", "z"]]))])
        ),
        json!({"Root": {uuid(2): {"initial": {"name": "b"}}}})
    );
    let told = |update: Value| [notify("update2", json!(["m", {"Root": update}]))];
    fixture.transact(&[update(1, json!({"number": 11}))]);
    assert_eq!(fixture.output(a), told(json!({uuid(1): {"insert": {"name": "a"}}})));
    fixture.transact(&[update(2, json!({"number": 9}))]);
    assert_eq!(fixture.output(a), told(json!({uuid(2): {"delete": null}})));
    fixture.transact(&[update(2, json!({"number": 8})), insert(3, json!({"name": "c"}))]);
    assert_eq!(fixture.output(a), [json!(null); 0]);
    fixture.transact(&[update(3, json!({"name": "z"})), delete(2)]);
    assert_eq!(fixture.output(a), told(json!({uuid(3): {"insert": {"name": "z"}}})));

    let change = |clauses: Value| json!({"Root": [{"where": clauses}]});
    assert_eq!(
        fixture.request(
            a,
            5,
            "monitor_cond_change",
            json!(["m", "n", change(json!([["number", "<", 5]]))])
        ),
        [
            notify("update2", json!(["n", {"Root": {uuid(1): {"delete": null}}}])),
            reply(5, json!({}))
        ]
    );
    assert_eq!(
        fixture.request(a, 6, "monitor_cond_change", json!(["n", "n", change(json!([]))])),
        [
            notify("update2", json!(["n", {"Root": {uuid(1): {"insert": {"name": "a"}}}}])),
            reply(6, json!({}))
        ]
    );
    assert_eq!(
        fixture.request(a, 7, "monitor_cond_change", json!(["n", "n", change(json!([false]))])),
        [
            notify(
                "update2",
                json!(["n", {"Root": {uuid(1): {"delete": null},
                                                 uuid(3): {"delete": null}}}])
            ),
            reply(7, json!({}))
        ]
    );
}

#[test]
fn who_comes_back_gets_the_difference() {
    let mut fixture = Fixture::new();
    let [a, b] = [(); 2].map(|()| fixture.engine.open_session());
    fixture.transact(&[
        insert(1, json!({"name": "a"})),
        insert(2, json!({"name": "b"})),
        insert(3, json!({"name": "c"})),
    ]);
    let nil = uuid(0);
    let requests = json!({"Root": [{"columns": ["name", "number"]}]});
    let first = fixture.result(a, "monitor_cond_since", json!(["Test", "m", requests, nil]));
    assert_eq!(first[0], false);
    assert_eq!(first[2]["Root"].as_object().unwrap().len(), 3);
    fixture.transact(&[update(1, json!({"number": 4}))]);
    let output = fixture.output(a);
    let last_id = output[0]["params"][1].clone();
    assert_ne!(last_id, first[1]);
    assert_eq!(
        output,
        [notify("update3", json!(["m", last_id, {"Root": {uuid(1): {"modify": {"number": 4}}}}]))]
    );
    fixture.engine.close_session(a);

    fixture.transact(&[update(1, json!({"number": 5}))]);
    fixture.transact(&[delete(2)]);
    let params = json!(["Test", "m", requests, last_id]);
    let second = fixture.result(b, "monitor_cond_since", params.clone());
    assert_eq!(
        [&second[0], &second[2]],
        [
            &json!(true),
            &json!({"Root": {uuid(1): {"modify": {"number": 5}},
                                        uuid(2): {"delete": null}}})
        ]
    );
    let params = json!(["Test", "n", requests, second[1]]);
    assert_eq!(fixture.result(b, "monitor_cond_since", params), json!([true, second[1], {}]));
    let params = json!(["Test", "o", requests, uuid(99)]);
    let third = fixture.result(b, "monitor_cond_since", params);
    assert_eq!(
        third,
        json!([false, second[1], {"Root": {uuid(1): {"initial": {"name": "a", "number": 5}},
                                           uuid(3): {"initial": {"name": "c"}}}}])
    );
}

#[test]
fn monitors_end_when_asked() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    fixture.result(a, "monitor", json!(["Test", [1], {"Root": {}}]));
    assert_eq!(fixture.error(a, "monitor_cancel", json!([2])), json!("unknown monitor"));
    assert_eq!(fixture.error(a, "monitor_cancel", json!([])), json!("invalid parameters"));
    assert_eq!(fixture.result(a, "monitor_cancel", json!([[1]])), json!({}));
    fixture.transact(&[insert(1, json!({}))]);
    assert_eq!(fixture.output(a), [json!(null); 0]);
}

#[test]
fn malformed_monitors_are_refused() {
    let mut fixture = Fixture::new();
    let a = fixture.engine.open_session();
    fixture.result(a, "monitor_cond", json!(["Test", "m", {"Root": {}}]));
    let mut refused = |method: &str, params: Value| {
        let error = fixture.error(a, method, params);
        assert_eq!(error["error"], "syntax error");
        error["details"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused("monitor", json!(["Test", "x"])), "invalid parameters");
    assert_eq!(refused("monitor", json!(["Test", "x", []])), "monitor-requests must be object");
    assert_eq!(refused("monitor", json!(["Test", "m", {}])), "duplicate monitor ID");
    assert_eq!(refused("monitor", json!(["Test", "x", {"No": {}}])), "no table named No");
    assert_eq!(
        refused("monitor", json!(["Test", "x", {"Root": {"where": []}}])),
        "Parsing table Root failed: Member 'where' is present but not allowed here."
    );
    assert_eq!(
        refused("monitor", json!(["Test", "x", {"Root": {"columns": ["a"]}}])),
        "a is not a valid column name"
    );
    assert_eq!(
        refused("monitor", json!(["Test", "x", {"Root": {"columns": ["name", "name"]}}])),
        "column name mentioned more than once"
    );
    assert_eq!(
        refused("monitor", json!(["Test", "x", {"Root": {"select": {"all": true}}}])),
        "Parsing table Root select failed: Member 'all' is present but not allowed here."
    );
    assert_eq!(
        refused("monitor_cond_since", json!(["Test", "x", {"Root": {}}, 1])),
        "last-txn-id must be string"
    );
    assert_eq!(refused("monitor_cond_change", json!(["x", "x", {}])), "unknown monitor session");
    assert_eq!(
        refused("monitor_cond_change", json!(["m", "m", {"Part": []}])),
        "no table named Part in monitor session"
    );
    assert_eq!(
        refused("monitor_cond_change", json!(["m", "m", {"Root": [{"columns": []}]}])),
        "changing columns is unsupported"
    );
}

#[test]
fn what_is_answered_is_in_the_file() {
    let mut fixture = Fixture::new();
    fixture.transact(&[insert(1, json!({"name": "a"}))]);
    fixture.engine.start_compaction(fixture.time(), || ()).unwrap();
    fixture.transact(&[insert(2, json!({"name": "b"}))]);
    fixture.engine.finish_compaction().unwrap();
    fixture
        .engine
        .change(
            |transaction| {
                let table = transaction.database().table_index("Root").unwrap();
                transaction.delete(table, Uuid::from_u128(1));
            },
            fixture.time(),
        )
        .unwrap();
    fixture.engine = open(&fixture.directory);
    let select = json!({"op": "select", "table": "Root", "where": [], "columns": ["name"]});
    assert_eq!(fixture.transact(&[select]), json!([{"rows": [{"name": "b"}]}]));
}
