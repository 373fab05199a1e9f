//! Those who speak OpenFlow with a bridge: tools, controllers and such as know no better.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use tests::process::wait_until;
use tests::{Daemon, Directory, Output};

/// OpenFlow 1.3: a hello, and a request for the statistics of all flows.
const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];
const FLOW_STATS: [u8; 56] = {
    let mut request = [0; 56];
    let head = [4, 18, 0, 56, 0, 0, 0, 2, 0, 1];
    let mut at = 0;
    while at < head.len() {
        request[at] = head[at];
        at += 1;
    }
    // All tables, any port and group, and an empty match.
    request[16] = 0xff;
    at = 20;
    while at < 28 {
        request[at] = 0xff;
        at += 1;
    }
    request[49] = 1;
    request[51] = 4;
    request
};

/// OpenFlow 1.3: add a flow that drops everything.
const ADD_DROP: [u8; 56] = {
    let mut request = [0; 56];
    let head = [4, 14, 0, 56, 0, 0, 0, 3];
    let mut at = 0;
    while at < head.len() {
        request[at] = head[at];
        at += 1;
    }
    // The priority that texts leave out, no buffer, and an empty match.
    request[30] = 0x80;
    at = 32;
    while at < 36 {
        request[at] = 0xff;
        at += 1;
    }
    request[49] = 1;
    request[51] = 4;
    request
};

/// A daemon with the bridge `br0`, which has the ports `p1` and `p2` and no rules.
fn bridge(directory: &Directory) -> Daemon<'_> {
    let daemon = Daemon::start(directory, &[]);
    directory
        .vsctl_script(
            "add-br br0
             set bridge br0 datapath_type=dummy fail_mode=secure
             add-port br0 p1
             set interface p1 type=dummy ofport_request=1
             add-port br0 p2
             set interface p2 type=dummy ofport_request=2",
        )
        .ok();
    daemon
}

#[track_caller]
fn ofctl(directory: &Directory, args: &[&str]) -> Output {
    Output::of(directory.command("ovs-ofctl").args(args))
}

