//! Byte streams between the switch and its controllers, databases and tools: unix, TCP and TLS.
//!
//! A [`Remote`] says where the other side is. [`connect()`] opens a [`Stream`] to an active remote,
//! [`Listener`] accepts streams on a passive one. [`Reconnect`] decides when to try again.

mod connect;
mod listener;
mod reconnect;
mod remote;
mod stream;
pub mod tls;
mod unix;

pub use connect::{ConnectError, connect};
pub use listener::{BindError, Listener};
pub use reconnect::{Action, Loss, Reconnect};
pub use remote::{Address, Remote, RemoteError};
pub use stream::Stream;

/// The text of an I/O error as `strerror` gives it, which is how log lines and replies show it.
pub fn error_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => text.trim_end_matches(&format!(" (os error {code})")).to_owned(),
        None => text,
    }
}
