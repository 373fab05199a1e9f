//! Printing of messages in one line or a few, as logs of connections show them.

use super::super::action::{DecodeContext, action_types};
use super::super::error::{ErrorMessage, OfError};
use super::super::header::{HEADER_LEN, Header};
use super::super::kind::{Kind, Raw};
use super::super::message::{
    AggregateStats, BundleAdd, BundleControl, FlowFlags, FlowFormat, FlowMod, FlowModCommand,
    FlowRemoved, FlowStats, FlowStatsRequest, FragmentHandling, Hello, NO_BUFFER, PacketIn,
    PacketInFormat, PacketOut, SwitchConfig, SwitchDesc, SwitchFeatures, bundle_flag, capability,
    decode_flow_mod_table_id, decode_padded_u16, decode_port_request, decode_set_flow_format,
};
use super::super::port::PortNo;
use super::super::version::Version;
use super::action::reason_text;
use super::value::put_dotted_hex;
use super::{
    DEFAULT_PRIORITY, Names, chomp, message_parts, print_actions, print_match, put, put_port,
    put_table,
};

/// Appends a message as `ovs-ofctl ofp-print` shows it, with a newline at the end. Packets are not
/// dissected and damaged messages not dumped. Of the statistics of tables and of their features
/// only the kind of message is shown.
pub fn print_message(out: &mut String, message: &[u8], names: &dyn Names) {
    let start = out.len();
    let len = message.len();
    let Ok(header) = Header::parse(message) else {
        return out.push_str(match len {
            0 => "OpenFlow message is empty\n",
            _ => "OpenFlow packet too short\n",
        });
    };
    if usize::from(header.length) > len {
        if let Ok(kind) = Kind::of(message) {
            out.push_str(kind.name());
            put_version(out, header.version, header.xid);
            out.push('\n');
        }
        let whole = header.length;
        return put(out, format_args!("(***truncated to {len} bytes from {whole}***)\n"));
    }
    if usize::from(header.length) < len {
        let used = header.length;
        return put(out, format_args!("(***only uses {used} bytes out of {len}***)\n"));
    }
    match Raw::parse(message) {
        Ok(raw) => {
            out.push_str(raw.kind.name());
            put_version(out, raw.header.version, raw.header.xid);
            let header_len = out.len();
            print_stats_flags(out, &raw);
            match print_body(out, &raw, names) {
                Ok(()) => chomp(out, ' '),
                Err(error) => {
                    if out.len() > header_len {
                        chomp(out, ' ');
                        end_line(out, start);
                    } else {
                        out.push(' ');
                    }
                    put(out, format_args!("***decode error: {}***", error.name()));
                }
            }
        }
        Err(error) => put(out, format_args!("***decode error: {}***", error.name())),
    }
    end_line(out, start);
}

fn end_line(out: &mut String, start: usize) {
    if out.len() > start && !out.ends_with('\n') {
        out.push('\n');
    }
}

fn put_version(out: &mut String, version: u8, xid: u32) {
    match version {
        1 => {}
        2..=6 => put(out, format_args!(" (OF1.{})", version - 1)),
        _ => put(out, format_args!(" (OF {version:#04x})")),
    }
    put(out, format_args!(" (xid={xid:#x}):"));
}

fn print_stats_flags(out: &mut String, raw: &Raw<'_>) {
    let flags = raw.message.get(10..12).filter(|_| raw.kind.is_stats());
    let Some(&[high, low]) = flags else { return };
    let flags = u16::from_be_bytes([high, low]);
    if flags != 0 {
        out.push_str(" flags=");
    }
    let is_request = raw.kind.name().ends_with("request");
    let more = flags & 1 != 0 && (!is_request || raw.header.version >= Version::V13 as u8);
    if more {
        out.push_str("[more]");
    }
    let unknown = if more { flags & !1 } else { flags };
    if unknown != 0 {
        put(out, format_args!("[***unknown flags {unknown:#06x}***]"));
    }
}

/// Appends the names of bits with a separator between, and unknown bits as a number.
pub(super) fn put_bits(out: &mut String, bits: u32, names: &[(u32, &str)], separator: char) {
    if bits == 0 {
        out.push('0');
        return;
    }
    let known = names.iter().filter(|(bit, _)| bits & bit != 0);
    let mut parts: Vec<String> = known.clone().map(|(_, name)| (*name).to_owned()).collect();
    let unknown = known.fold(bits, |bits, (bit, _)| bits & !bit);
    if unknown != 0 {
        parts.push(format!("{unknown:#x}"));
    }
    out.push_str(&parts.join(&separator.to_string()));
}

