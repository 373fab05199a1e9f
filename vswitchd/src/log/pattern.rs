//! The layout of a line: text with fields such as `%05N`, as described under "vlog" in
//! ovs-appctl(8).

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::strtime::{BrokenDownTime, Config};
use jiff::tz::TimeZone;

use super::level::Level;
use super::syslog::Facility;

/// Layout of a date where the field names none.
const DEFAULT_DATE: &str = "%Y-%m-%d %H:%M:%S.###";
/// Widest field, in bytes, whatever the pattern asks for.
const MAX_WIDTH: usize = 1024;

/// One message and what is known about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) program: &'a str,
    pub(super) module: &'a str,
    pub(super) level: Level,
    pub(super) message: &'a str,
    /// Number of the message in its thread, from 1.
    pub(super) number: u32,
    /// Name of the thread; `None` for the main one.
    pub(super) thread: Option<&'a str>,
    /// Since the Unix epoch.
    pub(super) wall: Duration,
    /// Since the program started.
    pub(super) elapsed: Duration,
    pub(super) facility: Facility,
}

/// A layout, ready for use. Every text is one: an unknown field stands for its own letter.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    text: String,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Field { field: Field, width: usize, left: bool, fill: char },
}

#[derive(Clone, Debug)]
enum Field {
    Program,
    Priority,
    Module,
    LocalDate(String),
    UtcDate(String),
    Host,
    Message,
    Number,
    NewLine,
    Level,
    ProcessId,
    Elapsed,
    Thread,
    ThreadInParentheses,
    Letter(char),
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            rest = parse_field(after, &mut pieces);
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Self { text: text.to_owned(), pieces }
    }

    /// The text that the pattern was made from.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The line for `record`, without a new-line at its end.
    pub(super) fn format(&self, record: &Record<'_>) -> String {
        let mut line = String::with_capacity(128);
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => line.push_str(text),
                Piece::Field { field, width, left, fill } => {
                    let value = field.value(record);
                    let padding = (value.len()..*width).map(|_| *fill);
                    if *left {
                        line.push_str(&value);
                        line.extend(padding);
                    } else {
                        line.extend(padding);
                        line.push_str(&value);
                    }
                }
            }
        }
        line
    }
}

/// Parses a field, given what follows its `%`, and returns what follows the field. A `%` that
/// nothing follows stands for nothing.
fn parse_field<'a>(text: &'a str, pieces: &mut Vec<Piece>) -> &'a str {
    let (left, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (fill, text) = text.strip_prefix('0').map_or((' ', text), |text| ('0', text));
    let letter_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, text) = text.split_at_checked(letter_at).unwrap_or((text, ""));
    // Only digits, so the one error is a number too large.
    let width = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(MAX_WIDTH) };

    let mut letters = text.chars();
    let Some(letter) = letters.next() else { return "" };
    let text = letters.as_str();
    // Braces belong to dates alone, but after `%c` they are accepted and ignored.
    let (braces, rest) = match letter {
        'c' | 'd' | 'D' => split_braces(text),
        _ => (None, text),
    };
    let date = || braces.unwrap_or(DEFAULT_DATE).to_owned();
    let field = match letter {
        'A' => Field::Program,
        'B' => Field::Priority,
        'c' => Field::Module,
        'd' => Field::LocalDate(date()),
        'D' => Field::UtcDate(date()),
        'E' => Field::Host,
        'm' => Field::Message,
        'N' => Field::Number,
        'n' => Field::NewLine,
        'p' => Field::Level,
        'P' => Field::ProcessId,
        'r' => Field::Elapsed,
        't' => Field::Thread,
        'T' => Field::ThreadInParentheses,
        letter => Field::Letter(letter),
    };
    pieces.push(Piece::Field { field, width: width.min(MAX_WIDTH), left, fill });
    rest
}

/// Splits `{...}` off the start of `text`. A missing `}` ends at the end of the text.
fn split_braces(text: &str) -> (Option<&str>, &str) {
    match text.strip_prefix('{') {
        Some(inside) => {
            let (braces, rest) = inside.split_once('}').unwrap_or((inside, ""));
            (Some(braces), rest)
        }
        None => (None, text),
    }
}

