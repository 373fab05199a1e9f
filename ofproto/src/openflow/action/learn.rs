//! The learn action.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::version::Version;
use super::super::wire::Reader;
use super::decode::{field_of_short_header, read_subfield_header};
use super::encode::{put_header, short_header};
use super::raw::{self, Raw};
use super::*;

/// Bits of a specification's header (`nx_learn_*`).
mod spec {
    pub(super) const BITS: u16 = 0x3ff;
    pub(super) const SRC_IMMEDIATE: u16 = 1 << 13;
    pub(super) const SRC: u16 = 1 << 13;
    pub(super) const DST: u16 = 3 << 11;
    pub(super) const DST_MATCH: u16 = 0;
    pub(super) const DST_LOAD: u16 = 1 << 11;
    pub(super) const DST_OUTPUT: u16 = 2 << 11;
}

pub(super) fn read_learn(
    body: &mut Reader<'_>,
    context: &DecodeContext<'_>,
    with_limit: bool,
) -> Result<Action, OfError> {
    let mut learn = Learn {
        idle_timeout: body.u16()?,
        hard_timeout: body.u16()?,
        priority: body.u16()?,
        cookie: body.u64()?,
        flags: body.u16()?,
        table_id: body.u8()?,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        limit: 0,
        result_dst: None,
        specs: Vec::new(),
        with_limit,
    };
    let pad = body.u8()?;
    (learn.fin_idle_timeout, learn.fin_hard_timeout) = (body.u16()?, body.u16()?);
    let mut result_offset = 0;
    if with_limit {
        (learn.limit, result_offset) = (body.u32()?, body.u16()?);
        body.zeros(2, OfError::BadActionMustBeZero)?;
    }
    let known = Learn::SEND_FLOW_REM
        | Learn::DELETE_LEARNED
        | if with_limit { Learn::WRITE_RESULT } else { 0 };
    if pad != 0 || learn.table_id == 255 || learn.flags & !known != 0 {
        return Err(OfError::BadActionArgument);
    }
    if learn.flags & Learn::WRITE_RESULT != 0 {
        let mut dst = read_subfield_header(body, context)?;
        if !dst.field.writable() {
            return Err(OfError::BadActionSetArgument);
        }
        (dst.offset, dst.bits) = (result_offset, 1);
        learn.result_dst = Some(dst);
    } else if result_offset != 0 {
        return Err(OfError::BadActionArgument);
    }
    learn.specs = read_specs(body, context)?;
    Ok(Action::Learn(Box::new(learn)))
}

fn read_specs(
    body: &mut Reader<'_>,
    context: &DecodeContext<'_>,
) -> Result<Vec<LearnSpec>, OfError> {
    let mut specs = Vec::new();
    while !body.is_empty() {
        let header = body.u16()?;
        if header == 0 {
            break;
        }
        let bits = header & spec::BITS;
        let immediate = header & spec::SRC == spec::SRC_IMMEDIATE;
        let output = header & spec::DST == spec::DST_OUTPUT;
        if header & spec::DST == spec::DST || (output && immediate) {
            return Err(OfError::BadActionArgument);
        }
        let subfield = |body: &mut Reader<'_>| {
            // The whole specification must be there before its fields are looked at.
            let (header, offset) = (body.u32()?, body.u16()?);
            let mut subfield = field_of_short_header(header, context)?;
            (subfield.offset, subfield.bits) = (offset, bits);
            Ok::<_, OfError>(subfield)
        };
        let src_len = if immediate { usize::from(bits.div_ceil(16)) * 2 } else { 6 };
        let needed = src_len + if output { 0 } else { 6 };
        if body.len() < needed {
            return Err(OfError::BadActionLen);
        }
        let src = if immediate {
            let bytes = body.bytes(src_len)?;
            let used = usize::from(bits.div_ceil(8));
            LearnSource::Immediate(Value::from_bytes(bytes.get(src_len - used..).unwrap_or(bytes)))
        } else {
            LearnSource::Field(subfield(body)?)
        };
        let dst = match header & spec::DST {
            spec::DST_MATCH => LearnDestination::Match(subfield(body)?),
            spec::DST_LOAD => LearnDestination::Load(subfield(body)?),
            _ => LearnDestination::Output,
        };
        specs.push(LearnSpec { bits, src, dst });
    }
    body.zeros(body.len(), OfError::BadActionArgument)?;
    Ok(specs)
}

pub(super) fn put_learn(out: &mut Vec<u8>, version: Version, learn: &Learn) {
    let long = learn.with_limit || learn.limit != 0 || learn.result_dst.is_some();
    let mut body = Vec::new();
    for number in [learn.idle_timeout, learn.hard_timeout, learn.priority] {
        body.put_u16(number);
    }
    body.put_u64(learn.cookie);
    body.put_u16(learn.flags);
    body.put_slice(&[learn.table_id, 0]);
    body.put_u16(learn.fin_idle_timeout);
    body.put_u16(learn.fin_hard_timeout);
    if long {
        body.put_u32(learn.limit);
        body.put_u16(learn.result_dst.map_or(0, |dst| dst.offset));
        body.put_u16(0);
    }
    if let Some(dst) = &learn.result_dst {
        put_header(&mut body, dst, None);
    }
    for spec in &learn.specs {
        put_spec(&mut body, spec);
    }
    raw::put(out, version, if long { Raw::Learn2 } else { Raw::Learn }, &body);
}

fn put_spec(body: &mut Vec<u8>, learn: &LearnSpec) {
    let immediate = matches!(learn.src, LearnSource::Immediate(_));
    let dst = match learn.dst {
        LearnDestination::Match(_) => spec::DST_MATCH,
        LearnDestination::Load(_) => spec::DST_LOAD,
        LearnDestination::Output => spec::DST_OUTPUT,
    };
    body.put_u16(learn.bits | dst | if immediate { spec::SRC_IMMEDIATE } else { 0 });
    let put_subfield = |body: &mut Vec<u8>, subfield: &Subfield| {
        body.put_u32(short_header(subfield));
        body.put_u16(subfield.offset);
    };
    match &learn.src {
        LearnSource::Field(src) => put_subfield(body, src),
        LearnSource::Immediate(value) => {
            body.extend(value.to_bytes(usize::from(learn.bits.div_ceil(16)) * 2));
        }
    }
    if let LearnDestination::Match(dst) | LearnDestination::Load(dst) = &learn.dst {
        put_subfield(body, dst);
    }
}

impl Learn {
    /// Checks the specifications against the flow's match and against what the learned flow
    /// matches so far.
    ///
    /// # Errors
    /// As [`Subfield::check_destination`].
    pub(super) fn check(&self, flow_match: &Match) -> Result<(), OfError> {
        let mut learned = Match::new();
        for spec in &self.specs {
            if let LearnSource::Field(src) = &spec.src {
                src.check_source(Some(flow_match))?;
            }
            match &spec.dst {
                LearnDestination::Match(dst) => {
                    dst.check_source(Some(&learned))?;
                    if let LearnSource::Immediate(value) = &spec.src {
                        let (offset, bits) = (usize::from(dst.offset), usize::from(dst.bits));
                        let set = Value::ones(bits).shl(offset);
                        let (old, old_mask) = learned.field(dst.field);
                        let value = old.and_not(&set).or(&value.shl(offset).and(&set));
                        learned
                            .set_field(dst.field, &value, &old_mask.or(&set))
                            .map_err(|_| OfError::BadActionArgument)?;
                    }
                }
                LearnDestination::Load(dst) => dst.check_destination(Some(&learned))?,
                LearnDestination::Output => {}
            }
        }
        Ok(())
    }
}
