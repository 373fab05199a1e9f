use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::jsonrpc::{Connection, Limits, Message};

struct Fixture {
    directory: TempDir,
    server: Server,
}

fn settings(directory: &Path) -> Settings {
    Settings {
        database: directory.join("conf.db"),
        remotes: vec![Remote::parse("punix:db.sock", None, directory).unwrap()],
        run_directory: directory.to_owned(),
        sync: false,
    }
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(settings(directory.path())).unwrap();
        Self { directory, server }
    }

    async fn client(&self) -> Client {
        Client::new("unix:db.sock", self.directory.path()).await
    }
}

struct Client(Connection);

impl Client {
    async fn new(remote: &str, directory: &Path) -> Self {
        let remote = Remote::parse(remote, None, directory).unwrap();
        let limits = Limits { message: 1 << 28, backlog: 1 << 28 };
        Self(Connection::new(connect(&remote, None).await.unwrap(), limits))
    }

    fn ask(&mut self, method: &str, params: Value) {
        let Value::Array(params) = params else { panic!("{params}") };
        self.0.send(Message::Request { method: method.into(), params, id: 1.into() }).unwrap();
    }

    async fn next(&mut self) -> Value {
        self.0.recv().await.unwrap().unwrap().into_json()
    }

    async fn result(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params);
        self.next().await["result"].take()
    }

    async fn transact(&mut self, operations: Vec<Value>) -> Value {
        let params = [json!("Open_vSwitch")].into_iter().chain(operations).collect();
        self.result("transact", params).await
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn insert_root() -> Value {
    json!({"op": "insert", "table": "Open_vSwitch", "row": {}})
}

#[test]
fn serves_several_clients() {
    let fixture = Fixture::new();
    run(async {
        let (mut a, mut b) = (fixture.client().await, fixture.client().await);
        let databases = json!(["Open_vSwitch", "_Server"]);
        assert_eq!(a.result("list_dbs", json!([])).await, databases);
        assert_eq!(fixture.server.databases().await, ["Open_vSwitch", "_Server"]);
        let monitor = json!(["Open_vSwitch", "m", {"Open_vSwitch": {"columns": ["next_cfg"]}}]);
        assert_eq!(a.result("monitor", monitor).await, json!({}));
        let result = b.transact(vec![insert_root()]).await;
        let uuid = result[0]["uuid"][1].as_str().unwrap();
        assert_eq!(
            a.next().await,
            json!({"id": null, "method": "update", "params": ["m", {"Open_vSwitch": {
                uuid: {"new": {"next_cfg": 0}}}}]})
        );
        assert_eq!(
            fixture.server.usage().await,
            Usage { rows: 1, sessions: 2, monitors: 1, triggers: 0 }
        );
        a.result("lock", json!(["l"])).await;
        assert_eq!(b.result("lock", json!(["l"])).await, json!({"locked": false}));
        drop(a);
        assert_eq!(b.next().await, json!({"id": null, "method": "locked", "params": ["l"]}));
    });
}

#[test]
fn a_wait_runs_into_its_time() {
    let fixture = Fixture::new();
    run(async {
        let mut client = fixture.client().await;
        let wait = json!({"op": "wait", "table": "Bridge", "where": [], "columns": ["name"],
                          "until": "!=", "rows": [], "timeout": 5});
        assert_eq!(client.transact(vec![wait]).await[0]["error"], "timed out");
    });
}

#[test]
fn keeps_its_content_and_cleans_up() {
    let fixture = Fixture::new();
    let directory = fixture.directory.path();
    let select = || {
        json!({"op": "select", "table": "Open_vSwitch", "where": [],
                           "columns": ["_uuid"]})
    };
    let uuid = run(async {
        let uuid = fixture.client().await.transact(vec![insert_root()]).await[0]["uuid"].take();
        fixture.server.compact().await.unwrap();
        uuid
    });
    drop(fixture.server);
    assert!(!directory.join("db.sock").exists());
    let server = Server::start(settings(directory)).unwrap();
    run(async {
        let mut client = Client::new("unix:db.sock", directory).await;
        assert_eq!(client.transact(vec![select()]).await, json!([{"rows": [{"_uuid": uuid}]}]));
    });
    drop(server);
}

#[test]
fn a_socket_in_use_is_left_alone_and_a_stale_one_replaced() {
    let fixture = Fixture::new();
    let directory = fixture.directory.path();
    let mut second = settings(directory);
    second.database = directory.join("other.db");
    let error = Server::start(second.clone()).unwrap_err();
    assert_eq!(error.to_string(), "punix:db.sock: another server is listening there");
    assert!(!second.database.exists());
    run(async {
        assert_eq!(fixture.client().await.result("echo", json!([7])).await, json!([7]));
    });
    // A socket that nobody listens on is what a server leaves that was killed.
    let stale = directory.join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    second.remotes = vec![Remote::parse("punix:stale.sock", None, directory).unwrap()];
    let server = Server::start(second).unwrap();
    run(async {
        let mut client = Client::new("unix:stale.sock", directory).await;
        assert_eq!(client.result("echo", json!([8])).await, json!([8]));
    });
    drop(server);
}

#[test]
fn a_file_that_is_no_database_stops_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(directory.path());
    fs::write(&settings.database, "[Unit]\n").unwrap();
    let error = Server::start(settings.clone()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: no standalone OVSDB database: record at offset 0: \"[Unit]\" is no header line",
            settings.database.display()
        )
    );
}

