//! What moves the bytes of one connection. It understands no message beyond the hello.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use netdev::clock::{self, Alarm};
use netdev::coverage::Counter;
use stream::{Remote, Stream, connect, error_text};
use tokio::io::{AsyncReadExt, AsyncWriteExt, WriteHalf, split};
use tokio::sync::Notify;
use tracing::{error, warn};

use super::connections::Environment;
use super::event::{Connected, ConnectionId, Event, Happening, Origin};
use super::link::{Action, Link, Loss};
use super::outbox::{Chunk, Class, Outbox};
use super::session::Session;
use crate::openflow::kind::Kind;
use crate::openflow::message::encode_plain;
use crate::openflow::version::{Version, VersionSet};

pub(crate) static RECEIVED: Counter = Counter::new("vconn_received");

/// Bytes that are read at once.
const READ: usize = 32 * 1024;

static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// What the connections of one listener or to one controller have in common.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) switch: Rc<str>,
    pub(super) origin: Origin,
    pub(super) allowed: VersionSet,
    pub(super) probe_interval: Duration,
    pub(super) environment: Environment,
}

impl Context {
    /// Name of a connection with `peer` in the log.
    pub(super) fn name(&self, peer: &str) -> String {
        format!("{}<->{peer}", self.switch)
    }
}

/// Carries on the conversation with a peer that connected to us.
pub(super) async fn serve(stream: Stream, context: Context) {
    let now = clock::now();
    let mut link = Link::new(context.name(stream.peer()), false, now);
    link.set_probe_interval(context.probe_interval);
    link.connecting(now);
    let link = Rc::new(RefCell::new(link));
    let deadline = link.borrow().deadline().unwrap_or(now);
    tokio::select! {
        hello = shake_hands(stream, context.allowed) => match hello {
            Ok(talk) => converse(talk, &context, &link).await,
            Err(cause) => link.borrow_mut().failed(&cause, clock::now()),
        },
        () = clock::sleep_until(deadline) => link.borrow_mut().timed_out(clock::now()),
    }
}

/// Connects to `remote` again and again and carries on the conversation each time. `wake` says
/// that settings of the link changed.
pub(super) async fn dial(
    remote: Remote,
    context: Context,
    link: Rc<RefCell<Link>>,
    wake: Rc<Notify>,
) {
    loop {
        loop {
            let due = link.borrow().deadline().unwrap_or(Duration::MAX);
            tokio::select! {
                () = clock::sleep_until(due) => break,
                () = wake.notified() => {}
            }
        }
        link.borrow_mut().connecting(clock::now());
        let deadline = link.borrow().deadline().unwrap_or(Duration::MAX);
        let tls = context.environment.tls.get();
        let open = connect(&remote, tls.as_deref());
        tokio::pin!(open);
        // What the system refuses at once is told from what it refuses later.
        let at_once = tokio::select! {
            biased;
            opened = &mut open => Some(opened),
            () = std::future::ready(()) => None,
        };
        let attempt = async {
            let stream = match at_once {
                Some(Err(error)) => return Err((true, error.to_string())),
                Some(Ok(stream)) => stream,
                None => open.await.map_err(|error| (false, error.to_string()))?,
            };
            shake_hands(stream, context.allowed).await.map_err(|cause| (false, cause))
        };
        tokio::select! {
            attempt = attempt => match attempt {
                Ok(talk) => converse(talk, &context, &link).await,
                Err((true, cause)) => link.borrow_mut().refused(&cause, clock::now()),
                Err((false, cause)) => link.borrow_mut().failed(&cause, clock::now()),
            },
            () = clock::sleep_until(deadline) => link.borrow_mut().timed_out(clock::now()),
        }
    }
}

/// A connection on which both sides have said hello.
struct Talk {
    stream: Stream,
    session: Session,
    version: Version,
    /// What came after the hello.
    messages: Vec<Vec<u8>>,
}

/// Exchanges hellos. The error is as `strerror` tells it.
async fn shake_hands(mut stream: Stream, allowed: VersionSet) -> Result<Talk, String> {
    let peer = stream.peer().to_owned();
    let mut session = Session::new(&peer, allowed);
    let mut messages = vec![];
    let mut buffer = [0; 2048];
    loop {
        send(&mut stream, &session.take_output()).await?;
        if let Some(version) = session.version() {
            return Ok(Talk { stream, session, version, messages });
        }
        let length = stream.read(&mut buffer).await.map_err(|error| error_text(&error))?;
        if length == 0 {
            return Err("Connection reset by peer".to_owned());
        }
        let received = buffer.get(..length).unwrap_or_default();
        if let Err(error) = session.receive(received, &mut messages) {
            warn!(target: "vconn", limited = true, "{peer}: {error}");
            send(&mut stream, &session.take_output()).await?;
            return Err(PROTOCOL_ERROR.to_owned());
        }
    }
}

/// Text of the error for a peer that does not keep to the protocol.
const PROTOCOL_ERROR: &str = "Protocol error";

async fn send(stream: &mut Stream, bytes: &[u8]) -> Result<(), String> {
    stream.write_all(bytes).await.map_err(|error| error_text(&error))?;
    stream.flush().await.map_err(|error| error_text(&error))
}

