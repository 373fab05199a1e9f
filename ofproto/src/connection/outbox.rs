//! What waits to be sent to a peer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use tokio::sync::Notify;

use super::session::log_sent;

/// Bytes that are written at once, beyond which messages stay in the queue.
const CHUNK: usize = 64 * 1024;
/// Most bytes that may wait for a peer. Requests of one that does not read are not answered long
/// before; this bounds what it is sent unasked.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Replies that may wait before further requests do.
const MOST_REPLIES: usize = 100;
/// Most bytes that may wait for an observer, which loses what is beyond.
const MOST_OBSERVED: usize = 1024 * 1024;

/// Why a message is sent. What waits is counted for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The reply to a request.
    Reply,
    /// A packet for the controller.
    PacketIn,
    /// News for a flow monitor.
    Monitor,
    /// Anything else.
    Other,
}

/// What waits of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Number of messages.
    pub messages: usize,
    /// Bytes of the messages.
    pub bytes: usize,
}

/// One or more messages of a queue.
enum Entry {
    Message(Vec<u8>),
    /// Messages that are made when there is room for them.
    Series(Box<dyn Iterator<Item = Vec<u8>>>),
}

/// Whether the connection takes requests in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Intake {
    /// It reads from the peer.
    #[default]
    Open,
    /// What it read is being handled.
    Busy,
    /// What it read is handled further when replies have been sent.
    Blocked,
}

#[derive(Default)]
struct State {
    entries: VecDeque<(Class, Entry)>,
    waiting: [Waiting; 4],
    /// Series of messages that are still to be made.
    series: usize,
    intake: Intake,
    observers: Vec<Outbox>,
    overflown: bool,
    closed: bool,
}

/// The messages that wait for one peer. Clones are the same queue.
#[derive(Clone)]
pub struct Outbox(Rc<Shared>);

struct Shared {
    /// The peer as log lines call it.
    peer: String,
    state: RefCell<State>,
    changed: Notify,
}

/// Bytes taken from a queue to be written.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    bytes: Vec<u8>,
    written: usize,
    messages: Vec<(Class, usize)>,
    /// Whether a message was made for it, which took time.
    pub(super) is_made: bool,
}

impl Chunk {
    /// What is still to be written.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// Notes that bytes were written.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.written += bytes;
    }
}

impl State {
    fn count(&mut self, class: Class) -> Option<&mut Waiting> {
        self.waiting.get_mut(class as usize)
    }

    fn takes_requests(&self) -> bool {
        let replies = self.waiting.get(Class::Reply as usize);
        self.series == 0 && replies.is_none_or(|replies| replies.messages < MOST_REPLIES)
    }

    fn bytes(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.bytes).sum()
    }

    /// Shows a message to the observers, except those that are gone or have too much to read.
    fn observe(&mut self, message: &[u8]) {
        self.observers.retain(|observer| !observer.is_closed());
        for observer in &self.observers {
            if observer.bytes() < MOST_OBSERVED {
                observer.push(Class::Other, message.to_vec());
            }
        }
    }
}

impl Outbox {
    /// An empty queue to `peer`.
    pub(super) fn new(peer: &str) -> Self {
        let (state, changed) = (RefCell::default(), Notify::new());
        Self(Rc::new(Shared { peer: peer.to_owned(), state, changed }))
    }

    /// The peer as log lines call it.
    pub fn peer(&self) -> &str {
        &self.0.peer
    }

    /// Queues a message.
    pub fn push(&self, class: Class, message: Vec<u8>) {
        log_sent(&self.0.peer, &message);
        self.push_logged(class, message);
    }

    /// Queues a message of which the log has told.
    pub(super) fn push_logged(&self, class: Class, message: Vec<u8>) {
        let mut state = self.0.state.borrow_mut();
        state.observe(&message);
        if let Some(waiting) = state.count(class) {
            waiting.messages += 1;
            waiting.bytes += message.len();
        }
        state.overflown |= state.bytes() > MOST_BYTES;
        state.entries.push_back((class, Entry::Message(message)));
        drop(state);
        self.0.changed.notify_one();
    }

    /// Queues a reply of many messages, which are made when there is room for them.
    pub fn push_series(&self, messages: Box<dyn Iterator<Item = Vec<u8>>>) {
        let mut state = self.0.state.borrow_mut();
        state.series += 1;
        state.entries.push_back((Class::Reply, Entry::Series(messages)));
        drop(state);
        self.0.changed.notify_one();
    }

    /// What waits of a class, or is being written.
    pub fn waiting(&self, class: Class) -> Waiting {
        self.0.state.borrow().waiting.get(class as usize).copied().unwrap_or_default()
    }

    /// Whether the next request may be handled: not while too many replies wait.
    pub fn takes_requests(&self) -> bool {
        self.0.state.borrow().takes_requests()
    }

    fn bytes(&self) -> usize {
        self.0.state.borrow().bytes()
    }

    /// Shows `observer` all that is sent and received from here on.
    pub fn add_observer(&self, observer: Outbox) {
        self.0.state.borrow_mut().observers.push(observer);
    }

    /// Shows a received message to the observers.
    pub(super) fn observe(&self, message: &[u8]) {
        self.0.state.borrow_mut().observe(message);
    }

    /// Asks for the end of the connection.
    pub fn close(&self) {
        let mut state = self.0.state.borrow_mut();
        state.closed = true;
        drop(state);
        self.0.changed.notify_one();
    }

