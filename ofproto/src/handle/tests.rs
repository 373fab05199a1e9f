//! Messages in, messages out, in every version.

use std::path::Path;
use std::sync::Arc;

use dpif::datapath::{Config, DatapathType, Topology};
use netdev::clock;
use netdev::ethernet_address::EthernetAddress;
use netdev::registry::{DummyMode, Registry};

use super::*;
use crate::epoch::Epoch;
use crate::news::News;
use crate::openflow::error::ErrorMessage;
use crate::openflow::header::HEADER_LEN;
use crate::openflow::kind::Replies;
use crate::openflow::message::{
    AggregateStats, BandType, Bucket, FlowFlags, FlowMod, FlowModCommand, FlowStatsRequest,
    FragmentHandling, GROUP_ALL, GROUP_ANY, GroupCommand, GroupMod, GroupType, MeterBand,
    MeterCommand, MeterConfig, MeterMod, NO_BUFFER, PhyPort, PortMod, PortStats, QUEUE_ALL,
    QueueConfigRequest, QueueStats, QueueStatsRequest, SelectionMethod, SwitchConfig, SwitchDesc,
    TABLE_ALL, TableDesc, TableFeatures, TableFeaturesCommand, TableMod, TableStats, Vacancy,
    bucket_id, config, encode_group_desc_request, encode_group_stats_request, encode_meter_request,
    encode_plain, encode_port_desc_request, encode_port_stats_request, meter_flag, meter_id, state,
};
use crate::openflow::port::PortNo;
use crate::openflow::text::{NoNames, parse_actions, parse_match, print_message};
use crate::port::PortNumber;
use crate::switch::Identity;
use crate::upcall::Upcalls;

/// A switch with the ports `LOCAL`, 1 and 2.
struct Setup {
    switch: Switch,
    datapath: Datapath,
}

impl Setup {
    fn new() -> Self {
        let epoch = Arc::new(Epoch::default());
        let mut datapath = Datapath::new(Config {
            kind: DatapathType::Dummy,
            name: DatapathType::Dummy.datapath_name().to_owned(),
            topology: Topology { cores: vec![], is_real: false },
            frames: 64,
            handler: Arc::new(Upcalls::new(Arc::clone(&epoch), News::default())),
            seed: 7,
        });
        let mut switch = Switch::new("br0", epoch, News::default());
        switch.set_datapath_id(0xfedc_ba98_7654_3210);
        let registry = Registry::new(DummyMode::Enabled, Path::new("/run"));
        for (name, last) in [("br0", 0), ("p1", 1), ("p2", 2)] {
            let mut port = registry.open(name, "dummy").unwrap();
            port.set_admin_up(true).unwrap();
            port.set_ethernet_address(address(last)).unwrap();
            switch.add_port(port, None, &mut datapath, clock::now()).unwrap();
        }
        Self { switch, datapath }
    }

    /// What a message is answered with.
    fn answer(&mut self, version: Version, message: &[u8]) -> Result<Reply, OfError> {
        let format = FlowFormat { nxm: true, table_id: false };
        let peer = PeerContext { version, format, secondary: false, connection: 1 };
        handle(&mut self.switch, &mut self.datapath, &peer, &Raw::parse(message)?)
    }

    /// All messages that go back; an error as the message that it makes.
    fn messages(&mut self, version: Version, message: &[u8]) -> Vec<Vec<u8>> {
        match self.answer(version, message) {
            Ok(Reply::Messages(messages)) => messages,
            Ok(Reply::Flows(replies)) => replies.collect(),
            Ok(Reply::Forward(_) | Reply::FlowMod(_)) => vec![],
            Err(error) => vec![ErrorMessage::reply(error, version, message)],
        }
    }

    /// The text of all messages that go back, without times.
    fn text(&mut self, version: Version, message: &[u8]) -> String {
        let mut text = String::new();
        for message in self.messages(version, message) {
            print_message(&mut text, &message, &NoNames);
        }
        without_durations(&text)
    }

    /// The one message that goes back.
    fn reply(&mut self, version: Version, message: &[u8]) -> Vec<u8> {
        let [reply] = <[_; 1]>::try_from(self.messages(version, message)).unwrap();
        reply
    }

    fn add_flow(&mut self, version: Version, flow: &str, actions: &str) -> Result<Reply, OfError> {
        self.answer(version, &flow_mod(FlowModCommand::Add, flow, actions, version))
    }

