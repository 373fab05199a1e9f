//! The receive ring of a packet socket (`linux/if_packet.h`, version 2): memory that the kernel
//! puts frames into, one per slot, without a system call for each.
//!
//! Slots hold ordinary frames. A frame that is longer comes by way of the socket as well, and its
//! slot says so; so a ring need not be as large as the largest packets would make it.
//!
//! The rules: the first word of a slot says whose it is. While it is ours, the kernel leaves the
//! slot alone; when it is given back, nothing refers to it any more.
#![expect(unsafe_code, reason = "memory shared with the kernel")]

use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::tpacket2_hdr;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::packet_socket::vlan_tag;
use super::vnet_header::PACKET_LENGTH;
use crate::packet::VlanTag;

/// Frames that wait in a ring before others are lost.
const SLOTS: usize = 2048;
/// Bytes of a slot: its header, and a frame of 1972 bytes.
const SLOT_LENGTH: usize = 2048;
/// Bytes of memory that the kernel allocates at a time.
const BLOCK_LENGTH: usize = 1 << 16;
const LENGTH: usize = SLOTS * SLOT_LENGTH;

/// What the kernel is to be asked for with `PACKET_RX_RING`.
pub(super) const REQUEST: libc::tpacket_req = libc::tpacket_req {
    tp_block_size: BLOCK_LENGTH as u32,
    tp_block_nr: (LENGTH / BLOCK_LENGTH) as u32,
    tp_frame_size: SLOT_LENGTH as u32,
    tp_frame_nr: SLOTS as u32,
};

/// The ring of one socket, for one thread.
#[derive(Debug)]
pub(super) struct PacketRing {
    slots: NonNull<u8>,
    /// The slot that the kernel fills, or has filled, next.
    next: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may use it.
unsafe impl Send for PacketRing {}

/// A frame in a ring.
#[derive(Debug)]
pub(super) struct RingFrame<'a> {
    /// Its virtio network header.
    pub(super) header: [u8; PACKET_LENGTH],
    pub(super) data: &'a [u8],
    /// The tag that the device took out of the frame.
    pub(super) tag: Option<VlanTag>,
    /// Whether the frame is longer than `data`.
    pub(super) is_cut: bool,
}

/// The oldest frame, and where it is.
#[derive(Debug)]
pub(super) enum Oldest<'a> {
    /// In the ring.
    Here(RingFrame<'a>),
    /// In the socket.
    Queued,
}

impl PacketRing {
    /// Maps the ring of `socket`, which was asked for by [`REQUEST`].
    pub(super) fn map(socket: impl AsFd) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the address is the kernel's choice, so that no memory in use is replaced.
        let slots = unsafe { mmap(null_mut(), LENGTH, protection, MapFlags::SHARED, socket, 0) }?;
        let slots = NonNull::new(slots.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { slots, next: 0 })
    }

    /// Slot `index` from `next` on, which wraps.
    fn slot(&self, index: usize) -> NonNull<u8> {
        let index = (self.next + index) % SLOTS;
        // SAFETY: the mapping is `SLOTS` times this long.
        unsafe { self.slots.add(index * SLOT_LENGTH) }
    }

    /// The word of a slot that says whose it is.
    fn status(&self, index: usize) -> &AtomicU32 {
        // SAFETY: each slot starts with this word, aligned, which both sides read and write as a
        // whole; the mapping lives as long as `self`.
        unsafe { self.slot(index).cast::<AtomicU32>().as_ref() }
    }

    /// The oldest frame, if any is there.
    pub(super) fn oldest(&self) -> Option<Oldest<'_>> {
        let status = self.status(0).load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        if status & libc::TP_STATUS_COPY != 0 {
            return Some(Oldest::Queued);
        }
        let slot = self.slot(0);
        // SAFETY: the slot is ours, starts with this structure, and any bytes are valid in it.
        let header = unsafe { slot.cast::<tpacket2_hdr>().read() };
        // SAFETY: the slot is ours until `release`, which cannot be called as long as this borrow
        // of `self` lasts.
        let bytes = unsafe { from_raw_parts(slot.as_ptr(), SLOT_LENGTH) };
        let start = usize::from(header.tp_mac);
        let end = start + header.tp_snaplen as usize;
        let data = bytes.get(start..end).unwrap_or(&[]);
        let vnet_header = bytes.get(..start).and_then(|before| before.last_chunk());
        Some(Oldest::Here(RingFrame {
            header: vnet_header.copied().unwrap_or_default(),
            data,
            tag: vlan_tag(status, header.tp_vlan_tci, header.tp_vlan_tpid),
            is_cut: header.tp_len as usize > data.len(),
        }))
    }

    /// How many of the oldest frames, up to `limit`, are in the socket one after the other.
    pub(super) fn queued(&self, limit: usize) -> usize {
        let queued = libc::TP_STATUS_USER | libc::TP_STATUS_COPY;
        let is_queued =
            |&index: &usize| self.status(index).load(Ordering::Acquire) & queued == queued;
        (0..limit.min(SLOTS)).take_while(is_queued).count()
    }

    /// Gives the slots of the oldest `count` frames back to the kernel.
    pub(super) fn release(&mut self, count: usize) {
        for index in 0..count {
            self.status(index).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.next = (self.next + count) % SLOTS;
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is of this length, and nothing refers to it any more. That it cannot
        // be unmapped does not happen, and would only cost memory.
        let _ = unsafe { munmap(self.slots.as_ptr().cast(), LENGTH) };
    }
}
