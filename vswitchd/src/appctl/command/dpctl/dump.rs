//! Showing flows of datapaths.

use dpif::flow::{PortNames, Ufid};
use dpif::{FlowRecord, WorkerId};
use ofproto::flow::Flow;
use ofproto::openflow::port::PortNo;
use ofproto::openflow::text::{Names, parse_match};
use ofproto::openflow::tlv_map::TlvMap;
use rustix::io::Errno;
use serde_json::Value;

use super::flows::{Shown, flows};
use super::offload::{Offloaded, Types};
use super::{Options, Report, choose, command, find_datapath, port_names};
use crate::appctl::registry::{Call, Command, Handler, Outcome};
use crate::daemon::Daemon;

pub(super) const COMMANDS: &[Command] = &[
    command(
        "dpctl/dump-flows",
        "[-m] [--names] [dp] [filter=..] [type=..] [pmd=..]",
        (0, 6),
        Handler::Now(dump),
    ),
    command("dpctl/get-flow", "[dp] ufid", (1, 5), Handler::Now(get)),
];

/// Which flows to show.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// `pmd`.
    thread: Option<WorkerId>,
    /// `type`.
    types: Types,
    /// `filter`: what OpenFlow matches.
    filter: Option<String>,
    /// What is none of the above.
    others: Vec<String>,
}

impl Wanted {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut wanted = Self { thread: None, types: Types::ALL, filter: None, others: vec![] };
        for argument in arguments {
            if let Some(core) = argument.strip_prefix("pmd=") {
                wanted.thread = Some(parse_thread(core)?);
            } else if let Some(types) = argument.strip_prefix("type=") {
                wanted.types = Types::parse(types)?;
            } else if let Some(filter) = argument.strip_prefix("filter=") {
                wanted.filter = Some(filter.to_owned());
            } else {
                wanted.others.push(argument.clone());
            }
        }
        Ok(wanted)
    }
}

/// What flows are compared with. A bit that a flow does not look at can be anything.
struct Filter {
    value: Flow,
    mask: Flow,
}

impl Filter {
    /// Reads a match of OpenFlow, in which ports are those of the datapath.
    fn parse(text: &str, names: PortNames) -> Result<Self, String> {
        let found = parse_match(text, &DatapathNames(names));
        let found = found.map_err(|error| format!("Failed to parse filter ({error})"))?;
        let (value, mask) = Flow::of_match(&found, &TlvMap::default());
        Ok(Self { value, mask })
    }

    fn passes(&self, flow: &FlowRecord) -> bool {
        let in_port = PortNo(flow.key().in_port.get() as u16);
        let mut mask = Flow::of_packet(flow.mask().bits().clone(), PortNo(u16::MAX));
        for (bits, wanted) in mask.words_mut().iter_mut().zip(self.mask.words()) {
            *bits &= wanted;
        }
        Flow::of_packet(flow.key().clone(), in_port).matches(&self.value, &mask)
    }
}

/// Names of ports of the datapath where OpenFlow has its own.
struct DatapathNames(PortNames);

impl Names for DatapathNames {
    fn port_by_name(&self, name: &str) -> Option<PortNo> {
        self.0.number(name).and_then(|number| u16::try_from(number).ok()).map(PortNo)
    }
}

/// Reads a thread of the datapath: a core, or -1 for the main thread.
pub(super) fn parse_thread(core: &str) -> Result<WorkerId, String> {
    match core.parse() {
        Ok(core) => Ok(WorkerId::Core(core)),
        Err(_) if core == "-1" => Ok(WorkerId::Main),
        Err(_) => Err(format!("pmd={core} is not a core, nor -1 for the main thread")),
    }
}

/// A flow in one line.
fn line(shown: &Shown<'_>, offloaded: &Offloaded) -> String {
    let statistics = shown.flow.statistics();
    let (key, actions) = (shown.key(), shown.actions());
    match shown.is_verbose {
        true => {
            let (ufid, offloaded) = (shown.flow.ufid(), &offloaded.text);
            format!("{ufid}, {key}, {statistics}{offloaded}, actions:{actions}")
        }
        false => format!("{key}, {statistics}, actions:{actions}"),
    }
}

/// A flow with the core of the thread that has it.
fn json_of(shown: &Shown<'_>, offloaded: Offloaded) -> Value {
    let mut json = shown.json();
    if let WorkerId::Core(core) = shown.flow.worker() {
        json["core"] = core.into();
    }
    json["offload"] = offloaded.json;
    json
}

