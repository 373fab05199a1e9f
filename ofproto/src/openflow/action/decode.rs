//! Decoding of actions.

use super::super::error::OfError;
use super::super::field::{Field, OxmHeader};
use super::super::oxm;
use super::super::port::PortNo;
use super::super::property;
use super::super::tlv_map::TlvMap;
use super::super::value::Value;
use super::super::version::Version;
use super::super::wire::Reader;
use super::connection::{read_ct, read_nat};
use super::header_stack::{read_decap, read_encap};
use super::instruction::{Instruction, verify};
use super::learn::read_learn;
use super::raw::{self, ALIGN, Raw};
use super::*;

/// How deep actions may nest.
const MAX_DEPTH: usize = 100;

/// The reason that a controller action has unless it says another.
const DEFAULT_REASON: PacketInReason = PacketInReason::ACTION;

/// What decoding actions depends on beside the bytes.
#[derive(Clone, Copy, Debug)]
pub struct DecodeContext<'a> {
    /// The OpenFlow version of the message.
    pub version: Version,
    /// The lengths of tunnel metadata fields in this switch, `None` for any length.
    pub tlv: Option<&'a TlvMap>,
    /// Whether the actions for tests of the switch are accepted.
    pub debug_actions: bool,
}

/// Where actions may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outer {
    /// A flow, a bucket or a packet-out.
    None,
    /// A ct action.
    Ct,
    /// A clone action.
    Clone,
    /// A write-actions instruction.
    WriteActions,
}

/// Reads `len` bytes of actions, with the instructions in `allowed`.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn read_actions(
    reader: &mut Reader<'_>,
    len: usize,
    context: &DecodeContext<'_>,
    allowed: &[Instruction],
) -> Result<Vec<Action>, OfError> {
    read_nested(reader, len, context, allowed, Outer::None, 0)
}

/// As [`read_actions`], for actions in another action.
pub(super) fn read_nested(
    reader: &mut Reader<'_>,
    len: usize,
    context: &DecodeContext<'_>,
    allowed: &[Instruction],
    outer: Outer,
    depth: usize,
) -> Result<Vec<Action>, OfError> {
    if !len.is_multiple_of(ALIGN) {
        return Err(OfError::BadRequestLen);
    }
    let mut body = reader.with_error(OfError::BadRequestLen).sub(len)?;
    reader.skip(len)?;
    let actions = read_deep(&mut body, context, depth)?;
    verify(&actions, context.version, allowed, outer)?;
    Ok(actions)
}

/// Reads actions to the end without checking which of them may stand together.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(super) fn read_list(
    reader: &mut Reader<'_>,
    context: &DecodeContext<'_>,
) -> Result<Vec<Action>, OfError> {
    read_deep(reader, context, 0)
}

fn read_deep(
    reader: &mut Reader<'_>,
    context: &DecodeContext<'_>,
    depth: usize,
) -> Result<Vec<Action>, OfError> {
    if depth > MAX_DEPTH {
        return Err(OfError::BadActionTooMany);
    }
    let mut actions = Vec::new();
    while !reader.is_empty() {
        actions.push(read_one(reader, context, depth)?);
    }
    Ok(actions)
}

