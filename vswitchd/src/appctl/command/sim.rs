//! `netdev-sim/*`: looking at software NICs and making them fail.

use std::fmt::Write as _;
use std::sync::Arc;

use netdev::sim::{Faults, Nic};
use serde_json::{Map, Value, json};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;
use super::dummy::{frame_of_flow, parse_hex};

pub(super) const COMMANDS: &[Command] = &[
    command("netdev-sim/show", "[netdev]", (0, 1), Handler::Now(show)),
    command(
        "netdev-sim/receive",
        "netdev [--count n] packet|flow...",
        (2, usize::MAX),
        Handler::Now(receive),
    ),
    command("netdev-sim/set-fault", "netdev fault per-mille", (3, 3), Handler::Now(set_fault)),
    command("netdev-sim/clear-faults", "netdev", (1, 1), Handler::Now(clear_faults)),
    command("netdev-sim/lose-rules", "netdev", (1, 1), Handler::Now(lose_rules)),
    command("netdev-sim/remove", "netdev", (1, 1), Handler::Now(remove)),
    command("netdev-sim/restore", "netdev", (1, 1), Handler::Now(restore)),
];

fn find(daemon: &Daemon, call: &Call) -> Result<Arc<Nic>, String> {
    let name = call.argument(0).unwrap_or_default();
    let found = daemon.bridges.registry().sims().get(name);
    found.ok_or_else(|| format!("{name}: no such sim netdev"))
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let nics = match call.argument(0) {
        Some(_) => vec![find(daemon, call)?],
        None => daemon.bridges.registry().sims().all(),
    };
    Ok(match call.format {
        Format::Text => Output::Text(nics.iter().fold(String::new(), |mut text, nic| {
            let _ = writeln!(text, "{}:", nic.name());
            let _ = writeln!(text, "  rules: {}", nic.rules());
            let _ = write!(text, "{}", nic.totals());
            for (name, per_mille) in nic.faults().named().filter(|(_, value)| *value > 0) {
                let _ = writeln!(text, "  fault {name}: {per_mille} per mille");
            }
            text
        })),
        Format::Json => {
            let nics = nics.iter().map(|nic| {
                let totals: Map<_, _> = nic.totals().named().map(pair).collect();
                let faults: Map<_, _> = nic.faults().named().map(pair).collect();
                let state = json!({ "rules": nic.rules(), "totals": totals, "faults": faults });
                (nic.name().to_owned(), state)
            });
            Output::Json(Value::Object(nics.collect()))
        }
    })
}

fn pair<T: Into<Value>>((name, value): (&'static str, T)) -> (String, Value) {
    (name.to_owned(), value.into())
}

/// Frames that arrive together; a receive ring may be as small.
const BURST: usize = 32;

fn receive(daemon: &mut Daemon, call: &Call) -> Outcome {
    let nic = find(daemon, call)?;
    let (mut count, mut rest) = (1, call.arguments.get(1..).unwrap_or(&[]));
    if let [option, number, behind @ ..] = rest
        && option == "--count"
    {
        let parsed = number.parse::<usize>();
        count = parsed.map_err(|_| format!("--count: \"{number}\" is not a number"))?;
        rest = behind;
    }
    let frames =
        rest.iter().map(|text| parse_hex(text).map_or_else(|| frame_of_flow(text, None), Ok));
    let frames = frames.collect::<Result<Vec<_>, _>>()?;
    let mut left = count * frames.len();
    let mut all = frames.iter().cycle();
    while left > 0 {
        let burst = left.min(BURST);
        nic.arrive(all.by_ref().take(burst).map(Vec::as_slice));
        left -= burst;
    }
    Ok(Output::none())
}

fn set_fault(daemon: &mut Daemon, call: &Call) -> Outcome {
    let nic = find(daemon, call)?;
    let [_, name, number] = call.arguments.as_slice() else {
        return Err("a fault and a number are needed".to_owned());
    };
    let per_mille = number.parse().ok().filter(|number| *number <= 1000);
    let per_mille =
        per_mille.ok_or_else(|| format!("\"{number}\" is not a number from 0 to 1000"))?;
    let mut faults = nic.faults();
    if !faults.set(name, per_mille) {
        return Err(format!("\"{name}\" is none of {}", Faults::NAMES.join(", ")));
    }
    nic.set_faults(faults);
    Ok(Output::none())
}

fn clear_faults(daemon: &mut Daemon, call: &Call) -> Outcome {
    find(daemon, call)?.set_faults(Faults::default());
    Ok(Output::none())
}

fn lose_rules(daemon: &mut Daemon, call: &Call) -> Outcome {
    find(daemon, call)?.lose_rules();
    Ok(Output::none())
}

fn remove(daemon: &mut Daemon, call: &Call) -> Outcome {
    find(daemon, call)?.set_removed(true);
    Ok(Output::none())
}

fn restore(daemon: &mut Daemon, call: &Call) -> Outcome {
    find(daemon, call)?.set_removed(false);
    Ok(Output::none())
}
