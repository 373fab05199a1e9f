//! What users of other switches reported about offload, and what is right.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use netdev::flow_api::{Capabilities, RestoreInfo};
use netdev::offload::TransmitOffloads;
use netdev::packet::BATCH_SIZE;
use netdev::queue::{QueueError, SendReport};
use netdev::sim::Event;

use super::*;
use crate::action::{MaskedField, SetFields};
use crate::flow::{Attribute, PacketKey, extract_bytes};
use crate::flow_table::{FlowRecord, WorkerId};
use crate::offload::RECOVERED;
use crate::offload::mark::MarkPool;
use crate::pmd::lookup::CachePolicy;
use crate::pmd::pipeline::{Pipeline, Shared, flow_id, with_required};
use crate::pmd::statistics::{Load, Statistics, ThreadLoad};
use crate::pmd::steering::TxQueues;
use crate::pmd::worker::{Receive, Worker};
use crate::testing::ip;

/// A*123: a device has no way to say "mark 0".
#[test]
fn report_a123_mark_0_is_no_mark() {
    let mut network = Network::new(PARTIAL);
    let nic = Arc::clone(network.ports[0].1.nic());
    nic.record_events(true);
    network.pass(1, 4, 2);
    network.wait_for_state(4, OffloadState::Partial);
    network.pass(1, 4, 2);
    let marks = nic.take_events().into_iter().filter_map(|event| match event {
        Event::Marked { mark, .. } => Some(mark),
        _ => None,
    });
    assert_eq!(marks.collect::<Vec<_>>(), [1]);
    network.datapath.clear_statistics(None);
    // This one has no rule, so that it has no mark.
    network.pass(1, 7, 2);
    let counters = network.counters();
    assert_eq!((counters.mark_hits, counters.upcalls, counters.received), (0, 1, 1));
}

/// A*125: a flow is changed before the device has answered, and after it failed.
#[test]
fn report_a125_the_last_actions_win() {
    let slow = [("hw-insert-latency-us", "20000")];
    for insert_error in [0, 1000] {
        let mut network = Network::new(&slow);
        let nic = Arc::clone(network.ports[0].1.nic());
        nic.set_faults(Faults { insert_error, ..Faults::default() });
        network.pass(1, 4, 2);
        network.put(4, vec![Action::Output(2), Action::Output(3)]);
        network.put(4, vec![Action::Output(3)]);
        if insert_error > 0 {
            network.wait_for("the failure", |_| (nic.totals().failed > 0).then_some(()));
        }
        nic.set_faults(Faults::default());
        network.wait_for_state(4, OffloadState::Full);
        network.datapath.clear_statistics(None);
        assert_eq!(network.pass(1, 4, 3), frame(4));
        assert_eq!(network.take(2), Vec::<Vec<u8>>::new());
        assert_eq!(network.counters().received, 0, "the device does it all");
    }
}

/// Keeps the frames that are sent.
struct Sent(Arc<Mutex<Vec<Vec<u8>>>>);

impl TxQueue for Sent {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let frames = batch.iter().map(|packet| packet.segments().collect::<Vec<_>>().concat());
        self.0.lock().unwrap().extend(frames);
        let sent = batch.len() as u64;
        batch.clear();
        SendReport { sent, ..SendReport::default() }
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::empty()
    }
}

const PORT: PortNumber = PortNumber(1);

/// A packet path whose port 1 marks packets, and what it sends by port 2.
fn pipeline() -> (Pipeline, Arc<Mutex<Vec<Vec<u8>>>>) {
    let handler = TestHandler::new(|_| None);
    let shared = Shared { name: "ovs-netdev".into(), handler, index: Arc::default(), seed: 11 };
    let mut pipeline = Pipeline::new(WorkerId::Main, shared, Arc::new(Statistics::new()));
    let sent = Arc::new(Mutex::new(vec![]));
    pipeline.transmit.add(PortNumber(2), TxQueues::Own(Box::new(Sent(Arc::clone(&sent)))));
    pipeline.offload.ports.set(PORT, Capabilities::MARK);
    (pipeline, sent)
}

