//! How the process ends: on a signal, and with its temporary files gone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::low_level::emulate_default_handler;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

/// Files to be removed when the process ends.
static FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn files() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a file that belongs to this process, such as a socket or a pidfile. The file is
/// removed when this is dropped, and by [`terminate`].
#[derive(Debug)]
pub struct TemporaryFile(PathBuf);

impl TemporaryFile {
    /// Takes responsibility for the file at `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        files().insert(path.clone());
        Self(path)
    }

    /// The name of the file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Leaves the file to others.
    pub fn keep(self) {
        files().remove(&self.0);
        // Dropping removes only what is still in the list.
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if files().remove(&self.0) {
            // It may be gone already, which is what is wanted.
            let _ = fs::remove_file(&self.0);
        }
    }
}

/// The signals that end the process: SIGTERM, SIGINT, SIGHUP and SIGALRM. From the creation of
/// this on, they do so only by [`terminate`].
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    alarm: Signal,
}

impl Signals {
    /// Starts to catch the signals.
    ///
    /// # Errors
    /// When the system refuses a handler, or outside of a runtime with signals enabled.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            alarm: signal(SignalKind::alarm())?,
        })
    }

    /// Waits for one of the signals and returns its number.
    pub async fn recv(&mut self) -> i32 {
        let kind = tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.hangup.recv() => SignalKind::hangup(),
            _ = self.alarm.recv() => SignalKind::alarm(),
        };
        kind.as_raw_value()
    }
}

/// Ends the process as the signal of that number would, after removing its temporary files.
pub fn terminate(number: i32) -> ! {
    warn!(
        target: "fatal_signal",
        "terminating with signal {number} ({})",
        signal_description(number)
    );
    for path in std::mem::take(&mut *files()) {
        // It may be gone already, which is what is wanted.
        let _ = fs::remove_file(path);
    }
    // Returns only when the signal does not end a process.
    let _ = emulate_default_handler(number);
    process::exit(1)
}

/// What the system calls a signal, as `strsignal(3)` says it.
pub fn signal_description(number: i32) -> String {
    let description = match number {
        1 => "Hangup",
        2 => "Interrupt",
        3 => "Quit",
        4 => "Illegal instruction",
        5 => "Trace/breakpoint trap",
        6 => "Aborted",
        7 => "Bus error",
        8 => "Floating point exception",
        9 => "Killed",
        10 => "User defined signal 1",
        11 => "Segmentation fault",
        12 => "User defined signal 2",
        13 => "Broken pipe",
        14 => "Alarm clock",
        15 => "Terminated",
        16 => "Stack fault",
        24 => "CPU time limit exceeded",
        25 => "File size limit exceeded",
        30 => "Power failure",
        31 => "Bad system call",
        _ => return format!("signal {number}"),
    };
    description.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_files_go_with_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let [removed, kept] = ["removed", "kept"].map(|name| directory.path().join(name));
        for path in [&removed, &kept] {
            fs::write(path, "").unwrap();
        }
        let first = TemporaryFile::new(removed.clone());
        let second = TemporaryFile::new(kept.clone());
        assert_eq!(first.path(), removed);
        assert!(files().is_superset(&BTreeSet::from([removed.clone(), kept.clone()])));
        drop(first);
        second.keep();
        assert!(files().is_disjoint(&BTreeSet::from([removed.clone(), kept.clone()])));
        assert!(!removed.exists());
        assert!(kept.exists());
    }

    #[tokio::test]
    async fn signals_are_caught() {
        let mut signals = Signals::new().unwrap();
        for number in [15, 2, 1, 14] {
            signal_hook::low_level::raise(number).unwrap();
            assert_eq!(signals.recv().await, number);
        }
    }
}
