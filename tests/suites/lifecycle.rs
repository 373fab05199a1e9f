//! Starting, detaching, refusing, restarting and ending the daemon.

use std::collections::BTreeSet;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tests::process::LIMIT;
use tests::tools::program;
use tests::{Daemon, Directory, Output, OvsdbServer, Running, wait_until};

/// Starts `sluice-vswitchd` in the foreground with the given flags, its output in the log file.
fn foreground(directory: &Directory, flags: &[&str]) -> Running {
    let child = directory
        .command(program("sluice-vswitchd"))
        .args(["--enable-dummy", "--pidfile", "--log-file", "-vconsole:off"])
        .args(flags)
        .stdout(Stdio::null())
        .spawn()
        .expect("a started daemon");
    let running = Running::from_child(child);
    wait_until("the daemon is configured", || {
        directory.has_database()
            && directory.vsctl(&["--no-wait", "get", "Open_vSwitch", ".", "iface_types"]).ok()
                != "[]\n"
    });
    running
}

/// Runs a daemon that is expected to refuse its command line or surroundings.
fn refused(directory: &Directory, flags: &[&str]) -> String {
    Output::of(directory.command(program("sluice-vswitchd")).args(flags)).fails(1)
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

/// What may appear on stderr before the daemon detaches: the list of OVS's test suite.
const BEFORE_DETACHING: [&str; 8] = [
    "|vlog|INFO|opened log file",
    "|vswitchd|INFO|",
    "|reconnect|INFO|",
    "|ovs_numa|INFO|Discovered",
    "|ofproto|INFO|using datapath ID",
    "|ofproto|INFO|datapath ID changed to",
    "|dpif_offload|INFO|Flow HW offload is enabled",
    "|dpdk|INFO|DPDK Disabled",
];

#[test]
fn says_little_before_detaching() {
    let directory = Directory::new();
    let mut command = directory.command(program("sluice-vswitchd"));
    command.args(["--enable-dummy", "--disable-system", "--disable-system-route"]);
    command.args(["--detach", "--no-chdir", "--pidfile", "--log-file"]);
    let output = Output::of(command.args(["-vvconn", "-vofproto_dpif", "-vunixctl"]));
    let daemon = Daemon::adopt(&directory, "sluice-vswitchd");
    assert!(output.status.success() && output.stdout.is_empty(), "{output:#?}");
    for line in output.stderr.lines() {
        assert!(BEFORE_DETACHING.iter().any(|text| line.contains(text)), "{line}");
    }
    daemon.stop();
}

#[test]
fn detaches_once_configured() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let pid = daemon.running().pid();
    assert_eq!(directory.read("sluice-vswitchd.pid"), format!("{pid}\n"));
    assert_eq!(
        directory.names(),
        names(&[
            ".conf.db.~lock~",
            "conf.db",
            "db.sock",
            "sluice-vswitchd.log",
            "sluice-vswitchd.pid",
            &format!("sluice-vswitchd.{pid}.ctl"),
        ])
    );
    let published = ["--no-wait", "get", "Open_vSwitch", ".", "datapath_types"];
    assert_eq!(directory.vsctl(&published).ok(), "[dummy, netdev]\n");
    daemon.stop();
    let left = names(&[".conf.db.~lock~", "conf.db", "sluice-vswitchd.log"]);
    assert_eq!(directory.names(), left);
}

#[test]
fn detached_daemon_lets_go_of_the_caller() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let proc = std::path::PathBuf::from(format!("/proc/{}", daemon.running().pid()));
    for descriptor in 0..3 {
        let target = std::fs::read_link(proc.join(format!("fd/{descriptor}"))).unwrap();
        assert_eq!(target.to_str(), Some("/dev/null"), "descriptor {descriptor}");
    }
    let session = daemon.running().status("NSsid");
    assert_eq!(session, daemon.running().pid().to_string(), "a session of its own");
    daemon.stop();
}

#[test]
fn second_instance_is_refused() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let pid = daemon.running().pid();
    for flags in [&["--pidfile", "-vconsole:emer"][..], &["--pidfile", "--detach"]] {
        let message = refused(&directory, flags);
        assert!(message.contains(&format!("already running as pid {pid}, aborting")), "{message}");
        assert!(message.contains("sluice-vswitchd.pid"), "{message}");
    }
    assert_eq!(directory.read("sluice-vswitchd.pid"), format!("{pid}\n"));
    daemon.appctl(&["version"]).ok();
    daemon.stop();
}

