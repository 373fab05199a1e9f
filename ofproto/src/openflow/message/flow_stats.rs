//! Flow and aggregate statistics, and flow-removed messages.

use bytes::BufMut;

use super::super::action::{Action, DecodeContext, put_instructions, read_instructions};
use super::super::error::OfError;
use super::super::flow_match::Match;
use super::super::header;
use super::super::kind::{Kind, Raw, Replies};
use super::super::match_fixed;
use super::super::oxm::{self, MatchRules};
use super::super::port::PortNo;
use super::super::version::Version;
use super::super::wire::{Reader, pad8, patch_u16};
use super::FlowFormat;
use super::flow_mod::{FlowFlags, GROUP_ANY};

/// A request for the statistics of flows, one by one or together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStatsRequest {
    /// Whether the sum is asked for.
    pub aggregate: bool,
    /// Flows must fall in this match.
    pub flow_match: Match,
    /// The table, 255 for all.
    pub table_id: u8,
    /// Flows must output to this port.
    pub out_port: PortNo,
    /// Flows must use this group.
    pub out_group: u32,
    /// Flows must have this cookie.
    pub cookie: u64,
    /// The bits of `cookie` that count.
    pub cookie_mask: u64,
}

impl FlowStatsRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>, context: &DecodeContext<'_>) -> Result<FlowStatsRequest, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let rules = MatchRules { tlv: context.tlv, ..MatchRules::STRICT };
        let mut request = FlowStatsRequest {
            aggregate: !matches!(
                raw.kind,
                Kind::FlowStatsRequest10 | Kind::FlowStatsRequest11 | Kind::NxFlowStatsRequest
            ),
            flow_match: Match::new(),
            table_id: 255,
            out_port: PortNo::NONE,
            out_group: GROUP_ANY,
            cookie: 0,
            cookie_mask: 0,
        };
        match raw.kind {
            Kind::FlowStatsRequest10 | Kind::AggregateStatsRequest10 => {
                (request.flow_match, _) = match_fixed::read_10(&mut body)?;
                request.table_id = body.u8()?;
                body.skip(1)?;
                request.out_port = PortNo(body.u16()?);
            }
            Kind::NxFlowStatsRequest | Kind::NxAggregateStatsRequest => {
                request.out_port = PortNo(body.u16()?);
                let match_len = usize::from(body.u16()?);
                request.table_id = body.u8()?;
                body.skip(3)?;
                let mut cookie = (0, 0);
                request.flow_match =
                    oxm::read_nxm(&mut body, match_len, &rules, Some(&mut cookie))?;
                (request.cookie, request.cookie_mask) = cookie;
                if !body.is_empty() {
                    return Err(OfError::BadRequestLen);
                }
            }
            _ => {
                request.table_id = body.u8()?;
                body.skip(3)?;
                request.out_port = PortNo::from_u32(body.u32()?)?;
                request.out_group = body.u32()?;
                body.skip(4)?;
                (request.cookie, request.cookie_mask) = (body.u64()?, body.u64()?);
                request.flow_match = match_fixed::read(&mut body, &rules)?;
            }
        }
        Ok(request)
    }

    /// Encodes the request; `format` chooses among the forms of OpenFlow 1.0.
    pub fn encode(&self, version: Version, xid: u32, format: FlowFormat) -> Vec<u8> {
        let kind = match (version, format.nxm, self.aggregate) {
            (Version::V10, false, false) => Kind::FlowStatsRequest10,
            (Version::V10, false, true) => Kind::AggregateStatsRequest10,
            (Version::V10, true, false) => Kind::NxFlowStatsRequest,
            (Version::V10, true, true) => Kind::NxAggregateStatsRequest,
            (_, _, false) => Kind::FlowStatsRequest11,
            (Version::V15, _, true) => Kind::AggregateStatsRequest15,
            (_, _, true) => Kind::AggregateStatsRequest11,
        };
        let mut out = kind.start(version, xid);
        if version > Version::V10 {
            out.put_slice(&[self.table_id, 0, 0, 0]);
            out.put_u32(self.out_port.to_u32());
            out.put_u32(self.out_group);
            out.put_u32(0);
            out.put_u64(self.cookie);
            out.put_u64(self.cookie_mask);
            match_fixed::put(&mut out, &self.flow_match, version);
        } else if format.nxm {
            let mut nxm = Vec::new();
            let cookie = (self.cookie, self.cookie_mask);
            let len = oxm::put_nxm(&mut nxm, &self.flow_match, cookie);
            out.put_u16(self.out_port.0);
            out.put_u16(len as u16);
            out.put_slice(&[self.table_id, 0, 0, 0]);
            out.append(&mut nxm);
        } else {
            match_fixed::put_10(&mut out, &self.flow_match);
            out.put_slice(&[self.table_id, 0]);
            out.put_u16(self.out_port.0);
        }
        header::finish(out)
    }
}

