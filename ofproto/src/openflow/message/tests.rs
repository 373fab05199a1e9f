use proptest::prelude::*;

use super::*;
use crate::openflow::action::tests::any_action;
use crate::openflow::action::{Action, DecodeContext, PacketInReason};
use crate::openflow::error::OfError;
use crate::openflow::field::Field;
use crate::openflow::flow_match::Match;
use crate::openflow::kind::{Kind, Raw, Replies};
use crate::openflow::oxm::tests::any_match;
use crate::openflow::port::PortNo;
use crate::openflow::slot::Slot;
use crate::openflow::value::Value;
use crate::openflow::version::Version;

fn context(version: Version) -> DecodeContext<'static> {
    DecodeContext { version, tlv: None, debug_actions: true }
}

/// A generator of numbers from one random seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn port(&mut self) -> PortNo {
        PortNo(self.below(0xff00) as u16)
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    fn text(&mut self, limit: u64) -> Vec<u8> {
        (0..self.below(limit)).map(|_| b'a' + self.below(26) as u8).collect()
    }

    fn array<const N: usize>(&mut self) -> [u64; N] {
        [(); N].map(|()| self.next())
    }

    fn phy_port(&mut self) -> PhyPort {
        PhyPort {
            port_no: self.port(),
            hw_addr: self.array::<6>().map(|byte| byte as u8),
            name: self.text(15),
            config: self.next() as u32,
            state: self.next() as u32,
            curr: PortFeatures(self.below(0x10000) as u32),
            advertised: PortFeatures(self.below(0x10000) as u32),
            supported: PortFeatures(0),
            peer: PortFeatures(1),
            curr_speed: self.next() as u32,
            max_speed: self.next() as u32,
        }
    }
}

