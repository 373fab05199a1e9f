use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

use super::engine::{Engine, Exit, Request, Work};
use super::options::{Restore, RuleOptions};
use super::table::{Key, Place};
use super::*;
use crate::flow_api::{
    ActionKinds, Completion, Edit, Fate, FlowApiError, HeaderFields, ModifyStyle, RestoreInfo,
    RuleActions, RuleCounters, RuleError, RuleId, TableId, Template, TunnelFields, TunnelKind,
};
use crate::packet::Batch;
use crate::pcap::PcapWriter;
use crate::sample::{Kind, Sample};
use crate::wire::ethernet::MacAddress;

const MILLISECOND: Duration = Duration::from_millis(1);

fn udp(port: u16) -> Vec<u8> {
    let mut frame = Sample::new(false, Kind::Udp, vec![7; 20]).frame();
    // The checksum is of no interest to rules.
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame
}

/// What rules of these tests look at: the UDP destination port.
fn template(group: u32) -> Template {
    let mut mask = HeaderFields::default();
    mask.outer.eth_type.set(0xffff);
    mask.outer.ip_proto = 0xff;
    mask.outer.tp_dst.set(0xffff);
    Template { group, priority: 0, mask, actions: ActionKinds::all(), capacity: 1000 }
}

fn values(port: u16) -> HeaderFields {
    let mut values = HeaderFields::default();
    values.outer.eth_type.set(0x0800);
    values.outer.ip_proto = 17;
    values.outer.tp_dst.set(port);
    values
}

fn mark(mark: u32) -> RuleActions {
    RuleActions { mark: NonZeroU32::new(mark), count: true, ..RuleActions::default() }
}

fn fate(fate: Fate) -> RuleActions {
    RuleActions { count: true, fate, ..RuleActions::default() }
}

fn pull_all(engine: &mut Engine, queue: u16, now: Duration) -> Vec<Completion> {
    let mut completions = vec![Completion { user: 0, result: Ok(()) }; 256];
    let count = engine.pull(queue, now, &mut completions, |_| {});
    completions.truncate(count);
    completions
}

/// An engine with one queue and one table.
struct Bench {
    engine: Engine,
    table: TableId,
    queue: u16,
}

impl Bench {
    fn new(options: RuleOptions) -> Self {
        let mut engine = Engine::new(options);
        let table = engine.create_table(&template(0)).unwrap();
        let queue = engine.open_queue().unwrap();
        Self { engine, table, queue }
    }

    fn request(&mut self, slot: u32, work: Work, now: Duration) {
        let request = Request { slot, generation: 0, user: u64::from(slot), work };
        self.engine.accept(self.queue, &mut vec![request], now);
    }

    /// Puts in a rule for a UDP port.
    fn insert(&mut self, slot: u32, port: u16, actions: RuleActions, now: Duration) {
        let key = Key::new(&self.engine.table(self.table).unwrap().words, &values(port));
        let table = self.table;
        self.request(slot, Work::insert(table, key, actions), now);
    }

    fn pull(&mut self, now: Duration) -> Vec<(u64, Result<(), RuleError>)> {
        self.engine.advance(now);
        let done = pull_all(&mut self.engine, self.queue, now);
        done.into_iter().map(|done| (done.user, done.result)).collect()
    }

    /// The mark and the exit of a packet to a UDP port.
    fn packet(&mut self, port: u16, now: Duration) -> (u32, Exit) {
        self.engine.advance(now);
        let frame = udp(port);
        let outcome = self.engine.process(&frame, HeaderFields::parse(&frame).as_ref(), now);
        (outcome.mark, outcome.exit)
    }

    fn counters(&mut self, slot: u32, now: Duration) -> u64 {
        let place = Place { queue: self.queue, slot };
        self.engine.query(place, 0, false, now).unwrap().packets
    }
}

const TO_SOFTWARE: Exit = Exit::Software(None);

