//! Limits how often one place in the code may log.

use std::fmt;
use std::time::Duration;

/// What one message costs; a token is gained every millisecond, so one message a minute.
const MESSAGE: u64 = 60_000;
/// Tokens that may be saved up.
const BURST: u64 = 5 * MESSAGE;

/// A token bucket that lets five messages pass at once and then one a minute, and counts those
/// it holds back.
#[derive(Debug)]
pub(super) struct RateLimit {
    tokens: u64,
    /// When tokens were last added, in milliseconds: the unit in which they are gained, so that
    /// nothing is lost however often the bucket is asked.
    filled: u128,
    dropped: Option<Dropped>,
}

/// Messages held back since one was last let through. Times are those of [`netdev::clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dropped {
    count: u64,
    first: Duration,
    last: Duration,
}

/// Whether a message is logged.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Drop,
    Pass,
    /// It is logged, after a message that others were held back.
    PassAfter(Summary),
}

/// The message about messages held back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    count: u64,
    first_seconds_ago: u64,
    last_seconds_ago: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Dropped {} log messages in last {} seconds (most recently, {} seconds ago) due to \
             excessive rate",
            self.count, self.first_seconds_ago, self.last_seconds_ago
        )
    }
}

impl RateLimit {
    /// A full bucket.
    pub(super) fn new(now: Duration) -> Self {
        Self { tokens: BURST, filled: now.as_millis(), dropped: None }
    }

    /// Decides about a message at `now`.
    pub(super) fn admit(&mut self, now: Duration) -> Verdict {
        if self.tokens < MESSAGE {
            let gained = now.as_millis().saturating_sub(self.filled);
            let gained = u64::try_from(gained).unwrap_or(u64::MAX);
            self.tokens = self.tokens.saturating_add(gained).min(BURST);
            self.filled = now.as_millis();
        }
        let Some(tokens) = self.tokens.checked_sub(MESSAGE) else {
            let dropped = self.dropped.get_or_insert(Dropped { count: 0, first: now, last: now });
            dropped.count += 1;
            dropped.last = now;
            return Verdict::Drop;
        };
        self.tokens = tokens;
        self.dropped.take().map_or(Verdict::Pass, |dropped| {
            Verdict::PassAfter(Summary {
                count: dropped.count,
                first_seconds_ago: now.as_secs().saturating_sub(dropped.first.as_secs()),
                last_seconds_ago: now.as_secs().saturating_sub(dropped.last.as_secs()),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn five_pass_and_then_one_a_minute() {
        let at = Duration::from_secs;
        let mut limit = RateLimit::new(at(100));
        for _ in 0..5 {
            assert_eq!(limit.admit(at(100)), Verdict::Pass);
        }
        assert_eq!(limit.admit(at(101)), Verdict::Drop);
        assert_eq!(limit.admit(at(130)), Verdict::Drop);
        assert_eq!(limit.admit(Duration::from_millis(159_999)), Verdict::Drop);
        let Verdict::PassAfter(summary) = limit.admit(at(160)) else { panic!("dropped") };
        assert_eq!(
            summary.to_string(),
            "Dropped 3 log messages in last 59 seconds (most recently, 1 seconds ago) due to \
             excessive rate"
        );
        assert_eq!(limit.admit(at(160)), Verdict::Drop);

        // A long silence saves up no more than the burst.
        let later = at(100_000);
        assert!(matches!(limit.admit(later), Verdict::PassAfter(_)));
        for _ in 0..4 {
            assert_eq!(limit.admit(later), Verdict::Pass);
        }
        assert_eq!(limit.admit(later), Verdict::Drop);
    }

    #[test]
    fn asking_often_does_not_stop_the_refill() {
        let mut limit = RateLimit::new(Duration::ZERO);
        let passed = (0..200_000)
            .filter(|n| limit.admit(Duration::from_micros(n * 600)) != Verdict::Drop)
            .count();
        assert_eq!(passed, 5 + 1);
    }

    proptest! {
        /// However calls are spaced, messages and summaries account for every call, and no more
        /// pass than the rate allows.
        #[test]
        fn calls_are_accounted_for(steps in prop::collection::vec(0_u64..100_000, 1..200)) {
            let mut now = Duration::ZERO;
            let mut limit = RateLimit::new(now);
            let (mut passed, mut reported) = (0, 0);
            for step in &steps {
                now += Duration::from_millis(*step);
                match limit.admit(now) {
                    Verdict::Drop => {}
                    Verdict::Pass => passed += 1,
                    Verdict::PassAfter(summary) => {
                        passed += 1;
                        reported += summary.count;
                    }
                }
            }
            let pending = limit.dropped.map_or(0, |dropped| dropped.count);
            prop_assert_eq!(passed + reported + pending, steps.len() as u64);
            prop_assert!(passed <= 5 + now.as_secs() / 60);
        }
    }
}
