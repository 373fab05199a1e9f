//! When to connect, when to probe a silent peer and when to give up on it.
//!
//! A state machine without input or output: its owner tells what happened and asks what to do.
//! Times are those of `netdev::clock`. It behaves and logs as Open vSwitch's module `reconnect`.

use std::time::Duration;

use tracing::{debug, error, info, warn};

const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(8);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Least time that a connection attempt gets, and least probe interval.
const LEAST: Duration = Duration::from_secs(1);

/// What the owner must do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start to connect or listen, then call [`Reconnect::connecting`] or
    /// [`Reconnect::listening`].
    Connect,
    /// Give up the connection or attempt, then call [`Reconnect::disconnected`].
    Disconnect,
    /// Send something that the peer answers.
    Probe,
}

/// Why a connection or an attempt at one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss<'a> {
    /// With an error, for example `Connection refused`.
    Error(&'a str),
    /// The peer closed the connection.
    Closed,
    /// We gave up.
    Abandoned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Void,
    Backoff,
    Connecting,
    Active,
    Idle,
    Reconnect,
    Listening,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Void => "VOID",
            Self::Backoff => "BACKOFF",
            Self::Connecting => "CONNECTING",
            Self::Active => "ACTIVE",
            Self::Idle => "IDLE",
            Self::Reconnect => "RECONNECT",
            Self::Listening => "LISTENING",
        }
    }

    fn is_connected(self) -> bool {
        matches!(self, Self::Active | Self::Idle)
    }
}

/// The state of one connection that should exist.
#[derive(Clone, Debug)]
pub struct Reconnect {
    name: String,
    quiet: bool,
    passive: bool,
    min_backoff: Duration,
    max_backoff: Duration,
    /// `None` if silence is no reason to probe.
    probe_interval: Option<Duration>,
    /// Tries left, `None` without limit.
    max_tries: Option<u32>,
    backoff_free_tries: u32,

    state: State,
    state_entered: Duration,
    backoff: Duration,
    last_activity: Duration,
    last_connected: Option<Duration>,
    last_disconnected: Option<Duration>,
}

impl Reconnect {
    /// A disabled connection; `name` begins every log line. Backs off for 1 to 8 s and probes
    /// after 5 s of silence.
    pub fn new(name: impl Into<String>, now: Duration) -> Self {
        Self {
            name: name.into(),
            quiet: false,
            passive: false,
            min_backoff: MIN_BACKOFF,
            max_backoff: MAX_BACKOFF,
            probe_interval: Some(PROBE_INTERVAL),
            max_tries: None,
            backoff_free_tries: 0,
            state: State::Void,
            state_entered: now,
            backoff: Duration::ZERO,
            last_activity: now,
            last_connected: None,
            last_disconnected: None,
        }
    }

    /// What the log lines begin with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes what the log lines begin with.
    pub fn set_name(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    /// Whether usual events are logged at debug level, for connections that come and go.
    pub fn set_quiet(&mut self, quiet: bool) {
        self.quiet = quiet;
    }

    /// Sets the least and greatest wait between attempts, both at least 1 s.
    pub fn set_backoff(&mut self, min: Duration, max: Duration) {
        self.min_backoff = min.max(LEAST);
        self.max_backoff = max.max(self.min_backoff);
        if self.state == State::Backoff {
            self.backoff = self.backoff.min(self.max_backoff);
        }
    }

    /// Sets the silence after which to probe and, once more, after which to disconnect. At least
    /// 1 s; zero never probes.
    pub fn set_probe_interval(&mut self, interval: Duration) {
        self.probe_interval = (!interval.is_zero()).then(|| interval.max(LEAST));
    }

    /// Limits how often to try again; without a limit it is for ever.
    pub fn set_max_tries(&mut self, tries: Option<u32>) {
        self.max_tries = tries;
    }

    /// Sets how many attempts are made without waiting, one for each address of a peer.
    pub fn set_backoff_free_tries(&mut self, tries: u32) {
        self.backoff_free_tries = tries;
    }

    /// Chooses between connecting and, if `passive`, listening.
    pub fn set_passive(&mut self, passive: bool, now: Duration) {
        if self.passive == passive {
            return;
        }
        self.passive = passive;
        let restart = if passive {
            matches!(self.state, State::Connecting | State::Reconnect)
        } else {
            self.state == State::Listening && self.may_retry()
        };
        if restart {
            self.enter(State::Backoff, now);
            self.backoff = Duration::ZERO;
        }
    }

    /// Asks for a connection, at once.
    pub fn enable(&mut self, now: Duration) {
        if self.state == State::Void && self.may_retry() {
            self.enter(State::Backoff, now);
            self.backoff = Duration::ZERO;
        }
    }

    /// Asks for no connection any more.
    pub fn disable(&mut self, now: Duration) {
        if self.state != State::Void {
            self.enter(State::Void, now);
        }
    }

    /// Whether a connection is wanted: not before [`Self::enable`], nor once all tries are used.
    pub fn is_enabled(&self) -> bool {
        self.state != State::Void
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        self.state.is_connected()
    }

    /// Name of the state, as the database's `Manager` and `Controller` tables show it.
    pub fn state_name(&self) -> &'static str {
        self.state.name()
    }

