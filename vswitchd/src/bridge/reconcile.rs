//! Carries out the plan that leads from what is applied to what is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dpif::datapath::DatapathType;
use netdev::clock;
use netdev::errno;
use netdev::port::{Port, PortError};
use netdev::registry::DummyMode;
use netdev::tunnel::TunnelKind;
use ofproto::openflow::message::meter_id;
use ofproto::port::PortNumber;
use ofproto::switch::Switch;
use ofproto::tables::TableSettings;
use tracing::{error, info, warn};
use uuid::Uuid;

use super::datapaths::SharedDatapath;
use super::{Bridges, address, mirrors};
use crate::config::diff::{self, AppliedBridge, AppliedInterface, InterfaceName};
use crate::config::model::{BridgeConfig, Config, InterfaceConfig};

/// Interface names that the switch needs for itself.
const RESERVED_NAMES: [&str; 7] =
    ["ovs-netdev", "ovs-dummy", "genev_sys", "gre_sys", "vxlan_sys", "bareudp_sys", "ipsec_sys"];

/// Why an interface is not open; `None` leaves the explanation to the log.
type OpenError = Option<String>;

impl Bridges {
    /// Makes the bridges what `wanted` asks for. `hints` holds the OpenFlow port numbers that
    /// interfaces had before (by row), which they get again when they are free; failed interfaces
    /// named in `appeared` are tried again.
    pub fn reconcile(
        &mut self,
        wanted: &Config,
        hints: &BTreeMap<Uuid, PortNumber>,
        appeared: &BTreeSet<String>,
    ) {
        let plan = diff::plan(&self.applied, wanted, appeared);
        for bridge in &plan.delete_bridges {
            self.delete_bridge(bridge);
        }
        for name in &plan.delete_interfaces {
            self.delete_interface(name);
        }
        for name in &plan.create_bridges {
            if let Some(config) = wanted.bridges.get(name) {
                self.create_bridge(name, config);
            }
        }
        for name in plan.create_interfaces.iter().chain(&plan.update_interfaces) {
            let bridge = wanted.bridges.get(&name.bridge);
            let Some(config) = bridge.and_then(|bridge| bridge.interface(&name.interface)) else {
                continue;
            };
            if self.port(name).is_some() {
                self.update_interface(name, config);
            } else {
                self.create_interface(name, config, hints.get(&config.uuid).copied());
            }
        }
        self.set_tls(wanted.tls.as_ref());
        for (name, config) in &wanted.bridges {
            self.configure_bridge(name, config);
        }
        let used: BTreeSet<_> =
            self.applied.values().filter_map(|bridge| bridge.datapath).collect();
        self.datapaths.retain(|kind, _| used.contains(kind));
        self.reconfigure_datapaths(&wanted.datapath);
    }

    /// Takes all bridges away. Devices that outlive the process go as well if `delete_devices`.
    pub fn delete_all(&mut self, delete_devices: bool) {
        for name in self.applied.keys().cloned().collect::<Vec<_>>() {
            if !delete_devices && let Some(switch) = self.switches.get_mut(&name) {
                switch.ports_mut().for_each(|(_, port)| port.port.leave_device_behind());
            }
            self.delete_bridge(&name);
        }
        self.datapaths.clear();
        self.bare.clear();
    }

    /// Closes the ports whose devices are gone; they count as not opened from here on. Returns
    /// whether there were any.
    pub fn close_lost(&mut self) -> bool {
        let mut lost = Vec::new();
        for (bridge, applied) in &self.applied {
            let Some(switch) = self.switches.get(bridge) else { continue };
            for (interface, state) in &applied.interfaces {
                let port = state.number.and_then(|number| switch.port(number));
                if let Some(Err(error)) = port.map(|port| port.port.admin_up()) {
                    let name =
                        InterfaceName { bridge: bridge.clone(), interface: interface.clone() };
                    lost.push((name, state.config.clone(), error));
                }
            }
        }
        for (name, config, error) in &lost {
            info!(target: "bridge", "bridge {}: {error}", name.bridge);
            self.delete_interface(name);
            self.fail_interface(name, config, error.to_string());
        }
        !lost.is_empty()
    }

