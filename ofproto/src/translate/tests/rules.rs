//! What rules do to packets: texts of datapath actions, as OVS has them.

use dpif::action::ActionsText;
use dpif::flow::parse_key;

use super::*;
use crate::mirror::{MirrorOutput, MirrorSettings, Mirrors};
use crate::openflow::message::{
    Bucket, GROUP_ANY, GroupCommand, GroupMod, GroupType, SelectionMethod, bucket_id,
};
use crate::openflow::port::PortNo;
use crate::openflow::slot::Slot;

const TCP: &str = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),\
    ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,tos=0,ttl=64,frag=no),tcp(src=80,dst=81),tcp_flags(0)";
const TAGGED: &str = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),\
    eth_type(0x8100),vlan(vid=5,pcp=3),encap(eth_type(0x0800),\
    ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,tos=0,ttl=64,frag=no),tcp(src=80,dst=81),\
    tcp_flags(0))";
const LABELLED: &str = "in_port(1),eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),\
    eth_type(0x8847),mpls(label=100,tc=7,ttl=64,bos=1)";

/// A switch with four ports and these rules.
fn bridge(rules: &[(u32, &str, &str)]) -> SwitchSnapshot {
    let ports = (1..=4).map(|number| port(number, PortSettings::default()));
    let tables = Tables::new(Arc::default(), News::default());
    for (priority, flow_match, actions) in rules {
        tables.add(rule(*priority, flow_match, actions)).unwrap();
    }
    SwitchSnapshot { tables: Arc::new(tables), ..switch("br0", ports) }
}

fn packet(text: &str) -> FlowKey {
    parse_key(text, None, 2).unwrap().0
}

fn text(translation: &Translation) -> String {
    ActionsText { actions: &translation.actions, names: None }.to_string()
}

/// The text of what the rules do to a packet.
fn outcome(rules: &[(u32, &str, &str)], key: &str) -> String {
    let switches = Switches::new(vec![bridge(rules)]);
    text(&run(&switches, &packet(key), true))
}

/// The same for a switch with one rule.
fn done(actions: &str, key: &str) -> String {
    outcome(&[(0, "", actions)], key)
}

#[test]
fn outputs() {
    assert_eq!(done("2,3,2", TCP), "2,3,2");
    assert_eq!(done("1,2", TCP), "2");
    assert_eq!(done("in_port", TCP), "1");
    assert_eq!(done("all", TCP), "2,3,4");
    assert_eq!(done("flood", TCP), "2,3,4");
    assert_eq!(done("normal", TCP), "2,3,4");
    assert_eq!(done("9", TCP), "drop");
    assert_eq!(done("drop", TCP), "drop");
    assert_eq!(done("output(port=2,max_len=100),3", TCP), "trunc(100),2,3");
    assert_eq!(done("enqueue:2:7,3", TCP), "set(skb_priority(0x7)),2,set(skb_priority(0)),3");
    assert_eq!(
        done("set_queue:7,2,pop_queue,3", TCP),
        "set(skb_priority(0x7)),2,set(skb_priority(0)),3"
    );
    assert_eq!(done("load:2->reg0[],output:reg0[],load:0x10000->reg0[],output:reg0[]", TCP), "2");
}

#[test]
fn ports_can_be_closed() {
    use crate::openflow::message::config;
    let closed = |number: u16, bit: u32, actions: &str| {
        let mut bridge = bridge(&[(0, "", actions)]);
        bridge.ports.get_mut(&PortNumber(number)).unwrap().config = bit;
        text(&run(&Switches::new(vec![bridge]), &packet(TCP), true))
    };
    assert_eq!(closed(2, config::NO_FWD, "2,3"), "3");
    assert_eq!(closed(2, config::NO_FLOOD, "flood"), "3,4");
    assert_eq!(closed(2, config::NO_FLOOD, "normal"), "3,4");
    assert_eq!(closed(2, config::NO_FLOOD, "all"), "2,3,4");
    assert_eq!(closed(1, config::NO_RECV, "2"), "drop");
    assert_eq!(closed(1, config::NO_RECV_STP, "2"), "2");
}

