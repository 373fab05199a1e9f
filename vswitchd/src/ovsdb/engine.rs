//! The OVSDB server without sockets and clock: messages of clients in, messages to clients out.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::database::{Changes, Database};
use super::databases::{DatabaseIndex, Databases, MAIN};
use super::error::{Error, ErrorKind};
use super::lock::{LockNames, Locks, Mode, SessionId};
use super::monitor::Version;
use super::object::is_id;
use super::operation::{self, Context, Outcome};
use super::session::Session;
use super::storage::{Storage, StorageError};
use super::transaction::Transaction;
use crate::jsonrpc::Message;

/// The time at which something happens.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// On the clock of the timers.
    pub now: Duration,
    /// Since the Unix epoch.
    pub date: Duration,
}

/// A transaction that waits for the database to change.
#[derive(Debug)]
struct Parked {
    session: SessionId,
    id: Value,
    database: DatabaseIndex,
    operations: Vec<Value>,
    asked_at: Duration,
    deadline: Option<Duration>,
}

/// What a request comes to.
enum Answer {
    Result(Value),
    Error(Value),
    /// It comes later.
    Later,
}

impl From<Result<Value, Error>> for Answer {
    fn from(result: Result<Value, Error>) -> Self {
        match result {
            Ok(result) => Self::Result(result),
            Err(error) => Self::Error(error.to_json()),
        }
    }
}

/// Numbers for `memory/show`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Rows of the database.
    pub rows: usize,
    /// Clients.
    pub sessions: usize,
    /// Monitors of all clients.
    pub monitors: usize,
    /// Transactions that wait.
    pub triggers: usize,
}

/// A server of one database.
#[derive(Debug)]
pub struct Engine {
    databases: Databases,
    storage: Storage,
    id: Uuid,
    sessions: BTreeMap<SessionId, Session>,
    next_session: u64,
    locks: Locks,
    parked: Vec<Parked>,
    /// Whether the database changed since waiting transactions were tried.
    changed: bool,
}

impl Engine {
    /// Serves a database from its file.
    ///
    /// # Errors
    /// The schema of `_Server` is broken.
    pub fn new(storage: Storage, database: Database) -> Result<Self, Error> {
        Ok(Self {
            databases: Databases::new(database)?,
            storage,
            id: Uuid::new_v4(),
            sessions: BTreeMap::new(),
            next_session: 0,
            locks: Locks::default(),
            parked: Vec::new(),
            changed: false,
        })
    }

    /// The database from the file.
    pub fn database(&self) -> &Database {
        self.databases.get(MAIN).database()
    }

    /// The names of all databases.
    pub fn database_names(&self) -> impl Iterator<Item = &str> {
        self.databases.names()
    }

    /// The locks that a session asked for.
    pub fn locks_of(&self, session: SessionId) -> LockNames {
        self.locks.names(session)
    }

    /// Numbers of things held.
    pub fn usage(&self) -> Usage {
        Usage {
            rows: self.database().tables().iter().map(|table| table.row_count()).sum(),
            sessions: self.sessions.len(),
            monitors: self.sessions.values().map(Session::monitor_count).sum(),
            triggers: self.parked.len(),
        }
    }

