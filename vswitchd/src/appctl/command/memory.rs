//! `memory/show`: how much there is of what takes memory.

use std::collections::BTreeMap;

use ofproto::tables::TABLE_INTERNAL;
use serde_json::json;

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

pub(super) const COMMANDS: &[Command] = &[command("memory/show", "", (0, 0), Handler::Now(show))];

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let usage = usage(daemon);
    Ok(match call.format {
        Format::Text => {
            let used = usage.iter().filter(|(_, n)| **n > 0);
            let items: Vec<_> = used.map(|(name, n)| format!("{name}:{n}")).collect();
            Output::Text(items.join(" "))
        }
        Format::Json => Output::Json(json!(usage)),
    })
}

/// Counts of the things that memory goes into.
fn usage(daemon: &Daemon) -> BTreeMap<&'static str, usize> {
    let switches = || daemon.bridges.switches();
    let rules = switches().map(|switch| {
        let counts = (0..=TABLE_INTERNAL).filter_map(|table| switch.tables().counts(table));
        counts.map(|counts| counts.active as usize).sum::<usize>()
    });
    let known = daemon.bridges.shared_datapaths();
    let known = known.map(|(_, _, revalidator)| revalidator.statistics().known);
    BTreeMap::from([
        ("idl-cells-Open_vSwitch", daemon.database.cache().cells()),
        ("idl-outstanding-txns-Open_vSwitch", daemon.database.outstanding()),
        ("ports", switches().map(|switch| switch.ports().count()).sum()),
        ("rules", rules.sum()),
        ("udpif keys", known.sum()),
    ])
}
