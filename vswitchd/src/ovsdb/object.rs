//! Reading the members of JSON objects that have a fixed set of members.

use std::fmt;

use serde_json::{Map, Value};

use super::error::Error;

/// Whether `text` is an `<id>` of RFC 7047: a letter or underscore, then letters, digits and
/// underscores.
pub fn is_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Reads an object member by member and, in the end, refuses members that nobody read.
pub struct ObjectReader<'a> {
    json: &'a Value,
    members: &'a Map<String, Value>,
    name: String,
    read: Vec<&'static str>,
}

impl<'a> ObjectReader<'a> {
    /// Starts to read `json`, which error messages call `name`.
    ///
    /// # Errors
    /// `json` is not an object.
    pub fn new(json: &'a Value, name: impl fmt::Display) -> Result<Self, Error> {
        let name = name.to_string();
        match json.as_object() {
            Some(members) => Ok(Self { json, members, name, read: Vec::new() }),
            None => Err(Error::syntax(json, format!("Parsing {name} failed: Object expected."))),
        }
    }

    /// The whole object.
    pub fn json(&self) -> &'a Value {
        self.json
    }

    /// An error about this object.
    pub fn error(&self, problem: impl fmt::Display) -> Error {
        Error::syntax(self.json, format!("Parsing {} failed: {problem}", self.name))
    }

    /// The error about a member of the wrong type.
    pub fn mismatch(&self, member: &str) -> Error {
        self.error(format_args!("Type mismatch for member '{member}'."))
    }

    /// A member that need not be there.
    pub fn optional(&mut self, member: &'static str) -> Option<&'a Value> {
        self.read.push(member);
        self.members.get(member)
    }

    /// A member that must be there.
    ///
    /// # Errors
    /// It is not there.
    pub fn required(&mut self, member: &'static str) -> Result<&'a Value, Error> {
        self.optional(member)
            .ok_or_else(|| self.error(format_args!("Required '{member}' member is missing.")))
    }

    /// A required member, turned by `convert` into the type it should have.
    ///
    /// # Errors
    /// It is not there, or `convert` gives `None`.
    pub fn required_as<T>(
        &mut self,
        member: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, Error> {
        let value = self.required(member)?;
        convert(value).ok_or_else(|| self.mismatch(member))
    }

    /// An optional member, turned by `convert` into the type it should have.
    ///
    /// # Errors
    /// It is there, and `convert` gives `None`.
    pub fn optional_as<T>(
        &mut self,
        member: &'static str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        match self.optional(member) {
            None => Ok(None),
            Some(value) => convert(value).map(Some).ok_or_else(|| self.mismatch(member)),
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// The object has members that were not read.
    pub fn finish(self) -> Result<(), Error> {
        let unread = || self.members.keys().filter(|key| !self.read.contains(&key.as_str()));
        let Some(first) = unread().next() else { return Ok(()) };
        Err(match unread().count() - 1 {
            0 => self.error(format_args!("Member '{first}' is present but not allowed here.")),
            others => self.error(format_args!(
                "Member '{first}' and {others} other member{} are present but not allowed here.",
                if others > 1 { "s" } else { "" }
            )),
        })
    }
}

/// The string in `json` if it is an `<id>`, for [`ObjectReader::required_as`].
pub fn as_id(json: &Value) -> Option<&str> {
    json.as_str().filter(|text| is_id(text))
}
