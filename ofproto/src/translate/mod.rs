//! Translation: what the switches do with a packet, as datapath actions, and which bits of the
//! packet that depends on.
//!
//! One engine serves packets that the datapath has no flow for, flows that are looked at again,
//! and questions of operators. Whatever it looks at in the flow key it notes in the mask, so that
//! the actions hold for every packet that is alike under the mask.

mod context;
mod flood;
mod normal;
mod output;
mod trace;
mod vlan;

use std::sync::Arc;

use dpif::action::Action;
use dpif::flow::{FlowKey, FlowMask};
use netdev::ethernet_address::EthernetAddress;
use thiserror::Error;

use crate::mac_table::MacTable;
use crate::port::PortNumber;
use crate::switches::Switches;
use context::Context;
pub use trace::{Trace, TraceEntry, TraceKind};

/// Most rules and patch ports that lead from one to the next.
pub const MAX_DEPTH: u32 = 64;
/// Most rules for one packet.
pub const MAX_RESUBMITS: u32 = 4096;
/// Actions beyond which no more rules are looked up.
const MAX_ACTIONS: usize = 8192;

/// Why a packet could not be translated. It is dropped, for the reason with the
/// [`code`](Self::code).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TranslateError {
    /// Rules and patch ports led too far.
    #[error("over max translation depth {MAX_DEPTH}")]
    TooDeep,
    /// Too many rules.
    #[error("over {MAX_RESUBMITS} resubmit actions")]
    TooManyResubmits,
    /// The packet continues something that is not known any more.
    #[error("no recirculation data for recirc_id {0:#x}")]
    NoRecirculation(u32),
    /// The packet came in on a port that no switch has.
    #[error("no OpenFlow port for datapath port {0}")]
    UnknownPort(u32),
}

impl TranslateError {
    /// The number under which OVS counts the drop.
    pub fn code(self) -> u32 {
        match self {
            Self::UnknownPort(_) => 1,
            Self::TooDeep => 2,
            Self::TooManyResubmits => 3,
            Self::NoRecirculation(_) => 5,
        }
    }
}

/// What is to be translated.
pub struct Request<'a> {
    /// Key of the packet.
    pub key: &'a FlowKey,
    /// Whether there is a packet, from which the switches learn.
    pub is_packet: bool,
    /// Where to write down why, if anybody asks.
    pub trace: Option<&'a mut Trace>,
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
    /// What the datapath is to do; never empty.
    pub actions: Arc<[Action]>,
    /// The bits of the key on which that depends.
    pub mask: FlowMask,
    /// What the switches could learn.
    pub sightings: Vec<Sighting>,
    /// Why it is dropped, if it could not be translated.
    pub error: Option<TranslateError>,
}

/// Translates.
///
/// # Errors
/// When no switch has the packet. Errors on the way there are part of the result.
pub fn translate(switches: &Switches, request: Request<'_>) -> Result<Translation, TranslateError> {
    let recirculation = request.key.recirc_id.get();
    if recirculation != 0 {
        return Err(TranslateError::NoRecirculation(recirculation));
    }
    let in_port = request.key.in_port.get();
    let place = switches.of_datapath_port(in_port);
    let (switch, in_port) = place.ok_or(TranslateError::UnknownPort(in_port))?;
    let mut context = Context::new(switches, switch, in_port, request);
    context.look_up();
    Ok(context.finish())
}

#[cfg(test)]
mod tests;
