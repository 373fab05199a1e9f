//! Routes of the kernel, in a network namespace.

use tests::namespace::{Namespace, is_root};
use tests::network::add_bridge;
use tests::{Daemon, Directory, Output, wait_until};

/// Waits until the routes of `table` are these lines, in whatever order.
#[track_caller]
fn wait_for_routes(daemon: &Daemon<'_>, table: &str, expected: &[&str]) {
    let mut last = String::new();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    wait_until(&format!("{table} has the routes {expected:#?}"), || {
        last = daemon.appctl(&["ovs/route/show", table]).stdout;
        let mut lines: Vec<_> = last.lines().filter(|line| line.contains(" dev br0 ")).collect();
        lines.sort_unstable();
        lines == expected
    });
}

fn lookup(daemon: &Daemon<'_>, arguments: &[&str]) -> String {
    let output = daemon.appctl(&[&["ovs/route/lookup"], arguments].concat());
    output.stdout.replace('\n', " ")
}

const CONNECTED: [&str; 2] =
    ["Cached: 10.7.0.0/24 dev br0 SRC 10.7.0.1", "Cached: 10.7.0.1/32 dev br0 SRC 10.7.0.1 local"];

fn start(directory: &Directory) -> Daemon<'_> {
    let daemon = Daemon::start_without_dummies(directory);
    directory.vsctl(&add_bridge("br0")).ok();
    // Addresses of IPv6 that come by themselves would get in the way.
    directory.command("sysctl").args(["-q", "net.ipv6.conf.br0.disable_ipv6=1"]).status().ok();
    directory.ip(&["address", "add", "10.7.0.1/24", "dev", "br0"]).ok();
    directory.ip(&["link", "set", "br0", "up"]).ok();
    wait_for_routes(&daemon, "table=all", &CONNECTED);
    daemon
}

#[test]
fn routes_follow_the_kernel() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = start(&directory);
    directory.ip(&["route", "add", "10.8.0.0/16", "via", "10.7.0.9"]).ok();
    let far = "Cached: 10.8.0.0/16 dev br0 GW 10.7.0.9 SRC 10.7.0.1";
    wait_for_routes(&daemon, "table=all", &[&CONNECTED[..], &[far]].concat());
    assert_eq!(lookup(&daemon, &["10.8.1.1"]), "src 10.7.0.1 gateway 10.7.0.9 dev br0 ");
    assert_eq!(lookup(&daemon, &["10.7.0.4"]), "src 10.7.0.1 gateway :: dev br0 ");

    directory.ip(&["route", "replace", "10.8.0.0/16", "via", "10.7.0.8"]).ok();
    let far = "Cached: 10.8.0.0/16 dev br0 GW 10.7.0.8 SRC 10.7.0.1";
    wait_for_routes(&daemon, "table=all", &[&CONNECTED[..], &[far]].concat());

    // The kernel does not tell which routes go with a link.
    directory.ip(&["link", "set", "br0", "down"]).ok();
    wait_for_routes(&daemon, "table=all", &CONNECTED[1..]);
    directory.ip(&["link", "set", "br0", "up"]).ok();
    wait_for_routes(&daemon, "table=all", &CONNECTED);
    daemon.stop();
}

/// OVS commit 9e11517e6: addresses that were removed stayed as local routes.
#[test]
fn routes_of_removed_addresses_go() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = start(&directory);
    directory.ip(&["address", "add", "10.9.0.1/24", "dev", "br0"]).ok();
    let second = [
        "Cached: 10.9.0.0/24 dev br0 SRC 10.9.0.1",
        "Cached: 10.9.0.1/32 dev br0 SRC 10.9.0.1 local",
    ];
    wait_for_routes(&daemon, "table=all", &[&CONNECTED[..], &second].concat());
    directory.ip(&["address", "del", "10.9.0.1/24", "dev", "br0"]).ok();
    wait_for_routes(&daemon, "table=all", &CONNECTED);
    daemon.stop();
}