    /// All flows as OpenFlow 1.3 dumps them.
    fn flows(&mut self) -> String {
        self.text(Version::V13, &flow_request(false).encode(Version::V13, 3, NXM))
    }
}

const NXM: FlowFormat = FlowFormat { nxm: true, table_id: false };

fn address(last: u8) -> EthernetAddress {
    EthernetAddress([0xaa, 0x55, 0xaa, 0x55, 0, last])
}

/// The text with every duration left out.
fn without_durations(text: &str) -> String {
    let text = text.replace("duration:", "duration=");
    let mut parts = text.split("duration=");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        text + rest.strip_prefix(',').unwrap_or(rest).trim_start_matches(' ')
    })
}

fn flow_mod(command: FlowModCommand, flow: &str, actions: &str, version: Version) -> Vec<u8> {
    let flow_mod = FlowMod {
        command,
        flow_match: parse_match(flow, &NoNames).unwrap(),
        priority: 0x8000,
        cookie: 0,
        cookie_mask: 0,
        new_cookie: 0x17,
        modify_cookie: false,
        table_id: 0,
        idle_timeout: 10,
        hard_timeout: 0,
        importance: 0,
        buffer_id: NO_BUFFER,
        out_port: PortNo::NONE,
        out_group: GROUP_ANY,
        flags: FlowFlags::SEND_FLOW_REM,
        actions: parse_actions(actions, &NoNames).unwrap(),
        normalized: false,
    };
    flow_mod.encode(version, 5, NXM)
}

fn flow_request(aggregate: bool) -> FlowStatsRequest {
    FlowStatsRequest {
        aggregate,
        flow_match: parse_match("", &NoNames).unwrap(),
        table_id: TABLE_ALL,
        out_port: PortNo::NONE,
        out_group: GROUP_ANY,
        cookie: 0,
        cookie_mask: 0,
    }
}

fn group_mod(command: GroupCommand, group_id: u32, outputs: &[&str]) -> GroupMod {
    let bucket = |(actions, bucket_id): (&&str, u32)| Bucket {
        bucket_id,
        weight: 0,
        watch_port: PortNo::NONE,
        watch_group: GROUP_ANY,
        actions: parse_actions(actions, &NoNames).unwrap(),
    };
    GroupMod {
        command,
        group_type: GroupType::All,
        group_id,
        command_bucket_id: bucket_id::ALL,
        buckets: outputs.iter().zip(0..).map(bucket).collect(),
        selection: SelectionMethod::default(),
    }
}

fn meter_mod(command: MeterCommand, meter_id: u32, flags: u16, rates: &[u32]) -> MeterMod {
    let band =
        |&rate: &u32| MeterBand { band_type: BandType::Drop, rate, burst_size: 0, prec_level: 0 };
    let meter = MeterConfig { meter_id, flags, bands: rates.iter().map(band).collect() };
    MeterMod { command, meter }
}

#[test]
fn flows_are_added_and_dumped_in_every_version() {
    for version in Version::ALL {
        let mut setup = Setup::new();
        for (flow, actions) in [("in_port=1", "output:2"), ("tcp,tp_dst=80", "NORMAL")] {
            assert_eq!(
                setup.text(version, &flow_mod(FlowModCommand::Add, flow, actions, version)),
                ""
            );
        }
        let dump = setup.text(version, &flow_request(false).encode(version, 3, NXM));
        let mut lines: Vec<&str> = dump.lines().skip(1).collect();
        lines.sort_unstable();
        let flags = if version >= Version::V13 { "send_flow_rem " } else { "" };
        let idle = if matches!(version, Version::V10 | Version::V15) { "idle_age=0, " } else { "" };
        let start = "cookie=0x17, table=0, n_packets=0, n_bytes=0, idle_timeout=10, ";
        assert_eq!(
            lines,
            [
                format!(" {start}{flags}{idle}in_port=1 actions=output:2"),
                format!(" {start}{flags}{idle}tcp,tp_dst=80 actions=NORMAL"),
            ],
            "{dump}"
        );

        let sum = setup.reply(version, &flow_request(true).encode(version, 3, NXM));
        let sum = AggregateStats::decode(&Raw::parse(&sum).unwrap()).unwrap();
        let expected = AggregateStats { packet_count: 0, byte_count: 0, flow_count: 2 };
        assert_eq!(sum, expected);

        let delete = flow_mod(FlowModCommand::DeleteStrict, "in_port=1", "", version);
        assert_eq!(setup.text(version, &delete), "");
        let rest = setup.text(version, &flow_request(false).encode(version, 3, NXM));
        assert_eq!(rest.lines().skip(1).collect::<Vec<_>>(), lines.get(1..).unwrap());
    }
}

