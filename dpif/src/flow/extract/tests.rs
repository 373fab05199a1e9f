use netdev::packet::{Descriptor, FramePool, NO_LAYER, VlanTag};
use proptest::collection::vec;
use proptest::prelude::*;

use super::reference::{self, Beside};
use super::*;
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

/// Payload and the protocol number that announces it.
fn transport() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let data = || vec(any::<u8>(), 0..30);
    let option = (prop_oneof![Just(1u8), Just(2), any::<u8>()], 0..3u8, any::<[u8; 6]>());
    let option = option.prop_map(|(kind, length, data)| {
        let mut bytes = vec![kind, length];
        bytes.extend(data);
        bytes.resize(usize::from(length.max(1)) * 8, 0);
        bytes
    });
    let neighbour =
        (135..137u8, any::<[u8; 20]>(), vec(option, 0..4)).prop_map(|(kind, front, options)| {
            (58, [&[kind, 0, 0, 0], &front[..], &options.concat()].concat())
        });
    let tcp = (any::<[u8; 20]>(), 4..10u8, data()).prop_map(|(mut header, words, data)| {
        header[12] = header[12] & 0x0f | words << 4;
        (6, [&header[..], &data].concat())
    });
    prop_oneof![
        tcp,
        neighbour,
        (Just(17), vec(any::<u8>(), 0..40)),
        (
            prop_oneof![Just(1u8), Just(2), Just(58), Just(132), any::<u8>()],
            vec(any::<u8>(), 0..40)
        ),
    ]
}

fn ipv4() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![4 => Just(0u16), 1 => Just(0x4000), 1 => any::<u16>()];
    let options = prop_oneof![3 => Just(0usize), 1 => 0..11usize];
    (any::<[u8; 20]>(), fragment, options, transport(), -2..3isize).prop_map(
        |(mut header, fragment, options, (protocol, payload), error)| {
            header[0] = 0x45 + options as u8;
            header[6..8].copy_from_slice(&fragment.to_be_bytes());
            header[9] = protocol;
            let length = (20 + options * 4 + payload.len()) as isize;
            let length = if error == 1 { length - 1 } else { length + error / 2 };
            header[2..4].copy_from_slice(&(length.max(0) as u16).to_be_bytes());
            [&header[..], &vec![1; options * 4], &payload].concat()
        },
    )
}

fn ipv6() -> impl Strategy<Value = Vec<u8>> {
    let extension = (
        prop_oneof![Just(0u8), Just(43), Just(44), Just(51), Just(60)],
        0..3u8,
        prop_oneof![Just([0; 6]), any::<[u8; 6]>(), Just([0, 1, 0, 0, 0, 0])],
    );
    (any::<[u8; 40]>(), vec(extension, 0..4), transport(), 0..6u16).prop_map(
        |(mut header, extensions, (protocol, payload), error)| {
            let mut next = protocol;
            let mut body = payload;
            for (kind, length, data) in extensions.into_iter().rev() {
                let (length, bytes) = match kind {
                    44 => (data[0], 8),
                    51 => (length, (usize::from(length) + 2) * 4),
                    _ => (length, (usize::from(length) + 1) * 8),
                };
                let mut extension = vec![next, length];
                extension.extend(data);
                extension.resize(bytes.max(8), 0);
                body = [extension, body].concat();
                next = kind;
            }
            header[6] = next;
            let length = (body.len() as u16).saturating_sub(error / 5);
            header[4..6].copy_from_slice(&length.to_be_bytes());
            [&header[..], &body].concat()
        },
    )
}

fn arp() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 28]>(), 0..300u16).prop_map(|(mut arp, operation)| {
        arp[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        arp[6..8].copy_from_slice(&operation.to_be_bytes());
        arp.to_vec()
    })
}

fn nsh() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u8; 30]>(), 0..8u8, 0..4u8).prop_map(|(mut nsh, words, md_type)| {
        nsh[0] &= 0x3f;
        nsh[1] = nsh[1] & 0xc0 | words;
        nsh[2] = md_type;
        nsh.to_vec()
    })
}

fn packet() -> impl Strategy<Value = Vec<u8>> {
    let network = prop_oneof![
        ipv4().prop_map(|bytes| (0x0800u16, bytes)),
        ipv6().prop_map(|bytes| (0x86dd, bytes)),
        arp().prop_map(|bytes| (0x0806, bytes)),
        nsh().prop_map(|bytes| (0x894f, bytes)),
        vec(any::<u8>(), 0..40).prop_map(|bytes| (0x8847, bytes)),
        (any::<u16>(), vec(any::<u8>(), 0..40)),
    ];
    let tag = (prop_oneof![Just(0x8100u16), Just(0x88a8)], any::<u16>());
    let front = (any::<[u8; 12]>(), vec(tag, 0..4), 0..10u8);
    let damage = (
        prop_oneof![2 => Just(0usize), 1 => 0..60usize],
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        prop_oneof![3 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
    );
    (network, front, damage).prop_map(
        |((eth_type, network), (addresses, tags, snap), (padding, changes, cut))| {
            let mut packet = addresses.to_vec();
            for (tpid, tci) in tags {
                packet.extend(tpid.to_be_bytes());
                packet.extend(tci.to_be_bytes());
            }
            if snap == 0 {
                packet.extend([0, 40, 0xaa, 0xaa, 3, 0, 0, 0]);
            }
            packet.extend(eth_type.to_be_bytes());
            packet.extend(network);
            packet.resize(packet.len() + padding, 0);
            for (at, byte) in changes {
                let at = at.index(packet.len());
                packet[at] = byte;
            }
            if let Some(cut) = cut {
                packet.truncate(cut.index(packet.len()));
            }
            packet
        },
    )
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