/// The statistics entries of OpenFlow 1.5 (section 7.2.4.3, "Flow Stats Fields").
mod oxs {
    use super::*;

    const CLASS: u16 = 0x8002;
    const DURATION: u8 = 0;
    const IDLE_TIME: u8 = 1;
    const FLOW_COUNT: u8 = 3;
    const PACKET_COUNT: u8 = 4;
    const BYTE_COUNT: u8 = 5;

    /// What the entries say; all ones for what they do not.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Stats {
        pub(crate) duration_sec: u32,
        pub(crate) duration_nsec: u32,
        pub(crate) idle_age: u32,
        pub(crate) flow_count: u32,
        pub(crate) packet_count: u64,
        pub(crate) byte_count: u64,
    }

    impl Stats {
        pub(crate) const UNKNOWN: Stats = Stats {
            duration_sec: u32::MAX,
            duration_nsec: u32::MAX,
            idle_age: u32::MAX,
            flow_count: u32::MAX,
            packet_count: u64::MAX,
            byte_count: u64::MAX,
        };

        pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Stats, OfError> {
            let mut header = reader.with_error(OfError::BadMatchLen);
            header.skip(2)?;
            let len = usize::from(header.u16()?);
            let mut padded =
                reader.with_error(OfError::BadMatchLen).sub(len.next_multiple_of(8))?;
            reader.skip(len.next_multiple_of(8))?;
            let mut body = padded.sub(len)?;
            body.skip(4)?;
            let mut stats = Stats::UNKNOWN;
            while !body.is_empty() {
                let (class, field, len) = (body.u16()?, body.u8()?, usize::from(body.u8()?));
                let mut value = body.sub(len)?;
                match (class, field >> 1, len) {
                    (CLASS, DURATION, 8) => {
                        stats.duration_sec = value.u32()?;
                        stats.duration_nsec = value.u32()?;
                    }
                    (CLASS, IDLE_TIME, 8) => stats.idle_age = value.u32()?,
                    (CLASS, FLOW_COUNT, 4) => stats.flow_count = value.u32()?,
                    (CLASS, PACKET_COUNT, 8) => stats.packet_count = value.u64()?,
                    (CLASS, BYTE_COUNT, 8) => stats.byte_count = value.u64()?,
                    _ => {}
                }
            }
            Ok(stats)
        }

        pub(crate) fn put(&self, out: &mut Vec<u8>) {
            let start = out.len();
            out.put_u32(0);
            let mut entry = |field: u8, value: &[u8], known: bool| {
                if known {
                    out.put_u16(CLASS);
                    out.put_slice(&[field << 1, value.len() as u8]);
                    out.put_slice(value);
                }
            };
            let duration = u64::from(self.duration_sec) << 32 | u64::from(self.duration_nsec);
            let idle = u64::from(self.idle_age) << 32;
            entry(DURATION, &duration.to_be_bytes(), self.duration_sec != u32::MAX);
            entry(IDLE_TIME, &idle.to_be_bytes(), self.idle_age != u32::MAX);
            let packets = self.packet_count;
            entry(PACKET_COUNT, &packets.to_be_bytes(), packets != u64::MAX);
            let bytes = self.byte_count;
            entry(BYTE_COUNT, &bytes.to_be_bytes(), bytes != u64::MAX);
            let flows = self.flow_count;
            entry(FLOW_COUNT, &flows.to_be_bytes(), flows != u32::MAX);
            let len = out.len() - start;
            patch_u16(out, start + 2, len as u16);
            pad8(out, start);
        }
    }
}

