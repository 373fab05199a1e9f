//! Messages about the switch as a whole.

use super::Reply;
use crate::openflow::action::action_types;
use crate::openflow::error::OfError;
use crate::openflow::kind::Raw;
use crate::openflow::message::{SwitchConfig, SwitchFeatures, capability};
use crate::openflow::version::Version;
use crate::switch::Switch;
use crate::tables::N_TABLES;

pub(super) fn features(switch: &Switch, raw: &Raw<'_>, version: Version) -> Reply {
    let actions = action_types(version).iter().fold(0, |bits, (number, _)| bits | 1 << number);
    let features = SwitchFeatures {
        datapath_id: switch.datapath_id().unwrap_or(0),
        n_buffers: 0,
        n_tables: N_TABLES,
        auxiliary_id: 0,
        capabilities: capability::FLOW_STATS
            | capability::TABLE_STATS
            | capability::PORT_STATS
            | capability::QUEUE_STATS
            | capability::GROUP_STATS
            | capability::BUNDLES
            | capability::ARP_MATCH_IP,
        actions,
        ports: switch.ports().map(|(_, port)| port.described().clone()).collect(),
    };
    Reply::Messages(vec![features.encode(version, raw.header.xid)])
}

/// Sets what concerns all connections, unless the connection may only look.
pub(super) fn set_config(
    switch: &mut Switch,
    raw: &Raw<'_>,
    version: Version,
    secondary: bool,
) -> Result<Reply, OfError> {
    let config = SwitchConfig::decode(raw, version)?;
    if !secondary {
        switch.set_fragments(config.fragments);
    }
    Ok(Reply::none())
}

pub(super) fn description(switch: &Switch, raw: &Raw<'_>, version: Version) -> Reply {
    Reply::Messages(vec![switch.description().encode(version, raw.header.xid)])
}
