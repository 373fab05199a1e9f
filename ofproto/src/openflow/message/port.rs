//! Ports: descriptions, status messages and modifications.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::header;
use super::super::kind::{Kind, Raw};
use super::super::port::PortNo;
use super::super::property;
use super::super::version::Version;
use super::super::wire::{Reader, put_text_field, text_field};

/// Bits of a port's configuration (`ofp_port_config`), the same in all versions.
pub mod config {
    /// Administratively down.
    pub const PORT_DOWN: u32 = 1 << 0;
    /// No spanning tree, in OpenFlow 1.0.
    pub const NO_STP: u32 = 1 << 1;
    /// Drop received packets.
    pub const NO_RECV: u32 = 1 << 2;
    /// Drop received spanning tree packets, in OpenFlow 1.0.
    pub const NO_RECV_STP: u32 = 1 << 3;
    /// No flooding to this port, in OpenFlow 1.0.
    pub const NO_FLOOD: u32 = 1 << 4;
    /// Drop packets to this port.
    pub const NO_FWD: u32 = 1 << 5;
    /// No packet-in messages for this port.
    pub const NO_PACKET_IN: u32 = 1 << 6;

    pub(super) const ALL_10: u32 = 0x7f;
    pub(super) const ALL_11: u32 = PORT_DOWN | NO_RECV | NO_FWD | NO_PACKET_IN;
}

/// Bits of a port's state (`ofp_port_state`).
pub mod state {
    /// No link.
    pub const LINK_DOWN: u32 = 1 << 0;
    /// Blocked, from OpenFlow 1.1 on.
    pub const BLOCKED: u32 = 1 << 1;
    /// Live for fast failover, from OpenFlow 1.1 on.
    pub const LIVE: u32 = 1 << 2;
    /// The spanning tree state, in OpenFlow 1.0; `STP_LISTEN` is 0.
    pub const STP_MASK: u32 = 3 << 8;
    /// Learning.
    pub const STP_LEARN: u32 = 1 << 8;
    /// Forwarding.
    pub const STP_FORWARD: u32 = 2 << 8;
    /// Blocking.
    pub const STP_BLOCK: u32 = 3 << 8;

    pub(super) const ALL_10: u32 = LINK_DOWN | STP_MASK;
    pub(super) const ALL_11: u32 = LINK_DOWN | BLOCKED | LIVE;
}

/// What a port can do (`ofp_port_features` of OpenFlow 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PortFeatures(pub u32);

impl PortFeatures {
    const LOW_10: u32 = 0x7f;

    /// Names of the bits from the lowest on.
    pub const NAMES: [&str; 16] = [
        "10MB-HD",
        "10MB-FD",
        "100MB-HD",
        "100MB-FD",
        "1GB-HD",
        "1GB-FD",
        "10GB-FD",
        "40GB-FD",
        "100GB-FD",
        "1TB-FD",
        "OTHER",
        "COPPER",
        "FIBER",
        "AUTO_NEG",
        "AUTO_PAUSE",
        "AUTO_PAUSE_ASYM",
    ];

    fn from_10(number: u32) -> PortFeatures {
        PortFeatures(number & PortFeatures::LOW_10 | (number & 0xf80) << 4)
    }

    fn to_10(self) -> u32 {
        self.0 & PortFeatures::LOW_10 | (self.0 & 0xf800) >> 4
    }

    fn from_11(number: u32) -> PortFeatures {
        PortFeatures(number & 0xffff)
    }

    fn to_11(self) -> u32 {
        self.0 & 0xffff
    }

    /// The greatest speed in kbit/s, 0 if there is none.
    pub fn speed(self) -> u32 {
        const SPEEDS: [(u32, u32); 7] = [
            (1 << 9, 1_000_000_000),
            (1 << 8, 100_000_000),
            (1 << 7, 40_000_000),
            (1 << 6, 10_000_000),
            (3 << 4, 1_000_000),
            (3 << 2, 100_000),
            (3, 10_000),
        ];
        SPEEDS.iter().find(|(bits, _)| self.0 & bits != 0).map_or(0, |(_, speed)| *speed)
    }
}

