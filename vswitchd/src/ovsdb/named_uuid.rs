//! Names that stand for the UUIDs of rows which a transaction inserts.

use std::collections::BTreeMap;

use uuid::Uuid;

/// What is known of a name.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// The UUID that the name stands for.
    pub uuid: Uuid,
    /// Whether an insert has taken the name.
    pub created: bool,
}

/// The names of one transaction.
#[derive(Debug, Default)]
pub struct SymbolTable(BTreeMap<String, Symbol>);

impl SymbolTable {
    /// The symbol called `name`, which gets a random UUID when it is used for the first time.
    pub fn get_or_insert(&mut self, name: &str) -> &mut Symbol {
        self.0
            .entry(name.to_owned())
            .or_insert_with(|| Symbol { uuid: Uuid::new_v4(), created: false })
    }
}
