//! What the switch tells the database: port numbers, errors, state and statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use netdev::clock;
use netdev::features::Duplex;
use netdev::port::Port;
use ofproto::connection::{Connections, ControllerStatus};
use ofproto::openflow::message::Role;
use uuid::Uuid;

use super::{Bridges, mirrors};
use crate::config::diff::{AppliedBridge, InterfaceName};
use crate::config::model::{Config, InterfaceConfig};
use crate::ovsdb::atom::Atom;
use crate::ovsdb::client::Transaction;
use crate::ovsdb::datum::Datum;

/// Columns of an `Interface` row that say nothing while the interface is not open.
const STATE_COLUMNS: [&str; 8] = [
    "admin_state",
    "duplex",
    "ifindex",
    "link_resets",
    "link_speed",
    "link_state",
    "mac_in_use",
    "mtu",
];
const STATE_MAPS: [&str; 2] = ["statistics", "status"];

/// Remembers what state each interface had when it was last written.
#[derive(Debug, Default)]
pub struct Publisher {
    /// Change sequence of the port of each `Interface` row.
    written: BTreeMap<Uuid, u64>,
    /// What each `Controller` row says.
    controllers: BTreeMap<Uuid, ControllerStatus>,
}

impl Publisher {
    /// Writes the outcome of a reconciliation: port numbers, errors and datapath ids, and the
    /// state of ports that are new.
    pub fn write_outcome(
        &mut self,
        bridges: &Bridges,
        wanted: &Config,
        transaction: &mut Transaction,
    ) {
        let mut open = BTreeSet::new();
        for (bridge_name, bridge) in &wanted.bridges {
            let applied = bridges.applied().get(bridge_name);
            if let Some(id) = bridges.switch(bridge_name).and_then(|switch| switch.datapath_id()) {
                transaction.set(
                    "Bridge",
                    bridge.uuid,
                    "datapath_id",
                    format!("{id:016x}").as_str(),
                );
                transaction.set("Bridge", bridge.uuid, "datapath_version", "<built-in>");
            }
            for (_, name, interface) in bridge.interfaces() {
                let interface_name =
                    InterfaceName { bridge: bridge_name.clone(), interface: name.to_owned() };
                match bridges.port(&interface_name) {
                    Some(_) => {
                        open.insert(interface.uuid);
                        write_number(applied, name, interface, transaction);
                    }
                    None => write_failure(applied, name, interface, transaction),
                }
            }
        }
        self.written.retain(|uuid, _| open.contains(uuid));
        self.write_changes(bridges, transaction);
    }

    /// Writes the state of ports that changed since it was last written. Returns whether there
    /// were any.
    pub fn write_changes(&mut self, bridges: &Bridges, transaction: &mut Transaction) -> bool {
        let mut any = false;
        for (uuid, port) in open_ports(bridges) {
            let sequence = port.change_sequence();
            match self.written.insert(uuid, sequence) {
                Some(written) if written == sequence => continue,
                Some(_) => {}
                None => write_statistics(uuid, port, transaction),
            }
            write_state(uuid, port, transaction);
            any = true;
        }
        let controllers: BTreeMap<_, _> = controllers(bridges).collect();
        for (uuid, status) in &controllers {
            if self.controllers.get(uuid) != Some(status) {
                write_controller(*uuid, status, transaction);
                any = true;
            }
        }
        self.controllers = controllers;
        any
    }

    /// Whether some port changed since its state was last written.
    pub fn has_changes(&self, bridges: &Bridges) -> bool {
        open_ports(bridges)
            .any(|(uuid, port)| self.written.get(&uuid) != Some(&port.change_sequence()))
            || controllers(bridges)
                .any(|(uuid, status)| self.controllers.get(&uuid) != Some(&status))
    }

    /// Forgets what was written, since the transaction that was to write it failed.
    pub fn forget(&mut self) {
        self.written.clear();
        self.controllers.clear();
    }
}

/// Writes the statistics of all ports and mirrors.
pub fn write_all_statistics(bridges: &Bridges, transaction: &mut Transaction) {
    open_ports(bridges).for_each(|(uuid, port)| write_statistics(uuid, port, transaction));
    mirrors::write_statistics(bridges, transaction);
    for (uuid, status) in controllers(bridges) {
        write_controller(uuid, &status, transaction);
    }
}

/// Every controller that is connected to, with its `Controller` row.
fn controllers(bridges: &Bridges) -> impl Iterator<Item = (Uuid, ControllerStatus)> {
    bridges.applied().iter().flat_map(move |(name, bridge)| {
        let statuses: BTreeMap<_, _> =
            bridges.connections(name).into_iter().flat_map(Connections::statuses).collect();
        bridge.config.controllers.iter().filter_map(move |controller| {
            Some((controller.uuid, statuses.get(controller.target.as_str())?.clone()))
        })
    })
}

