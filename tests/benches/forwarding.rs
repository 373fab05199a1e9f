//! What forwarding costs on one poll thread: cycles per packet as `pmd-stats-show` counts them, new
//! flows per second, rules, memory. Ports replay captures. With `--beside-ovs` Debian's Open
//! vSwitch with DPDK does the same in the same run, round after round, on the same captures and
//! rules, after a check that both forward the same packets. Needs root for that, and two
//! processors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::benchmark::{HugePages, Processes, System, summary, write_result};
use tests::namespace::is_root;
use tests::pmd_statistics::PmdStatistics;
use tests::traffic::{Rules, capture};
use tests::{Directory, Output};

/// Rounds of everything.
const ROUNDS: usize = 5;
/// Until the caches are as they stay.
const SETTLE: Duration = Duration::from_secs(2);
/// For how long packets are counted.
const WINDOW: Duration = Duration::from_secs(2);
/// Flows of the captures.
const FLOWS: [u32; 4] = [1, 1000, 8000, 100_000];
/// OpenFlow rules that are added and deleted.
const OPENFLOW_RULES: u32 = 100_000;
/// The processor of the poll thread.
const CORE: u32 = 1;

/// One input and the rules for it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Workload {
    name: &'static str,
    rules: Rules,
    flows: u32,
    /// A setting of `other_config`, if not its default.
    setting: Option<&'static str>,
    /// What the cycles may be at most, as a share of Open vSwitch's.
    target: Option<f64>,
}

/// The first is the floor: packets are received and dropped.
const WORKLOADS: [Workload; 11] = [
    workload("floor", Rules::Drop, 1, None, None),
    workload("W1", Rules::One, 1, None, Some(0.25)),
    workload("W2", Rules::Ports, 1, None, Some(0.33)),
    workload("W3", Rules::Ports, 1000, None, Some(0.25)),
    workload("W4", Rules::Ports, 8000, None, Some(0.2)),
    workload("W5", Rules::Ports, 100_000, None, Some(0.16)),
    workload("W6", Rules::Prefixes, 1000, None, Some(0.22)),
    workload("W7", Rules::Prefixes, 8000, None, Some(0.16)),
    workload("W8", Rules::Prefixes, 100_000, None, Some(0.1)),
    workload("W9", Rules::Prefixes, 100_000, Some("emc-insert-inv-prob=0"), Some(0.1)),
    workload("W8, smc", Rules::Prefixes, 100_000, Some("smc-enable=true"), None),
];

const fn workload(
    name: &'static str,
    rules: Rules,
    flows: u32,
    setting: Option<&'static str>,
    target: Option<f64>,
) -> Workload {
    Workload { name, rules, flows, setting, target }
}

impl Workload {
    fn title(&self) -> String {
        let setting = self.setting.map_or(String::new(), |setting| format!(", {setting}"));
        format!("{}: {:?}, {} flows{setting}", self.name, self.rules, self.flows).to_lowercase()
    }
}

/// What else is measured: name, unit, and the most that it may be of Open vSwitch's figure, or the
/// least where more is better.
const OTHERS: [(&str, &str, f64); 5] = [
    ("new flows through upcalls", "1/s, more is better", 5.0),
    ("100,000 rules by ovs-ofctl add-flows", "s", 0.25),
    ("ovs-ofctl dump-flows of these", "s", 1.0),
    ("ovs-ofctl del-flows of these", "s", 1.0),
    ("memory of 100,000 flows", "MiB", 0.5),
];

/// A running switch and where it finds the captures.
struct Switch<'a> {
    system: System,
    directory: &'a Directory,
    inputs: &'a Directory,
    processes: Processes<'a>,
}

