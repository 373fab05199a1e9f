//! The bridges that exist, and how they come to be what the database asks for.

mod address;
mod bare;
mod datapaths;
mod mirrors;
mod openflow;
pub mod reconcile;
pub mod status;
mod tunnels;
mod underlay;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dpif::datapath::{Datapath, DatapathType, Topology};
use dpif::pmd::metrics::IterationLog;
use netdev::registry::{DummyMode, Registry};
use ofproto::connection::{Connections, Environment, Events, Tls};
use ofproto::news::News;
use ofproto::port::PortNumber;
use ofproto::switch::{Switch, SwitchPort};
use ofproto::underlay::Underlay;
use stream::tls::TlsConfig;

use crate::config::diff::{AppliedBridge, InterfaceName};
use crate::config::model::DatapathConfig;
use bare::BareDatapath;
pub use bare::BareError;
pub use datapaths::ExecutedPacket;
use datapaths::SharedDatapath;

/// All bridges, and the datapaths that they share.
pub struct Bridges {
    registry: Registry,
    underlay: Arc<Underlay>,
    /// Whether the datapath type `system`, and thus the default, is an error.
    system_disabled: bool,
    run_directory: PathBuf,
    topology: Topology,
    /// What datapaths were last configured by.
    datapath_config: DatapathConfig,
    /// How suspicious rounds of poll threads are logged.
    iteration_log: IterationLog,
    datapaths: BTreeMap<DatapathType, SharedDatapath>,
    /// Datapaths without bridges by name.
    bare: BTreeMap<String, BareDatapath>,
    applied: BTreeMap<String, AppliedBridge>,
    switches: BTreeMap<String, Switch>,
    connections: BTreeMap<String, Connections>,
    environment: Environment,
    /// Says that upcalls or tables have something for controllers.
    news: News,
    /// TLS as the command line sets it.
    default_tls: Option<Arc<TlsConfig>>,
    /// Whether unix sockets of controllers must be in `run_directory`.
    confined: bool,
    /// When a switch has a station to forget next, as far as is known.
    stations_expire: Option<Duration>,
    /// When something is due on a connection.
    connections_due: Option<Duration>,
    /// When a neighbour has to be forgotten.
    neighbours_due: Option<Duration>,
}

impl Bridges {
    /// No bridges yet. `registry` opens ports; sockets go into `run_directory`; poll threads run
    /// on the cores of `topology`. TLS connections to controllers are made as `default_tls` says,
    /// unless the database says otherwise; their unix sockets must be in `run_directory` if
    /// `confined`.
    pub fn new(
        registry: Registry,
        system_disabled: bool,
        run_directory: PathBuf,
        topology: Topology,
        default_tls: Option<Arc<TlsConfig>>,
        confined: bool,
    ) -> Self {
        let environment = Environment {
            tls: Tls::default(),
            events: Events::default(),
            run_directory: run_directory.as_path().into(),
        };
        Self {
            registry,
            underlay: Arc::default(),
            system_disabled,
            run_directory,
            topology,
            datapath_config: DatapathConfig::default(),
            iteration_log: IterationLog::default(),
            datapaths: BTreeMap::new(),
            bare: BTreeMap::new(),
            applied: BTreeMap::new(),
            switches: BTreeMap::new(),
            connections: BTreeMap::new(),
            environment,
            news: News::default(),
            default_tls,
            confined,
            stations_expire: None,
            connections_due: None,
            neighbours_due: None,
        }
    }

    /// Names of the datapath types that bridges may have, sorted.
    pub fn datapath_types(&self) -> Vec<&'static str> {
        let dummies = self.registry.mode() != DummyMode::Disabled;
        let dummy = dummies.then_some(DatapathType::Dummy);
        dummy.into_iter().chain([DatapathType::Netdev]).map(DatapathType::name).collect()
    }

    /// Where sockets go.
    pub fn run_directory(&self) -> &Path {
        &self.run_directory
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
        self.datapaths.values().map(|shared| &shared.datapath)
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

    /// The OpenFlow port number of an open interface.
    pub fn number(&self, name: &InterfaceName) -> Option<PortNumber> {
        self.applied.get(&name.bridge)?.interfaces.get(&name.interface)?.number
    }
}
