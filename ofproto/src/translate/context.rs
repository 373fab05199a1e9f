//! The state of a translation.

use std::sync::Arc;

use dpif::action::{Action as DpAction, HashAlgorithm, MaskedField, slow_path};
use dpif::flow::{FRAG_ANY, FRAG_LATER, Field, FlowKey, FlowMask, MAX_VLANS, TunnelKey, VlanKey};
use netdev::ethernet_address::EthernetAddress;
use netdev::wire::ip_protocol::{ICMP, ICMPV6};
use netdev::wire::{mpls, vlan};
use tracing::{info, warn};

use super::commit::{self, CommitOptions, Pending};
use super::normal::only_for_mirroring;
use super::thaw::{Entry, Frozen};
use super::tunnel::note_tunnel;
use super::{
    Effect, MAX_ACTION_BYTES, Request, Sighting, Start, TraceEntry, TraceKind, TranslateError,
    Translation, header,
};
use crate::features::Features;
use crate::flow::Flow;
use crate::flow_text::packet_text;
use crate::openflow::action::{Action, Controller, Nat};
use crate::openflow::message::config;
use crate::openflow::port::PortNo;
use crate::openflow::text::{Names, NoNames};
use crate::port::PortNumber;
use crate::recirculation::{Recirculation, StackValue};
use crate::rule::Rule;
use crate::switches::{PortSnapshot, SwitchSnapshot, Switches};
use crate::tables::Version;
use crate::tunnel::note_options;

/// See the [module](self).
pub(super) struct Context<'a> {
    pub(super) switches: &'a Switches,
    /// The switch that the packet is in.
    pub(super) switch: &'a SwitchSnapshot,
    pub(super) request: Request<'a>,
    /// The packet as the actions of rules made it. It may be looked at by the methods that note
    /// down the bits.
    pub(super) flow: Flow,
    /// The packet as the datapath actions so far made it.
    pub(super) base: Flow,
    /// The bits of the request's key that were looked at.
    pub(super) read: Flow,
    /// Header to put on or take off at the next commit.
    pub(super) pending: Pending,
    pub(super) actions: Vec<DpAction>,
    pub(super) effects: Vec<Effect>,
    pub(super) recirculations: Vec<Arc<Recirculation>>,
    pub(super) slow: u32,
    /// The result would be another with a packet.
    pub(super) is_transient: bool,

    /// The rule whose actions are executed, unless it is one of the switch itself.
    pub(super) rule: Option<Arc<Rule>>,
    pub(super) cookie: u64,
    /// The table that the rule is in.
    pub(super) table: u8,
    /// The version of the switch's tables that the packet sees.
    pub(super) version: Arc<Version>,
    pub(super) depth: u32,
    pub(super) resubmits: u32,
    pub(super) stack: Vec<StackValue>,
    pub(super) action_set: Vec<Action>,
    pub(super) has_group_in_set: bool,
    pub(super) is_in_action_set: bool,
    pub(super) original_priority: u32,
    /// Address translation of the connection tracking action that is being put together.
    pub(super) nat: Option<Nat>,
    /// Mirrors that have the packet already.
    pub(super) mirrors: u32,
    /// Most bytes of the copy that is being sent to a mirror; 0 when it is none.
    pub(super) snap_length: u16,

    /// No more actions are to be executed.
    pub(super) exit: bool,
    /// The packet is to be looked up again, or resumed by a controller.
    pub(super) freezing: bool,
    /// Hash that the datapath is to compute before.
    pub(super) wanted_hash: Option<(HashAlgorithm, u32)>,
    pub(super) frozen_actions: Vec<Action>,
    /// Table and cookie that the frozen actions say last.
    pub(super) frozen_place: Option<(u8, u64)>,
    /// The action that hands the packet to a controller.
    pub(super) pause: Option<Box<Controller>>,
    /// The packet was MPLS and is not any more: what it is has to be found out.
    pub(super) was_mpls: bool,
    /// Connection tracking has seen the packet in this switch.
    pub(super) conntracked: bool,
    /// The switch that got it first.
    came_to: &'a SwitchSnapshot,
    /// The switch and port by which it came from the datapath.
    pub(super) came_by: Option<(&'a SwitchSnapshot, PortNumber)>,

    pub(super) trace_depth: u32,
    pub(super) error: Option<TranslateError>,
    frozen: Option<Frozen<'a>>,
}

