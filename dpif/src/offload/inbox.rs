//! How a poll thread hears which marks its flows have: it looks between two batches, and nobody
//! waits for it.

use std::sync::{Arc, PoisonError};

#[cfg(feature = "model")]
use loom::sync::Mutex;
#[cfg(feature = "model")]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(feature = "model"))]
use std::sync::Mutex;
#[cfg(not(feature = "model"))]
use std::sync::atomic::{AtomicBool, Ordering};

use super::mark::Mark;
use crate::flow_table::FlowRecord;

/// A flow of the thread and the mark that its packets carry from now on.
#[derive(Debug)]
pub(crate) struct Association {
    pub(crate) flow: Arc<FlowRecord>,
    pub(crate) mark: Mark,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    waiting: Mutex<Vec<Association>>,
    has_some: AtomicBool,
}

impl Inbox {
    /// Adds to what the thread will hear.
    pub(crate) fn push(&self, associations: impl Iterator<Item = Association>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.extend(associations);
        self.has_some.store(true, Ordering::Release);
    }

    /// Takes what there is.
    #[inline]
    pub(crate) fn take(&self) -> Vec<Association> {
        if !self.has_some.load(Ordering::Acquire) {
            return vec![];
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_some.store(false, Ordering::Relaxed);
        std::mem::take(&mut waiting)
    }
}
