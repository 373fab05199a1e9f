//! Packets from and to controllers.

use std::time::Duration;

use dpif::flow::{FlowKey, FlowMask, MAX_VLANS, PacketKey, extract};
use netdev::clock;
use netdev::coverage::Counter;
use netdev::packet::Packet;
use tracing::info;

use super::bridge::Bridge;
use super::connections::Connections;
use super::outbox::Class;
use super::packet_scheduler::{Counts, PacketScheduler};
use super::peer::Peer;
use crate::continuation::state_of;
use crate::flow::Flow;
use crate::handle::check_actions;
use crate::openflow::action::{Action, CheckContext, PacketInReason, check};
use crate::openflow::error::OfError;
use crate::openflow::flow_match::Match;
use crate::openflow::kind::Raw;
use crate::openflow::message::{AsyncMessage, NO_BUFFER, PacketIn, PacketOut};
use crate::openflow::port::PortNo;
use crate::openflow::slot::Slot;
use crate::openflow::version::Version;
use crate::port::PortNumber;
use crate::translate::{Request, Start, Traffic, TranslateError, Translation, translate};

pub(crate) static UNSENT: Counter = Counter::new("connmgr_async_unsent");
pub(crate) static PACKET_OUTS: Counter = Counter::new("ofproto_packet_out");

/// Datapath port of packets that came in on none.
const NO_PORT: u32 = u32::MAX;
/// Tables that actions may name, the switch's own included.
const N_TABLES: u8 = 255;

impl Connections {
    /// Sends a packet to the controllers with this number that want it.
    pub fn send_packet_in(&mut self, controller_id: u16, message: &PacketIn) {
        let now = clock::now();
        let mut sent = false;
        for peer in self.peers_mut() {
            if peer.controller_id == controller_id
                && peer.receives(AsyncMessage::PacketIn, message.reason.0)
            {
                peer.send_packet_in(message, now);
                sent = true;
            }
        }
        if !sent {
            UNSENT.add(1);
        }
    }
}

/// Whether the packet is sent for want of a rule.
fn is_miss(message: &PacketIn) -> bool {
    [PacketInReason::NO_MATCH, PacketInReason::EXPLICIT_MISS, PacketInReason::IMPLICIT_MISS]
        .contains(&message.reason)
}

impl Peer {
    fn send_packet_in(&mut self, message: &PacketIn, now: Duration) {
        let in_port = message.metadata.value(Slot::IN_PORT) as u32;
        let encoded = message.encode(self.version, self.packet_in_format, 0);
        let schedulers = &mut self.schedulers;
        let scheduler =
            if is_miss(message) { &mut schedulers.misses } else { &mut schedulers.actions };
        let ready = match scheduler {
            Some(scheduler) => scheduler.send(in_port, encoded, now),
            None => Some(encoded),
        };
        self.queue_packet_ins(ready);
    }

    fn queue_packet_ins(&self, messages: impl IntoIterator<Item = Vec<u8>>) {
        for message in messages {
            if self.outbox.waiting(Class::PacketIn).messages < self.packet_queue {
                self.send(Class::PacketIn, message);
            } else {
                info!(
                    target: "connmgr", limited = true,
                    "{}: dropping packet-in due to queue overflow", self.name()
                );
            }
        }
    }

    /// Sends the packets that had to wait until now.
    pub(super) fn release_packets(&mut self, now: Duration) {
        let ready: Vec<_> =
            self.schedulers.iter_mut().flat_map(|scheduler| scheduler.run(now)).collect();
        self.queue_packet_ins(ready);
    }
}

/// What limits the packets that a peer is sent, if anything does.
#[derive(Debug, Default)]
pub(super) struct Schedulers {
    /// For packets that rules send.
    pub(super) actions: Option<PacketScheduler>,
    /// For packets that no rule takes.
    pub(super) misses: Option<PacketScheduler>,
}

