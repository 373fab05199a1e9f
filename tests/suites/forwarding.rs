//! Real packets between hosts, each in a network namespace of its own, through a bridge.

use tests::namespace::{Namespace, is_root};
use tests::network::{Network, add_bridge};
use tests::{Daemon, Directory};

#[test]
fn tcp_passes_with_default_offloads() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    assert!(network.pings(1, "10.1.1.2", &[]));
    assert!(network.transfers("10.1.1.2"));
    network.stop();
}

#[test]
fn tcp_passes_over_ipv6() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    assert!(network.pings(1, "fd01::2", &[]));
    assert!(network.transfers("fd01::2"));
    network.stop();
}

#[test]
fn large_packets_pass() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "9000");
    assert!(network.pings(1, "10.1.1.2", &["-M", "do", "-s", "8972"]));
    assert!(network.pings(1, "10.1.1.2", &["-s", "30000"]));
    assert!(network.transfers("10.1.1.2"));
    network.stop();
}

#[test]
fn vlans_are_kept_apart() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["tag=10", "tag=10", "tag=20"], "1500");
    assert!(network.pings(1, "10.1.1.2", &[]));
    assert!(!network.pings(1, "10.1.1.3", &[]));
    network.directory.vsctl(&["set", "port", "v3", "tag=10"]).ok();
    assert!(network.pings(1, "10.1.1.3", &[]));
    network.directory.vsctl(&["set", "port", "v2", "tag=20"]).ok();
    assert!(!network.pings(1, "10.1.1.2", &[]));
    network.stop();
}

#[test]
fn the_bridge_itself_is_a_host() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &[""], "1500");
    directory.ip(&["address", "add", "10.1.1.100/24", "dev", "br0"]).ok();
    directory.ip(&["link", "set", "br0", "up"]).ok();
    assert!(network.pings(1, "10.1.1.100", &[]));
    assert!(network.pings(1, "10.1.1.100", &["-s", "30000"]));
    network.stop();
}

#[test]
fn bridges_are_joined_by_patches() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    directory.vsctl(&add_bridge("br1")).ok();
    directory.vsctl(&["del-port", "v2", "--", "add-port", "br1", "v2"]).ok();
    assert!(!network.pings(1, "10.1.1.2", &[]));
    let patch = |bridge: &str, name: &str, peer: &str| {
        let peer = format!("options:peer={peer}");
        let add = ["add-port", bridge, name, "--", "set", "interface", name, "type=patch", &peer];
        directory.vsctl(&add).ok();
    };
    patch("br0", "to1", "to0");
    patch("br1", "to0", "to1");
    assert!(network.pings(1, "10.1.1.2", &[]));
    assert!(network.transfers("10.1.1.2"));
    network.stop();
}

#[test]
fn stations_are_learned_and_forgotten() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", "", ""], "1500");
    assert!(network.pings(1, "10.1.1.2", &[]));
    let ports = || {
        let table = network.daemon.appctl(&["fdb/show", "br0"]).ok();
        let rows = table.lines().skip(1).filter_map(|row| row.split_whitespace().next());
        rows.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(ports().is_superset(&["1".to_owned(), "2".to_owned()].into()));
    // A port that goes takes what was learned on it along.
    directory.vsctl(&["del-port", "v2"]).ok();
    assert!(!ports().contains("2"));
    assert_eq!(network.daemon.appctl(&["fdb/flush", "br0"]).ok(), "table successfully flushed\n");
    network.stop();
}

#[test]
fn flows_are_dumped_as_by_open_vswitch() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let network = Network::new(&directory, &["", ""], "1500");
    assert!(network.pings(1, "10.1.1.2", &[]));
    let address = |host: &Namespace| {
        let text = host.run("cat", &["/sys/class/net/eth0/address"]).ok();
        text.trim().to_owned()
    };
    let (source, destination) = (address(network.host(1)), address(network.host(2)));
    let flow = |in_port: &str| {
        format!(
            "recirc_id(0),in_port({in_port}),packet_type(ns=0,id=0),\
             eth(src={source},dst={destination}),eth_type(0x0800),ipv4(frag=no), "
        )
    };
    let dump = |arguments: &[&str]| network.daemon.appctl(arguments).ok();
    let text = dump(&["dpctl/dump-flows", "--names", "netdev@ovs-netdev"]);
    assert!(text.starts_with("flow-dump from the main thread:\n"), "{text}");
    // The first of the three packets made the flow.
    let row = text.lines().find_map(|line| line.strip_prefix(&flow("v1"))).expect("the flow");
    assert!(row.starts_with("packets:2, bytes:196, used:"), "{row}");
    assert!(row.ends_with("s, actions:v2"), "{row}");

    let text = dump(&["dpif/dump-flows", "br0"]);
    let row = text.lines().find(|line| line.starts_with(&flow("2"))).expect("the flow");
    assert!(row.ends_with("s, actions:3"), "{row}");
    let text = dump(&["dpctl/dump-flows", "-m", "pmd=-1"]);
    assert!(text.lines().all(|line| line.starts_with("ufid:")), "{text}");
    assert!(text.contains("ipv4(src=10.1.1.1/0.0.0.0,dst=10.1.1.2/0.0.0.0,proto=1/0,"), "{text}");
    assert_eq!(dump(&["dpctl/dump-flows", "pmd=1"]), "");
    let refused = network.daemon.appctl(&["dpctl/dump-flows", "dummy@none"]).fails(2);
    assert!(refused.contains("datapath not found (Invalid argument)"), "{refused}");
    network.stop();
}

#[test]
fn dummies_receive_what_they_are_told() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let capture = format!("options:tx_pcap={}", directory.path("p2.pcap").display());
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    for (port, option) in [("p1", None), ("p2", Some(capture.as_str()))] {
        let add = ["add-port", "br0", port, "--", "set", "interface", port, "type=dummy"];
        directory.vsctl(&add.into_iter().chain(option).collect::<Vec<_>>()).ok();
    }
    daemon.appctl(&["time/stop"]).ok();
    let flow = "in_port(1),eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x0800),\
                ipv4(src=192.168.0.1,dst=192.168.0.2,proto=6,tos=0,ttl=64,frag=no),\
                tcp(src=8,dst=9),tcp_flags(syn)";
    let receive = |rest: &[&str]| daemon.appctl(&[&["netdev-dummy/receive"][..], rest].concat());
    receive(&["p1", flow, "--len", "100", flow]).ok();
    daemon.appctl(&["time/warp", "1500"]).ok();
    // The first packet made the flow, and the second hit it.
    assert_eq!(
        daemon.appctl(&["dpctl/dump-flows"]).ok(),
        "flow-dump from the main thread:\n\
         recirc_id(0),in_port(1),packet_type(ns=0,id=0),\
         eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x0800),ipv4(frag=no), \
         packets:1, bytes:54, used:1.500s, flags:S, actions:100,2\n"
    );
    // A header of 24 bytes, and 16 before each of the two packets.
    assert_eq!(std::fs::metadata(directory.path("p2.pcap")).unwrap().len(), 24 + 116 + 70);

    for (rest, message) in [
        (&["p9", flow][..], "no such dummy netdev"),
        (&["p1", "--qid", "1", flow], "bad rx queue id."),
        (&["p1", flow, "--len", "59"], "too small packet len"),
        (&["p1", "in_port(1),nonsense(1)"], "syntax error at nonsense(1)"),
    ] {
        let refused = receive(rest).fails(2);
        assert!(refused.starts_with(message), "{refused}");
    }
    daemon.stop();
}
