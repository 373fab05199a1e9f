use proptest::prelude::*;

use super::*;
use crate::openflow::message::TlvMapping;

fn nxm(data: &[u8]) -> Result<Match, OfError> {
    read_raw(data, &MatchRules::STRICT)
}

/// Entries in NXM form from header parts (class, number, has mask) and payload.
fn entry(class: u16, number: u8, has_mask: bool, payload: &[u8]) -> Vec<u8> {
    let header = OxmHeader { class, vendor: 0, number, has_mask, length: payload.len() as u8 };
    let mut out = Vec::new();
    header.put(&mut out);
    out.extend(payload);
    out
}

fn eth_type(number: u16) -> Vec<u8> {
    entry(0, 3, false, &number.to_be_bytes())
}

#[test]
fn errors_are_those_of_the_standard_switch() {
    let unknown = entry(0, 99, false, &[0]);
    let short = vec![0, 0, 0];
    let cut = entry(0, 0, false, &[1]);
    let ones_beyond_mask = entry(1, 0, true, &[0, 0, 0, 2, 0, 0, 0, 1]);
    let partial_port = entry(0, 0, true, &[0, 1, 0, 3]);
    let bad_tos = [eth_type(0x0800), entry(0, 5, false, &[3])].concat();
    let no_prerequisite = entry(0, 9, false, &[0, 80]);
    let twice = [eth_type(0x0800), eth_type(0x0800)].concat();
    let cases = [
        (unknown, OfError::BadMatchField),
        (short, OfError::BadMatchLen),
        (cut[..4].to_vec(), OfError::BadMatchLen),
        (cut, OfError::BadMatchField),
        (entry(0, 3, false, &[8, 0])[..5].to_vec(), OfError::BadMatchLen),
        (ones_beyond_mask, OfError::BadMatchWildcards),
        (partial_port, OfError::BadMatchMask),
        (bad_tos, OfError::BadMatchValue),
        (no_prerequisite, OfError::BadMatchPrereq),
        (twice, OfError::BadMatchDupField),
        (entry(0xffff, 0, false, &[0, 0]), OfError::BadMatchLen),
    ];
    for (data, error) in cases {
        assert_eq!(nxm(&data), Err(error), "{data:02x?}");
    }
}

#[test]
fn loose_reading_skips_unknown_fields_and_prerequisites() {
    let data = [entry(0, 99, false, &[0]), entry(0, 9, false, &[0, 80])].concat();
    let flow_match = read_raw(&data, &MatchRules::LOOSE).unwrap();
    assert_eq!(flow_match.get(Slot::TP_SRC), (80, 0xffff));
}

