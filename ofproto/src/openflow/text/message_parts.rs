//! Printing of the messages about ports, groups, meters, queues, tables and controllers.

use super::super::action::DecodeContext;
use super::super::error::OfError;
use super::super::kind::{Kind, Raw};
use super::super::message::*;
use super::super::port::PortNo;
use super::message::put_bits;
use super::message_groups::{
    print_buckets, print_group_mod, print_group_stats, print_group_type, print_meter,
    print_meter_features, print_meter_stats, print_selection, put_meter_id,
};
use super::value::{alternate_hex, put_hex, put_mac};
use super::{DEFAULT_PRIORITY, Names, chomp, print_actions, print_match, put, put_port, put_table};

pub(super) fn print(
    out: &mut String,
    raw: &Raw<'_>,
    context: &DecodeContext<'_>,
    names: &dyn Names,
) -> Result<(), OfError> {
    use Kind::*;
    let version = context.version;
    match raw.kind {
        PortStatus10 | PortStatus11 | PortStatus14 => {
            let status = PortStatus::decode(raw, version)?;
            out.push_str(match status.reason {
                PortReason::Add => " ADD:",
                PortReason::Delete => " DEL:",
                PortReason::Modify => " MOD:",
            });
            print_port(out, &status.port);
        }
        PortMod10 | PortMod11 | PortMod14 => print_port_mod(out, &PortMod::decode(raw)?, names),
        PortDescStatsReply10 | PortDescStatsReply11 | PortDescStatsReply14 => {
            out.push('\n');
            print_ports(out, PhyPort::decode_stats(raw, version)?);
        }
        PortStatsReply10 | PortStatsReply11 | PortStatsReply13 | PortStatsReply14 => {
            put(out, format_args!(" {} ports\n", PortStats::decode(raw)?.len()));
        }
        GroupMod11 | GroupMod15 | NxGroupMod => {
            print_group_mod(out, &GroupMod::decode(raw, context)?, version, names);
        }
        GroupDescStatsReply11 | NxGroupDescStatsReply => {
            for group in GroupDesc::decode(raw, context)? {
                put(out, format_args!("\n group_id={}", group.group_id));
                print_group_type(out, group.group_type);
                print_selection(out, &group.selection, names);
                out.push(',');
                print_buckets(out, &group.buckets, group.group_type, version, names);
            }
        }
        GroupStatsRequest11
        | NxGroupStatsRequest
        | GroupDescStatsRequest11
        | GroupDescStatsRequest15
        | NxGroupDescStatsRequest => {
            out.push_str(" group_id=");
            match decode_group_request(raw)? {
                GROUP_ALL => out.push_str("ALL"),
                GROUP_ANY => out.push_str("ANY"),
                group => put(out, format_args!("{group}")),
            }
        }
        GroupStatsReply11 | GroupStatsReply13 | NxGroupStatsReply => {
            GroupStats::decode(raw)?.iter().for_each(|group| print_group_stats(out, group));
        }
        MeterMod13 => {
            let meter_mod = MeterMod::decode(raw)?;
            out.push_str(match meter_mod.command {
                MeterCommand::Add => " ADD ",
                MeterCommand::Modify => " MOD ",
                MeterCommand::Delete => " DEL ",
            });
            print_meter(out, &meter_mod.meter);
        }
        MeterStatsRequest13 | MeterConfigStatsRequest13 => {
            out.push(' ');
            put_meter_id(out, decode_meter_request(raw)?, '=');
        }
        MeterConfigStatsReply13 => {
            for meter in MeterConfig::decode(raw)? {
                out.push('\n');
                print_meter(out, &meter);
            }
        }
        MeterStatsReply13 => {
            MeterStats::decode(raw)?.iter().for_each(|meter| print_meter_stats(out, meter));
        }
        MeterFeaturesStatsReply13 => print_meter_features(out, &MeterFeatures::decode(raw)?),
        QueueGetConfigRequest10 | QueueGetConfigRequest11 | QueueDescStatsRequest14 => {
            let request = QueueConfigRequest::decode(raw)?;
            out.push_str(" port=");
            put_port(out, request.port, names);
            if request.queue != QUEUE_ALL {
                put(out, format_args!(" queue={}", request.queue));
            }
        }
        QueueGetConfigReply10 | QueueGetConfigReply11 | QueueDescStatsReply14 => {
            print_queues(out, QueueConfig::decode(raw, version)?, names);
        }
        QueueStatsRequest10 | QueueStatsRequest11 => {
            let request = QueueStatsRequest::decode(raw)?;
            out.push_str(" port=");
            put_port(out, request.port, names);
            match request.queue {
                QUEUE_ALL => out.push_str(" queue=ALL"),
                queue => put(out, format_args!(" queue={queue}")),
            }
        }
        QueueStatsReply10 | QueueStatsReply11 | QueueStatsReply13 | QueueStatsReply14 => {
            put(out, format_args!(" {} queues\n", QueueStats::decode(raw)?.len()));
        }
        TableMod11 | TableMod14 => {
            print_table_mod(out, &TableMod::decode(raw, version)?, names);
        }
        TableDescStatsReply14 => {
            for desc in TableDesc::decode(raw)? {
                print_table_desc(out, &desc, names);
            }
        }
        TableStatus14 => {
            let status = TableStatus::decode(raw)?;
            out.push_str(match status.reason {
                TableReason::VacancyDown => " reason=VACANCY_DOWN\ntable_desc:-",
                TableReason::VacancyUp => " reason=VACANCY_UP\ntable_desc:-",
            });
            print_table_desc(out, &status.desc, names);
        }
        RoleRequest12 | RoleReply12 | NxRoleRequest | NxRoleReply => {
            let role = RoleMessage::decode(raw)?;
            print_role(out, role.role, role.generation_id);
        }
        RoleStatus14 | OnfRoleStatus13 => {
            let status = RoleStatus::decode(raw)?;
            let generation = Some(status.generation_id).filter(|id| *id != u64::MAX);
            print_role(out, status.role, generation);
            out.push_str(match status.reason {
                RoleReason::PRIMARY_REQUEST => " reason=primary_request",
                RoleReason::CONFIG => " reason=configuration_changed",
                RoleReason::EXPERIMENTER => " reason=experimenter_data_changed",
                _ => " reason=(unknown)",
            });
        }
        SetAsync13 | SetAsync14 | NxSetAsyncConfig | NxSetAsyncConfig2 | GetAsyncReply13
        | GetAsyncReply14 => {
            let loose = matches!(raw.kind, GetAsyncReply13 | GetAsyncReply14);
            let basis = AsyncConfig::default();
            print_async(out, &AsyncConfig::decode(raw, &basis, version, loose)?);
        }
        NxRequestforward | OnfRequestforward13 | Requestforward14 => {
            let request = decode_request_forward(raw)?;
            out.push_str(match request.kind {
                MeterMod13 => " reason=meter_mod",
                _ => " reason=group_mod",
            });
            print(out, &request, context, names)?;
        }
        NxFlowMonitorCancel | OnfFlowMonitorCancel13 => {
            put(out, format_args!(" id={}", decode_monitor_cancel(raw)?));
        }
        NxFlowMonitorStatsRequest | OnfFlowMonitorStatsRequest13 | FlowMonitorStatsRequest14 => {
            for request in MonitorRequest::decode(raw)? {
                print_monitor_request(out, &request, names);
            }
        }
        NxFlowMonitorStatsReply | OnfFlowMonitorStatsReply13 | FlowMonitorStatsReply14 => {
            for update in FlowUpdate::decode(raw, context)? {
                print_update(out, &update, names);
            }
        }
        NxTlvTableMod => {
            let table_mod = TlvTableMod::decode(raw)?;
            out.push_str(match table_mod.command {
                TlvCommand::Add => "\n ADD",
                TlvCommand::Delete => "\n DEL",
                TlvCommand::Clear => "\n CLEAR",
            });
            if table_mod.command != TlvCommand::Clear {
                print_mappings(out, &table_mod.mappings);
            }
        }
        NxTlvTableReply => {
            let table = TlvTable::decode(raw)?;
            let used: u32 = table.mappings.iter().map(|m| u32::from(m.option_len)).sum();
            let (space, fields) = (table.max_option_space, table.max_fields);
            put(out, format_args!("\n max option space={space} max fields={fields}\n"));
            put(out, format_args!(" allocated option space={used}\n\n"));
            print_mappings(out, &table.mappings);
        }
        _ => {}
    }
    Ok(())
}

