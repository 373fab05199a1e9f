//! Flow modifications and the flags of flows.

use bytes::BufMut;

use super::super::action::{
    Action, CheckContext, DecodeContext, check, put_instructions, read_instructions,
};
use super::super::error::OfError;
use super::super::flow_match::Match;
use super::super::header;
use super::super::kind::{Kind, Raw};
use super::super::match_fixed;
use super::super::oxm::{self, MatchRules};
use super::super::port::PortNo;
use super::super::slot::Slot;
use super::super::version::Version;
use super::super::wire::Reader;
use super::FlowFormat;

/// What a flow modification does (`ofp_flow_mod_command`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FlowModCommand {
    /// Add a flow.
    Add = 0,
    /// Change matching flows.
    Modify = 1,
    /// Change the flow with this match and priority.
    ModifyStrict = 2,
    /// Delete matching flows.
    Delete = 3,
    /// Delete the flow with this match and priority.
    DeleteStrict = 4,
}

impl FlowModCommand {
    fn from_wire(number: u16) -> Result<FlowModCommand, OfError> {
        Ok(match number {
            0 => FlowModCommand::Add,
            1 => FlowModCommand::Modify,
            2 => FlowModCommand::ModifyStrict,
            3 => FlowModCommand::Delete,
            4 => FlowModCommand::DeleteStrict,
            _ => return Err(OfError::FlowModBadCommand),
        })
    }

    fn is_delete(self) -> bool {
        matches!(self, FlowModCommand::Delete | FlowModCommand::DeleteStrict)
    }
}

/// Flags of flows (`ofp_flow_mod_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowFlags(pub u16);

impl FlowFlags {
    /// Report the flow's removal.
    pub const SEND_FLOW_REM: FlowFlags = FlowFlags(1);
    /// Fail if a flow of the same priority overlaps.
    pub const CHECK_OVERLAP: FlowFlags = FlowFlags(2);
    /// Reset the counters; since OpenFlow 1.2. Before, adding a flow always does.
    pub const RESET_COUNTS: FlowFlags = FlowFlags(4);
    /// Do not count packets; since OpenFlow 1.3.
    pub const NO_PACKET_COUNTS: FlowFlags = FlowFlags(8);
    /// Do not count bytes; since OpenFlow 1.3.
    pub const NO_BYTE_COUNTS: FlowFlags = FlowFlags(16);

    /// Whether any bit of `flags` is set.
    pub fn has(self, flags: FlowFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// The flags that `version` has on the wire.
    fn known(version: Version) -> u16 {
        match version {
            Version::V10 | Version::V11 => 3,
            Version::V12 => 7,
            _ => 31,
        }
    }

    /// The flags of a flow description.
    pub(crate) fn from_wire(number: u16, version: Version) -> Result<FlowFlags, OfError> {
        match number & !FlowFlags::known(version) {
            0 => Ok(FlowFlags(number)),
            _ => Err(OfError::FlowModBadFlags),
        }
    }

    pub(crate) fn to_wire(self, version: Version) -> u16 {
        self.0 & FlowFlags::known(version)
    }
}

/// The flag of OpenFlow 1.0 for the emergency flow cache.
const EMERGENCY: u16 = 4;
/// Every table.
pub const TABLE_ALL: u8 = 255;
/// Every group, or no group.
pub const GROUP_ANY: u32 = 0xffff_ffff;
/// No buffered packet.
pub const NO_BUFFER: u32 = 0xffff_ffff;

/// A flow modification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// What to do.
    pub command: FlowModCommand,
    /// The flows' match.
    pub flow_match: Match,
    /// The flows' priority.
    pub priority: u16,
    /// For modify and delete: the cookie that flows must have.
    pub cookie: u64,
    /// The bits of `cookie` that count.
    pub cookie_mask: u64,
    /// The cookie to give to flows.
    pub new_cookie: u64,
    /// Whether modify changes cookies too.
    pub modify_cookie: bool,
    /// The table, 255 for any.
    pub table_id: u8,
    /// Idle timeout in seconds, 0 for none.
    pub idle_timeout: u16,
    /// Hard timeout in seconds, 0 for none.
    pub hard_timeout: u16,
    /// Importance for eviction; since OpenFlow 1.4.
    pub importance: u16,
    /// The buffered packet to process.
    pub buffer_id: u32,
    /// For delete: flows must output to this port.
    pub out_port: PortNo,
    /// For delete: flows must use this group.
    pub out_group: u32,
    /// Flags.
    pub flags: FlowFlags,
    /// What the flows do.
    pub actions: Vec<Action>,
    /// Whether the match said things that mean nothing and was changed; OpenFlow 1.0.
    pub normalized: bool,
}

