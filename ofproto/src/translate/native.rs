//! Tunnels whose headers the datapath puts on: the way to the other end, the header, and what the
//! switch below does with the encapsulated packet, all in one translation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use dpif::action::Action as DpAction;
use dpif::flow::{FlowKey, TunnelKey};
use dpif::tunnel::header::Encapsulation;
use netdev::ethernet_address::EthernetAddress;
use netdev::tunnel::{TunnelConfig, TunnelKind};
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::ip_protocol;

use super::context::Context;
use super::{Effect, TraceKind, TranslateError};
use crate::neighbour::{Known, NeighbourRequest};
use crate::port::PortNumber;
use crate::switches::{Attachment, SwitchSnapshot};

/// What is outside a packet in a tunnel.
struct Outer {
    destination: IpAddr,
    source: IpAddr,
    eth_source: MacAddress,
    eth_destination: MacAddress,
}

/// The port by which a tunnel sends.
struct OutPort<'a> {
    switch: &'a SwitchSnapshot,
    number: PortNumber,
    datapath_number: u32,
}

/// An output into a tunnel.
#[derive(Clone, Copy)]
pub(super) struct TunnelOutput<'a> {
    pub(super) config: &'a TunnelConfig,
    /// Number of the tunnel port on the datapath.
    pub(super) datapath_port: u32,
    /// The tunnel that the packet gets.
    pub(super) tunnel: &'a TunnelKey,
    /// Nothing is done to the packet afterwards.
    pub(super) is_last: bool,
    /// The packet is cut before.
    pub(super) is_cut: bool,
}

fn ip_address(ipv4: u32, ipv6: [u8; 16]) -> IpAddr {
    match ipv4 {
        0 if ipv6 != [0; 16] => Ipv6Addr::from(ipv6).into(),
        _ => Ipv4Addr::from(ipv4).into(),
    }
}

impl<'a> Context<'a> {
    /// Sends the packet into a tunnel, with its header.
    pub(super) fn output_natively(&mut self, output: TunnelOutput<'_>) {
        if let Err(error) = self.find_way(&output) {
            if self.features().explicit_drop_action {
                let drop = DpAction::Drop { reason: error.code() };
                self.actions.push(match output.is_last {
                    true => drop,
                    false => DpAction::Clone(vec![drop]),
                });
            }
            let text = match error {
                TranslateError::NoRoute => "native tunnel routing failed",
                TranslateError::NoEthernet => "tunnel output device lacks Ethernet address",
                TranslateError::NoHeader => "native tunnel header build failed",
                // The trace has more about it.
                _ => return,
            };
            self.report(TraceKind::Warning, |_| text.to_owned());
        }
    }

    /// Finds the way to the other end of the tunnel, and sends the packet there.
    fn find_way(&mut self, output: &TunnelOutput<'_>) -> Result<(), TranslateError> {
        let (switches, tunnel) = (self.switches, output.tunnel);
        let underlay = switches.underlay();
        let destination = ip_address(tunnel.ipv4_dst.get(), tunnel.ipv6_dst);
        let given = ip_address(tunnel.ipv4_src.get(), tunnel.ipv6_src);
        let given = Some(given).filter(|address| !address.is_unspecified());
        let mark = self.flow.packet.skb_mark.get();
        let hop = underlay.route(destination, mark, given).ok_or(TranslateError::NoRoute)?;
        let (switch, port) = switches.device(&hop.device).ok_or(TranslateError::NoRoute)?;
        let Attachment::Datapath(datapath_number) = port.attachment else {
            return Err(TranslateError::NoRoute);
        };
        let next = hop.gateway.unwrap_or(destination);
        self.report(TraceKind::Detail, |_| format!("tunneling to {next} via {}", port.name));
        if port.ethernet == EthernetAddress::default() {
            return Err(TranslateError::NoEthernet);
        }
        let eth_source = MacAddress(port.ethernet.0);
        let request = || NeighbourRequest {
            switch: switch.id,
            port: port.number,
            ethernet: eth_source,
            source: underlay.router().source_towards(&port.name, next).unwrap_or(hop.source),
            target: next,
        };
        let known = underlay.look_up_neighbour(&switch.name, next, request);
        let Known::Address(neighbour) = known else {
            let protocol = if next.is_ipv4() { "ARP" } else { "ND" };
            let what = if known == Known::Asked { "waiting on" } else { "sending" };
            self.report(TraceKind::Detail, |_| {
                format!(
                    "neighbor cache miss for {next} on bridge {}, {what} {protocol} request",
                    switch.name
                )
            });
            return Err(TranslateError::NoNeighbour);
        };
        self.effects.push(Effect::Neighbour {
            underlay: Arc::clone(underlay),
            bridge: switch.name.as_str().into(),
            address: next,
        });
        self.report(TraceKind::Detail, |_| {
            format!("tunneling from {eth_source} {} to {neighbour} {next}", hop.source)
        });
        let outer = Outer {
            destination,
            source: hop.source,
            eth_source,
            eth_destination: MacAddress(neighbour.0),
        };
        let datapath_number = datapath_number.0;
        let out_port = OutPort { switch, number: port.number, datapath_number };
        self.send_below(output, &outer, &out_port)
    }

