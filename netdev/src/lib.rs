//! Ports, packet memory and the kernel: the lowest crate of the switch. It knows no flows, no
//! OpenFlow and no configuration.

pub mod afxdp;
pub mod checksum;
pub mod clock;
pub mod coverage;
pub mod cpu;
pub mod dummy;
pub mod errno;
pub mod ethernet_address;
pub mod features;
pub mod flow_api;
mod headers;
pub mod linux;
pub mod network;
pub mod offload;
mod options;
pub mod packet;
mod patch;
pub mod pcap;
pub mod port;
pub mod queue;
pub mod registry;
mod replay;
pub mod route;
#[cfg(test)]
mod sample;
mod segmentation;
pub mod sim;
pub mod statistics;
pub mod transmit;
pub mod tunnel;
pub mod wire;

/// The event counters of this crate.
pub static COVERAGE: &[&coverage::Counter] = &[&dummy::RECEIVE_QUEUE_FULL, &dummy::STREAM_FULL];
