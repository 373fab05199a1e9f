//! The `Mirror` rows of a bridge.

use std::collections::BTreeSet;

use ofproto::port_settings::VlanSet;
use uuid::Uuid;

use super::parse::{Problems, Severity, report};
use crate::ovsdb::client::{Cache, Row};

/// A `Mirror` row, with ports by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorConfig {
    /// Its row.
    pub uuid: Uuid,
    /// `name`.
    pub name: String,
    /// Whether it takes packets of all ports (`select_all`).
    pub takes_all: bool,
    /// `select_src_port`.
    pub sources: BTreeSet<String>,
    /// `select_dst_port`.
    pub destinations: BTreeSet<String>,
    /// `select_vlan`; `None` when empty.
    pub vlans: Option<VlanSet>,
    /// `filter`.
    pub filter: Option<String>,
    /// `output_port` or `output_vlan`.
    pub output: MirrorOutput,
    /// `snaplen`.
    pub snap_length: u16,
}

/// Where a mirror sends its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorOutput {
    /// To the port with this name.
    Port(String),
    /// To this VLAN.
    Vlan(u16),
}

/// The mirrors of a bridge whose ports have these names.
pub(super) fn parse(
    cache: &Cache,
    bridge: Row<'_>,
    ports: &BTreeSet<&str>,
    problems: &mut Problems,
) -> Vec<MirrorConfig> {
    let name = bridge.string("name");
    let rows = cache.references(bridge, "mirrors");
    rows.filter_map(|row| parse_one(cache, name, row, ports, problems)).collect()
}

fn parse_one(
    cache: &Cache,
    bridge: &str,
    row: Row<'_>,
    ports: &BTreeSet<&str>,
    problems: &mut Problems,
) -> Option<MirrorConfig> {
    let name = row.string("name");
    let number = |column| row.optional_integer(column).and_then(|n| u16::try_from(n).ok());
    let mut fail = |text: &str| {
        let text = format!("bridge {bridge}: mirror {name} {text}");
        report(problems, Severity::Error, text);
    };
    let output_port = cache.references(row, "output_port").next();
    let output = match (output_port, number("output_vlan")) {
        (Some(port), _) if !ports.contains(port.string("name")) => {
            fail("outputs to port not on bridge");
            return None;
        }
        (Some(port), vlan) => {
            if vlan.is_some() {
                fail("specifies both output port and output vlan; ignoring output vlan");
            }
            MirrorOutput::Port(port.string("name").to_owned())
        }
        (None, Some(vlan)) => MirrorOutput::Vlan(vlan),
        (None, None) => {
            fail("does not specify output; ignoring");
            return None;
        }
    };
    let takes_all = row.boolean("select_all");
    let mut select = |column| {
        let rows = cache.references(row, column).filter(|_| !takes_all);
        let names = rows.map(|row| row.string("name").to_owned());
        let (known, unknown): (BTreeSet<String>, BTreeSet<String>) =
            names.partition(|name| ports.contains(name.as_str()));
        for port in unknown {
            let text =
                format!("bridge {bridge}: mirror {name} cannot match on nonexistent port {port}");
            report(problems, Severity::Warning, text);
        }
        known
    };
    let vlans: Vec<u16> =
        row.integers("select_vlan").filter_map(|vlan| u16::try_from(vlan).ok()).collect();
    Some(MirrorConfig {
        uuid: row.uuid(),
        name: name.to_owned(),
        takes_all,
        sources: select("select_src_port"),
        destinations: select("select_dst_port"),
        vlans: (!vlans.is_empty()).then(|| vlans.into_iter().collect()),
        filter: row.optional_string("filter").map(str::to_owned),
        output,
        snap_length: number("snaplen").unwrap_or(0),
    })
}
