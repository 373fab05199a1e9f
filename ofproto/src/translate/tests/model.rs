//! `NORMAL` against a naive switch.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::port_settings::PriorityTags;

fn vlan_number() -> impl Strategy<Value = u16> {
    select(&[0, 1, 2, 10, 4095])
}

fn settings() -> impl Strategy<Value = PortSettings> {
    use VlanMode::*;
    let vlans = || proptest::option::of(vec(vlan_number(), 0..4));
    (
        select(&[Access, Trunk, NativeTagged, NativeUntagged, Dot1qTunnel]),
        vlan_number(),
        vlans(),
        vlans(),
        select(&[PriorityTags::Never, PriorityTags::IfNonzero, PriorityTags::Always]),
        select(&[ether_type::VLAN, ether_type::SERVICE_VLAN]),
        proptest::bool::weighted(0.2),
    )
        .prop_map(
            |(mode, tag, trunks, customers, priority_tags, qinq_ethertype, is_protected)| {
                PortSettings {
                    vlan_mode: mode,
                    tag,
                    trunks: trunks.map(|vlans| vlans.into_iter().collect()),
                    customer_vlans: customers.map(|vlans| vlans.into_iter().collect()),
                    priority_tags,
                    qinq_ethertype,
                    is_protected,
                }
            },
        )
}

fn tags() -> impl Strategy<Value = Vec<TestTag>> {
    let protocol = select(&[ether_type::VLAN, ether_type::SERVICE_VLAN]);
    vec((protocol, vlan_number(), select(&[0u16, 0, 3, 7])), 0..3)
}

fn station() -> impl Strategy<Value = EthernetAddress> {
    prop_oneof![
        8 => (0..5u8).prop_map(address),
        1 => Just(EthernetAddress([0xff; 6])),
        1 => Just(EthernetAddress([1, 0x80, 0xc2, 0, 0, 2])),
    ]
}

#[derive(Clone, Debug)]
struct TestPacket {
    in_port: u32,
    source: EthernetAddress,
    destination: EthernetAddress,
    tags: Vec<TestTag>,
}

fn test_packet() -> impl Strategy<Value = TestPacket> {
    (1..5u32, station(), station(), tags()).prop_map(|(in_port, source, destination, tags)| {
        TestPacket { in_port, source, destination, tags }
    })
}

impl TestPacket {
    fn key(&self) -> FlowKey {
        key(self.in_port, self.source, self.destination, &self.tags)
    }
}

/// A packet inside the switch: its VLAN, what the tag of that would be, and the tags behind.
struct Inside {
    vlan: u16,
    protocol: u16,
    priority: u16,
    behind: Vec<TestTag>,
}

fn come_in(port: &PortSettings, tags: &[TestTag]) -> Option<Inside> {
    use VlanMode::*;
    let (protocol, vlan, priority) = tags.first().copied().unwrap_or((0, 0, 0));
    let own = if protocol == 0 { ether_type::VLAN } else { protocol };
    let behind: Vec<_> = tags.iter().skip(1).copied().collect();
    match port.vlan_mode {
        Access if vlan != 0 => None,
        Access => Some(Inside { vlan: port.tag, protocol: own, priority, behind: vec![] }),
        Dot1qTunnel if !port.takes_customer_vlan(vlan) => None,
        Dot1qTunnel => Some(Inside {
            vlan: port.tag,
            protocol: port.qinq_ethertype,
            priority: 0,
            // The flow key has room for two.
            behind: tags.iter().take(1).copied().collect(),
        }),
        NativeTagged | NativeUntagged if vlan == 0 => {
            Some(Inside { vlan: port.tag, protocol: own, priority, behind })
        }
        _ if !port.trunks(vlan) => None,
        _ => Some(Inside { vlan, protocol, priority, behind }),
    }
}

fn carries(port: &PortSettings, packet: &Inside) -> bool {
    let behind = packet.behind.first().map_or(0, |&(_, vlan, _)| vlan);
    match port.vlan_mode {
        VlanMode::Access => port.tag == packet.vlan && behind == 0,
        VlanMode::Dot1qTunnel => port.tag == packet.vlan && port.takes_customer_vlan(behind),
        _ => port.trunks(packet.vlan),
    }
}

fn go_out(port: &PortSettings, packet: &Inside, received: &[TestTag]) -> Vec<TestTag> {
    use VlanMode::*;
    let whole = || {
        let own = (packet.protocol, packet.vlan, packet.priority);
        let mut tags = vec![own];
        tags.extend(&packet.behind);
        tags
    };
    let mut tags = match port.vlan_mode {
        Access => vec![],
        Dot1qTunnel => packet.behind.clone(),
        NativeUntagged if port.tag == packet.vlan => packet.behind.clone(),
        _ => whole(),
    };
    if tags.is_empty() {
        tags.push((0, 0, 0));
    }
    if port.priority_tags != PriorityTags::Never {
        tags[0].2 = received.first().map_or(0, |tag| tag.2);
    }
    // An outermost tag that says nothing is no tag.
    let (protocol, vlan, priority) = tags[0];
    let is_kept = port.priority_tags == PriorityTags::Always && protocol != 0;
    if vlan == 0 && priority == 0 && !is_kept {
        tags.remove(0);
    }
    let with_protocol = |(protocol, vlan, priority): TestTag| {
        (if protocol == 0 { ether_type::VLAN } else { protocol }, vlan, priority)
    };
    tags.into_iter().map(with_protocol).collect()
}

