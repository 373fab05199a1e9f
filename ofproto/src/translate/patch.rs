//! Patch ports: what another switch does with the packet.

use std::sync::Arc;

use dpif::flow::TunnelKey;

use super::TraceKind;
use super::context::Context;
use super::table::Mode;
use crate::openflow::port::PortNo;
use crate::openflow::tlv_map::TunnelMetadata;
use crate::port::PortNumber;
use crate::switches::SwitchSnapshot;

impl<'a> Context<'a> {
    /// Enters a switch by one of its ports, and comes back. `is_last` says that nothing is done to
    /// the packet after that.
    pub(super) fn visit(&mut self, switch: &'a SwitchSnapshot, in_port: PortNumber, is_last: bool) {
        let (old_switch, old_version) = (self.switch, Arc::clone(&self.version));
        let (was_mpls, conntracked) = (self.was_mpls, self.conntracked);
        let (mirrors, trace_depth) = (self.mirrors, self.trace_depth);
        let flow = self.flow.clone();
        let read_tunnel = std::mem::take(&mut self.read.packet.tunnel);
        let read_options = std::mem::take(&mut self.read.tunnel_metadata);
        let stack = std::mem::take(&mut self.stack);
        let action_set = std::mem::take(&mut self.action_set);

        self.flow.in_port.set(in_port.0);
        self.flow.metadata.set(0);
        self.flow.packet.tunnel = TunnelKey::default();
        self.flow.tunnel_metadata = TunnelMetadata::default();
        self.flow.registers = Default::default();
        self.flow.actset_output.set(PortNo::UNSET.0);
        self.forget_conntrack();
        self.enter(TraceKind::Bridge, |_| format!("bridge(\"{}\")", switch.name));
        if switch.id != old_switch.id {
            self.mirrors = 0;
        }
        self.enter_switch(switch);
        if switch.ports.get(&in_port).is_some_and(|port| self.may_receive(port)) {
            self.enter_table(0, true, Mode::Copy, is_last);
            self.conclude_actions();
        }

        self.trace_depth = trace_depth;
        (self.switch, self.version) = (old_switch, old_version);
        if switch.id != old_switch.id {
            self.mirrors = mirrors;
        }
        self.flow = flow;
        self.read.packet.tunnel = read_tunnel;
        self.read.tunnel_metadata = read_options;
        (self.stack, self.action_set) = (stack, action_set);
        (self.was_mpls, self.conntracked) = (was_mpls, conntracked);
        // That the other switch stopped, or what went wrong there, does not concern this one.
        self.exit = false;
        self.error = None;
    }
}