impl Schedulers {
    /// Sets the limits; a `rate` of 0 is none.
    pub(super) fn set_limits(&mut self, rate: u32, burst: u32) {
        for scheduler in [&mut self.actions, &mut self.misses] {
            match scheduler {
                _ if rate == 0 => *scheduler = None,
                None => *scheduler = Some(PacketScheduler::new(rate, burst, clock::now())),
                Some(scheduler) => scheduler.set_limits(rate, burst),
            }
        }
    }

    /// What happened to packets, by their kind.
    pub(super) fn counts(&self) -> Vec<(&'static str, Counts)> {
        let schedulers = [("action", &self.actions), ("miss", &self.misses)].into_iter();
        let counts = schedulers.map(|(kind, scheduler)| (kind, scheduler.as_ref()));
        counts.filter_map(|(kind, scheduler)| Some((kind, scheduler?.counts()))).collect()
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut PacketScheduler> {
        [&mut self.actions, &mut self.misses].into_iter().flatten()
    }

    /// When the next packet may be sent.
    pub(super) fn due(&self) -> Option<Duration> {
        [&self.actions, &self.misses].into_iter().flatten().filter_map(PacketScheduler::due).min()
    }
}

/// Reads a packet-out message and checks its actions against its packet.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn decode_packet_out(
    bridge: &mut Bridge<'_>,
    raw: &Raw<'_>,
    version: Version,
) -> Result<PacketOut, OfError> {
    PACKET_OUTS.add(1);
    let mut packet_out = PacketOut::decode(raw, &bridge.switch.decode_context(version))?;
    if packet_out.buffer_id != NO_BUFFER {
        return Err(OfError::BadRequestBufferUnknown);
    }
    // Without a frame nothing is known of the packet, which is dropped in the end.
    let key = packet(bridge, &packet_out.packet, NO_PORT).map(|(_, key)| key).unwrap_or_default();
    let mut mask = Flow::default();
    mask.packet = FlowMask::exact_for(&key).bits().clone();
    mask.in_port.set(u16::MAX);
    let flow = Flow::of_packet(key, packet_out.in_port());
    let context = CheckContext {
        flow_match: &flow.to_match(&mask, bridge.switch.tlv()),
        max_ports: PortNo::MAX,
        table_id: 0,
        n_tables: N_TABLES,
        version,
    };
    check(&mut packet_out.actions, &context)?;
    Ok(packet_out)
}

/// Puts a packet into a frame, as if it came in on a port of the datapath, and tells its key.
/// `None` when no frame is free; the packet is lost, as on a port that has none.
fn packet(bridge: &mut Bridge<'_>, bytes: &[u8], in_port: u32) -> Option<(Packet, FlowKey)> {
    let mut packet = bridge.datapath.pool(0).ok()?.packet_with(bytes)?;
    let mut view = packet.view_mut();
    view.descriptor_mut().in_port = in_port;
    let mut key = PacketKey::default();
    extract(&mut view, None, MAX_VLANS, &mut key);
    let key = key.key().clone();
    Some((packet, key))
}

/// A packet of a controller, ready to be sent.
#[derive(Debug)]
pub(crate) struct Prepared {
    packet: Packet,
    key: FlowKey,
    translation: Translation,
    /// Whether translation did already what it does at once.
    is_done: bool,
}

/// Does what a controller says to the packet that comes with it.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(super) fn packet_out(bridge: &mut Bridge<'_>, packet_out: &PacketOut) -> Result<(), OfError> {
    if let Some(prepared) = prepare(bridge, packet_out, None)? {
        execute(bridge, prepared);
    }
    Ok(())
}

