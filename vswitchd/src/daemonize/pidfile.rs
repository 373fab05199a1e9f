//! Files that say which process runs a daemon.
//!
//! The process named in a pidfile holds a lock on it (`fcntl(2)`, `F_SETLK`) for life, which is
//! how others tell a live daemon from a file left behind. The lock is lost when the process closes
//! *any* descriptor of the file, so it must never open its own pidfile again.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};
use thiserror::Error;

use crate::errno;
use crate::exit::TemporaryFile;

/// Longest pidfile that is read, in bytes; a number and a new-line are far shorter.
const MAX_LENGTH: u64 = 128;

/// Why a pidfile cannot be created.
#[derive(Debug, Error)]
pub enum PidfileError {
    /// Another live process holds the pidfile.
    #[error("{path}: already running as pid {pid}, aborting", path = path.display())]
    AlreadyRunning {
        /// The pidfile.
        path: PathBuf,
        /// The process that holds it.
        pid: i32,
    },
    /// Whether another process holds the pidfile cannot be found out.
    #[error("{path}: pidfile check failed ({reason}), aborting", path = path.display(),
            reason = errno::text(reason))]
    Check {
        /// The pidfile.
        path: PathBuf,
        /// What went wrong.
        reason: io::Error,
    },
    /// The system refuses a step of the creation.
    #[error("{path}: {step} failed ({reason})", path = path.display(), reason = errno::text(reason))]
    Create {
        /// The file concerned.
        path: PathBuf,
        /// The step.
        step: &'static str,
        /// What the system said.
        reason: io::Error,
    },
}

/// The pidfile of this process, which is removed when this is dropped.
#[derive(Debug)]
pub struct Pidfile {
    /// Open for the sake of the lock.
    _file: File,
    _name: TemporaryFile,
}

impl Pidfile {
    /// Creates a pidfile for this process at `path`. A file left behind there by a process that
    /// is gone is replaced, and with `overwrite` also that of a live one.
    ///
    /// # Errors
    /// [`PidfileError`]
    pub(super) fn create(path: &Path, overwrite: bool) -> Result<Self, PidfileError> {
        // All processes share one temporary name, whose lock decides between those that start at
        // the same time.
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        if overwrite {
            temporary.push(process::id().to_string());
        }
        let temporary = PathBuf::from(temporary);
        let failed = |step| {
            let path = temporary.clone();
            move |reason| PidfileError::Create { path, step, reason }
        };

        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(&temporary)
            .map_err(failed("create"))?;
        lock(&file).map_err(failed("fcntl(F_SETLK)"))?;
        // Only the holder of the lock may remove the file.
        let temporary_name = TemporaryFile::new(temporary.clone());
        if !overwrite {
            remove_if_stale(path)?;
        }
        file.set_len(0).map_err(failed("truncate"))?;
        file.write_all(format!("{}\n", process::id()).as_bytes()).map_err(failed("write"))?;
        fs::rename(&temporary, path).map_err(|reason| PidfileError::Create {
            path: path.to_owned(),
            step: "rename",
            reason,
        })?;
        // Another process may have created it anew.
        temporary_name.keep();
        Ok(Self { _file: file, _name: TemporaryFile::new(path.to_owned()) })
    }
}

/// The process that is running under the pidfile at `path`. Must not be called for the pidfile of
/// this process.
///
/// # Errors
/// The system's error when the file cannot be read, and "no such process" when no live process
/// holds it.
pub fn read_pidfile(path: &Path) -> io::Result<i32> {
    let file = File::open(path)?;
    match holder(&file)? {
        Some(holder) => read_pid(&file, holder),
        None => Err(Errno::SRCH.into()),
    }
}

/// Removes the pidfile at `path` unless a live process holds it.
fn remove_if_stale(path: &Path) -> Result<(), PidfileError> {
    let failed = |reason: io::Error| PidfileError::Check { path: path.to_owned(), reason };
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if let Some(holder) = holder(&file).map_err(failed)? {
        let pid = read_pid(&file, holder).map_err(failed)?;
        return Err(PidfileError::AlreadyRunning { path: path.to_owned(), pid });
    }
    // Nobody holds it, but between now and its removal someone else may have removed it and put
    // a valid one in its place. Only the process that has the stale file locked removes it.
    lock(&file).map_err(failed)?;
    let locked = file.metadata().map_err(failed)?;
    let named = fs::metadata(path).map_err(failed)?;
    if (locked.dev(), locked.ino()) != (named.dev(), named.ino()) {
        return Err(failed(Errno::ALREADY.into()));
    }
    fs::remove_file(path).map_err(failed)
}

