//! Tunnel ports, as operators and controllers see them: their settings, the packets that come
//! through them and go into them, and the options that are mapped to fields.

use tests::{Daemon, Directory, Output};

/// A daemon with the bridge `br0`, which sends tunnel packets as a datapath does that has no
/// actions for tunnel headers; `ports` are added to it by `ovs-vsctl`.
fn bridge<'a>(directory: &'a Directory, ports: &str) -> Daemon<'a> {
    let daemon = Daemon::start(directory, &[]);
    let script = format!(
        "add-br br0
         set bridge br0 datapath_type=dummy fail_mode=secure
         {ports}"
    );
    directory.vsctl_script(&script).ok();
    run(&daemon, &["dpif/set-dp-features", "br0", "tnl_push_pop", "false"]);
    daemon
}

#[track_caller]
fn run(daemon: &Daemon<'_>, args: &[&str]) -> String {
    daemon.appctl(args).ok()
}

#[track_caller]
fn ofctl(directory: &Directory, args: &[&str]) -> Output {
    Output::of(directory.command("ovs-ofctl").args(args))
}

#[track_caller]
fn set_rules(directory: &Directory, rules: &[&str]) {
    ofctl(directory, &["del-flows", "br0"]).ok();
    rules.iter().for_each(|rule| {
        ofctl(directory, &["add-flow", "br0", rule]).ok();
    });
}

/// The ports of `br0` as `dpif/show` lists them, its own one left out.
#[track_caller]
fn ports(daemon: &Daemon<'_>) -> Vec<String> {
    let shown = run(daemon, &["dpif/show"]);
    let lines = shown.lines().skip(2).map(|line| line.trim().to_owned());
    lines.filter(|line| !line.starts_with("br0")).collect()
}

/// What becomes of a packet of the datapath: the fields that matter, and the datapath's actions.
#[track_caller]
fn trace(daemon: &Daemon<'_>, flow: &str) -> [String; 2] {
    let traced = run(daemon, &["ofproto/trace", "ovs-dummy", flow]);
    ["Megaflow: ", "Datapath actions: "].map(|title| {
        let line = traced.lines().find_map(|line| line.strip_prefix(title));
        line.unwrap_or_else(|| panic!("no {title} in {traced}")).to_owned()
    })
}

/// An IPv4 packet of ICMP with this type of service, on port `in_port` of the datapath.
fn icmp(in_port: u32, tunnel: &str, tos: u8) -> String {
    format!(
        "{tunnel}in_port({in_port}),eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),\
         eth_type(0x0800),ipv4(src=192.168.0.1,dst=192.168.0.2,proto=1,tos={tos},ttl=128,\
         frag=no),icmp(type=8,code=0)"
    )
}

#[test]
fn tunnels_of_a_protocol_share_a_port_of_the_datapath() {
    let directory = Directory::new();
    let daemon = bridge(
        &directory,
        "add-port br0 t1
         set interface t1 type=gre options:remote_ip=1.1.1.1 ofport_request=1
         add-port br0 t2
         set interface t2 type=gre options:remote_ip=2.2.2.2 options:key=0x10 ofport_request=2
         add-port br0 t3
         set interface t3 type=vxlan options:remote_ip=flow options:key=flow ofport_request=3",
    );
    let gre = |rest: &str| format!("t2 2/1: (gre: key=16, {rest}remote_ip=2.2.2.2)");
    assert_eq!(
        ports(&daemon),
        [
            "t1 1/1: (gre: remote_ip=1.1.1.1)".to_owned(),
            gre(""),
            "t3 3/4789: (vxlan: key=flow, remote_ip=flow)".to_owned(),
        ]
    );
    assert_eq!(
        run(&daemon, &["ofproto/list-tunnels"]),
        "port 1: t1 (gre: ::->1.1.1.1, key=0, legacy_l2, dp port=1, ttl=64)\n\
         port 1: t2 (gre: ::->2.2.2.2, key=0x10, legacy_l2, dp port=1, ttl=64)\n\
         port 4789: t3 (vxlan: ::->flow, key=flow, legacy_l2, dp port=4789, ttl=64)\n"
    );
    // Another UDP port is another port of the datapath, and what nobody uses goes.
    directory
        .vsctl_script(
            "set interface t1 type=vxlan options:dst_port=4790
             set interface t2 options:local_ip=9.9.9.9
             del-port t3",
        )
        .ok();
    assert_eq!(
        ports(&daemon),
        [
            "t1 1/4790: (vxlan: dst_port=4790, remote_ip=1.1.1.1)".to_owned(),
            gre("local_ip=9.9.9.9, "),
        ]
    );
    directory.vsctl(&["del-port", "t2"]).ok();
    // The number is free for others.
    directory.vsctl(&["add-port", "br0", "p1", "--", "set", "interface", "p1", "type=dummy"]).ok();
    assert_eq!(ports(&daemon)[0], "p1 4/1: (dummy)");
    daemon.stop();
}

