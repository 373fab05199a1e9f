//! Finding the tunnel port of a received packet.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dpif::flow::{FlowKey, TunnelKey};
use netdev::tunnel::{PacketMode, PerFlow, TunnelConfig};

/// What received packets have in common that belong to one tunnel port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The port of the datapath that tunnels of the protocol share.
    pub(super) datapath_port: u32,
    /// The key.
    pub(super) in_key: PerFlow<u64>,
    /// Our address; without one any, which rules do not see to.
    pub(super) local: Option<PerFlow<IpAddr>>,
    /// The address of the other end.
    pub(super) remote: PerFlow<IpAddr>,
    /// What packets are inside.
    pub(super) mode: PacketMode,
}

impl Endpoint {
    /// That of a tunnel port on a port of the datapath.
    pub fn new(config: &TunnelConfig, datapath_port: u32) -> Self {
        Self {
            datapath_port,
            in_key: config.in_key.unwrap_or(PerFlow::Fixed(0)),
            local: config.local,
            remote: config.remote,
            mode: config.packet_mode,
        }
    }
}

/// The outer source and destination addresses.
fn addresses(tunnel: &TunnelKey) -> (IpAddr, IpAddr) {
    let address = |ipv4: u32, ipv6: [u8; 16]| match ipv4 {
        0 if ipv6 != [0; 16] => IpAddr::V6(Ipv6Addr::from(ipv6)),
        _ => IpAddr::V4(Ipv4Addr::from(ipv4)),
    };
    (
        address(tunnel.ipv4_src.get(), tunnel.ipv6_src),
        address(tunnel.ipv4_dst.get(), tunnel.ipv6_dst),
    )
}

/// The endpoints of all tunnel ports on a datapath.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints<P>(HashMap<Endpoint, P>);

impl<P> Default for Endpoints<P> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<P: Copy> Endpoints<P> {
    /// Adds one, which leads to `place`.
    pub(crate) fn insert(&mut self, endpoint: Endpoint, place: P) {
        self.0.insert(endpoint, place);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a packet that came through a tunnel belongs. Of several endpoints the most specific
    /// one wins: first by key, then by the other end's address, then by our own.
    pub(crate) fn find(&self, key: &FlowKey) -> Option<P> {
        let (source, destination) = addresses(&key.tunnel);
        let legacy = match key.packet_namespace.get() {
            1 => PacketMode::LegacyL3,
            _ => PacketMode::LegacyL2,
        };
        for in_key in [PerFlow::Fixed(key.tunnel.id.get()), PerFlow::Flow] {
            for remote in [PerFlow::Fixed(source), PerFlow::Flow] {
                for local in [Some(PerFlow::Fixed(destination)), None, Some(PerFlow::Flow)] {
                    for mode in [legacy, PacketMode::Aware] {
                        let datapath_port = key.in_port.get();
                        let endpoint = Endpoint { datapath_port, in_key, local, remote, mode };
                        if let Some(place) = self.0.get(&endpoint) {
                            return Some(*place);
                        }
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use netdev::tunnel::TunnelKind;

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const REMOTE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn key(id: u64, source: &str, destination: &str) -> FlowKey {
        let mut key = FlowKey::default();
        key.in_port.set(7);
        key.tunnel.id.set(id);
        match (source.parse().unwrap(), destination.parse().unwrap()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                key.tunnel.ipv4_src.set(source.into());
                key.tunnel.ipv4_dst.set(destination.into());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                key.tunnel.ipv6_src = source.octets();
                key.tunnel.ipv6_dst = destination.octets();
            }
            _ => panic!("two families"),
        }
        key
    }

    fn config() -> TunnelConfig {
        TunnelConfig { in_key: Some(PerFlow::Flow), ..TunnelConfig::new(TunnelKind::Gre) }
    }

    fn endpoints(configs: &[TunnelConfig]) -> Endpoints<usize> {
        let mut endpoints = Endpoints::default();
        for (place, config) in configs.iter().enumerate() {
            endpoints.insert(Endpoint::new(config, 7), place);
        }
        endpoints
    }

    #[test]
    fn the_most_specific_endpoint_wins() {
        let local = Some(PerFlow::Fixed(LOCAL));
        let remote = PerFlow::Fixed(REMOTE);
        let flow = Some(PerFlow::Flow);
        let in_key = Some(PerFlow::Fixed(5));
        // In the order in which they are looked for.
        let configs = [
            TunnelConfig { in_key, remote, local, ..config() },
            TunnelConfig { in_key, remote, ..config() },
            TunnelConfig { in_key, local, ..config() },
            TunnelConfig { in_key, ..config() },
            TunnelConfig { in_key, local: flow, ..config() },
            TunnelConfig { remote, local, ..config() },
            TunnelConfig { remote, ..config() },
            TunnelConfig { local, ..config() },
            config(),
            TunnelConfig { local: flow, ..config() },
        ];
        for first in 0..configs.len() {
            let mut endpoints = endpoints(&configs);
            endpoints.0.retain(|_, place| *place >= first);
            assert_eq!(endpoints.find(&key(5, "10.0.0.2", "10.0.0.1")), Some(first));
        }
    }

    #[test]
    fn what_differs_does_not_belong() {
        let remote = PerFlow::Fixed(REMOTE);
        let endpoints = endpoints(&[TunnelConfig { remote, in_key: None, ..config() }]);
        assert_eq!(endpoints.find(&key(0, "10.0.0.2", "9.9.9.9")), Some(0));
        assert_eq!(endpoints.find(&key(1, "10.0.0.2", "9.9.9.9")), None);
        assert_eq!(endpoints.find(&key(0, "10.0.0.3", "9.9.9.9")), None);
        assert_eq!(endpoints.find(&key(0, "fc00::2", "fc00::1")), None);
        let mut other = key(0, "10.0.0.2", "9.9.9.9");
        other.in_port.set(8);
        assert_eq!(endpoints.find(&other), None);
        let mut routed = key(0, "10.0.0.2", "9.9.9.9");
        routed.packet_namespace.set(1);
        assert_eq!(endpoints.find(&routed), None);
    }
}