#[test]
fn headers_are_set() {
    assert_eq!(done("mod_nw_src:1.2.3.4,2", TCP), "set(ipv4(src=1.2.3.4)),2");
    assert_eq!(done("mod_tp_dst:8,2,mod_tp_dst:81,3", TCP), "set(tcp(dst=8)),2,set(tcp(dst=81)),3");
    assert_eq!(
        done("set_field:02:00:00:00:00:09->eth_dst,2", TCP),
        "set(eth(dst=02:00:00:00:00:09)),2"
    );
    assert_eq!(done("dec_ttl,2", TCP), "set(ipv4(ttl=63)),2");
    assert_eq!(done("move:NXM_OF_IP_SRC[]->NXM_OF_IP_DST[],2", TCP), "set(ipv4(dst=10.0.0.1)),2");
    // What the packet does not have is not set.
    assert_eq!(done("set_field:5->udp_dst,2", TCP), "2");
    assert_eq!(done("mod_vlan_vid:9,2", TCP), "push_vlan(vid=9,pcp=0),2");
    assert_eq!(done("mod_vlan_vid:9,2", TAGGED), "pop_vlan,push_vlan(vid=9,pcp=3),2");
    assert_eq!(done("strip_vlan,2", TAGGED), "pop_vlan,2");
    assert_eq!(
        done("push_vlan:0x88a8,set_field:4105->vlan_vid,2", TAGGED),
        "push_vlan(tpid=0x88a8,vid=9,pcp=0),2"
    );
    assert_eq!(
        done("push_mpls:0x8847,2", TCP),
        "push_mpls(label=0,tc=0,ttl=64,bos=1,eth_type=0x8847),2"
    );
    assert_eq!(
        done("set_field:5->mpls_label,2", LABELLED),
        "set(mpls(label=5,tc=7,ttl=64,bos=1)),2"
    );
}

#[test]
fn rules_lead_to_others() {
    let rules: &[(u32, &str, &str)] = &[
        (0, "0:", "load:3->reg1[],resubmit(,1),2"),
        (5, "1:reg1=3", "mod_nw_dst:9.9.9.9,4"),
        (9, "1:reg1=4", "3"),
    ];
    assert_eq!(outcome(rules, TCP), "set(ipv4(dst=9.9.9.9)),4,2");
    let rules: &[(u32, &str, &str)] =
        &[(0, "0:", "write_actions(2,set_field:1.1.1.1->ip_dst),goto_table:1"), (0, "1:", "3")];
    assert_eq!(outcome(rules, TCP), "3,set(ipv4(dst=1.1.1.1)),2");
    let rules: &[(u32, &str, &str)] =
        &[(0, "0:", "write_actions(2),goto_table:1"), (0, "1:", "clear_actions")];
    assert_eq!(outcome(rules, TCP), "drop");
    // The table sees the other port, outputs do not.
    let rules: &[(u32, &str, &str)] = &[(0, "", "resubmit:2"), (5, "in_port=2", "in_port,2")];
    assert_eq!(outcome(rules, TCP), "1,2");
    assert_eq!(
        done("push:NXM_OF_IN_PORT[],pop:NXM_NX_REG0[0..15],output:NXM_NX_REG0[],2", TCP),
        "2"
    );
}

#[test]
fn copies_do_not_change_the_packet() {
    assert_eq!(
        done("clone(mod_nw_dst:9.9.9.9,2),3", TCP),
        "set(ipv4(dst=9.9.9.9)),2,set(ipv4(dst=10.0.0.2)),3"
    );
    assert_eq!(done("clone(ct(commit),2),3", TCP), "clone(ct(commit),2),3");
    assert_eq!(done("clone(ct(commit),2)", TCP), "ct(commit),2");
}

#[test]
fn packets_come_again() {
    let rules: &[(u32, &str, &str)] =
        &[(0, "0:", "load:5->reg0[],ct(table=1,zone=7),2"), (0, "1:reg0=5,ct_state=+trk+est", "3")];
    let switches = Switches::new(vec![bridge(rules)]);
    let mut key = packet(TCP);
    let translation = run(&switches, &key, true);
    assert_eq!(text(&translation), "ct(zone=7),recirc(0x1),2");
    assert_eq!(translation.recirculations.len(), 1);
    key.recirc_id.set(1);
    key.ct_state = 0x22;
    let again = run(&switches, &key, true);
    assert_eq!(text(&again), "3");
    assert_eq!(again.mask.bits().ct_state, 0x22);
    key.recirc_id.set(2);
    let request = Request::packet(&key);
    assert_eq!(translate(&switches, request).unwrap_err(), TranslateError::NoRecirculation(2));
}

#[test]
fn what_is_behind_labels_is_found_out() {
    let rules: &[(u32, &str, &str)] = &[(0, "0:", "pop_mpls:0x0800,dec_ttl,2"), (0, "1:", "3")];
    let switches = Switches::new(vec![bridge(rules)]);
    let first = run(&switches, &packet(LABELLED), true);
    assert_eq!(text(&first), "pop_mpls(eth_type=0x800),recirc(0x1)");
    let mut key = packet(TCP);
    key.recirc_id.set(1);
    assert_eq!(text(&run(&switches, &key, true)), "set(ipv4(ttl=63)),2");
    // Nothing needs to be known for an output.
    assert_eq!(done("pop_mpls:0x0800,2", LABELLED), "pop_mpls(eth_type=0x800),2");
}