impl Switch<'_> {
    /// Creates the bridge with `rules`. Nothing comes in yet.
    fn add_bridge(&self, rules: Rules, setting: Option<&str>) {
        let bridge = "add-br br0 -- set bridge br0 datapath_type=netdev fail-mode=secure";
        let mut command = bridge.split(' ').collect::<Vec<_>>();
        let setting = setting.map(|setting| format!("other_config:{setting}"));
        command.extend(["--", "set", "open", ".", "other_config:pmd-cpu-mask=0x2"]);
        command.extend(setting.as_deref());
        self.directory.vsctl(&command).ok();
        self.directory.write("rules", rules.text());
        self.ofctl(&["add-flows", "br0", "rules"]);
    }

    /// Removes it, and the setting.
    fn remove_bridge(&self, setting: Option<&str>) {
        let mut command = vec!["del-br", "br0"];
        if let Some((key, _)) = setting.and_then(|setting| setting.split_once('=')) {
            command.extend(["--", "remove", "open", ".", "other_config", key]);
        }
        self.directory.vsctl(&command).ok();
    }

    /// Adds port 2, which records what it sends in `record`.
    fn add_output(&self, record: Option<&str>) {
        let file = |name: &str| self.directory.path(name).display().to_string();
        let (kind, option) = match (self.system, record) {
            (System::Sluice, None) => ("null", None),
            (System::Sluice, Some(name)) => {
                ("pcap", Some(format!("options:tx_pcap={}", file(name))))
            }
            (_, None) => {
                let input = self.inputs.path("1.pcap");
                let devargs = format!("eth_pcap1,rx_pcap={}", input.display());
                ("dpdk", Some(format!("options:dpdk-devargs={devargs}")))
            }
            (_, Some(name)) => {
                let devargs = format!("eth_pcap1,tx_pcap={}", file(name));
                ("dpdk", Some(format!("options:dpdk-devargs={devargs}")))
            }
        };
        self.add_port("p2", 2, kind, option);
    }

    /// Adds port 1, which receives the capture of `flows` flows again and again.
    fn add_input(&self, flows: u32) {
        let path = self.inputs.path(format!("{flows}.pcap"));
        let path = path.display();
        let (kind, option) = match self.system {
            System::Sluice => ("pcap", format!("options:rx_pcap={path}")),
            _ => {
                let devargs = format!("eth_pcap0,rx_pcap={path},infinite_rx=1");
                ("dpdk", format!("options:dpdk-devargs={devargs}"))
            }
        };
        let endless = (self.system == System::Sluice).then(|| "options:infinite_rx=true".into());
        self.add_port("p1", 1, kind, [Some(option), endless].into_iter().flatten());
    }

    fn add_port(
        &self,
        name: &str,
        number: u32,
        kind: &str,
        options: impl IntoIterator<Item = String>,
    ) {
        let mut command = vec!["add-port".to_owned(), "br0".into(), name.into(), "--".into()];
        command.extend(["set".into(), "interface".into(), name.into(), format!("type={kind}")]);
        command.push(format!("ofport_request={number}"));
        command.extend(options);
        self.directory.vsctl(&command.iter().map(String::as_str).collect::<Vec<_>>()).ok();
    }

    fn ofctl(&self, args: &[&str]) -> String {
        Output::of(self.directory.command("ovs-ofctl").args(args)).ok()
    }

    fn statistics(&self) -> PmdStatistics {
        let text = self.processes.appctl(&["dpif-netdev/pmd-stats-show"]);
        PmdStatistics::of_core(&text, CORE).unwrap_or_else(|| panic!("no figures in:\n{text}"))
    }

    /// Cycles per packet of a workload.
    fn measure(&self, workload: &Workload) -> PmdStatistics {
        self.add_bridge(workload.rules, workload.setting);
        self.add_output(None);
        self.add_input(workload.flows);
        sleep(SETTLE);
        self.processes.appctl(&["dpif-netdev/pmd-stats-clear"]);
        sleep(WINDOW);
        let statistics = self.statistics();
        self.remove_bridge(workload.setting);
        statistics
    }

    /// The distinct frames that a workload sends.
    fn sent(&self, workload: &Workload) -> BTreeSet<Vec<u8>> {
        self.add_bridge(workload.rules, workload.setting);
        self.add_output(Some("sent.pcap"));
        self.add_input(workload.flows);
        sleep(Duration::from_secs(1));
        self.directory.vsctl(&["del-port", "p1"]).ok();
        self.remove_bridge(workload.setting);
        let bytes = std::fs::read(self.directory.path("sent.pcap")).expect("a capture");
        std::fs::remove_file(self.directory.path("sent.pcap")).expect("the capture is removed");
        frames(&bytes)
    }

    /// New flows per second, and memory that they take, in mebibytes.
    fn set_up(&self) -> (f64, f64) {
        const NEW: u32 = FLOWS[3];
        self.add_bridge(Rules::Exact, None);
        self.add_output(None);
        let before = self.processes.resident();
        self.add_input(NEW);
        let mut samples = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(20);
        while samples.last().is_none_or(|(_, misses)| *misses < u64::from(NEW * 9 / 10)) {
            assert!(Instant::now() < deadline, "too few of {NEW} flows: {samples:?}");
            samples.push((Instant::now(), self.statistics().misses));
        }
        sleep(Duration::from_secs(1));
        let memory = self.processes.resident() - before;
        self.remove_bridge(None);
        let first = samples.iter().rposition(|(_, misses)| *misses < u64::from(NEW / 10));
        let (start, from) = samples[first.unwrap_or(0)];
        let (end, to) = samples[samples.len() - 1];
        ((to - from) as f64 / (end - start).as_secs_f64(), memory)
    }

    /// Seconds for adding, showing and deleting rules.
    fn rules(&self) -> [f64; 3] {
        self.add_bridge(Rules::Drop, None);
        let rules = (0..OPENFLOW_RULES).fold(String::new(), |mut text, number| {
            let (address, port) = (std::net::Ipv4Addr::from(0x0a00_0000 + number), number % 60_000);
            let _ = writeln!(
                text,
                "priority=10,in_port=1,udp,nw_dst={address},tp_dst={port},actions=output:2"
            );
            text
        });
        self.directory.write("rules", rules);
        let timed = |args: &[&str]| {
            let start = Instant::now();
            let output = self.ofctl(args);
            (start.elapsed().as_secs_f64(), output)
        };
        let (add, _) = timed(&["add-flows", "br0", "rules"]);
        let (dump, text) = timed(&["dump-flows", "br0"]);
        let count = text.lines().filter(|line| line.contains("priority=10")).count();
        assert_eq!(count, OPENFLOW_RULES as usize, "rules shown");
        let (delete, _) = timed(&["del-flows", "br0"]);
        self.remove_bridge(None);
        [add, dump, delete]
    }
}

