//! `dpctl/dump-flows` and `dpif/dump-flows`: the flows of a datapath, and of one of its bridges.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use dpif::action::ActionsText;
use dpif::datapath::{Datapath, DatapathType};
use dpif::flow::{FlowText, MAX_VLANS, PortNames};
use dpif::{FlowRecord, FlowStatistics, WorkerId};
use netdev::clock;
use serde_json::{Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::{command, find_datapath};

pub(super) const COMMANDS: &[Command] = &[
    command(
        "dpctl/dump-flows",
        "[-m] [--names] [dp] [pmd=core]",
        (0, 5),
        Handler::Now(dump_datapath),
    ),
    command(
        "dpif/dump-flows",
        "[-m] [--names | --no-names] bridge",
        (1, 4),
        Handler::Now(dump_bridge),
    ),
];

/// How flows are shown.
#[derive(Default)]
struct Style {
    is_verbose: bool,
    /// Whether ports are shown by name; unless said, they are if verbose.
    names: Option<bool>,
}

impl Style {
    /// Takes an argument, if it is an option.
    fn takes(&mut self, argument: &str) -> bool {
        match argument {
            "-m" | "--more" => self.is_verbose = true,
            "--names" => self.names = Some(true),
            "--no-names" => self.names = Some(false),
            _ => return false,
        }
        true
    }

    fn port_names(&self, daemon: &Daemon, kind: DatapathType) -> Option<PortNames> {
        self.names.unwrap_or(self.is_verbose).then(|| {
            let bridges = &daemon.bridges;
            let switches = bridges
                .switches()
                .filter(|switch| bridges.datapath_type(switch.name()) == Some(kind));
            let ports = switches.flat_map(|switch| switch.ports());
            let numbers = ports.filter_map(|(_, port)| {
                Some((port.datapath_number?.0, port.port.name().to_owned()))
            });
            numbers.chain([(0, kind.datapath_name().to_owned())]).collect()
        })
    }
}

/// TCP flags as letters, in the order of Open vSwitch.
fn flag_letters(flags: u16) -> String {
    const LETTERS: [(u16, &str); 12] = [
        (0x002, "S"),
        (0x001, "F"),
        (0x008, "P"),
        (0x004, "R"),
        (0x020, "U"),
        (0x010, "."),
        (0x040, "E"),
        (0x080, "C"),
        (0x100, "N"),
        (0x200, "[200]"),
        (0x400, "[400]"),
        (0x800, "[800]"),
    ];
    LETTERS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, letter)| *letter).collect()
}

/// Seconds since a flow was used, in whole milliseconds of the clock as the flow counts them.
fn age(used: Duration) -> f64 {
    let milliseconds = clock::now().as_millis().saturating_sub(used.as_millis());
    milliseconds as f64 / 1000.0
}

struct StatisticsText(FlowStatistics);

impl fmt::Display for StatisticsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlowStatistics { packets, bytes, used, tcp_flags } = self.0;
        write!(f, "packets:{packets}, bytes:{bytes}, used:")?;
        match used {
            Some(used) => write!(f, "{:.3}s", age(used))?,
            None => f.write_str("never")?,
        }
        if tcp_flags != 0 {
            write!(f, ", flags:{}", flag_letters(tcp_flags))?;
        }
        Ok(())
    }
}

/// One flow in all its parts.
struct Shown<'a> {
    flow: &'a FlowRecord,
    is_verbose: bool,
    names: Option<&'a PortNames>,
}

impl Shown<'_> {
    fn key(&self) -> FlowText<'_> {
        FlowText {
            key: self.flow.key(),
            mask: Some(self.flow.mask()),
            verbose: self.is_verbose,
            names: self.names,
            vlan_limit: MAX_VLANS,
        }
    }

    fn actions(&self) -> String {
        ActionsText { actions: &self.flow.actions(), names: self.names }.to_string()
    }

    fn json(&self) -> Value {
        let FlowStatistics { packets, bytes, used, tcp_flags } = self.flow.statistics();
        json!({
            "ufid": self.flow.ufid().to_string().trim_start_matches("ufid:"),
            "flow": self.key().to_string(),
            "packets": packets,
            "bytes": bytes,
            "used-seconds": used.map(age),
            "tcp-flags": flag_letters(tcp_flags),
            "actions": self.actions(),
        })
    }
}

