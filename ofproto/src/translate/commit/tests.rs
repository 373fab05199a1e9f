//! Texts of the actions for packets that rules changed.

use dpif::action::ActionsText;
use dpif::flow::parse_key;
use proptest::prelude::*;

use super::*;

const TCP: &str = "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),eth_type(0x0800),\
    ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,tos=0x2,ttl=64,frag=no),tcp(src=80,dst=81),\
    tcp_flags(0)";
const ICMP: &str = "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),eth_type(0x0800),\
    ipv4(src=10.0.0.1,dst=10.0.0.2,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0)";
const ARP: &str = "in_port(1),eth(src=00:00:00:00:00:01,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),\
    arp(sip=10.0.0.1,tip=10.0.0.2,op=1,sha=00:00:00:00:00:01,tha=00:00:00:00:00:00)";
const ND: &str = "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),eth_type(0x86dd),\
    ipv6(src=fe80::1,dst=fe80::2,label=0x1,proto=58,tclass=0,hlimit=255,frag=no),\
    icmpv6(type=135,code=0),nd(target=fe80::2,sll=00:00:00:00:00:01)";
const MPLS: &str = "in_port(1),eth(src=00:00:00:00:00:01,dst=00:00:00:00:00:02),eth_type(0x8847),\
    mpls(label=1,tc=0,ttl=64,bos=0,label=2,tc=0,ttl=64,bos=1)";
const NSH_TYPE1: &str = "in_port(1),packet_type(ns=1,id=0x894f),eth_type(0x894f),\
    nsh(flags=0,ttl=63,mdtype=1,np=1,spi=0x1,si=255,c1=0x1,c2=0x2,c3=0x3,c4=0x4)";

fn flow(text: &str) -> Flow {
    let (packet, _) = parse_key(text, None, 2).unwrap();
    let mut flow = Flow::default();
    flow.packet = packet;
    flow
}

/// What came of committing a change: the text, whether it takes the slow path, and what was read.
struct Committed {
    text: String,
    slow: Option<u32>,
    read: Flow,
}

/// Commits what `change` does to the packet and writes into the mask, and checks that nothing is
/// left to commit.
fn commit_with(
    text: &str,
    pending: &Pending,
    masked_set: bool,
    change: impl FnOnce(&mut FlowKey, &mut FlowKey),
) -> Committed {
    let mut base = flow(text);
    let mut wanted = base.clone();
    let (mut read, mut actions) = (Flow::default(), vec![]);
    change(&mut wanted.packet, &mut read.packet);
    let options = CommitOptions { masked_set };
    let slow = commit(&mut base, &wanted, pending, &mut actions, &mut read, options);
    let text = match actions.is_empty() {
        true => String::new(),
        false => ActionsText { actions: &actions, names: None }.to_string(),
    };
    if *pending != Pending::Decap {
        assert_eq!(base, wanted, "{text}");
        let mut more = vec![];
        commit(&mut base, &wanted, &Pending::None, &mut more, &mut read, options);
        assert_eq!(more, []);
    }
    Committed { text, slow, read }
}

/// Sets whole fields.
fn set(fields: &[(Field, u128)]) -> impl FnOnce(&mut FlowKey, &mut FlowKey) {
    move |key, read| {
        for &(field, value) in fields {
            key.set(field, value);
            read.set(field, field.bits());
        }
    }
}

fn text_of(text: &str, fields: &[(Field, u128)]) -> String {
    let committed = commit_with(text, &Pending::None, true, set(fields));
    assert_eq!(committed.slow, None);
    committed.text
}

#[test]
fn an_unchanged_packet_needs_nothing() {
    for text in [TCP, ICMP, ARP, ND, MPLS, NSH_TYPE1] {
        let committed = commit_with(text, &Pending::None, true, |_, _| {});
        assert_eq!((committed.text.as_str(), committed.slow), ("", None));
        let mut packet_type = Flow::default();
        packet_type.packet.packet_namespace.set(0xffff);
        packet_type.packet.packet_type.set(0xffff);
        assert_eq!(committed.read, packet_type);
    }
}

