//! The packet path of one thread, and frames for it.

use std::sync::Arc;

use netdev::cpu;
use netdev::flow_api::Capabilities;
use netdev::offload::TransmitOffloads;
use netdev::packet::{BATCH_SIZE, Batch, FramePool};
use netdev::queue::{SendReport, TxQueue};

use crate::action::Action;
use crate::datapath::PortNumber;
use crate::flow::{Field, FlowKey, FlowMask, PacketKey, extract_bytes};
use crate::flow_table::{FlowRecord, WorkerId};
use crate::offload::mark::MarkPool;
use crate::pmd::lookup::CachePolicy;
use crate::pmd::pipeline::{Pipeline, Shared, flow_id};
use crate::pmd::statistics::Statistics;
use crate::pmd::steering::TxQueues;
use crate::testing::{TestHandler, udp};

/// The port that packets come in on.
pub(super) const PORT: PortNumber = PortNumber(1);

/// Sends by dropping.
struct Discard;

impl TxQueue for Discard {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let sent = batch.len() as u64;
        batch.clear();
        SendReport { sent, ..SendReport::default() }
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::all()
    }
}

pub(super) fn frame(flow: u32) -> Vec<u8> {
    udp(0x0a00_0000 + flow, 0x0b00_0001, [7, 9], &[0; 18])
}

fn key_of(bytes: &[u8]) -> FlowKey {
    let mut descriptor = netdev::packet::Descriptor::default();
    descriptor.in_port = PORT.0;
    let mut key = PacketKey::default();
    extract_bytes(bytes, bytes.len(), &mut descriptor, None, 1, &mut key);
    key.key().clone()
}

/// A flow by its source address, or by its destination port too.
pub(super) fn record(flow: u32, long: bool) -> FlowRecord {
    let key = key_of(&frame(flow));
    let mut bits = FlowKey::default();
    for field in [
        Field::InPort,
        Field::RecircId,
        Field::EthType,
        Field::VlanTci,
        Field::Ipv4Src,
        Field::IpProto,
    ] {
        bits.set(field, field.bits());
    }
    if long {
        bits.set(Field::TpDst, u128::MAX);
    }
    let mask = FlowMask::new(bits);
    let actions: Arc<[Action]> = Arc::new([Action::Output(2)]);
    FlowRecord::new(flow_id(&key, &mask), WorkerId::Main, key, mask, actions)
}

/// A packet path with a port that marks packets, and one that drops them.
pub(super) fn pipeline(handler: Arc<TestHandler>) -> Pipeline {
    let shared = Shared { name: "ovs-netdev".into(), handler, index: Arc::default(), seed: 11 };
    let mut pipeline = Pipeline::new(WorkerId::Main, shared, Arc::new(Statistics::new()));
    pipeline.transmit.add(PortNumber(2), TxQueues::Own(Box::new(Discard)));
    pipeline.offload.ports.set(PORT, Capabilities::MARK);
    pipeline
}

/// A thread's packet path with flows, each with a mark, and frames for them.
pub(super) struct Path {
    pub(super) pipeline: Pipeline,
    pool: Arc<FramePool>,
    frames: Vec<u8>,
    marks: Vec<u32>,
    next: usize,
}

/// Bytes of a frame.
const FRAME: usize = 60;

impl Path {
    pub(super) fn new(flows: u32) -> Self {
        let mut pipeline = pipeline(TestHandler::new(|_| None));
        let mut pool = MarkPool::new(0, 1, u32::MAX);
        let (mut frames, mut marks) = (vec![], vec![]);
        for flow in 0..flows {
            // Two subtables, so that the caches are used.
            let number = pipeline.insert(record(flow, flow % 2 == 1));
            let mark = pool.take().unwrap();
            let flow_record = Arc::clone(pipeline.lookup.flows.record(number).unwrap());
            pipeline.offload.associate(&flow_record, mark);
            frames.extend(&frame(flow)[..FRAME]);
            marks.push(mark.number().get());
        }
        Self { pipeline, pool: FramePool::new(4096).unwrap(), frames, marks, next: 0 }
    }

    /// Makes a batch of the next frames, with the marks of their flows.
    #[inline]
    fn fill(&mut self, batch: &mut Batch) {
        batch.fill(BATCH_SIZE);
        for mut packet in batch.iter_mut() {
            let flow = self.next;
            self.next = if flow + 1 == self.marks.len() { 0 } else { flow + 1 };
            let bytes = &self.frames[flow * FRAME..flow * FRAME + FRAME];
            packet.receive_buffer()[..FRAME].copy_from_slice(bytes);
            packet.set_received(FRAME);
            let descriptor = packet.descriptor_mut();
            descriptor.in_port = PORT.0;
            descriptor.mark = self.marks[flow];
        }
    }

    /// Cycles per packet of packets that are made and dropped: what [`Self::run`] adds.
    pub(super) fn run_nothing(&mut self, packets: usize) -> f64 {
        let mut batch = Batch::new(&self.pool);
        let start = cpu::cycles();
        for _ in 0..packets / BATCH_SIZE {
            self.fill(&mut batch);
            batch.clear();
        }
        cpu::cycles().wrapping_sub(start) as f64 / packets as f64
    }

    /// Cycles per packet of `packets` packets, marked or not, with `lookup` once per batch and
    /// `each` once per packet.
    pub(super) fn run(
        &mut self,
        packets: usize,
        is_marked: bool,
        policy: CachePolicy,
        mut lookup: impl FnMut(&Pipeline) -> bool,
        mut each: impl FnMut(&Pipeline) -> bool,
    ) -> f64 {
        let mut batch = Batch::new(&self.pool);
        let start = cpu::cycles();
        for _ in 0..packets / BATCH_SIZE {
            self.fill(&mut batch);
            let mut takes_marks = lookup(&self.pipeline);
            for _ in 0..BATCH_SIZE {
                takes_marks |= each(&self.pipeline);
            }
            if is_marked && takes_marks {
                self.pipeline.process_marked(&mut batch, policy, 0);
            } else {
                self.pipeline.process(&mut batch, policy);
            }
            self.pipeline.flush(true);
        }
        cpu::cycles().wrapping_sub(start) as f64 / packets as f64
    }
}
