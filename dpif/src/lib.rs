//! The datapath: which ports packets enter and leave by, and under which numbers. It knows no
//! OpenFlow rules and no configuration database.

pub mod datapath;
pub mod flow;

use netdev::coverage::Counter;

/// Batches that outgrew their array. Open vSwitch's can and its tools read this counter; batches
/// here are of a fixed size.
static BATCH_GROWN: Counter = Counter::new("dp_packet_batch_grow");

/// The event counters of this crate.
pub static COVERAGE: &[&Counter] = &[&BATCH_GROWN];
