//! The daemon around the switch: command line, life cycle, log, database and control socket.

pub mod args;
pub mod daemonize;
pub mod directories;
pub mod errno;
pub mod exit;
pub mod jsonrpc;
pub mod log;
pub mod memory_lock;
pub mod ovsdb;
