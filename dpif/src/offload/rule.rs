//! The life of one hardware rule: a state machine that knows neither flows nor devices.
//!
//! What is wanted of a rule may change at any time; what the device was asked for last must
//! be answered before it is asked for the next thing. So there is at most one request in flight,
//! a newer wish replaces one that was not begun, and a removal waits for the insertion.

use std::time::Duration;

/// How long after a failure the device is asked again; doubled with each one that follows.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// The longest of these times.
const LAST_RETRY: Duration = Duration::from_secs(10);
/// How long an answer may take before it counts as lost.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A version of what the rule is to do. Newer ones are different.
pub(crate) type Version = u32;

/// What the device has of the rule, as far as it has told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Nothing.
    Absent,
    /// It was asked to insert this version.
    Adding(Version),
    /// This version.
    Active(Version),
    /// It was asked to put this version in the place of another.
    Modifying(Version),
    /// It was asked to remove it.
    Removing,
    /// Nobody knows; it must be removed.
    Doubtful,
}

/// What to ask the device for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing now.
    Wait,
    /// To insert the rule.
    Insert,
    /// To change it.
    Update,
    /// To remove it.
    Remove,
    /// Nothing any more: the rule is not wanted and not there.
    Forget,
}

/// What a device answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It was done.
    Done,
    /// It failed.
    Failed,
    /// The device does not have the rule.
    Gone,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub(crate) state: State,
    /// The version that is wanted, if the rule is.
    wanted: Option<Version>,
    failures: u32,
    /// When the device may be asked again after a failure, or must have answered.
    deadline: Duration,
}

impl Rule {
    /// A rule that is wanted and not there.
    pub(crate) fn new(version: Version) -> Self {
        Self { state: State::Absent, wanted: Some(version), failures: 0, deadline: Duration::ZERO }
    }

    /// Changes what is wanted.
    pub(crate) fn want(&mut self, version: Option<Version>) {
        if self.wanted != version {
            self.wanted = version;
            if !self.is_in_flight() {
                // What failed was something else.
                self.deadline = Duration::ZERO;
            }
        }
    }

    /// Whether the rule is wanted.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// Whether the device has what is wanted.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.state, State::Active(version) if self.wanted == Some(version))
    }

    /// Whether an answer is awaited.
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.state, State::Adding(_) | State::Modifying(_) | State::Removing)
    }

    /// When [`Self::step`] has something new to say without anything happening.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        (self.deadline > Duration::ZERO).then_some(self.deadline)
    }

    /// What to ask for now. The caller asks at once, or says that it [could not](Self::undo).
    pub(crate) fn step(&mut self, now: Duration) -> Step {
        if self.is_in_flight() {
            if now < self.deadline {
                return Step::Wait;
            }
            // The answer is lost, or comes too late to be believed.
            self.state = State::Doubtful;
            self.deadline = Duration::ZERO;
        }
        if now < self.deadline {
            return match (self.state, self.wanted) {
                (State::Absent, None) => Step::Forget,
                _ => Step::Wait,
            };
        }
        let (state, step) = match (self.state, self.wanted) {
            #[cfg(feature = "broken-removal")]
            (State::Active(_), None) => return Step::Forget,
            (State::Absent, None) => return Step::Forget,
            (State::Absent, Some(version)) => (State::Adding(version), Step::Insert),
            (State::Active(version), Some(wanted)) if version == wanted => {
                self.deadline = Duration::ZERO;
                return Step::Wait;
            }
            (State::Active(_), Some(wanted)) => (State::Modifying(wanted), Step::Update),
            (State::Active(_), None) | (State::Doubtful, _) => (State::Removing, Step::Remove),
            (State::Adding(_) | State::Modifying(_) | State::Removing, _) => return Step::Wait,
        };
        self.state = state;
        self.deadline = now + ANSWER_LIMIT;
        step
    }

    /// The device could not be asked: everything is as before the step, but for an answer that has
    /// been given up.
    pub(crate) fn undo(&mut self, before: Self) {
        (self.state, self.deadline) = match before.is_in_flight() {
            true => (State::Doubtful, Duration::ZERO),
            false => (before.state, before.deadline),
        };
    }

    /// Takes an answer to the request in flight.
    pub(crate) fn complete(&mut self, answer: Answer, now: Duration) {
        let (state, is_failure) = match (self.state, answer) {
            (State::Adding(version) | State::Modifying(version), Answer::Done) => {
                (State::Active(version), false)
            }
            (State::Adding(_), _) => (State::Absent, true),
            // It may do what it did before, which nobody wants any more.
            (State::Modifying(_), Answer::Failed) => (State::Doubtful, false),
            (State::Modifying(_), Answer::Gone) => (State::Absent, false),
            (State::Removing, Answer::Done | Answer::Gone) => (State::Absent, false),
            (State::Removing, Answer::Failed) => (State::Doubtful, true),
            (other, _) => (other, false),
        };
        self.state = state;
        self.deadline = Duration::ZERO;
        if is_failure {
            let wait = FIRST_RETRY * 2u32.saturating_pow(self.failures.min(16));
            self.deadline = now + wait.min(LAST_RETRY);
            self.failures += 1;
        } else if matches!(state, State::Active(_)) {
            self.failures = 0;
        }
    }
}

#[cfg(test)]
mod tests;
