use std::collections::BTreeMap;

use super::*;
use crate::jsonrpc::Message;
use crate::ovsdb::client::session::{Event, Reconnection, Session};
use crate::ovsdb::client::transaction::{Outcome, Transaction};

/// A session and the server's side of the conversation.
struct Conversation {
    session: Session,
    /// The ids of the requests so far, by method.
    ids: BTreeMap<String, Value>,
}

/// The row of the `Database` table that a server which is no cluster has.
fn database_row() -> Value {
    json!({
        "name": "Open_vSwitch", "model": "standalone", "connected": true, "leader": true,
        "schema": schema_json().to_string(),
    })
}

fn server_schema() -> Value {
    let optional = |key: &str| json!({"type": {"key": key, "min": 0}});
    json!({"name": "_Server", "version": "1.2.0", "tables": {"Database": {"columns": {
        "name": {"type": "string"},
        "model": {"type": {"key": {"type": "string", "enum":
            ["set", ["clustered", "relay", "standalone"]]}}},
        "connected": {"type": "boolean"},
        "leader": {"type": "boolean"},
        "schema": optional("string"),
        "cid": optional("uuid"),
        "sid": optional("uuid"),
        "index": optional("integer"),
    }}}})
}

impl Conversation {
    fn new(lock: Option<&str>) -> Self {
        let session = Session::new("Open_vSwitch", monitored(), lock);
        Self { session, ids: BTreeMap::new() }
    }

    /// A conversation that has come to the updates, with the transaction 99 as the last.
    fn monitoring(lock: Option<&str>) -> Self {
        let mut talk = Self::new(lock);
        talk.connect();
        talk.answer("get_schema", server_schema());
        talk.sent();
        talk.answer("monitor_cond", update("Database", 50, &json!({"initial": database_row()})));
        talk.sent();
        talk.answer("monitor_cond_since", json!([false, uuid(99).to_string(), contents()]));
        assert_eq!(talk.events(), [Event::Connected, Event::Changed]);
        assert_eq!(talk.sent(), [""; 0]);
        talk
    }

    fn connect(&mut self) {
        self.session.connected("s");
        self.sent();
    }

    /// What the session sends, as `method params`, or `reply result`.
    fn sent(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(message) = self.session.next_outgoing() {
            lines.push(match message {
                Message::Request { method, params, id } => {
                    let line = format!("{method} {}", Value::from(params));
                    self.ids.insert(method, id);
                    line
                }
                Message::Reply { result, id } => format!("reply {result} {id}"),
                message => panic!("{message:?}"),
            });
        }
        lines
    }

    fn answer(&mut self, method: &str, result: Value) {
        let id = self.ids[method].clone();
        self.session.handle(Message::Reply { result, id });
    }

    fn refuse(&mut self, method: &str, error: Value) {
        let id = self.ids[method].clone();
        self.session.handle(Message::Error { error, id });
    }

    fn notify(&mut self, method: &str, params: Value) {
        let Value::Array(params) = params else { panic!("{params}") };
        self.session.handle(Message::Notify { method: method.to_owned(), params });
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.session.next_event()).collect()
    }

    fn port_names(&self) -> Vec<&str> {
        self.session.cache().rows("Port").map(|row| row.string("name")).collect()
    }
}

fn columns() -> Value {
    json!({
        "Bridge": [{"columns": ["name", "ports", "queues", "stp_enable", "tag"]}],
        "Open_vSwitch": [{"columns": ["bridges", "cur_cfg", "next_cfg", "other_config"]}],
        "Port": [{"columns": ["name", "statistics", "trunks"]}],
    })
}

fn contents_request(method: &str, last: Option<u128>) -> String {
    let mut params = vec![json!("Open_vSwitch"), json!(["monid", "Open_vSwitch"]), columns()];
    params.extend(last.map(|number| json!(uuid(number).to_string())));
    format!("{method} {}", Value::from(params))
}

const NO: &str = "unknown method";

