//! How a process learns that one it started is ready.
//!
//! Instead of forking, the program starts itself once more. The new process is told what it is in
//! an environment variable, and has one end of a socket pair as its standard input, on which it
//! writes a byte when it is ready. The variable alone means nothing, so a process that inherits it
//! by chance is not misled.

use std::env;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::net::sockopt::socket_peercred;
use rustix::stdio::{dup2_stdin, stdin};

use super::null_device;

/// Tells a new process which [`Part`] it has.
const PART: &str = "SLUICE_PROCESS_PART";

/// What a process that the program started is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// It watches over a worker.
    Monitor,
    /// It is the switch.
    Worker,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Monitor => "monitor",
            Self::Worker => "worker",
        }
    }
}

/// The end of the socket pair on which a new process says that it is ready.
#[derive(Debug)]
pub(super) struct Readiness(UnixStream);

impl Readiness {
    /// What this process is there for and how to say that it is ready, if the program started it.
    pub(super) fn inherited() -> io::Result<Option<(Part, Self)>> {
        let Ok(name) = env::var(PART) else { return Ok(None) };
        let mut parts = [Part::Monitor, Part::Worker].into_iter();
        let Some(part) = parts.find(|part| part.name() == name) else { return Ok(None) };
        if socket_peercred(stdin()).is_err() {
            return Ok(None);
        }
        let socket: OwnedFd = stdin().try_clone_to_owned()?;
        dup2_stdin(null_device()?)?;
        Ok(Some((part, Self(socket.into()))))
    }

    /// Says that this process is ready.
    pub(super) fn report(mut self) -> io::Result<()> {
        self.0.write_all(b"\n")
    }
}

/// How the start of a process came out.
#[derive(Debug)]
pub(super) enum Start {
    /// It is ready.
    Ready(Child),
    /// It ended before.
    Died { pid: u32, status: ExitStatus },
}

/// Starts this program once more, with the same command line, and waits until it is ready or
/// dead.
pub(super) fn start_again(part: Part) -> io::Result<Start> {
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let (ours, theirs) = UnixStream::pair()?;
    command.args(arguments).env(PART, part.name()).stdin(Stdio::from(OwnedFd::from(theirs)));
    let child = command.spawn()?;
    // It holds the other end of the pair; the child's must be the last.
    drop(command);
    wait_for(child, ours)
}

fn wait_for(mut child: Child, mut socket: UnixStream) -> io::Result<Start> {
    let mut byte = [0];
    match socket.read_exact(&mut byte) {
        Ok(()) => Ok(Start::Ready(child)),
        // The end of the stream or a reset: it did not say so, and will not any more.
        Err(_) => Ok(Start::Died { pid: child.id(), status: child.wait()? }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::process::ExitStatusExt;

    /// Starts a shell script with a readiness socket as its standard input.
    fn start(script: &str) -> Start {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::from(OwnedFd::from(theirs)));
        let child = command.spawn().unwrap();
        drop(command);
        wait_for(child, ours).unwrap()
    }

    #[test]
    fn a_process_is_ready_when_it_says_so() {
        let Start::Ready(mut child) = start("echo >&0; exit 3") else { panic!("died") };
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }

    #[test]
    fn a_process_that_dies_first_leaves_its_status() {
        let Start::Died { status, .. } = start("exit 3") else { panic!("ready") };
        assert_eq!(status.code(), Some(3));
        let Start::Died { status, .. } = start("kill -SEGV $$") else { panic!("ready") };
        assert_eq!(status.signal(), Some(11));
    }

    #[test]
    fn a_process_that_was_started_by_hand_inherits_nothing() {
        assert!(Readiness::inherited().unwrap().is_none());
    }
}
