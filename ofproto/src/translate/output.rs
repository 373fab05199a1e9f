//! Sending the packet out of ports.

use std::sync::Arc;

use dpif::action::{Action as DpAction, slow_path};
use dpif::flow::{Field, FlowKey};
use netdev::tunnel::PacketMode;

use super::commit::Pending;
use super::context::Context;
use super::table::Mode;
use super::{Effect, TraceKind};
use crate::openflow::action::Subfield;
use crate::openflow::flow_match::{eth_type, ip_proto};
use crate::openflow::message::config;
use crate::openflow::port::PortNo;
use crate::port::PortNumber;
use crate::switches::{Attachment, PortSnapshot};

/// Ports of DHCP (RFC 2131).
const DHCP_SERVER: u128 = 67;
const DHCP_CLIENT: u128 = 68;

/// More about an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    /// Nothing is done to the packet afterwards.
    pub(super) is_last: bool,
    /// It is of a bucket of a group.
    pub(super) in_bucket: bool,
    /// The packet is cut before.
    pub(super) is_cut: bool,
    /// Controllers may be told if there is no rule.
    pub(super) may_report: bool,
}

impl<'a> Context<'a> {
    /// Does an output action.
    pub(super) fn output(&mut self, port: PortNo, max_len: u16, output: Output) {
        let in_port = PortNo(self.flow.in_port.get());
        match port {
            PortNo::IN_PORT => self.output_to(in_port, output),
            PortNo::TABLE => self.enter_table(0, output.may_report, Mode::Packet, false),
            PortNo::NORMAL => self.normal(output.is_last),
            PortNo::FLOOD => self.flood_ports(false, output),
            PortNo::ALL => self.flood_ports(true, output),
            PortNo::CONTROLLER => self.output_to_controller(max_len, output.in_bucket),
            PortNo::NONE => {}
            port if port == in_port => self.report_notice("skipping output to input port"),
            port => self.output_to(port, output),
        }
    }

    /// Sends the packet out of the port with a number.
    fn output_to(&mut self, port: PortNo, output: Output) {
        match self.switch.ports.get(&PortNumber(port.0)) {
            Some(port) => self.send(port, output.is_last, output.is_cut),
            None => {
                self.report(TraceKind::Warning, |_| "Nonexistent output port".to_owned());
            }
        }
    }

    /// Sends the packet, as it is now, out of a port of the switch.
    pub(super) fn send(&mut self, port: &'a PortSnapshot, is_last: bool, is_cut: bool) {
        if port.config & config::NO_FWD != 0 {
            return self
                .report(TraceKind::Detail, |_| "OFPPC_NO_FWD set, skipping output".to_owned());
        }
        if self.snap_length != 0 && port.is_patch() {
            return self.report(TraceKind::Warning, |_| {
                "Mirror truncate to ODPP_NONE, skipping output".to_owned()
            });
        }
        let is_protected = self.in_port().is_some_and(|port| port.settings.is_protected);
        if is_protected && port.settings.is_protected {
            return self.report(TraceKind::Warning, |_| {
                "Flow is between protected ports, skipping output.".to_owned()
            });
        }
        let mode = port.packet_mode();
        if !self.flow.packet.is_ethernet() && mode == PacketMode::LegacyL2 {
            return self.report(TraceKind::Warning, |_| {
                "Trying to send non-Ethernet packet through legacy L2 port. Dropping packet."
                    .to_owned()
            });
        }
        let FlowKey { packet_namespace, packet_type, .. } = self.flow.packet;
        let is_stripped = self.flow.packet.is_ethernet() && mode == PacketMode::LegacyL3;
        if is_stripped {
            self.strip_ethernet();
        }
        match &port.attachment {
            Attachment::Datapath(number) => {
                self.commit();
                if let Some(tunnel) = self.terminate_tunnel(port) {
                    self.actions.push(DpAction::TunnelPop(tunnel));
                } else {
                    if let Some(length) = self.snap() {
                        self.cut(length);
                    }
                    self.actions.push(DpAction::Output(number.0));
                }
                self.mirror_sent(port.number);
            }
            Attachment::Tunnel(number, tunnel) => {
                if self.send_into_tunnel(tunnel, *number, is_last, is_cut) {
                    self.mirror_sent(port.number);
                }
            }
            Attachment::Patch(patch) => {
                let Some((switch, in_port)) = self.switches.peer_of(&port.name) else { return };
                if is_cut {
                    self.report_error(|_| "Cannot truncate output to patch port".to_owned());
                }
                self.effects.push(Effect::Sent(Arc::clone(&patch.traffic)));
                if let Some(Attachment::Patch(peer)) =
                    switch.ports.get(&in_port).map(|port| &port.attachment)
                {
                    self.effects.push(Effect::Received(Arc::clone(&peer.traffic)));
                }
                self.visit(switch, in_port, is_last);
            }
        }
        let packet = &mut self.flow.packet;
        packet.packet_namespace = packet_namespace;
        packet.packet_type = packet_type;
        if is_stripped && !self.base.packet.is_ethernet() {
            // Whatever takes the packet next gets its Ethernet header again.
            self.pending = Pending::Encap { nsh_options: Vec::new() };
        }
    }