#[test]
fn starts_after_being_killed() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    let old = daemon.control_socket();
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    daemon.kill();
    assert!(directory.path("sluice-vswitchd.pid").exists());
    assert!(old.exists());

    let daemon = Daemon::start(&directory, &[]);
    assert_eq!(directory.vsctl(&["list-br"]).ok(), "br0\n");
    daemon.stop();
}

#[test]
fn sigterm_removes_files_and_ends_by_the_signal() {
    let directory = Directory::new();
    let running = foreground(&directory, &[]);
    running.signal(Signal::TERM);
    let status = running.wait_exit(LIMIT).expect("the end of the daemon");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    let log = directory.read("sluice-vswitchd.log");
    let last = log.lines().last().unwrap_or_default();
    assert!(last.ends_with("|fatal_signal|WARN|terminating with signal 15 (Terminated)"), "{log}");
    let left = names(&[".conf.db.~lock~", "conf.db", "sluice-vswitchd.log"]);
    assert_eq!(directory.names(), left);
}

#[test]
fn exit_command_ends_well() {
    for command in [&["exit"][..], &["exit", "--cleanup"]] {
        let directory = Directory::new();
        let running = foreground(&directory, &[]);
        assert_eq!(directory.ovs_appctl("sluice-vswitchd", command).ok(), "");
        let status = running.wait_exit(LIMIT).expect("the end of the daemon");
        assert_eq!(status.code(), Some(0));
        let left = names(&[".conf.db.~lock~", "conf.db", "sluice-vswitchd.log"]);
        assert_eq!(directory.names(), left, "{command:?}");
    }
}

#[test]
fn monitor_restarts_a_crashed_daemon() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &["--monitor"]);
    let first = daemon.running().pid();
    daemon.running().signal(Signal::ABORT);
    wait_until("the monitor has started another daemon", || {
        let text = std::fs::read_to_string(directory.path("sluice-vswitchd.pid"));
        text.is_ok_and(|text| text.ends_with('\n') && text != format!("{first}\n"))
    });
    drop(daemon);
    let mut daemon = Daemon::adopt(&directory, "sluice-vswitchd");
    wait_until("the new daemon answers", || {
        daemon.appctl(&["version"]).status.success() && directory.has_database()
    });
    daemon.wait_for_log("(monitor)|ERR|");
    let expected = format!("1 crashes: pid {first} died, killed (Aborted");
    assert!(daemon.log().contains(&expected), "{}", daemon.log());
    daemon.allow("(monitor)|ERR|1 crashes: ");
    daemon.allow("failed to disable core dumps");
    daemon.stop();
    // A normal exit ends the monitor, too: nothing comes back.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!directory.path("sluice-vswitchd.pid").exists());
}

#[test]
fn tells_systemd_when_it_is_ready_and_when_it_stops() {
    let directory = Directory::new();
    let socket = UnixDatagram::bind(directory.path("notify")).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let receive = || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).expect("a notification");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let child = directory
        .command(program("sluice-vswitchd"))
        .args(["--enable-dummy", "--pidfile", "--log-file", "-vconsole:off"])
        .env("NOTIFY_SOCKET", directory.path("notify"))
        .spawn()
        .unwrap();
    let running = Running::from_child(child);
    assert_eq!(receive().trim_end(), "READY=1");
    // Ready means configured.
    let published = ["--no-wait", "get", "Open_vSwitch", ".", "datapath_types"];
    assert_eq!(directory.vsctl(&published).ok(), "[dummy, netdev]\n");
    directory.ovs_appctl("sluice-vswitchd", &["exit"]).ok();
    assert_eq!(receive().trim_end(), "STOPPING=1");
    assert_eq!(running.wait_exit(LIMIT).and_then(|status| status.code()), Some(0));
}

#[test]
fn bad_command_lines_are_named() {
    let directory = Directory::new();
    // Flags, and what the message has to mention.
    let table: &[(&[&str], &str)] = &[
        (&["--no-such-flag"], "--no-such-flag"),
        (&["-vnonsense"], "no destination, level, or module \"nonsense\""),
        (&["--verbose=file:nonsense:dbg"], "no destination, level, or module \"nonsense\""),
        (&["--enable-dummy=nonsense"], "nonsense"),
        (&["--dummy-numa=0,x"], "x"),
        (&["--pidfile=/no/such/directory/pid"], "/no/such/directory/pid"),
        (&["--unixctl=/no/such/directory/ctl"], "/no/such/directory/ctl"),
        (&["--user=no-such-user"], "no-such-user"),
        (&["--dpdk"], "--dpdk"),
        (&["nonsense:db.sock"], "nonsense:db.sock"),
        (&["unix:a.sock", "unix:b.sock"], "at most one non-option argument"),
    ];
    for (flags, text) in table {
        let message = refused(&directory, flags);
        assert!(message.contains(text), "{flags:?}: {message}");
        assert!(message.contains("sluice-vswitchd"), "{flags:?}: {message}");
    }
    let left = directory.names();
    assert!(!left.iter().any(|name| name.ends_with(".pid") || name.ends_with(".ctl")), "{left:?}");
}

