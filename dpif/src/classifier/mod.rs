//! The classifier of one port: finds the flow of a packet by tuple space search.
//!
//! Flows with the same mask share a subtable, a hash table over masked keys. A packet visits the
//! subtables one after the other, those that answer most packets first.

mod index;

use crate::bucket::NO_FLOW;
use crate::flow::PacketKey;
use crate::flow_table::FlowTable;
use index::Index;
use netdev::packet::BATCH_SIZE;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Classifier {
    subtables: Vec<Subtable>,
    flows: usize,
}

#[derive(Debug)]
struct Subtable {
    /// Number of the mask in the flow table.
    mask: u32,
    index: Index,
    /// Packets answered since the subtables were last ranked.
    hits: u64,
}

impl Classifier {
    /// Number of flows.
    pub(crate) fn len(&self) -> usize {
        self.flows
    }

    /// Number of subtables.
    pub(crate) fn subtables(&self) -> usize {
        self.subtables.len()
    }

    /// Adds a flow with mask number `mask`, and `hash` under that mask.
    pub(crate) fn insert(&mut self, mask: u32, hash: u32, flow: u32) {
        let known = self.subtables.iter_mut().position(|subtable| subtable.mask == mask);
        let at = known.unwrap_or_else(|| {
            self.subtables.push(Subtable { mask, index: Index::default(), hits: 0 });
            self.subtables.len() - 1
        });
        if let Some(subtable) = self.subtables.get_mut(at) {
            subtable.index.insert(hash, flow);
            self.flows += 1;
        }
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, mask: u32, hash: u32, flow: u32) {
        let Some(at) = self.subtables.iter().position(|subtable| subtable.mask == mask) else {
            return;
        };
        let Some(subtable) = self.subtables.get_mut(at) else { return };
        self.flows -= usize::from(subtable.index.remove(hash, flow));
        if subtable.index.len() == 0 {
            self.subtables.remove(at);
        }
    }

    /// Puts the subtables that answered most packets first. Called once a second.
    pub(crate) fn rank(&mut self) {
        self.subtables.sort_by_key(|subtable| u64::MAX - subtable.hits);
        self.subtables.iter_mut().for_each(|subtable| subtable.hits = 0);
    }

    /// Finds the flows of those packets of a batch whose bit is set in `wanted`. Returns the bits
    /// of those that were found, whose flows are in `found`, and how many subtables these visited.
    pub(crate) fn find(
        &mut self,
        flows: &FlowTable,
        seed: u64,
        keys: &[PacketKey; BATCH_SIZE],
        wanted: u32,
        found: &mut [u32; BATCH_SIZE],
    ) -> (u32, u64) {
        let (mut left, mut visited, mut unverified) = (wanted, 0, 0);
        let mut hashes = [0; BATCH_SIZE];
        for (rank, subtable) in (1..).zip(&mut self.subtables) {
            let Some(mask) = flows.mask(subtable.mask) else { continue };
            for packet in bits(left) {
                let hash = mask.hash(keys[packet].key(), seed);
                hashes[packet] = hash;
                subtable.index.prefetch(hash);
            }
            // Without branches on what is found: whole hashes are equal by accident once in 2^32
            // comparisons, so that verifying can wait.
            let (mut hits, mut elsewhere) = (0, 0);
            for packet in bits(left) {
                let (flow, is_elsewhere) = subtable.index.candidate(hashes[packet]);
                found[packet] = flow;
                hits |= u32::from(flow != NO_FLOW) << packet;
                elsewhere |= u32::from(is_elsewhere) << packet;
            }
            unverified |= hits;
            for packet in bits(elsewhere) {
                let key = keys[packet].key();
                let verify = |flow| flows.matches_with(flow, subtable.mask, key);
                if let Some(flow) = subtable.index.find(hashes[packet], verify) {
                    found[packet] = flow;
                    hits |= 1 << packet;
                }
            }
            left &= !hits;
            subtable.hits += u64::from(hits.count_ones());
            visited += rank * u64::from(hits.count_ones());
            if left == 0 {
                break;
            }
        }
        let mut wrong = 0;
        bits(unverified).for_each(|packet| flows.prefetch(found[packet]));
        for packet in bits(unverified) {
            let is_right = flows.matches(found[packet], keys[packet].key());
            wrong |= u32::from(!is_right) << packet;
        }
        for packet in bits(wrong) {
            match self.find_one(flows, seed, &keys[packet]) {
                Some(flow) => found[packet] = flow,
                None => left |= 1 << packet,
            }
        }
        (wanted & !left, visited)
    }

    /// Finds the flow of one packet.
    pub(crate) fn find_one(&self, flows: &FlowTable, seed: u64, key: &PacketKey) -> Option<u32> {
        let key = key.key();
        self.subtables.iter().find_map(|subtable| {
            let hash = flows.mask(subtable.mask)?.hash(key, seed);
            subtable.index.find(hash, |flow| flows.matches_with(flow, subtable.mask, key))
        })
    }

    /// Finds the flow with exactly this mask that takes packets with this key.
    pub(crate) fn find_with(
        &self,
        flows: &FlowTable,
        seed: u64,
        mask: &crate::flow::FlowMask,
        key: &crate::flow::FlowKey,
    ) -> Option<u32> {
        let same = |subtable: &&Subtable| flows.mask(subtable.mask) == Some(mask);
        let subtable = self.subtables.iter().find(same)?;
        let verify = |flow| flow != NO_FLOW && flows.matches_with(flow, subtable.mask, key);
        subtable.index.find(mask.hash(key, seed), verify)
    }
}

/// The positions of the bits of `set`, lowest first; all below [`BATCH_SIZE`].
#[inline]
pub(crate) fn bits(set: u32) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        let position = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (position < BATCH_SIZE).then_some(position)
    })
}

const _: () = assert!(BATCH_SIZE == u32::BITS as usize);

#[cfg(test)]
mod tests;
