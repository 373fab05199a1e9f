//! The daemon: its database, its control socket and its life cycle.

pub mod jsonrpc;
