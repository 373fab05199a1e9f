//! Accepting streams on a passive remote.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, lookup_host};
use tokio_rustls::TlsAcceptor;

use crate::error_text;
use crate::remote::{Address, Remote};
use crate::stream::{Stream, Transport};
use crate::tls::{TlsConfig, TlsError};
use crate::unix::{self, SocketFile};

const BACKLOG: u32 = 64;

/// Numbers the accepted unix streams of the process, whose peers have no name of their own.
static UNIX_STREAMS: AtomicU32 = AtomicU32::new(0);

/// Why a remote cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The system refused.
    #[error("{remote}: binding failed: {}", error_text(source))]
    Io {
        /// Text of the remote.
        remote: String,
        /// What the system said.
        source: io::Error,
    },
    /// A TLS remote without TLS settings.
    #[error("{remote}: {source}")]
    Tls {
        /// Text of the remote.
        remote: String,
        /// What is missing.
        source: Box<TlsError>,
    },
    /// The host name has no address.
    #[error("{remote}: host \"{host}\" has no address")]
    NoAddress {
        /// Text of the remote.
        remote: String,
        /// The name that was looked up.
        host: String,
    },
    /// The remote is one to connect to.
    #[error("{remote}: cannot listen on an active connection method")]
    Active {
        /// Text of the remote.
        remote: String,
    },
}

/// A socket that accepts streams. A unix socket's file lasts as long as the listener.
pub struct Listener {
    name: String,
    port: Option<u16>,
    socket: Socket,
}

enum Socket {
    Unix { listener: UnixListener, _file: SocketFile },
    Tcp(TcpListener),
    Tls(TcpListener, Arc<TlsConfig>),
}

impl Listener {
    /// Listens on `remote`, a passive unix socket, without waiting for anything.
    ///
    /// # Errors
    /// When the system refuses, or the remote is of another kind.
    pub fn bind_unix(remote: &Remote) -> Result<Self, BindError> {
        let name = remote.to_string();
        let Address::PassiveUnix(path) = remote.address() else {
            return Err(BindError::Active { remote: name });
        };
        let (listener, file) = unix::bind_listener(path)
            .map_err(|source| BindError::Io { remote: name.clone(), source })?;
        Ok(Self { name, port: None, socket: Socket::Unix { listener, _file: file } })
    }

    /// Listens on `remote`. TLS remotes need `tls`.
    pub async fn bind(remote: &Remote, tls: Option<Arc<TlsConfig>>) -> Result<Self, BindError> {
        let text = remote.to_string();
        let (method, host, port) = match remote.address() {
            Address::PassiveUnix(_) => return Self::bind_unix(remote),
            Address::PassiveTcp { host, port } => ("ptcp", host, *port),
            Address::PassiveSsl { host, port } => ("pssl", host, *port),
            Address::Unix(_) | Address::Tcp { .. } | Address::Ssl { .. } => {
                return Err(BindError::Active { remote: text });
            }
        };
        let host = host.as_deref().unwrap_or("0.0.0.0");
        let io_error = |source| BindError::Io { remote: text.clone(), source };
        let address =
            lookup_host((host, port)).await.map_err(io_error)?.next().ok_or_else(|| {
                BindError::NoAddress { remote: text.clone(), host: host.to_owned() }
            })?;
        let listener = bind_tcp(address).map_err(io_error)?;
        let local = listener.local_addr().map_err(io_error)?;
        let name = format!("{method}:{}:{}", local.port(), host_text(local));
        let socket = match remote.address() {
            Address::PassiveSsl { .. } => Socket::Tls(
                listener,
                tls.ok_or_else(|| BindError::Tls {
                    remote: text,
                    source: Box::new(TlsError::NotConfigured),
                })?,
            ),
            _ => Socket::Tcp(listener),
        };
        Ok(Self { name, port: Some(local.port()), socket })
    }