/// Finds out what becomes of the packet in a packet-out message. It sees `version` of the tables
/// if that is still being made, and then learns nothing before it is sent. `None` when no frame is
/// free for it.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(crate) fn prepare(
    bridge: &mut Bridge<'_>,
    packet_out: &PacketOut,
    version: Option<u64>,
) -> Result<Option<Prepared>, OfError> {
    check_actions(bridge.switch, &packet_out.actions)?;
    let in_port = PortNumber(packet_out.in_port().0);
    let port = bridge.switch.port(in_port).and_then(|port| port.datapath_number);
    let in_port_of_datapath = port.map_or(NO_PORT, |number| number.0);
    let Some((packet, key)) = packet(bridge, &packet_out.packet, in_port_of_datapath) else {
        return Ok(None);
    };
    let switches = bridge.upcalls.switches();
    let switch = switches.by_id(bridge.switch.id()).ok_or(OfError::FlowModUnknown)?;
    let start = Start::PacketOut {
        switch,
        in_port,
        actions: &packet_out.actions,
        metadata: &packet_out.metadata,
    };
    let length = Some(packet_out.packet.len());
    let is_done = version.is_none();
    let request = Request { is_packet: is_done, length, version, start, ..Request::flow(&key) };
    let translation = translate(&switches, request).map_err(|_| OfError::FlowModUnknown)?;
    if translation.error.is_some() {
        return Err(OfError::FlowModUnknown);
    }
    Ok(Some(Prepared { packet, key, translation, is_done }))
}

/// Sends a packet.
pub(crate) fn execute(bridge: &mut Bridge<'_>, prepared: Prepared) {
    let Prepared { packet, key, translation, is_done } = prepared;
    let traffic = Traffic {
        packets: 1,
        bytes: packet.view().len() as u64,
        used: clock::now(),
        tcp_flags: key.tcp_flags.get(),
    };
    let effects = translation.effects.iter().filter(|effect| !(is_done && effect.is_immediate()));
    effects.for_each(|effect| effect.apply(&traffic));
    bridge.datapath.execute(packet, &translation.actions);
}

/// Sends a frame that the switch made itself, as if it came in on a port.
pub fn send_from_table(bridge: &mut Bridge<'_>, in_port: PortNumber, frame: &[u8]) {
    let port = bridge.switch.port(in_port).and_then(|port| port.datapath_number);
    let in_port_of_datapath = port.map_or(NO_PORT, |number| number.0);
    let Some((packet, key)) = packet(bridge, frame, in_port_of_datapath) else { return };
    let switches = bridge.upcalls.switches();
    let Some(switch) = switches.by_id(bridge.switch.id()) else { return };
    let actions = &[Action::Output { port: PortNo::TABLE, max_len: 0 }];
    let start = Start::PacketOut { switch, in_port, actions, metadata: &Match::new() };
    let request = Request { length: Some(frame.len()), start, ..Request::packet(&key) };
    // What cannot be translated goes nowhere.
    let Ok(translation) = translate(&switches, request) else { return };
    execute(bridge, Prepared { packet, key, translation, is_done: true });
}

/// Goes on with a packet that a controller returns.
///
/// # Errors
/// The error that Open vSwitch replies with.
pub(super) fn resume(
    bridge: &mut Bridge<'_>,
    raw: &Raw<'_>,
    version: Version,
) -> Result<(), OfError> {
    let packet_in = PacketIn::decode(raw, &bridge.switch.decode_context(version), false)?;
    let state = state_of(&packet_in, bridge.switch.tlv());
    let in_port = match packet_in.continuation.odp_port {
        0 => NO_PORT,
        port => port,
    };
    let Some((packet, key)) = packet(bridge, &packet_in.packet, in_port) else { return Ok(()) };
    let switches = bridge.upcalls.switches();
    let length = Some(packet_in.packet.len());
    let request = Request { length, start: Start::Resume(&state), ..Request::packet(&key) };
    let translation = translate(&switches, request).map_err(|_| OfError::ResumeStale)?;
    if translation.error == Some(TranslateError::SwitchGone) {
        return Err(OfError::ResumeStale);
    }
    execute(bridge, Prepared { packet, key, translation, is_done: true });
    Ok(())
}
