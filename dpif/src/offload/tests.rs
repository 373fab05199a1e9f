//! The whole datapath over software NICs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use netdev::flow_api::FlowDevice;
use netdev::packet::{Batch, FramePool};
use netdev::port::Port;
use netdev::queue::{RxQueue, TxQueue};
use netdev::sim::{Faults, SimPort, SimPorts};
use zerocopy::network_endian::U16;

use super::control::OffloadSettings;
use super::reason::{OffloadState, Reason};
use crate::action::Action;
use crate::datapath::{
    Config, Datapath, DatapathType, FlowPut, PmdSettings, PortNumber, PutMode, Topology,
};
use crate::flow::{Field, FlowKey, FlowMask};
use crate::pmd::assign::Core;
use crate::pmd::statistics::Snapshot;
use crate::testing::{TestHandler, udp};

/// Ports of the datapath, `p1` and on, each wired to one of the test, `x1` and on.
struct Network {
    datapath: Datapath,
    handler: Arc<TestHandler>,
    ports: Vec<(PortNumber, SimPort)>,
    devices: Vec<Arc<dyn FlowDevice>>,
    senders: Vec<Box<dyn TxQueue>>,
    receivers: Vec<Box<dyn RxQueue>>,
    pool: Arc<FramePool>,
    _far: Vec<SimPort>,
    _sims: Arc<SimPorts>,
}

fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Sends packets to UDP port N of the first three ports to port number N % 3 + 1, where port 1000
/// and on also set a field, and drops those to port 0.
fn forward(key: &FlowKey) -> Option<(FlowKey, Vec<Action>)> {
    let mut bits = FlowKey::default();
    for field in [Field::InPort, Field::EthType, Field::VlanTci, Field::IpProto, Field::TpDst] {
        bits.set(field, u128::MAX);
    }
    Some((bits, actions_of(key.tp_dst.get())))
}

fn actions_of(port: u16) -> Vec<Action> {
    let output = Action::Output(u32::from(port) % 3 + 1);
    match port {
        0 => vec![],
        1000.. => vec![Action::PushVlan { tpid: 0x8100, tci: 0x1005 }, output],
        _ => vec![output],
    }
}

impl Network {
    fn new(pairs: &[(&str, &str)]) -> Self {
        let handler = TestHandler::new(forward);
        let topology = Topology { cores: vec![Core { numa: 0, core: 0 }], is_real: false };
        let config = Config {
            name: "ovs-netdev".to_owned(),
            kind: DatapathType::Netdev,
            topology,
            frames: 4096,
            handler: Arc::clone(&handler) as Arc<_>,
            seed: 7,
        };
        let mut datapath = Datapath::new(config);
        let sims = Arc::new(SimPorts::default());
        let pool = FramePool::new(4096).unwrap();
        let (mut ports, mut far, mut senders, mut receivers) = (vec![], vec![], vec![], vec![]);
        for number in 1..=3 {
            let (near_name, far_name) = (format!("p{number}"), format!("x{number}"));
            let mut near = sims.open(&near_name).unwrap();
            let mut other = sims.open(&far_name).unwrap();
            let mut near_options = options(pairs);
            near_options.insert("peer".to_owned(), far_name);
            near.set_options(&near_options).unwrap();
            other.set_options(&options(&[("peer", &near_name)])).unwrap();
            senders.push(other.open_tx(0).unwrap());
            receivers.push(other.open_rx(0, &pool).unwrap());
            far.push(other);
            ports.push((datapath.add_port(&near_name).unwrap(), near));
        }
        let devices = ports.iter().map(|(_, port)| port.flow_device().unwrap()).collect();
        datapath.set_pmd_settings(PmdSettings { max_sleep: 0, ..PmdSettings::default() });
        let mut network = Self {
            datapath,
            handler,
            ports,
            devices,
            senders,
            receivers,
            pool,
            _far: far,
            _sims: sims,
        };
        network.set_offload(true);
        network
    }

    fn set_offload(&mut self, is_enabled: bool) {
        self.datapath.set_offload(OffloadSettings { is_enabled, ..OffloadSettings::default() });
        self.reconfigure();
    }

    fn reconfigure(&mut self) {
        let ports = self.ports.iter_mut();
        let mut ports: Vec<(PortNumber, &mut dyn Port)> =
            ports.map(|(number, port)| (*number, port as &mut dyn Port)).collect();
        assert_eq!(self.datapath.reconfigure(&mut ports), []);
    }

    /// Sends a packet to a UDP port into datapath port `into`.
    fn send(&mut self, into: usize, port: u16) {
        let mut batch = Batch::new(&self.pool);
        batch.push(self.pool.packet_with(&frame(port)).unwrap()).unwrap();
        assert_eq!(self.senders[into - 1].send(&mut batch).sent, 1);
    }

