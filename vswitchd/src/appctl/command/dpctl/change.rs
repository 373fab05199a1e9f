//! Making, changing and removing flows of datapaths.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};

use dpif::action::{ActionsText, parse_actions};
use dpif::datapath::{FlowError, FlowPut, PutMode, key_ufid};
use dpif::flow::{
    Attribute, Fitness, FlowKey, FlowMask, FlowParseError, FlowText, MAX_VLANS, ParsedFlow, Ufid,
    parse_flow,
};
use dpif::{FlowStatistics, WorkerId};
use netdev::errno;
use rustix::io::Errno;
use thiserror::Error;
use tracing::{debug, warn};

use super::dump::parse_thread;
use super::{Options, Report, choose, command, find_datapath, port_names};
use crate::appctl::registry::{Call, Command, Handler, Outcome};
use crate::daemon::Daemon;

/// Files of flows are shorter than this many bytes.
const MAX_FILE: u64 = 256 << 20;

pub(super) const COMMANDS: &[Command] = &[
    command("dpctl/add-flow", "[dp] flow actions", (2, 8), Handler::Now(add)),
    command("dpctl/mod-flow", "[dp] flow actions", (2, 8), Handler::Now(modify)),
    command("dpctl/del-flow", "[dp] flow", (1, 8), Handler::Now(delete)),
    command(
        "dpctl/add-flows",
        "[dp] file",
        (1, 8),
        Handler::Now(|daemon, call| change_by_file(daemon, call, Change::Add)),
    ),
    command(
        "dpctl/mod-flows",
        "[dp] file",
        (1, 8),
        Handler::Now(|daemon, call| change_by_file(daemon, call, Change::Modify)),
    ),
    command("dpctl/del-flows", "[dp] [file]", (0, 8), Handler::Now(delete_all)),
];

/// What is to be done to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Add,
    Modify,
    Delete,
}

impl Change {
    fn put_mode(self, options: Options) -> PutMode {
        match self {
            Self::Modify if options.may_create => PutMode::CreateOrModify,
            Self::Modify => PutMode::Modify,
            Self::Add | Self::Delete => PutMode::Create,
        }
    }
}

/// Where flows are changed.
struct Place<'a> {
    datapath: &'a str,
    /// The thread, if not all of them.
    thread: Option<WorkerId>,
    options: Options,
}

/// Why a flow was not changed. The texts are those of the tools, which say less about why.
#[derive(Debug, Error)]
enum ChangeError {
    #[error("parsing flow ufid")]
    Ufid,
    #[error("parsing flow key ({0})")]
    Key(#[from] FlowParseError),
    #[error("parsing flow key ({} missing)", Attributes(.0))]
    Incomplete(Vec<Attribute>),
    #[error("parsing flow key ({} that such packets do not have)", Attributes(.0))]
    Superfluous(Vec<Attribute>),
    #[error("parsing actions ({0})")]
    Actions(dpif::flow::SyntaxError),
    #[error("updating flow table")]
    Put(FlowError),
    #[error("deleting flow")]
    Delete(FlowError),
    #[error("datapath not found")]
    NoDatapath,
}

/// Attributes with commas between them.
struct Attributes<'a>(&'a [Attribute]);

impl fmt::Display for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attribute) in self.0.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, attribute.name())?;
        }
        Ok(())
    }
}

impl ChangeError {
    fn errno(&self) -> Errno {
        match self {
            Self::Put(error) | Self::Delete(error) => flow_errno(*error),
            Self::Key(FlowParseError::Syntax(error)) if error.is_too_long => Errno::TOOBIG,
            _ => Errno::INVAL,
        }
    }
}

fn flow_errno(error: FlowError) -> Errno {
    match error {
        FlowError::Exists => Errno::EXIST,
        FlowError::NotFound => Errno::NOENT,
        FlowError::PortNotExact | FlowError::Overlap | FlowError::NoThread => Errno::INVAL,
    }
}

/// Takes the argument `pmd=CORE` out of others.
fn take_thread(arguments: &[String]) -> Result<(Option<WorkerId>, Vec<String>), String> {
    let (mut thread, mut others) = (None, vec![]);
    for argument in arguments {
        match argument.strip_prefix("pmd=") {
            Some(core) => thread = Some(parse_thread(core)?),
            None => others.push(argument.clone()),
        }
    }
    Ok((thread, others))
}

fn add(daemon: &mut Daemon, call: &Call) -> Outcome {
    change_one(daemon, call, Change::Add)
}

fn modify(daemon: &mut Daemon, call: &Call) -> Outcome {
    change_one(daemon, call, Change::Modify)
}

fn delete(daemon: &mut Daemon, call: &Call) -> Outcome {
    change_one(daemon, call, Change::Delete)
}

