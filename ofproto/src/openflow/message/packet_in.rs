//! Packet-in messages of all forms, and the messages that resume a paused packet.

use bytes::BufMut;

use super::super::action::{
    Action, DecodeContext, Instruction, PacketInReason, put_actions, read_actions,
};
use super::super::error::OfError;
use super::super::flow_match::Match;
use super::super::header;
use super::super::kind::{Kind, Raw};
use super::super::oxm::{self, MatchRules};
use super::super::port::PortNo;
use super::super::property::{self, Property};
use super::super::slot::Slot;
use super::super::version::Version;
use super::super::wire::Reader;
use super::PacketInFormat;
use super::flow_mod::NO_BUFFER;

/// Properties of Nicira's packet-in (`nx_packet_in2_prop_type`).
mod prop {
    use super::property::Kind;

    pub(super) const PACKET: Kind = Kind::standard(0);
    pub(super) const FULL_LEN: Kind = Kind::standard(1);
    pub(super) const BUFFER_ID: Kind = Kind::standard(2);
    pub(super) const TABLE_ID: Kind = Kind::standard(3);
    pub(super) const COOKIE: Kind = Kind::standard(4);
    pub(super) const REASON: Kind = Kind::standard(5);
    pub(super) const METADATA: Kind = Kind::standard(6);
    pub(super) const USERDATA: Kind = Kind::standard(7);
    pub(super) const CONTINUATION: Kind = Kind::standard(8);
}

/// Properties of a continuation, which are the switch's own.
mod continuation {
    use super::property::Kind;

    pub(super) const BRIDGE: Kind = Kind::standard(0x8000);
    pub(super) const STACK: Kind = Kind::standard(0x8001);
    pub(super) const MIRRORS: Kind = Kind::standard(0x8002);
    pub(super) const CONNTRACKED: Kind = Kind::standard(0x8003);
    pub(super) const TABLE_ID: Kind = Kind::standard(0x8004);
    pub(super) const COOKIE: Kind = Kind::standard(0x8005);
    pub(super) const ACTIONS: Kind = Kind::standard(0x8006);
    pub(super) const ACTION_SET: Kind = Kind::standard(0x8007);
    pub(super) const ODP_PORT: Kind = Kind::standard(0x8008);
}

/// The greatest value on the stack in bytes.
const MAX_STACK_VALUE: usize = 128;

/// Actions that remain to be executed, of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The flow's table.
    pub table_id: u8,
    /// The flow's cookie.
    pub cookie: u64,
    /// The actions.
    pub actions: Vec<Action>,
}

/// What a switch needs to go on with a paused packet.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Continuation {
    /// Identifies the bridge; zeros when it is not known.
    pub bridge: [u8; 16],
    /// The stack from the top.
    pub stack: Vec<Vec<u8>>,
    /// The mirrors that have the packet already.
    pub mirrors: u32,
    /// Whether the packet has been tracked.
    pub conntracked: bool,
    /// The actions to execute.
    pub actions: Vec<Remaining>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// The datapath port, 0 for none.
    pub odp_port: u32,
}

/// A packet on its way to a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// The packet, or its first bytes.
    pub packet: Vec<u8>,
    /// The length of the whole packet.
    pub total_len: u32,
    /// The buffered packet, or `NO_BUFFER`; received messages only.
    pub buffer_id: u32,
    /// Why.
    pub reason: PacketInReason,
    /// The table.
    pub table_id: u8,
    /// The flow's cookie.
    pub cookie: Option<u64>,
    /// The input port and other metadata.
    pub metadata: Match,
    /// Bytes from the controller action.
    pub userdata: Vec<u8>,
    /// How to go on.
    pub continuation: Continuation,
}

fn put_property(out: &mut Vec<u8>, kind: property::Kind, value: &[u8]) {
    property::put(out, kind, value);
}

fn put_actions_property(
    out: &mut Vec<u8>,
    kind: property::Kind,
    actions: &[Action],
    version: Version,
) {
    if !actions.is_empty() {
        let mut value = Vec::new();
        put_actions(&mut value, actions, version);
        property::put_nested(out, kind, &value);
    }
}

