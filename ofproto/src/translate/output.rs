//! Sending the packet out of a port.

use dpif::action::Action;
use dpif::flow::VlanKey;
use netdev::wire::vlan;

use super::TraceKind;
use super::context::Context;
use crate::switches::{Attachment, PortSnapshot};

impl<'a> Context<'a> {
    /// Sends the packet, as it is now, out of a port of the switch.
    pub(super) fn output(&mut self, port: &'a PortSnapshot) {
        let is_protected = self.in_port().is_some_and(|port| port.settings.is_protected);
        if is_protected && port.settings.is_protected {
            return self.report(TraceKind::Warning, |_| {
                "Flow is between protected ports, skipping output.".to_owned()
            });
        }
        match port.attachment {
            Attachment::Datapath(number) => {
                self.commit_vlans();
                self.actions.push(Action::Output(number.0));
            }
            Attachment::Patch(_) => {
                if let Some((switch, in_port)) = self.switches.peer_of(&port.name) {
                    self.visit(switch, in_port);
                }
            }
        }
    }

    /// Adds the actions that give the packet the tags that it is to have. Those that it has
    /// already, counted from the innermost, stay.
    fn commit_vlans(&mut self) {
        let (old, new) = (tags(&self.sent_vlans), tags(&self.key.vlans));
        let pairs = old.iter().rev().zip(new.iter().rev());
        let same = pairs.take_while(|(old, new)| old == new).count();
        if old.len() > same {
            self.note_tags();
        }
        self.actions.extend(old.iter().skip(same).map(|_| Action::PopVlan));
        let added = new.iter().take(new.len() - same).rev();
        self.actions
            .extend(added.map(|tag| Action::PushVlan { tpid: tag.tpid.get(), tci: tag.tci.get() }));
        self.sent_vlans = self.key.vlans;
    }
}

/// The tags that are there.
fn tags(vlans: &[VlanKey]) -> Vec<VlanKey> {
    vlans.iter().copied().take_while(|tag| tag.tci.get() & vlan::CFI != 0).collect()
}
