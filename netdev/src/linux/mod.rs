//! Ports that are network devices of the Linux kernel.

mod ethtool;
mod ioctl;
pub mod links;
mod netlink;
pub(crate) mod port;
mod tap;

#[cfg(test)]
mod tests;
