//! OVSDB (RFC 7047): the values and schemas that client and server share, and the server.

pub mod atom;
pub mod client;
pub mod column_type;
pub mod condition;
pub mod database;
pub mod datum;
pub mod error;
pub mod mutation;
pub mod named_uuid;
pub mod object;
pub mod operation;
pub mod row;
pub mod schema;
pub mod transaction;
