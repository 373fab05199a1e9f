//! The classifier against a scan over all flows.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::flow::{Field, FlowKey, FlowMask, PacketKey, Ufid};
use crate::flow_table::{FlowRecord, WorkerId};

const SEED: u64 = 42;

/// Keys over few values, so that flows and packets meet.
fn key() -> impl Strategy<Value = FlowKey> {
    (0..4u32, 0..3u16, prop::array::uniform4(0..3u8)).prop_map(|(address, port, bytes)| {
        let mut key = FlowKey::default();
        key.in_port.set(1);
        key.ipv4_src.set(address << 30 | address);
        key.tp_dst.set(port);
        key.ip_tos = bytes[0];
        key.ct_state = bytes[1];
        key.ipv6_dst[15] = bytes[2];
        key.tunnel.options[100] = bytes[3];
        key
    })
}

fn mask() -> impl Strategy<Value = FlowMask> {
    (0..33u32, any::<u16>(), any::<[bool; 4]>()).prop_map(|(length, port, bytes)| {
        let mut bits = FlowKey::default();
        bits.set(Field::InPort, u128::MAX);
        bits.ipv4_src.set(u32::MAX.checked_shl(32 - length).unwrap_or(0));
        bits.tp_dst.set(port);
        let byte = |wanted: bool| if wanted { 0xff } else { 0 };
        bits.ip_tos = byte(bytes[0]);
        bits.ct_state = byte(bytes[1]);
        bits.ipv6_dst[15] = byte(bytes[2]);
        bits.tunnel.options[100] = byte(bytes[3]);
        FlowMask::new(bits)
    })
}

struct Setup {
    flows: FlowTable,
    classifier: Classifier,
    numbers: Vec<u32>,
}

impl Setup {
    fn new(rules: &[(FlowKey, FlowMask)]) -> Self {
        let mut setup =
            Self { flows: FlowTable::new(), classifier: Classifier::default(), numbers: vec![] };
        for (key, mask) in rules {
            if setup.classifier.find_with(&setup.flows, SEED, mask, key).is_none() {
                let record = FlowRecord::new(
                    Ufid(0),
                    WorkerId::Main,
                    key.clone(),
                    mask.clone(),
                    Arc::new([]),
                );
                let number = setup.flows.insert(Arc::new(record), SEED);
                let (mask, hash) = setup.flows.mask_and_hash(number).unwrap();
                setup.classifier.insert(mask, hash, number);
                setup.numbers.push(number);
            }
        }
        setup
    }

    fn remove(&mut self, number: u32) {
        let (mask, hash) = self.flows.mask_and_hash(number).unwrap();
        self.classifier.remove(mask, hash, number);
        self.flows.remove(number).unwrap();
        self.numbers.retain(|&other| other != number);
    }

    /// The flows that take a packet, by a scan.
    fn scan(&self, key: &FlowKey) -> Vec<u32> {
        let takes = |number: &u32| {
            let record = self.flows.record(*number).unwrap();
            record.mask().masked(key) == record.mask().masked(record.key())
        };
        self.numbers.iter().copied().filter(takes).collect()
    }

    fn check(&mut self, packets: &[FlowKey], wanted: u32) -> Result<(), TestCaseError> {
        let mut keys: [PacketKey; BATCH_SIZE] = Default::default();
        for (place, key) in keys.iter_mut().zip(packets) {
            *place = PacketKey::from(key.clone());
        }
        let mut found = [NO_FLOW; BATCH_SIZE];
        let (hits, visited) = self.classifier.find(&self.flows, SEED, &keys, wanted, &mut found);
        prop_assert_eq!(hits & !wanted, 0);
        prop_assert!(visited >= u64::from(hits.count_ones()));
        for (packet, key) in packets.iter().enumerate().take(BATCH_SIZE) {
            let possible = self.scan(key);
            let hit = hits >> packet & 1 == 1;
            if wanted >> packet & 1 == 1 {
                prop_assert_eq!(hit, !possible.is_empty(), "packet {}", packet);
            }
            if hit {
                prop_assert!(possible.contains(&found[packet]), "packet {}", packet);
            }
            let one = self.classifier.find_one(&self.flows, SEED, &keys[packet]);
            prop_assert_eq!(one.is_some(), !possible.is_empty());
            prop_assert!(one.is_none_or(|flow| possible.contains(&flow)));
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn finds_a_flow_where_a_scan_does(
        rules in prop::collection::vec((key(), mask()), 0..60),
        packets in prop::collection::vec(key(), BATCH_SIZE),
        wanted in any::<u32>(),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let mut setup = Setup::new(&rules);
        setup.check(&packets, wanted)?;
        setup.classifier.rank();
        setup.check(&packets, u32::MAX)?;
        for index in removed {
            if !setup.numbers.is_empty() {
                let number = *index.get(&setup.numbers);
                setup.remove(number);
            }
        }
        prop_assert_eq!(setup.classifier.len(), setup.numbers.len());
        setup.check(&packets, u32::MAX)?;
    }
}

#[test]
fn ranking_puts_the_busiest_subtable_first() {
    let (mut wide, mut narrow) = (FlowKey::default(), FlowKey::default());
    wide.in_port.set(u32::MAX);
    narrow.in_port.set(u32::MAX);
    narrow.ip_tos = 0xff;
    let (mut first, mut second) = (FlowKey::default(), FlowKey::default());
    first.in_port.set(1);
    second.in_port.set(2);
    second.ip_tos = 7;
    let rules = [(first, FlowMask::new(wide)), (second.clone(), FlowMask::new(narrow))];
    let mut setup = Setup::new(&rules);
    let keys = std::array::from_fn(|_| PacketKey::from(second.clone()));
    let mut found = [NO_FLOW; BATCH_SIZE];
    let mut find =
        |setup: &mut Setup| setup.classifier.find(&setup.flows, SEED, &keys, 0xff, &mut found);
    assert_eq!(find(&mut setup), (0xff, 16));
    assert_eq!(find(&mut setup), (0xff, 16));
    setup.classifier.rank();
    assert_eq!(find(&mut setup), (0xff, 8));
}
