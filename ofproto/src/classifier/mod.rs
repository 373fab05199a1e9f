//! The classifier of a flow table: finds the rule of highest priority that takes a packet, and
//! notes which bits of the packet tell that, as few as it can.
//!
//! Rules with the same mask share a `subtable`, a hash table. Subtables are visited in the order
//! of their highest priority. In a subtable fields are compared in stages, and what the prefixes of
//! addresses exclude is not compared at all; the bits that are noted are the same as those of Open
//! vSwitch (`lib/classifier.h`, "Staged Lookup" and "Prefix Tracking").

mod conjunction;
mod hash;
mod index;
mod mask;
mod prefixes;
mod stage;
mod subtable;
#[cfg(test)]
mod tests;
mod trie;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use self::conjunction::SoftMatches;
use self::hash::Hash;
pub use self::mask::{Mask, MaskedKey};
use self::subtable::Subtable;
use self::trie::{Answers, Trie};
pub use self::trie::{MAX_PREFIX_FIELDS, has_prefixes};
use crate::flow::Flow;
use crate::openflow::field::Field;
use crate::rule::Rule;

/// A subtable in the order of visits.
#[derive(Clone, Copy, Debug)]
struct Visit {
    /// Highest priority in the subtable.
    priority: u32,
    slot: usize,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Classifier {
    /// Some are unused.
    subtables: Vec<Option<Subtable>>,
    by_mask: HashMap<Arc<Mask>, usize>,
    order: Vec<Visit>,
    tries: Vec<Trie>,
    hash: Hash,
    len: usize,
}

impl Classifier {
    /// Without rules; tracks prefixes of these fields.
    pub fn new(prefix_fields: &[Field]) -> Self {
        let mut classifier = Self {
            subtables: Vec::new(),
            by_mask: HashMap::new(),
            order: Vec::new(),
            tries: Vec::new(),
            hash: Hash::new(),
            len: 0,
        };
        classifier.set_prefix_fields(prefix_fields);
        classifier
    }

    /// Number of rules, those included that are on their way out.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Chooses the fields whose prefixes are tracked: the first [`MAX_PREFIX_FIELDS`] of those
    /// that have prefixes. Returns whether that is a change.
    pub fn set_prefix_fields(&mut self, fields: &[Field]) -> bool {
        let mut tries: Vec<Trie> = Vec::new();
        for trie in fields.iter().filter_map(|field| Trie::new(*field)) {
            if tries.len() < MAX_PREFIX_FIELDS && tries.iter().all(|old| old.field != trie.field) {
                tries.push(trie);
            }
        }
        let fields = |tries: &[Trie]| tries.iter().map(|trie| trie.field).collect::<Vec<_>>();
        if fields(&tries) == fields(&self.tries) {
            return false;
        }
        self.subtables.iter_mut().flatten().for_each(|subtable| subtable.fill_tries(&mut tries));
        self.tries = tries;
        true
    }

    /// The mask that the rules with this mask share.
    pub fn shared_mask(&self, mask: Mask) -> Arc<Mask> {
        self.by_mask.get_key_value(&mask).map_or_else(|| Arc::new(mask), |(mask, _)| mask.clone())
    }

    fn subtable(&self, mask: &Mask) -> Option<&Subtable> {
        self.subtables.get(*self.by_mask.get(mask)?)?.as_ref()
    }

    /// The subtables in the order of visits.
    fn visits(&self) -> impl Iterator<Item = (u32, &Subtable)> {
        self.order
            .iter()
            .filter_map(|visit| Some((visit.priority, self.subtables.get(visit.slot)?.as_ref()?)))
    }

    /// Adds a rule. Another with the same key and priority must be on its way out.
    pub fn insert(&mut self, rule: Arc<Rule>) {
        let mask = Arc::clone(&rule.key.mask);
        let slot = match self.by_mask.get(&mask) {
            Some(&slot) => slot,
            None => self.add_subtable(mask),
        };
        if let Some(subtable) = self.subtables.get_mut(slot).and_then(Option::as_mut) {
            subtable.insert(rule, &mut self.tries, self.hash);
            self.len += 1;
            self.put_in_order(slot);
        }
    }

    fn add_subtable(&mut self, mask: Arc<Mask>) -> usize {
        let subtable = Some(Subtable::new(Arc::clone(&mask), &self.tries));
        let unused = self.subtables.iter_mut().position(|subtable| subtable.is_none());
        let slot = match unused.and_then(|slot| self.subtables.get_mut(slot).map(|to| (slot, to))) {
            Some((slot, to)) => {
                *to = subtable;
                slot
            }
            None => {
                self.subtables.push(subtable);
                self.subtables.len() - 1
            }
        };
        self.by_mask.insert(mask, slot);
        slot
    }

