//! Monitoring of flow tables: Nicira's, the ONF's for OpenFlow 1.3, and that of OpenFlow 1.4.

use bytes::BufMut;

use super::super::action::{
    Action, DecodeContext, Instruction, put_actions, put_instructions, read_actions,
    read_instructions,
};
use super::super::error::OfError;
use super::super::flow_match::Match;
use super::super::header;
use super::super::kind::{Kind, Raw, Replies};
use super::super::match_fixed;
use super::super::oxm::{self, MatchRules};
use super::super::port::PortNo;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};
use super::flow_mod::GROUP_ANY;

/// Bits of what a monitor reports (`ofp14_flow_monitor_flags`).
pub mod monitor_flag {
    /// The flows that exist at the start.
    pub const INITIAL: u16 = 1 << 0;
    /// Added flows.
    pub const ADD: u16 = 1 << 1;
    /// Removed flows.
    pub const REMOVED: u16 = 1 << 2;
    /// Changed flows.
    pub const MODIFY: u16 = 1 << 3;
    /// With their instructions.
    pub const INSTRUCTIONS: u16 = 1 << 4;
    /// The controller's own changes in full.
    pub const NO_ABBREV: u16 = 1 << 5;
    /// Only the controller's own changes, in OpenFlow 1.4; in Nicira's and the ONF's form, the
    /// controller's own changes in full.
    pub const ONLY_OWN: u16 = 1 << 6;

    pub(super) const CHANGES: u16 = ADD | REMOVED | MODIFY;
    /// Open vSwitch does not accept `NO_ABBREV`.
    pub(super) const KNOWN: u16 = INITIAL | CHANGES | INSTRUCTIONS | ONLY_OWN;
}

/// Flag numbers of Nicira and the ONF, and those of OpenFlow 1.4.
const VENDOR_FLAGS: [(u16, u16); 6] = [
    (1 << 0, monitor_flag::INITIAL),
    (1 << 1, monitor_flag::ADD),
    (1 << 2, monitor_flag::REMOVED),
    (1 << 3, monitor_flag::MODIFY),
    (1 << 4, monitor_flag::INSTRUCTIONS),
    (1 << 5, monitor_flag::ONLY_OWN),
];

/// A request to start, change or stop monitoring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MonitorRequest {
    /// Start.
    Add(Monitor),
    /// Change.
    Modify(Monitor),
    /// Stop the monitor with this number.
    Delete(u32),
}

/// What to monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// The controller's number for the monitor.
    pub id: u32,
    /// Bits of [`monitor_flag`].
    pub flags: u16,
    /// Flows must output to this port.
    pub out_port: PortNo,
    /// Flows must use this group.
    pub out_group: u32,
    /// The table, 255 for all.
    pub table_id: u8,
    /// Flows must fall in this match.
    pub flow_match: Match,
}

