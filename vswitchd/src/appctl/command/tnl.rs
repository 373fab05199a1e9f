//! `tnl/*`: neighbours of bridges, and where packets of tunnels are received and sent from.

use std::net::IpAddr;
use std::time::Duration;

use dpif::tunnel::egress_ports;
use netdev::clock;
use netdev::ethernet_address::EthernetAddress;
use serde_json::json;

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command("tnl/arp/show", "", (0, 0), Handler::Now(show)),
    command("tnl/arp/set", "BRIDGE IP MAC", (3, 3), Handler::Now(set)),
    command("tnl/arp/flush", "", (0, 0), Handler::Now(flush)),
    command("tnl/arp/aging", "[SECS]", (0, 1), Handler::Now(aging)),
    command("tnl/neigh/show", "", (0, 0), Handler::Now(show)),
    command("tnl/neigh/set", "BRIDGE IP MAC", (3, 3), Handler::Now(set)),
    command("tnl/neigh/flush", "", (0, 0), Handler::Now(flush)),
    command("tnl/neigh/aging", "[SECS]", (0, 1), Handler::Now(aging)),
    command("tnl/neigh/retrans_time", "[MSECS]", (0, 1), Handler::Now(retransmission)),
    command("tnl/ports/show", "-v", (0, 1), Handler::Now(show_ports)),
    command("tnl/egress_port_range", "min max", (0, 2), Handler::Now(egress_port_range)),
];

fn ok() -> Outcome {
    Ok(Output::Text("OK".to_owned()))
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let neighbours = daemon.bridges.underlay().neighbours();
    let now = clock::now();
    Ok(match call.format {
        Format::Text => Output::Text(neighbours.show(now)),
        Format::Json => Output::Json(
            neighbours
                .entries(now)
                .map(|neighbour| {
                    json!({
                        "ip": neighbour.address.to_string(),
                        "mac": neighbour.ethernet.map(|ethernet| ethernet.to_string()),
                        "bridge": neighbour.bridge,
                        "stale": neighbour.is_stale,
                    })
                })
                .collect(),
        ),
    })
}

fn set(daemon: &mut Daemon, call: &Call) -> Outcome {
    let argument = |index| call.argument(index).unwrap_or_default();
    let address: IpAddr = argument(1).parse().map_err(|_| "bad IP address")?;
    let ethernet: EthernetAddress = argument(2).parse().map_err(|_| "bad MAC address")?;
    daemon.bridges.underlay().set_neighbour(argument(0), address, ethernet);
    ok()
}

fn flush(daemon: &mut Daemon, _: &Call) -> Outcome {
    daemon.bridges.underlay().flush_neighbours();
    ok()
}

fn aging(daemon: &mut Daemon, call: &Call) -> Outcome {
    let underlay = daemon.bridges.underlay();
    let Some(text) = call.argument(0) else {
        let seconds = underlay.neighbours().aging().as_secs();
        return Ok(Output::Text(seconds.to_string()));
    };
    let seconds = text.parse::<u32>().map_err(|_| "bad aging value")?;
    let aging = Duration::from_secs(seconds.into());
    underlay.set_aging(aging).map_err(|error| error.to_string())?;
    ok()
}

fn retransmission(daemon: &mut Daemon, call: &Call) -> Outcome {
    let underlay = daemon.bridges.underlay();
    let Some(text) = call.argument(0) else {
        let time = underlay.neighbours().retransmission().as_millis();
        return Ok(Output::Text(time.to_string()));
    };
    let milliseconds = text.parse::<u32>().map_err(|_| "bad retrans_time value")?;
    let time = Duration::from_millis(milliseconds.into());
    underlay.set_retransmission(time).map_err(|error| error.to_string())?;
    ok()
}

fn show_ports(daemon: &mut Daemon, call: &Call) -> Outcome {
    let is_verbose = call.argument(0).is_some_and(|text| text.eq_ignore_ascii_case("-v"));
    let all: Vec<_> = daemon.bridges.translated_switches().collect();
    let listeners = all.iter().map(|switches| switches.listeners());
    Ok(match (call.format, is_verbose) {
        (Format::Text, true) => {
            let packets = listeners.flat_map(|listeners| listeners.packets());
            let lines: String = packets.map(|packets| format!("{packets}\n")).collect();
            Output::Text(format!("Listening ports:\n{lines}"))
        }
        (Format::Text, false) => {
            let ports = listeners.flat_map(|listeners| listeners.iter());
            let lines: String = ports
                .map(|port| {
                    let (name, number, users) = (&port.name, port.datapath_port, port.users);
                    format!("{name} ({number}) ref_cnt={users}\n")
                })
                .collect();
            Output::Text(format!("Listening ports:\n{lines}"))
        }
        (Format::Json, true) => Output::Json(
            listeners
                .flat_map(|listeners| listeners.packets())
                .map(|packets| {
                    json!({
                        "name": packets.listener.name,
                        "port": packets.listener.datapath_port,
                        "flow": packets.packets(),
                    })
                })
                .collect(),
        ),
        (Format::Json, false) => Output::Json(
            listeners
                .flat_map(|listeners| listeners.iter())
                .map(|port| {
                    json!({
                        "name": port.name,
                        "port": port.datapath_port,
                        "ref_cnt": port.users,
                    })
                })
                .collect(),
        ),
    })
}

fn egress_port_range(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (Some(first), Some(second)) = (call.argument(0), call.argument(1)) else {
        let range = egress_ports::range();
        let (min, max) = (range.start(), range.end());
        return Ok(match call.format {
            Format::Text => Output::Text(format!("Tunnel UDP source port range: {min}-{max}\n")),
            Format::Json => Output::Json(json!({"min": min, "max": max})),
        });
    };
    let parse = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
    // Like Open vSwitch, these are no errors.
    let Some(first) = parse(first) else { return Ok(Output::Text("Invalid min.".to_owned())) };
    let Some(second) = parse(second) else { return Ok(Output::Text("Invalid max.".to_owned())) };
    egress_ports::set_range(&(first.min(second)..=first.max(second)));
    daemon.bridges.underlay().epoch().advance();
    ok()
}
