//! Ports, packet memory and the kernel: the lowest crate of the switch. It knows no flows, no
//! OpenFlow and no configuration.

pub mod clock;
pub mod coverage;
pub mod errno;
pub mod ethernet_address;
pub mod features;
pub mod offload;
pub mod port;
pub mod statistics;
