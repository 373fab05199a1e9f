//! The rings that an AF_XDP socket shares with the kernel (`Documentation/networking/af_xdp.rst`,
//! linux/if_xdp.h).
//!
//! A ring is an array of entries and two counters, of entries put in and of entries taken out. They
//! count on through 2^32; their difference is how many entries wait. One side puts in, the other
//! takes out. Every access here is atomic, so that whatever the other side does, nothing but wrong
//! numbers can come of it; the receiver of numbers checks them.
#![expect(unsafe_code, reason = "memory shared with the kernel")]

use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::xdp::XdpRingOffset;

/// Bit of a ring's flags: the kernel sleeps and wants to be woken by a system call.
const NEED_WAKEUP: u32 = libc::XDP_RING_NEED_WAKEUP;

/// A mapped ring of entries of `WORDS` times 8 bytes.
#[derive(Debug)]
pub(super) struct Ring<const WORDS: usize> {
    base: NonNull<u8>,
    length: usize,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<[AtomicU64; WORDS]>,
    /// One less than the number of entries, which is a power of two.
    mask: u32,
}

// SAFETY: the mapping belongs to this value alone, and all of it is accessed atomically.
unsafe impl<const WORDS: usize> Send for Ring<WORDS> {}
// SAFETY: as above.
unsafe impl<const WORDS: usize> Sync for Ring<WORDS> {}

impl<const WORDS: usize> Ring<WORDS> {
    /// Maps the ring of `entries` entries, a power of two, that is at `page_offset` of `socket`.
    pub(super) fn map(
        socket: impl AsFd,
        page_offset: u64,
        layout: XdpRingOffset,
        entries: u32,
    ) -> Result<Self, Errno> {
        let start = usize::try_from(layout.desc).map_err(|_| Errno::OVERFLOW)?;
        let length = start + entries as usize * WORDS * size_of::<u64>();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: the address is the kernel's choice, so that no memory in use is replaced.
        let base = unsafe { mmap(null_mut(), length, protection, flags, socket, page_offset) }?;
        let base = NonNull::new(base.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let at = |offset: u64| {
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            let fits = offset.checked_add(size_of::<u32>()).is_some_and(|end| end <= length);
            // SAFETY: `offset` was found to lie in the mapping.
            fits.then(|| unsafe { base.add(offset) }.cast::<AtomicU32>())
        };
        let (producer, consumer) = (at(layout.producer), at(layout.consumer));
        // SAFETY: `start` is at most the length of the mapping.
        let entry = unsafe { base.add(start) }.cast();
        match (producer, consumer) {
            (Some(producer), Some(consumer)) => {
                let flags = layout.flags.and_then(at);
                Ok(Self {
                    base,
                    length,
                    producer,
                    consumer,
                    flags,
                    entries: entry,
                    mask: entries - 1,
                })
            }
            _ => {
                // SAFETY: just mapped, with this length, and nothing refers to it.
                let _ = unsafe { munmap(base.as_ptr().cast(), length) };
                Err(Errno::PROTO)
            }
        }
    }

    /// Entries that the ring holds at most.
    pub(super) fn capacity(&self) -> u32 {
        self.mask + 1
    }

    /// Entries put in so far.
    #[inline]
    pub(super) fn produced(&self) -> &AtomicU32 {
        // SAFETY: lies in the mapping, which lives as long as `self`, aligned as the kernel keeps it.
        unsafe { self.producer.as_ref() }
    }

    /// Entries taken out so far.
    #[inline]
    pub(super) fn consumed(&self) -> &AtomicU32 {
        // SAFETY: as in `produced`.
        unsafe { self.consumer.as_ref() }
    }

    /// Entries that wait.
    pub(super) fn waiting(&self) -> u32 {
        let consumed = self.consumed().load(Ordering::Acquire);
        self.produced().load(Ordering::Acquire).wrapping_sub(consumed)
    }

    /// Whether the kernel wants to be woken.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        // SAFETY: as in `produced`.
        let flags = self.flags.map(|flags| unsafe { flags.as_ref() });
        flags.is_none_or(|flags| flags.load(Ordering::Relaxed) & NEED_WAKEUP != 0)
    }

    /// The entry for the count `number`.
    #[inline]
    fn entry(&self, number: u32) -> &[AtomicU64; WORDS] {
        // SAFETY: the mask keeps the place within the entries, which all lie in the mapping.
        unsafe { self.entries.add((number & self.mask) as usize).as_ref() }
    }
}