/// The flows of a datapath that `wanted` names: by thread, and alike from one time to the next.
fn flows(datapath: &Datapath, wanted: impl Fn(&FlowRecord) -> bool) -> Vec<Arc<FlowRecord>> {
    let mut flows = datapath.dump_flows(None);
    flows.retain(|flow| wanted(flow));
    flows.sort_by_key(|flow| (flow.worker(), flow.key().in_port.get(), flow.ufid()));
    flows
}

fn dump_datapath(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (mut style, mut name, mut thread) = (Style::default(), None, None);
    for argument in &call.arguments {
        if style.takes(argument) {
            continue;
        }
        if let Some(core) = argument.strip_prefix("pmd=") {
            thread = Some(match core.parse() {
                Ok(core) => WorkerId::Core(core),
                Err(_) if core == "-1" => WorkerId::Main,
                Err(_) => {
                    return Err(format!("pmd={core} is not a core, nor -1 for the main thread"));
                }
            });
        } else if argument.starts_with("filter=") || argument.starts_with("type=") {
            return Err(format!("{argument}: flows cannot be filtered but by pmd=CORE"));
        } else if argument.starts_with('-') {
            return Err(format!("Unrecognized option {argument}"));
        } else {
            name = Some(argument.as_str());
        }
    }
    let datapath = find_datapath(daemon, name).ok_or("datapath not found (Invalid argument)")?;
    let names = style.port_names(daemon, datapath.kind());
    let flows = flows(datapath, |flow| thread.is_none_or(|thread| flow.worker() == thread));
    let shown = |flow| Shown { flow, is_verbose: style.is_verbose, names: names.as_ref() };
    if call.format == Format::Json {
        let flows = flows.iter().map(|flow| {
            let mut json = shown(flow).json();
            if let WorkerId::Core(core) = flow.worker() {
                json["core"] = core.into();
            }
            json
        });
        return Ok(Output::Json(flows.collect()));
    }
    let (mut text, mut last) = (String::new(), None);
    for flow in &flows {
        if thread.is_none() && last != Some(flow.worker()) {
            let _ = match flow.worker() {
                WorkerId::Core(core) => writeln!(text, "flow-dump from pmd on cpu core: {core}"),
                WorkerId::Main => writeln!(text, "flow-dump from the main thread:"),
            };
            last = Some(flow.worker());
        }
        let shown = shown(flow);
        let statistics = StatisticsText(flow.statistics());
        let (key, actions) = (shown.key(), shown.actions());
        let _ = match style.is_verbose {
            true => {
                writeln!(text, "{}, {key}, {statistics}, dp:ovs, actions:{actions}", flow.ufid())
            }
            false => writeln!(text, "{key}, {statistics}, actions:{actions}"),
        };
    }
    Ok(Output::Text(text))
}

fn dump_bridge(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (name, options) = call.arguments.split_last().ok_or("no such bridge")?;
    let mut style = Style::default();
    if let Some(unknown) = options.iter().find(|option| !style.takes(option)) {
        return Err(format!("Unrecognized option {unknown}"));
    }
    let kind = daemon.bridges.datapath_type(name).ok_or("no such bridge")?;
    let switch = daemon.bridges.switch(name).ok_or("no such bridge")?;
    let datapath = daemon.bridges.datapaths().find(|datapath| datapath.kind() == kind);
    let datapath = datapath.ok_or("no such bridge")?;
    let names = style.port_names(daemon, kind);
    let flows = flows(datapath, |flow| {
        let number = flow.key().in_port.get();
        switch.ports().any(|(_, port)| port.datapath_number.is_some_and(|own| own.0 == number))
    });
    let shown = |flow| Shown { flow, is_verbose: style.is_verbose, names: names.as_ref() };
    Ok(match call.format {
        Format::Json => Output::Json(flows.iter().map(|flow| shown(flow).json()).collect()),
        Format::Text => Output::Text(flows.iter().fold(String::new(), |mut text, flow| {
            if style.is_verbose {
                let _ = write!(text, "{} ", flow.ufid());
            }
            let shown = shown(flow);
            let statistics = StatisticsText(flow.statistics());
            let _ = writeln!(text, "{}, {statistics}, actions:{}", shown.key(), shown.actions());
            text
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_flags_stand_in_the_order_of_the_tools() {
        assert_eq!(flag_letters(0x002), "S");
        assert_eq!(flag_letters(0xfff), "SFPRU.ECN[200][400][800]");
    }
}
