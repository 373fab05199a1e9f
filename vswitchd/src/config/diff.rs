//! The difference between what is applied and what is wanted, as an ordered plan.
//!
//! Deletions come first, since what is added may need what they free (names above all), then
//! additions, then settings. What did not change is in no step, so an interface that could not be
//! opened is not tried again until its configuration changes or its device appears.

use std::collections::{BTreeMap, BTreeSet};

use dpif::datapath::DatapathType;
use ofproto::port::PortNumber;

use super::model::{BridgeConfig, Config, InterfaceConfig};

/// What became of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedBridge {
    /// The configuration that it has.
    pub config: BridgeConfig,
    /// The datapath that it is on, if it could be created.
    pub datapath: Option<DatapathType>,
    /// Why it could not be created.
    pub error: Option<String>,
    /// What became of its interfaces, by name.
    pub interfaces: BTreeMap<String, AppliedInterface>,
}

/// What became of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedInterface {
    /// The configuration that it has.
    pub config: InterfaceConfig,
    /// Its OpenFlow port number, or `None` when it could not be opened.
    pub number: Option<PortNumber>,
    /// Why it could not be opened, unless only the log tells.
    pub error: Option<String>,
}

/// An interface, named by its bridge and itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceName {
    /// Name of the bridge.
    pub bridge: String,
    /// Name of the interface.
    pub interface: String,
}

/// Steps that lead from what is applied to what is wanted, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Bridges to take away with all that is on them.
    pub delete_bridges: Vec<String>,
    /// Interfaces to take away.
    pub delete_interfaces: Vec<InterfaceName>,
    /// Bridges to create.
    pub create_bridges: Vec<String>,
    /// Interfaces to open; those that ask for a number come first, so that no other takes it.
    pub create_interfaces: Vec<InterfaceName>,
    /// Interfaces that stay and whose settings changed.
    pub update_interfaces: Vec<InterfaceName>,
}

/// Compares `applied` with `wanted`. Failed interfaces whose names are in `appeared` are tried
/// again although their configuration is the same.
pub fn plan(
    applied: &BTreeMap<String, AppliedBridge>,
    wanted: &Config,
    appeared: &BTreeSet<String>,
) -> Plan {
    let mut plan = Plan::default();
    for (name, bridge) in applied {
        let stays = wanted.bridges.get(name).is_some_and(|new| same_bridge(bridge, new));
        if !stays {
            plan.delete_bridges.push(name.clone());
        }
    }
    for (name, new) in &wanted.bridges {
        match applied.get(name).filter(|old| same_bridge(old, new)) {
            None => {
                plan.create_bridges.push(name.clone());
                plan.create_interfaces.extend(
                    new.interfaces().map(|(_, interface, _)| interface_name(name, interface)),
                );
            }
            Some(old) if old.error.is_none() => {
                plan_interfaces(name, old, new, appeared, &mut plan)
            }
            Some(_) => {}
        }
    }
    plan.create_interfaces.sort_by_key(|name| {
        let request = wanted
            .bridges
            .get(&name.bridge)
            .and_then(|bridge| bridge.interface(&name.interface))
            .and_then(|interface| interface.number_request);
        request.is_none()
    });
    plan
}

/// Whether `new` can be had by changing `old` rather than by creating it anew. A bridge that could
/// not be created is worth a new try only when its own row changed.
fn same_bridge(old: &AppliedBridge, new: &BridgeConfig) -> bool {
    old.config.uuid == new.uuid && old.config.datapath_type == new.datapath_type
}

fn interface_name(bridge: &str, interface: &str) -> InterfaceName {
    InterfaceName { bridge: bridge.to_owned(), interface: interface.to_owned() }
}

