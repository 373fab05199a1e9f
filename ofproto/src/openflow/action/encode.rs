//! Encoding of actions.

use bytes::BufMut;

use super::super::oxm;
use super::super::property;
use super::super::slot::TUN_METADATA_LEN;
use super::super::value::low_ones;
use super::super::version::Version;
use super::connection::{offset_and_bits, put_ct, put_nat};
use super::decode::controller_property;
use super::header_stack::{put_decap, put_encap};
use super::instruction::put_as_instruction;
use super::learn::put_learn;
use super::raw::{self, Raw};
use super::*;

/// The field `in_port` as the members of a bundle action name it.
const MEMBER_IN_PORT: u32 = 2;

/// Appends actions in the encoding of `version`. Where a version has no such action Open vSwitch's
/// substitute is written, or nothing.
pub(crate) fn put_actions(out: &mut Vec<u8>, actions: &[Action], version: Version) {
    actions.iter().for_each(|action| put(out, version, action));
}

/// The extensible-match header of a field without a value, in the form for `version`.
pub(super) fn put_header(out: &mut Vec<u8>, subfield: &Subfield, version: Option<Version>) {
    if let Some(header) = subfield.field.oxm_header(version, false, usize::from(subfield.bytes)) {
        header.put(out);
    }
}

/// The 32-bit header of a field, 0 for a field that has a longer one only.
pub(super) fn short_header(subfield: &Subfield) -> u32 {
    let mut bytes = Vec::new();
    put_header(&mut bytes, subfield, None);
    bytes.first_chunk::<4>().filter(|_| bytes.len() == 4).map_or(0, |b| u32::from_be_bytes(*b))
}

