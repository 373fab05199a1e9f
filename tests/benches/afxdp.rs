//! AF_XDP ports on pairs of virtual devices in native mode, one queue, one flow of 64-byte frames:
//! what receiving costs, how fast packets are forwarded, and what multi-buffer costs packets that
//! need it not. A second switch sends as fast as it can from processor 0; the one that is measured
//! polls on processor 1. With `--beside-ovs` Debian's Open vSwitch does the same, round after round.
//! Needs root and two processors.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tests::benchmark::{Processes, System, summary, write_result};
use tests::namespace::{Namespace, is_root};
use tests::traffic::capture;
use tests::{Daemon, Directory, Output};

/// Rounds of everything.
const ROUNDS: usize = 5;
/// Until all is as it stays.
const SETTLE: Duration = Duration::from_secs(1);
/// For how long packets are counted.
const WINDOW: Duration = Duration::from_secs(2);

/// Whose ports, and with which setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Candidate {
    MultiBuffer,
    SingleBuffer,
    OpenVswitch,
}

impl Candidate {
    fn title(self) -> &'static str {
        match self {
            Self::MultiBuffer => "Sluice",
            Self::SingleBuffer => "Sluice, multi-buffer=false",
            Self::OpenVswitch => "Open vSwitch 3.1",
        }
    }

    fn system(self) -> System {
        if self == Self::OpenVswitch { System::OpenVswitch } else { System::Sluice }
    }
}

/// What one candidate did in one round.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Of packets that are received and dropped.
    processing_cycles: f64,
    received: f64,
    forwarded: f64,
}

/// A pair of devices, `port` in the namespace of `directory` and `eth0` in `host`.
fn connect(directory: &Directory, port: &str, host: &str) {
    let peer = ["type", "veth", "peer", "name", "eth0", "netns", host];
    directory.ip(&[&["link", "add", port][..], &peer].concat()).ok();
    directory.ip(&["link", "set", port, "up"]).ok();
    Output::of(std::process::Command::new("ip").args(["-n", host, "link", "set", "eth0", "up"]))
        .ok();
}

/// The figure behind `name` in what `pmd-stats-show` says of the thread on processor 1.
fn figure(processes: &Processes<'_>, name: &str) -> f64 {
    let text = processes.appctl(&["dpif-netdev/pmd-stats-show"]);
    let thread = text.split("pmd thread").find(|part| part.contains("core_id 1:"));
    let line = thread.and_then(|thread| thread.lines().find(|line| line.trim().starts_with(name)));
    let value = line.and_then(|line| line.split(": ").nth(1)?.split(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in:\n{text}"))
}

/// Packets that arrived at `eth0` of a host.
fn arrived(host: &Namespace) -> u64 {
    let text = host.run("ip", &["-json", "-statistics", "link", "show", "eth0"]).ok();
    let links: Value = serde_json::from_str(&text).expect("JSON");
    links[0]["stats64"]["rx"]["packets"].as_u64().expect("a counter")
}

fn measure(candidate: Candidate) -> Figures {
    let source = Directory::in_namespace();
    let directory = Directory::in_namespace();
    let sink = Namespace::new();
    let source_name = source.namespace().expect("a namespace").name();
    connect(&directory, "g1", source_name);
    connect(&directory, "h0", sink.name());
    let processes = candidate.system().start(&directory);
    let bridge = "add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure \
                  -- set open . other_config:pmd-cpu-mask=0x2";
    directory.vsctl(&bridge.split_whitespace().collect::<Vec<_>>()).ok();
    for port in ["g1", "h0"] {
        let mut add = vec!["add-port", "br0", port, "--", "set", "interface", port, "type=afxdp"];
        add.push("options:xdp-mode=native");
        if candidate == Candidate::SingleBuffer {
            add.push("options:multi-buffer=false");
        }
        directory.vsctl(&add).ok();
    }
    let rule = |actions: &str| {
        let rule = format!("in_port=g1,actions={actions}");
        Output::of(directory.command("ovs-ofctl").args(["add-flow", "br0", &rule])).ok();
    };
    rule("drop");

    source.write("1.pcap", capture(1));
    let generator = Daemon::start(&source, &[]);
    let path = format!("options:rx_pcap={}", source.path("1.pcap").display());
    let script = "add-br br0 -- set bridge br0 datapath_type=netdev \
                  -- set open . other_config:pmd-cpu-mask=0x1 \
                  -- add-port br0 eth0 -- set interface eth0 type=afxdp options:xdp-mode=native \
                  -- add-port br0 p1 -- set interface p1 type=pcap options:infinite_rx=true";
    let mut command: Vec<_> = script.split_whitespace().collect();
    command.push(&path);
    source.vsctl(&command).ok();
    Output::of(source.command("ovs-ofctl").args([
        "add-flow",
        "br0",
        "in_port=p1,actions=output:eth0",
    ]))
    .ok();

    sleep(SETTLE);
    processes.appctl(&["dpif-netdev/pmd-stats-clear"]);
    sleep(WINDOW);
    let processing_cycles = figure(&processes, "avg processing cycles per packet");
    let received = figure(&processes, "packets received") / WINDOW.as_secs_f64();
    rule("output:h0");
    sleep(SETTLE);
    let before = arrived(&sink);
    sleep(WINDOW);
    let forwarded = (arrived(&sink) - before) as f64 / WINDOW.as_secs_f64();
    generator.kill();
    processes.stop();
    Figures { processing_cycles, received, forwarded }
}

/// What a row shows, and its figure.
type Row = (&'static str, fn(&Figures) -> f64);

fn main() {
    if !is_root() {
        return;
    }
    let beside_ovs = std::env::args().any(|argument| argument == "--beside-ovs");
    let mut candidates = vec![Candidate::MultiBuffer, Candidate::SingleBuffer];
    if beside_ovs {
        candidates.push(Candidate::OpenVswitch);
    }
    let mut samples = BTreeMap::<Candidate, Vec<Figures>>::new();
    for round in 1..=ROUNDS {
        for &candidate in &candidates {
            let figures = measure(candidate);
            eprintln!("round {round} of {ROUNDS}: {}: {figures:?}", candidate.title());
            samples.entry(candidate).or_default().push(figures);
        }
    }
    let rows: [Row; 3] = [
        ("received and dropped: processing cycles per packet", |figures| figures.processing_cycles),
        ("received and dropped: Mpps", |figures| figures.received / 1e6),
        ("forwarded: Mpps", |figures| figures.forwarded / 1e6),
    ];
    let mut table = format!("{:52}", "AF_XDP, veth, native, one queue");
    for candidate in samples.keys() {
        let _ = write!(table, "{:>30}", candidate.title());
    }
    table.push('\n');
    for (title, value) in rows {
        let _ = write!(table, "{title:52}");
        for figures in samples.values() {
            let (median, low, high) = summary(&figures.iter().map(value).collect::<Vec<_>>());
            let _ = write!(table, "{:>30}", format!("{median:.2} [{low:.2}, {high:.2}]"));
        }
        table.push('\n');
    }
    let _ = writeln!(table, "median [least, most] of {ROUNDS} rounds");
    print!("{table}");
    let name = if beside_ovs { "afxdp-beside-ovs.txt" } else { "afxdp.txt" };
    write_result(name, &table);
}
