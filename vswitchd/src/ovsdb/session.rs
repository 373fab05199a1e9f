//! What a server keeps for one client.

use serde_json::{Value, json};
use uuid::Uuid;

use super::atom::parse_uuid;
use super::database::RowChange;
use super::databases::{DatabaseIndex, Databases};
use super::error::Error;
use super::monitor::{Monitor, Version};
use crate::jsonrpc::Message;

/// A monitor with the name that the client gave it.
#[derive(Debug)]
struct NamedMonitor {
    id: Value,
    database: DatabaseIndex,
    monitor: Monitor,
}

/// One client: its monitors, and the messages that it has not taken yet.
#[derive(Debug, Default)]
pub struct Session {
    monitors: Vec<NamedMonitor>,
    output: Vec<Message>,
}

impl Session {
    /// Queues a message behind the updates of what happened before it.
    pub fn send(&mut self, message: Message, databases: &Databases) {
        self.flush(databases);
        self.output.push(message);
    }

    /// Takes the messages for the client, among them the updates of what happened until now.
    pub fn take_output(&mut self, databases: &Databases) -> Vec<Message> {
        self.flush(databases);
        std::mem::take(&mut self.output)
    }

    /// Takes note of changes of a database for the monitors.
    pub fn record(&mut self, database: DatabaseIndex, changes: &[RowChange]) {
        for named in self.monitors.iter_mut().filter(|named| named.database == database) {
            named.monitor.record(changes);
        }
    }

    fn flush(&mut self, databases: &Databases) {
        for named in &mut self.monitors {
            let served = databases.get(named.database);
            if let Some(update) = named.monitor.take_update(served.database()) {
                self.output.push(notification(named, update, databases));
            }
        }
    }

    fn position(&self, id: &Value) -> Option<usize> {
        self.monitors.iter().position(|named| named.id == *id)
    }

    /// Answers `monitor`, `monitor_cond` and `monitor_cond_since` for a database.
    ///
    /// # Errors
    /// A syntax error, or an error in a condition.
    pub fn monitor(
        &mut self,
        params: &[Value],
        index: DatabaseIndex,
        version: Version,
        databases: &Databases,
    ) -> Result<Value, Error> {
        let (id, requests, last_id) = match (params, version) {
            ([_, id, requests], Version::Plain | Version::Conditional) => (id, requests, None),
            ([_, id, requests, last_id], Version::Since) => (id, requests, Some(last_id)),
            _ => return Err(Error::syntax(&json!(params), "invalid parameters")),
        };
        if self.position(id).is_some() {
            return Err(Error::syntax(id, "duplicate monitor ID"));
        }
        let served = databases.get(index);
        let mut monitor = Monitor::from_json(requests, served.database(), version)?;
        let last_id = last_id.map(parse_last_id).transpose()?;
        let missed = last_id.and_then(|id| served.history().since(id));
        let found = missed.is_some();
        let updates = match missed {
            None => monitor.initial(served.database()),
            Some(changes) => {
                monitor.record(changes);
                monitor.take_update(served.database()).unwrap_or_else(|| json!({}))
            }
        };
        self.flush(databases);
        self.monitors.push(NamedMonitor { id: id.clone(), database: index, monitor });
        Ok(match version {
            Version::Since => {
                let last_id = served.history().last_id().to_string();
                vec![found.into(), last_id.into(), updates].into()
            }
            _ => updates,
        })
    }

    /// Answers `monitor_cond_change`, and queues the update that it causes.
    ///
    /// # Errors
    /// A syntax error, or an error in a condition; nothing changed then.
    pub fn change_monitor(
        &mut self,
        params: &[Value],
        databases: &Databases,
    ) -> Result<Value, Error> {
        let [id, new_id, requests] = params else {
            return Err(Error::syntax(&json!(params), "invalid parameters"));
        };
        let position =
            self.position(id).ok_or_else(|| Error::syntax(id, "unknown monitor session"))?;
        if id != new_id && self.position(new_id).is_some() {
            return Err(Error::syntax(new_id, "duplicate monitor ID"));
        }
        self.flush(databases);
        if let Some(named) = self.monitors.get_mut(position) {
            let served = databases.get(named.database);
            let update = named.monitor.change_conditions(requests, served.database())?;
            named.id = new_id.clone();
            self.output.extend(update.map(|update| notification(named, update, databases)));
        }
        Ok(json!({}))
    }

    /// Answers `monitor_cancel`.
    ///
    /// # Errors
    /// The text of the error.
    pub fn cancel_monitor(&mut self, params: &[Value]) -> Result<Value, &'static str> {
        let [id] = params else { return Err("invalid parameters") };
        let position = self.position(id).ok_or("unknown monitor")?;
        self.monitors.remove(position);
        Ok(json!({}))
    }

    /// The number of monitors.
    pub fn monitor_count(&self) -> usize {
        self.monitors.len()
    }
}

fn parse_last_id(json: &Value) -> Result<Uuid, Error> {
    let text = json.as_str().ok_or_else(|| Error::syntax(json, "last-txn-id must be string"))?;
    parse_uuid(text).ok_or_else(|| Error::syntax(json, "last-txn-id must be UUID format."))
}

fn notification(named: &NamedMonitor, update: Value, databases: &Databases) -> Message {
    let version = named.monitor.version();
    let mut params = vec![named.id.clone()];
    if version == Version::Since {
        let last_id = databases.get(named.database).history().last_id();
        params.push(last_id.to_string().into());
    }
    params.push(update);
    Message::Notify { method: version.notification().into(), params }
}
