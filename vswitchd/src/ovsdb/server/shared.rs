//! The engine and the wakeups of those who work with it, shared by the tasks of one thread.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use netdev::clock;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::jsonrpc::Message;
use crate::ovsdb::engine::{Engine, Time};
use crate::ovsdb::lock::SessionId;

/// The time at this moment.
pub(super) fn time() -> Time {
    Time { now: clock::now(), date: clock::wall() }
}

/// What the tasks of a server share.
pub(super) struct Shared {
    engine: RefCell<Engine>,
    /// Wakes the task of each session, since what one client does concerns others.
    sessions: RefCell<BTreeMap<SessionId, Rc<Notify>>>,
    /// Wakes the tasks that look after managers and timers.
    changed: Notify,
    /// Wakes who writes the status of managers.
    status: Notify,
}

impl Shared {
    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine: RefCell::new(engine),
            sessions: RefCell::default(),
            changed: Notify::new(),
            status: Notify::new(),
        }
    }

    /// The engine, to be looked at.
    pub(super) fn engine(&self) -> Ref<'_, Engine> {
        self.engine.borrow()
    }

    /// Has the engine do something, and wakes everybody whom it may concern.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut Engine) -> T) -> T {
        let result = act(&mut self.engine.borrow_mut());
        for session in self.sessions.borrow().values() {
            session.notify_one();
        }
        self.changed.notify_waiters();
        result
    }

    /// Says that the status of a manager is another.
    pub(super) fn status_changed(&self) {
        self.status.notify_one();
    }

    /// Completes when the status of a manager has changed.
    pub(super) async fn status(&self) {
        self.status.notified().await;
    }

    /// Completes when the engine has done something since this was called.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }
}

/// A session of the engine; it ends when this is dropped.
pub(super) struct OpenSession {
    shared: Rc<Shared>,
    id: SessionId,
    woken: Rc<Notify>,
}

impl OpenSession {
    pub(super) fn new(shared: &Rc<Shared>) -> Self {
        let id = shared.act(Engine::open_session);
        let woken = Rc::new(Notify::new());
        shared.sessions.borrow_mut().insert(id, Rc::clone(&woken));
        Self { shared: Rc::clone(shared), id, woken }
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    /// Waits until there may be something to send.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Takes what is to be sent.
    pub(super) fn take_output(&self) -> Vec<Message> {
        self.shared.engine.borrow_mut().take_output(self.id)
    }

    /// Acts on a message of the client.
    pub(super) fn receive(&self, message: Message) {
        self.shared.act(|engine| engine.receive(self.id, message, time()));
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.shared.sessions.borrow_mut().remove(&self.id);
        self.shared.act(|engine| engine.close_session(self.id));
    }
}
