//! Ports that are devices of the kernel, each test in a network namespace of its own.

use serde_json::Value;
use tests::namespace::is_root;
use tests::{Daemon, Directory, wait_until};

/// What `ip` knows of a device, or `None` if there is none of that name.
fn device(directory: &Directory, name: &str) -> Option<Value> {
    let output = directory.ip(&["-json", "link", "show", "dev", name]);
    let text = output.status.success().then(|| output.ok())?;
    serde_json::from_str::<Value>(&text).expect("JSON").get(0).cloned()
}

fn get(directory: &Directory, interface: &str, column: &str) -> String {
    let text = directory.vsctl(&["get", "interface", interface, column]).ok();
    text.trim_end().trim_matches('"').to_owned()
}

fn start(directory: &Directory) -> Daemon<'_> {
    let daemon = Daemon::start(directory, &[]);
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"]).ok();
    daemon
}

fn add_veth(directory: &Directory) {
    directory.ip(&["link", "add", "v0", "type", "veth", "peer", "name", "v1"]).ok();
}

#[test]
fn internal_port_is_a_device() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = start(&directory);
    let found = device(&directory, "br0").expect("the device of the bridge");
    assert_eq!(get(&directory, "br0", "ifindex"), found["ifindex"].to_string());
    assert_eq!(get(&directory, "br0", "mac_in_use"), found["address"].as_str().unwrap());
    assert_eq!(get(&directory, "br0", "mtu"), found["mtu"].to_string());
    assert_eq!(get(&directory, "br0", "ofport"), "65534");
    // So is the datapath.
    assert!(device(&directory, "ovs-netdev").is_some());

    let add = ["add-port", "br0", "i1", "--", "set", "interface", "i1", "type=internal"];
    directory.vsctl(&[&add[..], &["mtu_request=1400"]].concat()).ok();
    let found = device(&directory, "i1").expect("the device of the port");
    assert_eq!(found["mtu"], 1400);
    assert_eq!(get(&directory, "i1", "mtu"), "1400");
    directory.vsctl(&["set", "interface", "i1", "mac=\"02:00:00:00:00:09\""]).ok();
    let found = device(&directory, "i1").expect("the device of the port");
    assert_eq!(found["address"], "02:00:00:00:00:09");

    directory.vsctl(&["del-port", "i1"]).ok();
    assert_eq!(device(&directory, "i1"), None);
    directory.vsctl(&["del-br", "br0"]).ok();
    assert_eq!((device(&directory, "br0"), device(&directory, "ovs-netdev")), (None, None));
    daemon.stop();
}

#[test]
fn cleanup_removes_devices() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = start(&directory);
    let address = get(&directory, "br0", "mac_in_use");
    daemon.appctl(&["exit"]).ok();
    assert!(daemon.running().has_ended(tests::process::LIMIT));
    drop(daemon);

    let daemon = Daemon::start(&directory, &[]);
    assert!(device(&directory, "br0").is_some());
    assert_eq!(get(&directory, "br0", "mac_in_use"), address);
    daemon.stop();
    assert_eq!(device(&directory, "br0"), None);
}

#[test]
fn state_of_a_device_is_published() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    add_veth(&directory);
    let daemon = start(&directory);
    directory.vsctl(&["add-port", "br0", "v0"]).ok();
    assert_eq!(get(&directory, "v0", "error"), "[]");
    assert_eq!(get(&directory, "v0", "ofport"), "1");
    let found = device(&directory, "v0").unwrap();
    assert_eq!(get(&directory, "v0", "ifindex"), found["ifindex"].to_string());
    assert_eq!(get(&directory, "v0", "mac_in_use"), found["address"].as_str().unwrap());
    assert!(get(&directory, "v0", "status").contains("driver_name=veth"));

    directory.ip(&["link", "set", "v1", "up"]).ok();
    directory.ip(&["link", "set", "v0", "up"]).ok();
    wait_until("the link is up", || get(&directory, "v0", "link_state") == "up");
    wait_until("the port is up", || get(&directory, "v0", "admin_state") == "up");
    directory.ip(&["link", "set", "v1", "down"]).ok();
    wait_until("the link is down", || get(&directory, "v0", "link_state") == "down");
    directory.ip(&["link", "set", "v0", "mtu", "1300"]).ok();
    wait_until("the new MTU is known", || get(&directory, "v0", "mtu") == "1300");
    directory.vsctl(&["del-port", "v0"]).ok();
    assert!(device(&directory, "v0").is_some(), "a system port is not ours to delete");
    daemon.stop();
}