impl MonitorRequest {
    /// Reads the requests of a message.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>) -> Result<Vec<MonitorRequest>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut requests = Vec::new();
        while !body.is_empty() {
            requests.push(match raw.kind {
                Kind::NxFlowMonitorStatsRequest => MonitorRequest::read_vendor(&mut body, false)?,
                Kind::OnfFlowMonitorStatsRequest13 => MonitorRequest::read_vendor(&mut body, true)?,
                _ => MonitorRequest::read_14(&mut body)?,
            });
        }
        Ok(requests)
    }

    fn read_vendor(body: &mut Reader<'_>, onf: bool) -> Result<MonitorRequest, OfError> {
        let mut fixed = body.sub(16)?;
        let (id, bits) = (fixed.u32()?, fixed.u16()?);
        let known = VENDOR_FLAGS.iter().fold(0, |mask, (bit, _)| mask | bit);
        let flags = VENDOR_FLAGS.iter().filter(|(bit, _)| bits & bit != 0);
        let flags = flags.fold(0, |flags, (_, flag)| flags | flag);
        if flags & monitor_flag::CHANGES == 0 || bits & !known != 0 {
            return Err(OfError::FlowMonitorBadFlags);
        }
        let (match_len, port, table_id);
        if onf {
            match_len = fixed.u16()?;
            port = fixed.u32()?;
            table_id = fixed.u8()?;
            fixed.zeros(3, OfError::BadRequestMustBeZero)?;
        } else {
            port = fixed.u16()?.into();
            match_len = fixed.u16()?;
            table_id = fixed.u8()?;
            fixed.zeros(5, OfError::BadRequestMustBeZero)?;
        }
        let (out_port, flow_match) = if onf {
            (PortNo::from_u32(port)?, match_fixed::read(body, &MatchRules::STRICT)?)
        } else {
            let rules = &MatchRules::STRICT;
            (PortNo(port as u16), oxm::read_nxm(body, match_len.into(), rules, None)?)
        };
        let out_group = GROUP_ANY;
        Ok(MonitorRequest::Add(Monitor { id, flags, out_port, out_group, table_id, flow_match }))
    }

    fn read_14(body: &mut Reader<'_>) -> Result<MonitorRequest, OfError> {
        let (id, port, out_group) = (body.u32()?, body.u32()?, body.u32()?);
        let (flags, table_id, command) = (body.u16()?, body.u8()?, body.u8()?);
        const DELETE: u8 = 2;
        if command != DELETE {
            if flags & monitor_flag::CHANGES == 0 || flags & !monitor_flag::KNOWN != 0 {
                return Err(OfError::FlowMonitorBadFlags);
            }
            PortNo::from_u32(port)?;
        }
        let flow_match = match_fixed::read(body, &MatchRules::STRICT)?;
        if command == DELETE {
            return Ok(MonitorRequest::Delete(id));
        }
        let out_port = PortNo::from_u32(port)?;
        let monitor = Monitor { id, flags, out_port, out_group, table_id, flow_match };
        match command {
            0 => Ok(MonitorRequest::Add(monitor)),
            1 => Ok(MonitorRequest::Modify(monitor)),
            _ => Err(OfError::FlowMonitorBadCommand),
        }
    }

    /// Encodes a message with these requests; before OpenFlow 1.4 starts of monitors only.
    pub fn encode(requests: &[MonitorRequest], version: Version, xid: u32) -> Vec<u8> {
        let kind = match version {
            Version::V10 | Version::V11 | Version::V12 => Kind::NxFlowMonitorStatsRequest,
            Version::V13 => Kind::OnfFlowMonitorStatsRequest13,
            Version::V14 | Version::V15 => Kind::FlowMonitorStatsRequest14,
        };
        let mut out = kind.start(version, xid);
        for request in requests {
            match request {
                MonitorRequest::Add(monitor) => monitor.put(&mut out, 0, version),
                MonitorRequest::Modify(monitor) => monitor.put(&mut out, 1, version),
                MonitorRequest::Delete(id) => {
                    let nothing = Monitor {
                        id: *id,
                        flags: 0,
                        out_port: PortNo(0),
                        out_group: 0,
                        table_id: 0,
                        flow_match: Match::new(),
                    };
                    nothing.put(&mut out, 2, version);
                }
            }
        }
        header::finish(out)
    }
}

impl Monitor {
    fn put(&self, out: &mut Vec<u8>, command: u8, version: Version) {
        let bits = VENDOR_FLAGS.iter().filter(|(_, flag)| self.flags & flag != 0);
        let bits = bits.fold(0, |bits, (bit, _)| bits | bit);
        let start = out.len();
        out.put_u32(self.id);
        if version < Version::V13 {
            out.put_u16(bits);
            out.put_u16(self.out_port.0);
            out.put_u16(0);
            out.put_slice(&[self.table_id, 0, 0, 0, 0, 0]);
            let len = oxm::put_nxm(out, &self.flow_match, (0, 0));
            patch_u16(out, start + 8, len as u16);
        } else if version == Version::V13 {
            out.put_u16(bits);
            out.put_u16(0);
            out.put_u32(self.out_port.to_u32());
            out.put_slice(&[self.table_id, 0, 0, 0]);
            let len = oxm::put_oxm(out, &self.flow_match, version);
            patch_u16(out, start + 6, len as u16);
        } else {
            out.put_u32(self.out_port.to_u32());
            out.put_u32(self.out_group);
            out.put_u16(self.flags);
            out.put_slice(&[self.table_id, command]);
            oxm::put_oxm(out, &self.flow_match, version);
        }
    }
}

/// What happened to a flow (`ofp_flow_update_event`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum UpdateEvent {
    /// It was there at the start.
    Initial = 0,
    /// It was added.
    Added = 1,
    /// It was removed.
    Removed = 2,
    /// It was changed.
    Modified = 3,
}