/// Appends seconds with as many decimal digits as are needed.
pub(crate) fn put_duration(out: &mut String, seconds: u32, nanoseconds: u32) {
    put(out, format_args!("{seconds}"));
    if nanoseconds != 0 && nanoseconds.is_multiple_of(1_000_000) {
        put(out, format_args!(".{:03}", nanoseconds / 1_000_000));
    } else if nanoseconds != 0 {
        let digits = format!("{nanoseconds:09}");
        put(out, format_args!(".{}", digits.trim_end_matches('0')));
    }
    out.push('s');
}

fn print_body(out: &mut String, raw: &Raw<'_>, names: &dyn Names) -> Result<(), OfError> {
    use Kind::*;
    let version = raw.version().unwrap_or(Version::V10);
    let context = &DecodeContext { version, tlv: None, debug_actions: true };
    match raw.kind {
        Hello => print_hello(out, raw),
        Error => {
            let error = ErrorMessage::decode(version, raw.body)?;
            put(out, format_args!(" {}\n", error.error.name()));
            if error.data.len() >= HEADER_LEN {
                print_message(out, &error.data, names);
            }
        }
        EchoRequest | EchoReply => {
            put(out, format_args!(" {} bytes of payload\n", raw.message.len() - HEADER_LEN));
        }
        FeaturesReply10 | FeaturesReply11 | FeaturesReply13 => {
            print_features(out, &SwitchFeatures::decode(raw, version)?, version);
        }
        SetConfig | GetConfigReply => {
            let config = SwitchConfig::decode(raw, version)?;
            let fragments = match config.fragments {
                FragmentHandling::Normal => "normal",
                FragmentHandling::Drop => "drop",
                FragmentHandling::Reassemble => "reassemble",
                FragmentHandling::NxMatch => "nx-match",
            };
            put(out, format_args!(" frags={fragments}"));
            if config.invalid_ttl_to_controller == Some(true) {
                out.push_str(" invalid_ttl_to_controller");
            }
            put(out, format_args!(" miss_send_len={}\n", config.miss_send_len));
        }
        PacketIn10 | PacketIn11 | PacketIn12 | PacketIn13 | NxPacketIn | NxPacketIn2 | NxResume => {
            print_packet_in(out, &PacketIn::decode(raw, context, true)?, names);
        }
        PacketOut10 | PacketOut11 | PacketOut15 => {
            print_packet_out(out, &PacketOut::decode(raw, context)?, names);
        }
        FlowMod10 | FlowMod11 | NxFlowMod => {
            let format = FlowFormat { table_id: true, nxm: raw.kind == NxFlowMod };
            let flow_mod = FlowMod::decode(raw, context, format, PortNo::MAX, 255)?;
            print_flow_mod(out, &flow_mod, version, names);
        }
        FlowRemoved10 | FlowRemoved11 | FlowRemoved15 | NxFlowRemoved => {
            print_flow_removed(out, &FlowRemoved::decode(raw)?, names);
        }
        FlowStatsRequest10
        | FlowStatsRequest11
        | NxFlowStatsRequest
        | AggregateStatsRequest10
        | AggregateStatsRequest11
        | AggregateStatsRequest15
        | NxAggregateStatsRequest => {
            let request = FlowStatsRequest::decode(raw, context)?;
            if request.table_id != u8::MAX {
                out.push_str(" table=");
                put_table(out, request.table_id, names);
            }
            if request.out_port != PortNo::NONE {
                out.push_str(" out_port=");
                put_port(out, request.out_port, names);
            }
            out.push(' ');
            print_match(out, &request.flow_match, DEFAULT_PRIORITY, names);
        }
        FlowStatsReply10 | FlowStatsReply11 | FlowStatsReply13 | FlowStatsReply15
        | NxFlowStatsReply => {
            for flow in FlowStats::decode(raw, context, true)? {
                out.push_str("\n ");
                print_flow(out, &flow, names, true);
            }
        }
        AggregateStatsReply | AggregateStatsReply15 | NxAggregateStatsReply => {
            let stats = AggregateStats::decode(raw)?;
            put(out, format_args!(" packet_count={}", stats.packet_count));
            put(out, format_args!(" byte_count={}", stats.byte_count));
            put(out, format_args!(" flow_count={}", stats.flow_count));
        }
        PortStatsRequest10 | PortStatsRequest11 => {
            let port = decode_port_request(raw)?;
            out.push_str(" port_no=");
            put_port(out, port, names);
        }
        PortDescStatsRequest10 | PortDescStatsRequest15 => {
            let port = decode_port_request(raw)?;
            out.push_str(" port=");
            put_port(out, port, names);
        }
        DescStatsReply => print_desc(out, &SwitchDesc::decode(raw)?),
        BundleControl14 | OnfBundleControl13 => {
            let control = BundleControl::decode(raw)?;
            let name = control.bundle_type.name().unwrap_or_default();
            let id = super::value::alternate_hex(control.bundle_id.into());
            put(out, format_args!("\n bundle_id={id} type={name} flags="));
            print_bundle_flags(out, control.flags);
        }
        BundleAddMessage14 | OnfBundleAddMessage13 => {
            let add = BundleAdd::decode(raw)?;
            let id = super::value::alternate_hex(add.bundle_id.into());
            put(out, format_args!("\n bundle_id={id} flags="));
            print_bundle_flags(out, add.flags);
            out.push('\n');
            print_message(out, add.message.message, names);
        }
        NxFlowModTableId => {
            out.push_str(if decode_flow_mod_table_id(raw)? { " enable" } else { " disable" });
        }
        NxSetFlowFormat => out.push_str(match decode_set_flow_format(raw) {
            Ok(true) => " format=nxm",
            Ok(false) => " format=openflow10",
            Err(_) => " format=(unknown)",
        }),
        NxSetPacketInFormat => out.push_str(match PacketInFormat::decode(raw)? {
            PacketInFormat::Standard => " format=standard",
            PacketInFormat::Nxt => " format=nxt_packet_in",
            PacketInFormat::Nxt2 => " format=nxt_packet_in2",
        }),
        NxSetControllerId => put(out, format_args!(" id={}", decode_padded_u16(raw)?)),
        NxCtFlushZone => put(out, format_args!(" zone_id={}", decode_padded_u16(raw)?)),
        _ => message_parts::print(out, raw, context, names)?,
    }
    Ok(())
}

