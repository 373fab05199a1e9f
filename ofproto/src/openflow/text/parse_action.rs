//! Reading actions.

use super::super::action::{
    Action, Bundle, BundleAlgorithm, Controller, HashFields, Instruction, Move, Multipath,
    MultipathAlgorithm, Outer, PacketInReason, SetField, SetForm, Subfield, verify,
};
use super::super::error::OfError;
use super::super::port::PortNo;
use super::super::value::Value;
use super::super::version::Version;
use super::parse_match::{mac_bytes, parse_value};
use super::parse_nested::{parse_ct, parse_encap, parse_nat, parse_sample};
use super::scan::{Pair, Pairs, ParseError, Word};
use super::{Names, parse_learn};

/// How deep actions may nest.
const MAX_DEPTH: usize = 100;

/// Where actions stand in the text and which names they may use.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) names: &'a dyn Names,
    pub(super) depth: usize,
}

/// Reads actions and instructions such as `mod_vlan_vid:3,output:2`. They are still to be checked
/// against a match.
///
/// # Errors
/// For a word that is not understood, and for actions that cannot stand together.
pub fn parse_actions(text: &str, names: &dyn Names) -> Result<Vec<Action>, ParseError> {
    let reading = Reading { names, depth: 0 };
    parse_list(Word::new(text), reading, Instruction::ALL, Outer::None)
}

/// Reads actions within another or alone.
pub(super) fn parse_list(
    text: Word<'_>,
    reading: Reading<'_>,
    allowed: &[Instruction],
    outer: Outer,
) -> Result<Vec<Action>, ParseError> {
    if reading.depth > MAX_DEPTH {
        return Err(text.error("actions are nested too deeply"));
    }
    let mut actions = Vec::new();
    let mut drop = None;
    for pair in Pairs::new(text) {
        match pair.key.text.eq_ignore_ascii_case("drop") {
            true => drop = Some(pair.key),
            false => actions.extend(parse_one(&pair, reading)?),
        }
    }
    if let Some(word) = drop.filter(|_| !actions.is_empty()) {
        return Err(word.error("must not be accompanied by any other action or instruction"));
    }
    let checked = verify(&actions, Version::V15, allowed, outer);
    match checked {
        Ok(()) => Ok(actions),
        Err(error) => Err(text.error(match error {
            OfError::BadActionConjunction => "conjunction may stand with conjunction only",
            OfError::BadInstructionUnsupInst => "an instruction is not allowed here",
            OfError::BadActionUnsupportedOrder => "actions and instructions are out of order",
            _ => "an action is not allowed here",
        })),
    }
}

