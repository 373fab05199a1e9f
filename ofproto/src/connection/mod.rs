//! OpenFlow connections: what one side says to the other before and between the messages that
//! concern the switch.

mod service;
mod session;

pub use service::Service;
pub use session::{Session, SessionError};
