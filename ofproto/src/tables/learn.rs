//! Rules that other rules learn from packets.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::info;

use super::transaction::NO_COOKIE;
use super::{Criteria, Tables};
use crate::openflow::error::OfError;
use crate::rule::{Rule, RuleParts};

/// What a `learn` action makes of packets: a rule that is there as long as such packets come.
#[derive(Debug)]
pub struct Learned {
    parts: RuleParts,
    /// Most rules of the table with the same cookie; 0 is any number.
    limit: u32,
    /// The rule, once it was learned.
    rule: Mutex<Option<Arc<Rule>>>,
}

/// What [`Tables::learn`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LearnResult {
    /// The rule is there.
    Learned,
    /// There are as many rules as may be learned.
    Full,
}

impl Learned {
    /// A rule to learn. Of all rules of its table with its cookie there may be `limit`; 0 is any
    /// number.
    pub fn new(parts: RuleParts, limit: u32) -> Self {
        Self { parts, limit, rule: Mutex::new(None) }
    }

    /// What the rule is made of.
    pub fn parts(&self) -> &RuleParts {
        &self.parts
    }

    /// Whether `rule` is just what would be learned.
    fn is(&self, rule: &Rule) -> bool {
        let parts = &self.parts;
        rule.idle_timeout() == parts.idle_timeout
            && rule.hard_timeout() == parts.hard_timeout
            && rule.importance == parts.importance
            && rule.flags == parts.flags
            && (parts.cookie == NO_COOKIE || rule.cookie == parts.cookie)
            && rule.actions == parts.actions
    }
}

impl Tables {
    /// Whether the rule is there as it would be learned.
    pub fn has_learned(&self, learned: &Learned) -> bool {
        let parts = &learned.parts;
        let Some(table) = self.table(parts.table) else { return false };
        let key = table.key(&parts.flow_match, &self.tlv());
        let classifier = table.read();
        let found = classifier.find_exactly(&key, parts.priority, self.version());
        found.is_some_and(|rule| learned.is(rule))
    }

    /// Adds a learned rule, or confirms it if it is there. `used` is when the packet came.
    ///
    /// # Errors
    /// The error that a controller would get who adds the rule.
    pub fn learn(&self, learned: &Learned, used: Duration) -> Result<LearnResult, OfError> {
        let parts = &learned.parts;
        let table = self.table(parts.table).ok_or(OfError::BadRequestTableId)?;
        let mut rule = learned.rule.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rule) = rule.as_ref().filter(|rule| !rule.is_removed()) {
            rule.confirm(used);
            return Ok(LearnResult::Learned);
        }
        let key = table.key(&parts.flow_match, &self.tlv());
        let find = |version| table.read().find_exactly(&key, parts.priority, version).cloned();
        if let Some(found) = find(self.version()) {
            if rule.is_none() && learned.is(&found) {
                found.confirm(used);
                *rule = Some(found);
                return Ok(LearnResult::Learned);
            }
            // What came in its place later is not undone by packets from before.
            if found.modified() > used {
                return Ok(LearnResult::Learned);
            }
        }
        let mut transaction = self.begin();
        if learned.limit != 0 {
            let criteria = Criteria {
                table: parts.table,
                cookie: parts.cookie,
                cookie_mask: u64::MAX,
                ..Criteria::all()
            };
            let rules = self.select_in(&criteria, transaction.version());
            if rules.len() >= learned.limit as usize {
                info!(
                    target: "ofproto",
                    limited = true,
                    "Learn limit for flow {} reached.",
                    parts.cookie.to_be()
                );
                return Ok(LearnResult::Full);
            }
        }
        let new = transaction.learn(parts.clone(), used)?;
        transaction.commit();
        *rule = Some(new);
        Ok(LearnResult::Learned)
    }
}
