//! Ports that are network devices of the Linux kernel.

mod counters;
mod ethtool;
mod ioctl;
pub mod links;
mod netlink;
mod outgoing;
mod packet_ring;
mod packet_socket;
pub mod poller;
pub(crate) mod port;
mod system_queue;
mod tap;
mod tap_queue;
mod vnet_header;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod traffic_tests;