/// Installs a flow for a frame, whose mark is the result.
fn install(pipeline: &mut Pipeline, frame: &[u8], actions: Vec<Action>) -> u32 {
    let mut descriptor = netdev::packet::Descriptor::default();
    descriptor.in_port = PORT.0;
    let mut key = PacketKey::default();
    extract_bytes(frame, frame.len(), &mut descriptor, None, 2, &mut key);
    let key = key.key().clone();
    let mut bits = FlowKey::default();
    [Field::InPort, Field::EthType].iter().for_each(|field| bits.set(*field, u128::MAX));
    let mask = with_required(FlowMask::new(bits), &key);
    let ufid = flow_id(&key, &mask);
    let record = FlowRecord::new(ufid, WorkerId::Main, key, mask, actions.into());
    let number = pipeline.insert(record);
    let record = Arc::clone(pipeline.lookup.flows.record(number).unwrap());
    let mark = MarkPool::new(0, 1, 1).take().unwrap();
    pipeline.offload.associate(&record, mark);
    mark.number().get()
}

/// A*127: packets that are marked were not looked into when their headers are rewritten.
#[test]
fn report_a127_marked_packets_are_rewritten_as_others_are() {
    let set = |attribute, field, value| {
        let fields = vec![MaskedField { field, value, mask: field.bits() }];
        Action::Set(Box::new(SetFields { attribute, fields }))
    };
    let tagged = |mut frame: Vec<u8>| {
        frame.splice(12..12, [0x81, 0, 0xe0, 99]);
        frame
    };
    let mut arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    arp.resize(60, 7);
    // Destination options (RFC 8200, 4.6) before UDP.
    let options = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &[0, 7, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]].concat();
    let extended = ip(true, 60, options, 14);
    for (frame, actions) in [
        (tagged(frame(4)), vec![set(Attribute::Ipv4, Field::Ipv4Src, 0x0909_0909)]),
        (tagged(arp), vec![Action::PopVlan, Action::PushVlan { tpid: 0x8100, tci: 0x1007 }]),
        (extended, vec![set(Attribute::Ipv6, Field::IpTtl, 3)]),
    ] {
        let sent = [false, true].map(|is_marked| {
            let (mut pipeline, sent) = pipeline();
            let actions = [&actions[..], &[Action::Output(2)]].concat();
            let mark = install(&mut pipeline, &frame, actions);
            let pool = FramePool::new(64).unwrap();
            let mut batch = Batch::new(&pool);
            let mut packet = pool.packet_with(&frame).unwrap();
            packet.view_mut().descriptor_mut().in_port = PORT.0;
            packet.view_mut().descriptor_mut().mark = if is_marked { mark } else { 0 };
            batch.push(packet).unwrap();
            let policy = CachePolicy { exact_one_in: 0, signature: false };
            pipeline.process_marked(&mut batch, policy, 0);
            pipeline.flush(true);
            assert_eq!(pipeline.counters().mark_hits.get(), u64::from(is_marked));
            sent.lock().unwrap().pop().expect("a frame")
        });
        assert_ne!(sent[0], frame);
        assert_eq!(sent[0], sent[1]);
    }
}

/// A*129: a port that goes leaves rules behind, so that it cannot come back.
#[test]
fn report_a129_a_port_takes_its_rules_along_and_comes_back() {
    let mut network = Network::new(&[]);
    for port in 1..=100 {
        network.pass(1, port, usize::from(port) % 3 + 1);
    }
    network.wait_for_rules(100);
    for _ in 0..3 {
        assert!(network.datapath.remove_port("p1"));
        assert_eq!(network.rules(), 0);
        let (_, port) = network.ports.remove(0);
        let number = network.datapath.add_port("p1").unwrap();
        network.ports.insert(0, (number, port));
        network.reconfigure();
        network.wait_for_rules(100);
    }
}

