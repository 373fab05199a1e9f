//! Changes of ports: those that controllers ask for, and those that they are told of.

use super::{Switch, SwitchPort};
use crate::openflow::error::OfError;
use crate::openflow::message::{PhyPort, PortMod, PortReason, PortStatus, config, state};
use crate::port::PortNumber;

/// A change of a port that controllers are to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortChange {
    /// What the port was, when it was there before.
    pub old: Option<PhyPort>,
    /// What happened, with the port as it is now, or was last.
    pub status: PortStatus,
    /// Whether a controller asked for it.
    pub requested: bool,
}

impl PortChange {
    /// What there is to tell of a new port. It comes before it is live.
    pub(super) fn of_new_port(port: &PhyPort) -> Vec<Self> {
        let mut first = port.clone();
        first.state &= !state::LIVE;
        let mut changes = vec![Self::new(None, PortReason::Add, &first)];
        if first != *port {
            changes.push(Self::new(Some(first), PortReason::Modify, port));
        }
        changes
    }

    pub(super) fn removed(port: &PhyPort) -> Self {
        Self::new(None, PortReason::Delete, port)
    }

    /// The change as a controller's request. What it does to the link is told after it.
    fn requested(self) -> Vec<Self> {
        let Some(old) = &self.old else { return vec![Self { requested: true, ..self }] };
        let new = &self.status.port;
        if (old.state ^ new.state) & state::LINK_DOWN == 0 {
            return vec![Self { requested: true, ..self }];
        }
        let mut set = new.clone();
        set.state = old.state & !state::LIVE;
        let first = Self::new(Some(old.clone()), PortReason::Modify, &set);
        let link = Self::new(Some(set), PortReason::Modify, new);
        vec![Self { requested: true, ..first }, link]
    }

    fn new(old: Option<PhyPort>, reason: PortReason, port: &PhyPort) -> Self {
        Self { old, status: PortStatus { reason, port: port.clone() }, requested: false }
    }
}

impl SwitchPort {
    /// Describes the port anew. Returns what changed, if anything did.
    fn redescribe(&mut self, number: PortNumber) -> Option<PortChange> {
        self.described_at = self.port.change_sequence();
        let new = self.describe(number);
        if new == self.described {
            return None;
        }
        let old = std::mem::replace(&mut self.described, new);
        Some(PortChange::new(Some(old), PortReason::Modify, &self.described))
    }
}

impl Switch {
    /// Looks at the devices of ports that changed.
    pub fn look_at_ports(&mut self) {
        for (&number, port) in &mut self.ports {
            if port.described_at != port.port.change_sequence()
                && let Some(change) = port.redescribe(number)
            {
                self.port_changes.push(change);
                self.snapshot_is_stale = true;
            }
        }
    }

    /// Whether translation needs a new [`snapshot`](Self::snapshot) because of what happened since
    /// this was last called: ports, or what a controller set. Whoever adds or configures ports
    /// knows without asking.
    pub fn take_snapshot_is_stale(&mut self) -> bool {
        std::mem::take(&mut self.snapshot_is_stale)
    }

    /// What happened to ports since this was last called.
    pub fn take_port_changes(&mut self) -> Vec<PortChange> {
        std::mem::take(&mut self.port_changes)
    }

    /// Does what a controller asks for.
    ///
    /// # Errors
    /// When there is no such port, or its address is another.
    pub(crate) fn modify_port(&mut self, port_mod: &PortMod) -> Result<(), OfError> {
        let number = self.check_port_mod(port_mod)?;
        let port = self.ports.get_mut(&number).ok_or(OfError::PortModBadPort)?;
        let toggle = (port_mod.config ^ port.described.config) & port_mod.mask;
        port.config ^= toggle & !config::PORT_DOWN;
        if toggle & config::PORT_DOWN != 0 {
            // A device that refuses stays as it is, and its description says so.
            let _ = port.port.set_admin_up(port_mod.config & config::PORT_DOWN == 0);
        }
        if let Some(change) = port.redescribe(number) {
            self.port_changes.extend(change.requested());
            self.snapshot_is_stale = true;
        }
        Ok(())
    }

    /// The port that a controller wants to change.
    ///
    /// # Errors
    /// When there is no such port, or its address is another.
    pub(crate) fn check_port_mod(&self, port_mod: &PortMod) -> Result<PortNumber, OfError> {
        let number = PortNumber(port_mod.port_no.0);
        let port = self.ports.get(&number).ok_or(OfError::PortModBadPort)?;
        match port.described.hw_addr == port_mod.hw_addr {
            true => Ok(number),
            false => Err(OfError::PortModBadHwAddr),
        }
    }
}
