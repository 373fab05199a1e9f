//! Limits how many packets a controller is sent, and is fair to the ports that they come from.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Rate where none is given, in packets per second.
const DEFAULT_RATE: u32 = 1000;
/// Packets that are let through at once when time has passed.
const MOST_AT_ONCE: usize = 50;
/// Tokens that a packet costs; the bucket gets as many per millisecond as packets may pass per
/// second.
const COST: u64 = 1000;

/// What a scheduler counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that wait.
    pub backlog: usize,
    /// Packets that passed at once.
    pub bypassed: u64,
    /// Packets that had to wait.
    pub queued: u64,
    /// Packets dropped because too many waited.
    pub dropped: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct PacketScheduler {
    rate: u64,
    burst: u64,
    tokens: u64,
    filled_at: Duration,
    /// What waits, by port; no queue is empty.
    queues: BTreeMap<u32, VecDeque<Vec<u8>>>,
    /// The port whose turn was last.
    last_port: Option<u32>,
    counts: Counts,
}

/// Rate and burst with defaults for what is 0.
fn limits(rate: u32, burst: u32) -> (u64, u64) {
    let rate = if rate == 0 { DEFAULT_RATE } else { rate };
    let burst = if burst == 0 { rate / 4 } else { burst };
    (rate.into(), u64::from(burst.max(1)))
}

impl PacketScheduler {
    /// Lets `rate` packets per second pass, 0 for 1000, and `burst` at once, 0 for a quarter of the
    /// rate.
    pub(super) fn new(rate: u32, burst: u32, now: Duration) -> Self {
        let (rate, burst) = limits(rate, burst);
        Self {
            rate,
            burst,
            tokens: burst * COST,
            filled_at: now,
            queues: BTreeMap::new(),
            last_port: None,
            counts: Counts::default(),
        }
    }

    /// Changes the limits.
    pub(super) fn set_limits(&mut self, rate: u32, burst: u32) {
        (self.rate, self.burst) = limits(rate, burst);
        self.tokens = self.tokens.min(self.burst * COST);
        while self.counts.backlog as u64 > self.burst {
            self.drop_one();
        }
    }

    /// What it counted.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    fn take_token(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.filled_at).as_millis() as u64;
        if passed > 0 {
            self.filled_at += Duration::from_millis(passed);
            let gained = passed.saturating_mul(self.rate);
            self.tokens = self.tokens.saturating_add(gained).min(self.burst * COST);
        }
        let has_one = self.tokens >= COST;
        if has_one {
            self.tokens -= COST;
        }
        has_one
    }

    /// Takes in a message with a packet from `port`. Returns it if it may be sent at once.
    pub(super) fn send(&mut self, port: u32, message: Vec<u8>, now: Duration) -> Option<Vec<u8>> {
        if self.counts.backlog == 0 && self.take_token(now) {
            self.counts.bypassed += 1;
            return Some(message);
        }
        if self.counts.backlog as u64 >= self.burst {
            self.drop_one();
        }
        self.queues.entry(port).or_default().push_back(message);
        self.counts.backlog += 1;
        self.counts.queued += 1;
        None
    }

    /// The messages that may be sent now.
    pub(super) fn run(&mut self, now: Duration) -> Vec<Vec<u8>> {
        let mut ready = vec![];
        while ready.len() < MOST_AT_ONCE && self.counts.backlog > 0 && self.take_token(now) {
            let after = self
                .last_port
                .and_then(|last| self.queues.range(last + 1..).next().map(|(&port, _)| port));
            let port = after.or_else(|| self.queues.keys().next().copied());
            self.last_port = port;
            ready.extend(port.and_then(|port| self.pop(port)));
        }
        ready
    }

    /// When the next message may be sent.
    pub(super) fn due(&self) -> Option<Duration> {
        let missing = COST.saturating_sub(self.tokens);
        (self.counts.backlog > 0)
            .then(|| self.filled_at + Duration::from_millis(missing.div_ceil(self.rate)))
    }

    fn pop(&mut self, port: u32) -> Option<Vec<u8>> {
        let queue = self.queues.get_mut(&port)?;
        let message = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&port);
        }
        self.counts.backlog -= 1;
        message
    }

    /// Drops a packet of the port of which most wait.
    fn drop_one(&mut self) {
        let longest = self.queues.iter().max_by_key(|(_, queue)| queue.len());
        if let Some(port) = longest.map(|(&port, _)| port) {
            self.pop(port);
            self.counts.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_burst_passes_and_the_rest_comes_in_turn() {
        let mut scheduler = PacketScheduler::new(100, 2, at(0));
        assert_eq!(scheduler.send(1, vec![1], at(0)), Some(vec![1]));
        assert_eq!(scheduler.send(1, vec![2], at(0)), Some(vec![2]));
        assert_eq!(scheduler.send(1, vec![3], at(0)), None);
        assert_eq!(scheduler.send(2, vec![4], at(0)), None);
        // One of the port with most goes.
        assert_eq!(scheduler.send(2, vec![5], at(0)), None);
        let counts = Counts { backlog: 2, bypassed: 2, queued: 3, dropped: 1 };
        assert_eq!(scheduler.counts(), counts);
        assert_eq!(scheduler.due(), Some(at(10)));
        assert_eq!(scheduler.run(at(9)), Vec::<Vec<u8>>::new());
        assert_eq!(scheduler.run(at(10)).len(), 1);
        assert_eq!(scheduler.run(at(20)).len(), 1);
        assert_eq!(scheduler.counts(), Counts { backlog: 0, ..counts });
        assert_eq!(scheduler.due(), None);
        assert_eq!(scheduler.send(1, vec![6], at(40)), Some(vec![6]));
    }

    #[test]
    fn limits_have_defaults() {
        assert_eq!([limits(0, 0), limits(8, 0), limits(2, 0)], [(1000, 250), (8, 2), (2, 1)]);
        let mut scheduler = PacketScheduler::new(100, 3, at(0));
        for number in 0..6 {
            scheduler.send(0, vec![number], at(0));
        }
        assert_eq!(scheduler.counts().backlog, 3);
        scheduler.set_limits(100, 1);
        assert_eq!(scheduler.counts(), Counts { backlog: 1, bypassed: 3, queued: 3, dropped: 2 });
    }
}
