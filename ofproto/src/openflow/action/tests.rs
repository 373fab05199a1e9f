use proptest::prelude::*;

use super::*;
use crate::openflow::tlv_map::TlvMap;
use crate::openflow::version::Version;
use crate::openflow::wire::Reader;

fn context(version: Version) -> DecodeContext<'static> {
    DecodeContext { version, tlv: None, debug_actions: true }
}

fn decode(data: &[u8], version: Version) -> Result<Vec<Action>, OfError> {
    let mut reader = Reader::new(data, OfError::BadRequestLen);
    read_actions(&mut reader, data.len(), &context(version), Instruction::ALL)
}

fn encode(actions: &[Action], version: Version) -> Vec<u8> {
    let mut out = Vec::new();
    put_actions(&mut out, actions, version);
    out
}

fn reg_bits() -> impl Strategy<Value = Subfield> {
    (0u8..16, 0u16..32).prop_flat_map(|(index, offset)| {
        (1..=32 - offset).prop_map(move |bits| Subfield {
            field: Field::reg(index),
            bytes: 4,
            offset,
            bits,
        })
    })
}

fn port() -> impl Strategy<Value = PortNo> {
    let reserved = [PortNo::IN_PORT, PortNo::NORMAL, PortNo::FLOOD, PortNo::ALL, PortNo::LOCAL];
    prop_oneof![(1u16..0xff00).prop_map(PortNo), prop::sample::select(reserved.to_vec())]
}

fn basic() -> impl Strategy<Value = Action> {
    prop_oneof![
        port().prop_map(|port| Action::Output { port, max_len: 0 }),
        (1u16..100, any::<u32>())
            .prop_map(|(port, queue)| Action::Enqueue { port: PortNo(port), queue }),
        (0u16..4096).prop_map(|vid| Action::SetVlanVid {
            vid,
            push_if_needed: true,
            flow_has_vlan: false
        }),
        any::<[u8; 6]>().prop_map(Action::SetEthSrc),
        any::<u32>().prop_map(|address| Action::SetIpv4Dst(address.into())),
        any::<u32>().prop_map(Action::SetQueue),
        any::<u32>().prop_map(|id| Action::SetTunnel { id: id.into(), wide: false }),
        any::<u64>().prop_map(|id| Action::SetTunnel { id, wide: true }),
        Just(Action::PopQueue),
        Just(Action::Exit),
        Just(Action::DecTtl(None)),
        prop::collection::vec(any::<u16>(), 1..4)
            .prop_map(|ids| Action::DecTtl(Some(ids.into_boxed_slice()))),
        (any::<u16>(), any::<u16>()).prop_map(|(idle, hard)| Action::FinTimeout { idle, hard }),
        (reg_bits(), any::<u16>()).prop_map(|(src, max_len)| Action::OutputField {
            src,
            max_len,
            long_header: false
        }),
        reg_bits().prop_map(Action::Push),
        reg_bits().prop_map(Action::Pop),
        (port(), 0u8..255, any::<bool>()).prop_map(|(in_port, table, with_ct)| {
            Action::Resubmit { in_port, table, with_ct, short: false }
        }),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|mut note| {
            note.resize((note.len() + 2).next_multiple_of(8) - 2, 0);
            Action::Note(note.into_boxed_slice())
        }),
        Just(Action::CtClear),
        (port(), 14u32..).prop_map(|(port, max_len)| Action::OutputTrunc { port, max_len }),
        any::<u16>().prop_map(|len| Action::CheckPktLarger {
            len,
            dst: Subfield { bits: 1, ..Subfield::whole(Field::reg(0)) }
        }),
    ]
}

fn controller() -> impl Strategy<Value = Action> {
    let userdata = prop::collection::vec(any::<u8>(), 0..20);
    (any::<u16>(), any::<u16>(), userdata, any::<bool>()).prop_map(
        |(max_len, controller_id, userdata, pause)| {
            let has_properties = pause || !userdata.is_empty();
            Action::Controller(Box::new(Controller {
                max_len,
                controller_id,
                reason: PacketInReason::ACTION,
                userdata,
                pause,
                meter_id: None,
                has_properties,
            }))
        },
    )
}

fn nat() -> impl Strategy<Value = Nat> {
    let range = any::<u32>().prop_flat_map(|low| (Just(low), low..));
    (range, any::<bool>(), 1u16..60000).prop_map(|((low, high), is_source, port_min)| {
        let high = (high != low).then(|| high.into());
        Nat {
            flags: if is_source { Nat::SRC } else { Nat::DST },
            addresses: Some(NatAddresses::V4(low.into(), high)),
            port_min,
            port_max: port_min + 5,
        }
    })
}

pub(crate) fn any_action() -> impl Strategy<Value = Action> {
    let ct = (0u8..255, any::<u16>(), prop::option::of(nat())).prop_map(|(table, zone, nat)| {
        Action::Ct(Box::new(Ct {
            flags: Ct::COMMIT,
            zone: Number::Immediate(zone),
            recirc_table: table,
            alg: 0,
            actions: nat.into_iter().map(|nat| Action::Nat(Box::new(nat))).collect(),
        }))
    });
    let learn = (any::<[u16; 4]>(), any::<u64>(), 0u8..254, reg_bits()).prop_map(
        |([idle, hard, fin, priority], cookie, table_id, bits)| {
            let value = Value::from(u128::from(cookie) & ((1 << bits.bits) - 1));
            let spec = |src, dst| LearnSpec { bits: bits.bits, src, dst };
            Action::Learn(Box::new(Learn {
                idle_timeout: idle,
                hard_timeout: hard,
                fin_idle_timeout: fin,
                fin_hard_timeout: 0,
                priority,
                cookie,
                flags: Learn::SEND_FLOW_REM,
                table_id,
                limit: 0,
                result_dst: None,
                specs: vec![
                    spec(LearnSource::Field(bits), LearnDestination::Match(bits)),
                    spec(LearnSource::Immediate(value), LearnDestination::Load(bits)),
                    spec(LearnSource::Field(bits), LearnDestination::Output),
                ],
                with_limit: false,
            }))
        },
    );
    let flat = prop_oneof![4 => basic(), 1 => controller(), 1 => ct, 1 => learn];
    flat.prop_recursive(3, 12, 4, |inner| {
        prop::collection::vec(inner, 0..4).prop_map(Action::Clone)
    })
}