impl<const WORDS: usize> Drop for Ring<WORDS> {
    fn drop(&mut self) {
        // SAFETY: exactly this was mapped by `map`, and no reference into it outlives `self`. There
        // is nothing to do about an error.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Our place in a ring that we put into.
#[derive(Debug)]
pub(super) struct Producer {
    /// Entries put in so far, including those that the kernel was not told of.
    next: u32,
    /// Entries taken out when last looked at.
    consumed: u32,
}

impl Producer {
    pub(super) fn new<const WORDS: usize>(ring: &Ring<WORDS>) -> Self {
        let consumed = ring.consumed().load(Ordering::Acquire);
        Self { next: ring.produced().load(Ordering::Acquire), consumed }
    }

    /// Entries for which there is room. Looks at the ring only when what is known is less than
    /// `wanted`.
    #[inline]
    pub(super) fn room<const WORDS: usize>(&mut self, ring: &Ring<WORDS>, wanted: u32) -> u32 {
        let room = |consumed: u32| ring.capacity().saturating_sub(self.next.wrapping_sub(consumed));
        if room(self.consumed) < wanted {
            self.consumed = ring.consumed().load(Ordering::Acquire);
        }
        ring.capacity().saturating_sub(self.next.wrapping_sub(self.consumed))
    }

    /// Puts an entry in, for which there must be room. The kernel sees it after
    /// [`Self::publish`].
    #[inline]
    pub(super) fn put<const WORDS: usize>(&mut self, ring: &Ring<WORDS>, entry: [u64; WORDS]) {
        for (place, word) in ring.entry(self.next).iter().zip(entry) {
            place.store(word, Ordering::Relaxed);
        }
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the kernel what was put in.
    #[inline]
    pub(super) fn publish<const WORDS: usize>(&self, ring: &Ring<WORDS>) {
        ring.produced().store(self.next, Ordering::Release);
    }

    /// Entries that the kernel has not taken out yet.
    pub(super) fn waiting<const WORDS: usize>(&self, ring: &Ring<WORDS>) -> u32 {
        self.next.wrapping_sub(ring.consumed().load(Ordering::Acquire))
    }
}

/// Our place in a ring that we take out of.
#[derive(Debug)]
pub(super) struct Consumer {
    next: u32,
    /// Entries put in when last looked at.
    produced: u32,
}

impl Consumer {
    pub(super) fn new<const WORDS: usize>(ring: &Ring<WORDS>) -> Self {
        let next = ring.consumed().load(Ordering::Acquire);
        Self { next, produced: next }
    }

    /// Entries that can be taken out. Looks at the ring only when it knows of fewer than `wanted`.
    #[inline]
    pub(super) fn available<const WORDS: usize>(&mut self, ring: &Ring<WORDS>, wanted: u32) -> u32 {
        if self.produced.wrapping_sub(self.next) < wanted {
            self.produced = ring.produced().load(Ordering::Acquire);
        }
        // Never more than fit, whatever the kernel says.
        self.produced.wrapping_sub(self.next).min(ring.capacity())
    }

    /// Entry `index` of those available, which stays there.
    #[inline]
    pub(super) fn peek<const WORDS: usize>(&self, ring: &Ring<WORDS>, index: u32) -> [u64; WORDS] {
        let entry = ring.entry(self.next.wrapping_add(index));
        std::array::from_fn(|word| entry.get(word).map_or(0, |word| word.load(Ordering::Relaxed)))
    }

    /// Takes `count` entries out. The kernel may use their places after [`Self::publish`].
    #[inline]
    pub(super) fn skip(&mut self, count: u32) {
        self.next = self.next.wrapping_add(count);
    }

    /// Leaves the places of what was taken out to the kernel.
    #[inline]
    pub(super) fn publish<const WORDS: usize>(&self, ring: &Ring<WORDS>) {
        ring.consumed().store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::fs::File;

    use proptest::prelude::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    /// A ring in ordinary memory that starts at count `start`, with a flags word.
    fn ring(entries: u32, start: u32) -> Ring<2> {
        let file = File::from(memfd_create("ring", MemfdFlags::empty()).unwrap());
        let length = 192 + u64::from(entries) * 16;
        ftruncate(&file, length).unwrap();
        let layout = XdpRingOffset { producer: 0, consumer: 64, desc: 192, flags: Some(128) };
        let ring = Ring::map(&file, 0, layout, entries).unwrap();
        ring.produced().store(start, Ordering::Relaxed);
        ring.consumed().store(start, Ordering::Relaxed);
        ring
    }

    proptest! {
        /// Against a queue, from any count on, 2^32 included.
        #[test]
        fn keeps_order_and_never_overflows(
            from_wrap in 0..40u32,
            steps in prop::collection::vec((any::<bool>(), 1..12u32), 1..60),
        ) {
            let ring = ring(8, 0u32.wrapping_sub(from_wrap));
            let (mut producer, mut consumer) = (Producer::new(&ring), Consumer::new(&ring));
            let (mut queue, mut number) = (VecDeque::new(), 0u64);
            for (puts, count) in steps {
                if puts {
                    for _ in 0..count.min(producer.room(&ring, count)) {
                        producer.put(&ring, [number, !number]);
                        queue.push_back([number, !number]);
                        number += 1;
                    }
                    producer.publish(&ring);
                } else {
                    let available = consumer.available(&ring, count);
                    for index in 0..count.min(available) {
                        prop_assert_eq!(Some(consumer.peek(&ring, index)), queue.pop_front());
                    }
                    consumer.skip(count.min(available));
                    consumer.publish(&ring);
                }
                prop_assert!(queue.len() <= 8);
                prop_assert_eq!(ring.waiting() as usize, queue.len());
                prop_assert_eq!(producer.waiting(&ring) as usize, queue.len());
                prop_assert_eq!(producer.room(&ring, 9) as usize, 8 - queue.len());
            }
        }
    }

    #[test]
    fn the_kernel_says_when_it_sleeps() {
        let ring = ring(8, 0);
        assert!(!ring.needs_wakeup());
        // SAFETY: in the test's own mapping.
        unsafe { ring.flags.unwrap().as_ref() }.store(NEED_WAKEUP, Ordering::Relaxed);
        assert!(ring.needs_wakeup());
    }
}
