//! What is done with the messages of peers.

use netdev::clock;
use netdev::coverage::Counter;
use tracing::info;

use super::bridge::Bridge;
use super::connections::Connections;
use super::event::{ConnectionId, Event, Happening};
use super::outbox::Class;
use super::{monitor, packets, settings};
use crate::handle::{self, Reply};
use crate::openflow::error::{ErrorMessage, OfError};
use crate::openflow::header::Header;
use crate::openflow::kind::{Kind, Raw};
use crate::openflow::message::{CtFlush, decode_padded_u16, encode_barrier_reply};
use crate::openflow::version::Version;

pub(crate) static RECEIVED: Counter = Counter::new("ofproto_recv_openflow");

impl Connections {
    /// Takes in what happened on a connection.
    pub fn take_event(&mut self, event: Event, bridge: &mut Bridge<'_>) {
        let id = event.connection;
        match event.happening {
            Happening::Connected(connected) => self.connected(id, connected),
            Happening::Messages(messages) => {
                if let Some(peer) = self.peer_mut(id) {
                    messages.iter().for_each(|message| peer.outbox.observe(message));
                    peer.pending.extend(messages);
                }
                self.recover(bridge);
                self.handle_pending(id, bridge);
            }
            Happening::Drained => self.handle_pending(id, bridge),
            Happening::Disconnected => self.disconnected(id),
        }
    }

    /// Handles messages of a peer as long as not too many replies wait.
    fn handle_pending(&mut self, id: ConnectionId, bridge: &mut Bridge<'_>) {
        loop {
            let Some(peer) = self.peer_mut(id) else { return };
            if !peer.outbox.takes_requests() {
                return peer.outbox.set_handled(false);
            }
            let Some(message) = peer.pending.pop_front() else {
                return peer.outbox.set_handled(true);
            };
            match peer.multiparts.take(&message, clock::now()) {
                Ok(Some(parts)) => self.handle(id, &parts, bridge),
                Ok(None) => {}
                Err(error) => self.refuse(id, error, &message),
            }
        }
    }

    /// Does what a request, which may have several parts, asks for and replies.
    fn handle(&mut self, id: ConnectionId, parts: &[Vec<u8>], bridge: &mut Bridge<'_>) {
        RECEIVED.add(1);
        let outcome = self.dispatch(id, parts, bridge);
        // What happened is told before the reply.
        self.tell(bridge.switch, Some(id));
        let Some(peer) = self.peer(id) else { return };
        match outcome {
            Ok(Reply::Messages(messages)) => {
                messages.into_iter().for_each(|message| peer.send(Class::Reply, message));
            }
            Ok(Reply::FlowMod(command)) => {
                if let Some(peer) = self.peer_mut(id) {
                    peer.flow_mods.count(command, clock::now());
                }
            }
            Ok(Reply::Flows(messages)) => peer.outbox.push_series(Box::new(messages)),
            Ok(Reply::Forward(request)) => {
                let xid = parts.first().and_then(|part| Header::parse(part).ok());
                self.forward(&request, xid.map_or(0, |header| header.xid), id);
            }
            Err((index, error)) => {
                self.refuse(id, error, parts.get(index).map_or(&[], Vec::as_slice));
            }
        }
    }

    /// Replies to a message with an error.
    pub(super) fn refuse(&self, id: ConnectionId, error: OfError, message: &[u8]) {
        let Some(peer) = self.peer(id) else { return };
        let kind = Kind::of(message).map_or("invalid", Kind::name);
        info!(
            target: "connmgr", limited = true,
            "{}: sending {error} error reply to {kind} message", peer.name()
        );
        let version = Header::parse(message).ok();
        let version = version.and_then(|header| Version::from_wire(header.version));
        let version = version.unwrap_or(Version::V10);
        peer.send(Class::Reply, ErrorMessage::reply(error, version, message));
    }

