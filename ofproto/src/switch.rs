//! One OpenFlow switch: the ports of a bridge under their OpenFlow numbers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dpif::datapath::{self, Datapath, DatapathError};
use netdev::port::Port;
use thiserror::Error;

use crate::epoch::Epoch;
use crate::mac_table::MacTable;
use crate::port::{PortNumber, PortNumbers};
use crate::port_settings::PortSettings;
use crate::switches::{Attachment, FailMode, PortSnapshot, SwitchSnapshot};

/// A port of a switch.
pub struct SwitchPort {
    /// The device.
    pub port: Box<dyn Port>,
    /// Its number on the datapath; patches are on none.
    pub datapath_number: Option<datapath::PortNumber>,
    /// Whether its MTU was asked for; internal ports and patches follow the others otherwise.
    pub mtu_is_requested: bool,
    settings: PortSettings,
}

impl SwitchPort {
    fn follows_mtu(&self) -> bool {
        let internal = matches!(self.port.port_type(), "dummy-internal" | "internal" | "patch");
        internal && !self.mtu_is_requested
    }

    fn snapshot(&self) -> PortSnapshot {
        let attachment = match self.datapath_number {
            Some(number) => Attachment::Datapath(number),
            None => Attachment::Patch(self.port.options().remove("peer").unwrap_or_default()),
        };
        let name = self.port.name().to_owned();
        PortSnapshot { name, attachment, settings: self.settings.clone() }
    }
}

/// Why a port could not be added to a switch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddPortError {
    /// The switch has no OpenFlow port number left.
    #[error("no OpenFlow port number is left on {switch}")]
    Full {
        /// Name of the switch.
        switch: String,
    },
    /// The datapath refused it.
    #[error(transparent)]
    Datapath(#[from] DatapathError),
}

/// One OpenFlow switch.
pub struct Switch {
    name: String,
    datapath_id: Option<u64>,
    numbers: PortNumbers,
    ports: BTreeMap<PortNumber, SwitchPort>,
    /// The smallest MTU of the ports that follow no other.
    mtu: u32,
    mac_table: Arc<MacTable>,
    fail_mode: FailMode,
    forwards_reserved: bool,
}

/// MTU of a switch whose ports have none of their own (IEEE 802.3, clause 3.2.7).
const DEFAULT_MTU: u32 = 1500;

impl Switch {
    /// A switch without ports and datapath id. What it learns counts in the `epoch` of its
    /// datapath.
    pub fn new(name: &str, epoch: Arc<Epoch>) -> Self {
        Self {
            name: name.to_owned(),
            datapath_id: None,
            numbers: PortNumbers::default(),
            ports: BTreeMap::new(),
            mtu: DEFAULT_MTU,
            mac_table: Arc::new(MacTable::new(epoch)),
            fail_mode: FailMode::Standalone,
            forwards_reserved: false,
        }
    }

    /// The name of its bridge, and of its local port.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number by which controllers know the switch, once it has one.
    pub fn datapath_id(&self) -> Option<u64> {
        self.datapath_id
    }

    /// Changes the [`datapath_id`](Self::datapath_id).
    pub fn set_datapath_id(&mut self, datapath_id: u64) {
        self.datapath_id = Some(datapath_id);
    }

    /// Adds `port` to the switch and, unless it is a patch, to `datapath`. The port named like the
    /// switch becomes its local port; others get the number `request` if it is free. `now` is the
    /// time of the switch's clock.
    ///
    /// # Errors
    /// When the switch or the datapath is full, or the name is taken on the datapath.
    pub fn add_port(
        &mut self,
        port: Box<dyn Port>,
        request: Option<PortNumber>,
        datapath: &mut Datapath,
        now: Duration,
    ) -> Result<PortNumber, AddPortError> {
        let number = if port.name() == self.name {
            PortNumber::LOCAL
        } else {
            self.numbers
                .take(request, now)
                .ok_or_else(|| AddPortError::Full { switch: self.name.clone() })?
        };
        let datapath_number = match port.port_type() {
            "patch" => None,
            _ => match datapath.add_port(port.name()) {
                Ok(number) => Some(number),
                Err(error) => {
                    self.numbers.release(number, now);
                    return Err(error.into());
                }
            },
        };
        let settings = PortSettings::default();
        let port = SwitchPort { port, datapath_number, mtu_is_requested: false, settings };
        self.ports.insert(number, port);
        Ok(number)
    }

