//! Reports about headers that are misread, and flows that take packets they should not.

use serde_json::{Value, json};
use tests::{Connection, Daemon, Directory, Dummies, Output, wait_until};

use super::packets::{bytes, hex, ip, tcp, udp};

const ETHERNET: &str = "recirc_id(0),in_port(1),packet_type(ns=0,id=0)";
const IPV4: &str = "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x0800)";
const IPV6: &str = "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x86dd)";

/// The sum of a counter over all threads.
fn counted(switch: &Dummies<'_>, counter: &str) -> u64 {
    let threads = switch.json(&["dpif-netdev/pmd-stats-show"]);
    let threads = threads.as_array().expect("threads").iter();
    threads.map(|thread| thread[counter].as_u64().expect("a counter")).sum()
}

// Report A01.
#[test]
fn a_flow_of_a_syn_takes_no_data() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch.set_rules(&[
        "priority=10,tcp,tp_dst=80,tcp_flags=+psh,actions=drop",
        "priority=0,actions=output:2",
    ]);
    switch.receive(1, &[tcp(1000, 80, "syn"), tcp(1000, 80, "psh|ack"), tcp(1000, 80, "ack")]);
    assert_eq!(switch.counts(), [0, 2]);
    let flow = |flags: &str, actions: &str| {
        format!("{IPV4},ipv4(proto=6,frag=no),tcp(dst=80),tcp_flags({flags}) actions:{actions}")
    };
    assert_eq!(switch.flows(), [flow("+psh", "drop"), flow("-psh", "2")]);
    switch.stop();
}

// Report A03, CVE-2020-35498.
#[test]
fn padding_does_not_hide_headers() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch.set_rules(&["priority=10,udp,tp_dst=53,actions=drop", "priority=0,actions=output:2"]);
    // A UDP packet of 28 bytes to port 53, whose frame has 300 more.
    let short = "020000000002020000000001080045000\
                 01c1234000040 11e499c0000201c00002029c4000350008de9e"
        .replace(' ', "");
    let padded = short + &"00".repeat(300);
    switch.receive(1, &[padded, udp(40000, 53), udp(40000, 54)]);
    assert_eq!(switch.counts(), [0, 1]);
    let flow = |port: &str, actions: &str| {
        format!("{IPV4},ipv4(proto=17,frag=no),udp(dst={port}) actions:{actions}")
    };
    assert_eq!(switch.flows(), [flow("53", "drop"), flow("54/0xfffe", "2")]);
    switch.stop();
}

// Report A07.
#[test]
fn overlapping_flows_that_agree_are_accepted() {
    let directory = Directory::new();
    let mut switch = Dummies::new(&directory, 2);
    switch.run(&["revalidator/pause"]);
    for source in ["10.7.7.7/192.0.0.0", "200.7.7.7/0.0.0.0"] {
        let flow = format!("in_port(1),eth(),eth_type(0x0800),ipv4(src={source})");
        switch.run(&["dpctl/add-flow", &flow, "2"]);
    }
    let start = "recirc_id(0),in_port(1),eth(),eth_type(0x0800)";
    assert_eq!(
        switch.flows(),
        [format!("{start} actions:2"), format!("{start},ipv4(src=10.7.7.7/192.0.0.0) actions:2")]
    );
    switch.receive(1, &[udp(1, 2)]);
    assert_eq!((switch.counts(), counted(&switch, "upcalls")), ([0, 1], 0));
    switch.run(&["dpctl/del-flows"]);
    switch.run(&["revalidator/resume"]);
    switch.daemon.allow("failed to");
    switch.stop();
}