#[test]
fn many_flows_come_in_several_messages() {
    let mut setup = Setup::new();
    for port in 0..1500 {
        setup.add_flow(Version::V13, &format!("tcp,tp_dst={port}"), "output:1").unwrap();
    }
    let request = flow_request(false).encode(Version::V13, 3, NXM);
    let messages = setup.messages(Version::V13, &request);
    let raws: Vec<_> = messages.iter().map(|message| Raw::parse(message).unwrap()).collect();
    assert!(raws.len() > 1);
    let more: Vec<_> = raws.iter().map(Raw::more).collect();
    assert!(
        more.split_last().is_some_and(|(last, before)| !last && before.iter().all(|more| *more))
    );
    let mut text = String::new();
    messages.iter().for_each(|message| print_message(&mut text, message, &NoNames));
    assert_eq!(text.matches("tp_dst=").count(), 1500);
}

#[test]
fn flows_use_only_what_is_there() {
    let mut setup = Setup::new();
    let version = Version::V13;
    let mut error = |actions: &str| setup.add_flow(version, "", actions).err();
    assert_eq!(error("group:1"), Some(OfError::BadActionOutGroup));
    assert_eq!(error("clone(group:1)"), Some(OfError::BadActionOutGroup));
    assert_eq!(error("write_actions(group:1)"), Some(OfError::BadActionOutGroup));
    assert_eq!(error("meter:1"), Some(OfError::MeterModInvalidMeter));
    assert_eq!(error("output:65280"), Some(OfError::BadActionOutPort));
    assert_eq!(error("goto_table:0"), Some(OfError::BadInstructionTableId));
    assert_eq!(setup.flows(), "OFPST_FLOW reply (OF1.3) (xid=0x3):\n");

    // No tunnel option is mapped to a field.
    let on_option = flow_mod(FlowModCommand::Add, "tun_metadata0=1", "", version);
    assert_eq!(setup.answer(version, &on_option).err(), Some(OfError::FlowModInvalidTlvField));

    // A modification that changes nothing may name what is not there.
    let modify = flow_mod(FlowModCommand::Modify, "", "group:1", version);
    assert_eq!(setup.text(version, &modify), "");

    let mut message = flow_mod(FlowModCommand::Add, "", "output:1", version);
    message.splice(HEADER_LEN + 24..HEADER_LEN + 28, [0, 0, 0, 9]);
    assert_eq!(setup.answer(version, &message).err(), Some(OfError::BadRequestBufferUnknown));
}

#[test]
fn secondary_controllers_only_look() {
    let mut setup = Setup::new();
    let peer = PeerContext { version: Version::V13, format: NXM, secondary: true, connection: 1 };
    let mut answer = |message: &[u8]| {
        let raw = Raw::parse(message).unwrap();
        handle(&mut setup.switch, &mut setup.datapath, &peer, &raw).map(|_| ())
    };
    let version = Version::V13;
    let group = group_mod(GroupCommand::Add, 1, &[]).encode(version, 1);
    let meter = meter_mod(MeterCommand::Add, 1, meter_flag::KBPS, &[1]).encode(version, 1);
    let flow = flow_mod(FlowModCommand::Add, "", "", version);
    let table = table_mod(0).encode(version, 1);
    let port = PortMod::default().encode(version, 1);
    for message in [group, meter, flow, table, port] {
        assert_eq!(answer(&message), Err(OfError::BadRequestIsSecondary));
    }
    assert_eq!(answer(&encode_port_desc_request(PortNo::NONE, version, 1)), Ok(()));
}

