//! Sending a packet to the ports of its VLAN.

use netdev::wire::vlan;

use super::context::Context;
use super::vlan::Tags;
use crate::openflow::message::config;
use crate::port::PortNumber;
use crate::port_settings::{PortSettings, PriorityTags, VlanMode};
use crate::switches::PortSnapshot;

impl<'a> Context<'a> {
    /// Sends a packet with these tags to all ports of its VLAN but the one on which it came.
    pub(super) fn flood(&mut self, tags: Tags, is_last: bool) {
        let in_port = self.in_port_number();
        let mut last: Option<&PortSnapshot> = None;
        // The local port comes first, as it is there before the others.
        let ports = self.switch.ports.iter();
        let local = self.switch.ports.get_key_value(&PortNumber::LOCAL);
        let others = ports.filter(|(number, _)| **number != PortNumber::LOCAL);
        for (&number, port) in local.into_iter().chain(others) {
            let is_floodable = port.config & config::NO_FLOOD == 0;
            if number != in_port
                && is_floodable
                && !self.switch.mirrors.is_output(number)
                && self.carries(&port.settings, tags)
                && let Some(port) = last.replace(port)
            {
                self.output_tagged(port, tags, false);
            }
        }
        if let Some(port) = last {
            self.output_tagged(port, tags, is_last);
        }
    }

    /// Whether a port carries packets with these tags.
    pub(super) fn carries(&mut self, port: &PortSettings, tags: Tags) -> bool {
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
    pub(super) fn output_tagged(&mut self, port: &'a PortSnapshot, tags: Tags, is_last: bool) {
        let received = Tags::of(&self.flow.packet).outer();
        let priority_tags = port.settings.priority_tags;
        let sent = tags.sent_on(&port.settings, received.priority);
        let is_by_priority = sent.outer().vlan == 0 || priority_tags != PriorityTags::Never;
        if received.tpid != 0 && is_by_priority {
            // Whether there is a tag at all may be up to the priority.
            self.note_tags();
        }
        let sent = sent.to_key(priority_tags);
        let is_shifted =
            self.in_port().is_some_and(|port| port.settings.vlan_mode == VlanMode::Dot1qTunnel);
        let [tag, _] = self.base.packet.vlans;
        let is_tagged = tag.tci.get() & vlan::CFI != 0;
        if is_tagged && (is_shifted || sent != self.base.packet.vlans) {
            // Which tags go depends on the ones behind, and where a tag was put in front, on which
            // of them equal their neighbours.
            self.note_tags();
        }
        let before = std::mem::replace(&mut self.flow.packet.vlans, sent);
        self.send(port, is_last, false);
        self.flow.packet.vlans = before;
    }
}