fn parse_one(pair: &Pair<'_>, reading: Reading<'_>) -> Result<Option<Action>, ParseError> {
    let names = reading.names;
    let value = pair.value;
    let name = pair.key.text.to_ascii_lowercase();
    let deeper = Reading { depth: reading.depth + 1, ..reading };
    let action = match name.as_str() {
        "output" => parse_output(pair.required()?, names)?,
        "group" => Action::Group(value.number()?),
        "controller" => parse_controller(value)?,
        "enqueue" => {
            let split = value.split(":").or_else(|| value.split(","));
            let (port, queue) = split.ok_or_else(|| value.error("expected port:queue"))?;
            Action::Enqueue { port: port.port(names)?, queue: queue.number()? }
        }
        "bundle" => parse_bundle(value, false, names)?,
        "bundle_load" => parse_bundle(value, true, names)?,
        "set_field" => parse_set_field(value, names)?,
        "load" => parse_load(value)?,
        "move" => parse_move(value)?,
        "set_vlan_vid" | "mod_vlan_vid" => {
            let vid: u16 = value.number()?;
            if vid > 0xfff {
                return Err(value.error("not a valid VLAN VID"));
            }
            let push_if_needed = name == "mod_vlan_vid";
            Action::SetVlanVid { vid, push_if_needed, flow_has_vlan: false }
        }
        "set_vlan_pcp" | "mod_vlan_pcp" => {
            let pcp: u8 = value.number()?;
            if pcp > 7 {
                return Err(value.error("not a valid VLAN PCP"));
            }
            let push_if_needed = name == "mod_vlan_pcp";
            Action::SetVlanPcp { pcp, push_if_needed, flow_has_vlan: false }
        }
        "strip_vlan" => Action::PopVlan { strip: true },
        "pop_vlan" => Action::PopVlan { strip: false },
        "push_vlan" => Action::PushVlan(value.number()?),
        "mod_dl_src" => Action::SetEthSrc(mac_bytes(value)?),
        "mod_dl_dst" => Action::SetEthDst(mac_bytes(value)?),
        "mod_nw_src" => Action::SetIpv4Src(ipv4(value)?),
        "mod_nw_dst" => Action::SetIpv4Dst(ipv4(value)?),
        "mod_nw_tos" => {
            let tos: u8 = value.number()?;
            if tos & 3 != 0 {
                return Err(value.error("not a valid TOS"));
            }
            Action::SetIpDscp(tos)
        }
        "mod_nw_ecn" => {
            let ecn: u8 = value.number()?;
            if ecn > 3 {
                return Err(value.error("not a valid ECN"));
            }
            Action::SetIpEcn(ecn)
        }
        "mod_nw_ttl" | "set_nw_ttl" => Action::SetIpTtl(value.number()?),
        "mod_tp_src" => Action::SetTransportSrc { port: value.number()?, ip_proto: 0 },
        "mod_tp_dst" => Action::SetTransportDst { port: value.number()?, ip_proto: 0 },
        "push" => Action::Push(value.subfield()?),
        "pop" => Action::Pop(value.subfield()?),
        "dec_ttl" if value.text.is_empty() => Action::DecTtl(None),
        "dec_ttl" => {
            let ids = Pairs::new(value).map(|id| id.key.number());
            Action::DecTtl(Some(ids.collect::<Result<_, _>>()?))
        }
        "set_mpls_label" => Action::SetMplsLabel(value.number()?),
        "set_mpls_tc" => Action::SetMplsTc(value.number()?),
        "set_mpls_ttl" => Action::SetMplsTtl(value.number()?),
        "dec_mpls_ttl" => Action::DecMplsTtl,
        "push_mpls" => Action::PushMpls(value.number()?),
        "pop_mpls" => Action::PopMpls(value.number()?),
        "dec_nsh_ttl" => Action::DecNshTtl,
        "delete_field" => {
            let field = value.field()?;
            if !field.is_variable() {
                return Err(value.error("only tunnel metadata can be deleted"));
            }
            Action::DeleteField { field, bytes: field.bytes() as u8 }
        }
        "encap" => parse_encap(value)?,
        "decap" => super::parse_nested::parse_decap(value)?,
        "set_tunnel" => Action::SetTunnel { id: value.number()?, wide: false },
        "set_tunnel64" => Action::SetTunnel { id: value.number()?, wide: true },
        "set_queue" => Action::SetQueue(value.number()?),
        "pop_queue" => Action::PopQueue,
        "fin_timeout" => {
            let (mut idle, mut hard) = (0, 0);
            for pair in Pairs::new(value) {
                match pair.key.text {
                    "idle_timeout" => idle = pair.value.number()?,
                    "hard_timeout" => hard = pair.value.number()?,
                    _ => return Err(pair.key.error("invalid key in fin_timeout")),
                }
            }
            Action::FinTimeout { idle, hard }
        }
        "resubmit" => parse_resubmit(value, names)?,
        "learn" => parse_learn::parse_learn(value, names)?,
        "conjunction" => parse_conjunction(value)?,
        "multipath" => parse_multipath(value)?,
        "note" => {
            let mut note = value.dotted_hex()?;
            note.resize((note.len() + 2).next_multiple_of(8) - 2, 0);
            Action::Note(note.into_boxed_slice())
        }
        "exit" => Action::Exit,
        "sample" => parse_sample(value, names)?,
        "ct" => parse_ct(value, deeper)?,
        "ct_clear" => Action::CtClear,
        "nat" => parse_nat(value)?,
        "clone" => Action::Clone(parse_list(value, deeper, Instruction::ALL, Outer::Clone)?),
        "check_pkt_larger" => {
            let split = value.split(")->");
            let (len, dst) = split.ok_or_else(|| value.error("missing -> and a bit"))?;
            let dst = dst.subfield()?;
            if dst.bits != 1 {
                return Err(value.error("only one bit can be the destination"));
            }
            Action::CheckPktLarger { len: len.number()?, dst }
        }
        "debug_recirc" => Action::DebugRecirc,
        "debug_slow" => Action::DebugSlow,
        "meter" => Action::Meter(value.number()?),
        "clear_actions" => Action::ClearActions,
        "write_actions" => Action::WriteActions(parse_list(
            value,
            deeper,
            &[Instruction::ApplyActions],
            Outer::WriteActions,
        )?),
        "apply_actions" => {
            return Err(pair.key.error("apply_actions is the default instruction"));
        }
        "write_metadata" => {
            let (metadata, mask) = match value.split("/") {
                Some((metadata, mask)) => (metadata.number()?, mask.number()?),
                None => (value.number()?, u64::MAX),
            };
            Action::WriteMetadata { metadata, mask }
        }
        "goto_table" => Action::GotoTable(value.table(names)?),
        _ => match pair.key.port(names) {
            Ok(port) => Action::Output { port, max_len: 0 },
            Err(_) => return Err(pair.key.error("unknown action")),
        },
    };
    Ok(Some(action))
}