/// The distinct frames of a capture, whose last record may be cut short.
fn frames(bytes: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut frames = BTreeSet::new();
    let mut rest = bytes.get(24..).unwrap_or(&[]);
    while let Some((head, after)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some((frame, after)) = after.split_at_checked(length) else { break };
        if !frames.contains(frame) {
            frames.insert(frame.to_vec());
        }
        rest = after;
    }
    frames
}

/// Does something with a system that was started for it.
fn with<T>(system: System, inputs: &Directory, work: impl FnOnce(&Switch<'_>) -> T) -> T {
    let directory = Directory::in_memory();
    let processes = system.start(&directory);
    let switch = Switch { system, directory: &directory, inputs, processes };
    let result = work(&switch);
    switch.processes.stop();
    result
}

/// All figures of a system, one per round.
#[derive(Default)]
struct Figures {
    cycles: BTreeMap<&'static str, Vec<f64>>,
    paths: BTreeMap<&'static str, String>,
    others: BTreeMap<&'static str, Vec<f64>>,
}

impl Figures {
    fn round(&mut self, system: System, inputs: &Directory) {
        with(system, inputs, |switch| {
            for workload in &WORKLOADS {
                let statistics = switch.measure(workload);
                let cycles = statistics.cycles_per_packet;
                let cycles = cycles.unwrap_or_else(|| panic!("{system:?} {workload:?}: no packet"));
                eprintln!("  {:40} {cycles:8.1}  {}", workload.title(), statistics.path());
                self.cycles.entry(workload.name).or_default().push(cycles);
                self.paths.insert(workload.name, statistics.path());
            }
        });
        // From a fresh start, so that no memory of the workloads is used again.
        let others = with(system, inputs, |switch| {
            let (rate, memory) = switch.set_up();
            let [add, dump, delete] = switch.rules();
            [rate, add, dump, delete, memory]
        });
        for ((name, ..), value) in OTHERS.iter().zip(others) {
            eprintln!("  {name:40} {value:8.2}");
            self.others.entry(name).or_default().push(value);
        }
    }
}

/// A row of the result: what, and the figures of both systems.
fn row(title: &str, target: Option<f64>, path: [&str; 2], values: [&[f64]; 2]) -> (String, Value) {
    let text_of = |values: &[f64]| {
        let (median, least, most) = summary(values);
        let digits = if most < 10.0 { 2 } else { 0 };
        format!("{median:.digits$} [{least:.digits$}, {most:.digits$}]")
    };
    let (ours, theirs) = (values[0], values[1]);
    let mut line = format!("| {title} | {} | {} |", path[0], text_of(ours));
    let mut object = json!({"what": title, "path": path[0], "sluice": ours});
    if !theirs.is_empty() {
        // Figures of one round belong together.
        let ratios = ours.iter().zip(theirs).map(|(a, b)| a / b).collect::<Vec<_>>();
        let (median, least, most) = summary(&ratios);
        let target_text = target.map_or(String::new(), |target| format!("{target}"));
        let _ = write!(
            line,
            " {} | {} | {median:.3} [{least:.3}, {most:.3}] | {target_text} |",
            path[1],
            text_of(theirs)
        );
        object["ovs"] = json!(theirs);
        object["ovs_path"] = json!(path[1]);
        object["ratio"] = json!([median, least, most]);
        object["target"] = json!(target);
    }
    (line, object)
}

/// The whole result as a table and as JSON.
fn report(ours: &Figures, theirs: Option<&Figures>) -> (String, Value) {
    let mut table = String::from("| cycles per packet | path | Sluice |");
    table += if theirs.is_some() {
        " path | OVS-DPDK 3.1 | ratio | target |\n|---|---|---|---|---|---|---|\n"
    } else {
        "\n|---|---|---|\n"
    };
    let mut rows = Vec::new();
    let mut add = |(line, object): (String, Value)| {
        table += &line;
        table.push('\n');
        rows.push(object);
    };
    for workload in &WORKLOADS {
        let name = workload.name;
        let other = theirs.map_or(&[][..], |theirs| &theirs.cycles[name]);
        let other_path = theirs.map_or("", |theirs| &theirs.paths[name]);
        let path = [ours.paths[name].as_str(), other_path];
        add(row(&workload.title(), workload.target, path, [&ours.cycles[name], other]));
    }
    // What is left of each without receiving.
    let net = |figures: &Figures, name| {
        let pairs = figures.cycles[name].iter().zip(&figures.cycles["floor"]);
        pairs.map(|(cycles, floor)| (cycles - floor).max(0.0)).collect::<Vec<_>>()
    };
    for workload in &WORKLOADS[1..] {
        let name = workload.name;
        let title = format!("{name} above the floor");
        let other = theirs.map_or(Vec::new(), |theirs| net(theirs, name));
        add(row(&title, None, ["", ""], [&net(ours, name), &other]));
    }
    for (name, unit, target) in OTHERS {
        let other = theirs.map_or(&[][..], |theirs| &theirs.others[name]);
        add(row(&format!("{name} ({unit})"), Some(target), ["", ""], [&ours.others[name], other]));
    }
    let _ = writeln!(table, "\nmedian [least, most] of {ROUNDS} rounds; ratios of the same round");
    (table, json!({"rounds": ROUNDS, "rows": rows}))
}

/// The ratios as bars.
fn drawing(rows: &Value) -> String {
    let with_ratio = rows["rows"].as_array().into_iter().flatten().filter_map(|row| {
        Some((row["what"].as_str()?, row["ratio"][0].as_f64()?, row["target"].as_f64()?))
    });
    let bars = with_ratio.filter(|(.., target)| *target < 1.0).collect::<Vec<_>>();
    let height = 20 * bars.len() + 30;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <text x=\"10\" y=\"16\">Sluice as a share of OVS-DPDK 3.1; the line is what it may be at \
         most</text>\n"
    );
    for (index, (title, ratio, target)) in bars.iter().enumerate() {
        let y = 20 * index + 26;
        let _ = writeln!(
            svg,
            "<text x=\"10\" y=\"{}\">{title}</text><rect x=\"380\" y=\"{y}\" width=\"{:.0}\" \
             height=\"14\" fill=\"steelblue\"/><line x1=\"{x:.0}\" x2=\"{x:.0}\" y1=\"{y}\" \
             y2=\"{}\" stroke=\"red\"/><text x=\"{:.0}\" y=\"{}\">{ratio:.3}</text>",
            y + 12,
            ratio * 400.0,
            y + 14,
            ratio.max(*target) * 400.0 + 386.0,
            y + 12,
            x = target * 400.0 + 380.0,
        );
    }
    svg + "</svg>\n"
}