#[test]
fn limits_end_in_named_errors() {
    let error = |rules: &[(u32, &str, &str)]| {
        run(&Switches::new(vec![bridge(rules)]), &packet(TCP), false).error
    };
    assert_eq!(error(&[(0, "", "resubmit(,0)")]), Some(TranslateError::TooDeep));
    let many = ["resubmit(,1)"; 4097].join(",");
    assert_eq!(
        error(&[(0, "0:", &many), (0, "1:", "drop")]),
        Some(TranslateError::TooManyResubmits)
    );
    let pushes = ["push:xxreg0[]"; 4000].join(",") + ",resubmit(,1)";
    assert_eq!(error(&[(0, "", &pushes)]), Some(TranslateError::StackTooDeep));
    assert_eq!(
        done("push_mpls:0x8847,push_mpls:0x8847,push_mpls:0x8847,push_mpls:0x8847,2", TCP),
        "drop"
    );
}

#[test]
fn tables_in_a_row_do_not_end_the_stack() {
    let run_through = || {
        let mut texts: Vec<_> = (0..253).map(|table| (table, table + 1)).collect();
        texts.push((253, 0));
        let texts = texts.iter().map(|(table, next)| {
            (format!("{table}:"), format!("resubmit(,{next}),resubmit(,{next})"))
        });
        let texts: Vec<_> = texts.collect();
        let rules: Vec<_> = texts.iter().map(|(place, to)| (0, &place[..], &to[..])).collect();
        run(&Switches::new(vec![bridge(&rules)]), &packet(TCP), false).error
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(run_through).unwrap();
    assert_eq!(thread.join().unwrap(), Some(TranslateError::TooManyResubmits));
}

fn group(group_id: u32, group_type: GroupType, buckets: &[(u16, &str)]) -> GroupMod {
    let buckets = (0..).zip(buckets).map(|(bucket_id, (weight, actions))| {
        let (watch, actions) = actions.split_once('!').unwrap_or(("", actions));
        Bucket {
            bucket_id,
            weight: *weight,
            watch_port: watch.parse().map_or(PortNo::NONE, PortNo),
            watch_group: GROUP_ANY,
            actions: parse_actions(actions, &NoNames).unwrap(),
        }
    });
    GroupMod {
        command: GroupCommand::Add,
        group_type,
        group_id,
        command_bucket_id: bucket_id::ALL,
        buckets: buckets.collect(),
        selection: SelectionMethod::default(),
    }
}

#[test]
fn groups_execute_buckets() {
    let with = |groups: Vec<GroupMod>, actions: &str, key: &FlowKey| {
        let mut bridge = bridge(&[(0, "", actions)]);
        bridge.ports.get_mut(&PortNumber(3)).unwrap().state = 0;
        for group in groups {
            bridge.groups.begin(&group, 0).unwrap();
        }
        text(&run(&Switches::new(vec![bridge]), key, true))
    };
    let key = packet(TCP);
    let all = || group(1, GroupType::All, &[(0, "mod_nw_dst:9.9.9.9,2"), (0, "3")]);
    assert_eq!(
        with(vec![all()], "group:1,4", &key),
        "set(ipv4(dst=9.9.9.9)),2,set(ipv4(dst=10.0.0.2)),3,4"
    );
    assert_eq!(with(vec![], "2,group:1,4", &key), "2");
    let failover = || group(1, GroupType::FastFailover, &[(0, "3!3"), (0, "2!2")]);
    assert_eq!(with(vec![failover()], "group:1", &key), "2");
    let select = || group(1, GroupType::Select, &[(1, "2"), (0, "3"), (1, "4")]);
    assert_eq!(with(vec![select()], "group:1", &key), "hash(sym_l4(0)),recirc(0x1)");
    let mut hashed = key.clone();
    hashed.dp_hash.set(1);
    assert!(["2", "4"].contains(&with(vec![select()], "group:1", &hashed).as_str()));
}

#[test]
fn controllers_get_packets() {
    assert_eq!(
        outcome(&[(1, "", "controller,2")], TCP),
        "userspace(pid=0,controller(reason=1,dont_send=0,continuation=0,recirc_id=1,\
         rule_cookie=0,controller_id=0,max_len=65535)),2"
    );
    // The rule for what no other takes has a reason of its own.
    assert!(done("controller", TCP).contains("reason=6,"));
    assert_eq!(
        done("mod_nw_dst:9.9.9.9,controller(pause),2", TCP),
        "set(ipv4(dst=9.9.9.9)),userspace(pid=0,controller(reason=1,dont_send=0,continuation=1,\
         recirc_id=1,rule_cookie=0,controller_id=0,max_len=65535))"
    );
}

#[test]
fn packet_out_and_resume_start_elsewhere() {
    let bridge = bridge(&[(0, "", "4"), (5, "reg0=7", "3")]);
    let switches = Switches::new(vec![bridge]);
    let switch = by_name(&switches)["br0"];
    let key = packet(TCP);
    let mut metadata = Match::new();
    metadata.set_exact(Slot::xxreg(0), 7 << 96);
    let out = |actions: &str| {
        let actions = parse_actions(actions, &NoNames).unwrap();
        let start = Start::PacketOut {
            switch,
            in_port: PortNumber(PortNo::CONTROLLER.0),
            actions: &actions,
            metadata: &metadata,
        };
        let request = Request { start, ..Request::packet(&key) };
        text(&translate(&switches, request).unwrap())
    };
    assert_eq!(out("1,2"), "1,2");
    assert_eq!(out("table"), "3");
    let paused = out("load:5->reg0[],controller(pause),resubmit(,0),2");
    assert!(paused.contains("continuation=1"), "{paused}");
    let state = switches.recirculations().get(1).unwrap().state.clone();
    let resumed = Request { start: Start::Resume(&state), ..Request::packet(&key) };
    assert_eq!(text(&translate(&switches, resumed).unwrap()), "4,2");
}

#[test]
fn lengths_are_checked_by_the_datapath() {
    assert_eq!(
        done("check_pkt_larger(100)->reg0[0],move:reg0[0]->reg1[1],output:reg1[],3", TCP),
        "check_pkt_len(size=100,gt(2,3),le(3))"
    );
}

#[test]
fn traces_form_a_tree() {
    let rules: &[(u32, &str, &str)] = &[
        (7, "in_port=1", "load:3->reg1[],resubmit(,1),2"),
        (5, "1:reg1=3", "set_field:5->udp_dst,4"),
    ];
    assert_eq!(
        trace_of(&Switches::new(vec![bridge(rules)]), &packet(TCP), true),
        [
            "0 Bridge bridge(\"br0\")",
            "1 Table  0. in_port=1, priority 7",
            "2 Action load:0x3->NXM_NX_REG1[]",
            "2 Action resubmit(,1)",
            "2 Table  1. reg1=0x3, priority 5",
            "3 Action set_field:5->udp_dst",
            "3 Warning unmet prerequisites for udp_dst, set_field ignored",
            "3 Action output:4",
            "2 Action output:2",
        ]
    );
}

#[test]
fn mirrors_get_copies() {
    let mirrored = |change: &dyn Fn(&mut MirrorSettings), actions: &str, key: &str| {
        let mut settings = MirrorSettings {
            key: [0; 16],
            name: "m".to_owned(),
            sources: [1].map(PortNumber).into(),
            destinations: [2].map(PortNumber).into(),
            vlans: None,
            filter: None,
            output: MirrorOutput::Port(PortNumber(4)),
            snap_length: 0,
        };
        change(&mut settings);
        let mut mirrors = Mirrors::default();
        assert_eq!(mirrors.set(vec![settings], &NoNames).len(), 0);
        let bridge = SwitchSnapshot { mirrors: Arc::new(mirrors), ..bridge(&[(0, "", actions)]) };
        text(&run(&Switches::new(vec![bridge]), &packet(key), true))
    };
    let same = |_: &mut MirrorSettings| {};
    assert_eq!(mirrored(&same, "3", TCP), "4,3");
    // A packet that changed is another.
    assert_eq!(mirrored(&same, "2", TCP), "4,2");
    assert_eq!(mirrored(&same, "mod_nw_dst:9.9.9.9,2", TCP), "4,set(ipv4(dst=9.9.9.9)),2,4");
    assert_eq!(mirrored(&|m| m.sources.clear(), "normal", TCP), "2,4,3");
    assert_eq!(mirrored(&|m| m.snap_length = 100, "3", TCP), "trunc(100),4,3");
    assert_eq!(mirrored(&|m| m.filter = Some("icmp".to_owned()), "3", TCP), "3");
    assert_eq!(mirrored(&|m| m.filter = Some("tcp".to_owned()), "3", TCP), "4,3");
    let in_vlan = |vlan| move |m: &mut MirrorSettings| m.vlans = Some([vlan].into_iter().collect());
    assert_eq!(mirrored(&in_vlan(5), "3", TAGGED), "4,3");
    assert_eq!(mirrored(&in_vlan(6), "3", TAGGED), "3");
    assert_eq!(
        mirrored(&|m| m.output = MirrorOutput::Vlan(7), "3", TCP),
        "push_vlan(vid=7,pcp=0),1,2,3,4,pop_vlan,3"
    );
    let received = |m: &mut MirrorSettings| m.output = MirrorOutput::Port(PortNumber(1));
    assert_eq!(mirrored(&received, "3", TCP), "drop");
}
