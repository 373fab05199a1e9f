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
pub mod pmd;
mod port_map;
pub mod upcall;

/// The event counters of this crate.
pub use drop::COUNTERS as COVERAGE;
pub use drop::DropReason;
pub use execute::meter;
pub use flow_table::{FlowRecord, FlowStatistics, WorkerId};

#[cfg(test)]
mod testing;
