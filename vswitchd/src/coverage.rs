//! Rates of the event counters, for `coverage/show`.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use netdev::coverage::Counter;
use serde_json::{Value, json};

/// Time between two samples.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
const SAMPLES_PER_HOUR: usize = 720;
const SAMPLES_PER_MINUTE: usize = 12;

/// All counters of the process, with samples of the last hour.
pub struct Coverage {
    counters: Vec<&'static Counter>,
    /// Totals at each sample, the newest first.
    samples: VecDeque<Vec<u64>>,
}

/// Events per second over the last sample interval, minute and hour, and in all.
struct Rates {
    recent: f64,
    minute: f64,
    hour: f64,
    total: u64,
}

impl Coverage {
    /// No samples of `counters` yet.
    pub fn new(counters: Vec<&'static Counter>) -> Self {
        Self { counters, samples: VecDeque::new() }
    }

    /// Takes a sample; to be called every [`SAMPLE_INTERVAL`].
    pub fn sample(&mut self) {
        self.samples.truncate(SAMPLES_PER_HOUR);
        self.samples.push_front(self.counters.iter().map(|counter| counter.get()).collect());
    }

    /// The count of counter `name`.
    pub fn read(&self, name: &str) -> Option<u64> {
        self.counters.iter().find(|counter| counter.name() == name).map(|counter| counter.get())
    }

    fn rates(&self, index: usize) -> Rates {
        let total_at = |age: usize| {
            self.samples.get(age).and_then(|totals| totals.get(index)).copied().unwrap_or(0)
        };
        let rate = |samples: usize| {
            let events = total_at(0).saturating_sub(total_at(samples));
            events as f64 / (SAMPLE_INTERVAL * samples as u32).as_secs_f64()
        };
        Rates {
            recent: rate(1),
            minute: rate(SAMPLES_PER_MINUTE),
            hour: rate(SAMPLES_PER_HOUR),
            total: self.counters.get(index).map_or(0, |counter| counter.get()),
        }
    }

    fn hit(&self) -> impl Iterator<Item = (&'static str, Rates)> {
        let rates =
            |(index, counter): (usize, &&'static Counter)| (counter.name(), self.rates(index));
        self.counters.iter().enumerate().map(rates).filter(|(_, rates)| rates.total > 0)
    }

    /// The text of `coverage/show`.
    pub fn text(&self) -> String {
        // Two reports with the same hash tell of similar events: the same counters in the same
        // order of frequency.
        let mut order: Vec<_> = self.hit().map(|(name, rates)| (rates.total, name)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        let mut hasher = DefaultHasher::new();
        order.iter().for_each(|(_, name)| name.hash(&mut hasher));
        let hash = hasher.finish() as u32;

        let mut text = format!(
            "Event coverage, avg rate over last: {} seconds, last minute, last hour,  \
             hash={hash:08x}:\n",
            SAMPLE_INTERVAL.as_secs()
        );
        for (name, Rates { recent, minute, hour, total }) in self.hit() {
            let _ = writeln!(
                text,
                "{name:<24} {recent:>5.1}/sec {minute:>9.3}/sec {hour:>13.4}/sec   total: {total}"
            );
        }
        let _ = writeln!(text, "{} events never hit", self.counters.len() - self.hit().count());
        text
    }

    /// `coverage/show` in JSON: for each counter its rates per second and its total.
    pub fn json(&self) -> Value {
        let counters = self.counters.iter().enumerate().map(|(index, counter)| {
            let Rates { recent, minute, hour, total } = self.rates(index);
            let rates = json!({
                "last-5-seconds": recent, "last-minute": minute, "last-hour": hour, "total": total,
            });
            (counter.name().to_owned(), rates)
        });
        counters.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static OFTEN: Counter = Counter::new("often");
    static NEVER: Counter = Counter::new("never");

    #[test]
    fn rates_are_over_seconds_minutes_and_hours() {
        let mut coverage = Coverage::new(vec![&OFTEN, &NEVER]);
        coverage.sample();
        for _ in 0..12 {
            OFTEN.add(60);
            coverage.sample();
        }
        OFTEN.add(10);
        let text = coverage.text();
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "often                     12.0/sec    12.000/sec        0.2000/sec   total: 730",
                "1 events never hit"
            ]
        );
        assert_eq!(coverage.read("often"), Some(730));
        assert_eq!(coverage.read("never"), Some(0));
        assert_eq!(coverage.read("other"), None);
        assert_eq!(
            coverage.json(),
            json!({
                "often":
                    {"last-5-seconds": 12.0, "last-minute": 12.0, "last-hour": 0.2, "total": 730},
                "never": {"last-5-seconds": 0.0, "last-minute": 0.0, "last-hour": 0.0, "total": 0},
            })
        );
    }
}
