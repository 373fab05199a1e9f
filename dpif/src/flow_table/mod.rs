//! The flows of one thread, by number.
//!
//! Caches and classifiers know a flow by its number alone. What a hit needs of a flow lies in two
//! cache lines: the first line of its masked key, and what to do. Entries never move, so a table
//! of any size grows without a pause.

mod masks;
mod record;
mod text;

use std::sync::Arc;

use netdev::cpu;

use crate::action::Action;
use crate::bucket::NO_FLOW;
use crate::datapath::PortNumber;
use crate::drop::DropReason;
use crate::flow::{FlowKey, FlowMask, LINE_WORDS, Line};
use masks::{Masks, NO_MASK};
pub use record::{FlowRecord, FlowStatistics, WorkerId};

/// Entries per chunk of memory.
const CHUNK: usize = 512;

/// What becomes of the packets of a flow.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// They come to one end, unchanged.
    End(End),
    /// Anything else.
    Actions(Arc<[Action]>),
}

/// Where packets go that nothing is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// They leave by a port.
    Output(PortNumber),
    /// They are dropped.
    Drop(DropReason),
}

impl Plan {
    pub(crate) fn new(actions: &Arc<[Action]>) -> Self {
        match actions.as_ref() {
            [] => Self::End(End::Drop(DropReason::Pipeline)),
            [Action::Output(port)] => Self::End(End::Output(PortNumber(*port))),
            [Action::Drop { reason }] => Self::End(End::Drop(DropReason::of_action(*reason))),
            _ => Self::Actions(Arc::clone(actions)),
        }
    }
}

/// A flow. The number of its mask is [`NO_MASK`] while the entry is free.
#[derive(Debug)]
#[repr(C, align(64))]
struct Entry {
    /// First line of the masked key.
    line: Line,
    mask: u32,
    hash: u32,
    plan: Plan,
    record: Option<Arc<FlowRecord>>,
}

impl Entry {
    /// Matches nothing: no key under the empty mask is anything but 0.
    fn free() -> Self {
        let mut line = [0; LINE_WORDS];
        line[0] = 1;
        Self { line, mask: NO_MASK, hash: 0, plan: Plan::Actions(Arc::new([])), record: None }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct FlowTable {
    chunks: Vec<Box<[Entry; CHUNK]>>,
    masks: Masks,
    free: Vec<u32>,
}

impl FlowTable {
    pub(crate) fn new() -> Self {
        let mut table = Self { chunks: vec![], masks: Masks::default(), free: vec![] };
        table.add_chunk();
        // Never given out, so that a look-up may guess it and fail.
        table.free.retain(|&number| number != NO_FLOW);
        table
    }

    fn add_chunk(&mut self) {
        let first = (self.chunks.len() * CHUNK) as u32;
        self.chunks.push(Box::new(std::array::from_fn(|_| Entry::free())));
        // The lowest number comes off first.
        self.free.extend((first..first + CHUNK as u32).rev());
    }

    #[inline]
    fn entry(&self, number: u32) -> Option<&Entry> {
        let number = number as usize;
        Some(&self.chunks.get(number / CHUNK)?[number % CHUNK])
    }

    fn entry_mut(&mut self, number: u32) -> Option<&mut Entry> {
        let number = number as usize;
        Some(&mut self.chunks.get_mut(number / CHUNK)?[number % CHUNK])
    }

    /// Asks for the lines of a flow ahead of their use.
    #[inline]
    pub(crate) fn prefetch(&self, number: u32) {
        if let Some(entry) = self.entry(number) {
            cpu::prefetch(&entry.line);
            cpu::prefetch(&entry.mask);
        }
    }

    /// Whether the flow is there and takes packets with this key. Asks for its counters ahead of
    /// their use.
    #[inline]
    pub(crate) fn matches(&self, number: u32, key: &FlowKey) -> bool {
        let Some(entry) = self.entry(number) else { return false };
        if let Some(record) = &entry.record {
            cpu::prefetch(&**record);
        }
        self.takes(entry, key)
    }

    #[inline]
    fn takes(&self, entry: &Entry, key: &FlowKey) -> bool {
        let Some(mask) = self.masks.get(entry.mask) else { return false };
        let (first, bits) = (&key.lines()[0], &mask.mask.bits().lines()[0]);
        let mut differences = 0;
        for word in 0..LINE_WORDS {
            differences |= first[word] & bits[word] ^ entry.line[word];
        }
        differences == 0
            && (mask.is_short
                || entry
                    .record
                    .as_ref()
                    .is_some_and(|record| mask.mask.matches(key, record.masked())))
    }

    /// Whether the flow is there, has mask number `mask` and takes packets with this key.
    #[inline]
    pub(crate) fn matches_with(&self, number: u32, mask: u32, key: &FlowKey) -> bool {
        self.entry(number).is_some_and(|entry| entry.mask == mask && self.takes(entry, key))
    }

    /// What to do with packets of the flow, and the record to count them in.
    #[inline]
    pub(crate) fn hit(&self, number: u32) -> Option<(&Plan, &Arc<FlowRecord>)> {
        let entry = self.entry(number)?;
        Some((&entry.plan, entry.record.as_ref()?))
    }

    /// Asks for what to do with packets of a flow ahead of its use.
    #[inline]
    pub(crate) fn prefetch_plan(&self, number: u32) {
        if let Some(entry) = self.entry(number) {
            cpu::prefetch(&entry.mask);
        }
    }

    /// Asks for the counters of a flow ahead of their use.
    #[inline]
    pub(crate) fn prefetch_counters(&self, number: u32) {
        if let Some(record) = self.entry(number).and_then(|entry| entry.record.as_deref()) {
            cpu::prefetch(record);
        }
    }

    /// The end of the numbers that flows have.
    pub(crate) fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    /// The record of a flow.
    pub(crate) fn record(&self, number: u32) -> Option<&Arc<FlowRecord>> {
        self.entry(number)?.record.as_ref()
    }

    /// Number of the mask of a flow, and its hash under that mask.
    pub(crate) fn mask_and_hash(&self, number: u32) -> Option<(u32, u32)> {
        self.entry(number).filter(|entry| entry.record.is_some()).map(|e| (e.mask, e.hash))
    }

    /// Mask number `number`.
    #[inline]
    pub(crate) fn mask(&self, number: u32) -> Option<&FlowMask> {
        self.masks.get(number).map(|shared| &shared.mask)
    }

    /// Adds a flow and returns its number. `seed` is that of the classifier's hashes.
    pub(crate) fn insert(&mut self, record: Arc<FlowRecord>, seed: u64) -> u32 {
        let number = loop {
            match self.free.pop() {
                Some(number) => break number,
                None => self.add_chunk(),
            }
        };
        let mask = self.masks.take(record.mask());
        let fresh = Entry {
            line: record.masked().lines()[0],
            mask,
            hash: record.mask().hash(record.masked(), seed),
            plan: Plan::new(&record.actions()),
            record: Some(record),
        };
        if let Some(entry) = self.entry_mut(number) {
            *entry = fresh;
        }
        number
    }

    /// Gives a flow other actions.
    pub(crate) fn set_actions(&mut self, number: u32, actions: Arc<[Action]>) {
        if let Some(entry) = self.entry_mut(number)
            && let Some(record) = &entry.record
        {
            entry.plan = Plan::new(&actions);
            record.set_actions(actions);
        }
    }

    /// Removes a flow and returns its record.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Arc<FlowRecord>> {
        let entry = self.entry_mut(number)?;
        let record = entry.record.take()?;
        let mask = entry.mask;
        *entry = Entry::free();
        self.masks.give_back(mask);
        self.free.push(number);
        record.set_dead();
        Some(record)
    }

    /// The numbers of all flows.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.iter());
        (0..).zip(entries).filter(|(_, entry)| entry.record.is_some()).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Field, Ufid};

