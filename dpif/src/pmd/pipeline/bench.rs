//! `make bench-check`: instructions per packet, of stages of the packet path and of all of it.
//! Nothing is timed, so that the figures are the same on a busy machine. `.ci/bench-check` has
//! Callgrind count in [`counted`] alone, and write the counts down after each [`measured`].

use std::sync::Arc;

use netdev::packet::{BATCH_SIZE, Batch, Descriptor, FramePool};
use netdev::port::Port;
use netdev::queue::{RxQueue, TxQueue};
use netdev::registry::{DummyMode, Registry};
use netdev::transmit;

use super::traffic::{self, IN_PORT, OUT_PORTS, Rules};
use super::{Pipeline, Shared};
use crate::flow::{PacketKey, extract_bytes};
use crate::flow_table::WorkerId;
use crate::pmd::lookup::CachePolicy;
use crate::pmd::statistics::{Load, Statistics, ThreadLoad};
use crate::pmd::steering::TxQueues;
use crate::pmd::worker::{Knobs, Receive, Worker};
use crate::testing::MemoryPort;

/// Batches that are counted.
const BATCHES: usize = 256;

/// Runs what is to be counted.
#[inline(never)]
fn measured(name: &str, packets: usize, mut work: impl FnMut()) {
    counted(&mut work);
    say(&format!("counted\t{name}\t{packets}"));
}

/// Callgrind knows it by its name.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
    // Not the end of the function, which would be a jump, not a call.
    std::hint::black_box(());
}

#[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
fn say(line: &str) {
    println!("{line}");
}

/// Replays frames for ever.
fn source(frames: &[Vec<u8>], pool: &Arc<FramePool>) -> (tempfile::TempDir, Box<dyn RxQueue>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.pcap");
    std::fs::write(&path, traffic::capture(frames)).unwrap();
    let registry = Registry::new(DummyMode::Disabled, directory.path());
    let mut port = registry.open("p1", "pcap").unwrap();
    let options = [("rx_pcap", path.to_str().unwrap()), ("infinite_rx", "true")];
    port.set_options(&options.map(|(name, value)| (name.into(), value.into())).into()).unwrap();
    let queue = port.open_rx(0, pool).unwrap();
    (directory, queue)
}

fn sink(directory: &tempfile::TempDir) -> Box<dyn TxQueue> {
    let mut port: Box<dyn Port> =
        Registry::new(DummyMode::Disabled, directory.path()).open("p2", "null").unwrap();
    port.open_tx(0).unwrap()
}

/// A thread that receives from one port and sends to others.
struct Thread {
    worker: Worker,
    pool: Arc<FramePool>,
    frames: Vec<Vec<u8>>,
}

impl Thread {
    fn new(rules: &Rules, frames: Vec<Vec<u8>>) -> Self {
        let shared = Shared {
            name: "ovs-netdev".into(),
            handler: rules.handler(),
            index: Arc::default(),
            seed: 11,
        };
        let statistics = Arc::new(Statistics::new());
        let mut pipeline = Pipeline::new(WorkerId::Main, shared, Arc::clone(&statistics));
        let pool = FramePool::new(16_384).unwrap();
        let (directory, queue) = source(&frames, &pool);
        for port in OUT_PORTS {
            pipeline.transmit.add(port, TxQueues::Own(sink(&directory)));
        }
        let mut worker = Worker::new(pipeline, statistics, Arc::new(ThreadLoad::default()));
        let load = Arc::new(Load::default());
        worker.queues.push(Receive::new(IN_PORT, 0, queue, true, load, &pool));
        Self { worker, pool, frames }
    }

    fn poll(&mut self, batches: usize) {
        for _ in 0..batches {
            assert_eq!(self.worker.poll().0, BATCH_SIZE);
        }
    }

    /// Lets every frame pass so many times.
    fn warm_up(&mut self, rounds: usize) {
        self.poll(rounds * self.frames.len().div_ceil(BATCH_SIZE));
    }

    /// Counts the whole way of packets.
    fn whole(&mut self, name: &str) {
        measured(name, BATCHES * BATCH_SIZE, || self.poll(BATCHES));
    }

    /// Counts `stage` over batches of received packets.
    fn stage(&mut self, name: &str, mut stage: impl FnMut(&mut Pipeline, &mut Batch)) {
        let mut batches = vec![];
        for frames in self.frames.chunks_exact(BATCH_SIZE).cycle().take(BATCHES / 8) {
            let mut batch = Batch::new(&self.pool);
            batch.fill(BATCH_SIZE);
            for (mut packet, frame) in batch.iter_mut().zip(frames) {
                assert!(packet.append(frame));
                packet.descriptor_mut().in_port = IN_PORT.0;
            }
            batches.push(batch);
        }
        let pipeline = &mut self.worker.pipeline;
        measured(name, batches.len() * BATCH_SIZE, || {
            batches.iter_mut().for_each(|batch| stage(pipeline, batch));
        });
    }
}

const NO_CACHE: CachePolicy = CachePolicy { exact_one_in: 0, signature: false };
const ALL: u32 = u32::MAX;