#[test]
fn device_comes_and_goes() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let mut daemon = start(&directory);
    let output = directory.vsctl(&["add-port", "br0", "v0"]);
    let text = "could not open network device v0 (No such device)";
    assert!(output.stderr.contains(text), "{output:?}");
    assert_eq!(get(&directory, "v0", "error"), text);
    assert_eq!(get(&directory, "v0", "ofport"), "-1");

    add_veth(&directory);
    wait_until("the device is used", || get(&directory, "v0", "ofport") == "1");
    assert_eq!(get(&directory, "v0", "error"), "[]");
    directory.ip(&["link", "delete", "v0"]).ok();
    wait_until("its end is noticed", || get(&directory, "v0", "ofport") == "-1");
    assert!(get(&directory, "v0", "error").contains("v0"));
    add_veth(&directory);
    // Under a number that was not in use a moment ago.
    wait_until("the new device is used", || get(&directory, "v0", "ofport") == "2");
    assert_eq!(get(&directory, "v0", "error"), "[]");
    daemon.allow("v0");
    daemon.stop();
}

#[test]
fn tap_port_is_made() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = start(&directory);
    directory.vsctl(&["add-port", "br0", "t0", "--", "set", "interface", "t0", "type=tap"]).ok();
    assert_eq!(get(&directory, "t0", "error"), "[]");
    let found = device(&directory, "t0").expect("a tap device");
    assert_eq!(get(&directory, "t0", "ifindex"), found["ifindex"].to_string());
    directory.vsctl(&["del-port", "t0"]).ok();
    assert_eq!(device(&directory, "t0"), None);
    daemon.stop();
}

/// An internal port is where the host has its addresses; a restart must not take them.
#[test]
fn addresses_outlive_a_restart() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let mut daemon = start(&directory);
    let add = ["add-port", "br0", "i1", "--", "set", "interface", "i1", "type=internal"];
    directory.vsctl(&[&add[..], &["mtu_request=1400"]].concat()).ok();
    for (name, address) in [("br0", "10.2.0.1/24"), ("i1", "10.3.0.1/24")] {
        directory.ip(&["address", "add", address, "dev", name]).ok();
        directory.ip(&["link", "set", name, "up"]).ok();
    }
    let state = || {
        ["br0", "i1"].map(|name| {
            let text = directory.ip(&["-json", "address", "show", "dev", name]).ok();
            let device = serde_json::from_str::<Value>(&text).expect("JSON");
            let addresses = device[0]["addr_info"].as_array().expect("addresses").iter();
            let ipv4: Vec<_> =
                addresses.filter(|address| address["family"] == "inet").cloned().collect();
            (device[0]["ifindex"].clone(), device[0]["mtu"].clone(), ipv4)
        })
    };
    let before = state();
    assert!(before.iter().all(|(_, _, addresses)| addresses.len() == 1), "{before:?}");
    for is_killed in [false, true, false] {
        if is_killed {
            daemon.kill();
        } else {
            daemon.appctl(&["exit"]).ok();
            assert!(daemon.running().has_ended(tests::process::LIMIT));
        }
        daemon = Daemon::start(&directory, &[]);
        assert_eq!(state(), before);
        assert_eq!(get(&directory, "i1", "error"), "[]");
    }
    daemon.stop();
    assert_eq!((device(&directory, "br0"), device(&directory, "i1")), (None, None));
}

/// A device that gets another name leaves its port, and can be a port under that.
#[test]
fn devices_are_renamed() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    add_veth(&directory);
    let mut daemon = start(&directory);
    let shown = || daemon.appctl(&["dpif/show"]).ok();
    directory.vsctl(&["add-port", "br0", "v0"]).ok();
    assert!(shown().contains("    v0 1/"), "{}", shown());
    directory.ip(&["link", "set", "v0", "name", "q0"]).ok();
    wait_until("the rename is noticed", || get(&directory, "v0", "ofport") == "-1");
    assert!(get(&directory, "v0", "error").contains("No such device"));
    assert!(!shown().contains("    v0 "), "{}", shown());
    directory.vsctl(&["add-port", "br0", "q0"]).ok();
    assert_eq!(get(&directory, "q0", "error"), "[]");
    assert!(shown().contains("    q0 "), "{}", shown());
    directory.ip(&["link", "set", "q0", "name", "v0"]).ok();
    wait_until("the port is back", || get(&directory, "v0", "error") == "[]");
    assert!(shown().contains("    v0 "), "{}", shown());
    wait_until("the other is gone", || get(&directory, "q0", "ofport") == "-1");
    directory.vsctl(&["--if-exists", "del-port", "q0"]).ok();
    directory.vsctl(&["del-port", "v0"]).ok();
    assert_eq!(shown().lines().filter(|line| line.contains("(system)")).count(), 0);
    daemon.allow("v0");
    daemon.allow("q0");
    daemon.stop();
}
