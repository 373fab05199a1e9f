//! The control socket, by `ovs-appctl`, `sluice-appctl` and by hand.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{Connection, Daemon, Directory};

/// Every command of the daemon itself, with its usage.
const COMMANDS: [(&str, &str); 20] = [
    ("coverage/read-counter", "COUNTER"),
    ("coverage/show", ""),
    ("exit", "[--cleanup]"),
    ("list-commands", ""),
    ("memory/show", ""),
    ("ovsdb-server/compact", "[db]"),
    ("ovsdb-server/list-dbs", ""),
    ("ovsdb-server/sync-status", ""),
    ("time/stop", ""),
    ("time/warp", "[large_msecs] msecs"),
    ("version", ""),
    ("vlog/close", ""),
    ("vlog/disable-rate-limit", "[module]..."),
    ("vlog/enable-rate-limit", "[module]..."),
    ("vlog/list", ""),
    ("vlog/list-pattern", ""),
    ("vlog/reopen", ""),
    ("vlog/set", "{spec | PATTERN:destination:pattern}"),
    ("netdev-dummy/set-admin-state", "[netdev] up|down"),
    ("netdev-dummy/conn-state", "[netdev]"),
];

#[test]
fn lists_commands_with_usage() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let text = daemon.appctl(&["list-commands"]).ok();
    let (title, lines) = text.split_once('\n').unwrap();
    assert_eq!(title, "The available commands are:");
    let listed = lines
        .lines()
        .map(|line| line.strip_prefix("  ").expect("an indented command"))
        .map(|line| line.split_once(' ').map_or((line, ""), |(name, usage)| (name, usage.trim())))
        .collect::<Vec<_>>();
    assert!(listed.is_sorted(), "{text}");
    let listed = BTreeMap::from_iter(listed);
    for (name, usage) in COMMANDS {
        assert_eq!(listed.get(name), Some(&usage), "{name}");
        if name.len() <= 23 {
            assert!(text.contains(&format!("\n  {name:<23} {usage}\n")), "{name}: {text}");
        }
    }
    daemon.stop();
}

#[test]
fn wrong_usage_is_answered_with_the_reason() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let table: &[(&[&str], &str)] = &[
        (
            &["no/such"],
            "\"no/such\" is not a valid command (use \"list-commands\" to see a list of valid commands)",
        ),
        (&["vlog/list", "x"], "\"vlog/list\" command takes at most 0 arguments"),
        (&["version", "a", "b"], "\"version\" command takes at most 0 arguments"),
        (
            &["coverage/read-counter"],
            "\"coverage/read-counter\" command requires at least 1 arguments",
        ),
        (&["coverage/read-counter", "no_such"], "No such counter"),
        (&["vlog/set", "nonsense"], "no destination, level, or module \"nonsense\""),
        (&["vlog/set", "file:nonsense:dbg"], "no destination, level, or module \"nonsense\""),
    ];
    for (args, text) in table {
        let message = daemon.appctl(args).fails(2);
        assert!(message.starts_with(text), "{args:?}: {message}");
        let args = [&["-t", "sluice-vswitchd"], *args].concat();
        let message = directory.sluice_appctl(&args).fails(2);
        assert!(message.starts_with(&format!("{text}\n")), "{args:?}: {message}");
        let end = "\nsluice-appctl: sluice-vswitchd: server returned an error\n";
        assert!(message.ends_with(end), "{args:?}: {message}");
        assert_eq!(
            message.contains("\nusage: "),
            text.contains("arguments"),
            "{args:?}: {message}"
        );
    }
    daemon.stop();
}

#[test]
fn text_replies_end_their_line() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let mut connection = Connection::open(daemon.control_socket());
    // Clients before Open vSwitch 4.0 print a reply as it is.
    for command in ["version", "list-commands", "vlog/list-pattern"] {
        let reply = connection.call(command, &json!([])).unwrap();
        assert!(reply.as_str().is_some_and(|text| text.ends_with('\n')), "{command}: {reply}");
    }
    let error = connection.call("no/such", &json!([])).unwrap_err();
    assert!(error.as_str().is_some_and(|text| text.ends_with("commands)\n")), "{error}");
    // Nothing stays nothing.
    assert_eq!(connection.call("vlog/reopen", &json!([])), Ok(json!("")));
    daemon.stop();
}

