//! Ports that are network devices of the Linux kernel.

pub(crate) mod counters;
pub(crate) mod ethtool;
mod ioctl;
pub mod links;
pub(crate) mod netlink;
mod outgoing;
mod packet_ring;
mod packet_socket;
pub mod poller;
pub(crate) mod port;
pub mod routing;
mod routing_message;
mod system_queue;
mod tap;
mod tap_queue;
mod vnet_header;

#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod traffic_tests;
