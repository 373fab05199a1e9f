//! Text of flows, both ways.

use proptest::collection::vec;
use proptest::prelude::*;

use super::generate::{key, mask};
use super::*;

fn text(key: &FlowKey, mask: Option<&FlowMask>, verbose: bool) -> String {
    FlowText { key, mask, verbose, names: None, vlan_limit: MAX_VLANS }.to_string()
}

/// A flow with masks is printed as it was read.
fn same(flow: &str) {
    let parsed = parse_flow(flow, None, MAX_VLANS).unwrap();
    assert_eq!(text(&parsed.key, Some(&parsed.mask), false), flow);
}

/// A label stack whose bottom is deeper than the key, or missing, prints as what the key has of it,
/// which is not a whole packet.
fn has_bottom(key: &FlowKey) -> bool {
    let mpls = matches!(key.eth_type.get(), 0x8847 | 0x8848);
    !mpls || key.mpls.iter().any(|entry| entry.get() & 0x100 != 0)
}

const FRONT: &str = "recirc_id(0),in_port(1),packet_type(ns=0,id=0),";

#[test]
fn prints_masked_flows_as_it_reads_them() {
    for rest in [
        "eth_type(0x0800),ipv4(frag=no)",
        "eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x0806)",
        "eth(src=50:54:00:00:00:05/ff:ff:ff:00:00:00),eth_type(0x1234)",
        "eth_type(0x0800),ipv4(src=10.0.0.0/255.0.0.0,dst=10.1.2.3,proto=6,tos=0x10/0xfc,ttl=64,\
         frag=first),tcp(src=80,dst=1024/0xfc00),tcp_flags(+syn-ack)",
        "eth_type(0x0800),ipv4(proto=17,frag=later)",
        "eth_type(0x0800),ipv4(proto=6,frag=no),tcp(src=8),tcp_flags(syn|[800])",
        "eth_type(0x0800),ipv4(proto=132,frag=no),sctp(dst=9)",
        "eth_type(0x0800),ipv4(proto=1,frag=no),icmp(type=8,code=0)",
        "eth_type(0x86dd),ipv6(src=2001:db8::1/ffff:ffff::,dst=::2,label=0xfedcb,proto=58,\
         tclass=0x2/0x3,hlimit=255,frag=no),icmpv6(type=135,code=0),\
         nd(target=fe80::1,sll=00:00:00:00:00:01)",
        "eth_type(0x86dd),ipv6(src=::1.2.3.4,dst=::ffff:1.2.3.4/::0.1.0.0,frag=no)",
        "eth_type(0x86dd),ipv6(src=::1,dst=::ffff,frag=no)",
        "eth_type(0x86dd),ipv6(label=0/0xf0,proto=17,frag=no),udp(src=53)",
        "eth_type(0x0806),arp(sip=1.2.3.4,tip=5.6.7.8,op=1,sha=00:0f:10:11:12:13,\
         tha=00:14:15:16:17:18/ff:ff:ff:ff:ff:00)",
        "eth_type(0x8847),mpls(label=100/0xfffff,tc=3/0,ttl=64/0x0,bos=1/1)",
        "eth_type(0x8847),mpls(label=1,tc=2,ttl=3,bos=0,label=4,tc=5,ttl=6,bos=1)",
        "eth_type(0x894f),nsh(flags=0,ttl=63,mdtype=1,np=3,spi=0x1234,si=255,c1=0x1,\
         c2=0x0/0x0000ffff,c4=0xffffffff)",
        "eth_type(0x8100),vlan(vid=5,pcp=3),encap(eth_type(0x0800),ipv4(frag=no))",
        "eth_type(0x88a8),vlan(vid=5/0xff0),encap(eth_type(0x8100),vlan(vid=6),\
         encap(eth_type(0x0806)))",
        "eth(src=00:00:00:00:00:01),eth_type(0/0xffff)",
    ] {
        same(&format!("{FRONT}{}", rest.replace([' ', '\n'], "")));
    }
    for flow in [
        "recirc_id(0),eth(),eth_type(0x0800),ipv4(frag=no)",
        "recirc_id(0x1f),dp_hash(0x5/0xf),skb_priority(0x2),in_port(7/0xff),skb_mark(0x1/0x3),\
         packet_type(ns=0,id=0),eth_type(0x1234)",
        "recirc_id(0),in_port(1),ct_state(-new+est-rel+trk),ct_zone(0x5),ct_mark(0x1/0xff),\
         ct_label(0x123456789abcdef/0xffffffffffffffff),\
         ct_tuple4(src=10.1.1.1,proto=6,tp_dst=80),eth(),eth_type(0x0800),ipv4(frag=no)",
        "recirc_id(0),in_port(1),ct_state(+trk),\
         ct_tuple6(src=fc00::1,dst=fc00::2,proto=17,src_port=1,dst_port=2),eth(),\
         eth_type(0x86dd),ipv6(frag=no)",
        "recirc_id(0),tunnel(tun_id=0x7b,src=1.1.2.92,dst=1.1.2.88,ttl=64,tp_dst=4789,\
         vxlan(gbp(id=10/0xff,flags=0xb)),flags(-df+csum+key)),in_port(4),eth(),eth_type(0x1234)",
        "recirc_id(0),tunnel(ipv6_src=fc00::1,ipv6_dst=fc00::2,ttl=0/0x1,\
         geneve({class=0x102,type=0x80,len=4,0xa/0xff}{class=0xffff,type=0x1,len=0}),\
         flags(+oam-df-csum)),in_port(4),eth(),eth_type(0x1234)",
        "recirc_id(0),in_port(1),packet_type(ns=1,id=0x800),eth_type(0x0800),ipv4(frag=no)",
    ] {
        same(&flow.replace([' ', '\n'], ""));
    }
}

