//! `netdev-afxdp/show`, where the frames of AF_XDP ports are, and `netdev/check`, what about a port
//! will break.

use std::fmt::Write as _;

use netdev::afxdp::SocketFrames;
use netdev::port::Finding;
use serde_json::{Map, Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command("netdev-afxdp/show", "[netdev]", (0, 1), Handler::Now(show)),
    command("netdev/check", "netdev", (1, 1), Handler::Now(check)),
];

/// Frames of one pool: free ones, those lent to sockets, and those with packets.
struct Pool {
    numa: u32,
    total: usize,
    free: usize,
    lent: usize,
    held: usize,
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let afxdp = daemon.bridges.registry().afxdp();
    let mut ports = afxdp.frames();
    if let Some(name) = call.argument(0) {
        ports.retain(|port, _| port == name);
        if ports.is_empty() {
            return Err(format!("{name}: no such AF_XDP port"));
        }
    }
    let pools = daemon.bridges.all_datapaths().flat_map(|datapath| datapath.pools());
    let pools = pools.map(|(numa, pool)| {
        let (counts, lent) = (pool.counts(), afxdp.lent_of(pool));
        let held = counts.held.saturating_sub(lent);
        Pool { numa, total: counts.total, free: counts.shared + counts.cached, lent, held }
    });
    let pools: Vec<_> = pools.filter(|pool| pool.lent > 0).collect();
    Ok(match call.format {
        Format::Text => {
            let mut text = String::new();
            for (name, sockets) in &ports {
                let _ = writeln!(text, "{name}:");
                sockets.iter().for_each(|socket| text.push_str(&line(socket)));
            }
            for Pool { numa, total, free, lent, held } in pools {
                let _ = writeln!(
                    text,
                    "numa {numa}: {total} frames: {free} free, {lent} with sockets, {held} held"
                );
            }
            Output::Text(text)
        }
        Format::Json => {
            let ports: Map<String, Value> = ports
                .into_iter()
                .map(|(name, sockets)| (name, sockets.iter().map(json_of).collect()))
                .collect();
            let pools: Map<String, Value> = pools
                .into_iter()
                .map(|Pool { numa, total, free, lent, held }| {
                    let counts =
                        json!({ "total": total, "free": free, "with-sockets": lent, "held": held });
                    (numa.to_string(), counts)
                })
                .collect();
            Output::Json(json!({ "ports": ports, "numa": pools }))
        }
    })
}

fn line(frames: &SocketFrames) -> String {
    let SocketFrames { queue, fill, received, transmit, completion, driver } = frames;
    format!(
        "  queue {queue}: {fill} fill, {received} rx, {transmit} tx, {completion} completion, \
         {driver} with the driver\n"
    )
}

fn json_of(frames: &SocketFrames) -> Value {
    let SocketFrames { queue, fill, received, transmit, completion, driver } = frames;
    json!({
        "queue": queue,
        "fill": fill,
        "rx": received,
        "tx": transmit,
        "completion": completion,
        "driver": driver,
    })
}

fn check(daemon: &mut Daemon, call: &Call) -> Outcome {
    let name = call.argument(0).unwrap_or_default();
    let datapaths: Vec<_> =
        daemon.bridges.all_datapaths().map(|datapath| datapath.name().to_owned()).collect();
    let findings = datapaths.iter().find_map(|datapath| {
        let ports = daemon.bridges.datapath_ports(datapath);
        ports.values().find(|port| port.name() == name).map(|port| port.findings())
    });
    let findings = findings.ok_or_else(|| {
        format!("{name}: no such open port (column error of its Interface may say why)")
    })?;
    Ok(match call.format {
        Format::Text => Output::Text(text_of(name, &findings)),
        Format::Json => Output::Json(
            findings
                .iter()
                .map(|Finding { problem, remedy }| json!({ "problem": problem, "remedy": remedy }))
                .collect(),
        ),
    })
}

fn text_of(name: &str, findings: &[Finding]) -> String {
    if findings.is_empty() {
        return format!("{name}: nothing was found that will break\n");
    }
    let lines =
        findings.iter().map(|Finding { problem, remedy }| format!("  {problem}\n    {remedy}\n"));
    std::iter::once(format!("{name}:\n")).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_come_with_their_remedies() {
        assert_eq!(text_of("p1", &[]), "p1: nothing was found that will break\n");
        let findings = [
            Finding { problem: "a".to_owned(), remedy: "b".to_owned() },
            Finding { problem: "c".to_owned(), remedy: "d".to_owned() },
        ];
        assert_eq!(text_of("p1", &findings), "p1:\n  a\n    b\n  c\n    d\n");
    }

    #[test]
    fn lines_name_all_places() {
        let frames =
            SocketFrames { queue: 1, fill: 2, received: 3, transmit: 4, completion: 5, driver: 6 };
        let expected = "  queue 1: 2 fill, 3 rx, 4 tx, 5 completion, 6 with the driver\n";
        assert_eq!(line(&frames), expected);
    }
}