#[test]
fn rules_of_the_kernel_lead_to_their_tables() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = start(&directory);
    let default = ["route", "add", "default", "via", "10.7.0.7", "dev", "br0", "table", "100"];
    directory.ip(&default).ok();
    assert_eq!(lookup(&daemon, &["8.8.8.8", "src=10.7.0.1"]), "");
    let rule = ["from", "10.7.0.1", "lookup", "100", "priority", "500"];
    directory.ip(&[&["rule", "add"][..], &rule].concat()).ok();
    let rules = |expected: &str| {
        wait_until(&format!("the rules are {expected:?}"), || {
            daemon.appctl(&["ovs/route/rule/show"]).ok() == expected
        });
    };
    let standard = "Cached: 32766: from all lookup main\nCached: 32767: from all lookup default\n";
    let local = "Cached: 0: from all lookup local\n";
    rules(&format!("{local}Cached: 500: from 10.7.0.1 lookup 100\n{standard}"));
    let shown = "Cached: 0.0.0.0/0 dev br0 GW 10.7.0.7 SRC 10.7.0.1";
    wait_for_routes(&daemon, "table=100", &[shown]);
    assert_eq!(
        lookup(&daemon, &["8.8.8.8", "src=10.7.0.1"]),
        "src 10.7.0.1 gateway 10.7.0.7 dev br0 "
    );
    directory.ip(&[&["rule", "del"][..], &rule].concat()).ok();
    rules(&format!("{local}{standard}"));
    assert_eq!(lookup(&daemon, &["8.8.8.8", "src=10.7.0.1"]), "");
    daemon.stop();
}

/// The kernel of another namespace is the other end of a tunnel, and nothing is set but addresses.
#[test]
fn a_tunnel_to_the_kernel_carries_packets() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let far = Namespace::new();
    let daemon = Daemon::start_without_dummies(&directory);
    let link = ["link", "add", "v1", "type", "veth", "peer", "name", "eth0", "netns", far.name()];
    directory.ip(&link).ok();
    directory.ip(&["link", "set", "v1", "up"]).ok();
    let far_ip = |line: &str| far.run("ip", &line.split(' ').collect::<Vec<_>>()).ok();
    far_ip("address add 10.7.0.2/24 dev eth0");
    far_ip("link set eth0 up");
    far_ip("link add x0 type vxlan id 7 remote 10.7.0.1 dstport 4789 dev eth0");
    far_ip("address add 192.168.50.2/24 dev x0");
    far_ip("link set x0 up");
    directory.vsctl(&add_bridge("br-phy")).ok();
    directory.vsctl(&add_bridge("br-int")).ok();
    let tunnel = ["type=vxlan", "options:remote_ip=10.7.0.2", "options:key=7"];
    let add = ["add-port", "br-phy", "v1", "--", "add-port", "br-int", "t1"];
    let set = ["--", "set", "interface", "t1"];
    directory.vsctl(&[&add[..], &set, &tunnel].concat()).ok();
    for (address, device) in [("10.7.0.1/24", "br-phy"), ("192.168.50.1/24", "br-int")] {
        directory.ip(&["address", "add", address, "dev", device]).ok();
        directory.ip(&["link", "set", device, "up"]).ok();
    }
    // What the headers leave of the link's MTU.
    directory.vsctl(&["set", "interface", "br-int", "mtu_request=1450"]).ok();
    let pings = |size: &str| {
        let options = ["-c", "2", "-i", "0.2", "-W", "1", "-s", size, "192.168.50.2"];
        Output::of(directory.command("ping").args(options)).status.success()
    };
    wait_until("the other end answers", || pings("56"));
    // In fragments.
    assert!(pings("3000"));
    let neighbours = daemon.appctl(&["tnl/neigh/show"]).ok();
    assert!(neighbours.lines().any(|line| line.starts_with("10.7.0.2 ")), "{neighbours}");
    daemon.stop();
}
