//! The OpenFlow protocol as bytes and typed values: a codec without sockets, tables or threads.

pub mod action;
pub mod error;
pub mod field;
mod field_table;
pub mod flow_match;
pub mod header;
pub mod kind;
mod match_fixed;
pub mod message;
pub mod oxm;
pub mod port;
mod property;
pub mod slot;
pub mod text;
pub mod tlv_map;
pub mod value;
pub mod version;
mod wire;
