//! Which tables and columns the owner of a client is interested in.

/// A table to keep a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoredTable {
    pub(super) name: String,
    pub(super) columns: Vec<MonitoredColumn>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MonitoredColumn {
    pub(super) name: String,
    /// Whether the owner wants to know when it changes.
    pub(super) alert: bool,
}

impl MonitoredTable {
    /// A table of which no column is copied yet. Its rows are, if only to know that they exist.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), columns: Vec::new() }
    }

    /// Adds columns that the owner reads: their changes are told.
    #[must_use]
    pub fn read(self, columns: &[&str]) -> Self {
        self.add(columns, true)
    }

    /// Adds columns that the owner only writes: their values are known, so that equal ones are not
    /// written again, but their changes are not told.
    #[must_use]
    pub fn write(self, columns: &[&str]) -> Self {
        self.add(columns, false)
    }

    fn add(mut self, columns: &[&str], alert: bool) -> Self {
        self.columns
            .extend(columns.iter().map(|name| MonitoredColumn { name: (*name).to_owned(), alert }));
        self
    }
}