/// Numbers of events that carry no flow in OpenFlow 1.4.
mod event {
    pub(super) const ABBREV: u16 = 4;
    pub(super) const PAUSED: u16 = 5;
    pub(super) const RESUMED: u16 = 6;
    /// Nicira's and the ONF's number of an abbreviated update.
    pub(super) const VENDOR_ABBREV: u16 = 3;
}

/// A report of a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowUpdate {
    /// About a flow.
    Full(Box<FullUpdate>),
    /// What the request with this transaction id did.
    Abbreviated(u32),
    /// Monitoring pauses; in replies since OpenFlow 1.4.
    Paused,
    /// Monitoring resumes; in replies since OpenFlow 1.4.
    Resumed,
}

/// A report about a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullUpdate {
    /// What happened.
    pub event: UpdateEvent,
    /// For removed flows: a reason as in flow-removed messages.
    pub reason: u8,
    /// Idle timeout in seconds.
    pub idle_timeout: u16,
    /// Hard timeout in seconds.
    pub hard_timeout: u16,
    /// The table.
    pub table_id: u8,
    /// The priority.
    pub priority: u16,
    /// The cookie.
    pub cookie: u64,
    /// The match.
    pub flow_match: Match,
    /// The actions, if asked for.
    pub actions: Vec<Action>,
}

impl FlowUpdate {
    /// The kind of replies.
    pub fn reply_kind(version: Version) -> Kind {
        match version {
            Version::V10 | Version::V11 | Version::V12 => Kind::NxFlowMonitorStatsReply,
            Version::V13 => Kind::OnfFlowMonitorStatsReply13,
            Version::V14 | Version::V15 => Kind::FlowMonitorStatsReply14,
        }
    }

    /// Appends the report to replies; `false` when no message can hold it.
    pub fn append(&self, replies: &mut Replies, version: Version) -> bool {
        let mut out = vec![0; 2];
        let vendor = version < Version::V14;
        match self {
            FlowUpdate::Full(update) if vendor => update.put_vendor(&mut out, version),
            FlowUpdate::Full(update) => update.put_14(&mut out, version),
            FlowUpdate::Abbreviated(xid) => {
                out.put_u16(if vendor { event::VENDOR_ABBREV } else { event::ABBREV });
                out.put_u32(*xid);
            }
            FlowUpdate::Paused | FlowUpdate::Resumed => {
                let paused = *self == FlowUpdate::Paused;
                out.put_u16(if paused { event::PAUSED } else { event::RESUMED });
                out.put_u32(0);
            }
        }
        let Ok(len) = u16::try_from(out.len()) else { return false };
        patch_u16(&mut out, 0, len);
        replies.push(&out)
    }

    /// Reads the reports of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>, context: &DecodeContext<'_>) -> Result<Vec<FlowUpdate>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut updates = Vec::new();
        while !body.is_empty() {
            let len = usize::from(body.peek_u16()?);
            let update = body.sub(len)?;
            if len % 8 != 0 {
                return Err(OfError::BadRequestLen);
            }
            updates.push(match raw.kind {
                Kind::FlowMonitorStatsReply14 => FlowUpdate::read_14(update, context)?,
                _ => FlowUpdate::read_vendor(update, raw.kind, context)?,
            });
        }
        Ok(updates)
    }

    fn read_vendor(
        mut body: Reader<'_>,
        kind: Kind,
        context: &DecodeContext<'_>,
    ) -> Result<FlowUpdate, OfError> {
        body.skip(2)?;
        let event = match body.u16()? {
            0 => UpdateEvent::Added,
            1 => UpdateEvent::Removed,
            2 => UpdateEvent::Modified,
            event::VENDOR_ABBREV if body.len() == 4 => {
                return body.u32().map(FlowUpdate::Abbreviated);
            }
            event::VENDOR_ABBREV => return Err(OfError::BadRequestLen),
            _ => return Err(OfError::BadRequestFmBadEvent),
        };
        let (reason, priority) = (body.u16()? as u8, body.u16()?);
        let (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
        let (match_len, table_id) = (usize::from(body.u16()?), body.u8()?);
        body.skip(1)?;
        let cookie = body.u64()?;
        let rules = &MatchRules::STRICT;
        let (flow_match, actions);
        if kind == Kind::OnfFlowMonitorStatsReply13 {
            flow_match = match_fixed::read(&mut body, rules)?;
            actions = read_instructions(&mut body, context)?;
        } else {
            flow_match = oxm::read_nxm(&mut body, match_len, rules, None)?;
            let len = body.len();
            actions = read_actions(&mut body, len, context, Instruction::ACTIONS)?;
        }
        Ok(FlowUpdate::Full(Box::new(FullUpdate {
            event,
            reason,
            idle_timeout,
            hard_timeout,
            table_id,
            priority,
            cookie,
            flow_match,
            actions,
        })))
    }

    fn read_14(mut body: Reader<'_>, context: &DecodeContext<'_>) -> Result<FlowUpdate, OfError> {
        body.skip(2)?;
        let number = body.u16()?;
        let event = match number {
            0 => UpdateEvent::Initial,
            1 => UpdateEvent::Added,
            2 => UpdateEvent::Removed,
            3 => UpdateEvent::Modified,
            event::ABBREV | event::PAUSED | event::RESUMED if body.len() == 4 => {
                return Ok(match number {
                    event::ABBREV => FlowUpdate::Abbreviated(body.u32()?),
                    event::PAUSED => FlowUpdate::Paused,
                    _ => FlowUpdate::Resumed,
                });
            }
            event::ABBREV | event::PAUSED | event::RESUMED => return Err(OfError::BadRequestLen),
            _ => return Err(OfError::BadRequestFmBadEvent),
        };
        let (table_id, reason) = (body.u8()?, body.u8()?);
        let (idle_timeout, hard_timeout) = (body.u16()?, body.u16()?);
        let priority = body.u16()?;
        body.skip(4)?;
        let cookie = body.u64()?;
        let flow_match = match_fixed::read(&mut body, &MatchRules::STRICT)?;
        let actions = read_instructions(&mut body, context)?;
        Ok(FlowUpdate::Full(Box::new(FullUpdate {
            event,
            reason,
            idle_timeout,
            hard_timeout,
            table_id,
            priority,
            cookie,
            flow_match,
            actions,
        })))
    }
}

