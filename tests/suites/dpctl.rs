//! Datapaths as operators look at them and change them, below OpenFlow.

use serde_json::{Value, json};
use tests::{Daemon, Directory, wait_until};

const KEY: &str = "eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x1234)";

/// A daemon with bridge `br0` of dummies, with ports `p1` and `p2`.
fn start<'a>(directory: &'a Directory, flags: &[&str]) -> Daemon<'a> {
    let daemon = Daemon::start(directory, flags);
    directory
        .vsctl_script(
            "add-br br0
             set bridge br0 datapath_type=dummy fail_mode=secure
             add-port br0 p1
             set interface p1 type=dummy
             add-port br0 p2
             set interface p2 type=dummy",
        )
        .ok();
    daemon
}

fn json(directory: &Directory, command: &[&str]) -> Value {
    let text = directory.sluice_appctl(&[&["--format", "json"][..], command].concat()).ok();
    serde_json::from_str(&text).expect("JSON")
}

/// What `ovs-appctl` prints when the daemon refuses a command with these lines.
fn refusal(lines: &[&str]) -> String {
    let lines = lines.iter().map(|line| format!("sluice-vswitchd: {line}\n"));
    lines.collect::<String>() + "ovs-appctl: sluice-vswitchd: server returned an error\n"
}

#[test]
fn datapaths_without_bridges_have_ports_and_flows() {
    let directory = Directory::new();
    let mut daemon = Daemon::start(&directory, &["--dummy-numa=0,0"]);
    let dpctl = |args: &[&str]| daemon.appctl(args).ok();
    assert_eq!(daemon.appctl(&["dpctl/show"]).ok() + &daemon.appctl(&["dpctl/dump-dps"]).ok(), "");
    assert_eq!(
        daemon.appctl(&["dpctl/dump-flows"]).fails(2),
        refusal(&["no datapaths exist", "datapath not found (Invalid argument)"])
    );
    dpctl(&["dpctl/add-dp", "dummy@lab", "a,type=dummy", "b,type=dummy-pmd,n_rxq=2,port_no=7"]);
    assert_eq!(dpctl(&["dpctl/dump-dps"]), "dummy@lab\n");
    assert_eq!(
        dpctl(&["dpctl/show"]),
        "dummy@lab:\n  lookups: hit:0 missed:0 lost:0\n  flows: 0\n  \
         port 0: lab (dummy-internal)\n  port 1: a (dummy)\n  \
         port 7: b (dummy-pmd: n_rxq=2, n_txq=1, numa_id=0)\n"
    );
    for (command, error) in [
        (&["dpctl/add-dp", "dummy@lab"][..], "add_dp (File exists)"),
        (&["dpctl/add-dp", "x@lab2"], "add_dp (Address family not supported by protocol)"),
        (&["dpctl/del-dp", "dummy@lab2"], "opening datapath (No such device)"),
        (&["dpctl/add-if", "lab", "a,type=dummy"], "adding a to lab failed (File exists)"),
        (
            &["dpctl/add-if", "lab", "c,type=dummy,port_no=7"],
            "adding c to lab failed (Device or resource busy)",
        ),
        (&["dpctl/set-if", "lab", "b,port_no=8"], "b: can't change port number from 7 to 8"),
        (&["dpctl/set-if", "lab", "b,type=tap"], "b: can't change type from dummy-pmd to tap"),
        (&["dpctl/set-if", "lab", "z,n_rxq=1"], "z: failed to query port in lab (No such device)"),
        (&["dpctl/del-if", "lab", "z"], "no port named z"),
        (&["dpctl/del-if", "lab", "lab"], "deleting port lab from lab failed (Invalid argument)"),
    ] {
        assert_eq!(daemon.appctl(command).fails(2), refusal(&[error]));
    }

    dpctl(&["dpctl/set-if", "lab", "b,n_rxq=1"]);
    dpctl(&["dpctl/add-flow", &format!("in_port(a),{KEY}"), "7"]);
    let flow =
        format!("recirc_id(0),in_port(1),{KEY}, packets:0, bytes:0, used:never, actions:7\n");
    assert_eq!(
        dpctl(&["dpctl/dump-flows", "lab"]),
        format!("flow-dump from pmd on cpu core: 0\n{flow}flow-dump from the main thread:\n{flow}")
    );
    // The port of the main thread gets a packet, which leaves by the other.
    let frame = "0200000000020200000000011234".to_owned() + &"00".repeat(46);
    dpctl(&["netdev-dummy/receive", "a", &frame]);
    dpctl(&["netdev-dummy/receive", "a", &frame.replace("1234", "1235")]);
    assert_eq!(
        json(&directory, &["dpctl/show"])["dummy@lab"]["lookups"],
        json!({"hit": 1, "missed": 0, "lost": 1})
    );
    let sent = |port: usize| {
        let shown = json(&directory, &["dpctl/show"]);
        shown["dummy@lab"]["ports"][port]["statistics"]["tx_packets"].clone()
    };
    assert_eq!((sent(1), sent(2)), (json!(0), json!(1)));
    let counted = dpctl(&["dpctl/mod-flow", "-s", "lab", &format!("in_port(1),{KEY}"), "drop"]);
    assert!(counted.starts_with("packets:1, bytes:60, used:"), "{counted}");
    dpctl(&["dpctl/del-dp", "lab"]);
    assert_eq!(dpctl(&["dpctl/dump-dps"]), "");
    daemon.allow("failed to add");
    daemon.allow("port_del failed");
    daemon.stop();
}

