//! The command line of the daemon: that of `ovs-vswitchd`, and `--db-file`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, ValueEnum};

use crate::log::{Spec, SyslogMethod, UdpTarget};

/// Version of Open vSwitch whose texts and formats are used.
pub const OVS_VERSION: &str = "4.0.90";

/// Name of the daemon unless its executable has another.
const DEFAULT_NAME: &str = "sluice-vswitchd";

/// Userspace virtual switch that is configured like Open vSwitch
#[derive(Clone, Debug, Parser)]
#[command(args_override_self = true, infer_long_args = true)]
pub struct Args {
    /// Name under which the program runs: the file name that it was started by.
    #[arg(skip)]
    pub program: String,

    /// Database server to take the configuration from, instead of an embedded one: unix:FILE,
    /// tcp:HOST:PORT or ssl:HOST:PORT
    #[arg(value_name = "DB-REMOTE")]
    remote: Option<String>,

    // Refused after parsing, with the words of Open vSwitch.
    #[arg(hide = true)]
    surplus: Vec<String>,

    /// File of the embedded database [default: conf.db in the database directory]
    #[arg(long, value_name = "PATH")]
    pub db_file: Option<PathBuf>,

    /// Control socket, or none [default: NAME.PID.ctl in the run directory]
    #[arg(long, value_name = "SOCKET")]
    pub unixctl: Option<String>,

    /// Keep all memory from being paged out
    #[arg(long)]
    pub mlockall: bool,

    /// Enable dummy ports and datapaths, for tests; override makes every port and datapath one,
    /// system only those of the kernel
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true,
          default_missing_value = "only", hide_possible_values = true)]
    pub enable_dummy: Option<Dummies>,

    /// Do not offer datapaths of type system
    #[arg(long)]
    pub disable_system: bool,

    /// Do not follow the kernel's routing table
    #[arg(long)]
    pub disable_system_route: bool,

    /// NUMA node of each processor core, for tests: the first number is that of core 0
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub dummy_numa: Option<Vec<u16>>,

    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    dpdk: Option<Option<String>>,

    /// Options about the process.
    #[command(flatten)]
    pub process: ProcessArgs,

    /// Options about the log.
    #[command(flatten)]
    pub log: LogArgs,

    /// Options about TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// Which ports and datapaths are dummies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dummies {
    /// Those of the dummy types.
    #[value(alias = "")]
    Only,
    /// Also those of types that belong to the kernel.
    System,
    /// All.
    Override,
}

/// Options about the process.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Process")]
pub struct ProcessArgs {
    /// Run in the background, and return once the configuration is in force
    #[arg(long)]
    pub detach: bool,

    /// Do not change to the root directory when detaching
    #[arg(long)]
    pub no_chdir: bool,

    /// Have another process watch over this one and start it again when it crashes
    #[arg(long)]
    pub monitor: bool,

    /// Create a pidfile [default: NAME.pid in the run directory]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub pidfile: Option<Option<PathBuf>>,

    /// Create the pidfile even if another process holds it
    #[arg(long)]
    pub overwrite_pidfile: bool,

    /// Run as this user and group, with the capabilities that a switch needs
    #[arg(long, value_name = "USER[:GROUP]")]
    pub user: Option<String>,

    /// With --user, keep the capability to access hardware directly
    #[arg(long)]
    pub hw_rawio_access: bool,

    /// Allow sockets and files outside of the run directory in the configuration
    #[arg(long)]
    pub no_self_confinement: bool,
}

