//! `ofproto/list` and `ofproto/list-tunnels`: the switches that speak OpenFlow, and their tunnels.

use ofproto::switch::Switch;
use ofproto::tunnel::tunnel_text;
use serde_json::json;

use super::command;
use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

pub(super) const COMMANDS: &[Command] = &[
    command("ofproto/list", "", (0, 0), Handler::Now(list)),
    command("ofproto/list-tunnels", "", (0, 0), Handler::Now(list_tunnels)),
];

fn list(daemon: &mut Daemon, call: &Call) -> Outcome {
    let names = daemon.bridges.switches().map(Switch::name);
    Ok(match call.format {
        Format::Text => Output::Text(names.map(|name| format!("{name}\n")).collect()),
        Format::Json => Output::Json(json!(names.collect::<Vec<_>>())),
    })
}

fn list_tunnels(daemon: &mut Daemon, call: &Call) -> Outcome {
    let tunnels = daemon.bridges.tunnels().into_iter();
    Ok(match call.format {
        Format::Text => Output::Text(
            tunnels
                .map(|(name, tunnel, number)| tunnel_text(&name, &tunnel.config, number.0))
                .collect(),
        ),
        Format::Json => Output::Json(
            tunnels
                .map(|(name, tunnel, number)| {
                    json!({
                        "name": name,
                        "type": tunnel.config.kind.name(),
                        "port_no": number.0,
                        "config": tunnel.config.options(),
                    })
                })
                .collect(),
        ),
    })
}
