//! Packets from and into tunnels.

use std::net::IpAddr;

use dpif::action::Action as DpAction;
use dpif::flow::{TunnelKey, tunnel_flag};
use netdev::tunnel::{PacketMode, PerFlow, Tunnel, TunnelConfig, TunnelKind};

use super::*;
use crate::features::Features;
use crate::tunnel::TunnelSnapshot;

const GRE: u32 = 10;

fn ip(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

/// A tunnel port whose other end has an address.
fn tunnel(name: &str, kind: TunnelKind, remote: u8) -> PortSnapshot {
    let remote = PerFlow::Fixed(ip(remote));
    let config = Arc::new(TunnelConfig { remote, ..TunnelConfig::new(kind) });
    let tunnel = TunnelSnapshot(Tunnel { config, traffic: Arc::default() });
    let attachment = Attachment::Tunnel(datapath::PortNumber(GRE), tunnel);
    snapshot(name, attachment, PortSettings::default())
}

/// A switch with the tunnels 1 and 2, the port 3 and a rule, on a datapath without actions for
/// tunnel headers.
fn tunnels(kind: TunnelKind, actions: &str) -> Switches {
    let ports = [tunnel("t1", kind, 1), tunnel("t2", kind, 2), port(3, PortSettings::default())];
    let switch = switch("br0", ports);
    switch.tables.add(rule(9, "", actions)).unwrap();
    let features = Features { tnl_push_pop: false, ..Features::default() };
    Switches::new(vec![switch]).with_features(features)
}

/// An IPv4 packet with this type of service that came on a port of the datapath, from the other
/// end of a tunnel with the last byte of its address `from`.
fn packet(in_port: u32, from: Option<u8>, outer_tos: u8, tos: u8) -> FlowKey {
    let mut key = key(in_port, address(1), address(2), &[]);
    key.eth_type.set(ether_type::IPV4);
    key.ip_tos = tos;
    if let Some(from) = from {
        key.tunnel.ipv4_src.set(u32::from_be_bytes([10, 0, 0, from]));
        key.tunnel.ipv4_dst.set(u32::from_be_bytes([10, 0, 0, 9]));
        key.tunnel.tos = outer_tos;
    }
    key
}

fn to(last: u8, flags: u16) -> DpAction {
    let mut tunnel = TunnelKey::default();
    tunnel.ttl = 64;
    tunnel.ipv4_dst.set(u32::from_be_bytes([10, 0, 0, last]));
    tunnel.flags.set(flags);
    DpAction::SetTunnel(Box::new(tunnel))
}

#[test]
fn only_what_changed_of_a_tunnel_is_set() {
    let switches = tunnels(TunnelKind::Gre, "output:1,output:1,output:2,output:3,output:2");
    let translation = run(&switches, &packet(3, None, 0, 0), true);
    let gre = || DpAction::Output(GRE);
    let df = tunnel_flag::DONT_FRAGMENT;
    // Port 3 is where the packet came in, and is skipped.
    let expected = [to(1, df), gre(), gre(), to(2, df), gre(), gre()];
    assert_eq!(*translation.actions, expected);
    assert_eq!(translation.mask.bits().tunnel, TunnelKey::default());
}

#[test]
fn packets_are_counted_by_the_tunnels() {
    let switches = tunnels(TunnelKind::Gre, "output:2");
    let translation = run(&switches, &packet(GRE, Some(1), 0, 0), true);
    let traffic = Traffic { packets: 3, bytes: 300, used: Default::default(), tcp_flags: 0 };
    translation.effects.iter().for_each(|effect| effect.apply(&traffic));
    let switch = switches.iter().next().unwrap();
    let counts = |number| match &switch.ports[&PortNumber(number)].attachment {
        Attachment::Tunnel(_, tunnel) => format!("{:?}", tunnel.0.traffic),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        counts(1),
        "TunnelTraffic { rx_packets: 3, rx_bytes: 300, tx_packets: 0, tx_bytes: 0 }"
    );
    assert_eq!(
        counts(2),
        "TunnelTraffic { rx_packets: 0, rx_bytes: 0, tx_packets: 3, tx_bytes: 300 }"
    );
}

#[test]
fn congestion_of_the_tunnel_is_told_or_drops() {
    let switches = tunnels(TunnelKind::Gre, "output:3");
    for (outer, inner, is_dropped, tos) in
        [(3, 1, false, 3), (3, 2, false, 3), (3, 0, true, 0), (2, 0, false, 0), (1, 2, false, 2)]
    {
        let translation = run(&switches, &packet(GRE, Some(1), outer, inner), true);
        let is_sent = translation.actions.contains(&DpAction::Output(3));
        assert_eq!((is_sent, translation.error), (!is_dropped, None), "{outer} {inner}");
        assert_eq!(translation.flow.packet.ip_tos, tos, "{outer} {inner}");
    }
}

#[test]
fn tunnels_of_the_network_layer_take_the_ethernet_header_off() {
    let switches = tunnels(TunnelKind::Gtpu, "output:1,output:3");
    let switch = switches.iter().next().unwrap();
    assert_eq!(switch.ports[&PortNumber(1)].packet_mode(), PacketMode::LegacyL3);
    let mut key = packet(4, None, 0, 0);
    key.in_port.set(GRE);
    key.tunnel = packet(GRE, Some(2), 0, 0).tunnel;
    (key.eth_src, key.eth_dst) = Default::default();
    key.packet_namespace.set(1);
    key.packet_type.set(ether_type::IPV4);
    let translation = run(&switches, &key, true);
    let kinds: Vec<_> = translation
        .actions
        .iter()
        .map(|action| match action {
            DpAction::SetTunnel(_) => "set tunnel".to_owned(),
            DpAction::PushEthernet { .. } => "push".to_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    // It has none on the way from tunnel to tunnel.
    assert_eq!(kinds, ["set tunnel", "Output(10)", "push", "Output(3)"]);
}

#[test]
fn a_packet_of_no_tunnel_port_is_refused() {
    let switches = tunnels(TunnelKind::Gre, "output:3");
    let key = packet(GRE, Some(7), 0, 0);
    let result = translate(&switches, Request::packet(&key)).map(|translation| translation.actions);
    assert_eq!(result, Err(TranslateError::UnknownTunnel(GRE)));
}

#[test]
fn nothing_is_sent_to_where_it_came_from() {
    let ports = [tunnel("t1", TunnelKind::Gre, 1), tunnel("t9", TunnelKind::Gre, 9)];
    let switch = switch("br0", ports);
    switch.tables.add(rule(9, "", "output:2")).unwrap();
    let features = Features { tnl_push_pop: false, ..Features::default() };
    let switches = Switches::new(vec![switch]).with_features(features);
    // The packet was sent to our address 10.0.0.9, which is the other end of port 2.
    let translation = run(&switches, &packet(GRE, Some(1), 0, 0), true);
    let sends = |action: &&DpAction| matches!(action, DpAction::Output(_));
    assert_eq!(translation.actions.iter().find(sends), None);
}