/// The description and statistics of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowStats {
    /// The match.
    pub flow_match: Match,
    /// The table.
    pub table_id: u8,
    /// The priority.
    pub priority: u16,
    /// The cookie.
    pub cookie: u64,
    /// Whole seconds since the flow was added.
    pub duration_sec: u32,
    /// Nanoseconds beyond them.
    pub duration_nsec: u32,
    /// Idle timeout in seconds.
    pub idle_timeout: u16,
    /// Hard timeout in seconds.
    pub hard_timeout: u16,
    /// Importance for eviction.
    pub importance: u16,
    /// Seconds since the flow was last used, where the format carries it.
    pub idle_age: Option<u32>,
    /// Seconds since the flow was last changed, where the format carries it.
    pub hard_age: Option<u32>,
    /// Packets, all ones when not known.
    pub packet_count: u64,
    /// Bytes, all ones when not known.
    pub byte_count: u64,
    /// Flags.
    pub flags: FlowFlags,
    /// What the flow does.
    pub actions: Vec<Action>,
}

fn unknown_to_zero(count: u64) -> u64 {
    if count == u64::MAX { 0 } else { count }
}

impl FlowStats {
    /// The kind of reply to a request of `kind`.
    pub fn reply_kind(kind: Kind, version: Version) -> Kind {
        match (kind, version) {
            (Kind::NxFlowStatsRequest, _) => Kind::NxFlowStatsReply,
            (_, Version::V10) => Kind::FlowStatsReply10,
            (_, Version::V11 | Version::V12) => Kind::FlowStatsReply11,
            (_, Version::V13 | Version::V14) => Kind::FlowStatsReply13,
            (_, Version::V15) => Kind::FlowStatsReply15,
        }
    }

    /// Appends the flow to replies of `kind`; `false` when no message can hold it.
    pub fn append(&self, replies: &mut Replies, kind: Kind, version: Version) -> bool {
        let mut out = Vec::new();
        match kind {
            Kind::FlowStatsReply10 => self.put_10(&mut out, version),
            Kind::NxFlowStatsReply => self.put_nx(&mut out, version),
            Kind::FlowStatsReply15 => self.put_15(&mut out, version),
            _ => self.put_11(&mut out, version, kind == Kind::FlowStatsReply13),
        }
        let Ok(len) = u16::try_from(out.len()) else { return false };
        patch_u16(&mut out, 0, len);
        replies.push(&out)
    }

    fn put_durations(&self, out: &mut Vec<u8>) {
        out.put_u32(self.duration_sec);
        out.put_u32(self.duration_nsec);
        out.put_u16(self.priority);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
    }

    fn put_10(&self, out: &mut Vec<u8>, version: Version) {
        out.put_slice(&[0, 0, self.table_id, 0]);
        match_fixed::put_10(out, &self.flow_match);
        self.put_durations(out);
        out.put_bytes(0, 6);
        out.put_u64(self.cookie);
        out.put_u64(unknown_to_zero(self.packet_count));
        out.put_u64(unknown_to_zero(self.byte_count));
        put_instructions(out, &self.actions, version);
    }

    fn put_nx(&self, out: &mut Vec<u8>, version: Version) {
        let age = |age: Option<u32>| age.map_or(0, |age| age.saturating_add(1).min(0xffff) as u16);
        out.put_slice(&[0, 0, self.table_id, 0]);
        self.put_durations(out);
        let mut nxm = Vec::new();
        let len = oxm::put_nxm(&mut nxm, &self.flow_match, (0, 0));
        out.put_u16(len as u16);
        out.put_u16(age(self.idle_age));
        out.put_u16(age(self.hard_age));
        out.put_u64(self.cookie);
        out.put_u64(self.packet_count);
        out.put_u64(self.byte_count);
        out.append(&mut nxm);
        put_instructions(out, &self.actions, version);
    }

    fn put_11(&self, out: &mut Vec<u8>, version: Version, with_flags: bool) {
        out.put_slice(&[0, 0, self.table_id, 0]);
        self.put_durations(out);
        out.put_u16(if with_flags { self.flags.to_wire(version) } else { 0 });
        out.put_u16(if version >= Version::V14 { self.importance } else { 0 });
        out.put_u16(0);
        out.put_u64(self.cookie);
        out.put_u64(unknown_to_zero(self.packet_count));
        out.put_u64(unknown_to_zero(self.byte_count));
        oxm::put_oxm(out, &self.flow_match, version);
        put_instructions(out, &self.actions, version);
    }

