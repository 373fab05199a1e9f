//! `dpif/offload/*` and `dpctl/offload-stats-show`: flows in the hardware of ports.

use std::fmt::Write as _;

use dpif::FlowRecord;
use dpif::datapath::{Datapath, PortNumber};
use dpif::offload::{OffloadState, PROVIDERS, ProviderStatus, WorkerSnapshot};
use serde_json::{Map, Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::{command, find_datapath};

pub(super) const COMMANDS: &[Command] = &[
    command("dpif/offload/show", "", (0, 0), Handler::Now(show)),
    command("dpif/offload/classes", "", (0, 0), Handler::Now(show_classes)),
    command("dpctl/offload-stats-show", "[dp]", (0, 1), Handler::Now(show_statistics)),
];

/// How far a flow is in hardware, as a flow dump says it.
pub(super) struct Offloaded {
    /// What stands between the counters of the flow and the actions.
    pub(super) text: String,
    /// For dumps as JSON.
    pub(super) json: Value,
}

impl Offloaded {
    /// How far `flow` is. Why it is not is told where `reasons` are asked for.
    pub(super) fn of(flow: &FlowRecord, datapath: &Datapath, reasons: bool) -> Self {
        let state = flow.offload_state();
        let provider = datapath.offload_provider(PortNumber(flow.key().in_port.get()));
        let text = match state {
            OffloadState::Full => {
                format!(", offloaded:yes, dp:{}", provider.unwrap_or("ovs"))
            }
            OffloadState::Partial => ", offloaded:partial, dp:ovs".to_owned(),
            OffloadState::No(reason) if reasons => format!(", offloaded:no({reason}), dp:ovs"),
            OffloadState::No(_) => ", dp:ovs".to_owned(),
        };
        let json = match state {
            OffloadState::Full => json!({ "state": "yes", "layer": provider }),
            OffloadState::Partial => json!({ "state": "partial", "layer": "ovs" }),
            OffloadState::No(reason) => {
                json!({ "state": "no", "layer": "ovs", "reason": reason.to_string() })
            }
        };
        Self { text, json }
    }
}

/// Which flows a dump shows, by how far they are in hardware (`type=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types {
    /// Those whose packets software has to do with.
    ovs: bool,
    full: bool,
    partial: bool,
    none: bool,
}

impl Types {
    /// All flows.
    pub(super) const ALL: Self = Self { ovs: true, full: true, partial: true, none: true };

    /// Parses the list behind `type=`.
    ///
    /// # Errors
    /// Names the first word that is no type.
    pub(super) fn parse(list: &str) -> Result<Self, String> {
        let mut types = Self::default();
        for name in list.split(',').filter(|name| !name.is_empty()) {
            match name {
                "all" => types = Self::ALL,
                "ovs" => types.ovs = true,
                "offloaded" => types.full = true,
                "partially-offloaded" => types.partial = true,
                "non-offloaded" => types.none = true,
                // Layers that this datapath does not have.
                "tc" | "dpdk" => {}
                _ => return Err(format!("Failed to parse type ({name})")),
            }
        }
        Ok(types)
    }

    /// Whether a flow is among them.
    pub(super) fn has(self, flow: &FlowRecord) -> bool {
        match flow.offload_state() {
            OffloadState::Full => self.full,
            OffloadState::Partial => self.ovs || self.partial,
            OffloadState::No(_) => self.ovs || self.none,
        }
    }
}

fn title(datapath: &Datapath) -> String {
    format!("{}@{}", datapath.kind().name(), datapath.kind().datapath_name())
}

/// What the kinds of hardware that a datapath uses have to tell: those for its type of ports, and
/// others that have one.
fn status(datapath: &Datapath) -> Vec<ProviderStatus> {
    let mut status = datapath.offload_status();
    let kind = datapath.kind().name();
    status.retain(|provider| datapaths(provider.name) == [kind] || !provider.ports.is_empty());
    status
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let is_enabled = daemon.bridges.datapaths().any(Datapath::is_offload_enabled);
    if call.format == Format::Json {
        let mut json = Map::from_iter([("enabled".to_owned(), is_enabled.into())]);
        for datapath in daemon.bridges.datapaths() {
            let status = status(datapath);
            let names: Vec<_> = status.iter().map(|provider| provider.name).collect();
            let providers = status.iter().map(|p| (p.name.to_owned(), provider_json(p)));
            let providers: Map<_, _> = providers.collect();
            json.insert(title(datapath), json!({ "priority": names, "providers": providers }));
        }
        return Ok(Output::Json(Value::Object(json)));
    }
    let mut text = format!("Globally enabled: {is_enabled}\nDatapaths:\n");
    for datapath in daemon.bridges.datapaths() {
        let _ = writeln!(text, "{}:", title(datapath));
        for provider in &status(datapath) {
            let _ = writeln!(text, "  {}", provider.name);
            for port in &provider.ports {
                let _ = writeln!(text, "  - {}: port_no: {}", port.name, port.number);
                for (name, value) in &port.counters {
                    let _ = writeln!(text, "    {name:<21}: {value}");
                }
            }
        }
    }
    Ok(Output::Text(text))
}

