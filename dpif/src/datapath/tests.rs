use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread::yield_now;
use std::time::Duration;

use netdev::packet::FrameCounts;
use netdev::port::Port;
use netdev::registry::{DummyMode, Registry};
use proptest::prelude::*;

use super::*;
use crate::flow::{Field, FlowKey, FlowMask, PacketKey, Ufid, extract, five_tuple_hash};
use crate::pmd::statistics::Snapshot;
use crate::testing::{MemoryPort, TestHandler, udp};

mod any_packet;
mod caches;

/// Ports 1, 2 and 3, and a datapath that knows them.
struct Setup {
    datapath: Datapath,
    ports: Vec<MemoryPort>,
    handler: Arc<TestHandler>,
}

fn mask(fields: &[Field]) -> FlowKey {
    let mut bits = FlowKey::default();
    fields.iter().for_each(|&field| bits.set(field, u128::MAX));
    bits
}

/// Sends what comes in on port 1 to port 2, and looks at as little as it may.
fn forward(key: &FlowKey) -> Option<(FlowKey, Vec<Action>)> {
    let fields = [Field::InPort, Field::PacketType, Field::EthType, Field::IpFrag];
    (key.in_port.get() == 1).then(|| (mask(&fields), vec![Action::Output(2)]))
}

/// The same by destination address: even ones to port 2, odd ones to port 3.
fn by_address(key: &FlowKey) -> Option<(FlowKey, Vec<Action>)> {
    let port = 2 + (key.ipv4_dst.get() & 1);
    let fields = [Field::InPort, Field::EthType, Field::IpFrag, Field::Ipv4Dst];
    Some((mask(&fields), vec![Action::Output(port)]))
}

impl Setup {
    fn new(
        needs_pmd: bool,
        queues: usize,
        answer: impl Fn(&FlowKey) -> Option<(FlowKey, Vec<Action>)> + Send + Sync + 'static,
    ) -> Self {
        let handler = TestHandler::new(answer);
        let cores = (0..4).map(|core| Core { numa: 0, core }).collect();
        let datapath = Datapath::new(Config {
            name: "ovs-dummy".to_owned(),
            kind: DatapathType::Dummy,
            topology: Topology { cores, is_real: false },
            frames: 1024,
            handler: handler.clone(),
            seed: 7,
        });
        let ports = ["p1", "p2", "p3"].map(|name| MemoryPort::new(name, queues, needs_pmd));
        let mut setup = Self { datapath, ports: ports.into(), handler };
        for port in &setup.ports {
            setup.datapath.add_port(port.name()).unwrap();
        }
        setup.reconfigure();
        setup
    }