#[test]
fn groups_are_added_described_and_counted_in_every_version() {
    for version in Version::ALL {
        let mut setup = Setup::new();
        let add = group_mod(GroupCommand::Add, 1234, &["output:10", "output:11"]);
        let forward = setup.answer(version, &add.encode(version, 1)).unwrap();
        let Reply::Forward(forward) = forward else { panic!("{forward:?}") };
        let buckets = Some(add.buckets.clone());
        assert_eq!(forward, Forward::Group { group_mod: add.clone(), buckets, existed: false });
        assert_eq!(
            setup.answer(version, &add.encode(version, 1)).err(),
            Some(OfError::GroupModGroupExists)
        );
        setup.add_flow(version, "tcp", "group:1234").unwrap();

        let desc = setup.text(version, &encode_group_desc_request(GROUP_ALL, version, 1));
        let with_ids = matches!(version, Version::V10 | Version::V15);
        let id = |id| if with_ids { format!("bucket_id:{id},") } else { String::new() };
        assert_eq!(
            desc.lines().skip(1).collect::<Vec<_>>(),
            [format!(
                " group_id=1234,type=all,bucket={}actions=output:10,bucket={}actions=output:11",
                id(0),
                id(1)
            )]
        );
        let stats = setup.text(version, &encode_group_stats_request(1234, version, 1));
        assert_eq!(
            stats.lines().skip(1).collect::<Vec<_>>(),
            [" group_id=1234,ref_count=1,packet_count=0,byte_count=0,\
              bucket0:packet_count=0,byte_count=0,bucket1:packet_count=0,byte_count=0"]
        );
        assert_eq!(
            setup.text(version, &encode_group_stats_request(9, version, 1)).lines().count(),
            1
        );

        let delete = group_mod(GroupCommand::Delete, 1234, &[]);
        assert_eq!(setup.text(version, &delete.encode(version, 1)), "");
        assert_eq!(setup.flows().lines().count(), 1);
        let desc = setup.text(version, &encode_group_desc_request(GROUP_ALL, version, 1));
        assert_eq!(desc.lines().count(), 1);
    }
}

#[test]
fn other_controllers_are_told_of_groups_in_their_versions() {
    let mut setup = Setup::new();
    let mut forwarded = |group_mod: GroupMod, version: Version| {
        let message = group_mod.encode(Version::V15, 7);
        match setup.answer(Version::V15, &message).unwrap() {
            Reply::Forward(forward) => {
                let mut text = String::new();
                print_message(&mut text, &forward.message(version, 7).unwrap(), &NoNames);
                text
            }
            other => panic!("{other:?}"),
        }
    };
    let add = group_mod(GroupCommand::AddOrModify, 1, &["output:1"]);
    assert_eq!(
        forwarded(add, Version::V14),
        "OFPT_REQUESTFORWARD (OF1.4) (xid=0x0): reason=group_mod\n \
         ADD group_id=1,type=all,bucket=actions=output:1\n"
    );
    let mut insert = group_mod(GroupCommand::InsertBucket, 1, &["output:2"]);
    insert.command_bucket_id = bucket_id::FIRST;
    insert.buckets[0].bucket_id = 5;
    insert.group_type = GroupType::Select;
    assert_eq!(
        forwarded(insert.clone(), Version::V13),
        "ONFT_REQUESTFORWARD (OF1.3) (xid=0x0): reason=group_mod\n \
         MOD group_id=1,type=all,bucket=actions=output:2,bucket=actions=output:1\n"
    );
    insert.buckets[0].bucket_id = 6;
    assert_eq!(
        forwarded(insert, Version::V10),
        "NXT_REQUESTFORWARD (xid=0x0): reason=group_mod\n \
         INSERT_BUCKET command_bucket_id:first,group_id=1,bucket=bucket_id:6,actions=output:2\n"
    );
    let meter = Forward::Meter(meter_mod(MeterCommand::Delete, 1, 0, &[]));
    assert_eq!(meter.message(Version::V12, 7), None);
}

#[test]
fn a_group_without_rules_shows_in_the_newest_version() {
    let mut setup = Setup::new();
    let add = group_mod(GroupCommand::Add, 1, &[]);
    setup.answer(Version::V13, &add.encode(Version::V13, 1)).unwrap();
    let version = setup.switch.tables().version();
    assert!(setup.switch.groups().get_in(1, version).is_some());
}

