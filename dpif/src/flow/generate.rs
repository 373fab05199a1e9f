//! Packets and keys for property tests.

use netdev::packet::Descriptor;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Field, FlowKey, FlowMask, PacketKey, extract_bytes};

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

/// Frames of all kinds, some of them damaged, cut or padded.
pub(crate) fn packet() -> impl Strategy<Value = Vec<u8>> {
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

/// Keys that packets have, with metadata.
pub(crate) fn key() -> impl Strategy<Value = FlowKey> {
    let metadata = (any::<u32>(), any::<u32>(), any::<u8>(), any::<u128>(), any::<bool>());
    let tunnel = (any::<[u64; 4]>(), 0..16u8, any::<[u8; 8]>(), 0..6u8);
    (packet(), metadata, tunnel).prop_map(|(packet, metadata, tunnel)| {
        let mut extracted = PacketKey::default();
        extract_bytes(&packet, packet.len(), &mut Descriptor::default(), None, 2, &mut extracted);
        let mut key = extracted.key().clone();
        let (port, mark, state, label, tracked) = metadata;
        key.set(Field::InPort, port.into());
        key.set(Field::SkbMark, mark.into());
        key.set(Field::RecircId, (mark >> 16).into());
        if tracked {
            key.set(Field::CtState, state.into());
            key.set(Field::CtLabel, label);
            key.set(Field::CtZone, label >> 3);
            for field in [
                Field::CtProto,
                Field::CtIpv4Src,
                Field::CtIpv4Dst,
                Field::CtIpv6Src,
                Field::CtIpv6Dst,
                Field::CtTpSrc,
                Field::CtTpDst,
            ] {
                if field.prerequisite().holds(&key) || key.is_ip() && field == Field::CtProto {
                    key.set(field, label.rotate_right(field as u32) | 1);
                }
            }
        }
        let ([id, addresses, source, destination], flags, bytes, kind) = tunnel;
        match kind {
            0 => {
                key.set(Field::TunIpv4Src, addresses.into());
                key.set(Field::TunIpv4Dst, u128::from(addresses >> 32));
            }
            1 => {
                key.set(Field::TunIpv6Src, source.into());
                key.set(Field::TunIpv6Dst, u128::from(destination) << 64);
            }
            _ => return key,
        }
        key.set(Field::TunId, if flags & 8 == 0 { 0 } else { id.into() });
        key.set(Field::TunFlags, flags.into());
        key.set(Field::TunTos, bytes[0].into());
        key.set(Field::TunTtl, bytes[1].into());
        key.set(Field::TunTpDst, bytes[2].into());
        match bytes[3] % 5 {
            0 => {
                key.set(Field::TunGbpId, id.into());
                key.set(Field::TunGbpFlags, bytes[4].into());
            }
            1 => {
                key.set(Field::TunErspanVersion, 1);
                key.set(Field::TunErspanIndex, id.into());
            }
            2 => {
                key.set(Field::TunErspanVersion, 2);
                key.set(Field::TunErspanDir, (bytes[4] & 1).into());
                key.set(Field::TunErspanHwid, bytes[5].into());
            }
            3 => {
                let options = [0, bytes[4], bytes[5], 1, 0, bytes[6], bytes[7], 9, 1, 2, 3, 0];
                key.tunnel.options[..12].copy_from_slice(&options);
                key.tunnel.options_length = 12;
            }
            _ => {}
        }
        key
    })
}

/// Masks that make sense for `key`: some fields whole, some in part; always whole those that say
/// which others there are, or that text leaves out when they do not matter.
pub(crate) fn mask(key: &FlowKey, choices: &[u8], partial: u128) -> FlowMask {
    let exact = FlowMask::exact_for(key);
    let mut bits = exact.bits().clone();
    for (field, choice) in Field::ALL.iter().zip(choices) {
        let whole = matches!(
            field,
            Field::EthType
                | Field::CtProto
                | Field::TunTtl
                | Field::NshMdType
                | Field::IpFrag
                | Field::TcpFlags
                | Field::TunId
                | Field::TunGbpId
                | Field::TunGbpFlags
                | Field::TunIpv4Src
                | Field::TunIpv4Dst
                | Field::TunIpv6Src
                | Field::TunIpv6Dst
                | Field::VlanTpid
                | Field::InnerVlanTpid
                | Field::IpProto
                | Field::RecircId
                | Field::TpSrc
                | Field::TpDst
                | Field::TunFlags
                | Field::TunErspanVersion
                | Field::TunErspanIndex
                | Field::TunErspanDir
                | Field::TunErspanHwid
                | Field::VlanTci
                | Field::InnerVlanTci
        );
        let mask = match choice % 3 {
            _ if whole => continue,
            0 => continue,
            1 => 0,
            _ => bits.get(*field) & partial.rotate_left((*choice).into()),
        };
        bits.set(*field, mask);
    }
    FlowMask::new(bits)
}