    /// When a connection was last made.
    pub fn last_connected(&self) -> Option<Duration> {
        self.last_connected
    }

    /// When a connection last ended.
    pub fn last_disconnected(&self) -> Option<Duration> {
        self.last_disconnected
    }

    /// Has the connection or attempt given up by the next [`Self::run`].
    pub fn force_reconnect(&mut self, now: Duration) {
        if matches!(self.state, State::Connecting | State::Active | State::Idle) {
            self.enter(State::Reconnect, now);
        }
    }

    /// An attempt to connect, or to listen, has begun.
    pub fn connecting(&mut self, now: Duration) {
        if self.state == State::Connecting {
            return;
        }
        if self.passive {
            self.inform(format_args!("listening..."));
        } else if self.backoff < self.max_backoff {
            self.inform(format_args!("connecting..."));
        }
        self.enter(State::Connecting, now);
    }

    /// The owner listens for a connection.
    pub fn listening(&mut self, now: Duration) {
        if self.state != State::Listening {
            self.inform(format_args!("listening..."));
            self.enter(State::Listening, now);
        }
    }

    /// There is a connection.
    pub fn connected(&mut self, now: Duration) {
        if !self.state.is_connected() {
            self.connecting(now);
            self.inform(format_args!("connected"));
            self.enter(State::Active, now);
            self.last_connected = Some(now);
        }
    }

    /// The attempt to connect failed.
    pub fn connect_failed(&mut self, loss: Loss<'_>, now: Duration) {
        self.connecting(now);
        self.disconnected(loss, now);
    }

    /// The connection, attempt or listening ended.
    pub fn disconnected(&mut self, loss: Loss<'_>, now: Duration) {
        if matches!(self.state, State::Backoff | State::Void) {
            return;
        }
        self.report(loss);
        let was_connected = self.state.is_connected();
        if was_connected {
            self.last_disconnected = Some(now);
        }
        if !self.may_retry() {
            self.enter(State::Void, now);
            return;
        }
        // A connection that lasted longer than the wait before it earns a fresh start.
        let lasted = self
            .last_connected
            .map_or(Duration::ZERO, |connected| self.last_activity.saturating_sub(connected));
        if self.backoff_free_tries > 1 {
            self.backoff_free_tries -= 1;
            self.backoff = Duration::ZERO;
        } else if was_connected && (lasted >= self.backoff || self.passive) {
            self.backoff = if self.passive { Duration::ZERO } else { self.min_backoff };
        } else {
            self.back_off_more();
        }
        self.enter(State::Backoff, now);
    }

