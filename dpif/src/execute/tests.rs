use std::sync::Arc;

use netdev::packet::{Checksum, FramePool, Layer, Segmentation, VlanTag};
use netdev::wire::checksum::crc32c;
use netdev::wire::ethernet::MacAddress;
use proptest::prelude::*;

use super::*;
use crate::action::{Action, MaskedField, NshMetadata, PushNsh, SetFields, Userdata};
use crate::datapath::{Config, Datapath, DatapathType, Topology};
use crate::flow::{Attribute, Field, FlowKey};
use crate::testing::{MemoryPort, TestHandler, has_right_checksums, ip, udp};

/// Executes actions on packets, and collects what leaves by ports 1 and 2.
struct Setup {
    datapath: Datapath,
    ports: [MemoryPort; 2],
    handler: Arc<TestHandler>,
    pool: Arc<FramePool>,
}

impl Setup {
    fn new(
        answer: impl Fn(&FlowKey) -> Option<(FlowKey, Vec<Action>)> + Send + Sync + 'static,
    ) -> Self {
        let handler = TestHandler::new(answer);
        let mut datapath = Datapath::new(Config {
            name: "ovs-dummy".to_owned(),
            kind: DatapathType::Dummy,
            topology: Topology { cores: vec![], is_real: false },
            frames: 64,
            handler: handler.clone(),
            seed: 3,
        });
        let mut ports = ["p1", "p2"].map(|name| MemoryPort::new(name, 1, false));
        datapath.add_port("p1").unwrap();
        datapath.add_port("p2").unwrap();
        let [one, two] = &mut ports;
        assert_eq!(datapath.reconfigure(&mut [(PortNumber(1), one), (PortNumber(2), two)]), []);
        let pool = datapath.pool(0).unwrap();
        Self { datapath, ports, handler, pool }
    }

    /// What leaves by port 1, and by port 2.
    fn run(&mut self, packet: Packet, actions: &[Action]) -> [Vec<Vec<u8>>; 2] {
        self.datapath.execute(packet, actions);
        assert_eq!(self.pool.counts().held, 0);
        self.ports.each_ref().map(MemoryPort::take_sent)
    }

    fn run_frame(&mut self, frame: &[u8], actions: &[Action]) -> [Vec<Vec<u8>>; 2] {
        let packet = self.pool.packet_with(frame).unwrap();
        self.run(packet, actions)
    }

    /// The one frame that leaves by port 1 after `actions`.
    fn change(&mut self, frame: &[u8], actions: &[Action]) -> Vec<u8> {
        let actions = [actions, &[out(1)]].concat();
        let [mut one, two] = self.run_frame(frame, &actions);
        assert_eq!((one.len(), two.len()), (1, 0));
        one.pop().unwrap()
    }
}

fn nothing(_: &FlowKey) -> Option<(FlowKey, Vec<Action>)> {
    None
}

fn out(port: u32) -> Action {
    Action::Output(port)
}

fn key_of(frame: &[u8]) -> FlowKey {
    let pool = FramePool::new(64).unwrap();
    let mut packet = pool.packet_with(frame).unwrap();
    let mut key = PacketKey::default();
    extract(&mut packet.view_mut(), None, 2, &mut key);
    key.key().clone()
}

fn set(field: Field, value: u128) -> Action {
    set_masked(vec![MaskedField { field, value, mask: field.bits() }])
}

fn set_masked(fields: Vec<MaskedField>) -> Action {
    Action::Set(Box::new(SetFields { attribute: Attribute::Ethernet, fields }))
}

/// The fields that `set` can change in each kind of packet.
const IPV4: &[Field] =
    &[Field::EthDst, Field::EthSrc, Field::Ipv4Src, Field::Ipv4Dst, Field::IpTos, Field::IpTtl];
const IPV6: &[Field] = &[
    Field::EthDst,
    Field::EthSrc,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::Ipv6Label,
    Field::IpTos,
    Field::IpTtl,
];
const PORTS: &[Field] = &[Field::TpSrc, Field::TpDst];
const NEIGHBOUR: &[Field] = &[Field::NdTarget, Field::ArpSha];

