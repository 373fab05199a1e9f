//! The daemon around the switch: command line, life cycle, log, database and control socket.

pub mod appctl;
pub mod args;
pub mod bridge;
pub mod config;
pub mod coverage;
pub mod daemon;
pub mod daemonize;
pub mod directories;
pub mod errno;
pub mod exit;
pub mod jsonrpc;
pub mod log;
pub mod memory_lock;
pub mod ovsdb;
pub mod startup;
pub mod system;