fn put(out: &mut Vec<u8>, version: Version, action: &Action) {
    let number = |out: &mut Vec<u8>, raw, bytes, number: u64| {
        raw::put_number(out, version, raw, bytes, number);
    };
    let plain = |out: &mut Vec<u8>, raw| raw::put(out, version, raw, &[]);
    let old = version < Version::V12;
    match action {
        Action::Output { port, max_len } => put_output(out, version, *port, *max_len),
        Action::Group(group) => number(out, Raw::Group, 4, u64::from(*group)),
        Action::Controller(controller) => put_controller(out, version, controller),
        Action::Enqueue { port, queue } => put_enqueue(out, version, *port, *queue),
        Action::OutputField { src, max_len, long_header } => {
            put_output_field(out, version, src, *max_len, *long_header);
        }
        Action::Bundle(bundle) => put_bundle(out, version, bundle),
        Action::SetField(set) => put_set_field(out, version, set),
        Action::SetVlanVid { vid, push_if_needed, flow_has_vlan } => {
            put_missing_vlan(out, version, *push_if_needed && !flow_has_vlan);
            match version {
                Version::V10 => number(out, Raw::SetVlanVid10, 2, u64::from(*vid)),
                Version::V11 => number(out, Raw::SetVlanVid11, 2, u64::from(*vid)),
                _ => put_whole(out, version, Field::VLAN_VID, u128::from(vid | 0x1000)),
            }
        }
        Action::SetVlanPcp { pcp, push_if_needed, flow_has_vlan } => {
            put_missing_vlan(out, version, *push_if_needed && !flow_has_vlan);
            match version {
                Version::V10 => number(out, Raw::SetVlanPcp10, 1, u64::from(*pcp)),
                Version::V11 => number(out, Raw::SetVlanPcp11, 1, u64::from(*pcp)),
                _ => put_whole(out, version, Field::VLAN_PCP, u128::from(*pcp)),
            }
        }
        Action::PopVlan { .. } if version == Version::V10 => plain(out, Raw::StripVlan),
        Action::PopVlan { .. } => plain(out, Raw::PopVlan),
        // In OpenFlow 1.0 the action that sets the tag's contents adds the tag.
        Action::PushVlan(_) if version == Version::V10 => {}
        Action::PushVlan(kind) => number(out, Raw::PushVlan, 2, u64::from(*kind)),
        Action::SetEthSrc(mac) if old => raw::put(out, version, Raw::SetEthSrc, mac),
        Action::SetEthSrc(mac) => put_whole(out, version, Field::ETH_SRC, mac_number(mac)),
        Action::SetEthDst(mac) if old => raw::put(out, version, Raw::SetEthDst, mac),
        Action::SetEthDst(mac) => put_whole(out, version, Field::ETH_DST, mac_number(mac)),
        Action::SetIpv4Src(ip) if old => raw::put(out, version, Raw::SetIpv4Src, &ip.octets()),
        Action::SetIpv4Src(ip) => {
            put_whole(out, version, Field::IPV4_SRC, u128::from(u32::from(*ip)));
        }
        Action::SetIpv4Dst(ip) if old => raw::put(out, version, Raw::SetIpv4Dst, &ip.octets()),
        Action::SetIpv4Dst(ip) => {
            put_whole(out, version, Field::IPV4_DST, u128::from(u32::from(*ip)));
        }
        Action::SetIpDscp(dscp) if old => number(out, Raw::SetIpDscp, 1, u64::from(*dscp)),
        Action::SetIpDscp(dscp) => {
            put_whole(out, version, Field::IP_DSCP_SHIFTED, u128::from(dscp >> 2));
        }
        Action::SetIpEcn(ecn) => put_ecn(out, version, *ecn),
        Action::SetIpTtl(ttl) if version == Version::V10 => {
            let dst = Subfield::whole(Field::IP_TTL);
            put_load(out, version, &dst, u128::from(*ttl));
        }
        Action::SetIpTtl(ttl) => number(out, Raw::SetIpTtl, 1, u64::from(*ttl)),
        Action::SetTransportSrc { port, ip_proto } => match transport_field(*ip_proto) {
            Some((src, _)) if !old => put_whole(out, version, src, u128::from(*port)),
            _ => number(out, Raw::SetTransportSrc, 2, u64::from(*port)),
        },
        Action::SetTransportDst { port, ip_proto } => match transport_field(*ip_proto) {
            Some((_, dst)) if !old => put_whole(out, version, dst, u128::from(*port)),
            _ => number(out, Raw::SetTransportDst, 2, u64::from(*port)),
        },
        Action::Move(copy) => put_move(out, version, copy),
        Action::Push(bits) => put_stack(out, version, Raw::StackPush, bits),
        Action::Pop(bits) => put_stack(out, version, Raw::StackPop, bits),
        Action::DecTtl(None) => plain(out, Raw::DecTtl),
        Action::DecTtl(Some(ids)) => {
            let mut body = Vec::new();
            body.put_u16(ids.len() as u16);
            body.put_u32(0);
            ids.iter().for_each(|id| body.put_u16(*id));
            raw::put(out, version, Raw::DecTtlIds, &body);
        }
        Action::SetMplsLabel(label) if old => {
            number(out, Raw::SetMplsLabel, 4, u64::from(*label));
        }
        Action::SetMplsLabel(label) => {
            put_whole(out, version, Field::MPLS_LABEL, u128::from(*label));
        }
        Action::SetMplsTc(tc) if old => number(out, Raw::SetMplsTc, 1, u64::from(*tc)),
        Action::SetMplsTc(tc) => put_whole(out, version, Field::MPLS_TC, u128::from(*tc)),
        Action::SetMplsTtl(ttl) => number(out, Raw::SetMplsTtl, 1, u64::from(*ttl)),
        Action::DecMplsTtl => plain(out, Raw::DecMplsTtl),
        Action::PushMpls(kind) => number(out, Raw::PushMpls, 2, u64::from(*kind)),
        Action::PopMpls(kind) => number(out, Raw::PopMpls, 2, u64::from(*kind)),
        Action::DecNshTtl => plain(out, Raw::DecNshTtl),
        Action::DeleteField { field, bytes } => {
            let mut body = Vec::new();
            let field = Subfield { bytes: *bytes, ..Subfield::whole(*field) };
            put_header(&mut body, &field, None);
            raw::put(out, version, Raw::DeleteField, &body);
        }
        Action::Encap(encap) => put_encap(out, version, encap),
        Action::Decap(kind) => put_decap(out, version, *kind),
        Action::SetTunnel { id, wide } => match u32::try_from(*id) {
            Ok(id) if old && !wide => number(out, Raw::SetTunnel, 4, u64::from(id)),
            _ if old => number(out, Raw::SetTunnel64, 8, *id),
            _ => put_whole(out, version, Field::TUN_ID, u128::from(*id)),
        },
        Action::SetQueue(queue) => number(out, Raw::SetQueue, 4, u64::from(*queue)),
        Action::PopQueue => plain(out, Raw::PopQueue),
        Action::FinTimeout { idle, hard } => {
            let [idle, hard] = [idle.to_be_bytes(), hard.to_be_bytes()];
            raw::put(out, version, Raw::FinTimeout, &[idle, hard].concat());
        }
        Action::Resubmit { in_port, table: 255, short: true, .. } => {
            number(out, Raw::Resubmit, 2, u64::from(in_port.0));
        }
        Action::Resubmit { in_port, table, with_ct, .. } => {
            put_resubmit(out, version, *in_port, *table, *with_ct);
        }
        Action::Learn(learn) => put_learn(out, version, learn),
        Action::Conjunction { id, clause, n_clauses } => {
            let mut body = vec![*clause, *n_clauses];
            body.put_u32(*id);
            raw::put(out, version, Raw::Conjunction, &body);
        }
        Action::Multipath(multipath) => put_multipath(out, version, multipath),
        Action::Note(note) => raw::put(out, version, Raw::Note, note),
        Action::Exit => plain(out, Raw::Exit),
        Action::Sample(sample) => put_sample(out, version, sample),
        Action::Ct(ct) => put_ct(out, version, ct),
        Action::CtClear => plain(out, Raw::CtClear),
        Action::Nat(nat) => put_nat(out, version, nat),
        Action::OutputTrunc { port, max_len } => {
            let mut body = Vec::new();
            body.put_u16(port.0);
            body.put_u32(*max_len);
            raw::put(out, version, Raw::OutputTrunc, &body);
        }
        Action::Clone(actions) => {
            let mut body = vec![0; 6];
            put_actions(&mut body, actions, version);
            raw::put(out, version, Raw::Clone, &body);
        }
        Action::CheckPktLarger { len, dst } => {
            let mut body = Vec::new();
            body.put_u16(*len);
            body.put_u16(dst.offset);
            put_header(&mut body, dst, None);
            raw::put(out, version, Raw::CheckPktLarger, &body);
        }
        Action::DebugRecirc => plain(out, Raw::DebugRecirc),
        Action::DebugSlow => plain(out, Raw::DebugSlow),
        Action::Meter(meter) if version >= Version::V15 => {
            number(out, Raw::Meter, 4, u64::from(*meter));
        }
        Action::WriteMetadata { metadata, mask } if version == Version::V10 => {
            let mut body = vec![0; 6];
            body.put_u64(*metadata);
            body.put_u64(*mask);
            raw::put(out, version, Raw::WriteMetadata, &body);
        }
        Action::GotoTable(table) if version == Version::V10 => {
            put_resubmit(out, version, PortNo::IN_PORT, *table, false);
        }
        Action::Meter(_)
        | Action::ClearActions
        | Action::WriteActions(_)
        | Action::WriteMetadata { .. }
        | Action::GotoTable(_) => {
            if version != Version::V10 {
                put_as_instruction(out, version, action);
            }
        }
        Action::Unroll { .. } => {}
    }
}

