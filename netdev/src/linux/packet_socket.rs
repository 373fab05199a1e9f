//! Packet sockets (packet(7)), which pass whole frames of a device with virtio network headers.
//!
//! The rules: every structure is initialised in full and has the layout that the kernel reads and
//! writes. All memory that a structure points to, which is borrowed by the caller or local,
//! outlives the call, and the kernel keeps no pointer.
#![expect(unsafe_code, reason = "system calls that no library wraps")]

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::null_mut;

use libc::{cmsghdr, iovec, mmsghdr, tpacket_auxdata};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::outgoing::VnetHeaders;
use super::packet_ring::{self, PacketRing};
use super::vnet_header::PACKET_LENGTH;
use crate::packet::{BATCH_SIZE, Batch, VlanTag};

/// Room behind the first frame of a packet, for what a large packet has more.
pub(super) const SPILL_LENGTH: usize = 1 << 16;

/// Bytes that wait in a socket before others are lost. A large packet counts as about 100 KiB.
const BUFFER_LENGTH: c_int = 16 << 20;
/// Pieces of packets per call. A packet of 64 KiB has 36.
const MAX_PIECES: usize = 256;

const VLAN_VALID: u32 = libc::TP_STATUS_VLAN_VALID;
const VLAN_TPID_VALID: u32 = libc::TP_STATUS_VLAN_TPID_VALID;
const DEFAULT_TPID: u16 = 0x8100;

/// A received message: its bytes are in the packet, and behind that in its part of the spill.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message {
    /// Bytes of the frame.
    pub(super) length: usize,
    pub(super) header: [u8; PACKET_LENGTH],
    /// The tag that the device took out of the frame.
    pub(super) tag: Option<VlanTag>,
    /// Whether the frame is longer than the room for it.
    pub(super) is_truncated: bool,
}

