//! Messages by which a peer says how it wants to be spoken to.

use super::connections::Connections;
use super::controller::ControllerType;
use super::event::ConnectionId;
use super::peer::{DEFAULT_MISS_SEND_LEN, Peer};
use crate::openflow::action::PacketInReason;
use crate::openflow::error::OfError;
use crate::openflow::kind::{Kind, Raw};
use crate::openflow::message::{
    AsyncConfig, AsyncMessage, PacketInFormat, Role, RoleMessage, SwitchConfig,
    decode_flow_mod_table_id, decode_padded_u16, decode_set_flow_format,
};
use crate::switch::Switch;

/// Complete messages to reply, or the error to reply.
type Replies = Result<Vec<Vec<u8>>, OfError>;

pub(super) fn get_config(peer: &Peer, switch: &Switch, raw: &Raw<'_>) -> Vec<Vec<u8>> {
    let config = SwitchConfig {
        fragments: switch.fragments(),
        invalid_ttl_to_controller: Some(invalid_ttl(&peer.async_config()) != 0),
        miss_send_len: peer.miss_send_len,
    };
    vec![config.encode(Kind::GetConfigReply, peer.version, raw.header.xid)]
}

/// The bit of packets whose time to live ran out.
const INVALID_TTL: u32 = 1 << PacketInReason::INVALID_TTL.0;

fn invalid_ttl(config: &AsyncConfig) -> u32 {
    config.primary.get(AsyncMessage::PacketIn as usize).map_or(0, |mask| mask & INVALID_TTL)
}

pub(super) fn set_config(peer: &mut Peer, switch: &mut Switch, raw: &Raw<'_>) -> Replies {
    let config = SwitchConfig::decode(raw, peer.version)?;
    if peer.controller_type == ControllerType::Service || !peer.is_secondary() {
        switch.set_fragments(config.fragments);
    }
    if let Some(enable) = config.invalid_ttl_to_controller {
        let mut wanted = peer.async_config();
        if let Some(mask) = wanted.primary.get_mut(AsyncMessage::PacketIn as usize) {
            *mask = if enable { *mask | INVALID_TTL } else { *mask & !INVALID_TTL };
        }
        peer.set_async_config(wanted);
    }
    peer.miss_send_len = config.miss_send_len;
    Ok(vec![])
}

pub(super) fn set_flow_format(peer: &mut Peer, raw: &Raw<'_>) -> Replies {
    peer.flow_format.nxm = decode_set_flow_format(raw)?;
    Ok(vec![])
}

pub(super) fn set_flow_mod_table_id(peer: &mut Peer, raw: &Raw<'_>) -> Replies {
    peer.flow_format.table_id = decode_flow_mod_table_id(raw)?;
    Ok(vec![])
}

pub(super) fn set_packet_in_format(peer: &mut Peer, raw: &Raw<'_>) -> Replies {
    peer.packet_in_format = PacketInFormat::decode(raw)?;
    Ok(vec![])
}

pub(super) fn set_controller_id(peer: &mut Peer, raw: &Raw<'_>) -> Replies {
    peer.controller_id = decode_padded_u16(raw)?;
    Ok(vec![])
}

pub(super) fn set_async_config(peer: &mut Peer, raw: &Raw<'_>) -> Replies {
    let config = AsyncConfig::decode(raw, &peer.async_config(), peer.version, false)?;
    peer.set_async_config(config);
    if peer.controller_type == ControllerType::Service && peer.miss_send_len == 0 {
        peer.miss_send_len = DEFAULT_MISS_SEND_LEN;
    }
    Ok(vec![])
}

pub(super) fn get_async_config(peer: &Peer, raw: &Raw<'_>) -> Vec<Vec<u8>> {
    let kind = AsyncConfig::reply_kind(peer.version);
    vec![peer.async_config().encode(kind, peer.version, raw.header.xid)]
}

impl Connections {
    /// Gives a peer the role that it asks for and tells it which it has.
    pub(super) fn change_role(&mut self, id: ConnectionId, raw: &Raw<'_>) -> Replies {
        let request = RoleMessage::decode(raw)?;
        if request.role != Role::NoChange {
            if request.role != Role::Equal
                && let Some(generation_id) = request.generation_id
                && !self.set_generation_id(generation_id)
            {
                return Err(OfError::RoleRequestStale);
            }
            self.set_role(id, request.role);
        }
        let Some(peer) = self.peer(id) else { return Ok(vec![]) };
        let reply = RoleMessage { role: peer.role, generation_id: self.generation_id() };
        let kind = RoleMessage::reply_kind(raw.kind);
        Ok(vec![reply.encode(kind, peer.version, raw.header.xid)])
    }
}
