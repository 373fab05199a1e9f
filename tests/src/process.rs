//! Commands that run to their end, and processes that are left running and killed on drop.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a step may take before the test gives up on it.
pub const LIMIT: Duration = Duration::from_secs(30);

/// What a command that ended left behind.
#[derive(Debug)]
pub struct Output {
    /// The command line, for messages.
    pub command: String,
    /// How it ended.
    pub status: ExitStatus,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Output {
    /// Runs `command` to its end.
    ///
    /// # Panics
    /// When it cannot be started, runs longer than [`LIMIT`], or leaves a process behind that
    /// keeps its output open.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        let text = format!("{command:?}");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let running = Running::from_child(child);
        let Some(status) = running.wait_exit(LIMIT) else {
            panic!("{text}: still running after {LIMIT:?}")
        };
        let text_of = |stream: mpsc::Receiver<Vec<u8>>, name| match stream.recv_timeout(LIMIT) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(_) => panic!("{text}: ended, but something keeps its {name} open"),
        };
        let (stdout, mut stderr) = (text_of(stdout, "stdout"), text_of(stderr, "stderr"));
        // Tools of Open vSwitch complain about slow machines.
        if stderr.contains("|timeval|WARN|") {
            let lines = stderr.split_inclusive('\n').filter(|line| !line.contains("|timeval|"));
            stderr = lines.collect();
        }
        Self { command: text, status, stdout, stderr }
    }

    /// Standard output of a command that must end with 0 and print no error.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.status.success() && self.stderr.is_empty(), "expected success: {self:#?}");
        self.stdout
    }

    /// Standard error of a command that must end with `code` and print nothing else.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert!(
            self.status.code() == Some(code) && self.stdout.is_empty() && !self.stderr.is_empty(),
            "expected exit status {code} and a message: {self:#?}"
        );
        self.stderr
    }
}

fn collect(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    let mut stream = stream.expect("a piped stream");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("a readable pipe");
        // Nobody listens any more when the command timed out.
        let _ = sender.send(bytes);
    });
    receiver
}

/// A process of this test. Dropping it kills the process.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    /// Names this very process, even after another one got its number.
    handle: OwnedFd,
    child: Option<Child>,
}

impl Running {
    /// Takes over a child.
    pub fn from_child(child: Child) -> Self {
        let pid = Pid::from_child(&child);
        let handle = pidfd_open(pid, PidfdFlags::empty()).expect("a handle of a child");
        Self { pid, handle, child: Some(child) }
    }

    /// Takes over a process that a child of this test left running, if it still does.
    pub fn of_pid(pid: i32) -> Option<Self> {
        let pid = Pid::from_raw(pid)?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        Some(Self { pid, handle, child: None })
    }

    /// The process number.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Sends `signal`; a process that is already gone is left alone.
    pub fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Whether the process has ended within `limit`.
    pub fn has_ended(&self, limit: Duration) -> bool {
        let limit = Timespec::try_from(limit).expect("a time limit in range");
        let mut handles = [PollFd::new(&self.handle, PollFlags::IN)];
        poll(&mut handles, Some(&limit)).expect("a handle that can be polled") > 0
    }

    /// How the process ended, or `None` if it still runs after `limit`. A process that is no
    /// child of this test counts as ended well.
    pub fn wait_exit(mut self, limit: Duration) -> Option<ExitStatus> {
        if !self.has_ended(limit) {
            return None;
        }
        match self.child.take() {
            Some(mut child) => Some(child.wait().expect("the status of a child")),
            None => Some(ExitStatus::from_raw(0)),
        }
    }

    /// One line of `/proc/PID/status`, for example `VmRSS`.
    #[track_caller]
    pub fn status(&self, key: &str) -> String {
        let path = PathBuf::from(format!("/proc/{}/status", self.pid()));
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("{}: no {key}", path.display())).trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.has_ended(LIMIT);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }
}

/// Waits until `condition` holds.
///
/// # Panics
/// When it does not hold within [`LIMIT`]; `what` says what was waited for.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited {LIMIT:?} in vain until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