#[test]
fn impossible_settings_are_told() {
    let directory = Directory::new();
    let mut daemon = bridge(
        &directory,
        "add-port br0 t1
         set interface t1 type=vxlan options:remote_ip=1.1.1.1",
    );
    daemon.allow("|netdev_vport|WARN|t2: ");
    daemon.allow("|netdev|WARN|t2: could not set configuration");
    daemon.allow("|tunnel|WARN|t2: attempting to add tunnel port with same config as port 't1'");
    daemon.allow("|dpif|WARN|t2: could not add network device t2");
    for (options, error) in [
        ("key=1", "t2: vxlan type requires valid 'remote_ip' argument"),
        ("remote_ip=224.0.0.1", "t2: multicast remote_ip=224.0.0.1 not allowed"),
        ("remote_ip=1.1.1.1 options:key=x", "t2: key=x is not a number from 0 to 2^64-1"),
        (
            "remote_ip=1.1.1.2 options:exts=gbp",
            "t2: VXLAN-GBP, and non-VXLAN-GBP tunnels can't be configured on the same dst_port",
        ),
        (
            "remote_ip=1.1.1.1",
            "could not add network device t2 to ofproto (File exists): port t1 has the same \
             settings (::->1.1.1.1, key=0, legacy_l2, dp port=4789)",
        ),
    ] {
        let script = format!("add-port br0 t2\nset interface t2 type=vxlan options:{options}");
        let _ = directory.vsctl_script(&script);
        let told = directory.vsctl(&["get", "interface", "t2", "ofport", "error"]).ok();
        assert_eq!(told, format!("-1\n\"{error}\"\n"), "{options}");
        directory.vsctl(&["del-port", "t2"]).ok();
    }
    assert_eq!(ports(&daemon).len(), 1);
    daemon.stop();
}