#[test]
fn log_levels_are_set_and_listed() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &["-vsyslog:off"]);
    let level = |module: &str| {
        let text = daemon.appctl(&["vlog/list"]).ok();
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(module));
        line.unwrap_or_else(|| panic!("{module} is missing: {text}"))
            .split_whitespace()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(daemon.appctl(&["vlog/list"]).ok().lines().next().map(str::trim_end), {
        Some("                 console    syslog    file")
    });
    assert_eq!(level("bridge"), "OFF OFF INFO");
    daemon.appctl(&["vlog/set", "file:bridge:dbg"]).ok();
    daemon.appctl(&["vlog/set", "unixctl"]).ok();
    daemon.appctl(&["vlog/set", "syslog:warn", "file,vconn,err"]).ok();
    assert_eq!(level("bridge"), "OFF WARN DBG");
    assert_eq!(level("unixctl"), "DBG WARN DBG");
    assert_eq!(level("vconn"), "OFF WARN ERR");
    daemon.appctl(&["vlog/set", "ANY:ANY:info"]).ok();
    assert_eq!(level("dpif_netdev"), "INFO INFO INFO");

    daemon.appctl(&["vlog/set", "PATTERN:file:%c|%p|%m"]).ok();
    let patterns = daemon.appctl(&["vlog/list-pattern"]).ok();
    assert!(patterns.lines().any(|line| line.trim_start().ends_with("%c|%p|%m")), "{patterns}");
    for command in ["vlog/disable-rate-limit", "vlog/enable-rate-limit"] {
        assert_eq!(daemon.appctl(&[command]).ok(), "");
        assert_eq!(daemon.appctl(&[command, "bridge"]).ok(), "");
    }
    daemon.stop();
}

#[test]
fn log_file_is_closed_and_reopened() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let log = directory.path("sluice-vswitchd.log");
    let old = directory.path("old.log");
    std::fs::rename(&log, &old).unwrap();
    daemon.appctl(&["vlog/reopen"]).ok();
    wait_for_lines(&directory, "sluice-vswitchd.log");
    assert!(directory.read("old.log").contains("|vlog|INFO|closing log file"));
    assert!(daemon.log().contains("|vlog|INFO|opened log file"), "{}", daemon.log());
    for line in daemon.log().lines() {
        let fields = line.splitn(5, '|').collect::<Vec<_>>();
        assert!(fields.len() == 5 && fields[0].ends_with('Z') && fields[1].len() == 5, "{line}");
    }

    daemon.appctl(&["vlog/close"]).ok();
    let before = daemon.log();
    daemon.appctl(&["vlog/set", "dbg"]).ok();
    daemon.appctl(&["version"]).ok();
    assert_eq!(daemon.log(), before);
    daemon.appctl(&["vlog/set", "info"]).ok();
    daemon.appctl(&["vlog/reopen"]).ok();
    daemon.stop();
}

fn wait_for_lines(directory: &Directory, name: &str) {
    tests::wait_until(&format!("{name} has lines"), || {
        std::fs::read_to_string(directory.path(name)).is_ok_and(|text| !text.is_empty())
    });
}

#[test]
fn clock_is_stopped_and_warped_with_dummies_only() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    assert_eq!(daemon.appctl(&["time/stop"]).ok(), "");
    assert_eq!(daemon.appctl(&["time/warp", "5000"]).ok().trim_end(), "warped");
    assert_eq!(daemon.appctl(&["time/warp", "5000", "1000"]).ok().trim_end(), "warped");
    daemon.stop();

    let directory = Directory::new();
    let child = directory
        .command(tests::tools::program("sluice-vswitchd"))
        .args(["--pidfile", "--log-file", "-vconsole:off"])
        .spawn()
        .unwrap();
    let _running = tests::Running::from_child(child);
    tests::wait_until("the daemon answers", || {
        directory.ovs_appctl("sluice-vswitchd", &["version"]).status.success()
    });
    let message = directory.ovs_appctl("sluice-vswitchd", &["time/stop"]).fails(2);
    assert!(message.starts_with("\"time/stop\" is not a valid command"), "{message}");
}

#[test]
fn counters_memory_and_databases_are_shown() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    assert_eq!(daemon.appctl(&["coverage/read-counter", "dp_packet_batch_grow"]).ok(), "0\n");
    assert!(!daemon.appctl(&["coverage/show"]).ok().is_empty());
    let memory = daemon.appctl(&["memory/show"]).ok();
    for item in memory.split_whitespace() {
        let number = item.split_once(':').and_then(|(_, number)| number.parse::<u64>().ok());
        assert!(number.is_some(), "{item:?} in {memory:?}");
    }
    assert_eq!(daemon.appctl(&["ovsdb-server/list-dbs"]).ok(), "Open_vSwitch\n_Server\n");
    assert_eq!(daemon.appctl(&["ovsdb-server/sync-status"]).ok(), "state: active\n");
    let before = std::fs::metadata(directory.path("conf.db")).unwrap().len();
    for number in 0..100 {
        let value = format!("external_ids:key={number}");
        directory.vsctl(&["--no-wait", "set", "Open_vSwitch", ".", &value]).ok();
    }
    let grown = std::fs::metadata(directory.path("conf.db")).unwrap().len();
    assert_eq!(daemon.appctl(&["ovsdb-server/compact"]).ok(), "");
    let compacted = std::fs::metadata(directory.path("conf.db")).unwrap().len();
    assert!(before < grown && compacted < grown, "{before} {grown} {compacted}");
    let get = ["get", "Open_vSwitch", ".", "external_ids:key"];
    assert_eq!(directory.vsctl(&get).ok(), "\"99\"\n");
    daemon.stop();
}

