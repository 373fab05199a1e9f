//! The switch daemon: database, control socket and what ties them to the packet path.

pub mod jsonrpc;
pub mod ovsdb;
