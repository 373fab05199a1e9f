//! Byte streams that carry the frames of dummy ports, also between processes.
//!
//! Each frame goes as its length, two bytes big-endian, and its bytes.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use super::address::{Address, Endpoint};
use super::{Dummy, options};
use crate::{clock, errno};

/// Most frames that wait to be sent on a stream; what comes after is dropped.
const MAX_WAITING: usize = 100;
/// A shorter frame is not Ethernet, so the peer is no dummy port.
const MIN_FRAME_LENGTH: u16 = 14;
const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_millis(i32::MAX as u64);

/// The open connection of a dummy port. Dropping it closes all its streams.
#[derive(Debug)]
pub(super) struct Connection {
    outputs: Outputs,
    task: AbortHandle,
    /// Removes the listening socket's file.
    _socket_file: Option<SocketFile>,
}

impl Connection {
    /// Starts to connect or to listen for `dummy`, on the current tokio runtime.
    pub(super) fn open(wanted: &options::Connection, dummy: &Arc<Dummy>) -> io::Result<Self> {
        let runtime = Handle::try_current().map_err(io::Error::other)?;
        let outputs = Outputs::default();
        let link = Link { dummy: Arc::downgrade(dummy), outputs: outputs.clone() };
        let (task, socket_file) = match wanted {
            options::Connection::Active(address) => {
                (runtime.spawn(stay_connected(address.clone(), link)), None)
            }
            options::Connection::Passive(address) => match &address.endpoint {
                Endpoint::Unix(path) => {
                    let (listener, socket_file) = bind_unix(path.clone())?;
                    let accept = async move || listener.accept().await.map(|(stream, _)| stream);
                    (runtime.spawn(serve(address.clone(), accept, link)), Some(socket_file))
                }
                Endpoint::Tcp(ip, port) => {
                    let listener = bind_tcp(ip, *port)?;
                    let accept = async move || listener.accept().await.map(|(stream, _)| stream);
                    (runtime.spawn(serve(address.clone(), accept, link)), None)
                }
            },
        };
        Ok(Self { outputs, task: task.abort_handle(), _socket_file: socket_file })
    }

    /// Queues `frame` on every open stream, and returns how many streams lost it.
    pub(super) fn send(&self, frame: &[u8]) -> u64 {
        self.outputs.send(frame)
    }

    /// Whether a stream is open.
    pub(super) fn is_connected(&self) -> bool {
        self.outputs.is_connected()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever removed it before us did the same.
        let _ = fs::remove_file(&self.0);
    }
}

fn bind_unix(path: PathBuf) -> io::Result<(UnixListener, SocketFile)> {
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok((UnixListener::bind(&path)?, SocketFile(path)))
}

fn bind_tcp(ip: &str, port: u16) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind((ip, port))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// The queues of the open streams of a connection.
#[derive(Clone, Debug, Default)]
struct Outputs(Arc<Mutex<Vec<mpsc::Sender<Vec<u8>>>>>);

impl Outputs {
    /// Adds a stream, which is open as long as the receiver is not dropped.
    fn add(&self) -> mpsc::Receiver<Vec<u8>> {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        self.lock().push(sender);
        receiver
    }

    fn send(&self, frame: &[u8]) -> u64 {
        let mut lost = 0;
        let length = u16::try_from(frame.len());
        for output in self.lock().iter() {
            let queued = length.is_ok_and(|length| {
                let prefixed = [&length.to_be_bytes()[..], frame].concat();
                output.try_send(prefixed).is_ok()
            });
            lost += u64::from(!queued);
        }
        lost
    }

    fn is_connected(&self) -> bool {
        !self.lock().is_empty()
    }

    /// The senders whose receivers are there still.
    fn lock(&self) -> MutexGuard<'_, Vec<mpsc::Sender<Vec<u8>>>> {
        let mut outputs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        outputs.retain(|output| !output.is_closed());
        outputs
    }
}

/// What a stream connects.
#[derive(Clone)]
struct Link {
    dummy: Weak<Dummy>,
    outputs: Outputs,
}

/// Why a stream ended.
enum End {
    ClosedByPeer,
    Error(io::Error),
}

