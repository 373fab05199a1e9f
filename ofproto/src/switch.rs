//! One OpenFlow switch: the ports of a bridge under their OpenFlow numbers.

mod describe;
mod port_change;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpif::datapath::{self, Datapath, DatapathError};
use netdev::ethernet_address::EthernetAddress;
use netdev::port::Port;
use thiserror::Error;
use uuid::Uuid;

use crate::epoch::Epoch;
use crate::group::Groups;
use crate::mac_table::MacTable;
use crate::meter::Meters;
use crate::mirror::{MirrorSettings, Mirrors};
use crate::news::News;
use crate::openflow::error::OfError;
use crate::openflow::message::TlvTableMod;
use crate::openflow::message::{FragmentHandling, PhyPort};
use crate::openflow::port::PortNo;
use crate::openflow::text::Names;
use crate::openflow::tlv_map::TlvMap;
use crate::port::{PortNumber, PortNumbers};
use crate::port_settings::PortSettings;
use crate::switches::{Attachment, PatchSnapshot, PortSnapshot, SwitchId, SwitchSnapshot};
use crate::tables::Tables;
use crate::tunnel::TunnelSnapshot;

pub use describe::Identity;
pub use port_change::PortChange;

/// A port of a switch.
pub struct SwitchPort {
    /// The device.
    pub port: Box<dyn Port>,
    /// Its number on the datapath; patches are on none. Tunnel ports share one with others of the
    /// same protocol, which whoever keeps the switches gives them.
    pub datapath_number: Option<datapath::PortNumber>,
    /// Whether its MTU was asked for; internal ports and patches follow the others otherwise.
    pub mtu_is_requested: bool,
    settings: PortSettings,
    /// Bits of [`config`](crate::openflow::message::config) that controllers set, but for
    /// `PORT_DOWN`, which the device knows.
    config: u32,
    created: Duration,
    /// What controllers were last told of it.
    described: PhyPort,
    /// The device's change sequence when it was described.
    described_at: u64,
}

impl SwitchPort {
    fn follows_mtu(&self) -> bool {
        let internal = matches!(self.port.port_type(), "dummy-internal" | "internal" | "patch");
        internal && !self.mtu_is_requested
    }

    fn snapshot(&self, number: PortNumber) -> PortSnapshot {
        let tunnel = self.port.tunnel().map(TunnelSnapshot);
        let attachment = match (self.datapath_number, tunnel) {
            (Some(number), Some(tunnel)) => Attachment::Tunnel(number, tunnel),
            (Some(number), None) => Attachment::Datapath(number),
            (None, _) => Attachment::Patch(PatchSnapshot {
                peer: self.port.options().remove("peer").unwrap_or_default(),
                traffic: self.port.patch_traffic().unwrap_or_default(),
            }),
        };
        let name = self.port.name().to_owned();
        let PhyPort { config, state, hw_addr, .. } = self.described;
        let ethernet = EthernetAddress(hw_addr);
        let settings = self.settings.clone();
        PortSnapshot { number, name, attachment, ethernet, settings, config, state }
    }
}

/// The names of a switch's ports.
struct PortNames<'a>(&'a BTreeMap<PortNumber, SwitchPort>);

impl Names for PortNames<'_> {
    fn port_by_name(&self, name: &str) -> Option<PortNo> {
        let (number, _) = self.0.iter().find(|(_, port)| port.port.name() == name)?;
        Some(PortNo(number.0))
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
    id: SwitchId,
    name: String,
    datapath_id: Option<u64>,
    numbers: PortNumbers,
    ports: BTreeMap<PortNumber, SwitchPort>,
    /// The smallest MTU of the ports that follow no other.
    mtu: u32,
    mac_table: Arc<MacTable>,
    tables: Arc<Tables>,
    groups: Arc<Groups>,
    meters: Arc<Meters>,
    mirrors: Arc<Mirrors>,
    identity: Identity,
    fragments: FragmentHandling,
    debug_actions: bool,
    tlv: Arc<TlvMap>,
    port_changes: Vec<PortChange>,
    snapshot_is_stale: bool,
    /// Whether a controller is connected.
    has_controller: bool,
    /// Whether a controller wants to see packets that no rule takes.
    reports_misses: Arc<AtomicBool>,
    forwards_reserved: bool,
    /// Whether controllers are connected to over the switch itself.
    is_in_band: bool,
}

/// MTU of a switch whose ports have none of their own (IEEE 802.3, clause 3.2.7).
const DEFAULT_MTU: u32 = 1500;

