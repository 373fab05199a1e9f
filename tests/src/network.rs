//! A switch between hosts, each in a network namespace of its own. Needs root.

use std::process::Stdio;

use crate::namespace::Namespace;
use crate::process::LIMIT;
use crate::tools::program;
use crate::{Daemon, Directory, Output, Running, wait_until};

/// What `ovs-vsctl` needs to add a bridge with real ports.
pub fn add_bridge(name: &str) -> [&str; 7] {
    ["add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"]
}

/// A daemon with one bridge in a namespace, and hosts with a link to it each.
#[derive(Debug)]
pub struct Network<'a> {
    /// Where the daemon lives.
    pub directory: &'a Directory,
    /// The switch.
    pub daemon: Daemon<'a>,
    hosts: Vec<Namespace>,
}

impl<'a> Network<'a> {
    /// Host `n` has the addresses 10.1.1.n and fd01::n on `eth0`, whose peer `vn` is a port of
    /// bridge `br0` with the settings `settings[n - 1]`. All links carry `mtu`.
    #[track_caller]
    pub fn new(directory: &'a Directory, settings: &[&str], mtu: &str) -> Self {
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

    /// Host `number`, from 1 on.
    #[track_caller]
    pub fn host(&self, number: usize) -> &Namespace {
        &self.hosts[number - 1]
    }

    /// Whether host `from` gets an answer from `address`, with `options` for ping.
    #[track_caller]
    pub fn pings(&self, from: usize, address: &str, options: &[&str]) -> bool {
        let options = [&["-c", "3", "-i", "0.2", "-W", "1"][..], options, &[address]].concat();
        self.host(from).run("ping", &options).status.success()
    }

    /// Sends `TRANSFER` bytes by TCP from host 1 to the server at `address` on host 2. What is on
    /// its way when the last was sent may not be counted there.
    #[track_caller]
    pub fn transfers(&self, address: &str) -> bool {
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
        assert!(server.has_ended(LIMIT));
        let received = report["end"]["sum_received"]["bytes"].as_u64().expect("bytes received");
        received > TRANSFER / 10 * 9
    }

    /// Stops the daemon, whose threads must have accounted for every packet.
    #[track_caller]
    pub fn stop(self) {
        let mut client = self.directory.command(program("sluice-appctl"));
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
