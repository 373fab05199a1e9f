//! What an offload worker tells about itself (`dpctl/offload-stats-show`).

use std::sync::atomic::{AtomicU64, Ordering};

use netdev::cpu;

/// Weight of the newest latency in the exponential average: one in so many.
const EXPONENTIAL: f64 = 100.0;

/// Written by one worker, read by whoever shows it.
#[derive(Debug, Default)]
pub(crate) struct WorkerStatistics {
    /// Requests handed to the worker.
    pub(crate) sent: AtomicU64,
    /// Requests that the worker has taken.
    taken: AtomicU64,
    rules: AtomicU64,
    marks: AtomicU64,
    latencies: AtomicU64,
    /// Bits of floating-point numbers, in cycles.
    mean: AtomicU64,
    squares: AtomicU64,
    exponential_mean: AtomicU64,
    exponential_variance: AtomicU64,
}

/// What a worker has done, for showing. Latencies are those from a flow's installation to its
/// rule's, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkerSnapshot {
    /// Requests that wait.
    pub enqueued: u64,
    /// Rules in hardware, or on their way in or out.
    pub rules: u64,
    /// Marks that are given out.
    pub marks: u64,
    /// Mean latency.
    pub mean: f64,
    /// Standard deviation of the latency.
    pub deviation: f64,
    /// Mean latency of late.
    pub exponential_mean: f64,
    /// Standard deviation of the latency of late.
    pub exponential_deviation: f64,
}

fn load(value: &AtomicU64) -> f64 {
    f64::from_bits(value.load(Ordering::Relaxed))
}

fn store(value: &AtomicU64, number: f64) {
    value.store(number.to_bits(), Ordering::Relaxed);
}

impl WorkerStatistics {
    pub(crate) fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_sizes(&self, rules: usize, marks: usize) {
        self.rules.store(rules as u64, Ordering::Relaxed);
        self.marks.store(marks as u64, Ordering::Relaxed);
    }

    /// The rule of a flow that came at `offered` cycles is in.
    pub(crate) fn inserted(&self, offered: u64) {
        self.add_latency(cpu::cycles().wrapping_sub(offered) as f64);
    }

    /// Adds to the running mean and variance (Welford 1962), and to the exponential ones.
    fn add_latency(&self, cycles: f64) {
        let count = self.latencies.fetch_add(1, Ordering::Relaxed) + 1;
        let mean = load(&self.mean);
        let difference = cycles - mean;
        let new_mean = mean + difference / count as f64;
        store(&self.mean, new_mean);
        store(&self.squares, load(&self.squares) + difference * (cycles - new_mean));
        let weight = if count == 1 { 1.0 } else { 1.0 / EXPONENTIAL };
        let difference = cycles - load(&self.exponential_mean);
        store(&self.exponential_mean, load(&self.exponential_mean) + weight * difference);
        let variance = load(&self.exponential_variance) + weight * difference * difference;
        store(&self.exponential_variance, (1.0 - weight) * variance);
    }

    pub(crate) fn snapshot(&self) -> WorkerSnapshot {
        let count = self.latencies.load(Ordering::Relaxed);
        let microsecond = cpu::cycles_per_second() as f64 / 1e6;
        let sent = self.sent.load(Ordering::Relaxed);
        WorkerSnapshot {
            enqueued: sent.saturating_sub(self.taken.load(Ordering::Relaxed)),
            rules: self.rules.load(Ordering::Relaxed),
            marks: self.marks.load(Ordering::Relaxed),
            mean: load(&self.mean) / microsecond,
            deviation: (load(&self.squares) / count.max(1) as f64).sqrt() / microsecond,
            exponential_mean: load(&self.exponential_mean) / microsecond,
            exponential_deviation: load(&self.exponential_variance).sqrt() / microsecond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_averaged() {
        let statistics = WorkerStatistics::default();
        for cycles in [100.0, 200.0, 300.0] {
            statistics.add_latency(cycles);
        }
        assert_eq!(load(&statistics.mean), 200.0);
        assert_eq!(load(&statistics.squares), 20_000.0);
        assert_eq!(load(&statistics.exponential_mean), 102.99);
        statistics.sent.store(5, Ordering::Relaxed);
        statistics.taken();
        statistics.set_sizes(2, 3);
        let snapshot = statistics.snapshot();
        assert_eq!((snapshot.enqueued, snapshot.rules, snapshot.marks), (4, 2, 3));
    }
}
