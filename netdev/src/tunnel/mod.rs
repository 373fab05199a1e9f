//! Tunnels: ports whose packets travel inside other packets.

mod config;
mod kind;
mod parse;
mod port;
mod text;

pub use config::{
    ErspanConfig, FlowLabel, Inherited, OuterChecksum, PacketMode, PerFlow, TunnelConfig,
};
pub use kind::TunnelKind;
pub use port::{Tunnel, TunnelTraffic};
pub(crate) use port::{TunnelPort, Tunnels};

#[cfg(test)]
mod tests;
