//! Packets of tunnels.

use std::cell::RefCell;
use std::sync::Arc;

use dpif::action::{Action, Userspace};
use dpif::datapath::{Config, Datapath, DatapathType, PortNumber, Topology};
use dpif::flow::FlowKey;
use dpif::tunnel::{TunnelKind, TunnelPort};
use dpif::upcall::{Upcall, UpcallError, UpcallHandler};
use netdev::packet::PacketRef;
use netdev::tunnel::TunnelConfig;

/// Drops what comes out of tunnels.
struct Nobody;

impl UpcallHandler for Nobody {
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

/// A datapath with a tunnel port of every kind.
struct Tunnels {
    datapath: Datapath,
    ports: Vec<PortNumber>,
}

impl Tunnels {
    fn new() -> Self {
        let mut datapath = Datapath::new(Config {
            name: "tunnels".to_owned(),
            kind: DatapathType::Netdev,
            topology: Topology { cores: vec![], is_real: false },
            frames: 256,
            handler: Arc::new(Nobody),
            seed: 1,
        });
        let ports = TunnelKind::ALL.map(|kind| {
            let port = TunnelPort { gbp: true, ..TunnelPort::from(&TunnelConfig::new(kind)) };
            datapath.add_tunnel_port(kind.name(), port).expect("a number is free")
        });
        Self { datapath, ports: ports.to_vec() }
    }
}

thread_local! {
    static TUNNELS: RefCell<Tunnels> = RefCell::new(Tunnels::new());
}

/// A packet that came to a tunnel port, whose kind the first byte chooses: it leaves the tunnel or
/// is dropped, and its frames are given back.
pub fn tunnel_pop(bytes: &[u8]) {
    let Some((kind, frame)) = bytes.split_first() else { return };
    TUNNELS.with_borrow_mut(|Tunnels { datapath, ports }| {
        let pool = datapath.pool(0).expect("memory");
        let Some(packet) = pool.packet_with(frame) else { return };
        let port = ports[usize::from(*kind) % ports.len()];
        datapath.execute(packet, &[Action::TunnelPop(port.0)]);
        assert_eq!(pool.counts().held, 0);
    });
}