fn plan_interfaces(
    bridge: &str,
    old: &AppliedBridge,
    new: &BridgeConfig,
    appeared: &BTreeSet<String>,
    plan: &mut Plan,
) {
    let wanted: BTreeMap<&str, &InterfaceConfig> =
        new.interfaces().map(|(_, name, interface)| (name, interface)).collect();
    let mut delete: BTreeSet<&str> = old
        .interfaces
        .iter()
        .filter(|(name, applied)| {
            wanted.get(name.as_str()).is_none_or(|new| must_reopen(applied, new))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    renumber(old, &wanted, &mut delete);

    for (name, applied) in &old.interfaces {
        let retry = applied.number.is_none()
            && (appeared.contains(name)
                || wanted.get(name.as_str()).is_some_and(|new| **new != applied.config));
        if delete.contains(name.as_str()) || retry {
            plan.delete_interfaces.push(interface_name(bridge, name));
        }
        match wanted.get(name.as_str()) {
            Some(_) if delete.contains(name.as_str()) || retry => {
                plan.create_interfaces.push(interface_name(bridge, name));
            }
            Some(new) if applied.number.is_some() && **new != applied.config => {
                plan.update_interfaces.push(interface_name(bridge, name));
            }
            _ => {}
        }
    }
    let added = wanted.keys().filter(|name| !old.interfaces.contains_key(**name));
    plan.create_interfaces.extend(added.map(|name| interface_name(bridge, name)));
}

fn must_reopen(applied: &AppliedInterface, new: &InterfaceConfig) -> bool {
    applied.config.port_type != new.port_type || applied.config.uuid != new.uuid
}

/// Adds to `delete` the interfaces that must leave their numbers: each one that asks for another
/// number than it has, and whoever holds that number without having asked for it. A holder that
/// asked for it keeps it.
fn renumber<'a>(
    old: &'a AppliedBridge,
    wanted: &BTreeMap<&str, &InterfaceConfig>,
    delete: &mut BTreeSet<&'a str>,
) {
    let holders: BTreeMap<PortNumber, &str> = old
        .interfaces
        .iter()
        .filter_map(|(name, applied)| Some((applied.number?, name.as_str())))
        .collect();
    for (name, applied) in &old.interfaces {
        let request = wanted.get(name.as_str()).and_then(|new| new.number_request);
        let (Some(has), Some(asks)) = (applied.number, request) else { continue };
        if has == PortNumber::LOCAL || has == asks {
            continue;
        }
        match holders.get(&asks) {
            Some(&holder) if !delete.contains(holder) => {
                let holder_asks = wanted.get(holder).and_then(|new| new.number_request);
                if holder_asks != Some(asks) {
                    delete.insert(holder);
                    delete.insert(name);
                }
            }
            _ => {
                delete.insert(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    use ofproto::openflow::version::VersionSet;
    use ofproto::port_settings::PortSettings;
    use ofproto::switch::Identity;
    use ofproto::switches::FailMode;

    use super::super::model::PortConfig;

    fn interface(id: u128, request: Option<u16>) -> InterfaceConfig {
        InterfaceConfig {
            uuid: Uuid::from_u128(id),
            port_type: "dummy".to_owned(),
            options: BTreeMap::new(),
            ethernet_address: None,
            mtu_request: None,
            datapath: dpif::datapath::PortSettings::default(),
            number_request: request.map(PortNumber),
        }
    }

    fn bridge(interfaces: &[(&str, InterfaceConfig)]) -> BridgeConfig {
        let ports = interfaces.iter().map(|(name, interface)| {
            let port = PortConfig {
                ethernet_address: None,
                tag: None,
                settings: PortSettings::default(),
                fake_bridge: false,
                interfaces: [((*name).to_owned(), interface.clone())].into(),
            };
            ((*name).to_owned(), port)
        });
        BridgeConfig {
            uuid: Uuid::from_u128(1000),
            datapath_type: "dummy".to_owned(),
            datapath_id: None,
            ethernet_address: None,
            fail_mode: FailMode::Standalone,
            forwards_reserved: false,
            in_band_queue: None,
            mac_ageing: 300,
            mac_table_size: 8192,
            identity: Identity::default(),
            flow_tables: BTreeMap::new(),
            mirrors: Vec::new(),
            versions: VersionSet::up_to(6),
            packet_queue: 100,
            bundle_timeout: std::time::Duration::ZERO,
            controllers: Vec::new(),
            ports: ports.collect(),
        }
    }

    fn config(interfaces: &[(&str, InterfaceConfig)]) -> Config {
        Config { bridges: [("br".to_owned(), bridge(interfaces))].into(), ..Config::default() }
    }

    fn applied(
        interfaces: &[(&str, InterfaceConfig, Option<u16>)],
    ) -> BTreeMap<String, AppliedBridge> {
        let with_config: Vec<_> =
            interfaces.iter().map(|(name, config, _)| (*name, config.clone())).collect();
        let interfaces = interfaces.iter().map(|(name, config, number)| {
            let interface = AppliedInterface {
                config: config.clone(),
                number: number.map(PortNumber),
                error: None,
            };
            ((*name).to_owned(), interface)
        });
        let bridge = AppliedBridge {
            config: bridge(&with_config),
            datapath: Some(DatapathType::Dummy),
            error: None,
            interfaces: interfaces.collect(),
        };
        [("br".to_owned(), bridge)].into()
    }

    fn names(names: &[&str]) -> Vec<InterfaceName> {
        names.iter().map(|name| interface_name("br", name)).collect()
    }

    fn check(applied: &BTreeMap<String, AppliedBridge>, wanted: &Config, expected: &Plan) {
        assert_eq!(plan(applied, wanted, &BTreeSet::new()), *expected);
    }

    #[test]
    fn nothing_changed() {
        let old = applied(&[("a", interface(1, None), Some(1)), ("b", interface(2, None), None)]);
        let new = config(&[("a", interface(1, None)), ("b", interface(2, None))]);
        check(&old, &new, &Plan::default());
    }

    #[test]
    fn a_new_bridge_opens_requested_numbers_first() {
        let new = config(&[("a", interface(1, None)), ("b", interface(2, Some(1)))]);
        check(
            &BTreeMap::new(),
            &new,
            &Plan {
                create_bridges: vec!["br".to_owned()],
                create_interfaces: names(&["b", "a"]),
                ..Plan::default()
            },
        );
    }

    #[test]
    fn a_bridge_of_another_type_is_created_anew() {
        let old = applied(&[("a", interface(1, None), Some(1))]);
        let mut new = config(&[("a", interface(1, None))]);
        new.bridges.get_mut("br").unwrap().datapath_type = "netdev".to_owned();
        check(
            &old,
            &new,
            &Plan {
                delete_bridges: vec!["br".to_owned()],
                create_bridges: vec!["br".to_owned()],
                create_interfaces: names(&["a"]),
                ..Plan::default()
            },
        );
    }

    #[test]
    fn a_bridge_that_failed_waits_for_a_change() {
        let mut old = applied(&[]);
        old.get_mut("br").unwrap().error = Some("no".to_owned());
        check(&old, &config(&[("a", interface(1, None))]), &Plan::default());
        let mut new = config(&[]);
        new.bridges.get_mut("br").unwrap().datapath_type = "netdev".to_owned();
        check(
            &old,
            &new,
            &Plan {
                delete_bridges: vec!["br".to_owned()],
                create_bridges: vec!["br".to_owned()],
                ..Plan::default()
            },
        );
    }

    #[test]
    fn interfaces_come_go_and_change() {
        let old = applied(&[
            ("gone", interface(1, None), Some(1)),
            ("kept", interface(2, None), Some(2)),
            ("set", interface(3, None), Some(3)),
            ("typed", interface(4, None), Some(4)),
        ]);
        let mut set = interface(3, None);
        set.mtu_request = Some(2000);
        let mut typed = interface(4, None);
        typed.port_type = "tap".to_owned();
        let new = config(&[
            ("kept", interface(2, None)),
            ("set", set),
            ("typed", typed),
            ("new", interface(5, None)),
        ]);
        check(
            &old,
            &new,
            &Plan {
                delete_interfaces: names(&["gone", "typed"]),
                create_interfaces: names(&["typed", "new"]),
                update_interfaces: names(&["set"]),
                ..Plan::default()
            },
        );
    }

    #[test]
    fn a_failed_interface_is_tried_when_it_changed_or_its_device_appeared() {
        let old = applied(&[("a", interface(1, None), None)]);
        let again = Plan {
            delete_interfaces: names(&["a"]),
            create_interfaces: names(&["a"]),
            ..Plan::default()
        };
        let mut changed = interface(1, None);
        changed.options.insert("n_rxq".to_owned(), "2".to_owned());
        check(&old, &config(&[("a", changed)]), &again);

        let same = config(&[("a", interface(1, None))]);
        assert_eq!(plan(&old, &same, &BTreeSet::from(["a".to_owned()])), again);
    }

    #[test]
    fn numbers_are_swapped() {
        let old = applied(&[
            ("a", interface(1, Some(1)), Some(1)),
            ("b", interface(2, Some(2)), Some(2)),
        ]);
        let new = config(&[("a", interface(1, Some(2))), ("b", interface(2, Some(1)))]);
        let expected = Plan {
            delete_interfaces: names(&["a", "b"]),
            create_interfaces: names(&["a", "b"]),
            ..Plan::default()
        };
        check(&old, &new, &expected);
    }

    #[test]
    fn a_number_is_taken_from_whoever_did_not_ask_for_it() {
        let old =
            applied(&[("a", interface(1, None), Some(1)), ("b", interface(2, None), Some(2))]);
        let new = config(&[("a", interface(1, None)), ("b", interface(2, Some(1)))]);
        check(
            &old,
            &new,
            &Plan {
                delete_interfaces: names(&["a", "b"]),
                create_interfaces: names(&["b", "a"]),
                ..Plan::default()
            },
        );
    }

    #[test]
    fn a_number_stays_with_the_first_that_asked_for_it() {
        let old =
            applied(&[("a", interface(1, Some(1)), Some(1)), ("b", interface(2, None), Some(2))]);
        let new = config(&[("a", interface(1, Some(1))), ("b", interface(2, Some(1)))]);
        check(&old, &new, &Plan { update_interfaces: names(&["b"]), ..Plan::default() });
    }
}