#[test]
fn a_packet_out_match_holds_pipeline_fields_only() {
    let rules = MatchRules { pipeline_only: true, ..MatchRules::STRICT };
    assert_eq!(read_raw(&eth_type(0x0800), &rules), Err(OfError::BadRequestPipelineFieldsOnly));
    let data = entry(0x8000, 0, false, &[0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(read_raw(&data, &rules).unwrap().get(Slot::IN_PORT), (0xfffe, 0xffff));
}

#[test]
fn tunnel_metadata_follow_the_mapping() {
    let mut tlv = TlvMap::default();
    let data = entry(1, 40, false, &[1, 2, 3, 4]);
    let rules = MatchRules { tlv: Some(&tlv), ..MatchRules::STRICT };
    assert_eq!(read_raw(&data, &rules), Err(OfError::FlowModInvalidTlvField));
    let mapping = TlvMapping { option_class: 1, option_type: 2, option_len: 8, index: 0 };
    tlv.add(&mapping).unwrap();
    let rules = MatchRules { tlv: Some(&tlv), ..MatchRules::STRICT };
    let entry = read_raw(&data, &rules).unwrap().entry(Slot::tun_metadata(0)).unwrap();
    assert_eq!((entry.len, entry.value.low(), entry.masked), (8, 0x0102_0304, false));
    let free = nxm(&data).unwrap().entry(Slot::tun_metadata(0)).unwrap();
    assert_eq!((free.len, free.masked), (4, false));
}

#[test]
fn cookies_are_matched_where_allowed() {
    let data = entry(1, 30, true, &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xf]);
    assert_eq!(nxm(&data), Err(OfError::BadMatchField));
    let mut padded = data.clone();
    pad8(&mut padded, 0);
    let mut cookie = (0, 0);
    let mut reader = Reader::new(&padded, OfError::BadRequestLen);
    let flow_match =
        read_nxm(&mut reader, data.len(), &MatchRules::STRICT, Some(&mut cookie)).unwrap();
    assert!(flow_match.is_empty() && reader.is_empty());
    assert_eq!(cookie, (1, 0xf));
    let mut out = Vec::new();
    assert_eq!(put_nxm(&mut out, &flow_match, cookie), data.len());
    assert_eq!(out, padded);
}

#[test]
fn an_ethernet_match_without_fields_says_so() {
    let mut flow_match = Match::new();
    flow_match.require_ethernet();
    let expected = entry(0x8000, 44, false, &[0; 4]);
    assert_eq!(raw_entries(&flow_match, None, (0, 0)), expected);
}

prop_compose! {
    /// A match that meets all its prerequisites: any fields, added in an order that allows them.
    pub(crate) fn any_match()(
        kind in prop::sample::select(vec![0u16, 0x0800, 0x86dd, 0x0806, 0x8847, 0x894f]),
        proto in prop::sample::select(vec![0u8, 1, 6, 17, 58, 132]),
        icmp in prop::sample::select(vec![8u8, 135, 136]),
        fields in prop::collection::vec((0u8..211, any::<u128>(), any::<u128>()), 0..12),
    ) -> Match {
        let mut flow_match = Match::new();
        let exact = |flow_match: &mut Match, slot, value| {
            flow_match.set_exact(slot, value);
            flow_match.require_ethernet();
        };
        if kind != 0 {
            exact(&mut flow_match, Slot::ETH_TYPE, u128::from(kind));
        }
        if flow_match.is_ip() && proto != 0 {
            exact(&mut flow_match, Slot::NW_PROTO, u128::from(proto));
            if flow_match.meets(Prerequisite::Icmpv6) {
                exact(&mut flow_match, Slot::TP_SRC, u128::from(icmp));
                exact(&mut flow_match, Slot::TP_DST, 0);
            }
        }
        for (place, value, mask) in fields {
            let field = Field::from_place(place).unwrap();
            let bits = low_ones(field.bits().min(128));
            let usable = field.has_oxm()
                && field.prerequisite_met(&flow_match)
                && flow_match.is_wild(field)
                && !matches!(field, Field::ETH_TYPE | Field::PACKET_TYPE | Field::IP_PROTO)
                && field.slot() != Slot::CT_NW_PROTO
                && !(Slot::CT_TP_SRC..=Slot::CT_TP_DST).contains(&field.slot());
            if !usable {
                continue;
            }
            let value = match field {
                Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => value % 0xff00,
                Field::IP_DSCP => value & 0xfc,
                Field::ARP_OP => 1 + value % 0xff,
                Field::TUN_FLAGS => value & 1,
                Field::CT_STATE => value & 0xff,
                Field::NSH_TTL => value % 64,
                Field::NSH_MDTYPE => 1 + value % 2,
                Field::VLAN_VID => 0x1000 | value & 0xfff,
                Field::VLAN_TCI => 0x1000 | value & 0xffff,
                _ => value & bits,
            };
            let all = Value::ones(field.bytes() * 8);
            let partial = Value::from(mask & bits);
            let whole = !field.maskable() || mask & 1 == 0 || partial.is_zero()
                || field.slot() == Slot::VLAN_TCI;
            let mask = if whole { all } else { partial };
            let value = Value::from(value).and(&mask);
            flow_match.set_field(field, &value, &mask).unwrap();
            if field.prerequisite() != Prerequisite::None {
                flow_match.require_ethernet();
            }
        }
        flow_match
    }
}

proptest! {
    #[test]
    fn matches_round_trip(flow_match in any_match()) {
        for version in [None, Some(Version::V12), Some(Version::V13), Some(Version::V15)] {
            let data = raw_entries(&flow_match, version, (0, 0));
            let decoded = nxm(&data);
            prop_assert_eq!(decoded.as_ref(), Ok(&flow_match), "{:?} {:02x?}", version, data);
        }
    }

    #[test]
    fn random_entries_never_panic(
        flow_match in any_match(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut data = raw_entries(&flow_match, Some(Version::V14), (0, 0));
        data.push(0);
        for (index, byte) in mutations {
            let index = index.index(data.len());
            data[index] = byte;
        }
        data.truncate(cut.index(data.len()));
        let _ = nxm(&data);
        let _ = read_raw(&data, &MatchRules::LOOSE);
    }
}