impl Continuation {
    fn put(&self, version: Version) -> Vec<u8> {
        let mut out = Vec::new();
        if self.bridge != [0; 16] {
            put_property(&mut out, continuation::BRIDGE, &self.bridge);
        }
        for value in &self.stack {
            put_property(&mut out, continuation::STACK, value);
        }
        if self.mirrors != 0 {
            put_property(&mut out, continuation::MIRRORS, &self.mirrors.to_be_bytes());
        }
        if self.conntracked {
            put_property(&mut out, continuation::CONNTRACKED, &[]);
        }
        let (mut table_id, mut cookie) = (0, 0);
        for part in &self.actions {
            if table_id != part.table_id {
                table_id = part.table_id;
                put_property(&mut out, continuation::TABLE_ID, &[table_id]);
            }
            if cookie != part.cookie {
                cookie = part.cookie;
                property::put_nested(&mut out, continuation::COOKIE, &cookie.to_be_bytes());
            }
            put_actions_property(&mut out, continuation::ACTIONS, &part.actions, version);
        }
        put_actions_property(&mut out, continuation::ACTION_SET, &self.action_set, version);
        if self.odp_port != 0 {
            put_property(&mut out, continuation::ODP_PORT, &self.odp_port.to_be_bytes());
        }
        out
    }

    fn read(
        mut body: Reader<'_>,
        context: &DecodeContext<'_>,
        loose: bool,
    ) -> Result<Continuation, OfError> {
        let context = &DecodeContext { tlv: None, ..*context };
        let actions = |property: &Property<'_>| {
            let mut body = property.nested()?;
            let len = body.len();
            read_actions(&mut body, len, context, Instruction::ACTIONS)
        };
        let mut found = Continuation::default();
        let (mut table_id, mut cookie) = (0, 0);
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            match property.kind {
                continuation::BRIDGE => found.bridge = property.array16()?,
                continuation::STACK if property.body.len() > MAX_STACK_VALUE => {
                    return Err(OfError::BadPropertyLen);
                }
                continuation::STACK => found.stack.push(property.body.rest().to_vec()),
                continuation::MIRRORS => found.mirrors = property.u32()?,
                continuation::CONNTRACKED => found.conntracked = true,
                continuation::TABLE_ID => table_id = property.u8()?,
                continuation::COOKIE => cookie = property.u64()?,
                continuation::ACTIONS => {
                    let actions = actions(&property)?;
                    found.actions.push(Remaining { table_id, cookie, actions });
                }
                continuation::ACTION_SET => found.action_set = actions(&property)?,
                continuation::ODP_PORT => found.odp_port = property.u32()?,
                _ if loose => {}
                _ => return Err(property.unknown()),
            }
        }
        Ok(found)
    }
}

impl PacketIn {
    /// Encodes the message in `format`. At most `miss_send_len`-like limits have been applied
    /// before: the whole `packet` is sent.
    pub fn encode(&self, version: Version, format: PacketInFormat, xid: u32) -> Vec<u8> {
        let kind = match (format, version) {
            (PacketInFormat::Nxt, _) => Kind::NxPacketIn,
            (PacketInFormat::Nxt2, _) => Kind::NxPacketIn2,
            (_, Version::V10) => Kind::PacketIn10,
            (_, Version::V11) => Kind::PacketIn11,
            (_, Version::V12) => Kind::PacketIn12,
            _ => Kind::PacketIn13,
        };
        let mut out = kind.start(version, xid);
        if kind == Kind::NxPacketIn2 {
            self.put_properties(&mut out, version);
            if !self.userdata.is_empty() {
                put_property(&mut out, prop::USERDATA, &self.userdata);
            }
            return header::finish(out);
        }
        let in_port = PortNo(self.metadata.value(Slot::IN_PORT) as u16);
        let reason = self.reason.to_wire(version);
        let cookie = self.cookie.unwrap_or(u64::MAX);
        out.put_u32(NO_BUFFER);
        match kind {
            Kind::PacketIn10 => {}
            Kind::PacketIn11 => {
                out.put_u32(in_port.to_u32());
                out.put_u32(in_port.to_u32());
            }
            _ => {}
        }
        out.put_u16(self.packet.len() as u16);
        match kind {
            Kind::PacketIn10 => {
                out.put_u16(in_port.0);
                out.put_slice(&[reason, 0]);
            }
            _ => out.put_slice(&[reason, self.table_id]),
        }
        match kind {
            Kind::PacketIn12 => {
                oxm::put_oxm(&mut out, &self.metadata, version);
                out.put_u16(0);
            }
            Kind::PacketIn13 => {
                out.put_u64(cookie);
                oxm::put_oxm(&mut out, &self.metadata, version);
                out.put_u16(0);
            }
            Kind::NxPacketIn => {
                out.put_u64(cookie);
                let mut nxm = Vec::new();
                let len = oxm::put_nxm(&mut nxm, &self.metadata, (0, 0));
                out.put_u16(len as u16);
                out.put_bytes(0, 6);
                out.append(&mut nxm);
                out.put_u16(0);
            }
            _ => {}
        }
        out.put_slice(&self.packet);
        header::finish(out)
    }

    /// Encodes the message that resumes this packet.
    pub fn encode_resume(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::NxResume.start(version, xid);
        self.put_properties(&mut out, version);
        header::finish(out)
    }

