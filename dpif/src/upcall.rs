//! What the datapath asks of its user when it does not know what to do with a packet.

use std::sync::Arc;

use netdev::packet::PacketRef;
use thiserror::Error;

use crate::action::{Action, Userspace};
use crate::flow::{FlowKey, FlowMask};

/// Answers the questions of the datapath. Poll threads call it while their packets wait, so it
/// must not wait for a poll thread in turn.
pub trait UpcallHandler: Send + Sync {
    /// Says what to do with a packet for which there is no flow.
    ///
    /// # Errors
    /// When there is no answer; the packet is dropped.
    fn miss(&self, packet: PacketRef<'_>, key: &FlowKey) -> Result<Upcall, UpcallError>;

    /// Takes a packet that reached an action `userspace`, and says what to do with it next.
    ///
    /// # Errors
    /// When it could not be handled; the packet is dropped.
    fn userspace(
        &self,
        packet: PacketRef<'_>,
        key: &FlowKey,
        action: &Userspace,
    ) -> Result<Arc<[Action]>, UpcallError>;
}

/// The answer to a miss.
#[derive(Clone, Debug)]
pub struct Upcall {
    /// What to do with this packet.
    pub actions: Arc<[Action]>,
    /// The flow to install for those that follow, if any.
    pub install: Option<Megaflow>,
}

/// A flow to install for all packets like one.
#[derive(Clone, Debug)]
pub struct Megaflow {
    /// Which bits of the packet's key matter. The port always does.
    pub mask: FlowMask,
    /// What to do with the packets.
    pub actions: Arc<[Action]>,
}

/// Why an upcall had no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UpcallError {
    /// The port on which the packet came belongs to no bridge.
    #[error("port {port} belongs to no bridge")]
    UnknownPort {
        /// Number of the port.
        port: u32,
    },
    /// The packet cannot be translated.
    #[error("translation failed: {reason}")]
    Translation {
        /// Why.
        reason: String,
    },
}
