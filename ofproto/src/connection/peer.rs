//! One peer: what it said about how it wants to be spoken to.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use netdev::clock;
use tracing::info;

use super::bundle::Bundle;
use super::controller::ControllerSettings;
use super::controller::ControllerType;
use super::event::{Connected, ConnectionId};
use super::flow_mod_log::FlowModLog;
use super::link::Link;
use super::monitor::Monitors;
use super::multipart::Multiparts;
use super::outbox::{Class, Outbox};
use super::packets::Schedulers;
use crate::handle::PeerContext;
use crate::openflow::action::PacketInReason;
use crate::openflow::message::{AsyncConfig, AsyncMessage, FlowFormat, PacketInFormat, Role};
use crate::openflow::version::Version;

/// Bytes of a packet that misses that a controller is sent (OpenFlow 1.0, section 5.3.2).
pub(super) const DEFAULT_MISS_SEND_LEN: u16 = 128;

/// Reasons for packet-in messages that OpenFlow before 1.4 does not tell from actions in general.
const OTHER_ACTIONS: [PacketInReason; 3] =
    [PacketInReason::ACTION_SET, PacketInReason::GROUP, PacketInReason::PACKET_OUT];

fn reason_bit(reason: PacketInReason) -> u32 {
    1_u32.checked_shl(reason.0.into()).unwrap_or(0)
}

/// One peer: what it said about how it wants to be spoken to.
pub struct Peer {
    /// Which connection it is.
    pub id: ConnectionId,
    /// The target of the controller that it is a connection of.
    pub(super) target: Rc<str>,
    pub(super) controller_type: ControllerType,
    /// Whether it gets messages unasked before it said which it wants.
    pub(super) unasked_messages: bool,
    /// The OpenFlow version.
    pub version: Version,
    pub(super) link: Rc<RefCell<Link>>,
    pub(super) outbox: Outbox,
    /// What it may do.
    pub role: Role,
    /// How flows are written to it.
    pub flow_format: FlowFormat,
    /// How packets are sent to it.
    pub packet_in_format: PacketInFormat,
    /// Bytes of packets that it is sent.
    pub miss_send_len: u16,
    /// The number by which actions call it.
    pub controller_id: u16,
    async_config: Option<AsyncConfig>,
    /// Messages that wait for replies to be sent.
    pub(super) pending: VecDeque<Vec<u8>>,
    /// Requests of which parts are missing.
    pub(super) multiparts: Multiparts,
    pub(super) monitors: Monitors,
    pub(super) bundles: BTreeMap<u32, Bundle>,
    pub(super) schedulers: Schedulers,
    pub(super) flow_mods: FlowModLog,
    /// Most packets that wait for it.
    pub(super) packet_queue: usize,
}

impl Peer {
    /// A peer that has said hello.
    pub(super) fn new(
        id: ConnectionId,
        target: Rc<str>,
        connected: Connected,
        settings: &ControllerSettings,
    ) -> Self {
        let miss_send_len = match settings.controller_type {
            ControllerType::Primary => DEFAULT_MISS_SEND_LEN,
            ControllerType::Service => 0,
        };
        let mut schedulers = Schedulers::default();
        schedulers.set_limits(settings.rate_limit, settings.burst_limit);
        Self {
            id,
            target,
            controller_type: settings.controller_type,
            unasked_messages: settings.unasked_messages,
            version: connected.version,
            link: connected.link,
            outbox: connected.outbox,
            role: Role::Equal,
            flow_format: FlowFormat::default(),
            packet_in_format: PacketInFormat::Standard,
            miss_send_len,
            controller_id: 0,
            async_config: None,
            pending: VecDeque::new(),
            multiparts: Multiparts::default(),
            monitors: Monitors::default(),
            bundles: BTreeMap::new(),
            schedulers,
            flow_mods: FlowModLog::default(),
            packet_queue: settings.packet_queue,
        }
    }

    /// Follows a change of the settings.
    pub(super) fn set_up(&mut self, settings: &ControllerSettings) {
        self.link.borrow_mut().set_probe_interval(settings.probe_interval);
        self.unasked_messages = settings.unasked_messages;
        self.packet_queue = settings.packet_queue;
        self.schedulers.set_limits(settings.rate_limit, settings.burst_limit);
        self.outbox.wake();
    }

    /// What log lines call it.
    pub fn name(&self) -> String {
        self.link.borrow().name().to_owned()
    }

    /// What messages need to be known of it.
    pub(super) fn context(&self) -> PeerContext {
        PeerContext {
            version: self.version,
            format: self.flow_format,
            secondary: self.is_secondary(),
            connection: self.id.0,
        }
    }

    /// Whether it may only look.
    pub fn is_secondary(&self) -> bool {
        self.role == Role::Secondary
    }

    /// Which messages it gets unasked.
    pub fn async_config(&self) -> AsyncConfig {
        match self.async_config {
            Some(config) => config,
            None if self.unasked_messages => AsyncConfig::default_for(self.version),
            None => AsyncConfig::default(),
        }
    }

    /// Sets which messages it gets unasked.
    pub fn set_async_config(&mut self, mut config: AsyncConfig) {
        if self.version < Version::V14 {
            let packet_in = AsyncMessage::PacketIn as usize;
            for masks in [&mut config.primary, &mut config.secondary] {
                if let Some(mask) = masks.get_mut(packet_in)
                    && *mask & reason_bit(PacketInReason::ACTION) != 0
                {
                    *mask |=
                        OTHER_ACTIONS.into_iter().fold(0, |bits, reason| bits | reason_bit(reason));
                }
            }
        }
        self.async_config = Some(config);
    }

    /// Whether it gets a message of this kind for this reason.
    pub fn receives(&self, message: AsyncMessage, reason: u8) -> bool {
        // Services get nothing unless they asked by setting a length.
        if self.controller_type == ControllerType::Service && self.miss_send_len == 0 {
            return false;
        }
        let config = self.async_config();
        let masks = if self.is_secondary() { config.secondary } else { config.primary };
        let bit = 1_u32.checked_shl(reason.into()).unwrap_or(0);
        masks.get(message as usize).is_some_and(|mask| mask & bit != 0)
    }

    /// When something is due for it. Bundles may be unused for `bundle_timeout`.
    pub(super) fn due(&self, bundle_timeout: Duration) -> Option<Duration> {
        let bundles = self.bundles_due(bundle_timeout);
        let due = [self.multiparts.due(), bundles, self.schedulers.due(), self.flow_mods.due()];
        due.into_iter().flatten().min()
    }

    /// Logs how often it changed flows since this was last told.
    pub(super) fn log_flow_mods(&mut self) {
        if let Some(text) = self.flow_mods.take(clock::now()) {
            info!(target: "connmgr", "{}: {text}", self.name());
        }
    }

    /// Sends a message.
    pub(super) fn send(&self, class: Class, message: Vec<u8>) {
        self.outbox.push(class, message);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.log_flow_mods();
    }
}
