//! The database that the daemon serves itself.

mod database;

use serde_json::json;
use tests::ovsdb_server::SCHEMA;
use tests::{Connection, Daemon, Directory, OvsdbServer, wait_until};

fn run(scenario: fn(&Directory, &mut Daemon<'_>)) {
    let directory = Directory::new();
    let mut daemon = Daemon::start(&directory, &[]);
    scenario(&directory, &mut daemon);
    daemon.stop();
}

database::scenarios!(
    run: backup_and_restore,
    bad_transactions_change_nothing,
    bridges_and_ports,
    client_dumps_and_transacts,
    client_monitors,
    commands_return_after_the_switch_acted,
    emergency_reset,
    errors_reach_the_caller,
    generic_commands,
    needs_conversion,
    second_daemon_stands_by,
    two_clients_contend_for_a_lock,
    wait_until_a_condition_holds,
);

const QUERY: &str =
    r#"["Open_vSwitch",{"op":"select","table":"Bridge","where":[],"columns":["name"]}]"#;

#[test]
fn tools_read_and_compact_our_file() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    for number in 0..50 {
        let value = format!("external_ids:a={number}");
        directory.vsctl(&["--no-wait", "set", "bridge", "br0", &value]).ok();
    }
    daemon.stop();
    let tool = |args: &[&str]| directory.ovsdb_tool(args).ok();
    assert_eq!(tool(&["db-name", "conf.db"]), "Open_vSwitch\n");
    assert_eq!(tool(&["needs-conversion", "conf.db", SCHEMA]), "yes\n");
    let log = tool(&["show-log", "conf.db"]);
    assert!(log.starts_with("record 0: \"Open_vSwitch\" schema, version=\""), "{log}");
    assert!(log.lines().count() >= 51, "{log}");
    let rows = "[{\"rows\":[{\"name\":\"br0\"}]}]\n";
    assert_eq!(tool(&["query", "conf.db", QUERY]), rows);
    let before = std::fs::metadata(directory.path("conf.db")).unwrap().len();
    tool(&["compact", "conf.db"]);
    let after = std::fs::metadata(directory.path("conf.db")).unwrap().len();
    assert!(after < before, "{before} to {after}");
    assert_eq!(tool(&["query", "conf.db", QUERY]), rows);

    let daemon = Daemon::start(&directory, &[]);
    let get = ["get", "bridge", "br0", "external_ids"];
    assert_eq!(directory.vsctl(&get).ok(), "{a=\"49\"}\n");
    daemon.stop();
}

#[test]
fn starts_on_a_file_of_ovsdb_server() {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    directory.vsctl(&["--no-wait", "add-br", "br0"]).ok();
    directory.vsctl(&["--no-wait", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    for number in 0..20 {
        let value = format!("external_ids:a{number}=\"{number}\"");
        directory.vsctl(&["--no-wait", "set", "bridge", "br0", &value]).ok();
    }
    let before = directory.vsctl(&["get", "bridge", "br0", "_uuid", "external_ids"]).ok();
    server.stop();

    let daemon = Daemon::start(&directory, &[]);
    let get = ["get", "bridge", "br0", "_uuid", "external_ids"];
    assert_eq!(directory.vsctl(&get).ok(), before);
    let version = directory.ovsdb_client(&["get-schema-version"]).ok();
    assert_ne!(version, "8.3.1\n", "an old schema is brought up to date");
    // A column that the old schema does not have.
    directory.vsctl(&["--no-wait", "get", "bridge", "br0", "flow_tables"]).ok();
    let update = json!({"op": "insert", "table": "Mirror", "row": {"name": "m", "filter": "icmp"}});
    let mut connection = Connection::open(directory.path("db.sock"));
    assert!(connection.transact(&[update])[0]["uuid"].is_array());
    daemon.stop();
}

#[test]
fn db_file_flag_names_the_file() {
    let directory = Directory::new();
    let path = directory.path("other.db");
    let flag = format!("--db-file={}", path.display());
    let daemon = Daemon::start(&directory, &[&flag]);
    directory.vsctl(&["init"]).ok();
    assert!(path.exists() && !directory.path("conf.db").exists());
    daemon.stop();
}

#[test]
fn file_in_use_is_refused() {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    let other = Directory::new();
    let output = tests::Output::of(
        other
            .command(tests::tools::program("sluice-vswitchd"))
            .args(["--detach", "--pidfile"])
            .arg(format!("--db-file={}", directory.path("conf.db").display())),
    );
    let message = output.fails(1);
    assert!(message.contains("conf.db") && message.contains("lock"), "{message}");
    server.stop();
}

#[test]
fn server_on_the_socket_is_used_instead() {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    let mut daemon = Daemon::start(&directory, &["-vconsole:off"]);
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    assert_eq!(
        directory
            .ovs_appctl(
                directory.path("ovsdb-server.ctl").to_str().unwrap(),
                &["ovsdb-server/list-dbs"],
            )
            .ok(),
        "Open_vSwitch\n_Server\n"
    );
    let message = daemon.appctl(&["ovsdb-server/list-dbs"]).fails(2);
    assert!(message.contains("ovsdb-server/list-dbs"), "{message}");
    daemon.allow("database needs upgrade?");
    daemon.stop();
    server.stop();
}

#[test]
fn listens_where_managers_are_configured() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let socket = directory.path("manager.sock");
    let target = format!("punix:{}", socket.display());
    directory.vsctl(&["set-manager", &target]).ok();
    wait_until("the manager socket is there", || socket.exists());
    let remote = format!("unix:{}", socket.display());
    assert_eq!(directory.ovsdb_client(&["list-dbs", &remote]).ok(), "Open_vSwitch\n_Server\n");

    // Port 0 is any free port; the status says which.
    directory.vsctl(&["set-manager", "ptcp:0:127.0.0.1"]).ok();
    wait_until("the old socket is gone", || !socket.exists());
    let status = || directory.vsctl(&["get", "manager", "ptcp:0:127.0.0.1", "status"]).ok();
    wait_until("the port is known", || status().contains("bound_port="));
    let text = status();
    let port = text.split("bound_port=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let remote = format!("tcp:127.0.0.1:{port}");
    assert_eq!(directory.ovsdb_client(&["list-dbs", &remote]).ok(), "Open_vSwitch\n_Server\n");
    directory.vsctl(&["del-manager"]).ok();
    wait_until("the port is closed", || {
        !directory.ovsdb_client(&["list-dbs", &remote]).status.success()
    });
    daemon.stop();
}
