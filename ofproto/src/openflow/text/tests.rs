use proptest::prelude::*;

use super::*;
use crate::openflow::action::Action;
use crate::openflow::action::tests::any_action;
use crate::openflow::flow_match::Match;
use crate::openflow::oxm::tests::any_match;
use crate::openflow::port::PortNo;
use crate::openflow::slot::Slot;

fn match_text(flow_match: &Match) -> String {
    let mut out = String::new();
    print_match(&mut out, flow_match, DEFAULT_PRIORITY, &NoNames);
    out
}

fn action_text(actions: &[Action], names: &dyn Names) -> String {
    let mut out = String::new();
    print_actions(&mut out, actions, names);
    out
}

#[test]
fn matches_keep_their_text() {
    let texts = [
        "",
        "in_port=1",
        "in_port=LOCAL",
        "tcp,nw_src=10.0.0.0/8,tp_dst=80",
        "tcp6,ipv6_src=fe80::1,tcp_flags=+syn-ack",
        "udp,nw_tos=32,nw_ttl=3,nw_frag=first",
        "icmp6,icmp_type=135,icmp_code=0,nd_target=::1,nd_sll=02:00:00:00:00:01",
        "arp,arp_spa=192.168.0.1,arp_op=2,arp_sha=02:00:00:00:00:01",
        "ct_state=-new+est+trk,ct_zone=5,ct_mark=0x7/0xf,ip",
        "reg0=0x5,reg3=0/0x1,metadata=0x12",
        "tun_id=0x7,tun_src=1.2.3.4,tun_flags=+oam",
        "dl_vlan=3,dl_vlan_pcp=2",
        "vlan_tci=0x0000",
        "dl_src=02:00:00:00:00:00/ff:00:00:00:00:00,dl_type=0x1234",
        "mpls,mpls_label=5,mpls_bos=1",
        "tun_metadata0=0x1234,tun_metadata1=0x1/0xf,tun_metadata2",
        "packet_type=(1,0x894f),nsh_mdtype=1,nsh_spi=0x3,nsh_si=255",
    ];
    for text in texts {
        assert_eq!(parse_match(text, &NoNames).map(|m| match_text(&m)), Ok(text.into()), "{text}");
    }
}

#[test]
fn actions_keep_their_text() {
    let texts = [
        "drop",
        "output:1,LOCAL,CONTROLLER:128",
        "mod_vlan_vid:3,strip_vlan,push_vlan:0x8100,set_field:10.0.0.1->ip_src",
        "load:0x5->NXM_NX_REG0[3..6],move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
        "set_field:0x1/0xff->reg1,push:NXM_NX_REG0[],pop:NXM_NX_REG1[]",
        "controller(reason=invalid_ttl,max_len=10,id=3,userdata=01.02,pause)",
        "resubmit(,3),resubmit:4,resubmit(1,2,ct)",
        "learn(table=2,idle_timeout=10,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],eth_type=0x800,\
         load:0x1->NXM_NX_REG0[],output:NXM_OF_IN_PORT[])",
        "ct(commit,table=1,zone=5,nat(src=10.0.0.1-10.0.0.9:80-90,random),\
         exec(set_field:0x1->ct_mark),alg=ftp)",
        "ct(nat(dst=[fe80::1]:80)),ct_clear",
        "conjunction(3,1/2)",
        "multipath(symmetric_l4,50,modulo_n,4,0,NXM_NX_REG0[])",
        "bundle(eth_src,0,hrw,ofport,members:4,8),bundle_load(eth_src,0,active_backup,ofport,\
         NXM_NX_REG0[],members:4)",
        "clone(output:1,clone(dec_ttl(1,2))),note:01.02.00.00.00.00",
        "sample(probability=3,collector_set_id=1,obs_domain_id=2,obs_point_id=NXM_NX_REG0[],\
         sampling_port=5,egress)",
        "encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),decap(packet_type(ns=0,type=0))",
        "check_pkt_larger(1500)->NXM_NX_REG0[0],output(port=1,max_len=100),fin_timeout(idle_timeout=5)",
        "meter:3,output:2,clear_actions,write_actions(group:1),write_metadata:0x1/0xff,goto_table:7",
    ];
    for text in texts {
        let actions = parse_actions(text, &NoNames).unwrap();
        assert_eq!(action_text(&actions, &NoNames), text);
    }
}

struct Two;

impl Names for Two {
    fn port(&self, port: PortNo) -> Option<&str> {
        (port == PortNo(2)).then_some("eth-two")
    }

    fn port_by_name(&self, name: &str) -> Option<PortNo> {
        (name == "eth-two").then_some(PortNo(2))
    }

    fn table(&self, table: u8) -> Option<&str> {
        (table == 7).then_some("acl")
    }

    fn table_by_name(&self, name: &str) -> Option<u8> {
        (name == "acl").then_some(7)
    }
}

#[test]
fn names_stand_for_numbers() {
    let actions = parse_actions("output:eth-two,goto_table:acl", &Two).unwrap();
    assert_eq!(action_text(&actions, &Two), "output:\"eth-two\",goto_table:acl");
    let flow_match = parse_match("in_port=eth-two", &Two).unwrap();
    assert_eq!(flow_match.get(Slot::IN_PORT), (2, 0xffff));
}