/// Carries on a conversation until it ends.
async fn converse(talk: Talk, context: &Context, link: &Rc<RefCell<Link>>) {
    let connection = ConnectionId(CONNECTIONS.fetch_add(1, Ordering::Relaxed));
    let tell = |happening| {
        context.environment.events.push(Event {
            switch: Rc::clone(&context.switch),
            connection,
            happening,
        });
    };
    link.borrow_mut().connected(clock::now());
    let outbox = Outbox::new(talk.stream.peer());
    tell(Happening::Connected(Connected {
        origin: context.origin.clone(),
        version: talk.version,
        link: Rc::clone(link),
        outbox: outbox.clone(),
    }));
    let loss = exchange(talk, link, &outbox, tell).await;
    link.borrow_mut().lost(loss, clock::now());
    outbox.close();
    tell(Happening::Disconnected);
}

/// Moves bytes both ways until the connection ends.
async fn exchange(
    talk: Talk,
    link: &Rc<RefCell<Link>>,
    outbox: &Outbox,
    tell: impl Fn(Happening),
) -> Loss {
    let Talk { stream, mut session, version, messages } = talk;
    let peer = stream.peer().to_owned();
    let needs_flush = stream.needs_flush();
    let (mut reader, mut writer) = split(stream);
    let mut buffer = vec![0; READ];
    let mut chunk = Chunk::default();
    let mut flushed = true;
    let mut alarm = Alarm::default();
    hand_over(messages, link, outbox, &tell);
    loop {
        if chunk.rest().is_empty() {
            outbox.sent(&chunk);
            chunk = outbox.take_chunk();
            if chunk.is_made {
                // However long the reply, packets and other connections get their turn.
                tokio::task::yield_now().await;
            }
        }
        if outbox.is_closed() {
            return Loss::Asked;
        }
        if outbox.is_overflown() {
            return Loss::Error("No buffer space available".to_owned());
        }
        if outbox.resumes() {
            tell(Happening::Drained);
        }
        let due = link.borrow().deadline().unwrap_or(Duration::MAX);
        let has_output = !chunk.rest().is_empty();
        tokio::select! {
            written = write(&mut writer, chunk.rest()), if has_output || !flushed => match written {
                Ok(bytes) => {
                    chunk.advance(bytes);
                    flushed = !has_output || !needs_flush;
                    link.borrow_mut().sent(clock::now());
                }
                Err(error) => return Loss::Error(error_text(&error)),
            },
            length = reader.read(&mut buffer), if outbox.may_read() => {
                let received = match length {
                    Ok(0) => return Loss::Closed,
                    Ok(length) => buffer.get(..length).unwrap_or_default(),
                    Err(error) => return Loss::Error(error_text(&error)),
                };
                let mut messages = vec![];
                let outcome = session.receive(received, &mut messages);
                hand_over(messages, link, outbox, &tell);
                let told = session.take_output();
                if !told.is_empty() {
                    outbox.push_logged(Class::Other, told);
                }
                if let Err(error) = outcome {
                    error!(target: "vconn_stream", limited = true, "{peer}: {error}");
                    return Loss::Error(PROTOCOL_ERROR.to_owned());
                }
            }
            () = outbox.changed() => {}
            () = alarm.ring_at(due) => match link.borrow_mut().run(clock::now()) {
                Some(Action::Probe) => {
                    outbox.push(Class::Other, encode_plain(Kind::EchoRequest, version, 0, &[]));
                }
                Some(Action::GiveUp) => return Loss::Silence,
                None => {}
            },
        }
    }
}

/// Writes some of `bytes`. Without any, makes what was written before leave.
async fn write(writer: &mut WriteHalf<Stream>, bytes: &[u8]) -> io::Result<usize> {
    match bytes {
        [] => writer.flush().await.map(|()| 0),
        bytes => writer.write(bytes).await,
    }
}

/// Hands messages to the control thread.
fn hand_over(
    messages: Vec<Vec<u8>>,
    link: &Rc<RefCell<Link>>,
    outbox: &Outbox,
    tell: impl Fn(Happening),
) {
    if messages.is_empty() {
        return;
    }
    RECEIVED.add(messages.len() as u64);
    let now = clock::now();
    for message in &messages {
        link.borrow_mut().received(admits(message), now);
    }
    outbox.set_busy();
    tell(Happening::Messages(messages));
}

/// Whether a controller sends such a message only once it has accepted the switch, rather than to
/// find out whether it wants to.
fn admits(message: &[u8]) -> bool {
    let asks = [
        Kind::Hello,
        Kind::Error,
        Kind::EchoRequest,
        Kind::EchoReply,
        Kind::FeaturesRequest,
        Kind::GetConfigRequest,
        Kind::SetConfig,
        Kind::QueueGetConfigRequest10,
        Kind::QueueGetConfigRequest11,
        Kind::GetAsyncRequest13,
        Kind::NxGroupStatsRequest,
        Kind::GroupStatsRequest11,
        Kind::NxGroupDescStatsRequest,
        Kind::GroupDescStatsRequest11,
        Kind::GroupDescStatsRequest15,
        Kind::NxGroupFeaturesStatsRequest,
        Kind::GroupFeaturesStatsRequest12,
        Kind::TableFeaturesStatsRequest13,
        Kind::TableDescStatsRequest14,
    ];
    Kind::of(message).is_ok_and(|kind| !asks.contains(&kind))
}
