use std::sync::{Arc, Mutex};

use netdev::offload::TransmitOffloads;
use netdev::packet::{Checksum, FramePool, Layer};
use netdev::tunnel::TunnelKind;
use proptest::prelude::*;

use super::*;
use crate::datapath::{Config, Datapath, DatapathType, Topology};
use crate::flow::{FlowKey, tunnel_flag};
use crate::testing::{MemoryPort, TestHandler, has_right_checksums, ip, udp};
use crate::tunnel::testing::{Case, case};

/// Sends packets into a tunnel by port 1; what comes out of it leaves by port 2.
struct Setup {
    datapath: Datapath,
    ports: [MemoryPort; 2],
    tunnel_port: u32,
    pool: Arc<FramePool>,
    /// Keys of packets that missed.
    keys: Arc<Mutex<Vec<FlowKey>>>,
}

impl Setup {
    fn new(case: &Case) -> Self {
        let keys = Arc::<Mutex<Vec<FlowKey>>>::default();
        let known = Arc::clone(&keys);
        let handler = TestHandler::new(move |key| {
            known.lock().unwrap().push(key.clone());
            Some((FlowKey::default(), vec![Action::Output(2)]))
        });
        let mut datapath = Datapath::new(Config {
            name: "ovs-dummy".to_owned(),
            kind: DatapathType::Dummy,
            topology: Topology { cores: vec![], is_real: false },
            frames: 256,
            handler: handler as Arc<_>,
            seed: 3,
        });
        let mut ports = ["p1", "p2"].map(|name| MemoryPort::new(name, 1, false));
        datapath.add_port("p1").unwrap();
        datapath.add_port("p2").unwrap();
        let [one, two] = &mut ports;
        one.offloads = TransmitOffloads::empty();
        two.offloads = TransmitOffloads::empty();
        assert_eq!(datapath.reconfigure(&mut [(PortNumber(1), one), (PortNumber(2), two)]), []);
        let tunnel_port = datapath.add_tunnel_port("tunnel", case.port()).unwrap().0;
        let pool = datapath.pool(0).unwrap();
        Self { datapath, ports, tunnel_port, pool, keys }
    }

    /// What leaves by port 1, and by port 2.
    fn run(&mut self, packet: Packet, actions: &[Action]) -> [Vec<Vec<u8>>; 2] {
        self.datapath.execute(packet, actions);
        assert_eq!(self.pool.counts().held, 0);
        self.ports.each_ref().map(MemoryPort::take_sent)
    }

    /// What a packet becomes when it is taken out of the tunnel.
    fn pop(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let packet = self.pool.packet_with(frame).unwrap();
        let [one, two] = self.run(packet, &[Action::TunnelPop(self.tunnel_port)]);
        assert_eq!(one, [] as [Vec<u8>; 0]);
        two
    }

    fn through_tunnel(&self, case: &Case) -> Vec<Action> {
        vec![Action::TunnelPush(Box::new(case.push(self.tunnel_port, 1))), Action::Output(1)]
    }
}

/// A TCP packet with the checksum to be finished, to be cut into segments of `size` bytes.
fn large_tcp(pool: &Arc<FramePool>, is_ipv6: bool, length: usize, size: u16) -> Packet {
    let mut transport = vec![0; 20];
    transport[..4].copy_from_slice(&[0, 5, 0, 6]);
    (transport[12], transport[13]) = (0x50, 0x18);
    transport.extend((0..length).map(|at| at as u8));
    let frame = ip(is_ipv6, 6, transport, 16);
    let mut packet = pool.packet_with(&frame).unwrap();
    let mut view = packet.view_mut();
    let descriptor = view.descriptor_mut();
    descriptor.set_checksum(Layer::Transport, Checksum::Partial);
    let start = if is_ipv6 { 54 } else { 34 };
    (descriptor.checksum_start, descriptor.checksum_offset) = (start, 16);
    if size > 0 {
        descriptor.segmentation =
            if is_ipv6 { Segmentation::TcpIpv6 } else { Segmentation::TcpIpv4 };
        descriptor.segment_size = size;
    }
    packet
}

