//! What translation needs to know of the switches on a datapath.
//!
//! The control thread makes a new snapshot when ports or settings change; upcalls and revalidation
//! take the newest one whole.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dpif::datapath;
use dpif::flow::FlowKey;
use netdev::ethernet_address::EthernetAddress;
use netdev::tunnel::{PacketMode, TunnelTraffic};
use tracing::warn;

use crate::features::Features;
use crate::flow::Flow;
use crate::flow_text::packet_text;
use crate::group::Groups;
use crate::mac_table::MacTable;
use crate::meter::Meters;
use crate::mirror::Mirrors;
use crate::openflow::message::FragmentHandling;
use crate::openflow::port::PortNo;
use crate::openflow::text::{Names, NoNames};
use crate::openflow::tlv_map::TlvMap;
use crate::port::PortNumber;
use crate::port_settings::PortSettings;
use crate::recirculation::Recirculations;
use crate::tables::Tables;
use crate::translate::TranslateError;
use crate::tunnel::{Endpoint, Endpoints, Host, Listeners, TunnelSnapshot};
use crate::underlay::Underlay;

/// What a switch does while no controller has given it rules (`Bridge.fail_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// It is a learning switch: one rule says `NORMAL`.
    Standalone,
    /// It has no rules.
    Secure,
}

/// Tells switches apart, those that are gone included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SwitchId(pub [u8; 16]);

/// Where packets of a port go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// To a port of the datapath.
    Datapath(datapath::PortNumber),
    /// Through a tunnel, by the port of the datapath that it shares with others of its protocol.
    Tunnel(datapath::PortNumber, TunnelSnapshot),
    /// To another patch port.
    Patch(PatchSnapshot),
}

/// A patch port.
#[derive(Clone, Debug)]
pub struct PatchSnapshot {
    /// The patch port that its packets go to, if that in turn names this one.
    pub peer: String,
    /// What it carried.
    pub traffic: Arc<TunnelTraffic>,
}

impl PartialEq for PatchSnapshot {
    fn eq(&self, other: &Self) -> bool {
        self.peer == other.peer
    }
}

impl Eq for PatchSnapshot {}

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSnapshot {
    /// Its number.
    pub number: PortNumber,
    /// Its name.
    pub name: String,
    /// Where its packets go.
    pub attachment: Attachment,
    /// Its Ethernet address, or zeros.
    pub ethernet: EthernetAddress,
    /// Its part in switching.
    pub settings: PortSettings,
    /// Bits of [`config`](crate::openflow::message::config).
    pub config: u32,
    /// Bits of [`state`](crate::openflow::message::state).
    pub state: u32,
}

/// A switch.
#[derive(Clone, Debug)]
pub struct SwitchSnapshot {
    /// Tells it from others, those that had its name before included.
    pub id: SwitchId,
    /// Its name.
    pub name: String,
    /// Whether it forwards packets to addresses that are reserved for the protocols of bridges
    /// (`forward-bpdu`).
    pub forwards_reserved: bool,
    /// Where it saw stations.
    pub mac_table: Arc<MacTable>,
    /// Its flow tables.
    pub tables: Arc<Tables>,
    /// The tunnel options that it maps to fields.
    pub tlv: Arc<TlvMap>,
    /// Its groups.
    pub groups: Arc<Groups>,
    /// Its meters.
    pub meters: Arc<Meters>,
    /// Its mirrors.
    pub mirrors: Arc<Mirrors>,
    /// What it does with fragments of IP packets.
    pub fragments: FragmentHandling,
    /// Whether a controller is connected.
    pub has_controller: bool,
    /// Whether controllers are connected to over the switch itself.
    pub is_in_band: bool,
    /// Whether a controller that speaks a version before OpenFlow 1.3 wants to see packets for
    /// which there is no rule.
    pub reports_misses: Arc<AtomicBool>,
    /// Its ports.
    pub ports: BTreeMap<PortNumber, PortSnapshot>,
}

impl PortSnapshot {
    /// Whether it is one end of a patch.
    pub fn is_patch(&self) -> bool {
        matches!(self.attachment, Attachment::Patch(_))
    }

    /// What packets its device or tunnel takes.
    pub fn packet_mode(&self) -> PacketMode {
        match &self.attachment {
            Attachment::Datapath(_) => PacketMode::LegacyL2,
            Attachment::Tunnel(_, tunnel) => tunnel.0.config.packet_mode,
            Attachment::Patch(_) => PacketMode::Aware,
        }
    }
}

impl Names for SwitchSnapshot {
    fn port(&self, port: PortNo) -> Option<&str> {
        self.ports.get(&PortNumber(port.0)).map(|port| port.name.as_str())
    }

    fn port_by_name(&self, name: &str) -> Option<PortNo> {
        let mut ports = self.ports.values();
        ports.find(|port| port.name == name).map(|port| PortNo(port.number.0))
    }
}

/// A port among those of all switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PortPlace {
    /// Index of the switch.
    switch: usize,
    /// Number within the switch.
    port: PortNumber,
}

/// All switches on a datapath.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    switches: Vec<SwitchSnapshot>,
    features: Features,
    by_datapath_port: HashMap<u32, PortPlace>,
    tunnels: Endpoints<PortPlace>,
    /// The network below tunnels.
    underlay: Arc<Underlay>,
    listeners: Listeners,
    /// Patch ports whose peer names them in turn: by their own name, the place of the peer.
    patches: HashMap<String, PortPlace>,
    /// Packets that are to be looked up again.
    recirculations: Arc<Recirculations>,
}

