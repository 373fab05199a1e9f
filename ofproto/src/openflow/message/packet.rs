//! Packet-out messages, and what a controller says about packet-in messages.

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
use super::super::slot::Slot;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};
use super::flow_mod::NO_BUFFER;

/// A packet-out message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// The buffered packet, or `NO_BUFFER`.
    pub buffer_id: u32,
    /// The input port, and from OpenFlow 1.5 on other metadata.
    pub metadata: Match,
    /// What to do with the packet.
    pub actions: Vec<Action>,
    /// The packet, when it is not buffered.
    pub packet: Vec<u8>,
}

impl PacketOut {
    /// Reads the message. Its actions are still to be checked.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>, context: &DecodeContext<'_>) -> Result<PacketOut, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let buffer_id = body.u32()?;
        let mut metadata = Match::new();
        let actions_len;
        if raw.kind == Kind::PacketOut15 {
            actions_len = body.u16()?;
            body.skip(2)?;
            let rules = MatchRules { pipeline_only: true, tlv: context.tlv, ..MatchRules::LOOSE };
            metadata = oxm::read_oxm(&mut body, &rules)?;
            if metadata.mask(Slot::IN_PORT) == 0 {
                return Err(OfError::BadRequestPort);
            }
        } else {
            let in_port = match raw.kind {
                Kind::PacketOut10 => PortNo(body.u16()?),
                _ => PortNo::from_u32(body.u32()?)?,
            };
            actions_len = body.u16()?;
            body.skip(if raw.kind == Kind::PacketOut10 { 0 } else { 6 })?;
            metadata.require_ethernet();
            metadata.set_exact(Slot::IN_PORT, in_port.0.into());
        }
        let actions = read_actions(&mut body, actions_len.into(), context, Instruction::ACTIONS)?;
        let in_port = PortNo(metadata.value(Slot::IN_PORT) as u16);
        let known = [PortNo::LOCAL, PortNo::NONE, PortNo::CONTROLLER];
        if in_port >= PortNo::MAX && !known.contains(&in_port) {
            return Err(OfError::BadRequestPort);
        }
        let packet = if buffer_id == NO_BUFFER { body.rest().to_vec() } else { Vec::new() };
        Ok(PacketOut { buffer_id, metadata, actions, packet })
    }

    /// The port on which the packet is to seem received.
    pub fn in_port(&self) -> PortNo {
        PortNo(self.metadata.value(Slot::IN_PORT) as u16)
    }

    /// Encodes the message.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version {
            Version::V10 => Kind::PacketOut10,
            Version::V15 => Kind::PacketOut15,
            _ => Kind::PacketOut11,
        };
        let mut out = kind.start(version, xid);
        out.put_u32(self.buffer_id);
        match kind {
            Kind::PacketOut10 => out.put_u16(self.in_port().0),
            Kind::PacketOut11 => out.put_u32(self.in_port().to_u32()),
            _ => {}
        }
        let len_place = out.len();
        out.put_u16(0);
        match kind {
            Kind::PacketOut10 => {}
            Kind::PacketOut11 => out.put_bytes(0, 6),
            _ => {
                out.put_u16(0);
                oxm::put_oxm(&mut out, &self.metadata, version);
            }
        }
        let start = out.len();
        put_actions(&mut out, &self.actions, version);
        let len = out.len() - start;
        patch_u16(&mut out, len_place, len as u16);
        if self.buffer_id == NO_BUFFER {
            out.put_slice(&self.packet);
        }
        header::finish(out)
    }
}

/// The form of packet-in messages on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PacketInFormat {
    /// As the version says.
    Standard = 0,
    /// Nicira's first form.
    Nxt = 1,
    /// Nicira's form with properties.
    Nxt2 = 2,
}

impl PacketInFormat {
    /// Reads a set-packet-in-format message.
    ///
    /// # Errors
    /// `BadRequestEperm` for an unknown format.
    pub fn decode(raw: &Raw<'_>) -> Result<PacketInFormat, OfError> {
        match Reader::new(raw.body, OfError::BadRequestLen).u32()? {
            0 => Ok(PacketInFormat::Standard),
            1 => Ok(PacketInFormat::Nxt),
            2 => Ok(PacketInFormat::Nxt2),
            _ => Err(OfError::BadRequestEperm),
        }
    }

    /// Encodes a set-packet-in-format message.
    pub fn encode(self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::NxSetPacketInFormat.start(version, xid);
        out.put_u32(self as u32);
        header::finish(out)
    }
}

impl PacketInReason {
    /// The number on the wire in `version`.
    pub(super) fn to_wire(self, version: Version) -> u8 {
        let reason = match self {
            PacketInReason::ACTION_SET | PacketInReason::GROUP | PacketInReason::PACKET_OUT
                if version < Version::V14 =>
            {
                PacketInReason::ACTION
            }
            PacketInReason::EXPLICIT_MISS if version < Version::V13 => PacketInReason::ACTION,
            PacketInReason::EXPLICIT_MISS | PacketInReason::IMPLICIT_MISS => {
                PacketInReason::NO_MATCH
            }
            other => other,
        };
        reason.0
    }
}
