//! A rule: one entry of a flow table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use netdev::clock;

use crate::classifier::MaskedKey;
use crate::openflow::action::Action;
use crate::openflow::flow_match::Match;
use crate::openflow::message::FlowFlags;
use crate::openflow::port::PortNo;

/// Version of the tables in which a rule that is not removed will be.
const NEVER: u64 = u64::MAX;

/// What a rule is made of.
#[derive(Clone, Debug)]
pub struct RuleParts {
    /// Table.
    pub table: u8,
    /// Priority. Above 65,535 are rules of the switch itself, which controllers do not see.
    pub priority: u32,
    /// Which packets it takes.
    pub flow_match: Match,
    /// What controllers call it by.
    pub cookie: u64,
    /// Seconds without packets after which it goes; 0 is never.
    pub idle_timeout: u16,
    /// Seconds after which it goes; 0 is never.
    pub hard_timeout: u16,
    /// Those of less importance are evicted first.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// What it does.
    pub actions: Arc<[Action]>,
}

impl RuleParts {
    /// A rule of table 0 that forwards everything as a learning switch does.
    pub(crate) fn normal(priority: u32) -> Self {
        Self {
            table: 0,
            priority,
            flow_match: Match::new(),
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags(0),
            actions: [Action::Output { port: PortNo::NORMAL, max_len: 0 }].into(),
        }
    }
}

/// What a rule has from how it came about, and from the one that it replaces.
#[derive(Debug)]
pub(crate) struct Lineage {
    created: Duration,
    /// When it was made.
    modified: Duration,
    statistics: Arc<RuleStatistics>,
}

impl Lineage {
    /// Of a rule that replaces none and is made at `modified`.
    pub(crate) fn none(modified: Duration) -> Self {
        let now = clock::now();
        Self { created: now, modified, statistics: Arc::new(RuleStatistics::new(now)) }
    }

    /// Of a rule that replaces another at `modified`. It is as old as that if it `is_modified`.
    pub(crate) fn of(
        old: &Rule,
        is_modified: bool,
        keeps_counts: bool,
        modified: Duration,
    ) -> Self {
        let statistics = match keeps_counts {
            true => Arc::clone(&old.statistics),
            false => Arc::new(RuleStatistics::new(old.statistics.used())),
        };
        let created = if is_modified { old.created } else { clock::now() };
        Self { created, modified, statistics }
    }
}

/// See the [module](self). A rule does not change but for its counters and timeouts; one that is
/// modified is replaced by another that has its counters.
#[derive(Debug)]
pub struct Rule {
    /// Table.
    pub table: u8,
    /// Priority. Above 65,535 are rules of the switch itself, which controllers do not see.
    pub priority: u32,
    /// Which packets it takes.
    pub flow_match: Match,
    /// The same as the classifier has it.
    pub(crate) key: MaskedKey,
    /// Rules have rising numbers, in the order in which they were added.
    pub(crate) serial: u64,
    /// What controllers call it by.
    pub cookie: u64,
    /// Those of less importance are evicted first.
    pub importance: u16,
    /// Flags.
    pub flags: FlowFlags,
    /// What it does.
    pub actions: Arc<[Action]>,
    /// Whether it is a part of conjunctive matches.
    pub(crate) is_conjunctive: bool,
    /// When it was added, by the switch's clock.
    pub created: Duration,
    /// Milliseconds of the clock.
    modified: AtomicU64,
    idle_timeout: AtomicU16,
    hard_timeout: AtomicU16,
    statistics: Arc<RuleStatistics>,
    /// The first version of the tables that has it.
    added_in: u64,
    /// The first version that does not have it any more.
    removed_in: AtomicU64,
}

/// What a rule counts. Upcalls and revalidation both add to it.
#[derive(Debug)]
pub struct RuleStatistics {
    packets: AtomicU64,
    bytes: AtomicU64,
    /// Milliseconds of the clock.
    used: AtomicU64,
}

impl RuleStatistics {
    /// Of a rule that met no packet and counts as used at `used`.
    fn new(used: Duration) -> Self {
        Self {
            packets: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            used: AtomicU64::new(used.as_millis() as u64),
        }
    }