impl Switches {
    /// Puts switches together.
    pub fn new(switches: Vec<SwitchSnapshot>) -> Self {
        let mut by_datapath_port = HashMap::new();
        let mut tunnels = Endpoints::default();
        let mut named = HashMap::new();
        for (index, switch) in switches.iter().enumerate() {
            for (&number, port) in &switch.ports {
                let place = PortPlace { switch: index, port: number };
                match &port.attachment {
                    Attachment::Datapath(number) => {
                        by_datapath_port.insert(number.0, place);
                    }
                    Attachment::Tunnel(number, tunnel) => {
                        tunnels.insert(Endpoint::new(&tunnel.0.config, number.0), place);
                    }
                    Attachment::Patch(patch) => {
                        named.insert(port.name.as_str(), (patch.peer.as_str(), place));
                    }
                }
            }
        }
        let patches = named.iter().filter_map(|(&name, &(peer, _))| {
            let &(back, place) = named.get(peer)?;
            (back == name && peer != name).then(|| (name.to_owned(), place))
        });
        let patches = patches.collect();
        Self { switches, by_datapath_port, tunnels, patches, ..Self::default() }
    }

    /// The same switches above this network, of which the addresses are taken as they are now.
    pub fn with_underlay(self, underlay: Arc<Underlay>) -> Self {
        let ports = || self.switches.iter().flat_map(|switch| switch.ports.values());
        let tunnels = ports().filter_map(|port| match &port.attachment {
            Attachment::Tunnel(number, TunnelSnapshot(tunnel)) => {
                let config = &tunnel.config;
                Some((number.0, config.datapath_port(), config.kind, config.udp_port))
            }
            Attachment::Datapath(_) | Attachment::Patch(_) => None,
        });
        let router = underlay.router();
        let hosts = ports().flat_map(|port| {
            let own = router.addresses().get(&port.name);
            own.into_iter()
                .flatten()
                .map(|network| Host { ethernet: port.ethernet, address: network.address })
        });
        let listeners = Listeners::new(tunnels, &hosts.collect::<Vec<_>>());
        drop(router);
        Self { underlay, listeners, ..self }
    }

    /// The network below tunnels.
    pub fn underlay(&self) -> &Arc<Underlay> {
        &self.underlay
    }

    /// Where packets of tunnels are received.
    pub fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// The switch and port that the device `name` is: the local port of a bridge before others.
    pub(crate) fn device(&self, name: &str) -> Option<(&SwitchSnapshot, &PortSnapshot)> {
        let of = |switch: &'_ SwitchSnapshot| {
            switch.ports.values().find(|port| port.name == name).map(|port| port.number)
        };
        let bridges = self.switches.iter().filter(|switch| switch.name == name);
        let found = bridges.chain(&self.switches).find_map(|switch| Some((switch, of(switch)?)));
        let (switch, number) = found?;
        Some((switch, switch.ports.get(&number)?))
    }

    /// The same switches with these packets that are to be looked up again.
    pub fn with_recirculations(self, recirculations: Arc<Recirculations>) -> Self {
        Self { recirculations, ..self }
    }

    /// Packets that are to be looked up again.
    pub fn recirculations(&self) -> &Arc<Recirculations> {
        &self.recirculations
    }

    /// The same on a datapath with these features.
    pub fn with_features(self, features: Features) -> Self {
        Self { features, ..self }
    }

    /// What translation may ask of the datapath.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The switch `id`.
    pub fn by_id(&self, id: SwitchId) -> Option<&SwitchSnapshot> {
        self.switches.iter().find(|switch| switch.id == id)
    }

    /// The switches.
    pub fn iter(&self) -> impl Iterator<Item = &SwitchSnapshot> {
        self.switches.iter()
    }

    /// The switch that has port `number` of the datapath, and the port's number there.
    pub fn of_datapath_port(&self, number: u32) -> Option<(&SwitchSnapshot, PortNumber)> {
        let place = self.by_datapath_port.get(&number)?;
        Some((self.switches.get(place.switch)?, place.port))
    }

    /// The switch that receives a packet from the datapath, and the number of its port there: the
    /// tunnel port to which a packet from a tunnel belongs, else the one on which it came.
    ///
    /// # Errors
    /// When there is none.
    pub fn receiver_of(
        &self,
        key: &FlowKey,
    ) -> Result<(&SwitchSnapshot, PortNumber), TranslateError> {
        let number = key.in_port.get();
        if !key.tunnel.has_destination() {
            return self.of_datapath_port(number).ok_or(TranslateError::UnknownPort(number));
        }
        let place = self.tunnels.find(key);
        let found = place.and_then(|place| Some((self.switches.get(place.switch)?, place.port)));
        found.ok_or_else(|| {
            let packet = packet_text(
                &Flow::of_packet(key.clone(), PortNo(number as u16)),
                &TlvMap::default(),
                &NoNames,
            );
            warn!(target: "tunnel", limited = true, "receive tunnel port not found ({packet})");
            TranslateError::UnknownTunnel(number)
        })
    }

    /// Whether the datapath is to put tunnel headers on packets by itself.
    pub fn has_native_tunnels(&self) -> bool {
        self.features.tnl_push_pop && !self.tunnels.is_empty()
    }

    /// The switch and port at the other end of the patch port `name`.
    pub(crate) fn peer_of(&self, name: &str) -> Option<(&SwitchSnapshot, PortNumber)> {
        let place = self.patches.get(name)?;
        Some((self.switches.get(place.switch)?, place.port))
    }
}
