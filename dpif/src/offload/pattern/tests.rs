use netdev::packet::Descriptor;
use proptest::prelude::*;

use super::*;
use crate::flow::generate::{mask, packet};
use crate::flow::{PacketKey, extract_bytes};
use crate::pmd::pipeline::with_required;
use crate::testing::udp;

fn key_of(bytes: &[u8], vlan_limit: usize) -> FlowKey {
    let mut descriptor = Descriptor::default();
    descriptor.in_port = 1;
    let mut key = PacketKey::default();
    extract_bytes(bytes, bytes.len(), &mut descriptor, None, vlan_limit, &mut key);
    key.key().clone()
}

/// Whether hardware would take a packet for one of the pattern.
fn takes(pattern: &Pattern, bytes: &[u8]) -> bool {
    let Some(parsed) = HeaderFields::parse(bytes) else { return false };
    let words = parsed.fields.words().iter().zip(pattern.mask.words()).zip(pattern.values.words());
    words.into_iter().all(|((word, mask), value)| word & mask == *value)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    /// Invariant 1: whatever packets hardware takes for those of a flow are packets of the flow.
    #[test]
    fn a_pattern_takes_no_packet_that_its_flow_does_not(
        first in packet(),
        second in packet(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        choices in prop::collection::vec(any::<u8>(), 100),
        partial in any::<u128>(),
        vlan_limit in 1..3usize,
    ) {
        let key = key_of(&first, vlan_limit);
        let mask = with_required(mask(&key, &choices, partial), &key);
        let Ok(pattern) = pattern(&key, &mask) else { return Ok(()) };
        prop_assert!(pattern.values.is_within(&pattern.mask));
        let mut third = first.clone();
        if !third.is_empty() {
            let at = at.index(third.len());
            third[at] = byte;
        }
        for bytes in [&first, &second, &third] {
            let other = key_of(bytes, vlan_limit);
            if takes(&pattern, bytes) {
                prop_assert!(
                    mask.matches(&other, &mask.masked(&key)),
                    "{pattern:?} takes {other:?}, {mask:?} of {key:?} does not"
                );
            }
        }
    }
}

#[test]
fn ordinary_flows_have_patterns() {
    let frame = udp(0x0a00_0001, 0x0a00_0002, [1, 2], &[0; 20]);
    let key = key_of(&frame, 1);
    let exact = pattern(&key, &FlowMask::exact_for(&key)).unwrap();
    assert!(takes(&exact, &frame));
    assert!(!takes(&exact, &udp(0x0a00_0001, 0x0a00_0002, [1, 3], &[0; 20])));
    let mut tagged = frame.clone();
    tagged.splice(12..12, [0x81, 0, 0x20, 5]);
    assert!(!takes(&exact, &tagged));
    let key = key_of(&tagged, 1);
    let exact = pattern(&key, &FlowMask::exact_for(&key)).unwrap();
    assert!(takes(&exact, &tagged) && !takes(&exact, &frame));
    let mut twice = tagged.clone();
    twice.splice(12..12, [0x88, 0xa8, 0x20, 5]);
    assert!(!takes(&exact, &twice), "there is a tag that the flow knows nothing of");
}

#[test]
fn flows_without_patterns_say_why() {
    let frame = udp(0x0a00_0001, 0x0a00_0002, [1, 2], &[0; 20]);
    let key = key_of(&frame, 1);
    let with = |change: &dyn Fn(&mut FlowKey, &mut FlowKey)| {
        let mut key = key.clone();
        let mut bits = FlowKey::default();
        bits.eth_type.set(u16::MAX);
        bits.vlans[0].tci.set(0x1fff);
        change(&mut key, &mut bits);
        pattern(&key, &FlowMask::new(bits)).err()
    };
    assert_eq!(with(&|_, _| {}), None);
    assert_eq!(with(&|_, bits| bits.eth_type.set(0xff)), Some(Reason::AnyEthertype));
    assert_eq!(with(&|_, bits| bits.vlans[0].tci.set(0xfff)), Some(Reason::AnyTag));
    assert_eq!(with(&|_, bits| bits.tp_dst.set(1)), Some(Reason::AnyProtocol));
    let recirculated = with(&|key, bits| {
        key.recirc_id.set(3);
        bits.recirc_id.set(u32::MAX);
    });
    assert_eq!(recirculated, Some(Reason::Field(Field::RecircId)));
    assert_eq!(with(&|_, bits| bits.recirc_id.set(u32::MAX)), None, "received packets have 0");
    assert_eq!(with(&|_, bits| bits.ipv6_label.set(1)), Some(Reason::Field(Field::Ipv6Label)));
    assert_eq!(with(&|key, _| key.packet_namespace.set(1)), Some(Reason::NotEthernet));
    let hidden = with(&|key, _| key.eth_type.set(0x8100));
    assert_eq!(hidden, Some(Reason::HiddenTag));
}
