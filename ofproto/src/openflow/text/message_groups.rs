//! Printing of the messages about groups and meters.

use super::super::message::*;
use super::super::port::PortNo;
use super::super::version::Version;
use super::message::{put_bits, put_duration};
use super::value::put_value;
use super::{Names, NoNames, chomp, print_actions, put, put_port};

pub(super) fn print_group_mod(
    out: &mut String,
    group: &GroupMod,
    version: Version,
    names: &dyn Names,
) {
    out.push_str(match group.command {
        GroupCommand::Add => "\n ADD ",
        GroupCommand::Modify => "\n MOD ",
        GroupCommand::AddOrModify => "\n ADD_OR_MOD ",
        GroupCommand::Delete => "\n DEL ",
        GroupCommand::InsertBucket => "\n INSERT_BUCKET ",
        GroupCommand::RemoveBucket => "\n REMOVE_BUCKET ",
    });
    let of_buckets =
        matches!(group.command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket);
    if of_buckets {
        put_bucket_id(out, "command_bucket_id:", group.command_bucket_id, version);
    }
    put(out, format_args!("group_id={}", group.group_id));
    if !of_buckets {
        print_group_type(out, group.group_type);
    }
    print_selection(out, &group.selection, names);
    out.push(',');
    print_buckets(out, &group.buckets, group.group_type, version, names);
}

/// A group with some of its buckets, in one line.
pub fn print_group(
    out: &mut String,
    id: u32,
    group_type: GroupType,
    selection: &SelectionMethod,
    buckets: &[Bucket],
) {
    put(out, format_args!("group_id={id}"));
    print_group_type(out, group_type);
    print_selection(out, selection, &NoNames);
    out.push(',');
    print_buckets(out, buckets, group_type, Version::V15, &NoNames);
}

pub(super) fn print_group_type(out: &mut String, group_type: GroupType) {
    out.push_str(match group_type {
        GroupType::All => ",type=all",
        GroupType::Select => ",type=select",
        GroupType::Indirect => ",type=indirect",
        GroupType::FastFailover => ",type=ff",
    });
}

pub(super) fn print_selection(out: &mut String, selection: &SelectionMethod, names: &dyn Names) {
    if selection.method.is_empty() {
        return;
    }
    put(out, format_args!(",selection_method={}", selection.method));
    if selection.param != 0 {
        put(out, format_args!(",selection_method_param={}", selection.param));
    }
    let several = selection.fields.len() > 1;
    out.push_str(match selection.fields.len() {
        0 => return,
        1 => ",fields=",
        _ => ",fields(",
    });
    out.push_str(&hash_fields_text(selection, names));
    out.push_str(if several { ")" } else { "" });
}

/// The fields that a select group hashes, separated by commas.
pub fn hash_fields_text(selection: &SelectionMethod, names: &dyn Names) -> String {
    let mut out = String::new();
    for (field, value) in &selection.fields {
        out.push_str(field.name());
        if !value.is_ones(field.bytes() * 8) {
            out.push('=');
            put_value(&mut out, *field, value, None, names);
        }
        out.push(',');
    }
    chomp(&mut out, ',');
    out
}

fn put_bucket_id(out: &mut String, label: &str, id: u32, version: Version) {
    if matches!(version, Version::V10 | Version::V15) {
        out.push_str(label);
        match id {
            bucket_id::FIRST => out.push_str("first,"),
            bucket_id::LAST => out.push_str("last,"),
            bucket_id::ALL => out.push_str("all,"),
            id => put(out, format_args!("{id},")),
        }
    }
}

pub(super) fn print_buckets(
    out: &mut String,
    buckets: &[Bucket],
    group_type: GroupType,
    version: Version,
    names: &dyn Names,
) {
    for bucket in buckets {
        out.push_str("bucket=");
        put_bucket_id(out, "bucket_id:", bucket.bucket_id, version);
        if bucket.weight != u16::from(group_type == GroupType::Select) {
            put(out, format_args!("weight:{},", bucket.weight));
        }
        if bucket.watch_port != PortNo::NONE {
            out.push_str("watch_port:");
            put_port(out, bucket.watch_port, names);
            out.push(',');
        }
        if bucket.watch_group != GROUP_ANY {
            put(out, format_args!("watch_group:{},", bucket.watch_group));
        }
        out.push_str("actions=");
        print_actions(out, &bucket.actions, names);
        out.push(',');
    }
    chomp(out, ',');
}

