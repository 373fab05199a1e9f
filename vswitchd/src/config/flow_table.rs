//! The `Flow_Table` rows of a bridge.

use std::collections::BTreeMap;

use ofproto::classifier::{MAX_PREFIX_FIELDS, has_prefixes};
use ofproto::openflow::action::Subfield;
use ofproto::openflow::field::Field;
use ofproto::openflow::text::parse_subfield;
use ofproto::tables::{Overflow, TableSettings};

use super::parse::{Problems, Severity, report};
use crate::ovsdb::atom::Atom;
use crate::ovsdb::client::{Cache, Row};

/// The settings of those tables of a bridge that have any, by number.
pub(super) fn parse(
    cache: &Cache,
    bridge: Row<'_>,
    problems: &mut Problems,
) -> BTreeMap<u8, TableSettings> {
    let name = bridge.string("name");
    let tables = bridge.datum("flow_tables").map_or(&[][..], |tables| tables.as_map());
    let rows = tables.iter().filter_map(|(number, row)| match (number, row) {
        (Atom::Integer(number), Atom::Uuid(row)) => {
            Some((u8::try_from(*number).ok()?, cache.row("Flow_Table", *row)?))
        }
        _ => None,
    });
    rows.map(|(number, row)| {
        let settings = TableSettings {
            name: row.optional_string("name").map(str::to_owned),
            limit: row.optional_integer("flow_limit").and_then(|limit| u32::try_from(limit).ok()),
            overflow: match row.optional_string("overflow_policy") {
                Some("evict") => Overflow::Evict,
                _ => Overflow::Refuse,
            },
            groups: groups(name, number, row, problems),
            prefixes: prefixes(name, row, problems),
        };
        (number, settings)
    })
    .collect()
}

fn groups(bridge: &str, table: u8, row: Row<'_>, problems: &mut Problems) -> Vec<Subfield> {
    let mut groups = Vec::new();
    for text in row.strings("groups") {
        match parse_subfield(text) {
            Ok(subfield) => groups.push(subfield),
            Err(error) => {
                let text =
                    format!("bridge {bridge} table {table}: error parsing 'groups' ({error})");
                report(problems, Severity::Warning, text);
            }
        }
    }
    groups
}

/// The fields whose prefixes the table is to track; `None` where it does not say.
fn prefixes(bridge: &str, row: Row<'_>, problems: &mut Problems) -> Option<Vec<Field>> {
    let mut fields = None;
    for name in row.strings("prefixes") {
        if name == "none" {
            return Some(Vec::new());
        }
        let known = fields.as_ref().map_or(0, Vec::len);
        let problem = match Field::from_name(name) {
            None => format!("unknown field: {name}"),
            Some(field) if !has_prefixes(field) => format!("incompatible field: {name}"),
            Some(_) if known == MAX_PREFIX_FIELDS => {
                format!("too many fields, field not used: {name}")
            }
            Some(field) => {
                fields.get_or_insert_with(Vec::new).push(field);
                continue;
            }
        };
        let text = format!("bridge {bridge}: 'prefixes' with {problem}");
        report(problems, Severity::Warning, text);
    }
    fields
}
