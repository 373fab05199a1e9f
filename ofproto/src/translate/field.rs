//! Reading and writing fields of the packet, and noting which bits that takes.

use dpif::flow::{FRAG_LATER, FlowKey};
use netdev::wire::ethernet::ether_type;
use netdev::wire::icmpv6::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use netdev::wire::ip_protocol::{ICMP, ICMPV6, SCTP, TCP, UDP};
use netdev::wire::{mpls, vlan};

use super::TraceKind;
use super::context::Context;
use crate::flow::Flow;
use crate::openflow::action::{Move, SetField, Subfield};
use crate::openflow::field::{Field, Prerequisite};
use crate::openflow::slot::Slot;
use crate::openflow::text::{NoNames, put_subfield, put_value};
use crate::openflow::value::{Value, low_ones};

/// Bits of the connection state of which a packet of a valid connection has one.
const CT_VALID: u8 = 0x01 | 0x02 | 0x08;

/// Whether a field is of the tunnel by which the packet leaves. What is written there need not be
/// looked at: the datapath is told all of it.
pub(super) fn is_of_tunnel(field: Field) -> bool {
    let slot = field.slot();
    (Slot::TUN_ID..=Slot::TUN_GTPU_MSGTYPE).contains(&slot) || slot.tun_metadata_index().is_some()
}

/// Whether a field is of the network layer or above.
pub(super) fn is_above_ethernet(field: Field) -> bool {
    (Slot::MPLS_LSE..=Slot::NSH_TTL).contains(&field.slot())
}

/// Whether a field is not of the packet's headers.
pub(super) fn is_metadata(field: Field) -> bool {
    let slot = field.slot();
    let is_before_headers = slot < Slot::ETH_SRC && !is_of_tunnel(field);
    is_before_headers || slot >= Slot::xxreg(0) || field == Field::TUN_ERSPAN_DIR
}

/// Whether a field's value is kept with the state of a packet that is to be looked up again.
pub(super) fn is_frozen_metadata(field: Field) -> bool {
    let slot = field.slot();
    let is_register = slot >= Slot::xxreg(0);
    is_of_tunnel(field) || is_register || [Slot::METADATA, Slot::IN_PORT].contains(&slot)
}

/// Those bits of a mask that belong to a field.
fn own_bits(field: Field, mask: &Value) -> Value {
    match field {
        Field::IP_DSCP => Value::from(mask.low() & 0xfc),
        // The bit that says that there is a tag counts.
        Field::VLAN_VID => Value::from(mask.low() & 0x1fff),
        _ if field.is_variable() => mask.clone(),
        _ => Value::from(mask.low() & low_ones(field.bits())),
    }
}

/// The bits of its field that a subfield has.
fn mask_of(subfield: &Subfield) -> Value {
    let (bits, offset) = (usize::from(subfield.bits), usize::from(subfield.offset));
    match subfield.field.is_variable() {
        true => Value::ones(bits).shl(offset),
        false => Value::from(low_ones(bits) << offset),
    }
}

/// Whether a packet has a field. The bits that tell it are noted in `read`.
pub(super) fn has_field(flow: &Flow, field: Field, read: &mut Flow) -> bool {
    let (key, read) = (&flow.packet, &mut read.packet);
    let eth_type = key.eth_type.get();
    let is_whole = key.ip_frag & FRAG_LATER == 0;
    let mut has_protocol = |protocol: u8| {
        read.ip_proto = u8::MAX;
        key.ip_proto == protocol
    };
    match field.prerequisite() {
        Prerequisite::None => true,
        Prerequisite::Ethernet => {
            read.packet_namespace.set(u16::MAX);
            read.packet_type.set(u16::MAX);
            key.is_ethernet()
        }
        Prerequisite::Arp => matches!(eth_type, ether_type::ARP | ether_type::RARP),
        Prerequisite::Vlan => {
            let ([tag, _], [read, _]) = (&key.vlans, &mut read.vlans);
            read.tci.set(read.tci.get() | vlan::CFI);
            tag.tci.get() & vlan::CFI != 0
        }
        Prerequisite::Ipv4 => eth_type == ether_type::IPV4,
        Prerequisite::Ipv6 => eth_type == ether_type::IPV6,
        Prerequisite::Ip => key.is_ip(),
        Prerequisite::Nsh => eth_type == ether_type::NSH,
        Prerequisite::Ct => {
            read.ct_state |= CT_VALID;
            key.ct_state & CT_VALID != 0
        }
        Prerequisite::Mpls => mpls::is_mpls(eth_type),
        Prerequisite::Tcp => key.is_ip() && has_protocol(TCP) && is_whole,
        Prerequisite::Udp => key.is_ip() && has_protocol(UDP) && is_whole,
        Prerequisite::Sctp => key.is_ip() && has_protocol(SCTP) && is_whole,
        Prerequisite::Icmpv4 => eth_type == ether_type::IPV4 && has_protocol(ICMP),
        Prerequisite::Icmpv6 => eth_type == ether_type::IPV6 && has_protocol(ICMPV6),
        Prerequisite::Nd => neighbour_discovery(key, read).is_some(),
        Prerequisite::NdSolicit => neighbour_discovery(key, read) == Some(NEIGHBOUR_SOLICITATION),
        Prerequisite::NdAdvert => neighbour_discovery(key, read) == Some(NEIGHBOUR_ADVERTISEMENT),
    }
}

