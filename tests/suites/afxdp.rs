//! Ports of types `afxdp` and `afxdp-nonpmd`, on pairs of virtual devices.

use serde_json::Value;
use tests::namespace::is_root;
use tests::network::{Network, add_bridge};
use tests::{Daemon, Directory, Output, wait_until};

const BOTH: [&str; 2] = ["-- set interface v1 type=afxdp", "-- set interface v2 type=afxdp"];

fn get(directory: &Directory, interface: &str, column: &str) -> String {
    let text = directory.vsctl(&["get", "interface", interface, column]).ok();
    text.trim_end().trim_matches('"').to_owned()
}

/// Where the frames are: on the sockets of each port, and in the pool.
fn frames(daemon: &Daemon, directory: &Directory) -> Value {
    let mut client = directory.command(tests::tools::program("sluice-appctl"));
    let text = Output::of(client.args(["--format", "json", "netdev-afxdp/show"])).ok();
    assert!(daemon.running().pid() > 0);
    serde_json::from_str(&text).expect("JSON")
}

/// Waits until no packet is on its way, and returns how many frames packets hold then.
fn held_when_quiet(daemon: &Daemon, directory: &Directory) -> u64 {
    let mut held = 0;
    wait_until("nothing moves", || {
        let frames = frames(daemon, directory);
        let ports = frames["ports"].as_object().expect("ports");
        let sockets = ports.values().flat_map(|sockets| sockets.as_array().expect("sockets"));
        let moving = sockets
            .flat_map(|socket| ["rx", "tx", "completion", "driver"].map(|place| &socket[place]));
        let count = |place: &str| frames["numa"]["0"][place].as_u64().expect("a count");
        held = count("held");
        assert_eq!(count("free") + count("with-sockets") + held, count("total"));
        moving.map(|place| place.as_u64().expect("a count")).sum::<u64>() == 0
    });
    held
}

/// With the default offloads of the hosts, and no command that changes them.
#[test]
fn hosts_talk_by_default() {
    if !is_root() {
        return;
    }
    for mtu in ["1500", "9000"] {
        let directory = Directory::in_namespace();
        let network = Network::new(&directory, &BOTH, mtu);
        assert_eq!(get(&directory, "v1", "status:xdp-mode"), "native");
        assert_eq!(get(&directory, "v1", "status:multi-buffer"), "true");
        assert!(network.pings(1, "10.1.1.2", &[]));
        let held = held_when_quiet(&network.daemon, &directory);
        let largest = if mtu == "9000" { "8900" } else { "1472" };
        assert!(network.pings(1, "10.1.1.2", &["-s", largest, "-M", "do"]));
        for address in ["10.1.1.2", "fd01::2"] {
            assert!(network.transfers(address), "{address} with an MTU of {mtu}");
        }
        assert_eq!(held_when_quiet(&network.daemon, &directory), held);
        let shown = network.daemon.appctl(&["dpif/show"]).ok();
        assert!(shown.contains("xdp-mode-in-use=native"), "{shown}");
        assert_eq!(
            network.daemon.appctl(&["netdev/check", "v1"]).ok(),
            "v1: nothing was found that will break\n"
        );
        network.stop();
    }
}

#[test]
fn modes_and_threads_can_be_mixed() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let settings = [
        "-- set interface v1 type=afxdp-nonpmd options:xdp-mode=native",
        "-- set interface v2 type=afxdp options:xdp-mode=generic",
        "",
    ];
    let mut network = Network::new(&directory, &settings, "9000");
    assert_eq!(get(&directory, "v1", "status:xdp-mode-in-use"), "native");
    assert_eq!(get(&directory, "v2", "status:xdp-mode-in-use"), "generic");
    for (from, to) in [(1, "10.1.1.2"), (2, "10.1.1.3"), (3, "10.1.1.1")] {
        assert!(network.pings(from, to, &["-s", "8900", "-M", "do"]), "{from} to {to}");
    }
    assert!(network.transfers("10.1.1.2"));
    // Found out when the port was added, and again on demand.
    let found = network.daemon.appctl(&["netdev/check", "v2"]).ok();
    for problem in ["VLAN tags are lost", "slow"] {
        assert!(found.contains(problem), "{found}");
        network.daemon.wait_for_log(problem);
        network.daemon.allow(problem);
    }
    directory.vsctl(&["set", "interface", "v2", "options:xdp-mode=native"]).ok();
    wait_until("the mode changes", || get(&directory, "v2", "status:xdp-mode-in-use") == "native");
    assert!(network.pings(1, "10.1.1.2", &["-s", "8900", "-M", "do"]));
    network.stop();
}

