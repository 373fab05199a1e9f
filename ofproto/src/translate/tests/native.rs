//! Tunnels whose headers the datapath puts on.

use std::net::IpAddr;

use dpif::action::ActionsText;
use netdev::network::Network;
use netdev::tunnel::{PerFlow, Tunnel, TunnelConfig, TunnelKind};

use super::*;
use crate::tunnel::TunnelSnapshot;
use crate::underlay::Underlay;

const OWN: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 0x88]);
const NEXT: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 0x92]);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// `br0` with a host of its own (port 1 of the datapath) and a device (2); `int` with a host (3)
/// and a tunnel to 1.1.2.92 (4789). `int` has these rules.
fn switches(rules: &[(u32, &str, &str)]) -> Switches {
    let device = |name: &str, number| {
        let attachment = Attachment::Datapath(datapath::PortNumber(number));
        snapshot(name, attachment, PortSettings::default())
    };
    let host = PortSnapshot { ethernet: OWN, ..device("br0", 1) };
    let config = TunnelConfig {
        remote: PerFlow::Fixed(ip("1.1.2.92")),
        out_key: Some(PerFlow::Fixed(7)),
        ..TunnelConfig::new(TunnelKind::Vxlan)
    };
    let tunnel = TunnelSnapshot(Tunnel { config: Arc::new(config), traffic: Arc::default() });
    let tunnel = Attachment::Tunnel(datapath::PortNumber(4789), tunnel);
    let tunnel = snapshot("t1", tunnel, PortSettings::default());
    let tables = Tables::new(Arc::default(), News::default());
    for (priority, flow_match, actions) in rules {
        tables.add(rule(*priority, flow_match, actions)).unwrap();
    }
    let upper = switch("int", [device("int", 3), tunnel]);
    let upper = SwitchSnapshot { tables: Arc::new(tables), ..upper };
    Switches::new(vec![switch("br0", [host, device("p0", 2)]), upper])
}

fn with_address(switches: Switches) -> (Switches, Arc<Underlay>) {
    let underlay = Arc::new(Underlay::default());
    underlay.add_dummy_address("br0", Network::parse_ipv4("1.1.2.88/24").unwrap());
    (switches.with_underlay(Arc::clone(&underlay)), underlay)
}

fn actions(switches: &Switches, in_port: u32) -> String {
    let key = key(in_port, address(1), address(2), &[]);
    let translation = run(switches, &key, true);
    ActionsText { actions: &translation.actions, names: None }.to_string()
}

const PUSH: &str = "tnl_push(tnl_port(4789),header(size=50,type=4,\
    eth(dst=02:00:00:00:00:92,src=02:00:00:00:00:88,dl_type=0x0800),\
    ipv4(src=1.1.2.88,dst=1.1.2.92,proto=17,tos=0,ttl=64,frag=0x4000),\
    udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0x7)),out_port(1))";

#[test]
fn a_neighbour_is_asked_for_before_it_is_sent_to() {
    let (switches, underlay) = with_address(switches(&[(0, "", "2")]));
    assert_eq!(actions(&switches, 3), "drop");
    assert_eq!(actions(&switches, 3), "drop");
    let requests = underlay.take_requests();
    let asked: Vec<_> = requests.iter().map(|request| (request.source, request.target)).collect();
    assert_eq!(asked, [(ip("1.1.2.88"), ip("1.1.2.92"))]);
    underlay.set_neighbour("br0", ip("1.1.2.92"), NEXT);
    assert_eq!(actions(&switches, 3), format!("{PUSH},2"));
    assert_eq!(underlay.take_requests(), []);
}

#[test]
fn what_follows_gets_the_packet_as_it_was() {
    let (switches, underlay) = with_address(switches(&[(0, "", "2,in_port")]));
    underlay.set_neighbour("br0", ip("1.1.2.92"), NEXT);
    assert_eq!(actions(&switches, 3), format!("clone({PUSH},2),3"));
}

#[test]
fn without_a_way_nothing_is_sent() {
    let switches = switches(&[(0, "", "2")]);
    let underlay = Arc::clone(switches.underlay());
    assert_eq!(actions(&switches, 3), "drop");
    assert_eq!(underlay.take_requests(), []);
}

/// The bytes that each of the rules counted that took the packet.
fn bytes_of_rules(effects: &[Effect]) -> Vec<u64> {
    let bytes = |effect: &Effect| match effect {
        Effect::Rule(rule) => vec![rule.statistics().bytes()],
        Effect::Encapsulated { effects, .. } => bytes_of_rules(effects),
        _ => vec![],
    };
    effects.iter().flat_map(bytes).collect()
}

#[test]
fn the_bridge_below_counts_the_header_too() {
    let (switches, underlay) = with_address(switches(&[(0, "", "2")]));
    underlay.set_neighbour("br0", ip("1.1.2.92"), NEXT);
    let translation = run(&switches, &key(3, address(1), address(2), &[]), false);
    let traffic = Traffic { packets: 2, bytes: 120, used: Default::default(), tcp_flags: 0 };
    translation.effects.iter().for_each(|effect| effect.apply(&traffic));
    assert_eq!(bytes_of_rules(&translation.effects), [120, 120 + 2 * 50]);
}

#[test]
fn packets_of_tunnels_to_the_host_are_theirs() {
    let (switches, underlay) = with_address(switches(&[(0, "", "2")]));
    let mut packet = key(2, NEXT, OWN, &[]);
    packet.ipv4_src.set(0x0101_025c);
    packet.ipv4_dst.set(0x0101_0258);
    packet.ip_proto = 17;
    packet.tp_dst.set(4789);
    let text = |key: &FlowKey| {
        let translation = run(&switches, key, true);
        ActionsText { actions: &translation.actions, names: None }.to_string()
    };
    assert_eq!(text(&packet), "tnl_pop(4789)");
    let neighbours: Vec<_> = underlay.neighbours().entries(Default::default()).collect();
    let known: Vec<_> = neighbours.iter().map(|own| (own.address, own.ethernet)).collect();
    assert_eq!(known, [(ip("1.1.2.92"), Some(NEXT))]);
    packet.tp_dst.set(4790);
    assert_eq!(text(&packet), "1");
}

#[test]
fn answers_of_neighbours_are_noted() {
    let (switches, underlay) = with_address(switches(&[(0, "", "2")]));
    let mut reply = key(2, NEXT, OWN, &[]);
    reply.eth_type.set(ether_type::ARP);
    reply.ip_proto = 2;
    reply.ipv4_src.set(0x0101_025c);
    reply.ipv4_dst.set(0x0101_0257);
    reply.arp_sha = MacAddress(NEXT.0);
    let known = |key: &FlowKey| {
        run(&switches, key, true);
        let neighbours: Vec<_> = underlay.neighbours().entries(Default::default()).collect();
        neighbours.iter().map(|own| (own.bridge.clone(), own.address)).collect::<Vec<_>>()
    };
    // It is for another host.
    assert_eq!(known(&reply), []);
    reply.ipv4_dst.set(0x0101_0258);
    assert_eq!(known(&reply), [("br0".to_owned(), ip("1.1.2.92"))]);
}