fn read_one(
    reader: &mut Reader<'_>,
    context: &DecodeContext<'_>,
    depth: usize,
) -> Result<Action, OfError> {
    let (raw, header_len, mut body) = raw::read(reader, context.version)?;
    let body = &mut body;
    let number = |body: &mut Reader<'_>, bytes| raw::number(body, header_len, bytes);
    Ok(match raw {
        Raw::Output10 => read_output10(body)?,
        Raw::Output11 => read_output11(body)?,
        Raw::SetVlanVid10 | Raw::SetVlanVid11 => Action::SetVlanVid {
            vid: at_most(number(body, 2)?, 0xfff)? as u16,
            push_if_needed: raw == Raw::SetVlanVid10,
            flow_has_vlan: false,
        },
        Raw::SetVlanPcp10 | Raw::SetVlanPcp11 => Action::SetVlanPcp {
            pcp: at_most(number(body, 1)?, 7)? as u8,
            push_if_needed: raw == Raw::SetVlanPcp10,
            flow_has_vlan: false,
        },
        Raw::PushVlan => match number(body, 2)? as u16 {
            kind @ (0x8100 | 0x88a8) => Action::PushVlan(kind),
            _ => return Err(OfError::BadActionArgument),
        },
        Raw::StripVlan => Action::PopVlan { strip: true },
        Raw::PopVlan => Action::PopVlan { strip: false },
        Raw::SetEthSrc => Action::SetEthSrc(body.array()?),
        Raw::SetEthDst => Action::SetEthDst(body.array()?),
        Raw::SetIpv4Src => Action::SetIpv4Src((number(body, 4)? as u32).into()),
        Raw::SetIpv4Dst => Action::SetIpv4Dst((number(body, 4)? as u32).into()),
        Raw::SetIpDscp => match number(body, 1)? as u8 {
            dscp if dscp & 3 == 0 => Action::SetIpDscp(dscp),
            _ => return Err(OfError::BadActionArgument),
        },
        Raw::SetIpEcn => Action::SetIpEcn(at_most(number(body, 1)?, 3)? as u8),
        Raw::SetIpTtl => Action::SetIpTtl(number(body, 1)? as u8),
        Raw::SetTransportSrc => {
            Action::SetTransportSrc { port: number(body, 2)? as u16, ip_proto: 0 }
        }
        Raw::SetTransportDst => {
            Action::SetTransportDst { port: number(body, 2)? as u16, ip_proto: 0 }
        }
        Raw::Enqueue => read_enqueue(body)?,
        Raw::SetMplsLabel => Action::SetMplsLabel(number(body, 4)? as u32),
        Raw::SetMplsTc => Action::SetMplsTc(number(body, 1)? as u8),
        Raw::SetMplsTtl => Action::SetMplsTtl(number(body, 1)? as u8),
        Raw::DecMplsTtl => Action::DecMplsTtl,
        Raw::PushMpls => match number(body, 2)? as u16 {
            kind @ (0x8847 | 0x8848) => Action::PushMpls(kind),
            _ => return Err(OfError::BadActionArgument),
        },
        Raw::PopMpls => Action::PopMpls(number(body, 2)? as u16),
        Raw::SetQueue => Action::SetQueue(number(body, 4)? as u32),
        Raw::Group => Action::Group(number(body, 4)? as u32),
        Raw::DecTtl => Action::DecTtl(None),
        Raw::DecTtlIds => read_dec_ttl_ids(body)?,
        Raw::SetField12 => read_set_field(body, context, false)?,
        Raw::SetField15 => read_set_field(body, context, true)?,
        Raw::Load => read_load(body, context)?,
        Raw::Load2 => read_load2(body, context)?,
        Raw::CopyField15 => read_move(body, context, raw)?,
        Raw::CopyField13 => {
            body.skip(2)?;
            read_move(body, context, raw)?
        }
        Raw::Move => read_move(body, context, raw)?,
        Raw::Meter => Action::Meter(number(body, 4)? as u32),
        Raw::Resubmit => Action::Resubmit {
            in_port: PortNo(number(body, 2)? as u16),
            table: 255,
            with_ct: false,
            short: true,
        },
        Raw::ResubmitTable | Raw::ResubmitTableCt => {
            let in_port = PortNo(body.u16()?);
            let table = body.u8()?;
            body.zeros(3, OfError::BadActionArgument)?;
            Action::Resubmit { in_port, table, with_ct: raw == Raw::ResubmitTableCt, short: false }
        }
        Raw::SetTunnel => Action::SetTunnel { id: number(body, 4)?, wide: false },
        Raw::SetTunnel64 => Action::SetTunnel { id: number(body, 8)?, wide: true },
        Raw::PopQueue => Action::PopQueue,
        Raw::Note => Action::Note(body.rest().into()),
        Raw::Multipath => read_multipath(body, context)?,
        Raw::Bundle => read_bundle(body, context, false)?,
        Raw::BundleLoad => read_bundle(body, context, true)?,
        Raw::OutputReg => read_output_reg(body, context)?,
        Raw::OutputReg2 => read_output_reg2(body, context)?,
        Raw::Learn => read_learn(body, context, false)?,
        Raw::Learn2 => read_learn(body, context, true)?,
        Raw::Exit => Action::Exit,
        Raw::FinTimeout => Action::FinTimeout { idle: body.u16()?, hard: body.u16()? },
        Raw::Controller => Action::Controller(Box::new(Controller {
            max_len: body.u16()?,
            controller_id: body.u16()?,
            reason: PacketInReason(body.u8()?),
            userdata: Vec::new(),
            pause: false,
            meter_id: None,
            has_properties: false,
        })),
        Raw::Controller2 => read_controller2(body)?,
        Raw::WriteMetadata => {
            body.zeros(6, OfError::BadRequestMustBeZero)?;
            Action::WriteMetadata { metadata: body.u64()?, mask: body.u64()? }
        }
        Raw::StackPush => {
            let bits = read_stack(body, context)?;
            bits.check_source(None)?;
            Action::Push(bits)
        }
        Raw::StackPop => {
            let bits = read_stack(body, context)?;
            bits.check_destination(None)?;
            Action::Pop(bits)
        }
        Raw::Sample | Raw::Sample2 | Raw::Sample3 | Raw::Sample4 => {
            read_sample(body, context, raw)?
        }
        Raw::Conjunction => {
            let (clause, n_clauses, id) = (body.u8()?, body.u8()?, body.u32()?);
            if !(2..=64).contains(&n_clauses) || clause >= n_clauses {
                return Err(OfError::BadActionConjunction);
            }
            Action::Conjunction { id, clause, n_clauses }
        }
        Raw::Ct => read_ct(body, context, depth)?,
        Raw::Nat => read_nat(body)?,
        Raw::OutputTrunc => {
            let (port, max_len) = (PortNo(body.u16()?), body.u32()?);
            // Not even an Ethernet header.
            if max_len < 14 {
                return Err(OfError::BadActionArgument);
            }
            Action::OutputTrunc { port, max_len }
        }
        Raw::Clone => {
            body.skip(6)?;
            let allowed = &[Instruction::ApplyActions];
            // Open vSwitch does not look at what may stand within a clone here.
            let len = body.len();
            Action::Clone(read_nested(body, len, context, allowed, Outer::None, depth + 1)?)
        }
        Raw::CtClear => Action::CtClear,
        Raw::Encap => read_encap(body)?,
        Raw::Decap => read_decap(body)?,
        Raw::DecNshTtl => Action::DecNshTtl,
        Raw::CheckPktLarger => {
            let (len, offset) = (body.u16()?, body.u16()?);
            let mut dst = read_subfield_header(body, context)?;
            body.zeros(body.len(), OfError::BadRequestMustBeZero)?;
            (dst.offset, dst.bits) = (offset, 1);
            dst.check_destination(None)?;
            Action::CheckPktLarger { len, dst }
        }
        Raw::DeleteField => {
            let Subfield { field, bytes, .. } = read_subfield_header(body, context)?;
            Action::DeleteField { field, bytes }
        }
        Raw::DebugSlow | Raw::DebugRecirc if !context.debug_actions => {
            return Err(OfError::BadActionVendorType);
        }
        Raw::DebugSlow => Action::DebugSlow,
        Raw::DebugRecirc => Action::DebugRecirc,
    })
}

