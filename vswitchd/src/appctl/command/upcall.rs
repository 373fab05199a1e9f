//! `upcall/*` and `revalidator/*`: flows made for packets that missed, and keeping them true.

use serde_json::json;

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

const NONE: (usize, usize) = (0, 0);

pub(super) const COMMANDS: &[Command] = &[
    command("upcall/show", "", NONE, Handler::Now(show)),
    command("upcall/disable-megaflows", "", NONE, Handler::Now(|d, _| set_megaflows(d, false))),
    command("upcall/enable-megaflows", "", NONE, Handler::Now(|d, _| set_megaflows(d, true))),
    command("upcall/disable-ufid", "", NONE, Handler::Now(|d, _| set_terse(d, false))),
    command("upcall/enable-ufid", "", NONE, Handler::Now(|d, _| set_terse(d, true))),
    command("upcall/set-flow-limit", "flow-limit-number", (1, 1), Handler::Now(set_flow_limit)),
    command("revalidator/wait", "", NONE, Handler::Now(wait)),
    command("revalidator/purge", "", NONE, Handler::Now(purge)),
    Command {
        name: "revalidator/pause",
        usage: None,
        min_arguments: 0,
        max_arguments: 0,
        handler: Handler::Now(|daemon, _| pause(daemon, true)),
    },
    Command {
        name: "revalidator/resume",
        usage: None,
        min_arguments: 0,
        max_arguments: 0,
        handler: Handler::Now(|daemon, _| pause(daemon, false)),
    },
];

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let shown = daemon.bridges.shared_datapaths().map(|(title, datapath, revalidator)| {
        let flows = datapath.flow_count();
        let text = revalidator.show(&title, flows);
        let statistics = revalidator.statistics();
        let json = json!({
            "flows": flows,
            "average": statistics.average,
            "maximum": statistics.maximum,
            "dump-duration-ms": statistics.duration.as_millis() as u64,
            "keys": statistics.known,
        });
        (title, text, json)
    });
    Ok(match call.format {
        Format::Text => Output::Text(shown.map(|(_, text, _)| text).collect()),
        Format::Json => Output::Json(shown.map(|(title, _, json)| (title, json)).collect()),
    })
}

fn set_megaflows(daemon: &mut Daemon, on: bool) -> Outcome {
    daemon.bridges.set_megaflows(on);
    let what = if on { "enabled" } else { "disabled" };
    Ok(Output::Text(format!("megaflows {what}")))
}

fn set_terse(daemon: &mut Daemon, on: bool) -> Outcome {
    daemon.bridges.set_terse_dumps(on);
    let state = if on { "enabled for supported datapaths" } else { "disabled" };
    Ok(Output::Text(format!("Datapath dumping tersely using UFID {state}")))
}

fn set_flow_limit(daemon: &mut Daemon, call: &Call) -> Outcome {
    let text = call.argument(0).unwrap_or_default();
    let limit = text.parse().map_err(|_| format!("\"{text}\" is not a number of flows"))?;
    daemon.bridges.set_flow_limit(limit);
    Ok(Output::Text(format!("set flow_limit to {limit}")))
}

/// A pass is made at once, so there is nothing to wait for.
fn wait(daemon: &mut Daemon, _: &Call) -> Outcome {
    if daemon.bridges.datapaths().count() > 1 {
        return Err("can't wait on multiple udpifs.".to_owned());
    }
    daemon.bridges.revalidate();
    Ok(Output::none())
}

fn purge(daemon: &mut Daemon, _: &Call) -> Outcome {
    daemon.bridges.purge_flows();
    Ok(Output::none())
}

fn pause(daemon: &mut Daemon, paused: bool) -> Outcome {
    daemon.bridges.pause_revalidation(paused);
    Ok(Output::none())
}
