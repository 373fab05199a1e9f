//! Copies of the packet for mirrors.

use std::sync::Arc;

use netdev::ethernet_address::EthernetAddress;
use netdev::wire::vlan;

use super::Effect;
use super::context::Context;
use super::normal::is_reserved;
use super::vlan::Tags;
use crate::mirror::MirrorOutput;
use crate::port::PortNumber;

/// Snap length that cuts nothing.
const WHOLE: u16 = u16::MAX;

impl Context<'_> {
    /// Gives the packet to the mirrors of the port on which it came.
    pub(super) fn mirror_received(&mut self) {
        let mirrors = &self.switch.mirrors;
        if mirrors.is_empty() {
            return;
        }
        let number = self.in_port_number();
        match self.in_port() {
            Some(_) => self.mirror(number, mirrors.of_source(number)),
            None if self.is_of_controller() => {}
            None => self.report_error(|_| format!("received packet on unknown port {number}")),
        }
    }

    /// Gives the packet to the mirrors of a port by which it left.
    pub(super) fn mirror_sent(&mut self, port: PortNumber) {
        let mirrors = &self.switch.mirrors;
        if !mirrors.is_empty() {
            self.mirror(port, mirrors.of_destination(port));
        }
    }

    /// Gives the packet, which came or left by a port, to mirrors with these bits.
    fn mirror(&mut self, number: PortNumber, mirrors: u32) {
        let Some(port) = self.switch.ports.get(&number) else { return };
        let received = Tags::of(&self.flow.packet);
        if !self.admits_vlan(port, received.outer().vlan) {
            return;
        }
        let tags = received.received_on(&port.settings);
        let all = Arc::clone(&self.switch.mirrors);
        for (bit, mirror) in all.iter() {
            // Those that sent to the same place meanwhile are done too.
            if mirrors & !self.mirrors & bit == 0 {
                continue;
            }
            let settings = &mirror.settings;
            if let Some(vlans) = &settings.vlans {
                let [read, _] = &mut self.read.packet.vlans;
                read.tci.set(read.tci.get() | vlan::CFI | vlan::VID_MASK);
                if !vlans.contains(tags.outer().vlan) {
                    continue;
                }
            }
            if let Some(filter) = &mirror.filter {
                let (value, mask) = &**filter;
                self.read.unite(mask);
                if !self.flow.matches(value, mask) {
                    continue;
                }
            }
            self.mirrors |= all.with_output(settings.output);
            self.snap_length = settings.snap_length;
            self.send_copy(settings.output, tags);
            self.snap_length = 0;
            self.effects.push(Effect::Mirror(Arc::clone(&mirror.statistics)));
        }
    }

    fn send_copy(&mut self, output: MirrorOutput, tags: Tags) {
        match output {
            MirrorOutput::Port(number) => {
                if let Some(port) = self.switch.ports.get(&number) {
                    self.output_tagged(port, tags, false);
                }
            }
            MirrorOutput::Vlan(vlan) => {
                let destination = EthernetAddress(self.flow.packet.eth_dst.0);
                if tags.outer().vlan == vlan || is_reserved(destination) {
                    return;
                }
                let tags = tags.in_vlan(vlan);
                for (number, port) in &self.switch.ports {
                    let is_free = !self.switch.mirrors.is_output(*number);
                    if is_free && self.carries(&port.settings, tags) {
                        self.output_tagged(port, tags, false);
                    }
                }
            }
        }
    }

    /// Cuts the packet if it is a copy for a mirror that takes its beginning alone.
    pub(super) fn snap(&self) -> Option<u32> {
        let length = self.snap_length;
        (length != 0 && length != WHOLE).then_some(length.into())
    }
}
