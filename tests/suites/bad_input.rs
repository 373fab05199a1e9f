//! Nonsense from clients, operators and files: it gets an answer that names it, and the daemon
//! goes on with nothing lost.

use serde_json::{Value, json};
use tests::tools::program;
use tests::{Connection, Daemon, Directory, Output};

/// Sends `bytes` and expects the peer to hang up, with or without an answer.
fn hangs_up_on(path: &std::path::Path, bytes: &[u8]) {
    let mut connection = Connection::open(path);
    // The peer may hang up before it has seen all of it.
    if connection.write(bytes).is_ok() {
        connection.finish();
    }
    while connection.receive().is_some() {}
}

/// Byte streams that no JSON-RPC peer may send.
fn bad_streams() -> Vec<(&'static str, Vec<u8>)> {
    let request = |params: &str| format!("{{\"id\":1,\"method\":\"echo\",\"params\":{params}}}");
    let mut invalid = request("[\"?\"]").into_bytes();
    let position = invalid.iter().position(|byte| *byte == b'?').unwrap();
    invalid[position] = 0xff;
    vec![
        ("nothing", Vec::new()),
        ("text", b"hello\n".to_vec()),
        ("a scalar", b"12 ".to_vec()),
        ("an array", b"[1,2]".to_vec()),
        ("an empty object", b"{}".to_vec()),
        ("zeros", vec![0; 4096]),
        ("every byte", (0..=255).collect()),
        ("invalid UTF-8", invalid),
        ("half a request", b"{\"id\":1,\"method\":\"ec".to_vec()),
        ("an unknown member", b"{\"id\":1,\"method\":\"echo\",\"params\":[],\"x\":1}".to_vec()),
        ("a method that is a number", b"{\"id\":1,\"method\":1,\"params\":[]}".to_vec()),
        ("params that are an object", request("{}").into_bytes()),
        ("no id", b"{\"method\":\"list_dbs\",\"params\":[]}".to_vec()),
        ("a reply nobody waits for", b"{\"id\":9,\"result\":[],\"error\":null}".to_vec()),
        ("open brackets", vec![b'['; 1 << 20]),
        ("open braces", b"{\"a\":".repeat(1 << 18)),
        ("deep nesting", format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes()),
        ("deep params", request(&format!("{}{}", "[".repeat(5000), "]".repeat(5000))).into_bytes()),
        ("a lone surrogate", request("[\"\\ud800\"]").into_bytes()),
        ("a huge number", request("[1e999999]").into_bytes()),
    ]
}

#[test]
fn bad_streams_cost_only_their_connection() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    let mut bystander = Connection::open(directory.path("db.sock"));
    let before = directory.ovsdb_client(&["dump"]).ok();
    for (name, bytes) in bad_streams() {
        println!("{name}");
        hangs_up_on(&directory.path("db.sock"), &bytes);
        hangs_up_on(&daemon.control_socket(), &bytes);
        assert_eq!(bystander.call("echo", &json!([name])), Ok(json!([name])));
        assert!(!daemon.appctl(&["version"]).ok().is_empty());
    }
    assert_eq!(directory.ovsdb_client(&["dump"]).ok(), before);
    let mut daemon = daemon;
    daemon.allow("|WARN|unix#");
    daemon.stop();
}

#[test]
fn hundred_megabytes_cost_only_their_connection() {
    let directory = Directory::new();
    let mut daemon = Daemon::start(&directory, &[]);
    directory.vsctl(&["init"]).ok();
    for path in [directory.path("db.sock"), daemon.control_socket()] {
        let mut connection = Connection::open(&path);
        let mut alive = connection.write(b"{\"id\":1,\"method\":\"echo\",\"params\":[\"").is_ok();
        let piece = vec![b'a'; 1 << 20];
        for _ in 0..100 {
            alive = alive && connection.write(&piece).is_ok();
        }
        if alive {
            connection.write(b"\"]}").unwrap();
            connection.finish();
        }
        while connection.receive().is_some() {}
        assert!(!daemon.appctl(&["version"]).ok().is_empty());
        directory.vsctl(&["set", "Open_vSwitch", ".", "external_ids:a=b"]).ok();
    }
    daemon.allow("|WARN|unix#");
    daemon.stop();
}

