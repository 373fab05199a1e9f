//! The mapped frames and their descriptors: the only unsafe code of packet memory.
//!
//! The rules:
//!
//! - A [`Frame`] is the right to read and write one frame and its descriptor. It can be neither
//!   copied nor made up: [`FrameMemory::map`] makes each one once.
//! - Numbers of frames are handed out once per process, so a frame names its memory too. Access
//!   checks that the number lies in the range of this memory, which is the bounds check as well.
//! - `&Frame` gives shared and `&mut Frame` exclusive references, bound to the life of both the
//!   frame and the memory. So the borrow checker sees to aliasing.
//! - The mapping is zeroed by the kernel, so every byte is initialised from the start.
#![expect(unsafe_code, reason = "maps memory and hands out slices of it")]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::num::NonZeroU32;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::descriptor::Descriptor;

/// Bytes of a frame, headroom included.
pub const FRAME_SIZE: usize = 2048;

/// Huge mappings must be a multiple of this long.
const HUGE_PAGE_SIZE: usize = 2 << 20;

/// The number that the next frame of the process gets. 0 is left out to give `Option<Frame>` the
/// size of a number.
static NEXT_FRAME: AtomicU32 = AtomicU32::new(1);

/// What kind of pages a pool lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Huge pages of 2 MiB, from the pool that the administrator set aside.
    Huge,
    /// Pages of the ordinary size.
    Ordinary,
}

impl PageKind {
    /// A word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Huge => "huge",
            Self::Ordinary => "ordinary",
        }
    }
}

/// The right to use one frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame(NonZeroU32);

/// Why a region could not be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapError {
    Mmap(Errno),
    OutOfNumbers,
}

pub(super) struct FrameMemory {
    base: NonNull<u8>,
    mapped: usize,
    first: u32,
    descriptors: Box<[UnsafeCell<Descriptor>]>,
    pages: PageKind,
}

// SAFETY: the mapping and the descriptors are reached only through a `Frame`, which has one owner
// at a time and is itself `Send`; shared access through `&Frame` only reads.
unsafe impl Send for FrameMemory {}
// SAFETY: as above.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// Maps `count` frames, in huge pages when there are enough of them, and returns the memory
    /// with the rights to all its frames.
    pub(super) fn map(count: NonZeroU32) -> Result<(Self, Vec<Frame>), MapError> {
        let first = NEXT_FRAME
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                next.checked_add(count.get())
            })
            .map_err(|_| MapError::OutOfNumbers)?;
        let length = count.get() as usize * FRAME_SIZE;
        let huge = length.next_multiple_of(HUGE_PAGE_SIZE);
        let (address, mapped, pages) = match map_pages(huge, MapFlags::HUGETLB) {
            Ok(address) => (address, huge, PageKind::Huge),
            Err(_) => {
                let address = map_pages(length, MapFlags::empty()).map_err(MapError::Mmap)?;
                (address, length, PageKind::Ordinary)
            }
        };
        let memory = Self {
            base: NonNull::new(address.cast()).ok_or(MapError::Mmap(Errno::NOMEM))?,
            mapped,
            first,
            descriptors: (0..count.get()).map(|_| UnsafeCell::default()).collect(),
            pages,
        };
        let frames = (first..).take(count.get() as usize).filter_map(NonZeroU32::new);
        Ok((memory, frames.map(Frame).collect()))
    }

    /// Number of frames in this memory.
    pub(super) fn count(&self) -> usize {
        self.descriptors.len()
    }

    /// Where the first frame starts in the memory of this process.
    pub(super) fn address(&self) -> u64 {
        self.base.as_ptr() as u64
    }

    pub(super) fn pages(&self) -> PageKind {
        self.pages
    }

    /// Place of `frame` in this memory, from 0.
    #[inline]
    pub(super) fn slot(&self, frame: &Frame) -> usize {
        let slot = frame.0.get().wrapping_sub(self.first) as usize;
        assert!(slot < self.descriptors.len(), "{frame:?} belongs to another memory");
        slot
    }

    /// What is known about `frame`, and its bytes.
    #[inline]
    pub(super) fn parts<'a>(&'a self, frame: &'a Frame) -> (&'a Descriptor, &'a [u8; FRAME_SIZE]) {
        let slot = self.slot(frame);
        // SAFETY: `slot` is within the region (checked above), and a shared borrow of the only
        // right to this frame excludes writers for 'a.
        unsafe {
            let bytes = self.base.add(slot * FRAME_SIZE).cast::<[u8; FRAME_SIZE]>();
            (&*self.descriptors[slot].get(), bytes.as_ref())
        }
    }

    /// The same for changing them.
    #[inline]
    pub(super) fn parts_mut<'a>(
        &'a self,
        frame: &'a mut Frame,
    ) -> (&'a mut Descriptor, &'a mut [u8; FRAME_SIZE]) {
        let slot = self.slot(frame);
        // SAFETY: `slot` is within the region (checked above), and the exclusive borrow of the
        // only right to this frame excludes every other access for 'a.
        unsafe {
            let mut bytes = self.base.add(slot * FRAME_SIZE).cast::<[u8; FRAME_SIZE]>();
            (&mut *self.descriptors[slot].get(), bytes.as_mut())
        }
    }
}

impl Drop for FrameMemory {
    fn drop(&mut self) {
        // SAFETY: exactly this range was mapped by `map`, and no reference into it outlives
        // `self`. There is nothing to do about an error.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

fn map_pages(length: usize, flags: MapFlags) -> Result<*mut c_void, Errno> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing else.
    unsafe { mmap_anonymous(null_mut(), length, protection, MapFlags::PRIVATE | flags) }
}
