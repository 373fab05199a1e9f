//! Datapaths without bridges, which operators make by `dpctl/add-dp` to try things out.

use std::collections::BTreeMap;
use std::sync::Arc;

use dpif::action::{Action, Userspace};
use dpif::datapath::{
    Config, Datapath, DatapathError, DatapathType, PortNumber, ReconfigureError, Topology,
};
use dpif::flow::FlowKey;
use dpif::upcall::{Upcall, UpcallError, UpcallHandler};
use netdev::linux::poller::Poller;
use netdev::packet::PacketRef;
use netdev::port::{Port, PortError};
use netdev::registry::Registry;
use rustix::io::Errno;
use thiserror::Error;
use tracing::warn;
use uuid::Uuid;

use super::Bridges;
use crate::config::diff::InterfaceName;

/// Frames of such a datapath on each NUMA node.
const FRAMES: u32 = 4 * 1024;

/// A datapath without bridges. Its flows are those that operators make.
pub(super) struct BareDatapath {
    pub(super) datapath: Datapath,
    pub(super) ports: BTreeMap<PortNumber, Box<dyn Port>>,
    /// Waits for the ports that the control thread polls; absent when the system refused it.
    pub(super) poller: Option<Poller>,
}

/// Why a datapath or a port could not be added or removed by an operator.
#[derive(Debug, Error)]
pub enum BareError {
    /// There is a datapath of this name.
    #[error("there is a datapath {0} already")]
    Exists(String),
    /// There is no such datapath.
    #[error("there is no datapath {0}")]
    Unknown(String),
    /// Bridges are on the datapath.
    #[error("the datapath {0} is that of the bridges")]
    HasBridges(String),
    /// There is no such port, or it must stay.
    #[error("datapath {datapath} has no port {number} that can be removed")]
    NoPort {
        /// Name of the datapath.
        datapath: String,
        /// Number of the port.
        number: PortNumber,
    },
    /// The datapath has no room for the port.
    #[error(transparent)]
    Datapath(#[from] DatapathError),
    /// The port could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The port carries no packets.
    #[error(transparent)]
    Reconfigure(#[from] ReconfigureError),
}

impl BareError {
    /// The system error that comes closest, for messages in the words of Open vSwitch.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Exists(_) | Self::Datapath(DatapathError::NameTaken { .. }) => Errno::EXIST,
            Self::Unknown(_) => Errno::NODEV,
            Self::HasBridges(_) | Self::Datapath(DatapathError::NumberTaken { .. }) => Errno::BUSY,
            Self::NoPort { number: PortNumber::LOCAL, .. } | Self::Reconfigure(_) => Errno::INVAL,
            Self::NoPort { .. } => Errno::NOENT,
            Self::Datapath(DatapathError::Full { .. }) => Errno::FBIG,
            Self::Port(error) => error.errno(),
        }
    }
}

/// Has no answer: where there are no bridges, nobody knows what to do with packets that no flow
/// takes.
struct NoBridges;

impl UpcallHandler for NoBridges {
    fn miss(&self, _: PacketRef<'_>, key: &FlowKey) -> Result<Upcall, UpcallError> {
        Err(UpcallError::UnknownPort { port: key.in_port.get() })
    }

    fn userspace(
        &self,
        _: PacketRef<'_>,
        key: &FlowKey,
        _: &Userspace,
    ) -> Result<Arc<[Action]>, UpcallError> {
        Err(UpcallError::UnknownPort { port: key.in_port.get() })
    }
}

impl BareDatapath {
    /// A datapath with its local port.
    ///
    /// # Errors
    /// When the local port cannot be opened.
    pub(super) fn new(
        kind: DatapathType,
        name: &str,
        topology: &Topology,
        registry: &Registry,
    ) -> Result<Self, BareError> {
        let datapath = Datapath::new(Config {
            name: name.to_owned(),
            kind,
            topology: topology.clone(),
            frames: FRAMES,
            handler: Arc::new(NoBridges),
            seed: Uuid::new_v4().as_u64_pair().0,
        });
        let mut bare = Self { datapath, ports: BTreeMap::new(), poller: None };
        let local = registry.open(name, kind.port_open_type("internal"))?;
        bare.add_port(local, Some(PortNumber::LOCAL))?;
        Ok(bare)
    }