impl<'a> Context<'a> {
    pub(super) fn new(switches: &'a Switches, request: Request<'a>, entry: Entry<'a>) -> Self {
        let Entry { switch, in_port, frozen } = entry;
        let mut flow = Flow::of_packet(request.key.clone(), PortNo(in_port.0));
        let options = flow.map_options(&switch.tlv);
        if let Start::PacketOut { metadata, .. } | Start::Received { metadata, .. } = request.start
        {
            let (value, mask) = Flow::of_match(metadata, &switch.tlv);
            let words = flow.words_mut().iter_mut().zip(value.words()).zip(mask.words());
            words.for_each(|((word, value), mask)| *word = *word & !mask | value & mask);
            flow.in_port.set(in_port.0);
        }
        let mut base = flow.clone();
        // The datapath keeps no tunnel over an output.
        base.packet.tunnel = TunnelKey::default();
        let version = match request.version {
            Some(number) => Version::unpublished(number),
            None => switch.tables.pin(),
        };
        Self {
            switches,
            switch,
            flow,
            base,
            read: always_read(request.key),
            pending: Pending::None,
            actions: Vec::new(),
            effects: Vec::new(),
            recirculations: Vec::new(),
            slow: 0,
            is_transient: false,
            rule: None,
            cookie: u64::MAX,
            table: 0,
            version,
            depth: 0,
            resubmits: 0,
            stack: Vec::new(),
            action_set: Vec::new(),
            has_group_in_set: false,
            is_in_action_set: false,
            original_priority: request.key.skb_priority.get(),
            nat: None,
            mirrors: 0,
            snap_length: 0,
            exit: false,
            freezing: false,
            wanted_hash: None,
            frozen_actions: Vec::new(),
            frozen_place: None,
            pause: None,
            was_mpls: false,
            conntracked: false,
            came_to: switch,
            came_by: Some((switch, in_port)),
            trace_depth: 0,
            error: options.err().map(|_| TranslateError::InvalidOptions),
            frozen,
            request,
        }
    }

    /// Translates.
    pub(super) fn run(&mut self) {
        let name = &self.switch.name;
        self.enter(TraceKind::Bridge, |_| format!("bridge(\"{name}\")"));
        if self.error.is_some() {
            return self.report_error(|_| "Invalid Geneve tunnel metadata".to_owned());
        }
        let (entered, came_on) = (self.switch, self.in_port_number());
        let came_in = entered.ports.get(&came_on);
        let is_real = came_in.is_some_and(|port| !port.is_patch());
        if !is_real {
            self.came_by = None;
        }
        let mut actions = None;
        if let Some(frozen) = self.frozen.take() {
            let left = self.thaw(&frozen);
            if self.error.is_some() {
                return;
            }
            self.frozen = Some(frozen);
            actions = Some(left).filter(|left| !left.is_empty()).map(Into::into);
        } else {
            self.conntracked = self.flow.packet.ct_state & CT_TRACKED != 0;
        }
        if let Start::PacketOut { actions: wanted, .. } = self.request.start {
            actions = Some(wanted.into());
        }
        if let Some(port) = came_in {
            self.receive_from(port);
        }
        let actions: Arc<[Action]> = match actions {
            Some(actions) => actions,
            None => self.first_rule(),
        };
        if let Some(port) = came_in
            && entered.mirrors.is_output(came_on)
        {
            return self.report_error(|_| only_for_mirroring(&port.name));
        }
        if !self.take_congestion() || came_in.is_some_and(|port| !self.may_receive(port)) {
            return;
        }
        self.mirror_received();
        self.do_actions(&actions, true, false);
        if self.error.is_none() {
            let is_whole = !self.freezing;
            self.conclude_actions();
            if is_whole && entered.is_in_band {
                self.send_dhcp_to_local();
            }
        }
    }

    /// Executes the action set, or else stops where the rules said.
    pub(super) fn conclude_actions(&mut self) {
        if !self.freezing {
            self.execute_action_set();
        }
        if self.freezing {
            self.finish_freezing();
        }
    }

