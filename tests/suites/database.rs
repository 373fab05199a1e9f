//! What Debian's tools do with the database, whoever serves it. Each scenario gets a daemon with
//! an empty database on `db.sock`.

use std::fs::File;

use serde_json::{Value, json};
use tests::{Connection, Daemon, Directory, Output, Running, wait_until};

/// Makes a test `$name` that hands each scenario of that name to `$run`.
macro_rules! scenarios {
    ($run:path: $($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() {
            $run(database::$name);
        })+
    };
}
pub(crate) use scenarios;

/// Adds `br0` with the dummy ports `p1` (OpenFlow port 1) and `p2` (2).
fn add_bridge(directory: &Directory) {
    let script = "
        add-br br0
        set bridge br0 datapath_type=dummy other_config:hwaddr=aa:55:aa:55:00:00
        add-port br0 p1
        set interface p1 type=dummy ofport_request=1
        add-port br0 p2
        set interface p2 type=dummy ofport_request=2
    ";
    assert_eq!(directory.vsctl_script(script).ok(), "");
}

/// The lines of `ovs-vsctl show` without indentation, sorted, since ports come in any order.
fn show(directory: &Directory) -> Vec<String> {
    let text = directory.vsctl(&["show"]).ok();
    let mut lines = text.lines().skip(1).map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    lines.retain(|line| !line.starts_with("ovs_version: "));
    lines.sort();
    lines
}

pub(crate) fn bridges_and_ports(directory: &Directory, _: &mut Daemon<'_>) {
    assert_eq!(directory.vsctl(&["list-br"]).ok(), "");
    add_bridge(directory);
    assert_eq!(directory.vsctl(&["list-br"]).ok(), "br0\n");
    assert_eq!(directory.vsctl(&["list-ports", "br0"]).ok(), "p1\np2\n");
    assert_eq!(directory.vsctl(&["port-to-br", "p1"]).ok(), "br0\n");
    let mut expected = vec![
        "Bridge br0",
        "Interface br0",
        "Interface p1",
        "Interface p2",
        "Port br0",
        "Port p1",
        "Port p2",
        "datapath_type: dummy",
        "type: dummy",
        "type: dummy",
        "type: internal",
    ];
    assert_eq!(show(directory), expected);
    let columns = ["ofport", "mac_in_use", "mtu", "admin_state", "link_state", "error"];
    let get = |name| directory.vsctl(&[&["get", "interface", name], &columns[..]].concat()).ok();
    assert_eq!(get("br0"), "65534\n\"aa:55:aa:55:00:00\"\n1500\nup\nup\n[]\n");
    let port = get("p1");
    assert!(
        port.starts_with("1\n\"aa:55:aa:55:") && port.ends_with("\n1500\nup\nup\n[]\n"),
        "{port}"
    );
    let id = directory.vsctl(&["get", "bridge", "br0", "datapath_id"]).ok();
    assert_eq!(id, "\"0000aa55aa550000\"\n");

    // `add-port` of what exists is refused, unless told otherwise.
    let message = directory.vsctl(&["add-port", "br0", "p1"]).fails(1);
    assert!(message.contains("port named p1 already exists"), "{message}");
    directory.vsctl(&["--may-exist", "add-port", "br0", "p1"]).ok();

    directory.vsctl(&["del-port", "br0", "p1"]).ok();
    expected.retain(|line| !line.ends_with(" p1"));
    expected.remove(expected.iter().position(|line| *line == "type: dummy").unwrap());
    assert_eq!(show(directory), expected);
    let message = directory.vsctl(&["del-port", "br0", "p1"]).fails(1);
    assert!(message.contains("no port named p1"), "{message}");
    directory.vsctl(&["del-br", "br0"]).ok();
    assert_eq!(show(directory), Vec::<String>::new());
}