#[test]
fn ports_come_and_go() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &BOTH, "1500");
    assert!(network.pings(1, "10.1.1.2", &[]));
    let held = held_when_quiet(&network.daemon, &directory);
    for _ in 0..20 {
        let add = ["add-port", "br0", "v1", "--", "set", "interface", "v1", "type=afxdp"];
        directory.vsctl(&["del-port", "v1"]).ok();
        directory.vsctl(&add).ok();
        assert_eq!(get(&directory, "v1", "error"), "[]");
    }
    assert!(network.pings(1, "10.1.1.2", &[]));
    assert_eq!(held_when_quiet(&network.daemon, &directory), held);
    network.stop();
}

/// The kernel takes the program away with the process, and lets go of the sockets.
#[test]
fn a_killed_daemon_leaves_nothing_behind() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let mut network = Network::new(&directory, &BOTH, "1500");
    let flood = network.host(1).command("ping").args(["-f", "-q", "10.1.1.2"]).spawn();
    let flood = tests::Running::from_child(flood.expect("ping from `make deps`"));
    for _ in 0..5 {
        network.daemon.kill();
        let link = directory.ip(&["-json", "link", "show", "v1"]).ok();
        assert!(!link.contains("xdp"), "{link}");
        network.daemon = Daemon::start(&directory, &[]);
        assert_eq!(get(&directory, "v1", "error"), "[]");
        assert!(network.pings(2, "10.1.1.1", &[]));
    }
    drop(flood);
    network.stop();
}

#[test]
fn wrong_settings_are_told_once() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    directory.ip(&["link", "add", "v0", "type", "veth", "peer", "name", "w0"]).ok();
    let mut daemon = Daemon::start(&directory, &[]);
    directory.vsctl(&add_bridge("br0")).ok();
    for (option, problem) in [
        ("n_rxq=42", "Too big 'n_rxq' (42 > 16)"),
        ("n_rxq=3", "n_rxq=3, but the device has 1 receive queue(s)"),
        ("xdp-mode=fast", "Incorrect xdp-mode (fast)"),
        ("n_rxq_desc=1000", "n_rxq_desc=1000 is not a power of 2 from 64 to 16384"),
    ] {
        let setting = format!("options:{option}");
        let add = ["add-port", "br0", "v0", "--", "set", "interface", "v0", "type=afxdp", &setting];
        let output = directory.vsctl(&add);
        assert!(output.stderr.contains("Error detected while setting up 'v0'"), "{output:?}");
        let error = get(&directory, "v0", "error");
        assert!(error.contains(problem), "{error}");
        assert_eq!(get(&directory, "v0", "ofport"), "-1");
        // Something that happens elsewhere is no reason to try again.
        directory.ip(&["link", "set", "w0", "up"]).ok();
        directory.ip(&["link", "set", "w0", "down"]).ok();
        directory.vsctl(&["set", "bridge", "br0", "other_config:mac-aging-time=200"]).ok();
        let told = daemon.log().lines().filter(|line| line.contains(problem)).count();
        assert!((1..=2).contains(&told), "{told} times: {problem}\n{}", daemon.log());
        directory.vsctl(&["del-port", "v0"]).ok();
    }
    daemon.allow("v0: ");
    daemon.stop();
}

#[test]
fn a_device_goes_under_load() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let settings = [BOTH[0], BOTH[1], "-- set interface v3 type=afxdp"];
    let mut network = Network::new(&directory, &settings, "1500");
    assert!(network.pings(1, "10.1.1.2", &[]));
    let flood = network.host(1).command("ping").args(["-f", "-q", "10.1.1.2"]).spawn();
    let flood = tests::Running::from_child(flood.expect("ping from `make deps`"));
    directory.ip(&["link", "delete", "v2"]).ok();
    wait_until("its end is noticed", || get(&directory, "v2", "ofport") == "-1");
    assert!(get(&directory, "v2", "error").contains("No such device"));
    assert!(network.pings(1, "10.1.1.3", &[]));
    directory.ip(&["link", "set", "v3", "name", "q3"]).ok();
    wait_until("the rename is noticed", || get(&directory, "v3", "ofport") == "-1");
    directory.ip(&["link", "set", "q3", "name", "v3"]).ok();
    wait_until("the port is back", || get(&directory, "v3", "error") == "[]");
    drop(flood);
    network.daemon.allow("v2");
    network.daemon.allow("v3");
    network.stop();
}