/// A frame and the fields that it has.
fn frame() -> impl Strategy<Value = (Vec<u8>, Vec<Field>)> {
    (any::<bool>(), 0..4u8, prop::collection::vec(any::<u8>(), 0..60)).prop_map(
        |(is_ipv6, kind, data)| {
            let ports = [0, 5, 0, 6];
            let (protocol, mut transport, checksum, fields) = match kind {
                0 => (6, [&ports[..], &[0; 8], &[0x50, 0x10], &[0; 6]].concat(), 16, PORTS),
                1 => {
                    let length = (8 + data.len() as u16).to_be_bytes();
                    (17, [&ports[..], &length, &[0; 2]].concat(), 6, PORTS)
                }
                2 if is_ipv6 => {
                    let option = [1, 1, 2, 0, 0, 0, 0, 9];
                    (
                        58,
                        [&[135, 0, 0, 0, 0, 0, 0, 0][..], &[7; 16], &option].concat(),
                        2,
                        NEIGHBOUR,
                    )
                }
                _ if is_ipv6 => (58, vec![128, 0, 0, 0, 0, 1, 0, 2], 2, &[Field::TpDst][..]),
                _ => (1, vec![8, 0, 0, 0, 0, 1, 0, 2], 2, &[Field::TpDst][..]),
            };
            if fields != NEIGHBOUR {
                transport.extend(data);
            }
            let fields = [if is_ipv6 { IPV6 } else { IPV4 }, fields].concat();
            (ip(is_ipv6, protocol, transport, checksum), fields)
        },
    )
}

proptest! {
    #[test]
    fn set_changes_its_bits_and_keeps_checksums_right(
        (frame, fields) in frame(),
        sets in prop::collection::vec((any::<prop::sample::Index>(), any::<u128>(), any::<u128>()), 1..4),
    ) {
        prop_assert!(has_right_checksums(&frame));
        let mut expected = key_of(&frame);
        let mut wanted: Vec<MaskedField> = vec![];
        for (index, value, mask) in sets {
            let field = *index.get(&fields);
            if wanted.iter().any(|other| other.field == field) {
                continue;
            }
            // One byte types and codes leave the upper byte of the key alone.
            let is_code = field == Field::TpDst && !matches!(expected.ip_proto, 6 | 17);
            let mask = mask & field.bits() & if is_code { 0xff } else { u128::MAX };
            wanted.push(MaskedField { field, value, mask });
            expected.set(field, expected.get(field) & !mask | value & mask);
        }
        let changed = Setup::new(nothing).change(&frame, &[set_masked(wanted)]);
        prop_assert_eq!(key_of(&changed), expected);
        prop_assert!(has_right_checksums(&changed));
        prop_assert_eq!(changed.len(), frame.len());
    }

    /// Whatever the bytes, actions end, and no frame is lost.
    #[test]
    fn any_bytes_survive_any_actions(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        types in prop::sample::select(vec![0x0800, 0x86dd, 0x0806, 0x8847, 0x894f, 0x8100u16]),
        choices in prop::collection::vec(0..14usize, 1..8),
    ) {
        let mut bytes = bytes;
        if let Some(place) = bytes.get_mut(12..14) {
            place.copy_from_slice(&types.to_be_bytes());
        }
        let all = |fields: &[Field]| {
            let zero = |&field| MaskedField { field, value: 0, mask: field.bits() };
            set_masked(fields.iter().map(zero).collect())
        };
        let possible = [
            out(1),
            all(IPV4),
            all(IPV6),
            all(PORTS),
            all(NEIGHBOUR),
            Action::PushVlan { tpid: 0x8100, tci: 7 },
            Action::PopVlan,
            Action::PushMpls { entry: 0x1ff, eth_type: 0x8847 },
            Action::PopMpls { eth_type: 0x0800 },
            Action::PushEthernet { source: MacAddress([1; 6]), destination: MacAddress([2; 6]) },
            Action::PopEthernet,
            service_header(),
            Action::PopNsh,
            Action::Truncate(20),
        ];
        let actions: Vec<_> = choices.iter().map(|&choice| possible[choice].clone()).collect();
        let [one, _] = Setup::new(nothing).run_frame(&bytes, &actions);
        let outputs = choices.iter().filter(|&&choice| choice == 0).count();
        prop_assert!(one.len() <= outputs);
    }
}

