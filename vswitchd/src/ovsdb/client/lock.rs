//! The lock (RFC 7047 section 4.1.8) that a client must have to write.

use serde_json::Value;

use super::session::Event;

pub(super) struct Lock {
    name: String,
    /// The request for it, while the answer is missing.
    request: Option<u64>,
    held: bool,
    contended: bool,
}

impl Lock {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), request: None, held: false, contended: false }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Whether the server said that another client has it.
    pub(super) fn is_contended(&self) -> bool {
        self.contended
    }

    /// It is asked for on a new connection.
    pub(super) fn requested(&mut self, request: u64) {
        (self.held, self.request) = (false, Some(request));
    }

    /// The server takes the lock from clients that are gone.
    pub(super) fn disconnected(&mut self) {
        (self.held, self.request) = (false, None);
    }

    pub(super) fn awaits(&self, id: u64) -> bool {
        self.request == Some(id)
    }

    /// Takes the answer that it awaits.
    pub(super) fn answered(&mut self, result: &Value) -> Option<Event> {
        self.request = None;
        self.update(result.get("locked") == Some(&Value::Bool(true)))
    }

    pub(super) fn is_named_in(&self, params: &[Value]) -> bool {
        params.first().and_then(Value::as_str) == Some(&self.name)
    }

    /// The server says whether this client has it now.
    pub(super) fn update(&mut self, held: bool) -> Option<Event> {
        let event = match (self.held, held) {
            (false, true) => Some(Event::LockGranted),
            (true, false) => Some(Event::LockLost),
            (false, false) if !self.contended => Some(Event::LockHeldElsewhere),
            (false, false) | (true, true) => None,
        };
        (self.held, self.contended) = (held, !held);
        event
    }
}
