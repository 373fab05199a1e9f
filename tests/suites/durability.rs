//! What the embedded database acknowledged is there after any end of the daemon.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{Connection, Daemon, Directory};

/// Transactions of the kill test, over all rounds.
const TRANSACTIONS: usize = 10_000;
/// Transactions sent ahead of their replies.
const WINDOW: u64 = 16;

/// A row that nothing acts upon, in a table whose rows need no reference.
fn insert(number: u64) -> Value {
    json!({"op": "insert", "table": "Queue", "row": {"dscp": 1,
        "external_ids": ["map", [["number", number.to_string()]]]}})
}

/// The numbers of all rows that [`insert`] made.
fn stored(directory: &Directory) -> Vec<u64> {
    let mut connection = Connection::open(directory.path("db.sock"));
    let select = json!({"op": "select", "table": "Queue", "where": [],
        "columns": ["dscp", "external_ids"]});
    let result = connection.transact(&[select]);
    let rows = result[0]["rows"].as_array().expect("rows");
    let mut numbers = rows
        .iter()
        .map(|row| {
            assert_eq!(row["dscp"], json!(1), "half a row: {row}");
            let number = row["external_ids"][1][0][1].as_str().expect("a number");
            number.parse().expect("a number")
        })
        .collect::<Vec<_>>();
    numbers.sort_unstable();
    numbers
}

/// Sends transactions until the daemon is gone, and returns how many it acknowledged.
fn write_until_killed(mut connection: Connection, first: u64) -> u64 {
    let (mut sent, mut acknowledged) = (0, 0);
    loop {
        while sent < acknowledged + WINDOW {
            let params = json!(["Open_vSwitch", insert(first + sent)]);
            let request = json!({"id": sent, "method": "transact", "params": params});
            if connection.write(request.to_string().as_bytes()).is_err() {
                return acknowledged;
            }
            sent += 1;
        }
        let Some(reply) = connection.receive() else { return acknowledged };
        assert_eq!((&reply["id"], &reply["error"]), (&json!(acknowledged), &Value::Null));
        assert!(reply["result"][0]["uuid"].is_array(), "{reply}");
        acknowledged += 1;
    }
}

#[test]
fn kill_loses_no_acknowledged_transaction() {
    let directory = Directory::new();
    let mut acknowledged = BTreeSet::new();
    let mut first = 0;
    for round in 1.. {
        let daemon = Daemon::start(&directory, &[]);
        let connection = Connection::open(directory.path("db.sock"));
        // A different point each time.
        let delay = Duration::from_millis(41 * (round % 25));
        let count = std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_until_killed(connection, first));
            std::thread::sleep(delay);
            daemon.running().signal(Signal::KILL);
            writer.join().expect("the writer")
        });
        daemon.kill();
        acknowledged.extend(first..first + count);
        let last = acknowledged.len() >= TRANSACTIONS;
        // Reading everything takes long, so not each time.
        if last || round % 4 == 0 {
            let daemon = Daemon::start(&directory, &[]);
            let found = stored(&directory);
            let unique = found.iter().copied().collect::<BTreeSet<_>>();
            assert_eq!(found.len(), unique.len(), "a transaction was applied twice");
            let lost = acknowledged.difference(&unique).collect::<Vec<_>>();
            assert!(lost.is_empty(), "round {round}: acknowledged, but lost: {lost:?}");
            // What was in flight may be there, but only in order and without gaps.
            let extra = found.iter().copied().filter(|number| *number >= first + count);
            let extra = extra.collect::<Vec<_>>();
            let expected = (first + count..).take(extra.len()).collect::<Vec<_>>();
            assert_eq!(extra, expected, "transactions were applied out of order");
            daemon.kill();
        }
        if last {
            break;
        }
        first += count + WINDOW;
    }
}