#[test]
fn nonsense_costs_only_its_own_connection() {
    let fixture = Fixture::new();
    run(async {
        let mut witness = fixture.client().await;
        let deep = "[".repeat(100_000);
        for nonsense in [
            b"\xff\xfe".as_slice(),
            b"}",
            b"{\"method\": 1}",
            b"[1]",
            b"{\"id\":1,\"method\":\"echo\"}",
            deep.as_bytes(),
        ] {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let path = fixture.directory.path().join("db.sock");
            let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
            // The server may close before it has read all of it.
            let _ = stream.write_all(nonsense).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert_eq!(answer, b"", "{}", String::from_utf8_lossy(nonsense));
        }
        assert_eq!(witness.result("echo", json!([1])).await, json!([1]));
    });
}

#[test]
fn who_does_not_read_holds_up_nobody() {
    let fixture = Fixture::new();
    run(async {
        let mut deaf = fixture.client().await;
        let filler = "x".repeat(1 << 20);
        for _ in 0..8 {
            deaf.ask("echo", json!([filler]));
        }
        // What the two ends' buffers do not take stays here.
        let sent = tokio::time::timeout(Duration::from_millis(200), deaf.0.flush()).await;
        assert!(sent.is_err());
        let mut other = fixture.client().await;
        assert_eq!(other.result("echo", json!([1])).await, json!([1]));
        for _ in 0..8 {
            assert_eq!(deaf.next().await["result"][0].as_str().map(str::len), Some(1 << 20));
        }
    });
}

/// Waits for the only manager to have a status that `is_good`.
async fn manager_status(client: &mut Client, is_good: impl Fn(&Value) -> bool) -> Value {
    let select = json!({"op": "select", "table": "Manager", "where": [],
                        "columns": ["is_connected", "status"]});
    loop {
        let row = client.transact(vec![select.clone()]).await[0]["rows"][0].take();
        if is_good(&row) {
            return row;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn insert_manager(target: &str) -> Vec<Value> {
    vec![
        json!({"op": "insert", "table": "Manager", "uuid-name": "m", "row": {"target": target}}),
        json!({"op": "insert", "table": "Open_vSwitch",
               "row": {"manager_options": ["named-uuid", "m"]}}),
    ]
}

#[test]
fn a_manager_in_the_database_is_listened_on() {
    let fixture = Fixture::new();
    run(async {
        let mut client = fixture.client().await;
        client.transact(insert_manager("ptcp:0:127.0.0.1")).await;
        let row = manager_status(&mut client, |row| row["status"] != json!(["map", []])).await;
        let port = row["status"][1][0][1].as_str().unwrap().to_owned();
        let status = json!([
            "map",
            [["bound_port", port], ["sec_since_connect", "0"], ["sec_since_disconnect", "0"]]
        ]);
        assert_eq!(row, json!({"is_connected": false, "status": status}));

        let target = format!("tcp:127.0.0.1:{port}");
        let mut remote = Client::new(&target, fixture.directory.path()).await;
        assert_eq!(remote.result("echo", json!(["x"])).await, json!(["x"]));
        let row = manager_status(&mut client, |row| row["is_connected"] == true).await;
        assert_eq!(row, json!({"is_connected": true, "status": status}));

        // Its clients go with it.
        client
            .transact(vec![json!({"op": "update", "table": "Open_vSwitch", "where": [],
                                  "row": {"manager_options": ["set", []]}})])
            .await;
        assert!(remote.0.recv().await.unwrap().is_none());
    });
}

#[test]
fn a_manager_in_the_database_is_called() {
    let fixture = Fixture::new();
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("tcp:{}", listener.local_addr().unwrap());
        let mut client = fixture.client().await;
        client.transact(insert_manager(&target)).await;
        let (stream, _) = listener.accept().await.unwrap();
        let row = manager_status(&mut client, |row| row["is_connected"] == true).await;
        assert_eq!(
            row,
            json!({"is_connected": true,
                   "status": ["map", [["sec_since_connect", "0"], ["state", "ACTIVE"]]]})
        );
        drop(stream);
        drop(listener);
        let row = manager_status(&mut client, |row| row["is_connected"] == false).await;
        assert!(row["status"].to_string().contains("\"state\",\"BACKOFF\""), "{row}");
    });
}