/// One message of every kind that this codec encodes, as far as `version` has it.
fn messages(seed: u64, flow: &Match, actions: &[Action], version: Version) -> Vec<Vec<u8>> {
    let n = &mut Numbers(seed);
    let format = FlowFormat { nxm: n.flag(), table_id: n.flag() };
    let v = version;
    let xid = n.next() as u32;
    let mut all = Vec::new();
    all.push(
        SwitchConfig {
            fragments: FragmentHandling::NxMatch,
            invalid_ttl_to_controller: (v < Version::V13).then_some(true),
            miss_send_len: n.next() as u16,
        }
        .encode(Kind::SetConfig, v, xid),
    );
    all.push(
        SwitchFeatures {
            datapath_id: n.next(),
            n_buffers: 0,
            n_tables: 254,
            auxiliary_id: 0,
            capabilities: n.next() as u32,
            actions: 7,
            ports: vec![n.phy_port(), n.phy_port()],
        }
        .encode(v, xid),
    );
    let commands = [
        FlowModCommand::Add,
        FlowModCommand::Modify,
        FlowModCommand::ModifyStrict,
        FlowModCommand::Delete,
        FlowModCommand::DeleteStrict,
    ];
    all.push(
        FlowMod {
            command: commands[n.below(5) as usize],
            flow_match: flow.clone(),
            priority: n.next() as u16,
            cookie: 0,
            cookie_mask: 0,
            new_cookie: n.next(),
            modify_cookie: true,
            table_id: n.below(254) as u8,
            idle_timeout: n.next() as u16,
            hard_timeout: n.next() as u16,
            importance: n.next() as u16,
            buffer_id: NO_BUFFER,
            out_port: n.port(),
            out_group: n.next() as u32,
            flags: FlowFlags(1),
            actions: actions.to_vec(),
            normalized: false,
        }
        .encode(v, xid, format),
    );
    let mut metadata = Match::new();
    metadata.require_ethernet();
    metadata.set_exact(Slot::IN_PORT, n.port().0.into());
    all.push(
        PacketOut {
            buffer_id: NO_BUFFER,
            metadata: metadata.clone(),
            actions: actions.to_vec(),
            packet: n.text(100),
        }
        .encode(v, xid),
    );
    let packet_in = PacketIn {
        packet: b"packet".to_vec(),
        total_len: 6,
        buffer_id: NO_BUFFER,
        reason: PacketInReason(n.below(3) as u8),
        table_id: n.next() as u8,
        cookie: Some(n.next()),
        metadata,
        userdata: n.text(9),
        continuation: Continuation {
            bridge: [7; 16],
            stack: vec![n.text(9), n.text(128)],
            mirrors: n.next() as u32,
            conntracked: true,
            actions: vec![Remaining { table_id: 3, cookie: n.next(), actions: actions.to_vec() }],
            action_set: vec![Action::Group(1)],
            odp_port: 5,
        },
    };
    for form in [PacketInFormat::Standard, PacketInFormat::Nxt, PacketInFormat::Nxt2] {
        all.push(packet_in.encode(v, form, xid));
        all.push(form.encode(v, xid));
    }
    all.push(packet_in.encode_resume(v, xid));
    all.push(PortStatus { reason: PortReason::Modify, port: n.phy_port() }.encode(v, xid));
    let port = n.phy_port();
    all.push(
        PortMod {
            port_no: port.port_no,
            hw_addr: port.hw_addr,
            config: n.next() as u32,
            mask: n.next() as u32,
            advertise: port.curr,
        }
        .encode(v, xid),
    );
    all.push(encode_port_stats_request(port.port_no, v, xid));
    all.push(encode_port_desc_request(port.port_no, v, xid));
    all.push(group_mod(n, actions).encode(v, xid));
    all.push(encode_group_desc_request(3, v, xid));
    all.push(encode_group_stats_request(3, v, xid));
    all.push(
        FlowStatsRequest {
            aggregate: n.flag(),
            flow_match: flow.clone(),
            table_id: n.next() as u8,
            out_port: n.port(),
            out_group: GROUP_ANY,
            cookie: 5,
            cookie_mask: 7,
        }
        .encode(v, xid, format),
    );
    all.push(QueueConfigRequest { port: n.port(), queue: 7 }.encode(v, xid));
    all.push(QueueStatsRequest { port: n.port(), queue: QUEUE_ALL }.encode(v, xid));
    let monitor = Monitor {
        id: n.next() as u32,
        flags: monitor_flag::ADD | monitor_flag::INITIAL,
        out_port: PortNo::NONE,
        out_group: GROUP_ANY,
        table_id: 255,
        flow_match: flow.clone(),
    };
    all.push(MonitorRequest::encode(&[MonitorRequest::Add(monitor)], v, xid));
    for kind in [Kind::NxRoleRequest, Kind::RoleRequest12, Kind::RoleReply12] {
        if kind.exists_in(v) {
            let generation_id = (kind != Kind::NxRoleRequest).then(|| n.next());
            all.push(RoleMessage { role: Role::Primary, generation_id }.encode(kind, v, xid));
        }
    }
    for kind in
        [Kind::NxSetAsyncConfig, Kind::NxSetAsyncConfig2, Kind::SetAsync13, Kind::SetAsync14]
    {
        if kind.exists_in(v) {
            let [a, b, c, d, e, f] = n.array().map(|mask| mask as u32);
            let config = AsyncConfig { primary: [a, b, c, d, e, f], secondary: [f, e, d, c, b, a] };
            all.push(config.encode(kind, v, xid));
        }
    }
    let mapping = TlvMapping { option_class: 9, option_type: 8, option_len: 4, index: 63 };
    all.push(TlvTableMod { command: TlvCommand::Add, mappings: vec![mapping; 2] }.encode(v, xid));
    all.push(
        TlvTable { max_option_space: 256, max_fields: 64, mappings: vec![mapping] }.encode(v, xid),
    );
    let tuple =
        CtTuple { src: std::net::Ipv6Addr::from(n.next() as u128 | 1 << 90), ..CtTuple::ANY };
    all.push(
        CtFlush {
            ip_proto: [6, 1][n.below(2) as usize],
            is_ipv4: None,
            original: CtTuple { src_port: 80, ..tuple },
            reply: tuple,
            zone: Some(n.next() as u16),
            mark: (3, n.next() as u32 | 3),
            labels: (0, u128::MAX),
        }
        .encode(v, xid),
    );
    all.push(
        SwitchDesc { mfr_desc: n.text(300), serial_num: n.text(40), ..SwitchDesc::default() }
            .encode(v, xid),
    );
    if v > Version::V10 {
        all.push(table_mod(n, v).encode(v, xid));
    }
    if v >= Version::V13 {
        let bundle_type = BundleType::COMMIT_REQUEST;
        all.push(BundleControl { bundle_id: 1, bundle_type, flags: 3 }.encode(v, xid));
        let port_mod = PortMod::default().encode(v, xid);
        all.push(BundleAdd::encode(1, 2, &port_mod, v));
        all.push(meter_mod(n).encode(v, xid));
        let (role, reason) = (Role::Secondary, RoleReason::CONFIG);
        all.push(RoleStatus { role, reason, generation_id: n.next() }.encode(v, xid));
        all.push(encode_meter_request(Kind::MeterStatsRequest13, 4, v, xid));
    }
    all
}