pub(crate) fn generic_commands(directory: &Directory, _: &mut Daemon<'_>) {
    add_bridge(directory);
    let set = "external_ids:owner=\"a b\" external_ids:\"k=1\"=v";
    directory.vsctl(&[&["set", "bridge", "br0"], &*set.split(' ').collect::<Vec<_>>()].concat());
    directory.vsctl(&["set", "bridge", "br0", "external_ids:owner=me"]).ok();
    let get = directory.vsctl(&["get", "bridge", "br0", "external_ids:owner"]).ok();
    assert_eq!(get, "me\n");
    directory.vsctl(&["add", "port", "p1", "trunks", "1", "2"]).ok();
    directory.vsctl(&["remove", "port", "p1", "trunks", "1"]).ok();
    assert_eq!(directory.vsctl(&["get", "port", "p1", "trunks"]).ok(), "[2]\n");
    directory.vsctl(&["clear", "port", "p1", "trunks"]).ok();
    assert_eq!(directory.vsctl(&["get", "port", "p1", "trunks"]).ok(), "[]\n");
    let find = ["--bare", "--columns=name", "find", "interface", "type=dummy", "ofport=2"];
    assert_eq!(directory.vsctl(&find).ok(), "p2\n");
    let create = ["--id=@q", "create", "queue", "other_config:max-rate=1", "--", "--id=@s"];
    let attach = ["create", "qos", "type=linux-htb", "queues:0=@q", "--", "set", "port", "p1"];
    let created = directory.vsctl(&[&create[..], &attach, &["qos=@s"]].concat()).ok();
    assert_eq!(created.lines().count(), 2, "{created}");
    directory.vsctl(&["clear", "port", "p1", "qos"]).ok();
    directory.vsctl(&["--all", "destroy", "qos", "--", "--all", "destroy", "queue"]).ok();
    assert_eq!(directory.vsctl(&["list", "queue"]).ok(), "");
    let message = directory.vsctl(&["set", "port", "p1", "vlan_mode=nonsense"]).fails(1);
    assert!(message.contains("nonsense"), "{message}");
    let message = directory.vsctl(&["set", "port", "p1", "tag=4096"]).fails(1);
    assert!(message.contains("constraint violation: 4096 is not in the valid range"), "{message}");
    assert_eq!(directory.vsctl(&["get", "port", "p1", "tag", "vlan_mode"]).ok(), "[]\n[]\n");
}

pub(crate) fn emergency_reset(directory: &Directory, daemon: &mut Daemon<'_>) {
    add_bridge(directory);
    directory.vsctl(&["set-controller", "br0", "unix:none"]).ok();
    directory.vsctl(&["set-fail-mode", "br0", "secure"]).ok();
    directory.vsctl(&["set-manager", "punix:manager.sock"]).ok();
    directory.vsctl(&["emer-reset"]).ok();
    assert_eq!(directory.vsctl(&["get-controller", "br0"]).ok(), "");
    assert_eq!(directory.vsctl(&["get-fail-mode", "br0"]).ok(), "");
    assert_eq!(directory.vsctl(&["get-manager"]).ok(), "");
    assert_eq!(directory.vsctl(&["list-ports", "br0"]).ok(), "p1\np2\n");
    daemon.allow("|rconn|WARN|br0<->unix:none: connection failed");
}

pub(crate) fn wait_until_a_condition_holds(directory: &Directory, _: &mut Daemon<'_>) {
    add_bridge(directory);
    let mut command = directory.command("ovs-vsctl");
    command.args(["wait-until", "interface", "p3", "ofport=3", "--", "get", "interface", "p3"]);
    let waiting = Running::from_child(command.arg("ofport").spawn().unwrap());
    assert!(!waiting.has_ended(std::time::Duration::from_millis(100)));
    let script = "
        add-port br0 p3
        set interface p3 type=dummy ofport_request=3
    ";
    directory.vsctl_script(script).ok();
    let status = waiting.wait_exit(tests::process::LIMIT).expect("the end of ovs-vsctl");
    assert!(status.success(), "{status}");
    // Met already: returns at once.
    directory.vsctl(&["wait-until", "bridge", "br0"]).ok();
    let output = directory.vsctl(&["--timeout=1", "wait-until", "bridge", "br9"]);
    assert!(!output.status.success(), "{output:?}");
}

