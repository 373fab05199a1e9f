//! Reports about commands at bad moments, counters that jump, and restarts.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tests::namespace::is_root;
use tests::network::Network;
use tests::process::LIMIT;
use tests::{Connection, Daemon, Directory, Dummies};

use super::packets::udp;

/// The names of all commands.
fn commands(daemon: &Daemon<'_>) -> Vec<String> {
    let text = daemon.appctl(&["list-commands"]).ok();
    let rows = text.lines().skip(1).filter_map(|row| row.split_whitespace().next());
    rows.map(str::to_owned).collect()
}

/// Arguments that hardly any command takes.
fn junk() -> [Vec<String>; 4] {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let long = "x".repeat(70_000);
    [vec![], words(&["junk"]), words(&["-1", "br0", "\u{7f}", ""]), words(&[&long, "-m", "[{("])]
}

/// Says so when it is dropped, even by a step that fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks whoever listens on a control socket in `directory`, until told to stop.
fn ask_early(directory: &Path, is_done: &AtomicBool) {
    while !is_done.load(Ordering::Relaxed) {
        let entries = std::fs::read_dir(directory).expect("a readable directory");
        let mut sockets = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "ctl"));
        // One that is left behind by a daemon that has gone does not answer.
        let open = sockets
            .find_map(|path| std::os::unix::net::UnixStream::connect(&path).ok().map(|_| path));
        let Some(path) = open else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let mut connection = Connection::open(path);
        for command in [
            "upcall/show",
            "dpctl/show",
            "dpif/show",
            "dpctl/dump-flows",
            "ofproto/list",
            "fdb/show",
            "dpif-netdev/pmd-rxq-show",
            "memory/show",
        ] {
            // Refused or not, as long as there is an answer.
            let _ = connection.call(command, &json!([]));
        }
    }
}

// Report A117.
#[test]
fn every_command_answers_whatever_it_is_given_and_whenever() {
    let directory = Directory::new();
    for _ in 0..3 {
        let is_done = AtomicBool::new(false);
        let mut daemon = std::thread::scope(|scope| {
            scope.spawn(|| ask_early(directory.root(), &is_done));
            let _done = Done(&is_done);
            let daemon = Daemon::start(&directory, &[]);
            let script: String = (0..50)
                .map(|port| {
                    format!("--may-exist add-port br0 p{port}\nset interface p{port} type=dummy\n")
                })
                .collect();
            let bridge = "--may-exist add-br br0\nset bridge br0 datapath_type=dummy\n".to_owned();
            directory.vsctl_script(&(bridge + &script)).ok();
            daemon
        });
        let names = commands(&daemon);
        assert!(names.contains(&"dpctl/show".to_owned()), "{names:?}");
        let mut connection = Connection::open(daemon.control_socket());
        for name in names.iter().filter(|name| *name != "exit") {
            for arguments in junk() {
                if let Err(error) = connection.call(name, &json!(arguments)) {
                    assert!(error.as_str().is_some_and(|text| !text.is_empty()), "{name}: {error}");
                }
            }
        }
        daemon.appctl(&["version"]).ok();
        assert_eq!(directory.vsctl(&["get", "bridge", "br0", "name"]).ok(), "br0\n");
        // What junk makes it warn of does not matter.
        daemon.allow("");
        daemon.appctl(&["vlog/reopen"]).ok();
        drop(connection);
        daemon.stop();
    }
}

// Report A115.
#[test]
fn counters_of_rules_add_up_while_the_rules_change() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 3);
    switch
        .set_rules(&["priority=10,udp,tp_dst=53,actions=output:2", "priority=0,actions=output:3"]);
    let packets: Vec<_> = (0..100).map(|flow| udp(1000 + flow, 53 + flow % 2)).collect();
    for round in 0..20 {
        for _ in 0..5 {
            switch.receive(1, &packets);
        }
        let port = 2 + round % 2;
        let rule = format!("priority=10,udp,tp_dst=53,actions=output:{port}");
        switch.ofctl(&["--strict", "mod-flows", "br0", &rule]).ok();
    }
    switch.run(&["revalidator/wait"]);
    let shown = switch.ofctl(&["dump-flows", "br0"]).ok();
    let counts =
        shown.split("n_packets=").skip(1).map(|rest| rest.split(',').next().expect("a number"));
    assert_eq!(counts.collect::<Vec<_>>(), ["5000", "5000"], "{shown}");
    let [_, second, third] = switch.counts();
    assert_eq!(second + third, 10_000);
    switch.stop();
}

