//! The rules of a classifier that have the same mask.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashTable;

use super::hash::Hash;
use super::index::Index;
use super::mask::{Mask, MaskedKey, WORDS};
use super::prefixes::{Prefixes, first_ones};
use super::trie::{Answers, MAX_PREFIX_FIELDS, Trie};
use crate::flow::Flow;
use crate::rule::Rule;

/// Rules with the same key, those of higher priority first.
#[derive(Debug)]
enum Rules {
    One(Arc<Rule>),
    Many(Box<[Arc<Rule>]>),
}

#[derive(Debug)]
struct Bucket {
    hash: u64,
    rules: Rules,
}

impl Bucket {
    fn rules(&self) -> &[Arc<Rule>] {
        match &self.rules {
            Rules::One(rule) => std::slice::from_ref(rule),
            Rules::Many(rules) => rules,
        }
    }

    fn has_key(&self, values: &[u32]) -> bool {
        self.rules().first().is_some_and(|rule| *rule.key.values == *values)
    }

    /// Adds a rule behind those of the same priority, which are being removed.
    fn insert(&mut self, rule: Arc<Rule>) {
        let mut rules = self.rules().to_vec();
        let at = rules.partition_point(|other| other.priority >= rule.priority);
        rules.insert(at, rule);
        self.rules = Rules::Many(rules.into());
    }
}

/// A rule that takes a packet, and those of the same key that would take it otherwise.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) rule: &'a Arc<Rule>,
    others: &'a [Arc<Rule>],
}

impl<'a> Candidate<'a> {
    /// The first of `rules` that is in a version.
    fn first(rules: &'a [Arc<Rule>], version: u64) -> Option<Self> {
        let at = rules.iter().position(|rule| rule.is_in(version))?;
        let (rule, others) = rules.get(at..)?.split_first()?;
        Some(Self { rule, others })
    }

