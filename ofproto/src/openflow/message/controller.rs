//! Roles of controllers and what a controller is told without asking.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::header;
use super::super::kind::{Kind, Raw};
use super::super::property;
use super::super::version::Version;
use super::super::wire::Reader;

/// The role of a controller (`ofp12_controller_role`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Role {
    /// In requests: tell the role without a change.
    NoChange = 0,
    /// Full access.
    Equal = 1,
    /// Full access, at most one controller.
    Primary = 2,
    /// Read only.
    Secondary = 3,
}

impl Role {
    fn from_wire(number: u32) -> Result<Role, OfError> {
        Ok(match number {
            0 => Role::NoChange,
            1 => Role::Equal,
            2 => Role::Primary,
            3 => Role::Secondary,
            _ => return Err(OfError::RoleRequestBadRole),
        })
    }
}

/// A role request or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// The role.
    pub role: Role,
    /// The generation of the election; from OpenFlow 1.2 on.
    pub generation_id: Option<u64>,
}

impl RoleMessage {
    /// Reads a request or reply.
    ///
    /// # Errors
    /// `RoleRequestBadRole`.
    pub fn decode(raw: &Raw<'_>) -> Result<RoleMessage, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let number = body.u32()?;
        if matches!(raw.kind, Kind::NxRoleRequest | Kind::NxRoleReply) {
            let role = Role::from_wire(number.checked_add(1).unwrap_or(number))?;
            return Ok(RoleMessage { role, generation_id: None });
        }
        let role = Role::from_wire(number)?;
        body.skip(4)?;
        let generation_id = body.u64()?;
        let absent = match raw.kind {
            Kind::RoleRequest12 => role == Role::NoChange,
            _ => generation_id == u64::MAX,
        };
        Ok(RoleMessage { role, generation_id: (!absent).then_some(generation_id) })
    }

    /// Encodes a message of `kind`: a role request or reply.
    pub fn encode(&self, kind: Kind, version: Version, xid: u32) -> Vec<u8> {
        let mut out = kind.start(version, xid);
        if matches!(kind, Kind::NxRoleRequest | Kind::NxRoleReply) {
            out.put_u32((self.role as u32).saturating_sub(1));
        } else {
            out.put_u32(self.role as u32);
            out.put_u32(0);
            out.put_u64(self.generation_id.unwrap_or(u64::MAX));
        }
        header::finish(out)
    }

    /// The kind of reply to a request.
    pub fn reply_kind(request: Kind) -> Kind {
        match request {
            Kind::NxRoleRequest => Kind::NxRoleReply,
            _ => Kind::RoleReply12,
        }
    }
}

/// Why a role changed (`ofp14_controller_role_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleReason(pub u8);

impl RoleReason {
    /// Another controller became primary.
    pub const PRIMARY_REQUEST: RoleReason = RoleReason(0);
    /// The switch's configuration changed.
    pub const CONFIG: RoleReason = RoleReason(1);
    /// Experimenter data changed.
    pub const EXPERIMENTER: RoleReason = RoleReason(2);
}

/// A role status message; OpenFlow 1.3 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleStatus {
    /// The role.
    pub role: Role,
    /// Why.
    pub reason: RoleReason,
    /// The generation of the election, all ones if unknown.
    pub generation_id: u64,
}

impl RoleStatus {
    /// Reads the message.
    ///
    /// # Errors
    /// `RoleRequestBadRole`.
    pub fn decode(raw: &Raw<'_>) -> Result<RoleStatus, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let (role, reason) = (Role::from_wire(body.u32()?)?, RoleReason(body.u8()?));
        body.skip(3)?;
        Ok(RoleStatus { role, reason, generation_id: body.u64()? })
    }

    /// Encodes the message.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version >= Version::V14 {
            true => Kind::RoleStatus14,
            false => Kind::OnfRoleStatus13,
        };
        let mut out = kind.start(version, xid);
        out.put_u32(self.role as u32);
        out.put_slice(&[self.reason.0, 0, 0, 0]);
        out.put_u64(self.generation_id);
        header::finish(out)
    }
}

/// The messages that a switch sends unasked, and their places in [`AsyncConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncMessage {
    /// Packet-in.
    PacketIn = 0,
    /// Port status.
    PortStatus = 1,
    /// Flow removed.
    FlowRemoved = 2,
    /// Role status.
    RoleStatus = 3,
    /// Table status.
    TableStatus = 4,
    /// Request forward.
    RequestForward = 5,
}

impl AsyncMessage {
    /// All, in the order of their places.
    pub const ALL: [AsyncMessage; 6] = [
        AsyncMessage::PacketIn,
        AsyncMessage::PortStatus,
        AsyncMessage::FlowRemoved,
        AsyncMessage::RoleStatus,
        AsyncMessage::TableStatus,
        AsyncMessage::RequestForward,
    ];

    /// Those in the messages before OpenFlow 1.4.
    const LEGACY: [AsyncMessage; 3] =
        [AsyncMessage::PacketIn, AsyncMessage::PortStatus, AsyncMessage::FlowRemoved];

