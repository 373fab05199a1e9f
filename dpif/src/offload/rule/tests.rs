//! Explores what a rule and a device can do together, exhaustively up to a depth.

use std::collections::HashSet;

use super::*;

/// Events in a row that are explored.
const DEPTH: usize = 9;
/// Long after any deadline.
const LATER: Duration = Duration::from_secs(1_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Asked {
    Insert(Version),
    Update(Version),
    Remove,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct World {
    rule: Rule,
    /// What the device really has.
    device: Option<Version>,
    asked: Option<Asked>,
    wanted: Option<Version>,
    /// Whether the rule's owner has forgotten it.
    is_over: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Want(Option<Version>),
    /// The device does what it was asked for, and says so.
    Done,
    /// It does not, and says so.
    Fails,
    /// It never answers, whether it did it or not.
    Silent {
        did_it: bool,
    },
    /// It loses the rule.
    Loses,
}

const EVENTS: [Event; 8] = [
    Event::Want(None),
    Event::Want(Some(1)),
    Event::Want(Some(2)),
    Event::Done,
    Event::Fails,
    Event::Silent { did_it: true },
    Event::Silent { did_it: false },
    Event::Loses,
];

impl World {
    fn new() -> Self {
        let rule = Rule::new(1);
        let mut world = Self { rule, device: None, asked: None, wanted: Some(1), is_over: false };
        world.go_on();
        world
    }

    /// Carries out what was asked for.
    fn carry_out(&mut self) -> Answer {
        let answer = match (self.asked, self.device) {
            (Some(Asked::Insert(version)), None) => {
                self.device = Some(version);
                Answer::Done
            }
            (Some(Asked::Insert(_)), Some(_)) => Answer::Failed,
            (Some(Asked::Update(version)), Some(_)) => {
                self.device = Some(version);
                Answer::Done
            }
            (Some(Asked::Remove), Some(_)) => {
                self.device = None;
                Answer::Done
            }
            _ => Answer::Gone,
        };
        self.asked = None;
        answer
    }

    /// What happens; `None` when it cannot.
    fn after(mut self, event: Event) -> Option<Self> {
        if self.is_over {
            return None;
        }
        match event {
            Event::Want(version) => {
                self.wanted = version;
                self.rule.want(version);
            }
            Event::Done => {
                self.asked?;
                let answer = self.carry_out();
                self.rule.complete(answer, Duration::ZERO);
            }
            Event::Fails => {
                self.asked.take()?;
                self.rule.complete(Answer::Failed, Duration::ZERO);
            }
            Event::Silent { did_it } => {
                self.asked?;
                if did_it {
                    self.carry_out();
                }
                self.asked = None;
                // The time for an answer passes.
                assert!(self.rule.is_in_flight());
            }
            Event::Loses => self.device = None,
        }
        self.go_on();
        Some(self)
    }

    /// Lets the rule ask for what it needs. Time passes as if by itself, except while the device
    /// is about to answer.
    fn go_on(&mut self) {
        let now = if self.asked.is_some() { Duration::ZERO } else { LATER };
        let step = self.rule.step(now);
        // What remains of the times of deadlines would make equal worlds look different.
        self.rule.deadline = if self.rule.is_in_flight() { LATER } else { Duration::ZERO };
        self.rule.failures = self.rule.failures.min(1);
        let (State::Adding(version) | State::Modifying(version)) = self.rule.state else {
            match step {
                Step::Remove => {
                    assert_eq!(self.asked, None, "two requests in flight: {self:?}");
                    self.asked = Some(Asked::Remove);
                }
                Step::Forget => {
                    assert_eq!(self.device, None, "invariant 3: a rule is left behind: {self:?}");
                    assert_eq!(self.wanted, None);
                    self.is_over = true;
                }
                Step::Wait => {}
                Step::Insert | Step::Update => panic!("{step:?} without a version: {self:?}"),
            }
            return;
        };
        match step {
            Step::Wait => {}
            Step::Insert => {
                assert_eq!(self.asked, None, "two requests in flight: {self:?}");
                self.asked = Some(Asked::Insert(version));
            }
            Step::Update => {
                assert_eq!(self.asked, None, "two requests in flight: {self:?}");
                self.asked = Some(Asked::Update(version));
            }
            other => panic!("{other:?} while adding: {self:?}"),
        }
    }

    /// From here on the device does what it is asked for. Whatever happened before, it has in the
    /// end what is wanted.
    fn settle(mut self) {
        for _ in 0..8 {
            if self.is_over {
                return;
            }
            match self.after(Event::Done) {
                Some(next) => self = next,
                None => self.go_on(),
            }
        }
        assert_eq!(self.asked, None, "still busy: {self:?}");
        assert!(
            self.device == self.wanted || self.device.is_none(),
            "invariant 3: the device has something else: {self:?}"
        );
        assert!(self.wanted.is_some(), "invariant 4: a removal was lost: {self:?}");
    }
}

#[test]
fn a_rule_and_its_device_agree_in_the_end() {
    let mut seen = HashSet::from([World::new()]);
    let mut front: Vec<World> = seen.iter().copied().collect();
    for _ in 0..DEPTH {
        let mut next = vec![];
        for world in front {
            for event in EVENTS {
                let Some(after) = world.after(event) else { continue };
                if seen.insert(after) {
                    after.settle();
                    next.push(after);
                }
            }
        }
        front = next;
    }
    assert!(seen.len() > 40, "only {} worlds", seen.len());
    assert!(front.is_empty(), "{} worlds are new at depth {DEPTH}", front.len());
}

#[test]
fn failures_are_followed_by_ever_longer_waits() {
    let mut rule = Rule::new(1);
    let mut now = Duration::from_secs(1);
    let mut waits = vec![];
    for _ in 0..9 {
        assert_eq!(rule.step(now), Step::Insert);
        rule.complete(Answer::Failed, now);
        assert_eq!(rule.step(now), Step::Wait);
        let deadline = rule.deadline().unwrap();
        waits.push((deadline - now).as_millis());
        now = deadline;
    }
    assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    // What is not wanted any more is not tried again.
    rule.step(now);
    rule.complete(Answer::Failed, now);
    rule.want(None);
    assert_eq!(rule.step(now), Step::Forget);
}

#[test]
fn a_newer_wish_replaces_one_that_was_not_begun() {
    let now = Duration::from_secs(1);
    let mut rule = Rule::new(1);
    assert_eq!(rule.step(now), Step::Insert);
    for version in [Some(2), None, Some(3)] {
        rule.want(version);
        assert_eq!(rule.step(now), Step::Wait);
    }
    rule.complete(Answer::Done, now);
    assert_eq!((rule.step(now), rule.state), (Step::Update, State::Modifying(3)));
    rule.complete(Answer::Done, now);
    assert_eq!((rule.step(now), rule.state), (Step::Wait, State::Active(3)));
}

#[test]
fn a_device_that_cannot_be_asked_leaves_everything_as_it_was() {
    let now = Duration::from_secs(1);
    let mut rule = Rule::new(1);
    let before = rule;
    assert_eq!(rule.step(now), Step::Insert);
    rule.undo(before);
    assert_eq!(rule, before);
    assert_eq!(rule.step(now), Step::Insert);
    // Nor does it bring back the hope for an answer that was given up.
    let (before, later) = (rule, now + ANSWER_LIMIT);
    assert_eq!(rule.step(later), Step::Remove);
    rule.undo(before);
    assert_eq!((rule.state, rule.deadline()), (State::Doubtful, None));
    assert_eq!(rule.step(later), Step::Remove);
}
