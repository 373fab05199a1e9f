//! Messages that are done together.

use std::sync::Arc;

use super::{Forward, PeerContext, flows, groups};
use crate::connection::{Bridge, Prepared, decode_packet_out, execute, prepare};
use crate::group::GroupChange;
use crate::openflow::error::OfError;
use crate::openflow::header::Header;
use crate::openflow::kind::{Kind, Raw};
use crate::openflow::message::{
    FlowMod, FlowModCommand, GroupMod, PacketOut, PortMod, bundle_flag,
};
use crate::switch::Switch;
use crate::tables::{Source, Transaction, check_flow_mod};

/// A message of a bundle.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The message that added it to the bundle, to which errors reply.
    message: Vec<u8>,
    request: Request,
}

#[derive(Clone, Debug)]
enum Request {
    Flow(Box<FlowMod>),
    Group(Box<GroupMod>),
    Port(PortMod),
    Packet(Box<PacketOut>),
}

/// Why nothing of a bundle was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The message that could not be done.
    pub(crate) message: Vec<u8>,
    /// Why.
    pub(crate) error: OfError,
}

/// What a bundle did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// What other controllers are told, each with its transaction id.
    pub(crate) forwards: Vec<(Forward, u32)>,
    /// How flows were changed.
    pub(crate) flow_mods: Vec<FlowModCommand>,
}

/// Reads a message that `message` adds to a bundle.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn decode(
    bridge: &mut Bridge<'_>,
    peer: &PeerContext,
    raw: &Raw<'_>,
    message: &[u8],
) -> Result<Entry, OfError> {
    let switch = &*bridge.switch;
    let request = match raw.kind {
        Kind::FlowMod10 | Kind::FlowMod11 | Kind::NxFlowMod => {
            let flow_mod = flows::decode_flow_mod(switch, raw, peer.version, peer.format)?;
            check_flow_mod(&flow_mod)?;
            Request::Flow(Box::new(flow_mod))
        }
        Kind::GroupMod11 | Kind::GroupMod15 | Kind::NxGroupMod => {
            let context = switch.decode_context(peer.version);
            Request::Group(Box::new(GroupMod::decode(raw, &context)?))
        }
        Kind::PortMod10 | Kind::PortMod11 | Kind::PortMod14 => Request::Port(PortMod::decode(raw)?),
        Kind::PacketOut10 | Kind::PacketOut11 | Kind::PacketOut15 => {
            Request::Packet(Box::new(decode_packet_out(bridge, raw, peer.version)?))
        }
        _ => return Err(OfError::BundleMsgUnsup),
    };
    Ok(Entry { message: message.to_vec(), request })
}

/// Changes of flows and groups that become visible at once.
struct Step<'a> {
    transaction: Transaction<'a>,
    groups: Vec<(GroupChange, GroupMod, u32)>,
    packets: Vec<Prepared>,
}

impl Step<'_> {
    fn begin(
        &mut self,
        bridge: &mut Bridge<'_>,
        request: &Request,
        source: Source,
        xid: u32,
    ) -> Result<(), OfError> {
        let switch = &*bridge.switch;
        match request {
            Request::Flow(flow_mod) => {
                flows::modify(switch, &mut self.transaction, flow_mod, source)
            }
            Request::Group(group_mod) => {
                let change = groups::begin(switch, &mut self.transaction, group_mod, source)?;
                self.groups.push((change, group_mod.as_ref().clone(), xid));
                Ok(())
            }
            Request::Port(port_mod) => switch.check_port_mod(port_mod).map(|_| ()),
            Request::Packet(packet_out) => {
                let version = Some(self.transaction.version());
                self.packets.extend(prepare(bridge, packet_out, version)?);
                Ok(())
            }
        }
    }

    /// Undoes everything.
    fn revert(self, switch: &Switch) {
        self.groups.iter().rev().for_each(|(change, ..)| switch.groups().revert(change));
        drop(self.transaction);
    }

    /// Makes everything visible. Returns what other controllers are told, and the packets to send.
    fn finish(self, switch: &Switch) -> (Vec<(Forward, u32)>, Vec<Prepared>) {
        self.transaction.commit();
        let groups = self.groups.into_iter();
        let finished = groups.map(|(change, group_mod, xid)| {
            switch.groups().finish(&change);
            (Forward::group(group_mod, &change), xid)
        });
        (finished.collect(), self.packets)
    }
}

/// Does all that a bundle holds, or nothing of it. Ports change and packets are sent after flows
/// and groups changed, in their order.
///
/// # Errors
/// Tells which message could not be done, and why.
pub(crate) fn commit(
    bridge: &mut Bridge<'_>,
    peer: &PeerContext,
    flags: u16,
    entries: Vec<Entry>,
) -> Result<Done, Failure> {
    let tables = Arc::clone(bridge.switch.tables());
    let mut step = Step { transaction: tables.begin(), groups: vec![], packets: vec![] };
    for Entry { message, request } in &entries {
        let xid = Header::parse(message).map_or(0, |header| header.xid);
        let source = Source::Peer { connection: peer.connection, xid };
        let done = match request {
            // Ports do not change in one go with anything else.
            Request::Port(_) if flags & bundle_flag::ATOMIC != 0 => Err(OfError::BundleMsgFailed),
            request => step.begin(bridge, request, source, xid),
        };
        if let Err(error) = done {
            step.revert(bridge.switch);
            return Err(Failure { message: message.clone(), error });
        }
    }
    let (forwards, packets) = step.finish(bridge.switch);
    let mut done = Done { forwards, flow_mods: vec![] };
    for Entry { request, .. } in entries {
        match request {
            // Checked above; ports do not change in between.
            Request::Port(port_mod) => drop(bridge.switch.modify_port(&port_mod)),
            Request::Flow(flow_mod) => done.flow_mods.push(flow_mod.command),
            Request::Group(_) | Request::Packet(_) => {}
        }
    }
    packets.into_iter().for_each(|packet| execute(bridge, packet));
    Ok(done)
}
