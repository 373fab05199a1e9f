//! What happened to rules and tables, for those whom controllers asked to be told.

use std::sync::{Arc, Mutex, PoisonError};

use crate::news::News;
use crate::openflow::action::Action;
use crate::openflow::message::{FlowRemovedReason, TableDesc, TableReason};
use crate::rule::Rule;

/// Who changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The switch: rules learned, ran out or were configured.
    Switch,
    /// A controller, by a message.
    Peer {
        /// Number of its connection.
        connection: u64,
        /// Transaction of the message.
        xid: u32,
    },
}

/// An event.
#[derive(Clone, Debug)]
pub enum TableEvent {
    /// A rule was added, perhaps in place of another.
    Added {
        /// The rule.
        rule: Arc<Rule>,
        /// The actions of the one that it replaced, if they were others.
        old_actions: Option<Arc<[Action]>>,
        /// Who did it.
        source: Source,
    },
    /// A rule was given other actions or another cookie.
    Modified {
        /// The rule as it is now.
        rule: Arc<Rule>,
        /// Its actions before, if they were others.
        old_actions: Option<Arc<[Action]>>,
        /// Who did it.
        source: Source,
    },
    /// A rule was removed.
    Removed {
        /// The rule.
        rule: Arc<Rule>,
        /// Why.
        reason: FlowRemovedReason,
        /// Who did it.
        source: Source,
    },
    /// The space in a table fell or rose beyond a threshold.
    Vacancy {
        /// Which way.
        reason: TableReason,
        /// The table.
        table: TableDesc,
    },
}

/// The events that nobody took yet.
#[derive(Debug)]
pub(super) struct Events {
    queue: Mutex<Vec<TableEvent>>,
    news: News,
}

impl Events {
    pub(super) fn new(news: News) -> Self {
        Self { queue: Mutex::default(), news }
    }

    pub(super) fn push(&self, events: Vec<TableEvent>) {
        if !events.is_empty() {
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
            self.news.arrive();
        }
    }

    pub(super) fn take(&self) -> Vec<TableEvent> {
        std::mem::take(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
