//! Rules that run out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use netdev::coverage::Counter;

use super::{Source, Tables};
use crate::openflow::message::FlowRemovedReason;
use crate::rule::Rule;

/// Rules are there until after their last moment, by the clock's unit for them.
const MOMENT: Duration = Duration::from_millis(1);

/// Rules that ran out.
pub(crate) static EXPIRED: Counter = Counter::new("ofproto_dpif_expired");

/// The rules with timeouts, in the order in which they have to be looked at.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    rules: HashMap<u64, Arc<Rule>>,
    /// Times and serial numbers. Some are of rules that are gone.
    due: BinaryHeap<Reverse<(Duration, u64)>>,
}

/// Until when a rule stays if nothing happens to it, by its hard and its idle timeout.
fn ends(rule: &Rule) -> [Option<(Duration, FlowRemovedReason)>; 2] {
    let timeout = |since: Duration, timeout: u16, reason| {
        (timeout != 0).then(|| (since + Duration::from_secs(timeout.into()), reason))
    };
    let used = rule.statistics().used();
    [
        timeout(rule.modified(), rule.hard_timeout(), FlowRemovedReason::HARD_TIMEOUT),
        timeout(used, rule.idle_timeout(), FlowRemovedReason::IDLE_TIMEOUT),
    ]
}

/// The first of the [`ends`].
fn first_end(rule: &Rule) -> Option<Duration> {
    ends(rule).into_iter().flatten().map(|(at, _)| at).min()
}

impl Expiry {
    pub(super) fn add(&mut self, rule: &Arc<Rule>) {
        if let Some(at) = first_end(rule) {
            self.rules.insert(rule.serial, Arc::clone(rule));
            self.due.push(Reverse((at, rule.serial)));
        }
    }

    pub(super) fn remove(&mut self, rule: &Rule) {
        if self.rules.remove(&rule.serial).is_some() && self.due.len() > 2 * self.rules.len() + 64 {
            self.due.retain(|Reverse((_, serial))| self.rules.contains_key(serial));
        }
    }

    /// A rule that ran out before `now`. Rules that were used meanwhile are put off.
    fn next(&mut self, now: Duration) -> Option<(Arc<Rule>, FlowRemovedReason)> {
        while let Some(&Reverse((at, serial))) = self.due.peek()
            && at < now
        {
            self.due.pop();
            let Some(rule) = self.rules.get(&serial) else { continue };
            let ended = ends(rule).into_iter().flatten().find(|(at, _)| *at < now);
            if let Some((_, reason)) = ended {
                return Some((Arc::clone(rule), reason));
            }
            self.due.extend(first_end(rule).map(|at| Reverse((at, serial))));
        }
        None
    }
}

impl Tables {
    /// Removes the rules that ran out before `now`, the time of the switch's clock, in whole
    /// milliseconds. To be called when the statistics of rules are fresh.
    pub fn expire(&self, now: Duration) {
        let now = Duration::from_millis(now.as_millis() as u64);
        let mut transaction = self.begin();
        while let Some((rule, reason)) = transaction.writer.expiry.next(now) {
            EXPIRED.add(1);
            transaction.remove(&rule, reason, Source::Switch);
        }
        self.forget_unused(&mut transaction.writer);
        transaction.commit();
    }

    /// When the next rule may run out.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.writer().expiry.due.peek().map(|Reverse((at, _))| *at + MOMENT)
    }

    /// Shortens the timeouts of a rule to these, where they are not 0; `fin_timeout` does when a
    /// connection ends.
    pub fn shorten_timeouts(&self, rule: &Arc<Rule>, idle: u16, hard: u16) {
        let mut writer = self.writer();
        if rule.shorten_timeouts(idle, hard) && !rule.is_removed() {
            writer.expiry.add(rule);
        }
    }
}