fn at_most(number: u64, limit: u64) -> Result<u64, OfError> {
    if number <= limit { Ok(number) } else { Err(OfError::BadActionArgument) }
}

/// Checks that an output action may name `port`, where ordinary ports are below `limit`.
pub(super) fn check_output_port(port: PortNo, limit: PortNo) -> Result<(), OfError> {
    match port {
        PortNo::NONE => Err(OfError::BadActionOutPort),
        _ if port < limit || (PortNo::IN_PORT..=PortNo::LOCAL).contains(&port) => Ok(()),
        _ => Err(OfError::BadActionOutPort),
    }
}

fn read_output10(body: &mut Reader<'_>) -> Result<Action, OfError> {
    let (port, max_len) = (PortNo(body.u16()?), body.u16()?);
    check_output_port(port, PortNo::MAX)?;
    Ok(Action::Output { port, max_len })
}

fn read_output11(body: &mut Reader<'_>) -> Result<Action, OfError> {
    let port = PortNo::from_u32(body.u32()?)?;
    check_output_port(port, PortNo::MAX)?;
    Ok(Action::Output { port, max_len: body.u16()? })
}

/// Whether a queue may belong to the port.
pub(super) fn check_enqueue_port(port: PortNo, limit: PortNo) -> Result<(), OfError> {
    match port < limit || port == PortNo::IN_PORT || port == PortNo::LOCAL {
        true => Ok(()),
        false => Err(OfError::BadActionOutPort),
    }
}

