//! The process that watches over the switch and starts it again when it crashes.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::Duration;

use netdev::clock;
use rustix::process::{Resource, Rlimit, setrlimit};
use tracing::{error, info, warn};

use super::readiness::{Part, Start, start_again};
use super::{DaemonizeError, describe};
use crate::errno;
use crate::log::Log;

/// Time between two restarts, at least.
const RESTART_INTERVAL: Duration = Duration::from_secs(10);
/// SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGALRM, SIGXCPU, SIGXFSZ: a process that
/// one of them kills has crashed.
const CRASH_SIGNALS: [i32; 9] = [4, 6, 7, 8, 11, 13, 14, 24, 25];
/// Exit status of a program whose main thread panicked.
const PANIC_STATUS: i32 = 101;

/// Watches over `worker`, and those started in its place, until one ends without a crash. Returns
/// the exit status for this process: that of the worker, or 0 when a signal ended it on purpose.
///
/// # Errors
/// When a process cannot be started or waited for.
pub(super) fn watch(
    mut worker: Child,
    log: &Log,
    log_file: Option<&Path>,
) -> Result<u8, DaemonizeError> {
    let mut crashes = 0;
    let mut last_restart: Option<Duration> = None;
    let mut pid = worker.id();
    let mut status = worker.wait().map_err(DaemonizeError::Wait)?;
    loop {
        // The file is closed while there is nothing to say, so that it can be rotated.
        if let Some(path) = log_file {
            // A failure is logged, and no reason to leave the worker dead.
            let _ = log.open_file(path);
        }
        let what = describe(status);
        if !is_crash(status) {
            info!(target: "daemon_unix", "pid {pid} died, {what}, exiting");
            return Ok(exit_status(status).unwrap_or(0));
        }
        crashes += 1;
        let what = format!("{crashes} crashes: pid {pid} died, {what}");
        if status.core_dumped() {
            disable_core_dumps();
        }
        if let Some(last) = last_restart {
            let left = (last + RESTART_INTERVAL).saturating_sub(clock::now());
            if !left.is_zero() {
                warn!(target: "daemon_unix", "{what}, waiting until 10 seconds since last restart");
                thread::sleep(left);
            }
        }
        last_restart = Some(clock::now());
        error!(target: "daemon_unix", "{what}, restarting");
        log.close();

        match start_again(Part::Worker).map_err(DaemonizeError::Start)? {
            Start::Ready(child) => {
                worker = child;
                pid = worker.id();
                status = worker.wait().map_err(DaemonizeError::Wait)?;
            }
            Start::Died { status: died, .. } if !is_crash(died) => {
                // It has said why it cannot start.
                return Ok(exit_status(died).unwrap_or(0));
            }
            Start::Died { pid: dead, status: died } => {
                pid = dead;
                status = died;
            }
        }
    }
}

/// Whether a process that ended so is to be started again.
fn is_crash(status: ExitStatus) -> bool {
    status.signal().is_some_and(|signal| CRASH_SIGNALS.contains(&signal))
        || status.code() == Some(PANIC_STATUS)
}

/// The exit status of a process that no signal ended.
pub(super) fn exit_status(status: ExitStatus) -> Option<u8> {
    status.code().and_then(|code| u8::try_from(code).ok())
}

/// One core is enough to find the fault, and more would fill the disk.
fn disable_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(error) = setrlimit(Resource::Core, none) {
        warn!(target: "daemon_unix", "failed to disable core dumps: {}", errno::text(&error.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    fn killed(signal: i32) -> ExitStatus {
        ExitStatus::from_raw(signal)
    }

    #[test]
    fn crashes_are_told_from_other_ends() {
        let crash_signals: Vec<i32> = (1..32).filter(|signal| is_crash(killed(*signal))).collect();
        assert_eq!(crash_signals, CRASH_SIGNALS);
        let crash_codes: Vec<i32> = (0..256).filter(|code| is_crash(exited(*code))).collect();
        assert_eq!(crash_codes, [PANIC_STATUS]);
    }

    #[test]
    fn ends_are_described() {
        for (status, want) in [
            (exited(3), "exit status 3"),
            (killed(11), "killed (Segmentation fault)"),
            (ExitStatus::from_raw(6 | 0x80), "killed (Aborted), core dumped"),
            (killed(40), "killed (signal 40)"),
        ] {
            assert_eq!(describe(status), want);
        }
        assert_eq!(exit_status(exited(3)), Some(3));
        assert_eq!(exit_status(killed(15)), None);
    }
}