#[test]
fn flows_are_put_and_taken_on_the_datapath_of_bridges() {
    let directory = Directory::new();
    let mut daemon = start(&directory, &[]);
    let run = |args: &[&str]| daemon.appctl(args).ok();
    run(&["revalidator/pause"]);
    let key = &format!("in_port(1),{KEY}");
    let dump = |args: &[&str]| run(&[&["dpctl/dump-flows"][..], args].concat());
    let flow = |actions: &str| {
        format!(
            "flow-dump from the main thread:\nrecirc_id(0),in_port(1),{KEY}, packets:0, bytes:0, \
             used:never, actions:{actions}\n"
        )
    };
    run(&["dpctl/add-flow", key, "2"]);
    assert_eq!(dump(&[]), flow("2"));
    run(&["dpctl/mod-flow", "dummy@ovs-dummy", key, "2,100"]);
    assert_eq!(dump(&["ovs-dummy"]), flow("2,100"));
    assert_eq!(dump(&["--names", "pmd=-1"]), {
        format!("recirc_id(0),in_port(p1),{KEY}, packets:0, bytes:0, used:never, actions:p2,br0\n")
    });
    let verbose = dump(&["-m", "--no-names", "pmd=-1"]);
    let (ufid, rest) = verbose.split_at("ufid:01234567-0123-0123-0123-0123456789ab".len());
    assert!(rest.starts_with(", recirc_id(0),dp_hash(0/0),"), "{rest}");
    assert!(rest.ends_with("used:never, dp:ovs, actions:2,100\n"), "{rest}");
    assert_eq!(run(&["dpctl/get-flow", "-m", "--no-names", ufid]), verbose);
    for (filter, is_shown) in [
        ("filter=in_port=p1,dl_type=0x1234", true),
        ("filter=dl_src=02:00:00:00:00:02", false),
        // The flow takes packets of any protocol above.
        ("filter=dl_dst=02:00:00:00:00:02,metadata=0", true),
        ("type=non-offloaded", true),
        ("type=offloaded,tc", false),
        ("pmd=3", false),
    ] {
        assert_eq!(!dump(&[filter]).is_empty(), is_shown, "{filter}");
    }
    let shown = json(&directory, &["dpctl/dump-flows", "type=ovs"]);
    assert_eq!(
        shown,
        json!([{
            "ufid": ufid.trim_start_matches("ufid:"),
            "flow": format!("recirc_id(0),in_port(1),{KEY}"),
            "packets": 0,
            "bytes": 0,
            "used-seconds": null,
            "tcp-flags": "",
            "actions": "2,100",
            "offload": {"state": "no", "layer": "ovs", "reason": "hw-offload is off"},
        }])
    );

    directory.write(
        "flows.txt",
        format!(
            "# Two more, of which one goes again.\n\nadd in_port(2),{KEY} 1\n\
             in_port(2),eth(),eth_type(0x1235) drop\nnonsense\ndelete in_port(2),{KEY}\n"
        ),
    );
    let file = directory.path("flows.txt");
    let file = file.to_str().expect("a path of text");
    let said = run(&["dpctl/add-flows", file]);
    assert_eq!(said, "sluice-vswitchd: Failed parsing line number 5, skipped!\n");
    let flows = dump(&[]);
    assert_eq!(flows.lines().count(), 3, "{flows}");
    assert!(flows.contains("in_port(2),eth(),eth_type(0x1235)"), "{flows}");
    run(&["dpctl/del-flow", key]);
    assert_eq!(dump(&[]).lines().count(), 2);
    run(&["dpctl/del-flows"]);
    assert_eq!(dump(&[]), "");

    // What translation does not say goes, as soon as somebody looks.
    run(&["dpctl/add-flow", key, "2"]);
    run(&["revalidator/resume"]);
    run(&["revalidator/wait"]);
    wait_until("the flow is gone or drops", || {
        let flows = dump(&[]);
        flows.is_empty() || flows.ends_with("actions:drop\n")
    });
    daemon.allow("failed to");
    daemon.stop();
}