/// The width of a port name on the wire.
const NAME_LEN: usize = 16;
/// The property of a port with its Ethernet features.
const ETHERNET: property::Kind = property::Kind::standard(0);

/// The description of a port.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PhyPort {
    /// Number.
    pub port_no: PortNo,
    /// Ethernet address.
    pub hw_addr: [u8; 6],
    /// Name, at most 15 bytes on the wire.
    pub name: Vec<u8>,
    /// Bits of [`config`].
    pub config: u32,
    /// Bits of [`state`].
    pub state: u32,
    /// Current features.
    pub curr: PortFeatures,
    /// Advertised features.
    pub advertised: PortFeatures,
    /// Supported features.
    pub supported: PortFeatures,
    /// Features that the peer advertises.
    pub peer: PortFeatures,
    /// Current speed in kbit/s; from OpenFlow 1.1 on.
    pub curr_speed: u32,
    /// Greatest speed in kbit/s; from OpenFlow 1.1 on.
    pub max_speed: u32,
}

impl PhyPort {
    fn put_name(&self, out: &mut Vec<u8>) {
        put_text_field(out, &self.name, NAME_LEN);
    }

    fn put_features(&self, out: &mut Vec<u8>) {
        for features in [self.curr, self.advertised, self.supported, self.peer] {
            out.put_u32(features.to_11());
        }
        out.put_u32(self.curr_speed);
        out.put_u32(self.max_speed);
    }

    fn read_features(&mut self, reader: &mut Reader<'_>) -> Result<(), OfError> {
        self.curr = PortFeatures::from_11(reader.u32()?);
        self.advertised = PortFeatures::from_11(reader.u32()?);
        self.supported = PortFeatures::from_11(reader.u32()?);
        self.peer = PortFeatures::from_11(reader.u32()?);
        (self.curr_speed, self.max_speed) = (reader.u32()?, reader.u32()?);
        Ok(())
    }

    /// Appends the description in the form of `version`.
    pub(crate) fn put(&self, out: &mut Vec<u8>, version: Version) {
        if version == Version::V10 {
            out.put_u16(self.port_no.0);
            out.put_slice(&self.hw_addr);
            self.put_name(out);
            out.put_u32(self.config & config::ALL_10);
            out.put_u32(self.state & state::ALL_10);
            for features in [self.curr, self.advertised, self.supported, self.peer] {
                out.put_u32(features.to_10());
            }
            return;
        }
        let properties = version >= Version::V14;
        out.put_u32(self.port_no.to_u32());
        out.put_u16(if properties { 72 } else { 0 });
        out.put_u16(0);
        out.put_slice(&self.hw_addr);
        out.put_u16(0);
        self.put_name(out);
        out.put_u32(self.config & config::ALL_11);
        out.put_u32(self.state & state::ALL_11);
        if properties {
            let mut features = vec![0; 4];
            self.put_features(&mut features);
            property::put(out, ETHERNET, &features);
        } else {
            self.put_features(out);
        }
    }