    /// Whether the end of the connection was asked for.
    pub fn is_closed(&self) -> bool {
        self.0.state.borrow().closed
    }

    /// Whether more waits than any peer may leave unread.
    pub(super) fn is_overflown(&self) -> bool {
        self.0.state.borrow().overflown
    }

    /// Has the connection look again at what is due.
    pub(super) fn wake(&self) {
        self.0.changed.notify_one();
    }

    /// Completes when something was queued or the state changed otherwise.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Takes bytes to be written; empty when nothing waits.
    pub(super) fn take_chunk(&self) -> Chunk {
        let mut chunk = Chunk::default();
        let mut state = self.0.state.borrow_mut();
        while chunk.bytes.len() < CHUNK {
            let Some((class, entry)) = state.entries.pop_front() else { break };
            match entry {
                Entry::Message(message) => {
                    chunk.messages.push((class, message.len()));
                    chunk.bytes.extend(message);
                }
                Entry::Series(mut messages) => match messages.next() {
                    Some(message) => {
                        log_sent(&self.0.peer, &message);
                        state.observe(&message);
                        if let Some(waiting) = state.count(class) {
                            waiting.messages += 1;
                            waiting.bytes += message.len();
                        }
                        chunk.messages.push((class, message.len()));
                        chunk.bytes.extend(message);
                        chunk.is_made = true;
                        state.entries.push_front((class, Entry::Series(messages)));
                        // Making messages takes time, which others need as well.
                        break;
                    }
                    None => state.series -= 1,
                },
            }
        }
        chunk
    }

    /// Notes that a chunk was written.
    pub(super) fn sent(&self, chunk: &Chunk) {
        let mut state = self.0.state.borrow_mut();
        for &(class, bytes) in &chunk.messages {
            if let Some(waiting) = state.count(class) {
                waiting.messages -= 1;
                waiting.bytes -= bytes;
            }
        }
    }

    /// Whether the connection may read from its peer.
    pub(super) fn may_read(&self) -> bool {
        self.0.state.borrow().intake == Intake::Open
    }

    /// Notes that messages were handed over.
    pub(super) fn set_busy(&self) {
        self.0.state.borrow_mut().intake = Intake::Busy;
    }

    /// Notes that all messages that were handed over have been handled, or that the rest waits for
    /// replies to be sent.
    pub fn set_handled(&self, all: bool) {
        self.0.state.borrow_mut().intake = if all { Intake::Open } else { Intake::Blocked };
        self.0.changed.notify_one();
    }

    /// Whether what was handed over is to be handled further, if there are few enough replies.
    pub(super) fn resumes(&self) -> bool {
        let mut state = self.0.state.borrow_mut();
        let resumes = state.intake == Intake::Blocked && state.takes_requests();
        if resumes {
            state.intake = Intake::Busy;
        }
        resumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(messages: usize, bytes: usize) -> Waiting {
        Waiting { messages, bytes }
    }

    #[test]
    fn messages_leave_in_order_and_are_counted_until_written() {
        let outbox = Outbox::new("peer");
        outbox.push(Class::Reply, vec![1, 2]);
        outbox.push(Class::Monitor, vec![3]);
        outbox.push_series(Box::new((4..6).map(|n| vec![n])));
        outbox.push(Class::PacketIn, vec![6]);
        assert_eq!(outbox.waiting(Class::Reply), waiting(1, 2));
        assert!(!outbox.takes_requests());
        let mut sent = vec![];
        loop {
            let chunk = outbox.take_chunk();
            if chunk.rest().is_empty() {
                break;
            }
            sent.extend_from_slice(chunk.rest());
            outbox.sent(&chunk);
        }
        assert_eq!(sent, [1, 2, 3, 4, 5, 6]);
        for class in [Class::Reply, Class::Monitor, Class::PacketIn, Class::Other] {
            assert_eq!(outbox.waiting(class), waiting(0, 0));
        }
        assert!(outbox.takes_requests());
    }

    #[test]
    fn requests_wait_while_many_replies_do() {
        let outbox = Outbox::new("peer");
        outbox.set_busy();
        assert!(!outbox.may_read());
        (0..MOST_REPLIES).for_each(|_| outbox.push(Class::Reply, vec![0]));
        assert!(!outbox.takes_requests());
        outbox.set_handled(false);
        assert!(!outbox.resumes());
        let chunk = outbox.take_chunk();
        outbox.sent(&chunk);
        assert!(outbox.resumes());
        assert!(!outbox.resumes());
        outbox.set_handled(true);
        assert!(outbox.may_read());
    }

    #[test]
    fn observers_see_all_but_what_is_too_much() {
        let (outbox, observer) = (Outbox::new("peer"), Outbox::new("observer"));
        outbox.add_observer(observer.clone());
        outbox.push(Class::Reply, vec![1]);
        outbox.observe(&[2]);
        assert_eq!(observer.take_chunk().rest(), [1, 2]);
        (0..40).for_each(|_| outbox.push(Class::Other, vec![0; 50_000]));
        assert!(observer.waiting(Class::Other).bytes < MOST_OBSERVED + 50_000);
        assert_eq!(outbox.waiting(Class::Other), waiting(40, 2_000_000));
        assert!(!outbox.is_overflown());
    }

    #[test]
    fn who_leaves_too_much_unread_is_given_up() {
        let outbox = Outbox::new("peer");
        (0..65).for_each(|_| outbox.push(Class::Other, vec![0; 1 << 20]));
        assert!(outbox.is_overflown());
    }
}
