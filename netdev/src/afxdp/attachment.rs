//! Our program on a device, for as long as this process wants it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::error::OpenError;
use super::options::Mode;
use super::program::{NAME_PREFIX, Program, Purpose};
use super::socket::Socket;
use super::system::{self, Refusal};
use crate::linux::netlink;

/// `XDP_FLAGS_*` (linux/if_link.h).
const GENERIC_MODE: u32 = 1 << 1;
const NATIVE_MODE: u32 = 1 << 2;

/// How long a program of ours may stay: that of a process that has just ended goes soon.
const BUSY_LIMIT: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// A device as it was found: a name for messages, its number, and its MTU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) mtu: u32,
}

/// A program that is attached to a device. It is detached when this is dropped, and by the kernel
/// when the process ends.
#[derive(Debug)]
pub(super) struct Attachment {
    program: Program,
    target: Target,
    mode: Mode,
    /// Whether the program puts what the driver tells in front of packets.
    pub(super) has_metadata: bool,
    link: Mutex<OwnedFd>,
}

impl Attachment {
    /// Attaches a program for up to `queues` receive queues. One that a process of ours left behind
    /// is replaced.
    pub(super) fn new(
        target: Target,
        mode: Mode,
        queues: u32,
        has_fragments: bool,
    ) -> Result<Self, OpenError> {
        let plain = Purpose { queues, has_fragments, asks: None };
        let asks = (mode != Mode::Generic).then_some(target.index);
        let bound = asks.and_then(|_| {
            let program = Program::load(Purpose { asks, ..plain }).ok()?;
            let link = link(&program, &target, mode).ok()?;
            Some((program, link))
        });
        let has_metadata = bound.is_some();
        let (program, link) = match bound {
            Some(bound) => bound,
            None => {
                let program = Program::load(plain).map_err(refused)?;
                let link = link(&program, &target, mode)?;
                (program, link)
            }
        };
        Ok(Self { program, target, mode, has_metadata, link: Mutex::new(link) })
    }

    /// Hands packets of `queue` to `socket`.
    pub(super) fn set_socket(&self, queue: u32, socket: &Socket) -> Result<(), OpenError> {
        system::set_socket(self.program.sockets.as_fd(), queue, socket.as_fd())
            .map_err(OpenError::of("giving the XDP program a socket"))
    }

    /// Attaches the program again if somebody detached it. Returns whether that was so.
    pub(super) fn attach_again(&self) -> Result<bool, OpenError> {
        let mut current = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let linked = system::linked_device(current.as_fd());
        if linked.map_err(OpenError::of("asking for a link"))?.is_some() {
            return Ok(false);
        }
        *current = link(&self.program, &self.target, self.mode)?;
        Ok(true)
    }
}

fn refused(Refusal { errno, log }: Refusal) -> OpenError {
    match errno {
        Errno::PERM | Errno::ACCESS if log.is_empty() => {
            OpenError::of("loading an XDP program")(errno)
        }
        _ => OpenError::ProgramRefused { errno, log },
    }
}

/// Attaches `program` to a device.
fn link(program: &Program, target: &Target, mode: Mode) -> Result<OwnedFd, OpenError> {
    let flags = match mode {
        Mode::ZeroCopy | Mode::Native => NATIVE_MODE,
        Mode::Generic => GENERIC_MODE,
    };
    // What is waited for does not follow the switch's own clock, which tests stop.
    let start = Instant::now();
    loop {
        let attached = system::attach(program.program.as_fd(), target.index, flags);
        match attached {
            Err(Errno::BUSY | Errno::EXIST) => {
                if !remove_leftover(target, start.elapsed() < BUSY_LIMIT)? {
                    return Err(OpenError::Mode { mode, errno: Errno::BUSY });
                }
                std::thread::sleep(BUSY_PAUSE);
            }
            Err(Errno::RANGE) => return Err(OpenError::MtuTooLarge { mtu: target.mtu }),
            Err(errno @ (Errno::PERM | Errno::ACCESS)) => {
                return Err(OpenError::of("attaching an XDP program")(errno));
            }
            result => return result.map_err(|errno| OpenError::Mode { mode, errno }),
        }
    }
}

/// Looks after the program that is in the way: one of ours goes, or goes soon. Returns whether to
/// try again.
fn remove_leftover(target: &Target, may_wait: bool) -> Result<bool, OpenError> {
    let asking = OpenError::of("asking for the attached XDP program");
    let Some(id) = netlink::xdp_program(target.index).map_err(asking)? else {
        // Gone meanwhile.
        return Ok(may_wait);
    };
    let name = match system::program_name(id) {
        // Detached meanwhile.
        Err(Errno::NOENT) => return Ok(may_wait),
        name => name.map_err(OpenError::of("asking for the name of an XDP program"))?,
    };
    // A link is refused; it goes with the process that has it.
    let is_ours = name.starts_with(NAME_PREFIX);
    if is_ours && (netlink::detach_xdp(target.index).is_ok() || may_wait) {
        return Ok(true);
    }
    Err(OpenError::ForeignProgram { device: target.name.clone(), id, name })
}

#[cfg(test)]
impl Attachment {
    /// Detaches the program, as another process may.
    pub(super) fn detach(&self) {
        system::detach(self.link.lock().unwrap().as_fd()).unwrap();
    }
}

/// Attaches a program that is none of ours to device `index`.
#[cfg(test)]
pub(super) fn attach_stranger(index: u32) -> (OwnedFd, OwnedFd) {
    // Returns XDP_PASS.
    let instructions = [0x0000_0002_0000_00b7, 0x95];
    let options = system::LoadOptions { name: "stranger", flags: 0, device: 0, wants_log: false };
    let program = system::load(&instructions, options).unwrap();
    let link = system::attach(program.as_fd(), index, NATIVE_MODE).unwrap();
    (program, link)
}