#[test]
fn meters_are_added_described_and_counted() {
    let mut setup = Setup::new();
    for version in [Version::V13, Version::V14, Version::V15] {
        let flags = meter_flag::PKTPS | meter_flag::STATS;
        let add = meter_mod(MeterCommand::Add, 1, flags, &[10, 20]);
        assert_eq!(setup.text(version, &add.encode(version, 1)), "");
        setup.add_flow(version, "tcp", "meter:1,output:1").unwrap();
        setup.add_flow(version, "udp", "output:1").unwrap();
        let kind = Kind::MeterConfigStatsRequest13;
        let request = encode_meter_request(kind, meter_id::ALL, version, 1);
        let text = setup.text(version, &request);
        assert_eq!(
            text.lines().skip(1).collect::<Vec<_>>(),
            ["meter=1 pktps stats bands=", "type=drop rate=10", "type=drop rate=20"],
            "{text}"
        );
        let request = encode_meter_request(Kind::MeterStatsRequest13, 1, version, 1);
        let text = setup.text(version, &request);
        assert_eq!(
            text.lines().skip(1).collect::<Vec<_>>(),
            [
                "meter:1 flow_count:1 packet_in_count:0 byte_in_count:0 bands:",
                "0: packet_count:0 byte_count:0",
                "1: packet_count:0 byte_count:0",
            ],
            "{text}"
        );
        let delete = meter_mod(MeterCommand::Delete, meter_id::ALL, 0, &[]);
        assert_eq!(setup.text(version, &delete.encode(version, 1)), "");
        assert_eq!(setup.flows().matches("udp").count(), 1);
        assert_eq!(setup.flows().lines().count(), 2);
    }
}

#[test]
fn meters_that_cannot_be_are_refused() {
    let mut setup = Setup::new();
    let mut error =
        |meter_mod: MeterMod| setup.answer(Version::V13, &meter_mod.encode(Version::V13, 1)).err();
    use MeterCommand::{Add, Delete, Modify};
    use meter_flag::{KBPS, STATS};
    assert_eq!(error(meter_mod(Add, 0, KBPS, &[1])), Some(OfError::MeterModInvalidMeter));
    let beyond = meter_id::MAX + 1;
    assert_eq!(error(meter_mod(Add, beyond, KBPS, &[1])), Some(OfError::MeterModInvalidMeter));
    assert_eq!(error(meter_mod(Add, 1, KBPS, &[1; 9])), Some(OfError::MeterModOutOfBands));
    assert_eq!(error(meter_mod(Add, 1, KBPS, &[])), Some(OfError::MeterModOutOfBands));
    assert_eq!(error(meter_mod(Add, 1, STATS, &[1])), Some(OfError::MeterModBadFlags));
    assert_eq!(error(meter_mod(Add, 1, KBPS | 16, &[1])), Some(OfError::MeterModBadFlags));
    assert_eq!(error(meter_mod(Add, 1, KBPS, &[1, 0])), Some(OfError::MeterModBadRate));
    assert_eq!(error(meter_mod(Modify, 1, KBPS, &[1])), Some(OfError::MeterModUnknownMeter));
    let mut remark = meter_mod(Add, 1, KBPS, &[1]);
    remark.meter.bands[0].band_type = BandType::DscpRemark;
    assert_eq!(error(remark), Some(OfError::MeterModBadBand));
    assert_eq!(error(meter_mod(Delete, 1, 0, &[])), None);
    for id in [1, meter_id::MAX, meter_id::SLOWPATH, meter_id::CONTROLLER] {
        assert_eq!(error(meter_mod(Add, id, KBPS, &[1])), None);
        assert_eq!(error(meter_mod(Add, id, KBPS, &[1])), Some(OfError::MeterModMeterExists));
    }
    assert_eq!(error(meter_mod(Modify, 1, KBPS, &[5])), None);
    let numbers: Vec<_> = setup.switch.meters().all().iter().map(|meter| meter.number).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
}

