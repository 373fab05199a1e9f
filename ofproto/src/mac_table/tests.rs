//! The table against an obvious one.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const PORT: [PortNumber; 3] = [PortNumber(1), PortNumber(2), PortNumber(7)];

fn address(last: u8) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 0, last])
}

fn table(size: usize) -> Table {
    Table {
        entries: Entries::default(),
        ageing: 20,
        size,
        flooded: Some([4].into_iter().collect()),
        forgotten: BTreeMap::new(),
        statistics: MacStatistics::default(),
    }
}

/// Entries in the order of their use.
#[derive(Default)]
struct Model {
    entries: Vec<(Station, Entry)>,
    statistics: MacStatistics,
}

impl Model {
    /// Gives `victim` up for another if there is no room. It must be the least recently used
    /// station of one of the ports that have the most.
    fn make_room(&mut self, victim: Option<Station>) -> bool {
        if self.entries.len() < 5 {
            return true;
        }
        let learned = self.entries.iter().filter(|(_, entry)| !entry.is_static());
        let mut counts: BTreeMap<PortNumber, usize> = BTreeMap::new();
        learned.clone().for_each(|(_, entry)| *counts.entry(entry.port).or_default() += 1);
        let most = counts.values().max().copied();
        let mut firsts =
            counts.iter().filter(|(_, count)| Some(**count) == most).map(|(port, _)| {
                learned.clone().find(|(_, entry)| entry.port == *port).map(|(station, _)| *station)
            });
        assert!(firsts.any(|first| first == victim) || counts.is_empty() && victim.is_none());
        let Some(victim) = victim else { return false };
        self.entries.retain(|(station, _)| *station != victim);
        self.statistics.evicted += 1;
        true
    }

    fn put(&mut self, station: Station, entry: Entry) {
        self.entries.retain(|(other, _)| *other != station);
        self.entries.push((station, entry));
    }

    fn learn(&mut self, station: Station, port: PortNumber, now: u64, victim: Option<Station>) {
        let known = self.entries.iter().find(|(other, _)| *other == station);
        match known.map(|(_, entry)| *entry) {
            _ if station.0 == 4 || station.1.is_multicast() => return,
            Some(entry) if entry.is_static() => return,
            Some(entry) if entry.port == port && entry.used() == Some(now) => return,
            Some(entry) => self.statistics.moved += u64::from(entry.port != port),
            None if !self.make_room(victim) => return,
            None => self.statistics.learned += 1,
        }
        self.put(station, Entry { port, kind: Kind::Learned { used: now } });
    }