#[test]
fn a_new_server_is_asked_for_what_happened_since() {
    let mut talk = Conversation::new(None);
    talk.session.connected("s");
    assert_eq!(talk.sent(), [r#"get_schema ["_Server"]"#]);
    talk.answer("get_schema", server_schema());
    assert_eq!(
        talk.sent(),
        [concat!(
            r#"monitor_cond ["_Server",["monid","_Server"],{"Database":[{"columns":"#,
            r#"["cid","connected","index","leader","model","name","schema"]}]}]"#
        )]
    );
    talk.answer("monitor_cond", update("Database", 50, &json!({"initial": database_row()})));
    assert_eq!(
        talk.sent(),
        [contents_request("monitor_cond_since", Some(0)), "set_db_change_aware [true]".to_owned()]
    );
    assert!(!talk.session.has_contents());
    talk.answer("monitor_cond_since", json!([false, uuid(90).to_string(), contents()]));
    talk.answer("set_db_change_aware", json!({}));
    assert_eq!(talk.events(), [Event::Connected, Event::Changed]);
    assert!(talk.session.has_contents());
    assert_eq!((talk.session.seqno(), talk.port_names()), (1, vec!["p0", "p1"]));

    let delete = update("Port", 3, &json!({"delete": null}));
    talk.notify("update3", json!([["monid", "Open_vSwitch"], uuid(91).to_string(), delete]));
    let modify = update("Open_vSwitch", 1, &json!({"modify": {"cur_cfg": 7}}));
    talk.notify("update3", json!([["monid", "Open_vSwitch"], uuid(92).to_string(), modify]));
    assert_eq!(talk.events(), [Event::Changed]);
    assert_eq!((talk.session.seqno(), talk.port_names()), (2, vec!["p1"]));

    // After a pause only the difference comes.
    talk.session.disconnected();
    assert_eq!(talk.events(), [Event::Disconnected]);
    assert_eq!(talk.port_names(), ["p1"]);
    talk.connect();
    talk.answer("get_schema", server_schema());
    talk.sent();
    talk.answer("monitor_cond", update("Database", 50, &json!({"initial": database_row()})));
    assert_eq!(talk.sent()[0], contents_request("monitor_cond_since", Some(92)));
    let insert = update("Port", 6, &json!({"insert": {"name": "p6"}}));
    talk.answer("monitor_cond_since", json!([true, uuid(93).to_string(), insert]));
    assert_eq!(talk.events(), [Event::Connected, Event::Changed]);
    assert_eq!(talk.port_names(), ["p1", "p6"]);
}

#[test]
fn an_empty_database_is_told_once() {
    let mut talk = Conversation::monitoring(None);
    for contents in [json!({}), json!({})] {
        talk.session.disconnected();
        talk.connect();
        talk.refuse("get_schema", json!(NO));
        talk.sent();
        talk.answer("get_schema", schema_json());
        talk.sent();
        talk.answer("monitor_cond", contents);
        talk.sent();
    }
    let reconnection = [Event::Disconnected, Event::Connected];
    assert_eq!(talk.events(), [&reconnection[..], &[Event::Changed], &reconnection].concat());

    let mut first = Conversation::new(None);
    first.connect();
    first.refuse("get_schema", json!(NO));
    first.sent();
    first.answer("get_schema", schema_json());
    first.sent();
    first.answer("monitor_cond", json!({}));
    assert_eq!(first.events(), [Event::Connected, Event::Changed]);
}

#[test]
fn older_servers_are_asked_in_older_ways() {
    let mut talk = Conversation::new(None);
    talk.connect();
    talk.refuse("get_schema", json!({"error": "unknown database"}));
    assert_eq!(talk.sent(), [r#"get_schema ["Open_vSwitch"]"#]);
    talk.answer("get_schema", schema_json());
    assert_eq!(talk.sent(), [contents_request("monitor_cond", None)]);
    talk.refuse("monitor_cond", json!(NO));
    assert_eq!(talk.sent(), [contents_request("monitor", None)]);
    talk.answer("monitor", update("Port", 3, &json!({"new": {"name": "p0"}})));
    let replace = json!({"old": {"name": "p0"}, "new": {"name": "p9"}});
    talk.notify("update", json!([["monid", "Open_vSwitch"], update("Port", 3, &replace)]));
    assert_eq!(talk.events(), [Event::Connected, Event::Changed, Event::Changed]);
    assert_eq!(talk.port_names(), ["p9"]);

    // One that knows itself, but not the newest method.
    let mut talk = Conversation::new(None);
    talk.connect();
    talk.answer("get_schema", server_schema());
    talk.sent();
    talk.answer("monitor_cond", update("Database", 50, &json!({"initial": database_row()})));
    talk.sent();
    talk.refuse("monitor_cond_since", json!(NO));
    assert_eq!(talk.sent(), [contents_request("monitor_cond", None)]);
    talk.answer("monitor_cond", contents());
    assert_eq!(talk.port_names(), ["p0", "p1"]);

    // One that will not be monitored by any method.
    let mut talk = Conversation::new(None);
    talk.connect();
    talk.refuse("get_schema", json!(NO));
    talk.sent();
    talk.refuse("get_schema", json!("unknown database"));
    assert_eq!(talk.session.take_reconnection(), Some(Reconnection::Later));
    assert_eq!(talk.session.take_reconnection(), None);
}

#[test]
fn servers_of_no_use_are_left() {
    let with = |changes: Value| {
        let mut row = database_row();
        let Value::Object(changes) = changes else { panic!("{changes}") };
        row.as_object_mut().unwrap().extend(changes);
        update("Database", 50, &json!({"initial": row}))
    };
    let cases = [
        (with(json!({})), true),
        (json!({}), false),
        (with(json!({"name": "hardware_vtep"})), false),
        (with(json!({"schema": ["set", []]})), false),
        (with(json!({"schema": "{}"})), false),
        (with(json!({"schema": "{"})), false),
        (with(json!({"model": "clustered", "index": 5})), true),
        (with(json!({"model": "clustered", "schema": ["set", []]})), false),
        (with(json!({"model": "clustered", "connected": false})), false),
        (with(json!({"model": "clustered", "leader": false})), false),
        (with(json!({"model": "relay"})), false),
        (with(json!({"model": "relay", "connected": false})), false),
        (with(json!({"model": "relay", "schema": ["set", []]})), false),
        (json!([]), false),
    ];
    for (rows, useful) in cases {
        let mut talk = Conversation::new(None);
        talk.connect();
        talk.answer("get_schema", server_schema());
        talk.sent();
        talk.answer("monitor_cond", rows.clone());
        let expected = if useful { None } else { Some(Reconnection::Later) };
        assert_eq!(talk.session.take_reconnection(), expected, "{rows}");
        assert_eq!(talk.sent().len(), if useful { 2 } else { 0 }, "{rows}");
    }

    // One that was of use is left at once when that ends, and so is one that lags behind.
    let mut talk = Conversation::monitoring(None);
    let modify = json!({"modify": {"model": "clustered", "index": 5}});
    talk.notify("update2", json!([["monid", "_Server"], update("Database", 50, &modify)]));
    assert_eq!(talk.session.take_reconnection(), None);
    let modify = json!({"modify": {"index": 4}});
    talk.notify("update2", json!([["monid", "_Server"], update("Database", 50, &modify)]));
    assert_eq!(talk.session.take_reconnection(), Some(Reconnection::Now));
    assert_eq!(talk.port_names(), ["p0", "p1"]);
}

#[test]
fn an_update_that_does_not_fit_starts_from_nothing() {
    for update in [update("Port", 9, &json!({"delete": null})), json!(1)] {
        let mut talk = Conversation::monitoring(None);
        talk.notify("update3", json!([["monid", "Open_vSwitch"], uuid(91).to_string(), update]));
        assert_eq!(talk.session.take_reconnection(), Some(Reconnection::Now));
        talk.session.disconnected();
        talk.connect();
        talk.answer("get_schema", server_schema());
        talk.sent();
        talk.answer(
            "monitor_cond",
            super::update(
                "Database",
                50,
                &json!({
                    "initial": database_row()
                }),
            ),
        );
        assert_eq!(talk.sent()[0], contents_request("monitor_cond_since", Some(0)));
        talk.answer("monitor_cond_since", json!(["odd"]));
        assert_eq!(talk.session.take_reconnection(), Some(Reconnection::Now));
    }
}

#[test]
fn a_converted_database_is_asked_for_again() {
    let mut talk = Conversation::monitoring(None);
    let id = talk.session.commit(&{
        let mut transaction = Transaction::new();
        transaction.delete("Port", uuid(3));
        transaction
    });
    talk.sent();
    talk.refuse("transact", json!("canceled"));
    assert_eq!(talk.events(), [Event::TransactionDone(id, Outcome::TryAgain)]);
    talk.notify("monitor_canceled", json!([["monid", "other"]]));
    assert_eq!(talk.sent(), [""; 0]);
    talk.notify("monitor_canceled", json!([["monid", "Open_vSwitch"]]));
    assert_eq!(
        talk.sent(),
        [r#"monitor_cancel [["monid","_Server"]]"#, r#"get_schema ["_Server"]"#]
    );
    talk.answer("get_schema", server_schema());
    talk.sent();
    let mut schema = schema_json();
    schema["tables"].as_object_mut().unwrap().remove("Port");
    schema["tables"]["Bridge"]["columns"] = json!({"name": {"type": "string"}});
    let mut row = database_row();
    row["schema"] = schema.to_string().into();
    talk.answer("monitor_cond", update("Database", 50, &json!({"initial": row})));
    let sent = talk.sent();
    assert!(sent[0].ends_with(&format!("\"{}\"]", uuid(0))), "{}", sent[0]);
    assert!(sent[0].contains(r#""Bridge":[{"columns":["name"]}]"#), "{}", sent[0]);
    talk.answer("monitor_cond_since", json!([false, uuid(1).to_string(), {}]));
    assert_eq!(talk.session.cache().rows("Port").count(), 0);
}

#[test]
fn the_lock_comes_and_goes() {
    let mut talk = Conversation::new(Some("l"));
    talk.session.connected("s");
    assert_eq!(talk.sent(), [r#"get_schema ["_Server"]"#, r#"lock ["l"]"#]);
    let state = |talk: &Conversation| (talk.session.has_lock(), talk.session.is_contended());
    assert_eq!(state(&talk), (false, false));
    talk.answer("lock", json!({"locked": false}));
    assert_eq!(talk.events(), [Event::Connected, Event::LockHeldElsewhere]);
    assert_eq!(state(&talk), (false, true));
    talk.notify("locked", json!(["other"]));
    talk.notify("locked", json!(["l"]));
    assert_eq!((talk.events(), state(&talk)), (vec![Event::LockGranted], (true, false)));
    talk.notify("stolen", json!(["l"]));
    assert_eq!((talk.events(), state(&talk)), (vec![Event::LockLost], (false, true)));
    talk.notify("locked", json!(["l"]));
    talk.session.disconnected();
    assert_eq!(talk.events(), [Event::LockGranted, Event::Disconnected]);
    assert_eq!(state(&talk), (false, false));
    talk.connect();
    talk.answer("lock", json!({"locked": true}));
    assert_eq!(talk.events(), [Event::Connected, Event::LockGranted]);
}

#[test]
fn transactions_need_contents_and_the_lock() {
    let mut transaction = Transaction::new();
    transaction.set("Open_vSwitch", uuid(1), "cur_cfg", 7);
    let done = |id, outcome| vec![Event::TransactionDone(id, outcome)];

    let mut talk = Conversation::new(None);
    let id = talk.session.commit(&transaction);
    assert_eq!(talk.events(), done(id, Outcome::TryAgain));

    let mut talk = Conversation::monitoring(Some("l"));
    let id = talk.session.commit(&transaction);
    assert_eq!(talk.events(), done(id, Outcome::NotLocked));
    talk.answer("lock", json!({"locked": true}));
    talk.events();
    let id = talk.session.commit(&Transaction::new());
    assert_eq!((talk.events(), talk.sent()), (done(id, Outcome::Unchanged), vec![]));

    let first = talk.session.commit(&transaction);
    let second = talk.session.commit(&transaction);
    assert_ne!(first, second);
    let transact = concat!(
        r#"transact ["Open_vSwitch",{"op":"update","row":{"cur_cfg":7},"#,
        r#""table":"Open_vSwitch","where":[["_uuid","==","#,
        r#"["uuid","00000000-0000-0000-0000-000000000001"]]]},{"lock":"l","op":"assert"}]"#
    );
    assert_eq!(talk.sent(), [transact, transact]);
    talk.answer("transact", json!([{"count": 1}, {}]));
    let success = Outcome::Success { inserted: BTreeMap::new(), incremented: None };
    assert_eq!(talk.events(), done(second, success));
    // A reply that comes twice is none.
    talk.answer("transact", json!([{"count": 1}, {}]));
    assert_eq!(talk.events(), []);
    talk.session.disconnected();
    assert_eq!(
        talk.events(),
        [Event::TransactionDone(first, Outcome::TryAgain), Event::Disconnected]
    );

    let mut talk = Conversation::monitoring(None);
    let id = talk.session.commit(&transaction);
    talk.sent();
    talk.refuse("transact", json!({"error": "no", "details": "never"}));
    assert_eq!(talk.events(), done(id, Outcome::Error("no: never".to_owned())));
}

#[test]
fn the_server_may_probe_and_ask_nonsense() {
    let mut talk = Conversation::monitoring(None);
    let request = |method: &str| Message::Request {
        method: method.to_owned(),
        params: vec![json!(1)],
        id: json!("i"),
    };
    talk.session.handle(request("echo"));
    talk.session.handle(request("steal"));
    talk.notify("update", json!([]));
    talk.notify("update2", json!([["monid", "x"], {}]));
    assert_eq!((talk.sent(), talk.events()), (vec![r#"reply [1] "i""#.to_owned()], vec![]));
}
