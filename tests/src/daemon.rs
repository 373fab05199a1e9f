//! The switch itself, running in the background as an operator starts it.

use std::path::PathBuf;

use rustix::process::Signal;

use crate::process::LIMIT;
use crate::tools::program;
use crate::{Directory, Output, Running, wait_until};

/// Warnings that say nothing about the switch, as in OVS's own test suite.
const HARMLESS: [&str; 9] = [
    "reset by peer",
    "Broken pipe",
    "is not connected",
    "|timeval|WARN|Unreasonably long",
    "|timeval|WARN|faults: ",
    "|timeval|WARN|disk: ",
    "|timeval|WARN|context switches: ",
    "|poll_loop|",
    "Dropped ",
];

/// A daemon that was started with `--detach`, killed on drop. Its log is printed when the test
/// fails.
#[derive(Debug)]
pub struct Daemon<'a> {
    directory: &'a Directory,
    name: &'static str,
    running: Running,
    allowed: Vec<String>,
}

impl<'a> Daemon<'a> {
    /// Starts `sluice-vswitchd` with dummy ports allowed and waits until it is configured. It must
    /// print nothing but informational log lines.
    #[track_caller]
    pub fn start(directory: &'a Directory, flags: &[&str]) -> Self {
        Self::start_as(directory, "sluice-vswitchd", flags)
    }

    /// Starts the daemon under another name, which it then uses for all of its files.
    #[track_caller]
    pub fn start_as(directory: &'a Directory, name: &'static str, flags: &[&str]) -> Self {
        let dummies = ["--enable-dummy", "--disable-system", "--disable-system-route"];
        Self::start_with(directory, name, &[&dummies, flags].concat())
    }

    /// Starts `sluice-vswitchd` as on a host, where it follows the kernel's routes.
    #[track_caller]
    pub fn start_without_dummies(directory: &'a Directory) -> Self {
        Self::start_with(directory, "sluice-vswitchd", &[])
    }

    #[track_caller]
    fn start_with(directory: &'a Directory, name: &'static str, flags: &[&str]) -> Self {
        let output = Output::of(
            directory
                .command(link(directory, name))
                .args(["--detach", "--no-chdir", "--pidfile", "--log-file"])
                .args(flags),
        );
        let severe = output.stderr.lines().find(|line| is_severe(line));
        let fine = output.status.success() && output.stdout.is_empty() && severe.is_none();
        assert!(fine, "start: {output:#?}");
        Self::adopt(directory, name)
    }

    /// Takes over a daemon that runs already, by its pid file.
    #[track_caller]
    pub fn adopt(directory: &'a Directory, name: &'static str) -> Self {
        let text = directory.read(format!("{name}.pid"));
        let pid = text.strip_suffix('\n').and_then(|number| number.parse().ok());
        let pid = pid.unwrap_or_else(|| panic!("{name}.pid holds no process number: {text:?}"));
        let running = Running::of_pid(pid);
        let running = running.unwrap_or_else(|| panic!("{name}.pid names {pid}, which is gone"));
        Self { directory, name, running, allowed: Vec::new() }
    }

    /// The process.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// The path of the control socket.
    pub fn control_socket(&self) -> PathBuf {
        self.directory.path(format!("{}.{}.ctl", self.name, self.running.pid()))
    }

    /// Runs `ovs-appctl ARGS` against this daemon.
    #[track_caller]
    pub fn appctl(&self, args: &[&str]) -> Output {
        self.directory.ovs_appctl(self.name, args)
    }

    /// The text of the log file.
    #[track_caller]
    pub fn log(&self) -> String {
        self.directory.read(format!("{}.log", self.name))
    }

    /// Waits until the log contains `text`.
    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        wait_until(&format!("the log has {text:?}"), || self.log().contains(text));
    }

    /// Lets [`Daemon::stop`] accept warnings and errors that contain `text`.
    pub fn allow(&mut self, text: &str) {
        self.allowed.push(text.to_owned());
    }

    /// Ends the daemon with `exit --cleanup` and checks, as OVS's test suite does, that it
    /// removed its files and logged no warning or error that was not allowed.
    #[track_caller]
    pub fn stop(self) {
        assert_eq!(self.appctl(&["coverage/read-counter", "dp_packet_batch_grow"]).ok(), "0\n");
        self.appctl(&["exit", "--cleanup"]).ok();
        assert!(self.running.has_ended(LIMIT), "{} runs on after exit", self.name);
        assert!(!self.control_socket().exists(), "the control socket is left behind");
        assert!(!self.directory.path(format!("{}.pid", self.name)).exists(), "pid file left");
        self.check_log();
    }

    /// Checks that the log has no warning or error that was not allowed.
    #[track_caller]
    pub fn check_log(&self) {
        let log = self.log();
        let bad = log.lines().filter(|line| {
            is_severe(line)
                && !HARMLESS.iter().any(|text| line.contains(text))
                && !self.allowed.iter().any(|text| line.contains(text))
        });
        assert_eq!(bad.collect::<Vec<_>>(), Vec::<&str>::new(), "unexpected in the log");
    }

    /// Kills the daemon without a chance to clean up.
    #[track_caller]
    pub fn kill(self) {
        self.running.signal(Signal::KILL);
        assert!(self.running.has_ended(LIMIT), "{} survived SIGKILL", self.name);
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- log of {} ----", self.name);
            let path = self.directory.path(format!("{}.log", self.name));
            eprintln!("{}", std::fs::read_to_string(path).unwrap_or_default());
        }
    }
}

fn is_severe(line: &str) -> bool {
    ["|WARN|", "|ERR|", "|EMER|"].iter().any(|level| line.contains(level))
}

/// The daemon's program under the given name.
#[track_caller]
pub fn link(directory: &Directory, name: &str) -> PathBuf {
    let real = program("sluice-vswitchd");
    if name == "sluice-vswitchd" {
        return real;
    }
    let link = directory.path(name);
    if !link.exists() {
        std::os::unix::fs::symlink(real, &link).expect("a new link");
    }
    link
}