pub(crate) fn commands_return_after_the_switch_acted(directory: &Directory, _: &mut Daemon<'_>) {
    add_bridge(directory);
    for number in 3..30 {
        let name = format!("p{number}");
        let request = format!("ofport_request={number}");
        let add = ["add-port", "br0", &name, "--", "set", "interface", &name, "type=dummy"];
        let get = ["--", "get", "interface", &name, "type"];
        directory.vsctl(&[&add[..], &[&request], &get].concat()).ok();
        let ofport = directory.vsctl(&["--no-wait", "get", "interface", &name, "ofport"]).ok();
        assert_eq!(ofport, format!("{number}\n"));
        let (next, current) = ("next_cfg", "cur_cfg");
        let published = directory.vsctl(&["--no-wait", "get", "Open_vSwitch", ".", next, current]);
        let published = published.ok();
        let (next, current) = published.trim_end().split_once('\n').unwrap();
        assert_eq!(next, current);
    }
}

pub(crate) fn errors_reach_the_caller(directory: &Directory, daemon: &mut Daemon<'_>) {
    add_bridge(directory);
    let output = directory.vsctl_script(
        "
        add-port br0 sluice-none
        set interface sluice-none type=system
        ",
    );
    let reason = "could not open network device sluice-none (No such device)";
    let text = format!("Error detected while setting up 'sluice-none': {reason}");
    assert!(output.stderr.contains(&text), "{output:?}");
    let get = ["get", "interface", "sluice-none", "ofport", "error"];
    assert_eq!(directory.vsctl(&get).ok(), format!("-1\n\"{reason}\"\n"));
    let line = format!("|bridge|WARN|{reason}");
    assert!(daemon.log().contains(&line), "{}", daemon.log());
    daemon.allow(&line);
    directory.vsctl(&["del-port", "sluice-none"]).ok();

    let output = directory.vsctl(&["add-br", "b/c"]);
    assert!(output.stderr.contains("Error detected while setting up 'b/c'"), "{output:?}");
    let line = "|bridge|WARN|ignoring bridge with invalid name \"b/c\"";
    assert!(daemon.log().contains(line), "{}", daemon.log());
    daemon.allow(line);
    directory.vsctl(&["del-br", "b/c"]).ok();
    assert_eq!(directory.vsctl(&["list-ports", "br0"]).ok(), "p1\np2\n");
}

pub(crate) fn client_dumps_and_transacts(directory: &Directory, _: &mut Daemon<'_>) {
    add_bridge(directory);
    assert_eq!(directory.ovsdb_client(&["list-dbs"]).ok(), "Open_vSwitch\n_Server\n");
    let tables = directory.ovsdb_client(&["list-tables", "unix:db.sock", "Open_vSwitch"]).ok();
    assert!(tables.contains("\nFlow_Sample_Collector_Set\n"), "{tables}");
    let dump =
        ["--format=csv", "dump", "unix:db.sock", "Open_vSwitch", "Interface", "name", "type"];
    let dump = directory.ovsdb_client(&dump).ok();
    assert_eq!(dump, "Interface table\nname,type\nbr0,internal\np1,dummy\np2,dummy\n");

    let transact = |operations: Value| -> Value {
        let text = directory.ovsdb_client(&["transact", &operations.to_string()]).ok();
        serde_json::from_str(&text).unwrap()
    };
    let select = json!({"op": "select", "table": "Bridge", "where": [], "columns": ["name"]});
    assert_eq!(transact(json!(["Open_vSwitch", select])), json!([{"rows": [{"name": "br0"}]}]));
    let update = json!({"op": "update", "table": "Bridge", "where": [["name", "==", "br0"]],
        "row": {"external_ids": ["map", [["a", "1"]]]}});
    let abort = json!({"op": "abort"});
    let results = transact(json!(["Open_vSwitch", update, abort]));
    assert_eq!(results[0], json!({"count": 1}));
    assert_eq!(results[1]["error"], json!("aborted"));
    assert_eq!(directory.vsctl(&["get", "bridge", "br0", "external_ids"]).ok(), "{}\n");
    assert_eq!(transact(json!(["Open_vSwitch", update])), json!([{"count": 1}]));
    assert_eq!(directory.vsctl(&["get", "bridge", "br0", "external_ids"]).ok(), "{a=\"1\"}\n");
}