fn change_one(daemon: &mut Daemon, call: &Call, change: Change) -> Outcome {
    let (options, arguments) = Options::parse(&call.arguments)?;
    let (thread, arguments) = take_thread(arguments)?;
    let mut report = Report::new(daemon);
    let most = if change == Change::Delete { 2 } else { 3 };
    let Some((datapath, rest)) = choose(daemon, &arguments, most, &mut report) else {
        return report.outcome();
    };
    let place = Place { datapath: &datapath, thread, options };
    let result = match (rest, change) {
        ([flow], Change::Delete) => remove(daemon, &place, flow, &mut report),
        ([flow, actions], Change::Add | Change::Modify) => {
            put(daemon, &place, flow, actions, change, &mut report)
        }
        _ => return Err(format!("{}: what is one flow is in one argument", call.command)),
    };
    if let Err(error) = result {
        report.fail(Some(error.errno()), &error);
        give_advice(&error, &mut report);
    }
    report.outcome()
}

/// Flows that packets made have names that do not follow from the key alone.
fn give_advice(error: &ChangeError, report: &mut Report) {
    if matches!(error, ChangeError::Delete(FlowError::NotFound)) {
        report.line("Perhaps you need to specify a UFID?");
    }
}

/// Reads a flow; what its text does not call is named after its key.
fn parse(
    daemon: &Daemon,
    place: &Place<'_>,
    text: &str,
) -> Result<(Ufid, ParsedFlow), ChangeError> {
    if text.starts_with("ufid:") {
        Ufid::parse_prefix(text).ok_or(ChangeError::Ufid)?;
    }
    let names = port_names(daemon, place.datapath);
    let flow = parse_flow(text, Some(&names), MAX_VLANS)?;
    Ok((flow.ufid.unwrap_or_else(|| key_ufid(&flow.key)), flow))
}

/// Adds or changes a flow.
fn put(
    daemon: &mut Daemon,
    place: &Place<'_>,
    flow: &str,
    actions: &str,
    change: Change,
    report: &mut Report,
) -> Result<(), ChangeError> {
    let (ufid, flow) = parse(daemon, place, flow)?;
    match flow.fitness {
        Fitness::Perfect => {}
        Fitness::TooLittle(missing) => return Err(ChangeError::Incomplete(missing)),
        Fitness::TooMuch(superfluous) => return Err(ChangeError::Superfluous(superfluous)),
    }
    let actions = parse_actions(actions, None).map_err(ChangeError::Actions)?;
    let Place { datapath, thread, options } = *place;
    let put = FlowPut {
        key: flow.key,
        mask: flow.mask,
        actions: actions.into(),
        ufid: Some(ufid),
        mode: change.put_mode(options),
        clear_statistics: options.clear,
    };
    let mut all = daemon.bridges.all_datapaths_mut();
    let datapath = all.find(|candidate| candidate.name() == datapath);
    let datapath = datapath.ok_or(ChangeError::NoDatapath)?;
    let result = datapath.put_flow(&put, thread);
    let operation = match put.mode {
        PutMode::Create => "put[create]",
        PutMode::Modify => "put[modify]",
        PutMode::CreateOrModify => "put[create][modify]",
    };
    let text = format!(
        "{}, actions:{}",
        key_text(ufid, &put.key, Some(&put.mask)),
        ActionsText { actions: &put.actions, names: None }
    );
    log(&datapath.title(), operation, result, &text);
    result.map_err(ChangeError::Put)?;
    if options.with_statistics {
        let flows = datapath.flows(ufid, thread);
        report.line(sum(flows.iter().map(|flow| flow.statistics())));
    }
    Ok(())
}

/// Removes a flow.
fn remove(
    daemon: &mut Daemon,
    place: &Place<'_>,
    flow: &str,
    report: &mut Report,
) -> Result<(), ChangeError> {
    let (ufid, flow) = parse(daemon, place, flow)?;
    let Place { datapath, thread, options } = *place;
    let mut all = daemon.bridges.all_datapaths_mut();
    let datapath = all.find(|candidate| candidate.name() == datapath);
    let datapath = datapath.ok_or(ChangeError::NoDatapath)?;
    let flows = datapath.flows(ufid, thread);
    let result = datapath.remove_flow(ufid, thread);
    log(&datapath.title(), "flow_del", result, &key_text(ufid, &flow.key, None));
    result.map_err(ChangeError::Delete)?;
    if options.with_statistics {
        report.line(sum(flows.iter().map(|flow| flow.statistics())));
    }
    Ok(())
}

/// What the flows of several threads have counted together.
fn sum(flows: impl Iterator<Item = FlowStatistics>) -> FlowStatistics {
    flows.fold(FlowStatistics::default(), |sum, flow| FlowStatistics {
        packets: sum.packets + flow.packets,
        bytes: sum.bytes + flow.bytes,
        used: sum.used.max(flow.used),
        tcp_flags: sum.tcp_flags | flow.tcp_flags,
    })
}

/// A flow with its name, in full.
fn key_text(ufid: Ufid, key: &FlowKey, mask: Option<&FlowMask>) -> String {
    let key = FlowText { key, mask, verbose: true, names: None, vlan_limit: MAX_VLANS };
    format!("{ufid} {key}")
}

