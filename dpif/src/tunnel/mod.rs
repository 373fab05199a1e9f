//! Tunnels in the datapath: the ports that stand for them, the headers that are put in front of
//! packets, and how these are taken off.

pub mod egress_ports;
pub(crate) mod events;
pub mod header;
pub(crate) mod pop;
pub(crate) mod push;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use netdev::tunnel::TunnelConfig;
pub use netdev::tunnel::TunnelKind;

use crate::datapath::PortNumber;
use crate::port_map::PortMap;
use events::Events;

/// A port without queues that stands for the tunnels of one protocol, and one UDP port. `tnl_pop`
/// gives packets to it, and `tnl_push` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelPort {
    /// Protocol.
    pub kind: TunnelKind,
    /// The UDP port to which packets come; 0 for protocols that are not carried in UDP.
    pub udp_port: u16,
    /// Whether VXLAN carries a group policy.
    pub gbp: bool,
}

impl From<&TunnelConfig> for TunnelPort {
    fn from(config: &TunnelConfig) -> Self {
        Self { kind: config.kind, udp_port: config.udp_port, gbp: config.gbp }
    }
}

/// A tunnel port as the threads of its datapath know it.
#[derive(Debug)]
pub(crate) struct Tunnel {
    pub(crate) port: TunnelPort,
    /// The sequence number of the next packet that has one. It goes on over every change of
    /// settings, and threads share it.
    pub(crate) sequence: AtomicU32,
}

impl Tunnel {
    pub(crate) fn new(port: TunnelPort) -> Self {
        Self { port, sequence: AtomicU32::new(0) }
    }
}

/// What a thread knows of tunnels.
#[derive(Default)]
pub(crate) struct Tunnels {
    pub(crate) ports: PortMap<Arc<Tunnel>>,
    /// The numbers of the ports by what they stand for.
    ends: Vec<(PortNumber, TunnelPort)>,
    pub(crate) events: Events,
}

impl Tunnels {
    /// Adds a port.
    pub(crate) fn insert(&mut self, number: PortNumber, tunnel: Arc<Tunnel>) {
        self.ends.push((number, tunnel.port));
        self.ports.insert(number, tunnel);
    }

    /// Takes a port out.
    pub(crate) fn remove(&mut self, number: PortNumber) {
        self.ends.retain(|(other, _)| *other != number);
        self.ports.remove(number);
    }

    /// The port for tunnels of a protocol to a UDP port.
    pub(crate) fn find(&self, kind: TunnelKind, udp_port: u16) -> Option<(PortNumber, TunnelPort)> {
        let is_meant =
            |(_, port): &&(PortNumber, TunnelPort)| port.kind == kind && port.udp_port == udp_port;
        self.ends.iter().find(is_meant).copied()
    }
}
