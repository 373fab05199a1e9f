//! Making, removing and showing datapaths.

use std::fmt::{self, Write as _};

use dpif::datapath::{Datapath, DatapathType};
use netdev::errno;
use netdev::port::Port;
use netdev::statistics::Statistics;
use rustix::io::Errno;
use serde_json::{Value, json};

use super::{Options, Report, command, find_datapath, open, ports};
use crate::appctl::command::datapath::{lookups, shown_type};
use crate::appctl::registry::{Call, Command, Handler, Outcome};
use crate::daemon::Daemon;

const ANY: usize = usize::MAX;

pub(super) const COMMANDS: &[Command] = &[
    command("dpctl/add-dp", "dp [iface...]", (1, ANY), Handler::Now(add)),
    command("dpctl/del-dp", "dp", (1, 1), Handler::Now(delete)),
    command("dpctl/cache-get-size", "[dp]", (0, 1), Handler::Now(show_caches)),
    command("dpctl/cache-set-size", "dp cache <size>", (3, 3), Handler::Now(set_cache)),
    command("dpctl/dump-dps", "", (0, 0), Handler::Now(dump)),
    command("dpctl/show", "[-s] [dp...]", (0, ANY), Handler::Now(show)),
];

fn add(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let Some((first, interfaces)) = arguments.split_first() else {
        report.fail(Some(Errno::INVAL), "add_dp");
        return report.outcome();
    };
    // A name alone is that of a datapath of the kernel.
    let (kind, name) = first.split_once('@').unwrap_or(("system", first));
    let known = daemon.bridges.datapath_types().contains(&kind);
    let kind = [DatapathType::Dummy, DatapathType::Netdev]
        .into_iter()
        .find(|candidate| known && candidate.name() == kind);
    let added = match kind {
        Some(kind) => daemon.bridges.add_bare_datapath(kind, name).map_err(|error| error.errno()),
        None => Err(Errno::AFNOSUPPORT),
    };
    match added {
        Ok(()) => ports::add_all(daemon, name, first, interfaces, &mut report),
        Err(errno) => report.fail(Some(errno), "add_dp"),
    }
    report.outcome()
}

fn delete(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    if let Some((name, _)) = open(daemon, arguments, &mut report)
        && let Err(error) = daemon.bridges.remove_bare_datapath(&name)
    {
        report.fail(Some(error.errno()), "del_dp");
    }
    report.outcome()
}

fn dump(daemon: &mut Daemon, call: &Call) -> Outcome {
    Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let titles: Vec<_> = daemon.bridges.all_datapaths().map(Datapath::title).collect();
    titles.iter().for_each(|title| report.line(title));
    report.outcome_or(call, || json!(titles))
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (options, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let mut shown: Vec<&Datapath> = vec![];
    for name in arguments {
        match find_datapath(daemon, Some(name)) {
            Some(datapath) => shown.push(datapath),
            None => report.fail(Some(Errno::NODEV), format!("opening datapath {name} failed")),
        }
    }
    if arguments.is_empty() {
        shown.extend(daemon.bridges.all_datapaths());
    }
    for datapath in &shown {
        show_one(daemon, datapath, options, &mut report);
    }
    report.outcome_or(call, || {
        let all = shown.iter().map(|datapath| (datapath.title(), datapath_json(daemon, datapath)));
        all.collect()
    })
}

/// Caches whose sizes can be set, of which these datapaths have none.
fn show_caches(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let mut titles = vec![];
    match arguments.first() {
        None => titles.extend(daemon.bridges.all_datapaths().map(Datapath::title)),
        Some(name) => match find_datapath(daemon, Some(name)) {
            Some(datapath) => titles.push(datapath.title()),
            None => report.fail(Some(Errno::NODEV), format!("Opening datapath {name} failed")),
        },
    }
    titles.iter().for_each(|title| report.line(format_args!("{title}:")));
    report.outcome_or(call, || titles.iter().map(|title| (title.clone(), json!({}))).collect())
}

fn set_cache(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let (name, size) = (arguments.first(), arguments.get(2));
    if size.is_none_or(|size| size.parse::<u32>().is_err()) {
        report.fail(Some(Errno::INVAL), "size is malformed");
    } else if find_datapath(daemon, name.map(String::as_str)).is_none() {
        let name = name.map_or("", String::as_str);
        report.fail(Some(Errno::NODEV), format!("Opening datapath {name} failed"));
    } else {
        report.fail(Some(Errno::OPNOTSUPP), "Setting caches not supported");
    }
    report.outcome()
}

fn show_one(daemon: &Daemon, datapath: &Datapath, options: Options, report: &mut Report) {
    let (hit, missed, lost) = lookups(datapath);
    report.line(format_args!("{}:", datapath.title()));
    report.line(format_args!("  lookups: hit:{hit} missed:{missed} lost:{lost}"));
    report.line(format_args!("  flows: {}", datapath.flow_count()));
    for (number, port) in daemon.bridges.datapath_ports(datapath.name()) {
        report.line(format_args!("  port {number}: {}{}", port.name(), Details(port)));
        if options.with_statistics {
            match port.statistics() {
                Ok(statistics) => show_statistics(&statistics, report),
                Err(error) => {
                    let cause = errno::description(error.errno());
                    report.line(format_args!(", could not retrieve stats ({cause})"));
                }
            }
        }
    }
}

/// Type and options of a port, in parentheses; nothing for devices of the kernel.
struct Details<'a>(&'a dyn Port);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.port_type() == "system" {
            return Ok(());
        }
        write!(f, " ({}", shown_type(self.0.port_type()))?;
        for (index, (key, value)) in self.0.options().iter().enumerate() {
            write!(f, "{} {key}={value}", if index == 0 { ':' } else { ',' })?;
        }
        f.write_char(')')
    }
}

