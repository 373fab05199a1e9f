//! Sending a packet to the ports of its VLAN.

use super::context::Context;
use super::vlan::Tags;
use crate::port_settings::{PortSettings, PriorityTags, VlanMode};
use crate::switches::PortSnapshot;

impl<'a> Context<'a> {
    /// Sends a packet with these tags to all ports of its VLAN but the one on which it came.
    pub(super) fn flood(&mut self, tags: Tags) {
        for (&number, port) in &self.switch.ports {
            if number != self.in_port && self.carries(&port.settings, tags) {
                self.output_tagged(port, tags);
            }
        }
    }

    /// Whether a port carries packets with these tags.
    fn carries(&mut self, port: &PortSettings, tags: Tags) -> bool {
        match port.vlan_mode {
            VlanMode::Access if tags.outer().vlan == port.tag => {
                self.note_vlan(1);
                tags.inner().vlan == 0
            }
            VlanMode::Dot1qTunnel if tags.outer().vlan == port.tag => {
                self.note_vlan(1);
                port.takes_customer_vlan(tags.inner().vlan)
            }
            VlanMode::Access | VlanMode::Dot1qTunnel => false,
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                port.trunks(tags.outer().vlan)
            }
        }
    }

    /// Sends a packet out of a port, with the tags that the port gives it.
    pub(super) fn output_tagged(&mut self, port: &'a PortSnapshot, tags: Tags) {
        let received = Tags::of(&self.key).outer();
        let priority_tags = port.settings.priority_tags;
        let sent = tags.sent_on(&port.settings, received.priority);
        let is_by_priority = sent.outer().vlan == 0 || priority_tags != PriorityTags::Never;
        if received.tpid != 0 && is_by_priority {
            // Whether there is a tag at all may be up to the priority.
            self.note_tags();
        }
        let before = std::mem::replace(&mut self.key.vlans, sent.to_key(priority_tags));
        self.output(port);
        self.key.vlans = before;
    }
}
