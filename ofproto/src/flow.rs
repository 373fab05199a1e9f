//! A packet as OpenFlow tables see it: the fields of its headers, and what tables note down while
//! they process it.
//!
//! A [`Flow`] holds values or, as a mask, the bits of them that matter. All is in network byte
//! order, at fixed places, so that tables can mask, compare and hash it as words.

use std::mem::offset_of;
use std::ops::Range;

use dpif::flow::FlowKey;
use netdev::wire::geneve::MAX_OPTIONS;
use netdev::wire::vlan;
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref,
};

use crate::openflow::action::Subfield;
use crate::openflow::field::Field;
use crate::openflow::flow_match::Match;
use crate::openflow::port::PortNo;
use crate::openflow::slot::Slot;
use crate::openflow::tlv_map::{TlvMap, TunnelMetadata};
use crate::openflow::value::{Value, low_ones};
use crate::tunnel::{InvalidOptions, metadata_of};

/// Words of a flow.
pub const FLOW_WORDS: usize = 128;
/// Number of 128-bit registers; each is four of 32 bits.
const N_XXREGS: usize = crate::openflow::slot::N_XXREGS as usize;

/// Registers, most significant byte first.
pub type Registers = [[u8; 16]; N_XXREGS];

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct Flow {
    /// The packet. Its `in_port` is the port of the datapath on which it came.
    pub packet: FlowKey,
    /// Registers, most significant byte first; the first of the four in each comes first.
    pub registers: Registers,
    /// OpenFlow metadata.
    pub metadata: U64,
    /// The conjunction that was met.
    pub conj_id: U32,
    /// The port of the switch on which the packet came, as OpenFlow 1.0 writes it.
    pub in_port: U16,
    /// The port to which the action set sends the packet.
    pub actset_output: U16,
    /// Tunnel options that are mapped to fields.
    pub tunnel_metadata: TunnelMetadata,
    reserved: [u8; 40],
}

const _: () = assert!(size_of::<Flow>() == FLOW_WORDS * size_of::<u64>());

impl Default for Flow {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Flow")
            .field("packet", &self.packet)
            .field("registers", &self.registers)
            .field("metadata", &self.metadata.get())
            .field("conj_id", &self.conj_id.get())
            .field("in_port", &self.in_port.get())
            .field("actset_output", &self.actset_output.get())
            .field("tunnel_metadata", &self.tunnel_metadata)
            .finish()
    }
}

/// Where a flow has what a match calls a slot.
enum Place {
    /// These bytes.
    Bytes(Range<usize>),
    /// Name space and type, which are apart from each other.
    PacketType,
    /// Nowhere that is the same for all switches: mapped tunnel options.
    None,
}

