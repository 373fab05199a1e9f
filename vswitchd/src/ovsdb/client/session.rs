//! The protocol with one server after another, without input or output.
//!
//! On each connection it finds the database's schema, asks for the lock and for the content, by the
//! newest method that the server knows, and then takes updates. What is to be sent and what the
//! owner is to know waits in queues.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};
use tracing::{debug, info, warn};
use uuid::Uuid;

use super::cache::Cache;
use super::lock::Lock;
use super::monitored::MonitoredTable;
use super::server_database::{self, ServerDatabase};
use super::transaction::{Compiled, Expected, Outcome, Transaction};
use super::update::{Method, UpdateError};
use crate::jsonrpc::{Message, parse_json};
use crate::ovsdb::atom::parse_uuid;
use crate::ovsdb::schema::DatabaseSchema;

/// Tells the transactions of a client apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(u64);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a connection. What the copy holds is still from before.
    Connected,
    /// The connection ended. The copy stays as it is, the lock is gone.
    Disconnected,
    /// This client has the lock.
    LockGranted,
    /// Another client has the lock; it may be granted later.
    LockHeldElsewhere,
    /// This client had the lock and another one stole it.
    LockLost,
    /// The copy changed, or is there for the first time.
    Changed,
    /// A transaction is over.
    TransactionDone(TransactionId, Outcome),
}

/// How far the conversation on a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Disconnected,
    /// Waits for the schema of the server's own database.
    ServerSchema,
    /// Waits for the content of the server's own database.
    ServerMonitor,
    /// Waits for the schema of the database, of a server without an own database.
    Schema,
    /// Waits for the content of the database.
    Monitor(Method),
    /// Takes updates.
    Monitoring,
    /// Waits for the connection to end, since the server is of no use.
    Retry,
}

/// Whether, and how soon, to connect anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reconnection {
    /// After the usual wait: this server is of no use now.
    Later,
    /// At once: this server was fine until now.
    Now,
}

pub(super) struct Session {
    monitored: Vec<MonitoredTable>,
    cache: Cache,
    /// Whether the content was ever received.
    has_contents: bool,
    seqno: u64,
    /// The last transaction whose changes are in the copy; nil if unknown.
    last_transaction: Uuid,
    server: ServerDatabase,
    lock: Option<Lock>,

    /// Names the server in log lines.
    peer: String,
    state: State,
    /// The request whose reply `state` waits for.
    request: u64,
    next_id: u64,
    transactions: BTreeMap<TransactionId, Expected>,
    outgoing: VecDeque<Message>,
    events: VecDeque<Event>,
    reconnection: Option<Reconnection>,
}

impl Session {
    pub(super) fn new(database: &str, monitored: Vec<MonitoredTable>, lock: Option<&str>) -> Self {
        Self {
            monitored,
            cache: Cache::new(database),
            has_contents: false,
            seqno: 0,
            last_transaction: Uuid::nil(),
            server: ServerDatabase::new(),
            lock: lock.map(Lock::new),
            peer: String::new(),
            state: State::Disconnected,
            request: 0,
            next_id: 0,
            transactions: BTreeMap::new(),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            reconnection: None,
        }
    }

    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(super) fn outstanding(&self) -> usize {
        self.transactions.len()
    }

    pub(super) fn has_contents(&self) -> bool {
        self.has_contents
    }

    pub(super) fn seqno(&self) -> u64 {
        self.seqno
    }

    pub(super) fn has_lock(&self) -> bool {
        self.lock.as_ref().is_some_and(Lock::is_held)
    }

    pub(super) fn is_contended(&self) -> bool {
        self.lock.as_ref().is_some_and(Lock::is_contended)
    }

    pub(super) fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn next_outgoing(&mut self) -> Option<Message> {
        self.outgoing.pop_front()
    }

    /// Whether the connection is of no more use, told once.
    pub(super) fn take_reconnection(&mut self) -> Option<Reconnection> {
        self.reconnection.take()
    }