pub(crate) fn client_monitors(directory: &Directory, _: &mut Daemon<'_>) {
    let add = ["add-br", "first", "--", "set", "bridge", "first", "datapath_type=dummy"];
    directory.vsctl(&add).ok();
    let old = ["initial first {}", "insert br0 {}", "old {}", "new br0 {a=b}", "delete br0 {a=b}"];
    // The newer notifications leave out what has its default.
    let new = ["initial first", "insert br0", "modify {a=b}", "delete"];
    for (command, since, expected) in [
        ("monitor", &[][..], &old[..]),
        ("monitor-cond", &["[true]"], &new),
        ("monitor-cond-since", &["00000000-0000-0000-0000-000000000000", "[true]"], &new),
    ] {
        let name = format!("{command}.txt");
        let output = File::create(directory.path(&name)).unwrap();
        let mut monitor = directory.command("ovsdb-client");
        monitor.args([command, "unix:db.sock", "Open_vSwitch"]).args(since).stdout(output);
        let monitor = monitor.args(["Bridge", "name,external_ids"]).spawn().unwrap();
        let monitor = Running::from_child(monitor);
        let seen = || {
            let text = directory.read(&name);
            let words = text.lines().map(|line| {
                let words = line.split_whitespace().filter(|word| word.len() != 36);
                words.collect::<Vec<_>>().join(" ")
            });
            // Not the headings, nor the position in the history.
            words
                .filter(|line| !line.is_empty() && !line.starts_with(['-', 'r', 'f', 'l']))
                .collect::<Vec<_>>()
        };
        wait_until(&format!("{command} has started"), || !seen().is_empty());
        add_bridge(directory);
        directory.vsctl(&["set", "bridge", "br0", "external_ids:a=b"]).ok();
        directory.vsctl(&["del-br", "br0"]).ok();
        wait_until(&format!("{command} sees all changes"), || seen().len() >= expected.len());
        assert_eq!(seen(), expected, "{command}");
        drop(monitor);
    }
}

pub(crate) fn backup_and_restore(directory: &Directory, _: &mut Daemon<'_>) {
    add_bridge(directory);
    let backup = directory.ovsdb_client(&["backup"]).ok();
    directory.write("backup.db", &backup);
    let query = json!(["Open_vSwitch", {"op": "select", "table": "Bridge", "where": [],
        "columns": ["name"]}]);
    let rows = directory.ovsdb_tool(&["query", "backup.db", &query.to_string()]).ok();
    assert_eq!(rows, "[{\"rows\":[{\"name\":\"br0\"}]}]\n");

    directory.vsctl(&["del-br", "br0"]).ok();
    assert_eq!(directory.vsctl(&["list-br"]).ok(), "");
    let restore = |name: &str| {
        let file = File::open(directory.path(name)).unwrap();
        Output::of(directory.command("ovsdb-client").arg("restore").stdin(file))
    };
    restore("backup.db").ok();
    assert_eq!(directory.vsctl(&["list-ports", "br0"]).ok(), "p1\np2\n");
    let get = || directory.vsctl(&["get", "interface", "p1", "ofport"]).ok();
    wait_until("the restored port works", || get() == "1\n");

    let cut = backup.get(..backup.len() - 10).unwrap();
    directory.write("cut.db", cut);
    let output = restore("cut.db");
    assert!(!output.status.success() && !output.stderr.is_empty(), "{output:?}");
    assert_eq!(directory.vsctl(&["list-ports", "br0"]).ok(), "p1\np2\n");
}

