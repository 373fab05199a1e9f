//! What the hardware of each port can do, found in one load.
//!
//! Each poll thread has a cache of its own, which it alone reads, and changes when the ports of
//! the datapath do. Port numbers are small as a rule, so they are places of an array; those of
//! dummy datapaths, which follow port names, may lie beyond it and are looked up in a map.

use std::collections::HashMap;

use netdev::flow_api::Capabilities;

use crate::datapath::PortNumber;

/// Numbers below this one are places of the array.
pub(crate) const ARRAY: usize = 1024;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct PortCache {
    array: Box<[Capabilities; ARRAY]>,
    beyond: HashMap<u32, Capabilities>,
}

impl Default for PortCache {
    fn default() -> Self {
        Self { array: Box::new([Capabilities::empty(); ARRAY]), beyond: HashMap::new() }
    }
}

impl PortCache {
    /// What the hardware of a port can do: nothing, for ports that have none.
    #[inline]
    pub(crate) fn capabilities(&self, port: PortNumber) -> Capabilities {
        match self.array.get(port.0 as usize) {
            Some(capabilities) => *capabilities,
            None => self.beyond.get(&port.0).copied().unwrap_or_default(),
        }
    }

    /// Sets what the hardware of a port can do.
    pub(crate) fn set(&mut self, port: PortNumber, capabilities: Capabilities) {
        match self.array.get_mut(port.0 as usize) {
            Some(place) => *place = capabilities,
            None if capabilities.is_empty() && !cfg!(feature = "broken-port-cache") => {
                self.beyond.remove(&port.0);
            }
            None => {
                self.beyond.insert(port.0, capabilities);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Invariant 8: large port numbers equal small ones in effect, and a removed port is gone.
        #[test]
        fn the_cache_equals_a_map(
            steps in prop::collection::vec((0..3u32, 0..4u8), 1..60),
            base in prop_oneof![Just(0u32), Just(1022), Just(70_000), Just(u32::MAX - 3)],
        ) {
            let (mut cache, mut map) = (PortCache::default(), BTreeMap::new());
            for (number, bits) in steps {
                let port = PortNumber(base + number);
                let capabilities = Capabilities::from_bits_truncate(bits);
                cache.set(port, capabilities);
                map.insert(port, capabilities);
                for number in 0..3 {
                    let port = PortNumber(base + number);
                    let expected = map.get(&port).copied().unwrap_or_default();
                    prop_assert_eq!(cache.capabilities(port), expected);
                }
            }
            let used = map.values().filter(|c| !c.is_empty()).count();
            prop_assert!(cache.beyond.len() <= used);
        }
    }
}