fn provider_json(provider: &ProviderStatus) -> Value {
    if provider.ports.is_empty() {
        return json!({});
    }
    let ports = provider.ports.iter().map(|port| {
        let counters = port.counters.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        let number = ("port_no".to_owned(), json!(port.number.0));
        (port.name.clone(), Value::Object([number].into_iter().chain(counters).collect()))
    });
    json!({ "ports": Map::from_iter(ports) })
}

fn show_classes(_: &mut Daemon, call: &Call) -> Outcome {
    Ok(match call.format {
        Format::Json => Output::Json(
            PROVIDERS
                .iter()
                .map(|name| json!({ "class": name, "datapaths": datapaths(name) }))
                .collect(),
        ),
        Format::Text => {
            let mut text = String::from(
                "Offload Class     Supported dpif class(es)\n\
                 ----------------  ------------------------\n",
            );
            for name in PROVIDERS {
                let _ = write!(text, "{name:<16}  ");
                for (place, datapath) in datapaths(name).iter().enumerate() {
                    let _ = writeln!(text, "{:1$}{datapath}", "", if place == 0 { 0 } else { 18 });
                }
            }
            Output::Text(text)
        }
    })
}

/// The types of datapaths that have ports for a provider.
fn datapaths(provider: &str) -> &'static [&'static str] {
    if is_dummy(provider) { &["dummy"] } else { &["dummy", "netdev"] }
}

/// Whether a provider is one of those for dummy ports.
fn is_dummy(provider: &str) -> bool {
    provider.starts_with("dummy")
}

/// Counters of a worker under their names.
fn worker_counters(worker: &WorkerSnapshot) -> [(&'static str, u64); 7] {
    [
        ("Enqueued offloads", worker.enqueued),
        ("Inserted offloads", worker.rules),
        ("Marks in use", worker.marks),
        ("Cumulative Average latency (us)", worker.mean as u64),
        ("Cumulative Latency stddev (us)", worker.deviation as u64),
        ("Exponential Average latency (us)", worker.exponential_mean as u64),
        ("Exponential Latency stddev (us)", worker.exponential_deviation as u64),
    ]
}

/// Sums counters over workers, and averages latencies.
fn total(workers: &[WorkerSnapshot], place: usize) -> u64 {
    let values = workers.iter().filter_map(|worker| worker_counters(worker).get(place).copied());
    let sum: u64 = values.map(|(_, value)| value).sum();
    if place < 3 { sum } else { sum / workers.len().max(1) as u64 }
}

fn show_statistics(daemon: &mut Daemon, call: &Call) -> Outcome {
    let datapath = find_datapath(daemon, call.argument(0));
    let datapath = datapath.ok_or("please specify an existing datapath")?;
    let status = status(datapath);
    let names = worker_counters(&WorkerSnapshot::default()).map(|(name, _)| name);
    if call.format == Format::Json {
        let providers = status.iter().map(|provider| {
            if is_dummy(provider.name) {
                let count = json!({ "Offloaded port count": provider.ports.len() });
                return (provider.name.to_owned(), count);
            }
            let threads = provider.workers.iter().map(|worker| {
                let counters = worker_counters(worker).map(|(name, v)| (name.to_owned(), json!(v)));
                Value::Object(counters.into_iter().collect())
            });
            (provider.name.to_owned(), threads.collect())
        });
        return Ok(Output::Json(Value::Object(providers.collect())));
    }
    let mut text = String::from("HW Offload stats:\n");
    for provider in &status {
        let _ = writeln!(text, "  {}[{}]:", provider.name, title(datapath));
        if is_dummy(provider.name) {
            let _ = writeln!(text, "    Offloaded port count: {:>6}", provider.ports.len());
            continue;
        }
        for (place, name) in names.into_iter().enumerate() {
            let value = total(&provider.workers, place);
            let _ = writeln!(text, "      Total {name:>33}: {value:>6}");
        }
        for (number, worker) in provider.workers.iter().enumerate() {
            for (name, value) in worker_counters(worker) {
                let _ = writeln!(text, "      [{number:>3}] {name:>33}: {value:>6}");
            }
        }
    }
    Ok(Output::Text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_chosen() {
        let none = Types::default();
        assert_eq!(Types::parse("all"), Ok(Types::ALL));
        assert_eq!(Types::parse("tc,ovs"), Ok(Types { ovs: true, ..none }));
        assert_eq!(Types::parse("offloaded,,dpdk"), Ok(Types { full: true, ..none }));
        let both = Types { partial: true, none: true, ..none };
        assert_eq!(Types::parse("partially-offloaded,non-offloaded"), Ok(both));
        assert_eq!(Types::parse("ovs,x"), Err("Failed to parse type (x)".to_owned()));
    }

    #[test]
    fn latencies_are_averaged_and_counts_added() {
        let worker = WorkerSnapshot { enqueued: 3, mean: 10.0, ..WorkerSnapshot::default() };
        let workers = [worker, WorkerSnapshot { mean: 20.0, ..worker }];
        assert_eq!((total(&workers, 0), total(&workers, 3)), (6, 15));
    }
}
