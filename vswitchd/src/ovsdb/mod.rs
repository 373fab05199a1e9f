//! OVSDB (RFC 7047): the values and schemas that client and server share, and the server.

pub mod atom;
pub mod client;
pub mod column_type;
pub mod condition;
pub mod database;
pub mod databases;
pub mod datum;
pub mod engine;
pub mod error;
pub mod history;
pub mod lock;
pub mod lock_file;
pub mod log_file;
pub mod monitor;
pub mod mutation;
pub mod named_uuid;
pub mod object;
pub mod open_vswitch;
pub mod operation;
pub mod record;
pub mod row;
pub mod schema;
pub mod server;
pub mod session;
pub mod storage;
#[cfg(test)]
mod test_support;
pub mod transaction;
