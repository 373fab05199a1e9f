use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::openflow::action::Action;
use crate::openflow::flow_match::Match;
use crate::openflow::message::FlowFlags;
use crate::rule::{Lineage, RuleParts};

const VERSION: u64 = 5;

/// Fields of every stage, some of them with prefixes; few bits of each are ever set.
fn field(index: usize) -> (Field, u128) {
    [
        (Field::METADATA, 0x3),
        (Field::CONJ_ID, 0x3),
        (Field::ETH_SRC, 0x0300_0000_0000),
        (Field::IPV4_SRC, 0xc000_0003),
        (Field::IPV4_DST, 0xc000_0003),
        (Field::IP_TTL, 0x3),
        (Field::TCP_SRC, 0xc001),
        (Field::TCP_DST, 0x8003),
    ][index]
}
const N_FIELDS: usize = 8;

/// `bits` spread over the places that `places` has.
fn spread(bits: u8, places: u128) -> u128 {
    let ones = (0..128).filter(|bit| places >> bit & 1 != 0).enumerate();
    ones.filter(|(index, _)| bits >> index & 1 != 0).map(|(_, bit)| 1 << bit).sum()
}

/// A mask of a field: none of it, a prefix, or some of the bits that are ever set.
fn mask_of((field, places): (Field, u128), kind: u8) -> u128 {
    let bits = field.bits() as u32;
    match kind % 8 {
        0..=2 => 0,
        3 => u128::MAX >> (128 - bits),
        4 => u128::MAX >> (128 - bits) & !(u128::MAX >> (129 - bits)),
        5 => u128::MAX >> (128 - bits) & !(u128::MAX >> (130 - bits)),
        _ => spread(kind / 8, places),
    }
}

fn packet(values: [u8; N_FIELDS]) -> Flow {
    let mut flow = Flow::default();
    flow.packet.eth_type.set(0x0800);
    for (index, bits) in values.into_iter().enumerate().filter(|(index, _)| *index != 1) {
        let (field, places) = field(index);
        flow.set_field(field, spread(bits, places), places);
    }
    flow
}

/// A rule without match that is good for its key only.
fn rule(
    (value, mask): (&Flow, &Flow),
    priority: u32,
    serial: u64,
    conjunction: Option<(u32, u8, u8)>,
    classifier: &Classifier,
) -> Arc<Rule> {
    let actions = conjunction
        .map(|(id, clause, n_clauses)| Action::Conjunction { id, clause, n_clauses })
        .into_iter();
    let parts = RuleParts {
        table: 0,
        priority,
        flow_match: Match::new(),
        cookie: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        actions: actions.collect(),
    };
    let key = MaskedKey::new(value, classifier.shared_mask(Mask::new(mask)));
    Arc::new(Rule::new(parts, key, serial, VERSION, Lineage::none(Duration::ZERO)))
}

#[derive(Clone, Debug)]
struct Wanted {
    values: [u8; N_FIELDS],
    masks: [u8; N_FIELDS],
    priority: u32,
    conjunction: Option<(u32, u8, u8)>,
    is_removed: bool,
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let conjunction = prop_oneof![
        3 => Just(None),
        1 => (1u32..3, 0u8..2).prop_map(|(id, clause)| Some((id, clause, 2))),
    ];
    let bytes = || prop::array::uniform8(any::<u8>());
    (bytes(), bytes(), 0u32..4, conjunction, prop::bool::weighted(0.2)).prop_map(
        |(values, masks, priority, conjunction, is_removed)| Wanted {
            values,
            masks,
            priority,
            conjunction,
            is_removed,
        },
    )
}

/// Rules in a list, which a lookup goes through from end to end.
struct Oracle(Vec<Arc<Rule>>);

