//! The commands, by what they concern.

mod coverage;
mod datapath;
mod dummy;
mod fdb;
mod flows;
mod log;
mod memory;
mod ovsdb_server;
mod pmd;
mod process;
mod time;
mod upcall;

use dpif::datapath::Datapath;

use super::registry::{Command, Handler};
use crate::daemon::Daemon;

/// All commands of the daemon. Those that only an instrumented daemon has come with `dummies`,
/// those of the embedded database with `embedded_database`.
pub fn all(dummies: bool, embedded_database: bool) -> Vec<&'static Command> {
    let always = [
        process::COMMANDS,
        log::COMMANDS,
        coverage::COMMANDS,
        memory::COMMANDS,
        datapath::COMMANDS,
        fdb::COMMANDS,
        flows::COMMANDS,
        pmd::COMMANDS,
        upcall::COMMANDS,
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

/// The datapath of this name, with or without its type (`netdev@ovs-netdev`); without a name, the
/// only one.
fn find_datapath<'a>(daemon: &'a Daemon, name: Option<&str>) -> Option<&'a Datapath> {
    let mut datapaths = daemon.bridges.datapaths();
    match name {
        Some(name) => datapaths.find(|datapath| {
            let kind = datapath.kind();
            name == kind.datapath_name()
                || name == format!("{}@{}", kind.name(), kind.datapath_name())
        }),
        None => datapaths.next().filter(|_| datapaths.next().is_none()),
    }
}
