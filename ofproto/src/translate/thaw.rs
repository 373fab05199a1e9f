//! Where translation starts, and how it goes on where it stopped before.

use std::sync::Arc;

use super::context::Context;
use super::{Request, Start, TraceKind, TranslateError};
use crate::openflow::action::Action;
use crate::openflow::port::PortNo;
use crate::openflow::text::{NoNames, print_actions};
use crate::port::PortNumber;
use crate::recirculation::{FrozenState, Recirculation};
use crate::switches::{SwitchSnapshot, Switches};

/// Where the packet comes into translation.
pub(super) struct Entry<'a> {
    /// The switch that has it from the datapath or a controller.
    pub(super) switch: &'a SwitchSnapshot,
    /// The port on which that got it.
    pub(super) in_port: PortNumber,
    /// The state in which translation stopped.
    pub(super) frozen: Option<Frozen<'a>>,
}

/// A state from somewhere.
pub(super) enum Frozen<'a> {
    Known(Arc<Recirculation>),
    Given(&'a FrozenState),
}

impl Frozen<'_> {
    fn state(&self) -> &FrozenState {
        match self {
            Self::Known(recirculation) => &recirculation.state,
            Self::Given(state) => state,
        }
    }
}

/// Whether a port stands for a controller rather than for a real one.
fn is_of_controller(port: u16) -> bool {
    [PortNo::NONE.0, PortNo::CONTROLLER.0].contains(&port)
}

/// Finds where a packet comes in.
///
/// # Errors
/// When there is no such place.
pub(super) fn entry<'a>(
    switches: &'a Switches,
    request: &Request<'a>,
) -> Result<Entry<'a>, TranslateError> {
    match request.start {
        Start::PacketOut { switch, in_port, .. } | Start::Received { switch, in_port, .. } => {
            Ok(Entry { switch, in_port, frozen: None })
        }
        Start::Resume(state) => {
            let switch = switches.by_id(state.switch).ok_or(TranslateError::SwitchGone)?;
            Ok(Entry { switch, in_port: PortNumber(0), frozen: Some(Frozen::Given(state)) })
        }
        Start::Packet => packet_entry(switches, request),
    }
}

fn packet_entry<'a>(
    switches: &'a Switches,
    request: &Request<'a>,
) -> Result<Entry<'a>, TranslateError> {
    let id = request.key.recirc_id.get();
    let place = || switches.receiver_of(request.key);
    if id == 0 {
        let (switch, in_port) = place()?;
        return Ok(Entry { switch, in_port, frozen: None });
    }
    let known = switches.recirculations().get(id).ok_or(TranslateError::NoRecirculation(id))?;
    let state = &known.state;
    let in_port = PortNumber(state.metadata.in_port);
    let came_from = match state.entry {
        Some((switch, port)) if !is_of_controller(in_port.0) => {
            let switch = switches.by_id(switch);
            switch.filter(|switch| switch.ports.contains_key(&port)).map(|switch| (switch, port))
        }
        // The packet is of a controller, perhaps from behind a patch port.
        _ => {
            let switch = switches.by_id(state.switch);
            let has_port = |switch: &&SwitchSnapshot| {
                is_of_controller(in_port.0) || switch.ports.contains_key(&in_port)
            };
            switch.filter(has_port).map(|switch| (switch, in_port))
        }
    };
    let (switch, in_port) = came_from.map_or_else(place, Ok)?;
    Ok(Entry { switch, in_port, frozen: Some(Frozen::Known(known)) })
}

impl Context<'_> {
    /// Takes up what translation knew when it stopped. Returns the actions that are left.
    pub(super) fn thaw(&mut self, frozen: &Frozen<'_>) -> Vec<Action> {
        let state = frozen.state();
        let depth = self.trace_depth;
        self.enter(TraceKind::Thaw, |_| "thaw".to_owned());
        match self.switches.by_id(state.switch) {
            Some(switch) => self.enter_switch(switch),
            None => {
                self.report_error(|_| "Frozen bridge no longer exists.".to_owned());
                self.error = Some(TranslateError::SwitchGone);
                self.trace_depth = depth;
                return Vec::new();
            }
        }
        self.table = state.table;
        self.report(TraceKind::Thaw, |context| format!("Resuming from table {}", context.table));
        self.conntracked = state.conntracked;
        if !state.conntracked {
            self.forget_conntrack();
        }
        state.metadata.restore(&mut self.flow);
        self.stack = state.stack.clone();
        self.mirrors = state.mirrors;
        if !state.action_set.is_empty() {
            self.report_actions("Restoring action set", &state.action_set);
            self.flow.actset_output.set(PortNo::UNSET.0);
            self.add_to_action_set(&state.action_set);
        }
        if !state.actions.is_empty() {
            self.report_actions("Restoring actions", &state.actions);
        }
        self.trace_depth = depth;
        state.actions.clone()
    }

    fn report_actions(&mut self, title: &str, actions: &[Action]) {
        self.report(TraceKind::Thaw, |_| {
            let mut text = format!("{title}: ");
            print_actions(&mut text, actions, &NoNames);
            text
        });
    }
}
