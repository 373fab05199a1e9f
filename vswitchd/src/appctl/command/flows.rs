//! Flows as commands show them, and `dpif/dump-flows`: those of a bridge.

use std::fmt::Write as _;
use std::sync::Arc;

use dpif::action::ActionsText;
use dpif::datapath::Datapath;
use dpif::flow::{FlowText, MAX_VLANS, PortNames, Ufid};
use dpif::{FlowRecord, WorkerId};
use ofproto::rule_text::rule_text;
use ofproto::tables::{Criteria, TABLE_INTERNAL};
use serde_json::{Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::{command, port_names};

pub(super) const COMMANDS: &[Command] = &[
    command(
        "dpif/dump-flows",
        "[-m] [--names | --no-names] bridge",
        (1, usize::MAX),
        Handler::Now(dump_bridge),
    ),
    command("bridge/dump-flows", "[--offload-stats] bridge", (1, 2), Handler::Now(dump_rules)),
    command("ofproto/detrace", "UFID [pmd=PMD-ID]", (1, 2), Handler::Now(detrace)),
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
}

/// One flow in all its parts.
pub(super) struct Shown<'a> {
    /// The flow.
    pub(super) flow: &'a FlowRecord,
    /// Whether what it leaves out is shown too.
    pub(super) is_verbose: bool,
    /// Names of ports, where they are shown.
    pub(super) names: Option<&'a PortNames>,
}

impl Shown<'_> {
    pub(super) fn key(&self) -> FlowText<'_> {
        FlowText {
            key: self.flow.key(),
            mask: Some(self.flow.mask()),
            verbose: self.is_verbose,
            names: self.names,
            vlan_limit: MAX_VLANS,
        }
    }

    pub(super) fn actions(&self) -> String {
        ActionsText { actions: &self.flow.actions(), names: self.names }.to_string()
    }

    pub(super) fn json(&self) -> Value {
        let statistics = self.flow.statistics();
        json!({
            "ufid": self.flow.ufid().to_string().trim_start_matches("ufid:"),
            "flow": self.key().to_string(),
            "packets": statistics.packets,
            "bytes": statistics.bytes,
            "used-seconds": statistics.age().map(|age| age.as_secs_f64()),
            "tcp-flags": statistics.flag_letters(),
            "actions": self.actions(),
        })
    }
}

/// The flows of a datapath that `wanted` names: by thread, the oldest first.
pub(super) fn flows(
    datapath: &Datapath,
    wanted: impl Fn(&FlowRecord) -> bool,
) -> Vec<Arc<FlowRecord>> {
    datapath.count_offloaded();
    let mut flows = datapath.dump_flows(None);
    flows.retain(|flow| wanted(flow));
    flows.sort_by_key(|flow| (flow.worker(), flow.serial()));
    flows
}

/// All rules of a bridge, those included that controllers do not see.
fn dump_rules(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (name, options) = call.arguments.split_last().ok_or("Unknown bridge")?;
    let offload = options.iter().any(|option| option == "--offload-stats");
    let switch = daemon.bridges.switch(name).ok_or("Unknown bridge")?;
    let select = |table| {
        let criteria = Criteria { include_hidden: true, table, ..Criteria::all() };
        switch.tables().select(&criteria)
    };
    let rules = [Criteria::all().table, TABLE_INTERNAL].into_iter().flat_map(select);
    let lines: Vec<_> = rules.map(|rule| rule_text(&rule, offload)).collect();
    Ok(match call.format {
        Format::Json => Output::Json(lines.into()),
        Format::Text => Output::Text(lines.iter().map(|line| format!("{line}\n")).collect()),
    })
}

/// What a flow of a datapath was made of.
fn detrace(daemon: &mut Daemon, call: &Call) -> Outcome {
    let ufid = call.argument(0).and_then(Ufid::parse_prefix);
    let (ufid, _) = ufid.ok_or("failed to parse ufid")?;
    let thread = match call.argument(1) {
        None => WorkerId::Main,
        Some(text) => {
            let core = text.strip_prefix("pmd=").and_then(|core| core.parse().ok());
            WorkerId::Core(core.ok_or("Invalid pmd argument format. Expecting 'pmd=PMD-ID'")?)
        }
    };
    let mut text = String::new();
    for (title, _, revalidator) in daemon.bridges.shared_datapaths() {
        match revalidator.origin(ufid, thread) {
            None => text += &format!("UFID was not found for {title}\n"),
            Some(None) => text += &format!("Cache was not found for {title}\n"),
            Some(Some(origin)) => text += &origin,
        }
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
    let shows_names = style.names.unwrap_or(style.is_verbose);
    let names = shows_names.then(|| port_names(daemon, datapath.name()));
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
            let statistics = flow.statistics();
            let _ = writeln!(text, "{}, {statistics}, actions:{}", shown.key(), shown.actions());
            text
        })),
    })
}