fn read_enqueue(body: &mut Reader<'_>) -> Result<Action, OfError> {
    let port = PortNo(body.u16()?);
    body.skip(6)?;
    check_enqueue_port(port, PortNo::MAX)?;
    Ok(Action::Enqueue { port, queue: body.u32()? })
}

fn read_dec_ttl_ids(body: &mut Reader<'_>) -> Result<Action, OfError> {
    let count = body.u16()?;
    body.zeros(4, OfError::BadRequestMustBeZero)?;
    let ids: Result<Box<[u16]>, OfError> = (0..count).map(|_| body.u16()).collect();
    Ok(Action::DecTtl(Some(ids?)))
}

/// The field of a 32-bit header, as the older actions name fields.
pub(super) fn field_of_short_header(
    number: u32,
    context: &DecodeContext<'_>,
) -> Result<Subfield, OfError> {
    let bytes = number.to_be_bytes();
    let header = OxmHeader::parse(&mut Reader::new(&bytes, OfError::BadActionSetType))
        .map_err(|_| OfError::BadActionSetType)?;
    let field = Field::from_oxm_header(&header).ok_or(OfError::BadActionSetType)?;
    oxm::check_mapped(field, context.tlv)?;
    let bytes = oxm::mapped_bytes(field, context.tlv) as u8;
    Ok(Subfield { field, bytes, offset: 0, bits: 0 })
}

/// Reads a 4 or 8 byte header without a mask.
pub(super) fn read_subfield_header(
    body: &mut Reader<'_>,
    context: &DecodeContext<'_>,
) -> Result<Subfield, OfError> {
    let (header, field) = oxm::read_header(body, context.tlv)?;
    let field = field?;
    if header.has_mask {
        return Err(OfError::BadMatchMask);
    }
    let bytes = oxm::mapped_bytes(field, context.tlv) as u8;
    Ok(Subfield { field, bytes, offset: 0, bits: 0 })
}

/// Sets offset and number of bits from the 16 bits that hold both.
pub(super) fn set_offset_and_bits(subfield: &mut Subfield, offset_and_bits: u16) {
    subfield.offset = offset_and_bits >> 6;
    subfield.bits = (offset_and_bits & 0x3f) + 1;
}