#[test]
fn ports_are_described_and_changed_in_every_version() {
    for version in Version::ALL {
        let mut setup = Setup::new();
        setup.switch.take_port_changes();
        let live = if version == Version::V10 { "0" } else { "LIVE" };
        let text = setup.text(version, &encode_port_desc_request(PortNo(1), version, 1));
        let one = format!(
            " 1(p1): addr:aa:55:aa:55:00:01\n     config:     0\n     state:      {live}\n     \
             speed: 0 Mbps now, 0 Mbps max\n"
        );
        let all = version < Version::V15;
        assert!(text.contains(&one), "{text}");
        assert_eq!(text.matches("addr:").count(), if all { 3 } else { 1 });

        let mut port_mod = PortMod {
            port_no: PortNo(2),
            hw_addr: address(2).0,
            config: config::NO_FWD | config::PORT_DOWN,
            mask: config::NO_FWD | config::PORT_DOWN | config::NO_RECV,
            advertise: Default::default(),
        };
        assert_eq!(setup.text(version, &port_mod.encode(version, 1)), "");
        let port = setup.switch.port(PortNumber(2)).unwrap().described().clone();
        let expected = PhyPort {
            port_no: PortNo(2),
            hw_addr: address(2).0,
            name: b"p2".to_vec(),
            config: config::NO_FWD | config::PORT_DOWN,
            state: state::LINK_DOWN,
            ..PhyPort::default()
        };
        assert_eq!(port, expected);
        let changes = setup.switch.take_port_changes();
        let told: Vec<_> =
            changes.iter().map(|change| (&change.status.port, change.requested)).collect();
        // What the device made of the request is told after it.
        let set = PhyPort { state: 0, ..expected.clone() };
        assert_eq!(told, [(&set, true), (&expected, false)]);
        assert!(setup.switch.take_snapshot_is_stale());

        port_mod.hw_addr = [0; 6];
        let error = setup.answer(version, &port_mod.encode(version, 1)).err();
        assert_eq!(error, Some(OfError::PortModBadHwAddr));
        port_mod.port_no = PortNo(9);
        let error = setup.answer(version, &port_mod.encode(version, 1)).err();
        assert_eq!(error, Some(OfError::PortModBadPort));
    }
}

#[test]
fn ports_come_before_they_are_live() {
    let mut setup = Setup::new();
    let changes = setup.switch.take_port_changes();
    let told: Vec<_> = changes
        .iter()
        .map(|change| {
            (change.status.reason as u8, change.status.port.port_no.0, change.status.port.state)
        })
        .collect();
    let both = |port| [(0, port, 0), (2, port, state::LIVE)];
    assert_eq!(told, [both(0xfffe), both(1), both(2)].concat());
}

#[test]
fn port_statistics_in_every_version() {
    for version in Version::ALL {
        let mut setup = Setup::new();
        let reply = setup.reply(version, &encode_port_stats_request(PortNo(1), version, 1));
        let mut ports = PortStats::decode(&Raw::parse(&reply).unwrap()).unwrap();
        let unknown = u64::MAX;
        let mut expected = PortStats {
            basic: [0, 0, 0, 0, unknown, unknown, unknown, unknown],
            ..PortStats::unknown(PortNo(1))
        };
        if version >= Version::V13 {
            assert_ne!(ports[0].duration_nsec, u32::MAX);
            (expected.duration_sec, expected.duration_nsec) = (0, 0);
            (ports[0].duration_sec, ports[0].duration_nsec) = (0, 0);
        }
        if version >= Version::V14 {
            let names = [
                "rx_custom_packets_1",
                "rx_custom_packets_2",
                "rx_q0_bytes",
                "rx_q0_packets",
                "tx_q0_bytes",
                "tx_q0_packets",
            ];
            expected.custom = names.iter().map(|name| (name.as_bytes().to_vec(), 0)).collect();
        }
        assert_eq!(ports, [expected]);
    }
}

#[test]
fn queues_in_every_version() {
    for version in Version::ALL {
        let mut setup = Setup::new();
        let mut stats = |port, queue| {
            let request = QueueStatsRequest { port, queue }.encode(version, 1);
            let reply = setup.reply(version, &request);
            QueueStats::decode(&Raw::parse(&reply).unwrap()).unwrap()
        };
        let one = |port| QueueStats {
            port,
            queue: 0,
            tx_bytes: u64::MAX,
            tx_packets: u64::MAX,
            tx_errors: u64::MAX,
            duration_sec: u32::MAX,
            duration_nsec: u32::MAX,
        };
        let all = [one(PortNo(1)), one(PortNo(2)), one(PortNo::LOCAL)];
        assert_eq!(stats(PortNo::NONE, QUEUE_ALL), all);
        assert_eq!(stats(PortNo::NONE, 0), all);
        assert_eq!(stats(PortNo::LOCAL, 0), all[2..]);
        for (port, queue, error) in [
            (PortNo::LOCAL, 5, OfError::QueueOpBadQueue),
            (PortNo::NONE, 5, OfError::QueueOpBadQueue),
            (PortNo(10), QUEUE_ALL, OfError::QueueOpBadPort),
        ] {
            let request = QueueStatsRequest { port, queue }.encode(version, 1);
            assert_eq!(setup.answer(version, &request).err(), Some(error));
        }
        let request = QueueConfigRequest { port: PortNo(1), queue: QUEUE_ALL };
        let text = setup.text(version, &request.encode(version, 1));
        assert!(text.ends_with("port=1\nqueue 0:\n"), "{text}");
        let request = QueueConfigRequest { port: PortNo(10), queue: QUEUE_ALL };
        let error = setup.answer(version, &request.encode(version, 1)).err();
        assert_eq!(error, Some(OfError::QueueOpBadPort));
    }
}