#[test]
fn failure_before_detaching_reaches_the_caller() {
    let directory = Directory::new();
    directory.write("conf.db", "this is no database\n");
    let message = refused(&directory, &["--detach", "--pidfile", "--monitor"]);
    assert!(message.contains("conf.db"), "{message}");
    assert_eq!(directory.read("conf.db"), "this is no database\n");
    assert!(!directory.path("sluice-vswitchd.pid").exists());
}

#[test]
fn prints_version_and_help() {
    let directory = Directory::new();
    let run = |name: &str, flag| {
        Output::of(directory.command(tests::daemon::link(&directory, name)).arg(flag)).ok()
    };
    let version = run("sluice-vswitchd", "--version");
    let own = format!("sluice-vswitchd (Sluice) {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version, own + "compatible with Open vSwitch 4.0.90\n");
    assert_eq!(
        run("ovs-vswitchd", "-V").lines().next(),
        Some("ovs-vswitchd (Open vSwitch) 4.0.90")
    );
    for flag in ["-h", "--help"] {
        let help = run("sluice-vswitchd", flag);
        for word in ["--detach", "--pidfile", "--db-file", "--enable-dummy", "--monitor"] {
            assert!(help.contains(word), "{word} is missing from: {help}");
        }
    }
    assert_eq!(directory.names(), names(&["ovs-vswitchd"]));
}

#[test]
fn takes_the_name_it_is_called_by() {
    let directory = Directory::new();
    let server = OvsdbServer::start(&directory);
    let mut daemon = Daemon::start_as(&directory, "ovs-vswitchd", &["-vconsole:off"]);
    let pid = daemon.running().pid();
    assert_eq!(directory.read("ovs-vswitchd.pid"), format!("{pid}\n"));
    assert_eq!(daemon.appctl(&["version"]).ok().trim_end(), "ovs-vswitchd (Open vSwitch) 4.0.90");
    let own = directory.names().into_iter().filter(|name| name.contains("sluice"));
    assert_eq!(own.collect::<Vec<_>>(), Vec::<String>::new());
    daemon.allow("database needs upgrade?");
    daemon.stop();
    server.stop();
}

#[test]
fn ovs_vswitchd_without_a_database_waits_for_one() {
    let directory = Directory::new();
    let child = directory
        .command(tests::daemon::link(&directory, "ovs-vswitchd"))
        .args(["--enable-dummy", "--pidfile", "--log-file", "-vconsole:off"])
        .spawn()
        .unwrap();
    let running = Running::from_child(child);
    wait_until("the control socket is there", || {
        directory.path(format!("ovs-vswitchd.{}.ctl", running.pid())).exists()
    });
    assert!(!directory.path("conf.db").exists(), "OVS's daemon serves no database");
    let server = OvsdbServer::start(&directory);
    wait_until("the daemon has found the database", || {
        let get = ["--no-wait", "get", "Open_vSwitch", ".", "datapath_types"];
        directory.vsctl(&get).ok() == "[dummy, netdev]\n"
    });
    directory.ovs_appctl("ovs-vswitchd", &["exit"]).ok();
    assert_eq!(running.wait_exit(LIMIT).and_then(|status| status.code()), Some(0));
    server.stop();
}

#[test]
fn gives_up_privileges() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give up privileges");
        return;
    }
    let directory = Directory::new();
    let owner = Output::of(directory.command("chown").arg("nobody:nogroup").arg(directory.root()));
    owner.ok();
    let daemon = Daemon::start(&directory, &["--user=nobody:nogroup", "--mlockall"]);
    let status = |key| daemon.running().status(key);
    assert_eq!(status("Uid"), "65534\t65534\t65534\t65534");
    assert_eq!(status("Gid"), "65534\t65534\t65534\t65534");
    // CAP_NET_BIND_SERVICE 10, CAP_NET_BROADCAST 11, CAP_NET_ADMIN 12, CAP_NET_RAW 13,
    // CAP_IPC_LOCK 14 and CAP_SYS_NICE 23.
    assert_eq!(status("CapEff"), "0000000000807c00");
    assert_ne!(status("VmLck"), "0 kB");
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    daemon.stop();
}