    /// Adds an open port, under the number that is wished for if there is one.
    ///
    /// # Errors
    /// When its name or number is taken, or it carries no packets.
    pub(super) fn add_port(
        &mut self,
        port: Box<dyn Port>,
        wished: Option<PortNumber>,
    ) -> Result<PortNumber, BareError> {
        let name = port.name().to_owned();
        let number = match wished {
            Some(number) => self.datapath.add_port_at(&name, number).map(|()| number)?,
            None => self.datapath.add_port(&name)?,
        };
        self.ports.insert(number, port);
        if let Some((_, error)) = self.reconfigure().into_iter().find(|(of, _)| *of == number) {
            self.remove_port(number);
            return Err(error.into());
        }
        Ok(number)
    }

    /// Removes a port; false if there is none.
    pub(super) fn remove_port(&mut self, number: PortNumber) -> bool {
        let Some(port) = self.ports.remove(&number) else { return false };
        self.datapath.remove_port(port.name());
        self.reconfigure();
        true
    }

    /// Brings the datapath in line with the ports. Returns what went wrong, by port.
    pub(super) fn reconfigure(&mut self) -> Vec<(PortNumber, ReconfigureError)> {
        let ports = self.ports.iter_mut().map(|(number, port)| (*number, port.as_mut()));
        let errors = self.datapath.reconfigure(&mut ports.collect::<Vec<_>>());
        self.poller = Poller::new(self.datapath.wait_fds())
            .inspect_err(|error| {
                warn!(target: "dpif", "cannot wait for ports: {error}; they receive nothing");
            })
            .ok();
        errors
    }
}

impl Bridges {
    /// All datapaths: those of bridges, then those without.
    pub fn all_datapaths(&self) -> impl Iterator<Item = &Datapath> {
        let bare = self.bare.values().map(|bare| &bare.datapath);
        self.datapaths.values().map(|shared| &shared.datapath).chain(bare)
    }

    /// The same, to be changed.
    pub fn all_datapaths_mut(&mut self) -> impl Iterator<Item = &mut Datapath> {
        let bare = self.bare.values_mut().map(|bare| &mut bare.datapath);
        self.datapaths.values_mut().map(|shared| &mut shared.datapath).chain(bare)
    }

    /// The ports of the datapath `name` by number, but for those that tunnels share.
    pub fn datapath_ports(&self, name: &str) -> BTreeMap<PortNumber, &dyn Port> {
        if let Some(bare) = self.bare.get(name) {
            return bare.ports.iter().map(|(number, port)| (*number, port.as_ref())).collect();
        }
        let shared = self.datapaths.values().find(|shared| shared.datapath.name() == name);
        let local = shared.and_then(|shared| shared.local.as_deref());
        let is_on = |kind: DatapathType| kind.datapath_name() == name;
        let switches = self
            .switches
            .values()
            .filter(|switch| self.datapath_type(switch.name()).is_some_and(is_on));
        let ports = switches
            .flat_map(|switch| switch.ports())
            .filter(|(_, port)| port.port.tunnel().is_none());
        let ports = ports.filter_map(|(_, port)| Some((port.datapath_number?, port.port.as_ref())));
        local.map(|port| (PortNumber::LOCAL, port)).into_iter().chain(ports).collect()
    }

    /// Numbers and names of the ports of the datapath `name` that tunnels share.
    pub fn tunnel_ports(&self, name: &str) -> impl Iterator<Item = (PortNumber, &str)> {
        let shared = self.datapaths.values().filter(move |shared| shared.datapath.name() == name);
        shared
            .flat_map(|shared| &shared.tunnel_ports)
            .map(|(name, number)| (*number, name.as_str()))
    }

