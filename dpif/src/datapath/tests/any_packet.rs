//! Whatever arrives, and whatever is to be done to it, leaves or is dropped for a reason.

use netdev::offload::TransmitOffloads;
use netdev::packet::{Batch, Segmentation, VlanTag};
use netdev::wire::ethernet::MacAddress;

use super::*;
use crate::action::{HashAlgorithm, MaskedField, NshMetadata, PushNsh, SetFields};
use crate::flow::Attribute;
use crate::meter::BandConfig;
use crate::testing::{Knowledge, ip};

/// Recirculation of the first pass; the second sends to port 2.
const SECOND_PASS: u32 = 7;
/// A meter that lets nothing pass.
const METER: u32 = 3;

/// Frames that are valid but for a few bytes, that have some Ethernet type, and of any bytes.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let valid = (any::<bool>(), any::<u8>(), prop::collection::vec(any::<u8>(), 20..200)).prop_map(
        |(is_ipv6, protocol, transport)| {
            let protocol = [6, 17, 1, 58, 132, 2, 47, 0, 44, protocol][usize::from(protocol % 10)];
            ip(is_ipv6, protocol, transport, 16)
        },
    );
    let typed = (
        prop::collection::vec(any::<u8>(), 14..200),
        prop::sample::select(vec![
            0x0800, 0x86dd, 0x0806, 0x8847, 0x8848, 0x8100, 0x88a8, 0x894f, 0x05dcu16,
        ]),
    );
    let typed = typed.prop_map(|(mut bytes, eth_type)| {
        bytes[12..14].copy_from_slice(&eth_type.to_be_bytes());
        bytes
    });
    let any_bytes = prop::collection::vec(any::<u8>(), 0..80);
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let length = prop_oneof![4 => Just(None), 1 => (0..0x1_0000usize).prop_map(Some)];
    (prop_oneof![valid, typed, any_bytes], damage, length).prop_map(
        |(mut frame, damage, length)| {
            for (at, byte) in damage {
                if !frame.is_empty() {
                    let at = at.index(frame.len());
                    frame[at] = byte;
                }
            }
            if let Some(length) = length {
                frame.resize(length, 0x5a);
            }
            frame
        },
    )
}

/// What a device may claim, true or not.
fn knowledge() -> impl Strategy<Value = Knowledge> {
    (
        any::<Option<u32>>(),
        prop::option::of((prop::sample::select(vec![0x8100, 0x88a8]), any::<u16>())),
        prop::sample::select(vec![
            Segmentation::None,
            Segmentation::None,
            Segmentation::TcpIpv4,
            Segmentation::TcpIpv6,
            Segmentation::Udp,
        ]),
        prop_oneof![Just(0), 1..100u16, any::<u16>()],
        prop::option::of((0..100u16, 0..30u16)),
    )
        .prop_map(|(rss_hash, vlan, segmentation, segment_size, partial)| Knowledge {
            rss_hash,
            vlan: vlan.map(|(tpid, tci)| VlanTag { tpid, tci }),
            segmentation,
            segment_size,
            partial,
        })
}

/// Sets of several fields of one kind of header.
fn set() -> impl Strategy<Value = Action> {
    let kinds: Vec<(Attribute, &[Field])> = vec![
        (Attribute::Ethernet, &[Field::EthSrc, Field::EthDst]),
        (Attribute::Ipv4, &[Field::Ipv4Src, Field::Ipv4Dst, Field::IpTos, Field::IpTtl]),
        (Attribute::Ipv6, &[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label, Field::IpTos]),
        (Attribute::Tcp, &[Field::TpSrc, Field::TpDst]),
        (Attribute::Udp, &[Field::TpSrc, Field::TpDst]),
        (Attribute::Arp, &[Field::Ipv4Src, Field::Ipv4Dst, Field::ArpSha, Field::IpProto]),
        (Attribute::Nd, &[Field::NdTarget, Field::ArpSha, Field::ArpTha]),
    ];
    (prop::sample::select(kinds), any::<u128>(), any::<u128>()).prop_map(
        |((attribute, fields), value, mask)| {
            let fields = fields.iter().map(|&field| MaskedField {
                field,
                value: value & field.bits(),
                mask: mask & field.bits(),
            });
            Action::Set(Box::new(SetFields { attribute, fields: fields.collect() }))
        },
    )
}

