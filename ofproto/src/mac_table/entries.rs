//! The entries of a MAC table, in the order of their use.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use netdev::ethernet_address::EthernetAddress;

use crate::port::PortNumber;

/// A VLAN and an address in it.
pub(super) type Station = (u16, EthernetAddress);

/// Where a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) port: PortNumber,
    pub(super) kind: Kind,
}

/// How it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// From packets, the last of which came at this second.
    Learned { used: u64 },
    /// From an operator.
    Static,
}

impl Entry {
    pub(super) fn is_static(&self) -> bool {
        self.kind == Kind::Static
    }

    pub(super) fn used(&self) -> Option<u64> {
        match self.kind {
            Kind::Learned { used } => Some(used),
            Kind::Static => None,
        }
    }
}

/// The entries. A use is known by its number; later ones have higher numbers.
#[derive(Debug, Default)]
pub(super) struct Entries {
    stations: HashMap<Station, (u64, Entry)>,
    uses: BTreeMap<u64, Station>,
    /// Last uses of the learned entries, in all and by port.
    learned: BTreeSet<u64>,
    learned_by_port: HashMap<PortNumber, BTreeSet<u64>>,
    last_use: u64,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.stations.len()
    }

    /// Number of learned entries.
    pub(super) fn learned(&self) -> usize {
        self.learned.len()
    }

    pub(super) fn get(&self, station: &Station) -> Option<&Entry> {
        self.stations.get(station).map(|(_, entry)| entry)
    }

    /// Adds or replaces an entry, which is then the last used.
    pub(super) fn put(&mut self, station: Station, entry: Entry) {
        self.remove(&station);
        self.last_use += 1;
        let this_use = self.last_use;
        self.stations.insert(station, (this_use, entry));
        self.uses.insert(this_use, station);
        if !entry.is_static() {
            self.learned.insert(this_use);
            self.learned_by_port.entry(entry.port).or_default().insert(this_use);
        }
    }

    pub(super) fn remove(&mut self, station: &Station) {
        let Some((last_use, entry)) = self.stations.remove(station) else { return };
        self.uses.remove(&last_use);
        self.learned.remove(&last_use);
        if let Some(uses) = self.learned_by_port.get_mut(&entry.port) {
            uses.remove(&last_use);
            if uses.is_empty() {
                self.learned_by_port.remove(&entry.port);
            }
        }
    }

    /// Removes the entries for which `condition` holds; returns their number.
    pub(super) fn remove_where(&mut self, condition: impl Fn(&Station, &Entry) -> bool) -> usize {
        let stations: Vec<Station> = self
            .iter()
            .filter(|(station, entry)| condition(station, entry))
            .map(|(station, _)| *station)
            .collect();
        stations.iter().for_each(|station| self.remove(station));
        stations.len()
    }

    /// All entries, the least recently used first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Station, &Entry)> {
        self.uses.values().filter_map(|station| Some((station, self.get(station)?)))
    }

    /// The least recently used of the learned entries, and when it was used.
    pub(super) fn oldest_learned(&self) -> Option<(Station, u64)> {
        let station = *self.uses.get(self.learned.first()?)?;
        Some((station, self.get(&station)?.used()?))
    }

    /// The learned entry to give up for another: the least recently used of a port that has the
    /// most, so that no port can push out the stations of others.
    pub(super) fn victim(&self) -> Option<Station> {
        let ports = self.learned_by_port.values();
        let first = |uses: &BTreeSet<u64>| uses.first().copied().unwrap_or(u64::MAX);
        let largest = ports.max_by_key(|uses| (uses.len(), u64::MAX - first(uses)))?;
        self.uses.get(largest.first()?).copied()
    }
}
