//! The datapath: which ports packets enter and leave by, what is looked up for them, how, and
//! what is done to them. It knows no OpenFlow rules and no configuration database.

pub mod action;
mod bucket;
mod cache;
mod classifier;
pub mod datapath;
mod drop;
mod execute;
pub mod flow;
mod flow_table;
pub mod offload;
pub mod pmd;
mod port_map;
pub mod tunnel;
pub mod upcall;

use netdev::coverage::Counter;

pub use drop::DropReason;
pub use execute::meter;
pub use flow_table::{FlowRecord, FlowStatistics, WorkerId};

/// Batches that outgrew their array. Open vSwitch's can and its tools read this counter; batches
/// here are of a fixed size.
static BATCH_GROWN: Counter = Counter::new("dp_packet_batch_grow");

/// The event counters of this crate.
pub fn coverage() -> impl Iterator<Item = &'static Counter> {
    let drops = drop::COUNTERS.iter().chain(tunnel::events::COUNTERS);
    drops.chain(offload::COUNTERS).copied().chain([&BATCH_GROWN])
}

#[cfg(test)]
mod testing;
