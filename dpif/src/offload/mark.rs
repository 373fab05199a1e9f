//! Flow marks: the numbers by which hardware names the flow of a packet.
//!
//! A mark is a slot and the slot's generation. Whoever puts rules in takes marks from a
//! [`MarkPool`]; each poll thread has a [`MarkTable`] that leads from marks to its own flows. A
//! packet may lie in a receive ring with a mark whose rule is long gone, so a slot that was given
//! back is not given out again before each receive queue of its port was seen to have handed over
//! what it held ([`QueueDrain`]), and then with the next generation.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

#[cfg(feature = "model")]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(feature = "model"))]
use std::sync::atomic::{AtomicU64, Ordering};

use crate::datapath::PortNumber;

/// Bits of a mark that name its slot; the others are the generation.
const SLOT_BITS: u32 = 22;
/// Highest slot. Slot 0 is not used: mark 0 is none.
const MAX_SLOT: u32 = (1 << SLOT_BITS) - 1;
/// Packets after which a receive queue has handed over whatever it held before. No receive ring
/// is larger.
const DRAIN_PACKETS: u32 = 1 << 16;
/// Entries per chunk of a table, so that it grows without a pause.
const CHUNK: usize = 1024;

/// A mark. Never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Mark(NonZeroU32);

impl Mark {
    fn new(slot: u32, generation: u32) -> Option<Self> {
        NonZeroU32::new(generation << SLOT_BITS | slot & MAX_SLOT).map(Self)
    }

    fn slot(self) -> u32 {
        self.0.get() & MAX_SLOT
    }

    fn generation(self) -> u32 {
        self.0.get() >> SLOT_BITS
    }

    /// The number that packets carry.
    pub(crate) fn number(self) -> NonZeroU32 {
        self.0
    }
}

/// How often a receive queue has been seen to be past what it held. Its poll thread counts, others
/// read.
#[derive(Debug, Default)]
pub(crate) struct QueueDrain(AtomicU64);

