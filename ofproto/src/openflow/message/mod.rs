//! OpenFlow messages, one module for each family.
//!
//! [`Raw::parse`](super::kind::Raw::parse) tells which kind a received message is; each type here
//! decodes the kinds that its documentation names and encodes itself for a version.

mod bundle;
mod controller;
mod flow_mod;
mod flow_stats;
mod group;
mod group_stats;
mod meter;
mod monitor;
mod nicira;
mod packet;
mod packet_in;
mod port;
mod port_stats;
mod queue;
mod switch;
mod table;
mod table_features;

pub use self::bundle::*;
pub use self::controller::*;
pub use self::flow_mod::*;
pub use self::flow_stats::*;
pub use self::group::*;
pub use self::group_stats::*;
pub use self::meter::*;
pub use self::monitor::*;
pub use self::nicira::*;
pub use self::packet::*;
pub use self::packet_in::*;
pub use self::port::*;
pub use self::port_stats::*;
pub use self::queue::*;
pub use self::switch::*;
pub use self::table::*;
pub use self::table_features::*;

/// How flows are written on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlowFormat {
    /// In OpenFlow 1.0: use Nicira's extensible matches.
    pub nxm: bool,
    /// In OpenFlow 1.0 and Nicira's flow modifications: the command holds the table.
    pub table_id: bool,
}

#[cfg(test)]
mod tests;