#[test]
fn fields_are_set_in_the_order_of_the_layers() {
    let fields = [
        (Field::SkbMark, 7),
        (Field::SkbPriority, 5),
        (Field::TpDst, 8080),
        (Field::IpTtl, 63),
        (Field::Ipv4Dst, 0x0a00_0003),
        (Field::EthDst, 3),
    ];
    assert_eq!(
        text_of(TCP, &fields),
        "set(eth(dst=00:00:00:00:00:03)),set(ipv4(dst=10.0.0.3,ttl=63)),set(tcp(dst=8080)),\
         set(skb_priority(0x5)),set(skb_mark(0x7))"
    );
    assert_eq!(
        text_of(TCP, &[(Field::EthSrc, 4), (Field::EthDst, 3)]),
        "set(eth(src=00:00:00:00:00:04,dst=00:00:00:00:00:03))"
    );
}

#[test]
fn only_bits_that_were_read_or_written_are_set() {
    let dscp = |key: &mut FlowKey, read: &mut FlowKey| {
        key.set(Field::IpTos, 0x82);
        read.set(Field::IpTos, 0xfc);
        // Looked at, and not changed.
        read.set(Field::Ipv4Src, Field::Ipv4Src.bits());
    };
    let committed = commit_with(TCP, &Pending::None, true, dscp);
    assert_eq!(committed.text, "set(ipv4(tos=0x80/0xfc))");
    assert_eq!(committed.read.packet.get(Field::IpTos), 0xfc);
    assert_eq!(committed.read.packet.get(Field::IpTtl), 0);

    // A datapath that sets nothing but whole attributes, all of which then matter.
    let committed = commit_with(TCP, &Pending::None, false, dscp);
    assert_eq!(
        committed.text,
        "set(ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,tos=0x82,ttl=64,frag=no))"
    );
    assert_eq!(committed.read.packet.get(Field::IpTos), 0xff);
    assert_eq!(committed.read.packet.get(Field::IpTtl), 0xff);
}

#[test]
fn congestion_bits_of_tunnelled_packets_stay_unless_they_change() {
    let tunnelled = format!("tunnel(tun_id=0x1,src=1.1.1.1,dst=2.2.2.2,ttl=64,flags(key)),{TCP}");
    assert_eq!(text_of(&tunnelled, &[(Field::IpTos, 0x82)]), "set(ipv4(tos=0x80/0xfc))");
    assert_eq!(text_of(&tunnelled, &[(Field::IpTos, 0x81)]), "set(ipv4(tos=0x81))");
}

#[test]
fn what_the_kernel_cannot_set_takes_the_slow_path() {
    for (text, fields, expected) in [
        (
            ARP,
            &[(Field::Ipv4Src, 0x0a00_0009), (Field::IpProto, 2)][..],
            "set(arp(sip=10.0.0.9,op=2))",
        ),
        (ICMP, &[(Field::TpSrc, 0)], "set(icmp(type=0,code=0))"),
        (
            ND,
            &[(Field::NdTarget, 3), (Field::ArpSha, 4)],
            "set(nd(target=::3,sll=00:00:00:00:00:04))",
        ),
        (ND, &[(Field::TpDst, 1)], "set(icmpv6(type=135,code=1))"),
    ] {
        let committed = commit_with(text, &Pending::None, true, set(fields));
        assert_eq!(committed.slow, Some(slow_path::ACTION), "{text}");
        assert_eq!(committed.text, expected);
    }
    let committed = commit_with(ICMP, &Pending::None, true, set(&[(Field::TpSrc, 0)]));
    assert_eq!(committed.read.packet.get(Field::TpSrc), 0xffff);
    assert_eq!(committed.read.packet.get(Field::TpDst), 0xff);
}