    /// Reads one description in the form of `version`.
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<PhyPort, OfError> {
        let mut port = PhyPort::default();
        if version == Version::V10 {
            port.port_no = PortNo(reader.u16()?);
            port.hw_addr = reader.array()?;
            port.name = text_field(reader.bytes(NAME_LEN - 1)?);
            reader.skip(1)?;
            port.config = reader.u32()? & config::ALL_10;
            port.state = reader.u32()? & state::ALL_10;
            port.curr = PortFeatures::from_10(reader.u32()?);
            port.advertised = PortFeatures::from_10(reader.u32()?);
            port.supported = PortFeatures::from_10(reader.u32()?);
            port.peer = PortFeatures::from_10(reader.u32()?);
            port.curr_speed = port.curr.speed();
            port.max_speed = port.supported.speed();
            return Ok(port);
        }
        let mut body = reader.clone();
        body.skip(4)?;
        let len = if version >= Version::V14 { usize::from(body.u16()?) } else { 64 };
        let mut body = reader.sub(len)?;
        let port_no = body.u32()?;
        body.skip(4)?;
        port.hw_addr = body.array()?;
        body.skip(2)?;
        port.name = text_field(body.bytes(NAME_LEN - 1)?);
        body.skip(1)?;
        port.config = body.u32()? & config::ALL_11;
        port.state = body.u32()? & state::ALL_11;
        port.port_no = PortNo::from_u32(port_no)?;
        if version < Version::V14 {
            port.read_features(&mut body)?;
        }
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            if property.kind == ETHERNET {
                property.body.skip(4)?;
                port.read_features(&mut property.body)?;
                property.end()?;
            }
        }
        Ok(port)
    }

    /// Reads descriptions to the end.
    pub(crate) fn read_all(
        reader: &mut Reader<'_>,
        version: Version,
    ) -> Result<Vec<PhyPort>, OfError> {
        let mut ports = Vec::new();
        while !reader.is_empty() {
            ports.push(PhyPort::read(reader, version)?);
        }
        Ok(ports)
    }

    /// Reads the ports of a port description reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode_stats(raw: &Raw<'_>, version: Version) -> Result<Vec<PhyPort>, OfError> {
        PhyPort::read_all(&mut Reader::new(raw.body, OfError::BadRequestLen), version)
    }

    /// The part of a port description reply for this port.
    pub fn stats_part(&self, version: Version) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out, version);
        out
    }

    /// The kind of port description replies.
    pub fn stats_reply_kind(version: Version) -> Kind {
        match version {
            Version::V10 => Kind::PortDescStatsReply10,
            Version::V11 | Version::V12 | Version::V13 => Kind::PortDescStatsReply11,
            Version::V14 | Version::V15 => Kind::PortDescStatsReply14,
        }
    }
}

/// What happened to a port (`ofp_port_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortReason {
    /// Added.
    Add = 0,
    /// Deleted.
    Delete = 1,
    /// Modified.
    Modify = 2,
}

/// A port status message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What happened.
    pub reason: PortReason,
    /// The port.
    pub port: PhyPort,
}

impl PortStatus {
    /// Reads the message.
    ///
    /// # Errors
    /// `BadRequestReason` for an unknown reason.
    pub fn decode(raw: &Raw<'_>, version: Version) -> Result<PortStatus, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let reason = match body.u8()? {
            0 => PortReason::Add,
            1 => PortReason::Delete,
            2 => PortReason::Modify,
            _ => return Err(OfError::BadRequestReason),
        };
        body.skip(7)?;
        Ok(PortStatus { reason, port: PhyPort::read(&mut body, version)? })
    }

    /// Encodes the message.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version {
            Version::V10 => Kind::PortStatus10,
            Version::V11 | Version::V12 | Version::V13 => Kind::PortStatus11,
            Version::V14 | Version::V15 => Kind::PortStatus14,
        };
        let mut out = kind.start(version, xid);
        out.put_u8(self.reason as u8);
        out.put_bytes(0, 7);
        self.port.put(&mut out, version);
        header::finish(out)
    }
}

/// A port modification.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PortMod {
    /// The port.
    pub port_no: PortNo,
    /// Its Ethernet address, which must be right.
    pub hw_addr: [u8; 6],
    /// Bits of [`config`] to set.
    pub config: u32,
    /// Bits of [`config`] to change.
    pub mask: u32,
    /// Features to advertise, none for no change.
    pub advertise: PortFeatures,
}

