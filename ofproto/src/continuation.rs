//! States in which translation stopped, as controllers get and return them.

use dpif::flow::{FlowKey, Prerequisite};
use netdev::wire::ethernet::ether_type;

use crate::flow::Flow;
use crate::openflow::action::Action;
use crate::openflow::flow_match::{Match, ct_state};
use crate::openflow::message::{Continuation, PacketIn, Remaining};
use crate::openflow::slot::Slot;
use crate::openflow::tlv_map::TlvMap;
use crate::openflow::value::{VALUE_LEN, Value};
use crate::recirculation::{FrozenMetadata, FrozenState, StackValue};
use crate::switches::SwitchId;

/// What a controller needs to return for a packet from port `datapath_port` to go on.
pub fn continuation(state: &FrozenState, datapath_port: u32) -> Continuation {
    Continuation {
        bridge: state.switch.0,
        stack: state.stack.iter().rev().map(stack_bytes).collect(),
        mirrors: state.mirrors,
        conntracked: state.conntracked,
        actions: by_rule(&state.actions),
        action_set: state.action_set.clone(),
        odp_port: datapath_port,
    }
}

/// The state in which a packet that a controller returns is to go on. `tlv` maps the tunnel options
/// of its switch.
pub fn state_of(packet_in: &PacketIn, tlv: &TlvMap) -> FrozenState {
    let Continuation { bridge, stack, mirrors, conntracked, actions, action_set, .. } =
        &packet_in.continuation;
    let actions: Vec<Action> = actions
        .iter()
        .flat_map(|part| {
            let place = Action::Unroll { table: part.table_id, cookie: part.cookie };
            std::iter::once(place).chain(part.actions.iter().cloned())
        })
        .collect();
    FrozenState {
        switch: SwitchId(*bridge),
        table: 0,
        metadata: FrozenMetadata::of(&Flow::of_match(&packet_in.metadata, tlv).0),
        stack: stack.iter().rev().map(|bytes| stack_value(bytes)).collect(),
        mirrors: *mirrors,
        conntracked: *conntracked,
        was_mpls: false,
        entry: None,
        // Without any, translation would go on in the table.
        actions: if actions.is_empty() { vec![Action::Note(Box::default())] } else { actions },
        action_set: action_set.clone(),
        userdata: Vec::new(),
    }
}

fn stack_bytes(value: &StackValue) -> Vec<u8> {
    value.value.to_bytes(value.bytes.into())
}

fn stack_value(bytes: &[u8]) -> StackValue {
    StackValue { bytes: bytes.len().min(VALUE_LEN) as u8, value: Value::from_bytes(bytes) }
}

/// Actions by the rule that they are from.
fn by_rule(actions: &[Action]) -> Vec<Remaining> {
    let mut parts: Vec<Remaining> = vec![];
    for action in actions {
        match (action, parts.last_mut()) {
            (Action::Unroll { table, cookie }, _) => {
                parts.push(Remaining { table_id: *table, cookie: *cookie, actions: vec![] });
            }
            (action, Some(part)) => part.actions.push(action.clone()),
            (action, None) => {
                parts.push(Remaining { table_id: 0, cookie: 0, actions: vec![action.clone()] });
            }
        }
    }
    parts
}

/// What is known of a packet beside its headers, as controllers are told. `tlv` maps its tunnel
/// options.
pub fn packet_metadata(flow: &Flow, tlv: &TlvMap) -> Match {
    let mut mask = Flow::default();
    let packet = &flow.packet;
    mask.in_port.set(u16::MAX);
    mask.registers.as_flattened_mut().fill(u8::MAX);
    mask.metadata.set(u64::MAX);
    mask.packet = metadata_bits(packet);
    mask.tunnel_metadata = flow.tunnel_metadata.all_bits();
    let all = flow.to_match(&mask, tlv);
    let mut shown = Match::new();
    for entry in all.entries() {
        if let Some(index) = entry.slot.tun_metadata_index() {
            // All that one packet has fits.
            let _ = shown.set_tun_metadata(index, &entry.value, &entry.mask, entry.len, false);
        } else if entry.slot == Slot::IN_PORT || !entry.value.is_zero() {
            shown.set(entry.slot, entry.value.low(), entry.mask.low());
        }
    }
    // Registers share a slot with those beside them.
    for slot in (0..crate::openflow::slot::N_XXREGS).map(Slot::xxreg) {
        let value = shown.value(slot);
        let words = (0..4).map(|word| 0xffff_ffff_u128 << (32 * word));
        let mask = words.filter(|word| value & word != 0).fold(0, |mask, word| mask | word);
        shown.set(slot, value, mask);
    }
    if packet.ct_state != 0 {
        shown.set_exact(Slot::ETH_TYPE, packet.eth_type.get().into());
    }
    shown
}