pub(crate) fn needs_conversion(directory: &Directory, _: &mut Daemon<'_>) {
    let schema = directory.ovsdb_client(&["get-schema"]).ok();
    directory.write("same.ovsschema", &schema);
    let needs = |name| directory.ovsdb_client(&["needs-conversion", "unix:db.sock", name]).ok();
    assert_eq!(needs("same.ovsschema"), "no\n");
    let mut other = serde_json::from_str::<Value>(&schema).unwrap();
    other["version"] = json!("99.0.0");
    directory.write("other.ovsschema", other.to_string());
    assert_eq!(needs("other.ovsschema"), "yes\n");
    let version = directory.ovsdb_client(&["get-schema-version"]).ok();
    assert_eq!(
        json!(version.trim_end()),
        serde_json::from_str::<Value>(&schema).unwrap()["version"]
    );
}

pub(crate) fn second_daemon_stands_by(directory: &Directory, _: &mut Daemon<'_>) {
    add_bridge(directory);
    let other = Directory::new();
    let second = stand_by(directory, &other);
    // It acts on nothing, and the first goes on.
    directory.vsctl(&["del-port", "p2"]).ok();
    assert_eq!(directory.vsctl(&["list-ports", "br0"]).ok(), "p1\n");
    let pid = second.pid().to_string();
    let target = other.path(format!("sluice-vswitchd.{pid}.ctl"));
    other.ovs_appctl(target.to_str().unwrap(), &["exit"]).ok();
    assert!(second.has_ended(tests::process::LIMIT));
    directory.vsctl(&["add-br", "br1", "--", "set", "bridge", "br1", "datapath_type=dummy"]).ok();
}

/// Starts a second daemon, at home in `other`, on the database in `directory`; it must say that
/// it stands by.
pub(crate) fn stand_by(directory: &Directory, other: &Directory) -> Running {
    let second = other
        .command(tests::tools::program("sluice-vswitchd"))
        .args(["--enable-dummy", "--disable-system", "--pidfile", "--log-file", "-vconsole:off"])
        .arg(format!("unix:{}", directory.path("db.sock").display()))
        .spawn();
    let second = Running::from_child(second.unwrap());
    let line = format!(
        "|ERR|another ovs-vswitchd process is running, disabling this process (pid {}) until it \
         goes away",
        second.pid()
    );
    wait_until("the second daemon stands by", || {
        std::fs::read_to_string(other.path("sluice-vswitchd.log"))
            .is_ok_and(|log| log.contains(&line))
    });
    second
}

pub(crate) fn two_clients_contend_for_a_lock(directory: &Directory, _: &mut Daemon<'_>) {
    let mut first = Connection::open(directory.path("db.sock"));
    let mut second = Connection::open(directory.path("db.sock"));
    assert_eq!(first.call("lock", &json!(["mine"])), Ok(json!({"locked": true})));
    assert_eq!(second.call("lock", &json!(["mine"])), Ok(json!({"locked": false})));
    let assert = json!({"op": "assert", "lock": "mine"});
    assert_eq!(first.transact(std::slice::from_ref(&assert)), json!([{}]));
    assert_eq!(second.transact(&[assert])[0]["error"], json!("not owner"));
    assert_eq!(first.call("unlock", &json!(["mine"])), Ok(json!({})));
    let granted = second.receive().expect("a notification");
    assert_eq!((&granted["method"], &granted["params"]), (&json!("locked"), &json!(["mine"])));
    assert_eq!(first.call("steal", &json!(["mine"])), Ok(json!({"locked": true})));
    let stolen = second.receive().expect("a notification");
    assert_eq!((&stolen["method"], &stolen["params"]), (&json!("stolen"), &json!(["mine"])));
}