impl Oracle {
    /// Priority of the rule that takes the packet.
    fn lookup(&self, flow: &Flow) -> Option<u32> {
        let mut rules: Vec<_> = self.0.iter().filter(|rule| rule.key.matches(flow)).collect();
        rules.sort_by_key(|rule| Reverse(rule.priority));
        for same in rules.chunk_by(|a, b| a.priority == b.priority) {
            let priority = same[0].priority;
            if same.iter().any(|rule| !rule.is_conjunctive) {
                return Some(priority);
            }
            for id in 1..3 {
                let has = |clause| {
                    let action = Action::Conjunction { id, clause, n_clauses: 2 };
                    same.iter().any(|rule| rule.actions.contains(&action))
                };
                let mut flow = flow.clone();
                flow.conj_id.set(id);
                let matches = |rule: &&Arc<Rule>| !rule.is_conjunctive && rule.key.matches(&flow);
                let found = self.0.iter().filter(matches).map(|rule| rule.priority).max();
                if has(0) && has(1) && found.is_some() {
                    return found;
                }
            }
        }
        None
    }
}

/// A classifier and an oracle with the same rules, of which some came and went.
fn build(wanted: &[Wanted]) -> (Classifier, Oracle) {
    let mut classifier =
        Classifier::new(&[Field::IPV4_DST, Field::IPV4_SRC, Field::IPV6_DST, Field::IPV6_SRC]);
    let mut rules: Vec<(Arc<Rule>, bool)> = Vec::new();
    for (serial, wanted) in (1..).zip(wanted) {
        let (mut value, mut mask) = (Flow::default(), Flow::default());
        for index in 0..N_FIELDS {
            let (field, places) = field(index);
            let field_mask = mask_of((field, places), wanted.masks[index]);
            value.set_field(field, spread(wanted.values[index], places), field_mask);
            mask.set_field(field, field_mask, field_mask);
        }
        let key = (&value, &mask);
        let rule = rule(key, wanted.priority, serial, wanted.conjunction, &classifier);
        let find = |rule: &Rule| classifier.find_exactly(&rule.key, rule.priority, VERSION);
        if find(&rule).is_none() {
            classifier.insert(Arc::clone(&rule));
            rules.push((rule, wanted.is_removed));
        }
    }
    for (rule, _) in rules.iter().filter(|(_, is_removed)| *is_removed) {
        classifier.remove(rule);
    }
    let kept = rules.into_iter().filter(|(_, is_removed)| !is_removed).map(|(rule, _)| rule);
    let kept: Vec<_> = kept.collect();
    assert_eq!(classifier.len(), kept.len());
    (classifier, Oracle(kept))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn finds_what_a_scan_finds(
        rules in prop::collection::vec(wanted(), 0..24),
        values in prop::array::uniform8(any::<u8>()),
        others in prop::collection::vec(prop::array::uniform8(any::<u8>()), 1..16),
    ) {
        let (classifier, oracle) = build(&rules);
        let flow = packet(values);
        let mut read = Flow::default();
        let mut parts = Vec::new();
        let found = classifier.lookup(VERSION, &flow, &mut read, &mut parts);
        prop_assert_eq!(found.map(|rule| rule.priority), oracle.lookup(&flow));
        prop_assert!(parts.iter().all(|part| part.is_conjunctive && part.key.matches(&flow)));
        // A packet that is like this one in the bits that were read meets the same rule.
        for other in others {
            let other = packet(other);
            let mut alike = other.clone();
            let words = alike.words_mut().iter_mut().zip(flow.words()).zip(read.words());
            for ((word, own), read) in words {
                *word = *word & !read | own & read;
            }
            let again = classifier.lookup(VERSION, &alike, &mut Flow::default(), &mut Vec::new());
            prop_assert_eq!(again.map(|rule| rule.serial), found.map(|rule| rule.serial));
        }
    }

    #[test]
    fn lists_what_a_scan_lists(
        rules in prop::collection::vec(wanted(), 0..24),
        criteria in wanted(),
    ) {
        let (classifier, oracle) = build(&rules);
        let (key, _) = build(&[Wanted { is_removed: false, ..criteria.clone() }]);
        let everything = Classifier::new(&[]).shared_mask(Mask::new(&Flow::default()));
        let everything = MaskedKey::new(&Flow::default(), everything);
        let key = key.within(&everything, VERSION)[0].key.clone();
        let serials = |rules: &[&Arc<Rule>]| {
            let mut serials: Vec<_> = rules.iter().map(|rule| rule.serial).collect();
            serials.sort_unstable();
            serials
        };
        let within: Vec<_> = oracle.0.iter().filter(|rule| rule.key.is_within(&key)).collect();
        prop_assert_eq!(serials(&classifier.within(&key, VERSION)), serials(&within));
        let overlaps = |rule: &&Arc<Rule>| {
            rule.priority == criteria.priority && rule.key.agrees(&key)
        };
        prop_assert_eq!(
            classifier.overlaps(&key, criteria.priority, VERSION),
            oracle.0.iter().any(|rule| overlaps(&rule))
        );
    }

    #[test]
    fn other_prefix_fields_make_no_other_rules(
        rules in prop::collection::vec(wanted(), 0..24),
        values in prop::array::uniform8(any::<u8>()),
    ) {
        let (mut classifier, oracle) = build(&rules);
        prop_assert!(classifier.set_prefix_fields(&[Field::IPV4_SRC]));
        prop_assert!(!classifier.set_prefix_fields(&[Field::IPV4_SRC, Field::ETH_SRC]));
        let flow = packet(values);
        let found =
            classifier.lookup(VERSION, &flow, &mut Flow::default(), &mut Vec::new());
        prop_assert_eq!(found.map(|rule| rule.priority), oracle.lookup(&flow));
    }
}

