//! Sending the packet to controllers, and what gives them reason to want it.

use dpif::action::{Action as DpAction, Userdata, Userspace};
use netdev::wire::ethernet::ether_type;
use netdev::wire::mpls;

use super::TraceKind;
use super::context::Context;
use super::header::{self, entry};
use crate::openflow::action::{Controller, PacketInReason};
use crate::openflow::message::meter_id;
use crate::recirculation::FrozenState;
use crate::rule::Rule;

/// A packet-in that sends the packet whole.
const WHOLE: u16 = u16::MAX;
/// Controllers that have no number of their own.
const DEFAULT_CONTROLLER: u16 = 0;

/// A packet for controllers.
struct PacketIn {
    max_len: u16,
    reason: PacketInReason,
    controller_id: u16,
    userdata: Vec<u8>,
    /// The meter that limits such packets.
    meter: Option<u32>,
}

impl Context<'_> {
    /// Does an output to controllers.
    pub(super) fn output_to_controller(&mut self, max_len: u16, in_bucket: bool) {
        let reason = match self.request.start {
            super::Start::PacketOut { .. } => PacketInReason::PACKET_OUT,
            _ if in_bucket => PacketInReason::GROUP,
            _ if self.is_in_action_set => PacketInReason::ACTION_SET,
            _ => PacketInReason::ACTION,
        };
        self.packet_in(PacketIn {
            max_len,
            reason,
            controller_id: DEFAULT_CONTROLLER,
            userdata: Vec::new(),
            meter: None,
        });
    }

    /// Does a controller action that does not pause.
    pub(super) fn send_to_controller(&mut self, controller: &Controller) {
        self.packet_in(PacketIn {
            max_len: controller.max_len,
            reason: controller.reason,
            controller_id: controller.controller_id,
            userdata: controller.userdata.clone(),
            meter: controller.meter_id,
        });
    }

    fn packet_in(&mut self, packet: PacketIn) {
        self.commit();
        let is_miss = self.rule.as_deref().is_some_and(is_table_miss);
        let reason = match packet.reason {
            PacketInReason::ACTION if is_miss => PacketInReason::EXPLICIT_MISS,
            reason => reason,
        };
        let state = FrozenState { userdata: packet.userdata, ..self.state(self.table) };
        let Some(known) = self.number(state) else { return };
        let userdata = Userdata::Controller {
            reason: reason.0.into(),
            // Who only asks does not want controllers to hear of it.
            dont_send: !self.request.is_packet && self.request.trace.is_some(),
            continuation: false,
            recirc_id: known.id,
            rule_cookie: self.cookie,
            controller_id: packet.controller_id,
            max_len: packet.max_len,
        };
        self.hand_over(userdata, packet.meter);
    }

    /// Hands the packet, as it is now, to a controller that may resume it under number `id`.
    pub(super) fn pause_for_controller(&mut self, pause: &Controller, id: u32) {
        if !self.request.is_packet && self.request.trace.is_some() {
            return;
        }
        let userdata = Userdata::Controller {
            reason: pause.reason.0.into(),
            dont_send: false,
            continuation: true,
            recirc_id: id,
            rule_cookie: self.cookie,
            controller_id: pause.controller_id,
            max_len: pause.max_len,
        };
        self.hand_over(userdata, pause.meter_id);
    }

    /// Hands the packet to userspace, within the limits of a meter of its own or else of that for
    /// all packets to controllers.
    fn hand_over(&mut self, userdata: Userdata, meter: Option<u32>) {
        let action = DpAction::Userspace(Box::new(Userspace {
            pid: 0,
            userdata,
            include_actions: false,
            tunnel_out_port: None,
        }));
        let meters = &self.switch.meters;
        let own = meter.and_then(|id| meters.number(id));
        self.actions.push(match own.or_else(|| meters.number(meter_id::CONTROLLER)) {
            Some(meter) => DpAction::Sample {
                probability: u32::MAX,
                actions: vec![DpAction::Meter(meter), action],
            },
            None => action,
        });
    }

    /// Tells the controllers with these numbers that the time to live is used up.
    fn report_ttl(&mut self, controllers: &[u16]) {
        for &controller_id in controllers {
            let reason = PacketInReason::INVALID_TTL;
            let userdata = Vec::new();
            let meter = None;
            self.packet_in(PacketIn { max_len: WHOLE, reason, controller_id, userdata, meter });
        }
    }

    /// Does a dec_ttl action; returns whether the packet goes no further in this rule.
    pub(super) fn decrement_ttl(&mut self, controllers: &[u16]) -> bool {
        self.read.packet.ip_ttl = u8::MAX;
        self.read.packet.ip_proto = u8::MAX;
        let packet = &mut self.flow.packet;
        if !packet.is_ip() {
            return false;
        }
        if packet.ip_ttl > 1 {
            packet.ip_ttl -= 1;
            return false;
        }
        self.report_ttl(controllers);
        let version = if self.flow.packet.eth_type.get() == ether_type::IPV4 { 4 } else { 6 };
        self.report(TraceKind::Warning, |_| format!("IPv{version} decrement TTL exception"));
        true
    }

    /// The same for the outermost MPLS label.
    pub(super) fn decrement_mpls_ttl(&mut self) -> bool {
        let [entry, ..] = self.flow.packet.mpls;
        if mpls::is_mpls(self.flow.packet.eth_type.get()) {
            let ttl = entry.get() & entry::TTL_MASK;
            let left = if ttl > 1 { ttl - 1 } else { ttl };
            let (flow, read) = (&mut self.flow.packet, &mut self.read.packet);
            header::set_mpls(flow, read, entry::TTL_MASK, left);
            if ttl > 1 {
                return false;
            }
            self.report_ttl(&[DEFAULT_CONTROLLER]);
        }
        self.report(TraceKind::Warning, |_| "MPLS decrement TTL exception".to_owned());
        true
    }

    /// The same for the network service header.
    pub(super) fn decrement_nsh_ttl(&mut self) -> bool {
        if self.flow.packet.eth_type.get() == ether_type::NSH {
            self.read.packet.nsh.ttl = u8::MAX;
            if self.flow.packet.nsh.ttl > 1 {
                self.flow.packet.nsh.ttl -= 1;
                return false;
            }
            self.report_ttl(&[DEFAULT_CONTROLLER]);
        }
        self.report(TraceKind::Warning, |_| "NSH decrement TTL exception".to_owned());
        true
    }
}

/// Whether a rule is that for packets that no other takes (OpenFlow 1.3, section 5.4).
fn is_table_miss(rule: &Rule) -> bool {
    rule.priority == 0 && rule.flow_match.is_empty()
}