#[test]
fn wrong_flows_are_refused_with_the_place() {
    let directory = Directory::new();
    let mut daemon = start(&directory, &[]);
    let tcp = "in_port(1),eth(),eth_type(0x0800),ipv4(proto=6,frag=no)";
    for (flow, actions, error) in [
        (
            "in_port(1),eth(src=1)",
            "2",
            "parsing flow key (syntax error at eth(src=1)) (Invalid argument)",
        ),
        (
            "in_port(nobody)",
            "2",
            "parsing flow key (syntax error at in_port(nobody)) (Invalid argument)",
        ),
        ("ufid:12,in_port(1)", "2", "parsing flow ufid (Invalid argument)"),
        (tcp, "2", "parsing flow key (tcp missing) (Invalid argument)"),
        (
            "in_port(1),eth(),eth_type(0x1234)",
            "2,nothing",
            "parsing actions (syntax error at nothing) (Invalid argument)",
        ),
        ("eth(),eth_type(0x0800),ipv4()", "2", "updating flow table (Invalid argument)"),
    ] {
        assert_eq!(daemon.appctl(&["dpctl/add-flow", flow, actions]).fails(2), refusal(&[error]));
    }
    let key = &format!("in_port(1),{KEY}");
    assert_eq!(
        daemon.appctl(&["dpctl/mod-flow", key, "2"]).fails(2),
        refusal(&["updating flow table (No such file or directory)"])
    );
    assert_eq!(
        daemon.appctl(&["dpctl/del-flow", key]).fails(2),
        refusal(&["deleting flow (No such file or directory)"])
            .replace("ovs-appctl", "Perhaps you need to specify a UFID?\novs-appctl")
    );
    assert_eq!(
        daemon.appctl(&["dpctl/dump-flows", "filter=in_prot=1"]).fails(2),
        refusal(&["Failed to parse filter (in_prot: unknown keyword (at character 1))"])
    );
    for (command, error) in [
        (&["dpctl/add-flow", "-x", key, "2"][..], "Unrecognized option -x\n"),
        (&["dpctl/dump-flows", "--fast"], "Unrecognized option --fast\n"),
    ] {
        let expected = error.to_owned() + "ovs-appctl: sluice-vswitchd: server returned an error\n";
        assert_eq!(daemon.appctl(command).fails(2), expected);
    }
    for text in ["failed to", "in_port is not an exact match"] {
        daemon.allow(text);
    }
    daemon.stop();
}