/// The case for packets with an Ethernet header, if it can be had.
fn with_ethernet(mut case: Case) -> Option<Case> {
    case.packet_type = 0;
    case.config.kind.uses_udp().then_some(())?;
    (case.config.kind != TunnelKind::Gtpu).then_some(case)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Large packets come out of a tunnel as they would have left without one, each segment in a
    /// packet of its own whose checksums are right.
    #[test]
    fn large_packets_are_cut_up_in_tunnels(
        case in case(),
        is_ipv6 in any::<bool>(),
        length in 1..20_000usize,
        size in 500..1500u16,
        is_large in any::<bool>(),
    ) {
        let is_gre = case.config.kind.is_gre();
        let case = if is_gre { Some(Case { packet_type: 0, ..case }) } else { with_ethernet(case) };
        prop_assume!(case.is_some());
        let case = case.unwrap();
        let mut setup = Setup::new(&case);
        let size = if is_large { size } else { 0 };
        let length = if is_large { length } else { length % 3000 };
        let plain = large_tcp(&setup.pool, is_ipv6, length, size);
        let [plain, _] = setup.run(plain, &[Action::Output(1)]);
        prop_assert!(plain.iter().all(|frame| has_right_checksums(frame)));

        let actions = setup.through_tunnel(&case);
        let packet = large_tcp(&setup.pool, is_ipv6, length, size);
        let [outer, _] = setup.run(packet, &actions);
        prop_assert_eq!(outer.len(), plain.len());
        let has_udp_checksum = case.config.kind.uses_udp()
            && case.tunnel.flags.get() & tunnel_flag::CSUM != 0;
        if has_udp_checksum {
            prop_assert!(outer.iter().all(|frame| has_right_checksums(frame)));
        }
        let inner: Vec<_> = outer.iter().flat_map(|frame| setup.pop(frame)).collect();
        prop_assert_eq!(inner, plain);
    }
}

#[test]
fn popped_packets_come_in_through_the_tunnel() {
    let case = Case::new(TunnelKind::Geneve, false);
    let mut setup = Setup::new(&case);
    let frame = udp(1, 2, [3, 4], &[5; 30]);
    let actions = [
        Action::Clone(setup.through_tunnel(&case)),
        // The packet itself is as before.
        Action::Output(1),
    ];
    let packet = setup.pool.packet_with(&frame).unwrap();
    let [mut sent, _] = setup.run(packet, &actions);
    assert_eq!(sent.pop().unwrap(), frame);
    let outer = sent.pop().unwrap();
    assert_eq!(setup.pop(&outer), [frame]);
    let key = setup.keys.lock().unwrap().pop().unwrap();
    assert_eq!(key.in_port.get(), setup.tunnel_port);
    let tp_src = u16::from_be_bytes([outer[34], outer[35]]);
    assert_eq!(key.tunnel, case.received(tp_src));
    assert_eq!((key.tp_src.get(), key.tp_dst.get()), (3, 4));
}

#[test]
fn a_tunnel_that_is_set_stays_with_the_packet() {
    let case = Case::new(TunnelKind::Vxlan, false);
    let mut setup = Setup::new(&case);
    let packet = setup.pool.packet_with(&udp(1, 2, [3, 4], &[])).unwrap();
    let set = Action::SetTunnel(Box::new(case.tunnel));
    let [_, two] = setup.run(packet, &[set, Action::Recirculate(9)]);
    assert_eq!(two.len(), 1);
    let key = setup.keys.lock().unwrap().pop().unwrap();
    assert_eq!((key.tunnel, key.recirc_id.get()), (case.tunnel, 9));
}

#[test]
fn unknown_tunnel_ports_drop_packets() {
    let case = Case::new(TunnelKind::Gre, false);
    let mut setup = Setup::new(&case);
    let actions = setup.through_tunnel(&case);
    assert!(setup.datapath.remove_port("tunnel"));
    for actions in [&actions[..], &[Action::TunnelPop(3)]] {
        let packet = setup.pool.packet_with(&udp(1, 2, [3, 4], &[])).unwrap();
        assert_eq!(setup.run(packet, actions), [vec![], vec![] as Vec<Vec<u8>>]);
    }
}

#[test]
fn packets_are_cut_short_before_they_go_into_a_tunnel() {
    let case = Case::new(TunnelKind::Vxlan, false);
    let mut setup = Setup::new(&case);
    let mut actions = vec![Action::Truncate(60)];
    actions.extend(setup.through_tunnel(&case));
    let packet = setup.pool.packet_with(&udp(1, 2, [3, 4], &[5; 200])).unwrap();
    let [sent, _] = setup.run(packet, &actions);
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [110]);
}