fn mac_number(mac: &[u8; 6]) -> u128 {
    mac.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// The source and destination port fields of a protocol.
fn transport_field(ip_proto: u8) -> Option<(Field, Field)> {
    match ip_proto {
        6 => Some((Field::TCP_SRC, Field::TCP_DST)),
        17 => Some((Field::UDP_SRC, Field::UDP_DST)),
        132 => Some((Field::SCTP_SRC, Field::SCTP_DST)),
        _ => None,
    }
}

fn put_output(out: &mut Vec<u8>, version: Version, port: PortNo, max_len: u16) {
    let mut body = Vec::new();
    if version == Version::V10 {
        body.put_u16(port.0);
    } else {
        body.put_u32(port.to_u32());
    }
    body.put_u16(max_len);
    let raw = if version == Version::V10 { Raw::Output10 } else { Raw::Output11 };
    raw::put(out, version, raw, &body);
}

fn put_enqueue(out: &mut Vec<u8>, version: Version, port: PortNo, queue: u32) {
    if version == Version::V10 {
        let mut body = Vec::new();
        body.put_u16(port.0);
        body.put_bytes(0, 6);
        body.put_u32(queue);
        raw::put(out, version, Raw::Enqueue, &body);
    } else {
        raw::put_number(out, version, Raw::SetQueue, 4, u64::from(queue));
        put_output(out, version, port, u16::MAX);
        raw::put(out, version, Raw::PopQueue, &[]);
    }
}

fn put_missing_vlan(out: &mut Vec<u8>, version: Version, missing: bool) {
    if missing && version > Version::V10 {
        raw::put_number(out, version, Raw::PushVlan, 2, 0x8100);
    }
}

fn put_controller(out: &mut Vec<u8>, version: Version, controller: &Controller) {
    let mut body = Vec::new();
    let has_properties = controller.has_properties
        || !controller.userdata.is_empty()
        || controller.pause
        || controller.meter_id.is_some();
    if !has_properties {
        body.put_u16(controller.max_len);
        body.put_u16(controller.controller_id);
        body.put_u8(controller.reason.0);
        return raw::put(out, version, Raw::Controller, &body);
    }
    let mut put = |kind, value: &[u8]| property::put(&mut body, kind, value);
    if controller.max_len != u16::MAX {
        put(controller_property::MAX_LEN, &controller.max_len.to_be_bytes());
    }
    if controller.controller_id != 0 {
        put(controller_property::ID, &controller.controller_id.to_be_bytes());
    }
    if controller.reason != PacketInReason::ACTION {
        put(controller_property::REASON, &[controller.reason.0]);
    }
    if !controller.userdata.is_empty() {
        put(controller_property::USERDATA, &controller.userdata);
    }
    if controller.pause {
        put(controller_property::PAUSE, &[]);
    }
    if let Some(meter) = controller.meter_id {
        put(controller_property::METER, &meter.to_be_bytes());
    }
    body.splice(0..0, [0; 6]);
    raw::put(out, version, Raw::Controller2, &body);
}

fn put_output_field(
    out: &mut Vec<u8>,
    version: Version,
    src: &Subfield,
    max_len: u16,
    long_header: bool,
) {
    let mut body = Vec::new();
    body.put_u16(offset_and_bits(src));
    if long_header || short_header(src) == 0 {
        body.put_u16(max_len);
        put_header(&mut body, src, None);
        raw::put(out, version, Raw::OutputReg2, &body);
    } else {
        body.put_u32(short_header(src));
        body.put_u16(max_len);
        raw::put(out, version, Raw::OutputReg, &body);
    }
}

fn put_bundle(out: &mut Vec<u8>, version: Version, bundle: &Bundle) {
    let mut body = Vec::new();
    body.put_u16(bundle.algorithm as u16);
    body.put_u16(bundle.fields as u16);
    body.put_u16(bundle.basis);
    body.put_u32(MEMBER_IN_PORT);
    body.put_u16(bundle.members.len() as u16);
    body.put_u16(bundle.dst.as_ref().map_or(0, offset_and_bits));
    body.put_u32(bundle.dst.as_ref().map_or(0, short_header));
    body.put_u32(0);
    bundle.members.iter().for_each(|member| body.put_u16(member.0));
    let raw = if bundle.dst.is_some() { Raw::BundleLoad } else { Raw::Bundle };
    raw::put(out, version, raw, &body);
}

/// Appends the standard set-field of a whole field.
fn put_whole(out: &mut Vec<u8>, version: Version, field: Field, value: u128) {
    put_set_field_entry(out, version, field, &Value::from(value), None);
}

fn put_set_field_entry(
    out: &mut Vec<u8>,
    version: Version,
    field: Field,
    value: &Value,
    mask: Option<&Value>,
) {
    let mut body = Vec::new();
    let len = value_len(field, value, mask);
    oxm::put_entry(&mut body, Some(version), field, value, mask, len);
    let raw = if version >= Version::V15 { Raw::SetField15 } else { Raw::SetField12 };
    raw::put(out, version, raw, &body);
}

/// Bytes that value and mask take: what they need for a field of variable length.
fn value_len(field: Field, value: &Value, mask: Option<&Value>) -> usize {
    if !field.is_variable() {
        return field.bytes();
    }
    value.significant_bytes().max(mask.map_or(0, Value::significant_bytes)).min(TUN_METADATA_LEN)
}

fn put_load(out: &mut Vec<u8>, version: Version, dst: &Subfield, value: u128) {
    let mut body = Vec::new();
    body.put_u16(offset_and_bits(dst));
    body.put_u32(short_header(dst));
    body.put_u64(value as u64);
    raw::put(out, version, Raw::Load, &body);
}

fn put_ecn(out: &mut Vec<u8>, version: Version, ecn: u8) {
    match version {
        Version::V10 => put_load(out, version, &Subfield::whole(Field::IP_ECN), u128::from(ecn)),
        Version::V11 => raw::put_number(out, version, Raw::SetIpEcn, 1, u64::from(ecn)),
        _ => put_whole(out, version, Field::IP_ECN, u128::from(ecn)),
    }
}

impl SetField {
    /// The runs of at most 64 bits that the action sets, lowest first, with the value of each.
    pub fn segments(&self) -> Vec<(Subfield, u64)> {
        let mut segments = Vec::new();
        let (value, mask) = (self.value.low(), self.mask.low());
        let width = self.field.bits().min(128);
        let is_set = |bit: usize| bit < width && mask >> bit & 1 != 0;
        let mut bit = 0;
        while bit < width {
            if !is_set(bit) {
                bit += 1;
                continue;
            }
            let bits = (bit..bit + 64).take_while(|bit| is_set(*bit)).count();
            let subfield =
                Subfield { offset: bit as u16, bits: bits as u16, ..Subfield::whole(self.field) };
            segments.push((subfield, (value >> bit & low_ones(bits)) as u64));
            bit += bits;
        }
        segments
    }

    /// The mask, `None` when the whole field is set.
    fn partial_mask(&self) -> Option<&Value> {
        Some(&self.mask).filter(|_| !self.is_whole())
    }
}

fn put_set_field(out: &mut Vec<u8>, version: Version, set: &SetField) {
    if version >= Version::V15 {
        put_set_field_entry(out, version, set.field, &set.value, set.partial_mask());
    } else if set.form != SetForm::SetField {
        put_set_field_as_loads(out, version, set);
    } else if version < Version::V12 {
        put_set_field_as_old_actions(out, version, set);
    } else if set.is_whole() {
        put_set_field_entry(out, version, set.field, &set.value, None);
    } else {
        put_set_field_as_loads(out, version, set);
    }
}

fn put_set_field_as_loads(out: &mut Vec<u8>, version: Version, set: &SetField) {
    let long = set.form == SetForm::Load2
        || set.field.is_variable()
        || short_header(&Subfield::whole(set.field)) == 0;
    if long {
        let mut body = Vec::new();
        let mask = set.partial_mask();
        let len = value_len(set.field, &set.value, mask);
        oxm::put_entry(&mut body, None, set.field, &set.value, mask, len);
        raw::put(out, version, Raw::Load2, &body);
    } else {
        for (dst, value) in set.segments() {
            put_load(out, version, &dst, u128::from(value));
        }
    }
}

/// Appends a set-field as the actions of OpenFlow 1.0 and 1.1.
fn put_set_field_as_old_actions(out: &mut Vec<u8>, version: Version, set: &SetField) {
    let v10 = version == Version::V10;
    let value = set.value.low();
    let number = |out: &mut Vec<u8>, raw, bytes, number: u128| {
        raw::put_number(out, version, raw, bytes, number as u64);
    };
    let vid = if v10 { Raw::SetVlanVid10 } else { Raw::SetVlanVid11 };
    let pcp = if v10 { Raw::SetVlanPcp10 } else { Raw::SetVlanPcp11 };
    match set.field {
        Field::VLAN_TCI if value & 0x1000 == 0 => {
            let raw = if v10 { Raw::StripVlan } else { Raw::PopVlan };
            raw::put(out, version, raw, &[]);
        }
        Field::VLAN_TCI => {
            put_missing_vlan(out, version, !set.flow_has_vlan);
            number(out, vid, 2, value & 0xfff);
            number(out, pcp, 1, value >> 13);
        }
        Field::VLAN_VID => number(out, vid, 2, value & 0xfff),
        Field::VLAN_PCP => number(out, pcp, 1, value),
        Field::ETH_SRC => raw::put(out, version, Raw::SetEthSrc, &set.value.to_bytes(6)),
        Field::ETH_DST => raw::put(out, version, Raw::SetEthDst, &set.value.to_bytes(6)),
        Field::IPV4_SRC => number(out, Raw::SetIpv4Src, 4, value),
        Field::IPV4_DST => number(out, Raw::SetIpv4Dst, 4, value),
        Field::IP_DSCP => number(out, Raw::SetIpDscp, 1, value),
        Field::IP_DSCP_SHIFTED => number(out, Raw::SetIpDscp, 1, value << 2),
        Field::IP_ECN => put_ecn(out, version, value as u8),
        Field::TCP_SRC | Field::UDP_SRC => number(out, Raw::SetTransportSrc, 2, value),
        Field::TCP_DST | Field::UDP_DST => number(out, Raw::SetTransportDst, 2, value),
        _ => put_set_field_as_loads(out, version, set),
    }
}

fn put_move(out: &mut Vec<u8>, version: Version, copy: &Move) {
    let mut body = Vec::new();
    let copy_field = version >= Version::V15 || (version == Version::V13 && copy.copy_field);
    if copy_field && version < Version::V15 {
        body.put_u16(0);
    }
    body.put_u16(copy.dst.bits);
    body.put_u16(copy.src.offset);
    body.put_u16(copy.dst.offset);
    if copy_field {
        body.put_u16(0);
    }
    for subfield in [&copy.src, &copy.dst] {
        put_header(&mut body, subfield, Some(version).filter(|_| copy_field));
    }
    let raw = match copy_field {
        true if version >= Version::V15 => Raw::CopyField15,
        true => Raw::CopyField13,
        false => Raw::Move,
    };
    raw::put(out, version, raw, &body);
}

fn put_stack(out: &mut Vec<u8>, version: Version, raw: Raw, bits: &Subfield) {
    let mut body = Vec::new();
    body.put_u16(bits.offset);
    put_header(&mut body, bits, None);
    body.put_u16(bits.bits);
    raw::put(out, version, raw, &body);
}

fn put_resubmit(out: &mut Vec<u8>, version: Version, in_port: PortNo, table: u8, with_ct: bool) {
    let mut body = Vec::new();
    body.put_u16(in_port.0);
    body.put_u8(table);
    let raw = if with_ct { Raw::ResubmitTableCt } else { Raw::ResubmitTable };
    raw::put(out, version, raw, &body);
}

fn put_multipath(out: &mut Vec<u8>, version: Version, multipath: &Multipath) {
    let mut body = Vec::new();
    body.put_u16(multipath.fields as u16);
    body.put_u16(multipath.basis);
    body.put_u16(0);
    body.put_u16(multipath.algorithm as u16);
    body.put_u16(multipath.max_link);
    body.put_u32(multipath.arg);
    body.put_u16(0);
    body.put_u16(offset_and_bits(&multipath.dst));
    body.put_u32(short_header(&multipath.dst));
    raw::put(out, version, Raw::Multipath, &body);
}

fn put_sample(out: &mut Vec<u8>, version: Version, sample: &Sample) {
    let from_field = matches!(
        (sample.obs_domain, sample.obs_point),
        (Number::Field(_), _) | (_, Number::Field(_))
    );
    let raw = if sample.form == 4 || from_field {
        Raw::Sample4
    } else if sample.form == 3 || sample.direction != SampleDirection::Default {
        Raw::Sample3
    } else if sample.form == 2 || sample.sampling_port != PortNo::NONE {
        Raw::Sample2
    } else {
        Raw::Sample
    };
    let mut body = Vec::new();
    body.put_u16(sample.probability);
    body.put_u32(sample.collector_set_id);
    for number in [sample.obs_domain, sample.obs_point] {
        match number {
            Number::Immediate(number) if raw == Raw::Sample4 => body.put_u64(u64::from(number)),
            Number::Immediate(number) => body.put_u32(number),
            Number::Field(src) => {
                body.put_u32(short_header(&src));
                body.put_u16(offset_and_bits(&src));
                body.put_u16(0);
            }
        }
    }
    if raw != Raw::Sample {
        body.put_u16(sample.sampling_port.0);
        body.put_u8(sample.direction as u8);
    }
    raw::put(out, version, raw, &body);
}