// Report A71, as far as there are no connections.
#[test]
fn wrong_limits_of_connections_are_named() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 1);
    let says = |arguments: &[&str]| switch.daemon.appctl(arguments).fails(2);
    let refusal = |text: &str| {
        format!("sluice-vswitchd: {text}\novs-appctl: sluice-vswitchd: server returned an error\n")
    };
    for (arguments, error) in [
        (&["dpctl/ct-set-limits"][..], "too few arguments (Invalid argument)"),
        (&["dpctl/ct-set-limits", "default=-1"], "invalid default limit (Invalid argument)"),
        (
            &["dpctl/ct-set-limits", "zone=1,limit=5000000000"],
            "failed to parse field limit (Invalid argument)",
        ),
        (&["dpctl/ct-get-limits", "zone=x"], "invalid zone (Invalid argument)"),
        (
            &["dpctl/ct-set-limits", "default=5"],
            "failed to set conntrack limit: this datapath tracks no connections (Operation not \
             supported)",
        ),
        (
            &["dpctl/ct-get-maxconns"],
            "dpctl/ct-get-maxconns: this datapath tracks no connections (Operation not supported)",
        ),
    ] {
        assert_eq!(says(arguments), refusal(error));
    }
    for (arguments, text) in [
        (&["dpctl/flush-conntrack", "dummy@ovs-dummy"][..], ""),
        (&["dpctl/flush-conntrack", "zone=5"], ""),
        (&["dpctl/dump-conntrack", "-m", "zone=5"], ""),
        (&["dpctl/ct-stats-show"], "Connections Stats:\n    Total: 0\n"),
        (&["dpctl/ct-get-nconns", "ovs-dummy"], "0\n"),
        (&["dpctl/ct-set-limits", "default=0", "zone=1,limit=0"], ""),
        (
            &["dpctl/ct-get-limits", "zone=1,7"],
            "default limit=0\nzone=1,limit=0,count=0\nzone=7,limit=0,count=0\n",
        ),
    ] {
        assert_eq!(switch.run(arguments), text);
    }
    switch.stop();
}

// Report A121.
#[test]
fn restarts_under_traffic_leave_addresses_and_traffic_alone() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let mut network = Network::new(&directory, &["", ""], "1500");
    directory.ip(&["address", "add", "10.1.1.100/24", "dev", "br0"]).ok();
    directory.ip(&["link", "set", "br0", "up"]).ok();
    let addresses = || {
        let text = directory.ip(&["-brief", "-4", "address", "show", "dev", "br0"]).ok();
        text.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(addresses(), ["10.1.1.100/24"]);
    let mut ping = network.host(1).command("ping");
    let ping = ping.args(["-q", "-i", "0.002", "10.1.1.2"]).stdout(std::process::Stdio::null());
    let ping = tests::Running::from_child(ping.spawn().expect("ping"));
    for _ in 0..5 {
        for _ in 0..5 {
            network.daemon.appctl(&["revalidator/purge"]).ok();
            network.daemon.appctl(&["dpctl/dump-flows"]).ok();
        }
        network.daemon.appctl(&["exit"]).ok();
        assert!(network.daemon.running().has_ended(LIMIT));
        network.daemon.check_log();
        network.daemon = Daemon::start(&directory, &[]);
        assert_eq!(addresses(), ["10.1.1.100/24"]);
        assert!(network.pings(1, "10.1.1.2", &[]) && network.pings(1, "10.1.1.100", &[]));
    }
    drop(ping);
    network.stop();
}
