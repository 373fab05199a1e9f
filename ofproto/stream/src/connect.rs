//! Opening a stream to an active remote.

use std::io;

use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::remote::{Address, Remote};
use crate::stream::{Stream, Transport};
use crate::tls::{TlsConfig, TlsError};
use crate::{error_text, unix};

/// Why a stream could not be opened. The remote is not named: log lines begin with it.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The system refused.
    #[error("{}", error_text(.0))]
    Io(#[from] io::Error),
    /// The TLS settings do not allow a connection, or the peer's certificate could not be stored.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The remote is one to listen on.
    #[error("cannot connect to a passive connection method")]
    Passive,
}

/// Opens a stream to `remote`. TLS remotes need `tls`. There is no time limit: [`crate::Reconnect`]
/// says when to give up.
pub async fn connect(remote: &Remote, tls: Option<&TlsConfig>) -> Result<Stream, ConnectError> {
    let transport = match remote.address() {
        Address::Unix(path) => Transport::Unix(unix::connect(path).await?),
        Address::Tcp { host, port } => Transport::Tcp(connect_tcp(host, *port).await?),
        Address::Ssl { host, port } => {
            connect_tls(host, *port, tls.ok_or(TlsError::NotConfigured)?).await?
        }
        Address::PassiveUnix(_) | Address::PassiveTcp { .. } | Address::PassiveSsl { .. } => {
            return Err(ConnectError::Passive);
        }
    };
    Ok(Stream::new(remote.to_string(), transport))
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect_tls(host: &str, port: u16, tls: &TlsConfig) -> Result<Transport, ConnectError> {
    let name = match tls.server_name() {
        Some(name) => name.to_owned(),
        // The zone of a link-local address is no part of what the peer is called.
        None => host.split('%').next().unwrap_or(host).to_owned(),
    };
    let name = ServerName::try_from(name.clone()).map_err(|_| TlsError::ServerName(name))?;
    loop {
        let client = tls.client()?;
        let connector = TlsConnector::from(client.config);
        let stream = connector.connect(name.clone(), connect_tcp(host, port).await?).await?;
        if !client.bootstrapping {
            return Ok(Transport::Tls(Box::new(stream.into())));
        }
        // Nothing vouched for this peer. Keep its CA certificate, then connect again with it.
        tls.bootstrap(stream.get_ref().1.peer_certificates().unwrap_or_default())?;
    }
}
