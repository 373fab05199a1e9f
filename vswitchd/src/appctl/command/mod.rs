//! The commands, by what they concern.

mod afxdp;
mod coverage;
mod datapath;
mod dpctl;
mod dummy;
mod fdb;
mod features;
mod flows;
mod frames;
mod log;
mod memory;
mod offload;
mod ovsdb_server;
mod performance;
mod pmd;
mod process;
mod route;
mod sim;
mod switches;
mod time;
mod tnl;
mod trace;
mod upcall;

use dpif::datapath::Datapath;
use dpif::flow::PortNames;

use super::registry::{Command, Handler};
use crate::daemon::Daemon;

/// All commands of the daemon. Those that only an instrumented daemon has come with `dummies`,
/// those of the embedded database with `embedded_database`.
pub fn all(dummies: bool, embedded_database: bool) -> Vec<&'static Command> {
    let always = [
        afxdp::COMMANDS,
        process::COMMANDS,
        log::COMMANDS,
        coverage::COMMANDS,
        memory::COMMANDS,
        datapath::COMMANDS,
        fdb::COMMANDS,
        features::COMMANDS,
        flows::COMMANDS,
        frames::COMMANDS,
        offload::COMMANDS,
        performance::COMMANDS,
        pmd::COMMANDS,
        route::COMMANDS,
        trace::COMMANDS,
        sim::COMMANDS,
        switches::COMMANDS,
        tnl::COMMANDS,
        upcall::COMMANDS,
    ];
    let instruments = dummies.then_some([dummy::COMMANDS, time::COMMANDS]);
    let database = embedded_database.then_some(ovsdb_server::COMMANDS);
    let some = always.into_iter().chain(instruments.into_iter().flatten()).chain(database);
    some.flatten().chain(dpctl::commands()).collect()
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
    let mut datapaths = daemon.bridges.all_datapaths();
    match name {
        Some(name) => {
            datapaths.find(|datapath| name == datapath.name() || name == datapath.title())
        }
        None => datapaths.next().filter(|_| datapaths.next().is_none()),
    }
}

/// The names of the ports of a datapath.
fn port_names(daemon: &Daemon, datapath: &str) -> PortNames {
    let ports = daemon.bridges.datapath_ports(datapath).into_iter();
    let tunnels = daemon.bridges.tunnel_ports(datapath);
    ports
        .map(|(number, port)| (number.0, port.name().to_owned()))
        .chain(tunnels.map(|(number, name)| (number.0, name.to_owned())))
        .collect()
}