impl PortMod {
    /// Reads the message.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>) -> Result<PortMod, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut port_mod = PortMod::default();
        let old = raw.kind == Kind::PortMod10;
        if old {
            port_mod.port_no = PortNo(body.u16()?);
        } else {
            port_mod.port_no = PortNo::from_u32(body.u32()?)?;
            body.skip(4)?;
        }
        port_mod.hw_addr = body.array()?;
        body.skip(if old { 0 } else { 2 })?;
        let known = if old { config::ALL_10 } else { config::ALL_11 };
        let bits = body.u32()?;
        port_mod.mask = body.u32()? & known;
        port_mod.config = bits & port_mod.mask;
        match raw.kind {
            Kind::PortMod10 => port_mod.advertise = PortFeatures::from_10(body.u32()?),
            Kind::PortMod11 => port_mod.advertise = PortFeatures::from_11(body.u32()?),
            _ => {
                while !body.is_empty() {
                    let mut property = property::read(&mut body)?;
                    if property.kind != ETHERNET {
                        return Err(property.unknown());
                    }
                    port_mod.advertise = PortFeatures::from_11(property.u32()?);
                }
            }
        }
        Ok(port_mod)
    }

    /// Encodes the message.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version {
            Version::V10 => Kind::PortMod10,
            Version::V11 | Version::V12 | Version::V13 => Kind::PortMod11,
            Version::V14 | Version::V15 => Kind::PortMod14,
        };
        let mut out = kind.start(version, xid);
        let old = version == Version::V10;
        if old {
            out.put_u16(self.port_no.0);
        } else {
            out.put_u32(self.port_no.to_u32());
            out.put_u32(0);
        }
        out.put_slice(&self.hw_addr);
        out.put_bytes(0, if old { 0 } else { 2 });
        let known = if old { config::ALL_10 } else { config::ALL_11 };
        out.put_u32(self.config & known);
        out.put_u32(self.mask & known);
        match kind {
            Kind::PortMod10 | Kind::PortMod11 => {
                out.put_u32(if old { self.advertise.to_10() } else { self.advertise.to_11() });
                out.put_u32(0);
            }
            _ if self.advertise.0 != 0 => {
                property::put(&mut out, ETHERNET, &self.advertise.to_11().to_be_bytes());
            }
            _ => {}
        }
        header::finish(out)
    }
}

/// The port that a request for port statistics or descriptions asks for, `NONE` for all.
///
/// # Errors
/// `BadActionOutPort` for a number that no port can have.
pub fn decode_port_request(raw: &Raw<'_>) -> Result<PortNo, OfError> {
    let mut body = Reader::new(raw.body, OfError::BadRequestLen);
    match raw.kind {
        Kind::PortDescStatsRequest10 => Ok(PortNo::NONE),
        Kind::PortStatsRequest10 => body.u16().map(PortNo),
        _ => PortNo::from_u32(body.u32()?),
    }
}

/// The request for the statistics of a port, `NONE` for all.
pub fn encode_port_stats_request(port: PortNo, version: Version, xid: u32) -> Vec<u8> {
    let kind = match version {
        Version::V10 => Kind::PortStatsRequest10,
        _ => Kind::PortStatsRequest11,
    };
    encode_port_request(kind, port, version, xid)
}

/// The request for the description of a port, `NONE` for all.
pub fn encode_port_desc_request(port: PortNo, version: Version, xid: u32) -> Vec<u8> {
    let kind = match version {
        Version::V15 => Kind::PortDescStatsRequest15,
        _ => Kind::PortDescStatsRequest10,
    };
    encode_port_request(kind, port, version, xid)
}

fn encode_port_request(kind: Kind, port: PortNo, version: Version, xid: u32) -> Vec<u8> {
    let mut out = kind.start(version, xid);
    match kind {
        Kind::PortDescStatsRequest10 => {}
        Kind::PortStatsRequest10 => {
            out.put_u16(port.0);
            out.put_bytes(0, 6);
        }
        _ => {
            out.put_u32(port.to_u32());
            out.put_u32(0);
        }
    }
    header::finish(out)
}
