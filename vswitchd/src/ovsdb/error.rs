//! The error object of RFC 7047.

use std::fmt;

use serde_json::{Map, Value};

/// The word in the `error` member of an error object, which clients match on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A condition without a word of its own in OVSDB.
    Other,
    /// JSON that does not have the shape that the protocol or the schema asks for.
    Syntax,
    /// A column that the table does not have.
    UnknownColumn,
    /// A table that the database does not have.
    UnknownTable,
    /// A function of a condition that OVSDB does not know.
    UnknownFunction,
    /// A mutator that OVSDB does not know.
    UnknownMutator,
    /// A value outside what the schema allows.
    ConstraintViolation,
    /// A reference to a row that does not exist, or the deletion of a row that is in use.
    ReferentialIntegrityViolation,
    /// The UUID of a row that exists, or was deleted in the same transaction.
    DuplicateUuid,
    /// A name that an insert of the same transaction has taken.
    DuplicateUuidName,
    /// Arithmetic without a result, such as a division by zero.
    Domain,
    /// Arithmetic whose result does not fit its type.
    Range,
    /// A `wait` that did not come true in its time.
    TimedOut,
    /// An `abort` operation.
    Aborted,
    /// An `assert` of a lock that the client does not hold.
    NotOwner,
    /// A change that clients may not make.
    NotAllowed,
    /// Something this server does not do.
    NotSupported,
    /// A file operation that failed.
    Io,
    /// A database that the server does not have.
    UnknownDatabase,
}

impl ErrorKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Other => "ovsdb error",
            Self::Syntax => "syntax error",
            Self::UnknownColumn => "unknown column",
            Self::UnknownTable => "unknown table",
            Self::UnknownFunction => "unknown function",
            Self::UnknownMutator => "unknown mutator",
            Self::ConstraintViolation => "constraint violation",
            Self::ReferentialIntegrityViolation => "referential integrity violation",
            Self::DuplicateUuid => "duplicate uuid",
            Self::DuplicateUuidName => "duplicate uuid-name",
            Self::Domain => "domain error",
            Self::Range => "range error",
            Self::TimedOut => "timed out",
            Self::Aborted => "aborted",
            Self::NotOwner => "not owner",
            Self::NotAllowed => "not allowed",
            Self::NotSupported => "not supported",
            Self::Io => "I/O error",
            Self::UnknownDatabase => "unknown database",
        }
    }
}

/// An `<error>` (RFC 7047 section 3.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// What kind of error.
    pub kind: ErrorKind,
    /// What is wrong, for a person to read.
    pub details: String,
    /// The JSON text that is wrong, where there is one.
    pub syntax: Option<String>,
}

impl Error {
    /// An error that no piece of JSON is to blame for.
    pub fn new(kind: ErrorKind, details: impl Into<String>) -> Self {
        Self { kind, details: details.into(), syntax: None }
    }

    /// A syntax error in `json`.
    pub fn syntax(json: &Value, details: impl Into<String>) -> Self {
        Self::in_json(ErrorKind::Syntax, json, details)
    }

    /// An error of the given kind in `json`.
    pub fn in_json(kind: ErrorKind, json: &Value, details: impl Into<String>) -> Self {
        Self { kind, details: details.into(), syntax: Some(json.to_string()) }
    }

    /// The error object that goes to the client.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("error".into(), self.kind.as_str().into());
        object.insert("details".into(), self.details.as_str().into());
        if let Some(syntax) = &self.syntax {
            object.insert("syntax".into(), syntax.as_str().into());
        }
        Value::Object(object)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(syntax) = &self.syntax {
            write!(f, "syntax \"{syntax}\": ")?;
        }
        write!(f, "{}: {}", self.kind.as_str(), self.details)
    }
}
