//! What leaves the switch, as those beyond its ports see it.

use tests::capture::{Capture, has_right_checksums};
use tests::namespace::{Namespace, is_root};
use tests::network::{Network, add_bridge};
use tests::{Daemon, Directory, wait_until};

/// The value of a counter in column `statistics` of an interface.
fn statistic(directory: &Directory, interface: &str, name: &str) -> u64 {
    let column = format!("statistics:{name}");
    let text = directory.vsctl(&["get", "interface", interface, &column]).ok();
    text.trim_end().parse().expect("a number")
}

fn coverage(daemon: &Daemon, counter: &str) -> u64 {
    let text = daemon.appctl(&["coverage/read-counter", counter]).ok();
    text.trim_end().parse().expect("a number")
}

/// The far device of the second link leaves no work to its receiver, so that the kernel cuts and
/// completes what the switch hands over, after the switch's own words.
#[test]
fn checksums_are_right_and_segments_no_longer_than_the_sender_said() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    let off = ["-K", "v2", "tx", "off", "tso", "off", "gso", "off"];
    let output = tests::Output::of(directory.command("ethtool").args(off));
    assert!(output.status.success(), "{output:?}");
    for address in ["10.1.1.2", "fd01::2"] {
        assert!(network.pings(1, address, &[]));
        let capture = Capture::start(network.host(2));
        assert!(network.transfers(address));
        let frames = capture.finish();
        let mac = network.host(1).run("cat", &["/sys/class/net/eth0/address"]).ok();
        let of_sender = frames.iter().filter(|frame| {
            let source: Vec<_> = frame[6..12].iter().map(|byte| format!("{byte:02x}")).collect();
            source.join(":") == mac.trim_end()
        });
        let checks: Vec<_> = of_sender
            .filter_map(|frame| Some((has_right_checksums(frame)?, frame.len())))
            .collect();
        let full = checks.iter().filter(|(_, length)| *length == 1514).count();
        assert!(full > 100, "{full} of {} frames are full", checks.len());
        assert!(checks.iter().all(|(is_right, length)| *is_right && *length <= 1514));
    }
    network.stop();
}

#[test]
fn packets_beyond_the_mtu_are_dropped_and_named() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let mut network = Network::new(&directory, &["", ""], "9000");
    assert!(network.pings(1, "10.1.1.2", &["-M", "do", "-s", "4000"]));
    directory.ip(&["link", "set", "v2", "mtu", "1500"]).ok();
    let mtu = || directory.vsctl(&["get", "interface", "v2", "mtu"]).ok();
    wait_until("the new MTU is known", || mtu() == "1500\n");
    let before = coverage(&network.daemon, "datapath_drop_mtu_exceeded");
    assert!(!network.pings(1, "10.1.1.2", &["-M", "do", "-s", "4000"]));
    assert_eq!(coverage(&network.daemon, "datapath_drop_mtu_exceeded"), before + 3);
    let dropped = || statistic(&directory, "v2", "ovs_tx_mtu_exceeded_drops");
    wait_until("the statistics are published", || dropped() == 3);
    // One line for all of them, but for what the limit of the rate lets pass.
    let line = "v2: dropped a packet of 4042 bytes, longer than the MTU of 1500 bytes allows";
    network.daemon.wait_for_log(line);
    network.daemon.allow(line);
    assert!(network.pings(1, "10.1.1.2", &["-s", "1400"]));
    network.stop();
}

/// Two bridges with a link of the kernel between them, on which frames have tags.
#[test]
fn a_trunk_carries_vlans() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["tag=10", "tag=10", "tag=20"], "1500");
    directory.vsctl(&add_bridge("br1")).ok();
    directory.ip(&["link", "add", "w0", "type", "veth", "peer", "name", "w1"]).ok();
    for link in ["w0", "w1"] {
        directory.ip(&["link", "set", link, "up"]).ok();
    }
    let script = "del-port v2\ndel-port v3\nadd-port br1 v2 tag=10\nadd-port br1 v3 tag=20\n\
                  add-port br0 w0 trunks=10,30\nadd-port br1 w1\n";
    directory.vsctl_script(script).ok();
    assert!(network.pings(1, "10.1.1.2", &["-s", "1472", "-M", "do"]));
    assert!(!network.pings(1, "10.1.1.3", &[]));
    for address in ["10.1.1.2", "fd01::2"] {
        assert!(network.transfers(address));
    }
    directory.vsctl(&["set", "port", "w0", "trunks=20"]).ok();
    assert!(!network.pings(1, "10.1.1.2", &[]));
    directory.vsctl(&["set", "port", "v1", "tag=20"]).ok();
    assert!(network.pings(1, "10.1.1.3", &[]));
    let mut network = network;
    // Hosts speak before all is in place.
    network.daemon.allow("not configured for trunking VLAN");
    network.stop();
}

