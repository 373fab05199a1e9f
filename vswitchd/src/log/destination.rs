//! Where messages go.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A place that messages go to, with its own pattern and its own level for each module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The system's log.
    Syslog,
    /// Standard error.
    Console,
    /// The file given with `--log-file`.
    File,
}

impl Destination {
    /// Every destination, in the order in which operators see them.
    pub(super) const ALL: [Self; 3] = [Self::Syslog, Self::Console, Self::File];

    /// The name that operators write and read.
    pub fn name(self) -> &'static str {
        match self {
            Self::Syslog => "SYSLOG",
            Self::Console => "CONSOLE",
            Self::File => "FILE",
        }
    }

    /// The destination of that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|destination| destination.name().eq_ignore_ascii_case(name))
    }
}

/// One value for each destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PerDestination<T> {
    pub(super) syslog: T,
    pub(super) console: T,
    pub(super) file: T,
}

impl<T> PerDestination<T> {
    pub(super) fn get(&self, destination: Destination) -> &T {
        match destination {
            Destination::Syslog => &self.syslog,
            Destination::Console => &self.console,
            Destination::File => &self.file,
        }
    }

    pub(super) fn get_mut(&mut self, destination: Destination) -> &mut T {
        match destination {
            Destination::Syslog => &mut self.syslog,
            Destination::Console => &mut self.console,
            Destination::File => &mut self.file,
        }
    }
}

/// Writes a line to standard error; a failure has nowhere to be told.
pub(super) fn write_console(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The log file: a name, and the file open under it unless it was closed.
#[derive(Debug, Default)]
pub(super) struct LogFile {
    path: Option<PathBuf>,
    file: Option<File>,
}

impl LogFile {
    /// Opens `path` for appending, creating it if needed.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).mode(0o660).open(path)?;
        Ok(Self { path: Some(path.to_owned()), file: Some(file) })
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub(super) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Whether both are open and name one file, which need not be so after a rotation.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let identity = |log: &Self| {
            let metadata = log.file.as_ref()?.metadata().ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        identity(self).is_some_and(|this| Some(this) == identity(other))
    }

    /// Closes the file and remembers its name.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    /// Appends a line; a failure has nowhere to be told.
    pub(super) fn write(&mut self, mut line: String) {
        if let Some(file) = &mut self.file {
            line.push('\n');
            let _ = file.write_all(line.as_bytes());
        }
    }
}