    /// Makes a datapath without bridges.
    ///
    /// # Errors
    /// When the name is taken, or its local port cannot be opened.
    pub fn add_bare_datapath(&mut self, kind: DatapathType, name: &str) -> Result<(), BareError> {
        if self.all_datapaths().any(|datapath| datapath.name() == name) {
            return Err(BareError::Exists(name.to_owned()));
        }
        let mut bare = BareDatapath::new(kind, name, &self.topology, &self.registry)?;
        bare.datapath.set_iteration_log(self.iteration_log);
        self.bare.insert(name.to_owned(), bare);
        Ok(())
    }

    /// Removes a datapath without bridges.
    ///
    /// # Errors
    /// When there is none of this name, or it has bridges.
    pub fn remove_bare_datapath(&mut self, name: &str) -> Result<(), BareError> {
        self.bare_mut(name)?;
        self.bare.remove(name);
        Ok(())
    }

    /// Adds a port to a datapath without bridges, which has received `port` as its own.
    ///
    /// # Errors
    /// When the datapath has bridges, name or number are taken, or the port carries no packets.
    pub fn add_bare_port(
        &mut self,
        datapath: &str,
        port: Box<dyn Port>,
        wished: Option<PortNumber>,
    ) -> Result<PortNumber, BareError> {
        self.bare_mut(datapath)?.add_port(port, wished)
    }

    /// Changes the options of a port of a datapath without bridges.
    ///
    /// # Errors
    /// When the datapath has bridges, there is no such port, it refuses the options, or it carries
    /// no packets with them.
    pub fn set_bare_port(
        &mut self,
        datapath: &str,
        number: PortNumber,
        options: &BTreeMap<String, String>,
    ) -> Result<(), BareError> {
        let bare = self.bare_mut(datapath)?;
        let port = bare.ports.get_mut(&number);
        let missing = || BareError::NoPort { datapath: datapath.to_owned(), number };
        port.ok_or_else(missing)?.set_options(options)?;
        match bare.reconfigure().into_iter().find(|(of, _)| *of == number) {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Removes a port from a datapath. A port that belongs to a bridge comes back when this is
    /// reconfigured the next time.
    ///
    /// # Errors
    /// When there is no such port, or it is the datapath's own.
    pub fn remove_datapath_port(
        &mut self,
        datapath: &str,
        number: PortNumber,
    ) -> Result<(), BareError> {
        let missing = || BareError::NoPort { datapath: datapath.to_owned(), number };
        if number == PortNumber::LOCAL {
            return Err(missing());
        }
        match self.bare_mut(datapath) {
            Ok(bare) => bare.remove_port(number).then_some(()).ok_or_else(missing),
            Err(BareError::HasBridges(_)) => {
                let (kind, name) = self.interface_at(datapath, number).ok_or_else(missing)?;
                self.delete_interface(&name);
                self.publish_switches(kind);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn bare_mut(&mut self, name: &str) -> Result<&mut BareDatapath, BareError> {
        let has_bridges = self.datapaths().any(|datapath| datapath.name() == name);
        self.bare.get_mut(name).ok_or_else(|| match has_bridges {
            true => BareError::HasBridges(name.to_owned()),
            false => BareError::Unknown(name.to_owned()),
        })
    }

    /// The interface whose port has `number` on the datapath `datapath` of bridges.
    fn interface_at(
        &self,
        datapath: &str,
        number: PortNumber,
    ) -> Option<(DatapathType, InterfaceName)> {
        self.switches.iter().find_map(|(bridge, switch)| {
            let kind = self.datapath_type(bridge)?;
            let (_, port) = switch.ports().find(|(_, port)| {
                port.datapath_number == Some(number) && port.port.tunnel().is_none()
            })?;
            let name =
                InterfaceName { bridge: bridge.clone(), interface: port.port.name().to_owned() };
            (kind.datapath_name() == datapath).then_some((kind, name))
        })
    }
}
