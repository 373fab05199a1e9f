//! Rows of the database parsed into the [`Config`].
//!
//! A value that cannot be used is reported by table, row, column and value, with what would be
//! right, and its default is used; it never stops the rest from being applied.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use netdev::ethernet_address::EthernetAddress;
use ofproto::port::PortNumber;
use ofproto::switch::Identity;
use ofproto::switches::FailMode;
use uuid::Uuid;

use super::model::{BridgeConfig, Config, InterfaceConfig, PortConfig, STATISTICS_INTERVAL};
use super::{controller, datapath, flow_table, interface, mirror, vlan};
use crate::ovsdb::client::{Cache, Row, StringMap};

/// Seconds after which a silent station is forgotten unless a bridge says otherwise.
const MAC_AGEING: u64 = 300;
/// Stations that a bridge remembers unless it says otherwise.
const MAC_TABLE_SIZE: u64 = 8192;

/// What the database asks for, and what came to light on the way.
#[derive(Debug, Default)]
pub struct Parsed {
    /// What can be applied.
    pub config: Config,
    /// OpenFlow port numbers that interfaces had before, by row.
    pub number_hints: BTreeMap<Uuid, PortNumber>,
    /// Settings that cannot be used.
    pub problems: BTreeSet<Problem>,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// How loudly to say so: as Open vSwitch does where it does, as information otherwise.
    pub severity: Severity,
    /// A sentence that names the setting, its value and what would be right.
    pub text: String,
}

/// Severity of a [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The setting does not count, which an operator can live with.
    Information,
    /// The setting does not count, which is likely to matter.
    Warning,
    /// The setting asks for something impossible.
    Error,
}

pub(super) type Problems = BTreeSet<Problem>;

pub(super) fn report(problems: &mut Problems, severity: Severity, text: String) {
    problems.insert(Problem { severity, text });
}

/// Parses what the one row of table `Open_vSwitch` leads to. Relative file names are relative to
/// `run_directory`.
pub fn parse(cache: &Cache, run_directory: &Path) -> Parsed {
    let mut parsed = Parsed::default();
    let Some(root) = cache.singleton("Open_vSwitch") else { return parsed };
    let other_config = root.map("other_config");
    parsed.config.statistics_interval = statistics_interval(other_config, &mut parsed.problems);
    parsed.config.datapath = datapath::parse(other_config, &mut parsed.problems);
    parsed.config.tls = controller::tls(cache, root, run_directory);
    for row in cache.references(root, "bridges") {
        let name = row.string("name");
        if name.contains(['/', '\\']) {
            // The name becomes part of socket paths.
            let text = format!("ignoring bridge with invalid name \"{name}\"");
            report(&mut parsed.problems, Severity::Warning, text);
        } else if parsed.config.bridges.contains_key(name) {
            let text = format!("bridge {name} specified twice");
            report(&mut parsed.problems, Severity::Warning, text);
        } else {
            let bridge = parse_bridge(cache, row, &mut parsed);
            parsed.config.bridges.insert(name.to_owned(), bridge);
        }
    }
    parsed
}

fn statistics_interval(other_config: StringMap<'_>, problems: &mut Problems) -> Duration {
    let Some(text) = other_config.get("stats-update-interval") else { return STATISTICS_INTERVAL };
    match text.parse::<u32>() {
        Ok(milliseconds) => Duration::from_millis(milliseconds.into()).max(STATISTICS_INTERVAL),
        Err(_) => {
            let text = format!(
                "Open_vSwitch other_config:stats-update-interval=\"{text}\" is not a number of \
                 milliseconds; using {}",
                STATISTICS_INTERVAL.as_millis()
            );
            report(problems, Severity::Information, text);
            STATISTICS_INTERVAL
        }
    }
}

fn parse_bridge(cache: &Cache, row: Row<'_>, parsed: &mut Parsed) -> BridgeConfig {
    let name = row.string("name");
    let other_config = row.map("other_config");
    let setting = format!("bridge {name}: other_config");
    let problems = &mut parsed.problems;
    let datapath_id = other_config.get("datapath-id").and_then(|text| {
        let id = parse_datapath_id(text);
        if id.is_none() {
            let text = format!(
                "{setting}:datapath-id=\"{text}\" is not a datapath id (1 to 16 hexadecimal \
                 digits, not all zero); using the bridge's Ethernet address"
            );
            report(problems, Severity::Information, text);
        }
        id
    });
    let ethernet_address = other_config
        .get("hwaddr")
        .and_then(|text| parse_address(text, &format!("{setting}:hwaddr"), problems));
    let mut number = |key: &str, default: u64| {
        let Some(text) = other_config.get(key) else { return default };
        match text.parse() {
            // 0 stands for the default, as on Open vSwitch.
            Ok(0) => default,
            Ok(number) => number,
            Err(_) => {
                let text = format!("{setting}:{key}=\"{text}\" is not a number; using {default}");
                report(problems, Severity::Information, text);
                default
            }
        }
    };
    let mac_ageing = number("mac-aging-time", MAC_AGEING);
    let mac_table_size = usize::try_from(number("mac-table-size", MAC_TABLE_SIZE));
    let flow_tables = flow_table::parse(cache, row, problems);
    let mut ports = BTreeMap::new();
    for port_row in cache.references(row, "ports") {
        let port_name = port_row.string("name");
        if ports.contains_key(port_name) {
            let text = format!("bridge {name}: {port_name} specified twice as bridge port");
            report(&mut parsed.problems, Severity::Warning, text);
        } else {
            ports.insert(port_name.to_owned(), parse_port(cache, name, port_row, parsed));
        }
    }
    let port_names = ports.keys().map(String::as_str).collect();
    let mirrors = mirror::parse(cache, row, &port_names, &mut parsed.problems);
    BridgeConfig {
        uuid: row.uuid(),
        datapath_type: row.string("datapath_type").to_owned(),
        datapath_id,
        ethernet_address,
        fail_mode: match row.optional_string("fail_mode") {
            Some("secure") => FailMode::Secure,
            _ => FailMode::Standalone,
        },
        forwards_reserved: other_config.get("forward-bpdu") == Some("true"),
        in_band_queue: other_config.get("in-band-queue").and_then(|queue| queue.parse().ok()),
        mac_ageing,
        mac_table_size: mac_table_size.unwrap_or(usize::MAX),
        identity: Identity {
            serial_number: other_config.get("dp-sn").map(str::to_owned),
            datapath: other_config.get("dp-desc").map(str::to_owned),
        },
        flow_tables,
        mirrors,
        versions: controller::versions(row),
        packet_queue: controller::packet_queue(row),
        bundle_timeout: controller::bundle_timeout(cache),
        controllers: controller::parse(cache, row),
        ports,
    }
}