/// Where the `slot` of a match is; neighbour discovery keeps the type of an option in another
/// place than TCP its flags.
fn place(slot: Slot, is_neighbour_discovery: bool) -> Place {
    macro_rules! packet {
        ($($field:ident).+) => {
            Place::Bytes(bytes_of(
                offset_of!(Flow, packet) + offset_of!(FlowKey, $($field).+),
                slot.bytes(),
            ))
        };
    }
    macro_rules! own {
        ($field:ident) => {
            Place::Bytes(bytes_of(offset_of!(Flow, $field), slot.bytes()))
        };
    }
    match slot {
        Slot::PACKET_TYPE => Place::PacketType,
        Slot::DP_HASH => packet!(dp_hash),
        Slot::RECIRC_ID => packet!(recirc_id),
        Slot::CONJ_ID => own!(conj_id),
        Slot::IN_PORT => own!(in_port),
        Slot::ACTSET_OUTPUT => own!(actset_output),
        Slot::SKB_PRIORITY => packet!(skb_priority),
        Slot::TUN_ID => packet!(tunnel.id),
        Slot::TUN_SRC => packet!(tunnel.ipv4_src),
        Slot::TUN_DST => packet!(tunnel.ipv4_dst),
        Slot::TUN_IPV6_SRC => packet!(tunnel.ipv6_src),
        Slot::TUN_IPV6_DST => packet!(tunnel.ipv6_dst),
        Slot::TUN_FLAGS => packet!(tunnel.flags),
        Slot::TUN_TTL => packet!(tunnel.ttl),
        Slot::TUN_TOS => packet!(tunnel.tos),
        Slot::TUN_GBP_ID => packet!(tunnel.gbp_id),
        Slot::TUN_GBP_FLAGS => packet!(tunnel.gbp_flags),
        Slot::TUN_ERSPAN_IDX => packet!(tunnel.erspan_index),
        Slot::TUN_ERSPAN_VER => packet!(tunnel.erspan_version),
        Slot::TUN_ERSPAN_DIR => packet!(tunnel.erspan_dir),
        Slot::TUN_ERSPAN_HWID => packet!(tunnel.erspan_hwid),
        Slot::TUN_GTPU_FLAGS => packet!(tunnel.gtpu_flags),
        Slot::TUN_GTPU_MSGTYPE => packet!(tunnel.gtpu_message_type),
        Slot::METADATA => own!(metadata),
        Slot::PKT_MARK => packet!(skb_mark),
        // Four bytes in matches, of which packets have the last.
        Slot::CT_STATE => {
            Place::Bytes(bytes_of(offset_of!(Flow, packet) + offset_of!(FlowKey, ct_state), 1))
        }
        Slot::CT_ZONE => packet!(ct_zone),
        Slot::CT_MARK => packet!(ct_mark),
        Slot::CT_LABEL => packet!(ct_label),
        Slot::CT_NW_PROTO => packet!(ct_proto),
        Slot::CT_NW_SRC => packet!(ct_ipv4_src),
        Slot::CT_NW_DST => packet!(ct_ipv4_dst),
        Slot::CT_IPV6_SRC => packet!(ct_ipv6_src),
        Slot::CT_IPV6_DST => packet!(ct_ipv6_dst),
        Slot::CT_TP_SRC => packet!(ct_tp_src),
        Slot::CT_TP_DST => packet!(ct_tp_dst),
        Slot::ETH_SRC => packet!(eth_src),
        Slot::ETH_DST => packet!(eth_dst),
        Slot::ETH_TYPE => packet!(eth_type),
        // Control information comes first in the outermost tag.
        Slot::VLAN_TCI => packet!(vlans),
        Slot::MPLS_LSE => packet!(mpls),
        Slot::NW_SRC => packet!(ipv4_src),
        Slot::NW_DST => packet!(ipv4_dst),
        Slot::IPV6_SRC => packet!(ipv6_src),
        Slot::IPV6_DST => packet!(ipv6_dst),
        Slot::IPV6_LABEL => packet!(ipv6_label),
        Slot::NW_PROTO => packet!(ip_proto),
        Slot::NW_TOS => packet!(ip_tos),
        Slot::NW_TTL => packet!(ip_ttl),
        Slot::NW_FRAG => packet!(ip_frag),
        Slot::ARP_SHA => packet!(arp_sha),
        Slot::ARP_THA => packet!(arp_tha),
        Slot::TP_SRC => packet!(tp_src),
        Slot::TP_DST => packet!(tp_dst),
        Slot::TCP_FLAGS if is_neighbour_discovery => {
            Place::Bytes(bytes_of(offset_of!(Flow, packet) + offset_of!(FlowKey, nd_option), 1))
        }
        Slot::TCP_FLAGS => packet!(tcp_flags),
        Slot::ND_TARGET => packet!(nd_target),
        Slot::ND_RESERVED => packet!(igmp_group),
        Slot::NSH_FLAGS => packet!(nsh.flags),
        Slot::NSH_MDTYPE => packet!(nsh.md_type),
        Slot::NSH_NP => packet!(nsh.next_protocol),
        Slot::NSH_PATH => packet!(nsh.path),
        Slot::NSH_C1 => nsh_context(0),
        Slot::NSH_C2 => nsh_context(1),
        Slot::NSH_C3 => nsh_context(2),
        Slot::NSH_C4 => nsh_context(3),
        Slot::NSH_TTL => packet!(nsh.ttl),
        _ => match (0..N_XXREGS as u8).find(|&index| slot == Slot::xxreg(index)) {
            Some(index) => Place::Bytes(bytes_of(
                offset_of!(Flow, registers) + 16 * usize::from(index),
                slot.bytes(),
            )),
            None => Place::None,
        },
    }
}

