//! From the keys of a batch to their flows: the flows of a thread, and the tables in front of
//! them.

use std::sync::Arc;

use netdev::packet::BATCH_SIZE;

use super::statistics::Counters;
use crate::action::Action;
use crate::cache::signature::SignatureCache;
use crate::cache::simple_match::{SimpleKey, SimpleMatch};
use crate::classifier::{Classifier, bits};
use crate::datapath::PortNumber;
use crate::execute::Random;
use crate::flow::{FlowKey, FlowMask, PacketKey};
use crate::flow_table::{FlowRecord, FlowTable};
use crate::port_map::PortMap;

/// Which caches a port uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachePolicy {
    /// One packet in so many enters the exact-match cache; 0 is none.
    pub(crate) exact_one_in: u32,
    /// Whether there is a signature cache.
    pub(crate) signature: bool,
}

/// The flows of the packets that came in on one port.
#[derive(Default)]
struct InPort {
    classifier: Classifier,
    simple: SimpleMatch,
}

/// Keys of a batch and what is found for them. Places behind the batch hold what was there before.
pub(crate) struct Keys {
    pub(crate) keys: Box<[PacketKey; BATCH_SIZE]>,
    /// Hashes of the packets, if they were computed because their port uses the caches.
    pub(crate) hashes: [u32; BATCH_SIZE],
    pub(crate) is_hashed: bool,
    pub(crate) flows: [u32; BATCH_SIZE],
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self {
            keys: Box::new(std::array::from_fn(|_| PacketKey::default())),
            hashes: [0; BATCH_SIZE],
            is_hashed: false,
            flows: [0; BATCH_SIZE],
        }
    }
}

/// See the [module](self).
pub(crate) struct Lookup {
    pub(crate) flows: FlowTable,
    ports: PortMap<InPort>,
    cache: SignatureCache,
    random: Random,
    seed: u64,
}