fn write_controller(uuid: Uuid, status: &ControllerStatus, transaction: &mut Transaction) {
    let role = status.role.map(|role| match role {
        Role::Primary => "master",
        Role::Secondary => "slave",
        Role::Equal | Role::NoChange => "other",
    });
    let now = clock::now();
    let seconds = |since: Duration| now.saturating_sub(since).as_secs().to_string();
    let mut pairs = BTreeMap::from([("state".to_owned(), status.state.to_owned())]);
    let mut add = |key: &str, value: Option<String>| {
        pairs.extend(value.map(|value| (key.to_owned(), value)));
    };
    add("last_error", status.last_error.clone());
    add("sec_since_connect", status.last_connected.map(seconds));
    add("sec_since_disconnect", status.last_disconnected.map(seconds));
    for (kind, counts) in &status.packet_ins {
        add(&format!("packet-in-{kind}-backlog"), Some(counts.backlog.to_string()));
        add(&format!("packet-in-{kind}-bypassed"), Some(counts.bypassed.to_string()));
        add(&format!("packet-in-{kind}-queued"), Some(counts.queued.to_string()));
        add(&format!("packet-in-{kind}-dropped"), Some(counts.dropped.to_string()));
    }
    let pairs: BTreeMap<Atom, Atom> =
        pairs.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    transaction.set("Controller", uuid, "is_connected", status.is_connected);
    transaction.set("Controller", uuid, "role", optional_text(role));
    transaction.set("Controller", uuid, "status", Datum::from(pairs));
}

/// Every open port with its `Interface` row.
fn open_ports(bridges: &Bridges) -> impl Iterator<Item = (Uuid, &dyn Port)> {
    bridges.applied().iter().flat_map(move |(name, bridge)| {
        let switch = bridges.switch(name);
        bridge.interfaces.values().filter_map(move |interface| {
            let port = switch?.port(interface.number?)?;
            Some((interface.config.uuid, port.port.as_ref()))
        })
    })
}

fn optional_text(value: Option<impl AsRef<str>>) -> Datum {
    value.map_or_else(Datum::empty_set, |text| Datum::from(text.as_ref()))
}

fn optional_integer(value: Option<impl Into<i64>>) -> Datum {
    value.map_or_else(Datum::empty_set, |value| Datum::from(value.into()))
}

fn write_number(
    applied: Option<&AppliedBridge>,
    name: &str,
    interface: &InterfaceConfig,
    transaction: &mut Transaction,
) {
    let number = applied.and_then(|bridge| bridge.interfaces.get(name)?.number);
    let number = optional_integer(number.map(|number| number.0));
    transaction.set("Interface", interface.uuid, "ofport", number);
    transaction.set("Interface", interface.uuid, "error", Datum::empty_set());
}

fn write_failure(
    applied: Option<&AppliedBridge>,
    name: &str,
    interface: &InterfaceConfig,
    transaction: &mut Transaction,
) {
    let error = applied.and_then(|bridge| {
        let own = bridge.interfaces.get(name).and_then(|interface| interface.error.clone());
        own.or_else(|| bridge.error.clone())
    });
    transaction.set("Interface", interface.uuid, "ofport", -1);
    transaction.set("Interface", interface.uuid, "error", optional_text(error));
    for column in STATE_COLUMNS {
        transaction.set("Interface", interface.uuid, column, Datum::empty_set());
    }
    for column in STATE_MAPS {
        transaction.set("Interface", interface.uuid, column, Datum::empty_map());
    }
}

fn write_state(uuid: Uuid, port: &dyn Port, transaction: &mut Transaction) {
    let up_or_down = |up| if up { "up" } else { "down" };
    let mut set = |column, datum| transaction.set("Interface", uuid, column, datum);
    let status = port.status();
    let status: BTreeMap<Atom, Atom> =
        status.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
    set("status", status.into());
    set("admin_state", optional_text(port.admin_up().ok().map(up_or_down)));
    set("link_state", up_or_down(port.carrier()).into());
    set("link_resets", optional_integer(i64::try_from(port.carrier_resets()).ok()));
    set(
        "duplex",
        optional_text(port.duplex().map(|duplex| match duplex {
            Duplex::Full => "full",
            Duplex::Half => "half",
        })),
    );
    let speed = port.speed().filter(|speed| speed.current > 0);
    let bits_per_second = speed.map(|speed| i64::from(speed.current) * 1_000_000);
    set("link_speed", optional_integer(bits_per_second));
    set("mtu", optional_integer(port.mtu().ok()));
    let address = port.ethernet_address().ok();
    set("mac_in_use", optional_text(address.map(|address| address.to_string())));
    set("ifindex", optional_integer(Some(port.ifindex().unwrap_or(0))));
}

fn write_statistics(uuid: Uuid, port: &dyn Port, transaction: &mut Transaction) {
    let Ok(statistics) = port.statistics() else { return };
    let counter = |value| Atom::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let pairs: BTreeMap<Atom, Atom> =
        statistics.named().map(|(name, value)| (name.into(), counter(value))).collect();
    transaction.set("Interface", uuid, "statistics", Datum::from(pairs));
}