/// Actions that leave the packet where it is.
fn change() -> impl Strategy<Value = Action> {
    let address = any::<[u8; 6]>().prop_map(MacAddress);
    let service_header = (any::<u8>(), any::<bool>()).prop_map(|(next_protocol, is_short)| {
        let metadata = match is_short {
            true => NshMetadata::Type1([1, 2, 3, 4]),
            false => NshMetadata::Type2(vec![0; 248]),
        };
        let header = PushNsh {
            flags: 0,
            ttl: 63,
            next_protocol,
            service_path: 5,
            service_index: 6,
            metadata,
        };
        Action::PushNsh(Box::new(header))
    });
    let label = (any::<u32>(), prop::sample::select(vec![0x8847, 0x8848]));
    prop_oneof![
        4 => set(),
        1 => any::<u16>().prop_map(|tci| Action::PushVlan { tpid: 0x8100, tci }),
        1 => Just(Action::PopVlan),
        1 => label.prop_map(|(entry, eth_type)| Action::PushMpls { entry, eth_type }),
        1 => prop::sample::select(vec![0x0800, 0x86dd, 0x8847])
            .prop_map(|eth_type| Action::PopMpls { eth_type }),
        1 => (any::<u32>(), any::<bool>())
            .prop_map(|(entry, layer3)| Action::AddMpls { entry, eth_type: 0x8847, layer3 }),
        1 => (address.clone(), address)
            .prop_map(|(source, destination)| Action::PushEthernet { source, destination }),
        1 => Just(Action::PopEthernet),
        1 => service_header,
        1 => Just(Action::PopNsh),
        1 => (0..3000u32).prop_map(Action::Truncate),
        1 => Just(Action::Hash { algorithm: HashAlgorithm::L4, basis: 1 }),
        1 => Just(Action::Hash { algorithm: HashAlgorithm::SymmetricL4, basis: 2 }),
        1 => Just(Action::ConntrackClear),
    ]
}

/// Where the packet goes in the end.
fn end() -> impl Strategy<Value = Action> {
    let leaf = prop_oneof![
        4 => Just(Action::Output(2)),
        2 => Just(Action::Recirculate(SECOND_PASS)),
        1 => Just(Action::Output(99)),
        1 => Just(Action::TunnelPop(1)),
        1 => (0..20u32).prop_map(|reason| Action::Drop { reason }),
        1 => Just(Action::Meter(METER)),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let list = (change(), inner).prop_map(|(change, end)| vec![change, end]).boxed();
        prop_oneof![
            list.clone().prop_map(Action::Clone),
            list.clone().prop_map(|actions| Action::Sample { probability: u32::MAX, actions }),
            (any::<u16>(), list.clone(), list).prop_map(|(length, greater, less_equal)| {
                Action::CheckPacketLength { length, greater, less_equal }
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_packet_is_forwarded_or_dropped_for_a_reason(
        frames in prop::collection::vec((frame(), knowledge()), 1..6),
        changes in prop::collection::vec(change(), 0..5),
        end in end(),
        offloads in prop::sample::select(vec![
            TransmitOffloads::empty(),
            TransmitOffloads::TCP_CHECKSUM | TransmitOffloads::TCP_SEGMENTATION,
            TransmitOffloads::all(),
        ]),
    ) {
        let actions = [changes, vec![end]].concat();
        let answer = move |key: &FlowKey| {
            let fields = mask(&[Field::InPort, Field::RecircId, Field::EthType]);
            match key.recirc_id.get() {
                SECOND_PASS => Some((fields, vec![Action::Output(2)])),
                _ => Some((fields, actions.clone())),
            }
        };
        let mut setup = Setup::new(false, 1, answer);
        setup.ports[1].offloads = offloads;
        setup.datapath.remove_port("p2");
        setup.datapath.add_port("p2").unwrap();
        setup.reconfigure();
        let nothing_passes = BandConfig { rate: 0, burst: 0 };
        let meter = MeterConfig { in_packets: true, bands: vec![nothing_passes] };
        setup.datapath.set_meter(METER, meter).unwrap();
        let pool = setup.datapath.pool(0).unwrap();
        let policy = setup.datapath.main.worker.quiet_policy();
        for (frame, knowledge) in frames {
            let pipeline = &mut setup.datapath.main.worker.pipeline;
            let mut batch = Batch::new(&pool);
            let Some(packet) = pool.packet_with(&frame) else { continue };
            prop_assert!(batch.push(packet).is_ok());
            for mut packet in batch.iter_mut() {
                knowledge.apply(&mut packet);
                packet.descriptor_mut().in_port = 1;
            }
            pipeline.process(&mut batch, policy);
            pipeline.flush(true);
            let dropped = pipeline.drops.total();
            pipeline.drops.publish();
            let sent = setup.ports[1].take_sent().len() as u64;
            if knowledge.segmentation == Segmentation::None {
                prop_assert_eq!(sent + dropped, 1);
            } else {
                prop_assert!(sent + dropped >= 1);
            }
            let counts = pool.counts();
            prop_assert_eq!((counts.held, counts.shared + counts.cached), (0, counts.total));
        }
    }
}
