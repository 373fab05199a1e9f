//! `vlog/*`: levels, rate limits and files of the log.

use crate::appctl::registry::{Call, Command, Handler, Outcome, Output};
use crate::daemon::Daemon;
use crate::log::{Level, Module, Spec};

use super::command;

const ANY: usize = usize::MAX;

pub(super) const COMMANDS: &[Command] = &[
    command("vlog/set", "{spec | PATTERN:destination:pattern}", (0, ANY), Handler::Now(set)),
    command("vlog/list", "", (0, 0), Handler::Now(list)),
    command("vlog/list-pattern", "", (0, 0), Handler::Now(list_pattern)),
    command("vlog/enable-rate-limit", "[module]...", (0, ANY), Handler::Now(enable_rate_limit)),
    command("vlog/disable-rate-limit", "[module]...", (0, ANY), Handler::Now(disable_rate_limit)),
    command("vlog/reopen", "", (0, 0), Handler::Now(reopen)),
    command("vlog/close", "", (0, 0), Handler::Now(close)),
];

fn set(daemon: &mut Daemon, call: &Call) -> Outcome {
    if call.arguments.is_empty() {
        daemon.log.apply(&Spec::Level { module: None, destination: None, level: Level::Debug });
    }
    for argument in &call.arguments {
        let spec = argument.parse::<Spec>().map_err(|error| error.to_string())?;
        daemon.log.apply(&spec);
    }
    Ok(Output::none())
}

fn list(daemon: &mut Daemon, _: &Call) -> Outcome {
    Ok(Output::Text(daemon.log.levels()))
}

fn list_pattern(daemon: &mut Daemon, _: &Call) -> Outcome {
    Ok(Output::Text(daemon.log.patterns()))
}

fn limit_rate(daemon: &Daemon, call: &Call, on: bool) -> Outcome {
    if call.arguments.is_empty() {
        daemon.log.limit_rate(None, on);
    }
    for name in &call.arguments {
        let module = match name.as_str() {
            any if any.eq_ignore_ascii_case("any") => None,
            name => Some(Module::named(name).ok_or("unknown module")?),
        };
        daemon.log.limit_rate(module, on);
    }
    Ok(Output::none())
}

fn enable_rate_limit(daemon: &mut Daemon, call: &Call) -> Outcome {
    limit_rate(daemon, call, true)
}

fn disable_rate_limit(daemon: &mut Daemon, call: &Call) -> Outcome {
    limit_rate(daemon, call, false)
}

fn reopen(daemon: &mut Daemon, _: &Call) -> Outcome {
    daemon.log.reopen().map_err(|error| error.to_string())?;
    Ok(Output::none())
}

fn close(daemon: &mut Daemon, _: &Call) -> Outcome {
    daemon.log.close();
    Ok(Output::none())
}
