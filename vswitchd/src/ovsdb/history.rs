//! The latest changes of a database, for clients that come back.

use std::collections::VecDeque;

use uuid::Uuid;

use super::database::RowChange;

/// The most transactions that are kept.
const MAX_TRANSACTIONS: usize = 100;

/// The latest transactions, each with the ID that clients know it by.
#[derive(Debug)]
pub struct History {
    /// The ID of the state before the first transaction that is kept.
    base: Uuid,
    transactions: VecDeque<(Uuid, Vec<RowChange>)>,
    /// Row changes in all transactions.
    changes: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { base: Uuid::new_v4(), transactions: VecDeque::new(), changes: 0 }
    }
}

impl History {
    /// Adds a transaction. `rows` is the number of rows in the database: a history with more
    /// changes than that is of no use, since sending the rows is cheaper.
    pub fn push(&mut self, changes: Vec<RowChange>, rows: usize) {
        self.changes += changes.len();
        self.transactions.push_back((Uuid::new_v4(), changes));
        while self.transactions.len() > MAX_TRANSACTIONS || self.changes > rows {
            let Some((id, changes)) = self.transactions.pop_front() else { return };
            self.base = id;
            self.changes -= changes.len();
        }
    }

    /// The ID of the database as it is now.
    pub fn last_id(&self) -> Uuid {
        self.transactions.back().map_or(self.base, |(id, _)| *id)
    }

    /// The changes made since the database had the given ID; `None` if that is not known (any
    /// more).
    pub fn since(&self, id: Uuid) -> Option<impl Iterator<Item = &RowChange>> {
        let start = if id == self.base {
            0
        } else {
            1 + self.transactions.iter().position(|(found, _)| *found == id)?
        };
        Some(self.transactions.iter().skip(start).flat_map(|(_, changes)| changes))
    }
}
