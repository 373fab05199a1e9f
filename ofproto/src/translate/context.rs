//! The state of a translation.

use std::sync::Arc;

use dpif::action::Action;
use dpif::flow::{
    FRAG_ANY, FRAG_LATER, Field, FlowKey, FlowMask, FlowText, MAX_VLANS, TunnelKey, VlanKey,
};
use netdev::ethernet_address::EthernetAddress;
use netdev::wire::vlan;
use tracing::warn;

use super::{
    MAX_ACTIONS, MAX_DEPTH, MAX_RESUBMITS, Request, Sighting, TraceEntry, TraceKind,
    TranslateError, Translation,
};
use crate::port::PortNumber;
use crate::switches::{FailMode, PortSnapshot, SwitchSnapshot, Switches};

/// See the [module](self).
pub(super) struct Context<'a> {
    pub(super) switches: &'a Switches,
    /// The switch that the packet is in.
    pub(super) switch: &'a SwitchSnapshot,
    /// The port on which it came into that.
    pub(super) in_port: PortNumber,
    request: Request<'a>,
    /// The packet as the actions of rules made it. It may be looked at by the methods that note
    /// down the bits.
    pub(super) key: FlowKey,
    /// The tags that the packet has after the datapath actions so far.
    pub(super) sent_vlans: [VlanKey; MAX_VLANS],
    /// The bits of the request's key that were looked at.
    read: FlowKey,
    pub(super) actions: Vec<Action>,
    sightings: Vec<Sighting>,
    depth: u32,
    resubmits: u32,
    error: Option<TranslateError>,
}

/// What the rule that a packet meets does.
enum RuleActions {
    Normal,
    Drop,
}

/// The rule of table 0 that takes a packet of `switch`.
fn lookup(switch: &SwitchSnapshot) -> RuleActions {
    match switch.fail_mode {
        FailMode::Standalone => RuleActions::Normal,
        FailMode::Secure => RuleActions::Drop,
    }
}

impl<'a> Context<'a> {
    pub(super) fn new(
        switches: &'a Switches,
        switch: &'a SwitchSnapshot,
        in_port: PortNumber,
        request: Request<'a>,
    ) -> Self {
        let mut context = Self {
            switches,
            switch,
            in_port,
            key: request.key.clone(),
            sent_vlans: request.key.vlans,
            request,
            read: FlowKey::default(),
            actions: Vec::new(),
            sightings: Vec::new(),
            depth: 0,
            resubmits: 0,
            error: None,
        };
        // What every flow depends on.
        for field in [
            Field::InPort,
            Field::RecircId,
            Field::PacketNamespace,
            Field::PacketType,
            Field::EthType,
        ] {
            context.read(field);
        }
        if context.key.is_ip() {
            context.read.ip_frag = FRAG_ANY | FRAG_LATER;
        }
        context.report(TraceKind::Bridge, |context| format!("bridge(\"{}\")", context.switch.name));
        context
    }

    /// Looks the packet up in the rules of the switch that it is in, and does what they say.
    pub(super) fn look_up(&mut self) {
        match lookup(self.switch) {
            RuleActions::Normal => {
                self.report(TraceKind::Table, |_| " 0. priority 0".to_owned());
                self.report(TraceKind::Action, |_| "NORMAL".to_owned());
                self.normal();
            }
            RuleActions::Drop => {
                self.report(TraceKind::Table, |_| " 0. No match.".to_owned());
                self.report(TraceKind::Action, |_| "drop".to_owned());
            }
        }
    }

    /// The same as seen from another rule or switch, which must not go on for ever.
    pub(super) fn look_up_deeper(&mut self) {
        if self.depth >= MAX_DEPTH {
            self.fail(TranslateError::TooDeep);
        } else if self.resubmits >= MAX_RESUBMITS {
            self.fail(TranslateError::TooManyResubmits);
        } else if self.actions.len() > MAX_ACTIONS {
            self.report_error(|_| "resubmits yielded over 64 kB of actions".to_owned());
        } else {
            self.resubmits += 1;
            self.depth += 1;
            self.look_up();
            self.depth -= 1;
        }
    }

    fn fail(&mut self, error: TranslateError) {
        self.report_error(|_| error.to_string());
        self.error = Some(error);
    }

    /// Enters a switch by one of its ports, and comes back.
    pub(super) fn visit(&mut self, switch: &'a SwitchSnapshot, in_port: PortNumber) {
        let key = self.key.clone();
        self.key.tunnel = TunnelKey::default();
        self.clear_conntrack();
        let from = (self.switch, self.in_port);
        (self.switch, self.in_port) = (switch, in_port);
        self.report(TraceKind::Bridge, |context| format!("bridge(\"{}\")", context.switch.name));
        self.look_up_deeper();
        (self.switch, self.in_port) = from;
        self.key = key;
        // What went wrong there is not the fault of this switch.
        self.error = None;
    }

