//! An installed flow as other threads see it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::action::Action;
use crate::flow::{FlowKey, FlowMask, Ufid};
use crate::pmd::statistics::Counter;

/// Which thread has a flow: the core of a poll thread, or the thread that controls the datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkerId {
    /// The poll thread on this core.
    Core(u32),
    /// The thread that controls the datapath and polls what no poll thread does.
    Main,
}

/// An installed flow. Its thread alone writes the counters; everyone may read them.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FlowRecord {
    packets: Counter,
    bytes: Counter,
    /// Milliseconds of the switch's clock, plus 1; 0 is never.
    used: Counter,
    tcp_flags: Counter,
    ufid: Ufid,
    worker: WorkerId,
    is_dead: AtomicBool,
    mask: FlowMask,
    /// The key under the mask.
    masked: FlowKey,
    /// The key of the packet for which the flow was installed.
    key: FlowKey,
    actions: Mutex<Arc<[Action]>>,
}

/// What a flow has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStatistics {
    /// Packets that hit it.
    pub packets: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// When the last one did, by the switch's clock in whole milliseconds.
    pub used: Option<Duration>,
    /// TCP flags that they had, or-ed together.
    pub tcp_flags: u16,
}

impl FlowRecord {
    pub(crate) fn new(
        ufid: Ufid,
        worker: WorkerId,
        key: FlowKey,
        mask: FlowMask,
        actions: Arc<[Action]>,
    ) -> Self {
        Self {
            packets: Counter::default(),
            bytes: Counter::default(),
            used: Counter::default(),
            tcp_flags: Counter::default(),
            ufid,
            worker,
            is_dead: AtomicBool::new(false),
            masked: mask.masked(&key),
            mask,
            key,
            actions: Mutex::new(actions),
        }
    }

    /// Its name.
    pub fn ufid(&self) -> Ufid {
        self.ufid
    }

    /// The thread that has it.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// The key for which it was installed, with the bits that do not matter.
    pub fn key(&self) -> &FlowKey {
        &self.key
    }

    /// Which bits of the key matter.
    pub fn mask(&self) -> &FlowMask {
        &self.mask
    }

    pub(crate) fn masked(&self) -> &FlowKey {
        &self.masked
    }

    /// What it does to packets.
    pub fn actions(&self) -> Arc<[Action]> {
        Arc::clone(&self.actions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_actions(&self, actions: Arc<[Action]>) {
        *self.actions.lock().unwrap_or_else(PoisonError::into_inner) = actions;
    }

    /// Whether it was removed.
    pub fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    pub(crate) fn set_dead(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
    }

    /// What it has counted.
    pub fn statistics(&self) -> FlowStatistics {
        FlowStatistics {
            packets: self.packets.get(),
            bytes: self.bytes.get(),
            used: self.used.get().checked_sub(1).map(Duration::from_millis),
            tcp_flags: self.tcp_flags.get() as u16,
        }
    }

    /// Counts packets. Only the thread that has the flow may call it. `now` is in milliseconds.
    #[inline]
    pub(crate) fn count(&self, packets: u64, bytes: u64, tcp_flags: u16, now: u64) {
        self.packets.add(packets);
        self.bytes.add(bytes);
        self.used.set(now + 1);
        let flags = self.tcp_flags.get();
        let seen = flags | u64::from(tcp_flags);
        if seen != flags {
            self.tcp_flags.set(seen);
        }
    }

    /// Starts counting from 0 again.
    pub(crate) fn clear_statistics(&self) {
        for counter in [&self.packets, &self.bytes, &self.used, &self.tcp_flags] {
            counter.set(0);
        }
    }
}
