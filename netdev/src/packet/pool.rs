//! A pool of frames shared by threads.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::memory::{FRAME_SIZE, Frame, FrameMemory, MapError, PageKind};
use super::{Descriptor, Packet, cache};

/// Data of a fresh packet starts at least this many bytes into its frame, so that tunnel headers
/// can be put in front of it.
pub(super) const HEADROOM: u16 = 128;

/// Frames spaced by a power of two would keep their headers in a few sets of the L1 cache; their
/// data starts in one of this many cache lines instead.
const STAGGERED_LINES: usize = 4;

/// Most frames that a thread takes from or returns to the shared stack at a time.
const MAX_CHUNK: usize = 256;

/// Why there is no pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// A pool of no frames was asked for.
    #[error("a frame pool needs at least 1 frame")]
    Empty,
    /// The kernel gave no memory.
    #[error("cannot map {bytes} bytes for {frames} frames: {errno}")]
    Map {
        /// Frames asked for.
        frames: u32,
        /// Bytes they need.
        bytes: usize,
        /// What the kernel said.
        errno: Errno,
    },
    /// The process has handed out 2^32 frames to pools, dropped ones included.
    #[error("no numbers are left for {frames} more frames; restart the process")]
    OutOfNumbers {
        /// Frames asked for.
        frames: u32,
    },
}

/// Where the frames of a pool are. `total = shared + cached + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames of the pool.
    pub total: usize,
    /// Free frames on the shared stack.
    pub shared: usize,
    /// Free frames on the stacks of threads.
    pub cached: usize,
    /// Frames in packets: in batches, in rings, or on their own.
    pub held: usize,
}

struct Shared {
    free: Vec<Frame>,
    /// Lengths of the threads' stacks, each written by its thread only.
    caches: Vec<Arc<AtomicU32>>,
}

/// Memory for packets; see the [module](super).
pub struct FramePool {
    memory: FrameMemory,
    chunk: usize,
    shared: Mutex<Shared>,
}

impl std::fmt::Debug for FramePool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FramePool").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl FramePool {
    /// A pool of `frames` frames.
    pub fn new(frames: u32) -> Result<Arc<Self>, PoolError> {
        let count = NonZeroU32::new(frames).ok_or(PoolError::Empty)?;
        let (memory, mut free) = FrameMemory::map(count).map_err(|error| match error {
            MapError::Mmap(errno) => {
                PoolError::Map { frames, bytes: frames as usize * FRAME_SIZE, errno }
            }
            MapError::OutOfNumbers => PoolError::OutOfNumbers { frames },
        })?;
        // The first frame comes first off the stack, so that a lightly used pool stays compact.
        free.reverse();
        let chunk = (memory.count() / 64).clamp(1, MAX_CHUNK);
        Ok(Arc::new(Self { memory, chunk, shared: Mutex::new(Shared { free, caches: vec![] }) }))
    }

    /// What kind of pages the frames lie in.
    pub fn pages(&self) -> PageKind {
        self.memory.pages()
    }

    /// Where the frames lie in the memory of this process, one behind the other: address and
    /// length of the region.
    pub(crate) fn region(&self) -> (u64, u64) {
        (self.memory.address(), (self.memory.count() * FRAME_SIZE) as u64)
    }

    /// Where the frames are. Exact when no thread is moving any.
    pub fn counts(&self) -> FrameCounts {
        let shared = self.shared();
        let cached = shared.caches.iter().map(|count| count.load(Ordering::Relaxed) as usize).sum();
        let total = self.memory.count();
        let held = total.saturating_sub(shared.free.len() + cached);
        FrameCounts { total, shared: shared.free.len(), cached, held }
    }

    /// An empty packet, or nothing when the pool has no free frame.
    pub fn packet(self: &Arc<Self>) -> Option<Packet> {
        let mut frame = [None];
        self.take(&mut frame);
        let [frame] = frame;
        frame.map(|frame| Packet::from_frame(self, frame))
    }

    /// A packet with these bytes, or nothing when the pool has too few free frames.
    pub fn packet_with(self: &Arc<Self>, bytes: &[u8]) -> Option<Packet> {
        let mut packet = self.packet()?;
        packet.view_mut().append(bytes).then_some(packet)
    }

    pub(super) fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Puts free frames, reset to empty packets, into the first places of `out`, and returns how
    /// many there were.
    pub(super) fn take(self: &Arc<Self>, out: &mut [Option<Frame>]) -> usize {
        let taken = cache::take(self, out);
        for frame in out.iter_mut().take(taken).flatten() {
            let line = self.memory.slot(frame) % STAGGERED_LINES;
            let (descriptor, _) = self.memory.parts_mut(frame);
            *descriptor = Descriptor::empty_at(HEADROOM + 64 * line as u16);
        }
        taken
    }

    /// Takes back frames, and those that continue them. The places are empty afterwards.
    pub(super) fn give_back(self: &Arc<Self>, frames: &mut [Option<Frame>]) {
        cache::give_back(self, frames);
    }

    /// Frames that threads move between their stack and the shared one at a time.
    pub(super) fn chunk(&self) -> usize {
        self.chunk
    }

    /// Makes a thread's stack known to [`Self::counts`].
    pub(super) fn register_cache(&self, count: Arc<AtomicU32>) {
        self.shared().caches.push(count);
    }

    /// Forgets a thread's stack, after its frames were given back.
    pub(super) fn forget_cache(&self, count: &Arc<AtomicU32>) {
        self.shared().caches.retain(|known| !Arc::ptr_eq(known, count));
    }

    /// Moves up to `count` frames from the shared stack to `to`.
    pub(super) fn take_shared(&self, count: usize, to: &mut Vec<Frame>) {
        let free = &mut self.shared().free;
        let keep = free.len().saturating_sub(count);
        to.extend(free.drain(keep..));
    }

    /// Moves frames to the shared stack.
    pub(super) fn give_back_shared(&self, frames: impl Iterator<Item = Frame>) {
        self.shared().free.extend(frames);
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Nothing that runs under the lock can leave the stack half changed.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
