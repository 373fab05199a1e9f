use netdev::packet::{Descriptor, FramePool, NO_LAYER, VlanTag};
use proptest::collection::vec;
use proptest::prelude::*;

use super::reference::{self, Beside};
use super::*;
use crate::flow::generate::packet;
use crate::flow::metadata::Conntrack;
use crate::flow::{Field, TunnelKey};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().map(|digit| digit.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// What is wrong with a frame, its bytes, and the fields that remain beside those of Ethernet.
type Case = (&'static str, &'static str, &'static [(Field, u128)]);

const BOOK: &[Case] = &[
    (
        "IPv4 header of 44 bytes in a packet of 40",
        "02000000000202000000000108004b000028123400004006d28cc0000201c000020201010101010101010101010\
         10101010101010101010101010101",
        &[],
    ),
    (
        "IPv6 payload of 60 bytes with 20 there",
        "02000000000202000000000186dd60000000003c064020010db800000000000000000000000120010db80000000\
         000000000000000029c40005000000001000000005002040000000000",
        &[],
    ),
    (
        "neighbour solicitation whose option says 2040 bytes with 8 there",
        "02000000000202000000000186dd6000000000203aff20010db800000000000000000000000120010db80000000\
         000000000000000028700eb740000000020010db800000000000000000000000201ff020000000001",
        &[
            (Field::Ipv6Src, 0x2001_0db8_0000_0000_0000_0000_0000_0001),
            (Field::Ipv6Dst, 0x2001_0db8_0000_0000_0000_0000_0000_0002),
            (Field::IpProto, 58),
            (Field::IpTtl, 255),
            (Field::TpSrc, 135),
            (Field::NdTarget, 0x2001_0db8_0000_0000_0000_0000_0000_0002),
        ],
    ),
    (
        "TCP header of 60 bytes with 20 there",
        "020000000002020000000001080045000028123400004006e498c0000201c00002029c4000500000000100000000f\
         0020400eb4c0000",
        &[
            (Field::Ipv4Src, 0xc000_0201),
            (Field::Ipv4Dst, 0xc000_0202),
            (Field::IpProto, 6),
            (Field::IpTtl, 64),
        ],
    ),
    (
        "IGMPv3 report of 65535 records",
        "01005e00001602000000000108004500001c12340000010223a9c0000201c00002022200ddff0000ffff",
        &[
            (Field::Ipv4Src, 0xc000_0201),
            (Field::Ipv4Dst, 0xc000_0202),
            (Field::IpProto, 2),
            (Field::IpTtl, 1),
            (Field::TpSrc, 0x22),
            (Field::IgmpGroup, 0xffff),
        ],
    ),
    (
        "VXLAN header cut to 4 bytes",
        "020000000002020000000001080045000020123400004011e495c0000201c0000202823512b5000cdee708000000",
        &[
            (Field::Ipv4Src, 0xc000_0201),
            (Field::Ipv4Dst, 0xc000_0202),
            (Field::IpProto, 17),
            (Field::IpTtl, 64),
            (Field::TpSrc, 0x8235),
            (Field::TpDst, 4789),
        ],
    ),
    ("VLAN tag cut after 1 byte", "020000000002020000000001810000", &[]),
    (
        "LLDP with an Auto-Attach element of 1 byte",
        "0180c200000e02000000000188cc020704020000000001040305703006020078fe0500040d0b000000",
        &[],
    ),
    (
        "TCP with options",
        "020000000002020000000001080045000030123400004006e490c0000201c00002029c4000500000000100000000\
         7012040000000000020405b401030307",
        &[
            (Field::Ipv4Src, 0xc000_0201),
            (Field::Ipv4Dst, 0xc000_0202),
            (Field::IpProto, 6),
            (Field::IpTtl, 64),
            (Field::TpSrc, 40000),
            (Field::TpDst, 80),
            (Field::TcpFlags, 0x12),
        ],
    ),
    (
        "SNAP frame with ARP",
        "0200000000020200000000010024aaaa03000000080600010800060400010200000000010a0000010000000000\
         000a000002",
        &[
            (Field::EthType, 0x0806),
            (Field::Ipv4Src, 0x0a00_0001),
            (Field::Ipv4Dst, 0x0a00_0002),
            (Field::IpProto, 1),
            (Field::ArpSha, 0x0200_0000_0001),
        ],
    ),
];

fn book() -> impl Iterator<Item = (&'static str, Vec<u8>, FlowKey)> {
    BOOK.iter().map(|(name, text, fields)| {
        let packet = hex(&text.replace([' ', '\n'], ""));
        let mut key = FlowKey::default();
        key.set(Field::EthDst, number(&packet[0..6]));
        key.set(Field::EthSrc, number(&packet[6..12]));
        key.set(Field::EthType, number(&packet[12..14]));
        for (field, value) in *fields {
            key.set(*field, *value);
        }
        (*name, packet, key)
    })
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Puts `tags` VLAN tags behind the addresses.
fn tagged(packet: &[u8], tags: usize) -> Vec<u8> {
    let tag = [0x81, 0x00, 0x60, 0x05].repeat(tags);
    [&packet[..12], &tag, &packet[12..]].concat()
}

/// Compares with the reference, starting from the leftovers of another key.
fn check(packet: &[u8], beside: Beside, to: &mut PacketKey) {
    let mut descriptor = Descriptor::default();
    descriptor.l3_type = beside.l3_type;
    descriptor.set_vlan(beside.vlan);
    extract_bytes(packet, packet.len(), &mut descriptor, None, beside.vlan_limit, to);
    let (key, l3, l4) = reference::extract(packet, beside);
    assert_eq!(to.key(), &key, "{packet:02x?} {beside:?}");
    assert_eq!((descriptor.l3, descriptor.l4), (l3, l4), "{packet:02x?} {beside:?}");
    assert!(to.lines().contains(LineSet::used_by(&key)), "{:?} {key:?}", to.lines());
}

fn besides() -> Vec<Beside> {
    let tag = Some(VlanTag { tpid: 0x88a8, tci: 0x2007 });
    let mut all = vec![];
    for vlan_limit in 0..=MAX_VLANS {
        all.push(Beside { vlan_limit, ..Default::default() });
        all.push(Beside { vlan_limit, vlan: tag, ..Default::default() });
    }
    all
}

#[test]
fn malformed_packets_are_what_their_intact_headers_say() {
    for (name, packet, key) in book() {
        let mut to = PacketKey::default();
        extract_bytes(&packet, packet.len(), &mut Descriptor::default(), None, MAX_VLANS, &mut to);
        assert_eq!(to.key(), &key, "{name}");
    }
}

#[test]
fn every_cut_of_every_packet_reads_like_the_reference() {
    let mut to = PacketKey::default();
    for (_, packet, _) in book() {
        for tags in 0..=3 {
            let packet = tagged(&packet, tags);
            for length in 0..=packet.len() {
                for beside in besides() {
                    check(&packet[..length], beside, &mut to);
                }
            }
        }
        for l3_type in [0x0800, 0x86dd, 0x0806, 0x8847, 0x894f, 0x9000] {
            let beside = Beside { l3_type, ..Default::default() };
            for start in 0..packet.len() {
                check(&packet[start..], beside, &mut to);
            }
        }
    }
}

fn some_metadata() -> Metadata {
    let mut tunnel = TunnelKey::default();
    tunnel.id.set(7);
    tunnel.ipv4_dst.set(0x0a00_0001);
    tunnel.options[0] = 9;
    tunnel.options_length = 4;
    let original = OriginalTuple::Ipv4 {
        source: 1,
        destination: 2,
        protocol: 17,
        source_port: 3,
        destination_port: 4,
    };
    let conntrack = Conntrack { state: 0x21, zone: 5, mark: 6, label: [8; 16], original };
    Metadata { tunnel, conntrack }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn reads_like_the_reference(
        packets in vec(packet(), 1..4),
        vlan_limit in 0..=MAX_VLANS,
        vlan in prop_oneof![3 => Just(None), 1 => Just(Some(VlanTag { tpid: 0x8100, tci: 5 }))],
    ) {
        let mut to = PacketKey::default();
        for packet in &packets {
            check(packet, Beside { vlan_limit, vlan, l3_type: 0 }, &mut to);
        }
    }

    #[test]
    fn several_frames_read_like_one(packet in packet(), first in 0..100usize) {
        let pool = FramePool::new(4).unwrap();
        // Filling the first frame and taking the filling off moves the rest where we want it.
        let mut split = pool.packet().unwrap();
        let room = split.view_mut().receive_buffer().len();
        let filling = room.saturating_sub(first);
        prop_assert!(split.view_mut().append(&vec![0; filling]));
        prop_assert!(split.view_mut().append(&packet));
        prop_assert!(split.view_mut().pull_front(filling));
        let mut one = PacketKey::default();
        let mut descriptor = Descriptor::default();
        extract_bytes(&packet, packet.len(), &mut descriptor, None, 2, &mut one);
        let mut several = PacketKey::default();
        extract(&mut split.view_mut(), None, 2, &mut several);
        prop_assert_eq!(one.key(), several.key());
        let view = split.view();
        let layers = (view.descriptor().l3, view.descriptor().l4);
        prop_assert_eq!((descriptor.l3, descriptor.l4), layers);
    }

    #[test]
    fn metadata_adds_its_fields(packet in packet(), used in any::<bool>()) {
        let metadata = some_metadata();
        let mut descriptor = Descriptor::default();
        descriptor.in_port = 1;
        descriptor.recirc_id = 2;
        descriptor.dp_hash = 3;
        descriptor.skb_mark = 4;
        descriptor.skb_priority = 5;
        let mut to = PacketKey::default();
        let given = used.then_some(&metadata);
        extract_bytes(&packet, packet.len(), &mut descriptor, given, 2, &mut to);
        let beside = Beside { vlan_limit: 2, ..Default::default() };
        let (mut key, ..) = reference::extract(&packet, beside);
        key.in_port.set(1);
        key.recirc_id.set(2);
        key.dp_hash.set(3);
        key.skb_mark.set(4);
        key.skb_priority.set(5);
        if used {
            key.tunnel = metadata.tunnel;
            key.ct_state = 0x21;
            key.ct_zone.set(5);
            key.ct_mark.set(6);
            key.ct_label = [8; 16];
            // Addresses are intact whenever there is a transport header.
            if key.eth_type.get() == 0x0800 && descriptor.l4 != NO_LAYER {
                key.ct_proto = 17;
                key.ct_ipv4_src.set(1);
                key.ct_ipv4_dst.set(2);
                let later = key.ip_frag & 2 != 0;
                let ports = to.key().ct_tp_src.get() == 3;
                let has_transport = key.tp_src.get() | key.tp_dst.get() != 0;
                prop_assert!(ports || !later && (!has_transport || matches!(key.ip_proto, 2 | 58)));
                if ports {
                    key.ct_tp_src.set(3);
                    key.ct_tp_dst.set(4);
                }
            }
        }
        prop_assert_eq!(to.key(), &key);
        prop_assert!(to.lines().contains(LineSet::used_by(&key)));
    }
}