#[test]
fn prints_whole_keys() {
    let flow = "recirc_id(0),dp_hash(0),skb_priority(0),in_port(1),skb_mark(0),ct_state(0x21),\
                ct_zone(0),ct_mark(0),ct_label(0),packet_type(ns=0,id=0),\
                eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x0800),\
                ipv4(src=192.168.0.1,dst=192.168.0.2,proto=1,tos=0,ttl=64,frag=no),\
                icmp(type=8,code=0)";
    let (key, fitness) = parse_key(flow, None, MAX_VLANS).unwrap();
    assert_eq!(fitness, Fitness::Perfect);
    assert_eq!(text(&key, None, false), flow);
}

#[test]
fn prints_verbose_flows_with_empty_masks_and_names() {
    let flow = parse_flow(
        "in_port(1),eth(dst=50:54:00:00:00:07),eth_type(0x0800),ipv4(proto=6,frag=no),tcp(src=80)",
        None,
        MAX_VLANS,
    )
    .unwrap();
    let names: PortNames = [(1, "p1".to_owned())].into_iter().collect();
    let text = FlowText {
        key: &flow.key,
        mask: Some(&flow.mask),
        verbose: true,
        names: Some(&names),
        vlan_limit: MAX_VLANS,
    };
    assert_eq!(
        text.to_string(),
        "recirc_id(0),dp_hash(0/0),skb_priority(0/0),in_port(p1),skb_mark(0/0),ct_state(0/0),\
         ct_zone(0/0),ct_mark(0/0),ct_label(0/0),packet_type(ns=0/0,id=0/0),\
         eth(src=00:00:00:00:00:00/00:00:00:00:00:00,dst=50:54:00:00:00:07),eth_type(0x0800),\
         ipv4(src=0.0.0.0/0.0.0.0,dst=0.0.0.0/0.0.0.0,proto=6,tos=0/0,ttl=0/0,frag=no),\
         tcp(src=80,dst=0/0)"
    );
    let again = parse_flow(&text.to_string(), Some(&names), MAX_VLANS).unwrap();
    assert_eq!((&again.key, &again.mask), (&flow.key, &flow.mask));
}

#[test]
fn a_tag_too_many_is_an_ethertype() {
    let mut key = FlowKey::default();
    key.set(Field::VlanTpid, 0x88a8);
    key.set(Field::VlanTci, 0x1005);
    key.set(Field::EthType, 0x8100);
    let text = FlowText { key: &key, mask: None, verbose: false, names: None, vlan_limit: 1 };
    let text = text.to_string();
    assert!(
        text.ends_with(",eth_type(0x88a8),vlan(vid=5,pcp=0),encap(eth_type(0x8100))"),
        "{text}"
    );
    assert_eq!(parse_key(&text, None, 1).unwrap(), (key, Fitness::Perfect));
}

#[test]
fn errors_name_the_position() {
    let deep = format!("{}{}", "encap(".repeat(40), ")".repeat(40));
    for (flow, position) in [
        ("in_port(1),eth(src=00:01:02:03:04:05),bogus(1)", 38),
        ("in_port(x)", 0),
        ("in_port(1", 0),
        ("in_port(1),ipv4(src=1.2.3.4.5)", 11),
        ("in_port(1), ipv4(proto=256)", 12),
        ("eth(src=00:01:02:03:04:05 )", 0),
        ("eth_type(0x8100),encap(eth_type(0x0800),ipv4(ttl=x))", 17),
        ("ct_label(0x1ffffffffffffffffffffffffffffffff)", 0),
        ("tcp_flags(+syn+syn)", 0),
        ("tcp_flags(+what)", 0),
        ("arp(op=256)", 0),
        ("mpls(label=1,label=2,label=3,label=4)", 0),
        ("ufid:123", 0),
        ("tunnel(ttl=1,geneve({class=1,type=1,len=3,0x0}))", 0),
        ("\u{e9}t(1)", 0),
        (&deep, 0),
    ] {
        let error = parse_flow(flow, None, MAX_VLANS).unwrap_err();
        let wanted =
            SyntaxError { position, rest: flow[position..].to_owned(), is_too_long: false };
        assert_eq!(error, FlowParseError::Syntax(wanted), "{flow}");
        assert_eq!(error.to_string(), format!("syntax error at {}", &flow[position..]));
    }
}