pub(crate) fn bad_transactions_change_nothing(directory: &Directory, daemon: &mut Daemon<'_>) {
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    let before = directory.ovsdb_client(&["dump"]).ok();
    let mut connection = Connection::open(directory.path("db.sock"));
    let bridge = |row: Value| json!({"op": "update", "table": "Bridge", "where": [["name", "==", "br0"]], "row": row});
    let absent = "01234567-89ab-cdef-0123-456789abcdef";
    // One operation, and OVSDB's word for what is wrong with it.
    let table = [
        (json!({"op": "nonsense"}), "syntax error"),
        (json!({}), "syntax error"),
        (json!("insert"), "syntax error"),
        (json!({"op": "insert"}), "syntax error"),
        (json!({"op": "insert", "table": "Nonsense", "row": {}}), "syntax error"),
        (json!({"op": "insert", "table": "Queue", "row": {"nonsense": 1}}), "unknown column"),
        (json!({"op": "insert", "table": "Queue", "row": {"dscp": "x"}}), "syntax error"),
        (json!({"op": "insert", "table": "Queue", "row": {"dscp": 64}}), "constraint violation"),
        (json!({"op": "insert", "table": "Queue", "row": {}, "x": 1}), "syntax error"),
        (
            json!({"op": "select", "table": "Bridge", "where": [["name", "=", 1]]}),
            "unknown function",
        ),
        (json!({"op": "select", "table": "Bridge", "where": [["x", "==", 1]]}), "unknown column"),
        (bridge(json!({"fail_mode": "nonsense"})), "constraint violation"),
        (bridge(json!({"flood_vlans": ["set", [4096]]})), "constraint violation"),
        (bridge(json!({"name": "br1"})), "constraint violation"),
        (bridge(json!({"ports": ["uuid", absent]})), "referential integrity violation"),
        (bridge(json!({"external_ids": ["map", [["a", "1"], ["a", "2"]]]})), "ovsdb error"),
        (bridge(json!({"ports": ["uuid", "nonsense"]})), "syntax error"),
        (
            json!({"op": "mutate", "table": "Open_vSwitch", "where": [],
            "mutations": [["next_cfg", "/=", 0]]}),
            "domain error",
        ),
        (
            json!({"op": "mutate", "table": "Bridge", "where": [],
            "mutations": [["name", "+=", 1]]}),
            "constraint violation",
        ),
        (json!({"op": "assert", "lock": "not_mine"}), "not owner"),
        (
            json!({"op": "wait", "table": "Bridge", "where": [], "columns": ["name"], "until": "==",
            "rows": [], "timeout": 0}),
            "timed out",
        ),
        (json!({"op": "commit"}), "syntax error"),
        (json!({"op": "abort"}), "aborted"),
    ];
    let mut surprises = Vec::new();
    for (operation, expected) in table {
        // A change before it must not survive.
        let results =
            connection.transact(&[bridge(json!({"stp_enable": true})), operation.clone()]);
        let errors = results.as_array().expect("results").iter();
        let errors = errors.filter(|result| result.get("error").is_some()).collect::<Vec<_>>();
        assert_eq!(errors.len(), 1, "{operation}: {results}");
        if errors[0]["error"] != json!(expected) {
            surprises.push(format!("{operation}: {results}"));
        }
        assert_eq!(directory.ovsdb_client(&["dump"]).ok(), before, "{operation}");
    }
    assert_eq!(surprises, Vec::<String>::new());
    for params in [json!([]), json!([1]), json!(["Nonsense"]), json!("Open_vSwitch")] {
        let mut connection = Connection::open(directory.path("db.sock"));
        let request = json!({"id": 1, "method": "transact", "params": params});
        connection.write(request.to_string().as_bytes()).unwrap();
        connection.finish();
        if let Some(reply) = connection.receive() {
            assert!(!reply["error"].is_null(), "{params}: {reply}");
        }
    }
    let error = connection.call("nonsense", &json!([])).unwrap_err();
    assert_eq!(error, json!("unknown method"));
    daemon.allow("|WARN|unix#");
}
