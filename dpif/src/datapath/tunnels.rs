//! The ports of a datapath that stand for tunnels.

use std::sync::Arc;

use super::{Datapath, DatapathError, PortNumber};
use crate::tunnel::{Tunnel, TunnelPort};

impl Datapath {
    /// Gives a tunnel port that shall be called `name` a number. It has no queues, and is used at once.
    /// [`remove_port`](Self::remove_port) takes it off.
    ///
    /// # Errors
    /// When the name is taken or all numbers are in use.
    pub fn add_tunnel_port(
        &mut self,
        name: &str,
        port: TunnelPort,
    ) -> Result<PortNumber, DatapathError> {
        let number = self.numbers.add_port(name)?;
        let tunnel = Arc::new(Tunnel::new(port));
        self.tunnels.insert(number, Arc::clone(&tunnel));
        self.run_everywhere(move |worker| {
            worker.pipeline.tunnels.insert(number, Arc::clone(&tunnel));
        });
        self.open_offload_tunnel(number, port);
        Ok(number)
    }

    /// The tunnel port with the number.
    pub fn tunnel_port(&self, number: PortNumber) -> Option<TunnelPort> {
        Some(self.tunnels.get(&number)?.port)
    }

    /// The tunnel ports, with their numbers and names.
    pub fn tunnel_ports(&self) -> impl Iterator<Item = (PortNumber, &str, TunnelPort)> {
        let name = |number| self.numbers.name(number).unwrap_or_default();
        self.tunnels.iter().map(move |(&number, tunnel)| (number, name(number), tunnel.port))
    }

    /// Takes a tunnel port from the threads.
    pub(super) fn remove_tunnel(&mut self, number: PortNumber) {
        if self.tunnels.remove(&number).is_some() {
            self.close_offload_tunnel(number);
            self.run_everywhere(move |worker| {
                worker.pipeline.tunnels.remove(number);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::datapath::{Config, DatapathType, Topology};
    use crate::testing::TestHandler;
    use crate::tunnel::TunnelKind;

    #[test]
    fn tunnel_ports_have_numbers_and_names() {
        let mut datapath = Datapath::new(Config {
            name: "ovs-dummy".to_owned(),
            kind: DatapathType::Dummy,
            topology: Topology { cores: vec![], is_real: false },
            frames: 64,
            handler: TestHandler::new(|_| None) as Arc<_>,
            seed: 1,
        });
        let vxlan = TunnelPort { kind: TunnelKind::Vxlan, udp_port: 4789, gbp: false };
        let gre = TunnelPort { kind: TunnelKind::Gre, udp_port: 0, gbp: false };
        assert_eq!(datapath.add_tunnel_port("vxlan_sys_4789", vxlan), Ok(PortNumber(4789)));
        assert_eq!(datapath.add_tunnel_port("gre_sys", gre), Ok(PortNumber(1)));
        let taken = DatapathError::NameTaken { name: "gre_sys".to_owned(), number: PortNumber(1) };
        assert_eq!(datapath.add_tunnel_port("gre_sys", gre), Err(taken));
        let ports: Vec<_> = datapath.tunnel_ports().collect();
        let expected =
            [(PortNumber(1), "gre_sys", gre), (PortNumber(4789), "vxlan_sys_4789", vxlan)];
        assert_eq!(ports, expected);
        assert_eq!(datapath.tunnel_port(PortNumber(4789)), Some(vxlan));
        assert!(datapath.remove_port("vxlan_sys_4789"));
        assert_eq!(datapath.tunnel_port(PortNumber(4789)), None);
    }
}
