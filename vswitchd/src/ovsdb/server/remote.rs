//! Remotes: where clients come from, or where they are to be called.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use netdev::clock;
use stream::tls::TlsConfig;
use stream::{Action, Listener, Loss, Reconnect, Remote, Stream, connect, error_text};
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::conversation::{End, LIMITS, talk};
use super::shared::{OpenSession, Shared};
use crate::jsonrpc::Connection;
use crate::ovsdb::lock::SessionId;

/// Wait after a failure to listen or to accept.
const RETRY: Duration = Duration::from_secs(2);

/// How to treat the connections of a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// The longest wait between attempts to connect.
    pub(super) max_backoff: Duration,
    /// Silence after which to probe; zero never probes. `None` probes where a peer can vanish.
    pub(super) probe_interval: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_backoff: Duration::from_secs(8), probe_interval: None }
    }
}

/// How a remote is doing, for the `Manager` table.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The port that is listened on.
    pub(super) port: Cell<Option<u16>>,
    /// The clients that are connected.
    pub(super) sessions: RefCell<Vec<SessionId>>,
    /// Of an active remote: what it is doing, when it was connected and disconnected last, and
    /// why.
    pub(super) name: Cell<Option<&'static str>>,
    pub(super) connected_at: Cell<Option<Duration>>,
    pub(super) disconnected_at: Cell<Option<Duration>>,
    pub(super) last_error: RefCell<Option<String>>,
}

/// A client in the list of a remote; it leaves the list when this is dropped.
struct Listed {
    state: Rc<State>,
    shared: Rc<Shared>,
    session: OpenSession,
}

impl Listed {
    fn new(state: &Rc<State>, shared: &Rc<Shared>) -> Self {
        let session = OpenSession::new(shared);
        state.sessions.borrow_mut().push(session.id());
        shared.status_changed();
        Self { state: Rc::clone(state), shared: Rc::clone(shared), session }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.state.sessions.borrow_mut().retain(|session| *session != self.session.id());
        self.shared.status_changed();
    }
}

fn reconnect(name: &str, remote: &Remote, options: &Options) -> Reconnect {
    let mut reconnect = Reconnect::new(name, clock::now());
    reconnect.set_backoff(Duration::from_secs(1), options.max_backoff);
    match options.probe_interval {
        Some(interval) => reconnect.set_probe_interval(interval),
        None if !remote.needs_probes() => reconnect.set_probe_interval(Duration::ZERO),
        None => {}
    }
    reconnect
}

/// Serves the clients of a remote for good.
pub(super) async fn serve(
    remote: Remote,
    tls: Option<Arc<TlsConfig>>,
    options: Options,
    state: Rc<State>,
    shared: Rc<Shared>,
) {
    if !remote.is_passive() {
        return call(&remote, tls.as_deref(), &options, &state, &shared).await;
    }
    loop {
        match Listener::bind(&remote, tls.clone()).await {
            Ok(listener) => accept(&listener, &remote, &options, &state, &shared).await,
            Err(error) => {
                error!(
                    target: "ovsdb_jsonrpc_server",
                    limited = true,
                    "{remote}: listen failed: {error}"
                );
                clock::sleep_until(clock::now() + RETRY).await;
            }
        }
    }
}

/// Serves the clients that connect to a listener.
pub(super) async fn accept(
    listener: &Listener,
    remote: &Remote,
    options: &Options,
    state: &Rc<State>,
    shared: &Rc<Shared>,
) {
    state.port.set(listener.port());
    shared.status_changed();
    // The clients go with the listener.
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    let mut reconnect = reconnect(stream.peer(), remote, options);
                    reconnect.set_quiet(true);
                    reconnect.connected(clock::now());
                    let listed = Listed::new(state, shared);
                    clients.spawn_local(serve_accepted(stream, listed, reconnect));
                }
                Err(error) => {
                    let (name, text) = (listener.name(), error_text(&error));
                    warn!(
                        target: "ovsdb_jsonrpc_server",
                        limited = true,
                        "{name}: accept failed: {text}"
                    );
                    // Such as too many open files, which would fail again at once.
                    clock::sleep_until(clock::now() + RETRY).await;
                }
            },
            Some(_) = clients.join_next() => {}
        }
    }
}

async fn serve_accepted(stream: Stream, listed: Listed, mut reconnect: Reconnect) {
    let mut connection = Connection::new(stream, LIMITS);
    // Why it ended is logged where it matters.
    let _: End = talk(&listed.session, &mut connection, &mut reconnect).await;
}

/// Keeps a connection to a remote that waits to be called.
async fn call(
    remote: &Remote,
    tls: Option<&TlsConfig>,
    options: &Options,
    state: &Rc<State>,
    shared: &Rc<Shared>,
) {
    let mut reconnect = reconnect(&remote.to_string(), remote, options);
    reconnect.enable(clock::now());
    loop {
        report(state, shared, &reconnect);
        if let Some(deadline) = reconnect.deadline() {
            clock::sleep_until(deadline).await;
        }
        if reconnect.run(clock::now()) != Some(Action::Connect) {
            continue;
        }
        reconnect.connecting(clock::now());
        report(state, shared, &reconnect);
        let deadline = reconnect.deadline().unwrap_or_else(clock::now);
        let connected = tokio::select! {
            connected = connect(remote, tls) => connected.map_err(|error| error.to_string()),
            () = clock::sleep_until(deadline) => {
                Err(error_text(&io::Error::from(io::ErrorKind::TimedOut)))
            }
        };
        match connected {
            Err(error) => {
                reconnect.connect_failed(Loss::Error(&error), clock::now());
                state.last_error.replace(Some(error));
            }
            Ok(stream) => {
                reconnect.connected(clock::now());
                report(state, shared, &reconnect);
                let end = converse(stream, state, shared, &mut reconnect).await;
                let error = end.to_string();
                let loss = match end {
                    End::Closed => Loss::Closed,
                    End::Silent => Loss::Abandoned,
                    End::Stalled(_) | End::Connection(_) => Loss::Error(&error),
                };
                reconnect.disconnected(loss, clock::now());
                state.last_error.replace(Some(error));
            }
        }
    }
}

async fn converse(
    stream: Stream,
    state: &Rc<State>,
    shared: &Rc<Shared>,
    reconnect: &mut Reconnect,
) -> End {
    let listed = Listed::new(state, shared);
    let mut connection = Connection::new(stream, LIMITS);
    talk(&listed.session, &mut connection, reconnect).await
}

fn report(state: &State, shared: &Shared, reconnect: &Reconnect) {
    state.name.set(Some(reconnect.state_name()));
    state.connected_at.set(reconnect.last_connected());
    state.disconnected_at.set(reconnect.last_disconnected());
    shared.status_changed();
}
