//! The database of a real `ovsdb-server`, whose schema is older than ours.

mod database;

use serde_json::Value;
use tests::ovsdb_server::SCHEMA;
use tests::process::LIMIT;
use tests::{Daemon, Directory, OvsdbServer, wait_until};

/// Starts a daemon on the server's database. Our schema knows columns that the server's lacks:
/// as OVS's, the daemon warns and goes on.
fn start(directory: &Directory) -> Daemon<'_> {
    let remote = format!("unix:{}", directory.path("db.sock").display());
    let mut daemon = Daemon::start(directory, &["-vconsole:off", &remote]);
    daemon.allow("(database needs upgrade?)");
    daemon
}

fn run(scenario: fn(&Directory, &mut Daemon<'_>)) {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    let mut daemon = start(&directory);
    scenario(&directory, &mut daemon);
    daemon.stop();
    server.stop();
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

fn add_bridge(directory: &Directory) {
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
}

#[test]
fn missing_columns_are_reported_once() {
    let directory = Directory::new();
    let text = std::fs::read_to_string(SCHEMA).unwrap();
    let mut schema = serde_json::from_str::<Value>(&text).unwrap();
    let columns = schema["tables"]["Interface"]["columns"].as_object_mut().unwrap();
    columns.remove("mtu_request").expect("a column that the switch uses");
    directory.write("old.ovsschema", schema.to_string());
    directory.ovsdb_tool(&["create", "conf.db", "old.ovsschema"]).ok();
    let server = OvsdbServer::start(&directory);
    let daemon = start(&directory);
    add_bridge(&directory);
    let line = "|ovsdb_idl|WARN|Interface table in Open_vSwitch database lacks mtu_request column \
        (database needs upgrade?)";
    assert_eq!(daemon.log().matches(line).count(), 1, "{}", daemon.log());
    assert_eq!(directory.vsctl(&["get", "interface", "br0", "mtu"]).ok(), "1500\n");
    daemon.stop();
    server.stop();
}

#[test]
fn keeps_switching_while_the_server_is_away() {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    let mut daemon = start(&directory);
    add_bridge(&directory);
    server.stop();
    let remote = format!("unix:{}", directory.path("db.sock").display());
    daemon.wait_for_log(&format!("|reconnect|INFO|{remote}: connection attempt failed"));
    daemon.appctl(&["version"]).ok();
    assert!(directory.path("br0.mgmt").exists(), "the bridge is still there");

    // What changed meanwhile is applied after the reconnection.
    let server = OvsdbServer::start(&directory);
    directory.vsctl(&["add-port", "br0", "p1", "--", "set", "interface", "p1", "type=dummy"]).ok();
    assert_eq!(directory.vsctl(&["get", "interface", "p1", "ofport"]).ok(), "1\n");
    assert_eq!(
        daemon.log().matches("|bridge|INFO|bridge br0: added interface br0 on port").count(),
        1
    );
    daemon.allow("|WARN|unix:");
    daemon.stop();
    server.stop();
}

#[test]
fn falls_back_to_older_monitors() {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    let target = directory.path("ovsdb-server.ctl");
    let target = target.to_str().unwrap();
    directory.ovs_appctl(target, &["ovsdb-server/disable-monitor-cond"]).ok();
    let daemon = start(&directory);
    add_bridge(&directory);
    daemon.stop();
    server.stop();
}

#[test]
fn second_daemon_takes_over() {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    let daemon = start(&directory);
    add_bridge(&directory);
    let other = Directory::new();
    let second = database::stand_by(&directory, &other);
    daemon.stop();
    directory.vsctl(&["add-port", "br0", "p1", "--", "set", "interface", "p1", "type=dummy"]).ok();
    assert!(other.path("br0.mgmt").exists());
    other.ovs_appctl("sluice-vswitchd", &["exit", "--cleanup"]).ok();
    assert!(second.has_ended(LIMIT));
    server.stop();
}

#[test]
fn empty_database_does_not_hold_up_the_start() {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    let daemon = start(&directory);
    add_bridge(&directory);
    wait_until("the types are published", || {
        let types = directory.vsctl(&["get", "Open_vSwitch", ".", "datapath_types"]).ok();
        types == "[dummy, netdev]\n"
    });
    daemon.stop();
    server.stop();
}
