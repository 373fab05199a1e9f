//! The directory that one test's daemons and tools call home.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The environment variables that place the files of OVS's programs and of ours.
const PLACES: [&str; 5] =
    ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR", "OVS_PKGDATADIR"];

/// A temporary directory for sockets, logs, pid files and databases, removed on drop.
#[derive(Debug)]
pub struct Directory {
    root: TempDir,
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
        Self { root: root.expect("a temporary directory") }
    }

    /// The same on a file system in memory, where writing out a file costs nothing.
    pub fn in_memory() -> Self {
        let root = tempfile::Builder::new().prefix("sluice-").tempdir_in("/dev/shm");
        Self { root: root.expect("a temporary directory in /dev/shm") }
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
        let mut command = Command::new(program);
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