    /// Names of the interfaces that are not open although the kernel has devices of their names.
    pub fn present_but_closed(&self) -> BTreeSet<String> {
        let interfaces = self.applied.values().flat_map(|bridge| &bridge.interfaces);
        interfaces
            .filter(|(name, interface)| {
                interface.number.is_none() && self.registry.links().exists(name)
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    pub(super) fn fail_interface(
        &mut self,
        name: &InterfaceName,
        config: &InterfaceConfig,
        error: String,
    ) {
        let failed = AppliedInterface { config: config.clone(), number: None, error: Some(error) };
        if let Some(bridge) = self.applied.get_mut(&name.bridge) {
            bridge.interfaces.insert(name.interface.clone(), failed);
        }
    }

    /// The datapath type that `Bridge.datapath_type` names.
    fn parse_datapath_type(&self, name: &str) -> Result<DatapathType, String> {
        let known = self.datapath_types().join(", ");
        match name {
            "dummy" if self.registry.mode() != DummyMode::Disabled => Ok(DatapathType::Dummy),
            "" | "system" | "netdev" if self.registry.mode() == DummyMode::OverrideAll => {
                Ok(DatapathType::Dummy)
            }
            "netdev" => Ok(DatapathType::Netdev),
            "" | "system" if self.system_disabled => Err(format!(
                "datapath type \"system\" was disabled on the command line (valid: {known})"
            )),
            "" | "system" => Ok(DatapathType::Netdev),
            _ => Err(format!("unknown datapath type \"{name}\" (valid: {known})")),
        }
    }

    fn create_bridge(&mut self, name: &str, config: &BridgeConfig) {
        let datapath = self.parse_datapath_type(&config.datapath_type);
        let datapath = datapath.inspect_err(
            |error| error!(target: "bridge", "failed to create bridge {name}: {error}"),
        );
        if let Ok(kind) = datapath {
            let (topology, log) = (&self.topology, self.iteration_log);
            let (epoch, news, registry) = (self.underlay.epoch(), &self.news, &self.registry);
            let create = || {
                SharedDatapath::new(kind, topology, log, Arc::clone(epoch), news.clone(), registry)
            };
            let shared = self.datapaths.entry(kind).or_insert_with(create);
            let mut switch = Switch::new(name, Arc::clone(&shared.epoch), self.news.clone());
            switch.set_debug_actions(self.registry.mode() != DummyMode::Disabled);
            self.switches.insert(name.to_owned(), switch);
        }
        let applied = AppliedBridge {
            config: BridgeConfig {
                ports: BTreeMap::new(),
                flow_tables: BTreeMap::new(),
                ..config.clone()
            },
            datapath: datapath.as_ref().ok().copied(),
            error: datapath.err(),
            interfaces: BTreeMap::new(),
        };
        self.applied.insert(name.to_owned(), applied);
    }

    fn delete_bridge(&mut self, name: &str) {
        let Some(bridge) = self.applied.get(name) else { return };
        let kind = bridge.datapath;
        let interfaces: Vec<_> = bridge.interfaces.keys().cloned().collect();
        for interface in interfaces {
            self.delete_interface(&InterfaceName { bridge: name.to_owned(), interface });
        }
        let datapath = kind.and_then(|kind| self.datapaths.get_mut(&kind));
        if let (Some(switch), Some(datapath)) = (self.switches.get(name), datapath) {
            switch.meters().delete(meter_id::ALL, &mut datapath.datapath);
        }
        self.applied.remove(name);
        self.switches.remove(name);
        self.connections.remove(name);
    }

    pub(super) fn delete_interface(&mut self, name: &InterfaceName) {
        let Some(bridge) = self.applied.get_mut(&name.bridge) else { return };
        let Some(interface) = bridge.interfaces.remove(&name.interface) else { return };
        let Some(number) = interface.number else { return };
        info!(
            target: "bridge",
            "bridge {}: deleted interface {} on port {number}", name.bridge, name.interface
        );
        let datapath = bridge.datapath.and_then(|kind| self.datapaths.get_mut(&kind));
        self.underlay.flush_neighbours_of(&name.interface);
        let mut stations = vec![];
        if let (Some(switch), Some(datapath)) = (self.switches.get_mut(&name.bridge), datapath) {
            let entries = switch.mac_table().entries().into_iter();
            stations.extend(entries.filter(|entry| entry.port == number && entry.age.is_some()));
            switch.remove_port(number, &mut datapath.datapath, clock::now());
        }
        // Who was here is likely to turn up elsewhere; other bridges are to ask around for it.
        for table in self.switches.values().map(Switch::mac_table) {
            stations.iter().for_each(|station| table.forget(station.vlan, station.address));
        }
    }

    fn create_interface(
        &mut self,
        name: &InterfaceName,
        config: &InterfaceConfig,
        hint: Option<PortNumber>,
    ) {
        let opened = self.open_interface(name, config, hint);
        if let Ok(number) = opened {
            info!(
                target: "bridge",
                "bridge {}: added interface {} on port {number}", name.bridge, name.interface
            );
        }
        let Some(bridge) = self.applied.get_mut(&name.bridge) else { return };
        let (number, error) = match opened {
            Ok(number) => (Some(number), None),
            Err(error) => (None, error),
        };
        let applied = AppliedInterface { config: config.clone(), number, error };
        bridge.interfaces.insert(name.interface.clone(), applied);
    }

    fn open_interface(
        &mut self,
        name: &InterfaceName,
        config: &InterfaceConfig,
        hint: Option<PortNumber>,
    ) -> Result<PortNumber, OpenError> {
        let interface = &name.interface;
        let bridge = self.applied.get(&name.bridge);
        if let Some(error) = bridge.and_then(|bridge| bridge.error.clone()) {
            return Err(Some(error));
        }
        let kind = bridge.and_then(|bridge| bridge.datapath).ok_or(None)?;
        if RESERVED_NAMES.contains(&interface.as_str()) {
            warn!(target: "bridge", "could not create interface {interface}, name is reserved");
            return Err(None);
        }
        let port_type = kind.port_open_type(&config.port_type);
        let mut port = self.registry.open(interface, port_type).map_err(|error| {
            warn!(target: "bridge", "{error}");
            Some(error.to_string())
        })?;
        configure(port.as_mut(), config).map_err(|error| Some(error.to_string()))?;

        let (Some(switch), Some(datapath)) =
            (self.switches.get_mut(&name.bridge), self.datapaths.get_mut(&kind))
        else {
            return Err(None);
        };
        let request = config.number_request.or(hint);
        let number = switch.add_port(port, request, &mut datapath.datapath, clock::now()).map_err(
            |error| {
                let text = format!("could not add network device {interface} to ofproto ({error})");
                warn!(target: "bridge", limited = true, "{text}");
                Some(text)
            },
        )?;
        if let Some(port) = switch.port_mut(number) {
            port.mtu_is_requested = config.mtu_request.is_some();
        }
        Ok(number)
    }

    fn update_interface(&mut self, name: &InterfaceName, config: &InterfaceConfig) {
        let Some(port) = self.port_mut(name) else { return };
        port.mtu_is_requested = config.mtu_request.is_some();
        let configured = configure(port.port.as_mut(), config);
        if let Err(error) = configured {
            self.delete_interface(name);
            self.fail_interface(name, config, error.to_string());
        } else if let Some(bridge) = self.applied.get_mut(&name.bridge)
            && let Some(interface) = bridge.interfaces.get_mut(&name.interface)
        {
            interface.config = config.clone();
        }
    }

    /// Settings that concern the bridge as a whole or need all its ports.
    fn configure_bridge(&mut self, name: &str, config: &BridgeConfig) {
        let (Some(applied), Some(switch)) =
            (self.applied.get_mut(name), self.switches.get_mut(name))
        else {
            return;
        };
        let old = std::mem::replace(&mut applied.config, config.clone());
        configure_tables(switch, &old.flow_tables, &config.flow_tables);
        switch.set_forwards_reserved(config.forwards_reserved);
        switch.set_identity(config.identity.clone());
        switch.mac_table().set_ageing(config.mac_ageing);
        switch.mac_table().set_size(config.mac_table_size);
        for (port, interface, _) in config.interfaces() {
            let number = applied.interfaces.get(interface).and_then(|applied| applied.number);
            if let Some(number) = number {
                switch.set_port_settings(number, port.settings.clone());
            }
        }
        mirrors::configure(name, config, applied, switch);
        let address = address::bridge_address(applied, switch);
        let datapath_id = address::datapath_id(config.datapath_id, address);
        if switch.datapath_id() != Some(datapath_id) {
            info!(target: "bridge", "bridge {name}: using datapath ID {datapath_id:016x}");
            switch.set_datapath_id(datapath_id);
        }
        let wanted: Vec<_> = config
            .interfaces()
            .filter(|(_, _, interface)| interface.port_type == "internal")
            .filter_map(|(port, interface_name, interface)| {
                let number = applied.interfaces.get(interface_name)?.number?;
                let wanted = if number == PortNumber::LOCAL {
                    address
                } else if let Some(address) = interface.ethernet_address {
                    address
                } else if port.fake_bridge {
                    address::port_address(applied, switch, Some(port))
                } else {
                    return None;
                };
                Some((number, wanted))
            })
            .collect();
        for (number, wanted) in wanted {
            let Some(port) = switch.port_mut(number) else { continue };
            if port.port.ethernet_address() == Ok(wanted) {
                continue;
            }
            if let Err(error) = port.port.set_ethernet_address(wanted) {
                let cause = errno::description(error.errno());
                if number == PortNumber::LOCAL {
                    error!(
                        target: "bridge", limited = true,
                        "bridge {name}: failed to set bridge Ethernet address: {cause}"
                    );
                } else {
                    let interface = port.port.name();
                    error!(target: "bridge", "interface {interface}: setting MAC failed ({cause})");
                }
            }
        }
        switch.follow_mtu();
        self.configure_connections(name, config);
    }
}

/// Gives a switch's tables their settings, where they were others before.
fn configure_tables(
    switch: &Switch,
    old: &BTreeMap<u8, TableSettings>,
    new: &BTreeMap<u8, TableSettings>,
) {
    let numbers: BTreeSet<u8> = old.keys().chain(new.keys()).copied().collect();
    for number in numbers {
        let settings = new.get(&number);
        if old.get(&number) != settings {
            let settings = settings.cloned().unwrap_or_default();
            switch.tables().set_settings(number, &settings);
        }
    }
}

/// Applies the settings of `config` that concern the port alone.
fn configure(port: &mut dyn Port, config: &InterfaceConfig) -> Result<(), PortError> {
    port.set_options(&config.options).inspect_err(|error| {
        let (name, cause) = (port.name(), errno::description(error.errno()));
        match TunnelKind::of_name(port.port_type()) {
            // Tunnel ports have told what is wrong.
            Some(_) => warn!(target: "netdev", "{name}: could not set configuration ({cause})"),
            None => {
                warn!(target: "netdev", "{name}: could not set configuration ({cause}): {error}");
            }
        }
    })?;
    if let Some(mtu) = config.mtu_request
        && port.mtu() != Ok(mtu)
        && let Err(error) = port.set_mtu(mtu)
    {
        // Not fatal: the port works with the MTU that it has, which column `mtu` shows.
        let (name, cause) = (port.name(), errno::description(error.errno()));
        warn!(
            target: "netdev", limited = true,
            "failed to set MTU for network device {name} to {mtu}: {cause}"
        );
    }
    Ok(())
}
