//! OpenFlow connections: who speaks with a switch, and what of it concerns the connections alone.
//!
//! Tasks move bytes; they hand whole messages to the control thread, which handles them and puts
//! replies into the connection's [`Outbox`]. A connection reads nothing further before that.

mod bridge;
mod bundle;
mod connections;
mod controller;
mod event;
mod fail_open;
mod flow_mod_log;
mod in_band;
mod link;
mod monitor;
mod multipart;
mod notice;
mod outbox;
mod packet_scheduler;
mod packets;
mod peer;
mod request;
mod session;
mod settings;
mod task;
mod upkeep;

pub use bridge::Bridge;
pub use connections::{Connections, ControllerStatus, Environment, Tls};
pub use controller::{ControllerSettings, ControllerType};
pub use event::{Connected, ConnectionId, Event, Events, Happening, Origin};
pub use link::Link;
pub(crate) use monitor::{PAUSED, RESUMED};
pub use outbox::{Class, Outbox, Waiting};
pub use packet_scheduler::Counts;
pub use packets::send_from_table;
pub(crate) use packets::{PACKET_OUTS, Prepared, UNSENT, decode_packet_out, execute, prepare};
pub use peer::Peer;
pub(crate) use request::RECEIVED as REQUESTS;
pub use session::{Session, SessionError};
pub(crate) use task::RECEIVED;
