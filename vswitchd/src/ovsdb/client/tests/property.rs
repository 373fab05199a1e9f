//! Differences against whole contents.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Map;

use super::*;

/// A port as plain collections, which say what a difference is without the code under test.
#[derive(Clone, Debug, PartialEq)]
struct Port {
    name: String,
    trunks: BTreeSet<i64>,
    statistics: BTreeMap<String, i64>,
}

type Ports = BTreeMap<u128, Port>;

fn ports() -> impl Strategy<Value = Ports> {
    let port = ("[ab]", prop::collection::btree_set(0..4_i64, 0..4), {
        prop::collection::btree_map("[xyz]", 0..3_i64, 0..3)
    });
    let port = port.prop_map(|(name, trunks, statistics)| Port { name, trunks, statistics });
    prop::collection::btree_map(1..5_u128, port, 0..5)
}

fn set(trunks: &BTreeSet<i64>) -> Value {
    json!(["set", trunks])
}

fn map(statistics: &BTreeMap<String, i64>) -> Value {
    json!(["map", statistics.iter().collect::<Vec<_>>()])
}

/// `<table-updates2>` from nothing to `ports`.
fn whole(ports: &Ports) -> Value {
    updates(&Ports::new(), ports)
}

/// `<table-updates2>` from `old` to `new`.
fn updates(old: &Ports, new: &Ports) -> Value {
    let mut rows = Map::new();
    for number in old.keys().chain(new.keys()) {
        let row = match (old.get(number), new.get(number)) {
            (Some(_), None) => json!({"delete": null}),
            (None, Some(port)) => json!({"insert": {
                "name": port.name, "trunks": set(&port.trunks), "statistics": map(&port.statistics),
            }}),
            (Some(old), Some(new)) if old != new => json!({"modify": difference(old, new)}),
            _ => continue,
        };
        rows.insert(uuid(*number).to_string(), row);
    }
    json!({"Port": rows})
}

fn difference(old: &Port, new: &Port) -> Value {
    let mut columns = Map::new();
    if old.name != new.name {
        columns.insert("name".to_owned(), new.name.clone().into());
    }
    if old.trunks != new.trunks {
        let trunks = old.trunks.symmetric_difference(&new.trunks).copied().collect();
        columns.insert("trunks".to_owned(), set(&trunks));
    }
    if old.statistics != new.statistics {
        let mut changed = old.statistics.clone();
        changed.retain(|key, _| !new.statistics.contains_key(key));
        for (key, value) in &new.statistics {
            if old.statistics.get(key) != Some(value) {
                changed.insert(key.clone(), *value);
            }
        }
        columns.insert("statistics".to_owned(), map(&changed));
    }
    columns.into()
}

/// The ports in a copy.
fn content(cache: &Cache) -> Ports {
    cache
        .rows("Port")
        .map(|row| {
            let statistics = row.datum("statistics").unwrap().as_map().iter().map(|pair| {
                let (Atom::String(key), Atom::Integer(value)) = pair else { panic!("{pair:?}") };
                (key.to_string(), *value)
            });
            let port = Port {
                name: row.string("name").to_owned(),
                trunks: row.integers("trunks").collect(),
                statistics: statistics.collect(),
            };
            (row.uuid().as_u128(), port)
        })
        .collect()
}

/// Whether columns that are read differ: all but `statistics`.
fn differ(old: &Ports, new: &Ports) -> bool {
    let read = |ports: &Ports| {
        ports
            .iter()
            .map(|(number, port)| (*number, port.name.clone(), port.trunks.clone()))
            .collect::<Vec<_>>()
    };
    read(old) != read(new)
}

proptest! {
    #[test]
    fn differences_lead_to_the_whole(old in ports(), new in ports()) {
        let mut cache = Cache::new("Open_vSwitch");
        cache.set_schema(&schema(), &monitored());
        cache.replace(&whole(&old), Method::Cond).unwrap();
        prop_assert_eq!(content(&cache), old.clone());
        let mut replaced = cache.clone();
        let tell = differ(&old, &new);
        prop_assert_eq!(cache.apply(&updates(&old, &new), Method::Cond), Ok(tell));
        prop_assert_eq!(content(&cache), new.clone());
        prop_assert_eq!(replaced.replace(&whole(&new), Method::Cond), Ok(old != new));
        prop_assert_eq!(content(&replaced), new);
    }
}