#[test]
fn packets_come_in_on_the_port_whose_settings_they_meet() {
    let directory = Directory::new();
    let mut daemon = bridge(
        &directory,
        "add-port br0 t1
         set interface t1 type=gre options:remote_ip=1.1.1.1 options:key=flow ofport_request=1
         add-port br0 t2
         set interface t2 type=gre options:remote_ip=1.1.1.1 options:key=5 ofport_request=2
         add-port br0 t3
         set interface t3 type=gre options:remote_ip=flow options:key=flow ofport_request=3
         add-port br0 p1
         set interface p1 type=dummy ofport_request=7",
    );
    daemon.allow("|tunnel|WARN|receive tunnel port not found");
    daemon.allow("|tunnel|WARN|dropping tunnel packet marked ECN CE");
    set_rules(&directory, &["actions=output:7"]);
    let number = ports(&daemon)[0].split(['/', ':']).nth(1).unwrap().to_owned();
    let p1 = number.parse::<u32>().unwrap();
    let gre = ports(&daemon)[1].split(['/', ':']).nth(1).unwrap().parse::<u32>().unwrap();
    let arrives = |source: &str, key: u32, tos: u8| {
        let tunnel =
            format!("tunnel(tun_id={key:#x},src={source},dst=9.9.9.9,tos=0x3,ttl=64,flags(key)),");
        trace(&daemon, &icmp(gre, &tunnel, tos))
    };
    for (source, key, in_port) in [("1.1.1.1", 5, 2), ("1.1.1.1", 6, 1), ("8.8.8.8", 5, 3)] {
        let [matters, actions] = arrives(source, key, 2);
        assert_eq!(
            matters,
            format!(
                "recirc_id=0,eth,ip,tun_id={key:#x},tun_src={source},tun_dst=9.9.9.9,tun_tos=3,\
                 tun_flags=+key,in_port={in_port},nw_ecn=2,nw_frag=no"
            )
        );
        // It met congestion in the tunnel.
        assert_eq!(actions, format!("set(ipv4(tos=0x3/0x3)),{p1}"));
    }
    let [_, actions] = arrives("1.1.1.1", 5, 0);
    assert_eq!(actions, "drop");
    directory.vsctl(&["del-port", "t3"]).ok();
    let tunnel = "tunnel(tun_id=0x5,src=8.8.8.8,dst=9.9.9.9,ttl=64,flags(key)),";
    let refused = daemon.appctl(&["ofproto/trace", "ovs-dummy", &icmp(gre, tunnel, 0)]).fails(2);
    assert!(refused.starts_with("no OpenFlow tunnel port for this packet"), "{refused}");
    daemon.stop();
}

#[test]
fn packets_go_out_with_the_tunnel_that_port_and_rules_say() {
    let directory = Directory::new();
    let daemon = bridge(
        &directory,
        "add-port br0 t1
         set interface t1 type=gre options:remote_ip=1.1.1.1 options:local_ip=2.2.2.2 \
            options:key=5 options:tos=inherit options:ttl=inherit options:egress_pkt_mark=9 \
            ofport_request=1
         add-port br0 t2
         set interface t2 type=vxlan options:remote_ip=flow options:key=flow \
            options:df_default=false ofport_request=2
         add-port br0 t3
         set interface t3 type=vxlan options:remote_ip=fc00::3 options:ttl=9 ofport_request=3
         add-port br0 p8
         set interface p8 type=dummy ofport_request=8",
    );
    let gre = ports(&daemon)[1].split(['/', ':']).nth(1).unwrap().to_owned();
    set_rules(
        &directory,
        &["in_port=8,actions=set_field:7->tun_id,set_field:3.3.3.3->tun_dst,output:1,output:2,\
           output:2,output:3"],
    );
    let [matters, actions] = trace(&daemon, &icmp(8, "", 0x0b));
    assert_eq!(
        actions,
        format!(
            "set(tunnel(tun_id=0x5,src=2.2.2.2,dst=1.1.1.1,tos=0xa,ttl=128,flags(df|key))),\
             set(skb_mark(0x9)),{gre},\
             set(tunnel(tun_id=0x7,dst=3.3.3.3,tos=0x2,ttl=64,tp_dst=4789,flags(key))),4789,4789,\
             set(tunnel(ipv6_dst=fc00::3,tos=0x2,ttl=9,tp_dst=4789,flags(df|csum))),4789"
        )
    );
    assert_eq!(
        matters,
        "pkt_mark=0,recirc_id=0,eth,ip,in_port=8,nw_tos=8,nw_ecn=3,nw_ttl=128,nw_frag=no"
    );
    // Where the packet came from it does not go.
    set_rules(&directory, &["actions=set_field:9.9.9.9->tun_dst,output:2"]);
    let tunnel = "tunnel(tun_id=0x0,src=1.1.1.1,dst=9.9.9.9,ttl=64,flags(key)),";
    let loops = icmp(4789, tunnel, 0);
    directory.vsctl(&["set", "interface", "t3", "options:remote_ip=1.1.1.1"]).ok();
    let traced = run(&daemon, &["ofproto/trace", "ovs-dummy", &loops]);
    assert!(traced.contains(" >> Not tunneling to our own address\n"), "{traced}");
    daemon.stop();
}

