//! Those who may speak OpenFlow with a switch, as its configuration has it.

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::time::Duration;

use netdev::clock;
use stream::{BindError, Listener, Remote};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet, spawn_local};
use tracing::{error, warn};

use super::link::Link;
use super::outbox::Outbox;
use super::task::{self, Context};
use crate::openflow::version::VersionSet;

/// Pause after the system refused a connection, for what caused it, file descriptors that ran out,
/// say, is likely to last.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// When it is tried again to listen where the system refused it.
const BIND_AGAIN: Duration = Duration::from_secs(1);

/// Most who may listen to one controller at a time.
const MOST_OBSERVERS: usize = 8;

/// What kind of peer is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControllerType {
    /// One that the switch depends on.
    Primary,
    /// One that looks in now and then, a command line tool, say.
    Service,
}

impl ControllerType {
    fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Service => "service",
        }
    }
}

/// What is set for the connections of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// What kind of peer it is.
    pub controller_type: ControllerType,
    /// Greatest time between attempts to connect.
    pub max_backoff: Duration,
    /// Silence after which it is probed; zero is never.
    pub probe_interval: Duration,
    /// Whether the switch itself carries the connection.
    pub in_band: bool,
    /// Whether it gets messages unasked before it said which it wants.
    pub unasked_messages: bool,
    /// Versions that may be spoken.
    pub allowed: VersionSet,
    /// Most packets that wait for it.
    pub packet_queue: usize,
    /// Packets per second that it is sent, 0 for any number.
    pub rate_limit: u32,
    /// Packets that may exceed the rate for a while, 0 for a quarter of the rate.
    pub burst_limit: u32,
}

/// See the [module](self). Dropping it ends its connections.
pub(super) struct Controller {
    pub(super) settings: ControllerSettings,
    source: Source,
    /// Those who see what is said on its connections, one after the other.
    observers: Vec<Outbox>,
}

enum Source {
    Active { link: Rc<RefCell<Link>>, wake: Rc<Notify>, task: AbortHandle },
    Passive { _service: Service },
}

impl Controller {
    /// Starts to connect to `remote`, or to listen there.
    pub(super) fn start(
        remote: &Remote,
        settings: ControllerSettings,
        context: Context,
    ) -> Result<Self, BindError> {
        let source = if remote.is_passive() {
            Source::Passive { _service: Service::start(remote, context)? }
        } else {
            let now = clock::now();
            let link = Link::new(context.name(&remote.to_string()), true, now);
            let (link, wake) = (Rc::new(RefCell::new(link)), Rc::new(Notify::new()));
            let (its_link, its_wake) = (Rc::clone(&link), Rc::clone(&wake));
            let dial = task::dial(remote.clone(), context, its_link, its_wake);
            Source::Active { link, wake, task: spawn_local(dial).abort_handle() }
        };
        let controller = Self { settings, source, observers: vec![] };
        controller.set_up_link();
        Ok(controller)
    }

    /// Changes the settings.
    pub(super) fn set(&mut self, settings: ControllerSettings) {
        if self.settings != settings {
            self.settings = settings;
            self.set_up_link();
        }
    }

    fn set_up_link(&self) {
        if let Source::Active { link, wake, .. } = &self.source {
            let mut link = link.borrow_mut();
            link.set_max_backoff(self.settings.max_backoff, clock::now());
            link.set_probe_interval(self.settings.probe_interval);
            wake.notify_one();
        }
    }

    /// The state of the connection, unless it is listened for others.
    pub(super) fn link(&self) -> Option<Ref<'_, Link>> {
        match &self.source {
            Source::Active { link, .. } => Some(link.borrow()),
            Source::Passive { .. } => None,
        }
    }

    /// Lets somebody see what is said on its connections from here on, unless too many do.
    pub(super) fn observe(&mut self, observer: &Outbox) -> bool {
        self.observers.retain(|observer| !observer.is_closed());
        let has_room = self.observers.len() < MOST_OBSERVERS;
        if has_room {
            self.observers.push(observer.clone());
        }
        has_room
    }

    /// Lets those who see what is said see a new connection.
    pub(super) fn show_observers(&self, outbox: &Outbox) {
        self.observers.iter().for_each(|observer| outbox.add_observer(observer.clone()));
    }

    /// Name of the type.
    pub(super) fn type_name(&self) -> &'static str {
        self.settings.controller_type.name()
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.observers.iter().for_each(Outbox::close);
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Active { task, .. } = self {
            task.abort();
        }
    }
}

/// A listening socket and its connections. Dropping it closes them all.
#[derive(Debug)]
pub(super) struct Service {
    task: AbortHandle,
}

impl Service {
    /// Accepts connections on `remote`, a passive one. A unix socket is there when this returns.
    ///
    /// # Errors
    /// When a unix socket cannot be made.
    pub(super) fn start(remote: &Remote, context: Context) -> Result<Self, BindError> {
        let unix = !remote.needs_probes();
        let listener = unix.then(|| Listener::bind_unix(remote)).transpose()?;
        let listen = listen(remote.clone(), listener, context);
        Ok(Self { task: spawn_local(listen).abort_handle() })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(remote: Remote, listener: Option<Listener>, context: Context) {
    let listener = match listener {
        Some(listener) => listener,
        None => loop {
            match Listener::bind(&remote, context.environment.tls.get()).await {
                Ok(listener) => break listener,
                Err(error) => error!(target: "socket_util", limited = true, "{error}"),
            }
            tokio::time::sleep(BIND_AGAIN).await;
        },
    };
    // Connections are in a set of this task, so that they end with it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    connections.spawn_local(task::serve(stream, context.clone()));
                }
                Err(error) => {
                    let cause = stream::error_text(&error);
                    warn!(target: "connmgr", limited = true, "accept failed ({cause})");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
