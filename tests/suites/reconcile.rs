//! From rows to a running switch and back: what is applied, in which order, and what is published.

use std::collections::{BTreeMap, BTreeSet};

use tests::{Daemon, Directory, wait_until};

fn add_bridge(directory: &Directory, name: &str) {
    directory.vsctl(&["add-br", name, "--", "set", "bridge", name, "datapath_type=dummy"]).ok();
}

/// Adds dummy ports in one command.
fn add_ports(directory: &Directory, bridge: &str, names: &[String]) {
    let mut words = Vec::new();
    for name in names {
        words.extend([
            "--",
            "add-port",
            bridge,
            name,
            "--",
            "set",
            "interface",
            name,
            "type=dummy",
        ]);
    }
    directory.vsctl(&words).ok();
}

/// One column of every interface, by the name of the interface.
fn column(directory: &Directory, column: &str) -> BTreeMap<String, String> {
    let columns = format!("--columns=name,{column}");
    let args = ["--format=csv", "--no-headings", &columns, "list", "interface"];
    let text = directory.vsctl(&args).ok();
    let pair = |line: &str| {
        let (name, value) = line.split_once(',').expect("two columns");
        (name.trim_matches('"').to_owned(), value.trim_matches('"').to_owned())
    };
    text.lines().map(pair).collect()
}

#[test]
fn thousand_ports_in_one_command() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    let names = (1..=1000).map(|number| format!("p{number}")).collect::<Vec<_>>();
    add_ports(&directory, "br0", &names);
    let ofports = column(&directory, "ofport");
    assert_eq!(ofports.len(), 1001);
    let numbers = ofports.values().map(|text| text.parse::<u32>().expect("a port number"));
    let numbers = numbers.collect::<BTreeSet<_>>();
    assert_eq!(numbers.len(), 1001, "port numbers are unique");
    assert!(numbers.iter().all(|number| *number == 65534 || (1..65280).contains(number)));
    let addresses = column(&directory, "mac_in_use").into_values().collect::<BTreeSet<_>>();
    assert_eq!(addresses.len(), 1001, "addresses are unique");
    assert_eq!(
        column(&directory, "error").into_values().collect::<BTreeSet<_>>(),
        BTreeSet::from(["[]".to_owned()])
    );

    directory.vsctl(&["del-br", "br0"]).ok();
    assert_eq!(column(&directory, "ofport"), BTreeMap::new());
    daemon.stop();
}

#[test]
fn change_of_one_port_leaves_the_others_alone() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    let names = ["p1", "p2", "p3"].map(str::to_owned);
    add_ports(&directory, "br0", &names);
    let (ofports, addresses) = (column(&directory, "ofport"), column(&directory, "mac_in_use"));
    let added = |log: &str| log.matches("|bridge|INFO|bridge br0: added interface ").count();
    assert_eq!(added(&daemon.log()), 4);

    directory.vsctl(&["set", "interface", "p2", "external_ids:a=b", "mtu_request=2000"]).ok();
    directory.vsctl(&["set", "port", "p2", "tag=7"]).ok();
    directory.vsctl(&["set", "bridge", "br0", "external_ids:a=b"]).ok();
    assert_eq!(column(&directory, "ofport"), ofports);
    assert_eq!(column(&directory, "mac_in_use"), addresses);
    let mut mtu = BTreeMap::from_iter(ofports.keys().map(|name| (name.clone(), "1500".to_owned())));
    mtu.insert("p2".to_owned(), "2000".to_owned());
    assert_eq!(column(&directory, "mtu"), mtu);
    assert_eq!(added(&daemon.log()), 4, "{}", daemon.log());

    // Another type is another device.
    directory.vsctl(&["set", "interface", "p2", "type=dummy-pmd"]).ok();
    assert_eq!(column(&directory, "mac_in_use")["p1"], addresses["p1"]);
    assert_eq!(added(&daemon.log()), 5, "{}", daemon.log());
    daemon.stop();
}

#[test]
fn port_numbers_follow_requests_and_survive_a_restart() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    add_ports(&directory, "br0", &["a", "b", "c"].map(str::to_owned));
    directory.vsctl(&["set", "interface", "b", "ofport_request=77"]).ok();
    let before = column(&directory, "ofport");
    assert_eq!(before["b"], "77");
    directory.vsctl(&["del-port", "a"]).ok();
    let mut expected = before.clone();
    expected.remove("a");
    assert_eq!(column(&directory, "ofport"), expected);
    daemon.stop();

    let daemon = Daemon::start(&directory, &[]);
    assert_eq!(column(&directory, "ofport"), expected);
    daemon.stop();
}

#[test]
fn addresses_and_datapath_id_follow_settings() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    let get = || directory.vsctl(&["get", "bridge", "br0", "datapath_id"]).ok();
    directory.vsctl(&["set", "bridge", "br0", "other_config:hwaddr=02:00:00:00:00:07"]).ok();
    assert_eq!(get(), "\"0000020000000007\"\n");
    assert_eq!(column(&directory, "mac_in_use")["br0"], "02:00:00:00:00:07");
    directory.vsctl(&["set", "bridge", "br0", "other_config:datapath-id=fedcba9876543210"]).ok();
    assert_eq!(get(), "fedcba9876543210\n");
    assert_eq!(column(&directory, "mac_in_use")["br0"], "02:00:00:00:00:07");
    assert!(daemon.log().contains("|bridge|INFO|bridge br0: using datapath ID 0000020000000007"));
    daemon.stop();
}