/// The type of the message, if it is of neighbour discovery.
fn neighbour_discovery(key: &FlowKey, read: &mut FlowKey) -> Option<u8> {
    if key.eth_type.get() != ether_type::IPV6 {
        return None;
    }
    read.ip_proto = u8::MAX;
    if key.ip_proto != ICMPV6 {
        return None;
    }
    read.tp_dst.set(u16::MAX);
    if key.tp_dst.get() != 0 {
        return None;
    }
    read.tp_src.set(u16::MAX);
    let kind = key.tp_src.get().try_into().ok()?;
    matches!(kind, NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT).then_some(kind)
}

impl Context<'_> {
    /// Notes down that bits of a field were looked at.
    pub(super) fn note_bits(&mut self, field: Field, mask: &Value) {
        let mask = own_bits(field, mask);
        self.read.note_value(&self.flow, field, &mask, &self.switch.tlv);
    }

    /// Notes down that bits of a field were looked at.
    pub(super) fn note_subfield(&mut self, subfield: &Subfield) {
        self.note_bits(subfield.field, &mask_of(subfield));
    }

    /// Some bits of a field.
    pub(super) fn read_subfield(&mut self, subfield: &Subfield) -> Value {
        self.note_subfield(subfield);
        self.subfield(subfield)
    }

    /// Some bits of a field, without a note of that.
    pub(super) fn subfield(&self, subfield: &Subfield) -> Value {
        self.flow.subfield(subfield, &self.switch.tlv)
    }

    /// Sets bits of a field.
    fn write(&mut self, field: Field, value: &Value, mask: &Value) {
        self.flow.set_value(field, value, &own_bits(field, mask), &self.switch.tlv);
        let [tag, _] = &mut self.flow.packet.vlans;
        if field.slot() == Slot::VLAN_TCI && tag.tpid.get() == 0 && tag.tci.get() != 0 {
            tag.tpid.set(ether_type::VLAN);
        }
    }

    /// Sets some bits of a field, which counts as looking at them.
    pub(super) fn load(&mut self, subfield: &Subfield, value: &Value) {
        if !is_of_tunnel(subfield.field) {
            self.note_subfield(subfield);
        }
        self.put(subfield, value);
    }

    /// Sets some bits of a field, without a note of that.
    pub(super) fn put(&mut self, subfield: &Subfield, value: &Value) {
        let value = value.shl(subfield.offset.into());
        self.write(subfield.field, &value, &mask_of(subfield));
    }

    /// Whether the packet has a field.
    pub(super) fn has_field(&mut self, field: Field) -> bool {
        has_field(&self.flow, field, &mut self.read)
    }

    /// Notes down what tells the packet's protocol before a field of it is changed.
    fn note_protocol_of(&mut self, field: Field) {
        let is_arp = self.flow.packet.eth_type.get() == ether_type::ARP;
        let of_ip = [
            Field::IPV4_SRC,
            Field::IPV4_DST,
            Field::IPV6_SRC,
            Field::IPV6_DST,
            Field::IPV6_LABEL,
            Field::IP_DSCP,
            Field::IP_ECN,
            Field::IP_TTL,
        ];
        let of_arp =
            [Field::ARP_OP, Field::ARP_SHA, Field::ARP_THA, Field::ARP_SPA, Field::ARP_TPA];
        let is_ip = self.flow.packet.is_ip();
        if is_ip && of_ip.contains(&field) || !is_ip && is_arp && of_arp.contains(&field) {
            self.read.packet.ip_proto = u8::MAX;
        }
    }

    /// Does a set-field action.
    pub(super) fn set_field(&mut self, set: &SetField) {
        let field = set.field;
        if !self.has_field(field) {
            let name = field.name();
            return self.report(TraceKind::Warning, |_| {
                format!("unmet prerequisites for {name}, set_field ignored")
            });
        }
        self.note_protocol_of(field);
        if !is_of_tunnel(field) {
            self.note_bits(field, &set.mask);
        }
        self.write(field, &set.value, &set.mask);
    }

    /// Does a move action.
    pub(super) fn move_bits(&mut self, Move { src, dst, .. }: &Move) {
        if self.has_field(dst.field) && self.has_field(src.field) {
            let value = self.read_subfield(src);
            self.load(dst, &value);
        }
        self.report_subfield(dst);
    }

    /// Tells the value of some bits of a field.
    pub(super) fn report_subfield(&mut self, subfield: &Subfield) {
        self.report(TraceKind::Detail, |context| {
            let mut text = String::new();
            put_subfield(&mut text, subfield);
            text += " is now ";
            if subfield.is_whole() {
                let value = context.flow.value(subfield.field, &context.switch.tlv);
                put_value(&mut text, subfield.field, &value, None, &NoNames);
            } else {
                text += &context.subfield(subfield).to_string();
            }
            text
        });
    }
}
