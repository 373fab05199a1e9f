//! Actions on copies of the packet.

use dpif::action::{Action as DpAction, slow_path};

use super::context::Context;
use crate::openflow::action::{Action, Subfield};
use crate::openflow::value::Value;

/// How deep samples must nest beyond to take the place of copies.
const LEAST_SAMPLE_NESTING: usize = 3;

impl Context<'_> {
    /// Executes actions on a copy of the packet. `is_last` says that nothing is done to the packet
    /// itself afterwards.
    pub(super) fn do_on_copy(&mut self, actions: &[Action], is_last: bool) {
        if !is_last {
            self.commit();
        }
        let (flow, base) = (self.flow.clone(), self.base.clone());
        let stack = std::mem::take(&mut self.stack);
        let action_set = std::mem::take(&mut self.action_set);
        let (was_mpls, conntracked) = (self.was_mpls, self.conntracked);
        let start = self.actions.len();

        // In the copy nothing follows.
        self.do_actions(actions, true, false);
        self.conclude_actions();

        let made = self.actions.get(start..).unwrap_or_default();
        if !is_last && !made.is_empty() && !are_reversible(made) {
            let made = self.actions.split_off(start);
            self.isolate(made);
            self.base = base;
        }
        // Else the base says what the packet is by now, and the next commit changes it back.
        (self.was_mpls, self.conntracked) = (was_mpls, conntracked);
        self.flow = flow;
        (self.stack, self.action_set) = (stack, action_set);
    }

    /// Adds actions that do not change the packet for what comes after them.
    fn isolate(&mut self, actions: Vec<DpAction>) {
        let features = self.features();
        if features.clone {
            self.actions.push(DpAction::Clone(actions));
        } else if features.sample_nesting > LEAST_SAMPLE_NESTING {
            self.actions.push(DpAction::Sample { probability: u32::MAX, actions });
        } else {
            self.report_error(|_| "Failed to compose clone action".to_owned());
        }
    }

    /// Does a check-length action where the datapath cannot: for this packet alone.
    pub(super) fn check_own_length(&mut self, length: u16, dst: &Subfield) {
        let is_longer = self.request.length.is_some_and(|own| own > usize::from(length));
        self.put(dst, &Value::from(u128::from(is_longer)));
        self.slow |= slow_path::ACTION;
    }

    /// Does a check-length action: what follows it is executed once for either result.
    pub(super) fn check_length(&mut self, length: u16, dst: &Subfield, following: &[Action]) {
        let flow = self.flow.clone();
        let stack = std::mem::take(&mut self.stack);
        let action_set = std::mem::take(&mut self.action_set);
        self.commit();
        let base = self.base.clone();
        let (was_mpls, conntracked) = (self.was_mpls, self.conntracked);
        let before = std::mem::take(&mut self.actions);

        self.do_branch(dst, true, following);
        let greater = std::mem::take(&mut self.actions);
        (self.flow, self.base) = (flow.clone(), base.clone());
        (self.was_mpls, self.conntracked) = (was_mpls, conntracked);
        let exit = std::mem::replace(&mut self.exit, false);
        self.do_branch(dst, false, following);
        let less_equal = std::mem::replace(&mut self.actions, before);

        self.actions.push(DpAction::CheckPacketLength { length, greater, less_equal });
        (self.was_mpls, self.conntracked, self.exit) = (was_mpls, conntracked, exit);
        (self.flow, self.base) = (flow, base);
        (self.stack, self.action_set) = (stack, action_set);
    }

    /// Executes actions for packets that are longer, or for the others.
    fn do_branch(&mut self, dst: &Subfield, is_longer: bool, actions: &[Action]) {
        self.put(dst, &Value::from(u128::from(is_longer)));
        self.do_actions(actions, true, false);
        self.conclude_actions();
    }
}

/// Whether later actions can undo what these do to the packet.
fn are_reversible(actions: &[DpAction]) -> bool {
    actions.iter().all(|action| match action {
        DpAction::Output(_)
        | DpAction::LoadBalancedOutput(_)
        | DpAction::Userspace(_)
        | DpAction::Set(_)
        | DpAction::SetTunnel(_)
        | DpAction::PushVlan { .. }
        | DpAction::PopVlan
        | DpAction::PushMpls { .. }
        | DpAction::PopMpls { .. }
        | DpAction::Sample { .. }
        | DpAction::Recirculate(_)
        | DpAction::Clone(_)
        | DpAction::Psample { .. } => true,
        DpAction::CheckPacketLength { greater, less_equal, .. } => {
            are_reversible(greater) && are_reversible(less_equal)
        }
        DpAction::Hash { .. }
        | DpAction::Conntrack(_)
        | DpAction::ConntrackClear
        | DpAction::Truncate(_)
        | DpAction::PushEthernet { .. }
        | DpAction::PopEthernet
        | DpAction::PushNsh(_)
        | DpAction::PopNsh
        | DpAction::AddMpls { .. }
        | DpAction::Meter(_)
        | DpAction::Drop { .. }
        | DpAction::TunnelPush(_)
        | DpAction::TunnelPop(_) => false,
    })
}
