//! A tunnel port. It has no device and no queues: packets leave and enter through the ports that
//! carry the outer ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::rand::{GetRandomFlags, getrandom};
use tracing::warn;

use super::parse::{Parsed, parse};
use super::{TunnelConfig, TunnelKind};
use crate::ethernet_address::EthernetAddress;
use crate::port::{Port, PortError};
use crate::statistics::Statistics;

/// The VXLAN ports that are configured: UDP port and whether they carry a group policy.
#[derive(Debug, Default)]
pub(crate) struct Tunnels {
    vxlan: Mutex<BTreeMap<String, (u16, bool)>>,
}

impl Tunnels {
    /// Notes down the settings of a port; returns whether these are possible beside the others'.
    fn register(&self, name: &str, config: &TunnelConfig) -> bool {
        if config.kind != TunnelKind::Vxlan {
            return true;
        }
        let mut known = self.vxlan.lock().unwrap_or_else(PoisonError::into_inner);
        let conflicts = known.iter().any(|(other, &(udp_port, gbp))| {
            other != name && udp_port == config.udp_port && gbp != config.gbp
        });
        if !conflicts {
            known.insert(name.to_owned(), (config.udp_port, config.gbp));
        }
        !conflicts
    }

    fn forget(&self, name: &str) {
        self.vxlan.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// What a port without a device carried, a tunnel or a patch. Translation counts.
#[derive(Debug, Default)]
pub struct TunnelTraffic {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
}

impl TunnelTraffic {
    /// Counts packets that came.
    pub fn add_received(&self, packets: u64, bytes: u64) {
        self.rx_packets.fetch_add(packets, Ordering::Relaxed);
        self.rx_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What was counted.
    pub(crate) fn statistics(&self) -> Statistics {
        let count = |counter: &AtomicU64| Some(counter.load(Ordering::Relaxed));
        Statistics {
            rx_packets: count(&self.rx_packets),
            rx_bytes: count(&self.rx_bytes),
            tx_packets: count(&self.tx_packets),
            tx_bytes: count(&self.tx_bytes),
            ..Statistics::default()
        }
    }

    /// Counts packets that went.
    pub fn add_sent(&self, packets: u64, bytes: u64) {
        self.tx_packets.fetch_add(packets, Ordering::Relaxed);
        self.tx_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What translation knows of a tunnel port.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// Its settings.
    pub config: Arc<TunnelConfig>,
    /// What it carried.
    pub traffic: Arc<TunnelTraffic>,
}

/// A port of one of the tunnel types.
#[derive(Debug)]
pub(crate) struct TunnelPort {
    name: String,
    kind: TunnelKind,
    address: EthernetAddress,
    /// Absent until options were set.
    config: Option<Arc<TunnelConfig>>,
    traffic: Arc<TunnelTraffic>,
    tunnels: Arc<Tunnels>,
    change_sequence: u64,
}

impl TunnelPort {
    /// Opens a tunnel port with a random address. Options make it usable.
    pub(crate) fn open(
        name: &str,
        kind: TunnelKind,
        tunnels: &Arc<Tunnels>,
    ) -> Result<Self, PortError> {
        let mut address = [0; 6];
        getrandom(&mut address, GetRandomFlags::empty())
            .map_err(|errno| PortError::Open { port: name.to_owned(), errno })?;
        Ok(Self {
            name: name.to_owned(),
            kind,
            address: EthernetAddress(address).made_local_station(),
            config: None,
            traffic: Arc::default(),
            tunnels: Arc::clone(tunnels),
            change_sequence: 1,
        })
    }
}

impl Drop for TunnelPort {
    fn drop(&mut self) {
        if self.kind == TunnelKind::Vxlan {
            self.tunnels.forget(&self.name);
        }
    }
}

impl Port for TunnelPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn port_type(&self) -> &str {
        self.kind.name()
    }

    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<(), PortError> {
        let Parsed { config, mut problems } = parse(self.kind, options);
        let is_free =
            config.as_ref().is_none_or(|config| self.tunnels.register(&self.name, config));
        if !is_free {
            problems.push(
                "VXLAN-GBP, and non-VXLAN-GBP tunnels can't be configured on the same dst_port"
                    .to_owned(),
            );
        }
        let name = &self.name;
        let problem = problems.join(&format!("\n{name}: "));
        if !problems.is_empty() {
            warn!(target: "netdev_vport", "{name}: {problem}");
        }
        if !is_free {
            return Err(PortError::Conflict { port: name.clone(), problem });
        }
        let Some(config) = config else {
            return Err(PortError::Options { port: name.clone(), problem });
        };
        if self.config.as_deref() != Some(&config) {
            self.config = Some(Arc::new(config));
            self.change_sequence += 1;
        }
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        self.config.as_ref().map(|config| config.options()).unwrap_or_default()
    }

    fn ethernet_address(&self) -> Result<EthernetAddress, PortError> {
        Ok(self.address)
    }

    fn set_ethernet_address(&mut self, address: EthernetAddress) -> Result<(), PortError> {
        self.address = address;
        self.change_sequence += 1;
        Ok(())
    }

    fn mtu(&self) -> Result<u32, PortError> {
        Err(self.not_supported("reading the MTU"))
    }

    fn set_mtu(&mut self, _mtu: u32) -> Result<(), PortError> {
        Err(self.not_supported("setting the MTU"))
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        Ok(true)
    }

    fn set_admin_up(&mut self, up: bool) -> Result<(), PortError> {
        if up { Ok(()) } else { Err(self.not_supported("setting the port down")) }
    }

    fn status(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        Ok(self.traffic.statistics())
    }

    fn change_sequence(&self) -> u64 {
        self.change_sequence
    }

    fn tunnel(&self) -> Option<Tunnel> {
        let config = Arc::clone(self.config.as_ref()?);
        Some(Tunnel { config, traffic: Arc::clone(&self.traffic) })
    }
}