    fn put_15(&self, out: &mut Vec<u8>, version: Version) {
        out.put_bytes(0, 4);
        out.put_slice(&[self.table_id, 0]);
        out.put_u16(self.priority);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        out.put_u16(self.flags.to_wire(version));
        out.put_u16(self.importance);
        out.put_u64(self.cookie);
        oxm::put_oxm(out, &self.flow_match, version);
        let stats = oxs::Stats {
            duration_sec: self.duration_sec,
            duration_nsec: self.duration_nsec,
            idle_age: self.idle_age.unwrap_or(u32::MAX),
            packet_count: self.packet_count,
            byte_count: self.byte_count,
            ..oxs::Stats::UNKNOWN
        };
        stats.put(out);
        put_instructions(out, &self.actions, version);
    }

    /// Reads the flows of a reply. `ages` tells whether the peer fills the ages in Nicira's form.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(
        raw: &Raw<'_>,
        context: &DecodeContext<'_>,
        ages: bool,
    ) -> Result<Vec<FlowStats>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut flows = Vec::new();
        while !body.is_empty() {
            let len = usize::from(body.peek_u16()?);
            flows.push(FlowStats::read(raw.kind, body.sub(len)?, context, ages)?);
        }
        Ok(flows)
    }

    fn read_durations(&mut self, body: &mut Reader<'_>) -> Result<(), OfError> {
        (self.duration_sec, self.duration_nsec) = (body.u32()?, body.u32()?);
        self.priority = body.u16()?;
        (self.idle_timeout, self.hard_timeout) = (body.u16()?, body.u16()?);
        Ok(())
    }

    fn read(
        kind: Kind,
        mut body: Reader<'_>,
        context: &DecodeContext<'_>,
        ages: bool,
    ) -> Result<FlowStats, OfError> {
        let mut flow = FlowStats {
            flow_match: Match::new(),
            table_id: 0,
            priority: 0,
            cookie: 0,
            duration_sec: 0,
            duration_nsec: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            idle_age: None,
            hard_age: None,
            packet_count: 0,
            byte_count: 0,
            flags: FlowFlags::default(),
            actions: Vec::new(),
        };
        let counts = |flow: &mut FlowStats, body: &mut Reader<'_>| {
            flow.cookie = body.u64()?;
            (flow.packet_count, flow.byte_count) = (body.u64()?, body.u64()?);
            Ok::<_, OfError>(())
        };
        body.skip(2)?;
        if kind == Kind::FlowStatsReply15 {
            body.skip(2)?;
        }
        flow.table_id = body.u8()?;
        body.skip(1)?;
        match kind {
            Kind::FlowStatsReply10 => {
                (flow.flow_match, _) = match_fixed::read_10(&mut body)?;
                flow.read_durations(&mut body)?;
                body.skip(6)?;
                counts(&mut flow, &mut body)?;
            }
            Kind::NxFlowStatsReply => {
                flow.read_durations(&mut body)?;
                let match_len = usize::from(body.u16()?);
                let (idle, hard) = (body.u16()?, body.u16()?);
                if ages {
                    flow.idle_age = idle.checked_sub(1).map(u32::from);
                    flow.hard_age = hard.checked_sub(1).map(u32::from);
                }
                counts(&mut flow, &mut body)?;
                flow.flow_match = oxm::read_nxm(&mut body, match_len, &MatchRules::STRICT, None)?;
            }
            Kind::FlowStatsReply15 => {
                flow.priority = body.u16()?;
                (flow.idle_timeout, flow.hard_timeout) = (body.u16()?, body.u16()?);
                flow.flags = FlowFlags::from_wire(body.u16()?, context.version)?;
                flow.importance = body.u16()?;
                flow.cookie = body.u64()?;
                flow.flow_match = match_fixed::read(&mut body, &MatchRules::STRICT)?;
                let stats = oxs::Stats::read(&mut body)?;
                (flow.duration_sec, flow.duration_nsec) = (stats.duration_sec, stats.duration_nsec);
                flow.idle_age = Some(stats.idle_age).filter(|age| *age != u32::MAX);
                (flow.packet_count, flow.byte_count) = (stats.packet_count, stats.byte_count);
            }
            _ => {
                flow.read_durations(&mut body)?;
                let (flags, importance) = (body.u16()?, body.u16()?);
                if kind == Kind::FlowStatsReply13 {
                    flow.flags = FlowFlags::from_wire(flags, context.version)?;
                }
                if context.version >= Version::V14 {
                    flow.importance = importance;
                }
                body.skip(2)?;
                counts(&mut flow, &mut body)?;
                flow.flow_match = match_fixed::read(&mut body, &MatchRules::STRICT)?;
            }
        }
        flow.actions = read_instructions(&mut body, context)?;
        Ok(flow)
    }
}

