//! Packets from and into tunnels.

use std::sync::Arc;

use dpif::action::Action as DpAction;
use dpif::datapath;
use dpif::flow::{FlowKey, TunnelKey, tunnel_flag};
use netdev::tunnel::{PacketMode, TunnelConfig};
use netdev::wire::ethernet::MacAddress;
use tracing::warn;

use super::commit::Pending;
use super::context::Context;
use super::native::TunnelOutput;
use super::{Effect, TraceKind, TranslateError};
use crate::switches::{Attachment, PortSnapshot};
use crate::tunnel::{TunnelSnapshot, of_protocol, outer_key, put_options};

/// Bits of a type of service that tell of congestion (RFC 3168, section 5), and all of them set:
/// the packet met it.
const CONGESTION: u8 = 0x03;

/// Notes in `read`, the bits that were looked at, what tells to which tunnel port a packet with
/// this key belongs and what that means for it.
pub(super) fn note_tunnel(key: &FlowKey, read: &mut FlowKey) {
    let tunnel = &key.tunnel;
    if !tunnel.has_destination() {
        return;
    }
    read.tunnel.id.set(u64::MAX);
    if tunnel.ipv4_dst.get() != 0 {
        read.tunnel.ipv4_src.set(u32::MAX);
        read.tunnel.ipv4_dst.set(u32::MAX);
    } else {
        read.tunnel.ipv6_src = [u8::MAX; 16];
        read.tunnel.ipv6_dst = [u8::MAX; 16];
    }
    read.tunnel.flags.set(tunnel_flag::KEY);
    read.tunnel.tos = u8::MAX;
    if key.is_ip() && tunnel.tos & CONGESTION == CONGESTION {
        read.ip_tos |= CONGESTION;
    }
}

impl Context<'_> {
    /// Receives a packet from a port: gives one of the network layer the Ethernet header that
    /// rules expect, and counts it if it is from a tunnel.
    pub(super) fn receive_from(&mut self, port: &PortSnapshot) {
        let packet = &mut self.flow.packet;
        if !packet.is_ethernet() && port.packet_mode() == PacketMode::LegacyL3 && self.table == 0 {
            packet.packet_namespace.set(0);
            packet.packet_type.set(0);
            (packet.eth_src, packet.eth_dst) = (MacAddress::default(), MacAddress::default());
            self.pending = Pending::Encap { nsh_options: Vec::new() };
        }
        if let Attachment::Tunnel(_, tunnel) = &port.attachment
            && !self.is_thawed()
        {
            self.effects.push(Effect::Received(Arc::clone(&tunnel.0.traffic)));
        }
    }

    /// Tells the packet of congestion that it met in the tunnel (RFC 6040, section 4.2). Returns
    /// false if its transport cannot be told, so that it has to be dropped.
    pub(super) fn take_congestion(&mut self) -> bool {
        let packet = &mut self.flow.packet;
        let tunnel = &packet.tunnel;
        if !tunnel.has_destination() || !packet.is_ip() || tunnel.tos & CONGESTION != CONGESTION {
            return true;
        }
        if packet.ip_tos & CONGESTION == 0 {
            warn!(
                target: "tunnel", limited = true,
                "dropping tunnel packet marked ECN CE but is not ECN capable"
            );
            self.error = Some(TranslateError::Congestion);
            return false;
        }
        packet.ip_tos |= CONGESTION;
        true
    }

    /// Sends the packet into a tunnel, by `number` of the datapath. Returns whether it went.
    pub(super) fn send_into_tunnel(
        &mut self,
        tunnel: &TunnelSnapshot,
        number: datapath::PortNumber,
        is_last: bool,
        is_cut: bool,
    ) -> bool {
        let config = &tunnel.0.config;
        // What the port does to the tunnel that rules set is not for rules to see.
        let before = self.flow.packet.tunnel;
        outer_key(config, &mut self.flow.packet, &mut self.read.packet);
        let mut outer = std::mem::replace(&mut self.flow.packet.tunnel, before);
        if !put_options(&self.flow.tunnel_metadata, &self.switch.tlv, &mut outer) {
            self.report_notice("tunnel options do not fit into the header, skipping output");
            return false;
        }
        let destination = |tunnel: &TunnelKey| (tunnel.ipv4_dst, tunnel.ipv6_dst);
        if destination(&outer) == destination(&self.request.key.tunnel) {
            self.report(TraceKind::Warning, |_| "Not tunneling to our own address".to_owned());
            return false;
        }
        self.effects.push(Effect::Sent(Arc::clone(&tunnel.0.traffic)));
        if self.switches.has_native_tunnels() {
            self.report(TraceKind::Detail, |_| "output to native tunnel".to_owned());
            self.commit();
            self.output_natively(TunnelOutput {
                config,
                datapath_port: number.0,
                tunnel: &outer,
                is_last,
                is_cut,
            });
        } else {
            self.report(TraceKind::Detail, |_| "output to kernel tunnel".to_owned());
            self.set_tunnel(config, &outer);
            self.commit();
            if let Some(length) = self.snap() {
                self.cut(length);
            }
            self.actions.push(DpAction::Output(number.0));
        }
        true
    }

    /// Tells the datapath the tunnel that the next output is to take, unless it knows.
    fn set_tunnel(&mut self, config: &TunnelConfig, outer: &TunnelKey) {
        let tunnel = of_protocol(config.kind, outer);
        if tunnel.has_destination() && self.base.packet.tunnel != tunnel {
            self.base.packet.tunnel = tunnel;
            self.actions.push(DpAction::SetTunnel(Box::new(tunnel)));
        }
    }
}
