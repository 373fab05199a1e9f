//! Instructions of OpenFlow 1.1 and later, and which actions may stand together.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};
use super::decode::{Outer, read_list};
use super::encode::put_actions;
use super::*;

/// An instruction, in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Instruction {
    Meter,
    ApplyActions,
    ClearActions,
    WriteActions,
    WriteMetadata,
    GotoTable,
}

impl Instruction {
    pub(crate) const ALL: &[Instruction] = &[
        Instruction::Meter,
        Instruction::ApplyActions,
        Instruction::ClearActions,
        Instruction::WriteActions,
        Instruction::WriteMetadata,
        Instruction::GotoTable,
    ];

    /// What a list of actions outside of flows may hold: a meter is an action in OpenFlow 1.5.
    pub(crate) const ACTIONS: &[Instruction] = &[Instruction::Meter, Instruction::ApplyActions];

    /// The instruction type on the wire (OpenFlow 1.3, section A.2.4).
    pub(crate) fn number(self) -> u16 {
        match self {
            Instruction::GotoTable => 1,
            Instruction::WriteMetadata => 2,
            Instruction::WriteActions => 3,
            Instruction::ApplyActions => 4,
            Instruction::ClearActions => 5,
            Instruction::Meter => 6,
        }
    }

    /// The instruction to which an action belongs in `version`.
    pub(crate) fn of(action: &Action, version: Version) -> Instruction {
        match action {
            Action::Meter(_) if version < Version::V15 => Instruction::Meter,
            Action::ClearActions => Instruction::ClearActions,
            Action::WriteActions(_) => Instruction::WriteActions,
            Action::WriteMetadata { .. } => Instruction::WriteMetadata,
            Action::GotoTable(_) => Instruction::GotoTable,
            _ => Instruction::ApplyActions,
        }
    }
}

/// The type of experimenter instructions.
const EXPERIMENTER: u16 = 0xffff;