/// Receives marked packets, and counts how often it is asked about their recovery.
struct Marked {
    frame: Vec<u8>,
    mark: u32,
    left: usize,
    asked: Arc<AtomicUsize>,
}

impl RxQueue for Marked {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let count = batch.fill(self.left.min(BATCH_SIZE));
        for mut packet in batch.iter_mut() {
            assert!(packet.append(&self.frame));
            packet.descriptor_mut().mark = self.mark;
        }
        self.left -= count;
        Ok(count)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn restore_info(&mut self, _: usize) -> Option<RestoreInfo> {
        self.asked.fetch_add(1, Relaxed);
        None
    }
}

/// A*131: ports that cannot tell how far they got are asked for each packet, or lose their marks.
#[test]
fn report_a131_ports_without_recovery_are_not_asked_and_keep_their_marks() {
    const PACKETS: usize = 10_000;
    let before = RECOVERED.get();
    for (capabilities, expected) in
        [(Capabilities::MARK, 0), (Capabilities::MARK | Capabilities::RESTORE, PACKETS)]
    {
        let (mut pipeline, sent) = pipeline();
        let mark = install(&mut pipeline, &frame(4), vec![Action::Output(2)]);
        pipeline.offload.ports.set(PORT, capabilities);
        let (statistics, load) = (Arc::new(Statistics::new()), Arc::new(ThreadLoad::default()));
        let mut worker = Worker::new(pipeline, statistics, load);
        let asked = Arc::new(AtomicUsize::new(0));
        let left = PACKETS;
        let queue = Marked { frame: frame(4), mark, left, asked: Arc::clone(&asked) };
        let pool = FramePool::new(1024).unwrap();
        let load = Arc::new(Load::default());
        worker.queues.push(Receive::new(PORT, 0, Box::new(queue), false, load, &pool));
        let received = Rc::new(Cell::new(0));
        while received.get() < PACKETS {
            received.set(received.get() + worker.poll().0);
        }
        worker.pipeline.flush(true);
        assert_eq!(worker.pipeline.counters().mark_hits.get(), PACKETS as u64);
        assert_eq!(sent.lock().unwrap().len(), PACKETS);
        assert_eq!(asked.load(Relaxed), expected);
    }
    assert_eq!(RECOVERED.get(), before);
}

/// A*133: a dump says that a flow is in hardware when it is not, and a change loses its count.
#[test]
fn report_a133_flows_say_what_is_so_and_their_counts_never_fall() {
    let mut network = Network::new(&[]);
    network.pass(1, 4, 2);
    network.wait_for_state(4, OffloadState::Full);
    let hash = Action::Hash { algorithm: crate::action::HashAlgorithm::L4, basis: 1 };
    let nic = Arc::clone(network.ports[0].1.nic());
    let mut packets = network.packets(4);
    let ways = [
        (vec![hash.clone(), Action::Output(2)], OffloadState::Partial),
        (vec![Action::Output(2)], OffloadState::Full),
        (vec![hash, Action::Output(2)], OffloadState::Partial),
    ];
    for (actions, state) in ways {
        network.put(4, actions);
        network.wait_for_state(4, state);
        network.pass(1, 4, 2);
        network.wait_for("counting", |network| (network.packets(4) == packets + 1).then_some(()));
        packets += 1;
    }
    // The device refuses to change it, and to have it at all.
    nic.set_faults(Faults { update_error: 1000, insert_error: 1000, ..Faults::default() });
    network.put(4, vec![Action::Output(2)]);
    network.wait_for_state(4, OffloadState::No(Reason::Device));
    network.pass(1, 4, 2);
    network.wait_for("counting", |network| (network.packets(4) == packets + 1).then_some(()));
}
