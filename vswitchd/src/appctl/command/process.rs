//! Commands that concern the process: `list-commands`, `version`, `set-options`, `exit`.

use crate::appctl::registry::{Call, Command, Handler, Outcome, Output, Responder};
use crate::daemon::{Daemon, Exit};

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command("list-commands", "", (0, 0), Handler::Now(list_commands)),
    command("version", "", (0, 0), Handler::Now(version)),
    command("set-options", "[--format text|json]", (0, 2), Handler::Connection),
    command("exit", "[--cleanup]", (0, 1), Handler::Later(exit)),
];

fn list_commands(daemon: &mut Daemon, call: &Call) -> Outcome {
    Ok(daemon.commands.list(call.format))
}

fn version(daemon: &mut Daemon, _: &Call) -> Outcome {
    Ok(Output::Text(daemon.version.clone()))
}

/// Answered once everything is torn down, so that whoever asked may start the next process.
fn exit(daemon: &mut Daemon, call: &Call, responder: Responder) {
    let cleanup = call.argument(0) == Some("--cleanup");
    let exit = daemon.exit.get_or_insert_with(Exit::default);
    exit.cleanup |= cleanup;
    exit.responders.push(responder);
}
