//! Table updates as the server sends them (RFC 7047 section 4.1.6 and ovsdb-server(7)).

use serde_json::{Map, Value};
use uuid::Uuid;

use crate::ovsdb::atom::parse_uuid;

/// The way to monitor, which is also the form of the updates. From old to new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Method {
    /// `monitor`: whole rows, old and new.
    Plain,
    /// `monitor_cond`: differences.
    Cond,
    /// `monitor_cond_since`: differences, and the transaction that they lead up to.
    CondSince,
}

impl Method {
    pub(super) fn request(self) -> &'static str {
        match self {
            Self::Plain => "monitor",
            Self::Cond => "monitor_cond",
            Self::CondSince => "monitor_cond_since",
        }
    }

    /// The method whose updates arrive in a notification of this name.
    pub(super) fn of_notification(name: &str) -> Option<Self> {
        match name {
            "update" => Some(Self::Plain),
            "update2" => Some(Self::Cond),
            "update3" => Some(Self::CondSince),
            _ => None,
        }
    }
}

/// What happened to a row.
pub(super) enum RowUpdate<'a> {
    /// It is new, with these columns.
    Insert(&'a Map<String, Value>),
    /// These columns have new values.
    Replace(&'a Map<String, Value>),
    /// These columns changed by these differences.
    Difference(&'a Map<String, Value>),
    /// It is gone.
    Delete,
}

/// Why an update cannot be taken. The copy of the database is of no use then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UpdateError {
    /// A part of the update has not the form that the protocol gives it.
    #[error("syntax \"{json}\": syntax error: {problem}")]
    Syntax {
        /// The part.
        json: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The update does not fit the rows that were known before.
    #[error("cannot {action} row {uuid} in table {table}")]
    Inconsistent {
        /// What the update does, and why it cannot: `delete missing`, for example.
        action: &'static str,
        /// The row.
        uuid: Uuid,
        /// Its table.
        table: String,
    },
}

fn syntax(json: &Value, problem: &'static str) -> UpdateError {
    UpdateError::Syntax { json: json.to_string(), problem }
}

/// The tables in `<table-updates>`, each with its rows.
pub(super) fn tables(updates: &Value) -> Result<&Map<String, Value>, UpdateError> {
    updates.as_object().ok_or_else(|| syntax(updates, "<table-updates> is not an object"))
}

/// The rows in a `<table-update>`.
pub(super) fn rows(
    update: &Value,
    method: Method,
) -> Result<Vec<(Uuid, RowUpdate<'_>)>, UpdateError> {
    let rows =
        update.as_object().ok_or_else(|| syntax(update, "<table-update> is not an object"))?;
    rows.iter()
        .map(|(uuid, row)| {
            let uuid = parse_uuid(uuid)
                .ok_or_else(|| syntax(update, "<table-update> contains a bad UUID"))?;
            let members =
                row.as_object().ok_or_else(|| syntax(row, "<row-update> is not an object"))?;
            let row_update = match method {
                Method::Plain => plain_row(members),
                Method::Cond | Method::CondSince => difference_row(members),
            };
            Ok((uuid, row_update.ok_or_else(|| syntax(row, "<row-update> has bad members"))?))
        })
        .collect()
}

fn plain_row(members: &Map<String, Value>) -> Option<RowUpdate<'_>> {
    match (members.get("old"), members.get("new"), members.len()) {
        (Some(old), None, 1) => old.as_object().map(|_| RowUpdate::Delete),
        (None, Some(new), 1) => new.as_object().map(RowUpdate::Insert),
        (Some(old), Some(new), 2) => old.as_object().and(new.as_object()).map(RowUpdate::Replace),
        _ => None,
    }
}

fn difference_row(members: &Map<String, Value>) -> Option<RowUpdate<'_>> {
    let mut members = members.iter();
    let (Some((name, value)), None) = (members.next(), members.next()) else { return None };
    match name.as_str() {
        "initial" | "insert" => value.as_object().map(RowUpdate::Insert),
        "modify" => value.as_object().map(RowUpdate::Difference),
        "delete" => value.is_null().then_some(RowUpdate::Delete),
        _ => None,
    }
}