    /// The frames that have left by datapath port `out`.
    fn take(&mut self, out: usize) -> Vec<Vec<u8>> {
        let mut batch = Batch::new(&self.pool);
        self.receivers[out - 1].receive(&mut batch).unwrap();
        batch.iter().map(|packet| packet.data().to_vec()).collect()
    }

    fn wait_for<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..20_000 {
            if let Some(found) = look(self) {
                return found;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        panic!("{what} did not happen");
    }

    /// Sends a packet and waits for it to leave by `out`.
    fn pass(&mut self, into: usize, port: u16, out: usize) -> Vec<u8> {
        self.send(into, port);
        self.wait_for("forwarding", |network| network.take(out).pop())
    }

    fn wait_for_state(&mut self, port: u16, state: OffloadState) {
        let text = format!("{state:?} for UDP port {port}");
        self.wait_for(&text, |network| {
            let flows = network.datapath.dump_flows(None);
            let mut flows = flows.iter().filter(|flow| flow.key().tp_dst.get() == port);
            flows.next().filter(|flow| flow.offload_state() == state).map(|_| ())
        });
    }

    fn rules(&self) -> usize {
        self.devices.iter().map(|device| device.rules()).sum()
    }

    fn wait_for_rules(&mut self, rules: usize) {
        self.wait_for("the right number of rules", |network| {
            (network.rules() == rules).then_some(())
        });
    }

    fn counters(&self) -> Snapshot {
        let threads = self.datapath.thread_status();
        threads.iter().find(|thread| thread.core.is_some()).unwrap().counters
    }

    /// Packets of the flow of a UDP port, in software and hardware.
    fn packets(&self, port: u16) -> u64 {
        let flows = self.datapath.dump_flows(None);
        let of_port = flows.iter().filter(|flow| flow.key().tp_dst.get() == port);
        of_port.map(|flow| flow.statistics().packets).sum()
    }

    fn put(&mut self, port: u16, actions: Vec<Action>) {
        let flows = self.datapath.dump_flows(None);
        let flow = flows.iter().find(|flow| flow.key().tp_dst.get() == port).unwrap();
        let put = FlowPut {
            key: flow.key().clone(),
            mask: flow.mask().clone(),
            actions: actions.into(),
            ufid: Some(flow.ufid()),
            mode: PutMode::Modify,
            clear_statistics: false,
        };
        self.datapath.put_flow(&put, None).unwrap_err();
        self.datapath.put_flow(&put, Some(flow.worker())).unwrap();
    }
}

fn frame(port: u16) -> Vec<u8> {
    udp(0x0a00_0001, 0x0a00_0002, [99, port], &[5; 30])
}

const PARTIAL: &[(&str, &str)] = &[("hw-full", "false")];

#[test]
fn marked_packets_need_no_look_up() {
    let mut network = Network::new(PARTIAL);
    assert_eq!(network.pass(1, 4, 2), frame(4));
    network.wait_for_state(4, OffloadState::Partial);
    assert_eq!(network.pass(1, 4, 2), frame(4));
    // What the thread had not heard of before, it has by now.
    network.datapath.clear_statistics(None);
    for _ in 0..10 {
        assert_eq!(network.pass(1, 4, 2), frame(4));
    }
    let counters = network.counters();
    assert_eq!((counters.mark_hits, counters.passes(), counters.received), (10, 10, 10));
    // The packet that brought the flow is not one of its packets.
    assert_eq!(network.packets(4), 11);
    let misses = &network.handler.misses;
    assert_eq!(misses.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn hardware_that_can_keeps_packets_to_itself() {
    let mut network = Network::new(&[]);
    for (port, out) in [(4, 2), (1001, 3)] {
        let first = network.pass(1, port, out);
        network.wait_for_state(port, OffloadState::Full);
        network.datapath.clear_statistics(None);
        for _ in 0..5 {
            assert_eq!(network.pass(1, port, out), first);
        }
        assert_eq!(network.counters().received, 0);
        network.wait_for("counting", |network| (network.packets(port) == 5).then_some(()));
        let flows = network.datapath.dump_flows(None);
        let flow = flows.iter().find(|flow| flow.key().tp_dst.get() == port).unwrap();
        assert_eq!(flow.statistics().bytes, 5 * frame(port).len() as u64);
        // What was counted once is not counted at the next look.
        network.pass(1, port, out);
        network.wait_for("counting", |network| (network.packets(port) == 6).then_some(()));
    }
    // What is dropped is dropped by the device.
    network.send(1, 0);
    network.wait_for_state(0, OffloadState::Full);
    network.send(1, 0);
    network.wait_for("counting", |network| (network.packets(0) == 1).then_some(()));
}

#[test]
fn a_flow_that_does_something_else_keeps_its_count_and_its_truth() {
    for style in ["in-place", "break-before-make", "make-before-break"] {
        let mut network = Network::new(&[("hw-modify", style)]);
        network.pass(1, 4, 2);
        network.wait_for_state(4, OffloadState::Full);
        network.pass(1, 4, 2);
        network.put(4, vec![Action::Output(3)]);
        network.wait_for("the new way", |network| {
            network.send(1, 4);
            network.take(3).pop()
        });
        network.take(2);
        network.put(
            4,
            vec![
                Action::Hash { algorithm: crate::action::HashAlgorithm::L4, basis: 1 },
                Action::Output(2),
            ],
        );
        network.wait_for_state(4, OffloadState::Partial);
        let before = network.packets(4);
        assert!(before >= 2, "{style}");
        network.wait_for("the way back", |network| {
            network.send(1, 4);
            network.take(2).pop()
        });
        assert!(network.packets(4) > before, "{style}");
    }
}

#[test]
fn rules_follow_flows_ports_and_settings() {
    let mut network = Network::new(&[]);
    for port in 1..=9 {
        network.pass(1, port, usize::from(port) % 3 + 1);
    }
    network.wait_for_rules(9);
    network.datapath.flush_flows();
    network.wait_for_rules(0);
    let marks = |network: &mut Network| network.datapath.offload_status()[0].workers[0].marks;
    network.wait_for("the return of marks", |network| (marks(network) == 0).then_some(()));
    for port in 1..=9 {
        network.pass(1, port, usize::from(port) % 3 + 1);
    }
    network.wait_for_rules(9);
    network.set_offload(false);
    assert_eq!(network.rules(), 0);
    network.wait_for_state(4, OffloadState::No(Reason::Off));
    network.pass(1, 4, 2);
    // Flows that are there become rules when offload comes back.
    network.set_offload(true);
    network.wait_for_rules(9);
    assert!(network.datapath.remove_port("p1"));
    assert_eq!(network.rules(), 0);
    network.wait_for_state(4, OffloadState::No(Reason::NoHardware));
    let (_, port) = network.ports.remove(0);
    let number = network.datapath.add_port("p1").unwrap();
    network.ports.insert(0, (number, port));
    network.reconfigure();
    network.wait_for_rules(9);
    drop(network.datapath);
    let rules: usize = network.devices.iter().map(|device| device.rules()).sum();
    assert_eq!(rules, 0);
}

#[test]
fn devices_that_fail_leave_packets_to_software() {
    let mut network = Network::new(&[("hw-capacity", "1")]);
    network.pass(1, 4, 2);
    network.wait_for_state(4, OffloadState::Full);
    network.pass(1, 7, 2);
    network.wait_for_state(7, OffloadState::No(Reason::Device));
    assert_eq!(network.pass(1, 7, 2), frame(7));
    let nic = Arc::clone(network.ports[0].1.nic());
    nic.set_removed(true);
    nic.set_removed(false);
    // The device lost its rules and said nothing.
    assert_eq!(network.pass(1, 4, 2), frame(4));
    nic.set_faults(Faults { stuck: 1000, ..Faults::default() });
    assert_eq!(network.pass(1, 10, 2), frame(10));
    network.wait_for_state(10, OffloadState::No(Reason::Pending));
    assert_eq!(network.pass(1, 10, 2), frame(10));
    assert!(network.datapath.remove_port("p1"), "a stuck device holds nobody up");
    assert_eq!(network.rules(), 0);
}

#[test]
fn flows_say_why_they_are_not_in_hardware() {
    let mut network = Network::new(&[("hw-mark", "false"), ("hw-full", "false")]);
    network.pass(1, 4, 2);
    network.wait_for_state(4, OffloadState::No(Reason::Actions));
    let (mut key, mut bits) = (FlowKey::default(), FlowKey::default());
    for (field, value) in
        [(Field::InPort, 1), (Field::EthType, 0x86dd), (Field::Ipv6Label, 5), (Field::TpDst, 8)]
    {
        key.set(field, value);
        bits.set(field, u128::MAX);
    }
    bits.vlans[0].tci = U16::new(0x1fff);
    bits.ip_proto = u8::MAX;
    let put = FlowPut {
        key,
        mask: FlowMask::new(bits),
        actions: Arc::new([]),
        ufid: None,
        mode: PutMode::Create,
        clear_statistics: false,
    };
    network.datapath.put_flow(&put, None).unwrap();
    network.wait_for_state(8, OffloadState::No(Reason::Field(Field::Ipv6Label)));
}

/// Packets that the simulation sends; more where asked for.
fn simulated_packets() -> u64 {
    let asked = std::env::var("SLUICE_SIMULATED_PACKETS");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

/// A generator of numbers that depend on the seed alone.
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A frame to a UDP port that tells its number.
fn numbered(port: u16, number: u64) -> Vec<u8> {
    udp(0x0a00_0001, 0x0a00_0002, [99, port], &[&number.to_be_bytes()[..], &[1; 22]].concat())
}

/// What has become of a frame when it left.
fn expected(port: u16, number: u64) -> Vec<u8> {
    let mut frame = numbered(port, number);
    if port >= 1000 {
        frame.splice(12..12, [0x81, 0, 0, 5]);
    }
    frame
}

/// Invariants 1, 6, 9 and 10, over devices that do everything wrong that devices do: each packet
/// leaves once, by the port and with the bytes that software alone would give it, and in order
/// within its flow; whatever happens to flows, ports and settings meanwhile.
#[test]
fn every_packet_goes_where_software_would_send_it() {
    let device: &[(&str, &str)] = &[
        ("hw-reorder", "7"),
        ("hw-insert-latency-us", "40"),
        ("hw-remove-latency-us", "20"),
        ("hw-jitter", "300"),
        ("hw-capacity", "24"),
        ("hw-modify", "make-before-break"),
    ];
    for (seed, extra) in [
        (1, ("hw-full", "false")),
        (2, ("hw-counter-lag-ms", "20")),
        (3, ("hw-modify", "break-before-make")),
    ] {
        let pairs: Vec<_> = device.iter().copied().chain([extra]).collect();
        let mut network = Network::new(&pairs);
        for (_, port) in &network.ports {
            port.nic().set_faults(Faults {
                insert_error: 50,
                update_error: 100,
                remove_error: 50,
                late: 50,
                lost: 2,
                duplicate: 100,
                stuck: 0,
            });
        }
        let (mut choices, is_full) = (Choices(seed), extra.0 != "hw-full");
        let ports: Vec<u16> = (1..30).chain(1000..1010).collect();
        let (mut sent, total) = (0, simulated_packets() / 3);
        while sent < total {
            let mut wanted: BTreeMap<usize, BTreeMap<u16, Vec<Vec<u8>>>> = BTreeMap::new();
            let into = 1 + choices.below(2) as usize;
            for _ in 0..1 + choices.below(4) {
                let mut batch = Batch::new(&network.pool);
                for _ in 0..1 + choices.below(31) {
                    let port = ports[choices.below(ports.len() as u64) as usize];
                    let frame = numbered(port, sent);
                    batch.push(network.pool.packet_with(&frame).unwrap()).unwrap();
                    let out = wanted.entry(usize::from(port) % 3 + 1).or_default();
                    out.entry(port).or_default().push(expected(port, sent));
                    sent += 1;
                }
                let _ = network.senders[into - 1].send(&mut batch);
            }
            match choices.below(40) {
                0 => network.datapath.flush_flows(),
                1 => {
                    network.set_offload(false);
                    network.set_offload(true);
                }
                2 => network.datapath.rebalance(),
                3 => network.ports[into - 1].1.nic().lose_rules(),
                _ => {}
            }
            for out in 1..=3 {
                let mut left = wanted.remove(&out).unwrap_or_default();
                let count: usize = left.values().map(Vec::len).sum();
                let mut got = vec![];
                network.wait_for("the arrival of all packets", |network| {
                    loop {
                        let taken = network.take(out);
                        if taken.is_empty() {
                            break;
                        }
                        got.extend(taken);
                    }
                    (got.len() >= count).then_some(())
                });
                for frame in got {
                    let at = if frame[12] == 0x81 { 40 } else { 36 };
                    let port = u16::from_be_bytes([frame[at], frame[at + 1]]);
                    let of_flow = left.get_mut(&port).expect("a packet that left by another port");
                    assert!(!of_flow.is_empty(), "a packet left twice");
                    let place = of_flow.iter().position(|wanted| *wanted == frame);
                    let place = place.expect("a packet with other bytes");
                    // Packets that software has begun with may be overtaken by the device.
                    assert!(place == 0 || is_full, "a packet overtook another of its flow");
                    of_flow.remove(place);
                }
                assert!(left.values().all(Vec::is_empty));
            }
        }
        for (_, port) in &network.ports {
            port.nic().set_faults(Faults::default());
        }
        network.datapath.flush_flows();
        network.wait_for_rules(0);
        let bugs: u64 = network.ports.iter().map(|(_, p)| p.nic().totals().caller_bugs).sum();
        assert_eq!(bugs, 0);
        assert_eq!(network.pool.counts().held, 0);
    }
}