/// Options about the log.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Set what is logged: a destination, a module and a level joined by colons, each optional;
    /// or PATTERN:DESTINATION:PATTERN, or FACILITY:FACILITY; without a value, everything
    #[arg(short, long, value_name = "SPEC", num_args = 0..=1, require_equals = true,
          default_missing_value = "any:any:dbg", action = ArgAction::Append)]
    pub verbose: Vec<Spec>,

    /// Log to a file [default: NAME.log in the log directory]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub log_file: Option<Option<PathBuf>>,

    /// Way to the system's log: libc, unix:FILE, udp:HOST, udp:HOST:PORT or null
    #[arg(
        long,
        value_name = "METHOD",
        env = "OVS_SYSLOG_METHOD",
        default_value = "libc",
        hide_env_values = true
    )]
    pub syslog_method: SyslogMethod,

    /// Send messages for the system's log also to this UDP port
    #[arg(long, value_name = "HOST:PORT")]
    pub syslog_target: Option<UdpTarget>,
}

/// Options about TLS.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// File with the private key
    #[arg(short, long, value_name = "FILE")]
    pub private_key: Option<PathBuf>,

    /// File with the certificate of the private key
    #[arg(short, long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,

    /// File with the certificate of the authority that peers must be certified by
    #[arg(short = 'C', long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,

    /// Like --ca-cert, but the file is created with the certificate of the first peer
    #[arg(long, value_name = "FILE")]
    pub bootstrap_ca_cert: Option<PathBuf>,

    /// File with the certificate of the authority, to be sent to peers
    #[arg(long, value_name = "FILE")]
    pub peer_ca_cert: Option<PathBuf>,

    /// Versions of TLS to enable
    #[arg(long, value_name = "PROTOCOLS")]
    pub ssl_protocols: Option<String>,

    /// Ciphers to enable for TLS 1.2
    #[arg(long, value_name = "CIPHERS")]
    pub ssl_ciphers: Option<String>,

    /// Cipher suites to enable for TLS 1.3
    #[arg(long, value_name = "SUITES")]
    pub ssl_ciphersuites: Option<String>,

    /// Name of the server, for server name indication
    #[arg(long, value_name = "NAME")]
    pub ssl_server_name: Option<String>,
}

/// Why the program ends with the command line: help or the version was asked for, or something is
/// wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Whether what was asked for is done, and `text` belongs on standard output; otherwise it
    /// belongs on standard error.
    pub ok: bool,
    /// The text to print.
    pub text: String,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Args {
    /// Parses a command line that starts with the name of the program.
    ///
    /// # Errors
    /// [`Ending`] when the program must not go on.
    pub fn parse_from(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Ending> {
        let mut arguments = arguments.into_iter();
        let program = program_name(arguments.next().as_deref(), DEFAULT_NAME);
        let refuse = |text: &str| Ending { ok: false, text: format!("{program}: {text}\n") };

        let words = std::iter::once(OsString::from(&program)).chain(lengthen_verbose(arguments));
        let mut args = Self::command_named(&program)
            .try_get_matches_from(words)
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| ending(&program, &error))?;
        if !args.surplus.is_empty() {
            return Err(refuse("at most one non-option argument accepted; use --help for usage"));
        }
        if args.dpdk.is_some() {
            return Err(refuse(
                "Using --dpdk to configure DPDK is not supported; there are no DPDK ports.",
            ));
        }
        args.program = program;
        Ok(args)
    }

    /// The database server given on the command line.
    pub fn remote(&self) -> Option<&str> {
        self.remote.as_deref()
    }

    /// The description of the command line under a name of the program.
    pub fn command_named(program: &str) -> clap::Command {
        let command = Self::command().name(program.to_owned()).bin_name(program.to_owned());
        command.version(version_text(program))
    }
}

