//! What operators write after `-v` and `vlog/set`.

use std::str::FromStr;

use thiserror::Error;

use super::destination::Destination;
use super::level::Level;
use super::module::Module;
use super::syslog::Facility;

/// One change to what is logged and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// Sets the least severe level that is logged.
    Level {
        /// The module concerned; all when `None`.
        module: Option<Module>,
        /// The destination concerned; all when `None`.
        destination: Option<Destination>,
        /// The new level.
        level: Level,
    },
    /// Sets the layout of lines.
    Pattern {
        /// The destination concerned; all when `None`.
        destination: Option<Destination>,
        /// The new layout.
        pattern: String,
    },
    /// Sets the facility of messages to the system's log.
    Facility(Facility),
}

impl Spec {
    /// Everything is logged everywhere: `-v` alone.
    pub const MAXIMUM: Self = Self::Level { module: None, destination: None, level: Level::Debug };
}

/// Why a [`Spec`] cannot be understood. The texts are Open vSwitch's.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SpecError {
    /// `PATTERN` without a destination.
    #[error("missing destination")]
    MissingDestination,
    /// `PATTERN` with something else where a destination belongs.
    #[error("unknown destination \"{0}\"")]
    UnknownDestination(String),
    /// `FACILITY` with something else than a facility.
    #[error("invalid facility")]
    InvalidFacility,
    /// Two destinations.
    #[error("cannot specify multiple destinations")]
    MultipleDestinations,
    /// Two levels.
    #[error("cannot specify multiple levels")]
    MultipleLevels,
    /// Two modules.
    #[error("cannot specify multiple modules")]
    MultipleModules,
    /// A word that means nothing.
    #[error("no destination, level, or module \"{0}\"")]
    UnknownWord(String),
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (word, rest) = next_word(text);
        if word.eq_ignore_ascii_case("pattern") {
            let (word, rest) = next_word(rest);
            let destination = if word.eq_ignore_ascii_case("any") {
                None
            } else if word.is_empty() {
                return Err(SpecError::MissingDestination);
            } else if let Some(destination) = Destination::named(word) {
                Some(destination)
            } else {
                return Err(SpecError::UnknownDestination(word.to_owned()));
            };
            Ok(Self::Pattern { destination, pattern: rest.to_owned() })
        } else if word.eq_ignore_ascii_case("facility") {
            Facility::named(rest).map(Self::Facility).ok_or(SpecError::InvalidFacility)
        } else {
            parse_level(text)
        }
    }
}

/// Parses destination, module and level, in any order and each optional.
fn parse_level(text: &str) -> Result<Spec, SpecError> {
    let (mut module, mut destination, mut level) = (None, None, None);
    for word in text.split(is_separator).filter(|word| !word.is_empty()) {
        if word.eq_ignore_ascii_case("any") {
            continue;
        } else if let Some(named) = Destination::named(word) {
            if destination.replace(named).is_some() {
                return Err(SpecError::MultipleDestinations);
            }
        } else if let Some(named) = Level::named(word) {
            if level.replace(named).is_some() {
                return Err(SpecError::MultipleLevels);
            }
        } else if let Some(named) = Module::named(word) {
            if module.replace(named).is_some() {
                return Err(SpecError::MultipleModules);
            }
        } else {
            return Err(SpecError::UnknownWord(word.to_owned()));
        }
    }
    Ok(Spec::Level { module, destination, level: level.unwrap_or(Level::Debug) })
}

fn is_separator(character: char) -> bool {
    matches!(character, ' ' | ',' | ':' | '\t')
}

/// The first word of `text` and what follows the one separator behind it.
fn next_word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches(is_separator);
    text.split_once(is_separator).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(
        module: &str,
        destination: Option<Destination>,
        level: Level,
    ) -> Result<Spec, SpecError> {
        Ok(Spec::Level { module: Module::named(module), destination, level })
    }

    #[test]
    fn words_come_in_any_order() {
        let file = Some(Destination::File);
        for (text, want) in [
            ("", level("", None, Level::Debug)),
            ("any", level("", None, Level::Debug)),
            ("any:any:dbg", level("", None, Level::Debug)),
            ("vconn", level("vconn", None, Level::Debug)),
            ("file:rconn:dbg", level("rconn", file, Level::Debug)),
            ("rconn,file,warn", level("rconn", file, Level::Warning)),
            ("INFO Rconn FILE", level("rconn", file, Level::Info)),
            ("::off\t:\tconsole:", level("", Some(Destination::Console), Level::Off)),
            ("syslog:emer", level("", Some(Destination::Syslog), Level::Emergency)),
        ] {
            assert_eq!(text.parse(), want, "{text:?}");
        }
    }

    #[test]
    fn patterns_and_facilities_take_the_rest() {
        for (text, destination, pattern) in [
            ("PATTERN:console:%m: a, b", Some(Destination::Console), "%m: a, b"),
            ("pattern any ::x", None, "::x"),
            (":pattern:file", Some(Destination::File), ""),
        ] {
            let want = Spec::Pattern { destination, pattern: pattern.to_owned() };
            assert_eq!(text.parse(), Ok(want), "{text:?}");
        }
        assert_eq!(
            "facility:LOCAL3".parse(),
            Ok(Spec::Facility(Facility::named("local3").unwrap()))
        );
    }

    #[test]
    fn errors_have_the_words_that_scripts_expect() {
        for (text, want) in [
            ("PATTERN", "missing destination"),
            ("PATTERN:stdout:%m", "unknown destination \"stdout\""),
            ("FACILITY:local8", "invalid facility"),
            ("FACILITY", "invalid facility"),
            ("file:console", "cannot specify multiple destinations"),
            ("info:dbg", "cannot specify multiple levels"),
            ("vconn,rconn", "cannot specify multiple modules"),
            ("file:vcon:dbg", "no destination, level, or module \"vcon\""),
        ] {
            assert_eq!(text.parse::<Spec>().unwrap_err().to_string(), want, "{text:?}");
        }
    }
}
