//! The embedded OVSDB server: the engine on a thread of its own, with sockets and timers.

mod conversation;
mod managers;
mod remote;
mod shared;

use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc as std_mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netdev::clock;
use stream::{Address, BindError, Listener, Remote, connect};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tracing::{error, info};

use self::remote::{Options, State};
use self::shared::{Shared, time};
use super::engine::{Engine, Usage};
use super::error::Error;
use super::open_vswitch;
use super::storage::{Storage, StorageError};

/// Time between looks at whether the file should be compacted.
const COMPACTION_CHECK: Duration = Duration::from_secs(60);

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The database file.
    pub database: PathBuf,
    /// Where to listen, besides what the database asks for.
    pub remotes: Vec<Remote>,
    /// What relative file names in the database are relative to.
    pub run_directory: PathBuf,
    /// Whether a commit is on the disk before it is answered.
    pub sync: bool,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A server is there already.
    #[error("{0}: another server is listening there")]
    InUse(Remote),
    /// The database file cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A remote cannot be listened on.
    #[error("{0}")]
    Bind(Box<BindError>),
    /// The built-in schema is broken.
    #[error("{0}")]
    Schema(#[from] Error),
    /// The thread, or what it needs, cannot be had.
    #[error("starting the database server failed: {0}")]
    Thread(#[from] io::Error),
}

enum Command {
    Compact(oneshot::Sender<Result<(), String>>),
    Databases(oneshot::Sender<Vec<String>>),
    Usage(oneshot::Sender<Usage>),
}

/// A running server. It stops when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// Closing this is what stops the server.
    commands: Option<mpsc::UnboundedSender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Opens the database and listens; both is done when this returns.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn start(settings: Settings) -> Result<Self, ServerError> {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (ready, started) = std_mpsc::sync_channel(1);
        let thread = thread::Builder::new().name("ovsdb_server".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Err(error) => {
                    let _ = ready.send(Err(error.into()));
                }
                Ok(runtime) => {
                    let main = run(settings, receiver, |result| {
                        let _ = ready.send(result);
                    });
                    LocalSet::new().block_on(&runtime, main);
                }
            }
        })?;
        match started.recv() {
            Ok(Ok(())) => Ok(Self { commands: Some(commands), thread: Some(thread) }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other("its thread ended early").into()),
        }
    }

    /// Compacts the database file, and returns when that is done.
    ///
    /// # Errors
    /// The text says what failed; the old file is in use then.
    pub async fn compact(&self) -> Result<(), String> {
        self.ask(Command::Compact).await.unwrap_or_else(|| Err("the server has ended".into()))
    }

    /// The names of the databases.
    pub async fn databases(&self) -> Vec<String> {
        self.ask(Command::Databases).await.unwrap_or_default()
    }

    /// How much the server holds.
    pub async fn usage(&self) -> Usage {
        self.ask(Command::Usage).await.unwrap_or_default()
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.commands.as_ref()?.send(command(sender)).ok()?;
        receiver.await.ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            error!(target: "ovsdb_server", "the thread of the database server failed");
        }
    }
}

async fn run(
    settings: Settings,
    commands: mpsc::UnboundedReceiver<Command>,
    ready: impl FnOnce(Result<(), ServerError>),
) {
    let (engine, listeners) = match open(&settings).await {
        Ok(opened) => opened,
        Err(error) => return ready(Err(error)),
    };
    let shared = Rc::new(Shared::new(engine));
    for (remote, listener) in listeners {
        let shared = Rc::clone(&shared);
        spawn_local(async move {
            let state = Rc::new(State::default());
            remote::accept(&listener, &remote, &Options::default(), &state, &shared).await;
        });
    }
    spawn_local(managers::run(Rc::clone(&shared), settings.run_directory));
    ready(Ok(()));
    Supervisor::new(shared).run(commands).await;
}

async fn open(settings: &Settings) -> Result<(Engine, Vec<(Remote, Listener)>), ServerError> {
    for remote in &settings.remotes {
        if let Address::PassiveUnix(path) = remote.address() {
            let there = Remote::parse(&format!("unix:{}", path.display()), None, path);
            if let Ok(there) = there
                && connect(&there, None).await.is_ok()
            {
                return Err(ServerError::InUse(remote.clone()));
            }
        }
    }
    let schema = open_vswitch::schema()?;
    let time = time();
    let (storage, database) =
        Storage::open(&settings.database, schema, settings.sync, time.now, time.date)?;
    let engine = Engine::new(storage, database)?;
    let mut listeners = Vec::new();
    for remote in &settings.remotes {
        let listener = Listener::bind(remote, None)
            .await
            .map_err(|error| ServerError::Bind(Box::new(error)))?;
        listeners.push((remote.clone(), listener));
    }
    Ok((engine, listeners))
}

/// Looks after timers, compaction and what the daemon asks for.
struct Supervisor {
    shared: Rc<Shared>,
    compacted: mpsc::UnboundedSender<()>,
    compactions: mpsc::UnboundedReceiver<()>,
    /// Who wait for the compaction that is going on.
    waiting: Vec<oneshot::Sender<Result<(), String>>>,
}

impl Supervisor {
    fn new(shared: Rc<Shared>) -> Self {
        let (compacted, compactions) = mpsc::unbounded_channel();
        Self { shared, compacted, compactions, waiting: Vec::new() }
    }

    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut next_check = clock::now() + COMPACTION_CHECK;
        loop {
            let shared = Rc::clone(&self.shared);
            let changed = shared.changed();
            tokio::pin!(changed);
            let deadline = shared.engine().next_deadline();
            let deadline = deadline.map_or(next_check, |deadline| deadline.min(next_check));
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                Some(()) = self.compactions.recv() => self.finish_compaction(),
                () = changed => {}
                () = clock::sleep_until(deadline) => {
                    if deadline >= next_check {
                        next_check = clock::now() + COMPACTION_CHECK;
                        if shared.engine().should_compact(clock::now()) {
                            self.start_compaction();
                        }
                    }
                    shared.act(|engine| engine.expire(time()));
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        // Whoever asked may be gone; that does not matter here.
        match command {
            Command::Compact(reply) => {
                self.waiting.push(reply);
                self.start_compaction();
            }
            Command::Databases(reply) => {
                let names = self.shared.engine().database_names().map(str::to_owned).collect();
                let _ = reply.send(names);
            }
            Command::Usage(reply) => {
                let _ = reply.send(self.shared.engine().usage());
            }
        }
    }

    fn start_compaction(&mut self) {
        let compacted = self.compacted.clone();
        let started = self.shared.act(|engine| {
            engine.start_compaction(time(), move || {
                let _ = compacted.send(());
            })
        });
        if let Err(error) = started {
            self.compaction_ended(Err(error.to_string()));
        }
    }

    fn finish_compaction(&mut self) {
        let finished = self.shared.act(Engine::finish_compaction);
        self.compaction_ended(finished.map_err(|error| error.to_string()));
    }

    fn compaction_ended(&mut self, result: Result<(), String>) {
        match &result {
            Ok(()) => info!(target: "ovsdb_server", "compacted the database file"),
            Err(problem) => {
                error!(target: "ovsdb_server", "compacting the database file failed: {problem}");
            }
        }
        for waiting in self.waiting.drain(..) {
            let _ = waiting.send(result.clone());
        }
    }
}

#[cfg(test)]
mod tests;