#[test]
fn tags_that_differ_are_popped_and_pushed() {
    let tag = |vlan: u16| VlanKey { tci: (vlan | vlan::CFI).into(), tpid: ether_type::VLAN.into() };
    let tagged = TCP
        .replace("eth_type(0x0800),", "eth_type(0x8100),vlan(vid=7,pcp=0),encap(eth_type(0x0800),")
        + ")";
    let change = |vlans: [VlanKey; 2]| {
        move |key: &mut FlowKey, _: &mut FlowKey| {
            key.vlans = vlans;
        }
    };
    let none = VlanKey::default();
    for (text, vlans, expected, read) in [
        (TCP, [tag(9), none], "push_vlan(vid=9,pcp=0)", 0),
        (TCP, [tag(9), tag(8)], "push_vlan(vid=8,pcp=0),push_vlan(vid=9,pcp=0)", 0),
        (&tagged, [none, none], "pop_vlan", 0xffff),
        (&tagged, [tag(9), none], "pop_vlan,push_vlan(vid=9,pcp=0)", 0xffff),
        (&tagged, [tag(9), tag(7)], "push_vlan(vid=9,pcp=0)", 0),
    ] {
        let committed = commit_with(text, &Pending::None, true, change(vlans));
        assert_eq!(committed.text, expected);
        assert_eq!(committed.read.packet.get(Field::VlanTci), read);
        assert_eq!(committed.read.packet.get(Field::InnerVlanTci), 0);
    }
}

/// A label stack entry.
fn entry(label: u32, is_bottom: bool) -> u32 {
    label << 12 | u32::from(is_bottom) << 8 | 64
}

#[test]
fn labels_are_set_pushed_and_popped() {
    let change = |labels: [u32; 3], eth_type: u16| {
        move |key: &mut FlowKey, _: &mut FlowKey| {
            key.mpls = labels.map(Into::into);
            key.eth_type.set(eth_type);
        }
    };
    for (text, labels, eth_type, expected) in [
        (
            MPLS,
            [entry(9, false), entry(2, true), 0],
            ether_type::MPLS,
            "set(mpls(label=9,tc=0,ttl=64,bos=0))",
        ),
        (MPLS, [entry(2, true), 0, 0], ether_type::MPLS, "pop_mpls(eth_type=0x8847)"),
        (MPLS, [0; 3], ether_type::IPV4, "pop_mpls(eth_type=0x8847),pop_mpls(eth_type=0x800)"),
        (
            MPLS,
            [entry(8, false), entry(1, false), entry(2, true)],
            ether_type::MPLS,
            "push_mpls(label=8,tc=0,ttl=64,bos=0,eth_type=0x8847)",
        ),
        (
            MPLS,
            [entry(9, true), 0, 0],
            ether_type::MPLS,
            "pop_mpls(eth_type=0x8847),set(mpls(label=9,tc=0,ttl=64,bos=1))",
        ),
        (
            TCP,
            [entry(5, false), entry(4, true), 0],
            ether_type::MPLS_MULTICAST,
            "push_mpls(label=4,tc=0,ttl=64,bos=1,eth_type=0x8848),\
             push_mpls(label=5,tc=0,ttl=64,bos=0,eth_type=0x8848)",
        ),
    ] {
        let committed = commit_with(text, &Pending::None, true, change(labels, eth_type));
        assert_eq!((committed.text.as_str(), committed.slow), (expected, None));
    }
}

#[test]
fn service_headers_are_set_as_a_whole_or_by_mask() {
    let fields = [(Field::NshTtl, 62), (Field::NshC3, 9)];
    assert_eq!(text_of(NSH_TYPE1, &fields), "set(nsh(ttl=62,c3=0x9))");
    let committed = commit_with(NSH_TYPE1, &Pending::None, false, set(&fields));
    assert_eq!(
        committed.text,
        "set(nsh(flags=0,ttl=62,mdtype=1,np=1,spi=0x1,si=255,c1=0x1,c2=0x2,c3=0x9,c4=0x4))"
    );
}

