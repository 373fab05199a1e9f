//! The control socket: requests from `ovs-appctl` and `sluice-appctl`, and the commands that
//! answer them.

pub mod client;