/// Reads the instructions of a flow to the end of `reader`; in OpenFlow 1.0 its actions.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn read_instructions(
    reader: &mut Reader<'_>,
    context: &DecodeContext<'_>,
) -> Result<Vec<Action>, OfError> {
    if context.version == Version::V10 {
        let len = reader.len();
        return read_actions(reader, len, context, Instruction::ALL);
    }
    if !reader.len().is_multiple_of(8) {
        return Err(OfError::BadInstructionLen);
    }
    let mut found: [Option<Reader<'_>>; Instruction::ALL.len()] = [const { None }; 6];
    while !reader.is_empty() {
        let mut header = reader.with_error(OfError::BadInstructionLen);
        let (kind, len) = (header.u16()?, usize::from(header.u16()?));
        if len < 8 || len % 8 != 0 {
            return Err(OfError::BadInstructionLen);
        }
        let mut body = reader.with_error(OfError::BadInstructionLen).sub(len)?;
        reader.skip(len)?;
        body.skip(4)?;
        if kind == EXPERIMENTER {
            return Err(OfError::BadInstructionExperimenter);
        }
        let mut known = Instruction::ALL.iter().zip(&mut found);
        let (instruction, place) = known
            .find(|(instruction, _)| instruction.number() == kind)
            .ok_or(OfError::BadInstructionUnknownInst)?;
        let fits = match instruction {
            Instruction::ApplyActions | Instruction::WriteActions => true,
            Instruction::WriteMetadata => len == 24,
            _ => len == 8,
        };
        if !fits {
            return Err(OfError::BadInstructionLen);
        }
        if *instruction == Instruction::Meter && context.version >= Version::V15 {
            return Err(OfError::BadInstructionUnknownInst);
        }
        if place.is_some() {
            return Err(OfError::BadInstructionDupInst);
        }
        *place = Some(body);
    }
    let mut actions = Vec::new();
    for (instruction, body) in Instruction::ALL.iter().zip(found) {
        let Some(mut body) = body else { continue };
        match instruction {
            Instruction::Meter => actions.push(Action::Meter(body.u32()?)),
            Instruction::ApplyActions => {
                body.skip(4)?;
                actions.append(&mut read_list(&mut body, context)?);
            }
            Instruction::ClearActions => actions.push(Action::ClearActions),
            Instruction::WriteActions => {
                body.skip(4)?;
                let set = read_list(&mut body, context)?;
                if !set.iter().all(Action::may_be_in_set) {
                    return Err(OfError::BadActionType);
                }
                actions.push(Action::WriteActions(set));
            }
            Instruction::WriteMetadata => {
                body.skip(4)?;
                let (metadata, mask) = (body.u64()?, body.u64()?);
                actions.push(Action::WriteMetadata { metadata, mask });
            }
            Instruction::GotoTable => actions.push(Action::GotoTable(body.u8()?)),
        }
    }
    verify(&actions, context.version, Instruction::ALL, Outer::None)?;
    Ok(actions)
}

/// Appends an instruction with `body` after its type and length.
fn put_instruction(out: &mut Vec<u8>, instruction: Instruction, body: &[u8]) {
    let start = out.len();
    out.put_u16(instruction.number());
    out.put_u16(0);
    out.put_slice(body);
    let len = out.len() - start;
    patch_u16(out, start + 2, len as u16);
}

/// Appends one action that is an instruction. Versions without it leave it out.
pub(super) fn put_as_instruction(out: &mut Vec<u8>, version: Version, action: &Action) {
    let instruction = Instruction::of(action, version);
    let mut body = Vec::new();
    match action {
        Action::Meter(meter) if version >= Version::V13 => body.put_u32(*meter),
        Action::Meter(_) => return,
        Action::WriteActions(set) => {
            body.put_u32(0);
            put_actions(&mut body, set, version);
            // An empty instruction is left out, as Open vSwitch does.
            if body.len() == 4 {
                return;
            }
        }
        Action::WriteMetadata { metadata, mask } => {
            body.put_u32(0);
            body.put_u64(*metadata);
            body.put_u64(*mask);
        }
        Action::GotoTable(table) => body.put_slice(&[*table, 0, 0, 0]),
        _ => body.put_u32(0),
    }
    put_instruction(out, instruction, &body);
}

/// Appends actions as the instructions of a flow; in OpenFlow 1.0 as its actions.
pub(crate) fn put_instructions(out: &mut Vec<u8>, actions: &[Action], version: Version) {
    if version == Version::V10 {
        return put_actions(out, actions, version);
    }
    let applied = |action: &Action| Instruction::of(action, version) == Instruction::ApplyActions;
    for chunk in actions.chunk_by(|a, b| applied(a) && applied(b)) {
        if chunk.first().is_some_and(applied) {
            let mut body = vec![0; 4];
            put_actions(&mut body, chunk, version);
            if body.len() > 4 {
                put_instruction(out, Instruction::ApplyActions, &body);
            }
        } else {
            chunk.iter().for_each(|action| put_as_instruction(out, version, action));
        }
    }
}

/// Checks which actions stand together and in which order.
///
/// # Errors
/// `BadActionConjunction`, `BadActionSetArgument`, `BadActionArgument`,
/// `BadActionUnsupportedOrder` and `BadInstructionUnsupInst`.
pub(crate) fn verify(
    actions: &[Action],
    version: Version,
    allowed: &[Instruction],
    outer: Outer,
) -> Result<(), OfError> {
    let mut last: Option<Instruction> = None;
    for action in actions {
        if matches!(action, Action::Conjunction { .. }) {
            let alone =
                |action: &Action| matches!(action, Action::Conjunction { .. } | Action::Note(_));
            return match actions.iter().all(alone) {
                true => Ok(()),
                false => Err(OfError::BadActionConjunction),
            };
        }
        verify_nested(action, outer)?;
        let next = Instruction::of(action, version);
        let in_order = match last {
            None => true,
            Some(Instruction::ApplyActions) => next >= Instruction::ApplyActions,
            Some(last) => next > last,
        };
        if !in_order {
            return Err(OfError::BadActionUnsupportedOrder);
        }
        if !allowed.contains(&next) {
            return Err(OfError::BadInstructionUnsupInst);
        }
        last = Some(next);
    }
    Ok(())
}

fn verify_nested(action: &Action, outer: Outer) -> Result<(), OfError> {
    let field = action.written_field();
    let of_connection = field.is_some_and(|f| f == Field::CT_MARK || f == Field::CT_LABEL);
    let is_nat = matches!(action, Action::Nat(_));
    match outer {
        Outer::Ct if of_connection || is_nat => Ok(()),
        Outer::Ct => Err(OfError::BadActionArgument),
        _ if of_connection || is_nat => Err(OfError::BadActionSetArgument),
        Outer::None => Ok(()),
        Outer::Clone | Outer::WriteActions if matches!(action, Action::Meter(_)) => {
            Err(OfError::BadActionArgument)
        }
        Outer::Clone | Outer::WriteActions => Ok(()),
    }
}

impl Action {
    /// Whether an action set may hold the action.
    pub fn may_be_in_set(&self) -> bool {
        matches!(
            self,
            Action::PopVlan { .. }
                | Action::PopMpls(_)
                | Action::Decap(_)
                | Action::Encap(_)
                | Action::PushMpls(_)
                | Action::PushVlan(_)
                | Action::DecTtl(_)
                | Action::DecMplsTtl
                | Action::DecNshTtl
                | Action::Ct(_)
                | Action::CtClear
                | Action::Resubmit { .. }
                | Action::Output { .. }
                | Action::Group(_)
                | Action::SetField(_)
                | Action::Move(_)
                | Action::SetEthDst(_)
                | Action::SetEthSrc(_)
                | Action::SetIpDscp(_)
                | Action::SetIpEcn(_)
                | Action::SetIpTtl(_)
                | Action::SetIpv4Dst(_)
                | Action::SetIpv4Src(_)
                | Action::SetTransportDst { .. }
                | Action::SetTransportSrc { .. }
                | Action::SetMplsLabel(_)
                | Action::SetMplsTc(_)
                | Action::SetMplsTtl(_)
                | Action::SetQueue(_)
                | Action::SetTunnel { .. }
                | Action::SetVlanPcp { .. }
                | Action::SetVlanVid { .. }
        )
    }
}

/// The actions that features and table-features messages of `version` speak of, with their
/// numbers there and their names.
pub(crate) fn action_types(version: Version) -> &'static [(u8, &'static str)] {
    match version {
        Version::V10 => &[
            (0, "output"),
            (1, "set_vlan_vid"),
            (2, "set_vlan_pcp"),
            (3, "strip_vlan"),
            (4, "mod_dl_src"),
            (5, "mod_dl_dst"),
            (6, "mod_nw_src"),
            (7, "mod_nw_dst"),
            (8, "mod_nw_tos"),
            (9, "mod_tp_src"),
            (10, "mod_tp_dst"),
            (11, "enqueue"),
        ],
        Version::V11 => &[
            (0, "output"),
            (1, "set_vlan_vid"),
            (2, "set_vlan_pcp"),
            (3, "mod_dl_src"),
            (4, "mod_dl_dst"),
            (5, "mod_nw_src"),
            (6, "mod_nw_dst"),
            (7, "mod_nw_tos"),
            (8, "mod_nw_ecn"),
            (9, "mod_tp_src"),
            (10, "mod_tp_dst"),
            (13, "set_mpls_label"),
            (14, "set_mpls_tc"),
            (15, "set_mpls_ttl"),
            (16, "dec_mpls_ttl"),
            (17, "push_vlan"),
            (18, "strip_vlan"),
            (19, "push_mpls"),
            (20, "pop_mpls"),
            (21, "set_queue"),
            (22, "group"),
            (23, "mod_nw_ttl"),
            (24, "dec_ttl"),
        ],
        _ => &[
            (0, "output"),
            (15, "set_mpls_ttl"),
            (16, "dec_mpls_ttl"),
            (17, "push_vlan"),
            (18, "strip_vlan"),
            (19, "push_mpls"),
            (20, "pop_mpls"),
            (21, "set_queue"),
            (22, "group"),
            (23, "mod_nw_ttl"),
            (24, "dec_ttl"),
            (25, "set_field"),
        ],
    }
}
