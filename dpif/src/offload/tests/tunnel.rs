//! Packets that devices take out of tunnels.

use std::sync::Mutex;

use super::*;
use crate::tunnel::{TunnelKind, TunnelPort};

const VXLAN: TunnelPort = TunnelPort { kind: TunnelKind::Vxlan, udp_port: 4789, gbp: false };
/// The number of the tunnel port.
const TUNNEL: u32 = 4;

/// A network with a tunnel port, and the keys of packets that had no flow.
struct Tunneled {
    network: Network,
    keys: Arc<Mutex<Vec<FlowKey>>>,
}

/// Takes VXLAN packets out of their tunnel, and sends what was in it to port 2.
fn answer(key: &FlowKey) -> (FlowKey, Vec<Action>) {
    let mut bits = FlowKey::default();
    let common = [Field::InPort, Field::EthType, Field::VlanTci, Field::IpProto, Field::TpDst];
    common.iter().for_each(|field| bits.set(*field, u128::MAX));
    if key.in_port.get() != TUNNEL {
        return (bits, vec![Action::TunnelPop(TUNNEL)]);
    }
    let tunnel = [
        Field::TunId,
        Field::TunIpv4Src,
        Field::TunIpv4Dst,
        Field::TunTos,
        Field::TunTtl,
        Field::TunFlags,
    ];
    tunnel.iter().for_each(|field| bits.set(*field, field.bits()));
    (bits, vec![Action::Output(2)])
}

impl Tunneled {
    fn new(restore: &str, is_offloaded: bool) -> Self {
        let keys = Arc::new(Mutex::new(vec![]));
        let seen = Arc::clone(&keys);
        let handler = TestHandler::new(move |key: &FlowKey| {
            seen.lock().unwrap().push(key.clone());
            Some(answer(key))
        });
        let mut network = Network::with(&[("hw-restore", restore)], handler);
        network.set_offload(is_offloaded);
        let number = network.datapath.add_tunnel_port("vxlan", VXLAN).unwrap();
        assert_eq!(number, PortNumber(TUNNEL));
        Self { network, keys }
    }

    /// Sends a packet through the tunnel, and waits for what was in it to leave.
    fn pass(&mut self, port: u16, network: u32) -> Vec<u8> {
        self.network.send_frame(1, &tunneled(port, network));
        self.network.wait_for("forwarding", |network| network.take(2).pop())
    }

    fn keys(&self) -> Vec<FlowKey> {
        std::mem::take(&mut *self.keys.lock().unwrap())
    }

    fn state(&self, is_meant: impl Fn(&FlowKey) -> bool) -> Option<OffloadState> {
        let flows = self.network.datapath.dump_flows(None);
        flows.iter().find(|flow| is_meant(flow.key())).map(|flow| flow.offload_state())
    }

    /// Waits until the flow on the port has its rule, which takes packets out of the tunnel.
    fn wait_for_decapsulation(&mut self) {
        self.wait_for(OffloadState::Full, |key| key.in_port.get() == 1);
    }

    fn wait_for_mark(&mut self, port: u16) {
        self.wait_for(OffloadState::Partial, |key| {
            key.in_port.get() == TUNNEL && key.tp_dst.get() == port
        });
    }

    fn wait_for(&self, state: OffloadState, is_meant: impl Fn(&FlowKey) -> bool) {
        let mut last = None;
        for _ in 0..10_000 {
            last = self.state(&is_meant);
            if last == Some(state) {
                return;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        panic!("the flow is {last:?}, not {state:?}");
    }
}

/// A VXLAN packet of a network around one to a UDP port.
fn tunneled(port: u16, network: u32) -> Vec<u8> {
    let header = [&[8, 0, 0, 0][..], &(network << 8).to_be_bytes(), &frame(port)].concat();
    udp(0x0a01_0001, 0x0a01_0002, [5555, 4789], &header)
}

/// Invariant 9: what a device has begun with goes on as if it had not, with every field of its key
/// and every byte; whether the headers of the tunnel are still there or not.
#[test]
fn packets_out_of_tunnels_equal_those_that_no_device_touched() {
    let mut software = Tunneled::new("inner", false);
    let expected: Vec<_> = [4, 5, 6].iter().map(|port| software.pass(*port, 77)).collect();
    assert_eq!(expected, [frame(4), frame(5), frame(6)]);
    let expected_keys = software.keys();
    assert_eq!(expected_keys.len(), 4, "one outside, and each inside");
    for restore in ["outer", "inner"] {
        let mut offloaded = Tunneled::new(restore, true);
        assert_eq!(offloaded.pass(4, 77), frame(4));
        offloaded.wait_for_decapsulation();
        offloaded.wait_for_mark(4);
        // The device looks behind the tunnel's headers for these, and finds no rule.
        assert_eq!([5, 6].map(|port| offloaded.pass(port, 77)).to_vec(), expected[1..]);
        assert_eq!(offloaded.keys(), expected_keys, "{restore}");
        offloaded.wait_for_mark(5);
        assert_eq!(offloaded.pass(5, 77), frame(5));
        // By now the thread has heard of the mark.
        offloaded.network.datapath.clear_statistics(None);
        for _ in 0..3 {
            assert_eq!(offloaded.pass(5, 77), frame(5));
        }
        let counters = offloaded.network.counters();
        let counted = (counters.received, counters.mark_hits, counters.passes());
        assert_eq!(counted, (3, 3, 3), "{restore}");
        // Another network is another flow.
        assert_eq!(offloaded.pass(5, 78), frame(5));
        let keys = offloaded.keys();
        assert_eq!(keys.iter().map(|key| key.tunnel.id.get()).collect::<Vec<_>>(), [78]);
        assert_eq!(offloaded.network.ports[0].1.nic().totals().caller_bugs, 0);
    }
}

/// A*129, with a tunnel port on top: either port takes the rules along.
#[test]
fn rules_of_tunnels_go_with_either_port() {
    let mut tunneled = Tunneled::new("inner", true);
    for port in 1..=20 {
        tunneled.pass(port, 77);
    }
    for port in 1..=20 {
        tunneled.wait_for_mark(port);
    }
    // Each port that a tunnel may come from has the rules for what is inside.
    tunneled.network.wait_for_rules(1 + 3 * 20);
    assert!(tunneled.network.datapath.remove_port("p2"));
    tunneled.network.wait_for_rules(1 + 2 * 20);
    assert!(tunneled.network.datapath.remove_port("vxlan"));
    tunneled.network.wait_for_rules(0);
    tunneled.network.datapath.flush_flows();
    let marks = |network: &mut Network| {
        let status = network.datapath.offload_status();
        let sim = status.iter().find(|provider| provider.name == "sim");
        sim.map(|provider| provider.workers[0].marks)
    };
    tunneled
        .network
        .wait_for("the return of marks", |network| (marks(network) == Some(0)).then_some(()));
}
