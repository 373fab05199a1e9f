//! The control socket's server side: one task a connection reads requests and passes them to the
//! control thread one at a time, so that answers come in the order of the requests and a peer that
//! does not read holds up only itself.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use netdev::coverage::Counter;
use serde_json::Value;
use stream::{BindError, Listener, Remote, Stream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, spawn_local};
use tracing::{debug, warn};

use super::registry::{Call, Format, Handler, Outcome, Output, Registry, Responder, end_line};
use crate::jsonrpc::{Connection, ConnectionError, Limits, Message};

/// A request is a command line; its answer may be a dump of everything.
const LIMITS: Limits = Limits { message: 1 << 20, backlog: 1 << 30 };
/// Requests that may wait for the control thread before connections have to.
const QUEUE: usize = 64;

/// Requests received.
pub static RECEIVED: Counter = Counter::new("unixctl_received");
/// Answers given.
pub static REPLIED: Counter = Counter::new("unixctl_replied");

/// A request for the control thread. Its call is known to fit the handler's argument bounds.
pub struct Request {
    /// What was asked.
    pub call: Call,
    /// What answers it.
    pub handler: Handler,
    /// Where the answer goes.
    pub responder: Responder,
}

/// The listening socket. Dropping it closes and unlinks the socket.
pub struct Server {
    accept: AbortHandle,
    requests: mpsc::Receiver<Request>,
    /// Connections hold one while they answer, so that the receiver tells when none does.
    answering: mpsc::Sender<Infallible>,
    answered: mpsc::Receiver<Infallible>,
}

impl Server {
    /// Listens on `remote`, a passive unix socket, for calls of the commands in `registry`.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub async fn bind(remote: &Remote, registry: Rc<Registry>) -> Result<Self, BindError> {
        let listener = Listener::bind(remote, None).await?;
        let (sender, requests) = mpsc::channel(QUEUE);
        let (answering, answered) = mpsc::channel(1);
        let answers = Answers { registry, requests: sender, answering: answering.downgrade() };
        let accept = spawn_local(accept(listener, answers)).abort_handle();
        Ok(Self { accept, requests, answering, answered })
    }

    /// The next request. Cancel-safe.
    pub async fn next(&mut self) -> Option<Request> {
        self.requests.recv().await
    }

    /// Closes the socket once the answers given so far are written; a peer that does not read
    /// them within a second goes without.
    pub async fn close(self) {
        let Self { accept, answering, mut answered, .. } = self;
        accept.abort();
        drop(answering);
        let _ = tokio::time::timeout(Duration::from_secs(1), answered.recv()).await;
    }
}

/// What a connection needs to answer requests.
#[derive(Clone)]
struct Answers {
    registry: Rc<Registry>,
    requests: mpsc::Sender<Request>,
    answering: mpsc::WeakSender<Infallible>,
}

async fn accept(listener: Listener, answers: Answers) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                spawn_local(serve(stream, answers.clone()));
            }
            Err(error) => accept_failed(&listener, &error).await,
        }
    }
}

/// Waits a little before the next try, since the cause (file descriptors have run out, say) is
/// likely to last.
async fn accept_failed(listener: &Listener, error: &io::Error) {
    warn!(
        target: "unixctl", limited = true,
        "{}: accept failed: {}", listener.name(), stream::error_text(error)
    );
    tokio::time::sleep(Duration::from_millis(100)).await;
}

async fn serve(stream: Stream, answers: Answers) {
    let mut connection = Connection::new(stream, LIMITS);
    if let Err(error) = serve_requests(&mut connection, &answers).await {
        warn!(target: "unixctl", limited = true, "{}: {error}", connection.name());
    }
}

async fn serve_requests(
    connection: &mut Connection,
    answers: &Answers,
) -> Result<(), ConnectionError> {
    let mut format = Format::default();
    while let Some(message) = connection.recv().await? {
        let Some(_answering) = answers.answering.upgrade() else { return Ok(()) };
        let Message::Request { method, params, id } = message else {
            warn!(
                target: "unixctl", limited = true,
                "{}: received a message that is no request", connection.name()
            );
            return Ok(());
        };
        RECEIVED.add(1);
        let outcome = match Call::from_request(method, params, format) {
            Ok(call) => answer(call, answers, &mut format, &id).await,
            Err(error) => Err(error),
        };
        REPLIED.add(1);
        let reply = match outcome {
            Ok(output) => Message::Reply { result: output.into_result(format), id },
            Err(error) => Message::Error { error: Value::String(end_line(error)), id },
        };
        connection.send(reply)?;
        connection.flush().await?;
    }
    Ok(())
}

async fn answer(call: Call, answers: &Answers, format: &mut Format, id: &Value) -> Outcome {
    debug!(
        target: "unixctl",
        "received request {}[{}], id={id}", call.command, call.arguments.join(" ")
    );
    let outcome = match answers.registry.find(&call).map_err(|error| error.to_string())? {
        Handler::Connection => set_options(&call, format),
        handler => {
            let (responder, answer) = Responder::new();
            let request = Request { call, handler, responder };
            // Both fail only when the process is about to end.
            let sent = answers.requests.send(request).await.is_ok();
            let answer = if sent { answer.await.ok() } else { None };
            answer.unwrap_or_else(|| Err("the daemon is exiting".to_owned()))
        }
    };
    match &outcome {
        Ok(output) => debug!(
            target: "unixctl",
            "replying with success, id={id}: {}", output.clone().into_result(*format)
        ),
        Err(error) => debug!(target: "unixctl", "replying with error, id={id}: \"{error}\""),
    }
    outcome
}

fn set_options(call: &Call, format: &mut Format) -> Outcome {
    let mut arguments = call.arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let value = match argument.strip_prefix("--format") {
            Some("") => arguments.next().ok_or("option '--format' requires an argument")?,
            Some(value) if value.starts_with('=') => &value[1..],
            _ if argument.starts_with('-') => {
                return Err(format!("unrecognized option '{argument}'"));
            }
            _ => return Err(format!("unexpected argument '{argument}' (only options are taken)")),
        };
        *format = match value.to_ascii_lowercase().as_str() {
            "text" => Format::Text,
            "json" => Format::Json,
            _ => return Err(format!("option format has invalid value {value}")),
        };
    }
    Ok(Output::none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(arguments: &[&str]) -> (Result<(), String>, Format) {
        let call = Call {
            command: "set-options".to_owned(),
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
            format: Format::Text,
        };
        let mut format = Format::Text;
        let outcome = set_options(&call, &mut format).map(|_| ());
        (outcome, format)
    }

    #[test]
    fn options_set_the_format() {
        assert_eq!(set(&[]), (Ok(()), Format::Text));
        assert_eq!(set(&["--format", "json"]), (Ok(()), Format::Json));
        assert_eq!(set(&["--format=JSON"]), (Ok(()), Format::Json));
        assert_eq!(set(&["--format", "json", "--format=text"]), (Ok(()), Format::Text));
        let error = |text: &str| (Err(text.to_owned()), Format::Text);
        assert_eq!(set(&["--format", "xml"]), error("option format has invalid value xml"));
        assert_eq!(set(&["--format"]), error("option '--format' requires an argument"));
        assert_eq!(set(&["--other"]), error("unrecognized option '--other'"));
        assert_eq!(set(&["x"]), error("unexpected argument 'x' (only options are taken)"));
    }
}