impl QueueDrain {
    pub(crate) fn epoch(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// The queue held nothing, or everything it held at the last call has been received.
    pub(crate) fn advance(&self) {
        // One thread at a time polls a queue.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

/// Watches one receive queue for its [`QueueDrain`].
#[derive(Debug, Default)]
pub(crate) struct DrainWatch {
    pub(crate) drain: Arc<QueueDrain>,
    received: u32,
}

impl DrainWatch {
    /// Notes that `count` packets were received; 0 when none waited.
    #[inline]
    pub(crate) fn received(&mut self, count: usize) {
        self.received += count as u32;
        if count == 0 || self.received >= DRAIN_PACKETS {
            self.received = 0;
            self.drain.advance();
        }
    }
}

impl Drop for DrainWatch {
    /// Nothing of what a closed queue holds is ever handed over.
    fn drop(&mut self) {
        self.drain.advance();
        self.drain.advance();
    }
}

/// A slot that waits, and the epochs at which it may be used again.
#[derive(Debug)]
struct Waiting {
    mark: Mark,
    until: Vec<(Arc<QueueDrain>, u64)>,
}

/// Marks to give out. Several pools that share the numbers among them have different offsets.
#[derive(Debug)]
pub(crate) struct MarkPool {
    /// The slots `offset + 1`, `offset + 1 + stride` and so on belong to this pool.
    offset: u32,
    stride: u32,
    fresh: u32,
    most: u32,
    quarantine: VecDeque<Waiting>,
    live: usize,
}

impl MarkPool {
    /// A pool of up to `most` slots, the one number `offset` of `stride` pools.
    pub(crate) fn new(offset: u32, stride: u32, most: u32) -> Self {
        let stride = stride.max(1);
        let most = most.min((MAX_SLOT - offset.min(MAX_SLOT)) / stride);
        Self { offset, stride, fresh: 0, most, quarantine: VecDeque::new(), live: 0 }
    }

    /// Marks that are given out.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// The marks that wait, and for how many steps of their queues.
    #[cfg(test)]
    pub(crate) fn fingerprint(&self) -> Vec<(Mark, Vec<u64>)> {
        let left = |(drain, epoch): &(Arc<QueueDrain>, u64)| epoch.saturating_sub(drain.epoch());
        let waiting = self.quarantine.iter();
        waiting.map(|Waiting { mark, until }| (*mark, until.iter().map(left).collect())).collect()
    }

    /// A mark that no packet on its way carries; `None` while there is none.
    pub(crate) fn take(&mut self) -> Option<Mark> {
        let is_over = |waiting: &Waiting| {
            // Unsigned differences survive the counters' wrap.
            let mut until = waiting.until.iter();
            until.all(|(drain, epoch)| drain.epoch().wrapping_sub(*epoch) < u64::MAX / 2)
        };
        // The one that has waited longest, so that generations are used up slowly.
        if self.quarantine.len() as u32 >= self.most.saturating_sub(self.fresh).min(1024)
            && self.quarantine.front().is_some_and(is_over)
            && let Some(Waiting { mark, .. }) = self.quarantine.pop_front()
        {
            self.live += 1;
            let generation = mark.generation().wrapping_add(1) & u32::MAX >> SLOT_BITS;
            return Mark::new(mark.slot(), generation);
        }
        if self.fresh == self.most {
            return None;
        }
        let slot = self.offset + 1 + self.fresh * self.stride;
        self.fresh += 1;
        self.live += 1;
        Mark::new(slot, 0)
    }

    /// Gives back a mark whose rule is gone. `drains` are those of the queues that packets with it
    /// may lie in.
    pub(crate) fn give_back(&mut self, mark: Mark, drains: &[Arc<QueueDrain>]) {
        // The first advance may speak of a look that was taken before.
        let until = drains.iter().map(|drain| (Arc::clone(drain), drain.epoch().wrapping_add(2)));
        let until = until.filter(|_| !cfg!(feature = "broken-quarantine")).collect();
        self.quarantine.push_back(Waiting { mark, until });
        self.live = self.live.saturating_sub(1);
    }
}

/// What a mark stands for on one thread.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// 0 while the entry is free.
    mark: u32,
    flow: u32,
    port: u32,
}

/// Why a mark leads to no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkMiss {
    /// This thread has no flow for the slot.
    Unknown,
    /// The slot is in use for another flow by now.
    Stale,
    /// The flow is one of another port.
    Foreign,
}

/// The flows of one thread by mark.
#[derive(Debug, Default)]
pub(crate) struct MarkTable {
    chunks: Vec<Box<[Entry]>>,
}

impl MarkTable {
    /// The number of the flow that a packet with `mark`, received on `port`, belongs to.
    #[inline]
    pub(crate) fn find(&self, mark: NonZeroU32, port: PortNumber) -> Result<u32, MarkMiss> {
        let slot = (mark.get() & MAX_SLOT) as usize;
        let entry = self.chunks.get(slot / CHUNK).and_then(|chunk| chunk.get(slot % CHUNK));
        let entry = entry.filter(|entry| entry.mark != 0).ok_or(MarkMiss::Unknown)?;
        if entry.mark != mark.get() && !cfg!(feature = "broken-generation") {
            return Err(MarkMiss::Stale);
        }
        if entry.port != port.0 {
            return Err(MarkMiss::Foreign);
        }
        Ok(entry.flow)
    }

    /// Lets `mark` lead to `flow`.
    pub(crate) fn insert(&mut self, mark: Mark, flow: u32, port: PortNumber) {
        let slot = mark.slot() as usize;
        while self.chunks.len() <= slot / CHUNK {
            self.chunks.push(vec![Entry::default(); CHUNK].into());
        }
        let chunk = self.chunks.get_mut(slot / CHUNK);
        if let Some(entry) = chunk.and_then(|chunk| chunk.get_mut(slot % CHUNK)) {
            *entry = Entry { mark: mark.number().get(), flow, port: port.0 };
        }
    }

