//! `fdb/*`: the stations that bridges have learned.

use std::sync::Arc;

use netdev::ethernet_address::EthernetAddress;
use ofproto::fdb;
use ofproto::mac_table::MacTable;
use ofproto::openflow::port::PortNo;
use serde_json::json;

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::config::diff::InterfaceName;
use crate::daemon::Daemon;

use super::command;

const ANY: usize = usize::MAX;
const NO_BRIDGE: &str = "no such bridge";

pub(super) const COMMANDS: &[Command] = &[
    command("fdb/add", "bridge port vlan mac", (4, 4), Handler::Now(add)),
    command("fdb/del", "bridge vlan mac", (3, 3), Handler::Now(delete)),
    command("fdb/flush", "[bridge]", (0, 1), Handler::Now(flush)),
    command("fdb/show", "[bridge...]", (0, ANY), Handler::Now(show)),
    command("fdb/stats-clear", "[bridge]", (0, 1), Handler::Now(clear_statistics)),
    command("fdb/stats-show", "bridge", (1, 1), Handler::Now(show_statistics)),
];

fn table<'a>(daemon: &'a Daemon, name: Option<&str>) -> Result<&'a Arc<MacTable>, String> {
    let switch = name.and_then(|name| daemon.bridges.switch(name));
    switch.map(|switch| switch.mac_table()).ok_or_else(|| NO_BRIDGE.to_owned())
}

/// The tables of the named bridge, or of all without a name.
fn tables<'a>(daemon: &'a Daemon, name: Option<&str>) -> Result<Vec<&'a Arc<MacTable>>, String> {
    match name {
        Some(_) => Ok(vec![table(daemon, name)?]),
        None => Ok(daemon.bridges.switches().map(|switch| switch.mac_table()).collect()),
    }
}

fn all_names(daemon: &Daemon) -> impl Iterator<Item = &str> {
    daemon.bridges.switches().map(|switch| switch.name())
}

fn parse_station(call: &Call, vlan_at: usize) -> Result<(u16, EthernetAddress), String> {
    let text = |index| call.argument(index).unwrap_or_default();
    let vlan = text(vlan_at).parse::<u16>().ok().filter(|&vlan| vlan < 4096);
    let vlan = vlan.ok_or_else(|| format!("bad VLAN \"{}\" (0 to 4095)", text(vlan_at)))?;
    let address = text(vlan_at + 1).parse::<EthernetAddress>();
    Ok((vlan, address.map_err(|error| format!("bad MAC address: {error}"))?))
}

fn add(daemon: &mut Daemon, call: &Call) -> Outcome {
    let bridge = call.argument(0).unwrap_or_default();
    let interface = call.argument(1).unwrap_or_default();
    let name = InterfaceName { bridge: bridge.to_owned(), interface: interface.to_owned() };
    let table = table(daemon, Some(bridge))?;
    let number = daemon.bridges.number(&name);
    let number = number.ok_or_else(|| format!("no port \"{interface}\" on bridge {bridge}"))?;
    let (vlan, address) = parse_station(call, 2)?;
    let mut known = table.entries().into_iter();
    let old = known.find(|entry| (entry.vlan, entry.address) == (vlan, address));
    if !table.add_static(vlan, address, number) {
        return Err("could not add static mac entry".to_owned());
    }
    // The same again is no news.
    let old = old.filter(|old| old.port != number || old.age.is_some());
    Ok(old.map_or_else(Output::none, |old| {
        let kind = if old.age.is_some() { "dynamic" } else { "static" };
        let port = PortNo(old.port.0);
        Output::Text(format!("Overriding already existing {kind} entry on {port}"))
    }))
}

fn delete(daemon: &mut Daemon, call: &Call) -> Outcome {
    let table = table(daemon, call.argument(0))?;
    let (vlan, address) = parse_station(call, 1)?;
    if !table.remove_static(vlan, address) {
        return Err("could not find static mac entry".to_owned());
    }
    Ok(Output::none())
}

fn flush(daemon: &mut Daemon, call: &Call) -> Outcome {
    tables(daemon, call.argument(0))?.iter().for_each(|table| table.flush());
    Ok(Output::Text("table successfully flushed".to_owned()))
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let names: Vec<&str> = match call.arguments.is_empty() {
        true => all_names(daemon).collect(),
        false => call.arguments.iter().map(String::as_str).collect(),
    };
    let mut bridges = vec![];
    for name in names {
        let table = table(daemon, Some(name)).map_err(|error| format!("{error} {name}"))?;
        bridges.push((name, table.as_ref()));
    }
    Ok(match call.format {
        Format::Text => Output::Text(fdb::show(&bridges)),
        Format::Json => {
            let bridges = bridges.iter().map(|(name, table)| {
                let entries = table.entries().into_iter().map(|entry| {
                    let mut json = json!({
                        "port": entry.port.0,
                        "vlan": entry.vlan,
                        "mac": entry.address.to_string(),
                    });
                    match entry.age {
                        Some(age) => json["age"] = age.into(),
                        None => json["static"] = true.into(),
                    }
                    json
                });
                ((*name).to_owned(), entries.collect::<serde_json::Value>())
            });
            Output::Json(bridges.collect())
        }
    })
}

fn clear_statistics(daemon: &mut Daemon, call: &Call) -> Outcome {
    tables(daemon, call.argument(0))?.iter().for_each(|table| table.clear_statistics());
    Ok(Output::Text("statistics successfully cleared".to_owned()))
}

fn show_statistics(daemon: &mut Daemon, call: &Call) -> Outcome {
    let name = call.argument(0).unwrap_or_default();
    let table = table(daemon, Some(name))?;
    Ok(match call.format {
        Format::Text => Output::Text(fdb::show_statistics(name, table)),
        Format::Json => {
            let (occupancy, statistics) = (table.occupancy(), table.statistics());
            Output::Json(json!({
                "entries": occupancy.entries,
                "static-entries": occupancy.static_entries,
                "size": occupancy.size,
                "learned": statistics.learned,
                "expired": statistics.expired,
                "evicted": statistics.evicted,
                "moved": statistics.moved,
            }))
        }
    })
}