#[test]
fn options_are_fields_where_they_are_mapped() {
    let directory = Directory::new();
    let daemon = bridge(
        &directory,
        "add-port br0 t1
         set interface t1 type=geneve options:remote_ip=1.1.1.1 ofport_request=1
         add-port br0 p2
         set interface p2 type=dummy ofport_request=2",
    );
    let map = |command: &str, mapping: &str| ofctl(&directory, &[command, "br0", mapping]);
    map("add-tlv-map", "{class=0xffff,type=0,len=4}->tun_metadata0").ok();
    map("add-tlv-map", "{class=0xffff,type=1,len=124}->tun_metadata5").ok();
    map("add-tlv-map", "{class=0xffff,type=2,len=116}->tun_metadata6").ok();
    for (mapping, error) in [
        ("{class=0xffff,type=7,len=16}->tun_metadata7", "NXTTMFC_TABLE_FULL"),
        ("{class=0xffff,type=8,len=4}->tun_metadata0", "NXTTMFC_ALREADY_MAPPED"),
        ("{class=0xffff,type=0,len=4}->tun_metadata9", "NXTTMFC_DUP_ENTRY"),
        ("{class=0xffff,type=9,len=3}->tun_metadata9", "NXTTMFC_BAD_OPT_LEN"),
        ("{class=0xffff,type=9,len=4}->tun_metadata64", "NXTTMFC_BAD_FIELD_IDX"),
    ] {
        let refused = map("add-tlv-map", mapping).fails(1);
        assert!(refused.contains(error), "{refused}");
    }
    let dumped = ofctl(&directory, &["dump-tlv-map", "br0"]).ok();
    let dumped: Vec<_> = dumped.lines().skip(1).map(str::trim_end).collect();
    assert_eq!(
        dumped,
        [
            " max option space=256 max fields=64",
            " allocated option space=244",
            "",
            " mapping table:",
            "  class  type  length  match field",
            " ------  ----  ------  --------------",
            " 0xffff     0       4  tun_metadata0",
            " 0xffff   0x1     124  tun_metadata5",
            " 0xffff   0x2     116  tun_metadata6",
        ]
    );
    let unmapped = ofctl(&directory, &["add-flow", "br0", "tun_metadata1=1,actions=drop"]).fails(1);
    assert!(unmapped.contains("NXFMFC_INVALID_TLV_FIELD"), "{unmapped}");

    let rules = [
        "in_port=1,tun_metadata0=0x0b/0x0f,actions=move:tun_metadata5[900..991]->tun_metadata6[8..99],\
         delete_field:tun_metadata0,IN_PORT",
        "in_port=2,actions=set_field:0xa->tun_metadata0,push:tun_metadata0[0..31],pop:reg1,\
         load:0xab->tun_metadata5[984..991],output:1",
    ];
    set_rules(&directory, &rules);
    let zeros = "00".repeat(123);
    let [_, actions] = trace(&daemon, &icmp(2, "", 0));
    assert_eq!(
        actions,
        format!(
            "set(tunnel(dst=1.1.1.1,ttl=64,tp_dst=6081,geneve({{class=0xffff,type=0,len=4,0xa}}\
             {{class=0xffff,type=0x1,len=124,0xab{zeros}}}),flags(df))),6081"
        )
    );
    let tunnel = format!(
        "tunnel(tun_id=0x0,src=1.1.1.1,dst=2.2.2.2,ttl=64,\
         geneve({{class=0xffff,type=0,len=4,0x1b}}{{class=0xffff,type=1,len=124,0xcd{zeros}}}\
         {{class=0xffff,type=9,len=4,0x5}}),flags(key)),"
    );
    let [matters, actions] = trace(&daemon, &icmp(6081, &tunnel, 0));
    // The bits that were moved: 92 of them, the highest eight with a value.
    let moved = format!("0xcd{}", "0".repeat(23));
    assert_eq!(
        actions,
        format!(
            "set(tunnel(dst=1.1.1.1,ttl=64,tp_dst=6081,geneve(\
             {{class=0xffff,type=0x1,len=124,0xcd{zeros}}}\
             {{class=0xffff,type=0x2,len=116,{moved}}}),flags(df))),6081"
        )
    );
    let seen = format!("0x{}{}", "f".repeat(23), "0".repeat(225));
    assert_eq!(
        matters,
        format!(
            "recirc_id=0,eth,ip,tun_id=0,tun_src=1.1.1.1,tun_dst=2.2.2.2,tun_tos=0,tun_flags=+key,\
             tun_metadata0=0xb/0xf,tun_metadata5=0xcd{zeros}/{seen},in_port=1,nw_ecn=0,nw_frag=no"
        )
    );
    // What a rule uses stays mapped.
    let refused = map("del-tlv-map", "{class=0xffff,type=1,len=124}->tun_metadata5").fails(1);
    assert!(refused.contains("NXTTMFC_INVALID_TLV_DEL"), "{refused}");
    ofctl(&directory, &["del-flows", "br0"]).ok();
    ofctl(&directory, &["del-tlv-map", "br0"]).ok();
    daemon.stop();
}