    /// Where it listens: the remote's text, or for TCP the method, port and address in use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The TCP port in use, which the kernel may have chosen.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Waits for the next stream. Cancel-safe. A TLS handshake happens later, when the stream is
    /// first read or written.
    pub async fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Unix { listener, .. } => {
                let (stream, address) = listener.accept().await?;
                let peer = match address.as_pathname() {
                    Some(path) => format!("unix:{}", path.display()),
                    None => format!("unix#{}", UNIX_STREAMS.fetch_add(1, Ordering::Relaxed)),
                };
                Ok(Stream::new(peer, Transport::Unix(stream)))
            }
            Socket::Tcp(listener) => {
                let (stream, peer) = accept_tcp(listener).await?;
                Ok(Stream::new(format!("tcp:{peer}"), Transport::Tcp(stream)))
            }
            Socket::Tls(listener, tls) => {
                let (stream, peer) = accept_tcp(listener).await?;
                let config = tls.server().map_err(io::Error::other)?;
                let accept = TlsAcceptor::from(config).accept(stream);
                Ok(Stream::new(format!("ssl:{peer}"), Transport::Accepting(Box::new(accept))))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept_tcp(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, peer))
}

fn host_text(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::connect;

    fn run<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn remote(text: &str) -> Remote {
        Remote::parse(text, None, Path::new("/nonexistent")).unwrap()
    }

    /// Sends one word each way and gives the names that the two sides have for each other.
    async fn talk(listener: &Listener, to: &Remote) -> (String, String) {
        let (client, server) = tokio::join!(connect(to, None), listener.accept());
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        client.write_all(b"ping").await.unwrap();
        let mut word = [0; 4];
        server.read_exact(&mut word).await.unwrap();
        assert_eq!(&word, b"ping");
        server.write_all(b"pong").await.unwrap();
        drop(server);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"pong");
        let mut names = Vec::new();
        for stream in [connect(to, None).await.unwrap(), listener.accept().await.unwrap()] {
            names.push(stream.peer().to_owned());
        }
        (names.remove(0), names.remove(0))
    }

    #[test]
    fn unix_sockets_of_any_path_length() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("d".repeat(100)).join("e".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        for path in [directory.path().join("short"), deep.join("long")] {
            run(async {
                let passive = remote(&format!("punix:{}", path.display()));
                let active = remote(&format!("unix:{}", path.display()));
                // A stale socket is in the way, twice.
                drop(std::os::unix::net::UnixListener::bind(directory.path().join("short")));
                let first = Listener::bind(&passive, None).await.unwrap();
                let second = Listener::bind(&passive, None).await.unwrap();
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o007, 0);
                // The first no longer has a file to remove.
                drop(first);
                let (server, client) = talk(&second, &active).await;
                assert_eq!(server, active.to_string());
                assert!(client.starts_with("unix#"), "{client}");
                drop(second);
                assert!(!path.exists());
                let error = connect(&active, None).await.err().unwrap();
                assert_eq!(error.to_string(), "No such file or directory");
            });
        }
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let passive = remote(&format!("punix:{}", file.path().display()));
        let error = run(Listener::bind(&passive, None)).err().unwrap();
        assert_eq!(error.to_string(), format!("{passive}: binding failed: Address already in use"));
        assert!(file.path().exists());
    }

    #[test]
    fn tcp_on_both_families() {
        for host in ["127.0.0.1", "[::1]"] {
            run(async {
                let listener = Listener::bind(&remote(&format!("ptcp:0:{host}")), None).await;
                let listener = listener.unwrap();
                let port = listener.port().unwrap();
                assert_eq!(listener.name(), format!("ptcp:{port}:{host}"));
                let active = remote(&format!("tcp:{host}:{port}"));
                let (server, client) = talk(&listener, &active).await;
                assert_eq!(server, active.to_string());
                assert!(client.starts_with(&format!("tcp:{host}:")), "{client}");
            });
        }
    }

    #[test]
    fn directions_and_missing_settings_are_told() {
        let text = |error: &dyn std::error::Error| error.to_string();
        run(async {
            let error = connect(&remote("ptcp:1"), None).await.err().unwrap();
            assert_eq!(text(&error), "cannot connect to a passive connection method");
            let error = connect(&remote("ssl:127.0.0.1:1"), None).await.err().unwrap();
            assert!(text(&error).starts_with("a private key, a certificate and"), "{error}");
            let error = Listener::bind(&remote("tcp:127.0.0.1:1"), None).await.err().unwrap();
            assert_eq!(
                text(&error),
                "tcp:127.0.0.1:1: cannot listen on an active connection method"
            );
            let error = Listener::bind(&remote("pssl:0:127.0.0.1"), None).await.err().unwrap();
            assert!(text(&error).starts_with("pssl:0:127.0.0.1: a private key"), "{error}");
        });
    }
}