    /// A new connection, to `peer`.
    pub(super) fn connected(&mut self, peer: &str) {
        peer.clone_into(&mut self.peer);
        self.reconnection = None;
        self.events.push_back(Event::Connected);
        self.restart();
        self.request_lock();
    }

    /// The connection ended.
    pub(super) fn disconnected(&mut self) {
        self.enter(State::Disconnected);
        self.outgoing.clear();
        if let Some(lock) = &mut self.lock {
            lock.disconnected();
        }
        for id in std::mem::take(&mut self.transactions).into_keys() {
            self.events.push_back(Event::TransactionDone(id, Outcome::TryAgain));
        }
        self.events.push_back(Event::Disconnected);
    }

    /// Sends what differs from the copy.
    pub(super) fn commit(&mut self, transaction: &Transaction) -> TransactionId {
        let id = TransactionId(self.new_id());
        let lock = self.lock.as_ref();
        let outcome = if self.state != State::Monitoring {
            Outcome::TryAgain
        } else if lock.is_some_and(|lock| !lock.is_held()) {
            Outcome::NotLocked
        } else {
            match transaction.compile(&self.cache, lock.map(Lock::name)) {
                None => Outcome::Unchanged,
                Some(Compiled { operations, expected }) => {
                    let mut params = vec![self.cache.database().into()];
                    params.extend(operations);
                    self.outgoing.push_back(Message::Request {
                        method: "transact".to_owned(),
                        params,
                        id: id.0.into(),
                    });
                    self.transactions.insert(id, expected);
                    return id;
                }
            }
        };
        self.events.push_back(Event::TransactionDone(id, outcome));
        id
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn send(&mut self, method: &str, params: Vec<Value>) -> u64 {
        let id = self.new_id();
        let method = method.to_owned();
        self.outgoing.push_back(Message::Request { method, params, id: id.into() });
        id
    }

    fn enter(&mut self, state: State) {
        debug!(target: "ovsdb_cs", "{}: {:?} -> {state:?}", self.peer, self.state);
        self.state = state;
    }

    /// Sends a request whose reply leads on from `state`.
    fn ask(&mut self, state: State, method: &str, params: Vec<Value>) {
        self.request = self.send(method, params);
        self.enter(state);
    }

    fn restart(&mut self) {
        self.ask(State::ServerSchema, "get_schema", vec![server_database::NAME.into()]);
    }

    fn ask_for_schema(&mut self) {
        self.ask(State::Schema, "get_schema", vec![self.cache.database().into()]);
    }

    fn ask_for_contents(&mut self, method: Method) {
        let database = self.cache.database();
        let mut params = vec![database.into(), monitor_id(database), self.cache.monitor_requests()];
        if method == Method::CondSince {
            params.push(self.last_transaction.to_string().into());
        }
        self.ask(State::Monitor(method), method.request(), params);
    }

    fn give_up(&mut self, reconnection: Reconnection) {
        self.reconnection = Some(reconnection);
        self.enter(State::Retry);
    }

    /// Takes a message from the server.
    pub(super) fn handle(&mut self, message: Message) {
        let message = match message {
            Message::Reply { result, id } if self.is_awaited(&id) => {
                return self.reply(&result);
            }
            Message::Error { error, id } if self.is_awaited(&id) => return self.refusal(&error),
            Message::Reply { result, id } => match self.other_reply(&result, &id) {
                true => return,
                false => Message::Reply { result, id },
            },
            Message::Error { error, id } => match self.transaction_error(&error, &id) {
                true => return,
                false => Message::Error { error, id },
            },
            Message::Notify { method, params } => match self.notification(&method, &params) {
                true => return,
                false => Message::Notify { method, params },
            },
            Message::Request { method, params, id } if method == "echo" => {
                return self.outgoing.push_back(Message::Reply { result: params.into(), id });
            }
            message @ Message::Request { .. } => message,
        };
        debug!(
            target: "ovsdb_cs",
            "{}: received unexpected {}",
            self.peer,
            message.into_json()
        );
    }

    fn is_awaited(&self, id: &Value) -> bool {
        let awaiting =
            !matches!(self.state, State::Disconnected | State::Monitoring | State::Retry);
        awaiting && id.as_u64() == Some(self.request)
    }

    fn reply(&mut self, result: &Value) {
        match self.state {
            State::ServerSchema => self.server_schema(result),
            State::ServerMonitor => {
                let taken = self.server.cache.replace(result, Method::Cond);
                if self.check_server(taken.map(|_| ())) {
                    // Without this the server would end the connection when its databases change.
                    self.send("set_db_change_aware", vec![true.into()]);
                }
            }
            State::Schema => match self.set_schema(result) {
                true => self.ask_for_contents(Method::Cond),
                false => self.give_up(Reconnection::Later),
            },
            State::Monitor(method) => self.contents(result, method),
            State::Disconnected | State::Monitoring | State::Retry => {}
        }
    }

    /// The server refused what was asked. Older ones do not know everything.
    fn refusal(&mut self, error: &Value) {
        match self.state {
            State::ServerSchema | State::ServerMonitor => self.ask_for_schema(),
            State::Monitor(Method::CondSince) => self.ask_for_contents(Method::Cond),
            State::Monitor(Method::Cond) => self.ask_for_contents(Method::Plain),
            state => {
                info!(
                    target: "ovsdb_cs",
                    limited = true,
                    "{}: received unexpected error response in {state:?} state: {error}",
                    self.peer
                );
                self.give_up(Reconnection::Later);
            }
        }
    }

    fn server_schema(&mut self, result: &Value) {
        match DatabaseSchema::from_json(result) {
            Ok(schema) => {
                self.server.set_schema(&schema);
                let params = vec![
                    server_database::NAME.into(),
                    monitor_id(server_database::NAME),
                    self.server.cache.monitor_requests(),
                ];
                self.ask(State::ServerMonitor, Method::Cond.request(), params);
            }
            Err(error) => {
                warn!(target: "ovsdb_cs", "error parsing database schema: {error}");
                self.ask_for_schema();
            }
        }
    }

    fn set_schema(&mut self, schema: &Value) -> bool {
        match DatabaseSchema::from_json(schema) {
            Ok(schema) => {
                if !self.cache.set_schema(&schema, &self.monitored) {
                    self.last_transaction = Uuid::nil();
                }
                true
            }
            Err(error) => {
                warn!(target: "ovsdb_cs", "error parsing database schema: {error}");
                false
            }
        }
    }

    /// Looks whether the server, by what it says of itself, is one to use; gives it up otherwise.
    /// Goes on to ask for the contents if that was not done.
    fn check_server(&mut self, taken: Result<(), UpdateError>) -> bool {
        if let Err(error) = taken {
            warn!(target: "ovsdb_cs", limited = true, "{error}");
            self.give_up(Reconnection::Later);
            return false;
        }
        let reconnection = match self.state {
            State::Monitoring => Reconnection::Now,
            _ => Reconnection::Later,
        };
        match self.server.usable_schema(self.cache.database()) {
            Err(problem) => {
                info!(target: "ovsdb_cs", limited = true, "{}: {problem}", self.peer);
                self.give_up(reconnection);
                false
            }
            Ok(_) if self.state != State::ServerMonitor => true,
            Ok(schema) => {
                let known = parse_json(&schema).is_ok_and(|schema| self.set_schema(&schema));
                if known {
                    self.ask_for_contents(Method::CondSince);
                } else {
                    self.give_up(reconnection);
                }
                known
            }
        }
    }

    /// Takes the content of the database.
    fn contents(&mut self, result: &Value, method: Method) {
        let taken = match method {
            Method::Plain | Method::Cond => self.cache.replace(result, method),
            Method::CondSince => match result.as_array().map(Vec::as_slice) {
                Some([Value::Bool(found), Value::String(last), updates]) => {
                    self.last_transaction = parse_uuid(last).unwrap_or_default();
                    match found {
                        true => self.cache.apply(updates, method),
                        false => self.cache.replace(updates, method),
                    }
                }
                _ => Err(UpdateError::Syntax {
                    json: result.to_string(),
                    problem: "bad monitor_cond_since reply format",
                }),
            },
        };
        self.enter(State::Monitoring);
        let first = !std::mem::replace(&mut self.has_contents, true);
        self.changed(taken.map(|changed| changed || first));
    }

    /// Tells of a change of the copy, or gives the connection up when the copy went wrong.
    fn changed(&mut self, taken: Result<bool, UpdateError>) {
        match taken {
            Ok(false) => {}
            Ok(true) => {
                self.seqno += 1;
                self.events.push_back(Event::Changed);
            }
            Err(error) => {
                warn!(target: "ovsdb_idl", limited = true, "{error}");
                self.last_transaction = Uuid::nil();
                self.give_up(Reconnection::Now);
            }
        }
    }

    fn notification(&mut self, method: &str, params: &[Value]) -> bool {
        match method {
            "locked" => self.lock_notification(params, true),
            "stolen" => self.lock_notification(params, false),
            "monitor_canceled" => self.monitor_canceled(params),
            _ => Method::of_notification(method).is_some_and(|method| self.update(method, params)),
        }
    }

    fn update(&mut self, method: Method, params: &[Value]) -> bool {
        let (id, last, updates) = match (method, params) {
            (Method::Plain | Method::Cond, [id, updates]) => (id, None, updates),
            (Method::CondSince, [id, Value::String(last), updates]) => (id, Some(last), updates),
            _ => return false,
        };
        if *id == monitor_id(self.cache.database()) {
            if self.state != State::Monitoring {
                return false;
            }
            if let Some(last) = last {
                self.last_transaction = parse_uuid(last).unwrap_or_default();
            }
            let taken = self.cache.apply(updates, method);
            self.changed(taken);
            true
        } else if *id == monitor_id(server_database::NAME) {
            let taken = self.server.cache.apply(updates, method);
            self.check_server(taken.map(|_| ()));
            true
        } else {
            false
        }
    }

    /// The server ended a monitor, since it converted or replaced the database: start again.
    fn monitor_canceled(&mut self, params: &[Value]) -> bool {
        let [data, server] =
            [self.cache.database(), server_database::NAME].map(|name| vec![monitor_id(name)]);
        let other = if params == data {
            server
        } else if params == server {
            data
        } else {
            return false;
        };
        self.send("monitor_cancel", other);
        self.restart();
        true
    }

    fn request_lock(&mut self) {
        if let Some(lock) = &self.lock {
            let params = vec![lock.name().into()];
            let request = self.send("lock", params);
            self.lock.iter_mut().for_each(|lock| lock.requested(request));
        }
    }

    fn lock_notification(&mut self, params: &[Value], held: bool) -> bool {
        match &mut self.lock {
            Some(lock) if lock.is_named_in(params) => {
                self.events.extend(lock.update(held));
                true
            }
            _ => false,
        }
    }

    /// Takes replies that `state` does not wait for.
    fn other_reply(&mut self, result: &Value, id: &Value) -> bool {
        let Some(id) = id.as_u64() else { return false };
        if let Some(lock) = &mut self.lock
            && lock.awaits(id)
        {
            self.events.extend(lock.answered(result));
            return true;
        }
        match self.transactions.remove(&TransactionId(id)) {
            Some(expected) => {
                let outcome = expected.outcome(result);
                self.events.push_back(Event::TransactionDone(TransactionId(id), outcome));
                true
            }
            None => false,
        }
    }

    fn transaction_error(&mut self, error: &Value, id: &Value) -> bool {
        let Some(id) = id.as_u64().map(TransactionId) else { return false };
        if self.transactions.remove(&id).is_none() {
            return false;
        }
        let outcome = match error.as_str() {
            // The database was converted or replaced meanwhile.
            Some("canceled") => Outcome::TryAgain,
            _ => Outcome::Error(super::transaction::error_text(error)),
        };
        self.events.push_back(Event::TransactionDone(id, outcome));
        true
    }
}

/// Tells the monitors of a connection apart.
fn monitor_id(database: &str) -> Value {
    json!(["monid", database])
}