fn service_header() -> Action {
    Action::PushNsh(Box::new(PushNsh {
        flags: 0,
        ttl: 63,
        next_protocol: 3,
        service_path: 0x1234,
        service_index: 0xff,
        metadata: NshMetadata::Type1([0; 4]),
    }))
}

#[test]
fn arp_fields_are_set() {
    let mut frame = vec![0xff; 12];
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend((1..=20).collect::<Vec<u8>>());
    let fields =
        [(Field::IpProto, 2), (Field::Ipv4Src, 0x0102_0304), (Field::ArpTha, 0x0a0b_0c0d_0e0f)];
    let actions: Vec<_> = fields.iter().map(|&(field, value)| set(field, value)).collect();
    let changed = Setup::new(nothing).change(&frame, &actions);
    let mut expected = frame.clone();
    expected[21] = 2;
    expected[28..32].copy_from_slice(&[1, 2, 3, 4]);
    expected[32..38].copy_from_slice(&[10, 11, 12, 13, 14, 15]);
    assert_eq!(changed, expected);
}

#[test]
fn a_udp_packet_without_checksum_keeps_none() {
    let mut frame = udp(1, 2, [3, 4], b"data");
    frame[40..42].fill(0);
    let changed =
        Setup::new(nothing).change(&frame, &[set(Field::TpDst, 9), set(Field::Ipv4Src, 9)]);
    assert_eq!((&changed[36..38], &changed[40..42]), (&[0, 9][..], &[0, 0][..]));
}

#[test]
fn a_partial_checksum_stays_the_sum_of_the_pseudo_header() {
    let mut frame = udp(0x0a00_0001, 2, [3, 4], b"data");
    frame[40..42].copy_from_slice(&[0x12, 0x34]);
    let mut setup = Setup::new(nothing);
    let mut packet = setup.pool.packet_with(&frame).unwrap();
    packet.view_mut().descriptor_mut().set_checksum(Layer::Transport, Checksum::Partial);
    let actions = [set(Field::Ipv4Src, 0x0a00_0101), set(Field::TpSrc, 99), out(1)];
    let [one, _] = setup.run(packet, &actions);
    // The address grew by 0x100, and ports are not in the pseudo header.
    assert_eq!((&one[0][34..36], &one[0][40..42]), (&[0, 99][..], &[0x13, 0x34][..]));
}

#[test]
fn sctp_checksums_follow_and_wrong_ones_stay_wrong() {
    let mut packet = vec![0, 1, 0, 2, 9, 9, 9, 9, 0, 0, 0, 0, 1, 2, 3, 4];
    let sum = crc32c([&packet[..]]);
    packet[8..12].copy_from_slice(&sum.to_le_bytes());
    let frame = ip(false, 132, packet, 14);
    let right = {
        let mut packet = frame[34..].to_vec();
        packet[8..12].fill(0);
        let sum = crc32c([&packet[..]]).to_le_bytes();
        let mut frame = frame.clone();
        frame[42..46].copy_from_slice(&sum);
        frame
    };
    let distance = |frame: &[u8]| {
        let mut packet = frame[34..].to_vec();
        let stored = u32::from_le_bytes(packet[8..12].try_into().unwrap());
        packet[8..12].fill(0);
        stored ^ crc32c([&packet[..]])
    };
    let mut setup = Setup::new(nothing);
    for (frame, expected) in [(&right, 0), (&frame, distance(&frame))] {
        let changed = setup.change(frame, &[set(Field::TpSrc, 0x1234)]);
        assert_eq!((&changed[34..36], distance(&changed)), (&[0x12, 0x34][..], expected));
        // Padding of the frame is not of the packet.
        let padded = [&frame[..], &[7; 9]].concat();
        let changed_padded = setup.change(&padded, &[set(Field::TpSrc, 0x1234)]);
        assert_eq!(changed_padded, [&changed[..], &[7; 9]].concat());
    }
}

