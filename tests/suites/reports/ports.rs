//! Reports about ports.

use tests::namespace::is_root;
use tests::network::Network;
use tests::{Daemon, Directory, Output};

// Report A35.
#[test]
fn segments_are_measured_one_by_one() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    let rules = "table=0,priority=10,tcp,actions=check_pkt_larger(1514)->NXM_NX_REG0[0],resubmit(,1)\n\
                 table=0,priority=0,actions=NORMAL\n\
                 table=1,priority=10,reg0=1/1,actions=drop\n\
                 table=1,priority=0,actions=NORMAL\n";
    directory.write("rules", rules);
    let ofctl = |args: &[&str]| {
        Output::of(directory.command("ovs-ofctl").args(["-O", "OpenFlow13"]).args(args)).ok()
    };
    ofctl(&["replace-flows", "br0", "rules"]);
    assert!(network.transfers("10.1.1.2"));
    // And packets of many segments were among those that were not dropped.
    network.daemon.appctl(&["revalidator/wait"]).ok();
    let shown = ofctl(&["dump-flows", "br0", "table=0,tcp"]);
    let number = |key: &str| -> u64 {
        let (_, rest) = shown.split_once(key).expect("a counter");
        rest.split(',').next().expect("a number").parse().expect("a number")
    };
    assert!(number("n_bytes=") / number("n_packets=") > 1514, "{shown}");
    network.stop();
}

// Report A45.
#[test]
fn a_loop_leaves_the_switch_responsive() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    directory.ip(&["link", "add", "w0", "type", "veth", "peer", "name", "w1"]).ok();
    for link in ["w0", "w1"] {
        directory.ip(&["link", "set", link, "up"]).ok();
        directory.vsctl(&["add-port", "br0", link]).ok();
    }
    // Nobody has the address, so that the question goes round.
    assert!(!network.pings(1, "10.1.1.99", &["-c", "1"]));
    let hits = || -> u64 {
        let shown = network.daemon.appctl(&["dpctl/show"]).ok();
        let (_, rest) = shown.split_once("hit:").expect("a counter");
        rest.split(' ').next().expect("a number").parse().expect("a number")
    };
    let before = hits();
    tests::wait_until("the storm shows", || hits() > before + 1000);
    for _ in 0..3 {
        network.daemon.appctl(&["dpif/show"]).ok();
        Output::of(directory.command("ovs-ofctl").args(["dump-flows", "br0"])).ok();
    }
    directory.vsctl(&["del-port", "w1"]).ok();
    assert!(network.pings(1, "10.1.1.2", &[]));
    network.stop();
}

// Report A93.
#[test]
fn an_unknown_type_of_datapath_is_named_with_those_there_are() {
    let directory = Directory::new();
    let mut daemon = Daemon::start(&directory, &[]);
    let output =
        directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=net_dev"]);
    assert!(output.stderr.contains("net_dev"), "{output:?}");
    assert_eq!(
        directory.vsctl(&["get", "interface", "br0", "error"]).ok(),
        "\"unknown datapath type \\\"net_dev\\\" (valid: dummy, netdev)\"\n"
    );
    assert_eq!(directory.vsctl(&["get", "interface", "br0", "ofport"]).ok(), "-1\n");
    directory.vsctl(&["set", "bridge", "br0", "datapath_type=dummy"]).ok();
    assert_eq!(
        directory.vsctl(&["get", "interface", "br0", "ofport", "error"]).ok(),
        "65534\n[]\n"
    );
    daemon.allow("net_dev");
    daemon.stop();
}