#[test]
fn requests_are_carried_out_when_their_time_has_come() {
    let options = RuleOptions {
        insert_latency: MILLISECOND * 2,
        push_latency: MILLISECOND,
        ..RuleOptions::default()
    };
    let mut bench = Bench::new(options);
    bench.insert(0, 80, mark(5), Duration::ZERO);
    bench.insert(1, 81, mark(6), Duration::ZERO);
    assert_eq!(bench.packet(80, MILLISECOND * 2), (0, TO_SOFTWARE));
    assert_eq!(bench.pull(MILLISECOND * 2), []);
    assert_eq!(bench.packet(80, MILLISECOND * 3), (5, TO_SOFTWARE));
    assert_eq!(bench.packet(81, MILLISECOND * 3), (0, TO_SOFTWARE));
    assert_eq!(bench.pull(MILLISECOND * 6), [(0, Ok(())), (1, Ok(()))]);
    assert_eq!(bench.packet(81, MILLISECOND * 6), (6, TO_SOFTWARE));
    let expected = Totals { inserted: 2, matched: 2, missed: 2, ..Totals::default() };
    assert_eq!(bench.engine.audit.totals, expected);
}

#[test]
fn a_device_has_limits() {
    let mut bench = Bench::new(RuleOptions { capacity: 2, ..RuleOptions::default() });
    for (slot, port) in [(0, 80), (1, 80), (2, 81), (3, 82)] {
        bench.insert(slot, port, mark(1), Duration::ZERO);
    }
    let results = bench.pull(Duration::ZERO);
    let expected = [Ok(()), Err(RuleError::Exists), Ok(()), Err(RuleError::TableFull)];
    assert!(results.into_iter().map(|(_, result)| result).eq(expected));
    assert_eq!(bench.engine.rules(), 2);
}

#[test]
fn requests_are_reordered_within_their_window() {
    let options = RuleOptions { reorder: 8, seed: 3, ..RuleOptions::default() };
    let mut engine = Engine::new(options);
    let table = engine.create_table(&template(0)).unwrap();
    let queue = engine.open_queue().unwrap();
    let words = engine.table(table).unwrap().words.clone();
    let requests = (0..64).map(|slot| {
        let key = Key::new(&words, &values(slot as u16));
        let work = Work::insert(table, key, mark(1));
        Request { slot, generation: 0, user: slot.into(), work }
    });
    engine.accept(queue, &mut requests.collect(), Duration::ZERO);
    let order: Vec<u64> =
        pull_all(&mut engine, queue, Duration::ZERO).into_iter().map(|done| done.user).collect();
    assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (0..64).collect());
    assert!(!order.is_sorted());
    for (place, user) in order.iter().enumerate() {
        assert!(*user < place as u64 + 8, "{user} overtook too many to be number {place}");
    }
}

#[test]
fn a_request_about_a_rule_whose_insertion_is_open_is_a_bug_of_the_caller() {
    let options = RuleOptions { insert_latency: MILLISECOND, ..RuleOptions::default() };
    let mut bench = Bench::new(options);
    bench.insert(0, 80, mark(1), Duration::ZERO);
    bench.request(0, Work::Remove, Duration::ZERO);
    assert_eq!(bench.engine.audit.totals.caller_bugs, 1);
    bench.insert(1, 81, mark(1), MILLISECOND);
    bench.engine.advance(MILLISECOND * 2);
    bench.request(1, Work::Remove, MILLISECOND * 2);
    assert_eq!(bench.engine.audit.totals.caller_bugs, 2, "its result was not pulled");
    bench.pull(MILLISECOND * 5);
    bench.insert(2, 82, mark(1), MILLISECOND * 5);
    bench.pull(MILLISECOND * 7);
    bench.request(2, Work::Remove, MILLISECOND * 7);
    assert_eq!(bench.engine.audit.totals.caller_bugs, 2);
}

