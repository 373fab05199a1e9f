//! Text of actions, both ways.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::flow::{PortNames, TunnelKey};

fn text(actions: &[Action]) -> String {
    ActionsText { actions, names: None }.to_string()
}

#[test]
fn prints_actions_as_it_reads_them() {
    for actions in [
        "drop",
        "1,2,3",
        "lb_output(1)",
        "trunc(100),2",
        "pop_vlan",
        "push_vlan(vid=7,pcp=0)",
        "push_vlan(tpid=0x88a8,vid=7,pcp=3,cfi=0)",
        "push_mpls(label=10,tc=0,ttl=64,bos=1,eth_type=0x8847)",
        "pop_mpls(eth_type=0x800)",
        "add_mpls(label=10,tc=7,ttl=64,bos=0,eth_type=0x8848)",
        "push_eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02)",
        "pop_eth",
        "hash(l4(0)),recirc(0x1)",
        "hash(sym_l4(5)),recirc(0xffffffff)",
        "meter(0),1",
        "ct_clear",
        "tnl_pop(4789)",
        "sample(sample=12.5%,actions(userspace(pid=0,sFlow(vid=9,pcp=7,output=10),actions),1))",
        "sample(sample=0.0%,actions(drop))",
        "clone(push_vlan(vid=1,pcp=0),clone(2)),3",
        "check_pkt_len(size=200,gt(drop),le(set(eth(src=00:00:00:00:00:01)),5))",
        "psample(group=12,cookie=0xf102)",
        "psample(group=0)",
        "userspace(pid=0,slow_path(cfm,bfd,lacp,stp,lldp,action,match))",
        "userspace(pid=0,slow_path(0)),1",
        "userspace(pid=0,controller(reason=1,dont_send=0,continuation=1,recirc_id=3,\
         rule_cookie=0xfedc,controller_id=2,max_len=65535))",
        "userspace(pid=5,flow_sample(probability=1,collector_set_id=2,obs_domain_id=3,\
         obs_point_id=4,output_port=5,egress),tunnel_out_port=6)",
        "userspace(pid=5,ipfix(output_port=5))",
        "userspace(pid=5,userdata(00ff10),actions)",
        "userspace(pid=5)",
        "push_nsh(flags=0,ttl=63,mdtype=1,np=3,spi=0x1234,si=255,c1=0x11223344,c2=0x0,c3=0x0,\
         c4=0xf)",
        "push_nsh(flags=2,ttl=1,mdtype=2,np=1,spi=0x1,si=0,md2=0x1000000a00112233)",
        "pop_nsh()",
    ] {
        let actions = actions.replace([' ', '\n'], "");
        assert_eq!(text(&parse_actions(&actions, None).unwrap()), actions);
    }
}

#[test]
fn prints_sets_as_it_reads_them() {
    for set in [
        "eth(src=00:01:02:03:04:05,dst=10:11:12:13:14:15/ff:ff:ff:00:00:00)",
        "ipv4(src=10.0.0.1,tos=0x10/0xfc,ttl=63)",
        "ipv6(dst=::1/::ffff,label=0x5,tclass=0/0x3,hlimit=1)",
        "tcp(src=80)",
        "udp(src=1,dst=2/0xff)",
        "sctp(dst=3)",
        "icmp(type=1,code=2)",
        "icmpv6(type=1)",
        "arp(sip=1.2.3.4,op=2,sha=00:00:00:00:00:01)",
        "nd(target=fe80::1,sll=00:00:00:00:00:01)",
        "vlan(vid=5)",
        "mpls(label=1,tc=2,ttl=3,bos=1)",
        "mpls(label=1/0xfffff,tc=0/0,ttl=9/0xff,bos=0/0)",
        "nsh(ttl=1,spi=0x5,c2=0x7/0x000000ff)",
        "skb_priority(0x5)",
        "skb_mark(0x1/0xf)",
        "tunnel(tun_id=0x1,dst=1.1.1.1,tos=0x4,ttl=64,tp_dst=4789,vxlan(gbp(id=1,flags=0x8)),\
         flags(df|csum|key))",
        "tunnel(ipv6_dst=fc00::1,ttl=64,geneve({class=0x102,type=0x80,len=4,0x1}),flags(0))",
        "tunnel(tun_id=0x1,dst=1.1.1.1,ttl=64,erspan(ver=1,idx=0x7),flags(key))",
        "tunnel(tun_id=0x1,dst=1.1.1.1,ttl=64,erspan(ver=2,dir=1,hwid=0x1f),flags(key))",
        "tunnel(dst=1.1.1.1,ttl=64,gtpu(flags=0x30,msgtype=255),flags(0))",
    ] {
        let set = format!("set({}),1", set.replace([' ', '\n'], ""));
        assert_eq!(text(&parse_actions(&set, None).unwrap()), set);
    }
}