    /// Sends the packet to the local port as well, if it answers that port's request for an
    /// address, which in-band control cannot do without.
    pub(super) fn send_dhcp_to_local(&mut self) {
        let is_reply = [
            (Field::EthType, eth_type::IPV4.into()),
            (Field::IpProto, ip_proto::UDP.into()),
            (Field::TpSrc, DHCP_SERVER),
            (Field::TpDst, DHCP_CLIENT),
        ];
        if !is_reply.into_iter().all(|(field, value)| self.read(field) == value) {
            return;
        }
        let Some(local) = self.switch.ports.get(&PortNumber::LOCAL) else { return };
        let is_sent = match &local.attachment {
            Attachment::Datapath(number) => self.actions.contains(&DpAction::Output(number.0)),
            Attachment::Tunnel(..) | Attachment::Patch(_) => false,
        };
        if !is_sent {
            self.report(TraceKind::Detail, |_| {
                "outputting DHCP packet to local port for in-band control".to_owned()
            });
            self.send(local, true, false);
        }
    }

    /// Sends the packet out of all ports but the one on which it came; unless `all`, not out of
    /// those that are not for flooding.
    fn flood_ports(&mut self, all: bool, output: Output) {
        let in_port = self.in_port_number();
        let ports = self.switch.ports.iter();
        let mut ports = ports
            .filter(|(number, port)| {
                **number != in_port && (all || port.config & config::NO_FLOOD == 0)
            })
            .map(|(_, port)| port)
            .peekable();
        while let Some(port) = ports.next() {
            self.send(port, output.is_last && ports.peek().is_none(), false);
        }
    }

    /// Sends the packet to the port whose number is in a field.
    pub(super) fn output_field(&mut self, src: &Subfield, max_len: u16, output: Output) {
        let port = self.subfield(src).low();
        match u16::try_from(port) {
            Ok(port) => {
                self.report(TraceKind::Detail, |_| format!("output port is {port}"));
                self.note_subfield(src);
                self.output(PortNo(port), max_len, output);
            }
            Err(_) => {
                self.report(TraceKind::Warning, |_| format!("output port {port} is out of range"))
            }
        }
    }

    /// Sends the first bytes of the packet to a port.
    pub(super) fn output_cut(&mut self, port: PortNo, max_len: u32, output: Output) {
        let is_real = match port {
            PortNo::TABLE
            | PortNo::NORMAL
            | PortNo::FLOOD
            | PortNo::ALL
            | PortNo::CONTROLLER
            | PortNo::NONE => {
                return self.report(TraceKind::Warning, |_| {
                    format!("output_trunc does not support port: {port}")
                });
            }
            PortNo(number) if number == self.flow.in_port.get() => {
                return self.report_notice("skipping output to input port");
            }
            PortNo(number) => {
                let port = self.switch.ports.get(&PortNumber(number));
                port.is_some_and(|port| !port.is_patch())
            }
        };
        if !is_real {
            return self
                .report_error(|_| format!("output_trunc does not support patch port {port}"));
        }
        self.cut(max_len);
        self.output(port, 0, Output { is_cut: true, ..output });
    }

    /// Cuts the packet for the next output.
    pub(super) fn cut(&mut self, length: u32) {
        self.actions.push(DpAction::Truncate(length));
        if !self.features().trunc {
            self.slow |= slow_path::ACTION;
        }
    }

    /// Sends the packet to a queue of a port.
    pub(super) fn enqueue(&mut self, port: PortNo, queue: u32, output: Output) {
        self.read.packet.skb_priority.set(u32::MAX);
        let in_port = PortNo(self.flow.in_port.get());
        let port = match port {
            PortNo::IN_PORT => in_port,
            port if port == in_port => return,
            port => port,
        };
        let old = self.flow.packet.skb_priority;
        self.flow.packet.skb_priority.set(queue);
        self.output_to(port, output);
        self.flow.packet.skb_priority = old;
    }
}