#[test]
fn devices_fail_as_they_are_told() {
    let mut bench = Bench::new(RuleOptions::default());
    let error = Err(RuleError::Hardware);
    bench.engine.faults.insert_error = 1000;
    bench.insert(0, 80, mark(1), Duration::ZERO);
    assert_eq!(bench.pull(Duration::ZERO), [(0, error)]);
    assert_eq!(bench.packet(80, Duration::ZERO).0, 0);

    bench.engine.faults = Faults { duplicate: 1000, ..Faults::default() };
    bench.insert(1, 80, mark(1), Duration::ZERO);
    assert_eq!(bench.pull(Duration::ZERO), [(1, Ok(())), (1, Ok(()))]);

    bench.engine.faults = Faults { update_error: 1000, remove_error: 1000, ..Faults::default() };
    bench.request(1, Work::Update { actions: mark(2) }, Duration::ZERO);
    bench.request(1, Work::Remove, Duration::ZERO);
    assert_eq!(bench.pull(Duration::ZERO), [(1, error), (1, error)]);
    assert_eq!(bench.packet(80, Duration::ZERO).0, 1);

    bench.engine.faults = Faults { late: 1000, ..Faults::default() };
    bench.request(1, Work::Update { actions: mark(2) }, Duration::ZERO);
    assert_eq!(bench.pull(MILLISECOND * 99), []);
    assert_eq!(bench.pull(MILLISECOND * 100), [(1, Ok(()))]);

    bench.engine.faults = Faults { lost: 1000, ..Faults::default() };
    bench.request(1, Work::Update { actions: mark(3) }, MILLISECOND);
    assert_eq!(bench.pull(Duration::from_secs(1)), []);
    assert_eq!(bench.packet(80, MILLISECOND).0, 3);

    bench.engine.faults = Faults { stuck: 1, ..Faults::default() };
    bench.request(1, Work::Remove, MILLISECOND);
    assert_eq!(bench.pull(Duration::from_secs(1)), []);
    bench.engine.faults = Faults::default();
    assert_eq!(bench.pull(Duration::from_secs(1)), [(1, Ok(()))]);

    bench.engine.is_removed = true;
    bench.insert(2, 80, mark(1), MILLISECOND);
    assert_eq!(bench.pull(MILLISECOND), [(2, Err(RuleError::Removed))]);
    assert_eq!(bench.engine.create_table(&template(0)), Err(FlowApiError::Removed));
    assert_eq!(bench.engine.open_queue(), Err(FlowApiError::Removed));
}

#[test]
fn a_port_that_stops_loses_its_rules_and_a_queue_takes_its_own_along() {
    let mut bench = Bench::new(RuleOptions::default());
    bench.insert(0, 80, mark(1), Duration::ZERO);
    bench.engine.lose_rules();
    assert_eq!((bench.packet(80, Duration::ZERO).0, bench.engine.rules()), (0, 0));
    bench.pull(Duration::ZERO);
    bench.request(0, Work::Remove, Duration::ZERO);
    assert_eq!(bench.pull(Duration::ZERO), [(0, Err(RuleError::NotFound))]);
    bench.insert(1, 80, mark(1), Duration::ZERO);
    assert_eq!(bench.engine.rules(), 1);
    bench.engine.close_queue(bench.queue);
    assert_eq!((bench.packet(80, Duration::ZERO).0, bench.engine.rules()), (0, 0));
}

