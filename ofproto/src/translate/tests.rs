//! `NORMAL` by cases, against a naive switch, and the mask against packets at its edges.

mod model;
mod native;
mod normal;
mod rules;
mod tunnels;

use std::collections::BTreeMap;

use dpif::datapath;
use dpif::flow::VlanKey;
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::vlan;

use super::*;
use crate::epoch::Epoch;
use crate::news::News;
use crate::openflow::message::{FlowFlags, FragmentHandling, state};
use crate::openflow::text::{NoNames, parse_actions, parse_match};
use crate::port_settings::{PortSettings, VlanMode};
use crate::rule::RuleParts;
use crate::switches::{Attachment, PatchSnapshot, PortSnapshot, SwitchId, SwitchSnapshot};
use crate::tables::Tables;

/// VLAN and priority, after the tag protocol.
type TestTag = (u16, u16, u16);

/// What leaves the datapath: the port and the tags, outermost first.
type Sent = (u32, Vec<TestTag>);

fn address(last: u8) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 0, last])
}

fn port(number: u32, settings: PortSettings) -> PortSnapshot {
    let attachment = Attachment::Datapath(datapath::PortNumber(number));
    snapshot(&format!("p{number}"), attachment, settings)
}

fn patch(name: &str, peer: &str) -> PortSnapshot {
    let patch = PatchSnapshot { peer: peer.to_owned(), traffic: Arc::default() };
    let attachment = Attachment::Patch(patch);
    snapshot(name, attachment, PortSettings::default())
}

fn snapshot(name: &str, attachment: Attachment, settings: PortSettings) -> PortSnapshot {
    let name = name.to_owned();
    // The switch numbers it.
    let number = PortNumber(0);
    let ethernet = EthernetAddress::default();
    PortSnapshot { number, name, attachment, ethernet, settings, config: 0, state: state::LIVE }
}

fn access(tag: u16) -> PortSettings {
    PortSettings { vlan_mode: VlanMode::Access, tag, ..PortSettings::default() }
}

/// A rule of table 0, or of the one that its match begins with, as `1:in_port=1`.
fn rule(priority: u32, flow_match: &str, actions: &str) -> RuleParts {
    let (table, flow_match) = flow_match.split_once(':').unwrap_or(("0", flow_match));
    RuleParts {
        table: table.parse().unwrap(),
        priority,
        flow_match: parse_match(flow_match, &NoNames).unwrap(),
        cookie: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags(0),
        actions: parse_actions(actions, &NoNames).unwrap().into(),
    }
}

/// A switch whose ports are numbered from 1.
fn switch(name: &str, ports: impl IntoIterator<Item = PortSnapshot>) -> SwitchSnapshot {
    let tables = Tables::new(Arc::default(), News::default());
    tables.add(rule(0, "", "normal")).unwrap();
    let mut id = [0; 16];
    id.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
    let ports = (1..).map(PortNumber).zip(ports);
    SwitchSnapshot {
        id: SwitchId(id),
        name: name.to_owned(),
        forwards_reserved: false,
        mac_table: Arc::new(MacTable::new(Arc::new(Epoch::default()))),
        tlv: Arc::default(),
        tables: Arc::new(tables),
        groups: Arc::default(),
        meters: Arc::default(),
        mirrors: Arc::default(),
        fragments: FragmentHandling::Normal,
        has_controller: false,
        is_in_band: false,
        reports_misses: Arc::default(),
        ports: ports.map(|(number, port)| (number, PortSnapshot { number, ..port })).collect(),
    }
}

fn tag_key((tpid, vlan, priority): TestTag) -> VlanKey {
    let tci = vlan | priority << vlan::PCP_SHIFT | vlan::CFI;
    VlanKey { tci: tci.into(), tpid: tpid.into() }
}

/// Key of an IPv4 packet.
fn key(in_port: u32, source: EthernetAddress, to: EthernetAddress, tags: &[TestTag]) -> FlowKey {
    let mut key = FlowKey::default();
    key.eth_src = MacAddress(source.0);
    key.eth_dst = MacAddress(to.0);
    key.in_port.set(in_port);
    key.eth_type.set(ether_type::IPV4);
    for (to, tag) in key.vlans.iter_mut().zip(tags) {
        *to = tag_key(*tag);
    }
    key
}

/// The result for a packet, or for a flow when `is_packet` is not set.
fn run(switches: &Switches, key: &FlowKey, is_packet: bool) -> Translation {
    translate(switches, Request { is_packet, ..Request::flow(key) }).unwrap()
}

/// What actions send for a packet with these tags.
fn sent(actions: &[Action], tags: &[TestTag]) -> Vec<Sent> {
    let mut tags = tags.to_vec();
    let mut sent = Vec::new();
    for action in actions {
        match action {
            Action::Output(port) => sent.push((*port, tags.clone())),
            Action::PopVlan => {
                tags.remove(0);
            }
            &Action::PushVlan { tpid, tci } => {
                assert_ne!(tci & vlan::CFI, 0);
                tags.insert(0, (tpid, tci & vlan::VID_MASK, tci >> vlan::PCP_SHIFT));
            }
            Action::Drop { reason: 0 } => assert_eq!(actions.len(), 1),
            other => panic!("{other:?}"),
        }
    }
    sent
}

/// The text of a trace, one entry a line behind its kind.
fn trace_of(switches: &Switches, key: &FlowKey, is_packet: bool) -> Vec<String> {
    let mut trace = Trace::default();
    let request = Request { is_packet, trace: Some(&mut trace), ..Request::flow(key) };
    translate(switches, request).unwrap();
    let entries = trace.entries.into_iter();
    entries.map(|entry| format!("{} {:?} {}", entry.depth, entry.kind, entry.text)).collect()
}

fn by_name(switches: &Switches) -> BTreeMap<&str, &SwitchSnapshot> {
    switches.iter().map(|switch| (switch.name.as_str(), switch)).collect()
}