fn read_set_field(
    body: &mut Reader<'_>,
    context: &DecodeContext<'_>,
    may_mask: bool,
) -> Result<Action, OfError> {
    let entry = oxm::read_action_entry(body, context.tlv)?;
    if entry.mask.is_some() && !may_mask {
        return Err(OfError::BadActionSetMask);
    }
    body.zeros(body.len(), OfError::BadActionSetArgument)?;
    let field = entry.field;
    let mask = whole_mask(field, entry.mask, context);
    // A VLAN id is set in packets with a tag only.
    let present = |value: &Value| value.low() & 0x1000 != 0;
    let bad_vid = field == Field::VLAN_VID && !(present(&entry.value) && present(&mask));
    if field == Field::IN_PORT_OXM
        || !field.writable()
        || !field.is_value_valid(&entry.value)
        || bad_vid
    {
        return Err(OfError::BadActionSetArgument);
    }
    Ok(set_field(field, entry.value, mask, SetForm::SetField))
}

/// The mask of a set-field: all ones of the field's own width when there is none, or when it
/// covers all bytes that the field has in this switch.
fn whole_mask(field: Field, mask: Option<Value>, context: &DecodeContext<'_>) -> Value {
    let bits = oxm::mapped_bytes(field, context.tlv) * 8;
    mask.filter(|mask| !mask.is_ones(bits)).unwrap_or_else(|| Value::ones(field.bytes() * 8))
}

fn set_field(field: Field, value: Value, mask: Value, form: SetForm) -> Action {
    Action::SetField(Box::new(SetField { field, value, mask, form, flow_has_vlan: false }))
}

fn read_load(body: &mut Reader<'_>, context: &DecodeContext<'_>) -> Result<Action, OfError> {
    let offset_and_bits = body.u16()?;
    let mut dst = field_of_short_header(body.u32()?, context)?;
    set_offset_and_bits(&mut dst, offset_and_bits);
    let value = body.u64()?;
    dst.check_destination(None)?;
    if value.checked_shr(u32::from(dst.bits)).unwrap_or(0) != 0 {
        return Err(OfError::BadActionArgument);
    }
    let offset = usize::from(dst.offset);
    let value = Value::from(u128::from(value)).shl(offset);
    let mask = Value::ones(usize::from(dst.bits)).shl(offset);
    Ok(set_field(dst.field, value, mask, SetForm::Load))
}

fn read_load2(body: &mut Reader<'_>, context: &DecodeContext<'_>) -> Result<Action, OfError> {
    let entry = oxm::read_action_entry(body, context.tlv)?;
    body.zeros(body.len(), OfError::BadActionSetArgument)?;
    if !entry.field.writable() {
        return Err(OfError::BadActionSetArgument);
    }
    let mask = whole_mask(entry.field, entry.mask, context);
    Ok(set_field(entry.field, entry.value, mask, SetForm::Load2))
}

fn read_move(
    body: &mut Reader<'_>,
    context: &DecodeContext<'_>,
    raw: Raw,
) -> Result<Action, OfError> {
    let (bits, src_offset, dst_offset) = (body.u16()?, body.u16()?, body.u16()?);
    if raw != Raw::Move {
        body.skip(2)?;
    }
    let mut src = read_subfield_header(body, context)?;
    let mut dst = read_subfield_header(body, context)?;
    body.zeros(body.len(), OfError::BadRequestMustBeZero)?;
    (src.offset, src.bits) = (src_offset, bits);
    (dst.offset, dst.bits) = (dst_offset, bits);
    src.check_source(None)?;
    dst.check_destination(None)?;
    Ok(Action::Move(Box::new(Move { src, dst, copy_field: raw != Raw::Move })))
}

fn read_multipath(body: &mut Reader<'_>, context: &DecodeContext<'_>) -> Result<Action, OfError> {
    let (fields, basis) = (body.u16()?, body.u16()?);
    body.skip(2)?;
    let (algorithm, max_link, arg) = (body.u16()?, body.u16()?, body.u32()?);
    body.skip(2)?;
    let offset_and_bits = body.u16()?;
    let mut dst = field_of_short_header(body.u32()?, context)?;
    set_offset_and_bits(&mut dst, offset_and_bits);
    let fields = HashFields::from_wire(fields)?;
    let algorithm = MultipathAlgorithm::from_wire(algorithm)?;
    if dst.bits < 16 && u32::from(max_link) >> dst.bits != 0 {
        return Err(OfError::BadActionArgument);
    }
    dst.check_destination(None)?;
    Ok(Action::Multipath(Box::new(Multipath { fields, basis, algorithm, max_link, arg, dst })))
}