#[test]
fn updates_show_as_the_style_says() {
    let now = Duration::from_secs(1);
    for (modify, during, counted) in [
        (ModifyStyle::InPlace, BTreeSet::from([2]), 1 + 100),
        (ModifyStyle::BreakBeforeMake, BTreeSet::from([0]), 0),
        (ModifyStyle::MakeBeforeBreak, BTreeSet::from([1, 2]), 1 + 100),
    ] {
        let insert_latency = MILLISECOND;
        let options = RuleOptions { modify, insert_latency, ..RuleOptions::default() };
        let mut bench = Bench::new(options);
        bench.insert(0, 80, mark(1), Duration::ZERO);
        assert_eq!(bench.packet(80, now).0, 1);
        bench.pull(now);
        bench.request(0, Work::Update { actions: mark(2) }, now);
        bench.engine.advance(now + MILLISECOND);
        let begun = now + MILLISECOND;
        let seen: BTreeSet<u32> = (0..100).map(|_| bench.packet(80, begun).0).collect();
        assert_eq!(seen, during, "{modify:?}");
        assert_eq!(bench.counters(0, begun), counted, "{modify:?}");
        assert_eq!(bench.packet(80, begun + MILLISECOND).0, 2, "{modify:?}");
    }
}

#[test]
fn counters_lag_saturate_and_start_again() {
    let options =
        RuleOptions { counter_lag: MILLISECOND * 500, counter_bits: 2, ..RuleOptions::default() };
    let mut bench = Bench::new(options);
    bench.insert(0, 80, mark(1), Duration::ZERO);
    for _ in 0..2 {
        bench.packet(80, MILLISECOND * 600);
    }
    assert_eq!(bench.counters(0, MILLISECOND * 999), 0);
    assert_eq!(bench.counters(0, MILLISECOND * 1000), 2);
    for _ in 0..9 {
        bench.packet(80, MILLISECOND * 1100);
    }
    assert_eq!(bench.counters(0, MILLISECOND * 1499), 2);
    let place = Place { queue: bench.queue, slot: 0 };
    let read = bench.engine.query(place, 0, true, MILLISECOND * 1500);
    assert_eq!(read, Ok(RuleCounters { packets: 3, bytes: 3 }));
    assert_eq!(bench.counters(0, MILLISECOND * 2500), 0);
    let gone = bench.engine.query(Place { slot: 9, ..place }, 0, false, Duration::ZERO);
    assert_eq!(gone, Err(FlowApiError::Rule(RuleError::NotFound)));
}

#[test]
fn rules_without_packets_age_once() {
    let mut bench = Bench::new(RuleOptions::default());
    bench.insert(7, 80, RuleActions { age: 10, ..mark(1) }, Duration::ZERO);
    let mut aged = vec![];
    let mut aged_at = |engine: &mut Engine, seconds| {
        engine.pull_aged(&mut aged, Duration::from_secs(seconds));
        std::mem::take(&mut aged)
    };
    assert_eq!(aged_at(&mut bench.engine, 9), []);
    bench.packet(80, Duration::from_secs(9));
    assert_eq!(aged_at(&mut bench.engine, 18), []);
    assert_eq!(aged_at(&mut bench.engine, 19), [7]);
    assert_eq!(aged_at(&mut bench.engine, 40), []);
    bench.packet(80, Duration::from_secs(41));
    assert_eq!(aged_at(&mut bench.engine, 60), [7]);
}

#[test]
fn priorities_and_jumps_are_followed() {
    let mut engine = Engine::new(RuleOptions::default());
    let everything = |group, priority| Template {
        group,
        priority,
        mask: HeaderFields::default(),
        ..template(group)
    };
    let low = engine.create_table(&everything(0, 9)).unwrap();
    let high = engine.create_table(&template(0)).unwrap();
    let next = engine.create_table(&template(3)).unwrap();
    let queue = engine.open_queue().unwrap();
    let rules = [
        (low, 0, fate(Fate::Drop)),
        (high, 80, RuleActions { fate: Fate::Jump(3), ..mark(1) }),
        (high, 81, RuleActions { fate: Fate::Jump(3), ..mark(2) }),
        (next, 80, RuleActions { fate: Fate::Queue(4), ..mark(8) }),
    ];
    for (slot, (table, port, actions)) in (0..).zip(rules) {
        let key = Key::new(&engine.table(table).unwrap().words, &values(port));
        let work = Work::insert(table, key, actions);
        let request = Request { slot, generation: 0, user: 0, work };
        engine.accept(queue, &mut vec![request], Duration::ZERO);
    }
    let mut exit = |port| {
        let frame = udp(port);
        let parsed = HeaderFields::parse(&frame);
        let outcome = engine.process(&frame, parsed.as_ref(), Duration::ZERO);
        (outcome.mark, outcome.exit)
    };
    assert_eq!(exit(80), (8, Exit::Software(Some(4))));
    assert_eq!(exit(81), (2, TO_SOFTWARE));
    assert_eq!(exit(82), (0, Exit::Drop));
}

