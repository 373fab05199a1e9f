//! The VLAN settings of a `Port` row.

use netdev::wire::ethernet::ether_type;
use ofproto::port_settings::{PortSettings, PriorityTags, VlanMode, VlanSet};

use super::parse::{Problems, Severity, report};
use crate::ovsdb::client::Row;

/// How the port takes part in switching.
pub(super) fn parse(row: Row<'_>, problems: &mut Problems) -> PortSettings {
    let name = row.string("name");
    let tag = row.optional_integer("tag").and_then(|tag| u16::try_from(tag).ok());
    let vlans = |column| {
        let numbers: Vec<_> =
            row.integers(column).filter_map(|vlan| u16::try_from(vlan).ok()).collect();
        (!numbers.is_empty()).then(|| numbers.into_iter().collect::<VlanSet>())
    };
    let (trunks, customer_vlans) = (vlans("trunks"), vlans("cvlans"));
    let vlan_mode = match row.optional_string("vlan_mode") {
        Some("access") => VlanMode::Access,
        Some("native-tagged") => VlanMode::NativeTagged,
        Some("native-untagged") => VlanMode::NativeUntagged,
        Some("dot1q-tunnel") => VlanMode::Dot1qTunnel,
        // The database allows nothing else.
        Some(_) => VlanMode::Trunk,
        None if tag.is_some() => {
            if trunks.is_some() || customer_vlans.is_some() {
                let text = format!("port {name}: ignoring trunks in favor of implicit vlan");
                report(problems, Severity::Warning, text);
            }
            VlanMode::Access
        }
        None => VlanMode::Trunk,
    };
    let other_config = row.map("other_config");
    PortSettings {
        vlan_mode,
        tag: tag.unwrap_or(0),
        trunks,
        customer_vlans,
        priority_tags: match other_config.get("priority-tags") {
            Some("if-nonzero" | "true") => PriorityTags::IfNonzero,
            Some("always") => PriorityTags::Always,
            _ => PriorityTags::Never,
        },
        qinq_ethertype: match other_config.get("qinq-ethtype") {
            Some("802.1q") => ether_type::VLAN,
            _ => ether_type::SERVICE_VLAN,
        },
        is_protected: row.boolean("protected"),
    }
}