pub(super) fn print_group_stats(out: &mut String, group: &GroupStats) {
    put(out, format_args!("\n group_id={},", group.group_id));
    if group.duration_sec != u32::MAX {
        out.push_str("duration=");
        put_duration(out, group.duration_sec, group.duration_nsec);
        out.push(',');
    }
    let (packets, bytes) = (group.packet_count, group.byte_count);
    put(out, format_args!("ref_count={},packet_count={packets}", group.ref_count));
    put(out, format_args!(",byte_count={bytes}"));
    for (index, (packets, bytes)) in group.buckets.iter().enumerate() {
        if *packets != u64::MAX {
            put(out, format_args!(",bucket{index}:packet_count={packets},byte_count={bytes}"));
        }
    }
}

pub(super) fn put_meter_id(out: &mut String, id: u32, separator: char) {
    let name = match id {
        0..=meter_id::MAX => return put(out, format_args!("meter{separator}{id}")),
        meter_id::SLOWPATH => "slowpath",
        meter_id::CONTROLLER => "controller",
        meter_id::ALL => "all",
        _ => "unknown",
    };
    put(out, format_args!("meter{separator}{name}"));
}

const METER_FLAGS: [(u32, &str); 4] = [
    (meter_flag::KBPS as u32, "kbps"),
    (meter_flag::PKTPS as u32, "pktps"),
    (meter_flag::BURST as u32, "burst"),
    (meter_flag::STATS as u32, "stats"),
];

pub(super) fn print_meter(out: &mut String, meter: &MeterConfig) {
    put_meter_id(out, meter.meter_id, '=');
    out.push(' ');
    let flags = u32::from(meter.flags);
    let known = METER_FLAGS.iter().filter(|(flag, _)| flags & flag != 0);
    known.for_each(|(_, name)| put(out, format_args!("{name} ")));
    if flags > 0xf {
        put(out, format_args!("flags:{:#x} ", flags & !0xf));
    }
    out.push_str("bands=");
    for band in &meter.bands {
        let kind = match band.band_type {
            BandType::Drop => "drop",
            BandType::DscpRemark => "dscp_remark",
        };
        put(out, format_args!("\ntype={kind} rate={}", band.rate));
        if meter.flags & meter_flag::BURST != 0 {
            put(out, format_args!(" burst_size={}", band.burst_size));
        }
        if band.band_type == BandType::DscpRemark {
            put(out, format_args!(" prec_level={}", band.prec_level));
        }
    }
    out.push('\n');
}

pub(super) fn print_meter_stats(out: &mut String, meter: &MeterStats) {
    out.push('\n');
    put_meter_id(out, meter.meter_id, ':');
    let (flows, packets, bytes) = (meter.flow_count, meter.packet_in_count, meter.byte_in_count);
    put(out, format_args!(" flow_count:{flows} packet_in_count:{packets} "));
    put(out, format_args!("byte_in_count:{bytes} duration:"));
    put_duration(out, meter.duration_sec, meter.duration_nsec);
    out.push_str(" bands:\n");
    for (index, (packets, bytes)) in meter.bands.iter().enumerate() {
        put(out, format_args!("{index}: packet_count:{packets} byte_count:{bytes}\n"));
    }
}

pub(super) fn print_meter_features(out: &mut String, features: &MeterFeatures) {
    let MeterFeatures { max_meters, max_bands, max_color, .. } = features;
    put(out, format_args!("\nmax_meter:{max_meters} max_bands:{max_bands} "));
    put(out, format_args!("max_color:{max_color}\nband_types: "));
    let bands =
        [(1 << BandType::Drop as u32, "drop"), (1 << BandType::DscpRemark as u32, "dscp_remark")];
    put_bits(out, features.band_types, &bands, ' ');
    out.push_str("\ncapabilities: ");
    put_bits(out, features.capabilities, &METER_FLAGS, ' ');
    out.push('\n');
}