/// The flows of `br0` as `ovs-ofctl` prints them, sorted.
#[track_caller]
fn flows(directory: &Directory, version: &str) -> Vec<String> {
    let printed = ofctl(directory, &["-O", version, "--no-stats", "dump-flows", "br0"]).ok();
    let mut lines: Vec<_> = printed.lines().map(|line| line.trim().to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn every_version_is_spoken() {
    let directory = Directory::new();
    let daemon = bridge(&directory);
    for minor in 0..=5 {
        let version = format!("OpenFlow1{minor}");
        ofctl(&directory, &["-O", &version, "add-flow", "br0", "in_port=1,actions=output:2"]).ok();
        let found = flows(&directory, &version);
        assert_eq!(found.last().map(String::as_str), Some("in_port=1 actions=output:2"));
        ofctl(&directory, &["-O", &version, "del-flows", "br0"]).ok();
        assert_eq!(flows(&directory, &version), Vec::<String>::new());
        let shown = ofctl(&directory, &["-O", &version, "show", "br0"]).ok();
        assert!(shown.contains("n_tables:254, n_buffers:0"), "{shown}");
    }
    daemon.stop();
}

#[test]
fn versions_change_at_run_time() {
    let directory = Directory::new();
    let mut daemon = bridge(&directory);
    daemon.allow("version negotiation failed");
    directory.vsctl(&["set", "bridge", "br0", "protocols=OpenFlow13"]).ok();
    let refused = ofctl(&directory, &["-O", "OpenFlow10", "show", "br0"]).fails(1);
    assert!(refused.contains("version negotiation failed"), "{refused}");
    ofctl(&directory, &["-O", "OpenFlow13", "probe", "br0"]).ok();
    directory.vsctl(&["clear", "bridge", "br0", "protocols"]).ok();
    ofctl(&directory, &["-O", "OpenFlow10", "probe", "br0"]).ok();
    daemon.stop();
}

#[test]
fn a_bundle_is_done_whole_or_not_at_all() {
    let directory = Directory::new();
    let daemon = bridge(&directory);
    directory.write("good", "in_port=1,actions=output:2\nin_port=2,actions=output:1\n");
    directory.write("bad", "in_port=1,actions=drop\nin_port=2,actions=group:7\n");
    let add = |file: &str| {
        let file = directory.path(file).display().to_string();
        ofctl(&directory, &["-O", "OpenFlow14", "--bundle", "add-flows", "br0", &file])
    };
    add("good").ok();
    let before = flows(&directory, "OpenFlow14");
    assert_eq!(before, ["in_port=1 actions=output:2", "in_port=2 actions=output:1"]);
    let refused = add("bad").fails(1);
    assert!(refused.contains("OFPBAC_BAD_OUT_GROUP"), "{refused}");
    assert_eq!(flows(&directory, "OpenFlow14"), before);
    daemon.stop();
}

/// Sends `bytes` and expects the switch to hang up.
fn hangs_up_on(directory: &Directory, bytes: &[u8]) {
    let mut stream = UnixStream::connect(directory.path("br0.mgmt")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // It may hang up before it has seen all of it.
    let _ = stream.write_all(bytes);
    let mut rest = vec![];
    let _ = stream.read_to_end(&mut rest);
}

#[test]
fn nonsense_costs_only_its_connection() {
    let directory = Directory::new();
    let mut daemon = bridge(&directory);
    for expected in ["while expecting hello", "too-short ofp_header", "Protocol error"] {
        daemon.allow(expected);
    }
    daemon.allow("version negotiation failed");
    let short = [&HELLO[..], &[4, 2, 0, 7, 0, 0, 0, 1]].concat();
    let streams: [&[u8]; 6] = [
        &[0; 4096],
        b"GET / HTTP/1.0\r\n\r\n",
        &[4, 2, 0, 8, 0, 0, 0, 1],
        &[4, 0, 0, 4, 0, 0, 0, 1],
        &[200, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0x80, 0, 0, 0],
        &short,
    ];
    for bytes in streams {
        hangs_up_on(&directory, bytes);
        ofctl(&directory, &["probe", "br0"]).ok();
    }
    daemon.stop();
}

#[test]
fn who_never_reads_holds_up_nobody() {
    let directory = Directory::new();
    let mut daemon = bridge(&directory);
    daemon.allow("connection dropped");
    let all: String =
        (0..2000).map(|n| format!("priority={},in_port=1,actions=output:2\n", n + 1)).collect();
    directory.write("flows", all);
    let file = directory.path("flows").display().to_string();
    ofctl(&directory, &["add-flows", "br0", &file]).ok();
    let mut stream = UnixStream::connect(directory.path("br0.mgmt")).unwrap();
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    stream.write_all(&HELLO).unwrap();
    // Asks for some gigabytes, until the switch takes no more in.
    let requests = FLOW_STATS.repeat(1000);
    let taken = (0..100).take_while(|_| stream.write_all(&requests).is_ok()).count();
    assert!(taken < 100, "all was taken in");
    let resident = daemon.running().status("VmRSS");
    let kilobytes: u64 = resident.split_whitespace().next().unwrap().parse().unwrap();
    assert!(kilobytes < 300_000, "{resident}");
    assert_eq!(flows(&directory, "OpenFlow13").len(), 2000);
    drop(stream);
    daemon.stop();
}

#[test]
fn a_controller_takes_over_and_leaves() {
    let directory = Directory::new();
    let mut daemon = bridge(&directory);
    daemon.allow("connection failed");
    ofctl(&directory, &["add-flow", "br0", "in_port=1,actions=output:2"]).ok();
    let listener = UnixListener::bind(directory.path("controller")).unwrap();
    directory.vsctl(&["set-controller", "br0", "unix:controller"]).ok();
    let (mut controller, _) = listener.accept().unwrap();
    controller.write_all(&HELLO).unwrap();
    let get = |column: &str| directory.vsctl(&["get", "controller", "br0", column]).ok();
    wait_until("the controller is connected", || get("is_connected").trim() == "true");
    assert_eq!(get("role").trim(), "other");
    assert!(get("status").contains("state=ACTIVE"), "{}", get("status"));
    // The rules of before are gone, and what the controller says is done.
    assert_eq!(flows(&directory, "OpenFlow13"), Vec::<String>::new());
    controller.write_all(&ADD_DROP).unwrap();
    wait_until("the rule is there", || flows(&directory, "OpenFlow13") == ["actions=drop"]);
    drop((controller, listener));
    wait_until("the controller is gone", || get("is_connected").trim() == "false");
    directory.vsctl(&["del-controller", "br0"]).ok();
    assert_eq!(flows(&directory, "OpenFlow13"), Vec::<String>::new());
    daemon.stop();
}