fn print_hello(out: &mut String, raw: &Raw<'_>) {
    let hello = Hello::decode(raw);
    let bits = hello.versions.bits();
    let versions = (0..32).filter(|version| bits >> version & 1 != 0);
    let versions: Vec<String> = versions.map(|version| format!("{version:#04x}")).collect();
    put(out, format_args!("\n version bitmap: {}", versions.join(", ")));
    if hello.strange {
        out.push_str("\n unknown data in hello:\n");
    }
}

fn print_bundle_flags(out: &mut String, flags: u16) {
    let names = [(bundle_flag::ATOMIC.into(), "atomic"), (bundle_flag::ORDERED.into(), "ordered")];
    put_bits(out, flags.into(), &names, ' ');
}

fn print_features(out: &mut String, features: &SwitchFeatures, version: Version) {
    put(out, format_args!(" dpid:{:016x}\n", features.datapath_id));
    let (tables, buffers) = (features.n_tables, features.n_buffers);
    put(out, format_args!("n_tables:{tables}, n_buffers:{buffers}"));
    if features.auxiliary_id != 0 {
        put(out, format_args!(", auxiliary_id:{}", features.auxiliary_id));
    }
    out.push_str("\ncapabilities: ");
    let names = [
        (capability::FLOW_STATS, "FLOW_STATS"),
        (capability::TABLE_STATS, "TABLE_STATS"),
        (capability::PORT_STATS, "PORT_STATS"),
        (capability::GROUP_STATS, "GROUP_STATS"),
        (capability::IP_REASM, "IP_REASM"),
        (capability::QUEUE_STATS, "QUEUE_STATS"),
        (capability::ARP_MATCH_IP, "ARP_MATCH_IP"),
        (capability::PORT_BLOCKED, "PORT_BLOCKED"),
        (capability::BUNDLES, "BUNDLES"),
        (capability::FLOW_MONITORING, "FLOW_MONITORING"),
        (capability::STP, "STP"),
    ];
    put_bits(out, features.capabilities, &names, ' ');
    out.push('\n');
    if features.actions != 0 {
        let order = [
            "output",
            "enqueue",
            "set_vlan_vid",
            "set_vlan_pcp",
            "strip_vlan",
            "mod_dl_src",
            "mod_dl_dst",
            "mod_nw_src",
            "mod_nw_dst",
            "mod_nw_tos",
            "mod_tp_src",
            "mod_tp_dst",
        ];
        let supported = |name: &&&str| {
            let mut types = action_types(version).iter();
            types.any(|(number, known)| known == *name && features.actions >> number & 1 != 0)
        };
        let actions: Vec<&str> = order.iter().filter(supported).copied().collect();
        put(out, format_args!("actions: {}\n", actions.join(" ")));
    }
    message_parts::print_ports(out, features.ports.clone());
}

