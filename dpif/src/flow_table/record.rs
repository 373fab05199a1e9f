//! An installed flow as other threads see it.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::action::Action;
use crate::flow::{FlowKey, FlowMask, Ufid};
use crate::offload::{OffloadState, SharedState};
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
    hardware: Hardware,
    /// Records have rising numbers in the order in which they were made.
    serial: u64,
}

/// What hardware has to do with a flow.
#[derive(Debug, Default)]
struct Hardware {
    state: SharedState,
    /// The mark that leads to the flow on its thread, which alone uses it; 0 is none.
    mark: AtomicU32,
    /// The number of the flow on its thread.
    number: AtomicU32,
    // What software did not see. The offload worker of the flow alone adds to these.
    packets: AtomicU64,
    bytes: AtomicU64,
    /// As [`FlowRecord::used`].
    used: AtomicU64,
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

/// The number of the next record.
static NEXT_SERIAL: AtomicU64 = AtomicU64::new(0);

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
            hardware: Hardware::default(),
            serial: NEXT_SERIAL.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// A number that tells which of two flows is older.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// How far it is in hardware.
    pub fn offload_state(&self) -> OffloadState {
        self.hardware.state.get()
    }

    pub(crate) fn offload(&self) -> &SharedState {
        &self.hardware.state
    }

    /// The mark that leads to it on its thread. For that thread alone.
    pub(crate) fn mark_on_thread(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.hardware.mark.load(Ordering::Relaxed))
    }

    pub(crate) fn set_mark_on_thread(&self, mark: NonZeroU32) {
        self.hardware.mark.store(mark.get(), Ordering::Relaxed);
    }

    /// The number of the flow on its thread. For that thread alone.
    pub(crate) fn number_on_thread(&self) -> u32 {
        self.hardware.number.load(Ordering::Relaxed)
    }

    pub(crate) fn set_number_on_thread(&self, number: u32) {
        self.hardware.number.store(number, Ordering::Relaxed);
    }

    /// Counts packets that software did not see. `now` is in milliseconds.
    pub(crate) fn count_hardware(&self, packets: u64, bytes: u64, now: u64) {
        self.hardware.packets.fetch_add(packets, Ordering::Relaxed);
        self.hardware.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.hardware.used.store(now + 1, Ordering::Relaxed);
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

    /// What it has counted, in software and in hardware.
    pub fn statistics(&self) -> FlowStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let used = self.used.get().max(load(&self.hardware.used));
        FlowStatistics {
            packets: self.packets.get().wrapping_add(load(&self.hardware.packets)),
            bytes: self.bytes.get().wrapping_add(load(&self.hardware.bytes)),
            used: used.checked_sub(1).map(Duration::from_millis),
            tcp_flags: self.tcp_flags.get() as u16,
        }
    }

    /// Counts packets. Only the thread that has the flow may call it. `now` is in milliseconds.
    #[inline]
    pub(crate) fn count(&self, packets: u64, bytes: u64, tcp_flags: u16, now: u64) {
        self.packets.add(packets);
        self.bytes.add(bytes);
        self.used.set(now + 1);
        if tcp_flags != 0 {
            self.tcp_flags.set(self.tcp_flags.get() | u64::from(tcp_flags));
        }
    }

    /// Starts counting from 0 again.
    pub(crate) fn clear_statistics(&self) {
        for counter in [&self.packets, &self.bytes, &self.used, &self.tcp_flags] {
            counter.set(0);
        }
        let Hardware { packets, bytes, used, .. } = &self.hardware;
        for counter in [packets, bytes, used] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}