/// The sum of flows' statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregateStats {
    /// Packets, all ones when not known.
    pub packet_count: u64,
    /// Bytes, all ones when not known.
    pub byte_count: u64,
    /// Number of flows.
    pub flow_count: u32,
}

impl AggregateStats {
    /// The reply to a request of `kind`.
    pub fn encode(&self, request: Kind, version: Version, xid: u32) -> Vec<u8> {
        let kind = match (request, version) {
            (Kind::NxAggregateStatsRequest, _) => Kind::NxAggregateStatsReply,
            (_, Version::V15) => Kind::AggregateStatsReply15,
            _ => Kind::AggregateStatsReply,
        };
        let mut out = kind.start(version, xid);
        if kind == Kind::AggregateStatsReply15 {
            let stats = oxs::Stats {
                packet_count: self.packet_count,
                byte_count: self.byte_count,
                flow_count: self.flow_count,
                ..oxs::Stats::UNKNOWN
            };
            stats.put(&mut out);
        } else {
            let count = |count: u64| match request {
                Kind::AggregateStatsRequest10 => unknown_to_zero(count),
                _ => count,
            };
            out.put_u64(count(self.packet_count));
            out.put_u64(count(self.byte_count));
            out.put_u32(self.flow_count);
            out.put_u32(0);
        }
        header::finish(out)
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// `BadMatchLen` for a malformed reply of OpenFlow 1.5.
    pub fn decode(raw: &Raw<'_>) -> Result<AggregateStats, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        if raw.kind == Kind::AggregateStatsReply15 {
            let stats = oxs::Stats::read(&mut body)?;
            let oxs::Stats { packet_count, byte_count, flow_count, .. } = stats;
            return Ok(AggregateStats { packet_count, byte_count, flow_count });
        }
        Ok(AggregateStats {
            packet_count: body.u64()?,
            byte_count: body.u64()?,
            flow_count: body.u32()?,
        })
    }
}

/// Why a flow was removed (`ofp_flow_removed_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRemovedReason(pub u8);

impl FlowRemovedReason {
    /// Idle for too long.
    pub const IDLE_TIMEOUT: FlowRemovedReason = FlowRemovedReason(0);
    /// Lived for too long.
    pub const HARD_TIMEOUT: FlowRemovedReason = FlowRemovedReason(1);
    /// Deleted by a controller.
    pub const DELETE: FlowRemovedReason = FlowRemovedReason(2);
    /// Its group was deleted.
    pub const GROUP_DELETE: FlowRemovedReason = FlowRemovedReason(3);
    /// Its meter was deleted; since OpenFlow 1.4.
    pub const METER_DELETE: FlowRemovedReason = FlowRemovedReason(4);
    /// Evicted to make room; since OpenFlow 1.4.
    pub const EVICTION: FlowRemovedReason = FlowRemovedReason(5);
}

/// The report that a flow was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// The match.
    pub flow_match: Match,
    /// The priority.
    pub priority: u16,
    /// The cookie.
    pub cookie: u64,
    /// Why.
    pub reason: FlowRemovedReason,
    /// The table, 255 when not known.
    pub table_id: u8,
    /// Whole seconds since the flow was added.
    pub duration_sec: u32,
    /// Nanoseconds beyond them.
    pub duration_nsec: u32,
    /// Idle timeout in seconds.
    pub idle_timeout: u16,
    /// Hard timeout in seconds.
    pub hard_timeout: u16,
    /// Packets, all ones when not known.
    pub packet_count: u64,
    /// Bytes, all ones when not known.
    pub byte_count: u64,
}

