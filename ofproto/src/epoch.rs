//! The number of changes that installed flows may depend on.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts changes of what translation reads, so that flows made before are looked at again.
#[derive(Debug, Default)]
pub struct Epoch(AtomicU64);

impl Epoch {
    /// Says that something changed. The change must have been made before.
    pub fn advance(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// The number of changes so far. What is read after this is at least as new.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}