    fn expire(&mut self, now: u64) {
        let before = self.entries.len();
        let is_old = |entry: &Entry| entry.used().is_some_and(|used| used + 20 <= now);
        self.entries.retain(|(_, entry)| !is_old(entry));
        self.statistics.expired += (before - self.entries.len()) as u64;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Learn(Station, PortNumber),
    AddStatic(Station, PortNumber),
    RemovePort(PortNumber),
    Wait(u64),
    Expire,
}

fn step() -> impl Strategy<Value = Step> {
    let station = || (3..5u16, (0..8u8).prop_map(address));
    let port = || prop::sample::select(&PORT);
    prop_oneof![
        12 => (station(), port()).prop_map(|(station, port)| Step::Learn(station, port)),
        1 => (station(), port()).prop_map(|(station, port)| Step::AddStatic(station, port)),
        1 => port().prop_map(Step::RemovePort),
        4 => (0..12u64).prop_map(Step::Wait),
        1 => Just(Step::Expire),
    ]
}

proptest! {
    #[test]
    fn does_what_the_model_does(steps in vec(step(), 0..80)) {
        let (mut table, mut model, mut now) = (table(5), Model::default(), 1000);
        for step in steps {
            let victim = table.entries.victim();
            match step {
                Step::Learn(station, port) => {
                    if table.needs_update(&station, port, now) {
                        table.learn(station, port, now);
                    }
                    model.learn(station, port, now, victim);
                }
                Step::AddStatic(station, port) => {
                    let entry = Entry { port, kind: Kind::Static };
                    let is_known = model.entries.iter().any(|(other, _)| *other == station);
                    prop_assert_eq!(table.entries.get(&station).is_some(), is_known);
                    if is_known || table.make_room() {
                        table.entries.put(station, entry);
                    }
                    if is_known || model.make_room(victim) {
                        model.put(station, entry);
                    }
                }
                Step::RemovePort(port) => {
                    table.entries.remove_where(|_, entry| entry.port == port);
                    model.entries.retain(|(_, entry)| entry.port != port);
                }
                Step::Wait(time) => now += time,
                Step::Expire => {
                    table.expire(now);
                    model.expire(now);
                }
            }
            let entries: Vec<_> =
                table.entries.iter().map(|(station, entry)| (*station, *entry)).collect();
            prop_assert_eq!(&entries, &model.entries);
            prop_assert_eq!(table.statistics, model.statistics);
            let learned = entries.iter().filter(|(_, entry)| !entry.is_static()).count();
            prop_assert_eq!(table.entries.learned(), learned);
        }
    }
}

#[test]
fn a_flood_of_addresses_on_one_port_leaves_the_others_alone() {
    let table = MacTable::new(Arc::default());
    table.learn(0, address(1), PORT[1]);
    for number in 0..20_000u32 {
        let [_, a, b, c] = number.to_be_bytes();
        table.learn(0, EthernetAddress([6, 0, 0, a, b, c]), PORT[0]);
    }
    assert_eq!(table.lookup(0, address(1)), Some(PORT[1]));
    assert_eq!(
        table.statistics(),
        MacStatistics { learned: 20_001, evicted: 20_001 - 8192, ..MacStatistics::default() }
    );
    assert_eq!(table.occupancy(), MacOccupancy { entries: 8192, static_entries: 0, size: 8192 });
}

/// As in Open vSwitch's test of the same.
#[test]
fn ports_with_as_many_stations_give_them_up_in_turn() {
    let table = MacTable::new(Arc::default());
    table.set_size(10);
    for number in 0..10 {
        table.learn(0, address(number), PortNumber(u16::from(number) / 2 + 1));
    }
    for number in 10..26 {
        table.learn(0, address(number), PortNumber(6));
    }
    let left = table.entries().into_iter().map(|entry| (entry.port.0, entry.address));
    let expected =
        [(1, 1), (2, 3), (3, 4), (3, 5), (4, 7), (5, 8), (5, 9), (6, 23), (6, 24), (6, 25)];
    assert_eq!(left.collect::<Vec<_>>(), expected.map(|(port, number)| (port, address(number))));
}

#[test]
fn entries_of_operators_stay() {
    let table = MacTable::new(Arc::default());
    table.set_size(0);
    for number in 0..10 {
        assert!(table.add_static(1, address(number), PORT[0]));
    }
    assert!(!table.add_static(1, address(10), PORT[0]));
    assert!(!table.learn(1, address(11), PORT[1]));
    assert!(!table.learn(1, address(3), PORT[1]));
    assert_eq!(table.lookup(1, address(3)), Some(PORT[0]));
    table.flush();
    assert_eq!(table.entries().len(), 10);
    assert!(table.remove_static(1, address(3)));
    assert!(!table.remove_static(1, address(3)));
    assert!(table.learn(1, address(3), PORT[1]));
    assert!(!table.remove_static(1, address(3)));
    let occupancy = MacOccupancy { entries: 10, static_entries: 9, size: 10 };
    assert_eq!(table.occupancy(), occupancy);
    table.flush_port(PORT[0]);
    let entry = MacEntry { vlan: 1, address: address(3), port: PORT[1], age: Some(0) };
    assert_eq!(table.entries(), [entry]);
}

#[test]
fn the_epoch_counts_what_matters_to_flows() {
    let epoch = Arc::new(Epoch::default());
    let table = MacTable::new(Arc::clone(&epoch));
    type Step<'a> = &'a dyn Fn(&MacTable);
    let steps: [(Step<'_>, u64); 9] = [
        (&|table| assert!(table.learn(0, address(1), PORT[0])), 1),
        (&|table| assert!(!table.learn(0, address(1), PORT[0])), 0),
        (&|table| assert!(table.learn(0, address(1), PORT[1])), 1),
        (&|table| assert!(!table.learn(0, EthernetAddress([1; 6]), PORT[1])), 0),
        (&|table| assert!(table.add_static(0, address(1), PORT[1])), 0),
        (&|table| table.set_flooded_vlans(Some([0].into_iter().collect())), 1),
        (&|table| assert_eq!(table.lookup(0, address(1)), None), 0),
        (&|table| table.flush_port(PORT[1]), 1),
        (&|table| table.flush_port(PORT[1]), 0),
    ];
    for (number, (step, changes)) in steps.into_iter().enumerate() {
        let before = epoch.get();
        step(&table);
        assert_eq!(epoch.get() - before, changes, "step {number}");
    }
}