fn print_desc(out: &mut String, desc: &SwitchDesc) {
    let lines = [
        ("Manufacturer", &desc.mfr_desc),
        ("Hardware", &desc.hw_desc),
        ("Software", &desc.sw_desc),
        ("Serial Num", &desc.serial_num),
        ("DP Description", &desc.dp_desc),
    ];
    out.push('\n');
    for (name, text) in lines {
        put(out, format_args!("{name}: {}\n", String::from_utf8_lossy(text)));
    }
}

fn print_packet_in(out: &mut String, packet: &PacketIn, names: &dyn Names) {
    if packet.table_id != 0 || names.table(packet.table_id).is_some() {
        out.push_str(" table_id=");
        put_table(out, packet.table_id, names);
    }
    if let Some(cookie) = packet.cookie {
        put(out, format_args!(" cookie={cookie:#x}"));
    }
    put(out, format_args!(" total_len={} ", packet.total_len));
    print_match(out, &packet.metadata, DEFAULT_PRIORITY, names);
    let (reason, len) = (reason_text(packet.reason), packet.packet.len());
    put(out, format_args!(" (via {reason}) data_len={len}"));
    let total = usize::try_from(packet.total_len).unwrap_or(usize::MAX);
    if packet.buffer_id == NO_BUFFER {
        out.push_str(" (unbuffered)");
        if total != len {
            out.push_str(" (***total_len != data_len***)");
        }
    } else {
        put(out, format_args!(" buffer={:#010x}", packet.buffer_id));
        if total < len {
            out.push_str(" (***total_len < data_len***)");
        }
    }
    out.push('\n');
    if !packet.userdata.is_empty() {
        out.push_str(" userdata=");
        put_dotted_hex(out, &packet.userdata);
        out.push('\n');
    }
    message_parts::print_continuation(out, &packet.continuation, names);
}

fn print_packet_out(out: &mut String, packet: &PacketOut, names: &dyn Names) {
    out.push(' ');
    print_match(out, &packet.metadata, DEFAULT_PRIORITY, names);
    out.push_str(" actions=");
    print_actions(out, &packet.actions, names);
    match packet.buffer_id {
        NO_BUFFER => put(out, format_args!(" data_len={}", packet.packet.len())),
        buffer => put(out, format_args!(" buffer={buffer:#010x}")),
    }
}

/// Appends the names of a flow's flags, each with a space after it.
fn print_flow_flags(out: &mut String, flags: FlowFlags) {
    let names = [
        (FlowFlags::SEND_FLOW_REM, "send_flow_rem "),
        (FlowFlags::CHECK_OVERLAP, "check_overlap "),
        (FlowFlags::RESET_COUNTS, "reset_counts "),
        (FlowFlags::NO_PACKET_COUNTS, "no_packet_counts "),
        (FlowFlags::NO_BYTE_COUNTS, "no_byte_counts "),
    ];
    names.iter().filter(|(flag, _)| flags.has(*flag)).for_each(|(_, name)| out.push_str(name));
}

