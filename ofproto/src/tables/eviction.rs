//! Which rule of a full table goes when another is to be added.
//!
//! Rules that are alike in certain fields form groups, and one goes from the largest. Within it
//! the one of least importance goes, and of those the one that would run out first. Rules that
//! never run out stay (ovs-vswitchd.conf.db(5), `Flow_Table.groups`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use netdev::clock;

use crate::openflow::action::Subfield;
use crate::openflow::value::Value;
use crate::rule::Rule;

/// How long an order of rules is good for, though packets use them meanwhile.
const REFRESH: Duration = Duration::from_secs(1);

/// Rules that come first go first: by importance, the second in which they run out, and age.
type Rank = (u16, u64, u64);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Eviction {
    fields: Vec<Subfield>,
    hash: RandomState,
    groups: HashMap<u64, BTreeMap<Rank, Arc<Rule>>>,
    /// Sizes and hashes of groups.
    sizes: BTreeSet<(usize, u64)>,
    /// Where each rule is, by its serial number.
    places: HashMap<u64, (u64, Rank)>,
    ranked: Duration,
}

/// When a rule runs out if nothing happens to it.
fn end(rule: &Rule) -> Option<Duration> {
    let timeout = |since: Duration, timeout: u16| {
        (timeout != 0).then(|| since + Duration::from_secs(timeout.into()))
    };
    let hard = timeout(rule.modified(), rule.hard_timeout());
    let idle = timeout(rule.statistics().used(), rule.idle_timeout());
    hard.into_iter().chain(idle).min()
}

impl Eviction {
    pub(super) fn new(fields: Vec<Subfield>) -> Self {
        Self {
            fields,
            hash: RandomState::new(),
            groups: HashMap::new(),
            sizes: BTreeSet::new(),
            places: HashMap::new(),
            ranked: clock::now(),
        }
    }

    pub(super) fn fields(&self) -> &[Subfield] {
        &self.fields
    }

    /// The group of a rule.
    fn group(&self, rule: &Rule) -> u64 {
        let mut hasher = self.hash.build_hasher();
        for part in &self.fields {
            let value = part.field.prerequisite_met(&rule.flow_match).then(|| {
                let (value, _) = rule.flow_match.field(part.field);
                value.shr(part.offset.into()).and(&Value::ones(part.bits.into()))
            });
            value.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Takes note of a rule. One that never runs out is not evicted.
    pub(super) fn add(&mut self, rule: &Arc<Rule>) {
        let Some(end) = end(rule) else { return };
        let group = self.group(rule);
        let rank = (rule.importance, end.as_secs(), rule.serial);
        self.places.insert(rule.serial, (group, rank));
        self.resize(group, |rules| {
            rules.insert(rank, Arc::clone(rule));
        });
    }

    /// Forgets a rule.
    pub(super) fn remove(&mut self, rule: &Rule) {
        if let Some((group, rank)) = self.places.remove(&rule.serial) {
            self.resize(group, |rules| {
                rules.remove(&rank);
            });
        }
    }

    fn resize(&mut self, group: u64, change: impl FnOnce(&mut BTreeMap<Rank, Arc<Rule>>)) {
        let rules = self.groups.entry(group).or_default();
        self.sizes.remove(&(rules.len(), group));
        change(rules);
        if rules.is_empty() {
            self.groups.remove(&group);
        } else {
            self.sizes.insert((rules.len(), group));
        }
    }

    /// The rule that is to go first.
    pub(super) fn choose(&mut self) -> Option<Arc<Rule>> {
        let now = clock::now();
        if now >= self.ranked + REFRESH {
            self.ranked = now;
            let rules: Vec<_> = self.groups.values().flat_map(BTreeMap::values).cloned().collect();
            for rule in rules {
                self.remove(&rule);
                self.add(&rule);
            }
        }
        let (_, group) = self.sizes.last()?;
        let (_, rule) = self.groups.get(group)?.first_key_value()?;
        Some(Arc::clone(rule))
    }
}