fn dump(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (options, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let wanted = match Wanted::parse(arguments) {
        Ok(wanted) => wanted,
        Err(error) => {
            report.fail(Some(Errno::INVAL), error);
            return report.outcome();
        }
    };
    let Some((name, _)) = choose(daemon, &wanted.others, 1, &mut report) else {
        return report.outcome();
    };
    let Some(datapath) = find_datapath(daemon, Some(&name)) else { return report.outcome() };
    let filter = wanted.filter.as_deref();
    let filter = match filter.map(|text| Filter::parse(text, port_names(daemon, &name))) {
        Some(Ok(filter)) => Some(filter),
        Some(Err(error)) => {
            report.fail(None, error);
            return report.outcome();
        }
        None => None,
    };
    let names = shown_names(daemon, &name, options);
    let flows = flows(datapath, |flow| {
        wanted.types.has(flow)
            && wanted.thread.is_none_or(|own| own == flow.worker())
            && filter.as_ref().is_none_or(|filter| filter.passes(flow))
    });
    let offloaded = |flow| Offloaded::of(flow, datapath, options.reasons);
    let shown = |flow| Shown { flow, is_verbose: options.is_verbose, names: names.as_ref() };
    let mut last = None;
    for flow in &flows {
        if wanted.thread.is_none() && last != Some(flow.worker()) {
            match flow.worker() {
                WorkerId::Core(core) => {
                    report.line(format_args!("flow-dump from pmd on cpu core: {core}"));
                }
                WorkerId::Main => report.line("flow-dump from the main thread:"),
            }
            last = Some(flow.worker());
        }
        report.line(line(&shown(flow), &offloaded(flow)));
    }
    report.outcome_or(call, || {
        flows.iter().map(|flow| json_of(&shown(flow), offloaded(flow))).collect()
    })
}

/// The names of ports, if they are to be shown.
fn shown_names(daemon: &Daemon, datapath: &str, options: Options) -> Option<PortNames> {
    options.shows_names().then(|| port_names(daemon, datapath))
}

fn get(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (options, arguments) = Options::parse(&call.arguments)?;
    let mut report = Report::new(daemon);
    let Some((name, rest)) = choose(daemon, arguments, 2, &mut report) else {
        return report.outcome();
    };
    let ufid = rest.last().and_then(|text| Ufid::parse_prefix(text)).map(|(ufid, _)| ufid);
    let Some(ufid) = ufid else {
        report.fail(None, "parsing flow ufid");
        return report.outcome();
    };
    let Some(datapath) = find_datapath(daemon, Some(&name)) else { return report.outcome() };
    let Some(flow) = datapath.flows(ufid, None).into_iter().next() else {
        report.fail(Some(Errno::NOENT), "getting flow");
        return report.outcome();
    };
    let names = shown_names(daemon, &name, options);
    let shown = Shown { flow: &flow, is_verbose: options.is_verbose, names: names.as_ref() };
    let offloaded = Offloaded::of(&flow, datapath, options.reasons);
    report.line(line(&shown, &offloaded));
    report.outcome_or(call, || json_of(&shown, offloaded))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Wanted, String> {
        Wanted::parse(&arguments.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn threads_and_types_are_chosen() -> Result<(), String> {
        let all = || Wanted { thread: None, types: Types::ALL, filter: None, others: vec![] };
        assert_eq!(parse(&[]), Ok(all()));
        assert_eq!(
            parse(&["dp", "pmd=3", "type=all"]),
            Ok(Wanted { thread: Some(WorkerId::Core(3)), others: vec!["dp".to_owned()], ..all() })
        );
        assert_eq!(
            parse(&["type=offloaded,,dpdk", "pmd=-1"]),
            Ok(Wanted { thread: Some(WorkerId::Main), types: Types::parse("offloaded")?, ..all() })
        );
        assert_eq!(
            parse(&["filter=tcp,in_port=1"]),
            Ok(Wanted { filter: Some("tcp,in_port=1".to_owned()), ..all() })
        );
        for (bad, error) in [
            ("pmd=x", "pmd=x is not a core, nor -1 for the main thread"),
            ("pmd=-2", "pmd=-2 is not a core, nor -1 for the main thread"),
            ("type=ovs,x", "Failed to parse type (x)"),
        ] {
            assert_eq!(parse(&[bad]), Err(error.to_owned()));
        }
        Ok(())
    }
}
