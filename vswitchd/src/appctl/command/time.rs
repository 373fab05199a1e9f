//! `time/*`: stopping and moving the clock, for tests.

use std::time::Duration;

use netdev::clock;

use crate::appctl::registry::{Call, Command, Handler, Outcome, Output, Responder};
use crate::daemon::{Daemon, Warp};

use super::command;

pub(super) const COMMANDS: &[Command] = &[
    command("time/stop", "", (0, 0), Handler::Now(stop)),
    command("time/warp", "[large_msecs] msecs", (1, 2), Handler::Later(warp)),
];

fn stop(_: &mut Daemon, _: &Call) -> Outcome {
    clock::stop();
    Ok(Output::none())
}

fn milliseconds(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_millis)
}

/// `time/warp STEP` moves the clock at once. `time/warp TOTAL STEP` moves it STEP by STEP, with
/// everything that is due done in between.
fn warp(daemon: &mut Daemon, call: &Call, responder: Responder) {
    let numbers: Option<Vec<_>> = call.arguments.iter().map(|text| milliseconds(text)).collect();
    let (total, step) = match numbers.as_deref() {
        Some(&[step]) if !step.is_zero() => (step, step),
        Some(&[total, step]) if !step.is_zero() => (total, step),
        _ => return responder.answer(Err("invalid MSECS".to_owned())),
    };
    if daemon.warp.is_some() {
        return responder.answer(Err("A previous warp in progress".to_owned()));
    }
    daemon.warp = Some(Warp::new(total, step, responder));
}