#[test]
fn tags_and_labels_come_and_go() {
    let frame = udp(1, 2, [3, 4], b"data");
    let mut setup = Setup::new(nothing);
    let vlan =
        [Action::PushVlan { tpid: 0x8100, tci: 0x7005 }, Action::PushVlan { tpid: 0x88a8, tci: 9 }];
    let tagged = setup.change(&frame, &vlan);
    let tags = [0x88, 0xa8, 0, 9, 0x81, 0, 0x60, 5];
    assert_eq!(tagged, [&frame[..12], &tags, &frame[12..]].concat());
    let popped = [Action::PopVlan, Action::PopVlan, Action::PopVlan];
    assert_eq!(setup.change(&tagged, &popped), frame);

    let label = [Action::PushMpls { entry: 0x0000_1140, eth_type: 0x8847 }];
    let labelled = setup.change(&tagged, &label);
    let stack = [0x88, 0x47, 0, 0, 0x11, 0x40];
    assert_eq!(labelled, [&tagged[..20], &stack, &frame[14..]].concat());
    let changed = setup.change(&labelled, &[set(Field::Mpls0, 0x0000_2140)]);
    assert_eq!(changed, [&labelled[..24], &[0x21], &labelled[25..]].concat());
    assert_eq!(setup.change(&labelled, &[Action::PopMpls { eth_type: 0x0800 }]), tagged);

    // A tag beside the frame is the outermost.
    let mut packet = setup.pool.packet_with(&frame).unwrap();
    packet.view_mut().descriptor_mut().set_vlan(Some(VlanTag { tpid: 0x8100, tci: 0x6005 }));
    let [one, _] = setup.run(packet, &[Action::PushVlan { tpid: 0x88a8, tci: 9 }, out(1)]);
    assert_eq!(one, [tagged]);
    let mut packet = setup.pool.packet_with(&frame).unwrap();
    packet.view_mut().descriptor_mut().set_vlan(Some(VlanTag { tpid: 0x8100, tci: 0x6005 }));
    let [one, _] = setup.run(packet, &[Action::PopVlan, out(1)]);
    assert_eq!(one, [frame]);
}

#[test]
fn service_headers_wrap_packets() {
    let frame = udp(1, 2, [3, 4], b"data");
    let mut setup = Setup::new(nothing);
    let (source, destination) = (MacAddress([1; 6]), MacAddress([2; 6]));
    let push = [service_header(), Action::PushEthernet { source, destination }];
    let wrapped = setup.change(&frame, &push);
    let header = [0x0f, 0xc6, 1, 3, 0, 0x12, 0x34, 0xff];
    let ethernet = [&[2; 6][..], &[1; 6], &[0x89, 0x4f]].concat();
    assert_eq!(wrapped, [&ethernet[..], &header, &[0; 16], &frame].concat());
    let changed = setup.change(&wrapped, &[set(Field::NshTtl, 1)]);
    assert_eq!(changed[14..16], [0x00, 0x46]);
    assert_eq!(setup.change(&wrapped, &[Action::PopEthernet, Action::PopNsh]), frame);
    let [one, two] = setup.run_frame(&frame, &[Action::PopNsh, out(1)]);
    assert_eq!((one.len(), two.len()), (0, 0));
}