fn table_mod(table_id: u8) -> TableMod {
    TableMod {
        table_id,
        miss: None,
        eviction: Some(true),
        eviction_flags: None,
        vacancy_events: Some(true),
        vacancy: Vacancy { down: 20, up: 80, current: 0 },
    }
}

#[test]
fn tables_are_modified_and_described() {
    let version = Version::V14;
    let mut setup = Setup::new();
    assert_eq!(setup.text(version, &table_mod(2).encode(version, 1)), "");
    let error = setup.answer(version, &table_mod(254).encode(version, 1)).err();
    assert_eq!(error, Some(OfError::TableModEperm));
    let request = encode_plain(Kind::TableDescStatsRequest14, version, 1, &[]);
    let reply = setup.reply(version, &request);
    let tables = TableDesc::decode(&Raw::parse(&reply).unwrap()).unwrap();
    let desc = |table_id| TableDesc {
        table_id,
        eviction: table_id == 2,
        eviction_flags: Some(7),
        vacancy: (table_id == 2).then_some(Vacancy { down: 20, up: 80, current: 100 }),
    };
    assert_eq!(tables, (0..254).map(desc).collect::<Vec<_>>());
}

#[test]
fn table_statistics_in_every_version() {
    for version in Version::ALL {
        let mut setup = Setup::new();
        setup.add_flow(version, "tcp", "drop").unwrap();
        setup.switch.tables().count(0, true, 2);
        setup.switch.tables().count(0, false, 3);
        let request = encode_plain(Kind::TableStatsRequest, version, 1, &[]);
        let reply = setup.reply(version, &request);
        let tables = TableStats::decode(&Raw::parse(&reply).unwrap(), version).unwrap();
        let stats: Vec<_> = tables.iter().map(|(stats, _)| *stats).collect();
        let first = TableStats { table_id: 0, active_count: 1, lookup_count: 5, matched_count: 2 };
        let others = (1..254).map(|table_id| TableStats { table_id, ..TableStats::default() });
        assert_eq!(stats, std::iter::once(first).chain(others).collect::<Vec<_>>());
    }
}

/// The features of all tables, as a request with these features is answered.
fn features(
    setup: &mut Setup,
    version: Version,
    wanted: &[TableFeatures],
) -> Result<Vec<TableFeatures>, OfError> {
    let mut request = Replies::new(Kind::TableFeaturesStatsRequest13, version, 1);
    wanted.iter().for_each(|table| assert!(table.append(&mut request, version)));
    let request = request.finish();
    let parts: Vec<_> = request.iter().map(|part| Raw::parse(part).unwrap()).collect();
    let reply = table_features(&setup.switch, &parts, version).map_err(|(_, error)| error)?;
    let Reply::Messages(messages) = reply else { panic!("{reply:?}") };
    let tables = messages.iter().flat_map(|message| {
        TableFeatures::decode(&Raw::parse(message).unwrap(), version, false).unwrap()
    });
    Ok(tables.collect())
}