fn group_mod(n: &mut Numbers, actions: &[Action]) -> GroupMod {
    let bucket = |n: &mut Numbers, bucket_id| Bucket {
        bucket_id,
        weight: n.next() as u16,
        watch_port: PortNo::NONE,
        watch_group: GROUP_ANY,
        actions: actions.to_vec(),
    };
    let selection = SelectionMethod {
        method: "hash".into(),
        param: n.next(),
        fields: vec![(Field::reg(3), Value::from(u128::from(n.next() as u32)))],
    };
    GroupMod {
        command: GroupCommand::Add,
        group_type: GroupType::Select,
        group_id: n.next() as u32,
        command_bucket_id: bucket_id::ALL,
        buckets: vec![bucket(n, 0), bucket(n, 1)],
        selection,
    }
}

fn meter_mod(n: &mut Numbers) -> MeterMod {
    let band = MeterBand {
        band_type: BandType::DscpRemark,
        rate: n.next() as u32,
        burst_size: n.next() as u32,
        prec_level: n.next() as u8,
    };
    let meter = MeterConfig { meter_id: 5, flags: meter_flag::BURST, bands: vec![band; 3] };
    MeterMod { command: MeterCommand::Modify, meter }
}

fn table_mod(n: &mut Numbers, version: Version) -> TableMod {
    let modern = version >= Version::V14;
    TableMod {
        table_id: n.next() as u8,
        miss: (version < Version::V13).then_some(TableMiss::Drop),
        eviction: modern.then_some(true),
        eviction_flags: modern.then(|| n.below(8) as u32),
        vacancy_events: modern.then_some(true),
        vacancy: if modern { Vacancy { down: 10, up: 20, current: 0 } } else { Vacancy::default() },
    }
}

