//! Messages over a stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use stream::{Stream, error_text};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tracing::{Level, debug, enabled, info, warn};

use super::framer::{FrameError, Framer};
use super::message::{Message, MessageError, parse_json};

/// Bytes taken from the stream at once.
const READ_SIZE: usize = 16 * 1024;
/// Messages waiting to be sent from which on the log says so.
const NOTABLE_BACKLOG: usize = 50;

/// How much a connection may make us hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message that is received.
    pub message: usize,
    /// Bytes of all messages that wait to be sent.
    pub backlog: usize,
}

/// Why a connection is at its end. It is of no further use then.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Reading failed.
    #[error("{}", error_text(.0))]
    Receive(#[source] io::Error),
    /// Writing failed.
    #[error("{}", error_text(.0))]
    Send(#[source] io::Error),
    /// What was received is no sequence of JSON texts.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A text that was received is no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The peer does not take what is sent to it.
    #[error("sending backlog of {bytes} bytes exceeds {limit} bytes")]
    Backlog {
        /// Bytes waiting.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
}

/// A stream of messages in both directions.
pub struct Connection {
    stream: Stream,
    limits: Limits,
    framer: Framer,
    received: u64,
    ended: bool,
    /// Texts waiting to be written.
    output: VecDeque<Vec<u8>>,
    /// Bytes of the first text that are written.
    written: usize,
    /// Bytes in `output` that are not written.
    backlog: usize,
    /// Whether something was written since the stream was last flushed.
    unflushed: bool,
}

impl Connection {
    /// Speaks JSON-RPC over `stream`.
    pub fn new(stream: Stream, limits: Limits) -> Self {
        Self {
            stream,
            limits,
            framer: Framer::new(limits.message),
            received: 0,
            ended: false,
            output: VecDeque::new(),
            written: 0,
            backlog: 0,
            unflushed: false,
        }
    }

    /// Name of the peer.
    pub fn name(&self) -> &str {
        self.stream.peer()
    }

    /// Bytes that were received so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Bytes that wait to be written.
    pub fn backlog(&self) -> usize {
        self.backlog
    }

    /// Queues a message; it is written while [`Self::recv`] or [`Self::flush`] is awaited.
    pub fn send(&mut self, message: Message) -> Result<(), ConnectionError> {
        if enabled!(target: "jsonrpc", Level::DEBUG) {
            debug!(target: "jsonrpc", "{}: send {}", self.name(), message.describe());
        }
        let text = message.into_json().to_string().into_bytes();
        self.backlog += text.len();
        self.output.push_back(text);
        if self.output.len() >= NOTABLE_BACKLOG {
            info!(
                target: "jsonrpc",
                limited = true,
                "excessive sending backlog, jsonrpc: {}, num of msgs: {}, backlog: {}.",
                self.name(),
                self.output.len(),
                self.backlog
            );
        }
        let (bytes, limit) = (self.backlog, self.limits.backlog);
        if bytes > limit {
            warn!(
                target: "jsonrpc",
                "sending backlog exceeded maximum size ({bytes} > {limit} bytes), disconnecting, \
                 jsonrpc: {}.",
                self.name()
            );
            return Err(ConnectionError::Backlog { bytes, limit });
        }
        Ok(())
    }

    /// Waits for the next message, and writes what is queued meanwhile. `None` when the peer closed
    /// the stream. Cancel-safe.
    pub async fn recv(&mut self) -> Result<Option<Message>, ConnectionError> {
        let received = self.recv_unlogged().await;
        let name = self.name();
        match &received {
            Ok(Some(message)) => {
                if enabled!(target: "jsonrpc", Level::DEBUG) {
                    debug!(target: "jsonrpc", "{name}: received {}", message.describe());
                }
            }
            // Usual enough when a peer dies.
            Ok(None) | Err(ConnectionError::Frame(FrameError::Truncated { .. })) => {}
            Err(error) => warn!(
                target: "jsonrpc",
                limited = true,
                "{name}: {}: {error}",
                match error {
                    ConnectionError::Receive(_) => "receive error",
                    ConnectionError::Send(_) | ConnectionError::Backlog { .. } => "send error",
                    ConnectionError::Frame(_)
                    | ConnectionError::Message(MessageError::Syntax(_)) => "error parsing stream",
                    ConnectionError::Message(_) => "received bad JSON-RPC message",
                }
            ),
        }
        received
    }

    async fn recv_unlogged(&mut self) -> Result<Option<Message>, ConnectionError> {
        loop {
            if let Some(text) = self.framer.next_text()? {
                let json = parse_json(&text).map_err(MessageError::Syntax)?;
                return Ok(Some(Message::from_json(json)?));
            }
            if self.ended {
                self.framer.finish()?;
                return Ok(None);
            }
            poll_fn(|cx| {
                if let Poll::Ready(Err(error)) = self.poll_flush(cx) {
                    return Poll::Ready(Err(ConnectionError::Send(error)));
                }
                self.poll_fill(cx).map_err(ConnectionError::Receive)
            })
            .await?;
        }
    }

    /// Waits until everything queued is handed to the system. Cancel-safe.
    pub async fn flush(&mut self) -> Result<(), ConnectionError> {
        poll_fn(|cx| self.poll_flush(cx)).await.map_err(ConnectionError::Send)
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut space = [MaybeUninit::uninit(); READ_SIZE];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        self.framer.push(buffer.filled());
        self.received += buffer.filled().len() as u64;
        self.ended = buffer.filled().is_empty();
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(text) = self.output.front() {
            let rest = text.get(self.written..).unwrap_or_default();
            if rest.is_empty() {
                self.output.pop_front();
                self.written = 0;
                continue;
            }
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
            self.backlog -= count;
            self.unflushed = true;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}
