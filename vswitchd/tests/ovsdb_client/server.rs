//! The client against the `ovsdb-server` of Open vSwitch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use vswitchd::ovsdb::atom::Atom;
use vswitchd::ovsdb::client::{
    Client, Event, MonitoredTable, Outcome, Settings, Transaction, parse_remotes,
};
use vswitchd::ovsdb::datum::Datum;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server with a database that has the schema beside this file.
struct Server {
    directory: TempDir,
    process: Option<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs a tool, which must succeed, and gives what it prints.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Server {
    /// Starts a server. `None`, with a word why, where none is installed.
    #[expect(clippy::print_stderr, reason = "a skipped test says why")]
    fn start() -> Option<Self> {
        if Command::new("ovsdb-server").arg("--version").output().is_err() {
            eprintln!("skipped: ovsdb-server is not installed");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let schema = directory.path().join("schema");
        fs::write(&schema, include_str!("schema.json")).unwrap();
        let database = directory.path().join("db");
        run(Command::new("ovsdb-tool").arg("create").args([&database, &schema]));
        let mut server = Self { directory, process: None };
        server.restart();
        Some(server)
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    fn restart(&mut self) {
        self.stop();
        let process = Command::new("ovsdb-server")
            .arg(format!("--remote=punix:{}", self.path("db.sock")))
            .arg(format!("--unixctl={}", self.path("ctl")))
            .args(["-vconsole:off", "--no-chdir", &self.path("db")])
            .env("OVS_RUNDIR", self.directory.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        self.process = Some(process);
    }

    fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
            for socket in ["db.sock", "ctl"] {
                let _ = fs::remove_file(self.path(socket));
            }
        }
    }

    /// Waits until the server can be asked.
    fn wait_until_up(&self) {
        for socket in ["db.sock", "ctl"] {
            while UnixStream::connect(self.path(socket)).is_err() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn appctl(&self, command: &str) {
        self.wait_until_up();
        run(Command::new("ovs-appctl").args(["-T", "60", "-t", &self.path("ctl"), command]));
    }

    /// Carries out operations by another client, and gives their results.
    fn transact(&self, operations: Value) -> Value {
        let mut request = vec![json!("Open_vSwitch")];
        let Value::Array(operations) = operations else { panic!("{operations}") };
        request.extend(operations);
        let remote = format!("unix:{}", self.path("db.sock"));
        let request = Value::from(request).to_string();
        self.wait_until_up();
        let command = ["-t", "60", "transact", &remote, &request];
        serde_json::from_str(&run(Command::new("ovsdb-client").args(command))).unwrap()
    }

    fn client(&self, lock: Option<&str>) -> Client {
        self.client_of(&format!("unix:{}", self.path("db.sock")), lock)
    }

    fn client_of(&self, remotes: &str, lock: Option<&str>) -> Client {
        Client::new(Settings {
            remotes: parse_remotes(remotes, self.directory.path()).unwrap(),
            tls: None,
            database: "Open_vSwitch".to_owned(),
            monitored: monitored(),
            lock: lock.map(str::to_owned),
        })
    }
}

fn monitored() -> Vec<MonitoredTable> {
    vec![
        MonitoredTable::new("Open_vSwitch")
            .read(&["bridges", "next_cfg", "other_config"])
            .write(&["cur_cfg"]),
        MonitoredTable::new("Bridge").read(&["name", "ports"]),
        MonitoredTable::new("Port").read(&["name", "trunks"]),
    ]
}

fn strings<const N: usize>(pairs: [(&str, &str); N]) -> Datum {
    Datum::map(pairs.map(|(key, value)| (Atom::from(key), Atom::from(value))).into()).unwrap()
}

fn integers<const N: usize>(values: [i64; N]) -> Datum {
    Datum::set(values.map(Atom::from).into()).unwrap()
}

fn with_runtime<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The events up to `last`.
async fn events_until(client: &mut Client, last: Event) -> Vec<Event> {
    let mut events = Vec::new();
    while events.last() != Some(&last) {
        let event = tokio::time::timeout(PATIENCE, client.next_event()).await;
        events.push(event.unwrap_or_else(|_| panic!("no {last:?} after {events:?}")));
    }
    events
}

/// Commits and waits for the outcome.
async fn commit(client: &mut Client, transaction: &Transaction) -> Outcome {
    let id = client.commit(transaction);
    loop {
        let event = tokio::time::timeout(PATIENCE, client.next_event()).await.unwrap();
        if let Event::TransactionDone(done, outcome) = event {
            assert_eq!(done, id);
            return outcome;
        }
    }
}

fn port_names(client: &Client) -> Vec<String> {
    let mut names: Vec<_> =
        client.cache().rows("Port").map(|row| row.string("name").to_owned()).collect();
    names.sort();
    names
}

fn insert_port(name: &str) -> Value {
    json!({"op": "insert", "table": "Port", "row": {"name": name}})
}

#[test]
fn contents_changes_and_a_restart() {
    let Some(mut server) = Server::start() else { return };
    server.transact(json!([insert_port("p0"), insert_port("p1")]));
    with_runtime(async {
        let mut client = server.client(None);
        assert!(!client.is_connected());
        let events = events_until(&mut client, Event::Changed).await;
        assert_eq!(events, [Event::Connected, Event::Changed]);
        assert!(client.is_connected());
        assert_eq!(port_names(&client), ["p0", "p1"]);

        server.transact(json!([insert_port("p2")]));
        assert_eq!(events_until(&mut client, Event::Changed).await, [Event::Changed]);
        assert_eq!((port_names(&client).len(), client.seqno()), (3, 2));

        server.stop();
        let events = events_until(&mut client, Event::Disconnected).await;
        assert_eq!(events, [Event::Disconnected]);
        assert_eq!(port_names(&client), ["p0", "p1", "p2"]);
        let mut transaction = Transaction::new();
        transaction.insert("Port");
        assert_eq!(commit(&mut client, &transaction).await, Outcome::TryAgain);

        server.restart();
        server.transact(json!([
            insert_port("p3"),
            {"op": "delete", "table": "Port", "where": [["name", "==", "p0"]]},
        ]));
        let events = events_until(&mut client, Event::Changed).await;
        assert_eq!(events, [Event::Connected, Event::Changed]);
        assert_eq!(port_names(&client), ["p1", "p2", "p3"]);

        // Nothing happened this time.
        server.restart();
        let events = events_until(&mut client, Event::Connected).await;
        assert_eq!(events, [Event::Disconnected, Event::Connected]);
        server.transact(json!([insert_port("p4")]));
        assert_eq!(events_until(&mut client, Event::Changed).await, [Event::Changed]);
        assert_eq!(client.seqno(), 4);
    });
}

#[test]
fn what_is_committed_comes_back() {
    let Some(server) = Server::start() else { return };
    with_runtime(async {
        let mut client = server.client(None);
        events_until(&mut client, Event::Changed).await;
        let mut transaction = Transaction::new();
        transaction.comment("tests");
        let root = transaction.insert("Open_vSwitch");
        let bridge = transaction.insert("Bridge");
        let port = transaction.insert("Port");
        transaction.set("Open_vSwitch", root, "bridges", bridge);
        transaction.set("Open_vSwitch", root, "other_config", strings([("a", "1")]));
        transaction.set("Bridge", bridge, "name", "br0");
        transaction.set("Bridge", bridge, "ports", port);
        transaction.set("Port", port, "name", "p0");
        transaction.set("Port", port, "trunks", integers([1, 2]));
        transaction.increment("Open_vSwitch", root, "next_cfg");
        let outcome = commit(&mut client, &transaction).await;
        let Outcome::Success { inserted, incremented: Some(1) } = outcome else {
            panic!("{outcome:?}")
        };
        let row = client.cache().singleton("Open_vSwitch").unwrap();
        assert_eq!(row.uuid(), inserted[&root]);
        assert_eq!((row.integer("next_cfg"), row.map("other_config").get("a")), (1, Some("1")));
        let bridge = client.cache().references(row, "bridges").next().unwrap();
        let ports: Vec<_> =
            client.cache().references(bridge, "ports").map(|row| row.uuid()).collect();
        assert_eq!((bridge.string("name"), ports), ("br0", vec![inserted[&port]]));

        let (root, port) = (inserted[&root], inserted[&port]);
        let mut transaction = Transaction::new();
        transaction.set("Open_vSwitch", root, "cur_cfg", 1);
        transaction.insert_elements(
            "Open_vSwitch",
            root,
            "other_config",
            strings([("a", "2"), ("b", "3")]),
        );
        transaction.insert_elements("Port", port, "trunks", integers([3]));
        transaction.delete_elements("Port", port, "trunks", integers([1]));
        let success = Outcome::Success { inserted: BTreeMap::new(), incremented: None };
        assert_eq!(commit(&mut client, &transaction).await, success);
        let row = client.cache().row("Open_vSwitch", root).unwrap();
        assert_eq!(row.integer("cur_cfg"), 1);
        let config: Vec<_> = row.map("other_config").iter().collect();
        assert_eq!(config, [("a", "2"), ("b", "3")]);
        let trunks = |client: &Client| {
            client.cache().row("Port", port).unwrap().integers("trunks").collect::<Vec<_>>()
        };
        assert_eq!(trunks(&client), [2, 3]);
        assert_eq!(commit(&mut client, &transaction).await, Outcome::Unchanged);

        let mut transaction = Transaction::new();
        transaction.verify("Port", port, "trunks");
        transaction.set("Port", port, "name", "late");
        server.transact(json!([{
            "op": "update", "table": "Port", "where": [], "row": {"trunks": 9},
        }]));
        assert_eq!(commit(&mut client, &transaction).await, Outcome::TryAgain);
        assert_eq!(trunks(&client), [9]);
        assert_eq!(commit(&mut client, &transaction).await, success);

        let mut transaction = Transaction::new();
        transaction.delete("Port", port);
        transaction.insert("Open_vSwitch");
        let outcome = commit(&mut client, &transaction).await;
        let Outcome::Error(error) = outcome else { panic!("{outcome:?}") };
        assert!(error.starts_with("constraint violation: "), "{error}");
        let mut transaction = Transaction::new();
        transaction.delete("Port", port);
        assert_eq!(commit(&mut client, &transaction).await, success);
        assert_eq!(port_names(&client), [""; 0]);
    });
}

#[test]
fn one_of_two_clients_has_the_lock() {
    let Some(server) = Server::start() else { return };
    with_runtime(async {
        let mut first = server.client(Some("l"));
        events_until(&mut first, Event::LockGranted).await;
        events_until(&mut first, Event::Changed).await;
        assert!(first.has_lock());
        let mut second = server.client(Some("l"));
        events_until(&mut second, Event::LockHeldElsewhere).await;
        events_until(&mut second, Event::Changed).await;
        assert!(second.is_contended() && !second.has_lock());

        let mut transaction = Transaction::new();
        transaction.insert("Port");
        assert_eq!(commit(&mut second, &transaction).await, Outcome::NotLocked);
        assert!(matches!(commit(&mut first, &transaction).await, Outcome::Success { .. }));
        drop(first);
        events_until(&mut second, Event::LockGranted).await;
        assert!(second.has_lock() && !second.is_contended());
        assert!(matches!(commit(&mut second, &transaction).await, Outcome::Success { .. }));
    });
}

#[test]
fn a_server_without_newer_methods() {
    let Some(server) = Server::start() else { return };
    server.appctl("ovsdb-server/disable-monitor-cond");
    server.transact(json!([insert_port("p0")]));
    with_runtime(async {
        let mut client = server.client(None);
        let events = events_until(&mut client, Event::Changed).await;
        assert_eq!(events, [Event::Connected, Event::Changed]);
        server.transact(json!([{
            "op": "update", "table": "Port", "where": [], "row": {"name": "p9"},
        }]));
        events_until(&mut client, Event::Changed).await;
        assert_eq!(port_names(&client), ["p9"]);
    });
}

#[test]
fn any_of_several_servers_and_one_that_calls() {
    let Some(server) = Server::start() else { return };
    server.wait_until_up();
    with_runtime(async {
        let remotes = format!("unix:{},unix:nobody,unix:neither", server.path("db.sock"));
        let mut client = server.client_of(&remotes, None);
        let events = events_until(&mut client, Event::Changed).await;
        assert_eq!(events, [Event::Connected, Event::Changed]);

        let mut passive = server.client_of("punix:call.sock", None);
        let called = async {
            let add = ["ovsdb-server/add-remote", &format!("unix:{}", server.path("call.sock"))];
            while !Path::new(&server.path("call.sock")).exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            run(Command::new("ovs-appctl").args(["-T", "60", "-t", &server.path("ctl")]).args(add));
        };
        let (events, ()) = tokio::join!(events_until(&mut passive, Event::Changed), called);
        assert_eq!(events, [Event::Connected, Event::Changed]);
    });
}