fn ipv4(text: Word<'_>) -> Result<std::net::Ipv4Addr, ParseError> {
    text.text.parse().map_err(|_| text.error("invalid IPv4 address"))
}

fn parse_output(value: Word<'_>, names: &dyn Names) -> Result<Action, ParseError> {
    if let Ok(port) = value.port(names) {
        let max_len = if port == PortNo::CONTROLLER { u16::MAX } else { 0 };
        return Ok(Action::Output { port, max_len });
    }
    if !value.text.starts_with("port=") {
        let src = value.subfield()?;
        return Ok(Action::OutputField { src, max_len: u16::MAX, long_header: false });
    }
    let (mut port, mut max_len) = (PortNo::NONE, 0);
    for pair in Pairs::new(value) {
        match pair.key.text {
            "port" => port = pair.value.port(names)?,
            "max_len" => max_len = pair.value.number()?,
            _ => return Err(pair.key.error("invalid key in output")),
        }
    }
    Ok(Action::OutputTrunc { port, max_len })
}

fn parse_controller(value: Word<'_>) -> Result<Action, ParseError> {
    let mut controller = Controller {
        max_len: u16::MAX,
        controller_id: 0,
        reason: PacketInReason::ACTION,
        userdata: Vec::new(),
        pause: false,
        meter_id: None,
        has_properties: false,
    };
    if value.text.starts_with(|c: char| c.is_ascii_digit()) {
        controller.max_len = value.number()?;
    } else {
        for pair in Pairs::new(value) {
            match pair.key.text {
                "reason" => {
                    let named = (0..PacketInReason::COUNT).map(PacketInReason);
                    let mut named = named.filter(|reason| reason.name() == Some(pair.value.text));
                    let reason = named.next();
                    controller.reason = reason.ok_or_else(|| pair.value.error("unknown reason"))?;
                }
                "max_len" => controller.max_len = pair.value.number()?,
                "id" => controller.controller_id = pair.value.number()?,
                "userdata" => controller.userdata = pair.value.dotted_hex()?,
                "pause" => controller.pause = true,
                "meter_id" => controller.meter_id = Some(pair.value.number()?),
                _ => return Err(pair.key.error("unknown key parsing controller action")),
            }
        }
    }
    controller.has_properties =
        controller.pause || !controller.userdata.is_empty() || controller.meter_id.is_some();
    let plain = controller.reason == PacketInReason::ACTION && controller.controller_id == 0;
    Ok(match plain && !controller.has_properties {
        true => Action::Output { port: PortNo::CONTROLLER, max_len: controller.max_len },
        false => Action::Controller(Box::new(controller)),
    })
}

/// The parts of a list with commas between, white space around them removed.
fn parts<'a>(text: Word<'a>) -> impl Iterator<Item = Word<'a>> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let current = rest?;
        let (part, tail) = match current.split(",") {
            Some((part, tail)) => (part, Some(tail)),
            None => (current, None),
        };
        rest = tail;
        Some(part.trim())
    })
}

fn parse_bundle(value: Word<'_>, load: bool, names: &dyn Names) -> Result<Action, ParseError> {
    let not_enough = || value.error("not enough arguments to bundle action");
    let mut words = parts(value);
    let mut next = || words.next().filter(|word| !word.text.is_empty()).ok_or_else(not_enough);
    let (fields, basis, algorithm, kind) = (next()?, next()?, next()?, next()?);
    let dst = if load { Some(next()?.subfield()?) } else { None };
    let first = next()?;
    if !kind.text.eq_ignore_ascii_case("ofport") {
        return Err(kind.error("unknown member type"));
    }
    let split = first.split("members:").or_else(|| first.split("slaves:"));
    let (_, first) = split.ok_or_else(|| first.error("missing members:"))?;
    let all = std::iter::once(first.trim()).chain(words);
    let members = all.filter(|member| !member.text.is_empty()).map(|member| member.port(names));
    Ok(Action::Bundle(Box::new(Bundle {
        fields: hash_fields(fields)?,
        basis: basis.number()?,
        algorithm: match algorithm.text.to_ascii_lowercase().as_str() {
            "active_backup" => BundleAlgorithm::ActiveBackup,
            "hrw" => BundleAlgorithm::Hrw,
            _ => return Err(algorithm.error("unknown algorithm")),
        },
        members: members.collect::<Result<_, _>>()?,
        dst,
    })))
}

fn hash_fields(word: Word<'_>) -> Result<HashFields, ParseError> {
    HashFields::from_name(word.text).ok_or_else(|| word.error("unknown fields"))
}

