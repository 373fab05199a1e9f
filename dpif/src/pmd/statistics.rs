//! What a poll thread counts about itself (`pmd-stats-show`, `pmd-perf-show`, `pmd-rxq-show`).
//!
//! Each counter has one writer, the thread, and is summed by readers. Clearing moves the zero
//! line of the readers and leaves the counters alone.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use netdev::clock;

/// How far back the load of a receive queue is kept.
pub const LOAD_INTERVALS: usize = 12;
/// Length of one interval.
pub const LOAD_INTERVAL: Duration = Duration::from_secs(5);

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the thread that owns the counter may call it.
    #[inline]
    pub fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }

    /// Sets the value. Only the thread that owns the counter may call it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of a thread.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// Values of [`Counters`] at one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            fn read(&self) -> Snapshot {
                Snapshot { $($name: self.$name.get(),)* }
            }
        }

        impl Snapshot {
            fn since(self, start: Self) -> Self {
                Self { $($name: self.$name.wrapping_sub(start.$name),)* }
            }
        }
    };
}

counters! {
    /// Packets received from queues.
    received,
    /// Packets that came back for another pass.
    recirculated,
    /// Passes answered by a flow mark of the hardware.
    mark_hits,
    /// Passes answered by simple match.
    simple_hits,
    /// Passes answered by the exact-match cache.
    exact_hits,
    /// Passes answered by the signature cache.
    signature_hits,
    /// Passes answered by a megaflow found in the classifier.
    megaflow_hits,
    /// Subtables visited by those.
    subtables_visited,
    /// Passes answered by an upcall.
    upcalls,
    /// Passes whose upcall failed; their packets were dropped.
    lost_upcalls,
    /// Cycles spent in upcalls.
    upcall_cycles,
    /// Packets handed to transmit queues.
    sent,
    /// Batches handed to transmit queues.
    sent_batches,
    /// Rounds over the receive queues that found no packet.
    idle_iterations,
    /// Rounds that found some.
    busy_iterations,
    /// Rounds that slept.
    sleep_iterations,
    /// Cycles of idle rounds.
    idle_cycles,
    /// Cycles of busy rounds.
    busy_cycles,
    /// Cycles slept.
    sleep_cycles,
}

impl Snapshot {
    /// Passes through the pipeline. Equal to packets received plus recirculated, less those that
    /// were dropped before they got a key.
    pub fn passes(&self) -> u64 {
        self.mark_hits
            + self.simple_hits
            + self.exact_hits
            + self.signature_hits
            + self.megaflow_hits
            + self.upcalls
            + self.lost_upcalls
    }
}

/// Statistics of one thread, shared with whoever shows them.
#[derive(Debug, Default)]
pub struct Statistics {
    counters: Counters,
    cleared: Mutex<Cleared>,
}

#[derive(Debug, Default)]
struct Cleared {
    at: Duration,
    values: Snapshot,
}

impl Statistics {
    /// Statistics at 0, from now on.
    pub fn new() -> Self {
        let cleared = Cleared { at: clock::now(), values: Snapshot::default() };
        Self { counters: Counters::default(), cleared: Mutex::new(cleared) }
    }

    /// The counters, for the thread that owns them.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counts since the last [`Self::clear`], and for how long that is.
    pub fn snapshot(&self) -> (Snapshot, Duration) {
        let cleared = self.cleared.lock().unwrap_or_else(PoisonError::into_inner);
        let elapsed = clock::now().saturating_sub(cleared.at);
        (self.counters.read().since(cleared.values), elapsed)
    }

    /// Lets all counts start from 0.
    pub fn clear(&self) {
        let mut cleared = self.cleared.lock().unwrap_or_else(PoisonError::into_inner);
        *cleared = Cleared { at: clock::now(), values: self.counters.read() };
    }
}

/// Cycles per interval, for the last [`LOAD_INTERVALS`] of them.
#[derive(Debug, Default)]
pub struct Load {
    /// The interval that is running.
    current: Counter,
    past: [Counter; LOAD_INTERVALS],
    /// Intervals that ended so far.
    ended: Counter,
}

impl Load {
    /// Adds cycles to the running interval.
    #[inline]
    pub fn add(&self, cycles: u64) {
        self.current.add(cycles);
    }

    /// Ends the running interval.
    pub fn end_interval(&self) {
        let ended = self.ended.get();
        if let Some(place) = self.past.get(ended as usize % LOAD_INTERVALS) {
            place.set(self.current.get());
        }
        self.current.set(0);
        self.ended.set(ended.wrapping_add(1));
    }

    /// Cycles in the interval that ended `back` intervals ago; 1 is the last.
    pub fn past(&self, back: usize) -> Option<u64> {
        let index = (self.ended.get() as usize).checked_sub(back)?;
        let is_kept = (1..=LOAD_INTERVALS).contains(&back);
        self.past.get(index % LOAD_INTERVALS).filter(|_| is_kept).map(Counter::get)
    }

    /// Cycles in the last `intervals` intervals that ended.
    pub fn cycles(&self, intervals: usize) -> u64 {
        (1..=intervals).map_while(|back| self.past(back)).sum()
    }

    /// Forgets everything, for a queue that comes to another thread.
    pub fn reset(&self) {
        self.current.set(0);
        self.ended.set(0);
    }
}

/// What a poll thread did with its time.
#[derive(Debug, Default)]
pub struct ThreadLoad {
    /// Cycles of rounds that found packets.
    pub busy: Load,
    /// All cycles. Together over any intervals they are what usage is measured by.
    pub total: Load,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clearing_moves_the_zero_line() {
        let statistics = Statistics::new();
        statistics.counters().received.add(5);
        statistics.counters().exact_hits.add(3);
        statistics.counters().upcalls.add(2);
        let expected = Snapshot { received: 5, exact_hits: 3, upcalls: 2, ..Snapshot::default() };
        assert_eq!(statistics.snapshot().0, expected);
        assert_eq!(expected.passes(), 5);
        statistics.clear();
        assert_eq!(statistics.snapshot().0, Snapshot::default());
        statistics.counters().received.add(1);
        assert_eq!(statistics.snapshot().0, Snapshot { received: 1, ..Snapshot::default() });
    }

    #[test]
    fn load_keeps_the_last_twelve_intervals() {
        let load = Load::default();
        load.add(7);
        assert_eq!(load.cycles(LOAD_INTERVALS), 0);
        load.end_interval();
        assert_eq!(load.cycles(LOAD_INTERVALS), 7);
        for cycles in 0..LOAD_INTERVALS as u64 {
            load.add(cycles);
            load.end_interval();
        }
        assert_eq!(load.cycles(LOAD_INTERVALS), (0..12).sum());
        assert_eq!(load.cycles(2), 11 + 10);
        assert_eq!(
            (load.past(0), load.past(1), load.past(12), load.past(13)),
            (None, Some(11), Some(0), None)
        );
        load.reset();
        assert_eq!(load.cycles(LOAD_INTERVALS), 0);
    }
}
