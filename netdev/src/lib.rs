//! Ports, packet memory and the kernel: the lowest crate of the switch. It knows no flows, no
//! OpenFlow and no configuration.

pub mod clock;
pub mod coverage;
pub mod packet;
pub mod wire;