impl FlowMod {
    /// Reads a flow modification and checks its actions against its match.
    ///
    /// `format.table_id` tells whether the controller has enabled table ids in OpenFlow 1.0.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(
        raw: &Raw<'_>,
        context: &DecodeContext<'_>,
        format: FlowFormat,
        max_ports: PortNo,
        n_tables: u8,
    ) -> Result<FlowMod, OfError> {
        let version = context.version;
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let rules = MatchRules { tlv: context.tlv, ..MatchRules::STRICT };
        let mut flow_mod = FlowMod {
            command: FlowModCommand::Add,
            flow_match: Match::new(),
            priority: 0,
            cookie: 0,
            cookie_mask: 0,
            new_cookie: 0,
            modify_cookie: false,
            table_id: TABLE_ALL,
            idle_timeout: 0,
            hard_timeout: 0,
            importance: 0,
            buffer_id: NO_BUFFER,
            out_port: PortNo::NONE,
            out_group: GROUP_ANY,
            flags: FlowFlags::default(),
            actions: Vec::new(),
            normalized: false,
        };
        let (command, flags) = match raw.kind {
            Kind::FlowMod10 => flow_mod.read_10(&mut body)?,
            Kind::NxFlowMod => flow_mod.read_nx(&mut body, &rules)?,
            _ => flow_mod.read_11(&mut body, &rules, version)?,
        };
        let command = if raw.kind == Kind::FlowMod11 {
            command
        } else {
            flow_mod.modify_cookie = flow_mod.new_cookie != u64::MAX;
            if format.table_id {
                flow_mod.table_id = (command >> 8) as u8;
                command & 0xff
            } else {
                command
            }
        };
        flow_mod.check_connection()?;
        flow_mod.command = FlowModCommand::from_wire(command)?;
        flow_mod.actions = read_instructions(&mut body, context)?;
        flow_mod.set_flags(flags, version)?;
        let context = CheckContext {
            flow_match: &flow_mod.flow_match,
            max_ports,
            table_id: flow_mod.table_id,
            n_tables,
            version,
        };
        check(&mut flow_mod.actions, &context)?;
        Ok(flow_mod)
    }

    /// The message of OpenFlow 1.0. Returns command and flags.
    fn read_10(&mut self, body: &mut Reader<'_>) -> Result<(u16, u16), OfError> {
        let (flow_match, exact) = match_fixed::read_10(body)?;
        self.flow_match = flow_match;
        self.normalized = self.flow_match.normalize();
        self.new_cookie = body.u64()?;
        let command = body.u16()?;
        (self.idle_timeout, self.hard_timeout) = (body.u16()?, body.u16()?);
        let priority = body.u16()?;
        // A flow without wildcards has the highest priority.
        self.priority = if exact { u16::MAX } else { priority };
        self.buffer_id = body.u32()?;
        self.out_port = PortNo(body.u16()?);
        Ok((command, body.u16()?))
    }

    /// Nicira's message. Returns command and flags.
    fn read_nx(
        &mut self,
        body: &mut Reader<'_>,
        rules: &MatchRules<'_>,
    ) -> Result<(u16, u16), OfError> {
        self.new_cookie = body.u64()?;
        let command = body.u16()?;
        (self.idle_timeout, self.hard_timeout) = (body.u16()?, body.u16()?);
        self.priority = body.u16()?;
        self.buffer_id = body.u32()?;
        self.out_port = PortNo(body.u16()?);
        let flags = body.u16()?;
        let match_len = usize::from(body.u16()?);
        body.skip(6)?;
        let mut cookie = (0, 0);
        self.flow_match = oxm::read_nxm(body, match_len, rules, Some(&mut cookie))?;
        (self.cookie, self.cookie_mask) = cookie;
        if command & 0xff == FlowModCommand::Add as u16 && self.cookie_mask != 0 {
            return Err(OfError::BadRequestNxmInvalid);
        }
        Ok((command, flags))
    }

    /// The message of OpenFlow 1.1 and later. Returns command and flags.
    fn read_11(
        &mut self,
        body: &mut Reader<'_>,
        rules: &MatchRules<'_>,
        version: Version,
    ) -> Result<(u16, u16), OfError> {
        let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
        self.table_id = body.u8()?;
        let command = u16::from(body.u8()?);
        (self.idle_timeout, self.hard_timeout) = (body.u16()?, body.u16()?);
        self.priority = body.u16()?;
        self.buffer_id = body.u32()?;
        let (out_port, out_group) = (body.u32()?, body.u32()?);
        let (flags, importance) = (body.u16()?, body.u16()?);
        self.flow_match = match_fixed::read(body, rules)?;
        let known = FlowModCommand::from_wire(command).ok();
        let modify = matches!(known, Some(FlowModCommand::Modify | FlowModCommand::ModifyStrict));
        // In OpenFlow 1.1 a modify that does not match cookies adds the flow if there is none.
        let adds = known == Some(FlowModCommand::Add)
            || (version == Version::V11 && modify && cookie_mask == 0);
        if adds {
            self.new_cookie = cookie;
        } else {
            (self.cookie, self.cookie_mask, self.new_cookie) = (cookie, cookie_mask, u64::MAX);
        }
        let deletes = known.is_some_and(FlowModCommand::is_delete);
        if self.table_id == TABLE_ALL && (version == Version::V11 || !deletes) {
            return Err(OfError::FlowModBadTableId);
        }
        if version >= Version::V14 && known == Some(FlowModCommand::Add) {
            self.importance = importance;
        }
        self.out_port = PortNo::from_u32(out_port)?;
        if deletes {
            self.out_group = out_group;
        }
        Ok((command, flags))
    }

    /// Checks that addresses of tracked connections fit the Ethernet type.
    fn check_connection(&self) -> Result<(), OfError> {
        let any = |slots: [Slot; 2]| slots.iter().any(|slot| self.flow_match.mask(*slot) != 0);
        let kind = self.flow_match.value(Slot::ETH_TYPE);
        let v4 = any([Slot::CT_NW_SRC, Slot::CT_NW_DST]) && kind != 0x0800;
        let v6 = any([Slot::CT_IPV6_SRC, Slot::CT_IPV6_DST]) && kind != 0x86dd;
        if v4 || v6 { Err(OfError::BadActionMatchInconsistent) } else { Ok(()) }
    }

    fn set_flags(&mut self, flags: u16, version: Version) -> Result<(), OfError> {
        let emergency = version == Version::V10 && flags & EMERGENCY != 0;
        let flags = if emergency { flags & !EMERGENCY } else { flags };
        self.flags = FlowFlags::from_wire(flags, version)?;
        if emergency {
            return Err(match self.idle_timeout | self.hard_timeout {
                0 => OfError::FlowModTableFull,
                _ => OfError::FlowModBadEmergTimeout,
            });
        }
        if version < Version::V12 && self.command == FlowModCommand::Add {
            self.flags.0 |= FlowFlags::RESET_COUNTS.0;
        }
        Ok(())
    }

    /// Encodes the message; `format` chooses among the forms of OpenFlow 1.0.
    pub fn encode(&self, version: Version, xid: u32, format: FlowFormat) -> Vec<u8> {
        let command = u16::from(self.command as u8)
            | if format.table_id { u16::from(self.table_id) << 8 } else { 0 };
        let flags = self.flags.to_wire(version);
        let timeouts = |out: &mut Vec<u8>| {
            out.put_u16(self.idle_timeout);
            out.put_u16(self.hard_timeout);
            out.put_u16(self.priority);
            out.put_u32(self.buffer_id);
        };
        let mut out;
        if version > Version::V10 {
            out = Kind::FlowMod11.start(version, xid);
            self.put_11(&mut out, version);
        } else if format.nxm {
            out = Kind::NxFlowMod.start(version, xid);
            out.put_u64(self.new_cookie);
            out.put_u16(command);
            timeouts(&mut out);
            out.put_u16(self.out_port.0);
            out.put_u16(flags);
            let mut nxm = Vec::new();
            let cookie = (self.cookie, self.cookie_mask);
            let len = oxm::put_nxm(&mut nxm, &self.flow_match, cookie);
            out.put_u16(len as u16);
            out.put_bytes(0, 6);
            out.append(&mut nxm);
        } else {
            out = Kind::FlowMod10.start(version, xid);
            match_fixed::put_10(&mut out, &self.flow_match);
            out.put_u64(self.new_cookie);
            out.put_u16(command);
            timeouts(&mut out);
            out.put_u16(self.out_port.0);
            out.put_u16(flags);
        }
        put_instructions(&mut out, &self.actions, version);
        header::finish(out)
    }

    fn put_11(&self, out: &mut Vec<u8>, version: Version) {
        let modify = matches!(self.command, FlowModCommand::Modify | FlowModCommand::ModifyStrict);
        let adds = self.command == FlowModCommand::Add
            || (version == Version::V11 && modify && self.cookie_mask == 0);
        out.put_u64(if adds { self.new_cookie } else { self.cookie & self.cookie_mask });
        out.put_u64(self.cookie_mask);
        let any_table = version > Version::V11 && self.command.is_delete();
        let table = if self.table_id != TABLE_ALL || any_table { self.table_id } else { 0 };
        out.put_u8(table);
        out.put_u8(self.command as u8);
        out.put_u16(self.idle_timeout);
        out.put_u16(self.hard_timeout);
        out.put_u16(self.priority);
        out.put_u32(self.buffer_id);
        out.put_u32(self.out_port.to_u32());
        out.put_u32(self.out_group);
        out.put_u16(self.flags.to_wire(version));
        let importance = version >= Version::V14 && self.command == FlowModCommand::Add;
        out.put_u16(if importance { self.importance } else { 0 });
        match_fixed::put(out, &self.flow_match, version);
    }
}
