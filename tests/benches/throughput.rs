//! How fast TCP is between two hosts in network namespaces, everything on one machine. With
//! `--beside-ovs` Debian's Open vSwitch does the same in the same run, round after round; as it
//! moves nothing with the default offloads of the hosts, also without them. Needs root.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Stdio;

use serde_json::Value;
use tests::benchmark::{System, summary, write_result};
use tests::namespace::{Namespace, is_root};
use tests::network::add_bridge;
use tests::{Directory, Output, Running};

/// Rounds of everything.
const ROUNDS: usize = 5;
/// Seconds of a transfer.
const SECONDS: &str = "3";

/// How the hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    /// Pairs of virtual Ethernet devices, one end a port of type `system`.
    System,
    /// The same, but the hosts have switched their offloads off.
    SystemWithoutOffloads,
    /// Ports of type `tap` that were moved to the hosts' namespaces.
    Tap,
}

impl Link {
    fn title(self) -> &'static str {
        match self {
            Self::System => "system ports (Gbit/s)",
            Self::SystemWithoutOffloads => "system ports, hosts with `tx off` (Gbit/s)",
            Self::Tap => "tap ports (Gbit/s)",
        }
    }

    /// Connects `host` by port `port` of bridge `br0`.
    fn connect(self, directory: &Directory, host: &Namespace, port: &str) {
        if self == Self::Tap {
            let add = ["add-port", "br0", port, "--", "set", "interface", port, "type=tap"];
            directory.vsctl(&add).ok();
            directory.ip(&["link", "set", port, "netns", host.name()]).ok();
            host.run("ip", &["link", "set", port, "name", "eth0"]).ok();
        } else {
            let peer = ["type", "veth", "peer", "name", "eth0", "netns", host.name()];
            directory.ip(&[&["link", "add", port][..], &peer].concat()).ok();
            directory.ip(&["link", "set", port, "up"]).ok();
            directory.vsctl(&["add-port", "br0", port]).ok();
        }
        if self == Self::SystemWithoutOffloads {
            host.run("ethtool", &["-K", "eth0", "tx", "off"]);
        }
    }
}

/// Gigabits per second that arrive; 0 when none do.
fn measure(system: System, link: Link) -> f64 {
    let directory = Directory::in_namespace();
    let processes = system.start(&directory);
    directory.vsctl(&add_bridge("br0")).ok();
    let hosts = [Namespace::new(), Namespace::new()];
    for (number, host) in hosts.iter().enumerate() {
        link.connect(&directory, host, &format!("v{number}"));
        host.run("ip", &["address", "add", &format!("10.1.1.{number}/24"), "dev", "eth0"]).ok();
        host.run("ip", &["link", "set", "eth0", "up"]).ok();
    }
    let ping = hosts[0].run("ping", &["-c", "1", "-W", "2", "10.1.1.1"]);
    assert!(ping.status.success(), "{ping:?}");
    let mut server = hosts[1].command("iperf3");
    let server = server.args(["--server", "--one-off"]).stdout(Stdio::null()).spawn();
    let _server = Running::from_child(server.expect("iperf3 from `make deps`"));
    tests::wait_until("the server listens", || {
        hosts[1].run("ss", &["--listening", "--tcp", "--numeric"]).ok().contains(":5201")
    });
    let client = ["--client", "10.1.1.1", "--time", SECONDS, "--json", "--connect-timeout", "2000"];
    let mut client_command = hosts[0].command("timeout");
    client_command.arg("10").arg("iperf3").args(client);
    let report = Output::of(&mut client_command).stdout;
    processes.stop();
    let report = serde_json::from_str::<Value>(&report).unwrap_or_default();
    report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e9
}

fn main() {
    if !is_root() {
        return;
    }
    let beside_ovs = std::env::args().any(|argument| argument == "--beside-ovs");
    let mut cases = vec![(Link::System, System::Sluice), (Link::Tap, System::Sluice)];
    if beside_ovs {
        cases = [Link::System, Link::SystemWithoutOffloads, Link::Tap]
            .into_iter()
            .flat_map(|link| [(link, System::Sluice), (link, System::OpenVswitch)])
            .collect();
    }
    let mut samples = BTreeMap::<Link, BTreeMap<System, Vec<f64>>>::new();
    for round in 1..=ROUNDS {
        for &(link, system) in &cases {
            eprintln!("round {round} of {ROUNDS}: {system:?} {link:?}");
            let systems = samples.entry(link).or_default();
            systems.entry(system).or_default().push(measure(system, link));
        }
    }

    let mut table = format!("{:48}{:>26}", "TCP between two hosts", "Sluice");
    if beside_ovs {
        let _ = write!(table, "{:>26}", "Open vSwitch 3.1");
    }
    table.push('\n');
    for (link, systems) in &samples {
        let _ = write!(table, "{:48}", link.title());
        for values in systems.values() {
            let (median, low, high) = summary(values);
            let _ = write!(table, "{median:10.2} [{low:5.2}, {high:5.2}]");
        }
        table.push('\n');
    }
    let _ = writeln!(table, "median [least, most] of {ROUNDS} rounds");
    print!("{table}");
    let name = if beside_ovs { "throughput-beside-ovs.txt" } else { "throughput.txt" };
    write_result(name, &table);
}