impl Field {
    fn value(&self, record: &Record<'_>) -> String {
        match self {
            Self::Program => record.program.to_owned(),
            Self::Priority => record.facility.or_local0().priority(record.level).to_string(),
            Self::Module => record.module.to_owned(),
            Self::LocalDate(layout) => format_date(layout, record.wall, TimeZone::system()),
            Self::UtcDate(layout) => format_date(layout, record.wall, TimeZone::UTC),
            Self::Host => rustix::system::uname().nodename().to_string_lossy().into_owned(),
            Self::Message => record.message.trim_end_matches('\n').to_owned(),
            Self::Number => record.number.to_string(),
            Self::NewLine => "\n".to_owned(),
            Self::Level => record.level.name().to_owned(),
            Self::ProcessId => std::process::id().to_string(),
            Self::Elapsed => record.elapsed.as_millis().to_string(),
            Self::Thread => record.thread.unwrap_or("main").to_owned(),
            Self::ThreadInParentheses => {
                record.thread.map_or_else(String::new, |name| format!("({name})"))
            }
            Self::Letter(letter) => letter.to_string(),
        }
    }
}

/// Lays `wall` out by a `strftime(3)` layout in which a run of `#` stands for as many digits of
/// the fraction of the second.
fn format_date(layout: &str, wall: Duration, zone: TimeZone) -> String {
    // A clock beyond the year 9999 is shown as the epoch.
    let time = Timestamp::UNIX_EPOCH.checked_add(wall).unwrap_or(Timestamp::UNIX_EPOCH);
    let config = Config::new().lenient(true);
    let text = BrokenDownTime::from(&time.to_zoned(zone))
        .to_string_with_config(&config, layout)
        .unwrap_or_else(|_| layout.to_owned());

    let milliseconds = format!("{:03}", wall.subsec_millis());
    let mut digits = milliseconds.chars();
    text.chars()
        .map(|c| {
            if c == '#' {
                digits.next().unwrap_or('0')
            } else {
                digits = milliseconds.chars();
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const RECORD: Record<'_> = Record {
        program: "sluice-vswitchd",
        module: "dpif_netdev",
        level: Level::Warning,
        message: "two\nlines\n\n",
        number: 42,
        thread: Some("pmd-c00/id:9"),
        // 2026-07-23 01:02:03.045
        wall: Duration::from_millis(1_784_768_523_045),
        elapsed: Duration::from_millis(1234),
        facility: Facility::UNSET,
    };

    fn format(pattern: &str) -> String {
        Pattern::new(pattern).format(&RECORD)
    }

    #[test]
    fn fields_have_the_values_of_the_record() {
        for (pattern, want) in [
            ("", ""),
            ("%", ""),
            ("%%", "%"),
            ("%A", "sluice-vswitchd"),
            ("%B", "132"),
            ("%c", "dpif_netdev"),
            ("%c{ignored}|", "dpif_netdev|"),
            ("%D", "2026-07-23 01:02:03.045"),
            ("%D{%Y-%m-%dT%H:%M:%S.###Z}|", "2026-07-23T01:02:03.045Z|"),
            ("%D{#-##-####}", "0-04-0450"),
            ("%D{%h %e %T}", "Jul 23 01:02:03"),
            ("%D{%s", "1784768523"),
            ("%m", "two\nlines"),
            ("%N", "42"),
            ("a%nb", "a\nb"),
            ("%p", "WARN"),
            ("%r", "1234"),
            ("%t", "pmd-c00/id:9"),
            ("%T", "(pmd-c00/id:9)"),
            ("%q%é", "qé"),
            ("[%05N][%5N][%-5N][%-05N][%1N]", "[00042][   42][42   ][42000][42]"),
            ("%99999999999999999999q", &format!("{:>1024}", "q")),
        ] {
            assert_eq!(format(pattern), want, "{pattern:?}");
        }
        assert_eq!(format("%P"), std::process::id().to_string());
        assert_eq!(format("%E"), rustix::system::uname().nodename().to_str().unwrap());
    }

    #[test]
    fn the_main_thread_has_no_name() {
        let record = Record { thread: None, ..RECORD };
        assert_eq!(Pattern::new("%t|%T|").format(&record), "main||");
    }

    #[test]
    fn the_facility_shows_in_the_priority() {
        let record = Record { facility: Facility::named("daemon").unwrap(), ..RECORD };
        assert_eq!(Pattern::new("%B").format(&record), "28");
    }

    proptest! {
        #[test]
        fn any_text_is_a_pattern(text in "([%{}#0-9A-Za-z-]|\\PC){0,40}") {
            let pattern = Pattern::new(&text);
            pattern.format(&RECORD);
            prop_assert_eq!(pattern.text(), text);
        }
    }
}
