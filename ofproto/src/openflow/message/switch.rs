//! Hello, features and switch configuration.

use bytes::BufMut;

use super::super::action::action_types;
use super::super::error::OfError;
use super::super::header::{self, HEADER_LEN};
use super::super::kind::{Kind, Raw};
use super::super::version::{Version, VersionSet};
use super::super::wire::Reader;
use super::port::PhyPort;

/// The hello element with a version bitmap.
const VERSION_BITMAP: u16 = 1;

/// A hello message: the versions that a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The versions.
    pub versions: VersionSet,
    /// Whether the message held something that is not understood, which does no harm.
    pub strange: bool,
}

impl Hello {
    /// Reads the message, of any version, which cannot fail.
    pub fn decode(raw: &Raw<'_>) -> Hello {
        let mut hello = Hello { versions: VersionSet::up_to(raw.header.version), strange: false };
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        while !body.is_empty() {
            if hello.element(&mut body).is_err() {
                hello.strange = true;
                break;
            }
        }
        hello
    }

    fn element(&mut self, body: &mut Reader<'_>) -> Result<(), OfError> {
        let mut header = body.clone();
        let (kind, len) = (header.u16()?, usize::from(header.u16()?));
        let mut element = body.sub(len.next_multiple_of(8))?.sub(len)?;
        element.skip(4)?;
        let versions = match kind == VERSION_BITMAP && element.len() % 4 == 0 {
            true => element.u32().map_or(VersionSet::from_bits(0), VersionSet::from_bits),
            false => VersionSet::from_bits(0),
        };
        match versions.is_empty() {
            true => self.strange = true,
            false => self.versions = versions,
        }
        Ok(())
    }

    /// The message that announces `versions`, with a bitmap if they are not all up to the greatest.
    pub fn encode(versions: VersionSet, xid: u32) -> Vec<u8> {
        let version = Version::from_wire(versions.greatest()).unwrap_or(Version::V10);
        let mut out = Kind::Hello.start(version, xid);
        if versions != VersionSet::up_to(versions.greatest()) {
            out.put_u16(VERSION_BITMAP);
            out.put_u16(8);
            out.put_u32(versions.bits());
        }
        header::finish(out)
    }
}

/// What a switch can do (`ofp_capabilities` of all versions).
pub mod capability {
    /// Flow statistics.
    pub const FLOW_STATS: u32 = 1 << 0;
    /// Table statistics.
    pub const TABLE_STATS: u32 = 1 << 1;
    /// Port statistics.
    pub const PORT_STATS: u32 = 1 << 2;
    /// Group statistics, from OpenFlow 1.1 on.
    pub const GROUP_STATS: u32 = 1 << 3;
    /// Reassembles fragments.
    pub const IP_REASM: u32 = 1 << 5;
    /// Queue statistics.
    pub const QUEUE_STATS: u32 = 1 << 6;
    /// Matches addresses in ARP packets, before OpenFlow 1.2.
    pub const ARP_MATCH_IP: u32 = 1 << 7;
    /// Blocks looping ports, from OpenFlow 1.2 on.
    pub const PORT_BLOCKED: u32 = 1 << 8;
    /// Bundles, from OpenFlow 1.4 on.
    pub const BUNDLES: u32 = 1 << 9;
    /// Flow monitoring, from OpenFlow 1.4 on.
    pub const FLOW_MONITORING: u32 = 1 << 10;
    /// Spanning tree, in OpenFlow 1.0; the number differs on the wire.
    pub const STP: u32 = 1 << 31;

    /// The number of [`STP`] in OpenFlow 1.0.
    pub(super) const STP_10: u32 = 1 << 3;
}

fn known_capabilities(version: Version) -> u32 {
    use capability::*;
    let common = FLOW_STATS | TABLE_STATS | PORT_STATS | IP_REASM | QUEUE_STATS;
    match version {
        Version::V10 => common | ARP_MATCH_IP,
        Version::V11 => common | ARP_MATCH_IP | GROUP_STATS,
        Version::V12 | Version::V13 => common | PORT_BLOCKED | GROUP_STATS,
        Version::V14 | Version::V15 => {
            common | PORT_BLOCKED | GROUP_STATS | BUNDLES | FLOW_MONITORING
        }
    }
}

/// A features reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchFeatures {
    /// Datapath id.
    pub datapath_id: u64,
    /// Packets that the switch can buffer.
    pub n_buffers: u32,
    /// Number of tables.
    pub n_tables: u8,
    /// Number of an auxiliary connection, 0 for the main one; since OpenFlow 1.3.
    pub auxiliary_id: u8,
    /// Bits of [`capability`].
    pub capabilities: u32,
    /// In OpenFlow 1.0, a bit for each action type that is supported.
    pub actions: u32,
    /// The ports, before OpenFlow 1.3. Those that do not fit into the message are not sent.
    pub ports: Vec<PhyPort>,
}