    /// Starts a session.
    pub fn open_session(&mut self) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        self.sessions.insert(id, Session::default());
        id
    }

    /// Ends a session: its locks go to those who wait for them.
    pub fn close_session(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        self.parked.retain(|parked| parked.session != id);
        for (lock, owner) in self.locks.unlock_all(id) {
            self.notify(owner, "locked", &lock);
        }
    }

    /// Takes the messages for the client of a session. Updates of monitors are put together from
    /// all changes since the last call, so that a slow client costs little.
    pub fn take_output(&mut self, id: SessionId) -> Vec<Message> {
        self.sessions
            .get_mut(&id)
            .map(|session| session.take_output(&self.databases))
            .unwrap_or_default()
    }

    /// Acts on a message of a client.
    pub fn receive(&mut self, session: SessionId, message: Message, time: Time) {
        match message {
            Message::Request { method, params, id } => {
                match self.answer(session, &method, params, &id, time) {
                    Answer::Later => {}
                    Answer::Result(result) => self.send(session, Message::Reply { result, id }),
                    Answer::Error(error) => self.send(session, Message::Error { error, id }),
                }
                self.retry(time);
            }
            Message::Notify { method, params } if method == "cancel" => {
                if let [id] = params.as_slice() {
                    self.cancel(session, id);
                }
            }
            // Replies, such as to probes, and other notifications mean nothing here.
            Message::Notify { .. } | Message::Reply { .. } | Message::Error { .. } => {}
        }
    }

    /// When the first of the waiting transactions fails.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.parked.iter().filter_map(|parked| parked.deadline).min()
    }

    /// Fails the waiting transactions whose time is over.
    pub fn expire(&mut self, time: Time) {
        let (over, waiting) =
            std::mem::take(&mut self.parked).into_iter().partition(|parked: &Parked| {
                parked.deadline.is_some_and(|deadline| deadline <= time.now)
            });
        self.parked = waiting;
        self.try_all(over, time);
        self.retry(time);
    }

    /// Changes the database on behalf of the server itself.
    ///
    /// # Errors
    /// The database does not allow the change, or it cannot be written.
    pub fn change(
        &mut self,
        change: impl FnOnce(&mut Transaction<'_>),
        time: Time,
    ) -> Result<(), Error> {
        let mut transaction = Transaction::new(self.database());
        change(&mut transaction);
        let changes = transaction.prepare()?;
        self.commit(changes, time)?;
        self.retry(time);
        Ok(())
    }

    /// Whether it is time to compact the file.
    pub fn should_compact(&self, now: Duration) -> bool {
        self.storage.should_compact(now)
    }

    /// Starts to compact the file; see [`Storage::start_compaction`].
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start_compaction(
        &mut self,
        time: Time,
        done: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let database = self.databases.get(MAIN).database().clone();
        self.storage.start_compaction(database, time.now, time.date, done)
    }

    /// Puts the compacted file in place; see [`Storage::finish_compaction`].
    ///
    /// # Errors
    /// The file could not be written or put in place; the old one stays in use then.
    pub fn finish_compaction(&mut self) -> Result<(), StorageError> {
        self.storage.finish_compaction()
    }

    fn send(&mut self, session: SessionId, message: Message) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.send(message, &self.databases);
        }
    }

    fn notify(&mut self, session: SessionId, method: &str, lock: &str) {
        let message = Message::Notify { method: method.into(), params: vec![lock.into()] };
        self.send(session, message);
    }

    fn answer(
        &mut self,
        session: SessionId,
        method: &str,
        params: Vec<Value>,
        id: &Value,
        time: Time,
    ) -> Answer {
        match method {
            "echo" => Answer::Result(params.into()),
            "list_dbs" => Answer::Result(self.databases.names().collect()),
            "get_server_id" => Answer::Result(self.id.to_string().into()),
            "get_schema" => self
                .find_database(method, &params)
                .map(|index| self.databases.get(index).database().schema().to_json())
                .into(),
            "transact" => match self.find_database(method, &params) {
                Err(error) => Answer::Error(error.to_json()),
                Ok(index) => self.transact(session, index, params, id, time),
            },
            "convert" => Answer::Error(
                Error::new(
                    ErrorKind::NotSupported,
                    "the schema of the database belongs to the switch and cannot be converted",
                )
                .to_json(),
            ),
            "monitor" => self.monitor(session, method, &params, Version::Plain),
            "monitor_cond" => self.monitor(session, method, &params, Version::Conditional),
            "monitor_cond_since" => self.monitor(session, method, &params, Version::Since),
            "monitor_cond_change" => {
                let databases = &self.databases;
                self.sessions.get_mut(&session).map_or(Answer::Later, |session| {
                    session.change_monitor(&params, databases).into()
                })
            }
            "monitor_cancel" => self.sessions.get_mut(&session).map_or(Answer::Later, |session| {
                match session.cancel_monitor(&params) {
                    Ok(result) => Answer::Result(result),
                    Err(error) => Answer::Error(error.into()),
                }
            }),
            "lock" => self.lock(session, method, &params, Mode::Wait).into(),
            "steal" => self.lock(session, method, &params, Mode::Steal).into(),
            "unlock" => self.unlock(session, method, &params).into(),
            // The set of databases never changes, so there is nothing to be aware of.
            "set_db_change_aware" => match params.as_slice() {
                [Value::Bool(_)] => Answer::Result(json!({})),
                _ => Answer::from(Err(request_error(
                    method,
                    &params,
                    "true or false parameter expected",
                ))),
            },
            _ => Answer::Error("unknown method".into()),
        }
    }

    /// The database that the first parameter names.
    fn find_database(&self, method: &str, params: &[Value]) -> Result<DatabaseIndex, Error> {
        let Some(Value::String(name)) = params.first() else {
            let problem = format!("{method} request params must begin with <db-name>");
            return Err(Error::syntax(&json!(params), problem));
        };
        self.databases.find(name).ok_or_else(|| {
            let problem = format!("{method} request specifies unknown database {name}");
            Error::in_json(ErrorKind::UnknownDatabase, &json!(params), problem)
        })
    }

    fn monitor(
        &mut self,
        session: SessionId,
        method: &str,
        params: &[Value],
        version: Version,
    ) -> Answer {
        let index = match self.find_database(method, params) {
            Ok(index) => index,
            Err(error) => return Answer::Error(error.to_json()),
        };
        let databases = &self.databases;
        self.sessions.get_mut(&session).map_or(Answer::Later, |session| {
            session.monitor(params, index, version, databases).into()
        })
    }

    fn lock(
        &mut self,
        session: SessionId,
        method: &str,
        params: &[Value],
        mode: Mode,
    ) -> Result<Value, Error> {
        let name = lock_name(method, params)?;
        if self.locks.has(session, name) {
            let problem = format!("must issue \"unlock\" before new \"{method}\"");
            return Err(Error::syntax(&json!(params), problem));
        }
        if let Some(victim) = self.locks.lock(session, name, mode) {
            self.notify(victim, "stolen", name);
        }
        Ok(json!({"locked": self.locks.is_owner(session, name)}))
    }

    fn unlock(
        &mut self,
        session: SessionId,
        method: &str,
        params: &[Value],
    ) -> Result<Value, Error> {
        let name = lock_name(method, params)?;
        if !self.locks.has(session, name) {
            return Err(request_error(method, params, "\"unlock\" without \"lock\" or \"steal\""));
        }
        if let Some(owner) = self.locks.unlock(session, name) {
            self.notify(owner, "locked", name);
        }
        Ok(json!({}))
    }

    fn transact(
        &mut self,
        session: SessionId,
        database: DatabaseIndex,
        params: Vec<Value>,
        id: &Value,
        time: Time,
    ) -> Answer {
        if self.parked.iter().any(|parked| parked.session == session && parked.id == *id) {
            return Answer::from(Err(request_error("transact", &params, "duplicate request ID")));
        }
        let operations = params.into_iter().skip(1).collect();
        let asked_at = time.now;
        let mut parked =
            Parked { session, id: id.clone(), database, operations, asked_at, deadline: None };
        match self.run(&mut parked, time) {
            Some(results) => Answer::Result(results),
            None => {
                self.parked.push(parked);
                Answer::Later
            }
        }
    }

    /// Runs a transaction and gives its results; `None` if it has to wait.
    fn run(&mut self, parked: &mut Parked, time: Time) -> Option<Value> {
        let served = self.databases.get(parked.database);
        let (session, locks) = (parked.session, &self.locks);
        let context = Context {
            holds_lock: &|name| locks.is_owner(session, name),
            read_only: parked.database != MAIN,
            elapsed: time.now.saturating_sub(parked.asked_at),
        };
        match operation::execute(served.database(), &parked.operations, &context) {
            Outcome::Failed(results) => Some(results.into()),
            Outcome::Waiting(timeout) => {
                parked.deadline = timeout.map(|timeout| parked.asked_at.saturating_add(timeout));
                None
            }
            Outcome::Succeeded(mut results, transaction) => {
                let committed =
                    transaction.prepare().and_then(|changes| self.commit(changes, time));
                results.extend(committed.err().map(|error| error.to_json()));
                Some(results.into())
            }
        }
    }

    /// Writes changes of the main database, the only one that changes, to the file and makes
    /// them.
    fn commit(&mut self, changes: Changes, time: Time) -> Result<(), Error> {
        if changes.rows.is_empty() {
            return Ok(());
        }
        let served = self.databases.get_mut(MAIN);
        self.storage.append(served.database(), &changes, time.date)?;
        for session in self.sessions.values_mut() {
            session.record(MAIN, &changes.rows);
        }
        served.apply(changes);
        self.changed = true;
        Ok(())
    }

    /// Cancels a waiting transaction.
    fn cancel(&mut self, session: SessionId, id: &Value) {
        let position =
            self.parked.iter().position(|parked| parked.session == session && parked.id == *id);
        if let Some(position) = position {
            let parked = self.parked.remove(position);
            self.send(session, Message::Error { error: "canceled".into(), id: parked.id });
        }
    }

    /// Runs waiting transactions again until none of them changes anything.
    fn retry(&mut self, time: Time) {
        while std::mem::take(&mut self.changed) {
            let parked = std::mem::take(&mut self.parked);
            self.try_all(parked, time);
        }
    }

    fn try_all(&mut self, transactions: Vec<Parked>, time: Time) {
        for mut parked in transactions {
            match self.run(&mut parked, time) {
                Some(result) => {
                    self.send(parked.session, Message::Reply { result, id: parked.id });
                }
                None => self.parked.push(parked),
            }
        }
    }
}

fn lock_name<'a>(method: &str, params: &'a [Value]) -> Result<&'a str, Error> {
    match params {
        [Value::String(name)] if is_id(name) => Ok(name),
        _ => {
            let problem = format!("{method} request params must be <id>");
            Err(Error::syntax(&json!(params), problem))
        }
    }
}

fn request_error(method: &str, params: &[Value], problem: &str) -> Error {
    Error::syntax(&json!(params), format!("{method}: {problem}"))
}

#[cfg(test)]
mod tests;
