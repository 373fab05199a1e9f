//! JSON-RPC 1.0 as OVSDB (RFC 7047 section 4) and the control socket speak it: messages follow
//! each other on a stream with nothing in between.

mod connection;
mod framer;
mod message;
#[cfg(test)]
mod tests;

pub use connection::{Connection, ConnectionError, Limits};
pub use framer::{FrameError, Framer, MAX_DEPTH};
pub use message::{Message, MessageError, parse_json};
