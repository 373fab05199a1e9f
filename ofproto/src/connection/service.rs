//! A socket on which a switch accepts OpenFlow connections.

use stream::{BindError, Listener, Remote, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{AbortHandle, JoinSet, spawn_local};
use tracing::{debug, warn};

use super::Session;
use crate::openflow::version::VersionSet;

/// A listening socket and its connections. Dropping it closes them all.
#[derive(Debug)]
pub struct Service {
    name: String,
    task: AbortHandle,
}

impl Service {
    /// Accepts connections on `remote`, a passive one, on which the versions `allowed` may be
    /// spoken.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn bind(remote: &Remote, allowed: VersionSet) -> Result<Self, BindError> {
        let listener = Listener::bind_unix(remote)?;
        let name = listener.name().to_owned();
        let task = spawn_local(accept(listener, allowed)).abort_handle();
        Ok(Self { name, task })
    }

    /// Where it listens.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connections are in a set of this task, so that they end with it.
async fn accept(listener: Listener, allowed: VersionSet) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    connections.spawn_local(serve(stream, allowed));
                }
                Err(error) => {
                    warn!(
                        target: "vconn", limited = true,
                        "{}: accept failed: {}", listener.name(), stream::error_text(&error)
                    );
                    // What caused it, file descriptors that ran out, say, is likely to last.
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(mut stream: Stream, allowed: VersionSet) {
    let peer = stream.peer().to_owned();
    let mut session = Session::new(allowed);
    let mut buffer = [0; 4096];
    loop {
        // Waits until the peer takes what it is told: one that never reads gets no further
        // request answered and costs no memory.
        if let Err(error) = stream.write_all(&session.take_output()).await {
            debug!(target: "vconn", "{peer}: send failed ({})", stream::error_text(&error));
            return;
        }
        let received = match stream.read(&mut buffer).await {
            Ok(0) => return debug!(target: "vconn", "{peer}: connection closed by peer"),
            Ok(length) => buffer.get(..length).unwrap_or_default(),
            Err(error) => {
                debug!(target: "vconn", "{peer}: receive failed ({})", stream::error_text(&error));
                return;
            }
        };
        if let Err(error) = session.receive(received) {
            warn!(target: "vconn", limited = true, "{peer}: {error}");
            // The connection ends whether or not the peer hears why.
            let _ = stream.write_all(&session.take_output()).await;
            return;
        }
    }
}
