//! What the engine asks of the hardware behind a port.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use netdev::flow_api::{Completion, DeviceId, FlowApiError, RuleCounters, RuleId, TunnelKind};

use super::reason::Reason;
use crate::action::Action;
use crate::datapath::PortNumber;
use crate::flow_table::FlowRecord;

/// How much of a flow hardware does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// It marks the packets.
    Partial,
    /// Everything.
    Full,
}

/// The devices of ports that one kind of hardware serves.
pub(crate) type Devices = BTreeMap<PortNumber, DeviceId>;

/// The tunnels of ports that stand for tunnels, as far as devices know them.
pub(crate) type TunnelEnds = BTreeMap<PortNumber, TunnelEnd>;

/// What a tunnel port takes: its protocol and the UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TunnelEnd {
    pub(crate) kind: TunnelKind,
    pub(crate) udp_port: u16,
}

/// A flow to be made a rule.
#[derive(Clone, Copy)]
pub(crate) struct Offer<'a> {
    pub(crate) flow: &'a FlowRecord,
    pub(crate) actions: &'a [Action],
    pub(crate) extent: Extent,
    pub(crate) mark: NonZeroU32,
    pub(crate) devices: &'a Devices,
    pub(crate) tunnels: &'a TunnelEnds,
}

/// One worker's way to the rules of a port. Requests complete later, and each completion carries
/// the user data of its request.
pub(crate) trait ProviderPort: Send {
    /// How much of a flow the hardware can do.
    ///
    /// # Errors
    /// The reason when it can do nothing for the flow.
    fn extent(
        &self,
        flow: &FlowRecord,
        actions: &[Action],
        devices: &Devices,
        tunnels: &TunnelEnds,
    ) -> Result<Extent, Reason>;

    /// Whether it takes packets out of tunnels, and tells how far it got.
    fn restores(&self) -> bool;

    /// Asks for a rule.
    ///
    /// # Errors
    /// When the device cannot be asked; [`FlowApiError::QueueFull`] now, others ever.
    fn insert(&mut self, offer: Offer<'_>, user: u64) -> Result<RuleId, FlowApiError>;

    /// Asks for other actions of a rule.
    ///
    /// # Errors
    /// As [`Self::insert`].
    fn update(&mut self, rule: RuleId, offer: Offer<'_>, user: u64) -> Result<(), FlowApiError>;

    /// Whether a rule counts from 0 again after [`Self::update`].
    fn update_resets(&self) -> bool;

    /// Asks for the removal of a rule.
    ///
    /// # Errors
    /// As [`Self::insert`].
    fn remove(&mut self, rule: RuleId, user: u64) -> Result<(), FlowApiError>;

    /// Lets the device begin.
    fn push(&mut self);

    /// Fetches what has become of requests; returns how many there were.
    fn pull(&mut self, completions: &mut [Completion]) -> usize;

    /// Gives up waiting for one completion.
    fn forget_one(&mut self);

    /// What a rule has counted.
    ///
    /// # Errors
    /// When the device cannot tell.
    fn query(&mut self, rule: RuleId) -> Result<RuleCounters, FlowApiError>;
}
