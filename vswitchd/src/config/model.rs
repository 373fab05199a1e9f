//! The configuration as types: what the database asks for, free of rows and strings to parse.

use std::collections::BTreeMap;
use std::time::Duration;

use dpif::datapath::PmdSettings;
use dpif::offload::OffloadSettings;
use dpif::pmd::Knobs;
use netdev::ethernet_address::EthernetAddress;
use ofproto::connection::ControllerSettings;
use ofproto::openflow::version::VersionSet;
use ofproto::port::PortNumber;
use ofproto::port_settings::PortSettings;
use ofproto::revalidate::RevalidateSettings;
use ofproto::switch::Identity;
use ofproto::switches::FailMode;
use ofproto::tables::TableSettings;
use stream::tls::TlsSettings;
use uuid::Uuid;

use super::mirror::MirrorConfig;

/// How often statistics are written when `other_config:stats-update-interval` says nothing, and
/// the shortest interval that it may ask for.
pub const STATISTICS_INTERVAL: Duration = Duration::from_secs(5);

/// Everything that the database asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Time between two updates of the `statistics` columns.
    pub statistics_interval: Duration,
    /// What concerns the datapaths as a whole.
    pub datapath: DatapathConfig,
    /// TLS for controllers, if set.
    pub tls: Option<TlsSettings>,
    /// The bridges by name.
    pub bridges: BTreeMap<String, BridgeConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            statistics_interval: STATISTICS_INTERVAL,
            datapath: DatapathConfig::default(),
            tls: None,
            bridges: BTreeMap::new(),
        }
    }
}

/// Settings of all datapaths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatapathConfig {
    /// How receive queues and poll threads come together.
    pub pmd: PmdSettings,
    /// Caches and output.
    pub knobs: Knobs,
    /// How flows are kept true.
    pub revalidation: RevalidateSettings,
    /// Flows in the hardware of ports.
    pub offload: OffloadSettings,
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
    /// What the bridge does while no controller gave it rules.
    pub fail_mode: FailMode,
    /// Whether it forwards packets to addresses reserved for protocols of bridges
    /// (`other_config:forward-bpdu`).
    pub forwards_reserved: bool,
    /// After how many seconds of silence a station is forgotten (`other_config:mac-aging-time`).
    pub mac_ageing: u64,
    /// Most stations that are remembered (`other_config:mac-table-size`).
    pub mac_table_size: usize,
    /// What controllers are told of the bridge (`other_config:dp-desc` and `dp-sn`).
    pub identity: Identity,
    /// Settings of its flow tables, of those that have any (`flow_tables`).
    pub flow_tables: BTreeMap<u8, TableSettings>,
    /// Its mirrors (`mirrors`).
    pub mirrors: Vec<MirrorConfig>,
    /// OpenFlow versions that connections may use.
    pub versions: VersionSet,
    /// Packets that wait for a controller at most, where it is not set for one.
    pub packet_queue: usize,
    /// How long bundles of controllers may be unused; zero for the default
    /// (`Open_vSwitch.other_config:bundle-idle-timeout`).
    pub bundle_timeout: Duration,
    /// Queue for the packets of in-band control (`other_config:in-band-queue`).
    pub in_band_queue: Option<u32>,
    /// The controllers; several may have the same target.
    pub controllers: Vec<ControllerConfig>,
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

/// A `Controller` row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// Its row.
    pub uuid: Uuid,
    /// Where it is, as written.
    pub target: String,
    /// How to speak with it.
    pub settings: ControllerSettings,
}

/// A `Port` row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// `mac`, when valid.
    pub ethernet_address: Option<EthernetAddress>,
    /// `tag`.
    pub tag: Option<u16>,
    /// How it takes part in switching.
    pub settings: PortSettings,
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
    /// What concerns the datapath, of `other_config`.
    pub datapath: dpif::datapath::PortSettings,
    /// `ofport_request`, when a number that ports may have.
    pub number_request: Option<PortNumber>,
}