impl SwitchFeatures {
    /// Reads a features reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>, version: Version) -> Result<SwitchFeatures, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut features = SwitchFeatures {
            datapath_id: body.u64()?,
            n_buffers: body.u32()?,
            n_tables: body.u8()?,
            auxiliary_id: body.u8()?,
            capabilities: 0,
            actions: 0,
            ports: Vec::new(),
        };
        body.skip(2)?;
        let (capabilities, actions) = (body.u32()?, body.u32()?);
        features.capabilities = capabilities & known_capabilities(version);
        if version == Version::V10 {
            features.actions = actions & action_mask();
            if capabilities & capability::STP_10 != 0 {
                features.capabilities |= capability::STP;
            }
        }
        if version < Version::V13 {
            features.auxiliary_id = 0;
            features.ports = PhyPort::read_all(&mut body, version)?;
        }
        Ok(features)
    }

    /// Encodes a features reply.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version {
            Version::V10 => Kind::FeaturesReply10,
            Version::V11 | Version::V12 => Kind::FeaturesReply11,
            _ => Kind::FeaturesReply13,
        };
        let mut out = kind.start(version, xid);
        out.put_u64(self.datapath_id);
        out.put_u32(self.n_buffers);
        out.put_u8(self.n_tables);
        out.put_u8(if version >= Version::V13 { self.auxiliary_id } else { 0 });
        out.put_u16(0);
        let mut capabilities = self.capabilities & known_capabilities(version);
        if version == Version::V10 && self.capabilities & capability::STP != 0 {
            capabilities |= capability::STP_10;
        }
        out.put_u32(capabilities);
        out.put_u32(if version == Version::V10 { self.actions } else { 0 });
        if version < Version::V13 {
            for port in &self.ports {
                let before = out.len();
                port.put(&mut out, version);
                if out.len() > usize::from(u16::MAX) {
                    out.truncate(before);
                    break;
                }
            }
        }
        header::finish(out)
    }
}

/// The action types of OpenFlow 1.0.
fn action_mask() -> u32 {
    action_types(Version::V10).iter().fold(0, |mask, (number, _)| mask | 1 << number)
}

/// How the switch handles IP fragments (`ofp_config_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FragmentHandling {
    /// Matched with transport ports 0.
    Normal = 0,
    /// Dropped.
    Drop = 1,
    /// Reassembled.
    Reassemble = 2,
    /// The first fragment is matched with its ports.
    NxMatch = 3,
}

/// The configuration of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// Handling of fragments.
    pub fragments: FragmentHandling,
    /// Whether packets with an invalid time to live go to the controller, before OpenFlow 1.3.
    pub invalid_ttl_to_controller: Option<bool>,
    /// Most bytes of a packet that misses to send.
    pub miss_send_len: u16,
}

/// The flag for packets with an invalid time to live.
const INVALID_TTL: u16 = 4;

impl SwitchConfig {
    /// Reads a set-config message or a get-config reply.
    ///
    /// # Errors
    /// `SwitchConfigBadFlags` in a set-config message for flags that are not known.
    pub fn decode(raw: &Raw<'_>, version: Version) -> Result<SwitchConfig, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let (flags, miss_send_len) = (body.u16()?, body.u16()?);
        let ttl = version < Version::V13;
        let known = 3 | if ttl { INVALID_TTL } else { 0 };
        if raw.kind == Kind::SetConfig && flags & !known != 0 {
            return Err(OfError::SwitchConfigBadFlags);
        }
        let fragments = match flags & 3 {
            0 => FragmentHandling::Normal,
            1 => FragmentHandling::Drop,
            2 => FragmentHandling::Reassemble,
            _ => FragmentHandling::NxMatch,
        };
        let invalid_ttl_to_controller = ttl.then_some(flags & INVALID_TTL != 0);
        Ok(SwitchConfig { fragments, invalid_ttl_to_controller, miss_send_len })
    }

    /// Encodes a get-config reply.
    pub fn encode(&self, kind: Kind, version: Version, xid: u32) -> Vec<u8> {
        let ttl = self.invalid_ttl_to_controller == Some(true) && version < Version::V13;
        let mut out = kind.start(version, xid);
        out.put_u16(self.fragments as u16 | if ttl { INVALID_TTL } else { 0 });
        out.put_u16(self.miss_send_len);
        header::finish(out)
    }
}

/// A reply without a body, or with the body of its request: echo and barrier replies.
pub fn encode_plain(kind: Kind, version: Version, xid: u32, body: &[u8]) -> Vec<u8> {
    let mut out = kind.start(version, xid);
    out.put_slice(body);
    header::finish(out)
}

/// The reply to an echo request.
pub fn encode_echo_reply(request: &Raw<'_>, version: Version) -> Vec<u8> {
    let body = request.message.get(HEADER_LEN..).unwrap_or_default();
    encode_plain(Kind::EchoReply, version, request.header.xid, body)
}

/// The reply to a barrier request.
pub fn encode_barrier_reply(version: Version, xid: u32) -> Vec<u8> {
    let kind = if version == Version::V10 { Kind::BarrierReply10 } else { Kind::BarrierReply11 };
    encode_plain(kind, version, xid, &[])
}
