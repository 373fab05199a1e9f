//! TLS settings: which key, which certificates, whom to trust.

mod bootstrap;
mod config;
mod error;
mod files;
mod protocols;
#[cfg(test)]
mod tests;
mod verify;

pub use config::{CaCertificate, TlsConfig, TlsSettings};
pub use error::TlsError;
pub use protocols::{ProtocolError, Protocols};
