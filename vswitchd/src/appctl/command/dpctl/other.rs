//! Commands that concern no datapath.

use dpif::action::{ActionsText, parse_actions};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::{Options, Report, command, commands};
use crate::appctl::registry::{Call, Command, Handler, Outcome};
use crate::daemon::Daemon;

const ANY: usize = usize::MAX;

pub(super) const COMMANDS: &[Command] = &[
    command("dpctl/list-commands", "", (0, ANY), Handler::Now(list)),
    command("dpctl/parse-actions", "actions", (1, ANY), Handler::Now(parse)),
];

fn list(daemon: &mut Daemon, call: &Call) -> Outcome {
    let mut report = Report::new(daemon);
    let mut all: Vec<_> = commands().collect();
    all.sort_by_key(|command| command.name);
    report.line("The available commands are:");
    let usage = |command: &Command| command.usage.unwrap_or_default();
    for command in &all {
        let name = command.name.trim_start_matches("dpctl/");
        report.line(format_args!("  dpctl/{name:<23} {}", usage(command)));
    }
    report.outcome_or(call, || {
        let all = all.iter().map(|command| (command.name.to_owned(), json!(usage(command))));
        all.collect()
    })
}

/// Reads actions and writes them as the datapath does.
fn parse(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (_, arguments) = Options::parse(&call.arguments)?;
    let (mut report, mut lines) = (Report::new(daemon), vec![]);
    for text in arguments {
        match parse_actions(text, None) {
            Ok(actions) => {
                lines.push(ActionsText { actions: &actions, names: None }.to_string());
            }
            Err(error) => {
                report.fail(Some(Errno::INVAL), format!("odp_actions_from_string ({error})"));
                return report.outcome();
            }
        }
    }
    lines.iter().for_each(|line| report.line(line));
    report.outcome_or(call, || Value::from(lines))
}