/// A VXLAN packet around one to UDP port 80.
fn tunneled() -> (Vec<u8>, Vec<u8>) {
    let inner = udp(80);
    let mut payload = vec![8, 0, 0, 0, 0, 0, 123, 0];
    payload.extend(&inner);
    let mut outer = Sample::new(false, Kind::Udp, payload).frame();
    outer[36..38].copy_from_slice(&4789u16.to_be_bytes());
    // VXLAN needs no checksum of UDP, and one that is there must be right.
    outer[40..42].fill(0);
    // What pads a frame is no part of what is in the tunnel.
    outer.extend([9; 5]);
    (outer, inner)
}

#[test]
fn packets_out_of_tunnels_tell_how_far_the_device_got() {
    let (outer, inner) = tunneled();
    let parsed = HeaderFields::parse(&outer).unwrap();
    let mut tunnel = TunnelFields::new(TunnelKind::Vxlan, 123);
    tunnel.flags = TunnelFields::DONT_FRAGMENT;
    assert_eq!(parsed.fields.tunnel, tunnel);
    assert_eq!(parsed.fields.inner, HeaderFields::parse(&inner).unwrap().fields.outer);
    assert_eq!((parsed.inner_start, parsed.inner_end), (50, outer.len() - 5));
    for (restore, bytes, is_encapsulated) in [
        (Restore::None, None, None),
        (Restore::Outer, None, Some(true)),
        (Restore::Inner, Some(&inner), Some(false)),
    ] {
        let mut bench = Bench::new(RuleOptions { restore, ..RuleOptions::default() });
        let edits = Some(Arc::from([Edit::Decapsulate(TunnelKind::Vxlan)]));
        let actions = RuleActions { edits, fate: Fate::Jump(1), ..RuleActions::default() };
        bench.insert(0, 4789, actions, Duration::ZERO);
        let expected = is_encapsulated.map(|is_encapsulated| RestoreInfo {
            outer: parsed.fields.outer,
            tunnel: parsed.fields.tunnel,
            is_encapsulated,
        });
        let miss = bench.engine.process(&outer, Some(&parsed), Duration::ZERO);
        assert_eq!((miss.bytes.as_ref(), miss.mark), (bytes, 0), "{restore:?}");
        assert_eq!((&miss.restore, miss.exit), (&expected, TO_SOFTWARE));
        // The same packet where a rule for what is inside marks it.
        let mut mask = HeaderFields { tunnel: TunnelFields::mask(), ..HeaderFields::default() };
        mask.tunnel.flags = u8::MAX;
        mask.inner.tp_dst.set(0xffff);
        let template = Template { mask, ..template(1) };
        let table = bench.engine.create_table(&template).unwrap();
        let key = Key::new(&bench.engine.table(table).unwrap().words, &parsed.fields);
        bench.request(1, Work::insert(table, key, mark(7)), Duration::ZERO);
        let hit = bench.engine.process(&outer, Some(&parsed), Duration::ZERO);
        assert_eq!((hit.bytes.as_ref(), hit.mark), (bytes, 7), "{restore:?}");
        assert_eq!((hit.restore, hit.exit), (expected, TO_SOFTWARE));
    }
    // No end of a tunnel would take the packet.
    let mut broken = outer;
    broken[24] ^= 1;
    assert_eq!(HeaderFields::parse(&broken).unwrap().inner_start, 0);
}

