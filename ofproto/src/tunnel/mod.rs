//! Tunnel ports: which of them a received packet belongs to, and what is put around a packet that
//! one of them sends.

mod endpoint;
mod listen;
mod options;
mod send;
mod text;

use netdev::tunnel::Tunnel;

pub use endpoint::Endpoint;
pub(crate) use endpoint::Endpoints;
pub(crate) use listen::Host;
pub use listen::{Listener, ListenerText, Listeners};
pub use options::InvalidOptions;
pub(crate) use options::{metadata_of, note_options, put_options};
pub(crate) use send::{of_protocol, outer_key};
pub use text::{endpoint_text, tunnel_text};

/// A tunnel port as translation sees it.
#[derive(Clone, Debug)]
pub struct TunnelSnapshot(pub Tunnel);

impl PartialEq for TunnelSnapshot {
    fn eq(&self, other: &Self) -> bool {
        self.0.config == other.0.config
    }
}

impl Eq for TunnelSnapshot {}
