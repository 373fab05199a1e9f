//! The configuration as types: what the database asks for, free of rows and strings to parse.

use std::collections::BTreeMap;
use std::time::Duration;

use netdev::ethernet_address::EthernetAddress;
use ofproto::port::PortNumber;
use uuid::Uuid;

/// How often statistics are written when `other_config:stats-update-interval` says nothing, and
/// the shortest interval that it may ask for.
pub const STATISTICS_INTERVAL: Duration = Duration::from_secs(5);

/// Everything that the database asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Time between two updates of the `statistics` columns.
    pub statistics_interval: Duration,
    /// The bridges by name.
    pub bridges: BTreeMap<String, BridgeConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self { statistics_interval: STATISTICS_INTERVAL, bridges: BTreeMap::new() }
    }
}

/// A `Bridge` row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeConfig {
    /// Its row.
    pub uuid: Uuid,
    /// `datapath_type` as written; empty for the default.
    pub datapath_type: String,
    /// `other_config:datapath-id`, when valid.
    pub datapath_id: Option<u64>,
    /// `other_config:hwaddr`, when valid.
    pub ethernet_address: Option<EthernetAddress>,
    /// OpenFlow versions that connections may use; empty for the default.
    pub protocols: Vec<String>,
    /// The ports by name.
    pub ports: BTreeMap<String, PortConfig>,
}

impl BridgeConfig {
    /// Every interface of the bridge with the port that it belongs to.
    pub fn interfaces(&self) -> impl Iterator<Item = (&PortConfig, &str, &InterfaceConfig)> {
        self.ports.values().flat_map(|port| {
            port.interfaces.iter().map(move |(name, interface)| (port, name.as_str(), interface))
        })
    }

    /// The interface `name`.
    pub fn interface(&self, name: &str) -> Option<&InterfaceConfig> {
        self.ports.values().find_map(|port| port.interfaces.get(name))
    }
}

/// A `Port` row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// `mac`, when valid.
    pub ethernet_address: Option<EthernetAddress>,
    /// `tag`.
    pub tag: Option<u16>,
    /// Whether the port stands for a whole VLAN bridge (`ovs-vsctl add-br NAME PARENT VLAN`).
    pub fake_bridge: bool,
    /// The interfaces by name.
    pub interfaces: BTreeMap<String, InterfaceConfig>,
}

/// An `Interface` row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Its row.
    pub uuid: Uuid,
    /// `type` in normal form: never empty, and `internal` for a bridge's local interface.
    pub port_type: String,
    /// `options`.
    pub options: BTreeMap<String, String>,
    /// `mac`, when valid.
    pub ethernet_address: Option<EthernetAddress>,
    /// `mtu_request`.
    pub mtu_request: Option<u32>,
    /// `ofport_request`, when a number that ports may have.
    pub number_request: Option<PortNumber>,
}