#[test]
fn errors_name_the_place_and_the_word() {
    let error = parse_match("in_port=1,nw_srcc=10.0.0.1", &NoNames).unwrap_err();
    assert_eq!((error.position, error.word.as_str()), (10, "nw_srcc"));
    assert_eq!(error.to_string(), "nw_srcc: unknown keyword (at character 11)");
    let error = parse_match("tcp,nw_src=10.0.0", &NoNames).unwrap_err();
    assert_eq!((error.position, error.word.as_str()), (11, "10.0.0"));
    let error = parse_match("tp_src=80", &NoNames).unwrap_err();
    assert_eq!(error.message, "prerequisites of the field are not met");
    let error = parse_actions("output:1,clone(mod_vlan_vid:9999)", &NoNames).unwrap_err();
    assert_eq!((error.position, error.word.as_str()), (28, "9999"));
    let error = parse_actions("drop,output:1", &NoNames).unwrap_err();
    assert_eq!((error.position, error.word.as_str()), (0, "drop"));
    assert!(parse_actions("goto_table:1,output:2", &NoNames).is_err());
    assert!(parse_actions("ct(exec(output:1))", &NoNames).is_err());
}

#[test]
fn other_words_of_a_flow_can_be_taken() {
    let mut priority = 0;
    let flow_match = parse_match_words("priority=5,ip", &NoNames, &mut |word, value| {
        (word == "priority").then(|| {
            priority = value.parse().map_err(|_| "bad priority".to_owned())?;
            Ok(())
        })
    });
    assert_eq!((priority, match_text(&flow_match.unwrap()).as_str()), (5, "ip"));
}

fn message_text(message: &[u8]) -> String {
    let mut out = String::new();
    print_message(&mut out, message, &NoNames);
    out
}

#[test]
fn messages_have_their_text() {
    use crate::openflow::message::{FlowMod, FlowModCommand, Role, RoleMessage, encode_plain};
    use crate::openflow::{kind::Kind, message, version::Version};

    let plain = encode_plain(Kind::BarrierRequest11, Version::V13, 5, &[]);
    assert_eq!(message_text(&plain), "OFPT_BARRIER_REQUEST (OF1.3) (xid=0x5):\n");
    let role = RoleMessage { role: Role::Primary, generation_id: Some(3) };
    let role = role.encode(Kind::RoleReply12, Version::V12, 1);
    let text = "OFPT_ROLE_REPLY (OF1.2) (xid=0x1): role=primary generation_id=3\n";
    assert_eq!(message_text(&role), text);
    let flow_mod = FlowMod {
        command: FlowModCommand::Add,
        flow_match: parse_match("tcp,in_port=1", &NoNames).unwrap(),
        priority: 7,
        cookie: 0,
        cookie_mask: 0,
        new_cookie: 9,
        modify_cookie: false,
        table_id: 2,
        idle_timeout: 5,
        hard_timeout: 0,
        importance: 0,
        buffer_id: message::NO_BUFFER,
        out_port: PortNo::NONE,
        out_group: message::GROUP_ANY,
        flags: message::FlowFlags(1),
        actions: parse_actions("output:3", &NoNames).unwrap(),
        normalized: false,
    };
    let flow_mod = flow_mod.encode(Version::V13, 2, message::FlowFormat::default());
    let text = "OFPT_FLOW_MOD (OF1.3) (xid=0x2): ADD table:2 priority=7,tcp,in_port=1 cookie:0x9 \
                idle:5 send_flow_rem actions=output:3\n";
    assert_eq!(message_text(&flow_mod), text);
    let truncated = "OFPT_FLOW_MOD (OF1.3) (xid=0x2):\n\
                     (***truncated to 20 bytes from 96***)\n";
    assert_eq!(message_text(&flow_mod[..20]), truncated);
    assert_eq!(message_text(&[4, 99, 0, 8, 0, 0, 0, 0]), "***decode error: OFPBRC_BAD_TYPE***\n");
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn printed_actions_can_be_read(actions in prop::collection::vec(any_action(), 0..5)) {
        let text = action_text(&actions, &NoNames);
        let again = parse_actions(&text, &NoNames).unwrap();
        prop_assert_eq!(action_text(&again, &NoNames), text);
    }

    #[test]
    fn printing_any_match_does_not_panic(flow_match in any_match()) {
        let text = match_text(&flow_match);
        if let Ok(again) = parse_match(&text, &NoNames) {
            prop_assert_eq!(match_text(&again), text);
        }
    }

    #[test]
    fn printing_random_messages_does_not_panic(
        version in 1u8..7,
        kind in 0u8..36,
        mut body in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let len = body.len() as u8 + 8;
        let mut message = vec![version, kind, 0, len, 0, 0, 0, 1];
        message.append(&mut body);
        message_text(&message);
    }

    #[test]
    fn random_text_does_not_panic(
        words in prop::collection::vec(
            prop_oneof![
                Just("learn(".to_owned()), Just("ct(".to_owned()), Just("nat(src=".to_owned()),
                Just("->".to_owned()), Just("reg0[".to_owned()), Just("tcp,tp_src=".to_owned()),
                Just("set_field:".to_owned()), Just("encap(nsh(".to_owned()), "[ -~é]{0,6}",
            ],
            0..8,
        ),
    ) {
        let text = words.concat();
        let _ = parse_actions(&text, &NoNames);
        let _ = parse_match(&text, &NoNames);
    }
}