/// A socket for the frames of one device.
#[derive(Debug)]
pub(super) struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// A socket that receives what arrives at device `index` into a ring; what is too long for the
    /// ring waits in the socket, see [`Self::receive`].
    pub(super) fn receiving(index: u32) -> Result<(Self, PacketRing), Errno> {
        let socket = Self::new()?;
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1)?;
        // What the host sends through the device is none of the switch's business.
        socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        socket.set_buffer(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)?;
        let membership = libc::packet_mreq {
            mr_ifindex: index as c_int,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &packet_ring::REQUEST)?;
        let ring = PacketRing::map(&socket)?;
        socket.bind(index, libc::ETH_P_ALL as u16)?;
        Ok((socket, ring))
    }

    /// A socket that sends through device `index`: by way of its queueing discipline, so that
    /// traffic control holds for the switch too.
    pub(super) fn sending(index: u32) -> Result<Self, Errno> {
        let socket = Self::new()?;
        socket.set_buffer(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)?;
        socket.bind(index, 0)?;
        Ok(socket)
    }

    /// A socket that receives nothing yet.
    fn new() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = Self(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?);
        socket.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        Ok(socket)
    }

    /// Sets the length of a buffer, beyond the system's limit where that is allowed.
    fn set_buffer(&self, beyond_limit: c_int, within_limit: c_int) -> Result<(), Errno> {
        self.set(libc::SOL_SOCKET, beyond_limit, &BUFFER_LENGTH)
            .or_else(|_| self.set(libc::SOL_SOCKET, within_limit, &BUFFER_LENGTH))
    }

    fn set<T>(&self, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
        let length = size_of::<T>() as u32;
        let pointer: *const T = value;
        // SAFETY: the kernel reads `length` bytes of `value`.
        let result = unsafe { libc::setsockopt(self.raw(), level, option, pointer.cast(), length) };
        checked(result as isize).map(drop)
    }

    fn bind(&self, index: u32, protocol: u16) -> Result<(), Errno> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: index as c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let pointer: *const libc::sockaddr_ll = &address;
        let length = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: the kernel reads `length` bytes of `address`.
        let result = unsafe { libc::bind(self.raw(), pointer.cast(), length) };
        checked(result as isize).map(drop)
    }

    /// Receives what is too long for the ring into `count` packets of `packets` from `first` on,
    /// which are empty, and the same number of parts of `spill`, [`SPILL_LENGTH`] bytes each.
    /// Returns how many messages there were.
    ///
    /// # Errors
    /// `EAGAIN` when there is no message.
    pub(super) fn receive(
        &self,
        packets: &mut Batch,
        (first, count): (usize, usize),
        spill: &mut [u8],
        messages: &mut [Message; BATCH_SIZE],
    ) -> Result<usize, Errno> {
        // SAFETY: integers and pointers may be zero.
        let (mut pieces, mut controls, mut headers): (
            [[iovec; 3]; BATCH_SIZE],
            [Control; BATCH_SIZE],
            [mmsghdr; BATCH_SIZE],
        ) = unsafe { (zeroed(), zeroed(), zeroed()) };
        let mut prepared = 0;
        let places = packets.iter_mut().skip(first).take(count).zip(spill.chunks_mut(SPILL_LENGTH));
        let rest = messages.iter_mut().zip(&mut pieces).zip(&mut controls).zip(&mut headers);
        for ((mut packet, spill), (((message, pieces), control), header)) in places.zip(rest) {
            *pieces = [
                piece_mut(&mut message.header),
                piece_mut(packet.receive_buffer()),
                piece_mut(spill),
            ];
            header.msg_hdr.msg_iov = pieces.as_mut_ptr();
            header.msg_hdr.msg_iovlen = pieces.len();
            header.msg_hdr.msg_control = (control as *mut Control).cast();
            header.msg_hdr.msg_controllen = size_of::<Control>();
            prepared += 1;
        }
        // SAFETY: each of the `prepared` headers points to memory that is borrowed exclusively
        // by this call, with its length: the room of the packets, the spill, `messages`, and
        // local arrays. Any bytes are valid there.
        let result = unsafe {
            libc::recvmmsg(
                self.raw(),
                headers.as_mut_ptr(),
                prepared,
                libc::MSG_DONTWAIT as _,
                null_mut(),
            )
        };
        let received = checked(result as isize)?;
        let filled = headers.iter().zip(&controls).zip(messages).take(received);
        for ((header, control), message) in filled {
            message.length = (header.msg_len as usize).saturating_sub(PACKET_LENGTH);
            message.is_truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            message.tag = control.tag(header.msg_hdr.msg_controllen);
        }
        Ok(received)
    }

    /// Sends packets of `batch` from `first` on, each with its header, and returns how many.
    ///
    /// # Errors
    /// When the first of them could not be sent.
    pub(super) fn send(
        &self,
        batch: &Batch,
        first: usize,
        vnet_headers: &VnetHeaders,
    ) -> Result<usize, Errno> {
        // SAFETY: integers and pointers may be zero.
        let (mut pieces, mut headers): ([iovec; MAX_PIECES], [mmsghdr; BATCH_SIZE]) =
            unsafe { (zeroed(), zeroed()) };
        let mut free = pieces.as_mut_slice();
        let mut prepared = 0;
        let packets = batch.iter().zip(vnet_headers).skip(first);
        for ((packet, vnet_header), header) in packets.zip(&mut headers) {
            let vnet_header = vnet_header.split_at(PACKET_LENGTH).0;
            let parts = std::iter::once(vnet_header).chain(packet.segments());
            let count = parts.clone().count();
            let Some((pieces, rest)) = std::mem::take(&mut free).split_at_mut_checked(count) else {
                break;
            };
            free = rest;
            for (piece, part) in pieces.iter_mut().zip(parts) {
                // The kernel only reads what it sends.
                *piece = iovec { iov_base: part.as_ptr() as *mut c_void, iov_len: part.len() };
            }
            header.msg_hdr.msg_iov = pieces.as_mut_ptr();
            header.msg_hdr.msg_iovlen = count;
            prepared += 1;
        }
        if prepared == 0 {
            return Err(Errno::TOOBIG);
        }
        // SAFETY: each of the `prepared` headers points to pieces of packets of `batch` and to
        // headers, which are borrowed as long as the call lasts and only read.
        let result = unsafe {
            libc::sendmmsg(self.raw(), headers.as_mut_ptr(), prepared, libc::MSG_DONTWAIT as _)
        };
        checked(result as isize)
    }

    /// Forgets that the device was down, which would keep the socket ready for ever.
    pub(super) fn clear_error(&self) {
        // Whatever it says is known from elsewhere.
        let _ = rustix::net::sockopt::socket_error(self);
    }

    /// Frames that were lost since the last call because the ring was full.
    pub(super) fn take_lost(&self) -> Result<u32, Errno> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as u32;
        let pointer: *mut libc::tpacket_stats = &mut statistics;
        // SAFETY: the kernel writes at most `length` bytes to `statistics`.
        let result = unsafe {
            libc::getsockopt(
                self.raw(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                pointer.cast(),
                &mut length,
            )
        };
        checked(result as isize).map(|_| statistics.tp_drops)
    }

    fn raw(&self) -> c_int {
        self.0.as_raw_fd()
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A control message with what the kernel tells beside a frame. There is no other.
#[repr(C, align(8))]
struct Control {
    header: cmsghdr,
    data: tpacket_auxdata,
}

impl Control {
    /// The tag that the device took out of the frame.
    fn tag(&self, length: usize) -> Option<VlanTag> {
        let is_there = length >= size_of::<cmsghdr>() + size_of::<tpacket_auxdata>()
            && self.header.cmsg_level == libc::SOL_PACKET
            && self.header.cmsg_type == libc::PACKET_AUXDATA;
        let tpacket_auxdata { tp_status, tp_vlan_tci, tp_vlan_tpid, .. } = self.data;
        vlan_tag(tp_status, tp_vlan_tci, tp_vlan_tpid).filter(|_| is_there)
    }
}

/// The tag that the device took out of a frame, by what the kernel says of it.
pub(super) fn vlan_tag(status: u32, tci: u16, tpid: u16) -> Option<VlanTag> {
    let has_tpid = status & VLAN_TPID_VALID != 0 && tpid != 0;
    let tpid = if has_tpid { tpid } else { DEFAULT_TPID };
    (status & VLAN_VALID != 0).then_some(VlanTag { tpid, tci })
}

fn piece_mut(bytes: &mut [u8]) -> iovec {
    iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// The result of a system call as the C library gives it.
fn checked(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })
}
