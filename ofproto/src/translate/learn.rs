//! Actions that change rules.

use std::sync::Arc;

use netdev::clock;

use super::context::Context;
use super::{Effect, TraceKind, Traffic};
use crate::openflow::action::{
    Action, Learn, LearnDestination, LearnSource, LearnSpec, SetField, SetForm, Subfield,
};
use crate::openflow::flow_match::Match;
use crate::openflow::message::FlowFlags;
use crate::openflow::port::PortNo;
use crate::openflow::text::{DEFAULT_PRIORITY, NoNames, print_actions, print_match};
use crate::openflow::tlv_map::{TlvMap, TlvOption};
use crate::openflow::value::Value;
use crate::rule::RuleParts;
use crate::tables::{LearnResult, Learned};

impl Context<'_> {
    /// Does a fin_timeout action.
    pub(super) fn shorten_timeouts(&mut self, idle: u16, hard: u16) {
        let Some(rule) = self.rule.clone() else { return };
        let effect = Effect::Timeouts { tables: Arc::clone(&self.switch.tables), rule, idle, hard };
        if self.request.is_packet {
            effect.apply(&self.traffic());
        }
        self.effects.push(effect);
    }

    /// The packet that is translated, as far as effects look at it.
    fn traffic(&self) -> Traffic {
        Traffic {
            packets: 1,
            bytes: self.request.length.unwrap_or(0) as u64,
            used: clock::now(),
            tcp_flags: self.request.key.tcp_flags.get(),
        }
    }

    /// Does a learn action.
    pub(super) fn learn(&mut self, learn: &Learn) {
        for spec in &learn.specs {
            if let LearnSource::Field(src) = &spec.src {
                self.note_subfield(src);
            }
        }
        if !self.request.is_packet && self.request.trace.is_some() {
            return self.report(TraceKind::Warning, |_| {
                "suppressing side effects, so learn action ignored".to_owned()
            });
        }
        let learned = Arc::new(Learned::new(self.learned_rule(learn), learn.limit));
        self.report(TraceKind::Detail, |_| describe(learned.parts()));
        let tables = Arc::clone(&self.switch.tables);
        let mut is_full = false;
        if !self.request.is_packet {
            // What follows may depend on whether a packet could be learned from.
            self.is_transient |= learn.limit != 0 && !tables.has_learned(&learned);
        } else {
            match tables.learn(&learned, clock::now()) {
                Ok(result) => is_full = result == LearnResult::Full,
                Err(error) => {
                    return self.report_error(|_| {
                        format!("LEARN action execution failed ({}).", error.name())
                    });
                }
            }
        }
        if let Some(dst) = &learn.result_dst {
            self.load(dst, &Value::from(u128::from(!is_full)));
            self.report_subfield(dst);
        }
        if is_full {
            self.report(TraceKind::Detail, |_| "Limit exceeded, learn failed".to_owned());
        } else {
            self.effects.push(Effect::Learned { tables, learned });
        }
    }

    /// The rule that a learn action makes of the packet.
    fn learned_rule(&self, learn: &Learn) -> RuleParts {
        let mut flow_match = Match::new();
        let mut actions = Vec::new();
        if learn.fin_idle_timeout != 0 || learn.fin_hard_timeout != 0 {
            let (idle, hard) = (learn.fin_idle_timeout, learn.fin_hard_timeout);
            actions.push(Action::FinTimeout { idle, hard });
        }
        for LearnSpec { bits, src, dst } in &learn.specs {
            let value = match src {
                LearnSource::Field(src) => self.subfield(src),
                LearnSource::Immediate(value) => value.clone(),
            };
            let value = value.and(&Value::ones((*bits).into()));
            match dst {
                LearnDestination::Match(dst) => {
                    match_bits(&mut flow_match, dst, &value, &self.switch.tlv)
                }
                LearnDestination::Load(dst) => actions.push(load_bits(dst, &value)),
                LearnDestination::Output => actions.extend(output_to(value.low())),
            }
        }
        let removal = learn.flags & Learn::SEND_FLOW_REM != 0;
        RuleParts {
            table: learn.table_id,
            priority: learn.priority.into(),
            flow_match,
            cookie: learn.cookie,
            idle_timeout: learn.idle_timeout,
            hard_timeout: learn.hard_timeout,
            importance: 0,
            flags: if removal { FlowFlags::SEND_FLOW_REM } else { FlowFlags(0) },
            actions: actions.into(),
        }
    }
}

/// Adds to a match that some bits of a field are `value`.
fn match_bits(flow_match: &mut Match, dst: &Subfield, value: &Value, tlv: &TlvMap) {
    let (old, old_mask) = flow_match.field(dst.field);
    let offset = dst.offset.into();
    let bits = Value::ones(dst.bits.into()).shl(offset);
    let value = old.and_not(&bits).or(&value.shl(offset));
    let mask = old_mask.or(&bits);
    // Specifications were checked when the learn action came.
    let _ = match dst.field.slot().tun_metadata_index() {
        Some(index) => {
            let bytes = tlv.get(index).map_or(0, TlvOption::bytes);
            let is_masked = bytes == 0 || !mask.is_ones(8 * bytes);
            flow_match.set_tun_metadata(index, &value, &mask, bytes, is_masked)
        }
        None => flow_match.set_field(dst.field, &value, &mask),
    };
}

fn load_bits(dst: &Subfield, value: &Value) -> Action {
    let offset = dst.offset.into();
    Action::SetField(Box::new(SetField {
        field: dst.field,
        value: value.shl(offset),
        mask: Value::ones(dst.bits.into()).shl(offset),
        form: SetForm::Load,
        flow_has_vlan: false,
    }))
}

/// An output to a port, if it is one that learned rules may use.
fn output_to(number: u128) -> Option<Action> {
    let port = PortNo(u16::try_from(number).ok()?);
    let is_allowed = port < PortNo::MAX
        || [PortNo::IN_PORT, PortNo::FLOOD, PortNo::LOCAL, PortNo::ALL].contains(&port);
    is_allowed.then_some(Action::Output { port, max_len: 0 })
}

fn describe(parts: &RuleParts) -> String {
    let mut text = format!("table={} ", parts.table);
    print_match(&mut text, &parts.flow_match, DEFAULT_PRIORITY, &NoNames);
    if text.ends_with(' ') {
        text.pop();
    }
    text += &format!(" priority={}", parts.priority);
    if parts.cookie != 0 {
        text += &format!(" cookie={:#x}", parts.cookie);
    }
    if parts.idle_timeout != 0 {
        text += &format!(" idle={}", parts.idle_timeout);
    }
    if parts.hard_timeout != 0 {
        text += &format!(" hard={}", parts.hard_timeout);
    }
    if parts.flags == FlowFlags::SEND_FLOW_REM {
        text += " send_flow_rem";
    }
    text += " actions=";
    print_actions(&mut text, &parts.actions, &NoNames);
    text
}
