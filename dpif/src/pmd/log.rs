//! Lines about flows for those who follow the datapath closely.

use tracing::debug;

use super::pipeline::flow_id;
use crate::action::{Action, ActionsText};
use crate::flow::{FlowKey, FlowText, MAX_VLANS};
use crate::flow_table::FlowRecord;

/// A packet had no flow.
pub(super) fn miss(datapath: &str, key: &FlowKey, vlan_limit: usize) {
    debug!(
        target: "dpif_netdev",
        limited = true,
        "{datapath}: miss upcall:\n{}",
        FlowText { key, mask: None, verbose: false, names: None, vlan_limit }
    );
}

/// A flow is new, or does something else than before.
pub(super) fn flow(flow: &FlowRecord, old: Option<&[Action]>) {
    let key = FlowText {
        key: flow.key(),
        mask: Some(flow.mask()),
        verbose: false,
        names: None,
        vlan_limit: MAX_VLANS,
    };
    let now = flow.actions();
    let text = |actions| ActionsText { actions, names: None };
    let (ufid, now) = (flow.ufid(), text(&now));
    // The name of what it takes, whatever it is called.
    let taken = || flow_id(flow.key(), flow.mask());
    match old {
        None => debug!(
            target: "dpif_netdev",
            limited = true,
            "flow_add: {ufid} mega_{} {key}, actions:{now}",
            taken()
        ),
        Some(old) => debug!(
            target: "dpif_netdev",
            limited = true,
            "flow_mod: {ufid} mega_{} {key}, old_actions:{}, actions:{now}",
            taken(),
            text(old)
        ),
    }
}
