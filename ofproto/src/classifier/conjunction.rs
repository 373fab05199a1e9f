//! Conjunctive matches: a packet that meets a rule of every clause of a conjunction meets it.
//!
//! A rule with `conjunction` actions does not itself say what happens; the rule that matches the
//! conjunction's number does (ovs-fields(7), "Conjunctive Match Fields").

use std::collections::HashMap;
use std::sync::Arc;

use super::subtable::Candidate;
use crate::openflow::action::Action;
use crate::rule::Rule;

/// The rules that a packet meets and that are parts of conjunctions.
#[derive(Default)]
pub(super) struct SoftMatches<'a> {
    candidates: Vec<Candidate<'a>>,
}

/// Number, clause and number of clauses of the conjunctions that a rule is part of.
fn conjunctions(rule: &Rule) -> impl Iterator<Item = (u32, u8, u8)> {
    rule.actions.iter().filter_map(|action| match *action {
        Action::Conjunction { id, clause, n_clauses } => Some((id, clause, n_clauses)),
        _ => None,
    })
}

impl<'a> SoftMatches<'a> {
    pub(super) fn push(&mut self, candidate: Candidate<'a>) {
        self.candidates.push(candidate);
    }

    /// The rule that takes the packet, where `hard` is the best one that is part of no
    /// conjunction, and `find` finds the one for a conjunction that is met. The parts of that
    /// conjunction are added to `parts`.
    pub(super) fn resolve(
        mut self,
        version: u64,
        mut hard: Option<&'a Arc<Rule>>,
        parts: &mut Vec<Arc<Rule>>,
        mut find: impl FnMut(u32) -> Option<&'a Arc<Rule>>,
    ) -> Option<&'a Arc<Rule>> {
        loop {
            let is_better = |rule: &Rule| hard.is_none_or(|hard| rule.priority > hard.priority);
            self.candidates.retain(|candidate| is_better(candidate.rule));
            let priorities = self.candidates.iter().map(|candidate| candidate.rule.priority);
            let Some(priority) = priorities.max() else { return hard };
            let best = |candidate: &&Candidate<'a>| candidate.rule.priority == priority;
            let rules: Vec<_> =
                self.candidates.iter().filter(best).map(|candidate| candidate.rule).collect();
            for id in met(&rules) {
                if let Some(rule) = find(id) {
                    let is_part =
                        |rule: &&&Arc<Rule>| conjunctions(rule).any(|(part_of, ..)| part_of == id);
                    parts.extend(rules.iter().filter(is_part).map(|rule| Arc::clone(rule)));
                    return Some(rule);
                }
            }
            // Those of lower priority with the same keys are next.
            for candidate in std::mem::take(&mut self.candidates) {
                if candidate.rule.priority != priority {
                    self.candidates.push(candidate);
                } else if let Some(next) = candidate.next(version) {
                    if next.rule.is_conjunctive {
                        self.candidates.push(next);
                    } else if hard.is_none_or(|hard| next.rule.priority > hard.priority) {
                        hard = Some(next.rule);
                    }
                }
            }
        }
    }
}

/// The conjunctions of which every clause is met by one of `rules`; of those of one rule only the
/// first that it completes.
fn met(rules: &[&Arc<Rule>]) -> Vec<u32> {
    let mut clauses: HashMap<u32, u64> = HashMap::new();
    let mut met = Vec::new();
    for rule in rules {
        for (id, clause, n_clauses) in conjunctions(rule) {
            if usize::from(n_clauses) > rules.len() {
                continue;
            }
            let beyond = u64::MAX.checked_shl(u32::from(n_clauses)).unwrap_or(0);
            let bits = clauses.entry(id).or_insert(beyond);
            *bits |= 1 << (clause % 64);
            if *bits == u64::MAX {
                met.push(id);
                break;
            }
        }
    }
    met
}