#[test]
fn ports_of_bridges_belong_to_the_database() {
    let directory = Directory::new();
    let mut daemon = start(&directory, &[]);
    for (command, error) in [
        (
            ["dpctl/add-if", "ovs-dummy", "x,type=dummy"],
            "adding x to ovs-dummy failed (Device or resource busy)",
        ),
        (
            ["dpctl/set-if", "ovs-dummy", "p1,ifindex=9"],
            "the datapath ovs-dummy is that of the bridges (Device or resource busy)",
        ),
    ] {
        assert_eq!(daemon.appctl(&command).fails(2), refusal(&[error]));
    }
    assert_eq!(
        daemon.appctl(&["dpctl/del-dp", "ovs-dummy"]).fails(2),
        refusal(&["del_dp (Device or resource busy)"])
    );
    let has_port = || daemon.appctl(&["dpctl/show"]).ok().contains("port 1: p1");
    daemon.appctl(&["dpctl/del-if", "ovs-dummy", "p1"]).ok();
    assert!(!has_port());
    directory.vsctl(&["del-port", "p2"]).ok();
    assert!(has_port());
    daemon.appctl(&["dpif-dummy/change-port-number", "ovs-dummy", "p1", "9"]).ok();
    assert!(daemon.appctl(&["dpctl/show"]).ok().contains("port 9: p1"));
    assert!(daemon.appctl(&["dpif/show"]).ok().contains("    p1 1/9: (dummy)\n"));
    daemon.allow("failed to add");
    daemon.stop();
}

#[test]
fn the_datapath_of_bridges_is_a_port_too() {
    let directory = Directory::new();
    let mut daemon = start(&directory, &[]);
    assert_eq!(
        daemon.appctl(&["dpctl/show"]).ok(),
        "dummy@ovs-dummy:\n  lookups: hit:0 missed:0 lost:0\n  flows: 0\n  \
         port 0: ovs-dummy (dummy-internal)\n  port 1: p1 (dummy)\n  port 2: p2 (dummy)\n  \
         port 100: br0 (dummy-internal)\n"
    );
    // It is none of a bridge, and goes with the last of them.
    assert_eq!(
        daemon.appctl(&["dpif/show"]).ok(),
        "dummy@ovs-dummy: hit:0 missed:0\n  br0:\n    br0 65534/100: (dummy-internal)\n    \
         p1 1/1: (dummy)\n    p2 2/2: (dummy)\n"
    );
    assert_eq!(
        daemon.appctl(&["dpctl/del-if", "ovs-dummy", "ovs-dummy"]).fails(2),
        refusal(&["deleting port ovs-dummy from ovs-dummy failed (Invalid argument)"])
    );
    assert_eq!(daemon.appctl(&["dpctl/cache-get-size"]).ok(), "dummy@ovs-dummy:\n");
    assert_eq!(
        daemon.appctl(&["dpctl/cache-set-size", "ovs-dummy", "emc", "9"]).fails(2),
        refusal(&["Setting caches not supported (Operation not supported)"])
    );
    let flow = format!("in_port(p1),{KEY}");
    let actions = "2,push_vlan(vid=9,pcp=0),3,pop_vlan,1";
    assert_eq!(
        daemon.appctl(&["dpctl/normalize-actions", &flow, actions, "p1=1"]).ok(),
        format!(
            "input flow: recirc_id(0),in_port(1),{KEY}\nno vlan: no mpls: 1,2\n\
             vlan(vid=9,pcp=0): no mpls: 3\n"
        )
    );
    directory.vsctl(&["del-br", "br0"]).ok();
    assert_eq!(daemon.appctl(&["dpctl/show"]).ok(), "");
    daemon.allow("port_del failed");
    daemon.stop();
}

