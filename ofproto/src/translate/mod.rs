//! Translation: what the switches do with a packet, as datapath actions, and which bits of the
//! packet that depends on.
//!
//! One engine serves packets that the datapath has no flow for, flows that are looked at again,
//! and questions of operators. Whatever it looks at in the flow key it notes in the mask, so that
//! the actions hold for every packet that is alike under the mask.

mod action_set;
mod actions;
mod clone;
mod commit;
mod conntrack;
mod context;
mod controller;
mod effect;
mod encapsulation;
mod field;
mod flood;
mod freeze;
mod group;
mod hash;
mod header;
mod learn;
mod mirror;
mod mpls;
mod native;
mod neighbour;
mod normal;
mod output;
mod patch;
mod select;
mod table;
mod thaw;
mod trace;
mod tunnel;
mod vlan;

use std::sync::Arc;

use dpif::action::Action;
use dpif::flow::{FlowKey, FlowMask};
use netdev::ethernet_address::EthernetAddress;
use thiserror::Error;

use crate::flow::Flow;
use crate::mac_table::MacTable;
use crate::openflow::action::Action as OfAction;
use crate::openflow::flow_match::Match;
use crate::port::PortNumber;
use crate::recirculation::{FrozenState, Recirculation};
use crate::switches::{SwitchSnapshot, Switches};
use context::Context;
pub use effect::{Effect, Traffic};
pub(crate) use header::clear_conntrack;
pub use trace::{Fork, Trace, TraceEntry, TraceKind};

/// Most rules and patch ports that lead from one to the next.
pub const MAX_DEPTH: u32 = 64;
/// Most rules for one packet.
pub const MAX_RESUBMITS: u32 = 4096;
/// Most bytes on the stack of rules.
const MAX_STACK: usize = 65_536;
/// Most bytes of datapath actions before no more rules are looked up, and in a flow.
const MAX_ACTION_BYTES: usize = u16::MAX as usize;

/// Why a packet could not be translated. It is dropped, for the reason with the
/// [`code`](Self::code).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TranslateError {
    /// The switch is gone.
    #[error("Bridge not found")]
    SwitchGone,
    /// Rules and patch ports led too far.
    #[error("Recursion too deep")]
    TooDeep,
    /// Too many rules.
    #[error("Too many resubmits")]
    TooManyResubmits,
    /// Too much on the stack.
    #[error("Stack too deep")]
    StackTooDeep,
    /// There is no number left for the packet to be looked up again.
    #[error("No recirculation context")]
    NoRecirculationId,
    /// More labels than there is room for.
    #[error("Too many MPLS labels")]
    TooManyLabels,
    /// The packet is of a type that an action cannot be applied to.
    #[error("Unsupported packet type")]
    UnsupportedPacketType,
    /// The packet continues something that is not known any more.
    #[error("no recirculation data for recirc_id {0:#x}")]
    NoRecirculation(u32),
    /// The packet came in on a port that no switch has.
    #[error("no OpenFlow port for datapath port {0}")]
    UnknownPort(u32),
    /// The packet came through a tunnel that no switch has, by this port of the datapath.
    #[error("no OpenFlow tunnel port for this packet")]
    UnknownTunnel(u32),
    /// Options of its tunnel are not as they have to be.
    #[error("Invalid tunnel metadata")]
    InvalidOptions,
    /// The packet met congestion in the tunnel, but its transport cannot be told.
    #[error("Congestion Drop")]
    Congestion,
    /// The other end of a tunnel cannot be reached.
    #[error("Native tunnel routing failed")]
    NoRoute,
    /// The port by which a tunnel sends has no Ethernet address.
    #[error("Tunnel output device lacks Ethernet address")]
    NoEthernet,
    /// The next station on the way to the other end of a tunnel is not known yet.
    #[error("Tunnel neighbor cache miss")]
    NoNeighbour,
    /// The tunnel cannot carry the packet.
    #[error("Native tunnel header build failed")]
    NoHeader,
}

