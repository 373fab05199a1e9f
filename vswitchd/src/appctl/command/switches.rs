//! `ofproto/list`: the switches that speak OpenFlow.

use ofproto::switch::Switch;
use serde_json::json;

use super::command;
use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

pub(super) const COMMANDS: &[Command] = &[command("ofproto/list", "", (0, 0), Handler::Now(list))];

fn list(daemon: &mut Daemon, call: &Call) -> Outcome {
    let names = daemon.bridges.switches().map(Switch::name);
    Ok(match call.format {
        Format::Text => Output::Text(names.map(|name| format!("{name}\n")).collect()),
        Format::Json => Output::Json(json!(names.collect::<Vec<_>>())),
    })
}