#[test]
fn prints_conntrack_as_it_reads_it() {
    for actions in [
        "ct",
        "ct(nat)",
        "ct(commit,zone=1,mark=0x1/0xffffffff,label=0x5/0xff,helper=ftp,timeout=t1,\
         nat(src=10.1.1.240-10.1.1.255))",
        "ct(force_commit,nat(dst=10.0.0.1:80-90,random)),recirc(0x2)",
        "ct(commit,nat(src=[fe80::1]-[fe80::2]:255-4096,hash))",
        "ct(commit,nat(src=fe80::1,persistent))",
        "ct(commit,nat(dst))",
        "ct(label=0x1234567890abcdef1234567890abcdef)",
    ] {
        let actions = actions.replace([' ', '\n'], "");
        assert_eq!(text(&parse_actions(&actions, None).unwrap()), actions);
    }
}

#[test]
fn prints_tunnel_headers_as_it_reads_them() {
    let ethernet = "eth(dst=f8:bc:12:44:34:b6,src=f8:bc:12:46:58:e0,dl_type=";
    let ipv4 = "0x0800),ipv4(src=1.1.2.88,dst=1.1.2.92,proto=17,tos=0,ttl=64,frag=0x4000),";
    let ipv6 = "0x86dd),ipv6(src=fc00::88,dst=fc00::92,label=5,proto=43,tclass=0x8,hlimit=64),";
    for (size, kind, ip, rest) in [
        (50, 4, ipv4, "udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0x1c7)"),
        (50, 5, ipv4, "udp(src=0,dst=6081,csum=0xffff),geneve(vni=0x7b)"),
        (
            58,
            5,
            ipv4,
            "udp(src=1,dst=6081,csum=0x0),geneve(oam,crit,vni=0x7b,options(\
             {class=0xffff,type=0x80,len=4,0xa}))",
        ),
        (50, 110, ipv4, "udp(src=0,dst=2152,csum=0x0),gtpu(flags=0x30,msgtype=255,teid=0x7b)"),
        (38, 3, ipv4, "gre((flags=0x0,proto=0x6558))"),
        (50, 3, ipv4, "gre((flags=0xb000,proto=0x6558),csum=0x1234,key=0x1e241,seq=0x1)"),
        (62, 109, ipv6, "gre((flags=0x2000,proto=0x6558),key=0x7b)"),
        (50, 107, ipv4, "erspan(ver=1,sid=0x7b,idx=0x3)"),
        (74, 108, ipv6, "erspan(ver=2,sid=0x3ff,dir=1,hwid=0x3f)"),
        (94, 112, ipv6, "srv6(segments_left=1,segs(fc00::1,fc00::2))"),
    ] {
        let text_of = format!(
            "tnl_push(tnl_port(4),header(size={size},type={kind},{ethernet}{ip}{rest}),out_port(1))"
        );
        let read = parse_actions(&text_of, None).unwrap();
        assert_eq!(text(&read), text_of);
        let [Action::TunnelPush(push)] = &read[..] else { panic!("{read:?}") };
        for length in 0..push.header.len() {
            // A header that is cut short prints as far as it goes.
            let header = push.header[..length].to_vec();
            let cut = Action::TunnelPush(Box::new(TunnelPush { header, ..(**push).clone() }));
            let cut = text(&[cut]);
            assert!(cut.contains("trunc") || cut.contains("invalid"), "{cut}");
        }
    }
}

#[test]
fn drop_alone_is_an_action_at_the_top_and_nothing_inside() {
    assert_eq!(parse_actions("drop", None).unwrap(), [Action::Drop { reason: 0 }]);
    assert_eq!(parse_actions("clone(drop)", None).unwrap(), [Action::Clone(vec![])]);
    assert_eq!(parse_actions("", None).unwrap(), []);
    assert_eq!(text(&[]), "drop");
}

#[test]
fn names_stand_for_ports() {
    let names: PortNames = [(3, "p3".to_owned()), (4, "pop_vlan".to_owned())].into_iter().collect();
    let actions = parse_actions("p3,clone(p3),pop_vlan", Some(&names)).unwrap();
    let wanted = [Action::Output(3), Action::Clone(vec![Action::Output(3)]), Action::Output(4)];
    assert_eq!(actions, wanted);
    let printed = ActionsText { actions: &actions, names: Some(&names) }.to_string();
    assert_eq!(printed, "p3,clone(p3),pop_vlan");
}

