//! The ports of a datapath that tunnel ports share, by protocol and UDP port.

use std::collections::{BTreeMap, HashMap};

use dpif::datapath::{DatapathType, PortNumber};
use dpif::tunnel::TunnelPort;
use ofproto::tunnel::{Endpoint, endpoint_text};
use tracing::warn;

use super::Bridges;
use super::datapaths::SharedDatapath;
use crate::config::diff::InterfaceName;

impl Bridges {
    /// Gives each tunnel port on the datapath the datapath port that it shares with others, and
    /// takes those away that none needs any more. Returns the interfaces for which that was not
    /// possible, and why.
    pub(super) fn place_tunnels(&mut self, kind: DatapathType) -> Vec<(InterfaceName, String)> {
        let Some(SharedDatapath { datapath, tunnel_ports, .. }) = self.datapaths.get_mut(&kind)
        else {
            return vec![];
        };
        let mut ports = vec![];
        for (bridge, switch) in &mut self.switches {
            if self.applied.get(bridge).is_none_or(|applied| applied.datapath != Some(kind)) {
                continue;
            }
            for (_, port) in switch.ports_mut() {
                let Some(tunnel) = port.port.tunnel() else { continue };
                ports.push((bridge, tunnel.config, port));
            }
        }
        // Of two with the same settings the one stays that was there before.
        ports.sort_by_key(|(_, _, port)| port.datapath_number.is_none());
        let (mut used, mut failures) = (BTreeMap::new(), vec![]);
        let mut taken: HashMap<Endpoint, String> = HashMap::new();
        for (bridge, config, port) in ports {
            let shared = config.datapath_port();
            let interface = port.port.name().to_owned();
            let mut fail = |error: String| {
                let name = InterfaceName { bridge: bridge.clone(), interface: interface.clone() };
                failures.push((name, error));
            };
            let known = used.get(&shared).or_else(|| tunnel_ports.get(&shared)).copied();
            let add = || datapath.add_tunnel_port(&shared, TunnelPort::from(config.as_ref()));
            let number = match known.map_or_else(add, Ok) {
                Ok(number) => number,
                Err(error) => {
                    fail(error.to_string());
                    continue;
                }
            };
            port.datapath_number = Some(number);
            used.insert(shared, number);
            let endpoint = Endpoint::new(&config, number.0);
            if let Some(other) = taken.get(&endpoint) {
                let settings = endpoint_text(&endpoint);
                let text = format!(
                    "{interface}: attempting to add tunnel port with same config as port \
                     '{other}' ({settings})"
                );
                warn!(target: "tunnel", "{text}");
                fail(format!(
                    "could not add network device {interface} to ofproto (File exists): port \
                     {other} has the same settings ({settings})"
                ));
                continue;
            }
            taken.insert(endpoint, interface);
        }
        let old = std::mem::replace(tunnel_ports, used);
        for (name, number) in old {
            if tunnel_ports.get(&name) != Some(&number) {
                datapath.remove_port(&name);
            }
        }
        failures
    }

    /// The tunnel ports on all datapaths: name, settings and number of the shared port, by that.
    pub fn tunnels(&self) -> Vec<(String, netdev::tunnel::Tunnel, PortNumber)> {
        let ports = self.switches.values().flat_map(|switch| switch.ports());
        let mut tunnels: Vec<_> = ports
            .filter_map(|(_, port)| {
                let name = port.port.name().to_owned();
                Some((name, port.port.tunnel()?, port.datapath_number?))
            })
            .collect();
        tunnels.sort_by(|(a, _, _), (b, _, _)| a.cmp(b));
        tunnels
    }
}