#[test]
fn packets_are_changed() {
    let whole = udp(80);
    let edited = |edits: &[Edit]| {
        let mut bytes = whole.clone();
        edits.iter().for_each(|edit| frame::edit(&mut bytes, edit, 0..0));
        bytes
    };
    let (a, b) = (MacAddress([1, 2, 3, 4, 5, 6]), MacAddress([7, 8, 9, 10, 11, 12]));
    let addressed = edited(&[Edit::SetEthernetDestination(a), Edit::SetEthernetSource(b)]);
    assert_eq!(addressed[..12], [a.0, b.0].concat());
    assert_eq!(addressed[12..], whole[12..]);
    let tagged = edited(&[Edit::PushVlan { tpid: 0x8100, tci: 5 }]);
    assert_eq!(tagged[12..18], [0x81, 0, 0, 5, 8, 0]);
    assert_eq!(edited(&[Edit::PushVlan { tpid: 0x8100, tci: 5 }, Edit::PopVlan]), whole);
    let (outer, _) = tunneled();
    let header: Arc<[u8]> = Arc::from(&outer[..50]);
    let wrapped = edited(&[Edit::Encapsulate(header)]);
    assert_eq!(wrapped[50..], whole);
    let parsed = HeaderFields::parse(&wrapped).unwrap();
    assert_eq!(parsed.fields.tunnel.id.get(), 123);
}

/// Two `sim` ports that are wired together.
fn pair() -> (Arc<SimPorts>, SimPort, SimPort) {
    let ports = Arc::new(SimPorts::default());
    let mut a = ports.open("a").unwrap();
    let mut b = ports.open("b").unwrap();
    let peer = |name: &str| BTreeMap::from([("peer".to_owned(), name.to_owned())]);
    a.set_options(&peer("b")).unwrap();
    b.set_options(&peer("a")).unwrap();
    (ports, a, b)
}

fn receive(queue: &mut dyn RxQueue, pool: &Arc<FramePool>) -> Vec<(Vec<u8>, u32)> {
    let mut batch = Batch::new(pool);
    queue.receive(&mut batch).unwrap();
    batch.iter().map(|packet| (packet.data().to_vec(), packet.descriptor().mark)).collect()
}

