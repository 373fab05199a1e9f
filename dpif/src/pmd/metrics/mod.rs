//! How the rounds of a poll thread differ from each other (`pmd-perf-metrics`): distributions, the
//! latest rounds one by one, and the latest milliseconds.
//!
//! The thread owns its metrics; others ask for a copy through its mailbox.

mod histogram;
mod suspicion;
mod text;

use std::collections::VecDeque;

pub use histogram::{Histogram, HistogramRow};
use suspicion::Suspect;
pub use suspicion::{IterationLog, MAX_AROUND};

/// How many rounds and milliseconds are remembered.
pub const HISTORY: usize = 1000;

/// What happened in one round, or in the rounds of one millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of the round, or the millisecond of the switch's clock.
    pub at: u64,
    /// Rounds.
    pub iterations: u64,
    /// Cycles of all rounds.
    pub cycles: u64,
    /// Cycles of rounds that received something.
    pub busy_cycles: u64,
    /// Packets received.
    pub packets: u64,
    /// Batches received.
    pub batches: u64,
    /// Upcalls.
    pub upcalls: u64,
    /// Cycles of upcalls.
    pub upcall_cycles: u64,
}

impl Sample {
    fn add(&mut self, other: &Self) {
        self.iterations += other.iterations;
        self.cycles += other.cycles;
        self.busy_cycles += other.busy_cycles;
        self.packets += other.packets;
        self.batches += other.batches;
        self.upcalls += other.upcalls;
        self.upcall_cycles += other.upcall_cycles;
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Cycles of rounds.
    pub cycles: Histogram,
    /// Packets received in rounds.
    pub packets: Histogram,
    /// Cycles per packet, in rounds that received any.
    pub cycles_per_packet: Histogram,
    /// Packets in batches received.
    pub packets_per_batch: Histogram,
    /// Upcalls in rounds.
    pub upcalls: Histogram,
    /// Cycles of upcalls.
    pub cycles_per_upcall: Histogram,
    /// All milliseconds that ended.
    pub totals: Sample,
    /// The latest rounds, oldest first.
    pub iterations: VecDeque<Sample>,
    /// The latest milliseconds that ended, oldest first.
    pub milliseconds: VecDeque<Sample>,
    /// Rounds so far. Clearing lets them go on.
    count: u64,
    /// The round that is running.
    current: Sample,
    /// The millisecond that is running.
    millisecond: Sample,
    suspect: Suspect,
}

impl Metrics {
    /// Nothing yet. Suspicious rounds are logged as `log` says.
    pub(crate) fn new(log: IterationLog) -> Self {
        Self {
            // 0.2 us to 10 ms at 2.5 GHz.
            cycles: Histogram::logarithmic(500, 24_000_000),
            packets: Histogram::logarithmic(0, 1000),
            cycles_per_packet: Histogram::linear(100, 30_000),
            packets_per_batch: Histogram::linear(0, 32),
            upcalls: Histogram::linear(0, 30),
            // 0.4 us to 0.4 ms at 2.5 GHz.
            cycles_per_upcall: Histogram::logarithmic(1000, 1_000_000),
            totals: Sample::default(),
            iterations: VecDeque::with_capacity(HISTORY),
            milliseconds: VecDeque::with_capacity(HISTORY),
            count: 0,
            current: Sample::default(),
            millisecond: Sample::default(),
            suspect: Suspect::new(log),
        }
    }

    /// Changes how suspicious rounds are logged.
    pub(crate) fn set_log(&mut self, log: IterationLog) {
        self.suspect = Suspect::new(log);
    }

    /// Forgets everything but how many rounds there were.
    pub(crate) fn clear(&mut self) {
        *self = Self { count: self.count, ..Self::new(self.suspect.log()) };
    }

    /// A batch of packets was received.
    pub(crate) fn batch(&mut self, packets: u64) {
        self.packets_per_batch.add(packets);
        self.current.batches += 1;
    }

    /// An upcall was made.
    pub(crate) fn upcall(&mut self, cycles: u64) {
        self.cycles_per_upcall.add(cycles);
        self.current.upcalls += 1;
        self.current.upcall_cycles += cycles;
    }

    /// A round ends in the millisecond `now`, after `cycles` and with `packets` received.
    pub(crate) fn end_iteration(&mut self, now: u64, cycles: u64, packets: u64) {
        self.count += 1;
        let mut sample = std::mem::take(&mut self.current);
        (sample.at, sample.iterations) = (self.count, 1);
        (sample.cycles, sample.packets) = (cycles, packets);
        if let Some(each) = cycles.checked_div(packets) {
            sample.busy_cycles = cycles;
            self.cycles_per_packet.add(each);
        }
        self.cycles.add(cycles);
        self.packets.add(packets);
        self.upcalls.add(sample.upcalls);
        if self.millisecond.at != now {
            let ended =
                std::mem::replace(&mut self.millisecond, Sample { at: now, ..Sample::default() });
            // Before the first round nothing ran.
            if ended.iterations > 0 {
                self.totals.add(&ended);
                remember(&mut self.milliseconds, ended);
            }
        }
        self.millisecond.add(&sample);
        remember(&mut self.iterations, sample);
        self.suspect.look(&self.iterations);
    }
}

/// Adds a sample to those that are remembered.
fn remember(history: &mut VecDeque<Sample>, sample: Sample) {
    if history.len() == HISTORY {
        history.pop_front();
    }
    history.push_back(sample);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_add_up_to_milliseconds_and_these_to_totals() {
        let mut metrics = Metrics::new(IterationLog::default());
        metrics.end_iteration(10, 900, 0);
        metrics.batch(32);
        metrics.batch(8);
        metrics.upcall(5000);
        metrics.end_iteration(10, 80_000, 40);
        metrics.end_iteration(11, 700, 0);
        let busy = Sample {
            at: 2,
            iterations: 1,
            cycles: 80_000,
            busy_cycles: 80_000,
            packets: 40,
            batches: 2,
            upcalls: 1,
            upcall_cycles: 5000,
        };
        let idle = |at, cycles| Sample { at, iterations: 1, cycles, ..Sample::default() };
        assert_eq!(metrics.iterations, [idle(1, 900), busy, idle(3, 700)]);
        let ended = Sample { at: 10, iterations: 2, cycles: 80_900, ..busy };
        assert_eq!(metrics.milliseconds, [ended]);
        assert_eq!(metrics.totals, Sample { at: 0, ..ended });
        assert_eq!(metrics.millisecond, idle(11, 700));
        let counts = [
            &metrics.cycles,
            &metrics.packets,
            &metrics.cycles_per_packet,
            &metrics.packets_per_batch,
            &metrics.upcalls,
            &metrics.cycles_per_upcall,
        ]
        .map(|histogram| histogram.rows().map(|row| row.count).sum::<u64>());
        assert_eq!(counts, [3, 3, 1, 2, 3, 1]);

        metrics.clear();
        assert_eq!((metrics.iterations.len(), metrics.totals), (0, Sample::default()));
        metrics.end_iteration(12, 800, 0);
        assert_eq!(metrics.iterations, [idle(4, 800)]);
    }

    #[test]
    fn history_is_bounded() {
        let mut metrics = Metrics::new(IterationLog::default());
        for now in 0..2 * HISTORY as u64 {
            metrics.end_iteration(now, 1, 0);
        }
        assert_eq!((metrics.iterations.len(), metrics.milliseconds.len()), (HISTORY, HISTORY));
        assert_eq!(metrics.iterations.back().map(|sample| sample.at), Some(2 * HISTORY as u64));
    }
}