#[test]
fn admin_state_is_published_without_a_change_of_configuration() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    add_ports(&directory, "br0", &["p1".to_owned()]);
    let state = || column(&directory, "admin_state")["p1"].clone();
    assert_eq!(state(), "up");
    assert_eq!(
        daemon.appctl(&["netdev-dummy/set-admin-state", "p1", "down"]).ok().trim_end(),
        "OK"
    );
    wait_until("the port is down", || state() == "down");
    assert_eq!(daemon.appctl(&["netdev-dummy/set-admin-state", "p1", "up"]).ok().trim_end(), "OK");
    wait_until("the port is up", || state() == "up");
    let message = daemon.appctl(&["netdev-dummy/set-admin-state", "p9", "up"]).fails(2);
    assert!(message.starts_with("Unknown Dummy Interface"), "{message}");
    let message = daemon.appctl(&["netdev-dummy/set-admin-state", "p1", "sideways"]).fails(2);
    assert!(message.starts_with("Invalid Admin State"), "{message}");
    daemon.stop();
}

#[test]
fn statistics_are_published_by_the_clock() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    directory.vsctl(&["set", "Open_vSwitch", ".", "other_config:stats-update-interval=60000"]).ok();
    daemon.appctl(&["time/stop"]).ok();
    add_ports(&directory, "br0", &["p1".to_owned()]);
    directory.vsctl(&["clear", "interface", "p1", "statistics"]).ok();
    daemon.appctl(&["time/warp", "50000", "10000"]).ok();
    assert_eq!(column(&directory, "statistics")["p1"], "{}");
    daemon.appctl(&["time/warp", "20000", "10000"]).ok();
    wait_until("the statistics are there", || {
        column(&directory, "statistics")["p1"].contains("rx_packets=0")
    });
    daemon.stop();
}

#[test]
fn port_that_cannot_be_opened_is_tried_once_per_change() {
    let directory = Directory::new();
    let mut daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    let script = "
        add-port br0 sluice-none
        set interface sluice-none type=system
    ";
    assert!(directory.vsctl_script(script).stderr.contains("No such device"));
    let line = "|bridge|WARN|could not open network device sluice-none (No such device)";
    let tries = || daemon.log().matches(line).count();
    assert_eq!(tries(), 1);
    add_ports(&directory, "br0", &["p1".to_owned()]);
    directory.vsctl(&["set", "bridge", "br0", "external_ids:a=b"]).ok();
    assert!(tries() <= 3, "once per change at most: {}", daemon.log());
    let after = tries();
    daemon.appctl(&["time/stop"]).ok();
    daemon.appctl(&["time/warp", "60000", "1000"]).ok();
    assert_eq!(tries(), after, "never in a loop");
    daemon.allow(line);
    daemon.stop();
}

#[test]
fn interface_in_two_bridges_belongs_to_one() {
    let directory = Directory::new();
    let mut daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    add_bridge(&directory, "br1");
    add_ports(&directory, "br0", &["p1".to_owned()]);
    let create = ["--id=@i", "create", "interface", "name=p1x", "type=dummy", "--", "--id=@p"];
    let attach = ["create", "port", "name=p1x", "interfaces=@i", "--", "add", "bridge", "br1"];
    directory.vsctl(&[&create[..], &attach, &["ports", "@p"]].concat()).ok();
    assert_eq!(directory.vsctl(&["list-ports", "br0"]).ok(), "p1\n");
    assert_eq!(directory.vsctl(&["list-ports", "br1"]).ok(), "p1x\n");
    let ofports = column(&directory, "ofport");
    assert_eq!(ofports.len(), 4);
    assert!(ofports.values().all(|number| number != "-1" && number != "[]"), "{ofports:?}");
    daemon.allow("p1x");
    daemon.stop();
}

#[test]
fn switch_describes_itself() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "br0");
    let get = |column| directory.vsctl(&["get", "Open_vSwitch", ".", column]).ok();
    assert_eq!(get("ovs_version"), "\"4.0.90\"\n");
    assert_eq!(get("datapath_types"), "[dummy, netdev]\n");
    let types = get("iface_types");
    for name in ["dummy", "dummy-internal", "dummy-pmd", "internal", "patch", "system", "tap"] {
        let words = types.trim_matches(['[', ']', '\n']).split(", ").collect::<Vec<_>>();
        assert!(words.contains(&name), "{name}: {types}");
    }
    assert_eq!(get("db_version"), {
        let version = directory.ovsdb_client(&["get-schema-version"]).ok();
        format!("\"{}\"\n", version.trim_end())
    });
    assert_ne!(get("system_type"), "[]\n");
    assert_ne!(get("system_version"), "[]\n");
    assert_eq!(get("dpdk_initialized"), "false\n");
    daemon.stop();
}

#[test]
fn bridges_come_and_go_with_their_sockets() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    for round in 0..3 {
        for name in ["br0", "br1", "br2"] {
            add_bridge(&directory, name);
        }
        let shown = daemon.appctl(&["dpif/show"]).ok();
        for name in ["br0", "br1", "br2"] {
            assert!(directory.path(format!("{name}.mgmt")).exists(), "round {round}");
            assert!(shown.contains(&format!("\n  {name}:\n")), "{shown}");
        }
        for name in ["br2", "br0", "br1"] {
            directory.vsctl(&["del-br", name]).ok();
            assert!(!directory.path(format!("{name}.mgmt")).exists(), "round {round}");
        }
    }
    daemon.stop();
}
