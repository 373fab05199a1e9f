//! Ports, packet memory and the kernel: the lowest crate of the switch. It knows no flows, no
//! OpenFlow and no configuration.

pub mod checksum;
pub mod clock;
pub mod coverage;
pub mod cpu;
pub mod dummy;
pub mod errno;
pub mod ethernet_address;
pub mod features;
mod headers;
pub mod linux;
pub mod offload;
pub mod packet;
mod patch;
pub mod pcap;
pub mod port;
pub mod queue;
pub mod registry;
#[cfg(test)]
mod sample;
mod segmentation;
pub mod statistics;
pub mod transmit;
pub mod wire;

/// Batches that outgrew their array. Open vSwitch's can and its tools read this counter; batches
/// here are of a fixed size.
static BATCH_GROWN: coverage::Counter = coverage::Counter::new("dp_packet_batch_grow");

/// The event counters of this crate.
pub static COVERAGE: &[&coverage::Counter] =
    &[&BATCH_GROWN, &dummy::RECEIVE_QUEUE_FULL, &dummy::STREAM_FULL];
