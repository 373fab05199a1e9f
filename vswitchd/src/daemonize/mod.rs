//! Becoming a daemon: the background, the monitor, the pidfile and the user.
//!
//! Up to three processes take part. The one that the operator started waits until the daemon is
//! ready and then returns (`--detach`). The monitor, if any, starts the worker and starts it again
//! when it crashes (`--monitor`). The worker is the switch. The program never forks without
//! executing itself anew, because a copy of a process with threads is not usable.

mod monitor;
mod pidfile;
mod readiness;
mod user;

use std::env;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{self, Path, PathBuf};
use std::process::ExitStatus;
use std::thread;

use rustix::process::{Pid, Signal, kill_process, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use sd_notify::NotifyState;
use thiserror::Error;
use tracing::{error, warn};

use crate::args::Args;
use crate::directories::Directories;
use crate::errno;
use crate::exit::signal_description;
use crate::log::Log;

pub use pidfile::{Pidfile, PidfileError, read_pidfile};
pub use user::UserError;

use readiness::{Part, Readiness, Start, start_again};

/// Why the process cannot become a daemon.
#[derive(Debug, Error)]
pub enum DaemonizeError {
    /// The pidfile cannot be created.
    #[error(transparent)]
    Pidfile(#[from] PidfileError),
    /// The user cannot be changed.
    #[error(transparent)]
    User(#[from] UserError),
    /// A process cannot be started.
    #[error("cannot start another process of this program ({})", errno::text(.0))]
    Start(io::Error),
    /// A process cannot be waited for.
    #[error("waitpid failed ({})", errno::text(.0))]
    Wait(io::Error),
    /// The background process died before it was ready, and its death was logged.
    #[error("could not detach from foreground session")]
    Detach,
    /// The monitored process died before it was ready, and its death was logged.
    #[error("could not initiate process monitoring")]
    Monitor,
    /// The process that waits for this one to be ready is gone.
    #[error("cannot tell the parent process that startup is complete ({})", errno::text(.0))]
    Report(io::Error),
    /// The system refuses a step.
    #[error("{step} failed ({reason})", reason = errno::text(reason))]
    System {
        /// The step.
        step: &'static str,
        /// What the system said.
        reason: io::Error,
    },
}

/// What this process does next.
#[derive(Debug)]
pub enum Role {
    /// It is the switch.
    Worker(Daemon),
    /// Its work is done; it exits with this status.
    Finished(u8),
}

/// The switch's process. Its pidfile goes away when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    log: Log,
    detach: bool,
    change_directory: bool,
    /// `None` when no process waits for this one, and after [`Self::ready`].
    readiness: Option<Readiness>,
    is_ready: bool,
    /// Whether a service manager takes this process for the main one of the service.
    is_main_process: bool,
    _pidfile: Option<Pidfile>,
}

/// Does what `args` say about the process. In the worker, the log file is open afterwards and the
/// pidfile exists; the other processes have finished when this returns.
///
/// Must be called before other threads exist.
///
/// # Errors
/// [`DaemonizeError`]; the process should say so with [`Log::fatal`] and exit with status 1.
pub fn start(args: &Args, directories: &Directories, log: &Log) -> Result<Role, DaemonizeError> {
    let process = &args.process;
    let log_file = log_file(args, directories)?;
    let inherited = Readiness::inherited().map_err(failed("reading standard input"))?;

    if let (None, Some(user)) = (&inherited, &process.user) {
        user::switch(user, process.hw_rawio_access, log_file.as_deref())?;
    }
    match inherited {
        None if process.detach => detach(process.monitor),
        None if process.monitor => watch(log, log_file.as_deref(), None),
        None => worker(args, directories, log, log_file.as_deref(), None),
        Some((Part::Monitor, readiness)) => {
            setsid().map_err(|errno| failed("setsid")(errno.into()))?;
            watch(log, log_file.as_deref(), Some(readiness))
        }
        Some((Part::Worker, readiness)) => {
            if process.detach && !process.monitor {
                setsid().map_err(|errno| failed("setsid")(errno.into()))?;
            }
            worker(args, directories, log, log_file.as_deref(), Some(readiness))
        }
    }
}

/// Starts the background process and waits until it is ready.
fn detach(monitored: bool) -> Result<Role, DaemonizeError> {
    let part = if monitored { Part::Monitor } else { Part::Worker };
    match start_again(part).map_err(DaemonizeError::Start)? {
        Start::Ready(child) => {
            notify(&[NotifyState::MainPid(child.id()), NotifyState::Ready]);
            Ok(Role::Finished(0))
        }
        Start::Died { status, .. } => died_at_startup(status, DaemonizeError::Detach),
    }
}

/// Starts a worker and watches over it, reporting when the first one is ready.
fn watch(
    log: &Log,
    log_file: Option<&Path>,
    readiness: Option<Readiness>,
) -> Result<Role, DaemonizeError> {
    // The messages of this process name the thread, as in "daemon_unix(monitor)".
    let thread = thread::Builder::new().name("monitor".to_owned());
    thread::scope(|scope| {
        let watch = move || {
            let worker = match start_again(Part::Worker).map_err(DaemonizeError::Start)? {
                Start::Ready(worker) => worker,
                Start::Died { status, .. } => {
                    return died_at_startup(status, DaemonizeError::Monitor);
                }
            };
            match readiness {
                Some(readiness) => {
                    close_standard_streams(log)?;
                    if let Err(error) = readiness.report() {
                        // The operator gave up, and a worker without a monitor is not wanted.
                        let pid = Pid::from_child(&worker);
                        kill_process(pid, Signal::TERM)
                            .map_err(|errno| failed("kill")(errno.into()))?;
                        return Err(DaemonizeError::Report(error));
                    }
                }
                None => notify(&[NotifyState::Ready]),
            }
            monitor::watch(worker, log, log_file).map(Role::Finished)
        };
        let handle = thread.spawn_scoped(scope, watch).map_err(DaemonizeError::Start)?;
        handle.join().unwrap_or(Err(DaemonizeError::Monitor))
    })
}

/// Passes on the exit status of a process that could not start, and has said why.
fn died_at_startup(status: ExitStatus, otherwise: DaemonizeError) -> Result<Role, DaemonizeError> {
    match monitor::exit_status(status) {
        Some(code) if code != 0 => Ok(Role::Finished(code)),
        _ => {
            error!(
                target: "daemon_unix",
                "fork child died before signaling startup ({})",
                describe(status)
            );
            Err(otherwise)
        }
    }
}

fn worker(
    args: &Args,
    directories: &Directories,
    log: &Log,
    log_file: Option<&Path>,
    readiness: Option<Readiness>,
) -> Result<Role, DaemonizeError> {
    let process = &args.process;
    if let Some(path) = log_file {
        // A failure is logged; the switch works without the file.
        let _ = log.open_file(path);
    }
    let pidfile = match &process.pidfile {
        None => None,
        Some(name) => {
            let default = || PathBuf::from(format!("{}.pid", args.program));
            let name = name.clone().unwrap_or_else(default);
            let path = directories.run.join(name);
            Some(Pidfile::create(&path, process.overwrite_pidfile)?)
        }
    };
    Ok(Role::Worker(Daemon {
        log: log.clone(),
        detach: process.detach,
        change_directory: !process.no_chdir,
        // Under a monitor, that is what the service manager knows.
        is_main_process: !process.monitor,
        readiness,
        is_ready: false,
        _pidfile: pidfile,
    }))
}

impl Daemon {
    /// Says that startup is complete, to the process that waits for it and to the service manager,
    /// and leaves the terminal and the directory behind when detached. Does nothing when called
    /// again.
    ///
    /// # Errors
    /// [`DaemonizeError::Report`] when nobody waits any more, and [`DaemonizeError::System`].
    pub fn ready(&mut self) -> Result<(), DaemonizeError> {
        if self.is_ready {
            return Ok(());
        }
        self.is_ready = true;
        // First the streams, so that nothing appears on the terminal once the operator has it back.
        if self.detach {
            if self.change_directory {
                env::set_current_dir("/").map_err(failed("chdir to /"))?;
            }
            close_standard_streams(&self.log)?;
        }
        match self.readiness.take() {
            Some(readiness) => readiness.report().map_err(DaemonizeError::Report),
            None => {
                notify(&[NotifyState::Ready]);
                Ok(())
            }
        }
    }

    /// Tells the service manager that the switch is about to end.
    pub fn stopping(&self) {
        if self.is_main_process {
            notify(&[NotifyState::Stopping]);
        }
    }
}

/// The file to log to, if any. Its name is absolute, so that it can be opened again from another
/// directory.
fn log_file(args: &Args, directories: &Directories) -> Result<Option<PathBuf>, DaemonizeError> {
    match &args.log.log_file {
        None => Ok(None),
        Some(None) => Ok(Some(directories.log.join(format!("{}.log", args.program)))),
        Some(Some(path)) => path::absolute(path).map(Some).map_err(failed("getcwd")),
    }
}

/// Puts `/dev/null` in the place of the standard streams.
fn close_standard_streams(log: &Log) -> Result<(), DaemonizeError> {
    log.close_console();
    let null = null_device().map_err(failed("opening /dev/null"))?;
    dup2_stdin(&null)
        .and_then(|()| dup2_stdout(&null))
        .and_then(|()| dup2_stderr(&null))
        .map_err(|errno| failed("dup2")(errno.into()))
}

fn null_device() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

/// Tells the service manager, if there is one, about this process.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(target: "daemon", "cannot notify the service manager: {}", errno::text(&error));
    }
}

/// How a process ended, for messages.
fn describe(status: ExitStatus) -> String {
    let core = if status.core_dumped() { ", core dumped" } else { "" };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed ({}){core}", signal_description(signal)),
        (None, None) => format!("terminated abnormally ({:x})", status.into_raw()),
    }
}

fn failed(step: &'static str) -> impl FnOnce(io::Error) -> DaemonizeError {
    move |reason| DaemonizeError::System { step, reason }
}
