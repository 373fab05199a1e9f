//! Looking packets up in flow tables.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dpif::flow::{FRAG_ANY, FlowKey};
use tracing::warn;

use super::context::{Context, action_bytes};
use super::{
    Effect, MAX_ACTION_BYTES, MAX_DEPTH, MAX_RESUBMITS, MAX_STACK, TraceKind, TranslateError,
};
use crate::openflow::action::Action;
use crate::openflow::message::{FragmentHandling, TableMiss, config};
use crate::openflow::port::PortNo;
use crate::openflow::text::{DEFAULT_PRIORITY, Names, print_match};
use crate::port::PortNumber;
use crate::rule::Rule;
use crate::tables::{InternalRule, N_TABLES, TABLE_INTERNAL};

/// What a lookup found.
struct Found {
    rule: Arc<Rule>,
    /// The table that has it, or the last that has none.
    table: u8,
    /// The rules of a conjunction that took the packet.
    parts: Vec<Arc<Rule>>,
    /// Which rule of the switch itself it is.
    internal: Option<InternalRule>,
}

/// How actions are executed that a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// On the packet.
    Packet,
    /// On a copy of it.
    Copy,
}

/// A lookup that actions ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    pub(super) table: u8,
    /// The port on which the packet is to count as received.
    pub(super) in_port: u16,
    /// Whether controllers may be told that there is no rule.
    pub(super) may_report: bool,
    /// Whether packets without a rule go on as the table's configuration says.
    pub(super) honours_misses: bool,
    /// Whether the packet is looked up as the first of its connection, addresses and ports.
    pub(super) with_original_tuple: bool,
    pub(super) mode: Mode,
}

