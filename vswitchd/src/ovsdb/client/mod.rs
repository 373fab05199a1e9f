//! The client of a database: a copy of the tables that its owner reads, kept up to date, and
//! transactions that change them.
//!
//! [`Client`] connects and reconnects; below it, `session` speaks the protocol without input or
//! output, [`Cache`] is the copy and [`Transaction`] computes what to send.

mod cache;
mod lock;
mod monitored;
mod remotes;
mod row;
mod server_database;
mod session;
#[cfg(test)]
mod tests;
mod transaction;
mod update;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use netdev::clock;
use serde_json::Value;
use stream::tls::TlsConfig;
use stream::{Action, ConnectError, Listener, Loss, Reconnect, Remote, Stream, error_text};
use uuid::Uuid;

use self::session::{Reconnection, Session};
use crate::jsonrpc::{Connection, ConnectionError, FrameError, Limits, Message};

pub use self::cache::Cache;
pub use self::monitored::MonitoredTable;
pub use self::remotes::{RemotesError, parse_remotes};
pub use self::row::{Row, StringMap};
pub use self::session::{Event, TransactionId};
pub use self::transaction::{Outcome, Transaction};

/// The server is trusted with our memory: a database is as large as it is.
const LIMITS: Limits = Limits { message: 1 << 30, backlog: 1 << 30 };
/// The id of the requests that find out whether a silent server is alive.
const PROBE_ID: &str = "echo";

/// What a client does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Servers, of which one is used at a time.
    pub remotes: Vec<Remote>,
    /// For remotes with TLS.
    pub tls: Option<Arc<TlsConfig>>,
    /// Name of the database.
    pub database: String,
    /// What to keep a copy of.
    pub monitored: Vec<MonitoredTable>,
    /// A lock without which nothing is written.
    pub lock: Option<String>,
}

/// Keeps a connection to a database server, a copy of what it holds, and changes it.
///
/// The owner awaits [`Client::next_event`] in its loop; nothing happens otherwise.
pub struct Client {
    session: Session,
    remotes: Vec<Remote>,
    /// The place in `remotes` of the one in use.
    current: usize,
    tls: Option<Arc<TlsConfig>>,
    reconnect: Reconnect,
    link: Link,
}

type Connecting = Pin<Box<dyn Future<Output = Result<Stream, ConnectError>> + Send>>;

enum Link {
    Down,
    Connecting(Connecting),
    Listening(Listener),
    Up {
        connection: Box<Connection>,
        /// Bytes received when activity was last reported.
        received: u64,
    },
}

/// What a link brings.
enum Progress {
    Opened(Result<Stream, String>),
    Received(Result<Option<Message>, ConnectionError>),
}

impl Client {
    /// A client that starts to connect when its first event is awaited, to any of the remotes.
    pub fn new(settings: Settings) -> Self {
        let Settings { mut remotes, tls, database, monitored, lock } = settings;
        // Clients of one cluster must not all choose the same server.
        remotes.sort_by_cached_key(|_| Uuid::new_v4());
        let now = clock::now();
        let mut client = Self {
            session: Session::new(&database, monitored, lock.as_deref()),
            remotes,
            current: 0,
            tls,
            reconnect: Reconnect::new("", now),
            link: Link::Down,
        };
        // Each server is tried once before any wait.
        client.reconnect.set_backoff_free_tries(client.count_remotes());
        client.use_current_remote(now);
        client.reconnect.enable(now);
        client
    }

    fn use_current_remote(&mut self, now: Duration) {
        let Some(remote) = self.remotes.get(self.current) else { return };
        self.reconnect.set_name(remote.to_string());
        self.reconnect.set_passive(remote.is_passive(), now);
        if !remote.needs_probes() {
            self.reconnect.set_probe_interval(Duration::ZERO);
        }
    }

    /// The copy of the database. It stays when the server is gone.
    pub fn cache(&self) -> &Cache {
        self.session.cache()
    }

    /// Whether the content of the database was ever received.
    pub fn has_contents(&self) -> bool {
        self.session.has_contents()
    }

    /// Counts the changes of the copy.
    pub fn seqno(&self) -> u64 {
        self.session.seqno()
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        matches!(self.link, Link::Up { .. })
    }

    /// Whether this client has the lock.
    pub fn has_lock(&self) -> bool {
        self.session.has_lock()
    }

    /// Whether another client has the lock.
    pub fn is_contended(&self) -> bool {
        self.session.is_contended()
    }

    /// The number of transactions whose outcome is not known yet.
    pub fn outstanding(&self) -> usize {
        self.session.outstanding()
    }

    /// Sends what of a transaction differs from the copy. Its outcome comes as an event.
    pub fn commit(&mut self, transaction: &Transaction) -> TransactionId {
        self.session.commit(transaction)
    }

    /// Waits until something happens. Cancel-safe.
    pub async fn next_event(&mut self) -> Event {
        loop {
            if let Some(event) = self.session.next_event() {
                return event;
            }
            self.send_queued();
            if let Some(reconnection) = self.session.take_reconnection() {
                self.reconnect_after(reconnection);
            }
            // What has arrived is looked at before the time, which may have passed meanwhile.
            tokio::select! {
                biased;
                progress = self.link.progress() => self.take(progress),
                () = until(self.reconnect.deadline()) => self.run().await,
            }
        }
    }