/// The bits of a packet's key that are not from its headers.
fn metadata_bits(packet: &FlowKey) -> FlowKey {
    use dpif::flow::{Field, tunnel_flag};
    let mut bits = FlowKey::default();
    for field in Field::ALL.iter().filter(|field| {
        field.prerequisite() == Prerequisite::Tunnel
            && !matches!(field, Field::TunTos | Field::TunTtl | Field::TunTpSrc | Field::TunTpDst)
    }) {
        bits.set(*field, field.bits());
    }
    // The other flags are none that a match can have.
    bits.tunnel.flags.set(tunnel_flag::OAM);
    let mut show = |fields: &[Field]| fields.iter().for_each(|field| bits.set(*field, u128::MAX));
    show(&[Field::SkbMark, Field::PacketNamespace, Field::PacketType]);
    show(&[Field::CtState, Field::CtZone, Field::CtMark, Field::CtLabel]);
    let state = u32::from(packet.ct_state);
    let is_valid = state & ct_state::TRACKED != 0 && state & ct_state::INVALID == 0;
    if is_valid && packet.ct_proto != 0 {
        match packet.eth_type.get() {
            ether_type::IPV4 => show(&[Field::CtIpv4Src, Field::CtIpv4Dst]),
            ether_type::IPV6 => show(&[Field::CtIpv6Src, Field::CtIpv6Dst]),
            _ => return bits,
        }
        show(&[Field::CtProto, Field::CtTpSrc, Field::CtTpDst]);
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::action::PacketInReason;
    use crate::openflow::port::PortNo;
    use crate::openflow::text::{DEFAULT_PRIORITY, NoNames, parse_match, print_match};
    use crate::port::PortNumber;

    fn state() -> FrozenState {
        let (flow, _) =
            Flow::of_match(&parse_match("in_port=3,reg1=7", &NoNames).unwrap(), &TlvMap::default());
        FrozenState {
            switch: SwitchId([7; 16]),
            table: 0,
            metadata: FrozenMetadata::of(&flow),
            stack: vec![
                StackValue { bytes: 2, value: Value::from(0x102) },
                StackValue { bytes: 4, value: Value::from(0x0304_0506) },
            ],
            mirrors: 5,
            conntracked: true,
            was_mpls: false,
            entry: None,
            actions: vec![
                Action::Unroll { table: 3, cookie: 9 },
                Action::PopVlan { strip: false },
                Action::Unroll { table: 0, cookie: 1 },
                Action::Exit,
            ],
            action_set: vec![Action::DecNshTtl],
            userdata: vec![],
        }
    }

    #[test]
    fn states_come_back_from_controllers() {
        let sent = continuation(
            &FrozenState { entry: Some((SwitchId([7; 16]), PortNumber(3))), ..state() },
            12,
        );
        assert_eq!(
            sent,
            Continuation {
                bridge: [7; 16],
                stack: vec![vec![3, 4, 5, 6], vec![1, 2]],
                mirrors: 5,
                conntracked: true,
                actions: vec![
                    Remaining {
                        table_id: 3,
                        cookie: 9,
                        actions: vec![Action::PopVlan { strip: false }]
                    },
                    Remaining { table_id: 0, cookie: 1, actions: vec![Action::Exit] },
                ],
                action_set: vec![Action::DecNshTtl],
                odp_port: 12,
            }
        );
        let packet_in = PacketIn {
            packet: vec![],
            total_len: 0,
            buffer_id: u32::MAX,
            reason: PacketInReason::ACTION,
            table_id: 0,
            cookie: None,
            metadata: parse_match("in_port=3,reg1=7", &NoNames).unwrap(),
            userdata: vec![],
            continuation: sent,
        };
        assert_eq!(state_of(&packet_in, &TlvMap::default()), state());
    }

    #[test]
    fn controllers_are_told_what_is_not_zero() {
        let text = |flow: &Flow| {
            let mut text = String::new();
            print_match(
                &mut text,
                &packet_metadata(flow, &TlvMap::default()),
                DEFAULT_PRIORITY,
                &NoNames,
            );
            text
        };
        let mut flow = Flow::of_packet(FlowKey::default(), PortNo(0));
        assert_eq!(text(&flow), "in_port=0");
        let fields = parse_match("reg2=0x5,metadata=0x7", &NoNames).unwrap();
        flow.unite(&Flow::of_match(&fields, &TlvMap::default()).0);
        flow.packet.skb_mark.set(3);
        flow.packet.tunnel.id.set(9);
        flow.packet.eth_type.set(ether_type::IPV4);
        flow.packet.ct_state = 0x21;
        flow.packet.ct_proto = 6;
        flow.packet.ct_ipv4_src.set(0x0a00_0001);
        assert_eq!(
            text(&flow),
            "pkt_mark=0x3,ct_state=new|trk,ct_nw_src=10.0.0.1,ct_nw_proto=6,ip,reg2=0x5,\
             tun_id=0x9,metadata=0x7,in_port=0"
        );
    }
}