    /// The reasons that exist on the wire.
    fn allowed(self, version: Version) -> u32 {
        match self {
            AsyncMessage::PacketIn if version >= Version::V14 => 0x3f,
            AsyncMessage::PacketIn | AsyncMessage::PortStatus | AsyncMessage::RoleStatus => 7,
            AsyncMessage::FlowRemoved => 0x3f,
            AsyncMessage::TableStatus => 0x18,
            AsyncMessage::RequestForward => 3,
        }
    }
}

/// A bit of the packet-in reasons: the table-miss flow.
const EXPLICIT_MISS: u32 = 1 << 6;
/// A bit of the packet-in reasons: a table without a table-miss flow.
const IMPLICIT_MISS: u32 = 1 << 7;

/// For which reasons a controller is sent messages: for each [`AsyncMessage`] a bit for each
/// reason. Packet-in reasons here tell the kinds of misses apart, unlike on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AsyncConfig {
    /// As a primary or equal controller.
    pub primary: [u32; 6],
    /// As a secondary controller.
    pub secondary: [u32; 6],
}

impl AsyncConfig {
    /// What a controller is sent before it says otherwise.
    pub fn default_for(version: Version) -> AsyncConfig {
        let implicit = if version <= Version::V12 { IMPLICIT_MISS } else { 0 };
        let packet_in = 0x3f & !(1 << 2) | EXPLICIT_MISS | implicit;
        let flow_removed = match version {
            Version::V10 | Version::V11 | Version::V12 => 7,
            Version::V13 => 0xf,
            Version::V14 | Version::V15 => 0x3f,
        };
        AsyncConfig {
            primary: [packet_in, 7, flow_removed, 0, 0, 0],
            secondary: [0, 7, 0, 0, 0, 0],
        }
    }

    fn masks(&mut self, primary: bool) -> &mut [u32; 6] {
        if primary { &mut self.primary } else { &mut self.secondary }
    }

    /// Stores a mask from the wire.
    fn set(
        &mut self,
        message: AsyncMessage,
        primary: bool,
        mask: u32,
        version: Version,
        loose: bool,
    ) -> Result<(), OfError> {
        let allowed = message.allowed(version);
        if mask & !allowed != 0 && !loose {
            return Err(OfError::AsyncConfigInvalid);
        }
        let mut mask = mask & allowed;
        if message == AsyncMessage::PacketIn && mask & 1 != 0 {
            mask |= EXPLICIT_MISS | if version < Version::V13 { IMPLICIT_MISS } else { 0 };
        }
        if let Some(place) = self.masks(primary).get_mut(message as usize) {
            *place = mask;
        }
        Ok(())
    }

    fn get(&self, message: AsyncMessage, primary: bool, version: Version) -> u32 {
        let masks = if primary { &self.primary } else { &self.secondary };
        masks.get(message as usize).map_or(0, |mask| mask & message.allowed(version))
    }

    /// Reads a set-async message or a get-async reply. What it does not say is as in `basis`,
    /// where the format allows that. Skips what is not understood when `loose`.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(
        raw: &Raw<'_>,
        basis: &AsyncConfig,
        version: Version,
        loose: bool,
    ) -> Result<AsyncConfig, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let legacy =
            matches!(raw.kind, Kind::SetAsync13 | Kind::NxSetAsyncConfig | Kind::GetAsyncReply13);
        if legacy {
            let mut config = AsyncConfig::default();
            for message in AsyncMessage::LEGACY {
                for primary in [true, false] {
                    config.set(message, primary, body.u32()?, version, true)?;
                }
            }
            return Ok(config);
        }
        let mut config = *basis;
        while !body.is_empty() {
            let mut property = property::read_with(&mut body, 8, 0xfffe)?;
            let numbers = AsyncMessage::ALL.into_iter().zip((0..).step_by(2));
            let known = numbers
                .flat_map(|(message, number)| {
                    [(message, number, false), (message, number + 1, true)]
                })
                .find(|(_, number, _)| property.kind == property::Kind::standard(*number));
            match known {
                Some((message, _, primary)) => {
                    config.set(message, primary, property.u32()?, version, loose)?;
                }
                None if loose => {}
                None => {
                    return Err(match property.unknown() {
                        OfError::BadPropertyType => OfError::AsyncConfigUnsupported,
                        error => error,
                    });
                }
            }
        }
        Ok(config)
    }

    /// Encodes a message of `kind`: a set-async message or a get-async reply.
    pub fn encode(&self, kind: Kind, version: Version, xid: u32) -> Vec<u8> {
        let mut out = kind.start(version, xid);
        let legacy =
            matches!(kind, Kind::SetAsync13 | Kind::NxSetAsyncConfig | Kind::GetAsyncReply13);
        if legacy {
            for message in AsyncMessage::LEGACY {
                out.put_u32(self.get(message, true, version));
                out.put_u32(self.get(message, false, version));
            }
        } else {
            for (message, number) in AsyncMessage::ALL.into_iter().zip((0..).step_by(2)) {
                for (number, primary) in [(number, false), (number + 1, true)] {
                    let mask = self.get(message, primary, version).to_be_bytes();
                    property::put(&mut out, property::Kind::standard(number), &mask);
                }
            }
        }
        header::finish(out)
    }

    /// The kind of reply to a get-async request.
    pub fn reply_kind(version: Version) -> Kind {
        match version >= Version::V14 {
            true => Kind::GetAsyncReply14,
            false => Kind::GetAsyncReply13,
        }
    }
}
