//! Executing actions, one after the other.

use dpif::action::{Action as DpAction, slow_path};
use dpif::flow::FRAG_LATER;
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::vlan;

use super::context::Context;
use super::field::{has_field, is_metadata};
use super::header::{self, DSCP_MASK, entry};
use super::output::Output;
use super::table::Mode;
use super::{TraceKind, vlan as tags};
use crate::flow::Flow;
use crate::openflow::action::Action;
use crate::openflow::text::{alternate_hex, print_actions};
use crate::recirculation::StackValue;

/// Stack left below which actions are executed on a new one: rules may lead from one to the next
/// some thousand times.
const RED_ZONE: usize = 128 << 10;
/// Length of a new stack.
const STACK: usize = 2 << 20;

/// What comes after an action.
enum Next {
    /// The next one. If translation stops, this one is to be executed again.
    Action,
    /// The next one. If translation stops, this one is not to be executed again.
    Following,
    /// The next one. Whoever executed others meanwhile took care of stopping.
    Nested,
    /// Nothing: what is left was executed with it.
    Done,
    /// Nothing more of this list.
    Return,
}

impl Context<'_> {
    /// Executes actions. `is_last` says that nothing follows them, `in_bucket` that they are of a
    /// bucket of a group.
    pub(super) fn do_actions(&mut self, actions: &[Action], is_last: bool, in_bucket: bool) {
        stacker::maybe_grow(RED_ZONE, STACK, || self.do_all(actions, is_last, in_bucket));
    }

    fn do_all(&mut self, actions: &[Action], is_last: bool, in_bucket: bool) {
        if actions.is_empty() {
            return self.report(TraceKind::Action, |_| "drop".to_owned());
        }
        let mut left = actions;
        let mut is_done = false;
        while let Some((action, following)) = left.split_first() {
            if self.error.is_some() {
                break;
            }
            self.freeze_for_mpls(action);
            if self.exit || is_done {
                if self.freezing {
                    self.freeze_actions(left);
                }
                break;
            }
            self.mirror_changed(action);
            self.report(TraceKind::Action, |context| {
                let mut text = String::new();
                print_actions(&mut text, std::slice::from_ref(action), context.names());
                text
            });
            let is_last = is_last && following.is_empty() && self.action_set.is_empty();
            let unfinished = match self.do_action(action, following, is_last, in_bucket) {
                Next::Action => left,
                Next::Following => following,
                Next::Nested => {
                    left = following;
                    continue;
                }
                Next::Done => {
                    is_done = true;
                    left
                }
                Next::Return => return,
            };
            let stops = self.error.is_none() && self.exit && self.freezing;
            if stops && self.frozen_actions.is_empty() {
                self.freeze_actions(unfinished);
                break;
            }
            left = following;
        }
    }

    fn do_action(
        &mut self,
        action: &Action,
        following: &[Action],
        is_last: bool,
        in_bucket: bool,
    ) -> Next {
        let output = Output { is_last, in_bucket, is_cut: false, may_report: false };
        match action {
            Action::Output { port, max_len } => {
                self.output(*port, *max_len, Output { may_report: true, ..output });
            }
            Action::Group(group) if !self.do_group(*group, is_last) => return Next::Return,
            Action::Group(_) => {}
            Action::Controller(controller) if controller.pause => {
                self.pause = Some(controller.clone());
                self.freeze();
                return Next::Following;
            }
            Action::Controller(controller) => self.send_to_controller(controller),
            Action::Enqueue { port, queue } => self.enqueue(*port, *queue, output),
            Action::OutputField { src, max_len, .. } => self.output_field(src, *max_len, output),
            Action::OutputTrunc { port, max_len } => self.output_cut(*port, *max_len, output),
            Action::Bundle(bundle) => self.do_bundle(bundle, output),
            Action::SetField(set) => self.set_field(set),
            Action::SetVlanVid { vid, push_if_needed, .. } => {
                self.set_tag(vlan::VID_MASK, *vid, *push_if_needed);
            }
            Action::SetVlanPcp { pcp, push_if_needed, .. } => {
                let pcp = u16::from(*pcp) << vlan::PCP_SHIFT;
                self.set_tag(tags::PRIORITY_MASK, pcp, *push_if_needed);
            }
            Action::PopVlan { .. } => {
                header::pop_vlan(&mut self.flow.packet, &mut self.read.packet);
            }
            Action::PushVlan(tpid) => {
                header::push_vlan(&mut self.flow.packet, &mut self.read.packet, *tpid);
            }
            Action::SetEthSrc(_)
            | Action::SetEthDst(_)
            | Action::SetIpv4Src(_)
            | Action::SetIpv4Dst(_)
            | Action::SetIpDscp(_)
            | Action::SetIpEcn(_)
            | Action::SetIpTtl(_)
            | Action::SetTransportSrc { .. }
            | Action::SetTransportDst { .. } => self.set_header(action),
            Action::Move(copy) => self.move_bits(copy),
            Action::Push(subfield) => {
                let value = self.read_subfield(subfield);
                let bytes = subfield.bits.div_ceil(8) as u8;
                self.stack.push(StackValue { bytes, value });
            }
            Action::Pop(subfield) => match self.stack.pop() {
                Some(StackValue { value, .. }) => {
                    self.load(subfield, &value);
                    self.report_subfield(subfield);
                }
                None => self.report_error(|_| "stack underflow".to_owned()),
            },
            Action::DecTtl(controllers) => {
                if self.decrement_ttl(controllers.as_deref().unwrap_or(&[0])) {
                    return Next::Return;
                }
            }
            Action::SetMplsLabel(label) => {
                self.set_label(entry::LABEL_MASK, label << entry::LABEL_SHIFT);
            }
            Action::SetMplsTc(class) => {
                self.set_label(entry::CLASS_MASK, u32::from(*class) << entry::CLASS_SHIFT);
            }
            Action::SetMplsTtl(ttl) => self.set_label(entry::TTL_MASK, u32::from(*ttl)),
            Action::DecMplsTtl => {
                if self.decrement_mpls_ttl() {
                    return Next::Return;
                }
            }
            Action::PushMpls(eth_type) => self.push_mpls(*eth_type),
            Action::PopMpls(eth_type) => self.pop_mpls(*eth_type),
            Action::DecNshTtl => {
                if self.decrement_nsh_ttl() {
                    return Next::Return;
                }
            }
            Action::DeleteField { field, .. } => {
                if let Some(index) = field.slot().tun_metadata_index() {
                    self.flow.tunnel_metadata.remove(index);
                }
                self.report(TraceKind::Detail, |_| format!("delete {}", field.name()));
            }
            Action::Encap(encap) => self.encapsulate(encap),
            Action::Decap(packet_type) => {
                if self.decapsulate(*packet_type) && self.error.is_none() {
                    // What is inside has to be found out.
                    self.freeze();
                    return Next::Following;
                }
            }
            Action::SetTunnel { id, .. } => self.flow.packet.tunnel.id.set(*id),
            Action::SetQueue(queue) => {
                self.read.packet.skb_priority.set(u32::MAX);
                self.flow.packet.skb_priority.set(*queue);
            }
            Action::PopQueue => {
                self.read.packet.skb_priority.set(u32::MAX);
                if self.flow.packet.skb_priority.get() != self.original_priority {
                    let priority = self.original_priority;
                    self.flow.packet.skb_priority.set(priority);
                    self.report(TraceKind::Detail, |_| format!("queue = {priority:#x}"));
                }
            }
            Action::FinTimeout { idle, hard } => {
                self.read.packet.ip_proto = u8::MAX;
                self.shorten_timeouts(*idle, *hard);
            }
            // Stopping complicates what leads to other rules: one of those may stop, and then
            // this is not to be done again.
            Action::Resubmit { in_port, table, with_ct, .. } => {
                self.resubmit(*in_port, *table, *with_ct, is_last);
                return Next::Nested;
            }
            Action::GotoTable(table) => {
                self.enter_table(*table, true, Mode::Packet, is_last);
                return Next::Nested;
            }
            Action::Learn(learn) => self.learn(learn),
            Action::Conjunction { .. } => {
                self.report_error(|_| "executing no-op conjunction action".to_owned());
            }
            Action::Multipath(multipath) => self.do_multipath(multipath),
            Action::Note(_) => {}
            Action::Exit => self.exit = true,
            // There are no collectors of samples.
            Action::Sample(_) => {}
            Action::Ct(ct) => self.track(ct, is_last),
            Action::CtClear if self.conntracked => self.forget_connection(),
            Action::CtClear => {}
            Action::Nat(nat) => self.nat = Some(**nat),
            Action::Clone(actions) => self.do_on_copy(actions, is_last),
            Action::CheckPktLarger { len, dst } if !self.features().check_pkt_len => {
                self.check_own_length(*len, dst);
            }
            Action::CheckPktLarger { len, dst } => {
                self.check_length(*len, dst, following);
                return Next::Done;
            }
            Action::DebugRecirc => {
                self.freeze();
                return Next::Following;
            }
            Action::DebugSlow => self.slow |= slow_path::ACTION,
            Action::Meter(id) => {
                // A meter that is not there lets all packets pass.
                let meter = self.switch.meters.number(*id);
                self.actions.extend(meter.map(DpAction::Meter));
            }
            Action::ClearActions => self.clear_action_set(),
            Action::WriteActions(actions) => {
                self.add_to_action_set(actions);
                self.report_action_set("is");
            }
            Action::WriteMetadata { metadata, mask } => {
                let old = self.flow.metadata.get();
                self.flow.metadata.set(old & !mask | metadata & mask);
            }
            Action::Unroll { table, cookie } => {
                (self.table, self.cookie) = (*table, *cookie);
                self.report(TraceKind::Thaw, |_| {
                    format!("restored state: table={table}, cookie={}", alternate_hex(*cookie))
                });
            }
        }
        Next::Action
    }

    /// Sets bits of the outermost VLAN tag.
    fn set_tag(&mut self, mask: u16, value: u16, push_if_needed: bool) {
        let ([tag, _], [read, _]) = (&mut self.flow.packet.vlans, &mut self.read.packet.vlans);
        read.tci.set(read.tci.get() | mask | vlan::CFI);
        let old = tag.tci.get();
        if old & vlan::CFI != 0 || push_if_needed {
            if tag.tpid.get() == 0 {
                tag.tpid.set(ether_type::VLAN);
            }
            tag.tci.set(old & !mask | value | vlan::CFI);
        }
    }

    /// Sets bits of the outermost label, if there is one.
    fn set_label(&mut self, mask: u32, value: u32) {
        header::set_mpls(&mut self.flow.packet, &mut self.read.packet, mask, value);
    }

    /// Does those of the actions of OpenFlow 1.0 that set a field of the packet's headers.
    fn set_header(&mut self, action: &Action) {
        let (flow, read) = (&mut self.flow.packet, &mut self.read.packet);
        let is_ipv4 = flow.eth_type.get() == ether_type::IPV4;
        let is_ip = flow.is_ip();
        let has_ports = is_ip && flow.ip_frag & FRAG_LATER == 0;
        match action {
            Action::SetEthSrc(address) => {
                read.eth_src = MacAddress([u8::MAX; 6]);
                flow.eth_src = MacAddress(*address);
                return;
            }
            Action::SetEthDst(address) => {
                read.eth_dst = MacAddress([u8::MAX; 6]);
                flow.eth_dst = MacAddress(*address);
                return;
            }
            Action::SetIpv4Src(address) if is_ipv4 => {
                read.ipv4_src.set(u32::MAX);
                flow.ipv4_src.set((*address).into());
            }
            Action::SetIpv4Dst(address) if is_ipv4 => {
                read.ipv4_dst.set(u32::MAX);
                flow.ipv4_dst.set((*address).into());
            }
            Action::SetIpDscp(dscp) if is_ip => {
                read.ip_tos |= DSCP_MASK;
                flow.ip_tos = flow.ip_tos & !DSCP_MASK | dscp & DSCP_MASK;
            }
            Action::SetIpEcn(ecn) if is_ip => {
                read.ip_tos |= !DSCP_MASK;
                flow.ip_tos = flow.ip_tos & DSCP_MASK | ecn & !DSCP_MASK;
            }
            Action::SetIpTtl(ttl) if is_ip => {
                read.ip_ttl = u8::MAX;
                flow.ip_ttl = *ttl;
            }
            Action::SetTransportSrc { port, .. } if has_ports => {
                read.tp_src.set(u16::MAX);
                flow.tp_src.set(*port);
            }
            Action::SetTransportDst { port, .. } if has_ports => {
                read.tp_dst.set(u16::MAX);
                flow.tp_dst.set(*port);
            }
            _ => return,
        }
        read.ip_proto = u8::MAX;
    }

    /// Lets mirrors have the packet again if an action changes it.
    fn mirror_changed(&mut self, action: &Action) {
        if self.mirrors == 0 {
            return;
        }
        let key = &self.flow.packet;
        let changes = match action {
            Action::PopVlan { .. }
            | Action::PushVlan(_)
            | Action::SetEthSrc(_)
            | Action::SetEthDst(_)
            | Action::PushMpls(_)
            | Action::PopMpls(_)
            | Action::SetMplsLabel(_)
            | Action::SetMplsTc(_)
            | Action::SetMplsTtl(_)
            | Action::DecMplsTtl
            | Action::DecNshTtl
            | Action::DecTtl(_)
            | Action::SetVlanVid { .. }
            | Action::SetVlanPcp { .. }
            | Action::Encap(_)
            | Action::Decap(_)
            | Action::Nat(_) => true,
            Action::SetField(set) => {
                !is_metadata(set.field) && has_field(&self.flow, set.field, &mut Flow::default())
            }
            Action::SetIpv4Src(_) | Action::SetIpv4Dst(_) => key.eth_type.get() == ether_type::IPV4,
            Action::SetIpDscp(_) | Action::SetIpEcn(_) | Action::SetIpTtl(_) => key.is_ip(),
            Action::SetTransportSrc { .. } | Action::SetTransportDst { .. } => {
                key.is_ip() && key.ip_frag & FRAG_LATER == 0
            }
            _ => false,
        };
        if changes {
            self.mirrors = 0;
        }
    }
}