#[test]
fn contradictions_are_named() {
    for (flow, wanted) in [
        ("in_port(1),in_port(2)", FlowError::Duplicate(Attribute::InPort)),
        ("tunnel(dst=1.1.1.1)", FlowError::NoTunnelTtl),
        ("eth(),eth_type(5)", FlowError::EthType(5)),
        ("eth()", FlowError::NoEthTypeMask),
        (
            "eth(),eth_type(0x0800/0xff00),ipv4(ttl=1)",
            FlowError::MaskedEthType { attribute: Attribute::Ipv4, value: 0x800, mask: 0xff00 },
        ),
        (
            "eth(),eth_type(0x0800),ipv4(proto=6/0xf),tcp(src=1)",
            FlowError::MaskedProtocol { attribute: Attribute::Tcp, mask: 0xf },
        ),
        (
            "eth(),eth_type(0x86dd),ipv6(proto=58),icmpv6(type=135/0xf7,code=0),nd(target=::1)",
            FlowError::MaskedIcmpType(Attribute::Nd),
        ),
        ("eth(),eth_type(0x8100),vlan(vid=1,cfi=0),encap()", FlowError::VlanWithoutCfi(1)),
        ("eth(),eth_type(0x8847),mpls(bos=1,bos=1)", FlowError::InnerBottom(0)),
    ] {
        let error = parse_flow(flow, None, MAX_VLANS).unwrap_err();
        assert_eq!(error, FlowParseError::Flow(wanted), "{flow}");
    }
}

#[test]
fn missing_and_surplus_attributes_are_named() {
    let little = |flow| parse_key(flow, None, MAX_VLANS).unwrap().1;
    assert_eq!(
        little("eth(),eth_type(0x0800),ipv4(proto=6)"),
        Fitness::TooLittle(vec![Attribute::Tcp])
    );
    assert_eq!(
        little("eth(),eth_type(0x0806),arp(),udp(src=1)"),
        Fitness::TooMuch(vec![Attribute::Udp])
    );
    assert_eq!(little("eth(),eth_type(0x0800),ipv4()"), Fitness::Perfect);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn keys_survive_text(key in key()) {
        let printed = text(&key, None, false);
        let (again, fitness) = parse_key(&printed, None, MAX_VLANS).unwrap();
        // Text has no room for these.
        let mut wanted = key.clone();
        for field in [Field::IgmpGroup, Field::NdOption] {
            wanted.set(field, 0);
        }
        for field in [Field::NdTarget, Field::ArpSha, Field::ArpTha] {
            // Extraction finds neighbour discovery over IPv4, too.
            if !field.prerequisite().holds(&key) {
                wanted.set(field, 0);
            }
        }
        if key.eth_type.get() == 0 {
            // A frame shorter than its header.
            wanted.eth_type.set(ETH_TYPE_NONE);
        }
        let ports = matches!(
            (key.eth_type.get(), key.ip_proto),
            (0x0800, 1) | (0x86dd, 58) | (_, 6 | 17 | 132)
        );
        if !ports {
            wanted.set(Field::TpSrc, 0);
            wanted.set(Field::TpDst, 0);
        }
        if has_bottom(&key) {
            prop_assert_eq!(&again, &wanted, "{}", printed);
            prop_assert_eq!(fitness, Fitness::Perfect, "{}", printed);
        }
    }

    #[test]
    fn masked_flows_survive_text(
        key in key(),
        choices in vec(any::<u8>(), Field::ALL.len()),
        partial in any::<u128>(),
    ) {
        prop_assume!(has_bottom(&key));
        let mask = mask(&key, &choices, partial);
        for verbose in [false, true] {
            if key.tunnel.erspan_version != 0 && !verbose {
                // Printed as OVS does, without the version that tells how to read it.
                continue;
            }
            let printed = text(&key, Some(&mask), verbose);
            let again = parse_flow(&printed, None, MAX_VLANS);
            let Ok(again) = again else {
                prop_assert!(false, "{printed}: {again:?}");
                return Ok(());
            };
            let reprinted = text(&again.key, Some(&again.mask), verbose);
            prop_assert_eq!(reprinted, printed);
        }
    }

    #[test]
    fn no_text_breaks_the_parser(text in "[a-z_]{0,9}[(=/|+,)0-9a-fx:. -]{0,30}") {
        let _ = parse_flow(&text, None, MAX_VLANS);
    }

    #[test]
    fn damaged_flows_do_not_break_the_parser(key in key(), at in any::<prop::sample::Index>(), with in ".{0,2}") {
        let mut printed = text(&key, None, false);
        let at = at.index(printed.len());
        printed.replace_range(at..at + 1, &with);
        let _ = parse_flow(&printed, None, MAX_VLANS);
    }
}
