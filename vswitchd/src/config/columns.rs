//! The tables and columns that the daemon reads, and those that it writes.

use super::unbuilt;
use crate::ovsdb::client::MonitoredTable;

/// What the database client is to keep a copy of.
pub fn monitored() -> Vec<MonitoredTable> {
    let table = |name| MonitoredTable::new(name).read(unbuilt::columns(name));
    vec![
        table("Open_vSwitch").read(&["bridges", "next_cfg", "other_config", "ssl"]).write(&[
            "cur_cfg",
            "datapath_types",
            "db_version",
            "iface_types",
            "ovs_version",
            "system_type",
            "system_version",
        ]),
        table("Bridge")
            .read(&[
                "controller",
                "datapath_type",
                "fail_mode",
                "flow_tables",
                "mirrors",
                "name",
                "other_config",
                "ports",
                "protocols",
            ])
            .write(&["datapath_id", "datapath_version"]),
        table("Mirror")
            .read(&[
                "filter",
                "name",
                "output_port",
                "output_vlan",
                "select_all",
                "select_dst_port",
                "select_src_port",
                "select_vlan",
                "snaplen",
            ])
            .write(&["statistics"]),
        table("Controller")
            .read(&[
                "connection_mode",
                "controller_burst_limit",
                "controller_queue_size",
                "controller_rate_limit",
                "enable_async_messages",
                "inactivity_probe",
                "max_backoff",
                "target",
                "type",
            ])
            .write(&["is_connected", "role", "status"]),
        table("Flow_Table").read(&["flow_limit", "groups", "name", "overflow_policy", "prefixes"]),
        table("SSL").read(&["bootstrap_ca_cert", "ca_cert", "certificate", "private_key"]),
        table("Port").read(&[
            "cvlans",
            "fake_bridge",
            "interfaces",
            "mac",
            "name",
            "other_config",
            "protected",
            "tag",
            "trunks",
            "vlan_mode",
        ]),
        table("Interface")
            .read(&[
                "mac",
                "mtu_request",
                "name",
                "ofport_request",
                "options",
                "other_config",
                "type",
            ])
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