    fn report(&self, loss: Loss<'_>) {
        let name = &self.name;
        if self.state.is_connected() {
            match loss {
                Loss::Error(cause) => {
                    warn!(target: "reconnect", "{name}: connection dropped ({cause})");
                }
                Loss::Closed => self.inform(format_args!("connection closed by peer")),
                Loss::Abandoned => self.inform(format_args!("connection dropped")),
            }
        } else if self.state == State::Listening {
            match loss {
                Loss::Error(cause) => {
                    warn!(target: "reconnect", "{name}: error listening for connections ({cause})");
                }
                Loss::Closed | Loss::Abandoned => {
                    self.inform(format_args!("error listening for connections"));
                }
            }
        } else if self.backoff < self.max_backoff {
            let attempt = if self.passive { "listen" } else { "connection" };
            match loss {
                Loss::Error(cause) => {
                    info!(target: "reconnect", "{name}: {attempt} attempt failed ({cause})");
                }
                Loss::Closed | Loss::Abandoned => {
                    self.inform(format_args!("{attempt} attempt timed out"));
                }
            }
        }
    }

    fn back_off_more(&mut self) {
        if self.backoff < self.min_backoff {
            self.backoff = self.min_backoff;
        } else if self.backoff < self.max_backoff / 2 {
            self.backoff *= 2;
            let next = if self.passive { "trying to listen again" } else { "reconnect" };
            let wait = seconds(self.backoff);
            self.inform(format_args!("waiting {wait} seconds before {next}"));
        } else {
            if self.backoff < self.max_backoff {
                let name = &self.name;
                let what = if self.passive { "try to listen" } else { "reconnect" };
                info!(
                    target: "reconnect",
                    "{name}: continuing to {what} in the background but suppressing further \
                     logging"
                );
            }
            self.backoff = self.max_backoff;
        }
    }

    /// Something arrived on the connection.
    pub fn activity(&mut self, now: Duration) {
        if self.state == State::Idle {
            self.enter(State::Active, now);
        }
        self.last_activity = now;
    }

    /// When to call [`Self::run`] next if nothing happens before.
    pub fn deadline(&self) -> Option<Duration> {
        match self.state {
            State::Void | State::Listening => None,
            State::Backoff => Some(self.state_entered + self.backoff),
            State::Connecting => Some(self.state_entered + self.backoff.max(LEAST)),
            State::Active => {
                let base = self.last_activity.max(self.state_entered);
                self.probe_interval.map(|interval| base + interval)
            }
            State::Idle => self.probe_interval.map(|interval| self.state_entered + interval),
            State::Reconnect => Some(self.state_entered),
        }
    }

    /// What to do now, if anything. What has arrived must be read and reported with
    /// [`Self::activity`] before, lest a busy owner takes its own delay for the peer's silence.
    pub fn run(&mut self, now: Duration) -> Option<Action> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        let name = &self.name;
        match self.state {
            State::Void | State::Listening => None,
            State::Backoff => Some(Action::Connect),
            State::Connecting | State::Reconnect => Some(Action::Disconnect),
            State::Active => {
                let idle = now.saturating_sub(self.last_activity.max(self.state_entered));
                debug!(
                    target: "reconnect",
                    "{name}: idle {} ms, sending inactivity probe",
                    idle.as_millis()
                );
                self.enter(State::Idle, now);
                Some(Action::Probe)
            }
            State::Idle => {
                error!(
                    target: "reconnect",
                    "{name}: no response to inactivity probe after {} seconds, disconnecting",
                    seconds(now.saturating_sub(self.state_entered))
                );
                Some(Action::Disconnect)
            }
        }
    }

    fn may_retry(&mut self) -> bool {
        match &mut self.max_tries {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    fn enter(&mut self, state: State, now: Duration) {
        debug!(target: "reconnect", "{}: entering {}", self.name, state.name());
        self.state = state;
        self.state_entered = now;
    }

    fn inform(&self, what: std::fmt::Arguments<'_>) {
        if self.quiet {
            debug!(target: "reconnect", "{}: {what}", self.name);
        } else {
            info!(target: "reconnect", "{}: {what}", self.name);
        }
    }
}

/// Seconds with at most three significant digits, as `%.3g` prints them below 1000.
fn seconds(time: Duration) -> String {
    let digits = match time.as_secs() {
        0..10 => 2,
        10..100 => 1,
        _ => 0,
    };
    let text = format!("{:.digits$}", time.as_secs_f64());
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests;
