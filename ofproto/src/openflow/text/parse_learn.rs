//! Reading learn actions.

use super::super::action::{Action, Learn, LearnDestination, LearnSource, LearnSpec, Subfield};
use super::super::value::Value;
use super::parse_action::{arrow, writable};
use super::parse_match::{integer, parse_value};
use super::scan::{Pair, Pairs, ParseError, Word};
use super::{DEFAULT_PRIORITY, Names};

pub(super) fn parse_learn(value: Word<'_>, names: &dyn Names) -> Result<Action, ParseError> {
    let mut learn = Learn {
        idle_timeout: 0,
        hard_timeout: 0,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        priority: DEFAULT_PRIORITY,
        cookie: 0,
        flags: 0,
        table_id: 1,
        limit: 0,
        result_dst: None,
        specs: Vec::new(),
        with_limit: false,
    };
    for pair in Pairs::new(value) {
        let value = pair.value;
        match pair.key.text {
            "table" => {
                learn.table_id = value.table(names)?;
                if learn.table_id == u8::MAX {
                    return Err(value.error("table id 255 not valid for `learn' action"));
                }
            }
            "priority" => learn.priority = value.number()?,
            "idle_timeout" => learn.idle_timeout = value.number()?,
            "hard_timeout" => learn.hard_timeout = value.number()?,
            "fin_idle_timeout" => learn.fin_idle_timeout = value.number()?,
            "fin_hard_timeout" => learn.fin_hard_timeout = value.number()?,
            "cookie" => learn.cookie = value.number()?,
            "send_flow_rem" => learn.flags |= Learn::SEND_FLOW_REM,
            "delete_learned" => learn.flags |= Learn::DELETE_LEARNED,
            "limit" => {
                learn.limit = value.number()?;
                learn.with_limit = true;
            }
            "result_dst" => {
                let dst = writable(value.subfield()?, value)?;
                if dst.bits != 1 {
                    return Err(value.error("result_dst in 'learn' action must be a single bit"));
                }
                learn.flags |= Learn::WRITE_RESULT;
                learn.result_dst = Some(dst);
                learn.with_limit = true;
            }
            _ => learn.specs.push(parse_spec(&pair, names)?),
        }
    }
    Ok(Action::Learn(Box::new(learn)))
}

fn parse_spec(pair: &Pair<'_>, names: &dyn Names) -> Result<LearnSpec, ParseError> {
    let value = pair.value;
    // The name of a field may hold a range of bits.
    if let Ok(dst) = pair.key.subfield() {
        let src = match value.text.is_empty() {
            true => LearnSource::Field(dst),
            false => parse_source(value, dst, names)?,
        };
        return Ok(LearnSpec { bits: dst.bits, src, dst: LearnDestination::Match(dst) });
    }
    match pair.key.text {
        "load" => {
            let (from, to) = arrow(value)?;
            let dst = writable(to.subfield()?, to)?;
            let src = match from.subfield() {
                Ok(src) => same_width(src, dst, value)?,
                Err(_) => LearnSource::Immediate(number(from, dst)?),
            };
            Ok(LearnSpec { bits: dst.bits, src, dst: LearnDestination::Load(dst) })
        }
        "output" => {
            let src = value.subfield()?;
            let (bits, src) = (src.bits, LearnSource::Field(src));
            Ok(LearnSpec { bits, src, dst: LearnDestination::Output })
        }
        _ => Err(pair.key.error("unknown keyword")),
    }
}

fn same_width(src: Subfield, dst: Subfield, word: Word<'_>) -> Result<LearnSource, ParseError> {
    match src.bits == dst.bits {
        true => Ok(LearnSource::Field(src)),
        false => Err(word.error(format!("bit widths {} and {} differ", src.bits, dst.bits))),
    }
}

fn number(text: Word<'_>, dst: Subfield) -> Result<Value, ParseError> {
    let value = integer(text, dst.field.bytes() * 8)?;
    match value.shr(usize::from(dst.bits)).is_zero() {
        true => Ok(value),
        false => Err(text.error(format!("value does not fit into {} bits", dst.bits))),
    }
}

fn parse_source(
    text: Word<'_>,
    dst: Subfield,
    names: &dyn Names,
) -> Result<LearnSource, ParseError> {
    if let Ok(src) = text.subfield() {
        return same_width(src, dst, text);
    }
    if !dst.is_whole() {
        return number(text, dst).map(LearnSource::Immediate);
    }
    let (value, mask) = parse_value(dst.field, text, names)?;
    match mask.is_ones(dst.field.bytes() * 8) {
        true => Ok(LearnSource::Immediate(value)),
        false => Err(text.error("wildcards not allowed here")),
    }
}
