//! What translation needs to know of the switches on a datapath.
//!
//! The control thread makes a new snapshot when ports or settings change; upcalls and revalidation
//! take the newest one whole.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dpif::datapath;

use crate::mac_table::MacTable;
use crate::port::PortNumber;
use crate::port_settings::PortSettings;

/// What a switch does while no controller has given it rules (`Bridge.fail_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailMode {
    /// It is a learning switch: one rule says `NORMAL`.
    Standalone,
    /// It has no rules.
    Secure,
}

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
    /// Its name.
    pub name: String,
    /// Where its packets go.
    pub attachment: Attachment,
    /// Its part in switching.
    pub settings: PortSettings,
}

/// A switch.
#[derive(Clone, Debug)]
pub struct SwitchSnapshot {
    /// Its name.
    pub name: String,
    /// Which rules it has.
    pub fail_mode: FailMode,
    /// Whether it forwards packets to addresses that are reserved for the protocols of bridges
    /// (`forward-bpdu`).
    pub forwards_reserved: bool,
    /// Where it saw stations.
    pub mac_table: Arc<MacTable>,
    /// Its ports.
    pub ports: BTreeMap<PortNumber, PortSnapshot>,
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
    by_datapath_port: HashMap<u32, PortPlace>,
    /// Patch ports whose peer names them in turn: by their own name, the place of the peer.
    patches: HashMap<String, PortPlace>,
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
        Self { switches, by_datapath_port, patches }
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