    /// Takes the port `number` off the switch and `datapath`.
    pub fn remove_port(
        &mut self,
        number: PortNumber,
        datapath: &mut Datapath,
        now: Duration,
    ) -> Option<Box<dyn Port>> {
        let SwitchPort { port, datapath_number, .. } = self.ports.remove(&number)?;
        if datapath_number.is_some() {
            datapath.remove_port(port.name());
        }
        self.numbers.release(number, now);
        self.mac_table.flush_port(number);
        Some(port)
    }

    /// Changes what part a port has in switching. Stations seen on it before are forgotten, because
    /// they may be in other VLANs now.
    pub fn set_port_settings(&mut self, number: PortNumber, settings: PortSettings) {
        if let Some(port) = self.ports.get_mut(&number)
            && port.settings != settings
        {
            port.settings = settings;
            self.mac_table.flush_port(number);
        }
    }

    /// Where the switch saw stations.
    pub fn mac_table(&self) -> &Arc<MacTable> {
        &self.mac_table
    }

    /// Sets which rules it has while no controller has given it any.
    pub fn set_fail_mode(&mut self, fail_mode: FailMode) {
        self.fail_mode = fail_mode;
    }

    /// Sets whether it forwards packets to the addresses reserved for bridges (`forward-bpdu`).
    pub fn set_forwards_reserved(&mut self, forwards: bool) {
        self.forwards_reserved = forwards;
    }

    /// What translation needs to know of it now. To be published after any change of ports or
    /// settings.
    pub fn snapshot(&self) -> SwitchSnapshot {
        let ports = self.ports.iter().map(|(&number, port)| (number, port.snapshot()));
        SwitchSnapshot {
            name: self.name.clone(),
            fail_mode: self.fail_mode,
            forwards_reserved: self.forwards_reserved,
            mac_table: Arc::clone(&self.mac_table),
            ports: ports.collect(),
        }
    }

    /// The port `number`.
    pub fn port(&self, number: PortNumber) -> Option<&SwitchPort> {
        self.ports.get(&number)
    }

    /// The port `number`, to change it.
    pub fn port_mut(&mut self, number: PortNumber) -> Option<&mut SwitchPort> {
        self.ports.get_mut(&number)
    }

    /// All ports by number.
    pub fn ports(&self) -> impl Iterator<Item = (PortNumber, &SwitchPort)> {
        self.ports.iter().map(|(&number, port)| (number, port))
    }

    /// All ports by number, to change them.
    pub fn ports_mut(&mut self) -> impl Iterator<Item = (PortNumber, &mut SwitchPort)> {
        self.ports.iter_mut().map(|(&number, port)| (number, port))
    }

    /// Gives internal ports and patches whose MTU nobody asked for the smallest MTU of the other
    /// ports. To be called after any port came, went or changed.
    pub fn follow_mtu(&mut self) {
        let others = self.ports.values().filter(|port| !port.follows_mtu());
        let smallest = others.filter_map(|port| port.port.mtu().ok()).min().unwrap_or(DEFAULT_MTU);
        let changed = std::mem::replace(&mut self.mtu, smallest) != smallest;
        for port in self.ports.values_mut().filter(|port| port.follows_mtu()) {
            let Ok(mtu) = port.port.mtu() else { continue };
            if (changed && mtu != smallest) || mtu > smallest {
                // A device that refuses keeps what it has; its column `mtu` shows that.
                let _ = port.port.set_mtu(smallest);
            }
        }
    }
}
