//! What can be wrong with TLS settings and the files they name.

use std::io;
use std::path::PathBuf;

use crate::error_text;

/// Why TLS cannot be used. Messages name the file and the cause.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A TLS remote is used but no TLS settings are.
    #[error("a private key, a certificate and a CA certificate must be configured to use SSL")]
    NotConfigured,
    /// A file could not be read.
    #[error("failed to open {} for reading: {}", path.display(), error_text(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file's PEM text is damaged.
    #[error("{}: malformed PEM: {cause}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong with the text.
        cause: String,
    },
    /// A file holds no section of the wanted kind.
    #[error("{}: no {wanted} in PEM form found", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// `private key` or `certificate`.
        wanted: &'static str,
    },
    /// A CA certificate could not be understood.
    #[error("{}: bad CA certificate: {source}", path.display())]
    CaCertificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::Error,
    },
    /// The private key is of an unknown kind or not that of the certificate.
    #[error("private key {} does not suit certificate {}: {source}", key.display(), certificate.display())]
    Key {
        /// File of the private key.
        key: PathBuf,
        /// File of the certificate.
        certificate: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// The library refuses the trusted certificates or protocol versions.
    #[error("unusable TLS settings: {0}")]
    Settings(String),
    /// A name that cannot stand in a TLS greeting.
    #[error("\"{0}\" is neither a host name nor an IP address")]
    ServerName(String),
    /// A client connected before a CA certificate was obtained to check it with.
    #[error("rejecting SSL/TLS connection: CA certificate {} is not bootstrapped yet", .0.display())]
    NotBootstrapped(PathBuf),
    /// The peer did not send a CA certificate.
    #[error("could not bootstrap CA cert: no certificate presented by peer")]
    NoPeerCertificate,
    /// The last certificate that the peer sent is no CA certificate.
    #[error(
        "could not bootstrap CA cert: the last of {count} certificates received is not \
         self-signed, so the peer seems not to send its CA certificate"
    )]
    NotSelfSigned {
        /// How many certificates the peer sent.
        count: usize,
    },
    /// The CA certificate could not be stored.
    #[error("could not bootstrap CA cert: creating {} failed: {}", path.display(), error_text(source))]
    Store {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
