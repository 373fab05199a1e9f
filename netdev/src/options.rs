//! Reading the options of ports.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// The options of a port as they were given. Errors say which is wrong, and what would be right.
pub(crate) struct Given<'a>(pub(crate) &'a BTreeMap<String, String>);

impl Given<'_> {
    /// The text of an option.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(
        &self,
        key: &str,
        default: T,
        words: &[(&str, T)],
    ) -> Result<T, String> {
        let Some(text) = self.text(key) else { return Ok(default) };
        let found = words.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            format!("{key}={text} is none of {}", words.join(", "))
        })
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self, key: &str, default: bool) -> Result<bool, String> {
        self.word(key, default, &[("true", true), ("false", false)])
    }

    /// A number within a range.
    pub(crate) fn number<T>(&self, key: &str, default: T, range: (T, T)) -> Result<T, String>
    where
        T: FromStr + PartialOrd + Display + Copy,
    {
        let Some(text) = self.text(key) else { return Ok(default) };
        let (least, most) = range;
        let number = text.parse().ok().filter(|number| *number >= least && *number <= most);
        number.ok_or_else(|| format!("{key}={text} is not a number from {least} to {most}"))
    }
}
