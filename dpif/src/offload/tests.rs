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

mod reports;
mod simulation;
mod tunnel;

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
        Self::with(pairs, TestHandler::new(forward))
    }

    fn with(pairs: &[(&str, &str)], handler: Arc<TestHandler>) -> Self {
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
        self.send_frame(into, &frame(port));
    }

    fn send_frame(&mut self, into: usize, frame: &[u8]) {
        let mut batch = Batch::new(&self.pool);
        batch.push(self.pool.packet_with(frame).unwrap()).unwrap();
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