/// The naive switch.
struct Model {
    ports: Vec<PortSettings>,
    stations: HashMap<(u16, EthernetAddress), u32>,
}

impl Model {
    fn forward(&mut self, packet: &TestPacket) -> Vec<Sent> {
        let numbered = || (1..).zip(&self.ports);
        let port = |number| numbered().find(|(other, _)| *other == number).map(|(_, port)| port);
        let Some(from) = port(packet.in_port) else { return vec![] };
        let Some(inside) = come_in(from, &packet.tags) else { return vec![] };
        if packet.destination == EthernetAddress([1, 0x80, 0xc2, 0, 0, 2]) {
            return vec![];
        }
        let to = (inside.vlan, packet.destination);
        let known = if packet.source == packet.destination {
            Some(packet.in_port)
        } else {
            self.stations.get(&to).copied()
        };
        let known = known.filter(|_| !packet.destination.is_multicast());
        let is_target = |number: u32, port: &PortSettings| match known {
            Some(known) => known == number,
            None => carries(port, &inside),
        };
        let targets = numbered().filter(|&(number, port)| {
            number != packet.in_port
                && is_target(number, port)
                && !(from.is_protected && port.is_protected)
        });
        let sent = targets.map(|(number, port)| (number, go_out(port, &inside, &packet.tags)));
        let sent = sent.collect();
        if !packet.source.is_multicast() {
            self.stations.insert((inside.vlan, packet.source), packet.in_port);
        }
        sent
    }
}

/// `key` with the bits that `mask` leaves out taken from `other`, made a key that packets have.
fn at_the_edge(key: &FlowKey, mask: &FlowMask, other: &FlowKey) -> FlowKey {
    let mut key = key.clone();
    let lines = key.lines_mut().iter_mut().zip(mask.bits().lines()).zip(other.lines());
    for ((line, mask), other) in lines {
        for ((word, mask), other) in line.iter_mut().zip(mask).zip(other) {
            *word = *word & mask | other & !mask;
        }
    }
    let mut is_tagged = true;
    for tag in &mut key.vlans {
        is_tagged &= tag.tci.get() & vlan::CFI != 0;
        if !is_tagged {
            *tag = VlanKey::default();
        }
    }
    key
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn forwards_as_the_naive_switch_does(
        ports in vec(settings(), 2..5),
        packets in vec(test_packet(), 1..12),
    ) {
        let snapshots = (1..).zip(&ports).map(|(number, settings)| port(number, settings.clone()));
        let switches = Switches::new(vec![switch("br0", snapshots)]);
        let mut model = Model { ports: ports.clone(), stations: HashMap::new() };
        for packet in &packets {
            let expected = model.forward(packet);
            match translate(
                &switches,
                Request::packet(&packet.key()),
            ) {
                Ok(result) => prop_assert_eq!(sent(&result.actions, &packet.tags), expected),
                Err(error) => prop_assert_eq!(error, TranslateError::UnknownPort(packet.in_port)),
            }
        }
    }

    #[test]
    fn the_mask_has_all_that_matters(
        ports in vec(settings(), 2..4),
        far_ports in vec(settings(), 1..4),
        patches in (settings(), settings()),
        packets in vec(test_packet(), 1..6),
        others in vec((test_packet(), any::<[u8; 32]>()), 8),
    ) {
        let last = ports.len() as u32;
        let near = (1..).zip(ports).map(|(number, settings)| port(number, settings));
        let near = near.chain([PortSnapshot { settings: patches.0, ..patch("a", "b") }]);
        let far = (last + 1..).zip(far_ports).map(|(number, settings)| port(number, settings));
        let far = far.chain([PortSnapshot { settings: patches.1, ..patch("b", "a") }]);
        let switches = Switches::new(vec![switch("br0", near), switch("br1", far)]);
        let look = |key: &FlowKey| {
            let request = Request::flow(key);
            translate(&switches, request)
        };
        for packet in &packets {
            let _ = translate(&switches, Request::packet(&packet.key()));
        }
        for packet in &packets {
            let key = packet.key();
            let Ok(result) = look(&key) else { continue };
            for (other, noise) in &others {
                let mut other = other.key();
                other.ipv4_src.set(u32::from_be_bytes([noise[0], noise[1], noise[2], noise[3]]));
                other.ip_proto = noise[4];
                other.ip_tos = noise[5];
                let other = at_the_edge(&key, &result.mask, &other);
                let again = look(&other).unwrap();
                prop_assert_eq!(&again.actions, &result.actions, "{:?} {:?}", key, other);
            }
        }
    }
}
