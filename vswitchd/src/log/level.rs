//! How severe a message is, and how severe it must be for a destination to take it.

/// Severity of a message, most severe first. As the threshold of a destination, it admits
/// messages at least as severe; [`Level::Off`] admits none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A threshold only: nothing is logged.
    Off,
    /// The process cannot go on.
    Emergency,
    /// Something failed.
    Error,
    /// Something is wrong, but the work goes on.
    Warning,
    /// Worth knowing in ordinary operation.
    Info,
    /// For finding faults.
    Debug,
}

impl Level {
    const ALL: [Self; 6] =
        [Self::Off, Self::Emergency, Self::Error, Self::Warning, Self::Info, Self::Debug];

    /// The name that operators write and read, such as `WARN`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "OFF",
            Self::Emergency => "EMER",
            Self::Error => "ERR",
            Self::Warning => "WARN",
            Self::Info => "INFO",
            Self::Debug => "DBG",
        }
    }

    /// The level of that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(name))
    }

    /// Severity number of RFC 5424 section 6.2.1, as Open vSwitch assigns them.
    pub(super) fn syslog_severity(self) -> u8 {
        match self {
            Self::Off | Self::Emergency => 1,
            Self::Error => 3,
            Self::Warning => 4,
            Self::Info => 5,
            Self::Debug => 7,
        }
    }

    /// The level at which an event is logged; `None` for traces, which are never logged.
    pub(super) fn of_event(level: tracing::Level) -> Option<Self> {
        match level {
            tracing::Level::ERROR => Some(Self::Error),
            tracing::Level::WARN => Some(Self::Warning),
            tracing::Level::INFO => Some(Self::Info),
            tracing::Level::DEBUG => Some(Self::Debug),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case() {
        for (name, level) in [
            ("off", Level::Off),
            ("emer", Level::Emergency),
            ("Err", Level::Error),
            ("WARN", Level::Warning),
            ("info", Level::Info),
            ("dbg", Level::Debug),
        ] {
            assert_eq!(Level::named(name), Some(level));
        }
        assert_eq!(Level::named("debug"), None);
    }
}
