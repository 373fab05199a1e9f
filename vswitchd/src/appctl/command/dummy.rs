//! `netdev-dummy/*`: what dummy ports are made to do.

use netdev::dummy::Dummy;
use serde_json::{Map, Value};

use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command(
        "netdev-dummy/set-admin-state",
        "[netdev] up|down",
        (1, 2),
        Handler::Now(set_admin_state),
    ),
    command("netdev-dummy/conn-state", "[netdev]", (0, 1), Handler::Now(connection_state)),
];

fn set_admin_state(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (name, state) = match call.arguments.as_slice() {
        [state] => (None, state),
        [name, state, ..] => (Some(name), state),
        [] => return Err("Invalid Admin State".to_owned()),
    };
    let up = match state.to_ascii_lowercase().as_str() {
        "up" => true,
        "down" => false,
        _ => return Err("Invalid Admin State".to_owned()),
    };
    let dummies = daemon.bridges.registry().dummies();
    let chosen = match name {
        Some(name) => vec![dummies.get(name).ok_or("Unknown Dummy Interface")?],
        None => dummies.all(),
    };
    chosen.iter().for_each(|dummy| dummy.set_admin_up(up));
    Ok(Output::Text("OK".to_owned()))
}

/// State of the stream of a dummy port: `unknown` when it has none.
fn state_of(dummy: Option<&Dummy>) -> &'static str {
    match dummy.and_then(Dummy::is_connected) {
        Some(true) => "connected",
        Some(false) => "disconnected",
        None => "unknown",
    }
}

fn connection_state(daemon: &mut Daemon, call: &Call) -> Outcome {
    let dummies = daemon.bridges.registry().dummies();
    let states: Vec<(String, &str)> = match call.argument(0) {
        Some(name) => vec![(name.to_owned(), state_of(dummies.get(name).as_deref()))],
        None => {
            let all = dummies.all();
            let streaming = all.iter().filter(|dummy| dummy.is_connected().is_some());
            streaming.map(|dummy| (dummy.name().to_owned(), state_of(Some(dummy)))).collect()
        }
    };
    Ok(match call.format {
        Format::Text => {
            Output::Text(states.iter().map(|(name, state)| format!("{name}: {state}\n")).collect())
        }
        Format::Json => {
            let states = states.into_iter().map(|(name, state)| (name, state.into()));
            Output::Json(Value::Object(states.collect::<Map<_, _>>()))
        }
    })
}