fn main() {
    let beside_ovs = std::env::args().any(|argument| argument == "--beside-ovs");
    if beside_ovs && !is_root() {
        return;
    }
    let _huge_pages = beside_ovs.then(|| HugePages::reserve(1100));
    let inputs = Directory::in_memory();
    for flows in FLOWS {
        inputs.write(format!("{flows}.pcap"), capture(flows));
    }
    let mut systems = vec![System::Sluice];
    systems.extend(beside_ovs.then_some(System::OpenVswitchDpdk));

    for workload in &WORKLOADS[1..] {
        let expected = frames(&capture(workload.flows));
        for &system in &systems {
            let sent = with(system, &inputs, |switch| switch.sent(workload));
            assert!(
                sent == expected,
                "{system:?} {workload:?}: {} of {} frames are forwarded",
                sent.intersection(&expected).count(),
                expected.len()
            );
        }
    }
    let mut figures = BTreeMap::<System, Figures>::new();
    for round in 1..=ROUNDS {
        for &system in &systems {
            eprintln!("round {round} of {ROUNDS}: {system:?}");
            figures.entry(system).or_default().round(system, &inputs);
        }
    }
    let (table, rows) = report(&figures[&System::Sluice], figures.get(&System::OpenVswitchDpdk));
    print!("{table}");
    let name = if beside_ovs { "ovs" } else { "forwarding" };
    write_result(&format!("{name}.md"), &table);
    write_result(&format!("{name}.json"), &format!("{rows:#}\n"));
    if beside_ovs {
        write_result("ovs.svg", &drawing(&rows));
    }
}
