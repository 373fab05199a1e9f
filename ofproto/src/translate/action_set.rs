//! The action set (OpenFlow 1.5, section 5.6): what happens to the packet after the last table.

use super::TraceKind;
use super::context::Context;
use crate::openflow::action::Action;
use crate::openflow::port::PortNo;
use crate::openflow::text::{NoNames, print_actions};

/// What an action does in an action set.
enum Class {
    /// One of its kind is executed, the last, in this place.
    Slot(usize),
    /// One such is executed, of the greatest rank: the end.
    Final(usize),
    /// All such are executed, in their order.
    Set,
    /// It may not be there.
    None,
}

/// Number of slots.
const SLOTS: usize = 9;

fn class(action: &Action) -> Class {
    match action {
        Action::PopVlan { .. } => Class::Slot(0),
        Action::PopMpls(_) => Class::Slot(1),
        Action::Decap(_) => Class::Slot(2),
        Action::Encap(_) => Class::Slot(3),
        Action::PushMpls(_) => Class::Slot(4),
        Action::PushVlan(_) => Class::Slot(5),
        Action::DecTtl(_) => Class::Slot(6),
        Action::DecMplsTtl => Class::Slot(7),
        Action::DecNshTtl => Class::Slot(8),
        Action::Ct(_) => Class::Final(0),
        Action::CtClear => Class::Final(1),
        Action::Resubmit { .. } => Class::Final(2),
        Action::Output { .. } => Class::Final(3),
        Action::Group(_) => Class::Final(4),
        action if action.may_be_in_set() => Class::Set,
        _ => Class::None,
    }
}

/// The actions of a set in the order in which they are executed; none if nothing sends the packet
/// anywhere.
pub(super) fn in_order(set: &[Action]) -> Vec<Action> {
    let mut slots = [None; SLOTS];
    let mut last: Option<(usize, &Action)> = None;
    let mut sets = Vec::new();
    for action in set {
        match class(action) {
            Class::Slot(place) => slots.iter_mut().skip(place).take(1).for_each(|slot| {
                *slot = Some(action);
            }),
            Class::Final(rank) => {
                if last.is_none_or(|(other, _)| rank >= other) {
                    last = Some((rank, action));
                }
            }
            Class::Set => sets.push(action),
            Class::None => {}
        }
    }
    match last {
        Some((_, last)) => slots.into_iter().flatten().chain(sets).chain([last]).cloned().collect(),
        None => Vec::new(),
    }
}

impl Context<'_> {
    /// Does a write-actions instruction.
    pub(super) fn add_to_action_set(&mut self, actions: &[Action]) {
        for action in actions {
            match action {
                _ if self.has_group_in_set => break,
                Action::Output { port, .. } => self.flow.actset_output.set(port.0),
                Action::Group(_) => {
                    self.flow.actset_output.set(PortNo::UNSET.0);
                    self.has_group_in_set = true;
                }
                _ => {}
            }
        }
        self.action_set.extend_from_slice(actions);
    }

    /// Does a clear-actions instruction.
    pub(super) fn clear_action_set(&mut self) {
        self.report_action_set("was");
        self.action_set.clear();
        self.flow.actset_output.set(PortNo::UNSET.0);
        self.has_group_in_set = false;
    }

    /// Tells what the action set is or was.
    pub(super) fn report_action_set(&mut self, verb: &str) {
        self.report(TraceKind::Detail, |context| {
            let actions = in_order(&context.action_set);
            let mut text = format!("action set {verb}");
            if actions.is_empty() {
                text += " empty";
            } else {
                text += ": ";
                print_actions(&mut text, &actions, &NoNames);
            }
            text
        });
    }

    /// Executes the action set, which is empty then.
    pub(super) fn execute_action_set(&mut self) {
        let actions = in_order(&std::mem::take(&mut self.action_set));
        if actions.is_empty() {
            return;
        }
        self.is_in_action_set = true;
        let trace_depth = self.trace_depth;
        self.enter(TraceKind::Table, |_| "--. Executing action set:".to_owned());
        self.do_actions(&actions, true, false);
        self.trace_depth = trace_depth;
        self.is_in_action_set = false;
    }
}
