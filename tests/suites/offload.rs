//! Offload on software NICs, as an operator sees it.

use serde_json::Value;
use tests::namespace::is_root;
use tests::{Daemon, Directory, wait_until};

/// The walk-through of `docs/offload.md`: its commands, each with what a line of its output says
/// there, where the document shows any.
fn walk_through() -> Vec<(Vec<String>, Vec<String>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/offload.md");
    let document = std::fs::read_to_string(path).expect("docs/offload.md");
    let (_, section) = document.split_once("## Walk-through").expect("a walk-through");
    let (_, block) = section.split_once("```\n").expect("commands");
    let (block, _) = block.split_once("```").expect("the end of the commands");
    let mut steps: Vec<(Vec<String>, Vec<String>)> = vec![];
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push((words(command), vec![])),
            None => {
                let (_, shown) = steps.last_mut().expect("a command before what it shows");
                shown.push(line.trim().to_owned());
            }
        }
    }
    steps
}

/// The words of a command, of which some are in single quotes.
fn words(command: &str) -> Vec<String> {
    let parts = command.split('\'').enumerate();
    let words = parts.flat_map(|(place, part)| match place % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn the_walk_through_says_what_happens() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = Daemon::start(&directory, &[]);
    let steps = walk_through();
    assert_eq!(steps.len(), 10);
    for (command, shown) in steps {
        let arguments: Vec<&str> = command[1..].iter().map(String::as_str).collect();
        let run = || match command[0].as_str() {
            "ovs-vsctl" => directory.vsctl(&arguments).ok(),
            "ovs-appctl" => daemon.appctl(&arguments).ok(),
            other => panic!("{other} is no command of the walk-through"),
        };
        if shown.is_empty() {
            run();
            continue;
        }
        // What the poll thread and the offload thread do takes a moment.
        wait_until("what the document shows", || {
            let output = run();
            shown.iter().all(|line| output.lines().any(|own| own.trim() == line))
        });
    }
    daemon.stop();
}

fn json(directory: &Directory, command: &[&str]) -> Value {
    let text = directory.sluice_appctl(&[&["--format", "json"][..], command].concat()).ok();
    serde_json::from_str(&text).expect("JSON")
}

const FLOW: &str = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),\
                    ipv4(src=10.0.0.1,dst=10.0.0.2,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)";

/// A bridge with two software NICs; flows of the first go to the second.
fn add_bridge(directory: &Directory, options: &str) {
    let mut command = vec!["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"];
    for port in ["p1", "p2"] {
        command.extend(["--", "add-port", "br0", port, "--", "set", "interface", port, "type=sim"]);
        command.push(options);
    }
    directory.vsctl(&command).ok();
    directory.vsctl(&["set", "open", ".", "other_config:hw-offload=true"]).ok();
}

#[test]
fn dumps_tell_how_far_flows_are_and_why_not() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "options:hw-full=false");
    let receive = || daemon.appctl(&["netdev-sim/receive", "p1", FLOW]).ok();
    receive();
    let dump =
        |arguments: &[&str]| daemon.appctl(&[&["dpctl/dump-flows"], arguments].concat()).ok();
    wait_until("a state", || dump(&["-m"]).contains(", offloaded:partial, dp:ovs, "));
    assert_eq!(dump(&["type=partially-offloaded"]).matches("in_port").count(), 1);
    assert_eq!(dump(&["type=offloaded"]), "");
    assert_eq!(dump(&["type=non-offloaded"]), "");

    // A device that is told to fail, and to forget.
    daemon.appctl(&["netdev-sim/set-fault", "p1", "insert-error", "1000"]).ok();
    daemon.appctl(&["revalidator/purge"]).ok();
    receive();
    let reason = ", offloaded:no(the device refuses it), dp:ovs, ";
    wait_until("a state", || dump(&["-m", "--reasons"]).contains(reason));
    assert!(!dump(&["-m"]).contains("offloaded:"));
    assert_eq!(dump(&["type=non-offloaded"]).matches("in_port").count(), 1);
    let show = daemon.appctl(&["netdev-sim/show", "p1"]).ok();
    assert!(show.contains("\n  fault insert-error: 1000 per mille\n"), "{show}");

    // It recovers.
    daemon.appctl(&["netdev-sim/clear-faults", "p1"]).ok();
    wait_until("a state", || dump(&["-m"]).contains("offloaded:partial"));
    for (arguments, error) in [
        (&["netdev-sim/set-fault", "p1", "fire", "1"][..], "\"fire\" is none of"),
        (&["netdev-sim/set-fault", "p1", "late", "1001"], "not a number from 0 to 1000"),
        (&["netdev-sim/show", "p9"], "p9: no such sim netdev"),
    ] {
        let refused = daemon.appctl(arguments);
        assert!(refused.fails(2).contains(error), "{arguments:?}");
    }
    daemon.stop();
}