impl Link {
    /// Carries frames between the port and `stream` until that ends.
    async fn carry(&self, stream: impl AsyncRead + AsyncWrite) -> End {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut output = self.outputs.add();
        let write = async {
            while let Some(frame) = output.recv().await {
                writer.write_all(&frame).await?;
            }
            Ok(())
        };
        let ended = tokio::select! {
            ended = self.read(BufReader::new(reader)) => ended,
            ended = write => ended,
        };
        match ended {
            Ok(()) => End::ClosedByPeer,
            Err(error) => End::Error(error),
        }
    }

    /// Puts frames from `reader` on the port's receive queue until its end.
    async fn read(&self, mut reader: impl AsyncRead + Unpin) -> io::Result<()> {
        let protocol_error = || io::Error::from(Errno::PROTO);
        let cut_short = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => protocol_error(),
            _ => error,
        };
        loop {
            let first = match reader.read_u8().await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                first => first?,
            };
            let second = reader.read_u8().await.map_err(cut_short)?;
            let length = u16::from_be_bytes([first, second]);
            if length < MIN_FRAME_LENGTH {
                return Err(protocol_error());
            }
            let mut frame = vec![0; length.into()];
            reader.read_exact(&mut frame).await.map_err(cut_short)?;
            match self.dummy.upgrade() {
                Some(dummy) => dummy.inject(0, frame),
                None => return Ok(()),
            }
        }
    }
}

/// Carries frames on the streams that `accept` yields.
async fn serve<S>(address: Address, mut accept: impl AsyncFnMut() -> io::Result<S>, link: Link)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    static ACCEPTED: AtomicU64 = AtomicU64::new(0);
    let mut streams = JoinSet::new();
    loop {
        match accept().await {
            Ok(stream) => {
                let name = format!("unix#{}", ACCEPTED.fetch_add(1, Ordering::Relaxed));
                let link = link.clone();
                streams.spawn(async move {
                    let reason = match link.carry(stream).await {
                        End::ClosedByPeer => "End of file".to_owned(),
                        End::Error(error) => errno::io_description(&error),
                    };
                    tracing::debug!(
                        target: "netdev_dummy",
                        "{name}: closing connection ({reason})"
                    );
                });
            }
            Err(error) => {
                let reason = errno::io_description(&error);
                tracing::warn!(target: "netdev_dummy", "{address}: accept failed ({reason})");
                break;
            }
        }
        while streams.try_join_next().is_some() {}
    }
    while streams.join_next().await.is_some() {}
}

/// Connects to `address` again and again, and carries frames while connected.
async fn stay_connected(address: Address, link: Link) {
    match &address.endpoint {
        Endpoint::Unix(path) => reconnect(&address, || UnixStream::connect(path), &link).await,
        Endpoint::Tcp(host, port) => {
            let connect = || async {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Ok(stream)
            };
            reconnect(&address, connect, &link).await;
        }
    }
}

async fn reconnect<S, F>(address: &Address, connect: impl Fn() -> F, link: &Link)
where
    S: AsyncRead + AsyncWrite,
    F: Future<Output = io::Result<S>>,
{
    let mut backoff = Duration::ZERO;
    loop {
        tracing::info!(target: "reconnect", "{address}: connecting...");
        let mut connected_at = None;
        match connect().await {
            Ok(stream) => {
                tracing::info!(target: "reconnect", "{address}: connected");
                connected_at = Some(clock::now());
                match link.carry(stream).await {
                    End::ClosedByPeer => {
                        tracing::info!(target: "reconnect", "{address}: connection closed by peer");
                    }
                    End::Error(error) => {
                        let reason = errno::io_description(&error);
                        tracing::warn!(
                            target: "reconnect",
                            "{address}: connection dropped ({reason})"
                        );
                    }
                }
            }
            Err(error) => {
                let reason = errno::io_description(&error);
                tracing::info!(
                    target: "reconnect",
                    "{address}: connection attempt failed ({reason})"
                );
            }
        }
        let lasted = connected_at.map(|at| clock::now().saturating_sub(at));
        if backoff < MIN_BACKOFF || lasted.is_some_and(|lasted| lasted >= backoff) {
            backoff = MIN_BACKOFF;
        } else {
            backoff = (backoff * 2).min(MAX_BACKOFF);
            let seconds = backoff.as_secs_f64();
            tracing::info!(
                target: "reconnect",
                "{address}: waiting {seconds} seconds before reconnect"
            );
        }
        clock::sleep_until(clock::now() + backoff).await;
    }
}
