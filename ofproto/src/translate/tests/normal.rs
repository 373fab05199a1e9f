//! Rules of `NORMAL`, one by one.

use super::*;
use crate::mac_table::MacEntry;
use crate::port_settings::{PriorityTags, VlanSet};

const Q: u16 = ether_type::VLAN;
const AD: u16 = ether_type::SERVICE_VLAN;
const ALL: EthernetAddress = EthernetAddress([0xff; 6]);

fn native(vlan_mode: VlanMode) -> PortSettings {
    PortSettings { vlan_mode, tag: 10, ..PortSettings::default() }
}

fn tunnel(customer_vlans: Option<VlanSet>) -> PortSettings {
    PortSettings { customer_vlans, ..native(VlanMode::Dot1qTunnel) }
}

fn trunk(vlans: &[u16]) -> PortSettings {
    PortSettings { trunks: Some(vlans.iter().copied().collect()), ..PortSettings::default() }
}

/// What a broadcast that comes in on `from` with `tags` becomes on a port with `to`; `None` when
/// it does not leave.
fn crosses(from: &PortSettings, tags: &[TestTag], to: &PortSettings) -> Option<Vec<TestTag>> {
    let ports = [port(1, from.clone()), port(2, to.clone())];
    let switches = Switches::new(vec![switch("br0", ports)]);
    let translation = run(&switches, &key(1, address(1), ALL, tags), true);
    let mut sent = sent(&translation.actions, tags);
    assert!(sent.len() <= 1);
    sent.pop().map(|(port, tags)| {
        assert_eq!(port, 2);
        tags
    })
}

#[test]
fn tags_follow_the_modes_of_both_ports() {
    let trunk_all = PortSettings::default();
    let (tagged, untagged) = (native(VlanMode::NativeTagged), native(VlanMode::NativeUntagged));
    let tunnel_all = tunnel(None);
    let tunnel_few = tunnel(Some([0, 7].into_iter().collect()));
    let few = trunk(&[10, 20]);
    let keep =
        |settings: &PortSettings, priority_tags| PortSettings { priority_tags, ..settings.clone() };
    let if_nonzero = keep(&access(10), PriorityTags::IfNonzero);
    let always = keep(&access(10), PriorityTags::Always);
    type Case<'a> = (&'a PortSettings, &'a [TestTag], &'a PortSettings, Option<&'a [TestTag]>);
    let cases: &[Case<'_>] = &[
        // Access ports.
        (&access(10), &[], &access(10), Some(&[])),
        (&access(10), &[], &access(20), None),
        (&access(10), &[(Q, 10, 0)], &access(10), None),
        (&access(10), &[(Q, 0, 3)], &access(10), Some(&[])),
        (&access(10), &[], &trunk_all, Some(&[(Q, 10, 0)])),
        (&access(10), &[(Q, 0, 3)], &trunk_all, Some(&[(Q, 10, 3)])),
        (&access(10), &[(AD, 0, 3)], &trunk_all, Some(&[(AD, 10, 3)])),
        (&access(10), &[(Q, 0, 3), (Q, 5, 0)], &trunk_all, Some(&[(Q, 10, 3)])),
        (&access(10), &[], &trunk(&[20]), None),
        (&access(10), &[], &few, Some(&[(Q, 10, 0)])),
        // Trunks.
        (&trunk_all, &[], &trunk_all, Some(&[])),
        (&trunk_all, &[(Q, 0, 0)], &trunk_all, Some(&[])),
        (&trunk_all, &[(Q, 0, 5)], &trunk_all, Some(&[(Q, 0, 5)])),
        (&trunk_all, &[(Q, 0, 0), (Q, 5, 1)], &trunk_all, Some(&[(Q, 5, 1)])),
        (&trunk_all, &[(Q, 10, 0), (Q, 0, 0)], &trunk_all, Some(&[(Q, 10, 0), (Q, 0, 0)])),
        (&trunk_all, &[(Q, 10, 6)], &access(10), Some(&[])),
        (&trunk_all, &[(Q, 10, 6), (Q, 5, 0)], &access(10), None),
        (&trunk_all, &[], &access(10), None),
        (&trunk_all, &[], &access(0), Some(&[])),
        (&few, &[(Q, 10, 0), (Q, 5, 1)], &trunk_all, Some(&[(Q, 10, 0), (Q, 5, 1)])),
        (&few, &[(Q, 11, 0)], &trunk_all, None),
        (&few, &[], &trunk_all, None),
        // Native VLANs.
        (&tagged, &[], &trunk_all, Some(&[(Q, 10, 0)])),
        (&tagged, &[(Q, 0, 2)], &trunk_all, Some(&[(Q, 10, 2)])),
        (&untagged, &[(Q, 12, 2)], &trunk_all, Some(&[(Q, 12, 2)])),
        (&trunk_all, &[(Q, 10, 2)], &untagged, Some(&[])),
        (&trunk_all, &[(Q, 10, 2)], &tagged, Some(&[(Q, 10, 2)])),
        (&trunk_all, &[(Q, 10, 2), (Q, 5, 1)], &untagged, Some(&[(Q, 5, 1)])),
        (&trunk_all, &[], &untagged, None),
        (&untagged, &[], &access(10), Some(&[])),
        // Tunnels through the provider's network.
        (&tunnel_all, &[], &trunk_all, Some(&[(AD, 10, 0)])),
        (&tunnel_all, &[(Q, 7, 3)], &trunk_all, Some(&[(AD, 10, 0), (Q, 7, 3)])),
        (&tunnel_few, &[(Q, 7, 3)], &trunk_all, Some(&[(AD, 10, 0), (Q, 7, 3)])),
        (&tunnel_few, &[(Q, 8, 3)], &trunk_all, None),
        (&trunk_all, &[(AD, 10, 0), (Q, 7, 3)], &tunnel_few, Some(&[(Q, 7, 3)])),
        (&trunk_all, &[(AD, 10, 0), (Q, 8, 3)], &tunnel_few, None),
        (&trunk_all, &[(AD, 10, 0)], &tunnel_few, Some(&[])),
        (&tunnel_all, &[(Q, 7, 3)], &access(10), None),
        (&tunnel_all, &[], &access(10), Some(&[])),
        // Tags for the priority alone.
        (&access(10), &[(Q, 0, 3)], &if_nonzero, Some(&[(Q, 0, 3)])),
        (&access(10), &[(Q, 0, 0)], &if_nonzero, Some(&[])),
        (&trunk_all, &[(Q, 10, 3)], &if_nonzero, Some(&[(Q, 0, 3)])),
        (&access(10), &[(Q, 0, 0)], &always, Some(&[])),
        (&trunk_all, &[(Q, 0, 0)], &keep(&trunk_all, PriorityTags::Always), Some(&[(Q, 0, 0)])),
    ];
    for (from, tags, to, expected) in cases {
        let expected = expected.map(<[_]>::to_vec);
        assert_eq!(crosses(from, tags, to), expected, "{from:?} {tags:?} {to:?}");
    }
}

