//! Where stations are: which port a switch saw a source address on, per VLAN.
//!
//! Poll threads read and change the table while their packets wait, so most of what they do needs
//! a read lock alone.

mod busiest;
mod entries;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use netdev::clock;
use netdev::coverage::Counter;
use netdev::ethernet_address::EthernetAddress;

use crate::epoch::Epoch;
use crate::port::PortNumber;
use crate::port_settings::VlanSet;
use entries::{Entries, Entry, Kind, Station};

pub(crate) static LEARNED: Counter = Counter::new("mac_learning_learned");
pub(crate) static EXPIRED: Counter = Counter::new("mac_learning_expired");
pub(crate) static EVICTED: Counter = Counter::new("mac_learning_evicted");
pub(crate) static MOVED: Counter = Counter::new("mac_learning_moved");
pub(crate) static STATIC_NONE_MOVE: Counter = Counter::new("mac_learning_static_none_move");

/// Seconds after which an address that sent nothing is forgotten (IEEE 802.1D, table 7-5).
const DEFAULT_AGEING: u64 = 300;
/// Most entries, unless the configuration says otherwise.
const DEFAULT_SIZE: usize = 8192;

/// An entry as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacEntry {
    /// The VLAN.
    pub vlan: u16,
    /// The address.
    pub address: EthernetAddress,
    /// The port; one of several members is known by the first of them.
    pub port: PortNumber,
    /// Seconds since the address last sent; `None` when an operator put the entry there.
    pub age: Option<u64>,
}

/// What a table has counted since it was made or cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacStatistics {
    /// Entries made for packets.
    pub learned: u64,
    /// Entries that became too old.
    pub expired: u64,
    /// Entries that made room for others.
    pub evicted: u64,
    /// Addresses that went from one port to another.
    pub moved: u64,
}

/// How full a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacOccupancy {
    /// Entries.
    pub entries: usize,
    /// Of these, entries put there by operators.
    pub static_entries: usize,
    /// Most entries.
    pub size: usize,
}

/// The table of one switch.
#[derive(Debug)]
pub struct MacTable {
    table: RwLock<Table>,
    epoch: Arc<Epoch>,
}

#[derive(Debug)]
struct Table {
    entries: Entries,
    /// Seconds.
    ageing: u64,
    size: usize,
    /// VLANs whose packets all go everywhere.
    flooded: Option<VlanSet>,
    /// When all addresses on a port were forgotten last.
    forgotten: BTreeMap<PortNumber, Duration>,
    statistics: MacStatistics,
}

impl MacTable {
    /// An empty table, whose changes count in `epoch`.
    pub fn new(epoch: Arc<Epoch>) -> Self {
        let table = Table {
            entries: Entries::default(),
            ageing: DEFAULT_AGEING,
            size: DEFAULT_SIZE,
            flooded: None,
            forgotten: BTreeMap::new(),
            statistics: MacStatistics::default(),
        };
        Self { table: RwLock::new(table), epoch }
    }

    /// Sets the seconds after which a silent address is forgotten (`mac-aging-time`, 15 to 3600).
    pub fn set_ageing(&self, seconds: u64) {
        self.write().ageing = seconds.clamp(15, 3600);
    }

    /// Sets the most entries (`mac-table-size`, 10 to 1,000,000). What is too much is forgotten at
    /// the next [`expire`](Self::expire).
    pub fn set_size(&self, entries: usize) {
        self.write().size = entries.clamp(10, 1_000_000);
    }

    /// Sets the VLANs in which nothing is learned and all packets are flooded
    /// (`Bridge.flood_vlans`).
    pub fn set_flooded_vlans(&self, vlans: Option<VlanSet>) {
        let mut table = self.write();
        if table.flooded != vlans {
            table.flooded = vlans;
            drop(table);
            self.epoch.advance();
        }
    }

    /// The port of the station with this address.
    pub fn lookup(&self, vlan: u16, address: EthernetAddress) -> Option<PortNumber> {
        let table = self.read();
        let is_known = !address.is_multicast() && table.learns(vlan);
        is_known.then(|| Some(table.entries.get(&(vlan, address))?.port)).flatten()
    }

    /// Takes note that `address` sent on `port`. Returns whether that was news.
    pub fn learn(&self, vlan: u16, address: EthernetAddress, port: PortNumber) -> bool {
        let now = seconds();
        let station = (vlan, address);
        if !self.read().needs_update(&station, port, now) {
            return false;
        }
        let mut table = self.write();
        // Another thread may have been first.
        if !table.needs_update(&station, port, now) {
            return false;
        }
        let is_news = table.learn(station, port, now);
        drop(table);
        if is_news {
            self.epoch.advance();
        }
        is_news
    }

    /// Takes note that `address` sent on `port` at some time, unless it is known to have sent
    /// since, or the port's addresses were forgotten since. Flows tell so of their packets, after
    /// the fact.
    pub fn refresh(&self, vlan: u16, address: EthernetAddress, port: PortNumber, time: Duration) {
        let table = self.read();
        if table.forgotten.get(&port).is_some_and(|forgotten| *forgotten > time) {
            return;
        }
        let known = table.entries.get(&(vlan, address)).and_then(Entry::used);
        drop(table);
        if known.is_none_or(|known| known < time.as_secs()) {
            self.learn(vlan, address, port);
        }
    }

