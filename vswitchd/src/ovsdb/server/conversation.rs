//! Talking with one client.

use std::future::pending;
use std::time::Duration;

use netdev::clock;
use stream::{Action, Reconnect};
use tracing::warn;

use super::shared::OpenSession;
use crate::jsonrpc::{Connection, ConnectionError, Limits, Message};

/// The greatest message that is accepted, and the most that may wait for a client to read. An
/// initial monitor reply for tens of thousands of ports stays far below.
pub(super) const LIMITS: Limits = Limits { message: 64 << 20, backlog: 256 << 20 };
/// A client that takes nothing of what is sent to it for this long is disconnected.
const STALL: Duration = Duration::from_secs(60);

/// Why a conversation ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The client closed the connection.
    #[error("connection closed by peer")]
    Closed,
    /// The client did not answer a probe.
    #[error("no response to inactivity probe")]
    Silent,
    /// The client does not read.
    #[error("client takes nothing of {0} bytes that wait for it")]
    Stalled(usize),
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
}

async fn sleep_until(deadline: Option<Duration>) {
    match deadline {
        Some(deadline) => clock::sleep_until(deadline).await,
        None => pending().await,
    }
}

/// Serves a client until one of the two has had enough. While the client does not take what is
/// sent, its requests wait.
pub(super) async fn talk(
    session: &OpenSession,
    connection: &mut Connection,
    reconnect: &mut Reconnect,
) -> End {
    loop {
        match step(session, connection, reconnect).await {
            Ok(()) => {}
            Err(end) => return end,
        }
    }
}

async fn step(
    session: &OpenSession,
    connection: &mut Connection,
    reconnect: &mut Reconnect,
) -> Result<(), End> {
    if connection.backlog() == 0 {
        for message in session.take_output() {
            connection.send(message)?;
        }
    }
    if connection.backlog() > 0 {
        return flush(connection).await;
    }
    tokio::select! {
        received = connection.recv() => {
            let message = received?.ok_or(End::Closed)?;
            reconnect.activity(clock::now());
            session.receive(message);
        }
        () = session.woken() => {}
        () = sleep_until(reconnect.deadline()) => match reconnect.run(clock::now()) {
            Some(Action::Probe) => connection.send(Message::Request {
                method: "echo".into(),
                params: Vec::new(),
                id: "echo".into(),
            })?,
            Some(Action::Disconnect) => return Err(End::Silent),
            Some(Action::Connect) | None => {}
        }
    }
    Ok(())
}

/// Waits until the client has taken something of what is sent to it.
async fn flush(connection: &mut Connection) -> Result<(), End> {
    let before = connection.backlog();
    tokio::select! {
        flushed = connection.flush() => flushed?,
        () = clock::sleep_until(clock::now() + STALL) => {}
    }
    if connection.backlog() == before {
        warn!(
            target: "ovsdb_jsonrpc_server",
            "{}: client has read nothing for {} seconds, disconnecting",
            connection.name(),
            STALL.as_secs()
        );
        return Err(End::Stalled(before));
    }
    Ok(())
}
