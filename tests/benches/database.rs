//! How fast the switch starts, commits transactions and reconciles ports, and what it costs when
//! idle. With `--beside-ovs` Debian's Open vSwitch (`ovsdb-server` and `ovs-vswitchd`) is measured
//! in the same run, round after round, by the same clients.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;
use tests::tools::program;
use tests::{Connection, Daemon, Directory, Output, OvsdbServer};

/// Rounds of everything.
const ROUNDS: usize = 7;
/// Transactions in a row, with the file on a disk and in memory.
const TRANSACTIONS: [usize; 2] = [500, 4000];
/// Ports added in one command.
const PORTS: usize = 1000;
/// How long the idle processes are watched.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum System {
    Sluice,
    OpenVswitch,
}

/// The processes of a running system.
struct Processes<'a> {
    daemon: Daemon<'a>,
    server: Option<OvsdbServer>,
}

impl System {
    fn start(self, directory: &Directory) -> Processes<'_> {
        match self {
            Self::Sluice => Processes { daemon: Daemon::start(directory, &[]), server: None },
            Self::OpenVswitch => {
                let server = OvsdbServer::start(directory);
                directory.vsctl(&["--no-wait", "init"]).ok();
                let output = Output::of(
                    directory
                        .command("/usr/sbin/ovs-vswitchd")
                        .args(["--enable-dummy", "--disable-system", "--disable-system-route"])
                        .args(["--detach", "--no-chdir", "--pidfile", "--log-file"])
                        .arg("-vconsole:off"),
                );
                assert!(output.status.success(), "{output:#?}");
                let daemon = Daemon::adopt(directory, "ovs-vswitchd");
                Processes { daemon, server: Some(server) }
            }
        }
    }
}

impl Processes<'_> {
    fn each<T>(&self, value: impl Fn(i32) -> T) -> Vec<T> {
        let server = self.server.as_ref().map(|server| server.running().pid());
        [Some(self.daemon.running().pid()), server].into_iter().flatten().map(value).collect()
    }

    /// Processor time used so far, in seconds.
    fn processor_time(&self) -> f64 {
        let ticks = self.each(|pid| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
            // The name, field 2, may contain spaces; user and system time are fields 14 and 15.
            let fields = text.rsplit(')').next().expect("fields").split_whitespace();
            fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks")).sum::<u64>()
        });
        let per_second = rustix::param::clock_ticks_per_second();
        ticks.into_iter().sum::<u64>() as f64 / per_second as f64
    }

    /// Memory in use, in mebibytes.
    fn resident(&self) -> f64 {
        let pages = self.each(|pid| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).expect("a process");
            text.split(' ').nth(1).and_then(|field| field.parse::<usize>().ok()).expect("pages")
        });
        (pages.into_iter().sum::<usize>() * rustix::param::page_size()) as f64 / f64::from(1 << 20)
    }

    fn stop(self) {
        self.daemon.appctl(&["exit", "--cleanup"]).ok();
        if let Some(server) = self.server {
            server.stop();
        }
    }
}

/// What is measured, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Measure {
    Start,
    TransactionsOnDisk,
    TransactionsInMemory,
    AddPorts,
    DeletePorts,
    IdleProcessor,
    IdleMemory,
}

impl Measure {
    fn title(self) -> String {
        match self {
            Self::Start => "start to configured, empty database (ms)".into(),
            Self::TransactionsOnDisk => "transactions on disk (1/s)".into(),
            Self::TransactionsInMemory => "transactions in memory (1/s)".into(),
            Self::AddPorts => format!("{PORTS} ports added by one ovs-vsctl (ms)"),
            Self::DeletePorts => format!("{PORTS} ports deleted with their bridge (ms)"),
            Self::IdleProcessor => "idle with an empty bridge: processor (%)".into(),
            Self::IdleMemory => "idle with an empty bridge: memory (MiB)".into(),
        }
    }
}

/// Rate of small transactions, each sent when the one before is answered.
fn transaction_rate(directory: &Directory, count: usize) -> f64 {
    let mut connection = Connection::open(directory.path("db.sock"));
    let start = Instant::now();
    for number in 0..count {
        let insert = json!({"op": "insert", "table": "Queue", "row": {
            "external_ids": ["map", [["number", number.to_string()]]]}});
        assert!(connection.transact(&[insert])[0]["uuid"].is_array());
    }
    count as f64 / start.elapsed().as_secs_f64()
}

fn milliseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}

/// One round for one system.
fn measure(system: System) -> Vec<(Measure, f64)> {
    let mut values = Vec::new();
    let directory = Directory::new();
    let start = Instant::now();
    let processes = system.start(&directory);
    values.push((Measure::Start, start.elapsed().as_secs_f64() * 1e3));
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    values.push((Measure::IdleMemory, processes.resident()));
    let before = processes.processor_time();
    std::thread::sleep(IDLE);
    let used = processes.processor_time() - before;
    values.push((Measure::IdleProcessor, used / IDLE.as_secs_f64() * 100.0));
    let rate = transaction_rate(&directory, TRANSACTIONS[0]);
    values.push((Measure::TransactionsOnDisk, rate));
    processes.stop();

    let directory = Directory::in_memory();
    let processes = system.start(&directory);
    let rate = transaction_rate(&directory, TRANSACTIONS[1]);
    values.push((Measure::TransactionsInMemory, rate));
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    let mut script = String::new();
    for number in 1..=PORTS {
        let _ = writeln!(script, "add-port br0 p{number}");
        let _ = writeln!(script, "set interface p{number} type=dummy");
    }
    let time = milliseconds(|| drop(directory.vsctl_script(&script).ok()));
    values.push((Measure::AddPorts, time));
    let time = milliseconds(|| drop(directory.vsctl(&["del-br", "br0"]).ok()));
    values.push((Measure::DeletePorts, time));
    processes.stop();
    values
}

/// Median, smallest and largest value.
fn summary(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() {
    let beside_ovs = std::env::args().any(|argument| argument == "--beside-ovs");
    let mut systems = vec![System::Sluice];
    if beside_ovs {
        systems.push(System::OpenVswitch);
    }
    let mut samples = BTreeMap::<(Measure, System), Vec<f64>>::new();
    for round in 1..=ROUNDS {
        for &system in &systems {
            eprintln!("round {round} of {ROUNDS}: {system:?}");
            for (measure, value) in measure(system) {
                samples.entry((measure, system)).or_default().push(value);
            }
        }
    }

    let mut table = format!("{:48}{:>30}", "", "Sluice");
    if beside_ovs {
        let _ = write!(table, "{:>30}{:>8}", "Open vSwitch 3.1", "ratio");
    }
    table.push('\n');
    for (&(measure, _), values) in
        samples.iter().filter(|((_, system), _)| *system == System::Sluice)
    {
        let (median, low, high) = summary(values);
        let _ = write!(table, "{:48}{median:10.1} [{low:7.1}, {high:7.1}]", measure.title());
        if let Some(values) = samples.get(&(measure, System::OpenVswitch)) {
            let (other, low, high) = summary(values);
            let _ = write!(table, "{other:10.1} [{low:7.1}, {high:7.1}]{:8.2}", median / other);
        }
        table.push('\n');
    }
    let _ = writeln!(table, "median [least, most] of {ROUNDS} rounds");
    print!("{table}");

    let directory = program("sluice-vswitchd").with_file_name("..").join("bench");
    std::fs::create_dir_all(&directory).expect("a directory for the result");
    let name = if beside_ovs { "database-beside-ovs.txt" } else { "database.txt" };
    std::fs::write(directory.join(name), table).expect("a file for the result");
}