fn nsh_context(index: usize) -> Place {
    Place::Bytes(bytes_of(
        offset_of!(Flow, packet) + offset_of!(FlowKey, nsh.context) + 4 * index,
        4,
    ))
}

fn bytes_of(start: usize, length: usize) -> Range<usize> {
    start..start + length
}

impl Flow {
    /// The flow of a packet that came on port `in_port` of a switch.
    pub fn of_packet(packet: FlowKey, in_port: PortNo) -> Self {
        Self {
            packet,
            in_port: in_port.0.into(),
            actset_output: PortNo::UNSET.0.into(),
            ..Self::default()
        }
    }

    /// The flow as words.
    #[inline]
    pub fn words(&self) -> &[u64; FLOW_WORDS] {
        transmute_ref!(self)
    }

    /// The flow as words, for changing it.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64; FLOW_WORDS] {
        transmute_mut!(self)
    }

    /// Value and mask that a match stands for. Tunnel options are where `tlv` maps them.
    pub fn of_match(flow_match: &Match, tlv: &TlvMap) -> (Self, Self) {
        let is_neighbour_discovery = flow_match.is_neighbor_discovery();
        let (mut value, mut mask) = (Self::default(), Self::default());
        for (slot, bits, bit_mask) in flow_match.numbers() {
            value.set_slot(slot, is_neighbour_discovery, bits);
            mask.set_slot(slot, is_neighbour_discovery, bit_mask);
        }
        for entry in flow_match.tunnel_metadata() {
            if let Some(index) = entry.slot.tun_metadata_index()
                && let Some(option) = tlv.get(index)
            {
                value.tunnel_metadata.set(index, option, &entry.value, &entry.mask);
                mask.tunnel_metadata.set(index, option, &entry.mask, &entry.mask);
            }
        }
        (value, mask)
    }

    /// The match for packets that are like this one in every bit of `mask`. Headers behind the
    /// outermost of their kind are left out. Tunnel options are where `tlv` maps them.
    pub fn to_match(&self, mask: &Flow, tlv: &TlvMap) -> Match {
        let is_neighbour_discovery = self.is_neighbour_discovery();
        let mut flow_match = Match::new();
        for slot in Slot::fixed() {
            let value = self.slot(slot, is_neighbour_discovery);
            flow_match.set(slot, value, mask.slot(slot, is_neighbour_discovery));
        }
        for (index, option) in tlv.iter().filter(|(index, _)| mask.tunnel_metadata.has(*index)) {
            if !self.tunnel_metadata.has(index) {
                flow_match.set_tun_metadata_absent(index);
                continue;
            }
            let bytes = option.bytes();
            let value = self.tunnel_metadata.value(option);
            let mask = mask.tunnel_metadata.value(option);
            let is_masked = bytes == 0 || !mask.is_ones(8 * bytes);
            // All fields of a map have room in a match.
            let _ = flow_match.set_tun_metadata(index, &value, &mask, bytes, is_masked);
        }
        flow_match
    }

    /// Where a field that takes whole bytes is.
    pub(crate) fn field_bytes(field: Field) -> Option<Range<usize>> {
        match place(field.slot(), false) {
            Place::Bytes(range) => Some(range),
            Place::PacketType | Place::None => None,
        }
    }

    /// Whether the packet is neighbour discovery, which has some fields where others have others.
    pub fn is_neighbour_discovery(&self) -> bool {
        dpif::flow::Prerequisite::Neighbour.holds(&self.packet)
    }

    fn slot(&self, slot: Slot, is_neighbour_discovery: bool) -> u128 {
        match place(slot, is_neighbour_discovery) {
            Place::Bytes(range) => {
                let bytes = self.as_bytes().get(range).unwrap_or(&[]);
                bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
            }
            Place::PacketType => {
                let packet = &self.packet;
                u128::from(packet.packet_namespace.get()) << 16
                    | u128::from(packet.packet_type.get())
            }
            Place::None => 0,
        }
    }

    fn set_slot(&mut self, slot: Slot, is_neighbour_discovery: bool, value: u128) {
        match place(slot, is_neighbour_discovery) {
            Place::Bytes(range) => {
                let bytes = self.as_mut_bytes().get_mut(range).unwrap_or(&mut []);
                for (byte, value) in bytes.iter_mut().rev().zip(value.to_le_bytes()) {
                    *byte = value;
                }
            }
            Place::PacketType => {
                self.packet.packet_namespace.set((value >> 16) as u16);
                self.packet.packet_type.set(value as u16);
            }
            Place::None => {}
        }
    }

    /// The bits of a field, as the field's own bytes. For ports of 32 bits see
    /// [`PortNo::to_u32`].
    pub fn field(&self, field: Field) -> u128 {
        let slot = self.slot(field.slot(), self.is_neighbour_discovery());
        let bits = slot >> field.offset();
        match field {
            Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => PortNo(slot as u16).to_u32().into(),
            Field::DL_VLAN => bits & 0xfff,
            Field::VLAN_VID => bits & 0x1fff,
            Field::IP_DSCP => slot & 0xfc,
            _ => bits & low_ones(field.bits()),
        }
    }

    /// Sets the bits of a field that `mask` has. Setting a VLAN makes the tag one that is there.
    pub fn set_field(&mut self, field: Field, value: u128, mask: u128) {
        let is_neighbour_discovery = self.is_neighbour_discovery();
        let slot = field.slot();
        let old = self.slot(slot, is_neighbour_discovery);
        let (value, mask) = match field {
            Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => {
                let port = PortNo::from_u32(value as u32).unwrap_or(PortNo::NONE);
                (u128::from(port.0), 0xffff)
            }
            Field::DL_VLAN => {
                let cfi = u128::from(vlan::CFI);
                (value & 0xfff | cfi, mask & 0xfff | cfi)
            }
            Field::DL_VLAN_PCP | Field::VLAN_PCP => {
                let cfi = u128::from(vlan::CFI);
                (value << field.offset() | cfi, mask << field.offset() | cfi)
            }
            _ => (value << field.offset(), mask << field.offset()),
        };
        self.set_slot(slot, is_neighbour_discovery, old & !mask | value & mask);
    }

    /// Sets the bits that tell the value of a field, in a mask for packets like `flow`.
    pub fn note_field(&mut self, flow: &Flow, field: Field, mask: u128) {
        let is_neighbour_discovery = flow.is_neighbour_discovery();
        let slot = field.slot();
        let bits = match field {
            Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => 0xffff,
            Field::DL_VLAN_PCP | Field::VLAN_PCP => mask << field.offset() | u128::from(vlan::CFI),
            Field::DL_VLAN => mask & 0xfff | u128::from(vlan::CFI),
            _ => mask << field.offset(),
        };
        let old = self.slot(slot, is_neighbour_discovery);
        self.set_slot(slot, is_neighbour_discovery, old | bits);
    }

    /// What the value of a field is, also of one for a tunnel option, which `tlv` maps.
    pub fn value(&self, field: Field, tlv: &TlvMap) -> Value {
        match field.slot().tun_metadata_index() {
            Some(index) => match tlv.get(index) {
                Some(option) => self.tunnel_metadata.value(option),
                None => Value::ZERO,
            },
            None => Value::from(self.field(field)),
        }
    }

    /// As [`set_field`](Self::set_field), also for tunnel options, as far as `tlv` maps them.
    pub fn set_value(&mut self, field: Field, value: &Value, mask: &Value, tlv: &TlvMap) {
        match field.slot().tun_metadata_index() {
            Some(index) => {
                if let Some(option) = tlv.get(index) {
                    self.tunnel_metadata.set(index, option, value, mask);
                }
            }
            None => self.set_field(field, value.low(), mask.low()),
        }
    }

    /// As [`note_field`](Self::note_field), also for tunnel options.
    pub fn note_value(&mut self, flow: &Flow, field: Field, mask: &Value, tlv: &TlvMap) {
        match field.is_variable() {
            true => self.set_value(field, mask, mask, tlv),
            false => self.note_field(flow, field, mask.low()),
        }
    }

    /// Some bits of a field.
    pub fn subfield(&self, subfield: &Subfield, tlv: &TlvMap) -> Value {
        let (offset, bits) = (usize::from(subfield.offset), usize::from(subfield.bits));
        match subfield.field.is_variable() {
            true => self.value(subfield.field, tlv).shr(offset).and(&Value::ones(bits)),
            false => Value::from(self.field(subfield.field) >> offset & low_ones(bits)),
        }
    }

    /// Makes fields of the packet's tunnel options, those that `tlv` maps, and forgets the others.
    ///
    /// # Errors
    /// When an option is cut short, longer or shorter than mapped, or not mapped but critical.
    pub fn map_options(&mut self, tlv: &TlvMap) -> Result<(), InvalidOptions> {
        let tunnel = &mut self.packet.tunnel;
        self.tunnel_metadata = metadata_of(tunnel.used_options(), tlv)?;
        (tunnel.options_length, tunnel.options) = (0, [0; MAX_OPTIONS]);
        Ok(())
    }

    /// Whether the packet is like `value` in every bit of `mask`.
    pub fn matches(&self, value: &Flow, mask: &Flow) -> bool {
        let words = self.words().iter().zip(value.words()).zip(mask.words());
        words.into_iter().all(|((own, value), mask)| (own ^ value) & mask == 0)
    }

    /// Adds the bits of `other`, for masks.
    pub fn unite(&mut self, other: &Flow) {
        for (own, other) in self.words_mut().iter_mut().zip(other.words()) {
            *own |= other;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_reads_back() {
        for field in Field::all().filter(|field| !field.is_variable()) {
            let mut flow = Flow::default();
            if matches!(field, Field::ND_OPTIONS_TYPE) {
                flow.packet.eth_type.set(0x86dd);
                flow.packet.ip_proto = 58;
                flow.packet.tp_src.set(135);
            }
            let value = match field {
                Field::IN_PORT_OXM | Field::ACTSET_OUTPUT => 7,
                Field::IP_DSCP => 0xa4,
                Field::CT_STATE | Field::ARP_OP => 0xa5,
                Field::TUN_FLAGS => 1,
                Field::VLAN_TCI => 0x7abc,
                _ => 0x5aa5_a55a_0f0f_f0f0_1234_5678_9abc_def1 & low_ones(field.bits()),
            };
            flow.set_field(field, value, low_ones(field.bytes() * 8));
            assert_eq!(flow.field(field), value, "{field:?}");
        }
    }

    #[test]
    fn matches_are_values_under_masks() {
        let mut flow_match = Match::new();
        flow_match.set_exact(Slot::ETH_TYPE, 0x0800);
        flow_match.set(Slot::NW_DST, 0x0a00_0000, 0xff00_0000);
        flow_match.set(Slot::xxreg(0), 7 << 96, 0xffff_ffff << 96);
        let (value, mask) = Flow::of_match(&flow_match, &TlvMap::default());
        let mut flow = Flow::of_packet(FlowKey::default(), PortNo(1));
        flow.packet.eth_type.set(0x0800);
        flow.packet.ipv4_dst.set(0x0a01_0203);
        assert!(!flow.matches(&value, &mask));
        flow.set_field(Field::reg(0), 7, u128::MAX);
        assert!(flow.matches(&value, &mask));
        flow.packet.ipv4_dst.set(0x0b01_0203);
        assert!(!flow.matches(&value, &mask));
    }
}