/// Most members of a bundle action.
const MAX_MEMBERS: u16 = 2048;
/// The header of the field `in_port`, the only kind of members.
const MEMBER_IN_PORT: u32 = 2;

/// Checks the members of a bundle action and where it stores its choice.
pub(super) fn check_bundle(
    bundle: &Bundle,
    limit: PortNo,
    flow_match: Option<&Match>,
) -> Result<(), OfError> {
    if let Some(dst) = &bundle.dst {
        dst.check_destination(flow_match)?;
    }
    for member in bundle.members.iter().filter(|member| **member != PortNo::NONE) {
        check_output_port(*member, limit)?;
        if *member == PortNo::CONTROLLER {
            return Err(OfError::BadActionOutPort);
        }
    }
    Ok(())
}

fn read_bundle(
    body: &mut Reader<'_>,
    context: &DecodeContext<'_>,
    load: bool,
) -> Result<Action, OfError> {
    let (algorithm, fields, basis) = (body.u16()?, body.u16()?, body.u16()?);
    let (member_type, n_members, offset_and_bits) = (body.u32()?, body.u16()?, body.u16()?);
    let dst = body.u32()?;
    let reserved = body.u32()?;
    let dst = match load {
        true => {
            let mut dst = field_of_short_header(dst, context)?;
            set_offset_and_bits(&mut dst, offset_and_bits);
            Some(dst).filter(|dst| dst.bits >= 16)
        }
        false => None.filter(|_: &Subfield| dst == 0),
    };
    let bad = load != dst.is_some()
        || (!load && offset_and_bits != 0)
        || reserved != 0
        || n_members > MAX_MEMBERS
        || member_type != MEMBER_IN_PORT;
    let members: Result<Vec<PortNo>, OfError> =
        (0..n_members).map(|_| body.u16().map(PortNo)).collect();
    let members = members?;
    let algorithm = match algorithm {
        0 => BundleAlgorithm::ActiveBackup,
        1 => BundleAlgorithm::Hrw,
        _ => return Err(OfError::BadActionArgument),
    };
    let bundle = Bundle { fields: HashFields::from_wire(fields)?, basis, algorithm, members, dst };
    if bad {
        return Err(OfError::BadActionArgument);
    }
    check_bundle(&bundle, PortNo::MAX, None)?;
    Ok(Action::Bundle(Box::new(bundle)))
}

fn read_output_reg(body: &mut Reader<'_>, context: &DecodeContext<'_>) -> Result<Action, OfError> {
    let (offset_and_bits, header, max_len) = (body.u16()?, body.u32()?, body.u16()?);
    body.zeros(6, OfError::BadActionArgument)?;
    let mut src = field_of_short_header(header, context)?;
    set_offset_and_bits(&mut src, offset_and_bits);
    src.check_source(None)?;
    Ok(Action::OutputField { src, max_len, long_header: false })
}

fn read_output_reg2(body: &mut Reader<'_>, context: &DecodeContext<'_>) -> Result<Action, OfError> {
    let (offset_and_bits, max_len) = (body.u16()?, body.u16()?);
    let mut src = read_subfield_header(body, context)?;
    body.zeros(body.len(), OfError::BadRequestMustBeZero)?;
    set_offset_and_bits(&mut src, offset_and_bits);
    src.check_source(None)?;
    Ok(Action::OutputField { src, max_len, long_header: true })
}

