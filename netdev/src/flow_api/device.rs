//! The control side of a port's flow API.

use bitflags::bitflags;
use thiserror::Error;

use super::{ActionKinds, FlowQueue, LayerFields, RuleError, TableId, Template, TunnelFields};

/// Names a device among those that can forward to each other in hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

bitflags! {
    /// What the hardware of a port does for packets and rules.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Capabilities: u8 {
        /// It marks packets that it hands to software.
        const MARK = 1;
        /// It may hand over packets that it has begun to change, with word of how far it got.
        const RESTORE = 1 << 1;
        /// It can handle packets for good.
        const FULL = 1 << 2;
        /// It counts the packets of a rule.
        const COUNT = 1 << 3;
    }
}

/// What happens to packets while a rule is updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModifyStyle {
    /// The rule changes from one packet to the next.
    #[default]
    InPlace,
    /// The old rule goes before the new one comes; packets between match neither. Counters start
    /// again.
    BreakBeforeMake,
    /// The new rule comes before the old one goes; packets between match either.
    MakeBeforeBreak,
}

/// Why a request was refused at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FlowApiError {
    /// The device cannot do that.
    #[error("the device does not support it")]
    Unsupported,
    /// The queue has as many requests in flight, or results that wait to be pulled, as it holds.
    #[error("the queue is full; pull results and try again")]
    QueueFull,
    /// There is no table of that number (any more).
    #[error("the device has no table {}", .0.0)]
    NoTable(TableId),
    /// The device has as many tables as it can have.
    #[error("the device has no room for more than {0} tables")]
    TooManyTables(usize),
    /// A rule has actions of kinds that its template does not.
    #[error("actions {actions:?} do not fit the template, which allows {allowed:?}")]
    Actions {
        /// Kinds of the rule.
        actions: ActionKinds,
        /// Kinds of the template, or of the device.
        allowed: ActionKinds,
    },
    /// The device refuses the rule, with the reason that a completion would have.
    #[error(transparent)]
    Rule(RuleError),
    /// The device is gone.
    #[error("the device is gone")]
    Removed,
}

/// How far a device got with a packet whose tunnel headers a rule takes off, when it came to
/// software after all: no further rule matched, or one that marked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreInfo {
    /// The outer headers.
    pub outer: LayerFields,
    /// The tunnel.
    pub tunnel: TunnelFields,
    /// Whether outer headers and tunnel header are still there.
    pub is_encapsulated: bool,
}

/// The flow API of one port as its control side sees it. Rules go when the queue is closed that
/// put them in.
pub trait FlowDevice: Send + Sync {
    /// The device that rules of others name in [`Fate::Port`](super::Fate::Port).
    fn id(&self) -> DeviceId;

    /// What the device does for packets and rules.
    fn capabilities(&self) -> Capabilities;

    /// The kinds of actions that rules may have.
    fn actions(&self) -> ActionKinds;

    /// What happens while a rule is updated.
    fn modify_style(&self) -> ModifyStyle;

    /// Makes a table for rules of `template`.
    ///
    /// # Errors
    /// When the device cannot match on these fields, lacks one of the actions, or has no room.
    fn create_table(&self, template: &Template) -> Result<TableId, FlowApiError>;

    /// Opens a queue for up to `depth` requests in flight.
    ///
    /// # Errors
    /// When the device has no queue left or is gone.
    fn open_queue(&self, depth: usize) -> Result<FlowQueue, FlowApiError>;

    /// Adds the user data of rules that have aged since the last call to `aged`.
    fn pull_aged(&self, aged: &mut Vec<u64>);

    /// Rules that the device has.
    fn rules(&self) -> usize;
}