    /// Takes a rule out.
    pub fn remove(&mut self, rule: &Arc<Rule>) {
        let Some(&slot) = self.by_mask.get(&rule.key.mask) else { return };
        let Some(subtable) = self.subtables.get_mut(slot).and_then(Option::as_mut) else { return };
        subtable.remove(rule, &mut self.tries, self.hash);
        self.len -= 1;
        self.put_in_order(slot);
    }

    /// Takes all rules out at once. Returns a classifier that has them, for whoever wants to drop
    /// it without haste.
    pub fn take_all(&mut self) -> Self {
        let fields: Vec<_> = self.tries.iter().map(|trie| trie.field).collect();
        std::mem::replace(self, Self::new(&fields))
    }

    /// Puts a subtable where it belongs in the order of visits after a rule came or went.
    fn put_in_order(&mut self, slot: usize) {
        let max =
            self.subtables.get(slot).and_then(Option::as_ref).and_then(Subtable::max_priority);
        let at = self.order.iter().position(|visit| visit.slot == slot);
        match (max, at.and_then(|at| self.order.get_mut(at))) {
            (Some(max), Some(visit)) if visit.priority == max => return,
            (Some(max), Some(visit)) => visit.priority = max,
            (Some(max), None) => self.order.push(Visit { priority: max, slot }),
            (None, _) => {
                if let Some(subtable) = self.subtables.get_mut(slot).and_then(Option::take) {
                    self.by_mask.remove(&subtable.mask);
                }
                if let Some(at) = at {
                    self.order.swap_remove(at);
                }
            }
        }
        self.order.sort_by_key(|visit| Reverse(visit.priority));
    }

    /// The rule with exactly this key and priority in a version.
    pub fn find_exactly(&self, key: &MaskedKey, priority: u32, version: u64) -> Option<&Arc<Rule>> {
        let subtable = self.subtable(&key.mask)?;
        let rules = subtable.with_key(&key.values, self.hash);
        let from = rules.partition_point(|rule| rule.priority > priority);
        let same = rules.get(from..)?.iter().take_while(|rule| rule.priority == priority);
        same.into_iter().find(|rule| rule.is_in(version))
    }

    /// Whether a packet may have both `key` and the key of another rule of the same priority.
    pub fn overlaps(&self, key: &MaskedKey, priority: u32, version: u64) -> bool {
        let subtables = self.visits().take_while(|(max, _)| *max >= priority);
        let mut rules = subtables.flat_map(|(_, subtable)| subtable.iter());
        rules.any(|rule| rule.priority == priority && rule.is_in(version) && rule.key.agrees(key))
    }

    /// The rules in a version whose packets all have `key`, in the order in which Open vSwitch
    /// lists them.
    pub fn within(&self, key: &MaskedKey, version: u64) -> Vec<&Arc<Rule>> {
        let mut rules = Vec::new();
        for (_, subtable) in self.visits().filter(|(_, table)| table.mask.contains(&key.mask)) {
            let is_within = |rule: &&Arc<Rule>| rule.is_in(version) && rule.key.agrees(key);
            // Each rule is looked at once, for they lie far apart.
            let found = subtable.iter().filter(is_within).map(|rule| (rule.serial, rule));
            let mut found: Vec<_> = found.collect();
            found.sort_unstable_by_key(|(serial, _)| *serial);
            rules.extend(found.into_iter().map(|(_, rule)| rule));
        }
        rules
    }

    /// The rule of highest priority that takes a packet in a version. Every bit of the packet
    /// that tells this rule from others is noted in `read`, a mask. Of a conjunctive match the
    /// rules that are parts of it are added to `parts`.
    pub fn lookup(
        &self,
        version: u64,
        flow: &Flow,
        read: &mut Flow,
        parts: &mut Vec<Arc<Rule>>,
    ) -> Option<&Arc<Rule>> {
        self.search(version, flow, read, Some(parts))
    }

    /// As [`lookup`](Self::lookup); without `parts` rules that are parts of conjunctive matches
    /// are passed over.
    fn search(
        &self,
        version: u64,
        flow: &Flow,
        read: &mut Flow,
        parts: Option<&mut Vec<Arc<Rule>>>,
    ) -> Option<&Arc<Rule>> {
        let mut answers = Answers::new(&self.tries);
        let mut hard: Option<&Arc<Rule>> = None;
        let mut soft = SoftMatches::default();
        for (max_priority, subtable) in self.visits() {
            if hard.is_some_and(|hard| max_priority <= hard.priority) {
                break;
            }
            let found = subtable.find(version, flow, &mut answers, self.hash, read);
            let Some(candidate) = found else { continue };
            if hard.is_some_and(|hard| candidate.rule.priority <= hard.priority) {
                continue;
            }
            if !candidate.rule.is_conjunctive {
                hard = Some(candidate.rule);
            } else if parts.is_some() {
                soft.push(candidate);
            }
        }
        let Some(parts) = parts else { return hard };
        soft.resolve(version, hard, parts, |id| {
            let mut flow = flow.clone();
            flow.conj_id.set(id);
            self.search(version, &flow, read, None)
        })
    }
}