/// Decodes any message and encodes it again; `None` for kinds that only a switch encodes, or when
/// decoding fails.
fn again(raw: &Raw<'_>, version: Version) -> Result<Option<Vec<u8>>, OfError> {
    use Kind::*;
    let (c, v, xid) = (&context(version), version, raw.header.xid);
    let stats = |parts: &mut dyn FnMut(&mut Replies)| {
        let mut replies = Replies::new(raw.kind, v, xid);
        parts(&mut replies);
        replies.finish().into_iter().next()
    };
    Ok(Some(match raw.kind {
        SetConfig => SwitchConfig::decode(raw, v)?.encode(raw.kind, v, xid),
        FeaturesReply10 | FeaturesReply11 | FeaturesReply13 => {
            SwitchFeatures::decode(raw, v)?.encode(v, xid)
        }
        FlowMod10 | FlowMod11 | NxFlowMod => {
            // A command above 255 shows that there is a table in it.
            let format = FlowFormat { nxm: raw.kind == NxFlowMod, table_id: false };
            let with_table = FlowFormat { table_id: true, ..format };
            let decode = |format| FlowMod::decode(raw, c, format, PortNo::MAX, 255);
            match decode(format) {
                Ok(flow_mod) => flow_mod.encode(v, xid, format),
                Err(_) => decode(with_table)?.encode(v, xid, with_table),
            }
        }
        PacketOut10 | PacketOut11 | PacketOut15 => PacketOut::decode(raw, c)?.encode(v, xid),
        PacketIn10 | PacketIn11 | PacketIn12 | PacketIn13 => {
            PacketIn::decode(raw, c, true)?.encode(v, PacketInFormat::Standard, xid)
        }
        NxPacketIn => PacketIn::decode(raw, c, true)?.encode(v, PacketInFormat::Nxt, xid),
        NxPacketIn2 => PacketIn::decode(raw, c, false)?.encode(v, PacketInFormat::Nxt2, xid),
        NxResume => PacketIn::decode(raw, c, false)?.encode_resume(v, xid),
        NxSetPacketInFormat => PacketInFormat::decode(raw)?.encode(v, xid),
        PortStatus10 | PortStatus11 | PortStatus14 => PortStatus::decode(raw, v)?.encode(v, xid),
        PortMod10 | PortMod11 | PortMod14 => PortMod::decode(raw)?.encode(v, xid),
        PortStatsRequest10 | PortStatsRequest11 => {
            encode_port_stats_request(decode_port_request(raw)?, v, xid)
        }
        PortDescStatsRequest10 | PortDescStatsRequest15 => {
            encode_port_desc_request(decode_port_request(raw)?, v, xid)
        }
        NxGroupMod | GroupMod11 | GroupMod15 => GroupMod::decode(raw, c)?.encode(v, xid),
        NxGroupDescStatsRequest | GroupDescStatsRequest11 | GroupDescStatsRequest15 => {
            encode_group_desc_request(decode_group_request(raw)?, v, xid)
        }
        NxGroupStatsRequest | GroupStatsRequest11 => {
            encode_group_stats_request(decode_group_request(raw)?, v, xid)
        }
        FlowStatsRequest10
        | FlowStatsRequest11
        | AggregateStatsRequest10
        | AggregateStatsRequest11
        | AggregateStatsRequest15 => {
            FlowStatsRequest::decode(raw, c)?.encode(v, xid, FlowFormat::default())
        }
        NxFlowStatsRequest | NxAggregateStatsRequest => {
            let format = FlowFormat { nxm: true, table_id: false };
            FlowStatsRequest::decode(raw, c)?.encode(v, xid, format)
        }
        QueueGetConfigRequest10 | QueueGetConfigRequest11 | QueueDescStatsRequest14 => {
            QueueConfigRequest::decode(raw)?.encode(v, xid)
        }
        QueueStatsRequest10 | QueueStatsRequest11 => QueueStatsRequest::decode(raw)?.encode(v, xid),
        NxFlowMonitorStatsRequest | OnfFlowMonitorStatsRequest13 | FlowMonitorStatsRequest14 => {
            MonitorRequest::encode(&MonitorRequest::decode(raw)?, v, xid)
        }
        NxRoleRequest | RoleRequest12 | RoleReply12 => {
            RoleMessage::decode(raw)?.encode(raw.kind, v, xid)
        }
        RoleStatus14 | OnfRoleStatus13 => RoleStatus::decode(raw)?.encode(v, xid),
        NxSetAsyncConfig | NxSetAsyncConfig2 | SetAsync13 | SetAsync14 => {
            let basis = AsyncConfig::default();
            AsyncConfig::decode(raw, &basis, v, false)?.encode(raw.kind, v, xid)
        }
        NxTlvTableMod => TlvTableMod::decode(raw)?.encode(v, xid),
        NxTlvTableReply => TlvTable::decode(raw)?.encode(v, xid),
        NxCtFlush => CtFlush::decode(raw)?.encode(v, xid),
        DescStatsReply => SwitchDesc::decode(raw)?.encode(v, xid),
        TableMod11 | TableMod14 => TableMod::decode(raw, v)?.encode(v, xid),
        TableStatus14 => TableStatus::decode(raw)?.encode(v, xid),
        MeterMod13 => MeterMod::decode(raw)?.encode(v, xid),
        MeterStatsRequest13 => encode_meter_request(raw.kind, decode_meter_request(raw)?, v, xid),
        BundleControl14 | OnfBundleControl13 => BundleControl::decode(raw)?.encode(v, xid),
        BundleAddMessage14 | OnfBundleAddMessage13 => {
            let add = BundleAdd::decode(raw)?;
            BundleAdd::encode(add.bundle_id, add.flags, add.message.message, v)
        }
        FlowStatsReply10 | FlowStatsReply11 | FlowStatsReply13 | FlowStatsReply15
        | NxFlowStatsReply => {
            let flows = FlowStats::decode(raw, c, true)?;
            return Ok(stats(&mut |r| {
                flows.iter().for_each(|flow| assert!(flow.append(r, raw.kind, v)));
            }));
        }
        GroupDescStatsReply11 | NxGroupDescStatsReply => {
            let groups = GroupDesc::decode(raw, c)?;
            return Ok(stats(&mut |r| groups.iter().for_each(|g| assert!(g.append(r, v)))));
        }
        GroupStatsReply11 | GroupStatsReply13 | NxGroupStatsReply => {
            let groups = GroupStats::decode(raw)?;
            return Ok(stats(&mut |r| groups.iter().for_each(|g| assert!(g.append(r, v)))));
        }
        PortStatsReply10 | PortStatsReply11 | PortStatsReply13 | PortStatsReply14 => {
            let ports = PortStats::decode(raw)?;
            return Ok(stats(&mut |r| ports.iter().for_each(|p| assert!(p.append(r, v)))));
        }
        PortDescStatsReply10 | PortDescStatsReply11 | PortDescStatsReply14 => {
            let ports = PhyPort::decode_stats(raw, v)?;
            return Ok(stats(&mut |r| {
                ports.iter().for_each(|p| assert!(r.push(&p.stats_part(v))));
            }));
        }
        QueueStatsReply10 | QueueStatsReply11 | QueueStatsReply13 | QueueStatsReply14 => {
            let queues = QueueStats::decode(raw)?;
            return Ok(stats(&mut |r| queues.iter().for_each(|q| assert!(q.append(r, v)))));
        }
        QueueDescStatsReply14 => {
            let queues = QueueConfig::decode(raw, v)?;
            return Ok(stats(&mut |r| queues.iter().for_each(|q| assert!(q.append(r, v)))));
        }
        MeterStatsReply13 => {
            let meters = MeterStats::decode(raw)?;
            return Ok(stats(&mut |r| meters.iter().for_each(|m| assert!(m.append(r)))));
        }
        MeterConfigStatsReply13 => {
            let meters = MeterConfig::decode(raw)?;
            return Ok(stats(&mut |r| meters.iter().for_each(|m| assert!(m.append(r)))));
        }
        TableDescStatsReply14 => {
            let tables = TableDesc::decode(raw)?;
            return Ok(stats(&mut |r| tables.iter().for_each(|t| assert!(t.append(r)))));
        }
        TableFeaturesStatsReply13 => {
            let tables = TableFeatures::decode(raw, v, false)?;
            return Ok(stats(&mut |r| tables.iter().for_each(|t| assert!(t.append(r, v)))));
        }
        TableStatsReply12 | TableStatsReply13 => {
            let tables = TableStats::decode(raw, v)?;
            return Ok(stats(&mut |r| {
                tables.iter().for_each(|(stats, features)| assert!(stats.append(features, r, v)));
            }));
        }
        NxFlowMonitorStatsReply | OnfFlowMonitorStatsReply13 | FlowMonitorStatsReply14 => {
            let updates = FlowUpdate::decode(raw, c)?;
            return Ok(stats(&mut |r| updates.iter().for_each(|u| assert!(u.append(r, v)))));
        }
        NxIpfixBridgeStatsReply | NxIpfixFlowStatsReply => {
            let exporters = IpfixStats::decode(raw)?;
            return Ok(stats(&mut |r| exporters.iter().for_each(|e| assert!(e.append(r)))));
        }
        _ => return Ok(None),
    }))
}

