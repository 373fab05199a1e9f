//! Named event counters, as `coverage/show` and `coverage/read-counter` print them.
//!
//! A crate declares each counter as a `static` and lists them in its own `COVERAGE` slice; the
//! daemon joins the slices. Counting is relaxed: a reader needs the sum, not an order.

use std::sync::atomic::{AtomicU64, Ordering};

/// One event and how often it happened since the process started.
#[derive(Debug)]
pub struct Counter {
    name: &'static str,
    count: AtomicU64,
}

impl Counter {
    /// A counter at 0 under the name that operators see.
    pub const fn new(name: &'static str) -> Self {
        Self { name, count: AtomicU64::new(0) }
    }

    /// Adds `n` events. Not for the packet path, where counters have one writer each.
    pub fn add(&self, n: u64) {
        self.count.fetch_add(n, Ordering::Relaxed);
    }

    /// The name that operators see.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Events so far.
    pub fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
