//! The bridges that exist, and how they come to be what the database asks for.

mod address;
pub mod reconcile;
pub mod status;

use std::collections::BTreeMap;
use std::path::PathBuf;

use dpif::datapath::{Datapath, DatapathType};
use netdev::registry::{DummyMode, Registry};
use ofproto::connection::Service;
use ofproto::openflow::version::VersionSet;
use ofproto::port::PortNumber;
use ofproto::switch::{Switch, SwitchPort};

use crate::config::diff::{AppliedBridge, InterfaceName};

/// All bridges, and the datapaths that they share.
pub struct Bridges {
    registry: Registry,
    /// Whether the datapath type `system`, and thus the default, is an error.
    system_disabled: bool,
    run_directory: PathBuf,
    datapaths: BTreeMap<DatapathType, Datapath>,
    applied: BTreeMap<String, AppliedBridge>,
    switches: BTreeMap<String, Switch>,
    services: BTreeMap<String, Services>,
}

/// The sockets of a bridge, and the versions that may be spoken there.
struct Services {
    allowed: VersionSet,
    /// `BRIDGE.mgmt` and `BRIDGE.snoop`; held for their `Drop`.
    _sockets: Vec<Service>,
}

impl Bridges {
    /// No bridges yet. `registry` opens ports; sockets go into `run_directory`.
    pub fn new(registry: Registry, system_disabled: bool, run_directory: PathBuf) -> Self {
        Self {
            registry,
            system_disabled,
            run_directory,
            datapaths: BTreeMap::new(),
            applied: BTreeMap::new(),
            switches: BTreeMap::new(),
            services: BTreeMap::new(),
        }
    }

    /// Names of the datapath types that bridges may have, sorted.
    pub fn datapath_types(&self) -> Vec<&'static str> {
        let dummies = self.registry.mode() != DummyMode::Disabled;
        let dummy = dummies.then_some(DatapathType::Dummy);
        dummy.into_iter().chain([DatapathType::Netdev]).map(DatapathType::name).collect()
    }

    /// What opens ports.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What became of each bridge.
    pub fn applied(&self) -> &BTreeMap<String, AppliedBridge> {
        &self.applied
    }

    /// The switches by name.
    pub fn switches(&self) -> impl Iterator<Item = &Switch> {
        self.switches.values()
    }

    /// The switch of bridge `name`.
    pub fn switch(&self, name: &str) -> Option<&Switch> {
        self.switches.get(name)
    }

    /// The datapaths that bridges are on.
    pub fn datapaths(&self) -> impl Iterator<Item = &Datapath> {
        self.datapaths.values()
    }

    /// The type of the datapath of bridge `name`.
    pub fn datapath_type(&self, name: &str) -> Option<DatapathType> {
        self.applied.get(name)?.datapath
    }

    /// The open port of an interface.
    pub fn port(&self, name: &InterfaceName) -> Option<&SwitchPort> {
        let number = self.number(name)?;
        self.switches.get(&name.bridge)?.port(number)
    }

    fn port_mut(&mut self, name: &InterfaceName) -> Option<&mut SwitchPort> {
        let number = self.number(name)?;
        self.switches.get_mut(&name.bridge)?.port_mut(number)
    }

    fn number(&self, name: &InterfaceName) -> Option<PortNumber> {
        self.applied.get(&name.bridge)?.interfaces.get(&name.interface)?.number
    }
}
