//! The lock that keeps two servers from opening one database file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, Pid, fcntl_getlk};
use stream::error_text;

/// Why a file is not locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{path}: cannot lock file because it is already locked by pid {pid}")]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The process.
        pid: u32,
    },
    /// The system refused.
    #[error("{path}: failed to lock file: {}", error_text(source))]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A lock on a database file, as ovsdb-server and ovsdb-tool take it: a record lock on a file
/// beside it called `.NAME.~lock~`. It ends when this is dropped.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl LockFile {
    /// Locks the database file `path`, which need not exist.
    ///
    /// # Errors
    /// Another process holds the lock, or the lock file cannot be opened.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let path = path.with_file_name(format!(".{name}.~lock~"));
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path);
        let file = match open {
            Ok(file) => file,
            Err(source) => return Err(LockError::Io { path, source }),
        };
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(error) => {
                let holder = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock));
                match holder.ok().flatten().and_then(|lock| lock.pid) {
                    Some(pid) => Err(LockError::Held { path, pid: pid_number(pid) }),
                    None => Err(LockError::Io { path, source: error.into() }),
                }
            }
        }
    }
}

fn pid_number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}