impl Switch {
    /// A learning switch without ports and datapath id. What it learns counts in the `epoch` of its
    /// datapath, and changes of its rules are `news`.
    pub fn new(name: &str, epoch: Arc<Epoch>, news: News) -> Self {
        Self {
            id: SwitchId(Uuid::new_v4().into_bytes()),
            name: name.to_owned(),
            datapath_id: None,
            numbers: PortNumbers::default(),
            ports: BTreeMap::new(),
            mtu: DEFAULT_MTU,
            mac_table: Arc::new(MacTable::new(Arc::clone(&epoch))),
            tables: Arc::new(Tables::new(epoch, news)),
            groups: Arc::default(),
            meters: Arc::default(),
            mirrors: Arc::default(),
            identity: Identity::default(),
            fragments: FragmentHandling::Normal,
            debug_actions: false,
            tlv: Arc::default(),
            port_changes: Vec::new(),
            snapshot_is_stale: false,
            has_controller: false,
            reports_misses: Arc::default(),
            forwards_reserved: false,
            is_in_band: false,
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

    /// Adds `port` to the switch and, unless it is a patch or a tunnel, to `datapath`. The port named like the
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
            _ if port.tunnel().is_some() => None,
            _ => match datapath.add_port(port.name()) {
                Ok(number) => Some(number),
                Err(error) => {
                    self.numbers.release(number, now);
                    return Err(error.into());
                }
            },
        };
        let settings = PortSettings::default();
        let mut port = SwitchPort {
            described_at: port.change_sequence(),
            port,
            datapath_number,
            mtu_is_requested: false,
            settings,
            config: 0,
            created: now,
            described: PhyPort::default(),
        };
        port.described = port.describe(number);
        self.port_changes.extend(PortChange::of_new_port(&port.described));
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
        let SwitchPort { port, datapath_number, described, .. } = self.ports.remove(&number)?;
        self.port_changes.push(PortChange::removed(&described));
        if datapath_number.is_some() && port.tunnel().is_none() {
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

    /// Its flow tables.
    pub fn tables(&self) -> &Arc<Tables> {
        &self.tables
    }

    /// The tunnel options that it maps to fields.
    pub fn tlv(&self) -> &Arc<TlvMap> {
        &self.tlv
    }

    /// Changes which tunnel options it maps to fields.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with; nothing has changed then.
    pub(crate) fn modify_tlv(&mut self, table_mod: &TlvTableMod) -> Result<(), OfError> {
        self.tlv = self.tables.modify_tlv(table_mod)?;
        self.snapshot_is_stale = true;
        Ok(())
    }

    /// Its groups.
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// Its meters.
    pub fn meters(&self) -> &Arc<Meters> {
        &self.meters
    }

    /// Its mirrors.
    pub fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    /// Makes these its mirrors. Returns the names of those whose settings are not possible.
    pub fn set_mirrors(&mut self, wanted: Vec<MirrorSettings>) -> Vec<String> {
        let mut mirrors = Mirrors::clone(&self.mirrors);
        let impossible = mirrors.set(wanted, &PortNames(&self.ports));
        self.mirrors = Arc::new(mirrors);
        impossible
    }

    /// Sets whether a controller is connected, and whether one wants to see packets that no rule
    /// takes.
    pub(crate) fn set_controllers(&mut self, has_controller: bool, reports_misses: bool) {
        self.snapshot_is_stale |= self.has_controller != has_controller;
        self.has_controller = has_controller;
        self.reports_misses.store(reports_misses, Ordering::Relaxed);
    }

    /// Sets whether controllers are connected to over the switch itself.
    pub(crate) fn set_in_band(&mut self, is_in_band: bool) {
        self.snapshot_is_stale |= self.is_in_band != is_in_band;
        self.is_in_band = is_in_band;
    }

    /// Identifies the switch among all that the process ever had.
    pub fn id(&self) -> SwitchId {
        self.id
    }

    /// Sets whether it forwards packets to the addresses reserved for bridges (`forward-bpdu`).
    pub fn set_forwards_reserved(&mut self, forwards: bool) {
        self.forwards_reserved = forwards;
    }

    /// What translation needs to know of it now. To be published after any change of ports or
    /// settings.
    pub fn snapshot(&self) -> SwitchSnapshot {
        let ports = self.ports.iter().map(|(&number, port)| (number, port.snapshot(number)));
        SwitchSnapshot {
            id: self.id,
            name: self.name.clone(),
            forwards_reserved: self.forwards_reserved,
            mac_table: Arc::clone(&self.mac_table),
            tables: Arc::clone(&self.tables),
            tlv: Arc::clone(&self.tlv),
            groups: Arc::clone(&self.groups),
            meters: Arc::clone(&self.meters),
            mirrors: Arc::clone(&self.mirrors),
            fragments: self.fragments,
            has_controller: self.has_controller,
            is_in_band: self.is_in_band,
            reports_misses: Arc::clone(&self.reports_misses),
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