    /// The error comes with the index of the part to which it replies.
    fn dispatch(
        &mut self,
        id: ConnectionId,
        parts: &[Vec<u8>],
        bridge: &mut Bridge<'_>,
    ) -> Result<Reply, (usize, OfError)> {
        let Some(peer) = self.peer_mut(id) else { return Ok(Reply::none()) };
        let mut raws = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            raws.push(Raw::parse(part).map_err(|error| (index, error))?);
        }
        let Some(first) = raws.first() else { return Ok(Reply::none()) };
        match first.kind {
            Kind::TableFeaturesStatsRequest13 => {
                handle::table_features(bridge.switch, &raws, peer.version)
            }
            Kind::FlowMonitorStatsRequest14
            | Kind::OnfFlowMonitorStatsRequest13
            | Kind::NxFlowMonitorStatsRequest => {
                monitor::request(peer, bridge.switch, &raws).map(Reply::Messages)
            }
            _ if raws.len() > 1 => Err((0, OfError::BadRequestStat)),
            _ => self.dispatch_one(id, first, bridge).map_err(|error| (0, error)),
        }
    }

    fn dispatch_one(
        &mut self,
        id: ConnectionId,
        raw: &Raw<'_>,
        bridge: &mut Bridge<'_>,
    ) -> Result<Reply, OfError> {
        let Some(peer) = self.peer_mut(id) else { return Ok(Reply::none()) };
        let version = peer.version;
        let replies = match raw.kind {
            Kind::EchoRequest => vec![echo_reply(raw.message)],
            Kind::EchoReply | Kind::NxFlowAge => vec![],
            Kind::BarrierRequest10 | Kind::BarrierRequest11 => {
                vec![encode_barrier_reply(version, raw.header.xid)]
            }
            Kind::GetConfigRequest => settings::get_config(peer, bridge.switch, raw),
            Kind::SetConfig => settings::set_config(peer, bridge.switch, raw)?,
            Kind::RoleRequest12 | Kind::NxRoleRequest => self.change_role(id, raw)?,
            Kind::NxSetFlowFormat => settings::set_flow_format(peer, raw)?,
            Kind::NxFlowModTableId => settings::set_flow_mod_table_id(peer, raw)?,
            Kind::NxSetPacketInFormat => settings::set_packet_in_format(peer, raw)?,
            Kind::NxSetControllerId => settings::set_controller_id(peer, raw)?,
            Kind::SetAsync13
            | Kind::SetAsync14
            | Kind::NxSetAsyncConfig
            | Kind::NxSetAsyncConfig2 => settings::set_async_config(peer, raw)?,
            Kind::GetAsyncRequest13 | Kind::GetAsyncRequest14 => {
                settings::get_async_config(peer, raw)
            }
            Kind::NxFlowMonitorCancel | Kind::OnfFlowMonitorCancel13 => monitor::cancel(peer, raw)?,
            Kind::BundleControl14
            | Kind::OnfBundleControl13
            | Kind::BundleAddMessage14
            | Kind::OnfBundleAddMessage13
            | Kind::PacketOut10
            | Kind::PacketOut11
            | Kind::PacketOut15
                if peer.is_secondary() =>
            {
                return Err(OfError::BadRequestIsSecondary);
            }
            Kind::BundleControl14 | Kind::OnfBundleControl13 => {
                self.control_bundle(id, raw, bridge)?
            }
            Kind::BundleAddMessage14 | Kind::OnfBundleAddMessage13 => {
                peer.add_to_bundle(bridge, raw)?;
                vec![]
            }
            Kind::PacketOut10 | Kind::PacketOut11 | Kind::PacketOut15 => {
                let packet_out = packets::decode_packet_out(bridge, raw, version)?;
                packets::packet_out(bridge, &packet_out)?;
                vec![]
            }
            Kind::NxResume => {
                packets::resume(bridge, raw, version)?;
                vec![]
            }
            // No connection is tracked, so there is none to forget.
            Kind::NxCtFlushZone => decode_padded_u16(raw).map(|_| vec![])?,
            Kind::NxCtFlush => CtFlush::decode(raw).map(|_| vec![])?,
            // Nothing exports flows.
            Kind::NxIpfixBridgeStatsRequest | Kind::NxIpfixFlowStatsRequest => {
                return Err(OfError::StatsNotConfigured);
            }
            kind => {
                let context = peer.context();
                return handle::handle(bridge.switch, bridge.datapath, &context, raw).map_err(
                    |error| {
                        let unknown = error == OfError::BadRequestType && kind.is_stats_request();
                        if unknown { OfError::BadRequestStat } else { error }
                    },
                );
            }
        };
        Ok(Reply::Messages(replies))
    }
}

/// The reply to an echo request, which may be of any version.
fn echo_reply(request: &[u8]) -> Vec<u8> {
    const ECHO_REPLY: u8 = 3;
    let mut reply = request.to_vec();
    if let Some(kind) = reply.get_mut(1) {
        *kind = ECHO_REPLY;
    }
    reply
}