/// Tells the log of a change. That a flow is there already happens in the course of things.
fn log(datapath: &str, operation: &str, result: Result<(), FlowError>, flow: &str) {
    let failed = result.map_err(|error| (error, errno::description(flow_errno(error))));
    match failed {
        Ok(()) => debug!(target: "dpif", limited = true, "{datapath}: {operation} {flow}"),
        Err((FlowError::Exists, cause)) => debug!(
            target: "dpif", limited = true,
            "{datapath}: failed to {operation} ({cause}) {flow}"
        ),
        Err((_, cause)) => warn!(
            target: "dpif", limited = true,
            "{datapath}: failed to {operation} ({cause}) {flow}"
        ),
    }
}

/// Removes all flows, or those in a file.
fn delete_all(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let names_file = match arguments {
        [] => false,
        [only] => find_datapath(daemon, Some(only)).is_none(),
        _ => true,
    };
    if names_file {
        return change_by_file(daemon, call, Change::Delete);
    }
    let mut report = Report::new(daemon);
    if let Some((name, _)) = choose(daemon, arguments, 1, &mut report) {
        let mut all = daemon.bridges.all_datapaths_mut();
        if let Some(datapath) = all.find(|datapath| datapath.name() == name) {
            datapath.flush_flows();
        }
    }
    report.outcome()
}

/// Does to the flows in the lines of a file what each says, or else `default`. A line that cannot
/// be carried out does not keep the others from it.
fn change_by_file(daemon: &mut Daemon, call: &Call, default: Change) -> Outcome {
    let (options, arguments) = Options::parse(&call.arguments)?;
    let (thread, arguments) = take_thread(arguments)?;
    let mut report = Report::new(daemon);
    let Some((datapath, rest)) = choose(daemon, &arguments, 3, &mut report) else {
        return report.outcome();
    };
    let [path] = rest else {
        return Err(format!("{}: one file is needed", call.command));
    };
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => {
            let cause = errno::io_description(&error);
            report.fail(None, format!("Opening file \"{path}\" failed ({cause})"));
            return report.outcome();
        }
    };
    let place = Place { datapath: &datapath, thread, options };
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let result = match parse_line(line, default) {
            Some((Change::Delete, flow, None)) => remove(daemon, &place, flow, &mut report),
            Some((change @ (Change::Add | Change::Modify), flow, Some(actions))) => {
                put(daemon, &place, flow, actions, change, &mut report)
            }
            _ => {
                let text = format!("Failed parsing line number {number}, skipped!");
                report.complain(None, text);
                continue;
            }
        };
        if let Err(error) = result {
            report.complain(Some(error.errno()), &error);
            give_advice(&error, &mut report);
        }
    }
    report.outcome()
}

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    let longest = File::open(path)?.take(MAX_FILE).read_to_string(&mut text)?;
    if longest as u64 == MAX_FILE {
        return Err(Errno::FBIG.into());
    }
    Ok(text)
}

/// Reads `[add|delete|modify] FLOW [ACTIONS]`.
fn parse_line(line: &str, default: Change) -> Option<(Change, &str, Option<&str>)> {
    let split = |text: &'static str| {
        let rest = line.strip_prefix(text)?;
        rest.starts_with(|next: char| next == ',' || next.is_whitespace()).then_some(rest)
    };
    let words = [("add", Change::Add), ("delete", Change::Delete), ("modify", Change::Modify)];
    let named = words.into_iter().find_map(|(word, change)| Some((change, split(word)?)));
    let (change, rest) = named.unwrap_or((default, line));
    let rest = rest.trim_start();
    match rest.split_once(char::is_whitespace) {
        Some((flow, actions)) => Some((change, flow, Some(actions.trim()))),
        None => (!rest.is_empty()).then_some((change, rest, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files() {
        use Change::{Add, Delete, Modify};
        let parse = |line| parse_line(line, Modify);
        assert_eq!(parse("in_port(1),eth() 2"), Some((Modify, "in_port(1),eth()", Some("2"))));
        assert_eq!(parse("add in_port(1)  2, 3"), Some((Add, "in_port(1)", Some("2, 3"))));
        assert_eq!(parse("delete\tin_port(1)"), Some((Delete, "in_port(1)", None)));
        assert_eq!(parse("addin_port(1)"), Some((Modify, "addin_port(1)", None)));
        assert_eq!(parse("modify "), None);
    }

    #[test]
    fn errors_say_what_is_missing() {
        let error = ChangeError::Incomplete(vec![Attribute::Ipv4, Attribute::Tcp]);
        assert_eq!(error.to_string(), "parsing flow key (ipv4, tcp missing)");
        let error = ChangeError::Superfluous(vec![Attribute::Arp]);
        assert_eq!(error.to_string(), "parsing flow key (arp that such packets do not have)");
    }
}