#[test]
fn packets_keep_the_mark_that_they_arrived_with() {
    let (_ports, mut a, mut b) = pair();
    let pool = FramePool::new(256).unwrap();
    let (mut send, mut rx) = (a.open_tx(0).unwrap(), b.open_rx(0, &pool).unwrap());
    let device = b.flow_device().unwrap();
    let table = device.create_table(&template(0)).unwrap();
    let mut queue = device.open_queue(16).unwrap();
    let mut completions = [Completion { user: 0, result: Ok(()) }; 4];
    let rule = queue.insert(table, &values(80), mark(9), 1).unwrap();
    let mut transmit = |port| {
        let mut batch = Batch::new(&pool);
        batch.push(pool.packet_with(&udp(port)).unwrap()).unwrap();
        assert_eq!(send.send(&mut batch).sent, 1);
    };
    transmit(80);
    queue.push();
    transmit(80);
    transmit(81);
    assert_eq!(queue.pull(&mut completions), 1);
    queue.remove(rule, 2).unwrap();
    queue.push();
    transmit(80);
    assert_eq!((queue.pull(&mut completions), queue.in_flight()), (1, 0));
    assert_eq!(device.rules(), 0);
    let received = receive(&mut *rx, &pool);
    assert_eq!(received, [(udp(80), 0), (udp(80), 9), (udp(81), 0), (udp(80), 0)]);
    let statistics = b.statistics().unwrap();
    assert_eq!((statistics.rx_packets, statistics.rx_missed_errors), (Some(4), Some(0)));
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn rules_forward_and_drop_without_software() {
    let (_ports, mut a, mut b) = pair();
    let pool = FramePool::new(256).unwrap();
    let (mut send, mut rx) = (a.open_tx(0).unwrap(), a.open_rx(0, &pool).unwrap());
    let mut other = b.open_rx(0, &pool).unwrap();
    let device = b.flow_device().unwrap();
    let table = device.create_table(&template(0)).unwrap();
    let mut queue = device.open_queue(2).unwrap();
    queue.insert(table, &values(80), fate(Fate::Port(device.id())), 1).unwrap();
    let counted = queue.insert(table, &values(81), fate(Fate::Drop), 2).unwrap();
    let full = queue.insert(table, &values(82), fate(Fate::Drop), 3);
    assert_eq!(full, Err(FlowApiError::QueueFull));
    queue.push();
    for port in [80, 81, 82] {
        let mut batch = Batch::new(&pool);
        batch.push(pool.packet_with(&udp(port)).unwrap()).unwrap();
        let _ = send.send(&mut batch);
    }
    assert_eq!(receive(&mut *rx, &pool), [(udp(80), 0)], "back out of the port");
    assert_eq!(receive(&mut *other, &pool), [(udp(82), 0)]);
    let bytes = udp(81).len() as u64;
    assert_eq!(queue.query(counted, false), Ok(RuleCounters { packets: 1, bytes }));
    assert_eq!(queue.query(RuleId(99), false), Err(FlowApiError::Rule(RuleError::NotFound)));
}

#[test]
fn a_device_refuses_what_it_cannot_do() {
    let (_ports, mut a, _b) = pair();
    let options = [("hw-full", "false"), ("hw-capacity", "1"), ("hw-early-check", "true")];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    a.set_options(&options.into()).unwrap();
    let device = a.flow_device().unwrap();
    let allowed = device.actions();
    let refused = device.create_table(&template(0));
    let actions = ActionKinds::all();
    assert_eq!(refused, Err(FlowApiError::Actions { actions, allowed }));
    let kinds = ActionKinds::MARK | ActionKinds::COUNT;
    let table = device.create_table(&Template { actions: kinds, ..template(0) }).unwrap();
    let mut queue = device.open_queue(8).unwrap();
    let refused = queue.insert(table, &values(1), fate(Fate::Queue(1)), 0);
    let actions = ActionKinds::QUEUE | ActionKinds::COUNT;
    assert_eq!(refused, Err(FlowApiError::Actions { actions, allowed: kinds }));
    assert_eq!(
        queue.insert(TableId(7), &values(1), mark(1), 0),
        Err(FlowApiError::NoTable(TableId(7)))
    );
    queue.insert(table, &values(1), mark(1), 0).unwrap();
    let full = Err(FlowApiError::Rule(RuleError::TableFull));
    assert_eq!(queue.insert(table, &values(2), mark(1), 0), full);
}

#[test]
fn frames_of_a_file_are_marked_as_rules_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("in.pcap");
    let mut writer = PcapWriter::append(&path).unwrap();
    [80, 81].iter().for_each(|port| writer.write(&udp(*port)).unwrap());
    drop(writer);
    let ports = Arc::new(SimPorts::default());
    let mut port = ports.open("a").unwrap();
    let options =
        [("rx_pcap", path.to_str().unwrap()), ("infinite_rx", "true"), ("n_rxq_desc", "32")];
    let options = options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    port.set_options(&options.into()).unwrap();
    let pool = FramePool::new(256).unwrap();
    let mut rx = port.open_rx(0, &pool).unwrap();
    let device = port.flow_device().unwrap();
    let table = device.create_table(&template(0)).unwrap();
    let mut queue = device.open_queue(8).unwrap();
    let marks = |rx: &mut dyn RxQueue| {
        let received = receive(rx, &pool);
        assert_eq!(received.len(), 32);
        assert!(
            received.iter().map(|(frame, _)| frame).eq([udp(80), udp(81)].iter().cycle().take(32))
        );
        (received[0].1, received[1].1)
    };
    assert_eq!(marks(&mut *rx), (0, 0));
    let rule = queue.insert(table, &values(81), mark(3), 0).unwrap();
    queue.push();
    assert_eq!(marks(&mut *rx), (0, 3));
    assert_eq!(marks(&mut *rx), (0, 3));
    assert_eq!(queue.query(rule, false).unwrap().packets, 32);
    queue.pull(&mut [Completion { user: 0, result: Ok(()) }]);
    queue.remove(rule, 0).unwrap();
    queue.push();
    assert_eq!(marks(&mut *rx), (0, 0));
}

