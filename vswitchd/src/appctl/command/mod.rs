//! The commands, by what they concern.

mod coverage;
mod datapath;
mod dummy;
mod log;
mod memory;
mod ovsdb_server;
mod process;
mod time;

use super::registry::{Command, Handler};

/// All commands of the daemon. Those that only an instrumented daemon has come with `dummies`,
/// those of the embedded database with `embedded_database`.
pub fn all(dummies: bool, embedded_database: bool) -> Vec<&'static Command> {
    let always = [
        process::COMMANDS,
        log::COMMANDS,
        coverage::COMMANDS,
        memory::COMMANDS,
        datapath::COMMANDS,
    ];
    let instruments = dummies.then_some([dummy::COMMANDS, time::COMMANDS]);
    let database = embedded_database.then_some(ovsdb_server::COMMANDS);
    always.into_iter().chain(instruments.into_iter().flatten()).chain(database).flatten().collect()
}

const fn command(
    name: &'static str,
    usage: &'static str,
    (min_arguments, max_arguments): (usize, usize),
    handler: Handler,
) -> Command {
    Command { name, usage: Some(usage), min_arguments, max_arguments, handler }
}