    fn put_properties(&self, out: &mut Vec<u8>, version: Version) {
        put_property(out, prop::PACKET, &self.packet);
        if usize::try_from(self.total_len) != Ok(self.packet.len()) {
            put_property(out, prop::FULL_LEN, &self.total_len.to_be_bytes());
        }
        put_property(out, prop::TABLE_ID, &[self.table_id]);
        if let Some(cookie) = self.cookie {
            property::put_nested(out, prop::COOKIE, &cookie.to_be_bytes());
        }
        put_property(out, prop::REASON, &[self.reason.to_wire(version)]);
        let metadata = oxm::raw_entries(&self.metadata, Some(version), (0, 0));
        put_property(out, prop::METADATA, &metadata);
        let continuation = self.continuation.put(version);
        if !continuation.is_empty() {
            property::put_nested(out, prop::CONTINUATION, &continuation);
        }
    }

    /// Reads a packet-in or resume message, skipping what is not understood when `loose`.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(
        raw: &Raw<'_>,
        context: &DecodeContext<'_>,
        loose: bool,
    ) -> Result<PacketIn, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut found = PacketIn {
            packet: Vec::new(),
            total_len: 0,
            buffer_id: NO_BUFFER,
            reason: PacketInReason::NO_MATCH,
            table_id: 0,
            cookie: None,
            metadata: Match::new(),
            userdata: Vec::new(),
            continuation: Continuation::default(),
        };
        if matches!(raw.kind, Kind::NxPacketIn2 | Kind::NxResume) {
            found.read_properties(body, context, loose)?;
            return Ok(found);
        }
        found.buffer_id = body.u32()?;
        let mut in_port = None;
        if raw.kind == Kind::PacketIn11 {
            in_port = Some(body.u32()?);
            body.skip(4)?;
        }
        found.total_len = body.u16()?.into();
        if raw.kind == Kind::PacketIn10 {
            found.metadata.set_exact(Slot::IN_PORT, body.u16()?.into());
            found.reason = PacketInReason(body.u8()?);
            body.skip(1)?;
        } else {
            (found.reason, found.table_id) = (PacketInReason(body.u8()?), body.u8()?);
        }
        if let Some(in_port) = in_port {
            found.metadata.set_exact(Slot::IN_PORT, PortNo::from_u32(in_port)?.0.into());
        }
        let rules = MatchRules { tlv: context.tlv, ..MatchRules::LOOSE };
        let cookie = |cookie: u64| (cookie != u64::MAX).then_some(cookie);
        match raw.kind {
            Kind::PacketIn12 => found.metadata = oxm::read_oxm(&mut body, &rules)?,
            Kind::PacketIn13 => {
                found.cookie = cookie(body.u64()?);
                found.metadata = oxm::read_oxm(&mut body, &rules)?;
            }
            Kind::NxPacketIn => {
                found.cookie = cookie(body.u64()?);
                let len = usize::from(body.u16()?);
                body.skip(6)?;
                found.metadata = oxm::read_nxm(&mut body, len, &MatchRules::LOOSE, None)?;
            }
            _ => {}
        }
        if matches!(raw.kind, Kind::PacketIn12 | Kind::PacketIn13 | Kind::NxPacketIn) {
            body.skip(2)?;
        }
        found.packet = body.rest().to_vec();
        Ok(found)
    }

    fn read_properties(
        &mut self,
        mut body: Reader<'_>,
        context: &DecodeContext<'_>,
        loose: bool,
    ) -> Result<(), OfError> {
        let rules = MatchRules { strict: !loose, pipeline_only: false, tlv: context.tlv };
        let mut continuation = None;
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            match property.kind {
                prop::PACKET => self.packet = property.body.rest().to_vec(),
                prop::FULL_LEN => self.total_len = property.u32()?,
                prop::BUFFER_ID => self.buffer_id = property.u32()?,
                prop::TABLE_ID => self.table_id = property.u8()?,
                prop::COOKIE => {
                    let cookie = property.u64()?;
                    self.cookie = (cookie != u64::MAX).then_some(cookie);
                }
                prop::REASON => self.reason = PacketInReason(property.u8()?),
                prop::METADATA => self.metadata = oxm::read_raw(property.body.rest(), &rules)?,
                prop::USERDATA => self.userdata = property.body.rest().to_vec(),
                prop::CONTINUATION => continuation = Some(property.nested()?),
                _ if loose => {}
                _ => return Err(property.unknown()),
            }
        }
        let len = u32::try_from(self.packet.len()).unwrap_or(u32::MAX);
        if self.total_len == 0 {
            self.total_len = len;
        }
        if len == 0 || self.total_len < len {
            return Err(OfError::BadRequestLen);
        }
        if let Some(body) = continuation {
            self.continuation = Continuation::read(body, context, loose)?;
        }
        Ok(())
    }
}
