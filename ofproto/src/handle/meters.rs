//! Messages about meters.

use std::sync::Arc;

use dpif::datapath::Datapath;
use netdev::clock;

use super::{Forward, Reply, duration};
use crate::meter::{FEATURES, Meter};
use crate::openflow::error::OfError;
use crate::openflow::kind::{Kind, Raw, Replies};
use crate::openflow::message::{MeterMod, MeterStats, decode_meter_request, meter_id};
use crate::openflow::version::Version;
use crate::switch::Switch;

pub(super) fn meter_mod(
    switch: &mut Switch,
    datapath: &mut Datapath,
    raw: &Raw<'_>,
) -> Result<Reply, OfError> {
    let meter_mod = MeterMod::decode(raw)?;
    for meter in switch.meters().modify(&meter_mod, datapath)? {
        switch.tables().remove_users_of_meter(meter);
    }
    Ok(Reply::Forward(Forward::Meter(meter_mod)))
}

/// The meter that a request names, or all.
fn meters_of(switch: &Switch, raw: &Raw<'_>) -> Result<Vec<Arc<Meter>>, OfError> {
    match decode_meter_request(raw)? {
        meter_id::ALL => Ok(switch.meters().all()),
        id => switch.meters().get(id).map(|meter| vec![meter]).ok_or(OfError::MeterModUnknownMeter),
    }
}

pub(super) fn meter_stats(
    switch: &Switch,
    datapath: &Datapath,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let meters = meters_of(switch, raw)?;
    let now = clock::now();
    let mut replies = Replies::new(Kind::MeterStatsReply13, version, raw.header.xid);
    for meter in meters {
        let Some(counters) = datapath.meter(meter.number) else { continue };
        let id = meter.config.meter_id;
        let (duration_sec, duration_nsec) = duration(meter.created, now);
        let seen = counters.seen();
        let dropped = counters.dropped();
        let stats = MeterStats {
            meter_id: id,
            flow_count: switch.tables().users_of_meter(id) as u32,
            packet_in_count: seen.packets,
            byte_in_count: seen.bytes,
            duration_sec,
            duration_nsec,
            bands: dropped.iter().map(|count| (count.packets, count.bytes)).collect(),
        };
        stats.append(&mut replies);
    }
    Ok(Reply::Messages(replies.finish()))
}

pub(super) fn meter_config(
    switch: &Switch,
    raw: &Raw<'_>,
    version: Version,
) -> Result<Reply, OfError> {
    let mut replies = Replies::new(Kind::MeterConfigStatsReply13, version, raw.header.xid);
    for meter in meters_of(switch, raw)? {
        meter.config.append(&mut replies);
    }
    Ok(Reply::Messages(replies.finish()))
}

pub(super) fn meter_features(raw: &Raw<'_>, version: Version) -> Reply {
    Reply::Messages(vec![FEATURES.encode(version, raw.header.xid)])
}
