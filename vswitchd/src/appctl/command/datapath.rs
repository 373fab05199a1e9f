//! `dpif/*`: datapaths, bridges and their ports.

use std::fmt::Write as _;

use dpif::datapath::{Datapath, DatapathType};
use dpif::pmd::statistics::Snapshot;
use ofproto::switch::Switch;
use serde_json::{Map, Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command("dpif/dump-dps", "", (0, 0), Handler::Now(dump_datapaths)),
    command("dpif/show", "", (0, 0), Handler::Now(show)),
];

/// The type of a port as tools expect it: the device of an internal port is a tap.
pub(super) fn shown_type(port_type: &str) -> &str {
    if port_type == "internal" { "tap" } else { port_type }
}

/// Passes that a flow answered, those that an upcall did, and those that nothing did.
pub(super) fn lookups(datapath: &Datapath) -> (u64, u64, u64) {
    let threads = datapath.thread_status();
    let sum = |count: fn(&Snapshot) -> u64| -> u64 {
        threads.iter().map(|thread| count(&thread.counters)).sum()
    };
    let (missed, lost) = (sum(|counters| counters.upcalls), sum(|counters| counters.lost_upcalls));
    (sum(Snapshot::passes) - missed - lost, missed, lost)
}

/// The bridges on a datapath, by name.
fn switches_on(daemon: &Daemon, kind: DatapathType) -> impl Iterator<Item = &Switch> {
    let bridges = &daemon.bridges;
    bridges.switches().filter(move |switch| bridges.datapath_type(switch.name()) == Some(kind))
}

fn dump_datapaths(daemon: &mut Daemon, call: &Call) -> Outcome {
    let names = daemon.bridges.switches().filter_map(|switch| {
        let kind = daemon.bridges.datapath_type(switch.name())?;
        Some(format!("{}@{}", kind.name(), switch.name()))
    });
    Ok(match call.format {
        Format::Text => Output::Text(names.map(|name| name + "\n").collect()),
        Format::Json => Output::Json(names.collect()),
    })
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let datapaths = daemon.bridges.datapaths();
    Ok(match call.format {
        Format::Text => Output::Text(datapaths.fold(String::new(), |mut text, datapath| {
            let (hit, missed, _) = lookups(datapath);
            let _ = writeln!(text, "{}: hit:{hit} missed:{missed}", datapath.title());
            switches_on(daemon, datapath.kind()).for_each(|switch| show_switch(switch, &mut text));
            text
        })),
        Format::Json => Output::Json(
            datapaths
                .map(|datapath| {
                    let bridges: Map<_, _> = switches_on(daemon, datapath.kind())
                        .map(|switch| (switch.name().to_owned(), switch_json(switch)))
                        .collect();
                    let (hit, missed, _) = lookups(datapath);
                    let stats = json!({"hit": hit.to_string(), "missed": missed.to_string()});
                    (datapath.title(), json!({"bridges": bridges, "stats": stats}))
                })
                .collect(),
        ),
    })
}

fn show_switch(switch: &Switch, text: &mut String) {
    let _ = writeln!(text, "  {}:", switch.name());
    let mut ports: Vec<_> = switch.ports().collect();
    ports.sort_by(|(_, a), (_, b)| a.port.name().cmp(b.port.name()));
    for (number, switch_port) in ports {
        let port = &switch_port.port;
        let datapath_number =
            switch_port.datapath_number.map_or_else(|| "none".to_owned(), |n| n.to_string());
        let options: Vec<_> =
            port.options().iter().map(|(key, value)| format!("{key}={value}")).collect();
        let separator = if options.is_empty() { "" } else { ": " };
        let _ = writeln!(
            text,
            "    {} {number}/{datapath_number}: ({}{separator}{})",
            port.name(),
            shown_type(port.port_type()),
            options.join(", ")
        );
    }
}

fn switch_json(switch: &Switch) -> Value {
    let ports = switch.ports().map(|(number, switch_port)| {
        let datapath_number =
            switch_port.datapath_number.map_or_else(|| "none".to_owned(), |n| n.to_string());
        let mut port = json!({
            "ofport": number.to_string(),
            "port_no": datapath_number,
            "type": shown_type(switch_port.port.port_type()),
        });
        let options = switch_port.port.options();
        if let (false, Some(port)) = (options.is_empty(), port.as_object_mut()) {
            port.insert("config".to_owned(), json!(options));
        }
        (switch_port.port.name().to_owned(), port)
    });
    ports.collect()
}