fn print_flow_mod(out: &mut String, flow: &FlowMod, version: Version, names: &dyn Names) {
    out.push_str(match flow.command {
        FlowModCommand::Add => " ADD",
        FlowModCommand::Modify => " MOD",
        FlowModCommand::ModifyStrict => " MOD_STRICT",
        FlowModCommand::Delete => " DEL",
        FlowModCommand::DeleteStrict => " DEL_STRICT",
    });
    if flow.table_id != 0 || names.table(flow.table_id).is_some() {
        out.push_str(" table:");
        put_table(out, flow.table_id, names);
    }
    out.push(' ');
    print_match(out, &flow.flow_match, flow.priority, names);
    if !out.ends_with(' ') {
        out.push(' ');
    }
    if flow.new_cookie != 0 && flow.new_cookie != u64::MAX {
        put(out, format_args!("cookie:{:#x} ", flow.new_cookie));
    }
    if flow.cookie_mask != 0 {
        put(out, format_args!("cookie:{:#x}/{:#x} ", flow.cookie, flow.cookie_mask));
    }
    let numbers =
        [("idle", flow.idle_timeout), ("hard", flow.hard_timeout), ("importance", flow.importance)];
    for (name, number) in numbers.into_iter().filter(|(_, number)| *number != 0) {
        put(out, format_args!("{name}:{number} "));
    }
    if flow.buffer_id != NO_BUFFER {
        put(out, format_args!("buf:{:#x} ", flow.buffer_id));
    }
    if flow.out_port != PortNo::NONE {
        out.push_str("out_port:");
        put_port(out, flow.out_port, names);
        out.push(' ');
    }
    let implied = if version < Version::V12 { FlowFlags::RESET_COUNTS.0 } else { 0 };
    print_flow_flags(out, FlowFlags(flow.flags.0 & !implied));
    out.push_str("actions=");
    print_actions(out, &flow.actions, names);
}

/// Appends a flow as the commands that list flows show it, with or without its statistics.
pub fn print_flow(out: &mut String, flow: &FlowStats, names: &dyn Names, statistics: bool) {
    let count = |count: u64| match count {
        u64::MAX => "?".to_owned(),
        count => count.to_string(),
    };
    if statistics || flow.cookie != 0 {
        put(out, format_args!("cookie={:#x}, ", flow.cookie));
    }
    if statistics {
        out.push_str("duration=");
        put_duration(out, flow.duration_sec, flow.duration_nsec);
        out.push_str(", ");
    }
    if statistics || flow.table_id != 0 || names.table(flow.table_id).is_some() {
        out.push_str("table=");
        put_table(out, flow.table_id, names);
        out.push_str(", ");
    }
    if statistics {
        let (packets, bytes) = (count(flow.packet_count), count(flow.byte_count));
        put(out, format_args!("n_packets={packets}, n_bytes={bytes}, "));
    }
    let timeouts = [("idle_timeout", flow.idle_timeout), ("hard_timeout", flow.hard_timeout)];
    for (name, timeout) in timeouts.into_iter().filter(|(_, timeout)| *timeout != 0) {
        put(out, format_args!("{name}={timeout}, "));
    }
    print_flow_flags(out, flow.flags);
    if flow.importance != 0 {
        put(out, format_args!("importance={}, ", flow.importance));
    }
    if let Some(age) = flow.idle_age.filter(|_| statistics) {
        put(out, format_args!("idle_age={age}, "));
    }
    let changed = flow.hard_age.filter(|age| statistics && *age != flow.duration_sec);
    if let Some(age) = changed {
        put(out, format_args!("hard_age={age}, "));
    }
    let before = out.len();
    print_match(out, &flow.flow_match, flow.priority, names);
    out.push_str(if out.len() > before { " actions=" } else { "actions=" });
    print_actions(out, &flow.actions, names);
}

fn print_flow_removed(out: &mut String, flow: &FlowRemoved, names: &dyn Names) {
    out.push(' ');
    print_match(out, &flow.flow_match, flow.priority, names);
    put(out, format_args!(" reason={}", message_parts::removed_reason(flow.reason.0)));
    if flow.table_id != u8::MAX {
        out.push_str(" table_id=");
        put_table(out, flow.table_id, names);
    }
    if flow.cookie != 0 {
        put(out, format_args!(" cookie:{:#x}", flow.cookie));
    }
    out.push_str(" duration");
    put_duration(out, flow.duration_sec, flow.duration_nsec);
    put(out, format_args!(" idle{}", flow.idle_timeout));
    if flow.hard_timeout != 0 {
        put(out, format_args!(" hard{}", flow.hard_timeout));
    }
    put(out, format_args!(" pkts{} bytes{}\n", flow.packet_count, flow.byte_count));
}