fn parse_multipath(value: Word<'_>) -> Result<Action, ParseError> {
    let words: Vec<Word<'_>> = parts(value).collect();
    let [fields, basis, algorithm, n_links, arg, dst] = words[..] else {
        return Err(value.error("multipath takes six arguments"));
    };
    let links: u32 = n_links.number()?;
    if !(1..=65536).contains(&links) {
        return Err(n_links.error("number of links is not in the valid range 1 to 65536"));
    }
    let dst = dst.subfield()?;
    if dst.bits < 16 && links > 1 << dst.bits {
        return Err(n_links.error("the destination is too narrow for so many links"));
    }
    let known = MultipathAlgorithm::from_name(algorithm.text);
    Ok(Action::Multipath(Box::new(Multipath {
        fields: hash_fields(fields)?,
        basis: basis.number()?,
        algorithm: known.ok_or_else(|| algorithm.error("unknown algorithm"))?,
        max_link: (links - 1) as u16,
        arg: arg.number()?,
        dst,
    })))
}

/// The parts before and after `->`.
pub(super) fn arrow(value: Word<'_>) -> Result<(Word<'_>, Word<'_>), ParseError> {
    let split = value.split("->").map(|(from, to)| (from.trim(), to.trim()));
    split.ok_or_else(|| value.error("missing `->' before the destination"))
}

fn parse_set_field(value: Word<'_>, names: &dyn Names) -> Result<Action, ParseError> {
    let (text, field) = arrow(value)?;
    let field = field.field()?;
    if !field.writable() {
        return Err(value.error(format!("{} is read-only", field.name())));
    }
    let (value, mask) = parse_value(field, text, names)?;
    let form = SetForm::SetField;
    Ok(Action::SetField(Box::new(SetField { field, value, mask, form, flow_has_vlan: false })))
}

/// Checks that bits may be written.
pub(super) fn writable(dst: Subfield, word: Word<'_>) -> Result<Subfield, ParseError> {
    match dst.field.writable() {
        true => Ok(dst),
        false => Err(word.error(format!("{} is read-only", dst.field.name()))),
    }
}

fn parse_load(value: Word<'_>) -> Result<Action, ParseError> {
    let (number, dst) = arrow(value)?;
    let dst = writable(dst.subfield()?, dst)?;
    let bits: u128 = number.number()?;
    let ones = Value::ones(usize::from(dst.bits));
    if bits & !ones.low() != 0 {
        return Err(number.error(format!("value does not fit into {} bits", dst.bits)));
    }
    let offset = usize::from(dst.offset);
    Ok(Action::SetField(Box::new(SetField {
        field: dst.field,
        value: Value::from(bits).shl(offset),
        mask: ones.shl(offset),
        form: SetForm::Load,
        flow_has_vlan: false,
    })))
}

fn parse_move(value: Word<'_>) -> Result<Action, ParseError> {
    let (src, dst) = arrow(value)?;
    let (src, dst) = (src.subfield()?, writable(dst.subfield()?, dst)?);
    if src.bits != dst.bits {
        let (from, to) = (src.bits, dst.bits);
        return Err(value.error(format!("source field is {from} bits wide, destination {to}")));
    }
    Ok(Action::Move(Box::new(Move { src, dst, copy_field: false })))
}

fn parse_resubmit(value: Word<'_>, names: &dyn Names) -> Result<Action, ParseError> {
    let words: Vec<Word<'_>> = parts(value).collect();
    let port = words.first().filter(|word| !word.text.is_empty());
    let in_port = port.map_or(Ok(PortNo::IN_PORT), |port| port.port(names))?;
    let table = words.get(1).filter(|word| !word.text.is_empty());
    let table = table.map_or(Ok(u8::MAX), |table| table.table(names))?;
    let with_ct = match words.get(2) {
        None => false,
        Some(word) if word.text == "ct" => true,
        Some(word) => return Err(word.error("unknown parameter")),
    };
    if in_port == PortNo::IN_PORT && table == u8::MAX {
        return Err(value.error("at least one of port and table must be specified"));
    }
    Ok(Action::Resubmit { in_port, table, with_ct, short: words.len() < 2 })
}

fn parse_conjunction(value: Word<'_>) -> Result<Action, ParseError> {
    let words: Vec<Word<'_>> = parts(value).collect();
    let [id, clauses] = words[..] else {
        return Err(value.error("expected id, clause/n_clauses"));
    };
    let split = clauses.split("/");
    let (clause, n_clauses) = split.ok_or_else(|| clauses.error("expected clause/n_clauses"))?;
    let (number, n_clauses): (u8, u8) = (clause.number()?, n_clauses.number()?);
    match number >= 1 && number <= n_clauses && (2..=64).contains(&n_clauses) {
        true => Ok(Action::Conjunction { id: id.number()?, clause: number - 1, n_clauses }),
        false => Err(clauses.error("there must be 2 to 64 clauses, numbered from 1")),
    }
}