/// Statistics replies with everything in them.
fn replies(seed: u64, flow: &Match, actions: &[Action], v: Version) -> Vec<Vec<u8>> {
    let n = &mut Numbers(seed);
    let mut all = Vec::new();
    let mut add = |kind: Kind, part: &mut dyn FnMut(&mut Replies) -> bool| {
        let mut replies = Replies::new(kind, v, 5);
        assert!(part(&mut replies) && part(&mut replies));
        all.append(&mut replies.finish());
    };
    let stats = FlowStats {
        flow_match: flow.clone(),
        table_id: 9,
        priority: n.next() as u16,
        cookie: n.next(),
        duration_sec: 3,
        duration_nsec: 4,
        idle_timeout: 5,
        hard_timeout: 6,
        importance: 7,
        idle_age: Some(8),
        hard_age: Some(9),
        packet_count: n.next(),
        byte_count: n.next(),
        flags: FlowFlags(1),
        actions: actions.to_vec(),
    };
    let mut requests = vec![Kind::FlowStatsRequest11];
    if v == Version::V10 {
        requests.push(Kind::NxFlowStatsRequest);
    }
    for request in requests {
        let kind = FlowStats::reply_kind(request, v);
        add(kind, &mut |r| stats.append(r, kind, v));
    }
    let GroupMod { group_type, group_id, buckets, selection, .. } = group_mod(n, actions);
    let group = GroupDesc { group_type, group_id, buckets, selection };
    add(GroupDesc::reply_kind(v), &mut |r| group.append(r, v));
    let group = GroupStats {
        group_id,
        ref_count: 1,
        packet_count: n.next(),
        byte_count: n.next(),
        duration_sec: 3,
        duration_nsec: 4,
        buckets: vec![(1, 2), (3, 4)],
    };
    add(GroupStats::reply_kind(v), &mut |r| group.append(r, v));
    let port = PortStats {
        port_no: n.port(),
        basic: n.array(),
        ethernet: n.array(),
        duration_sec: 1,
        duration_nsec: 2,
        rfc2819: n.array(),
        custom: vec![(n.text(20), n.next()), (n.text(9), 4)],
    };
    add(PortStats::reply_kind(v), &mut |r| port.append(r, v));
    let phy_port = n.phy_port();
    add(PhyPort::stats_reply_kind(v), &mut |r| r.push(&phy_port.stats_part(v)));
    let queue = QueueStats {
        port: n.port(),
        queue: 3,
        tx_bytes: n.next(),
        tx_packets: n.next(),
        tx_errors: n.next(),
        duration_sec: 4,
        duration_nsec: 5,
    };
    add(QueueStats::reply_kind(v), &mut |r| queue.append(r, v));
    let features = table_features(n, v);
    let stats = TableStats { table_id: 3, active_count: 4, lookup_count: 5, matched_count: 6 };
    add(TableStats::reply_kind(v), &mut |r| stats.append(&features, r, v));
    let update = FlowUpdate::Full(Box::new(FullUpdate {
        event: UpdateEvent::Modified,
        reason: 2,
        idle_timeout: 3,
        hard_timeout: 4,
        table_id: 5,
        priority: 6,
        cookie: n.next(),
        flow_match: flow.clone(),
        actions: actions.to_vec(),
    }));
    add(FlowUpdate::reply_kind(v), &mut |r| {
        update.append(r, v) && FlowUpdate::Abbreviated(77).append(r, v)
    });
    add(Kind::NxIpfixFlowStatsReply, &mut |r| {
        IpfixStats { counts: [7; 10], collector_set_id: 9 }.append(r)
    });
    if v >= Version::V13 {
        let meter = meter_mod(n).meter;
        add(Kind::MeterConfigStatsReply13, &mut |r| meter.append(r));
        let meter = MeterStats { meter_id: 3, bands: vec![(1, 2); 3], ..MeterStats::default() };
        add(Kind::MeterStatsReply13, &mut |r| meter.append(r));
        add(Kind::TableFeaturesStatsReply13, &mut |r| features.append(r, v));
    }
    if v >= Version::V14 {
        let queue = QueueConfig { port: n.port(), queue: 2, min_rate: Some(3), max_rate: None };
        add(Kind::QueueDescStatsReply14, &mut |r| queue.append(r, v));
        let vacancy = Some(Vacancy { down: 1, up: 2, current: 3 });
        let desc = TableDesc { table_id: 3, eviction: true, eviction_flags: Some(1), vacancy };
        add(Kind::TableDescStatsReply14, &mut |r| desc.append(r));
        all.push(TableStatus { reason: TableReason::VacancyUp, desc }.encode(v, 0));
    }
    all
}