#[test]
fn copies_leave_before_changes() {
    let frame = udp(1, 2, [3, 4], b"data");
    let mut setup = Setup::new(nothing);
    let clone = vec![set(Field::IpTtl, 1), out(2)];
    let actions = [
        Action::Truncate(20),
        out(1),
        Action::Clone(clone.clone()),
        out(1),
        set(Field::IpTtl, 7),
        out(2),
        Action::CheckPacketLength { length: 45, greater: vec![out(1)], less_equal: vec![out(2)] },
    ];
    let [one, two] = setup.run_frame(&frame, &actions);
    let lengths = |frames: &[Vec<u8>]| {
        frames.iter().map(|f| (f.len(), *f.get(22).unwrap_or(&0))).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&one), [(20, 0), (46, 64), (46, 7)]);
    assert_eq!(lengths(&two), [(46, 1), (46, 7)]);
    // The cut goes along into copies, and stays for what follows them.
    let actions = [Action::Truncate(30), Action::Clone(vec![out(2)]), out(1), out(1)];
    let [one, two] = setup.run_frame(&frame, &actions);
    assert_eq!((lengths(&one), lengths(&two)), (vec![(30, 64), (46, 64)], vec![(30, 64)]));
    let drop = [Action::Drop { reason: 0 }, out(1)];
    assert_eq!(setup.run_frame(&frame, &drop), [const { Vec::<Vec<u8>>::new() }; 2]);
    let never = Action::Sample { probability: 0, actions: clone.clone() };
    let always = Action::Sample { probability: u32::MAX, actions: clone };
    let [one, two] = setup.run_frame(&frame, &[never, always]);
    assert_eq!((one.len(), two.len()), (0, 1));
}

fn to_user(userdata: Userdata) -> Action {
    Action::Userspace(Box::new(Userspace {
        pid: 0,
        userdata,
        include_actions: false,
        tunnel_out_port: None,
    }))
}

#[test]
fn userspace_gets_a_copy_and_says_what_next() {
    let frame = udp(1, 2, [3, 4], b"data");
    let mut setup = Setup::new(nothing);
    *setup.handler.next.lock().unwrap() = vec![out(2)];
    let userspace = to_user(Userdata::SlowPath(5));
    let [one, two] = setup.run_frame(&frame, &[Action::Truncate(30), userspace, out(1)]);
    assert_eq!((one, two), (vec![frame.clone()], vec![frame[..30].to_vec()]));
    assert_eq!(
        *setup.handler.userspace.lock().unwrap(),
        [(frame[..30].to_vec(), Userdata::SlowPath(5))]
    );
}