impl Lookup {
    /// Tables without flows. `seed` is secret, so that nobody can choose packets whose hashes
    /// collide.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            flows: FlowTable::new(),
            ports: PortMap::default(),
            cache: SignatureCache::new(),
            random: Random::new(seed),
            seed,
        }
    }

    /// Finds the flows of the packets in `wanted`, which all came in on `port`. Returns the bits
    /// of those that have none.
    pub(crate) fn find(
        &mut self,
        port: PortNumber,
        keys: &mut Keys,
        wanted: u32,
        policy: CachePolicy,
        is_first_pass: bool,
        counters: &Counters,
    ) -> u32 {
        let Some(in_port) = self.ports.get_mut(port) else { return wanted };
        if is_first_pass && in_port.simple.is_on() {
            let mut missing = wanted;
            for packet in bits(wanted) {
                let simple = SimpleKey::of(keys.keys[packet].key());
                if let Some(flow) = in_port.simple.find(simple) {
                    keys.flows[packet] = flow;
                    missing &= !(1 << packet);
                }
            }
            counters.simple_hits.add(u64::from((wanted & !missing).count_ones()));
            // No flow of the port looks at anything else.
            return missing;
        }

        let mut missing = wanted;
        if keys.is_hashed {
            missing = self.find_cached(keys, wanted, policy, counters);
            self.cache.weigh(wanted.count_ones());
        }
        if missing == 0 {
            return 0;
        }
        let Some(in_port) = self.ports.get_mut(port) else { return missing };
        let Keys { keys, hashes, flows, is_hashed } = keys;
        let (hits, visited) = in_port.classifier.find(&self.flows, self.seed, keys, missing, flows);
        counters.megaflow_hits.add(u64::from(hits.count_ones()));
        counters.subtables_visited.add(visited);
        if *is_hashed {
            for packet in bits(hits) {
                let is_exact = enters(&mut self.random, policy);
                self.cache.insert(hashes[packet], flows[packet], is_exact);
            }
        }
        missing & !hits
    }

    /// Asks for what the caches have for a hash ahead of [`Self::find`].
    #[inline]
    pub(crate) fn prefetch(&self, hash: u32) {
        self.cache.prefetch(hash);
    }

    /// The same in the signature cache alone.
    fn find_cached(
        &mut self,
        keys: &mut Keys,
        wanted: u32,
        policy: CachePolicy,
        counters: &Counters,
    ) -> u32 {
        let Keys { keys, hashes, flows, .. } = keys;
        let mut exact = 0;
        for packet in bits(wanted) {
            let entry = self.cache.find(hashes[packet]);
            exact |= u32::from(entry.is_exact()) << packet;
            flows[packet] = entry.flow();
            self.flows.prefetch(entry.flow());
        }
        let mut hits = 0;
        for packet in bits(wanted) {
            let is_hit = self.flows.matches(flows[packet], keys[packet].key());
            hits |= u32::from(is_hit) << packet;
        }
        if policy.exact_one_in == 0 {
            exact = 0;
        }
        for packet in bits(hits & !exact) {
            if enters(&mut self.random, policy) {
                self.cache.insert(hashes[packet], flows[packet], true);
            }
        }
        let others = u64::from((hits & !exact).count_ones());
        counters.exact_hits.add(u64::from((hits & exact).count_ones()));
        if policy.signature {
            counters.signature_hits.add(others);
        } else {
            // Operators know no third cache: it saved a visit to the subtable it stands for.
            counters.megaflow_hits.add(others);
            counters.subtables_visited.add(others);
        }
        wanted & !hits
    }

    /// Whether packets of a port go through the caches. Behind one subtable these cost more than
    /// they save.
    pub(crate) fn is_cached(&self, port: PortNumber, policy: CachePolicy) -> bool {
        let subtables = self.ports.get(port).map_or(0, |in_port| in_port.classifier.subtables());
        subtables > 1 || policy.exact_one_in == 1 || policy.signature
    }

    /// Number of masks of the flows of a port.
    #[cfg(test)]
    pub(crate) fn subtables(&self, port: PortNumber) -> usize {
        self.ports.get(port).map_or(0, |in_port| in_port.classifier.subtables())
    }

    /// Simple match for packets of a port, if that is all it takes.
    pub(crate) fn simple(&self, port: PortNumber) -> Option<&SimpleMatch> {
        self.ports.get(port).map(|in_port| &in_port.simple).filter(|simple| simple.is_on())
    }

    /// Finds the flow of one packet in the classifier alone.
    pub(crate) fn find_one(&self, port: PortNumber, key: &PacketKey) -> Option<u32> {
        self.ports.get(port)?.classifier.find_one(&self.flows, self.seed, key)
    }

    /// Finds the flow with exactly this mask that takes packets with this key.
    pub(crate) fn find_with(&self, key: &FlowKey, mask: &FlowMask) -> Option<u32> {
        let port = self.ports.get(PortNumber(key.in_port.get()))?;
        port.classifier.find_with(&self.flows, self.seed, mask, key)
    }

    /// Lets the caches know the flow of a packet for which there was none.
    pub(crate) fn remember(&mut self, hash: u32, flow: u32, policy: CachePolicy) {
        let is_exact = enters(&mut self.random, policy);
        self.cache.insert(hash, flow, is_exact);
    }

    /// Adds a flow and returns its number.
    pub(crate) fn insert(&mut self, record: Arc<FlowRecord>) -> u32 {
        let port = PortNumber(record.key().in_port.get());
        let number = self.flows.insert(Arc::clone(&record), self.seed);
        if self.ports.get(port).is_none() {
            self.ports.insert(port, InPort::default());
        }
        if let Some(in_port) = self.ports.get_mut(port)
            && let Some((mask, hash)) = self.flows.mask_and_hash(number)
        {
            in_port.classifier.insert(mask, hash, number);
            in_port.simple.insert(record.key(), record.mask(), number);
        }
        number
    }

    /// Gives a flow other actions.
    pub(crate) fn set_actions(&mut self, number: u32, actions: Arc<[Action]>) {
        self.flows.set_actions(number, actions);
    }

    /// Removes a flow and returns its record.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Arc<FlowRecord>> {
        let (mask, hash) = self.flows.mask_and_hash(number)?;
        let port = PortNumber(self.flows.record(number)?.key().in_port.get());
        if let Some(in_port) = self.ports.get_mut(port) {
            in_port.classifier.remove(mask, hash, number);
            let record = self.flows.record(number)?;
            in_port.simple.remove(record.key(), record.mask(), number);
            if in_port.classifier.len() == 0 {
                self.ports.remove(port);
            }
        }
        self.flows.remove(number)
    }

    /// Removes every flow and returns their records.
    pub(crate) fn clear(&mut self) -> Vec<Arc<FlowRecord>> {
        let numbers: Vec<u32> = self.flows.numbers().collect();
        self.ports = PortMap::default();
        self.cache.clear();
        numbers.into_iter().filter_map(|number| self.flows.remove(number)).collect()
    }

    /// Ranks the subtables of every port. Called once a second.
    pub(crate) fn rank(&mut self) {
        self.ports.values_mut().for_each(|port| port.classifier.rank());
    }
}

/// Whether a packet enters the exact-match cache.
#[inline]
fn enters(random: &mut Random, policy: CachePolicy) -> bool {
    match policy.exact_one_in {
        0 => false,
        1 => true,
        one_in => random.next() <= u32::MAX / one_in,
    }
}
