//! The entries of a MAC table, in the order of their use.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use netdev::ethernet_address::EthernetAddress;

use super::busiest::Busiest;
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

    /// The port, if it is known from packets.
    fn learned_on(&self) -> Option<PortNumber> {
        (!self.is_static()).then_some(self.port)
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
    busiest: Busiest,
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
        let old = self.take(&station).and_then(|old| old.learned_on());
        self.last_use += 1;
        let this_use = self.last_use;
        self.stations.insert(station, (this_use, entry));
        self.uses.insert(this_use, station);
        let new = entry.learned_on();
        if let Some(port) = new {
            self.learned.insert(this_use);
            self.learned_by_port.entry(port).or_default().insert(this_use);
        }
        if old != new {
            old.into_iter().for_each(|port| self.busiest.take(port));
            new.into_iter().for_each(|port| self.busiest.add(port));
        }
    }

    pub(super) fn remove(&mut self, station: &Station) {
        if let Some(port) = self.take(station).and_then(|entry| entry.learned_on()) {
            self.busiest.take(port);
        }
    }

    /// Removes an entry, which still counts for its port.
    fn take(&mut self, station: &Station) -> Option<Entry> {
        let (last_use, entry) = self.stations.remove(station)?;
        self.uses.remove(&last_use);
        self.learned.remove(&last_use);
        if let Some(uses) = self.learned_by_port.get_mut(&entry.port) {
            uses.remove(&last_use);
            if uses.is_empty() {
                self.learned_by_port.remove(&entry.port);
            }
        }
        Some(entry)
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
        let uses = self.learned_by_port.get(&self.busiest.first()?)?;
        self.uses.get(uses.first()?).copied()
    }
}
