//! The command line of `sluice-appctl`: that of `ovs-appctl`.

use std::env;
use std::ffi::OsString;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches, Parser, ValueEnum};

use crate::args::{Ending, ending, program_name, version_text};

/// Name of the program unless its executable has another.
const DEFAULT_NAME: &str = "sluice-appctl";

/// Query and control a running switch
#[derive(Clone, Debug, Parser)]
#[command(args_override_self = true, infer_long_args = true)]
pub struct Args {
    /// Name under which the program runs: the file name that it was started by.
    #[arg(skip)]
    pub program: String,

    /// Daemon to talk to: its name, or the absolute path of its control socket [default:
    /// sluice-vswitchd, or ovs-vswitchd if only that is running]
    #[arg(short, long)]
    pub target: Option<String>,

    /// Seconds to wait for a reply, at most [default: OVS_CTL_TIMEOUT in the environment, or for
    /// ever]
    #[arg(short = 'T', long, value_name = "SECS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,

    /// Format of the reply
    #[arg(short, long, value_enum, default_value = "text")]
    pub format: Format,

    /// Spread JSON over several lines
    #[arg(long)]
    pub pretty: bool,

    /// Command for the daemon, such as list-commands, and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

/// Format of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Args {
    /// Parses a command line that starts with the name of the program.
    ///
    /// # Errors
    /// [`Ending`] when the program must not go on.
    pub fn parse_from(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Ending> {
        let mut arguments = arguments.into_iter();
        let program = program_name(arguments.next().as_deref(), DEFAULT_NAME);
        let words = std::iter::once(OsString::from(&program)).chain(arguments);
        let mut args = Self::command_named(&program)
            .try_get_matches_from(words)
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| ending(&program, &error))?;
        if args.pretty && args.format == Format::Text {
            let text = format!("{program}: --pretty is supported with --format json only\n");
            return Err(Ending { ok: false, text });
        }
        args.program = program;
        Ok(args)
    }

    /// The command for the daemon and its arguments.
    pub fn command(&self) -> (&str, &[String]) {
        self.command.split_first().map_or(("", &[]), |(command, rest)| (command.as_str(), rest))
    }

    /// How long to wait for a reply, given how to look an environment variable up
    /// ([`env::var`]); `None` for ever. As in Open vSwitch, 0 or no number in the environment is no
    /// limit.
    pub fn timeout(
        &self,
        variable: impl Fn(&str) -> Result<String, env::VarError>,
    ) -> Option<Duration> {
        let from_environment = || variable("OVS_CTL_TIMEOUT").ok()?.parse().ok();
        let seconds = self.timeout.or_else(from_environment).filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// The description of the command line under a name of the program.
    pub fn command_named(program: &str) -> clap::Command {
        let command = <Self as CommandFactory>::command();
        let command = command.name(program.to_owned()).bin_name(program.to_owned());
        command.version(version_text(program))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, Ending> {
        Args::parse_from(line.split_whitespace().map(OsString::from))
    }

    fn refuse(line: &str) -> String {
        let Ending { ok, text } = parse(line).unwrap_err();
        assert!(!ok);
        text.lines().next().unwrap().to_owned()
    }

    fn words(args: &Args) -> Vec<&str> {
        let (command, rest) = args.command();
        std::iter::once(command).chain(rest.iter().map(String::as_str)).collect()
    }

    #[test]
    fn the_description_is_consistent() {
        Args::command_named("sluice-appctl").debug_assert();
    }

    #[test]
    fn options_after_the_command_belong_to_it() {
        let args = parse("/bin/sluice-appctl -t br -f json --pretty exit --cleanup -T 3 -- -h");
        let args = args.unwrap_or_else(|ending| panic!("{ending}"));
        assert_eq!(args.program, "sluice-appctl");
        assert_eq!(args.target.as_deref(), Some("br"));
        assert_eq!((args.format, args.pretty), (Format::Json, true));
        assert_eq!(words(&args), ["exit", "--cleanup", "-T", "3", "--", "-h"]);
    }

    #[test]
    fn defaults_are_text_and_no_limit() {
        let args = parse("sluice-appctl version").unwrap();
        assert_eq!(args.target, None);
        assert_eq!((args.format, args.pretty), (Format::Text, false));
        assert_eq!(words(&args), ["version"]);
        assert_eq!(args.timeout(|_| Err(env::VarError::NotPresent)), None);
    }

    #[test]
    fn the_timeout_may_come_from_the_environment() {
        let seconds = |line: &str, value: &str| {
            let args = parse(line).unwrap();
            args.timeout(|name| {
                assert_eq!(name, "OVS_CTL_TIMEOUT");
                Ok(value.to_owned())
            })
            .map(|timeout| timeout.as_secs())
        };
        assert_eq!(seconds("a version", "30"), Some(30));
        assert_eq!(seconds("a version", "0"), None);
        assert_eq!(seconds("a version", "soon"), None);
        assert_eq!(seconds("a -T 5 version", "30"), Some(5));
        assert_eq!(seconds("a --timeout=5 version", "30"), Some(5));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, want) in [
            ("sluice-appctl", "the following required arguments were not provided:"),
            ("sluice-appctl --bogus", "unexpected argument '--bogus' found"),
            (
                "sluice-appctl -T 0 version",
                "invalid value '0' for '--timeout <SECS>': 0 is not in 1..=4294967295",
            ),
            ("sluice-appctl -f xml version", "invalid value 'xml' for '--format <FORMAT>'"),
            ("sluice-appctl --pretty version", "--pretty is supported with --format json only"),
        ] {
            assert_eq!(refuse(line), format!("sluice-appctl: {want}"), "{line:?}");
        }
    }

    #[test]
    fn the_version_depends_on_the_name() {
        let ending = parse("/usr/bin/ovs-appctl --version").unwrap_err();
        let text = "ovs-appctl (Open vSwitch) 4.0.90\n".to_owned();
        assert_eq!(ending, Ending { ok: true, text });
    }
}