/// What each stage costs alone.
fn stages() {
    let udp = || (0..1024).map(traffic::frame).collect::<Vec<_>>();
    {
        let pool = FramePool::new(16_384).unwrap();
        let (directory, mut from) = source(&udp(), &pool);
        let (mut to, mut batch) = (sink(&directory), Batch::new(&pool));
        measured("receive and transmit", BATCHES * BATCH_SIZE, || {
            for _ in 0..BATCHES {
                assert_eq!(from.receive(&mut batch), Ok(BATCH_SIZE));
                assert_eq!(transmit::send(&mut *to, &mut batch).sent, BATCH_SIZE as u64);
            }
        });
    }
    let frames = [
        ("ipv4", udp()),
        ("vlan", (0..1024).map(traffic::tagged).collect()),
        ("ipv6", (0..1024).map(traffic::ipv6).collect()),
    ];
    for (name, frames) in frames {
        let mut thread = Thread::new(&Rules::ports(), frames);
        thread.stage(&format!("extract {name}"), |pipeline, batch| {
            pipeline.extract(batch, 0, NO_CACHE, 0);
        });
        thread.worker.pipeline.lookup = super::Lookup::new(11);
        thread.stage(&format!("extract and hash {name}"), |pipeline, batch| {
            let policy = CachePolicy { signature: true, ..NO_CACHE };
            pipeline.extract(batch, 0, policy, 0);
        });
    }
    for subtables in [1, 4, 16, 64] {
        let mut thread = Thread::new(&Rules::subtables(subtables), udp());
        thread.warm_up(1);
        assert_eq!(thread.worker.pipeline.lookup.subtables(IN_PORT), subtables);
        thread.stage(&format!("extract, classifier of {subtables}"), |pipeline, batch| {
            pipeline.extract(batch, 0, NO_CACHE, 0);
            pipeline.keys.is_hashed = false;
            assert_eq!(pipeline.find(ALL, NO_CACHE, 0), 0);
        });
    }
    let mut thread = Thread::new(&Rules::subtables(4), udp());
    thread.warm_up(2);
    thread.stage("extract, hash, signature cache", |pipeline, batch| {
        pipeline.extract(batch, 0, NO_CACHE, 0);
        assert_eq!(pipeline.find(ALL, NO_CACHE, 0), 0);
    });
    let mut thread = Thread::new(&Rules::exact(), (0..20_000).map(traffic::frame).collect());
    // The tables have some size already.
    thread.poll(100);
    thread.whole("upcall and installation");
    let mut thread = Thread::new(&Rules::spread(), udp());
    thread.warm_up(2);
    thread.whole("four ports in turn");
}

/// Rules and traffic of all kinds, from a port to another.
fn workloads() {
    let thread = |rules: &Rules, flows, rounds| {
        let mut thread = Thread::new(rules, traffic::shuffled(flows));
        thread.warm_up(rounds);
        thread
    };
    thread(&Rules::one(), 1, 64).whole("W1, simple match");
    thread(&Rules::ports(), 1, 64).whole("W2, 1 flow");
    thread(&Rules::ports(), 1000, 2).whole("W3, 1000 flows");
    thread(&Rules::ports(), 8000, 1).whole("W4, 8000 flows");
    thread(&Rules::ports(), 100_000, 1).whole("W5, 100000 flows");
    thread(&Rules::prefixes(), 1000, 4).whole("W6, prefixes, 1000 flows");
    thread(&Rules::prefixes(), 8000, 4).whole("W7, prefixes, 8000 flows");
    let mut prefixes = thread(&Rules::prefixes(), 100_000, 8);
    prefixes.whole("W8, prefixes, 100000 flows");
    prefixes.worker.set_knobs(Knobs { exact_one_in: 0, ..Knobs::default() });
    prefixes.whole("W9, likewise without EMC");
    prefixes.worker.set_knobs(Knobs { signature_cache: true, ..Knobs::default() });
    prefixes.whole("W8, with SMC");
}

/// Everything that is counted does what a scan of the rules says.
#[test]
fn every_packet_goes_where_the_rules_say() {
    let kinds = [
        Rules::one(),
        Rules::ports(),
        Rules::spread(),
        Rules::exact(),
        Rules::prefixes(),
        Rules::subtables(16),
    ];
    let flows = 0..1504;
    let mut frames: Vec<_> = flows.clone().map(traffic::frame).collect();
    frames.extend(flows.clone().map(traffic::tagged).chain(flows.map(traffic::ipv6)));
    for rules in kinds {
        let mut thread = Thread::new(&rules, frames.clone());
        let mut ports = OUT_PORTS.map(|_| MemoryPort::new("to", 1, false));
        for (number, port) in OUT_PORTS.into_iter().zip(&mut ports) {
            let queue = port.open_tx(0).unwrap();
            thread.worker.pipeline.transmit.add(number, TxQueues::Own(queue));
        }
        let mut expected = OUT_PORTS.map(|_| vec![]);
        let rounds = 3;
        for frame in frames.iter().cycle().take(rounds * frames.len()) {
            let mut descriptor = Descriptor::default();
            descriptor.in_port = IN_PORT.0;
            let mut key = PacketKey::default();
            extract_bytes(frame, frame.len(), &mut descriptor, None, 1, &mut key);
            let out = rules.output(key.key()).unwrap();
            let place = OUT_PORTS.iter().position(|port| *port == out).unwrap();
            expected[place].push(frame.clone());
        }
        // Frames stay in order on their way to a port.
        assert_eq!(rounds * frames.len() % BATCH_SIZE, 0);
        thread.poll(rounds * frames.len() / BATCH_SIZE);
        for (port, expected) in ports.iter().zip(expected) {
            assert!(port.take_sent() == expected);
        }
    }
}

#[test]
#[ignore = "counts by Callgrind; see .ci/bench-check"]
fn bench_path() {
    stages();
    workloads();
}
