//! The text forms of matches and actions, as `ovs-ofctl` writes and reads them.

mod action;
mod connection_state;
mod flow_match;
mod message;
mod message_groups;
mod message_parts;
mod parse_action;
mod parse_exact;
mod parse_learn;
mod parse_match;
mod parse_nested;
mod scan;
mod value;

use std::fmt::Write as _;

pub use self::action::print_actions;
pub use self::connection_state::{connection_state_text, parse_connection_state};
pub use self::flow_match::{InnerHeaders, print_match, print_match_of_packet};
pub use self::message::{print_flow, print_message};
pub use self::message_groups::{hash_fields_text, print_group};
pub use self::parse_action::parse_actions;
pub use self::parse_exact::parse_packet_fields;
pub use self::parse_match::{OtherWords, parse_match, parse_match_words};
pub use self::scan::ParseError;
use self::scan::Word;
pub(crate) use self::value::{alternate_hex, put_subfield, put_value};
use super::action::Subfield;
use super::port::PortNo;

/// Reads some bits of a field: `name`, `name[]`, `name[bit]` or `name[first..last]`.
///
/// # Errors
/// What is wrong, and where.
pub fn parse_subfield(text: &str) -> Result<Subfield, ParseError> {
    Word::new(text).subfield()
}

/// The priority of flows that say none, which texts leave out.
pub const DEFAULT_PRIORITY: u16 = 0x8000;

/// Names of ports and tables.
pub trait Names {
    /// The name of a port.
    fn port(&self, _port: PortNo) -> Option<&str> {
        None
    }

    /// The name of a table.
    fn table(&self, _table: u8) -> Option<&str> {
        None
    }

    /// The port with this name.
    fn port_by_name(&self, _name: &str) -> Option<PortNo> {
        None
    }

    /// The table with this name.
    fn table_by_name(&self, _name: &str) -> Option<u8> {
        None
    }
}

/// No names: ports and tables are written as numbers.
#[derive(Clone, Copy, Debug)]
pub struct NoNames;

impl Names for NoNames {}

/// Appends a port's name or number.
pub(crate) fn put_port(out: &mut String, port: PortNo, names: &dyn Names) {
    match (port.reserved_name(), names.port(port)) {
        (None, Some(name)) => put_name(out, name),
        _ => put(out, format_args!("{port}")),
    }
}

/// Appends a table's name or number.
pub(crate) fn put_table(out: &mut String, table: u8, names: &dyn Names) {
    match names.table(table) {
        Some(name) => put_name(out, name),
        None => put(out, format_args!("{table}")),
    }
}

/// Appends a name, in quotation marks if it has other characters than letters and digits.
fn put_name(out: &mut String, name: &str) {
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if plain {
        out.push_str(name);
        return;
    }
    out.push('"');
    for character in name.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => put(out, format_args!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Appends formatted text.
pub(crate) fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = out.write_fmt(arguments);
}

/// Removes one `last` from the end.
pub(crate) fn chomp(out: &mut String, last: char) {
    if out.ends_with(last) {
        out.pop();
    }
}

#[cfg(test)]
mod tests;