    fn record(port: u128) -> Arc<FlowRecord> {
        let (mut key, mut bits) = (FlowKey::default(), FlowKey::default());
        key.set(Field::InPort, port);
        bits.set(Field::InPort, u128::MAX);
        let actions: Arc<[Action]> = Arc::new([Action::Output(2)]);
        Arc::new(FlowRecord::new(Ufid(port), WorkerId::Main, key, FlowMask::new(bits), actions))
    }

    #[test]
    fn numbers_are_used_again_and_free_ones_match_nothing() {
        let mut table = FlowTable::new();
        let numbers: Vec<u32> = (1..=600).map(|port| table.insert(record(port), 0)).collect();
        assert_eq!(numbers, (1..=600).collect::<Vec<_>>());
        let (zero, seven) = (FlowKey::default(), record(7).key().clone());
        assert!(!table.matches(NO_FLOW, &zero) && !table.matches(5000, &zero));
        assert!(table.matches(7, &seven) && !table.matches(7, &zero));
        let removed = table.remove(7).unwrap();
        assert_eq!((removed.ufid(), removed.is_dead()), (Ufid(7), true));
        assert!(!table.matches(7, &seven) && !table.matches(7, &zero));
        assert_eq!(table.remove(7).map(|record| record.ufid()), None);
        assert_eq!(table.insert(record(9), 0), 7);
        assert_eq!(table.numbers().count(), 600);
    }

    #[test]
    fn actions_change_in_place() {
        let mut table = FlowTable::new();
        let number = table.insert(record(1), 0);
        assert!(matches!(table.hit(number), Some((Plan::End(End::Output(PortNumber(2))), _))));
        table.set_actions(number, Arc::new([]));
        let (plan, record) = table.hit(number).unwrap();
        assert!(matches!(plan, Plan::End(End::Drop(DropReason::Pipeline))));
        assert_eq!(record.actions(), Arc::from([]));
    }

    #[test]
    fn counts_are_read_elsewhere() {
        let record = record(1);
        assert_eq!(record.statistics(), FlowStatistics::default());
        record.count(2, 128, 0x12, 0);
        record.count(1, 60, 0x01, 5);
        let expected = FlowStatistics {
            packets: 3,
            bytes: 188,
            used: Some(Duration::from_millis(5)),
            tcp_flags: 0x13,
        };
        assert_eq!(record.statistics(), expected);
        record.clear_statistics();
        assert_eq!(record.statistics(), FlowStatistics::default());
    }

    use std::time::Duration;
}