#[test]
fn headers_are_encapsulated_and_decapsulated() {
    let encap = |nsh_options: &[u8]| Pending::Encap { nsh_options: nsh_options.to_vec() };

    // A service header of either type in front of the frame.
    let push = |md_type: u8| {
        move |key: &mut FlowKey, _: &mut FlowKey| {
            let in_port = key.in_port;
            *key = FlowKey::default();
            key.in_port = in_port;
            key.packet_namespace.set(1);
            key.packet_type.set(ether_type::NSH);
            key.eth_type.set(ether_type::NSH);
            (key.nsh.ttl, key.nsh.md_type, key.nsh.next_protocol) = (63, md_type, 3);
            key.nsh.path.set(0x1ff);
        }
    };
    let committed = commit_with(TCP, &encap(&[]), true, push(nsh::MD_TYPE1));
    assert_eq!(
        committed.text,
        "push_nsh(flags=0,ttl=63,mdtype=1,np=3,spi=0x1,si=255,c1=0x0,c2=0x0,c3=0x0,c4=0x0)"
    );
    let committed = commit_with(TCP, &encap(&[0x10, 0, 0, 4]), true, push(nsh::MD_TYPE2));
    assert_eq!(
        committed.text,
        "push_nsh(flags=0,ttl=63,mdtype=2,np=3,spi=0x1,si=255,md2=0x10000004)"
    );

    // An Ethernet header in front of that, and an address of it set at once.
    let committed = commit_with(NSH_TYPE1, &encap(&[]), true, |key, _| {
        (key.packet_namespace, key.packet_type) = Default::default();
        key.eth_dst = MacAddress([0, 0, 0, 0, 0, 9]);
    });
    assert_eq!(committed.text, "push_eth(src=00:00:00:00:00:00,dst=00:00:00:00:00:09)");

    // The Ethernet header goes without more ado, a service header for recirculation.
    let committed = commit_with(TCP, &Pending::None, true, |key, _| {
        (key.eth_src, key.eth_dst) = Default::default();
        key.packet_namespace.set(1);
        key.packet_type.set(ether_type::IPV4);
    });
    assert_eq!(committed.text, "pop_eth");
    let committed = commit_with(NSH_TYPE1, &Pending::Decap, true, |_, _| {});
    assert_eq!(committed.text, "pop_nsh()");

    // A label in front of everything. As in OVS, the base does not start with it for that.
    let mut base = flow(TCP);
    let mut wanted = base.clone();
    let key = &mut wanted.packet;
    key.packet_namespace.set(1);
    key.packet_type.set(ether_type::MPLS);
    key.eth_type.set(ether_type::MPLS);
    key.mpls[0].set(entry(3, true));
    let mut actions = vec![];
    let options = CommitOptions { masked_set: true };
    commit(&mut base, &wanted, &encap(&[]), &mut actions, &mut Flow::default(), options);
    let text = ActionsText { actions: &actions, names: None }.to_string();
    assert_eq!(text, "add_mpls(label=3,tc=0,ttl=64,bos=1,eth_type=0x8847)");
    (wanted.packet.packet_namespace, wanted.packet.packet_type) = Default::default();
    assert_eq!(base, wanted);
}

proptest! {
    /// Any stack of labels turns into any other, and the text says how.
    #[test]
    fn any_stack_of_labels_becomes_any_other(
        from in proptest::collection::vec(0u32..4, 0..=3),
        to in proptest::collection::vec(0u32..4, 0..=3),
    ) {
        let stack = |labels: &[u32]| {
            let mut flow = flow(TCP);
            if !labels.is_empty() {
                flow.packet.eth_type.set(ether_type::MPLS);
            }
            for (at, label) in labels.iter().enumerate() {
                flow.packet.mpls[at].set(entry(*label, at + 1 == labels.len()));
            }
            flow
        };
        let (mut base, wanted) = (stack(&from), stack(&to));
        let mut labels: Vec<u32> = stack(&from).packet.mpls.map(|entry| entry.get()).to_vec();
        let mut actions = vec![];
        let options = CommitOptions { masked_set: true };
        let slow = commit(
            &mut base, &wanted, &Pending::None, &mut actions, &mut Flow::default(), options,
        );
        prop_assert_eq!(slow, None);
        prop_assert_eq!(&base, &wanted);
        for action in actions {
            match action {
                Action::PushMpls { entry, .. } => labels.insert(0, entry),
                Action::PopMpls { .. } => drop(labels.remove(0)),
                Action::Set(set) => labels[0] = set.fields[0].value as u32,
                other => prop_assert!(false, "{:?}", other),
            }
        }
        labels.resize(3, 0);
        prop_assert_eq!(labels, wanted.packet.mpls.map(|entry| entry.get()).to_vec());
    }
}
