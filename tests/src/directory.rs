//! The directory that one test's daemons and tools call home.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

use crate::namespace::Namespace;

/// The environment variables that place the files of OVS's programs and of ours.
const PLACES: [&str; 5] =
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "OVS_PKGDATADIR"];

/// A temporary directory for sockets, logs, pid files and databases. Dropping it removes it, and
/// kills every process that was started to work in it and still runs, however it detached.
#[derive(Debug)]
pub struct Directory {
    root: TempDir,
    /// Where its commands run, if not where the test does.
    namespace: Option<Namespace>,
}

impl Default for Directory {
    fn default() -> Self {
        Self::new()
    }
}

impl Directory {
    /// An empty directory.
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("sluice-").tempdir();
        Self { root: root.expect("a temporary directory"), namespace: None }
    }

    /// An empty directory whose commands run in a network namespace of their own.
    #[track_caller]
    pub fn in_namespace() -> Self {
        let mut directory = Self::new();
        directory.namespace = Some(Namespace::new());
        directory
    }

    /// The same on a file system in memory, where writing out a file costs nothing.
    pub fn in_memory() -> Self {
        let root = tempfile::Builder::new().prefix("sluice-").tempdir_in("/dev/shm");
        Self { root: root.expect("a temporary directory in /dev/shm"), namespace: None }
    }

    /// The namespace that its commands run in, if they have one of their own.
    pub fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// A file in it.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    /// The text of a file in it.
    #[track_caller]
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.path(name);
        let bytes =
            std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Writes a file in it.
    #[track_caller]
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::write(&path, content)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// The names of all files in it.
    pub fn names(&self) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.root()).expect("a readable directory");
        entries
            .map(|entry| entry.expect("a directory entry").file_name().into_string())
            .map(|name| name.expect("a name in UTF-8"))
            .collect()
    }

    /// A command that runs in this directory and finds its files here.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match &self.namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", namespace.name()]).arg(program);
                command
            }
        };
        command
            .current_dir(self.root())
            .stdin(Stdio::null())
            .env_remove("NOTIFY_SOCKET")
            .env("OVS_SYSLOG_METHOD", "null")
            .env("OVS_CTL_TIMEOUT", "30");
        for place in PLACES {
            command.env(place, self.root());
        }
        command
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let variable = format!("OVS_RUNDIR={}", self.root().display());
        // Again until none is left: one may have started another before it was killed.
        while kill_with_variable(&variable) {}
    }
}

/// Kills the processes that were started with a variable in their environment. Says whether
/// there were any.
fn kill_with_variable(variable: &str) -> bool {
    let has_variable = |pid: Pid| {
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        let environment = std::fs::read(path).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").expect("a readable /proc");
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut found = false;
    for pid in numbers.filter_map(Pid::from_raw).filter(|pid| has_variable(*pid)) {
        found = true;
        // The number may be that of another process by now, but the handle stays with one.
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if has_variable(pid) {
            let _ = pidfd_send_signal(handle, Signal::KILL);
        }
    }
    found
}