impl FullUpdate {
    fn put_vendor(&self, out: &mut Vec<u8>, version: Version) {
        out.put_u16(match self.event {
            UpdateEvent::Initial | UpdateEvent::Added => 0,
            UpdateEvent::Removed => 1,
            UpdateEvent::Modified => 2,
        });
        out.put_u16(self.reason.into());
        out.put_u16(self.priority);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        let len_place = out.len();
        out.put_u16(0);
        out.put_slice(&[self.table_id, 0]);
        out.put_u64(self.cookie);
        let len = if version == Version::V13 {
            let len = oxm::put_oxm(out, &self.flow_match, version);
            put_instructions(out, &self.actions, version);
            len
        } else {
            let len = oxm::put_nxm(out, &self.flow_match, (0, 0));
            put_actions(out, &self.actions, version);
            len
        };
        patch_u16(out, len_place, len as u16);
    }

    fn put_14(&self, out: &mut Vec<u8>, version: Version) {
        out.put_u16(self.event as u16);
        out.put_slice(&[self.table_id, self.reason]);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        out.put_u16(self.priority);
        out.put_u32(0);
        out.put_u64(self.cookie);
        oxm::put_oxm(out, &self.flow_match, version);
        put_instructions(out, &self.actions, version);
    }
}

/// The monitor that a cancel message of Nicira or the ONF stops.
///
/// # Errors
/// `BadRequestLen`, never for a message that `Raw` has accepted.
pub fn decode_monitor_cancel(raw: &Raw<'_>) -> Result<u32, OfError> {
    Reader::new(raw.body, OfError::BadRequestLen).u32()
}

/// The message that tells a controller that monitoring pauses, or resumes.
pub fn encode_monitor_pause(paused: bool, version: Version, xid: u32) -> Vec<u8> {
    let kind = match (version, paused) {
        (Version::V10 | Version::V11 | Version::V12, true) => Kind::NxFlowMonitorPaused,
        (Version::V10 | Version::V11 | Version::V12, false) => Kind::NxFlowMonitorResumed,
        (Version::V13, true) => Kind::OnfFlowMonitorPaused13,
        (Version::V13, false) => Kind::OnfFlowMonitorResumed13,
        (Version::V14 | Version::V15, _) => Kind::FlowMonitorStatsReply14,
    };
    let mut out = kind.start(version, xid);
    if kind == Kind::FlowMonitorStatsReply14 {
        out.put_u16(8);
        out.put_u16(if paused { event::PAUSED } else { event::RESUMED });
        out.put_u32(0);
    }
    header::finish(out)
}
