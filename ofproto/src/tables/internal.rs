//! The rules of the switch itself, in a table behind those that controllers use.

use std::sync::Arc;

use super::{TABLE_INTERNAL, Tables};
use crate::openflow::action::{Action, Controller, PacketInReason};
use crate::openflow::flow_match::Match;
use crate::openflow::message::FlowFlags;
use crate::openflow::slot::Slot;
use crate::rule::{Rule, RuleParts};

/// A rule of the switch itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InternalRule {
    /// Sends packets that no rule takes to controllers.
    Miss = 0,
    /// Drops packets that no rule takes.
    NoPacketIn = 1,
    /// Drops fragments.
    DropFragments = 2,
}

/// Adds them; returns those of [`InternalRule`] by number.
pub(super) fn add_rules(tables: &Tables) -> Vec<Arc<Rule>> {
    let controller = Action::Controller(Box::new(Controller {
        max_len: u16::MAX,
        controller_id: 0,
        reason: PacketInReason::IMPLICIT_MISS,
        userdata: Vec::new(),
        pause: false,
        meter_id: None,
        has_properties: false,
    }));
    let add = |flow_match: Match, priority: u32, actions: &[Action]| {
        tables.add(RuleParts {
            table: TABLE_INTERNAL,
            priority,
            flow_match,
            cookie: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            flags: FlowFlags::default(),
            actions: actions.into(),
        })
    };
    // The number of each is in register 0, which is the first of a wide register.
    let numbered = |number: u128, actions: &[Action]| {
        let mut flow_match = Match::new();
        flow_match.set(Slot::xxreg(0), number << 96, u128::from(u32::MAX) << 96);
        add(flow_match, 0, actions)
    };
    let rules = [numbered(1, &[controller]), numbered(2, &[]), numbered(3, &[])];
    // Only packets that are recirculated may look for other rules there.
    let mut first_round = Match::new();
    first_round.set_exact(Slot::RECIRC_ID, 0);
    let drop = add(first_round, 2, &[]);
    // The table has no limit, so that nothing refuses them.
    debug_assert!(drop.is_ok());
    rules.into_iter().flatten().collect()
}