    /// Puts the header in front of a copy of the packet, and sends that out of a port.
    fn send_below(
        &mut self,
        output: &TunnelOutput<'_>,
        outer: &Outer,
        out_port: &OutPort<'a>,
    ) -> Result<(), TranslateError> {
        let packet = &self.flow.packet;
        let packet_type = match packet.packet_namespace.get() {
            0 => 0,
            _ => packet.packet_type.get(),
        };
        let push = Encapsulation {
            config: output.config,
            tunnel: output.tunnel,
            source: outer.source,
            eth_source: outer.eth_source,
            eth_destination: outer.eth_destination,
            packet_type,
            tunnel_port: output.datapath_port,
            out_port: out_port.datapath_number,
        };
        let push = push.build().map_err(|_| TranslateError::NoHeader)?;
        let header = push.header.len();
        let (flow, base) = (self.flow.clone(), self.base.clone());
        let protocol = ip_protocol_of(output.config.kind, &flow.packet);
        set_outer(&mut self.flow.packet, output.tunnel, outer, protocol);
        set_outer(&mut self.base.packet, output.tunnel, outer, protocol);
        let start = self.actions.len();
        self.actions.push(DpAction::TunnelPush(Box::new(push)));
        if output.is_cut {
            // The length that counts below is not known before.
            self.actions.push(DpAction::Recirculate(0));
        } else {
            self.visit_below(out_port, header, output.is_last);
        }
        if self.actions.len() == start + 1 {
            // It goes nowhere.
            self.actions.truncate(start);
        } else if !output.is_last {
            let made = self.actions.split_off(start);
            self.actions.push(DpAction::Clone(made));
        }
        (self.flow, self.base) = (flow, base);
        Ok(())
    }

    /// Enters the switch below the tunnel. What it looks at is of the header, which is the same
    /// for all packets of the flow.
    fn visit_below(&mut self, out_port: &OutPort<'a>, header: usize, is_last: bool) {
        let read = std::mem::take(&mut self.read);
        let effects = std::mem::take(&mut self.effects);
        let (is_packet, length) = (self.request.is_packet, self.request.length);
        (self.request.is_packet, self.request.length) = (false, None);
        self.visit(out_port.switch, out_port.number, is_last);
        (self.request.is_packet, self.request.length) = (is_packet, length);
        self.read = read;
        let effects = std::mem::replace(&mut self.effects, effects);
        self.effects.push(Effect::Encapsulated { header, effects });
    }
}

/// The protocol number of IP that outer headers have.
fn ip_protocol_of(kind: TunnelKind, packet: &FlowKey) -> u8 {
    match kind {
        TunnelKind::Srv6 if packet.eth_type.get() == ether_type::IPV4 => ip_protocol::IPV4,
        TunnelKind::Srv6 => ip_protocol::IPV6,
        kind if kind.uses_udp() => ip_protocol::UDP,
        _ => ip_protocol::GRE,
    }
}

/// Makes a packet look as it does with the header of a tunnel.
fn set_outer(packet: &mut FlowKey, tunnel: &TunnelKey, outer: &Outer, protocol: u8) {
    packet.eth_dst = outer.eth_destination;
    packet.eth_src = outer.eth_source;
    packet.vlans = Default::default();
    (packet.packet_namespace, packet.packet_type) = Default::default();
    packet.ipv4_dst = tunnel.ipv4_dst;
    packet.ipv4_src = tunnel.ipv4_src;
    packet.ipv6_dst = tunnel.ipv6_dst;
    packet.ipv6_src = tunnel.ipv6_src;
    packet.ip_frag = 0;
    packet.ip_tos = tunnel.tos;
    packet.ip_ttl = tunnel.ttl;
    packet.tp_dst = tunnel.tp_dst;
    packet.tp_src = tunnel.tp_src;
    packet.ip_proto = protocol;
    match outer.source {
        IpAddr::V4(source) => packet.ipv4_src.set(source.to_bits()),
        IpAddr::V6(source) => packet.ipv6_src = source.octets(),
    }
    packet.eth_type.set(match outer.destination {
        IpAddr::V4(_) => ether_type::IPV4,
        IpAddr::V6(_) => ether_type::IPV6,
    });
}
