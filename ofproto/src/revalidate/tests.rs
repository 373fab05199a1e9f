//! Packets, upcalls and revalidation on a datapath with ports in memory.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use dpif::WorkerId;
use dpif::action::Action;
use dpif::datapath::{Config, DatapathType, PortNumber as DatapathPort, Topology};
use dpif::pmd::assign::Core;
use netdev::ethernet_address::EthernetAddress;
use netdev::offload::TransmitOffloads;
use netdev::packet::{Batch, FramePool};
use netdev::port::{Port, PortError};
use netdev::queue::{QueueError, RxQueue, SendReport, TxQueue};
use netdev::statistics::Statistics;

use dpif::FlowRecord;

use super::*;
use crate::epoch::Epoch;
use crate::news::News;
use crate::port::PortNumber;
use crate::port_settings::{PortSettings, VlanMode};
use crate::rule::RuleParts;
use crate::switch::Switch;
use crate::switches::{FailMode, Switches};
use crate::translate::{Request, translate};

type Frames = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// A port whose far side is the test.
struct MemoryPort {
    name: String,
    needs_pmd: bool,
    received: Frames,
    sent: Frames,
}

impl Port for MemoryPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn port_type(&self) -> &str {
        "memory"
    }

    fn set_options(&mut self, _: &BTreeMap<String, String>) -> Result<(), PortError> {
        Ok(())
    }

    fn options(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn ethernet_address(&self) -> Result<EthernetAddress, PortError> {
        Err(self.not_supported("an address"))
    }

    fn set_ethernet_address(&mut self, _: EthernetAddress) -> Result<(), PortError> {
        Err(self.not_supported("an address"))
    }

    fn mtu(&self) -> Result<u32, PortError> {
        Err(self.not_supported("an MTU"))
    }

    fn set_mtu(&mut self, _: u32) -> Result<(), PortError> {
        Err(self.not_supported("an MTU"))
    }

    fn admin_up(&self) -> Result<bool, PortError> {
        Ok(true)
    }

    fn set_admin_up(&mut self, _: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn status(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn statistics(&self) -> Result<Statistics, PortError> {
        Ok(Statistics::default())
    }

    fn change_sequence(&self) -> u64 {
        0
    }

    fn rx_queues(&self) -> usize {
        1
    }

    fn needs_pmd(&self) -> bool {
        self.needs_pmd
    }

    fn open_rx(&mut self, _: usize, _: &Arc<FramePool>) -> Result<Box<dyn RxQueue>, PortError> {
        Ok(Box::new(MemoryRx(Arc::clone(&self.received))))
    }

    fn open_tx(&mut self, _: usize) -> Result<Box<dyn TxQueue>, PortError> {
        Ok(Box::new(MemoryTx(Arc::clone(&self.sent))))
    }
}

struct MemoryRx(Frames);

impl RxQueue for MemoryRx {
    fn receive(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let mut frames = self.0.lock().unwrap();
        let filled = batch.fill(frames.len().min(batch.room()));
        for (mut packet, frame) in batch.iter_mut().zip(frames.drain(..filled)) {
            assert!(packet.append(&frame));
        }
        Ok(filled)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct MemoryTx(Frames);

impl TxQueue for MemoryTx {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let sent = batch.len() as u64;
        let frames = batch.iter().map(|packet| packet.segments().flatten().copied().collect());
        self.0.lock().unwrap().extend(frames);
        batch.clear();
        SendReport { sent, ..SendReport::default() }
    }

    fn offloads(&self) -> TransmitOffloads {
        TransmitOffloads::empty()
    }
}

/// A switch with ports 1, 2 and 3, on a datapath where they have the same numbers.
struct Setup {
    datapath: Datapath,
    /// Frames that are to come in on each port, and those that left by it.
    frames: Vec<(Frames, Frames)>,
    upcalls: Arc<Upcalls>,
    switch: Switch,
    revalidator: Revalidator,
}

fn address(last: u8) -> EthernetAddress {
    EthernetAddress([2, 0, 0, 0, 0, last])
}

/// A frame of no known protocol.
fn frame(source: u8, destination: u8) -> Vec<u8> {
    let (to, from) = (address(destination).0, address(source).0);
    [&to[..], &from, &[0x12, 0x34], &[0; 46]].concat()
}

impl Setup {
    fn new() -> Self {
        Self::polled_by(&[])
    }

    /// The same where poll threads on these cores forward, or the thread of the test if there are
    /// none.
    fn polled_by(cores: &[u32]) -> Self {
        let cores: Vec<_> = cores.iter().map(|&core| Core { numa: core, core }).collect();
        let needs_pmd = !cores.is_empty();
        let epoch = Arc::new(Epoch::default());
        let upcalls = Arc::new(Upcalls::new(Arc::clone(&epoch), News::default()));
        let datapath = Datapath::new(Config {
            name: "ovs-dummy".to_owned(),
            kind: DatapathType::Dummy,
            topology: Topology { cores, is_real: false },
            frames: 256,
            handler: upcalls.clone(),
            seed: 7,
        });
        let mut setup = Self {
            datapath,
            frames: vec![],
            revalidator: Revalidator::new(Arc::clone(&upcalls), News::default()),
            upcalls,
            switch: Switch::new("br0", epoch, News::default()),
        };
        setup.switch.tables().add(RuleParts::normal(0)).unwrap();
        for name in ["p1", "p2", "p3"] {
            let (received, sent) = (Frames::default(), Frames::default());
            let port = MemoryPort {
                name: name.to_owned(),
                needs_pmd,
                received: Arc::clone(&received),
                sent: Arc::clone(&sent),
            };
            setup.frames.push((received, sent));
            setup.switch.add_port(Box::new(port), None, &mut setup.datapath, clock::now()).unwrap();
        }
        setup.reconfigure();
        setup
    }

    /// Lets the datapath and upcalls know the switch as it is now.
    fn reconfigure(&mut self) {
        let mut ports: Vec<(DatapathPort, &mut dyn Port)> = vec![];
        for (_, port) in self.switch.ports_mut() {
            ports.push((port.datapath_number.unwrap(), &mut *port.port));
        }
        assert_eq!(self.datapath.reconfigure(&mut ports), []);
        self.upcalls.publish(Switches::new(vec![self.switch.snapshot()]));
    }

    fn set_fail_mode(&mut self, fail_mode: FailMode) {
        match fail_mode {
            FailMode::Standalone => drop(self.switch.tables().add(RuleParts::normal(0))),
            FailMode::Secure => self.switch.tables().clear(),
        }
        self.reconfigure();
    }

    /// Where the switch knows a station to be.
    fn port_of(&self, vlan: u16, last: u8) -> Option<PortNumber> {
        self.switch.mac_table().lookup(vlan, address(last))
    }

    /// Lets a frame come in; returns the ports on which it left.
    fn forward(&mut self, port: usize, frame: &[u8]) -> Vec<usize> {
        self.frames[port - 1].0.lock().unwrap().push_back(frame.to_vec());
        while self.datapath.poll() > 0 {}
        let sent = (1..).zip(&self.frames).filter_map(|(number, (_, sent))| {
            let frames: Vec<_> = sent.lock().unwrap().drain(..).collect();
            (!frames.is_empty()).then(|| {
                assert_eq!(frames, [frame]);
                number
            })
        });
        sent.collect()
    }

    fn run(&mut self) {
        self.revalidator.run(&mut self.datapath);
    }

    /// The flows by input port, with their actions and the packets that hit them: all but the first.
    fn flows(&self) -> Vec<(u32, Vec<Action>, u64)> {
        let flows = self.datapath.dump_flows(None);
        let mut flows: Vec<_> = flows
            .iter()
            .map(|flow| {
                let port = flow.key().in_port.get();
                (port, flow.actions().to_vec(), flow.statistics().packets)
            })
            .collect();
        flows.sort_by_key(|flow| flow.0);
        flows
    }
}

fn outputs(ports: &[u32]) -> Vec<Action> {
    ports.iter().map(|&port| Action::Output(port)).collect()
}

#[test]
fn flows_follow_what_is_learned() {
    let mut setup = Setup::new();
    assert_eq!(setup.forward(1, &frame(1, 2)), [2, 3]);
    assert_eq!(setup.forward(1, &frame(1, 2)), [2, 3]);
    assert_eq!(setup.forward(2, &frame(2, 1)), [1]);
    // Until someone looks, the first flow floods on.
    assert_eq!(setup.forward(1, &frame(1, 2)), [2, 3]);
    setup.run();
    assert_eq!(setup.flows(), [(1, outputs(&[2]), 2), (2, outputs(&[1]), 0)]);
    assert_eq!(setup.forward(1, &frame(1, 2)), [2]);
    // The first station moves.
    assert_eq!(setup.forward(3, &frame(1, 2)), [2]);
    setup.run();
    assert_eq!(
        setup.flows(),
        [(1, outputs(&[2]), 3), (2, outputs(&[3]), 0), (3, outputs(&[2]), 0)]
    );
    assert_eq!(setup.forward(2, &frame(2, 1)), [3]);
    let statistics = setup.revalidator.statistics();
    assert_eq!(
        (statistics.flows, statistics.average, statistics.maximum, statistics.known),
        (3, 2, 3, 3)
    );
}

#[test]
fn packets_of_flows_keep_stations_known() {
    let mut setup = Setup::new();
    setup.forward(1, &frame(1, 2));
    setup.run();
    setup.switch.mac_table().flush();
    setup.run();
    assert_eq!(setup.port_of(0, 1), None);
    setup.forward(1, &frame(1, 2));
    assert_eq!(setup.port_of(0, 1), None);
    setup.run();
    assert_eq!(setup.port_of(0, 1), Some(PortNumber(1)));
    // What a flow saw earlier does not undo what a packet showed later.
    let earlier = clock::now().saturating_sub(Duration::from_secs(2));
    setup.switch.mac_table().refresh(0, address(1), PortNumber(3), earlier);
    assert_eq!(setup.port_of(0, 1), Some(PortNumber(1)));
    let later = clock::now() + Duration::from_secs(2);
    setup.switch.mac_table().refresh(0, address(1), PortNumber(3), later);
    assert_eq!(setup.port_of(0, 1), Some(PortNumber(3)));
    // Nor does what it saw before the port went.
    let before = clock::now();
    setup.switch.mac_table().flush_port(PortNumber(3));
    setup.switch.mac_table().refresh(0, address(1), PortNumber(3), before);
    assert_eq!(setup.port_of(0, 1), None);
    setup.switch.mac_table().refresh(0, address(1), PortNumber(3), later);
    assert_eq!(setup.port_of(0, 1), Some(PortNumber(3)));
}

#[test]
fn other_settings_make_other_flows() {
    let mut setup = Setup::new();
    setup.forward(1, &frame(1, 2));
    setup.forward(3, &frame(3, 2));
    assert_eq!(setup.flows(), [(1, outputs(&[2, 3]), 0), (3, outputs(&[1, 2]), 0)]);
    // Port 3 goes, and its flow.
    let now = clock::now();
    assert!(setup.switch.remove_port(PortNumber(3), &mut setup.datapath, now).is_some());
    setup.reconfigure();
    assert_eq!(setup.port_of(0, 3), None);
    setup.run();
    assert_eq!(setup.flows(), [(1, outputs(&[2]), 0)]);
    // The new mask is wider: the flow may stay, with other actions.
    setup.set_fail_mode(FailMode::Secure);
    setup.run();
    assert_eq!(setup.flows(), [(1, vec![Action::Drop { reason: 0 }], 0)]);
    assert_eq!(setup.forward(2, &frame(2, 1)), [0; 0]);
    assert_eq!(
        setup.flows(),
        [(1, vec![Action::Drop { reason: 0 }], 0), (2, vec![Action::Drop { reason: 0 }], 0)]
    );
    // The new mask is narrower for the flow that was made meanwhile.
    setup.set_fail_mode(FailMode::Standalone);
    setup.run();
    assert_eq!(setup.flows(), [(1, outputs(&[2]), 0)]);
    // The stations of port 1 are in another VLAN.
    assert_eq!(setup.port_of(0, 1), Some(PortNumber(1)));
    let access = PortSettings { vlan_mode: VlanMode::Access, tag: 5, ..PortSettings::default() };
    setup.switch.set_port_settings(PortNumber(1), access);
    setup.reconfigure();
    assert_eq!(setup.port_of(0, 1), None);
    setup.run();
    let push = Action::PushVlan { tpid: 0x8100, tci: 0x1005 };
    assert_eq!(setup.flows(), [(1, vec![push, Action::Output(2)], 0)]);
}

/// The number of flows that go at some time after now.
fn gone_after(setup: &mut Setup, time: Duration) -> usize {
    let revalidator = &setup.revalidator;
    let pass = revalidator.pass(&setup.datapath, clock::now() + time, false);
    let goes = |flow: &Arc<FlowRecord>| {
        let mut known = revalidator.known.of(flow.ufid()).unwrap();
        pass.judge(flow, &mut known).is_some()
    };
    pass.flows.select(|_| true).iter().filter(|flow| goes(flow)).count()
}

#[test]
fn shows_what_it_knows() {
    let mut setup = Setup::new();
    setup.revalidator.set_settings(RevalidateSettings { threads: 2, ..Default::default() });
    setup.forward(1, &frame(1, 2));
    setup.forward(2, &frame(2, 1));
    setup.run();
    let in_first = |flow: &Arc<FlowRecord>| flow.ufid().0.is_multiple_of(2);
    let flows = setup.datapath.dump_flows(None);
    let first = flows.iter().filter(|flow| in_first(flow)).count();
    let numbers = setup.revalidator.threads.iter().map(|thread| thread.number);
    let [one, other] = numbers.collect::<Vec<_>>()[..] else { panic!("two threads") };
    setup.revalidator.conclude(7, Duration::from_millis(30));
    assert_eq!(
        setup.revalidator.show("dummy@ovs-dummy", 1),
        format!(
            "dummy@ovs-dummy:\n  flows         : (current 1) (avg 4) (max 7) (limit 10000)\n  \
             dump duration : 30ms\n  ufid enabled : true\n\n  {one}: (keys {first})\n  \
             {other}: (keys {})\n",
            2 - first
        )
    );
}

#[test]
fn unused_flows_go() {
    let mut setup = Setup::new();
    setup.forward(1, &frame(1, 2));
    setup.run();
    assert_eq!(gone_after(&mut setup, Duration::from_secs(9)), 0);
    assert_eq!(gone_after(&mut setup, Duration::from_secs(11)), 1);
    let settings = RevalidateSettings {
        max_idle: Duration::from_millis(1500),
        ..RevalidateSettings::default()
    };
    setup.revalidator.set_settings(settings);
    assert_eq!(gone_after(&mut setup, Duration::from_secs(1)), 0);
    assert_eq!(gone_after(&mut setup, Duration::from_secs(2)), 1);
}

#[test]
fn the_number_of_flows_is_limited() {
    let mut setup = Setup::new();
    setup.upcalls.set_flow_limit(3);
    for station in 10..20 {
        assert_eq!(setup.forward(1, &frame(1, station)), [2, 3]);
    }
    assert_eq!(setup.flows().len(), 3);
    setup.upcalls.set_flow_limit(1);
    // One goes at once because there are more than twice as many as may be, and the others before
    // long.
    assert_eq!(gone_after(&mut setup, Duration::ZERO), 1);
    assert_eq!(gone_after(&mut setup, Duration::from_secs(1)), 2);
    setup.run();
    assert_eq!(setup.flows().len(), 2);
    assert_eq!(setup.upcalls.flow_limit(), 1001);
}

#[test]
fn the_limit_follows_the_duration_of_passes() {
    let mut setup = Setup::new();
    let mut after = |flows, milliseconds| {
        setup.revalidator.conclude(flows, Duration::from_millis(milliseconds));
        setup.upcalls.flow_limit()
    };
    assert_eq!(after(1, 1200), 10_000);
    assert_eq!(after(100_000, 900), 11_000);
    assert_eq!(after(100, 900), 11_000);
    assert_eq!(after(1, 1400), 8250);
    assert_eq!(after(1, 4500), 2062);
    assert_eq!(after(1, 9000), 1000);
    for _ in 0..300 {
        after(1_000_000, 10);
    }
    assert_eq!(after(1_000_000, 10), 200_000);
}

#[test]
fn passes_are_due_when_something_changed() {
    let mut setup = Setup::new();
    assert_eq!(setup.revalidator.due(), Some(Duration::ZERO));
    setup.run();
    let (start, _) = setup.revalidator.last.unwrap();
    assert_eq!(setup.revalidator.due(), Some(start + Duration::from_millis(500)));
    setup.upcalls.epoch().advance();
    assert_eq!(setup.revalidator.due(), Some(start + Duration::from_millis(5)));
    setup.revalidator.set_paused(true);
    assert_eq!(setup.revalidator.due(), None);
    setup.revalidator.set_paused(false);
    assert_eq!(setup.revalidator.due(), Some(start + Duration::from_millis(5)));
}

#[test]
fn purging_leaves_no_flow() {
    let mut setup = Setup::new();
    setup.forward(1, &frame(1, 2));
    setup.forward(2, &frame(2, 1));
    setup.run();
    setup.revalidator.purge(&mut setup.datapath);
    assert_eq!(setup.flows(), []);
    assert_eq!(setup.revalidator.statistics().known, 0);
    setup.upcalls.set_megaflows(false);
    setup.forward(1, &frame(1, 2));
    let flows = setup.datapath.dump_flows(None);
    let [flow] = &flows[..] else { panic!("{flows:?}") };
    assert_eq!(*flow.mask(), dpif::flow::FlowMask::exact_for(flow.key()));
}

#[test]
fn flows_come_true_while_poll_threads_forward() {
    let mut setup = Setup::polled_by(&[0, 1]);
    for round in 0..300u32 {
        for (number, (received, _)) in (0..).zip(&setup.frames) {
            // Stations 0 to 6 go from port to port.
            let (source, destination) = ((round + number) % 7, (round / 3 + 2 * number) % 7);
            let mut received = received.lock().unwrap();
            received.push_back(frame(source as u8, destination as u8));
        }
        setup.run();
    }
    while setup.frames.iter().any(|(received, _)| !received.lock().unwrap().is_empty()) {
        std::thread::yield_now();
    }
    // The last frames may still be on their way.
    let mut untrue = 1;
    for _ in 0..1000 {
        setup.run();
        untrue = gone_after(&mut setup, Duration::ZERO);
        if untrue == 0 {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(untrue, 0);
    let flows = setup.datapath.dump_flows(None);
    assert_eq!(setup.revalidator.statistics().known, flows.len());
    assert!(flows.len() > 6, "{flows:?}");
    assert!(flows.iter().all(|flow| matches!(flow.worker(), WorkerId::Core(_))));
    let switches = setup.upcalls.switches();
    for flow in flows {
        let request = Request::flow(flow.key());
        assert_eq!(flow.actions(), translate(&switches, request).unwrap().actions);
    }
}

mod rules;