impl TranslateError {
    /// Why the packet is dropped, in the words of OVS.
    pub fn reason(self) -> &'static str {
        match self {
            Self::SwitchGone | Self::UnknownPort(_) | Self::UnknownTunnel(_) => "Bridge not found",
            Self::TooDeep => "Recursion too deep",
            Self::TooManyResubmits => "Too many resubmits",
            Self::StackTooDeep => "Stack too deep",
            Self::NoRecirculationId | Self::NoRecirculation(_) => "No recirculation context",
            Self::TooManyLabels => "Too many MPLS labels",
            Self::InvalidOptions => "Invalid tunnel metadata",
            Self::Congestion => "Congestion Drop",
            Self::NoRoute => "Native tunnel routing failed",
            Self::NoEthernet => "Tunnel output device lacks Ethernet address",
            Self::NoNeighbour => "Tunnel neighbor cache miss",
            Self::NoHeader => "Native tunnel header build failed",
            Self::UnsupportedPacketType => "Unsupported packet type",
        }
    }

    /// The number under which OVS counts the drop.
    pub fn code(self) -> u32 {
        match self {
            Self::UnknownPort(_) | Self::UnknownTunnel(_) | Self::SwitchGone => 1,
            Self::TooDeep => 2,
            Self::TooManyResubmits => 3,
            Self::StackTooDeep => 4,
            Self::NoRecirculation(_) | Self::NoRecirculationId => 5,
            Self::TooManyLabels => 7,
            Self::InvalidOptions => 8,
            Self::Congestion => 10,
            Self::NoRoute => 12,
            Self::NoEthernet => 13,
            Self::NoNeighbour => 14,
            Self::NoHeader => 15,
            Self::UnsupportedPacketType => 9,
        }
    }

    /// Whether it keeps translation from taking too long or too much.
    fn is_limit(self) -> bool {
        !matches!(self, Self::TooManyLabels | Self::UnsupportedPacketType)
    }
}

/// Where translation starts.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    /// With the tables, or where it stopped when the key says that.
    Packet,
    /// With these actions, as a controller said.
    PacketOut {
        /// The switch.
        switch: &'a SwitchSnapshot,
        /// The port on which the packet counts as received, as OpenFlow 1.0 writes it.
        in_port: PortNumber,
        /// The actions.
        actions: &'a [OfAction],
        /// What the controller says of registers and the like.
        metadata: &'a Match,
    },
    /// With the tables of a switch.
    Received {
        /// The switch.
        switch: &'a SwitchSnapshot,
        /// The port on which the packet counts as received, as OpenFlow 1.0 writes it.
        in_port: PortNumber,
        /// What registers and the like hold.
        metadata: &'a Match,
    },
    /// Where it stopped.
    Resume(&'a FrozenState),
}

/// What is to be translated.
pub struct Request<'a> {
    /// Key of the packet.
    pub key: &'a FlowKey,
    /// Whether there is a packet, from which the switches learn.
    pub is_packet: bool,
    /// Its length in bytes, if it is known.
    pub length: Option<usize>,
    /// The version of the tables that it sees in the first switch, if not the newest.
    pub version: Option<u64>,
    /// Where to start.
    pub start: Start<'a>,
    /// Where to write down why, if anybody asks.
    pub trace: Option<&'a mut Trace>,
}

impl<'a> Request<'a> {
    /// What becomes of a packet with this key, from which the switches learn.
    pub fn packet(key: &'a FlowKey) -> Self {
        Self { is_packet: true, ..Self::flow(key) }
    }

    /// What would become of packets with this key.
    pub fn flow(key: &'a FlowKey) -> Self {
        let start = Start::Packet;
        Self { key, is_packet: false, length: None, version: None, start, trace: None }
    }
}

/// A station that the packet showed to a switch.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// The table of the switch.
    pub table: Arc<MacTable>,
    /// The VLAN.
    pub vlan: u16,
    /// The address.
    pub address: EthernetAddress,
    /// The port.
    pub port: PortNumber,
}

/// What becomes of the packet.
#[derive(Clone, Debug)]
pub struct Translation {
    /// What the datapath is to do. Empty only if it has no action that drops.
    pub actions: Arc<[Action]>,
    /// The bits of the key on which that depends.
    pub mask: FlowMask,
    /// The same as rules and actions looked at them, for people.
    pub read: Flow,
    /// What the packet is in the end.
    pub flow: Flow,
    /// Why the datapath cannot do it alone; bits of [`dpif::action::slow_path`].
    pub slow: u32,
    /// Whether it would be another for a packet, so that no flow should be made of it.
    pub is_transient: bool,
    /// Numbers in the actions under which packets are looked up again, to be held as long as the
    /// actions are in use.
    pub recirculations: Vec<Arc<Recirculation>>,
    /// What it does beside the actions.
    pub effects: Vec<Effect>,
    /// Why it is dropped, if it could not be translated.
    pub error: Option<TranslateError>,
}

/// Translates.
///
/// # Errors
/// When no switch has the packet. Errors on the way there are part of the result.
pub fn translate(switches: &Switches, request: Request<'_>) -> Result<Translation, TranslateError> {
    let entry = thaw::entry(switches, &request)?;
    let mut context = Context::new(switches, request, entry);
    context.run();
    Ok(context.finish())
}

#[cfg(test)]
mod tests;
