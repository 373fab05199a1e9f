//! Why an AF_XDP port does not work, and what to do about it.

use rustix::io::Errno;

use super::options::Mode;
use crate::errno::description;

/// Why a port does not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum OpenError {
    /// Not enough rights.
    #[error(
        "AF_XDP needs the rights CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF, or root ({what}: {})",
        description(*.errno)
    )]
    NoPermission {
        /// What was refused.
        what: &'static str,
        errno: Errno,
    },
    /// The kernel has no AF_XDP.
    #[error("the kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS)")]
    NoSockets,
    /// The limit of locked memory is too low.
    #[error(
        "the limit of locked memory is too low for {bytes} bytes of frames; \
         raise it (`ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit)"
    )]
    LockedMemory { bytes: u64 },
    /// Somebody else has a socket on the queue.
    #[error("another AF_XDP socket uses receive queue {queue}; end the program that has it")]
    QueueTaken { queue: u32 },
    /// The device has fewer queues.
    #[error(
        "n_rxq={wanted}, but the device has {available} receive queue(s); \
         set n_rxq to at most that, or give it more (`ethtool -L`)"
    )]
    TooFewQueues { wanted: u32, available: u32 },
    /// Somebody else's program is attached.
    #[error(
        "XDP program {id} ({name}) of somebody else is attached; \
         detach it first (`ip link set dev {device} xdp off`, or end the program that has its link)"
    )]
    ForeignProgram { device: String, id: u32, name: String },
    /// The kernel refused our program.
    #[error("the kernel refused the XDP program ({}){}", description(*.errno), after_colon(.log))]
    ProgramRefused { errno: Errno, log: String },
    /// The MTU is too large for packets in one buffer.
    #[error(
        "MTU {mtu} is too large for XDP without multi-buffer; \
         lower it, or allow multi-buffer if the driver has it"
    )]
    MtuTooLarge { mtu: u32 },
    /// The driver cannot do it in this mode.
    #[error("the driver has no XDP in mode {} ({})", .mode.name(), description(*.errno))]
    Mode { mode: Mode, errno: Errno },
    /// A system call failed for another reason.
    #[error("{what} failed ({})", description(*.errno))]
    System { what: &'static str, errno: Errno },
}

fn after_colon(log: &str) -> String {
    let last = log.trim_end().lines().last().unwrap_or_default();
    if last.is_empty() { String::new() } else { format!(": {last}") }
}

impl OpenError {
    /// The error of system call `what`.
    pub(super) fn of(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| match errno {
            Errno::PERM | Errno::ACCESS => Self::NoPermission { what, errno },
            _ => Self::System { what, errno },
        }
    }

    /// The system error that comes closest.
    pub(super) fn errno(&self) -> Errno {
        match self {
            Self::NoPermission { errno, .. }
            | Self::ProgramRefused { errno, .. }
            | Self::Mode { errno, .. }
            | Self::System { errno, .. } => *errno,
            Self::NoSockets => Errno::AFNOSUPPORT,
            Self::LockedMemory { .. } => Errno::NOBUFS,
            Self::QueueTaken { .. } | Self::ForeignProgram { .. } => Errno::BUSY,
            Self::TooFewQueues { .. } => Errno::INVAL,
            Self::MtuTooLarge { .. } => Errno::RANGE,
        }
    }

    /// Whether the port may work in another mode, or with packets in one buffer.
    pub(super) fn depends_on_mode(&self) -> bool {
        matches!(
            self,
            Self::Mode { .. }
                | Self::System { .. }
                | Self::MtuTooLarge { .. }
                | Self::ProgramRefused { .. }
        )
    }
}
