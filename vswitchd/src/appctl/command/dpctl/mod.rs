//! `dpctl/*`: datapaths, their ports and flows, below OpenFlow.

mod change;
mod conntrack;
mod datapaths;
mod dump;
mod normalize;
mod other;
mod ports;

use std::fmt::{Display, Write as _};

use dpif::datapath::Datapath;
use netdev::errno;
use rustix::io::Errno;

use crate::appctl::registry::{Call, Command, Format, Outcome, Output};
use crate::daemon::Daemon;

use super::{command, find_datapath, flows, offload, port_names};

/// All commands of these modules.
pub(super) fn commands() -> impl Iterator<Item = &'static Command> {
    let all = [
        change::COMMANDS,
        conntrack::COMMANDS,
        datapaths::COMMANDS,
        dump::COMMANDS,
        normalize::COMMANDS,
        other::COMMANDS,
        ports::COMMANDS,
    ];
    all.into_iter().flatten()
}

/// Options that every one of the commands takes, before its arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Options {
    /// Whether to show more (`-m`, `--more`).
    is_verbose: bool,
    /// Whether to show counters (`-s`, `--statistics`).
    with_statistics: bool,
    /// Whether a changed flow starts counting from 0 (`--clear`).
    clear: bool,
    /// Whether a flow may be created where one is to be changed (`--may-create`).
    may_create: bool,
    /// Whether ports are shown by name (`--names`, `--no-names`); unless said, they are if verbose.
    names: Option<bool>,
    /// Whether to say why flows are not in hardware (`--reasons`).
    reasons: bool,
}

impl Options {
    /// Takes the options off the front of `arguments`; returns what is left too.
    fn parse(arguments: &[String]) -> Result<(Self, &[String]), String> {
        let (mut options, mut rest) = (Self::default(), arguments);
        while let [argument, behind @ ..] = rest {
            if !argument.starts_with('-') || argument == "-" {
                break;
            }
            options.take(argument)?;
            rest = behind;
        }
        Ok((options, rest))
    }

    fn take(&mut self, argument: &str) -> Result<(), String> {
        match argument {
            "--statistics" => self.with_statistics = true,
            "--clear" => self.clear = true,
            "--may-create" => self.may_create = true,
            "--more" => self.is_verbose = true,
            "--reasons" => self.reasons = true,
            "--names" => self.names = Some(true),
            "--no-names" => self.names = Some(false),
            long if long.starts_with("--") => return Err(format!("Unrecognized option {long}")),
            short => {
                for letter in short.chars().skip(1) {
                    match letter {
                        'm' => self.is_verbose = true,
                        's' => self.with_statistics = true,
                        _ => return Err(format!("Unrecognized option -{letter}")),
                    }
                }
            }
        }
        Ok(())
    }

    fn shows_names(self) -> bool {
        self.names.unwrap_or(self.is_verbose)
    }
}

/// What a command has to say, in the order in which it came up. The messages about what went wrong
/// begin with the name of the program, as those of `ovs-dpctl` do.
struct Report {
    program: String,
    text: String,
    is_failed: bool,
}

impl Report {
    fn new(daemon: &Daemon) -> Self {
        let program = daemon.log.program().to_owned();
        Self { program, text: String::new(), is_failed: false }
    }

    /// Adds a line.
    fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Adds a line about something that went wrong and does not make the command fail.
    fn complain(&mut self, errno: Option<Errno>, what: impl Display) {
        let _ = write!(self.text, "{}: {what}", self.program);
        if let Some(errno) = errno {
            let _ = write!(self.text, " ({})", errno::description(errno));
        }
        self.text.push('\n');
    }

    /// Adds a line about something that went wrong; the command fails.
    fn fail(&mut self, errno: Option<Errno>, what: impl Display) {
        self.complain(errno, what);
        self.is_failed = true;
    }

    fn outcome(self) -> Outcome {
        if self.is_failed { Err(self.text) } else { Ok(Output::Text(self.text)) }
    }

    /// The same, or `json` where that was asked for and nothing went wrong.
    fn outcome_or(self, call: &Call, json: impl FnOnce() -> serde_json::Value) -> Outcome {
        match call.format {
            Format::Json if !self.is_failed => Ok(Output::Json(json())),
            _ => self.outcome(),
        }
    }
}

/// The datapath that a command concerns: the one that its first argument names, which is taken off,
/// or else the only one. With `most` arguments the first has to be one.
fn choose<'a>(
    daemon: &Daemon,
    arguments: &'a [String],
    most: usize,
    report: &mut Report,
) -> Option<(String, &'a [String])> {
    let name = |datapath: &Datapath| datapath.name().to_owned();
    if let [first, rest @ ..] = arguments
        && let Some(datapath) = find_datapath(daemon, Some(first))
    {
        return Some((name(datapath), rest));
    }
    let only = find_datapath(daemon, None).filter(|_| arguments.len() < most);
    if only.is_none() {
        match daemon.bridges.all_datapaths().count() {
            _ if arguments.len() >= most => {}
            0 => report.fail(None, "no datapaths exist"),
            _ => report.fail(None, "multiple datapaths, specify one"),
        }
        report.fail(Some(Errno::INVAL), "datapath not found");
    }
    only.map(|datapath| (name(datapath), arguments))
}

/// The datapath that has to be named.
fn open<'a>(
    daemon: &Daemon,
    arguments: &'a [String],
    report: &mut Report,
) -> Option<(String, &'a [String])> {
    let (first, rest) = arguments.split_first()?;
    match find_datapath(daemon, Some(first)) {
        Some(datapath) => Some((datapath.name().to_owned(), rest)),
        None => {
            report.fail(Some(Errno::NODEV), "opening datapath");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<(Options, Vec<String>), String> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        Options::parse(&arguments).map(|(options, rest)| (options, rest.to_vec()))
    }

    #[test]
    fn options_come_before_arguments() {
        let both = Options { is_verbose: true, with_statistics: true, ..Options::default() };
        assert_eq!(parse(&["-ms", "dp", "-x"]), Ok((both, vec!["dp".into(), "-x".into()])));
        assert_eq!(parse(&["--more", "--statistics", "-"]), Ok((both, vec!["-".into()])));
        let other = Options { clear: true, may_create: true, names: Some(false), ..both };
        assert_eq!(
            parse(&["-m", "--clear", "--names", "-s", "--may-create", "--no-names"]),
            Ok((other, vec![]))
        );
        assert_eq!(parse(&["-mx"]), Err("Unrecognized option -x".to_owned()));
        assert_eq!(parse(&["--mine"]), Err("Unrecognized option --mine".to_owned()));
    }

    #[test]
    fn names_are_shown_if_asked_for_or_verbose() {
        let verbose = Options { is_verbose: true, ..Options::default() };
        assert_eq!(
            [Options::default(), verbose, Options { names: Some(false), ..verbose }]
                .map(Options::shows_names),
            [false, true, false]
        );
    }
}
