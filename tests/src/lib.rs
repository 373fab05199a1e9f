//! What the test suites and benchmarks share: they start the real programs in a directory of
//! their own, drive them with Open vSwitch's tools and look at files, logs and replies.
//!
//! A step that fails panics with the command, its exit status and everything it printed.

pub mod benchmark;
pub mod capture;
pub mod connection;
pub mod daemon;
pub mod directory;
pub mod dummies;
pub mod fuzz;
pub mod namespace;
pub mod network;
pub mod ovsdb_server;
pub mod pmd_statistics;
pub mod process;
pub mod tools;
pub mod traffic;

pub use connection::Connection;
pub use daemon::Daemon;
pub use directory::Directory;
pub use dummies::Dummies;
pub use ovsdb_server::OvsdbServer;
pub use process::{Output, Running, wait_until};