#[test]
fn errors_name_the_position() {
    let deep = format!("{}1{}", "clone(".repeat(5000), ")".repeat(5000));
    let nested = format!("1,{}2{}", "clone(".repeat(32), ")".repeat(32));
    let many = "1,".repeat(9000);
    for (actions, position) in [
        ("1,2,bogus", 4),
        ("1,clone(2,bogus)", 2),
        ("clone(1", 0),
        ("set(encap())", 0),
        ("set(mpls(label=1,label=2))", 0),
        ("1, push_vlan(vid=4096,pcp=0)", 3),
        ("encap_nsh@:{@", 0),
        ("ct(commit,force_commit)", 0),
        ("ct(nat(src,dst))", 0),
        ("ct(nat(src=10.0.0.2-10.0.0.1))", 0),
        ("ct(helper=this-name-is-too-long)", 0),
        ("psample()", 0),
        ("psample(cookie=0x01)", 0),
        ("psample(group=12,cookie=0x010203,group=12)", 0),
        ("psample(group=12,cookie=0x0102030405060708090a0b0c0d0e0f0f0f)", 0),
        ("sample(sample=100.1%,actions(1))", 0),
        ("userspace(pid=1,userdata(123))", 0),
        ("push_nsh(mdtype=3)", 0),
        (
            "tnl_push(tnl_port(6),header(size=50,type=4,eth(dst=f8:bc:12:44:34:b6,\
          src=f8:bc:12:46:58:e0,dl_type=0x0800),ipv4(src=1.1.2.88,dst=1.1.2.92,proto=17,tos=0,\
          ttl=64,frag=0x4000),udp(src=0,dst=6081,csum=0x0),geneve(vni=0x7b)),out_port(1))",
            0,
        ),
        (&deep, 0),
        (&nested, 2),
        (&many, 2 * 8191),
    ] {
        let error = parse_actions(actions, None).unwrap_err();
        assert_eq!(error.position, position, "{actions}");
        assert_eq!(error.rest, actions[position..]);
    }
}

fn action() -> impl Strategy<Value = Action> {
    let simple = prop_oneof![
        any::<u32>().prop_map(Action::Output),
        any::<u32>().prop_map(Action::LoadBalancedOutput),
        any::<u32>().prop_map(Action::Truncate),
        any::<u32>().prop_map(Action::Recirculate),
        any::<u32>().prop_map(Action::Meter),
        any::<u32>().prop_map(Action::TunnelPop),
        Just(Action::PopVlan),
        Just(Action::PopEthernet),
        Just(Action::PopNsh),
        Just(Action::ConntrackClear),
        any::<(u16, u16)>().prop_map(|(tpid, tci)| Action::PushVlan { tpid, tci }),
        any::<(u32, u16)>().prop_map(|(entry, eth_type)| Action::PushMpls { entry, eth_type }),
        any::<(u32, u16)>().prop_map(|(entry, eth_type)| Action::AddMpls {
            entry,
            eth_type,
            layer3: false
        }),
        any::<u16>().prop_map(|eth_type| Action::PopMpls { eth_type }),
        any::<([u8; 6], [u8; 6])>().prop_map(|(source, destination)| Action::PushEthernet {
            source: MacAddress(source),
            destination: MacAddress(destination),
        }),
        any::<u32>().prop_map(|basis| Action::Hash { algorithm: HashAlgorithm::L4, basis }),
        any::<u32>()
            .prop_map(|basis| Action::Hash { algorithm: HashAlgorithm::SymmetricL4, basis }),
        (any::<u32>(), vec(1..=255u8, 0..=16))
            .prop_map(|(group, cookie)| Action::Psample { group, cookie }),
        conntrack().prop_map(|conntrack| Action::Conntrack(Box::new(conntrack))),
        userspace().prop_map(|userspace| Action::Userspace(Box::new(userspace))),
        any::<([u8; 4], u32, [u32; 4])>().prop_map(|([flags, ttl, np, si], path, context)| {
            Action::PushNsh(Box::new(PushNsh {
                flags: flags & 3,
                ttl: ttl & 63,
                next_protocol: np,
                service_path: path >> 8,
                service_index: si,
                metadata: NshMetadata::Type1(context),
            }))
        }),
        any::<(u64, u32, u8)>().prop_map(|(id, destination, ttl)| {
            let mut tunnel = TunnelKey::default();
            tunnel.id.set(id);
            tunnel.ipv4_dst.set(destination);
            tunnel.ttl = ttl;
            tunnel.flags.set(8);
            Action::SetTunnel(Box::new(tunnel))
        }),
    ];
    simple.prop_recursive(3, 20, 4, |inner| {
        let list = || vec(inner.clone(), 0..4);
        prop_oneof![
            list().prop_map(Action::Clone),
            (0..=1000u32, list()).prop_map(|(permille, actions)| {
                let probability = (f64::from(u32::MAX) * f64::from(permille) / 1000.0).round();
                Action::Sample { probability: probability as u32, actions }
            }),
            (any::<u16>(), list(), list()).prop_map(|(length, greater, less_equal)| {
                Action::CheckPacketLength { length, greater, less_equal }
            }),
        ]
    })
}