#[test]
fn a_partial_tag_is_dropped() {
    let ports = [port(1, PortSettings::default()), port(2, PortSettings::default())];
    let switches = Switches::new(vec![switch("br0", ports)]);
    let mut key = key(1, address(1), ALL, &[]);
    key.eth_type.set(Q);
    assert_eq!(run(&switches, &key, true).actions[..], [Action::Drop { reason: 0 }]);
}

#[test]
fn reserved_addresses_stay_unless_asked() {
    let ports = || [port(1, PortSettings::default()), port(2, PortSettings::default())];
    let bridge = switch("br0", ports());
    let forwarding = SwitchSnapshot { forwards_reserved: true, ..switch("br0", ports()) };
    let cases = [
        ([0x01, 0x80, 0xc2, 0, 0, 0x00], true),
        ([0x01, 0x80, 0xc2, 0, 0, 0x0f], true),
        ([0x01, 0x80, 0xc2, 0, 0, 0x10], false),
        ([0x00, 0xe0, 0x2b, 0, 0, 0x04], true),
        ([0x00, 0xe0, 0x2b, 0, 0, 0x05], false),
        ([0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xcc], true),
        ([0x01, 0x00, 0x0c, 0xcc, 0xcc, 0xc8], false),
        ([0x01, 0x00, 0x0c, 0xcd, 0xcd, 0xcd], true),
        ([0x01, 0x00, 0x0c, 0x00, 0x00, 0x01], false),
        ([0xff; 6], false),
    ];
    for (address_bytes, is_reserved) in cases {
        let key = key(1, address(1), EthernetAddress(address_bytes), &[]);
        let out = Action::Output(2);
        let expected = if is_reserved { Action::Drop { reason: 0 } } else { out.clone() };
        let actions = |bridge: &SwitchSnapshot| {
            run(&Switches::new(vec![bridge.clone()]), &key, false).actions
        };
        assert_eq!(actions(&bridge)[..], [expected], "{address_bytes:02x?}");
        assert_eq!(actions(&forwarding)[..], [out], "{address_bytes:02x?}");
    }
}