#[test]
fn internal_ports_serve_containers() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "9000");
    let container = Namespace::new();
    let add = ["add-port", "br0", "i1", "--", "set", "interface", "i1", "type=internal"];
    directory.vsctl(&[&add[..], &["mtu_request=9000"]].concat()).ok();
    directory.ip(&["link", "set", "i1", "netns", container.name()]).ok();
    container.run("ip", &["address", "add", "10.1.1.50/24", "dev", "i1"]).ok();
    container.run("ip", &["link", "set", "i1", "up"]).ok();
    let get = |column: &str| directory.vsctl(&["get", "interface", "i1", column]).ok();
    wait_until("the move is noticed", || get("ifindex") == "0\n");
    assert_eq!((get("error"), get("mtu")), ("[]\n".to_owned(), "9000\n".to_owned()));
    let ping = |size: &str| {
        let options = ["-c", "3", "-i", "0.2", "-W", "1", "-s", size, "10.1.1.2"];
        container.run("ping", &options).status.success()
    };
    assert!(ping("56") && ping("8972") && ping("30000"));
    wait_until("the statistics are published", || statistic(&directory, "i1", "rx_packets") >= 9);
    // The device is still ours to remove.
    directory.vsctl(&["del-port", "i1"]).ok();
    let link = container.run("ip", &["link", "show", "i1"]);
    assert!(!link.status.success(), "{link:?}");
    network.stop();
}

#[test]
fn poll_threads_serve_kernel_devices() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    // Asleep most of the time, and woken by packets.
    directory.vsctl(&["set", "open_vswitch", ".", "other_config:pmd-sleep-max=10000"]).ok();
    for port in ["v1", "v2"] {
        directory.vsctl(&["set", "interface", port, "options:pmd=true"]).ok();
    }
    let queues = network.daemon.appctl(&["dpif-netdev/pmd-rxq-show"]).ok();
    for port in ["v1", "v2"] {
        let row = queues.lines().find(|line| line.contains(&format!("port: {port} ")));
        assert!(row.is_some_and(|row| row.contains("queue-id:  0 (enabled)")), "{queues}");
    }
    assert!(network.pings(1, "10.1.1.2", &[]));
    assert!(network.transfers("10.1.1.2"));
    directory.vsctl(&["set", "interface", "v1", "options:pmd=maybe"]).ok();
    assert_eq!(
        directory.vsctl(&["get", "interface", "v1", "error"]).ok(),
        "\"v1: pmd=maybe is neither true nor false\"\n"
    );
    directory.vsctl(&["remove", "interface", "v1", "options", "pmd"]).ok();
    assert!(network.pings(1, "10.1.1.2", &[]));
    let mut network = network;
    network.daemon.allow("v1: could not set configuration (Invalid argument)");
    network.stop();
}

#[test]
fn ports_come_and_go_while_others_forward() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    assert!(network.pings(1, "10.1.1.2", &[]));
    let mut ping = network.host(1).command("ping");
    ping.args(["-q", "-c", "1000", "-i", "0.003", "-W", "2", "10.1.1.2"]);
    let ping = std::thread::spawn(move || tests::Output::of(&mut ping).ok());
    let mut count = 0;
    while !ping.is_finished() {
        let add = ["add-port", "br0", "t1", "--", "set", "interface", "t1", "type=tap"];
        directory.vsctl(&add).ok();
        directory.vsctl(&["del-port", "t1"]).ok();
        count += 1;
    }
    let report = ping.join().expect("a report");
    assert!(report.contains("1000 packets transmitted, 1000 received, 0% packet loss"), "{report}");
    assert!(count > 5, "{count} changes in all");
    network.stop();
}

#[test]
fn floods_pass_over_devices_that_are_down() {
    if !is_root() {
        return;
    }
    const TAPS: usize = 10;
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    let script: String =
        (0..TAPS).map(|n| format!("add-port br0 t{n}\nset interface t{n} type=tap\n")).collect();
    directory.vsctl_script(&script).ok();
    let before = coverage(&network.daemon, "datapath_drop_tx_error");
    // Nobody answers, so that each question is flooded.
    assert!(!network.pings(1, "10.1.1.99", &[]));
    let dropped = coverage(&network.daemon, "datapath_drop_tx_error") - before;
    assert!(dropped >= 3 * TAPS as u64, "{dropped}");
    wait_until("the statistics are published", || statistic(&directory, "t0", "tx_dropped") >= 3);
    // The kernel was not even asked.
    let counters = directory.ip(&["-json", "-stats", "link", "show", "t0"]).ok();
    let counters: serde_json::Value = serde_json::from_str(&counters).expect("JSON");
    assert_eq!(counters[0]["stats64"]["rx"]["dropped"], 0);
    assert_eq!(counters[0]["stats64"]["rx"]["packets"], 0);
    network.stop();
}
