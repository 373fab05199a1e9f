//! AF_XDP sockets: one for each receive queue of a device, with four rings shared with the kernel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_socket_send_buffer_size_force, set_xdp_rx_ring_size,
    set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size, set_xdp_umem_fill_ring_size,
    set_xdp_umem_reg, xdp_mmap_offsets, xdp_options, xdp_statistics,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags,
    XdpStatistics, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::error::OpenError;
use super::options::{Mode, Options};
use super::ring::Ring;
use super::system;
use crate::packet::{FRAME_SIZE, FramePool};

/// Bytes in front of the data of a sent packet that can tell the kernel what to do to it
/// (`struct xsk_tx_metadata`).
pub(super) const TRANSMIT_METADATA_LENGTH: usize = 24;

/// Flag of a memory region: the metadata is used. Linux 6.11 and later.
const UMEM_TRANSMIT_METADATA: u32 = libc::XDP_UMEM_TX_METADATA_LEN;

/// Bytes of packets that the kernel may copy to its own buffers before others wait in the ring.
const SEND_BUFFER: usize = 16 << 20;

/// How long a queue may be found in use: the kernel lets go of a closed socket some time later.
const BUSY_LIMIT: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// Packets that one call does the interrupts' work for.
const BUSY_POLL_BUDGET: u32 = 64;

/// What sockets that share a memory region have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) is_zero_copy: bool,
    pub(super) needs_wakeup: bool,
    /// Whether a packet may lie in several frames.
    pub(super) has_fragments: bool,
}

impl Kind {
    pub(super) fn new(mode: Mode, has_fragments: bool, options: &Options) -> Self {
        let is_zero_copy = mode == Mode::ZeroCopy;
        Self { is_zero_copy, needs_wakeup: options.needs_wakeup, has_fragments }
    }

    fn bind_flags(self) -> SocketAddrXdpFlags {
        let mut flags = match self.is_zero_copy {
            true => SocketAddrXdpFlags::XDP_ZEROCOPY,
            false => SocketAddrXdpFlags::XDP_COPY,
        };
        flags.set(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, self.needs_wakeup);
        flags.set(SocketAddrXdpFlags::XDP_USE_SG, self.has_fragments);
        flags
    }
}

/// A bound socket. Rings come before the descriptor: the socket lives until none is mapped.
#[derive(Debug)]
pub(super) struct Socket {
    /// Frames with packets that were received.
    pub(super) received: Ring<2>,
    /// Free frames for packets to come.
    pub(super) fill: Ring<1>,
    /// Packets to be sent.
    pub(super) transmit: Ring<2>,
    /// Frames of packets that were sent.
    pub(super) completion: Ring<1>,
    pub(super) kind: Kind,
    /// Whether the kernel takes [`TRANSMIT_METADATA_LENGTH`] bytes in front of each sent frame for
    /// metadata.
    pub(super) has_metadata: bool,
    polls_busily: bool,
    descriptor: OwnedFd,
}