#[test]
fn protected_ports_do_not_speak_to_each_other() {
    let protected = PortSettings { is_protected: true, ..PortSettings::default() };
    let ports = [port(1, protected.clone()), port(2, protected), port(3, PortSettings::default())];
    let switches = Switches::new(vec![switch("br0", ports)]);
    let broadcast =
        |from| sent(&run(&switches, &key(from, address(1), ALL, &[]), true).actions, &[]);
    assert_eq!(broadcast(1), [(3, vec![])]);
    assert_eq!(broadcast(2), [(3, vec![])]);
    assert_eq!(broadcast(3), [(1, vec![]), (2, vec![])]);
}

#[test]
fn stations_are_learned_from_packets_alone() {
    let ports = (1..4).map(|number| port(number, PortSettings::default()));
    let switches = Switches::new(vec![switch("br0", ports)]);
    let to = |from, source, destination, is_packet| {
        let translation = run(&switches, &key(from, address(source), destination, &[]), is_packet);
        let sent = sent(&translation.actions, &[]);
        sent.into_iter().map(|(port, _)| port).collect::<Vec<_>>()
    };
    assert_eq!(to(1, 1, address(2), false), [2, 3]);
    assert_eq!(to(2, 2, address(1), false), [1, 3]);
    assert_eq!(to(1, 1, address(2), true), [2, 3]);
    assert_eq!(to(2, 2, address(1), true), [1]);
    assert_eq!(to(1, 1, address(2), true), [2]);
    assert_eq!(to(3, 3, address(2), true), [2]);
    // A station behind the port on which the packet came gets nothing from here.
    assert_eq!(to(2, 4, address(2), true), [0; 0]);
    assert_eq!(to(2, 5, address(5), true), [0; 0]);
    // A station that moved.
    assert_eq!(to(3, 1, ALL, true), [1, 2]);
    assert_eq!(to(2, 2, address(1), true), [3]);
    // Nobody sends from an address of a group.
    assert_eq!(to(1, 0, EthernetAddress([3; 6]), true), [2, 3]);
    let entries = switches.iter().flat_map(|switch| switch.mac_table.entries());
    let stations: BTreeMap<_, _> =
        entries.map(|MacEntry { address, port, .. }| (address, port.0)).collect();
    let expected = [(0, 1), (1, 3), (2, 2), (3, 3), (4, 2), (5, 2)];
    assert_eq!(stations, expected.map(|(last, port)| (address(last), port)).into());
}

#[test]
fn a_port_that_is_gone_gets_nothing() {
    let ports = (1..4).map(|number| port(number, PortSettings::default()));
    let switches = Switches::new(vec![switch("br0", ports)]);
    let bridge = by_name(&switches)["br0"];
    bridge.mac_table.learn(0, address(9), PortNumber(50));
    let key = key(1, address(1), address(9), &[]);
    assert_eq!(run(&switches, &key, true).actions[..], [Action::Drop { reason: 0 }]);
}

#[test]
fn a_secure_switch_drops() {
    let ports = (1..3).map(|number| port(number, PortSettings::default()));
    let bridge = SwitchSnapshot {
        tables: Arc::new(Tables::new(Arc::default(), News::default())),
        ..switch("br0", ports)
    };
    let switches = Switches::new(vec![bridge]);
    let key = key(1, address(1), ALL, &[]);
    let translation = run(&switches, &key, true);
    assert_eq!(translation.actions[..], [Action::Drop { reason: 0 }]);
    assert!(!translation.effects.iter().any(|effect| matches!(effect, Effect::Station(_))));
    // It depends on nothing of the packet but where it came from and what kind it is.
    let mut bits = FlowKey::default();
    bits.in_port.set(u32::MAX);
    bits.recirc_id.set(u32::MAX);
    bits.packet_namespace.set(u16::MAX);
    bits.packet_type.set(u16::MAX);
    bits.eth_type.set(u16::MAX);
    bits.ip_frag = 3;
    assert_eq!(translation.mask, FlowMask::new(bits));
    assert_eq!(
        trace_of(&switches, &key, true),
        ["0 Bridge bridge(\"br0\")", "1 Table  0. No match.", "2 Action drop"]
    );
}