proptest! {
    /// Whatever is asked for in whatever order, and whatever fails, packets match what a list of
    /// the rules that went in says.
    #[test]
    fn packets_match_what_a_list_of_rules_says(
        steps in prop::collection::vec((0..4u8, 0..12u16), 1..120),
        faults in (0..300u32, 0..300u32),
        reorder in 1..6usize,
        seed in any::<u64>(),
    ) {
        let options = RuleOptions { reorder, seed, capacity: 8, ..RuleOptions::default() };
        let mut bench = Bench::new(options);
        let (insert_error, remove_error) = faults;
        bench.engine.faults = Faults { insert_error, remove_error, ..Faults::default() };
        bench.engine.audit.is_recording = true;
        // The port of each rule that is in, by slot.
        let mut rules: BTreeMap<u64, u16> = BTreeMap::new();
        let mut ports: BTreeMap<u64, u16> = BTreeMap::new();
        for (slot, (step, port)) in (0u32..).zip(steps) {
            match step {
                0 | 1 => {
                    ports.insert(slot.into(), port);
                    bench.insert(slot, port, mark(slot + 1), Duration::ZERO);
                }
                2 => {
                    if let Some((&rule, _)) = rules.iter().find(|(_, of)| **of == port) {
                        bench.request(rule as u32, Work::Remove, Duration::ZERO);
                    }
                }
                _ => {}
            }
            for event in bench.engine.audit.take_events() {
                match event {
                    Event::Inserted { user } => {
                        prop_assert!(rules.insert(user, ports[&user]).is_none());
                    }
                    Event::Removed { user } => prop_assert!(rules.remove(&user).is_some()),
                    Event::Marked { .. } => {}
                }
            }
            bench.pull(Duration::ZERO);
            prop_assert!(rules.len() <= 8 && rules.len() == bench.engine.rules());
            for port in 0..12 {
                let expected = rules.iter().find(|(_, of)| **of == port).map_or(0, |(s, _)| s + 1);
                let (mark, exit) = bench.packet(port, Duration::ZERO);
                prop_assert_eq!((u64::from(mark), exit), (expected, TO_SOFTWARE));
            }
        }
        prop_assert_eq!(bench.engine.audit.totals.caller_bugs, 0);
    }

    /// No bytes bring the parser down, and what it finds in a frame does not depend on what
    /// follows the frame's IP packet.
    #[test]
    fn headers_are_read_from_any_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        cut in 0..60usize,
    ) {
        let _ = HeaderFields::parse(&bytes);
        let frame = udp(80);
        let _ = HeaderFields::parse(&frame[..cut.min(frame.len())]);
        let mut padded = frame.clone();
        padded.extend(&bytes);
        prop_assert_eq!(HeaderFields::parse(&padded), HeaderFields::parse(&frame));
    }
}

#[test]
fn fields_lie_where_words_are_taken_from() {
    let mut mask = HeaderFields::default();
    mask.outer.tp_dst = U16::new(0xffff);
    let words = crate::flow_api::KeyWords::new(&mask);
    assert_eq!(words.len(), 1);
    let expected: Vec<u64> = words.of(&values(80)).collect();
    let mut bytes = [0; 8];
    bytes[4..6].copy_from_slice(&80u16.to_be_bytes());
    assert_eq!(expected.as_bytes(), bytes);
    assert!(words.of(&HeaderFields::default()).all(|word| word == 0));
    assert!(!words.is_empty());
}
