//! The client of a database: a copy of the tables that its owner reads, kept up to date, and
//! transactions that change them.
//!
//! [`Client`] connects and reconnects; below it, [`session`] speaks the protocol without input or
//! output, [`cache`] is the copy and [`transaction`] computes what to send.

pub mod cache;
mod client;
mod monitored;
mod row;
mod session;
#[cfg(test)]
mod tests;
pub mod transaction;
mod update;

pub use cache::Cache;
pub use client::{Client, RemotesError, Settings, parse_remotes};
pub use monitored::MonitoredTable;
pub use row::{Row, StringMap};
pub use session::{Event, TransactionId};
pub use transaction::{Outcome, Transaction};
