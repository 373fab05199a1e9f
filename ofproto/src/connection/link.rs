//! One connection that should exist: whether it does, since when, and what to do about it.
//!
//! A state machine without input or output, which behaves and logs as Open vSwitch's module
//! `rconn`. Times are those of `netdev::clock`.

use std::time::Duration;

use tracing::{debug, error, info, warn};

/// First wait after a connection ended, and least time that an attempt gets.
const LEAST: Duration = Duration::from_secs(1);
/// Least silence after which a peer is probed.
const LEAST_PROBE: Duration = Duration::from_secs(5);
/// A controller that kept a connection for so long has accepted the switch.
const ADMITTED_AFTER: Duration = Duration::from_secs(30);

/// What is known of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is waited before the next attempt.
    Backoff,
    /// An attempt is under way.
    Connecting,
    /// It exists.
    Active,
    /// It exists, and the peer was asked whether it is alive.
    Idle,
    /// It ended and is not made again.
    Disconnected,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Backoff => "BACKOFF",
            Self::Connecting => "CONNECTING",
            Self::Active => "ACTIVE",
            Self::Idle => "IDLE",
            Self::Disconnected => "DISCONNECTED",
        }
    }
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Ask the peer whether it is alive.
    Probe,
    /// Give the connection up: the peer did not answer.
    GiveUp,
}

/// Why a connection or an attempt at one ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The peer closed it.
    Closed,
    /// An error, as `strerror` tells it.
    Error(String),
    /// The peer was silent for too long.
    Silence,
    /// An operator asked for it.
    Asked,
}

/// Text of the errors that the state machine itself finds.
const TIMED_OUT: &str = "Connection timed out";

/// One connection that should exist: whether it does, since when, and what to do about it.
#[derive(Debug)]
pub struct Link {
    name: String,
    /// Whether it is made again when it ends.
    reliable: bool,
    state: State,
    entered: Duration,
    backoff: Duration,
    max_backoff: Duration,
    /// A connection that lasts until then has earned a short wait. `None` if it cannot.
    backoff_deadline: Option<Duration>,
    probe_interval: Option<Duration>,
    last_activity: Duration,
    last_connected: Option<Duration>,
    last_disconnected: Option<Duration>,
    last_error: Option<String>,
    probably_admitted: bool,
    last_admitted: Duration,
}

impl Link {
    /// A link called `name` in the log, about to be made; again and again if it is `reliable`.
    pub(super) fn new(name: String, reliable: bool, now: Duration) -> Self {
        Self {
            name,
            reliable,
            state: State::Backoff,
            entered: now,
            backoff: Duration::ZERO,
            max_backoff: 8 * LEAST,
            backoff_deadline: None,
            probe_interval: None,
            last_activity: now,
            last_connected: None,
            last_disconnected: None,
            last_error: None,
            probably_admitted: false,
            last_admitted: now,
        }
    }

    /// What log lines call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the greatest wait between attempts.
    pub(super) fn set_max_backoff(&mut self, max: Duration, now: Duration) {
        self.max_backoff = max.max(LEAST);
        if self.state == State::Backoff && self.backoff > self.max_backoff {
            self.backoff = self.max_backoff;
            let latest = now.saturating_add(self.max_backoff);
            self.backoff_deadline = self.backoff_deadline.map(|deadline| deadline.min(latest));
        }
    }

    /// Sets the silence after which the peer is probed, and after which again it is given up; zero
    /// is never.
    pub(super) fn set_probe_interval(&mut self, interval: Duration) {
        self.probe_interval = (!interval.is_zero()).then(|| interval.max(LEAST_PROBE));
    }

