//! What the tasks of connections tell the control thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::Notify;

use super::link::Link;
use super::outbox::Outbox;
use crate::openflow::version::Version;

/// Identifies a connection among all that the process ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Where a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The controller with this target.
    Controller(Rc<str>),
    /// The socket for those who want to see what a controller and the switch say.
    Snoop,
}

/// A connection that was made.
pub struct Connected {
    /// What it comes from.
    pub origin: Origin,
    /// The version agreed on.
    pub version: Version,
    /// Its state.
    pub link: Rc<RefCell<Link>>,
    /// What is sent on it.
    pub outbox: Outbox,
}

/// What happened on a connection.
pub enum Happening {
    /// It was made.
    Connected(Connected),
    /// Whole messages came, of any kind and perhaps malformed.
    Messages(Vec<Vec<u8>>),
    /// Replies were sent, so that messages which waited for that may be handled.
    Drained,
    /// It ended.
    Disconnected,
}

/// An event for the control thread.
pub struct Event {
    /// The switch that the connection is to.
    pub switch: Rc<str>,
    /// The connection.
    pub connection: ConnectionId,
    /// What happened.
    pub happening: Happening,
}

/// The events that wait for the control thread. Clones are the same queue. Each connection has few
/// events in it: it reads nothing further before its messages were handled.
#[derive(Clone, Default)]
pub struct Events(Rc<Queue>);

#[derive(Default)]
struct Queue {
    events: RefCell<VecDeque<Event>>,
    arrived: Notify,
}

impl Events {
    pub(super) fn push(&self, event: Event) {
        self.0.events.borrow_mut().push_back(event);
        self.0.arrived.notify_one();
    }

    /// The next event.
    pub async fn next(&self) -> Event {
        loop {
            let event = self.0.events.borrow_mut().pop_front();
            match event {
                Some(event) => return event,
                None => self.0.arrived.notified().await,
            }
        }
    }
}
