//! Real packets between hosts, each in a network namespace of its own, through a bridge.

use std::process::Stdio;

use tests::namespace::Namespace;
use tests::{Daemon, Directory, Output, Running, wait_until};

/// Whether this test can make namespaces; says so when it cannot.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root can create network namespaces");
    }
    root
}

/// What `ovs-vsctl` needs to add a bridge with real ports.
fn add_bridge(name: &str) -> [&str; 7] {
    ["add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"]
}

/// A daemon with one bridge in a namespace, and hosts with a link to it each.
struct Network<'a> {
    directory: &'a Directory,
    daemon: Daemon<'a>,
    hosts: Vec<Namespace>,
}

impl<'a> Network<'a> {
    /// Host `n` has the addresses 10.1.1.n and fd01::n on `eth0`, whose peer `vn` is a port of
    /// bridge `br0` with the settings `settings[n - 1]`. All links carry `mtu`.
    fn new(directory: &'a Directory, settings: &[&str], mtu: &str) -> Self {
        let daemon = Daemon::start(directory, &[]);
        directory.vsctl(&add_bridge("br0")).ok();
        let hosts: Vec<_> = settings.iter().map(|_| Namespace::new()).collect();
        for (number, (host, settings)) in (1..).zip(hosts.iter().zip(settings)) {
            let port = format!("v{number}");
            let peer = ["peer", "name", "eth0", "mtu", mtu, "netns", host.name()];
            let link = ["link", "add", &port, "mtu", mtu, "type", "veth"];
            directory.ip(&[&link[..], &peer].concat()).ok();
            directory.ip(&["link", "set", &port, "up"]).ok();
            host.run("ip", &["address", "add", &format!("10.1.1.{number}/24"), "dev", "eth0"]).ok();
            let address = format!("fd01::{number}/64");
            host.run("ip", &["address", "add", &address, "dev", "eth0", "nodad"]).ok();
            host.run("ip", &["link", "set", "eth0", "up"]).ok();
            let settings: Vec<_> = settings.split_whitespace().collect();
            directory.vsctl(&[&["add-port", "br0", &port][..], &settings].concat()).ok();
        }
        Self { directory, daemon, hosts }
    }

    fn host(&self, number: usize) -> &Namespace {
        &self.hosts[number - 1]
    }

    /// Whether host `from` gets an answer from `address`, with `options` for ping.
    fn pings(&self, from: usize, address: &str, options: &[&str]) -> bool {
        let options = [&["-c", "3", "-i", "0.2", "-W", "1"][..], options, &[address]].concat();
        self.host(from).run("ping", &options).status.success()
    }

    /// Sends [`TRANSFER`] bytes by TCP from host 1 to the server at `address` on host 2. What is on
    /// its way when the last was sent may not be counted there.
    fn transfers(&self, address: &str) -> bool {
        let mut server = self.host(2).command("iperf3");
        let server = server.args(["--server", "--one-off", "--json"]).stdout(Stdio::piped());
        let server = Running::from_child(server.spawn().expect("iperf3 from `make deps`"));
        let count = TRANSFER.to_string();
        let client =
            ["--client", address, "--bytes", &count, "--json", "--connect-timeout", "2000"];
        let mut report = serde_json::Value::Null;
        wait_until("the server answers", || {
            // With `--json`, refusals are told in the report alone.
            let output = self.host(1).run("iperf3", &client);
            report = serde_json::from_str(&output.stdout).expect("a report");
            report["error"].is_null()
        });
        assert!(server.has_ended(tests::process::LIMIT));
        let received = report["end"]["sum_received"]["bytes"].as_u64().expect("bytes received");
        received > TRANSFER / 10 * 9
    }

    /// Stops the daemon, whose threads must have accounted for every packet.
    fn stop(self) {
        let mut client = self.directory.command(tests::tools::program("sluice-appctl"));
        client.args(["--format", "json", "dpif-netdev/pmd-stats-show"]);
        let threads = Output::of(&mut client).ok();
        let threads: serde_json::Value = serde_json::from_str(&threads).expect("statistics");
        for thread in threads.as_array().expect("threads") {
            let count = |name: &str| thread[name].as_u64().expect("a counter");
            let classes = [
                "phwol-hits",
                "simple-match-hits",
                "emc-hits",
                "smc-hits",
                "megaflow-hits",
                "upcalls",
                "lost-upcalls",
            ];
            let passes = count("packets-received") + count("packet-recirculations");
            assert_eq!(classes.iter().map(|class| count(class)).sum::<u64>(), passes, "{thread}");
        }
        self.daemon.stop();
        assert_eq!(self.directory.ip(&["link", "show", "br0"]).status.code(), Some(1));
    }
}

/// Bytes of a transfer: enough for segments of every size and full windows.
const TRANSFER: u64 = 64 << 20;

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
    assert!(refused.starts_with("datapath not found (Invalid argument)"), "{refused}");
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
         packets:1, bytes:54, used:1.500s, flags:S, actions:2,100\n"
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