    /// Whether a switch takes packets that come in on a port.
    pub(super) fn may_receive(&self, port: &PortSnapshot) -> bool {
        let is_spanning_tree = self.flow.packet.eth_dst.0 == SPANNING_TREE;
        let bit = if is_spanning_tree { config::NO_RECV_STP } else { config::NO_RECV };
        port.config & bit == 0
    }

    /// Goes on in another switch.
    pub(super) fn enter_switch(&mut self, switch: &'a SwitchSnapshot) {
        self.switch = switch;
        self.version = switch.tables.pin();
    }

    /// The datapath's number of the port by which the packet came into the switch.
    pub(super) fn in_port_number(&self) -> PortNumber {
        PortNumber(self.flow.in_port.get())
    }

    /// The port by which the packet came into the switch.
    pub(super) fn in_port(&self) -> Option<&'a PortSnapshot> {
        self.switch.ports.get(&self.in_port_number())
    }

    /// Whether the packet is of a controller, which is on no port.
    pub(super) fn is_of_controller(&self) -> bool {
        let number = PortNo(self.flow.in_port.get());
        self.in_port().is_none() && [PortNo::NONE, PortNo::CONTROLLER].contains(&number)
    }

    /// Whether translation goes on from where it stopped before.
    pub(super) fn is_thawed(&self) -> bool {
        self.frozen.is_some()
    }

    /// Forgets what connection tracking found, as other switches and later actions do not see it.
    pub(super) fn forget_conntrack(&mut self) {
        self.conntracked = false;
        header::clear_conntrack(&mut self.flow.packet);
    }

    /// Makes the datapath change the packet as the rules did so far.
    pub(super) fn commit(&mut self) {
        self.note_end_of_tags();
        let pending = std::mem::take(&mut self.pending);
        let options = CommitOptions { masked_set: self.features().masked_set_action };
        let slow = commit::commit(
            &mut self.base,
            &self.flow,
            &pending,
            &mut self.actions,
            &mut self.read,
            options,
        );
        self.slow |= slow.unwrap_or(0);
    }

    /// Notes down, before tags are taken off for good, that there are no more of them.
    fn note_end_of_tags(&mut self) {
        let count = |key: &FlowKey| {
            let is_tag = |tag: &&VlanKey| tag.tci.get() & vlan::CFI != 0;
            key.vlans.iter().take_while(is_tag).count()
        };
        let tags = count(&self.base.packet);
        if count(&self.flow.packet) < tags
            && let Some(end) = self.read.packet.vlans.get_mut(tags)
        {
            end.tci.set(end.tci.get() | vlan::CFI | vlan::VID_MASK);
        }
    }

    /// The value of a field.
    pub(super) fn read(&mut self, field: Field) -> u128 {
        self.read.packet.set(field, u128::MAX);
        self.flow.packet.get(field)
    }

    /// An Ethernet address.
    pub(super) fn read_address(&mut self, field: Field) -> EthernetAddress {
        let [.., a, b, c, d, e, f] = self.read(field).to_be_bytes();
        EthernetAddress([a, b, c, d, e, f])
    }

    /// Notes down that the VLAN of the tag at `place` was looked at, or that there is none.
    pub(super) fn note_vlan(&mut self, place: usize) {
        if self.flow.packet.vlans != self.request.key.vlans {
            // The tags were changed, and each may come from any of the packet's.
            return self.note_tags();
        }
        if let Some(read) = self.read.packet.vlans.get_mut(place) {
            read.tci.set(read.tci.get() | vlan::CFI | vlan::VID_MASK);
        }
    }

    /// Notes down that every bit of all tags was looked at.
    pub(super) fn note_tags(&mut self) {
        self.read.packet.vlans =
            [VlanKey { tci: u16::MAX.into(), tpid: u16::MAX.into() }; MAX_VLANS];
    }

    /// Takes note of where the packet shows a station to be; returns whether the switch did not
    /// know it.
    pub(super) fn sight(&mut self, vlan: u16, address: EthernetAddress) -> bool {
        let port = self.in_port_number();
        let table = &self.switch.mac_table;
        let is_news = self.request.is_packet && table.learn(vlan, address, port);
        let sighting = Sighting { table: Arc::clone(table), vlan, address, port };
        self.effects.push(Effect::Station(sighting));
        is_news
    }

    /// Names of ports, if the trace is to have them.
    pub(super) fn names(&self) -> &dyn Names {
        match &self.request.trace {
            Some(trace) if trace.names => self.switch,
            _ => &NoNames,
        }
    }

    /// Adds to the trace, if there is one.
    pub(super) fn report(&mut self, kind: TraceKind, text: impl FnOnce(&Self) -> String) {
        if self.request.trace.is_some() {
            let entry = TraceEntry { kind, depth: self.trace_depth, text: text(self) };
            self.request.trace.iter_mut().for_each(|trace| trace.entries.push(entry.clone()));
        }
    }

    /// The same; what is added next is part of it, until the caller restores `trace_depth`.
    pub(super) fn enter(&mut self, kind: TraceKind, text: impl FnOnce(&Self) -> String) {
        self.report(kind, text);
        self.trace_depth += 1;
    }

    /// Adds a fault to the trace, or else to the log.
    pub(super) fn report_error(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.request.trace.is_some() {
            self.report(TraceKind::Error, text);
        } else if self.request.is_packet {
            let text = text(self);
            let place = self.place();
            warn!(target: "ofproto_dpif_xlate", limited = true, "{text}{place}");
        }
    }

    /// Adds something worth knowing to the trace, or else to the log.
    pub(super) fn report_notice(&mut self, text: &str) {
        if self.request.trace.is_some() {
            self.report(TraceKind::Warning, |_| text.to_owned());
        } else if self.request.is_packet {
            let place = self.place();
            info!(target: "ofproto_dpif_xlate", limited = true, "{text}{place}");
        }
    }

    /// Where the packet is, for messages.
    fn place(&self) -> String {
        let packet = packet_text(&self.base, &self.switch.tlv, &NoNames);
        format!(" on bridge {} while processing {packet}", self.switch.name)
    }

    /// What the datapath can do.
    pub(super) fn features(&self) -> &'a Features {
        self.switches.features()
    }

    /// The result.
    pub(super) fn finish(mut self) -> Translation {
        let mut slow = self.slow;
        let has_drop = self.features().explicit_drop_action;
        if let Some(error) = self.error {
            slow = 0;
            self.actions.clear();
            self.actions.extend(has_drop.then_some(DpAction::Drop { reason: error.code() }));
        } else if action_bytes(&self.actions) > MAX_ACTION_BYTES {
            slow |= slow_path::ACTION;
        }
        // Nothing comes after the last action that a copy would have to be made for.
        if let Some(DpAction::Clone(_)) = self.actions.last()
            && let Some(DpAction::Clone(actions)) = self.actions.pop()
        {
            self.actions.extend(actions);
        }
        if self.actions.is_empty() && has_drop {
            self.actions.push(DpAction::Drop { reason: 0 });
        }
        let (key, flow) = (self.request.key, &self.flow.packet);
        let vlans = self.read.packet.vlans;
        let mut read = Flow::default();
        read.packet = self.read.packet;
        read.in_port.set(u16::MAX);
        tidy(&mut read.packet, key, flow);
        if key.tunnel.has_destination() {
            read.tunnel_metadata = self.read.tunnel_metadata;
        }
        let mut mask = read.packet.clone();
        if !read.tunnel_metadata.is_empty() {
            let tlv = &self.came_to.tlv;
            note_options(&key.tunnel, &read.tunnel_metadata, tlv, &mut mask.tunnel);
        }
        note_missing_tag(&mut mask, &vlans, key);
        Translation {
            actions: self.actions.into(),
            mask: FlowMask::new(mask),
            read,
            flow: self.flow,
            slow,
            is_transient: self.is_transient,
            recirculations: self.recirculations,
            effects: self.effects,
            // The drop is as it should be.
            error: self.error.filter(|error| *error != TranslateError::Congestion),
        }
    }
}