// Report A11.
#[test]
fn flows_of_tcp_ignore_neighbour_discovery() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch.set_rules(&[
        "priority=10,icmp6,icmp_type=135,nd_sll=02:00:00:00:00:09,actions=drop",
        "priority=10,tcp6,actions=output:2",
        "priority=0,actions=drop",
    ]);
    switch.run(&["time/stop"]);
    let packet = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x86dd),\
                  ipv6(src=2001:db8::1,dst=2001:db8::2,label=0,proto=6,tclass=0,hlimit=64,frag=no),\
                  tcp(src=1000,dst=80),tcp_flags(ack)";
    for _ in 0..20 {
        switch.receive(1, &[packet]);
        switch.run(&["time/warp", "500"]);
    }
    assert_eq!(switch.flows(), [format!("{IPV6},ipv6(proto=6,frag=no) actions:2")]);
    assert_eq!((switch.counts(), counted(&switch, "upcalls")), ([0, 20], 1));
    switch.stop();
}

// Report A15.
#[test]
fn the_exact_match_cache_takes_flows_by_chance() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    // Flows with different masks, as behind a single mask the cache would not be worth its cost.
    switch.set_rules(&["udp,tp_dst=53,actions=output:2", "ip,nw_proto=99,actions=drop"]);
    let hits = |one_in: &str, packets: usize| {
        let setting = format!("other_config:emc-insert-inv-prob={one_in}");
        directory.vsctl(&["set", "open_vswitch", ".", &setting]).ok();
        switch.run(&["dpctl/del-flows"]);
        switch.receive(1, &[ip(99)]);
        let before = ["emc-hits", "megaflow-hits", "upcalls"].map(|name| counted(&switch, name));
        for rest in (0..packets).step_by(32) {
            switch.receive(1, &vec![udp(1000, 53); (packets - rest).min(32)]);
        }
        let after = ["emc-hits", "megaflow-hits", "upcalls"].map(|name| counted(&switch, name));
        [0, 1, 2].map(|index| after[index] - before[index])
    };
    assert_eq!(hits("0", 320), [0, 319, 1]);
    assert_eq!(hits("1", 320), [319, 0, 1]);
    // In each of 3200 packets with a chance of one in a hundred, until it happens.
    let [exact, megaflow, upcalls] = hits("100", 3200);
    assert!(exact > 0 && megaflow > 0, "{exact} hits beside {megaflow}");
    assert_eq!((exact + megaflow, upcalls), (3199, 1));
    switch.stop();
}

// Report A17.
#[test]
fn fragments_of_a_datagram_stay_together() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 3);
    switch
        .ofctl(&[
            "add-group",
            "br0",
            "group_id=1,type=select,selection_method=dp_hash,bucket=output:2,bucket=output:3",
        ])
        .ok();
    switch.set_rules(&["actions=group:1"]);
    let mut taken = [0, 0];
    for port in 1..=50 {
        // Of different hosts, as no fragment but the first has ports.
        let source = format!("192.0.2.{}", port + 100);
        let flow = udp(1000 + port, 53).replace("src=192.0.2.1", &format!("src={source}"));
        let first = flow.replace("frag=no", "frag=first");
        let later = first.replace("frag=first", "frag=later");
        let (later, _) = later.split_once(",udp(").expect("ports");
        let [_, left, right] = switch.counts();
        switch.receive(1, &[first.as_str(), later, later]);
        let [_, now_left, now_right] = switch.counts();
        let sent = [now_left - left, now_right - right];
        assert!(sent == [3, 0] || sent == [0, 3], "port {port}: {sent:?}");
        taken[usize::from(sent[0] == 0)] += 1;
    }
    assert!(taken.iter().all(|count| *count > 0), "{taken:?}");
    switch.stop();
}

