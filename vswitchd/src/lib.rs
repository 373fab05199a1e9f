//! The daemon around the switch: command line, life cycle, log, database and control socket.

pub mod errno;
pub mod jsonrpc;
pub mod log;
pub mod ovsdb;