/// The address of bridges that speak the spanning tree protocol (IEEE 802.1D, table 7-10).
const SPANNING_TREE: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
/// Bit of the connection state: connection tracking has seen the packet.
const CT_TRACKED: u8 = 0x20;

/// The bits on which the actions for any packet depend.
fn always_read(key: &FlowKey) -> Flow {
    let mut read = Flow::default();
    let fields =
        [Field::InPort, Field::RecircId, Field::PacketNamespace, Field::PacketType, Field::EthType];
    for field in fields {
        read.packet.set(field, u128::MAX);
    }
    if key.is_ip() {
        read.packet.ip_frag = FRAG_ANY | FRAG_LATER;
    }
    note_tunnel(key, &mut read.packet);
    read.in_port.set(u16::MAX);
    read
}

/// Takes bits out of the mask that mean nothing for a packet with this key, which may have been
/// noted for headers that actions put in front. `flow` is what became of the packet.
fn tidy(read: &mut FlowKey, key: &FlowKey, flow: &FlowKey) {
    if !key.is_ethernet() {
        read.eth_dst = Default::default();
        read.eth_src = Default::default();
    }
    if flow.is_ip() && matches!(flow.ip_proto, ICMP | ICMPV6) {
        // Type and code have eight bits.
        read.tp_src.set(read.tp_src.get() & 0xff);
        read.tp_dst.set(read.tp_dst.get() & 0xff);
    }
    if flow.ip_frag & FRAG_LATER != 0 {
        read.tp_src.set(0);
        read.tp_dst.set(0);
    }
    if !mpls::is_mpls(key.eth_type.get()) {
        read.mpls = Default::default();
    }
    for (read, tag) in read.vlans.iter_mut().zip(&key.vlans) {
        if !vlan::is_tag(tag.tpid.get()) {
            *read = VlanKey::default();
        } else if read.tci.get() != 0 {
            read.tci.set(read.tci.get() | vlan::CFI);
            read.tpid.set(u16::MAX);
        }
    }
    if !key.tunnel.has_destination() {
        read.tunnel = TunnelKey::default();
    }
}