    fn send_queued(&mut self) {
        while let Some(message) = self.session.next_outgoing() {
            self.send(message);
        }
    }

    fn send(&mut self, message: Message) {
        if let Link::Up { connection, .. } = &mut self.link
            && let Err(error) = connection.send(message)
        {
            self.disconnected(Loss::Error(&error.to_string()));
        }
    }

    fn reconnect_after(&mut self, reconnection: Reconnection) {
        if reconnection == Reconnection::Now {
            // The end of this connection uses up one.
            self.reconnect.set_backoff_free_tries(self.count_remotes().saturating_add(1));
        }
        self.reconnect.force_reconnect(clock::now());
    }

    fn take(&mut self, progress: Progress) {
        let now = clock::now();
        match progress {
            Progress::Opened(Ok(stream)) => {
                let connection = Box::new(Connection::new(stream, LIMITS));
                self.reconnect.connected(now);
                self.session.connected(connection.name());
                self.link = Link::Up { connection, received: 0 };
            }
            Progress::Opened(Err(cause)) => self.failed(&cause),
            Progress::Received(Ok(Some(message))) => {
                self.note_activity(now);
                let is_probe = |id: &Value| id.as_str() == Some(PROBE_ID);
                match message {
                    Message::Reply { id, .. } if is_probe(&id) => {}
                    message => self.session.handle(message),
                }
            }
            Progress::Received(Ok(None)) => self.disconnected(Loss::Closed),
            Progress::Received(Err(error)) => match error {
                ConnectionError::Frame(FrameError::Truncated { .. }) => {
                    self.disconnected(Loss::Closed);
                }
                ConnectionError::Frame(_) | ConnectionError::Message(_) => {
                    self.disconnected(Loss::Error("Protocol error"));
                }
                ConnectionError::Receive(_)
                | ConnectionError::Send(_)
                | ConnectionError::Backlog { .. } => {
                    self.disconnected(Loss::Error(&error.to_string()));
                }
            },
        }
    }

    /// Counts a part of a long message as a sign of life, too.
    fn note_activity(&mut self, now: Duration) {
        if let Link::Up { connection, received } = &mut self.link
            && *received != connection.received()
        {
            *received = connection.received();
            self.reconnect.activity(now);
        }
    }

    async fn run(&mut self) {
        let now = clock::now();
        self.note_activity(now);
        match self.reconnect.run(now) {
            None => {}
            Some(Action::Connect) => self.open().await,
            Some(Action::Disconnect) => self.disconnected(Loss::Abandoned),
            Some(Action::Probe) => self.send(Message::Request {
                method: "echo".to_owned(),
                params: Vec::new(),
                id: PROBE_ID.into(),
            }),
        }
    }

    async fn open(&mut self) {
        let Some(remote) = self.remotes.get(self.current).cloned() else { return };
        let tls = self.tls.clone();
        if remote.is_passive() {
            match Listener::bind(&remote, tls).await {
                Ok(listener) => {
                    self.link = Link::Listening(listener);
                    self.reconnect.listening(clock::now());
                }
                Err(error) => self.failed(&error.to_string()),
            }
        } else {
            let connecting = async move { stream::connect(&remote, tls.as_deref()).await };
            self.link = Link::Connecting(Box::pin(connecting));
            self.reconnect.connecting(clock::now());
        }
    }

    /// An attempt to connect or to listen failed.
    fn failed(&mut self, cause: &str) {
        let now = clock::now();
        self.link = Link::Down;
        self.reconnect.connect_failed(Loss::Error(cause), now);
        self.use_next_remote(now);
    }

    /// The connection ended, or an attempt took too long.
    fn disconnected(&mut self, loss: Loss<'_>) {
        let now = clock::now();
        let link = std::mem::replace(&mut self.link, Link::Down);
        self.reconnect.disconnected(loss, now);
        if matches!(link, Link::Up { .. }) {
            self.session.disconnected();
        }
        self.use_next_remote(now);
    }

    fn use_next_remote(&mut self, now: Duration) {
        self.current = (self.current + 1) % self.remotes.len().max(1);
        self.use_current_remote(now);
    }

    fn count_remotes(&self) -> u32 {
        u32::try_from(self.remotes.len()).unwrap_or(u32::MAX)
    }
}

impl Link {
    /// Waits for what the link brings, for ever if there is none. Cancel-safe.
    async fn progress(&mut self) -> Progress {
        match self {
            Self::Down => std::future::pending().await,
            Self::Connecting(connecting) => {
                Progress::Opened(connecting.await.map_err(|error| error.to_string()))
            }
            Self::Listening(listener) => {
                Progress::Opened(listener.accept().await.map_err(|error| error_text(&error)))
            }
            Self::Up { connection, .. } => Progress::Received(connection.recv().await),
        }
    }
}

/// Waits for a time that may never come.
async fn until(deadline: Option<Duration>) {
    match deadline {
        Some(deadline) => clock::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