/// A counter, or `?` where it is not kept.
struct Count(Option<u64>);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => count.fmt(f),
            None => f.write_char('?'),
        }
    }
}

/// A number of bytes, with a second form for people where it is large.
struct Bytes(Option<u64>);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Count(self.0).fmt(f)?;
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let bytes = self.0.unwrap_or(0);
        match units.iter().find(|(shift, _)| bytes >> shift > 0) {
            Some((shift, unit)) => {
                write!(f, " ({:.1} {unit})", bytes as f64 / (1u64 << shift) as f64)
            }
            None => Ok(()),
        }
    }
}

fn show_statistics(statistics: &Statistics, report: &mut Report) {
    let Statistics { rx_packets, rx_errors, rx_dropped, rx_over_errors, .. } = *statistics;
    let Statistics { rx_frame_errors, tx_packets, tx_errors, tx_dropped, .. } = *statistics;
    report.line(format_args!(
        "    RX packets:{} errors:{} dropped:{} overruns:{} frame:{}",
        Count(rx_packets),
        Count(rx_errors),
        Count(rx_dropped),
        Count(rx_over_errors),
        Count(rx_frame_errors)
    ));
    report.line(format_args!(
        "    TX packets:{} errors:{} dropped:{} aborted:? carrier:?",
        Count(tx_packets),
        Count(tx_errors),
        Count(tx_dropped)
    ));
    report.line(format_args!("    collisions:{}", Count(statistics.collisions)));
    let (rx, tx) = (Bytes(statistics.rx_bytes), Bytes(statistics.tx_bytes));
    report.line(format_args!("    RX bytes:{rx}  TX bytes:{tx}"));
    report.line("    UPCALL packets:? errors:?");
}

fn datapath_json(daemon: &Daemon, datapath: &Datapath) -> Value {
    let (hit, missed, lost) = lookups(datapath);
    let ports = daemon.bridges.datapath_ports(datapath.name()).into_iter().map(|(number, port)| {
        let statistics = port.statistics().map_or(Value::Null, |statistics| {
            statistics.named().map(|(name, count)| (name.to_owned(), json!(count))).collect()
        });
        let port = json!({
            "port_no": number.0,
            "type": shown_type(port.port_type()),
            "config": port.options(),
            "statistics": statistics,
            "name": port.name(),
        });
        port
    });
    json!({
        "lookups": {"hit": hit, "missed": missed, "lost": lost},
        "flows": datapath.flow_count(),
        "ports": ports.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_bytes_have_a_form_for_people() {
        let texts =
            [None, Some(0), Some(1023), Some(1024), Some(1536), Some(5 << 20), Some(3 << 40)]
                .map(|bytes| Bytes(bytes).to_string());
        assert_eq!(
            texts,
            [
                "?",
                "0",
                "1023",
                "1024 (1.0 KiB)",
                "1536 (1.5 KiB)",
                "5242880 (5.0 MiB)",
                "3298534883328 (3.0 TiB)"
            ]
        );
    }
}