/// Adds to the mask, for the first tag that the packet does not have, what was noted of it: that
/// it is not there.
fn note_missing_tag(mask: &mut FlowKey, noted: &[VlanKey; MAX_VLANS], key: &FlowKey) {
    let mut tags = mask.vlans.iter_mut().zip(noted).zip(&key.vlans);
    let missing = tags.find(|(_, tag)| tag.tci.get() & vlan::CFI == 0);
    if let Some(((mask, noted), _)) = missing.filter(|_| key.is_ethernet()) {
        mask.tci.set(noted.tci.get() & (vlan::CFI | vlan::VID_MASK));
    }
}

/// Length of actions in messages to a datapath of the kernel.
pub(super) fn action_bytes(actions: &[DpAction]) -> usize {
    const HEADER: usize = 4;
    let length = |action: &DpAction| match action {
        DpAction::PopVlan | DpAction::PopEthernet | DpAction::PopNsh | DpAction::ConntrackClear => {
            0
        }
        DpAction::Hash { .. } | DpAction::PushMpls { .. } => 8,
        DpAction::AddMpls { .. } => 12,
        DpAction::PushEthernet { .. } => 12,
        DpAction::Set(set) => {
            let bytes = |field: &MaskedField| 2 * field.field.range().len();
            HEADER + set.fields.iter().map(bytes).sum::<usize>().next_multiple_of(4)
        }
        DpAction::SetTunnel(_) | DpAction::PushNsh(_) => 64,
        DpAction::Userspace(_) | DpAction::Conntrack(_) => 64,
        DpAction::TunnelPush(_) => 532,
        DpAction::Clone(actions) => action_bytes(actions),
        DpAction::Sample { actions, .. } => 12 + action_bytes(actions),
        DpAction::CheckPacketLength { greater, less_equal, .. } => {
            16 + action_bytes(greater) + action_bytes(less_equal)
        }
        DpAction::Psample { cookie, .. } => 12 + cookie.len().next_multiple_of(4),
        DpAction::Output(_)
        | DpAction::LoadBalancedOutput(_)
        | DpAction::PushVlan { .. }
        | DpAction::PopMpls { .. }
        | DpAction::Truncate(_)
        | DpAction::Recirculate(_)
        | DpAction::Meter(_)
        | DpAction::TunnelPop(_)
        | DpAction::Drop { .. } => 4,
    };
    actions.iter().map(|action| HEADER + length(action)).sum()
}
