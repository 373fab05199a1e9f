//! From a flow's installation to its mark, and what offering flows costs those that install them.

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::Arc;

use netdev::flow_api::FlowDevice;
use netdev::packet::{BATCH_SIZE, Batch, FramePool};
use netdev::port::Port;
use netdev::sim::{SimPort, SimPorts};

use super::path::{PORT, frame, pipeline, record};
use super::table::{measure, processor_time, tell};
use crate::action::Action;
use crate::flow::{Field, FlowKey};
use crate::flow_table::FlowRecord;
use crate::offload::engine::{Engine, OpenPort};
use crate::offload::hardware::HardwarePort;
use crate::offload::inbox::{Association, Inbox};
use crate::offload::mark::MarkPool;
use crate::offload::statistics::WorkerStatistics;
use crate::offload::worker::{Request, Worker};
use crate::pmd::lookup::CachePolicy;
use crate::pmd::pipeline::Pipeline;
use crate::testing::TestHandler;

/// Flows that become rules.
const FLOWS: u32 = 200_000;
/// Flows between two looks at the device, as a busy worker takes them.
const BURST: usize = 1024;
/// Upcalls per measurement.
const UPCALLS: usize = 10_000;

fn device(sims: &Arc<SimPorts>) -> (SimPort, Arc<dyn FlowDevice>) {
    let mut port = sims.open("bench").unwrap();
    port.set_options(&[("hw-full".to_owned(), "false".to_owned())].into()).unwrap();
    let device = port.flow_device().unwrap();
    (port, device)
}

fn open(device: &Arc<dyn FlowDevice>) -> OpenPort {
    let hardware = Box::new(HardwarePort::open(Arc::clone(device), 4096).unwrap());
    OpenPort { number: PORT, provider: "sim", device: device.id(), hardware, drains: vec![] }
}

/// What one worker can do, without its thread.
pub(super) fn flows_to_marks() {
    let sims = Arc::new(SimPorts::default());
    let (_port, device) = device(&sims);
    let statistics = Arc::new(WorkerStatistics::default());
    let mut engine = Engine::new(MarkPool::new(0, 1, u32::MAX), statistics);
    engine.open(open(&device));
    let inbox = Arc::new(Inbox::default());
    let flows: Vec<_> = (0..FLOWS).map(|flow| Arc::new(record(flow, false))).collect();
    let (mut put, mut removed) = (vec![], vec![]);
    for _ in 0..5 {
        let turn = |engine: &mut Engine| {
            engine.run(netdev::clock::now());
            black_box(inbox.take().iter().map(|Association { mark, .. }| *mark).max());
        };
        let start = processor_time();
        for burst in flows.chunks(BURST) {
            for flow in burst {
                engine.put(Arc::clone(flow), Arc::clone(&inbox), 0);
            }
            turn(&mut engine);
        }
        while engine.is_waiting() {
            turn(&mut engine);
        }
        put.push(f64::from(FLOWS) / (processor_time() - start).as_secs_f64() / 1e6);
        assert_eq!(device.rules(), flows.len());
        let start = processor_time();
        for burst in flows.chunks(BURST) {
            burst
                .iter()
                .for_each(|flow: &Arc<FlowRecord>| engine.remove(flow, netdev::clock::now()));
            turn(&mut engine);
        }
        while engine.is_waiting() {
            turn(&mut engine);
        }
        removed.push(f64::from(FLOWS) / (processor_time() - start).as_secs_f64() / 1e6);
        assert_eq!(device.rules(), 0);
    }
    let unit = "millions of flows per second of processor time";
    tell("one offload worker", unit, "to rule and usable mark", put);
    tell("one offload worker", unit, "out again", removed);
}

/// Upcalls that install a flow each, and the workers that the thread speaks to.
struct Upcalls {
    pipeline: Pipeline,
    pool: Arc<FramePool>,
    _worker: Option<Worker>,
}

impl Upcalls {
    fn new(device: Option<&Arc<dyn FlowDevice>>) -> Self {
        let handler = TestHandler::new(|_: &FlowKey| {
            let mut bits = FlowKey::default();
            for field in [Field::EthType, Field::VlanTci, Field::Ipv4Src, Field::IpProto] {
                bits.set(field, field.bits());
            }
            Some((bits, vec![Action::Output(2)]))
        });
        let mut pipeline = pipeline(handler);
        let worker = device.map(|device| {
            let worker = Worker::start(0, 1).unwrap();
            worker.handle.send(Request::Open(open(device)));
            pipeline.offload.set_workers(vec![worker.handle.clone()]);
            worker
        });
        Self { pipeline, pool: FramePool::new(4096).unwrap(), _worker: worker }
    }

    /// Nanoseconds per upcall.
    fn run(&mut self) -> f64 {
        let policy = CachePolicy { exact_one_in: 0, signature: false };
        let mut batch = Batch::new(&self.pool);
        let start = processor_time();
        for first in (0..UPCALLS).step_by(BATCH_SIZE) {
            self.pipeline.hear_of_marks();
            for flow in first..first + BATCH_SIZE {
                let mut packet = self.pool.packet_with(&frame(flow as u32)).unwrap();
                packet.view_mut().descriptor_mut().in_port = PORT.0;
                batch.push(packet).unwrap();
            }
            self.pipeline.process(&mut batch, policy);
            self.pipeline.flush(true);
        }
        let spent = (processor_time() - start).as_nanos() as f64 / UPCALLS as f64;
        self.pipeline.remove_all();
        spent
    }
}

/// What offering flows costs the thread that installs them.
pub(super) fn upcalls() {
    let sims = Arc::new(SimPorts::default());
    let (_port, device) = device(&sims);
    let off = RefCell::new(Upcalls::new(None));
    let on = RefCell::new(Upcalls::new(Some(&device)));
    measure(
        "upcalls that install a flow",
        "nanoseconds of processor time each",
        21,
        vec![
            ("offload off", Box::new(|| off.borrow_mut().run())),
            ("off again (A/A)", Box::new(|| off.borrow_mut().run())),
            ("offload on, one worker on another core", Box::new(|| on.borrow_mut().run())),
        ],
    );
}