#[test]
fn bad_appctl_requests_are_answered() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let mut connection = Connection::open(daemon.control_socket());
    for params in [json!([1]), json!([null]), json!([["vlog/list"]]), json!([{"a": 1}])] {
        let error = connection.call("vlog/set", &params).unwrap_err();
        let text = error.as_str().unwrap_or_default();
        assert!(text.contains("vlog/set") && text.contains("string"), "{params}: {error}");
    }
    let long = "x".repeat(100_000);
    let error = connection.call(&long, &json!([])).unwrap_err();
    assert!(error.as_str().is_some_and(|text| text.contains("is not a valid command")));
    let error = connection.call("vlog/set", &json!([long])).unwrap_err();
    assert!(error.as_str().is_some_and(|text| text.contains("no destination, level, or module")));
    let many = vec![json!("x"); 10_000];
    connection.call("version", &Value::Array(many)).unwrap_err();
    connection.call("", &json!([])).unwrap_err();
    connection.call("version\u{0}\n", &json!([])).unwrap_err();
    connection.call("version", &json!([])).unwrap();
    daemon.stop();
}

#[test]
fn bad_database_files_are_named_and_left_alone() {
    let directory = Directory::new();
    let other =
        r#"{"name":"Other","version":"1.0.0","tables":{"T":{"columns":{"c":{"type":"string"}}}}}"#;
    directory.write("other.ovsschema", other);
    directory.ovsdb_tool(&["create", "other.db", "other.ovsschema"]).ok();
    directory.write("text.db", "hello\n");
    directory.write("zeros.db", [0; 4096]);
    directory.write("header.db", "OVSDB JSON 5 0000000000000000000000000000000000000000\nhello");
    std::fs::create_dir(directory.path("folder.db")).unwrap();
    for name in
        ["other.db", "text.db", "zeros.db", "header.db", "folder.db", "no/such/directory.db"]
    {
        let path = directory.path(name);
        let before = std::fs::read(&path).ok();
        let output = Output::of(
            directory
                .command(program("sluice-vswitchd"))
                .args(["--detach", "--pidfile", "--enable-dummy"])
                .arg(format!("--db-file={}", path.display())),
        );
        let message = output.fails(1);
        assert!(message.contains(path.file_name().unwrap().to_str().unwrap()), "{name}: {message}");
        assert_eq!(std::fs::read(&path).ok(), before, "{name}");
        assert!(!directory.path("sluice-vswitchd.pid").exists(), "{name}");
        assert!(!directory.path("db.sock").exists(), "{name}");
    }
}

#[test]
fn bad_settings_are_named_and_the_rest_applies() {
    let directory = Directory::new();
    let mut daemon = Daemon::start(&directory, &[]);
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    let id = || directory.vsctl(&["get", "bridge", "br0", "datapath_id"]).ok();
    let before = id();
    directory.vsctl(&["set", "bridge", "br0", "other_config:datapath-id=nonsense"]).ok();
    assert_eq!(id(), before, "a datapath id that cannot be read is not used");
    directory.vsctl(&["set", "bridge", "br0", "other_config:hwaddr=nonsense"]).ok();
    directory.vsctl(&["set", "Open_vSwitch", ".", "other_config:stats-update-interval=x"]).ok();
    directory.vsctl(&["set", "Open_vSwitch", ".", "other_config:max-idle=x"]).ok();
    let add = ["add-port", "br0", "p1", "--", "set", "interface", "p1", "type=dummy"];
    let more = ["ofport_request=9", "mtu_request=9000", "options:nonsense=x"];
    directory.vsctl(&[&add[..], &more].concat()).ok();
    let get = ["get", "interface", "p1", "ofport", "mtu", "error"];
    assert_eq!(directory.vsctl(&get).ok(), "9\n9000\n[]\n");
    daemon.allow("nonsense");
    daemon.allow("=x");
    daemon.stop();
}