/// Appends ports in the order of their numbers.
pub(super) fn print_ports(out: &mut String, mut ports: Vec<PhyPort>) {
    ports.sort_by_key(|port| port.port_no);
    ports.iter().for_each(|port| print_port(out, port));
}

fn put_config(out: &mut String, bits: u32) {
    let names = [
        (config::PORT_DOWN, "PORT_DOWN"),
        (config::NO_STP, "NO_STP"),
        (config::NO_RECV, "NO_RECV"),
        (config::NO_RECV_STP, "NO_RECV_STP"),
        (config::NO_FLOOD, "NO_FLOOD"),
        (config::NO_FWD, "NO_FWD"),
        (config::NO_PACKET_IN, "NO_PACKET_IN"),
    ];
    put_bits(out, bits, &names, ' ');
    out.push('\n');
}

fn put_features(out: &mut String, features: PortFeatures) {
    let names = PortFeatures::NAMES.into_iter().zip(0..).map(|(name, bit)| (1u32 << bit, name));
    put_bits(out, features.0, &names.collect::<Vec<_>>(), ' ');
    out.push('\n');
}

fn put_address(out: &mut String, address: [u8; 6]) {
    put_mac(out, address.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)));
}

fn print_port(out: &mut String, port: &PhyPort) {
    let printable = port.name.iter().take_while(|byte| matches!(byte, 0x20..=0x7e));
    let name: String = printable.map(|byte| char::from(*byte)).collect();
    put(out, format_args!(" {}({name}): addr:", port.port_no));
    put_address(out, port.hw_addr);
    out.push_str("\n     config:     ");
    put_config(out, port.config);
    out.push_str("     state:      ");
    let (stp, bits) = (port.state & state::STP_MASK, port.state & !state::STP_MASK);
    out.push_str(match stp {
        0 => "",
        state::STP_LEARN => "STP_LEARN",
        state::STP_FORWARD => "STP_FORWARD",
        _ => "STP_BLOCK",
    });
    if stp == 0 || bits != 0 {
        let names =
            [(state::LINK_DOWN, "LINK_DOWN"), (state::BLOCKED, "BLOCKED"), (state::LIVE, "LIVE")];
        put_bits(out, bits, &names, ' ');
    }
    out.push('\n');
    let lines = [
        ("current:    ", port.curr),
        ("advertised: ", port.advertised),
        ("supported:  ", port.supported),
        ("peer:       ", port.peer),
    ];
    for (name, features) in lines.into_iter().filter(|(_, features)| features.0 != 0) {
        put(out, format_args!("     {name}"));
        put_features(out, features);
    }
    let (now, most) = (port.curr_speed / 1000, port.max_speed / 1000);
    put(out, format_args!("     speed: {now} Mbps now, {most} Mbps max\n"));
}

