//! The tables and columns that the daemon reads, and those that it writes.

use super::unbuilt;
use crate::ovsdb::client::MonitoredTable;

/// What the database client is to keep a copy of.
pub fn monitored() -> Vec<MonitoredTable> {
    let table = |name| MonitoredTable::new(name).read(unbuilt::columns(name));
    vec![
        table("Open_vSwitch").read(&["bridges", "next_cfg", "other_config"]).write(&[
            "cur_cfg",
            "datapath_types",
            "db_version",
            "iface_types",
            "ovs_version",
            "system_type",
            "system_version",
        ]),
        table("Bridge")
            .read(&["datapath_type", "name", "other_config", "ports", "protocols"])
            .write(&["datapath_id", "datapath_version"]),
        table("Port").read(&["fake_bridge", "interfaces", "mac", "name"]),
        table("Interface")
            .read(&["mac", "mtu_request", "name", "ofport_request", "options", "type"])
            .write(&[
                "admin_state",
                "duplex",
                "error",
                "ifindex",
                "link_resets",
                "link_speed",
                "link_state",
                "mac_in_use",
                "mtu",
                "ofport",
                "statistics",
                "status",
            ]),
    ]
}
