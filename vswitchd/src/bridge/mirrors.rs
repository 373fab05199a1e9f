//! Mirrors of bridges, from their configuration to the switch and back to their statistics.

use std::collections::{BTreeMap, BTreeSet};

use ofproto::mirror::{MirrorOutput, MirrorSettings};
use ofproto::port::PortNumber;
use ofproto::switch::Switch;
use tracing::error;
use uuid::Uuid;

use super::Bridges;
use crate::config::diff::AppliedBridge;
use crate::config::mirror::{self, MirrorConfig};
use crate::config::model::BridgeConfig;
use crate::ovsdb::atom::Atom;
use crate::ovsdb::client::Transaction;
use crate::ovsdb::datum::Datum;

/// Gives a switch the mirrors of its bridge.
pub(super) fn configure(
    name: &str,
    config: &BridgeConfig,
    applied: &AppliedBridge,
    switch: &mut Switch,
) {
    let wanted = config.mirrors.iter().filter_map(|mirror| settings(mirror, config, applied));
    for mirror in switch.set_mirrors(wanted.collect()) {
        error!(target: "bridge", "bridge {name}: mirror {mirror} configuration is invalid");
    }
}

/// The same with ports by number; `None` when its output port is not there.
fn settings(
    mirror: &MirrorConfig,
    config: &BridgeConfig,
    applied: &AppliedBridge,
) -> Option<MirrorSettings> {
    let numbers = |port: &str| {
        let interfaces = config.ports.get(port).map(|port| port.interfaces.keys());
        let interfaces = interfaces.into_iter().flatten();
        interfaces.filter_map(|name| applied.interfaces.get(name)?.number)
    };
    let select = |names: &BTreeSet<String>| -> BTreeSet<PortNumber> {
        match mirror.takes_all {
            true => config.ports.keys().flat_map(|port| numbers(port)).collect(),
            false => names.iter().flat_map(|port| numbers(port)).collect(),
        }
    };
    let output = match &mirror.output {
        mirror::MirrorOutput::Port(port) => MirrorOutput::Port(numbers(port).next()?),
        mirror::MirrorOutput::Vlan(vlan) => MirrorOutput::Vlan(*vlan),
    };
    Some(MirrorSettings {
        key: mirror.uuid.into_bytes(),
        name: mirror.name.clone(),
        sources: select(&mirror.sources),
        destinations: select(&mirror.destinations),
        vlans: mirror.vlans.clone(),
        filter: mirror.filter.clone(),
        output,
        snap_length: mirror.snap_length,
    })
}

/// Writes the statistics of all mirrors.
pub(super) fn write_statistics(bridges: &Bridges, transaction: &mut Transaction) {
    let names = bridges.applied().keys();
    for mirror in names
        .filter_map(|name| bridges.switch(name))
        .flat_map(|switch| switch.mirrors().iter().map(|(_, mirror)| mirror))
    {
        let (packets, bytes) = mirror.statistics.counts();
        let counts = [("tx_bytes", bytes), ("tx_packets", packets)];
        let pairs = counts.into_iter().map(|(key, count)| {
            (Atom::from(key), Atom::Integer(count.try_into().unwrap_or(i64::MAX)))
        });
        let row = Uuid::from_bytes(mirror.settings.key);
        let pairs: BTreeMap<Atom, Atom> = pairs.collect();
        transaction.set("Mirror", row, "statistics", Datum::from(pairs));
    }
}