fn print_port_mod(out: &mut String, port_mod: &PortMod, names: &dyn Names) {
    out.push_str(" port: ");
    put_port(out, port_mod.port_no, names);
    out.push_str(": addr:");
    put_address(out, port_mod.hw_addr);
    out.push_str("\n     config: ");
    put_config(out, port_mod.config);
    out.push_str("     mask:   ");
    put_config(out, port_mod.mask);
    out.push_str("     advertise: ");
    match port_mod.advertise.0 {
        0 => out.push_str("UNCHANGED\n"),
        _ => put_features(out, port_mod.advertise),
    }
}

/// The name of a reason in flow-removed messages.
pub(super) fn removed_reason(reason: u8) -> String {
    const NAMES: [&str; 6] = ["idle", "hard", "delete", "group_delete", "meter_delete", "eviction"];
    let name = NAMES.get(usize::from(reason)).map(|name| (*name).to_owned());
    name.unwrap_or_else(|| reason.to_string())
}

pub(super) fn print_continuation(out: &mut String, more: &Continuation, names: &dyn Names) {
    if more.bridge != [0; 16] {
        let hex: Vec<String> = more.bridge.iter().map(|byte| format!("{byte:02x}")).collect();
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().concat();
        let (a, b, c) = (part(0, 4), part(4, 6), part(6, 8));
        let (d, e) = (part(8, 10), part(10, 16));
        put(out, format_args!(" continuation.bridge={a}-{b}-{c}-{d}-{e}\n"));
    }
    if !more.stack.is_empty() {
        out.push_str(" continuation.stack=(top)");
        for value in &more.stack {
            out.push(' ');
            put_hex(out, value);
        }
        out.push_str(" (bottom)\n");
    }
    if more.mirrors != 0 {
        put(out, format_args!(" continuation.mirrors={:#x}\n", more.mirrors));
    }
    if more.conntracked {
        out.push_str(" continuation.conntracked=true\n");
    }
    if !more.actions.is_empty() {
        out.push_str(" continuation.actions=");
        for part in &more.actions {
            out.push_str("unroll_xlate(table=");
            put_table(out, part.table_id, names);
            put(out, format_args!(", cookie={}),", part.cookie));
            print_actions(out, &part.actions, names);
            out.push(',');
        }
        chomp(out, ',');
        out.push('\n');
    }
    if !more.action_set.is_empty() {
        out.push_str(" continuation.action_set=");
        print_actions(out, &more.action_set, names);
        out.push('\n');
    }
    if more.odp_port != 0 {
        put(out, format_args!(" continuation.odp_port={}\n", more.odp_port));
    }
}