/// Fields, values and masks of a rule, and its priority.
type Fields<'a> = (&'a [(Field, u128, u128)], u32);

/// The bits read in a lookup among some rules.
fn read_by(rules: &[Fields<'_>], flow: &Flow) -> Flow {
    let mut classifier = Classifier::new(&[Field::IPV4_DST, Field::IPV4_SRC]);
    for (serial, (fields, priority)) in (1..).zip(rules) {
        let (mut value, mut mask) = (Flow::default(), Flow::default());
        for &(field, bits, field_mask) in *fields {
            value.set_field(field, bits, field_mask);
            mask.set_field(field, field_mask, field_mask);
        }
        classifier.insert(rule((&value, &mask), *priority, serial, None, &classifier));
    }
    let mut read = Flow::default();
    classifier.lookup(VERSION, flow, &mut read, &mut Vec::new());
    read
}

#[test]
fn prefixes_save_bits() {
    let ip = (Field::ETH_TYPE, 0x0800, 0xffff);
    let net = (Field::IPV4_DST, 0x0a00_0000, 0xff00_0000);
    let host = (Field::IPV4_DST, 0x0a01_0203, 0xffff_ffff);
    let mut flow = Flow::default();
    flow.packet.eth_type.set(0x0800);
    let mut read_for = |address: u32, rules: &[Fields<'_>]| {
        flow.packet.ipv4_dst.set(address);
        let read = read_by(rules, &flow);
        assert_eq!(read.packet.eth_type.get(), 0xffff);
        read.packet.ipv4_dst.get()
    };
    let rules: &[Fields<'_>] = &[(&[ip, net], 1), (&[ip, host], 2)];
    // 10.0/16 and 10.1/16 differ in bit 16 already.
    assert_eq!(read_for(0x0a00_0001, rules), 0xffff_0000);
    assert_eq!(read_for(0x0a01_0203, rules), 0xffff_ffff);
    assert_eq!(read_for(0x0b01_0203, rules), 0xff00_0000);
}

#[test]
fn ports_save_bits() {
    let rules: &[Fields<'_>] = &[(&[(Field::TCP_DST, 80, 0xffff)], 1)];
    let mut flow = Flow::default();
    flow.packet.tp_dst.set(0x8000);
    let read = read_by(rules, &flow);
    assert_eq!((read.packet.tp_src.get(), read.packet.tp_dst.get()), (0, 0x8000));
    flow.packet.tp_dst.set(80);
    assert_eq!(read_by(rules, &flow).packet.tp_dst.get(), 0xffff);
}

#[test]
fn earlier_stages_save_later_ones() {
    let rules: &[Fields<'_>] =
        &[(&[(Field::METADATA, 1, u128::MAX), (Field::IP_TTL, 64, 0xff)], 1)];
    let mut flow = Flow::default();
    let read = read_by(rules, &flow);
    assert_eq!((read.metadata.get(), read.packet.ip_ttl), (u64::MAX, 0));
    flow.metadata.set(1);
    let read = read_by(rules, &flow);
    assert_eq!((read.metadata.get(), read.packet.ip_ttl), (u64::MAX, 0xff));
}