    /// Whether the connection exists.
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Active | State::Idle)
    }

    /// Name of the state.
    pub fn state_name(&self) -> &'static str {
        self.state.name()
    }

    /// When it was last made.
    pub fn last_connected(&self) -> Option<Duration> {
        self.last_connected
    }

    /// When it last ended.
    pub fn last_disconnected(&self) -> Option<Duration> {
        self.last_disconnected
    }

    /// Why it last ended, unless an operator wanted that.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    /// Whether the peer, a controller, has probably accepted the switch.
    pub fn is_admitted(&self) -> bool {
        self.is_connected() && self.last_connected.is_some_and(|at| self.last_admitted >= at)
    }

    /// For how many seconds no controller had accepted the switch here.
    pub fn failure_duration(&self, now: Duration) -> u64 {
        if self.is_admitted() { 0 } else { now.saturating_sub(self.last_admitted).as_secs() }
    }

    /// Since when no controller has accepted the switch here, unless one has.
    pub(super) fn failing_since(&self) -> Option<Duration> {
        (!self.is_admitted()).then_some(self.last_admitted)
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let after = match self.state {
            State::Backoff => self.backoff,
            State::Connecting => self.backoff.max(LEAST),
            State::Active => {
                let base = self.last_activity.max(self.entered);
                return self.probe_interval.map(|interval| base.saturating_add(interval));
            }
            State::Idle => self.probe_interval?,
            State::Disconnected => return None,
        };
        Some(self.entered.saturating_add(after))
    }

    /// What is due on a connection that exists.
    pub(super) fn run(&mut self, now: Duration) -> Option<Action> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        let name = &self.name;
        match self.state {
            State::Active => {
                let idle = now.saturating_sub(self.last_activity.max(self.entered));
                debug!(
                    target: "rconn",
                    "{name}: idle {} seconds, sending inactivity probe", idle.as_secs()
                );
                self.enter(State::Idle, now);
                Some(Action::Probe)
            }
            State::Idle => {
                error!(
                    target: "rconn",
                    "{name}: no response to inactivity probe after {} seconds, disconnecting",
                    now.saturating_sub(self.entered).as_secs()
                );
                Some(Action::GiveUp)
            }
            State::Backoff | State::Connecting | State::Disconnected => None,
        }
    }

    /// An attempt begins.
    pub(super) fn connecting(&mut self, now: Duration) {
        if self.reliable {
            if self.logs_attempts() {
                info!(target: "rconn", "{}: connecting...", self.name);
            }
            self.backoff_deadline = Some(now.saturating_add(self.backoff));
        }
        self.enter(State::Connecting, now);
    }

    /// The attempt succeeded.
    pub(super) fn connected(&mut self, now: Duration) {
        if self.reliable {
            info!(target: "rconn", "{}: connected", self.name);
        } else {
            debug!(target: "rconn", "{}: connected", self.name);
        }
        self.probably_admitted = false;
        self.enter(State::Active, now);
        self.last_connected = Some(now);
    }

    /// The attempt was refused at once.
    pub(super) fn refused(&mut self, cause: &str, now: Duration) {
        warn!(target: "rconn", "{}: connection failed ({cause})", self.name);
        self.backoff_deadline = None;
        self.end(Some(cause.to_owned()), now);
    }

    /// The attempt failed.
    pub(super) fn failed(&mut self, cause: &str, now: Duration) {
        if self.logs_attempts() {
            info!(target: "rconn", "{}: connection failed ({cause})", self.name);
        }
        self.end(Some(cause.to_owned()), now);
    }

    /// The attempt took too long.
    pub(super) fn timed_out(&mut self, now: Duration) {
        if self.logs_attempts() {
            info!(target: "rconn", "{}: connection timed out", self.name);
        }
        self.backoff_deadline = None;
        self.end(Some(TIMED_OUT.to_owned()), now);
    }

    /// The connection ended.
    pub(super) fn lost(&mut self, loss: Loss, now: Duration) {
        let name = &self.name;
        let error = match loss {
            Loss::Closed => {
                if self.reliable {
                    info!(target: "rconn", "{name}: connection closed by peer");
                } else {
                    debug!(target: "rconn", "{name}: connection closed by peer");
                }
                Some("End of file".to_owned())
            }
            Loss::Error(cause) => {
                warn!(target: "rconn", "{name}: connection dropped ({cause})");
                Some(cause)
            }
            Loss::Silence => Some(TIMED_OUT.to_owned()),
            Loss::Asked => {
                info!(target: "rconn", "{name}: disconnecting");
                None
            }
        };
        self.end(error, now);
    }

    fn end(&mut self, error: Option<String>, now: Duration) {
        self.last_error = error;
        if !self.reliable {
            self.last_disconnected = Some(now);
            self.enter(State::Disconnected, now);
            return;
        }
        if self.state != State::Backoff {
            self.last_disconnected = Some(now);
        }
        if self.backoff_deadline.is_some_and(|deadline| now >= deadline) {
            self.backoff = LEAST;
        } else if self.backoff < self.max_backoff / 2 {
            self.backoff = (2 * self.backoff).max(LEAST);
            info!(
                target: "rconn",
                "{}: waiting {} seconds before reconnect", self.name, self.backoff.as_secs()
            );
        } else {
            if self.logs_attempts() {
                info!(
                    target: "rconn",
                    "{}: continuing to retry connections in the background but suppressing \
                     further logging",
                    self.name
                );
            }
            self.backoff = self.max_backoff;
        }
        self.backoff_deadline = Some(now.saturating_add(self.backoff));
        self.enter(State::Backoff, now);
    }

    /// A message came in. `admits` if only a controller that has accepted the switch sends it.
    pub(super) fn received(&mut self, admits: bool, now: Duration) {
        let long = self.last_connected.is_some_and(|at| now.saturating_sub(at) >= ADMITTED_AFTER);
        if self.probably_admitted || admits || long {
            self.probably_admitted = true;
            self.last_admitted = now;
        }
        self.last_activity = now;
        if self.state == State::Idle {
            self.enter(State::Active, now);
        }
    }

    /// Something was sent.
    pub(super) fn sent(&mut self, now: Duration) {
        self.last_activity = now;
    }

    fn logs_attempts(&self) -> bool {
        self.backoff < self.max_backoff
    }

    fn enter(&mut self, state: State, now: Duration) {
        debug!(target: "rconn", "{}: entering {}", self.name, state.name());
        self.state = state;
        self.entered = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_up_to_the_greatest() {
        let mut now = SECOND;
        let mut link = Link::new("l".to_owned(), true, now);
        link.set_max_backoff(5 * SECOND, now);
        let mut waits = vec![];
        for _ in 0..5 {
            assert_eq!((link.deadline(), link.state_name()), (Some(now), "BACKOFF"));
            link.connecting(now);
            link.refused("Connection refused", now);
            let due = link.deadline().unwrap();
            waits.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        assert_eq!(link.last_error(), Some("Connection refused"));
        assert_eq!(link.failure_duration(now), now.as_secs() - 1);
        // A connection that lasted as long as the wait before it earns a short one.
        link.connecting(now);
        link.connected(now);
        assert_eq!(link.last_connected(), Some(now));
        now += 5 * SECOND;
        link.lost(Loss::Closed, now);
        assert_eq!(link.deadline(), Some(now + SECOND));
        assert_eq!((link.last_error(), link.last_disconnected()), (Some("End of file"), Some(now)));
    }

    #[test]
    fn a_silent_peer_is_probed_then_given_up() {
        let mut link = Link::new("l".to_owned(), false, SECOND);
        link.set_probe_interval(SECOND);
        link.connecting(SECOND);
        link.connected(SECOND);
        assert_eq!(link.deadline(), Some(6 * SECOND));
        assert_eq!(link.run(5 * SECOND), None);
        assert_eq!(link.run(6 * SECOND), Some(Action::Probe));
        link.received(false, 7 * SECOND);
        assert_eq!((link.state_name(), link.deadline()), ("ACTIVE", Some(12 * SECOND)));
        assert_eq!(link.run(12 * SECOND), Some(Action::Probe));
        assert_eq!(link.run(17 * SECOND), Some(Action::GiveUp));
        link.lost(Loss::Silence, 17 * SECOND);
        assert_eq!((link.state_name(), link.deadline()), ("DISCONNECTED", None));
    }

    #[test]
    fn a_controller_admits_by_what_it_says_or_by_staying() {
        let mut link = Link::new("l".to_owned(), true, SECOND);
        link.connecting(SECOND);
        link.connected(2 * SECOND);
        link.received(false, 3 * SECOND);
        assert!(!link.is_admitted());
        assert_eq!(link.failure_duration(4 * SECOND), 3);
        link.received(true, 4 * SECOND);
        assert!(link.is_admitted());
        link.lost(Loss::Closed, 5 * SECOND);
        assert_eq!((link.is_admitted(), link.failure_duration(9 * SECOND)), (false, 5));
        link.connecting(9 * SECOND);
        link.connected(10 * SECOND);
        link.received(false, 39 * SECOND);
        assert!(!link.is_admitted());
        link.received(false, 40 * SECOND);
        assert!(link.is_admitted());
    }
}
