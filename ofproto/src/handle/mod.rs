//! What a switch does with the messages of controllers.

pub(crate) mod bundle;
mod flows;
mod forward;
mod groups;
mod meters;
mod ports;
mod queues;
mod switch_config;
mod tables;
#[cfg(test)]
mod tests;
mod tlv;

use std::time::Duration;

use dpif::datapath::Datapath;

use crate::openflow::error::OfError;
use crate::openflow::kind::{Kind, Raw};
use crate::openflow::message::{
    FlowFormat, FlowModCommand, MeterCommand, MeterConfig, MeterMod, meter_id,
};
use crate::openflow::version::Version;
use crate::switch::Switch;
use crate::tables::Source;

pub use flows::FlowReplies;
pub(crate) use flows::check_actions;
pub use forward::Forward;
pub(crate) use tables::table_features;

/// What follows from a message.
#[derive(Debug)]
pub enum Reply {
    /// These messages, if any, go back.
    Messages(Vec<Vec<u8>>),
    /// These messages go back, which are made one by one.
    Flows(FlowReplies),
    /// Nothing goes back; flows were changed.
    FlowMod(FlowModCommand),
    /// Nothing goes back; controllers that asked for it are told what was done.
    Forward(Forward),
}

impl Reply {
    /// Nothing.
    pub(crate) fn none() -> Self {
        Self::Messages(Vec::new())
    }
}

/// What messages need to be known of the connection on which they came.
#[derive(Clone, Copy, Debug)]
pub struct PeerContext {
    /// The version that is spoken.
    pub version: Version,
    /// How flows are written.
    pub format: FlowFormat,
    /// Whether the controller may only look.
    pub secondary: bool,
    /// Number of the connection.
    pub connection: u64,
}

/// Does what a message about the switch asks for.
///
/// # Errors
/// The error that Open vSwitch replies with; nothing is changed then.
pub fn handle(
    switch: &mut Switch,
    datapath: &mut Datapath,
    peer: &PeerContext,
    raw: &Raw<'_>,
) -> Result<Reply, OfError> {
    let version = peer.version;
    if peer.secondary && is_modification(raw.kind) {
        return Err(OfError::BadRequestIsSecondary);
    }
    let source = Source::Peer { connection: peer.connection, xid: raw.header.xid };
    match raw.kind {
        Kind::FeaturesRequest => Ok(switch_config::features(switch, raw, version)),
        Kind::SetConfig => switch_config::set_config(switch, raw, version, peer.secondary),
        Kind::DescStatsRequest => Ok(switch_config::description(switch, raw, version)),
        Kind::FlowMod10 | Kind::FlowMod11 | Kind::NxFlowMod => {
            flows::flow_mod(switch, raw, version, peer.format, source)
        }
        Kind::FlowStatsRequest10 | Kind::FlowStatsRequest11 | Kind::NxFlowStatsRequest => {
            flows::flow_stats(switch, raw, version)
        }
        Kind::AggregateStatsRequest10
        | Kind::AggregateStatsRequest11
        | Kind::AggregateStatsRequest15
        | Kind::NxAggregateStatsRequest => flows::aggregate_stats(switch, raw, version),
        Kind::TableMod11 | Kind::TableMod14 => tables::table_mod(switch, raw, version),
        Kind::TableStatsRequest => Ok(tables::table_stats(switch, raw, version)),
        Kind::TableDescStatsRequest14 => Ok(tables::table_desc(switch, raw, version)),
        Kind::TableFeaturesStatsRequest13 => {
            let parts = std::slice::from_ref(raw);
            table_features(switch, parts, version).map_err(|(_, error)| error)
        }
        Kind::PortMod10 | Kind::PortMod11 | Kind::PortMod14 => ports::port_mod(switch, raw),
        Kind::PortStatsRequest10 | Kind::PortStatsRequest11 => {
            ports::port_stats(switch, raw, version)
        }
        Kind::PortDescStatsRequest10 | Kind::PortDescStatsRequest15 => {
            ports::port_desc(switch, raw, version)
        }
        Kind::QueueGetConfigRequest10
        | Kind::QueueGetConfigRequest11
        | Kind::QueueDescStatsRequest14 => queues::queue_config(switch, raw, version),
        Kind::QueueStatsRequest10 | Kind::QueueStatsRequest11 => {
            queues::queue_stats(switch, raw, version)
        }
        Kind::NxGroupMod | Kind::GroupMod11 | Kind::GroupMod15 => {
            groups::group_mod(switch, raw, version, source)
        }
        Kind::NxGroupStatsRequest | Kind::GroupStatsRequest11 => {
            groups::group_stats(switch, raw, version)
        }
        Kind::NxGroupDescStatsRequest
        | Kind::GroupDescStatsRequest11
        | Kind::GroupDescStatsRequest15 => groups::group_desc(switch, raw, version),
        Kind::NxGroupFeaturesStatsRequest | Kind::GroupFeaturesStatsRequest12 => {
            Ok(groups::group_features(raw, version))
        }
        Kind::NxTlvTableMod => tlv::table_mod(switch, raw),
        Kind::NxTlvTableRequest => Ok(tlv::table(switch, raw, version)),
        Kind::MeterMod13 => meters::meter_mod(switch, datapath, raw),
        Kind::MeterStatsRequest13 => meters::meter_stats(switch, datapath, raw, version),
        Kind::MeterConfigStatsRequest13 => meters::meter_config(switch, raw, version),
        Kind::MeterFeaturesStatsRequest13 => Ok(meters::meter_features(raw, version)),
        _ => Err(OfError::BadRequestType),
    }
}

/// Removes all rules, groups and meters of controllers.
pub(crate) fn clear(switch: &Switch, datapath: &mut Datapath) {
    switch.tables().clear();
    groups::clear(switch);
    let all = MeterMod {
        command: MeterCommand::Delete,
        meter: MeterConfig { meter_id: meter_id::ALL, flags: 0, bands: vec![] },
    };
    // Whatever is there can be deleted.
    let _ = switch.meters().modify(&all, datapath);
}

/// Whether only controllers that are not secondary may send the message.
fn is_modification(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::FlowMod10
            | Kind::FlowMod11
            | Kind::NxFlowMod
            | Kind::GroupMod11
            | Kind::GroupMod15
            | Kind::NxGroupMod
            | Kind::NxTlvTableMod
            | Kind::MeterMod13
            | Kind::PortMod10
            | Kind::PortMod11
            | Kind::PortMod14
            | Kind::TableMod11
            | Kind::TableMod14
    )
}

/// The whole seconds since `created` and the nanoseconds beyond them. As everywhere in Open
/// vSwitch, they are whole milliseconds.
fn duration(created: Duration, now: Duration) -> (u32, u32) {
    let age = now.saturating_sub(created);
    (age.as_secs() as u32, age.subsec_millis() * 1_000_000)
}