    fn reconfigure(&mut self) {
        let ports = (1..).map(PortNumber).zip(&mut self.ports);
        let mut ports: Vec<_> =
            ports.map(|(n, port)| (n, port as &mut (dyn Port + 'static))).collect();
        assert_eq!(self.datapath.reconfigure(&mut ports), []);
    }

    /// Lets the controlling thread work until nothing is left.
    fn settle(&mut self) {
        while self.datapath.poll() > 0 {}
    }

    /// Waits until poll threads have received everything.
    fn wait(&mut self) {
        while self.ports.iter().any(|port| port.waiting() > 0) {
            yield_now();
        }
        // Done when the batch that was received last is.
        self.datapath.run_everywhere(|_| ());
    }

    fn counters(&self, id: WorkerId) -> Snapshot {
        let status = self.datapath.thread_status().into_iter().find(|status| status.id == id);
        let counters = status.unwrap().counters;
        // What depends on the time is left out.
        Snapshot {
            idle_iterations: 0,
            busy_iterations: 0,
            sleep_iterations: 0,
            idle_cycles: 0,
            busy_cycles: 0,
            sleep_cycles: 0,
            upcall_cycles: 0,
            ..counters
        }
    }

    fn frames(&mut self) -> FrameCounts {
        self.datapath.pool(0).unwrap().counts()
    }

    fn assert_no_frame_is_held(&mut self) {
        let counts = self.frames();
        assert_eq!((counts.held, counts.shared + counts.cached), (0, counts.total));
    }
}

fn numbered(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|n| udp(0x0a00_0001, 0x0a00_0002 + n % 7, [5, 6], &n.to_be_bytes())).collect()
}

#[test]
fn one_upcall_and_the_rest_hits() {
    let mut setup = Setup::new(false, 1, forward);
    let frames = numbered(100);
    frames.iter().for_each(|frame| setup.ports[0].arrive(0, frame.clone()));
    setup.settle();
    assert_eq!(setup.ports[1].take_sent(), frames);
    let expected = Snapshot {
        received: 100,
        upcalls: 1,
        // The rest of the first batch is found behind the upcall.
        megaflow_hits: 31,
        subtables_visited: 31,
        simple_hits: 68,
        sent: 100,
        sent_batches: 4,
        ..Snapshot::default()
    };
    assert_eq!(setup.counters(WorkerId::Main), expected);
    assert_eq!(expected.passes(), 100);
    let [flow] = &setup.datapath.dump_flows(None)[..] else { panic!("one flow") };
    let statistics = flow.statistics();
    assert_eq!((statistics.packets, statistics.bytes), (99, 99 * 46));
    assert!(statistics.used.is_some());
    setup.assert_no_frame_is_held();
    setup.datapath.clear_statistics(None);
    assert_eq!(setup.counters(WorkerId::Main), Snapshot::default());
}

#[test]
fn a_port_without_bridge_loses_its_packets() {
    let mut setup = Setup::new(false, 1, forward);
    numbered(3).into_iter().for_each(|frame| setup.ports[1].arrive(0, frame));
    setup.ports[1].arrive(0, vec![1; 13]);
    setup.settle();
    let expected = Snapshot { received: 4, lost_upcalls: 3, ..Snapshot::default() };
    assert_eq!(setup.counters(WorkerId::Main), expected);
    assert_eq!(setup.datapath.flow_count(), 0);
    setup.assert_no_frame_is_held();
}

#[test]
fn poll_threads_keep_the_order_of_flows_while_queues_move() {
    let mut setup = Setup::new(true, 2, by_address);
    assert_eq!(setup.datapath.thread_status().len(), 2);
    let mut expected = [vec![], vec![]];
    for round in 0..40u32 {
        for n in 0..200u32 {
            let destination = 0x0a00_0000 + n % 16;
            let data = [round.to_be_bytes(), n.to_be_bytes()].concat();
            let frame = udp(1, destination, [5, 6], &data);
            expected[(destination & 1) as usize].push(frame.clone());
            // A flow stays on its queue, as receive side scaling sees to.
            setup.ports[0].arrive((destination % 2) as usize, frame);
        }
        let cores = [vec![0], vec![1, 2], vec![0, 1, 2, 3], vec![3]];
        let settings = PmdSettings {
            cores: Some(cores[round as usize % 4].clone()),
            algorithm: [Algorithm::Cycles, Algorithm::RoundRobin, Algorithm::Group]
                [round as usize % 3],
            ..PmdSettings::default()
        };
        setup.datapath.set_pmd_settings(settings);
        setup.reconfigure();
    }
    setup.wait();
    for (port, expected) in setup.ports[1..].iter().zip(&mut expected) {
        let mut sent = port.take_sent();
        // Queues race, flows do not: a stable sort by flow must give one list.
        sent.sort_by_key(|frame| frame[30..34].to_vec());
        expected.sort_by_key(|frame| frame[30..34].to_vec());
        assert!(sent == *expected, "{} of {} frames", sent.len(), expected.len());
    }
    for settings in [Some(vec![]), None] {
        setup.datapath.set_pmd_settings(PmdSettings { cores: settings, ..PmdSettings::default() });
        setup.reconfigure();
    }
    assert!(setup.datapath.remove_port("p1"));
    setup.datapath.flush_flows();
    assert_eq!(setup.datapath.flow_count(), 0);
    setup.assert_no_frame_is_held();
}

#[test]
fn ports_come_and_go_while_others_forward() {
    for cores in [vec![0], vec![0, 1]] {
        let mut setup = Setup::new(true, 1, forward);
        let settings = PmdSettings { cores: Some(cores), ..PmdSettings::default() };
        setup.datapath.set_pmd_settings(settings);
        setup.reconfigure();
        let frames = numbered(20_000);
        let source = Arc::clone(&setup.ports[0].received[0]);
        std::thread::scope(|scope| {
            let feeder = scope.spawn(|| {
                for (number, frame) in frames.iter().enumerate() {
                    source.lock().unwrap().push_back(frame.clone());
                    if number % 100 == 0 {
                        yield_now();
                    }
                }
            });
            while !feeder.is_finished() {
                assert!(setup.datapath.remove_port("p3"));
                assert_eq!(setup.datapath.add_port("p3"), Ok(PortNumber(3)));
                setup.reconfigure();
            }
        });
        setup.wait();
        assert!(setup.ports[1].take_sent() == frames);
        let statistics = setup.datapath.thread_status();
        let received: u64 = statistics.iter().map(|status| status.counters.received).sum();
        assert_eq!(received, 20_000);
        for name in ["p1", "p2", "p3"] {
            assert!(setup.datapath.remove_port(name));
        }
        setup.assert_no_frame_is_held();
    }
}

#[test]
fn pinned_queues_are_polled_by_their_core() {
    let mut setup = Setup::new(true, 2, by_address);
    setup
        .datapath
        .set_pmd_settings(PmdSettings { cores: Some(vec![1, 3]), ..PmdSettings::default() });
    let affinity = BTreeMap::from([(0, 3), (1, 3)]);
    setup
        .datapath
        .set_port_settings(PortNumber(2), PortSettings { affinity, ..PortSettings::default() });
    setup.reconfigure();
    let status = setup.datapath.thread_status();
    let of = |status: &ThreadStatus| {
        let queues = status.queues.iter().map(|queue| (queue.port.0, queue.queue));
        (status.id, status.is_isolated, queues.collect::<Vec<_>>())
    };
    assert_eq!(
        status.iter().map(of).collect::<Vec<_>>(),
        [
            (WorkerId::Core(1), false, vec![(1, 0), (1, 1), (3, 0), (3, 1)]),
            (WorkerId::Core(3), true, vec![(2, 0), (2, 1)]),
            (WorkerId::Main, false, vec![]),
        ]
    );
}

#[test]
fn a_thread_that_fails_starts_again() {
    let answer = |key: &FlowKey| match key.ipv4_dst.get() {
        0xbad => panic!("told to"),
        _ => forward(key),
    };
    let mut setup = Setup::new(true, 1, answer);
    setup.ports[0].arrive(0, udp(1, 2, [3, 4], b"first"));
    setup.wait();
    setup.datapath.flush_flows();
    let lost = [udp(1, 0xbad, [3, 4], b"fatal"), udp(1, 2, [3, 4], b"lost with it")];
    setup.ports[0].arrive_together(0, lost);
    setup.wait();
    setup.ports[0].arrive(0, udp(1, 2, [3, 4], b"last"));
    setup.wait();
    let sent: Vec<_> =
        setup.ports[1].take_sent().iter().map(|frame| frame[42..].to_vec()).collect();
    assert_eq!(sent, [b"first".to_vec(), b"last".to_vec()]);
    for name in ["p1", "p2", "p3"] {
        setup.datapath.remove_port(name);
    }
    setup.assert_no_frame_is_held();
}

#[test]
fn sleeping_threads_wake_for_work_and_packets() {
    let mut setup = Setup::new(true, 1, forward);
    setup.datapath.set_pmd_settings(PmdSettings { max_sleep: 10_000, ..PmdSettings::default() });
    setup.reconfigure();
    for frame in numbered(5) {
        std::thread::sleep(Duration::from_millis(3));
        setup.ports[0].arrive(0, frame);
        setup.wait();
    }
    assert_eq!(setup.ports[1].take_sent(), numbered(5));
    let status = setup.datapath.thread_status();
    assert!(status[0].counters.sleep_iterations > 0);
    assert_eq!(status[0].max_sleep, 10_000);
}

fn put(port: u32, actions: &[Action], mode: PutMode) -> FlowPut {
    let mut key = FlowKey::default();
    key.in_port.set(port);
    key.eth_type.set(0x0800);
    FlowPut {
        key,
        mask: FlowMask::new(mask(&[Field::InPort, Field::EthType])),
        actions: actions.into(),
        ufid: None,
        mode,
        clear_statistics: false,
    }
}

#[test]
fn flows_are_put_and_removed_from_outside() {
    let mut setup = Setup::new(false, 1, |_| None);
    let to = |port| [Action::Output(port)];
    let datapath = &mut setup.datapath;
    let modify = put(1, &to(3), PutMode::Modify);
    assert_eq!(datapath.put_flow(&modify, None), Err(FlowError::NotFound));
    assert_eq!(datapath.put_flow(&put(1, &to(2), PutMode::Create), None), Ok(()));
    assert_eq!(datapath.put_flow(&put(1, &to(2), PutMode::Create), None), Err(FlowError::Exists));
    let other = Some(WorkerId::Core(1));
    assert_eq!(
        datapath.put_flow(&put(1, &to(2), PutMode::Create), other),
        Err(FlowError::NoThread)
    );
    let mut loose = put(1, &to(2), PutMode::Create);
    loose.mask = FlowMask::new(mask(&[Field::EthType]));
    assert_eq!(datapath.put_flow(&loose, None), Err(FlowError::PortNotExact));

    setup.ports[0].arrive(0, numbered(1).pop().unwrap());
    setup.settle();
    assert_eq!(setup.datapath.put_flow(&modify, None), Ok(()));
    setup.ports[0].arrive(0, numbered(2).pop().unwrap());
    setup.settle();
    assert_eq!(setup.ports[1].take_sent(), numbered(1));
    assert_eq!(setup.ports[2].take_sent(), numbered(2)[1..]);
    let flows = setup.datapath.dump_flows(Some(WorkerId::Main));
    let [flow] = &flows[..] else { panic!("one flow") };
    assert_eq!((flow.statistics().packets, flow.actions()), (2, to(3).as_slice().into()));
    assert_eq!(setup.datapath.flows(flow.ufid(), None).len(), 1);

    let clear = FlowPut {
        clear_statistics: true,
        mode: PutMode::CreateOrModify,
        ufid: Some(flow.ufid()),
        ..modify
    };
    assert_eq!(setup.datapath.put_flow(&clear, None), Ok(()));
    assert_eq!(flow.statistics().packets, 0);
    assert_eq!(setup.datapath.remove_flow(Ufid(1), None), Err(FlowError::NotFound));
    assert_eq!(setup.datapath.remove_flow(flow.ufid(), None), Ok(()));
    assert!(flow.is_dead());
    setup.ports[0].arrive(0, numbered(1).pop().unwrap());
    setup.settle();
    assert_eq!(setup.handler.misses.load(Ordering::Relaxed), 1);
    setup.assert_no_frame_is_held();
}

#[test]
fn meters_are_numbered_and_bounded() {
    let mut setup = Setup::new(false, 1, |_| None);
    let config = |bands| MeterConfig {
        in_packets: true,
        bands: vec![crate::meter::BandConfig { rate: 1, burst: 1 }; bands],
    };
    let datapath = &mut setup.datapath;
    let too_high = MeterError::Number { number: MAX_METERS };
    assert_eq!(datapath.set_meter(MAX_METERS, config(1)), Err(too_high));
    assert_eq!(datapath.set_meter(3, config(9)), Err(MeterError::Bands { number: 3, bands: 9 }));
    assert_eq!(datapath.set_meter(3, config(1)), Ok(()));
    let pool = datapath.pool(0).unwrap();
    let actions = [Action::Meter(3), Action::Output(1)];
    for frame in numbered(3) {
        datapath.execute(pool.packet_with(&frame).unwrap(), &actions);
    }
    let meter = datapath.remove_meter(3).unwrap();
    assert_eq!((meter.seen().packets, meter.dropped()[0].packets), (3, 2));
    assert!(datapath.meter(3).is_none());
    assert_eq!(setup.ports[0].take_sent(), numbered(1));
    setup.assert_no_frame_is_held();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Every frame leaves where the handler would send it, in order, whatever caches and
    /// megaflows say in between.
    #[test]
    fn packets_go_where_translation_sends_them(
        addresses in prop::collection::vec((0..64u32, 0..4u16), 1..400),
        prefix in 26..=32u32,
        exact_one_in in prop::sample::select(vec![0, 1, 3, 100]),
        signature_cache in any::<bool>(),
        flushes in prop::collection::vec(any::<bool>(), 20),
    ) {
        // The port number of even addresses decides; other packets look at the address alone.
        let bits = u32::MAX << (32 - prefix);
        let answer = move |key: &FlowKey| {
            let group = (key.ipv4_dst.get() & bits) >> (32 - prefix);
            let mut wanted = mask(&[Field::InPort, Field::EthType]);
            wanted.ipv4_dst.set(bits);
            let port = if group.is_multiple_of(3) {
                wanted.tp_dst.set(u16::MAX);
                2 + u32::from(key.tp_dst.get() & 1)
            } else {
                2 + group % 3 % 2
            };
            Some((wanted, vec![Action::Output(port)]))
        };
        let mut setup = Setup::new(false, 1, answer);
        setup.datapath.set_knobs(Knobs { exact_one_in, signature_cache, ..Knobs::default() });
        let mut expected = [vec![], vec![]];
        for (chunk, flush) in addresses.chunks(20).zip(flushes) {
            for (n, &(address, port)) in chunk.iter().enumerate() {
                let frame = udp(9, address, [1, port], &n.to_be_bytes());
                let mut key = FlowKey::default();
                key.ipv4_dst.set(address);
                key.tp_dst.set(port);
                let (_, actions) = answer(&key).unwrap();
                let [Action::Output(out)] = actions[..] else { panic!("one output") };
                expected[out as usize - 2].push(frame.clone());
                setup.ports[0].arrive(0, frame);
            }
            setup.settle();
            if flush {
                setup.datapath.flush_flows();
            }
        }
        for (port, expected) in setup.ports[1..].iter().zip(expected) {
            prop_assert_eq!(port.take_sent(), expected);
        }
        let counters = setup.counters(WorkerId::Main);
        prop_assert_eq!(counters.passes(), addresses.len() as u64);
        prop_assert_eq!(counters.received, addresses.len() as u64);
        prop_assert_eq!(counters.upcalls, setup.handler.misses.load(Ordering::Relaxed));
        setup.assert_no_frame_is_held();
    }
}

/// Packets that a port received and sent.
fn counts(port: &dyn Port) -> (Option<u64>, Option<u64>) {
    let statistics = port.statistics().unwrap();
    (statistics.rx_packets, statistics.tx_packets)
}

/// Ports of the types that tests of the whole switch use: one polled by the controlling thread,
/// one by a poll thread.
#[test]
fn dummy_ports_carry_packets() {
    let registry = Registry::new(DummyMode::Enabled, Path::new("/run"));
    let mut ports = [("p1", "dummy"), ("p2", "dummy-pmd")].map(|(name, port_type)| {
        let mut port = registry.open(name, port_type).unwrap();
        port.set_admin_up(true).unwrap();
        port
    });
    let answer = |key: &FlowKey| {
        let other = 3 - key.in_port.get();
        Some((mask(&[Field::InPort]), vec![Action::Output(other)]))
    };
    let mut datapath = Datapath::new(Config {
        name: "ovs-dummy".to_owned(),
        kind: DatapathType::Dummy,
        topology: Topology { cores: vec![Core { numa: 0, core: 0 }], is_real: false },
        frames: 256,
        handler: TestHandler::new(answer),
        seed: 1,
    });
    assert_eq!(datapath.add_port("p1"), Ok(PortNumber(1)));
    assert_eq!(datapath.add_port("p2"), Ok(PortNumber(2)));
    let [one, two] = &mut ports;
    let mut numbered_ports = [(PortNumber(1), &mut **one), (PortNumber(2), &mut **two)];
    assert_eq!(datapath.reconfigure(&mut numbered_ports), []);
    assert_eq!(datapath.reconfigure(&mut numbered_ports), []);

    for (name, count) in [("p1", 3), ("p2", 5)] {
        let dummy = registry.dummies().get(name).unwrap();
        numbered(count).into_iter().for_each(|frame| dummy.inject(0, frame));
    }
    while counts(&**one) != (Some(3), Some(5)) || counts(&**two) != (Some(5), Some(3)) {
        datapath.poll();
        yield_now();
    }
    for name in ["p1", "p2"] {
        assert!(datapath.remove_port(name));
        assert!(!datapath.remove_port(name));
    }
    let counts = datapath.pool(0).unwrap().counts();
    assert_eq!(counts.held, 0);
}

/// With `tx-steering=thread` all packets of a thread leave by one queue, with `hash` each by the
/// queue that its addresses and ports say.
#[test]
fn transmit_queues_are_chosen_by_thread_or_hash() {
    let registry = Registry::new(DummyMode::Enabled, Path::new("/run"));
    let mut ports = ["p1", "p2"].map(|name| registry.open(name, "dummy-pmd").unwrap());
    let queues = BTreeMap::from([("n_txq".to_owned(), "2".to_owned())]);
    ports[1].set_options(&queues).unwrap();
    let mut datapath = Datapath::new(Config {
        name: "ovs-dummy".to_owned(),
        kind: DatapathType::Dummy,
        topology: Topology { cores: vec![Core { numa: 0, core: 0 }], is_real: false },
        frames: 256,
        handler: TestHandler::new(forward),
        seed: 1,
    });
    for name in ["p1", "p2"] {
        datapath.add_port(name).unwrap();
    }
    let frames: Vec<_> = (0..128).map(|port| udp(1, 2, [1000, port], b"data")).collect();
    let mut sent_by_queue = |steering| {
        let settings = PortSettings { tx_steering: steering, ..PortSettings::default() };
        datapath.set_port_settings(PortNumber(2), settings);
        let [one, two] = &mut ports;
        let before = two.statistics().unwrap().custom;
        let mut numbered_ports = [(PortNumber(1), &mut **one), (PortNumber(2), &mut **two)];
        assert_eq!(datapath.reconfigure(&mut numbered_ports), []);
        let dummy = registry.dummies().get("p1").unwrap();
        for frame in &frames {
            let received = one.statistics().unwrap().rx_packets.map(|count| count + 1);
            dummy.inject(0, frame.clone());
            while one.statistics().unwrap().rx_packets < received {
                yield_now();
            }
        }
        datapath.run_everywhere(|_| ());
        let after = two.statistics().unwrap().custom;
        ["tx_q0_packets", "tx_q1_packets"].map(|name| {
            let count = |counters: &[(String, u64)]| {
                counters.iter().find(|(key, _)| key == name).unwrap().1
            };
            count(&after) - count(&before)
        })
    };
    let hashed = frames.iter().fold([0, 0], |[even, odd], frame| {
        let pool = FramePool::new(2).unwrap();
        let mut key = PacketKey::default();
        extract(&mut pool.packet_with(frame).unwrap().view_mut(), None, 1, &mut key);
        let bit = u64::from(five_tuple_hash(key.key(), 1) & 1);
        [even + 1 - bit, odd + bit]
    });
    assert!(hashed.iter().all(|&count| count > 30), "{hashed:?}");
    // The only poll thread has the second queue, the controlling thread the first.
    assert_eq!(sent_by_queue(TxSteering::Thread), [0, 128]);
    assert_eq!(sent_by_queue(TxSteering::Hash), hashed);
    assert_eq!(sent_by_queue(TxSteering::Thread), [0, 128]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Frames of any bytes and any length leave as they came, but for those too short to be one.
    #[test]
    fn any_bytes_are_forwarded(
        heads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 1..20),
        eth_types in prop::collection::vec(
            prop::sample::select(vec![0x0800, 0x86dd, 0x0806, 0x8847, 0x8100, 0x894f, 0x05dcu16]),
            20,
        ),
        lengths in prop::collection::vec(
            prop_oneof![Just(0), 0..3000usize, Just(65_535)],
            20,
        ),
    ) {
        let answer = |_: &FlowKey| Some((mask(&[Field::EthType]), vec![Action::Output(2)]));
        let mut setup = Setup::new(false, 1, answer);
        let mut expected = vec![];
        for ((mut frame, eth_type), length) in heads.into_iter().zip(eth_types).zip(lengths) {
            if let Some(place) = frame.get_mut(12..14) {
                place.copy_from_slice(&eth_type.to_be_bytes());
            }
            frame.resize(length.max(frame.len()), 0x5a);
            expected.push(frame.clone());
            setup.ports[0].arrive(0, frame);
        }
        setup.settle();
        let received = expected.len() as u64;
        expected.retain(|frame| frame.len() >= 14);
        prop_assert_eq!(setup.ports[1].take_sent(), expected.clone());
        let counters = setup.counters(WorkerId::Main);
        prop_assert_eq!((counters.received, counters.passes()), (received, expected.len() as u64));
        setup.assert_no_frame_is_held();
    }
}