fn read_controller2(body: &mut Reader<'_>) -> Result<Action, OfError> {
    body.zeros(6, OfError::BadRequestMustBeZero)?;
    let mut controller = Controller {
        max_len: u16::MAX,
        controller_id: 0,
        reason: DEFAULT_REASON,
        userdata: Vec::new(),
        pause: false,
        meter_id: None,
        has_properties: true,
    };
    while !body.is_empty() {
        let mut property = property::read(body)?;
        match property.kind {
            controller_property::MAX_LEN => controller.max_len = property.body.u16()?,
            controller_property::ID => controller.controller_id = property.body.u16()?,
            controller_property::REASON => {
                controller.reason = PacketInReason(property.body.u8()?);
            }
            controller_property::USERDATA => controller.userdata = property.body.rest().to_vec(),
            controller_property::PAUSE => controller.pause = true,
            controller_property::METER => {
                controller.meter_id = Some(property.u32()?).filter(|meter| *meter != 0);
            }
            _ => return Err(property.unknown()),
        }
    }
    Ok(Action::Controller(Box::new(controller)))
}

fn read_stack(body: &mut Reader<'_>, context: &DecodeContext<'_>) -> Result<Subfield, OfError> {
    let offset = body.u16()?;
    let mut bits = read_subfield_header(body, context)?;
    (bits.offset, bits.bits) = (offset, body.u16()?);
    body.zeros(body.len(), OfError::BadRequestMustBeZero)?;
    Ok(bits)
}

fn read_sample(
    body: &mut Reader<'_>,
    context: &DecodeContext<'_>,
    raw: Raw,
) -> Result<Action, OfError> {
    let (probability, collector_set_id) = (body.u16()?, body.u32()?);
    let observation = |body: &mut Reader<'_>| match raw {
        Raw::Sample4 => Ok((body.u32()?, body.u32()?)),
        _ => Ok((0, body.u32()?)),
    };
    let (domain, point) = (observation(body)?, observation(body)?);
    let mut sample = Sample {
        probability,
        collector_set_id,
        obs_domain: Number::Immediate(0),
        obs_point: Number::Immediate(0),
        sampling_port: PortNo::NONE,
        direction: SampleDirection::Default,
        form: 1,
    };
    if raw != Raw::Sample {
        sample.form = 2;
        sample.sampling_port = PortNo(body.u16()?);
    }
    if raw == Raw::Sample3 || raw == Raw::Sample4 {
        sample.form = if raw == Raw::Sample3 { 3 } else { 4 };
        let direction = body.u8()?;
        body.zeros(5, OfError::BadRequestMustBeZero)?;
        sample.direction = match direction {
            0 => SampleDirection::Default,
            1 => SampleDirection::Ingress,
            2 => SampleDirection::Egress,
            _ => return Err(OfError::BadActionArgument),
        };
    }
    if probability == 0 {
        return Err(OfError::BadActionArgument);
    }
    let number = |(header, rest): (u32, u32)| -> Result<Number<u32>, OfError> {
        if header == 0 {
            return Ok(Number::Immediate(rest));
        }
        let mut src = field_of_short_header(header, context)?;
        set_offset_and_bits(&mut src, (rest >> 16) as u16);
        src.check_source(None)?;
        if src.bits > 32 {
            return Err(OfError::BadActionArgument);
        }
        Ok(Number::Field(src))
    };
    (sample.obs_domain, sample.obs_point) = (number(domain)?, number(point)?);
    Ok(Action::Sample(Box::new(sample)))
}

/// Properties of Nicira's controller action.
pub(super) mod controller_property {
    use super::property::Kind;

    pub(crate) const MAX_LEN: Kind = Kind::standard(0);
    pub(crate) const ID: Kind = Kind::standard(1);
    pub(crate) const REASON: Kind = Kind::standard(2);
    pub(crate) const USERDATA: Kind = Kind::standard(3);
    pub(crate) const PAUSE: Kind = Kind::standard(4);
    pub(crate) const METER: Kind = Kind::standard(5);
}
