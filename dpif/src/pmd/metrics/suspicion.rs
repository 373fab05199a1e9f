//! Telling the log of rounds that took too long (`pmd-perf-log-set`).

use std::collections::VecDeque;

use netdev::cpu;
use tracing::warn;

use super::text::iteration_history;
use super::{HISTORY, Sample};

/// Which rounds are logged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IterationLog {
    /// Whether any are.
    pub is_on: bool,
    /// How many rounds before it are logged with a suspicious one.
    pub before: usize,
    /// How many rounds after it.
    pub after: usize,
    /// Whether another suspicious round meanwhile makes for more rounds after it.
    pub extends: bool,
    /// Microseconds that a round may take.
    pub microseconds: u64,
}

/// Rounds before and after together are at most so many.
pub const MAX_AROUND: usize = HISTORY - 2;

impl Default for IterationLog {
    fn default() -> Self {
        Self { is_on: false, before: 5, after: 5, extends: false, microseconds: 250 }
    }
}

/// The suspicious round that is waiting for those after it.
#[derive(Clone, Copy, Debug)]
struct Pending {
    round: Sample,
    /// Numbers of the first and the last round to log.
    first: u64,
    last: u64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    log: IterationLog,
    /// Cycles that a round may take.
    threshold: u64,
    pending: Option<Pending>,
}

impl Suspect {
    pub(super) fn new(log: IterationLog) -> Self {
        let threshold = match log.is_on {
            true => log.microseconds.saturating_mul(cpu::cycles_per_second() / 1_000_000),
            false => u64::MAX,
        };
        Self { log, threshold, pending: None }
    }

    pub(super) fn log(&self) -> IterationLog {
        self.log
    }

    /// Looks at the latest of the rounds. They are logged only when the last of those around a
    /// suspicious one has ended, so that logging does not disturb what it tells about.
    pub(super) fn look(&mut self, rounds: &VecDeque<Sample>) {
        let Some(latest) = rounds.back() else { return };
        if latest.cycles > self.threshold {
            self.suspect(latest);
        }
        if let Some(pending) = self.pending.take_if(|pending| pending.last <= latest.at) {
            tell(&pending.round);
            let around = rounds.iter().filter(|round| round.at >= pending.first);
            let around: VecDeque<Sample> = around.copied().collect();
            warn!(
                target: "pmd_perf", limited = true,
                "Neighborhood of suspicious iteration:\n{}", iteration_history(&around, HISTORY)
            );
        }
    }

    fn suspect(&mut self, round: &Sample) {
        let last = round.at + self.log.after as u64;
        match &mut self.pending {
            None => {
                let first = round.at.saturating_sub(self.log.before as u64);
                self.pending = Some(Pending { round: *round, first, last });
            }
            Some(pending) if self.log.extends => {
                tell(&pending.round);
                pending.round = *round;
                // What is older than the history cannot be told.
                pending.last = last.min(pending.first + MAX_AROUND as u64);
            }
            Some(_) => {}
        }
    }
}

fn tell(round: &Sample) {
    let duration = round.cycles * 1_000_000 / cpu::cycles_per_second().max(1);
    warn!(
        target: "pmd_perf", limited = true,
        "Suspicious iteration (Excessive total cycles): iter={} duration={duration} us\n",
        round.at
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and last of the rounds that would be logged, by when; rounds of 1 are fast.
    fn look(log: IterationLog, rounds: &[u64]) -> Vec<(u64, u64, u64)> {
        let mut suspect = Suspect { log, threshold: 10, pending: None };
        let (mut history, mut logged) = (VecDeque::new(), vec![]);
        for (at, &cycles) in (1..).zip(rounds) {
            history.push_back(Sample { at, iterations: 1, cycles, ..Sample::default() });
            let before = suspect.pending;
            suspect.look(&history);
            if let (Some(pending), None) = (before, suspect.pending) {
                logged.push((at, pending.first, pending.last));
            }
        }
        logged
    }

    #[test]
    fn rounds_around_a_slow_one_are_logged_when_they_have_ended() {
        let log = IterationLog { is_on: true, before: 2, after: 3, ..IterationLog::default() };
        assert_eq!(look(log, &[1, 1, 1, 99, 1, 1, 1, 1]), [(7, 2, 7)]);
        assert_eq!(look(log, &[1, 99, 1, 99, 1, 1, 1, 1]), [(5, 0, 5)]);
        let extended = IterationLog { extends: true, ..log };
        assert_eq!(look(extended, &[1, 1, 99, 1, 99, 1, 1, 1, 1]), [(8, 1, 8)]);
    }
}
