//! Which rules a message is about.

use crate::openflow::flow_match::Match;
use crate::openflow::message::{FlowMod, FlowModCommand, FlowStatsRequest, GROUP_ANY, TABLE_ALL};
use crate::openflow::port::PortNo;
use crate::rule::Rule;

use super::N_TABLES;

/// Which rules a message is about.
#[derive(Clone, Debug)]
pub struct Criteria {
    /// The table, or [`TABLE_ALL`].
    pub table: u8,
    /// What the rules match, or more than they do.
    pub flow_match: Match,
    /// The priority of the rule that matches exactly that; `None` for all rules that match it or
    /// less.
    pub priority: Option<u32>,
    /// The cookie that the rules have.
    pub cookie: u64,
    /// The bits of it that count.
    pub cookie_mask: u64,
    /// The port to which the rules output, or `PortNo::NONE`.
    pub out_port: PortNo,
    /// The group that the rules use, or [`GROUP_ANY`].
    pub out_group: u32,
    /// Whether rules count that controllers do not see.
    pub include_hidden: bool,
}

impl Criteria {
    /// All rules that controllers see.
    pub fn all() -> Self {
        Self {
            table: TABLE_ALL,
            flow_match: Match::new(),
            priority: None,
            cookie: 0,
            cookie_mask: 0,
            out_port: PortNo::NONE,
            out_group: GROUP_ANY,
            include_hidden: false,
        }
    }

    /// The rules that a flow modification changes or deletes.
    pub(super) fn of_flow_mod(flow_mod: &FlowMod) -> Self {
        use FlowModCommand::{Delete, DeleteStrict, ModifyStrict};
        let is_strict = matches!(flow_mod.command, ModifyStrict | DeleteStrict);
        let deletes = matches!(flow_mod.command, Delete | DeleteStrict);
        let all = Self::all();
        Self {
            table: flow_mod.table_id,
            flow_match: flow_mod.flow_match.clone(),
            priority: is_strict.then(|| flow_mod.priority.into()),
            cookie: flow_mod.cookie,
            cookie_mask: flow_mod.cookie_mask,
            out_port: if deletes { flow_mod.out_port } else { all.out_port },
            out_group: if deletes { flow_mod.out_group } else { all.out_group },
            include_hidden: false,
        }
    }

    /// The rules whose statistics are asked for.
    pub fn of_request(request: &FlowStatsRequest) -> Self {
        Self {
            table: request.table_id,
            flow_match: request.flow_match.clone(),
            cookie: request.cookie,
            cookie_mask: request.cookie_mask,
            out_port: request.out_port,
            out_group: request.out_group,
            ..Self::all()
        }
    }

    /// The tables. All of them are those that controllers may use.
    pub(super) fn tables(&self) -> impl Iterator<Item = u8> + use<> {
        match self.table {
            TABLE_ALL => 0..N_TABLES,
            table => table..table.saturating_add(1),
        }
    }

    /// Whether a rule that matches right meets the other criteria.
    pub(super) fn has(&self, rule: &Rule) -> bool {
        let actions = || rule.actions.iter();
        (rule.cookie ^ self.cookie) & self.cookie_mask == 0
            && (rule.is_visible() || self.include_hidden)
            && (self.out_port == PortNo::NONE
                || actions().any(|action| action.outputs_to(self.out_port)))
            && (self.out_group == GROUP_ANY
                || actions().any(|action| action.uses_group(self.out_group)))
    }
}
