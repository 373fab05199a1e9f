//! One OpenFlow switch: the ports of a bridge under their OpenFlow numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use dpif::datapath::{self, Datapath, DatapathError};
use netdev::port::Port;
use thiserror::Error;

use crate::port::{PortNumber, PortNumbers};

/// A port of a switch.
pub struct SwitchPort {
    /// The device.
    pub port: Box<dyn Port>,
    /// Its number on the datapath; patches are on none.
    pub datapath_number: Option<datapath::PortNumber>,
    /// Whether its MTU was asked for; internal ports and patches follow the others otherwise.
    pub mtu_is_requested: bool,
}

impl SwitchPort {
    fn follows_mtu(&self) -> bool {
        let internal = matches!(self.port.port_type(), "dummy-internal" | "internal" | "patch");
        internal && !self.mtu_is_requested
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
}

/// MTU of a switch whose ports have none of their own (IEEE 802.3, clause 3.2.7).
const DEFAULT_MTU: u32 = 1500;

impl Switch {
    /// A switch without ports and datapath id.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            datapath_id: None,
            numbers: PortNumbers::default(),
            ports: BTreeMap::new(),
            mtu: DEFAULT_MTU,
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
        self.ports.insert(number, SwitchPort { port, datapath_number, mtu_is_requested: false });
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
        Some(port)
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