impl Socket {
    /// Opens a socket on receive queue `queue` of device `device`, for frames of `pool`: in the
    /// memory region of `shared` if given, which must be of the same kind and pool, else in one of
    /// its own.
    pub(super) fn open(
        (device, queue): (u32, u32),
        kind: Kind,
        options: &Options,
        pool: &FramePool,
        shared: Option<&Self>,
    ) -> Result<Self, OpenError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let family = AddressFamily::from_raw(libc::AF_XDP as u16);
        let descriptor =
            socket_with(family, SocketType::RAW, flags, None).map_err(|errno| match errno {
                Errno::AFNOSUPPORT => OpenError::NoSockets,
                errno => OpenError::of("opening an AF_XDP socket")(errno),
            })?;
        let socket = descriptor.as_fd();
        let has_metadata = match shared {
            Some(shared) => shared.has_metadata,
            None => register(socket, pool)?,
        };
        let set =
            |result: Result<(), Errno>| result.map_err(OpenError::of("setting the size of a ring"));
        set(set_xdp_umem_fill_ring_size(socket, options.receive_entries))?;
        set(set_xdp_umem_completion_ring_size(socket, options.transmit_entries))?;
        set(set_xdp_rx_ring_size(socket, options.receive_entries))?;
        set(set_xdp_tx_ring_size(socket, options.transmit_entries))?;
        let layout =
            xdp_mmap_offsets(socket).map_err(OpenError::of("asking for the rings' layout"))?;
        let mapping = OpenError::of("mapping a ring");
        let (receive, transmit) = (options.receive_entries, options.transmit_entries);
        let received =
            Ring::map(socket, XDP_PGOFF_RX_RING, layout.rx, receive).map_err(&mapping)?;
        let fill =
            Ring::map(socket, XDP_UMEM_PGOFF_FILL_RING, layout.fr, receive).map_err(&mapping)?;
        let sending =
            Ring::map(socket, XDP_PGOFF_TX_RING, layout.tx, transmit).map_err(&mapping)?;
        let completion = Ring::map(socket, XDP_UMEM_PGOFF_COMPLETION_RING, layout.cr, transmit)
            .map_err(&mapping)?;
        // Where they are refused, calls send less at a time.
        let _ = set_socket_send_buffer_size_force(socket, SEND_BUFFER)
            .or_else(|_| set_socket_send_buffer_size(socket, SEND_BUFFER));
        let _ = system::set_transmit_budget(socket, options.transmit_entries);
        if options.busy_poll > 0 {
            system::set_busy_poll(socket, options.busy_poll, BUSY_POLL_BUDGET)
                .map_err(OpenError::of("setting busy-poll"))?;
        }
        bind_to(socket, (device, queue), kind, shared)?;
        Ok(Self {
            received,
            fill,
            transmit: sending,
            completion,
            kind,
            has_metadata,
            polls_busily: options.busy_poll > 0,
            descriptor,
        })
    }

    /// Whether the device reads and writes frames by itself.
    pub(super) fn is_zero_copy(&self) -> bool {
        xdp_options(&self.descriptor)
            .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// What the kernel counted of the socket.
    pub(super) fn statistics(&self) -> Result<XdpStatistics, Errno> {
        xdp_statistics(&self.descriptor)
    }

    /// Lets the driver go on filling frames, if it sleeps.
    #[inline]
    pub(super) fn wake_receiver(&self) {
        if self.polls_busily || self.kind.needs_wakeup && self.fill.needs_wakeup() {
            // There is nothing to receive: the call alone counts.
            let _ = recv(&self.descriptor, &mut [0; 0], RecvFlags::DONTWAIT);
        }
    }

    /// Lets the kernel send what waits, unless it does so by itself.
    ///
    /// # Errors
    /// When it could send nothing; `EAGAIN` and `ENOBUFS` when it may later.
    #[inline]
    pub(super) fn wake_sender(&self) -> Result<(), Errno> {
        if self.kind.needs_wakeup && !self.transmit.needs_wakeup() {
            return Ok(());
        }
        send(&self.descriptor, &[], SendFlags::DONTWAIT).map(drop)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Makes the frames of `pool` the memory region of `socket`. Returns whether sent frames can have
/// metadata.
fn register(socket: BorrowedFd<'_>, pool: &FramePool) -> Result<bool, OpenError> {
    let (addr, len) = pool.region();
    let region = XdpUmemReg {
        addr,
        len,
        chunk_size: FRAME_SIZE as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::from_bits_retain(UMEM_TRANSMIT_METADATA),
        tx_metadata_len: TRANSMIT_METADATA_LENGTH as u32,
    };
    let without = XdpUmemReg { flags: XdpUmemRegFlags::empty(), tx_metadata_len: 0, ..region };
    let registered = match set_xdp_umem_reg(socket, region) {
        // An older kernel.
        Err(Errno::INVAL) => set_xdp_umem_reg(socket, without).map(|()| false),
        result => result.map(|()| true),
    };
    registered.map_err(|errno| match errno {
        Errno::NOBUFS => OpenError::LockedMemory { bytes: len },
        errno => OpenError::of("registering frames")(errno),
    })
}

/// Binds `socket`, once the kernel has let go of one that was closed.
fn bind_to(
    socket: BorrowedFd<'_>,
    (device, queue): (u32, u32),
    kind: Kind,
    shared: Option<&Socket>,
) -> Result<(), OpenError> {
    let try_once = || match shared {
        Some(shared) => {
            let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, device, queue);
            bind(socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: shared.as_fd() })
        }
        None => bind(socket, &SocketAddrXdp::new(kind.bind_flags(), device, queue)),
    };
    // What is waited for does not follow the switch's own clock, which tests stop.
    let start = Instant::now();
    loop {
        match try_once() {
            Err(Errno::BUSY) if start.elapsed() < BUSY_LIMIT => std::thread::sleep(BUSY_PAUSE),
            Err(Errno::BUSY) => return Err(OpenError::QueueTaken { queue }),
            Err(errno @ Errno::OPNOTSUPP) if kind.is_zero_copy => {
                return Err(OpenError::Mode { mode: Mode::ZeroCopy, errno });
            }
            result => return result.map_err(OpenError::of("binding an AF_XDP socket")),
        }
    }
}