fn print_queues(out: &mut String, mut queues: Vec<QueueConfig>, names: &dyn Names) {
    queues.sort_by_key(|queue| (queue.port, queue.queue));
    out.push(' ');
    let mut port = PortNo(0);
    for queue in &queues {
        if queue.port != port {
            port = queue.port;
            out.push_str("port=");
            put_port(out, port, names);
            out.push('\n');
        }
        put(out, format_args!("queue {}:", queue.queue));
        for (name, rate) in [("min_rate", queue.min_rate), ("max_rate", queue.max_rate)] {
            match rate {
                Some(rate @ 0..=1000) => {
                    put(out, format_args!(" {name}:{}.{}%", rate / 10, rate % 10));
                }
                Some(_) => put(out, format_args!(" {name}:(disabled)")),
                None => {}
            }
        }
        out.push('\n');
    }
    chomp(out, ' ');
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn print_table_mod(out: &mut String, table: &TableMod, names: &dyn Names) {
    if table.table_id == u8::MAX {
        out.push_str(" table_id: ALL_TABLES");
    } else {
        out.push_str(" table_id=");
        put_table(out, table.table_id, names);
    }
    if let Some(miss) = table.miss {
        out.push_str(match miss {
            TableMiss::Controller => ", flow_miss_config=controller",
            TableMiss::Continue => ", flow_miss_config=continue",
            TableMiss::Drop => ", flow_miss_config=drop",
        });
    }
    if let Some(eviction) = table.eviction {
        put(out, format_args!(", eviction={}", on_off(eviction)));
    }
    if let Some(flags) = table.eviction_flags {
        out.push_str("eviction_flags=");
        put_eviction_flags(out, flags);
    }
    if let Some(events) = table.vacancy_events {
        put(out, format_args!(", vacancy={}", on_off(events)));
        if events {
            put(out, format_args!(" vacancy:{},{}", table.vacancy.down, table.vacancy.up));
        }
    }
}

fn put_eviction_flags(out: &mut String, flags: u32) {
    let names = [
        (eviction_flag::OTHER, "OTHER"),
        (eviction_flag::IMPORTANCE, "IMPORTANCE"),
        (eviction_flag::LIFETIME, "LIFETIME"),
    ];
    put_bits(out, flags, &names, '|');
}

fn print_table_desc(out: &mut String, desc: &TableDesc, names: &dyn Names) {
    out.push_str("\n  table ");
    put_table(out, desc.table_id, names);
    put(out, format_args!(":\n   eviction={} eviction_flags=", on_off(desc.eviction)));
    match desc.eviction_flags {
        Some(flags) => put_eviction_flags(out, flags),
        None => out.push_str("(default)"),
    }
    put(out, format_args!("\n   vacancy={}", on_off(desc.vacancy.is_some())));
    if let Some(Vacancy { down, up, current }) = desc.vacancy {
        put(out, format_args!(" vacancy_down={down}% vacancy_up={up}% vacancy={current}%"));
    }
    out.push('\n');
}

fn print_role(out: &mut String, role: Role, generation_id: Option<u64>) {
    out.push_str(match role {
        Role::NoChange => " role=nochange",
        Role::Equal => " role=equal",
        Role::Primary => " role=primary",
        Role::Secondary => " role=secondary",
    });
    if let Some(id) = generation_id {
        put(out, format_args!(" generation_id={id}"));
    }
}

fn print_async(out: &mut String, config: &AsyncConfig) {
    for (role, masks) in [("primary", &config.primary), ("secondary", &config.secondary)] {
        put(out, format_args!("\n {role}:\n"));
        for (message, mask) in AsyncMessage::ALL.into_iter().zip(masks) {
            let (name, reasons): (&str, &[&str]) = match message {
                AsyncMessage::PacketIn => (
                    "PACKET_IN",
                    &[
                        "no_match",
                        "action",
                        "invalid_ttl",
                        "action_set",
                        "group",
                        "packet_out",
                        "",
                        "",
                    ],
                ),
                AsyncMessage::PortStatus => ("PORT_STATUS", &["add", "delete", "modify"]),
                AsyncMessage::FlowRemoved => (
                    "FLOW_REMOVED",
                    &["idle", "hard", "delete", "group_delete", "meter_delete", "eviction"],
                ),
                AsyncMessage::RoleStatus => (
                    "ROLE_STATUS",
                    &["primary_request", "configuration_changed", "experimenter_data_changed"],
                ),
                AsyncMessage::TableStatus => {
                    ("TABLE_STATUS", &["0", "1", "2", "vacancy_down", "vacancy_up"])
                }
                AsyncMessage::RequestForward => {
                    ("REQUESTFORWARD", &["group_mod_request", "meter_mod_request"])
                }
            };
            put(out, format_args!("{name:>16}:"));
            let set = reasons.iter().zip(0..).filter(|(_, bit)| mask >> bit & 1 != 0);
            for (reason, _) in set.filter(|(reason, _)| !reason.is_empty()) {
                put(out, format_args!(" {reason}"));
            }
            out.push_str(if *mask == 0 { " (off)\n" } else { "\n" });
        }
    }
}

fn print_monitor_request(out: &mut String, request: &MonitorRequest, names: &dyn Names) {
    let monitor = match request {
        MonitorRequest::Delete(id) => {
            return put(out, format_args!("\n id={id} command=delete"));
        }
        MonitorRequest::Add(monitor) | MonitorRequest::Modify(monitor) => monitor,
    };
    put(out, format_args!("\n id={} flags=", monitor.id));
    let flags = [
        (monitor_flag::INITIAL.into(), "initial"),
        (monitor_flag::ADD.into(), "add"),
        (monitor_flag::REMOVED.into(), "delete"),
        (monitor_flag::MODIFY.into(), "modify"),
        (monitor_flag::INSTRUCTIONS.into(), "actions"),
        (monitor_flag::NO_ABBREV.into(), "no-abbrev"),
        (monitor_flag::ONLY_OWN.into(), "own"),
    ];
    put_bits(out, monitor.flags.into(), &flags, ',');
    if monitor.out_port != PortNo::NONE {
        out.push_str(" out_port=");
        put_port(out, monitor.out_port, names);
    }
    if monitor.out_group != 0 && monitor.out_group != GROUP_ANY {
        put(out, format_args!(" out_group={}", monitor.out_group as i32));
    }
    if monitor.table_id != u8::MAX {
        out.push_str(" table=");
        put_table(out, monitor.table_id, names);
    }
    out.push(' ');
    print_match(out, &monitor.flow_match, DEFAULT_PRIORITY, names);
    chomp(out, ' ');
}

fn print_update(out: &mut String, update: &FlowUpdate, names: &dyn Names) {
    let flow = match update {
        FlowUpdate::Full(flow) => flow,
        FlowUpdate::Abbreviated(xid) => {
            return put(out, format_args!("\n event=ABBREV xid={xid:#x}"));
        }
        FlowUpdate::Paused => return out.push_str("\n event=PAUSED"),
        FlowUpdate::Resumed => return out.push_str("\n event=RESUMED"),
    };
    out.push_str("\n event=");
    match flow.event {
        UpdateEvent::Initial => out.push_str("INITIAL"),
        UpdateEvent::Added => out.push_str("ADDED"),
        UpdateEvent::Removed => {
            put(out, format_args!("DELETED reason={}", removed_reason(flow.reason)));
        }
        UpdateEvent::Modified => out.push_str("MODIFIED"),
    }
    out.push_str(" table=");
    put_table(out, flow.table_id, names);
    let timeouts = [("idle_timeout", flow.idle_timeout), ("hard_timeout", flow.hard_timeout)];
    for (name, timeout) in timeouts.into_iter().filter(|(_, timeout)| *timeout != 0) {
        put(out, format_args!(" {name}={timeout}"));
    }
    put(out, format_args!(" cookie={} ", alternate_hex(flow.cookie)));
    print_match(out, &flow.flow_match, DEFAULT_PRIORITY, names);
    if !flow.actions.is_empty() {
        out.push_str(if out.ends_with(' ') { "actions=" } else { " actions=" });
        print_actions(out, &flow.actions, names);
    }
}

fn print_mappings(out: &mut String, mappings: &[TlvMapping]) {
    out.push_str(" mapping table:\n  class  type  length  match field\n");
    out.push_str(" ------  ----  ------  --------------");
    for TlvMapping { option_class, option_type, option_len, index } in mappings {
        let (class, kind) =
            (alternate_hex(u64::from(*option_class)), alternate_hex(u64::from(*option_type)));
        put(out, format_args!("\n {class:>6}  {kind:>4}  {option_len:>6}  tun_metadata{index}"));
    }
}