// Report A19.
#[test]
fn flows_that_are_too_long_or_too_deep_are_refused() {
    let directory = Directory::new();
    let mut switch = Dummies::new(&directory, 2);
    let long = format!("actions={}", vec!["output:2"; 20_000].join(","));
    directory.write("long", &long);
    let deep = format!("actions={}output:2{}", "clone(".repeat(500), ")".repeat(500));
    directory.write("deep", &deep);
    for file in ["long", "deep"] {
        let file = directory.path(file);
        let output = switch.ofctl(&["add-flows", "br0", file.to_str().expect("a path of text")]);
        assert!(!output.status.success(), "{output:?}");
    }
    assert_eq!(switch.ofctl(&["dump-flows", "br0"]).ok().matches("actions").count(), 0);

    let mut connection = Connection::open(switch.daemon.control_socket());
    let key = "in_port(1),eth(),eth_type(0x1234)";
    let deep = |open: &str, inside: &str| open.repeat(5000) + inside + &")".repeat(5000);
    for (flow, actions) in [
        (key.to_owned(), deep("clone(", "2")),
        (key.to_owned(), deep("sample(sample=50%,actions(", "2").replace(')', "))")),
        (key.to_owned(), deep("check_pkt_len(size=9,gt(2),le(", "2").replace(')', "))")),
        (
            format!(
                "in_port(1),eth(),eth_type(0x8100),{}",
                deep("vlan(vid=1),encap(", "eth_type(0x1234)")
            ),
            "2".to_owned(),
        ),
        (deep("encap(", "eth_type(0x1234)"), "2".to_owned()),
        // The content of one action may have no more than 64 KiB where flows are dumped.
        (key.to_owned(), format!("clone({})", vec!["2"; 20_000].join(","))),
    ] {
        let refused = connection.call("dpctl/add-flow", &json!([flow, actions]));
        let refused = refused.expect_err("an error");
        let refused = refused.as_str().expect("text");
        assert!(refused.ends_with("(Invalid argument)\n"), "{refused:.200}");
        assert_eq!(switch.flows(), Vec::<String>::new());
    }
    drop(connection);
    switch.daemon.allow("failed to");
    switch.stop();
}

// CVE-2023-1668.
#[test]
fn protocol_zero_is_a_protocol() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch.set_rules(&[
        "priority=10,ip,nw_proto=0,actions=drop",
        "priority=5,ip,nw_dst=192.0.2.2,actions=output:2",
    ]);
    switch.receive(1, &[ip(0), udp(1, 2), ip(0), ip(200)]);
    assert_eq!(switch.counts(), [0, 2]);
    let to = |protocol: &str, actions: &str| {
        format!("{IPV4},ipv4({protocol},frag=no) actions:{actions}")
    };
    assert_eq!(
        switch.flows(),
        [
            to("dst=192.0.2.2,proto=17", "2"),
            to("dst=192.0.2.2,proto=200", "2"),
            to("proto=0", "drop"),
        ]
    );
    // In the other order, when the other flows are there first.
    switch.run(&["dpctl/del-flows"]);
    switch.receive(1, &[udp(1, 2), ip(0), ip(200)]);
    assert_eq!(switch.counts(), [0, 4]);
    switch.stop();
}

// CVE-2023-5366.
#[test]
fn neighbours_are_judged_by_their_own_target() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch.set_rules(&[
        "priority=10,icmp6,icmp_type=136,icmp_code=0,nd_target=2001:db8::1,actions=output:2",
        "priority=0,actions=drop",
    ]);
    let advertisement = |target: &str| {
        format!(
            "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x86dd),\
             ipv6(src=2001:db8::1,dst=2001:db8::2,label=0,proto=58,tclass=0,hlimit=255,frag=no),\
             icmpv6(type=136,code=0),nd(target={target},sll=00:00:00:00:00:00,\
             tll=02:00:00:00:00:01)"
        )
    };
    let (own, other) = (advertisement("2001:db8::1"), advertisement("2001:db8::5"));
    for (order, expected) in [([&other, &own], 1), ([&own, &other], 2)] {
        switch.run(&["dpctl/del-flows"]);
        switch.receive(1, &order);
        assert_eq!(switch.counts(), [0, expected]);
        switch.receive(1, &[&other, &other]);
        assert_eq!(switch.counts(), [0, expected]);
    }
    switch.stop();
}

