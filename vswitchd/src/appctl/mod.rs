//! The control socket: requests from `ovs-appctl` and `sluice-appctl`, the commands that answer
//! them, and the client.

pub mod client;
pub mod command;
pub mod registry;
pub mod server;