#[test]
fn file_cut_anywhere_in_the_last_record_opens() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let mut connection = Connection::open(directory.path("db.sock"));
    for number in 0..3 {
        connection.transact(&[insert(number)]);
    }
    let file = directory.path("conf.db");
    let before = std::fs::metadata(&file).unwrap().len() as usize;
    connection.transact(&[insert(3)]);
    daemon.kill();
    let whole = std::fs::read(&file).unwrap();
    assert!(whole.len() > before);

    for length in before..=whole.len() {
        std::fs::write(&file, &whole[..length]).unwrap();
        let _ = std::fs::remove_file(directory.path("sluice-vswitchd.log"));
        let daemon = Daemon::start(&directory, &["-vconsole:off"]);
        // The newline at the very end may be missing.
        let expected = if length + 1 < whole.len() { 3 } else { 4 };
        let found = stored(&directory);
        assert!(
            found == (0..expected).collect::<Vec<_>>()
                || (length + 1 == whole.len() && found == [0, 1, 2]),
            "{length} of {} bytes: {found:?}",
            whole.len()
        );
        let torn = length > before && found.len() == 3;
        let warned = daemon.log().lines().any(|line| {
            line.contains("|WARN|")
                && line.contains("conf.db")
                && line.contains(&before.to_string())
        });
        assert_eq!(warned, torn, "{length} bytes: {}", daemon.log());
        // It can be written to again.
        Connection::open(directory.path("db.sock")).transact(&[insert(9)]);
        daemon.kill();
        let daemon = Daemon::start(&directory, &["-vconsole:off"]);
        assert_eq!(stored(&directory), [&found[..], &[9]].concat());
        daemon.kill();
    }
}

#[test]
fn corrupt_byte_in_the_last_record_costs_only_that() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let mut connection = Connection::open(directory.path("db.sock"));
    connection.transact(&[insert(0)]);
    let file = directory.path("conf.db");
    let before = std::fs::metadata(&file).unwrap().len() as usize;
    connection.transact(&[insert(1)]);
    daemon.kill();
    let whole = std::fs::read(&file).unwrap();
    for offset in (before..whole.len() - 1).step_by(7) {
        let mut bytes = whole.clone();
        bytes[offset] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        let daemon = Daemon::start(&directory, &["-vconsole:off"]);
        assert_eq!(stored(&directory), [0], "byte {offset}");
        daemon.kill();
    }
}

#[test]
fn full_disk_refuses_the_transaction_and_changes_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    let directory = Directory::new();
    let mount = directory.path("small");
    std::fs::create_dir(&mount).unwrap();
    let mount_text = mount.to_str().unwrap();
    let options = ["-t", "tmpfs", "-o", "size=256k", "none", mount_text];
    tests::Output::of(directory.command("mount").args(options)).ok();
    let guard = Mounted { directory: &directory };

    let flag = format!("--db-file={mount_text}/conf.db");
    let daemon = Daemon::start(&directory, &[&flag]);
    let mut connection = Connection::open(directory.path("db.sock"));
    let big = "x".repeat(20_000);
    let mut number = 0;
    let error = loop {
        let mut operation = insert(number);
        operation["row"]["other_config"] = json!(["map", [["fill", big]]]);
        let reply = connection.call("transact", &json!(["Open_vSwitch", operation]));
        match reply {
            Ok(result) if result[0]["uuid"].is_array() && result.get(1).is_none() => number += 1,
            other => break format!("{other:?}"),
        }
        assert!(number < 1000, "256 kB hold {number} transactions of 20 kB");
    };
    assert!(error.contains("I/O error") && error.contains("conf.db"), "{error}");
    assert!(error.contains("No space left"), "{error}");
    assert_eq!(stored(&directory), (0..number).collect::<Vec<_>>());
    daemon.kill();

    let daemon = Daemon::start(&directory, &[&flag]);
    assert_eq!(stored(&directory), (0..number).collect::<Vec<_>>());
    // With room again, it goes on.
    let larger = ["-o", "remount,size=4m", mount_text];
    tests::Output::of(directory.command("mount").args(larger)).ok();
    let mut connection = Connection::open(directory.path("db.sock"));
    assert!(connection.transact(&[insert(number)])[0]["uuid"].is_array());
    daemon.kill();
    drop(guard);
}

struct Mounted<'a> {
    directory: &'a Directory,
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let start = Instant::now();
        // The daemon may need a moment to let go of its files.
        loop {
            let status = self.directory.command("umount").arg("small").status();
            if status.is_ok_and(|status| status.success())
                || start.elapsed() > Duration::from_secs(5)
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
