//! What translation needs to know of the switches on a datapath.
//!
//! The control thread makes a new snapshot when ports or settings change; upcalls and revalidation
//! take the newest one whole.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dpif::datapath;

use crate::features::Features;
use crate::group::Groups;
use crate::mac_table::MacTable;
use crate::meter::Meters;
use crate::mirror::Mirrors;
use crate::openflow::message::FragmentHandling;
use crate::openflow::port::PortNo;
use crate::openflow::text::Names;
use crate::port::PortNumber;
use crate::port_settings::PortSettings;
use crate::recirculation::Recirculations;
use crate::tables::Tables;

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
    /// To the patch port with this name, if that in turn names this one.
    Patch(String),
}

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSnapshot {
    /// Its number.
    pub number: PortNumber,
    /// Its name.
    pub name: String,
    /// Where its packets go.
    pub attachment: Attachment,
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
    /// Patch ports whose peer names them in turn: by their own name, the place of the peer.
    patches: HashMap<String, PortPlace>,
    /// Packets that are to be looked up again.
    recirculations: Arc<Recirculations>,
}

impl Switches {
    /// Puts switches together.
    pub fn new(switches: Vec<SwitchSnapshot>) -> Self {
        let mut by_datapath_port = HashMap::new();
        let mut named = HashMap::new();
        for (index, switch) in switches.iter().enumerate() {
            for (&number, port) in &switch.ports {
                let place = PortPlace { switch: index, port: number };
                match &port.attachment {
                    Attachment::Datapath(number) => {
                        by_datapath_port.insert(number.0, place);
                    }
                    Attachment::Patch(peer) => {
                        named.insert(port.name.as_str(), (peer.as_str(), place));
                    }
                }
            }
        }
        let patches = named.iter().filter_map(|(&name, &(peer, _))| {
            let &(back, place) = named.get(peer)?;
            (back == name && peer != name).then(|| (name.to_owned(), place))
        });
        let patches = patches.collect();
        let (features, recirculations) = (Features::default(), Arc::default());
        Self { switches, features, by_datapath_port, patches, recirculations }
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

    /// The switch and port at the other end of the patch port `name`.
    pub(crate) fn peer_of(&self, name: &str) -> Option<(&SwitchSnapshot, PortNumber)> {
        let place = self.patches.get(name)?;
        Some((self.switches.get(place.switch)?, place.port))
    }
}