impl FlowRemoved {
    /// Reads the message.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>) -> Result<FlowRemoved, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut removed = FlowRemoved {
            flow_match: Match::new(),
            priority: 0,
            cookie: 0,
            reason: FlowRemovedReason(0),
            table_id: 255,
            duration_sec: 0,
            duration_nsec: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            packet_count: 0,
            byte_count: 0,
        };
        if raw.kind == Kind::FlowRemoved15 {
            removed.table_id = body.u8()?;
            removed.reason = FlowRemovedReason(body.u8()?);
            removed.priority = body.u16()?;
            (removed.idle_timeout, removed.hard_timeout) = (body.u16()?, body.u16()?);
            removed.cookie = body.u64()?;
            removed.flow_match = match_fixed::read(&mut body, &MatchRules::STRICT)?;
            let stats = oxs::Stats::read(&mut body)?;
            (removed.duration_sec, removed.duration_nsec) =
                (stats.duration_sec, stats.duration_nsec);
            (removed.packet_count, removed.byte_count) = (stats.packet_count, stats.byte_count);
            return Ok(removed);
        }
        if raw.kind == Kind::FlowRemoved10 {
            (removed.flow_match, _) = match_fixed::read_10(&mut body)?;
        }
        (removed.cookie, removed.priority) = (body.u64()?, body.u16()?);
        removed.reason = FlowRemovedReason(body.u8()?);
        let table = body.u8()?;
        (removed.duration_sec, removed.duration_nsec) = (body.u32()?, body.u32()?);
        removed.idle_timeout = body.u16()?;
        let hard_or_len = body.u16()?;
        (removed.packet_count, removed.byte_count) = (body.u64()?, body.u64()?);
        match raw.kind {
            Kind::FlowRemoved11 => {
                (removed.table_id, removed.hard_timeout) = (table, hard_or_len);
                removed.flow_match = match_fixed::read(&mut body, &MatchRules::STRICT)?;
            }
            Kind::NxFlowRemoved => {
                removed.table_id = table.checked_sub(1).unwrap_or(255);
                let len = usize::from(hard_or_len);
                removed.flow_match = oxm::read_nxm(&mut body, len, &MatchRules::STRICT, None)?;
                if !body.is_empty() {
                    return Err(OfError::BadRequestLen);
                }
            }
            _ => {}
        }
        Ok(removed)
    }

    /// Encodes the message; `format` chooses among the forms of OpenFlow 1.0.
    pub fn encode(&self, version: Version, xid: u32, format: FlowFormat) -> Vec<u8> {
        let reason = match self.reason {
            FlowRemovedReason::METER_DELETE if version < Version::V14 => FlowRemovedReason::DELETE,
            reason => reason,
        };
        if version == Version::V15 {
            let mut out = Kind::FlowRemoved15.start(version, xid);
            out.put_slice(&[self.table_id, reason.0]);
            out.put_u16(self.priority);
            out.put_u16(self.idle_timeout);
            out.put_u16(self.hard_timeout);
            out.put_u64(self.cookie);
            match_fixed::put(&mut out, &self.flow_match, version);
            let stats = oxs::Stats {
                duration_sec: self.duration_sec,
                duration_nsec: self.duration_nsec,
                packet_count: self.packet_count,
                byte_count: self.byte_count,
                ..oxs::Stats::UNKNOWN
            };
            stats.put(&mut out);
            return header::finish(out);
        }
        let (kind, table) = match (version, format.nxm) {
            (Version::V10, true) => (Kind::NxFlowRemoved, self.table_id.wrapping_add(1)),
            (Version::V10, false) => (Kind::FlowRemoved10, 0),
            _ => (Kind::FlowRemoved11, self.table_id),
        };
        let mut nxm = Vec::new();
        let hard_or_len = match kind {
            Kind::NxFlowRemoved => oxm::put_nxm(&mut nxm, &self.flow_match, (0, 0)) as u16,
            Kind::FlowRemoved10 => 0,
            _ => self.hard_timeout,
        };
        let mut out = kind.start(version, xid);
        if kind == Kind::FlowRemoved10 {
            match_fixed::put_10(&mut out, &self.flow_match);
        }
        out.put_u64(self.cookie);
        out.put_u16(self.priority);
        out.put_slice(&[reason.0, table]);
        out.put_u32(self.duration_sec);
        out.put_u32(self.duration_nsec);
        out.put_u16(self.idle_timeout);
        out.put_u16(hard_or_len);
        let count = |count: u64| match kind {
            Kind::FlowRemoved10 => unknown_to_zero(count),
            _ => count,
        };
        out.put_u64(count(self.packet_count));
        out.put_u64(count(self.byte_count));
        out.append(&mut nxm);
        if kind == Kind::FlowRemoved11 {
            match_fixed::put(&mut out, &self.flow_match, version);
        }
        header::finish(out)
    }
}