/// Locks the whole file for writing, or fails if another process has it locked.
fn lock(file: &File) -> io::Result<()> {
    Ok(fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// The process that has the file locked.
fn holder(file: &File) -> io::Result<Option<i32>> {
    let blocking = fcntl_getlk(file, &Flock::from(FlockType::WriteLock))?;
    Ok(blocking.and_then(|lock| lock.pid).map(|pid| pid.as_raw_nonzero().get()))
}

/// The process named in the file, which must be the one that holds it: otherwise the file is stale
/// and about to be removed.
fn read_pid(file: &File, holder: i32) -> io::Result<i32> {
    let mut text = String::new();
    file.take(MAX_LENGTH).read_to_string(&mut text)?;
    match text.trim_end().parse() {
        Ok(pid) if pid == holder => Ok(pid),
        _ => Err(Errno::SRCH.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::env;
    use std::process::{Child, ChildStdin, Command, Stdio};
    use std::thread;
    use std::time::Duration;

    /// Pidfile that [`hold_pidfile`] is to hold in a process of its own.
    const HELD: &str = "SLUICE_TEST_PIDFILE";

    /// What [`holding`] runs in another process, as locks do not exclude their own process.
    #[test]
    #[ignore = "started by other tests"]
    fn hold_pidfile() {
        let _pidfile = Pidfile::create(Path::new(&env::var_os(HELD).unwrap()), false).unwrap();
        // Until the parent ends or closes the pipe.
        io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }

    /// Starts a process that holds a pidfile until the pipe is closed.
    fn holding(path: &Path) -> (Child, ChildStdin) {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "daemonize::pidfile::tests::hold_pidfile",
                "--exact",
                "--ignored",
                "--nocapture",
            ])
            .env(HELD, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while !path.exists() {
            assert!(child.try_wait().unwrap().is_none(), "the child ended early");
            thread::sleep(Duration::from_millis(2));
        }
        let pipe = child.stdin.take().unwrap();
        (child, pipe)
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn it_names_this_process_and_goes_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pid");
        let pidfile = Pidfile::create(&path, false).unwrap();
        assert_eq!(names(directory.path()), ["a.pid"]);
        drop(pidfile);
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn a_live_holder_is_found_and_respected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pid");
        let (mut child, pipe) = holding(&path);
        let pid = i32::try_from(child.id()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{pid}\n"));
        assert_eq!(read_pidfile(&path).unwrap(), pid);
        assert_eq!(
            Pidfile::create(&path, false).unwrap_err().to_string(),
            format!("{}: already running as pid {pid}, aborting", path.display())
        );
        assert_eq!(names(directory.path()), ["a.pid"]);

        // The name changes hands; the other process's file is gone.
        let pidfile = Pidfile::create(&path, true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", process::id()));
        drop(pipe);
        assert!(child.wait().unwrap().success());
        drop(pidfile);
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn a_file_left_behind_is_no_process() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pid");
        assert_eq!(read_pidfile(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        let (mut child, pipe) = holding(&path);
        child.kill().unwrap();
        child.wait().unwrap();
        drop(pipe);
        assert!(path.exists());
        let error = read_pidfile(&path).unwrap_err();
        assert_eq!(errno::text(&error), "No such process");
        let _pidfile = Pidfile::create(&path, false).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", process::id()));
    }

    #[test]
    fn a_file_that_names_another_process_is_stale() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pid");
        let (mut child, pipe) = holding(&path);
        fs::write(&path, "1\n").unwrap();
        assert_eq!(errno::text(&read_pidfile(&path).unwrap_err()), "No such process");
        assert_eq!(
            Pidfile::create(&path, false).unwrap_err().to_string(),
            format!("{}: pidfile check failed (No such process), aborting", path.display())
        );
        drop(pipe);
        child.wait().unwrap();
    }

    #[test]
    fn a_directory_that_does_not_exist_is_named() {
        let path = Path::new("/nonexistent/a.pid");
        assert_eq!(
            Pidfile::create(path, false).unwrap_err().to_string(),
            "/nonexistent/a.pid.tmp: create failed (No such file or directory)"
        );
    }
}
