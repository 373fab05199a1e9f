//! One open byte stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{Accept, TlsStream};

/// An open byte stream and the name of its other side.
pub struct Stream {
    peer: String,
    transport: Transport,
}

pub(crate) enum Transport {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// An accepted TLS stream before its handshake, which the first read or write carries out, so
    /// that a silent client holds up nobody else.
    Accepting(Box<Accept<TcpStream>>),
}

impl Stream {
    pub(crate) fn new(peer: String, transport: Transport) -> Self {
        Self { peer, transport }
    }

    /// The other side: the remote's text on a stream that was opened, `tcp:127.0.0.1:4242` or
    /// `unix#7` on one that was accepted.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Whether what was written may still have to be flushed.
    pub fn needs_flush(&self) -> bool {
        matches!(self.transport, Transport::Tls(_) | Transport::Accepting(_))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Transport::Tls(stream) = &mut self.transport {
            // Says good-bye, for which there is room nearly always. A peer that gets none takes
            // the end for a possible attack.
            let _ =
                Pin::new(stream.as_mut()).poll_shutdown(&mut Context::from_waker(Waker::noop()));
        }
    }
}

impl Transport {
    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Self::Accepting(accept) = self {
            let stream = ready!(Pin::new(accept.as_mut()).poll(cx))?;
            *self = Self::Tls(Box::new(stream.into()));
        }
        Poll::Ready(Ok(()))
    }
}

/// Calls `$method` of the transport's own stream. The handshake is over by then.
macro_rules! delegate {
    ($transport:expr, $method:ident($($argument:expr),*)) => {
        match $transport {
            Transport::Unix(stream) => Pin::new(stream).$method($($argument),*),
            Transport::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Transport::Tls(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
            Transport::Accepting(_) => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.transport.poll_handshake(cx))?;
        delegate!(&mut self.transport, poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.transport.poll_handshake(cx))?;
        delegate!(&mut self.transport, poll_write(cx, data))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.transport.poll_handshake(cx))?;
        delegate!(&mut self.transport, poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.transport.poll_handshake(cx))?;
        delegate!(&mut self.transport, poll_shutdown(cx))
    }
}