// CVE-2016-2074.
#[test]
fn labels_beyond_those_that_are_looked_at_are_payload() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch.set_rules(&["mpls,mpls_label=7,actions=output:2"]);
    let stack = |labels: usize| {
        let label = |number: u32, is_last: bool| {
            hex(&(number << 12 | u32::from(is_last) << 8 | 64).to_be_bytes())
        };
        let mut stack = label(7, labels == 1);
        (1..labels).for_each(|depth| stack += &label(100, depth + 1 == labels));
        format!("0200000000020200000000018847{stack}{}", "45".repeat(40))
    };
    for labels in [1, 2, 3, 4, 8, 300] {
        let frame = stack(labels);
        let before = switch.sent(2).len();
        switch.receive(1, &[&frame]);
        let sent = switch.sent(2);
        assert_eq!(sent[before..], [bytes(&frame)], "{labels} labels");
        let traced = switch.run(&["ofproto/trace", "br0", "in_port=1", &frame]);
        assert!(traced.ends_with("\nDatapath actions: 2\n"), "{traced}");
    }
    let flows = switch.flows();
    assert_eq!(
        flows,
        [format!(
            "{ETHERNET},eth_type(0x8847),mpls(label=7/0xfffff,tc=0/0,ttl=64/0x0,bos=1/0) actions:2"
        )]
    );
    switch.stop();
}

// Report A113.
#[test]
fn hits_of_all_kinds_add_up_to_the_packets() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &["--dummy-numa=0"]);
    directory
        .vsctl_script(
            "set open_vswitch . other_config:smc-enable=true other_config:pmd-perf-metrics=true
             add-br br0
             set bridge br0 datapath_type=dummy fail_mode=secure
             add-port br0 p1
             set interface p1 type=dummy-pmd",
        )
        .ok();
    Output::of(directory.command("ovs-ofctl").args([
        "add-flow",
        "br0",
        "udp,tp_dst=53,actions=IN_PORT",
    ]))
    .ok();
    daemon.appctl(&["dpif-netdev/pmd-stats-clear"]).ok();
    for _ in 0..100 {
        let packets: Vec<_> = (0..10).map(|flow| udp(1000 + flow, 53)).collect();
        let packets = packets.iter().map(String::as_str);
        let command: Vec<_> = ["netdev-dummy/receive", "p1"].into_iter().chain(packets).collect();
        daemon.appctl(&command).ok();
    }
    let json = |command: &str| -> Value {
        let shown = directory.sluice_appctl(&["--format", "json", command, "-pmd", "0"]).ok();
        serde_json::from_str::<Value>(&shown).expect("JSON")[0].clone()
    };
    wait_until("all packets have passed", || {
        json("dpif-netdev/pmd-stats-show")["packets-received"] == 1000
    });
    let shown = json("dpif-netdev/pmd-stats-show");
    let count = |name: &str| shown[name].as_u64().expect("a counter");
    let classes = [
        "phwol-hits",
        "simple-match-hits",
        "emc-hits",
        "smc-hits",
        "megaflow-hits",
        "upcalls",
        "lost-upcalls",
    ];
    assert_eq!(classes.iter().map(|class| count(class)).sum::<u64>(), 1000, "{shown}");
    assert_eq!((count("upcalls"), count("lost-upcalls")), (1, 0));
    let metrics = &json("dpif-netdev/pmd-perf-show")["metrics"];
    assert_eq!(metrics["totals"]["packets"], 1000);
    let histogram = metrics["histograms"]["cycles/pkt"].as_array().expect("a histogram");
    let counts = histogram.iter().map(|row| row[1].as_u64().expect("a count"));
    assert_eq!(counts.sum::<u64>(), 1000);
    let text = daemon.appctl(&["dpif-netdev/pmd-stats-show", "-pmd", "0"]).ok();
    let average = text.lines().find_map(|line| {
        line.trim().strip_prefix("avg processing cycles per packet: ")?.strip_suffix("/1000)")
    });
    let (average, total) = average.and_then(|text| text.split_once(" (")).expect("an average");
    let total: f64 = total.parse().expect("a number");
    assert_eq!(average, format!("{:.2}", total / 1000.0));
    daemon.stop();
}
