//! How fast the switch starts, commits transactions and reconciles ports, and what it costs when
//! idle. With `--beside-ovs` Debian's Open vSwitch (`ovsdb-server` and `ovs-vswitchd`) is measured
//! in the same run, round after round, by the same clients.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;
use tests::benchmark::{System, summary, write_result};
use tests::{Connection, Directory};

/// Rounds of everything.
const ROUNDS: usize = 7;
/// Transactions in a row, with the file on a disk and in memory.
const TRANSACTIONS: [usize; 2] = [500, 4000];
/// Ports added in one command.
const PORTS: usize = 1000;
/// How long the idle processes are watched.
const IDLE: Duration = Duration::from_secs(5);

/// What is measured, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Measure {
    Start,
    DurableTransactions,
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
            Self::DurableTransactions => "durable transactions on disk (1/s)".into(),
            Self::TransactionsOnDisk => "other transactions on disk (1/s)".into(),
            Self::TransactionsInMemory => "transactions in memory (1/s)".into(),
            Self::AddPorts => format!("{PORTS} ports added by one ovs-vsctl (ms)"),
            Self::DeletePorts => format!("{PORTS} ports deleted with their bridge (ms)"),
            Self::IdleProcessor => "idle with an empty bridge: processor (%)".into(),
            Self::IdleMemory => "idle with an empty bridge: memory (MiB)".into(),
        }
    }
}

/// Rate of small transactions, each sent when the one before is answered. `ovsdb-server` waits for
/// the disk only when a transaction asks for it (`durable`); ours always does.
fn transaction_rate(directory: &Directory, count: usize, durable: bool) -> f64 {
    let mut connection = Connection::open(directory.path("db.sock"));
    let start = Instant::now();
    for number in 0..count {
        let insert = json!({"op": "insert", "table": "Queue", "row": {
            "external_ids": ["map", [["number", number.to_string()]]]}});
        let commit = json!({"op": "commit", "durable": durable});
        let results = connection.transact(&[insert, commit]);
        assert_eq!(results[1], json!({}), "{results}");
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
    let rate = transaction_rate(&directory, TRANSACTIONS[0], true);
    values.push((Measure::DurableTransactions, rate));
    let rate = transaction_rate(&directory, TRANSACTIONS[0], false);
    values.push((Measure::TransactionsOnDisk, rate));
    processes.stop();

    let directory = Directory::in_memory();
    let processes = system.start(&directory);
    let rate = transaction_rate(&directory, TRANSACTIONS[1], false);
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
            let _ = write!(table, "{other:10.1} [{low:7.1}, {high:7.1}]");
            if other > 0.0 {
                let _ = write!(table, "{:8.2}", median / other);
            }
        }
        table.push('\n');
    }
    let _ = writeln!(table, "median [least, most] of {ROUNDS} rounds");
    print!("{table}");
    write_result(if beside_ovs { "database-beside-ovs.txt" } else { "database.txt" }, &table);
}