    /// Lets `mark` lead nowhere. A newer mark of the slot stays.
    pub(crate) fn remove(&mut self, mark: Mark) {
        let slot = mark.slot() as usize;
        let entry = self.chunks.get_mut(slot / CHUNK).and_then(|chunk| chunk.get_mut(slot % CHUNK));
        if let Some(entry) = entry.filter(|entry| entry.mark == mark.number().get()) {
            *entry = Entry::default();
        }
    }

    /// Forgets every mark.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
    }
}

impl From<NonZeroU32> for Mark {
    fn from(number: NonZeroU32) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_start_at_1_and_pools_share_the_numbers() {
        let mut pools = [MarkPool::new(0, 2, 3), MarkPool::new(1, 2, 3)];
        let mut numbers = vec![];
        for pool in &mut pools {
            while let Some(mark) = pool.take() {
                numbers.push(mark.number().get());
            }
        }
        assert_eq!(numbers, [1, 3, 5, 2, 4, 6]);
        assert_eq!(pools[0].live(), 3);
        let most = MarkPool::new(0, 1, u32::MAX).most;
        assert_eq!(most, MAX_SLOT);
    }

    #[test]
    fn a_slot_waits_until_its_queues_were_drained() {
        let mut pool = MarkPool::new(0, 1, 1);
        let mut watches = [DrainWatch::default(), DrainWatch::default()];
        let drains: Vec<_> = watches.iter().map(|watch| Arc::clone(&watch.drain)).collect();
        let first = pool.take().unwrap();
        assert_eq!(pool.take(), None);
        pool.give_back(first, &drains);
        assert_eq!((pool.take(), pool.live()), (None, 0));
        watches[0].received(0);
        watches[0].received(0);
        watches[1].received(32);
        assert_eq!(pool.take(), None, "the second queue may still hold packets");
        for _ in 0..2 * DRAIN_PACKETS / 32 {
            watches[1].received(32);
        }
        let second = pool.take().unwrap();
        assert_eq!(second.slot(), first.slot());
        assert_eq!((first.generation(), second.generation()), (0, 1));
        pool.give_back(second, &drains);
        assert_eq!(pool.take(), None);
        drop(watches);
        assert_eq!(pool.take().map(Mark::generation), Some(2), "closed queues hold nothing");
    }

    proptest! {
        /// However marks come and go, live ones are distinct, and a table tells them from those
        /// that were.
        #[test]
        fn a_live_mark_names_one_flow(steps in prop::collection::vec(any::<(bool, u8)>(), 1..400)) {
            let mut pool = MarkPool::new(0, 1, 8);
            let mut table = MarkTable::default();
            let (mut live, mut dead): (Vec<(Mark, u32)>, HashSet<Mark>) = Default::default();
            let port = PortNumber(3);
            for (flow, (is_take, choice)) in (1..).zip(steps) {
                if is_take {
                    let Some(mark) = pool.take() else {
                        prop_assert_eq!(live.len(), 8);
                        continue;
                    };
                    prop_assert!(live.iter().all(|(other, _)| *other != mark));
                    prop_assert!(!dead.contains(&mark));
                    live.push((mark, flow));
                    table.insert(mark, flow, port);
                } else if !live.is_empty() {
                    let (mark, _) = live.remove(usize::from(choice) % live.len());
                    table.remove(mark);
                    pool.give_back(mark, &[]);
                    dead.insert(mark);
                }
                prop_assert_eq!(pool.live(), live.len());
                for (mark, flow) in &live {
                    prop_assert_eq!(table.find(mark.number(), port), Ok(*flow));
                    let foreign = table.find(mark.number(), PortNumber(4));
                    prop_assert_eq!(foreign, Err(MarkMiss::Foreign));
                }
                for mark in &dead {
                    prop_assert!(table.find(mark.number(), port).is_err());
                }
            }
        }
    }
}