#[test]
fn offload_is_shown_and_goes_with_its_setting() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let daemon = Daemon::start(&directory, &[]);
    add_bridge(&directory, "options:hw-mark=true");
    daemon.appctl(&["netdev-sim/receive", "p1", FLOW]).ok();
    let rules = || json(&directory, &["netdev-sim/show", "p1"])["p1"]["rules"].clone();
    wait_until("a rule", || rules() == 1);
    let shown = json(&directory, &["dpif/offload/show"]);
    assert_eq!(shown["enabled"], true);
    let datapath = &shown["netdev@ovs-netdev"];
    assert_eq!(datapath["priority"], serde_json::json!(["sim"]));
    assert_eq!(datapath["providers"]["sim"]["ports"]["p1"]["rules"], 1);
    let text = daemon.appctl(&["dpif/offload/show"]).ok();
    assert!(text.starts_with("Globally enabled: true\nDatapaths:\nnetdev@ovs-netdev:\n  sim\n"));
    assert!(text.contains("\n    rules                : 1\n"), "{text}");
    let classes = daemon.appctl(&["dpif/offload/classes"]).ok();
    assert!(classes.starts_with("Offload Class     Supported dpif class(es)\n"), "{classes}");
    let statistics = daemon.appctl(&["dpctl/offload-stats-show"]).ok();
    let first = "HW Offload stats:\n  sim[netdev@ovs-netdev]:\n";
    assert!(statistics.starts_with(first), "{statistics}");
    let inserted = "      Total                 Inserted offloads:      1\n";
    wait_until("a statistic", || {
        daemon.appctl(&["dpctl/offload-stats-show"]).ok().contains(inserted)
    });

    directory.vsctl(&["set", "open", ".", "other_config:hw-offload=false"]).ok();
    assert_eq!(rules(), 0);
    assert_eq!(json(&directory, &["dpif/offload/show"])["enabled"], false);
    // The flow that is there becomes a rule again.
    directory.vsctl(&["set", "open", ".", "other_config:hw-offload=true"]).ok();
    wait_until("a rule", || rules() == 1);
    directory.vsctl(&["del-port", "p2"]).ok();
    directory.vsctl(&["del-port", "p1"]).ok();
    assert_eq!(json(&directory, &["netdev-sim/show"]), serde_json::json!({}));
    daemon.stop();
}

/// A frame from station `source` to station `destination` that came in on `port`.
fn flow(port: u8, source: u8, destination: u8) -> String {
    format!(
        "in_port({port}),eth(src=02:00:00:00:00:0{source},dst=02:00:00:00:00:0{destination}),\
         eth_type(0x0800),ipv4(src=10.0.0.{source},dst=10.0.0.{destination},proto=17,tos=0,ttl=64,\
         frag=no),udp(src=1,dst=2)"
    )
}

#[test]
fn dummy_ports_have_hardware_too() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &["--enable-dummy"]);
    let mut add = vec!["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"];
    for port in ["p1", "p2"] {
        add.extend(["--", "add-port", "br0", port, "--", "set", "interface", port]);
        add.push("type=dummy-pmd");
    }
    directory.vsctl(&add).ok();
    daemon.appctl(&["vlog/set", "dpif_offload_dummy:file:dbg"]).ok();
    directory.vsctl(&["set", "open", ".", "other_config:hw-offload=true"]).ok();
    daemon.wait_for_log("Flow HW offload is enabled");
    let receive = |port, source, destination| {
        let frame = flow(port, source, destination);
        daemon.appctl(&["netdev-dummy/receive", &format!("p{port}"), &frame]).ok();
    };
    // The bridge learns where station 2 is, so that packets for it have one way to go.
    receive(2, 2, 1);
    wait_until("learning", || {
        daemon.appctl(&["fdb/show", "br0"]).ok().contains("02:00:00:00:00:02")
    });
    receive(1, 1, 2);
    let dump = || daemon.appctl(&["dpctl/dump-flows", "-m", "--names", "type=offloaded"]).ok();
    wait_until("a rule", || dump().contains("offloaded:yes, dp:dummy, actions:p2"));
    daemon.wait_for_log("succeed to add netdev flow ");
    daemon.wait_for_log("|dpif_offload_dummy(hw_offload/id:0)|DBG|p1: flow put[create]: ufid:");
    daemon.wait_for_log(" flow match: recirc_id=0,eth,");

    receive(1, 1, 2);
    assert!(dump().contains(", packets:1, bytes:"), "{}", dump());
    let headers = "dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_src=10.0.0.1,\
                   nw_dst=10.0.0.2,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,tp_src=1,tp_dst=2";
    daemon.wait_for_log(&format!(
        "|DBG|p1: packet: udp,vlan_tci=0x0000,{headers} matches with flow: "
    ));
    let shown = json(&directory, &["dpif/offload/show"]);
    let port = &shown["dummy@ovs-dummy"]["providers"]["dummy"]["ports"]["p1"];
    let expected = serde_json::json!({
        "port_no": 1,
        "rx_offload_full": 1,
        "rx_offload_miss": 1,
        "rx_offload_partial": 0,
        "rx_offload_pipe_abort": 0,
    });
    assert_eq!(port, &expected);
    daemon.appctl(&["revalidator/purge"]).ok();
    daemon.wait_for_log("p1: flow del: ufid:");
    daemon.wait_for_log("succeed to delete netdev flow ");
    daemon.stop();
}