    /// Puts an entry there that never ages and that no packet changes (`fdb/add`). Returns whether
    /// there was room.
    pub fn add_static(&self, vlan: u16, address: EthernetAddress, port: PortNumber) -> bool {
        let mut table = self.write();
        let station = (vlan, address);
        let old = table.entries.get(&station).map(|entry| entry.port);
        if old.is_none() && !table.make_room() {
            return false;
        }
        table.entries.put(station, Entry { port, kind: Kind::Static });
        drop(table);
        if old != Some(port) {
            self.epoch.advance();
        }
        true
    }

    /// Removes an entry that [`add_static`](Self::add_static) put there (`fdb/del`). Returns
    /// whether there was one.
    pub fn remove_static(&self, vlan: u16, address: EthernetAddress) -> bool {
        let mut table = self.write();
        let station = (vlan, address);
        let is_static = table.entries.get(&station).is_some_and(Entry::is_static);
        if is_static {
            table.entries.remove(&station);
            drop(table);
            self.epoch.advance();
        }
        is_static
    }

    /// Forgets every learned address (`fdb/flush`).
    pub fn flush(&self) {
        self.remove_where(|_, entry| !entry.is_static());
    }

    /// Forgets every address on `port`, when the port goes or means something else.
    pub fn flush_port(&self, port: PortNumber) {
        self.write().forgotten.insert(port, clock::now());
        self.remove_where(|_, entry| entry.port == port);
    }

    /// Forgets one learned address.
    pub fn forget(&self, vlan: u16, address: EthernetAddress) {
        self.remove_where(|station, entry| *station == (vlan, address) && !entry.is_static());
    }

    fn remove_where(&self, condition: impl Fn(&Station, &Entry) -> bool) {
        if self.write().entries.remove_where(condition) > 0 {
            self.epoch.advance();
        }
    }

    /// Forgets addresses that were silent for too long or are too many. Returns the time of the
    /// switch's clock at which there is more to do, if ever.
    pub fn expire(&self) -> Option<Duration> {
        let now = seconds();
        let mut table = self.write();
        let before = table.statistics.expired;
        let next = table.expire(now);
        let is_news = table.statistics.expired != before;
        drop(table);
        if is_news {
            self.epoch.advance();
        }
        next.map(Duration::from_secs)
    }

    /// All entries, the least recently used first.
    pub fn entries(&self) -> Vec<MacEntry> {
        let now = seconds();
        let table = self.read();
        let entries = table.entries.iter().map(|(&(vlan, address), entry)| {
            let age = entry.used().map(|used| now.saturating_sub(used));
            MacEntry { vlan, address, port: entry.port, age }
        });
        entries.collect()
    }

    /// What it has counted.
    pub fn statistics(&self) -> MacStatistics {
        self.read().statistics
    }

    /// Starts counting from 0 again.
    pub fn clear_statistics(&self) {
        self.write().statistics = MacStatistics::default();
    }

    /// How full it is.
    pub fn occupancy(&self) -> MacOccupancy {
        let table = self.read();
        MacOccupancy {
            entries: table.entries.len(),
            static_entries: table.entries.len() - table.entries.learned(),
            size: table.size,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn learns(&self, vlan: u16) -> bool {
        self.flooded.as_ref().is_none_or(|vlans| !vlans.contains(vlan))
    }

    /// Whether a packet of `station` on `port` changes the table.
    fn needs_update(&self, station: &Station, port: PortNumber, now: u64) -> bool {
        let &(vlan, address) = station;
        if address.is_multicast() || !self.learns(vlan) {
            return false;
        }
        match self.entries.get(station) {
            None => true,
            Some(Entry { port: known, kind: Kind::Learned { used } }) => {
                *known != port || *used < now
            }
            Some(Entry { port: known, kind: Kind::Static }) => {
                if *known != port {
                    STATIC_NONE_MOVE.add(1);
                }
                false
            }
        }
    }

    fn learn(&mut self, station: Station, port: PortNumber, now: u64) -> bool {
        let known = self.entries.get(&station).map(|entry| entry.port);
        match known {
            Some(known) if known == port => {}
            Some(_) => {
                self.statistics.moved += 1;
                MOVED.add(1);
            }
            None => {
                if !self.make_room() {
                    return false;
                }
                self.statistics.learned += 1;
                LEARNED.add(1);
            }
        }
        self.entries.put(station, Entry { port, kind: Kind::Learned { used: now } });
        known != Some(port)
    }

    /// Makes room for one entry, if there is any that may go.
    fn make_room(&mut self) -> bool {
        if self.entries.len() < self.size {
            return true;
        }
        let Some(victim) = self.entries.victim() else { return false };
        self.entries.remove(&victim);
        self.statistics.evicted += 1;
        EVICTED.add(1);
        true
    }

    fn expire(&mut self, now: u64) -> Option<u64> {
        while let Some((oldest, used)) = self.entries.oldest_learned() {
            let end = used + self.ageing;
            if now < end && self.entries.len() <= self.size {
                return Some(end);
            }
            self.entries.remove(&oldest);
            self.statistics.expired += 1;
            EXPIRED.add(1);
        }
        None
    }
}

/// The switch's clock in whole seconds, by which entries age.
fn seconds() -> u64 {
    clock::now().as_secs()
}

#[cfg(test)]
mod tests;
