//! `coverage/*`: event counters.

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command("coverage/show", "", (0, 0), Handler::Now(show)),
    command("coverage/read-counter", "COUNTER", (1, 1), Handler::Now(read_counter)),
];

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    Ok(match call.format {
        Format::Text => Output::Text(daemon.coverage.text()),
        Format::Json => Output::Json(daemon.coverage.json()),
    })
}

fn read_counter(daemon: &mut Daemon, call: &Call) -> Outcome {
    let name = call.argument(0).unwrap_or_default();
    let count = daemon.coverage.read(name).ok_or("No such counter")?;
    Ok(Output::Text(format!("{count}\n")))
}