proptest! {
    #[test]
    fn encoding_is_the_inverse_of_decoding(
        actions in prop::collection::vec(any_action(), 0..6),
        version in prop::sample::select(Version::ALL.to_vec()),
    ) {
        let bytes = encode(&actions, version);
        let decoded = decode(&bytes, version).unwrap();
        prop_assert_eq!(encode(&decoded, version), bytes.clone(), "{:?}", decoded);
        if version == Version::V10 {
            prop_assert_eq!(decoded, actions);
        }
    }

    #[test]
    fn instructions_survive(
        actions in prop::collection::vec(any_action(), 0..4),
        table in any::<u8>(),
        metadata in any::<u64>(),
        version in prop::sample::select(Version::ALL[1..].to_vec()),
    ) {
        let mut all = actions;
        all.push(Action::ClearActions);
        all.push(Action::WriteActions(vec![Action::Group(7)]));
        all.push(Action::WriteMetadata { metadata, mask: u64::MAX });
        all.push(Action::GotoTable(table));
        let mut bytes = Vec::new();
        put_instructions(&mut bytes, &all, version);
        let mut reader = Reader::new(&bytes, OfError::BadRequestLen);
        let decoded = read_instructions(&mut reader, &context(version)).unwrap();
        let mut again = Vec::new();
        put_instructions(&mut again, &decoded, version);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn damaged_bytes_never_panic(
        actions in prop::collection::vec(any_action(), 1..6),
        version in prop::sample::select(Version::ALL.to_vec()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = encode(&actions, version);
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let tlv = TlvMap::default();
        let context = DecodeContext { tlv: Some(&tlv), ..context(version) };
        let mut reader = Reader::new(&bytes, OfError::BadRequestLen);
        if let Ok(mut actions) = read_actions(&mut reader, bytes.len(), &context, Instruction::ALL) {
            encode(&actions, version);
            let flow_match = Match::new();
            let max_ports = PortNo::MAX;
            let context = CheckContext {
                flow_match: &flow_match, max_ports, table_id: 0, n_tables: 255, version,
            };
            let _ = check(&mut actions, &context);
        }
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..128),
        vendor in any::<bool>(),
        kind in 0u8..60,
        version in prop::sample::select(Version::ALL.to_vec()),
    ) {
        bytes.resize(bytes.len() / 8 * 8, 0);
        let len = bytes.len() as u8;
        if vendor && len >= 16 {
            bytes[..10].copy_from_slice(&[0xff, 0xff, 0, len, 0, 0, 0x23, 0x20, 0, kind]);
        } else if len >= 8 {
            bytes[..4].copy_from_slice(&[0, kind, 0, len]);
        }
        let _ = decode(&bytes, version);
    }
}

#[test]
fn depth_is_limited() {
    let mut actions = vec![Action::Exit];
    for _ in 0..50 {
        actions = vec![Action::Clone(actions)];
    }
    let bytes = encode(&actions, Version::V13);
    assert_eq!(decode(&bytes, Version::V13), Ok(actions.clone()));
    for _ in 0..60 {
        actions = vec![Action::Clone(actions)];
    }
    let bytes = encode(&actions, Version::V13);
    assert_eq!(decode(&bytes, Version::V13), Err(OfError::BadActionTooMany));
}

#[test]
fn errors_are_those_of_the_standard_switch() {
    let cases: [(&[u8], OfError); 7] = [
        (&[0, 0, 0, 0], OfError::BadRequestLen),
        (&[0, 0, 0, 0, 0, 0, 0, 0], OfError::BadActionLen),
        (&[0, 0, 0, 16, 0, 0, 0, 0], OfError::BadActionLen),
        (&[0, 99, 0, 8, 0, 0, 0, 0], OfError::BadActionType),
        (&[0, 0, 0, 16, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], OfError::BadActionLen),
        (&[0xff, 0xff, 0, 8, 0, 0, 0, 1], OfError::BadActionVendor),
        (
            &[0xff, 0xff, 0, 16, 0, 0, 0x23, 0x20, 0, 99, 0, 0, 0, 0, 0, 0],
            OfError::BadActionVendorType,
        ),
    ];
    for (data, error) in cases {
        assert_eq!(decode(data, Version::V10), Err(error), "{data:02x?}");
    }
}

#[test]
fn fields_of_experimenters_are_set() {
    // As ovs-ofctl sends it.
    let bytes = [
        0xff, 0xff, 0, 0x18, 0, 0, 0x23, 0x20, 0, 0x21, 0xff, 0xff, 0x22, 8, 0, 0, 0x23, 0x20, 0,
        0x0d, 0xb0, 0, 0, 0,
    ];
    let actions = decode(&bytes, Version::V10).unwrap();
    let [Action::SetField(set)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((set.field, set.value.low()), (Field::reg(16), 0xdb000));
    assert_eq!(encode(&actions, Version::V10), bytes);
}