#[test]
fn packets_of_nobody_are_refused() {
    let switches = Switches::new(vec![switch("br0", [port(1, PortSettings::default())])]);
    let mut key = key(2, address(1), ALL, &[]);
    let result = |key: &FlowKey| {
        translate(&switches, Request::packet(key)).map(|translation| translation.actions)
    };
    assert_eq!(result(&key), Err(TranslateError::UnknownPort(2)));
    key.in_port.set(1);
    assert_eq!(result(&key), Ok(vec![Action::Drop { reason: 0 }].into()));
    key.recirc_id.set(7);
    assert_eq!(result(&key), Err(TranslateError::NoRecirculation(7)));
}

#[test]
fn patches_lead_to_the_other_switch() {
    let br0 = switch("br0", [port(1, access(10)), port(2, access(20)), patch("a", "b")]);
    let br1 = switch(
        "br1",
        [port(3, access(10)), patch("b", "a"), port(4, PortSettings::default()), patch("c", "x")],
    );
    let switches = Switches::new(vec![br0, br1]);
    let request = key(1, address(1), address(2), &[]);
    let sent = sent(&run(&switches, &request, true).actions, &[]);
    assert_eq!(sent, [(3, vec![]), (4, vec![(Q, 10, 0)])]);
    let reply = key(3, address(2), address(1), &[]);
    assert_eq!(
        trace_of(&switches, &reply, true),
        [
            "0 Bridge bridge(\"br1\")",
            "1 Table  0. priority 0",
            "2 Action NORMAL",
            "2 Detail learned that 02:00:00:00:00:02 is on port p3 in VLAN 10",
            "2 Detail forwarding to learned port",
            "2 Bridge bridge(\"br0\")",
            "3 Table  0. priority 0",
            "4 Action NORMAL",
            "4 Detail learned that 02:00:00:00:00:02 is on port a in VLAN 10",
            "4 Detail forwarding to learned port",
        ]
    );
    let translation = run(&switches, &reply, true);
    assert_eq!(translation.actions[..], [Action::Output(1)]);
    let sighting = |effect: &Effect| match effect {
        Effect::Station(sighting) => Some((sighting.vlan, sighting.address, sighting.port.0)),
        _ => None,
    };
    let sightings: Vec<_> = translation.effects.iter().filter_map(sighting).collect();
    assert_eq!(sightings, [(10, address(2), 1), (10, address(2), 3)]);
}

#[test]
fn loops_of_patches_end() {
    let patches = |from: &str, to: &str, count: u32| {
        (0..count).map(|i| patch(&format!("{from}{i}"), &format!("{to}{i}"))).collect::<Vec<_>>()
    };
    for (pairs, visits) in [(2, 63), (6, 4095)] {
        let br0 = switch("br0", [vec![port(1, access(1))], patches("a", "b", pairs)].concat());
        let br1 = switch("br1", [vec![port(2, access(1))], patches("b", "a", pairs)].concat());
        let switches = Switches::new(vec![br0, br1]);
        let translation = run(&switches, &key(1, address(1), ALL, &[]), false);
        assert_eq!(translation.error, None);
        assert!(translation.actions.len() >= visits, "{}", translation.actions.len());
        assert!(translation.actions.len() <= 3 * visits + 63);
        let trace = trace_of(&switches, &key(1, address(1), ALL, &[]), false);
        let deepest = "Error over max translation depth 64";
        assert!(trace.iter().any(|entry| entry.ends_with(deepest)));
        // Each visit adds an output and changes of tags.
        let last = "resubmits yielded over 64 kB of actions";
        assert_eq!(trace.iter().any(|entry| entry.ends_with(last)), pairs > 2);
    }
}

#[test]
fn arp_is_told_apart_as_in_ovs() {
    let ports = [port(1, PortSettings::default()), port(2, PortSettings::default())];
    let switches = Switches::new(vec![switch("br0", ports)]);
    let read = |to, operation| {
        let mut key = key(1, address(1), to, &[]);
        key.eth_type.set(ether_type::ARP);
        key.ip_proto = operation;
        let mask = run(&switches, &key, true).mask;
        let bits = mask.bits();
        (bits.ip_proto, bits.ipv4_src.get(), bits.ipv4_dst.get())
    };
    assert_eq!(read(ALL, 1), (0xff, u32::MAX, u32::MAX));
    assert_eq!(read(ALL, 2), (0xff, 0, 0));
    assert_eq!(read(address(3), 1), (0, 0, 0));
}