#[test]
fn packets_come_back_up_to_eight_times() {
    // Each pass adds a copy to port 1 and goes on.
    let answer = |key: &FlowKey| {
        let id = key.recirc_id.get();
        Some((FlowKey::default(), vec![out(1), Action::Recirculate(id + 1)]))
    };
    let mut setup = Setup::new(answer);
    let frame = udp(1, 2, [3, 4], b"data");
    let [one, _] = setup.run_frame(&frame, &[Action::Recirculate(1)]);
    assert_eq!(one.len(), 8);
    let mut ids: Vec<u32> =
        setup.datapath.dump_flows(None).iter().map(|flow| flow.key().recirc_id.get()).collect();
    ids.sort();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn hashes_are_matched_on_after_recirculation() {
    let answer = |key: &FlowKey| {
        let port = 1 + (key.dp_hash.get() & 1);
        let mut mask = FlowKey::default();
        mask.dp_hash.set(1);
        Some((mask, vec![out(port)]))
    };
    let mut setup = Setup::new(answer);
    for algorithm in [HashAlgorithm::L4, HashAlgorithm::SymmetricL4] {
        let mut count = [0, 0];
        for n in 0..64 {
            let actions = [Action::Hash { algorithm, basis: 0 }, Action::Recirculate(1)];
            let [there, _] = setup.run_frame(&udp(n, 2, [3, 4], b""), &actions).map(|f| f.len());
            let [back, _] = setup.run_frame(&udp(2, n, [4, 3], b""), &actions).map(|f| f.len());
            count[usize::from(there == 1)] += 1;
            assert!(algorithm == HashAlgorithm::L4 || there == back);
        }
        assert!(count.iter().all(|&count| count > 16), "{count:?}");
    }
}

#[test]
fn drops_have_their_reason() {
    let counter = |name: &str| {
        let counters = crate::drop::COUNTERS.iter();
        counters.clone().find(|counter| counter.name() == name).unwrap().get()
    };
    let names = [
        "drop_action_of_pipeline",
        "drop_action_bridge_not_found",
        "datapath_drop_invalid_port",
        "datapath_drop_recirc_error",
    ];
    let before = names.map(counter);
    let mut setup = Setup::new(|_| Some((FlowKey::default(), vec![Action::Recirculate(5)])));
    let frame = udp(1, 2, [3, 4], b"");
    for actions in [&[][..], &[Action::Drop { reason: 1 }], &[out(9)], &[Action::Recirculate(5)]] {
        assert_eq!(setup.run_frame(&frame, actions), [const { Vec::<Vec<u8>>::new() }; 2]);
    }
    // Tests of one process may add to them.
    assert!(names.map(counter).iter().zip(before).all(|(now, before)| *now > before));
}

#[test]
fn nesting_has_an_end() {
    let mut setup = Setup::new(nothing);
    *setup.handler.next.lock().unwrap() = vec![out(1), to_user(Userdata::None)];
    let [one, _] = setup.run_frame(&udp(1, 2, [3, 4], b""), &[to_user(Userdata::None)]);
    assert_eq!(one.len(), MAX_NESTING as usize - 1);
}

/// A large TCP packet that a device will cut up is not too big for what its segments fit.
#[test]
fn packets_to_be_cut_up_count_by_their_segments() {
    let mut setup = Setup::new(nothing);
    let transport = [&[0, 80, 0, 90][..], &[0; 8], &[0x50, 0x10], &[0; 6], &[7; 20_000]].concat();
    let frame = ip(false, 6, transport, 16);
    let check = |length| {
        let (greater, less_equal) = (vec![out(1)], vec![out(2)]);
        [Action::CheckPacketLength { length, greater, less_equal }]
    };
    for (segment_size, length, port) in
        [(1448, 1514, 1), (1448, 1502, 1), (1448, 1501, 0), (0, 1514, 0), (1448, 20_054, 1)]
    {
        let mut packet = setup.pool.packet_with(&frame).unwrap();
        let mut view = packet.view_mut();
        let descriptor = view.descriptor_mut();
        if segment_size > 0 {
            descriptor.segmentation = Segmentation::TcpIpv4;
            descriptor.segment_size = segment_size;
        }
        let sent = setup.run(packet, &check(length));
        assert_eq!((sent[port].len(), sent[1 - port].len()), (1, 0), "{segment_size} {length}");
    }
}

#[test]
fn checksums_that_a_device_checked_are_left_to_a_device() {
    let mut setup = Setup::new(nothing);
    let mut frame = udp(0x0a00_0001, 0x0a00_0002, [5, 6], &[1, 2, 3]);
    // Wrong, which goes to show that nobody touches them.
    frame[24..26].copy_from_slice(&[0xde, 0xad]);
    frame[40..42].copy_from_slice(&[0xbe, 0xef]);
    for state in [Checksum::Good, Checksum::Unknown] {
        let mut packet = setup.pool.packet_with(&frame).unwrap();
        let mut view = packet.view_mut();
        view.descriptor_mut().set_checksum(Layer::Ip, state);
        view.descriptor_mut().set_checksum(Layer::Transport, state);
        let actions = [set(Field::IpTtl, 9), set(Field::TpDst, 77), out(1)];
        let [sent, _] = setup.run(packet, &actions);
        let mut expected = frame.clone();
        expected[22] = 9;
        expected[37] = 77;
        if state == Checksum::Unknown {
            // As far from right as before.
            expected[24..26].copy_from_slice(&[0x15, 0xae]);
            expected[40..42].copy_from_slice(&[0xbe, 0xa8]);
        }
        assert_eq!(sent, [expected]);
    }
}