#[test]
fn tables_can_be_renamed_by_features() {
    let version = Version::V13;
    let mut setup = Setup::new();
    let known = features(&mut setup, version, &[]).unwrap();
    assert_eq!(known.len(), 254);
    let next: Vec<u8> = known[250].nonmiss.next_tables().collect();
    assert_eq!((next, known[0].max_entries), (vec![251, 252, 253], 1_000_000));

    let mut wanted = known.clone();
    wanted[3].name = b"three".to_vec();
    let renamed = features(&mut setup, version, &wanted).unwrap();
    assert_eq!(renamed, wanted);

    let mut error = |change: fn(&mut Vec<TableFeatures>)| {
        let mut wanted = known.clone();
        change(&mut wanted);
        features(&mut setup, version, &wanted).err()
    };
    let eperm = Some(OfError::TableFeaturesEperm);
    assert_eq!(error(|tables| tables[3].max_entries -= 1), eperm);
    assert_eq!(error(|tables| drop(tables.pop())), eperm);
    assert_eq!(error(|tables| tables[3].table_id = 254), eperm);
    assert_eq!(error(|tables| tables[3].table_id = 2), Some(OfError::TableFeaturesDupTable));
    assert_eq!(error(|tables| tables[253].nonmiss.add_next_table(1)), eperm);
    assert_eq!(setup.switch.tables().name(3), "three");
}

#[test]
fn one_table_can_be_modified_since_openflow_15() {
    let mut setup = Setup::new();
    let version = Version::V15;
    let known = features(&mut setup, version, &[]).unwrap();
    let mut table = TableFeatures {
        command: TableFeaturesCommand::Modify,
        name: b"five".to_vec(),
        any_properties: false,
        ..known[5].clone()
    };
    let renamed = features(&mut setup, version, std::slice::from_ref(&table)).unwrap();
    let expected = TableFeatures { name: b"five".to_vec(), ..known[5].clone() };
    assert_eq!((&renamed[5], &renamed[4]), (&expected, &known[4]));
    table.command = TableFeaturesCommand::Disable;
    let error = features(&mut setup, version, &[table]).err();
    assert_eq!(error, Some(OfError::TableFeaturesEperm));
}

#[test]
fn fragments_are_handled_as_configured() {
    for version in Version::ALL {
        let mut setup = Setup::new();
        let handling = [FragmentHandling::NxMatch, FragmentHandling::Reassemble];
        for fragments in handling {
            let config =
                SwitchConfig { fragments, invalid_ttl_to_controller: None, miss_send_len: 5 };
            let message = config.encode(Kind::SetConfig, version, 1);
            assert_eq!(setup.text(version, &message), "");
        }
        // Nothing here reassembles.
        assert_eq!(setup.switch.fragments(), FragmentHandling::NxMatch);
        assert!(setup.switch.take_snapshot_is_stale());
    }
}

#[test]
fn the_switch_describes_itself() {
    for version in Version::ALL {
        let mut setup = Setup::new();
        let text = setup.text(version, &encode_plain(Kind::FeaturesRequest, version, 1, &[]));
        let lines: Vec<_> = text.lines().collect();
        let capabilities = match version {
            Version::V10 => "FLOW_STATS TABLE_STATS PORT_STATS QUEUE_STATS ARP_MATCH_IP",
            Version::V11 => {
                "FLOW_STATS TABLE_STATS PORT_STATS GROUP_STATS QUEUE_STATS ARP_MATCH_IP"
            }
            Version::V12 | Version::V13 => {
                "FLOW_STATS TABLE_STATS PORT_STATS GROUP_STATS QUEUE_STATS"
            }
            _ => "FLOW_STATS TABLE_STATS PORT_STATS GROUP_STATS QUEUE_STATS BUNDLES",
        };
        assert_eq!(lines[1], "n_tables:254, n_buffers:0");
        assert_eq!(lines[2], format!("capabilities: {capabilities}"));
        assert!(lines[0].ends_with("dpid:fedcba9876543210"), "{text}");
        let ports = if version < Version::V13 { 3 } else { 0 };
        assert_eq!(text.matches("addr:").count(), ports);

        let identity = Identity { serial_number: None, datapath: Some("mine".into()) };
        setup.switch.set_identity(identity);
        let reply = setup.reply(version, &encode_plain(Kind::DescStatsRequest, version, 1, &[]));
        let expected = SwitchDesc {
            mfr_desc: b"Nicira, Inc.".to_vec(),
            hw_desc: b"Open vSwitch".to_vec(),
            sw_desc: b"4.0.90".to_vec(),
            serial_num: b"None".to_vec(),
            dp_desc: b"mine".to_vec(),
        };
        assert_eq!(SwitchDesc::decode(&Raw::parse(&reply).unwrap()), Ok(expected));
    }
}