impl Context<'_> {
    /// The actions of the rule that takes the packet when it comes into the tables.
    pub(super) fn first_rule(&mut self) -> Arc<[Action]> {
        let lookup = Lookup {
            table: self.table,
            in_port: self.flow.in_port.get(),
            may_report: true,
            honours_misses: true,
            with_original_tuple: false,
            mode: Mode::Packet,
        };
        let Some(found) = self.find(&lookup) else { return [].into() };
        self.report_rule(&found, found.table);
        self.take(found)
    }

    /// Makes the rule that was found the current one; returns its actions.
    fn take(&mut self, found: Found) -> Arc<[Action]> {
        let Found { rule, table, .. } = found;
        let actions = Arc::clone(&rule.actions);
        self.effects.push(Effect::Rule(Arc::clone(&rule)));
        (self.table, self.cookie) = (table, rule.cookie);
        self.rule = Some(rule);
        actions
    }

    /// Finds the rule for the packet. There always is one, that of the switch itself at least.
    fn find(&mut self, lookup: &Lookup) -> Option<Found> {
        let packet = &mut self.flow.packet;
        let ports = (packet.tp_src, packet.tp_dst);
        if packet.ip_frag & FRAG_ANY != 0 {
            match self.switch.fragments {
                FragmentHandling::NxMatch => {}
                FragmentHandling::Normal => {
                    // As if they were not known.
                    packet.tp_src.set(0);
                    packet.tp_dst.set(0);
                }
                FragmentHandling::Drop | FragmentHandling::Reassemble => {
                    self.count(lookup.table, true);
                    return self.internal(InternalRule::DropFragments, lookup.table);
                }
            }
        }
        let in_port = self.flow.in_port;
        self.flow.in_port.set(lookup.in_port);
        let found = self.find_in_tables(lookup, in_port.get());
        self.flow.in_port = in_port;
        (self.flow.packet.tp_src, self.flow.packet.tp_dst) = ports;
        found
    }

    /// Looks into a table, and those behind it as far as they pass packets on.
    fn find_in_tables(&mut self, lookup: &Lookup, in_port: u16) -> Option<Found> {
        let tables = &self.switch.tables;
        let mut last = lookup.table;
        let mut miss = Some(TableMiss::Continue);
        // That of the switch itself is behind the others, but they do not lead there.
        let following = lookup.table.saturating_add(1)..N_TABLES;
        for table in std::iter::once(lookup.table).chain(following) {
            last = table;
            let found = tables.find(table, self.version.number(), &self.flow, &mut self.read);
            self.count(table, found.is_some());
            if let Some(crate::tables::Found { rule, parts }) = found {
                return Some(Found { rule, table, parts, internal: None });
            }
            if !lookup.honours_misses {
                break;
            }
            miss = tables.miss(table);
            if miss != Some(TableMiss::Continue) {
                break;
            }
        }
        let wants = lookup.may_report
            && match miss {
                Some(TableMiss::Continue | TableMiss::Controller) => self.may_report_from(in_port),
                Some(TableMiss::Drop) => false,
                None => self.switch.reports_misses.load(Ordering::Relaxed),
            };
        let rule = if wants { InternalRule::Miss } else { InternalRule::NoPacketIn };
        self.internal(rule, last)
    }

    fn internal(&self, internal: InternalRule, table: u8) -> Option<Found> {
        let rule = Arc::clone(self.switch.tables.internal(internal)?);
        Some(Found { rule, table, parts: Vec::new(), internal: Some(internal) })
    }

    fn count(&mut self, table: u8, is_match: bool) {
        let tables = Arc::clone(&self.switch.tables);
        self.effects.push(Effect::Table { tables, table, is_match });
    }

    /// Whether controllers may be told of packets from a port that no rule takes.
    fn may_report_from(&self, port: u16) -> bool {
        match self.switch.ports.get(&PortNumber(port)) {
            Some(port) => port.config & config::NO_PACKET_IN == 0,
            None => {
                warn!(
                    target: "ofproto_dpif",
                    limited = true,
                    "packet-in on unknown OpenFlow port {port}"
                );
                false
            }
        }
    }

    fn report_rule(&mut self, found: &Found, table: u8) {
        self.enter(TraceKind::Table, |context| {
            let mut text = format!("{table:2}. ");
            match found.internal {
                Some(InternalRule::Miss) => {
                    text += "No match, and a \"packet-in\" is called for.";
                }
                Some(InternalRule::NoPacketIn) => text += "No match.",
                Some(InternalRule::DropFragments) => {
                    text += "Packets are IP fragments and the fragment handling mode is \"drop\".";
                }
                None => describe(&found.rule, &mut text, context.names()),
            }
            text
        });
        for part in &found.parts {
            self.report(TraceKind::Detail, |context| {
                let mut text = "conj. ".to_owned();
                let priority = part.priority as u16;
                print_match(&mut text, &part.flow_match, priority, context.names());
                text
            });
        }
    }

    /// Whether translation may look the packet up once more.
    pub(super) fn may_go_on(&mut self) -> bool {
        let stack: usize = self.stack.iter().map(|value| 1 + usize::from(value.bytes)).sum();
        if self.depth >= MAX_DEPTH {
            self.fail(TranslateError::TooDeep, format!("over max translation depth {MAX_DEPTH}"));
        } else if self.resubmits >= MAX_RESUBMITS {
            let text = format!("over {MAX_RESUBMITS} resubmit actions");
            self.fail(TranslateError::TooManyResubmits, text);
        } else if action_bytes(&self.actions) > MAX_ACTION_BYTES {
            self.report_error(|_| "resubmits yielded over 64 kB of actions".to_owned());
            self.exit = true;
        } else if stack >= MAX_STACK {
            let text = "resubmits yielded over 64 kB of stack".to_owned();
            self.fail(TranslateError::StackTooDeep, text);
        } else {
            return true;
        }
        false
    }

    fn fail(&mut self, error: TranslateError, text: String) {
        self.report_error(|_| text);
        self.error = Some(error);
    }

    /// Looks the packet up and does what the rule says.
    pub(super) fn look_up(&mut self, lookup: Lookup, is_last: bool) {
        if self.was_mpls {
            // What it is must be known first.
            return self.freeze();
        }
        if !self.may_go_on() {
            return;
        }
        let from = self.table;
        let has_tuple = self.flow.packet.ct_proto != 0 && self.flow.packet.is_ip();
        if lookup.with_original_tuple && !has_tuple {
            return self
                .report_error(|_| "resubmit(ct) with non-tracked or non-IP packet!".to_owned());
        }
        if lookup.with_original_tuple {
            swap_tuples(&mut self.flow.packet);
            swap_tuples(&mut self.read.packet);
        }
        let found = self.find(&lookup);
        if lookup.with_original_tuple {
            swap_tuples(&mut self.flow.packet);
            swap_tuples(&mut self.read.packet);
        }
        let Some(found) = found else { return };
        let trace_depth = self.trace_depth;
        self.report_rule(&found, lookup.table);
        let deepens = u32::from(lookup.table <= from);
        let (rule, cookie) = (self.rule.take(), self.cookie);
        let actions = self.take(found);
        self.resubmits += 1;
        self.depth += deepens;
        match lookup.mode {
            Mode::Packet => self.do_actions(&actions, is_last, false),
            Mode::Copy => self.do_on_copy(&actions, is_last),
        }
        self.depth -= deepens;
        (self.rule, self.cookie, self.table) = (rule, cookie, from);
        self.trace_depth = trace_depth;
    }

    /// Does a resubmit action.
    pub(super) fn resubmit(&mut self, in_port: PortNo, table: u8, with_ct: bool, is_last: bool) {
        let in_port = match in_port {
            PortNo::IN_PORT => self.flow.in_port.get(),
            PortNo(port) => port,
        };
        let is_internal = self.rule.as_ref().is_some_and(|rule| rule.table == TABLE_INTERNAL);
        let lookup = Lookup {
            table: if table == u8::MAX { self.table } else { table },
            in_port,
            may_report: is_internal,
            honours_misses: is_internal,
            with_original_tuple: with_ct,
            mode: Mode::Packet,
        };
        self.look_up(lookup, is_last);
    }

    /// Goes on in a table, as if the packet came in there.
    pub(super) fn enter_table(&mut self, table: u8, may_report: bool, mode: Mode, is_last: bool) {
        let lookup = Lookup {
            table,
            in_port: self.flow.in_port.get(),
            may_report,
            honours_misses: true,
            with_original_tuple: false,
            mode,
        };
        self.look_up(lookup, is_last);
    }
}

/// Exchanges addresses, ports and protocol for those of the connection's first packet.
fn swap_tuples(key: &mut FlowKey) {
    std::mem::swap(&mut key.ip_proto, &mut key.ct_proto);
    std::mem::swap(&mut key.ipv4_src, &mut key.ct_ipv4_src);
    std::mem::swap(&mut key.ipv4_dst, &mut key.ct_ipv4_dst);
    std::mem::swap(&mut key.ipv6_src, &mut key.ct_ipv6_src);
    std::mem::swap(&mut key.ipv6_dst, &mut key.ct_ipv6_dst);
    std::mem::swap(&mut key.tp_src, &mut key.ct_tp_src);
    std::mem::swap(&mut key.tp_dst, &mut key.ct_tp_dst);
}

fn describe(rule: &Rule, text: &mut String, names: &dyn Names) {
    let start = text.len();
    print_match(text, &rule.flow_match, DEFAULT_PRIORITY, names);
    if text.len() > start {
        text.push_str(", ");
    }
    *text += &format!("priority {}", rule.priority);
    if rule.cookie != 0 {
        *text += &format!(", cookie {:#x}", rule.cookie);
    }
}