fn table_features(n: &mut Numbers, version: Version) -> TableFeatures {
    let set = FieldSet::of(|field| !field.is_variable() && field.has_oxm() && n_bit(field, 3));
    let actions = ActionFeatures { actions: n.next() as u32, set_fields: set };
    let mut nonmiss = InstructionFeatures { write: actions, apply: actions, ..Default::default() };
    nonmiss.instructions = n.next() as u32;
    nonmiss.add_next_table(254);
    let modern = version >= Version::V14;
    TableFeatures {
        table_id: 3,
        name: n.text(31),
        metadata_match: n.next(),
        metadata_write: n.next(),
        miss_config: None,
        eviction: modern.then_some(true),
        vacancy_events: modern.then_some(false),
        max_entries: 1000,
        any_properties: true,
        nonmiss,
        miss: nonmiss,
        match_fields: set,
        mask: FieldSet::of(|field| set.contains(field) && field.maskable()),
        wildcard: set,
        ..TableFeatures::default()
    }
}

/// Some fixed choice of fields.
fn n_bit(field: Field, modulus: usize) -> bool {
    !field.name().len().is_multiple_of(modulus)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn encoding_is_the_inverse_of_decoding(
        seed in any::<u64>(),
        flow in any_match(),
        actions in prop::collection::vec(any_action(), 0..3),
        version in prop::sample::select(Version::ALL.to_vec()),
    ) {
        let mut all = messages(seed, &flow, &actions, version);
        all.append(&mut replies(seed, &flow, &actions, version));
        for message in all {
            let raw = Raw::parse(&message).unwrap();
            let once = match again(&raw, version) {
                Ok(once) => once,
                // The generated actions need not fit the generated match.
                Err(OfError::BadActionMatchInconsistent) => continue,
                Err(error) => panic!("{:?}: {error:?}", raw.kind),
            };
            if let Some(once) = once {
                // A match that a version cannot carry whole is complete the second time.
                let raw = Raw::parse(&once).unwrap();
                prop_assert_eq!(&again(&raw, version).unwrap().unwrap(), &once, "{:?}", raw.kind);
            }
        }
    }

    #[test]
    fn damaged_messages_never_panic(
        seed in any::<u64>(),
        flow in any_match(),
        actions in prop::collection::vec(any_action(), 0..3),
        version in prop::sample::select(Version::ALL.to_vec()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut all = messages(seed, &flow, &actions, version);
        all.append(&mut replies(seed, &flow, &actions, version));
        for mut message in all {
            for (place, byte) in &damage {
                let place = 8 + place.index(message.len() - 8);
                if let Some(place) = message.get_mut(place) {
                    *place = *byte;
                }
            }
            if let Ok(raw) = Raw::parse(&message) {
                let _ = again(&raw, version);
            }
        }
    }
}