fn parse_port(cache: &Cache, bridge: &str, row: Row<'_>, parsed: &mut Parsed) -> PortConfig {
    let name = row.string("name");
    let mut interfaces = BTreeMap::new();
    for interface_row in cache.references(row, "interfaces") {
        let interface = parse_interface(bridge, interface_row, parsed);
        interfaces.insert(interface_row.string("name").to_owned(), interface);
    }
    let ethernet_address = row
        .optional_string("mac")
        .and_then(|text| parse_address(text, &format!("port {name}: mac"), &mut parsed.problems));
    let settings = vlan::parse(row, &mut parsed.problems);
    PortConfig {
        ethernet_address,
        settings,
        tag: row.optional_integer("tag").and_then(|tag| u16::try_from(tag).ok()),
        fake_bridge: row.boolean("fake_bridge"),
        interfaces,
    }
}

fn parse_interface(bridge: &str, row: Row<'_>, parsed: &mut Parsed) -> InterfaceConfig {
    let name = row.string("name");
    let port_type = match row.string("type") {
        _ if name == bridge => "internal",
        "" => "system",
        port_type => port_type,
    };
    let problems = &mut parsed.problems;
    let ethernet_address = match row.optional_string("mac") {
        Some(_) if name == bridge => {
            let text = format!(
                "interface {name}: ignoring mac in Interface record (use Bridge record to set \
                 local port's mac)"
            );
            report(problems, Severity::Error, text);
            None
        }
        Some(text) => parse_address(text, &format!("interface {name}: mac"), problems),
        None => None,
    };
    let number = |column| row.optional_integer(column).and_then(PortNumber::from_column);
    if let Some(hint) = number("ofport") {
        parsed.number_hints.insert(row.uuid(), hint);
    }
    InterfaceConfig {
        uuid: row.uuid(),
        port_type: port_type.to_owned(),
        options: owned(row.map("options")),
        ethernet_address,
        mtu_request: row.optional_integer("mtu_request").and_then(|mtu| u32::try_from(mtu).ok()),
        datapath: interface::parse(name, row.map("other_config"), problems),
        number_request: number("ofport_request"),
    }
}

fn owned(map: StringMap<'_>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// A datapath id as `other_config:datapath-id` writes it: 16 hexadecimal digits, or up to 16 after
/// `0x`; never zero.
fn parse_datapath_id(text: &str) -> Option<u64> {
    let digits = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if (1..=16).contains(&digits.len()) => digits,
        None if text.len() == 16 => text,
        _ => return None,
    };
    let only_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|&id| only_digits && id != 0)
}

/// An address that a port may have. `setting` names where the text comes from.
fn parse_address(text: &str, setting: &str, problems: &mut Problems) -> Option<EthernetAddress> {
    let (severity, problem) = match EthernetAddress::from_str(text) {
        Ok(address) if address.is_multicast() => (Severity::Error, "is a multicast address"),
        Ok(EthernetAddress([0, 0, 0, 0, 0, 0])) => (Severity::Error, "is all zero"),
        Ok(address) => return Some(address),
        Err(_) => (Severity::Information, "is not an Ethernet address (xx:xx:xx:xx:xx:xx)"),
    };
    report(problems, severity, format!("{setting}=\"{text}\" {problem}; ignoring it"));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datapath_ids() {
        assert_eq!(parse_datapath_id("0123456789abcdef"), Some(0x0123_4567_89ab_cdef));
        assert_eq!(parse_datapath_id("0x5ad515c0"), Some(0x5ad5_15c0));
        for bad in
            ["0x00", "0000000000000000", "1234", "", "0x", "0x+1", "0123456789abcdefg", "xyz"]
        {
            assert_eq!(parse_datapath_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_name_what_is_wrong() {
        let parse = |text: &str| {
            let mut problems = Problems::new();
            let address = parse_address(text, "x: mac", &mut problems);
            (address, problems.into_iter().map(|problem| problem.text).collect::<Vec<_>>())
        };
        let address = EthernetAddress([0xaa, 0x55, 0xaa, 0x55, 0, 1]);
        assert_eq!(parse("aa:55:aa:55:00:01"), (Some(address), vec![]));
        assert_eq!(
            parse("01:00:00:00:00:00").1,
            ["x: mac=\"01:00:00:00:00:00\" is a multicast address; ignoring it"]
        );
        assert_eq!(
            parse("00:00:00:00:00:00").1,
            ["x: mac=\"00:00:00:00:00:00\" is all zero; ignoring it"]
        );
        assert_eq!(
            parse("nonsense").1,
            ["x: mac=\"nonsense\" is not an Ethernet address (xx:xx:xx:xx:xx:xx); ignoring it"]
        );
    }
}
