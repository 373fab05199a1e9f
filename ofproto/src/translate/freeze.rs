//! Stopping a translation, so that it can go on later: when the datapath looks the packet up
//! again, or when a controller resumes it.

use std::sync::Arc;

use dpif::action::{Action as DpAction, HashAlgorithm};

use super::context::Context;
use super::field::is_above_ethernet;
use super::{Fork, TraceKind, TranslateError};
use crate::openflow::action::{Action, SetField, SetForm};
use crate::openflow::field::Field;
use crate::openflow::port::PortNo;
use crate::openflow::value::Value;
use crate::recirculation::{FrozenMetadata, FrozenState, Recirculation};

impl Context<'_> {
    /// Stops before the current action.
    pub(super) fn freeze(&mut self) {
        self.exit = true;
        self.freezing = true;
    }

    /// Stops; the packet is looked up again with a hash that the datapath computes.
    pub(super) fn freeze_for_hash(&mut self, algorithm: HashAlgorithm, basis: u32) {
        self.freeze();
        self.wanted_hash = Some((algorithm, basis));
    }

    /// Stops before an action that needs to know what was behind labels that are gone.
    pub(super) fn freeze_for_mpls(&mut self, action: &Action) {
        if self.exit || !self.was_mpls {
            return;
        }
        let is_harmless = match action {
            Action::Output { .. }
            | Action::OutputTrunc { .. }
            | Action::Enqueue { .. }
            | Action::OutputField { .. }
            | Action::SetVlanVid { .. }
            | Action::SetVlanPcp { .. }
            | Action::SetEthSrc(_)
            | Action::SetEthDst(_)
            | Action::SetTunnel { .. }
            | Action::SetQueue(_)
            | Action::Group(_) => true,
            Action::SetField(set) => !is_above_ethernet(set.field),
            _ => false,
        };
        if !is_harmless {
            self.freeze();
        }
    }

    /// Keeps actions for later, and where they are from, as far as they depend on that.
    pub(super) fn freeze_actions(&mut self, actions: &[Action]) {
        for action in actions {
            let frozen = match action {
                Action::OutputField { .. }
                | Action::OutputTrunc { .. }
                | Action::Group(_)
                | Action::Output { .. }
                | Action::Controller(_)
                | Action::DecMplsTtl
                | Action::DecNshTtl
                | Action::DecTtl(_)
                | Action::Resubmit { table: u8::MAX, .. } => {
                    self.freeze_place();
                    action.clone()
                }
                // Instructions are turned into actions, which may be in any order.
                Action::GotoTable(table) => Action::Resubmit {
                    in_port: PortNo::IN_PORT,
                    table: *table,
                    with_ct: false,
                    short: false,
                },
                Action::WriteMetadata { metadata, mask } => Action::SetField(Box::new(SetField {
                    field: Field::METADATA,
                    value: Value::from(u128::from(*metadata)),
                    mask: Value::from(u128::from(*mask)),
                    form: SetForm::SetField,
                    flow_has_vlan: false,
                })),
                Action::Note(_) | Action::Conjunction { .. } => continue,
                action => action.clone(),
            };
            self.frozen_actions.push(frozen);
        }
    }

    fn freeze_place(&mut self) {
        let place = (self.table, self.cookie);
        if self.frozen_place != Some(place) {
            self.frozen_place = Some(place);
            self.frozen_actions.push(Action::Unroll { table: self.table, cookie: self.cookie });
        }
    }

    /// Numbers a state, and holds the number for the result.
    pub(super) fn number(&mut self, state: FrozenState) -> Option<Arc<Recirculation>> {
        let is_for_flow = self.request.trace.is_none();
        let known = self.switches.recirculations().insert(state, is_for_flow);
        match &known {
            Some(recirculation) => self.recirculations.push(Arc::clone(recirculation)),
            None => {
                self.report_error(|_| "Failed to allocate recirculation id".to_owned());
                self.error = Some(TranslateError::NoRecirculationId);
            }
        }
        known
    }

    /// What is known of the packet now; without actions it goes on in `table`.
    pub(super) fn state(&self, table: u8) -> FrozenState {
        FrozenState {
            switch: self.switch.id,
            table,
            metadata: FrozenMetadata::of(&self.flow),
            stack: self.stack.clone(),
            mirrors: self.mirrors,
            conntracked: self.conntracked,
            was_mpls: self.was_mpls,
            entry: None,
            actions: Vec::new(),
            action_set: Vec::new(),
            userdata: Vec::new(),
        }
    }

    /// Stops where the actions said, and goes on as if nothing had been.
    pub(super) fn finish_freezing(&mut self) {
        self.commit();
        self.finish_freezing_in(0);
    }

    /// The same when the packet goes on in `table`. Returns under which number.
    fn finish_freezing_in(&mut self, table: u8) -> Option<u32> {
        let pause = self.pause.take();
        let state = FrozenState {
            entry: self.came_by.map(|(switch, port)| (switch.id, port)),
            actions: std::mem::take(&mut self.frozen_actions),
            action_set: self.action_set.clone(),
            userdata: pause.as_ref().map(|pause| pause.userdata.clone()).unwrap_or_default(),
            ..self.state(table)
        };
        let id = self.number(state)?.id;
        match pause {
            Some(pause) => self.pause_for_controller(&pause, id),
            None => {
                if let Some((algorithm, basis)) = self.wanted_hash {
                    self.actions.push(DpAction::Hash { algorithm, basis });
                }
                self.actions.push(DpAction::Recirculate(id));
            }
        }
        self.cancel_freezing();
        Some(id)
    }

    /// Undoes what stopping did.
    fn cancel_freezing(&mut self) {
        self.freezing = false;
        self.wanted_hash = None;
        self.frozen_actions.clear();
        self.frozen_place = None;
        self.pause = None;
    }

    /// Lets a copy of the packet, as it is now, be looked up again and go on in `table`, after it
    /// went through connection tracking in `zone`.
    pub(super) fn fork(&mut self, table: u8, zone: u16) {
        self.freezing = true;
        let Some(id) = self.finish_freezing_in(table) else { return };
        let (flow, nat) = (self.flow.clone(), self.nat);
        if let Some(trace) = &mut self.request.trace {
            trace.forks.push(Fork { recirculation: id, zone, nat, flow });
        }
        self.report(TraceKind::Detail, |_| {
            format!(
                "A clone of the packet is forked to recirculate. The forked pipeline will be \
                 resumed at table {table}."
            )
        });
    }
}