    /// The next in line.
    pub(super) fn next(&self, version: u64) -> Option<Self> {
        Self::first(self.others, version)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Subtable {
    pub(super) mask: Arc<Mask>,
    rules: HashTable<Bucket>,
    /// For each stage but the last: which hashes keys have up to there.
    stages: Vec<Index>,
    /// How many rules have a priority.
    priorities: BTreeMap<u32, u32>,
    /// Length of the prefix that the mask has of each field with a trie; 0 is none.
    prefix_lengths: [u8; MAX_PREFIX_FIELDS],
    /// The transport ports of all keys, as one number.
    ports: Prefixes,
    ports_mask: u32,
}

impl Subtable {
    pub(super) fn new(mask: Arc<Mask>, tries: &[Trie]) -> Self {
        let mut bits = Flow::default();
        mask.add_to(&mut bits);
        let stages = mask.stages().skip(1).map(|_| Index::default()).collect();
        let mut subtable = Self {
            mask,
            rules: HashTable::new(),
            stages,
            priorities: BTreeMap::new(),
            prefix_lengths: [0; MAX_PREFIX_FIELDS],
            ports: Prefixes::default(),
            ports_mask: ports(&bits),
        };
        subtable.set_tries(tries, &bits);
        subtable
    }

    fn set_tries(&mut self, tries: &[Trie], mask: &Flow) {
        self.prefix_lengths = [0; MAX_PREFIX_FIELDS];
        for (length, trie) in self.prefix_lengths.iter_mut().zip(tries) {
            *length = trie.prefix_length(mask);
        }
    }

    /// Adds all prefixes to new tries.
    pub(super) fn fill_tries(&mut self, tries: &mut [Trie]) {
        let mut bits = Flow::default();
        self.mask.add_to(&mut bits);
        self.set_tries(tries, &bits);
        let first = |bucket: &Bucket| bucket.rules().first().map(|rule| rule.key.values.clone());
        let keys: Vec<_> = self.rules.iter().filter_map(first).collect();
        for values in keys {
            self.for_tries(tries, &self.mask.flow_of(&values), Prefixes::add);
        }
    }

    /// Highest priority of a rule.
    pub(super) fn max_priority(&self) -> Option<u32> {
        self.priorities.last_key_value().map(|(priority, _)| *priority)
    }

    /// All rules.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.rules.iter().flat_map(Bucket::rules)
    }

    /// The rules with a key of this mask.
    pub(super) fn with_key(&self, values: &[u32], start: Hash) -> &[Arc<Rule>] {
        let hash = start.with_all(values).get();
        self.rules.find(hash, |bucket| bucket.has_key(values)).map_or(&[], Bucket::rules)
    }

    /// Calls `change` with the prefixes that a key has: of fields with tries, and of the ports.
    fn for_prefixes(
        &mut self,
        tries: &mut [Trie],
        values: &[u32],
        change: fn(&mut Prefixes, u128, u8),
    ) {
        if self.prefix_lengths == [0; MAX_PREFIX_FIELDS] && self.ports_mask == 0 {
            return;
        }
        let flow = self.mask.flow_of(values);
        self.for_tries(tries, &flow, change);
        if self.ports_mask != 0 {
            let length = u32::BITS - self.ports_mask.trailing_zeros();
            change(&mut self.ports, as_prefix(ports(&flow)), length as u8);
        }
    }

    fn for_tries(&self, tries: &mut [Trie], flow: &Flow, change: fn(&mut Prefixes, u128, u8)) {
        for (trie, &length) in tries.iter_mut().zip(&self.prefix_lengths) {
            if length != 0 {
                let value = trie.value(flow);
                change(&mut trie.prefixes, value, length);
            }
        }
    }

    pub(super) fn insert(&mut self, rule: Arc<Rule>, tries: &mut [Trie], start: Hash) {
        *self.priorities.entry(rule.priority).or_default() += 1;
        let hashes = self.hashes(&rule.key, start);
        let Some((&hash, stages)) = hashes.split_last() else { return };
        let same = |bucket: &Bucket| bucket.has_key(&rule.key.values);
        if let Some(bucket) = self.rules.find_mut(hash, same) {
            return bucket.insert(rule);
        }
        self.for_prefixes(tries, &rule.key.values, Prefixes::add);
        for (stage, &hash) in self.stages.iter_mut().zip(stages) {
            stage.add(hash);
        }
        let bucket = Bucket { hash, rules: Rules::One(rule) };
        self.rules.insert_unique(hash, bucket, |bucket| bucket.hash);
    }

    pub(super) fn remove(&mut self, rule: &Arc<Rule>, tries: &mut [Trie], start: Hash) {
        let hashes = self.hashes(&rule.key, start);
        let Some((&hash, stages)) = hashes.split_last() else { return };
        let same = |bucket: &Bucket| bucket.has_key(&rule.key.values);
        let Ok(mut entry) = self.rules.find_entry(hash, same) else { return };
        let left = entry.get().rules().iter().filter(|other| !Arc::ptr_eq(other, rule));
        let left: Vec<_> = left.cloned().collect();
        if left.len() == entry.get().rules().len() {
            return;
        }
        if left.is_empty() {
            entry.remove();
            self.for_prefixes(tries, &rule.key.values, Prefixes::remove);
            for (stage, &hash) in self.stages.iter_mut().zip(stages) {
                stage.remove(hash);
            }
        } else {
            entry.get_mut().rules = Rules::Many(left.into());
        }
        if let Some(count) = self.priorities.get_mut(&rule.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&rule.priority);
            }
        }
    }

    /// The hashes of a key up to each stage.
    fn hashes(&self, key: &MaskedKey, mut hash: Hash) -> Vec<u64> {
        let mut values = &*key.values;
        let stages = self.mask.stages().map(|words| {
            let (stage, rest) = values.split_at_checked(words.len()).unwrap_or((values, &[]));
            values = rest;
            hash = hash.with_all(stage);
            hash.get()
        });
        let hashes: Vec<u64> = stages.collect();
        if hashes.is_empty() { vec![hash.get()] } else { hashes }
    }

    /// The rule of highest priority that takes a packet in a version. The bits of the packet that
    /// were looked at are noted in `read`.
    pub(super) fn find(
        &self,
        version: u64,
        flow: &Flow,
        answers: &mut Answers<'_>,
        mut hash: Hash,
        read: &mut Flow,
    ) -> Option<Candidate<'_>> {
        let mut indices = self.stages.iter();
        let mut values = [0; WORDS];
        let mut places = values.iter_mut();
        let mut used = 0;
        for words in self.mask.stages() {
            if answers.exclude(&self.prefix_lengths, words, flow, read) {
                self.mask.add_words_to(used, read);
                return None;
            }
            used += words.len();
            for (word, place) in words.iter().zip(&mut places) {
                *place = word.of(flow);
                hash = hash.with(*place);
            }
            // The last stage has no index but the rules themselves.
            let Some(index) = indices.next() else { break };
            if !index.has(hash.get()) {
                self.mask.add_words_to(used, read);
                return None;
            }
        }
        let values = values.get(..used).unwrap_or(&values);
        let bucket = self.rules.find(hash.get(), |bucket| bucket.has_key(values));
        let found = bucket.and_then(|bucket| Candidate::first(bucket.rules(), version));
        let ports_before = ports(read);
        self.mask.add_to(read);
        if found.is_none() && self.ports_mask != 0 {
            // It was the ports that told, of which fewer bits may do.
            let needed = self.ports.find(as_prefix(ports(flow) & self.ports_mask)).needed;
            let bits = self.ports_mask & (first_ones(needed) >> 96) as u32;
            set_ports(read, bits | ports_before);
        }
        found
    }
}

/// Source and destination port as one number.
fn ports(flow: &Flow) -> u32 {
    u32::from(flow.packet.tp_src.get()) << 16 | u32::from(flow.packet.tp_dst.get())
}

fn set_ports(flow: &mut Flow, ports: u32) {
    flow.packet.tp_src.set((ports >> 16) as u16);
    flow.packet.tp_dst.set(ports as u16);
}

/// A number of 32 bits with its first bit highest.
fn as_prefix(number: u32) -> u128 {
    u128::from(number) << 96
}