fn conntrack() -> impl Strategy<Value = ConntrackAction> {
    let name = || prop::option::of("[a-z][a-z0-9_]{0,14}");
    let nat = prop_oneof![
        Just(None),
        Just(Some(Nat::default())),
        any::<([u8; 4], u16, bool, bool)>().prop_map(|(address, port, source, random)| {
            let kind = if source { NatKind::Source } else { NatKind::Destination };
            Some(Nat {
                kind: Some(kind),
                addresses: Some((address.into(), None)),
                ports: (port > 0).then_some((port, None)),
                random,
                ..Default::default()
            })
        }),
        any::<([u8; 16], [u8; 16], u16, u16)>().prop_map(|(one, two, port, last)| {
            let (first, end) = (one.min(two), one.max(two));
            let (low, high) = (port.min(last).max(1), port.max(last).max(2));
            Some(Nat {
                kind: Some(NatKind::Source),
                addresses: Some((first.into(), (first != end).then(|| end.into()))),
                ports: Some((low, (low != high).then_some(high))),
                persistent: true,
                hash: true,
                ..Default::default()
            })
        }),
    ];
    (any::<(u8, u16, u32, u32, u128, u128)>(), name(), name(), nat).prop_map(
        |((kind, zone, mark, mark_mask, label, label_mask), helper, timeout, nat)| {
            ConntrackAction {
                commit: kind % 3 == 1,
                force: kind % 3 == 2,
                zone,
                mark: (mark_mask & 1 != 0).then_some((mark, mark_mask)),
                label: (label_mask & 1 != 0).then_some((label, label_mask)),
                helper,
                timeout,
                nat,
            }
        },
    )
}

fn userspace() -> impl Strategy<Value = Userspace> {
    let userdata = prop_oneof![
        Just(Userdata::None),
        (0..128u32).prop_map(Userdata::SlowPath),
        vec(any::<u8>(), 0..20).prop_map(Userdata::Raw),
        any::<u32>().prop_map(|output_port| Userdata::Ipfix { output_port }),
        any::<(u16, u32)>().prop_map(|(tci, output)| {
            let vlan_tci = if tci & 0xefff == 0 { 0 } else { tci | 0x1000 };
            Userdata::SFlow { vlan_tci, output }
        }),
        any::<(u16, bool, bool, u32, u64, u16, u16)>().prop_map(
            |(reason, dont_send, continuation, recirc_id, rule_cookie, controller_id, max_len)| {
                Userdata::Controller {
                    reason,
                    dont_send,
                    continuation,
                    recirc_id,
                    rule_cookie,
                    controller_id,
                    max_len,
                }
            }
        ),
        any::<(u16, u32, u32, u32, u32)>().prop_map(|(probability, set, domain, point, port)| {
            Userdata::FlowSample {
                probability,
                collector_set_id: set,
                observation_domain: domain,
                observation_point: point,
                output_port: port,
                direction: match port % 3 {
                    0 => SampleDirection::Default,
                    1 => SampleDirection::Ingress,
                    _ => SampleDirection::Egress,
                },
            }
        }),
    ];
    (any::<(u32, bool)>(), userdata, prop::option::of(any::<u32>())).prop_map(
        |((pid, include_actions), userdata, tunnel_out_port)| Userspace {
            pid,
            userdata,
            include_actions,
            tunnel_out_port,
        },
    )
}

proptest! {
    #[test]
    fn actions_survive_text(actions in vec(action(), 1..6)) {
        let printed = text(&actions);
        prop_assert_eq!(parse_actions(&printed, None), Ok(actions), "{}", printed);
    }

    #[test]
    fn damaged_actions_do_not_break_the_parser(
        actions in vec(action(), 1..6),
        at in any::<prop::sample::Index>(),
        with in ".{0,2}",
    ) {
        let mut printed = text(&actions);
        let at = at.index(printed.len());
        printed.replace_range(at..at + 1, &with);
        let _ = parse_actions(&printed, None);
    }
}