#[test]
fn poll_threads_tell_of_their_rounds_when_asked_to() {
    let directory = Directory::new();
    let daemon = start(&directory, &["--dummy-numa=0,0,0"]);
    directory
        .vsctl_script(
            "set interface p1 type=dummy-pmd options:n_rxq=2
             set interface p1 other_config:pmd-rxq-affinity=1:2
             set open . other_config:pmd-cpu-mask=6
             set open . other_config:pmd-perf-metrics=true",
        )
        .ok();
    let queues = daemon.appctl(&["dpif-netdev/pmd-rxq-show"]).ok();
    let places: Vec<&str> = queues
        .lines()
        .filter(|line| line.starts_with("pmd thread") || line.starts_with("  port: "))
        .collect();
    assert_eq!(
        places,
        [
            "pmd thread numa_id 0 core_id 1:",
            "  port: p1                queue-id:  0 (enabled)   pmd usage: NOT AVAIL",
            "pmd thread numa_id 0 core_id 2:",
            "  port: p1                queue-id:  1 (enabled)   pmd usage: NOT AVAIL",
        ]
    );
    wait_until("a thread had many rounds", || {
        let shown = json(&directory, &["dpif-netdev/pmd-perf-show", "-it", "30", "-pmd", "1"]);
        shown[0]["metrics"]["iterations"].as_array().is_some_and(|rounds| rounds.len() == 30)
    });
    let shown = daemon.appctl(&["dpif-netdev/pmd-perf-show", "-it", "3", "-pmd", "1"]).ok();
    let after = |title: &str| {
        let found = shown.lines().skip_while(|line| !line.starts_with(title));
        found.skip(1).collect::<Vec<_>>()
    };
    assert_eq!(after("Histograms").len(), 1 + 32 + 3 + 1 + 1 + 3);
    assert_eq!(after("   iter ").len(), 3);
    let without = daemon.appctl(&["dpif-netdev/pmd-perf-show", "-nh"]).ok();
    assert!(!without.contains("Histograms") && without.contains("main thread:"), "{without}");
    assert_eq!(
        daemon.appctl(&["dpif-netdev/pmd-rxq-rebalance"]).ok(),
        "pmd rxq rebalance requested.\n"
    );
    let usage = daemon.appctl(&["dpif-netdev/pmd-perf-log-set", "-us", "soon"]).fails(2);
    assert!(usage.starts_with("Usage: ovs-appctl dpif-netdev/pmd-perf-log-set "), "{usage}");
    daemon.appctl(&["dpif-netdev/pmd-perf-log-set", "off", "-us", "100"]).ok();
    daemon.stop();
}

#[test]
fn features_can_be_taken_away() {
    let directory = Directory::new();
    let mut daemon = start(&directory, &[]);
    let set = |args: &[&str]| daemon.appctl(&[&["dpif/set-dp-features"][..], args].concat()).ok();
    let shown = daemon.appctl(&["dpif/show-dp-features", "br0"]).ok();
    assert_eq!(shown.lines().count(), 27);
    assert!(shown.contains("\nTunnel push pop: Yes\n") && shown.contains("\nSample nesting: 10\n"));
    assert_eq!(set(&["br0", "tnl_push_pop", "false"]), "");
    assert_eq!(
        set(&["br0", "tnl_push_pop"]),
        "tnl_push_pop (Tunnel push pop) : [run time]:false, [boot time]:true\n"
    );
    assert_eq!(
        set(&["br0", "psample", "true"]),
        "Can not enable features not supported by the datapath\n"
    );
    assert_eq!(set(&["--force", "br0", "psample", "true"]), "");
    assert_eq!(
        json(&directory, &["dpif/show-dp-features", "br0"])["psample"],
        json!({"value": true, "supported": false})
    );
    daemon.allow("Enabling an unsupported feature is very dangerous");
    daemon.stop();
}