/// The file name of the first word of a command line.
pub fn program_name(first_word: Option<&OsStr>, default: &str) -> String {
    first_word
        .and_then(|word| Path::new(word).file_name())
        .map_or_else(|| default.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What `--version` prints after the name of the program. Tools that ask a program called like
/// one of Open vSwitch expect its version.
pub fn version_text(program: &str) -> String {
    if program.starts_with("ovs") {
        format!("(Open vSwitch) {OVS_VERSION}")
    } else {
        format!(
            "(Sluice) {}\ncompatible with Open vSwitch {OVS_VERSION}",
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// What to print when parsing a command line ended with `error`.
pub fn ending(program: &str, error: &clap::Error) -> Ending {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ending { ok: true, text },
        _ => {
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            Ending { ok: false, text: format!("{program}: {text}") }
        }
    }
}

/// Writes `-vSPEC` as `--verbose=SPEC` and `-v` as `--verbose`, because an optional value that
/// follows its letter directly cannot be told to clap.
fn lengthen_verbose(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    let mut options_ended = false;
    words.map(move |word| {
        options_ended |= word == "--";
        match word.to_str().and_then(|text| text.strip_prefix("-v")) {
            Some(_) if options_ended => word,
            Some("") => "--verbose".into(),
            Some(spec) => format!("--verbose={spec}").into(),
            None => word,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, Ending> {
        Args::parse_from(line.split_whitespace().map(OsString::from))
    }

    fn accept(options: &str) -> Args {
        parse(&format!("/sbin/sluice-vswitchd {options}")).unwrap_or_else(|e| panic!("{e}"))
    }

    fn refuse(options: &str) -> String {
        let Ending { ok, text } = parse(&format!("/sbin/ovs-vswitchd {options}")).unwrap_err();
        assert!(!ok);
        text.lines().next().unwrap().to_owned()
    }

    #[test]
    fn the_description_is_consistent() {
        Args::command_named("sluice-vswitchd").debug_assert();
    }

    #[test]
    fn the_usual_command_line_is_understood() {
        let args = parse(
            "/usr/sbin/ovs-vswitchd --enable-dummy --disable-system --disable-system-route \
             --detach --no-chdir --pidfile --log-file -vvconn -vofproto_dpif -vunixctl \
             --dummy-numa 0,0,1,1",
        )
        .unwrap();
        assert_eq!(args.program, "ovs-vswitchd");
        assert_eq!(args.remote(), None);
        assert_eq!(args.enable_dummy, Some(Dummies::Only));
        assert_eq!(args.dummy_numa, Some(vec![0, 0, 1, 1]));
        assert!(args.disable_system && args.disable_system_route && !args.mlockall);
        assert!(args.process.detach && args.process.no_chdir && !args.process.monitor);
        assert_eq!(args.process.pidfile, Some(None));
        assert_eq!(args.log.log_file, Some(None));
        let specs = ["vconn", "ofproto_dpif", "unixctl"].map(|spec| spec.parse().unwrap());
        assert_eq!(args.log.verbose, specs);
    }

    #[test]
    fn options_have_their_values() {
        let args = accept(
            "unix:/run/db.sock --pidfile=a.pid --log-file=b.log --unixctl=none --db-file d.db \
             --enable-dummy=override --syslog-method=null --syslog-target 127.0.0.1:514 \
             --user=sluice:net --hw-rawio-access --mlockall --monitor --overwrite-pidfile \
             --no-self-confinement -p key -c certificate -C authority --peer-ca-cert peers \
             --bootstrap-ca-cert=boot --ssl-protocols TLSv1.3 --ssl-ciphers HIGH \
             --ssl-ciphersuites=A:B --ssl-server-name=name",
        );
        assert_eq!(args.remote(), Some("unix:/run/db.sock"));
        assert_eq!(args.unixctl.as_deref(), Some("none"));
        assert_eq!(args.db_file, Some("d.db".into()));
        assert_eq!(args.enable_dummy, Some(Dummies::Override));
        assert!(args.mlockall);
        let process = args.process;
        assert_eq!(process.pidfile, Some(Some("a.pid".into())));
        assert_eq!(process.user.as_deref(), Some("sluice:net"));
        assert!(process.hw_rawio_access && process.monitor && process.overwrite_pidfile);
        assert!(process.no_self_confinement && !process.detach);
        assert_eq!(args.log.log_file, Some(Some("b.log".into())));
        assert_eq!(args.log.syslog_method, SyslogMethod::Null);
        assert_eq!(args.log.syslog_target, Some("127.0.0.1:514".parse().unwrap()));
        let tls = args.tls;
        assert_eq!(tls.private_key, Some("key".into()));
        assert_eq!(tls.certificate, Some("certificate".into()));
        assert_eq!(tls.ca_cert, Some("authority".into()));
        assert_eq!(tls.peer_ca_cert, Some("peers".into()));
        assert_eq!(tls.bootstrap_ca_cert, Some("boot".into()));
        assert_eq!(tls.ssl_protocols.as_deref(), Some("TLSv1.3"));
        assert_eq!(tls.ssl_ciphers.as_deref(), Some("HIGH"));
        assert_eq!(tls.ssl_ciphersuites.as_deref(), Some("A:B"));
        assert_eq!(tls.ssl_server_name.as_deref(), Some("name"));
    }

    #[test]
    fn options_may_be_shortened_and_repeated() {
        let args = accept("--det --pidf=a --pidfile=b --detach --enable-dummy=");
        assert!(args.process.detach);
        assert_eq!(args.process.pidfile, Some(Some("b".into())));
        assert_eq!(args.enable_dummy, Some(Dummies::Only));
    }

    #[test]
    fn verbosity_is_written_in_every_way() {
        let args = accept("-v -vfile:rconn:dbg --verbose=warn --verbose -v,off tcp:[::1]:6640");
        let specs = ["any:any:dbg", "file:rconn:dbg", "warn", "dbg", "off"];
        assert_eq!(args.log.verbose, specs.map(|spec| spec.parse().unwrap()));
        assert_eq!(args.remote(), Some("tcp:[::1]:6640"));
        assert_eq!(accept("-- -vconn").remote(), Some("-vconn"));
    }

    #[test]
    fn mistakes_are_named() {
        for (options, want) in [
            ("a b", "at most one non-option argument accepted; use --help for usage"),
            ("--dpdk", "Using --dpdk to configure DPDK is not supported; there are no DPDK ports."),
            (
                "--dpdk=-c1",
                "Using --dpdk to configure DPDK is not supported; there are no DPDK ports.",
            ),
            (
                "-vbogus",
                "invalid value 'bogus' for '--verbose[=<SPEC>]': no destination, level, or module \
                 \"bogus\"",
            ),
            ("--bogus", "unexpected argument '--bogus' found"),
            ("--detach=yes", "unexpected value 'yes' for '--detach' found; no more were expected"),
            ("--unixctl", "a value is required for '--unixctl <SOCKET>' but none was supplied"),
            ("--enable-dummy=all", "invalid value 'all' for '--enable-dummy[=<LEVEL>]'"),
            (
                "--dummy-numa=0,x",
                "invalid value 'x' for '--dummy-numa <LIST>': invalid digit found in string",
            ),
            (
                "--syslog-method=tcp:a",
                "invalid value 'tcp:a' for '--syslog-method <METHOD>': unsupported syslog method \
                 'tcp:a'",
            ),
        ] {
            assert_eq!(refuse(options), format!("ovs-vswitchd: {want}"), "{options:?}");
        }
    }

    #[test]
    fn the_version_depends_on_the_name() {
        let version = |line| parse(line).unwrap_err();
        assert_eq!(
            version("/x/ovs-vswitchd --version"),
            Ending { ok: true, text: "ovs-vswitchd (Open vSwitch) 4.0.90\n".to_owned() }
        );
        let text = format!(
            "sluice-vswitchd (Sluice) {}\ncompatible with Open vSwitch 4.0.90\n",
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(version("sluice-vswitchd -V"), Ending { ok: true, text });
    }

    #[test]
    fn help_names_the_program() {
        let Ending { ok, text } = parse("/x/ovs-vswitchd -h").unwrap_err();
        assert!(ok);
        assert!(text.contains("\nUsage: ovs-vswitchd [OPTIONS] [DB-REMOTE]\n"), "{text}");
    }
}
