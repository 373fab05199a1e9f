//! `memory/show`: how much there is of what takes memory.

use std::collections::BTreeMap;

use serde_json::json;

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

pub(super) const COMMANDS: &[Command] = &[command("memory/show", "", (0, 0), Handler::Now(show))];

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let usage = usage(daemon);
    Ok(match call.format {
        Format::Text => {
            let items: Vec<_> = usage.iter().map(|(name, n)| format!("{name}:{n}")).collect();
            Output::Text(items.join(" "))
        }
        Format::Json => Output::Json(json!(usage)),
    })
}

/// Counts of the things that memory goes into.
fn usage(daemon: &Daemon) -> BTreeMap<&'static str, usize> {
    let ports = daemon.bridges.switches().map(|switch| switch.ports().count()).sum();
    BTreeMap::from([
        ("idl-cells-Open_vSwitch", daemon.database.cache().cells()),
        ("idl-outstanding-txns-Open_vSwitch", daemon.database.outstanding()),
        ("ports", ports),
    ])
}
