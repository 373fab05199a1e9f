//! Ports that are network devices of the Linux kernel.

mod counters;
mod ethtool;
mod ioctl;
pub mod links;
mod netlink;
mod outgoing;
mod packet_socket;
pub(crate) mod port;
mod system_queue;
mod tap;
mod tap_queue;
mod vnet_header;

#[cfg(test)]
mod tests;