#[test]
fn replies_in_json_when_asked() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let json = |args: &[&str]| {
        let text = directory.sluice_appctl(&[&["--format", "json"], args].concat()).ok();
        serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let commands = json(&["list-commands"]);
    assert_eq!(commands["vlog/set"], json!("{spec | PATTERN:destination:pattern}"));
    let text = daemon.appctl(&["vlog/list-pattern"]).ok();
    assert_eq!(
        json(&["vlog/list-pattern"]),
        json!({"reply": text, "reply-format": "plain"}),
        "a command without a JSON form"
    );

    let mut connection = Connection::open(daemon.control_socket());
    assert!(connection.call("list-commands", &json!([])).unwrap().is_string());
    connection.call("set-options", &json!(["--format", "json"])).unwrap();
    assert!(connection.call("list-commands", &json!([])).unwrap().is_object());
    connection.call("set-options", &json!(["--format", "text"])).unwrap();
    assert!(connection.call("list-commands", &json!([])).unwrap().is_string());
    let error = connection.call("set-options", &json!(["--format", "nonsense"])).unwrap_err();
    assert!(error.as_str().is_some_and(|text| text.contains("nonsense")), "{error}");
    daemon.stop();
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let mut connection = Connection::open(daemon.control_socket());
    let request = |id: u64, method: &str| {
        json!({"id": id, "method": method, "params": []}).to_string().into_bytes()
    };
    let methods = ["version", "no/such", "coverage/show", "memory/show"];
    let mut bytes = Vec::new();
    for id in 0..200 {
        bytes.extend(request(id, methods[id as usize % methods.len()]));
    }
    // In pieces that cut requests in the middle.
    for piece in bytes.chunks(37) {
        connection.write(piece).unwrap();
    }
    for id in 0..200 {
        let reply = connection.receive().expect("a reply");
        assert_eq!(reply["id"], json!(id));
        assert_eq!(reply["error"].is_null(), id % 4 != 1, "{reply}");
    }
    daemon.stop();
}

#[test]
fn slow_reader_blocks_nobody() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let mut slow = Connection::open(daemon.control_socket());
    let request = json!({"id": 1, "method": "list-commands", "params": []}).to_string();
    let many = request.repeat(1000);
    let sender = std::thread::spawn(move || {
        for _ in 0..100 {
            // The daemon may stop reading, or hang up, but it must not grow without bound.
            if slow.write(many.as_bytes()).is_err() {
                break;
            }
        }
    });
    for _ in 0..20 {
        daemon.appctl(&["version"]).ok();
    }
    let resident = daemon.running().status("VmRSS");
    let resident = resident.split(' ').next().and_then(|number| number.parse::<u64>().ok());
    assert!(resident.is_some_and(|kibibytes| kibibytes < 200 * 1024), "{resident:?}");
    daemon.stop();
    sender.join().unwrap();
}

#[test]
fn own_client_finds_its_target() {
    let directory = Directory::new();
    let message = directory.sluice_appctl(&["version"]).fails(1);
    assert!(message.contains("sluice-vswitchd.pid"), "{message}");

    let daemon = Daemon::start(&directory, &[]);
    let version = directory.sluice_appctl(&["version"]).ok();
    assert_eq!(daemon.appctl(&["version"]).ok().trim_end(), version.trim_end());
    let socket = daemon.control_socket();
    let targets: [&[&str]; 4] = [
        &[],
        &["-t", "sluice-vswitchd"],
        &["-t", socket.to_str().unwrap()],
        &["--target=sluice-vswitchd", "--timeout=5"],
    ];
    for target in targets {
        let args = [target, &["version"]].concat();
        assert_eq!(directory.sluice_appctl(&args).ok(), version, "{target:?}");
    }
    let message = directory.sluice_appctl(&["-t", "/no/such/socket", "version"]).fails(1);
    assert!(message.contains("/no/such/socket"), "{message}");
    for args in [&[][..], &["--no-such-flag", "version"], &["--timeout=x", "version"]] {
        directory.sluice_appctl(args).fails(1);
    }

    daemon.running().signal(Signal::STOP);
    let output = directory.sluice_appctl(&["--timeout=1", "version"]);
    daemon.running().signal(Signal::CONT);
    assert_eq!((output.status.code(), output.status.signal()), (Some(1), None), "{output:?}");
    assert!(output.stderr.contains("1 s"), "{output:?}");
    daemon.stop();
}