#[test]
fn bad_options_drop_the_packet() {
    let directory = Directory::new();
    let daemon = bridge(
        &directory,
        "add-port br0 t1
         set interface t1 type=geneve options:remote_ip=1.1.1.1 ofport_request=1",
    );
    let mapping = "{class=0xffff,type=0,len=4}->tun_metadata0";
    ofctl(&directory, &["add-tlv-map", "br0", mapping]).ok();
    set_rules(&directory, &["actions=LOCAL"]);
    for options in ["{class=0xffff,type=0,len=8,0x1}", "{class=0x1,type=0x80,len=0}"] {
        let tunnel = format!(
            "tunnel(tun_id=0x0,src=1.1.1.1,dst=2.2.2.2,ttl=64,geneve({options}),flags(key)),"
        );
        let traced = run(&daemon, &["ofproto/trace", "ovs-dummy", &icmp(6081, &tunnel, 0)]);
        assert!(traced.contains(" >>>> Invalid Geneve tunnel metadata <<<<\n"), "{traced}");
        let failed = "Translation failed (Invalid tunnel metadata), packet is dropped.\n";
        assert!(traced.ends_with(failed), "{traced}");
    }
    daemon.stop();
}

// Report A09.
#[test]
fn tunnels_do_not_make_flows_of_others_narrower() {
    let directory = Directory::new();
    let daemon = Daemon::start(&directory, &[]);
    directory
        .vsctl_script(
            "add-br br-t
             set bridge br-t datapath_type=dummy
             add-port br-t t1
             set interface t1 type=vxlan options:remote_ip=1.1.1.1
             add-br br-x
             set bridge br-x datapath_type=dummy fail_mode=secure
             add-port br-x p1
             set interface p1 type=dummy ofport_request=1
             add-port br-x p2
             set interface p2 type=dummy ofport_request=2",
        )
        .ok();
    ofctl(&directory, &["add-flow", "br-x", "in_port=1,actions=output:2"]).ok();
    let traced = run(&daemon, &["ofproto/trace", "br-x", "in_port=p1"]);
    assert!(traced.contains("\nMegaflow: recirc_id=0,eth,in_port=1,dl_type=0x0000\n"), "{traced}");
    daemon.stop();
}