    /// Counts packets, the last of which came at `used`.
    pub fn add(&self, packets: u64, bytes: u64, used: Duration) {
        self.packets.fetch_add(packets, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.used.fetch_max(used.as_millis() as u64, Ordering::Relaxed);
    }

    /// Number of packets.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// When the last packet came, or the rule was added if none did.
    pub fn used(&self) -> Duration {
        Duration::from_millis(self.used.load(Ordering::Relaxed))
    }
}

impl Rule {
    /// A rule that is in the tables from version `added_in` on.
    pub(crate) fn new(
        parts: RuleParts,
        key: MaskedKey,
        serial: u64,
        added_in: u64,
        lineage: Lineage,
    ) -> Self {
        let is_conjunctive =
            parts.actions.iter().any(|action| matches!(action, Action::Conjunction { .. }));
        let statistics = lineage.statistics;
        Self {
            table: parts.table,
            priority: parts.priority,
            flow_match: parts.flow_match,
            key,
            serial,
            cookie: parts.cookie,
            importance: parts.importance,
            flags: parts.flags,
            actions: parts.actions,
            is_conjunctive,
            created: lineage.created,
            modified: AtomicU64::new(lineage.modified.as_millis() as u64),
            idle_timeout: AtomicU16::new(parts.idle_timeout),
            hard_timeout: AtomicU16::new(parts.hard_timeout),
            statistics,
            added_in,
            removed_in: AtomicU64::new(NEVER),
        }
    }

    /// What would make the same rule.
    pub(crate) fn parts(&self) -> RuleParts {
        RuleParts {
            table: self.table,
            priority: self.priority,
            flow_match: self.flow_match.clone(),
            cookie: self.cookie,
            idle_timeout: self.idle_timeout(),
            hard_timeout: self.hard_timeout(),
            importance: self.importance,
            flags: self.flags,
            actions: Arc::clone(&self.actions),
        }
    }

    /// Whether it is taken out of the tables, from whatever version on.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed_in.load(Ordering::Acquire) != NEVER
    }

    /// Whether the rule is in `version` of the tables.
    pub fn is_in(&self, version: u64) -> bool {
        self.added_in <= version && version < self.removed_in.load(Ordering::Acquire)
    }

    /// Takes the rule out of the tables from `version` on, or puts it back.
    pub(crate) fn set_removed_in(&self, version: Option<u64>) {
        self.removed_in.store(version.unwrap_or(NEVER), Ordering::Release);
    }

    /// What it counted.
    pub fn statistics(&self) -> &RuleStatistics {
        &self.statistics
    }

    /// Seconds without packets after which it goes; 0 is never.
    pub fn idle_timeout(&self) -> u16 {
        self.idle_timeout.load(Ordering::Relaxed)
    }

    /// Seconds after which it goes; 0 is never.
    pub fn hard_timeout(&self) -> u16 {
        self.hard_timeout.load(Ordering::Relaxed)
    }

    /// When it was added or last confirmed.
    pub fn modified(&self) -> Duration {
        Duration::from_millis(self.modified.load(Ordering::Relaxed))
    }

    /// Makes its hard timeout count from now on, as learning the same again does.
    pub fn confirm(&self, now: Duration) {
        self.modified.fetch_max(now.as_millis() as u64, Ordering::Relaxed);
    }

    /// Shortens its timeouts to these, where they are not 0. Returns whether that changed any.
    pub(crate) fn shorten_timeouts(&self, idle: u16, hard: u16) -> bool {
        let mut changed = false;
        for (own, new) in [(&self.idle_timeout, idle), (&self.hard_timeout, hard)] {
            let old = own.load(Ordering::Relaxed);
            if new != 0 && (old == 0 || new < old) {
                own.store(new, Ordering::Relaxed);
                changed = true;
            }
        }
        changed
    }

    /// Whether controllers see it.
    pub fn is_visible(&self) -> bool {
        self.priority <= u32::from(u16::MAX)
    }
}
