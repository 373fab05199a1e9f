//! Each thread's own stack of free frames, per pool.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use super::memory::Frame;
use super::pool::FramePool;

thread_local! {
    /// One entry per pool that this thread has used: one per NUMA node.
    static CACHES: RefCell<Vec<FrameCache>> = const { RefCell::new(Vec::new()) };
}

struct FrameCache {
    pool: Weak<FramePool>,
    frames: Vec<Frame>,
    /// Length of `frames`, for other threads to read.
    count: Arc<AtomicU32>,
}

impl FrameCache {
    fn new(pool: &Arc<FramePool>) -> Self {
        let count = Arc::new(AtomicU32::new(0));
        pool.register_cache(Arc::clone(&count));
        let frames = Vec::with_capacity(4 * pool.chunk());
        Self { pool: Arc::downgrade(pool), frames, count }
    }

    fn publish(&self) {
        self.count.store(self.frames.len() as u32, Ordering::Relaxed);
    }
}

impl Drop for FrameCache {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.give_back_shared(self.frames.drain(..));
            pool.forget_cache(&self.count);
        }
    }
}

/// Runs `work` on this thread's stack for `pool`. `None` when the thread is ending and has no
/// stack any more; `work` comes back.
fn with_cache<T, W: FnOnce(&mut FrameCache) -> T>(pool: &Arc<FramePool>, work: W) -> Option<T> {
    CACHES
        .try_with(|caches| {
            // Not borrowed twice: nothing that runs below comes back here.
            let mut caches = caches.borrow_mut();
            let of_pool = |cache: &FrameCache| cache.pool.as_ptr() == Arc::as_ptr(pool);
            let index = caches.iter().position(of_pool).unwrap_or_else(|| {
                caches.retain(|cache| cache.pool.strong_count() > 0);
                caches.push(FrameCache::new(pool));
                caches.len() - 1
            });
            work(&mut caches[index])
        })
        .ok()
}

/// Fills the first places of `out` with free frames and returns how many there were.
pub(super) fn take(pool: &Arc<FramePool>, out: &mut [Option<Frame>]) -> usize {
    with_cache(pool, |cache| {
        if cache.frames.len() < out.len() {
            pool.take_shared(out.len() - cache.frames.len() + pool.chunk(), &mut cache.frames);
        }
        let taken = out.len().min(cache.frames.len());
        let keep = cache.frames.len() - taken;
        for (place, frame) in out.iter_mut().zip(cache.frames.drain(keep..).rev()) {
            *place = Some(frame);
        }
        cache.publish();
        taken
    })
    .unwrap_or(0)
}

/// Takes back frames and those that continue them, and leaves the places empty. A stack that has
/// grown too high passes its oldest frames on.
pub(super) fn give_back(pool: &Arc<FramePool>, places: &mut [Option<Frame>]) {
    if places.iter().all(Option::is_none) {
        return;
    }
    let kept = with_cache(pool, |cache| {
        for place in places.iter_mut() {
            take_apart(pool, place.take(), &mut cache.frames);
        }
        let surplus = cache.frames.len().saturating_sub(pool.chunk());
        if surplus > pool.chunk() {
            pool.give_back_shared(cache.frames.drain(..surplus));
        }
        cache.publish();
    });
    if kept.is_none() {
        let mut frames = vec![];
        for place in places {
            take_apart(pool, place.take(), &mut frames);
        }
        pool.give_back_shared(frames.into_iter());
    }
}

/// Moves a frame and those that continue it to the end of `to`.
#[inline]
fn take_apart(pool: &FramePool, frame: Option<Frame>, to: &mut Vec<Frame>) {
    let mut rest = frame;
    while let Some(mut frame) = rest {
        rest = pool.memory().parts_mut(&mut frame).0.next.take();
        to.push(frame);
    }
}