    fn clear_conntrack(&mut self) {
        let key = &mut self.key;
        (key.ct_state, key.ct_proto) = (0, 0);
        key.ct_zone.set(0);
        key.ct_mark.set(0);
        (key.ct_label, key.ct_ipv6_src, key.ct_ipv6_dst) = ([0; 16], [0; 16], [0; 16]);
        key.ct_ipv4_src.set(0);
        key.ct_ipv4_dst.set(0);
        key.ct_tp_src.set(0);
        key.ct_tp_dst.set(0);
    }

    /// The value of a field.
    pub(super) fn read(&mut self, field: Field) -> u128 {
        self.read.set(field, u128::MAX);
        self.key.get(field)
    }

    /// An Ethernet address.
    pub(super) fn read_address(&mut self, field: Field) -> EthernetAddress {
        let [.., a, b, c, d, e, f] = self.read(field).to_be_bytes();
        EthernetAddress([a, b, c, d, e, f])
    }

    /// Notes down that the VLAN of the tag at `place` was looked at, or that there is none.
    pub(super) fn note_vlan(&mut self, place: usize) {
        if self.key.vlans != self.request.key.vlans {
            // The tags were changed, and each may come from any of the packet's.
            return self.note_tags();
        }
        if let Some(read) = self.read.vlans.get_mut(place) {
            read.tci.set(read.tci.get() | vlan::CFI | vlan::VID_MASK);
            read.tpid.set(u16::MAX);
        }
    }

    /// Notes down that every bit of all tags was looked at.
    pub(super) fn note_tags(&mut self) {
        self.read.vlans = [VlanKey { tci: u16::MAX.into(), tpid: u16::MAX.into() }; MAX_VLANS];
    }

    /// The port by which the packet came into the switch.
    pub(super) fn in_port(&self) -> Option<&'a PortSnapshot> {
        self.switch.ports.get(&self.in_port)
    }

    /// Takes note of where the packet shows a station to be; returns whether the switch did not
    /// know it.
    pub(super) fn sight(&mut self, vlan: u16, address: EthernetAddress) -> bool {
        let port = self.in_port;
        let table = &self.switch.mac_table;
        let is_news = self.request.is_packet && table.learn(vlan, address, port);
        self.sightings.push(Sighting { table: Arc::clone(table), vlan, address, port });
        is_news
    }

    /// Adds to the trace, if there is one.
    pub(super) fn report(&mut self, kind: TraceKind, text: impl FnOnce(&Self) -> String) {
        if self.request.trace.is_some() {
            let entry = TraceEntry { kind, depth: self.depth, text: text(self) };
            self.request.trace.iter_mut().for_each(|trace| trace.entries.push(entry.clone()));
        }
    }

    /// Adds a fault to the trace, or else to the log.
    pub(super) fn report_error(&mut self, text: impl FnOnce(&Self) -> String) {
        if self.request.trace.is_some() {
            self.report(TraceKind::Error, text);
        } else if self.request.is_packet {
            let text = text(self);
            warn!(
                target: "ofproto_dpif_xlate",
                limited = true,
                "{text} on bridge {} while processing {}",
                self.switch.name,
                FlowText { key: self.request.key, mask: None, verbose: false, names: None, vlan_limit: MAX_VLANS }
            );
        }
    }

    /// The result.
    pub(super) fn finish(mut self) -> Translation {
        if self.error.is_some() || self.actions.is_empty() {
            let reason = self.error.map_or(0, TranslateError::code);
            self.actions = vec![Action::Drop { reason }];
        }
        let mut read = self.read;
        if !self.request.key.is_ethernet() {
            read.eth_dst = Default::default();
            read.eth_src = Default::default();
        }
        // Of a tag that is not there nothing matters but that.
        let mut is_tagged = self.request.key.is_ethernet();
        for (read, tag) in read.vlans.iter_mut().zip(&self.request.key.vlans) {
            if !is_tagged {
                *read = VlanKey::default();
            } else if tag.tci.get() & vlan::CFI == 0 {
                is_tagged = false;
                read.tpid.set(0);
                read.tci.set(read.tci.get() & (vlan::CFI | vlan::VID_MASK));
            }
        }
        Translation {
            actions: self.actions.into(),
            mask: FlowMask::new(read),
            sightings: self.sightings,
            error: self.error,
        }
    }
}
