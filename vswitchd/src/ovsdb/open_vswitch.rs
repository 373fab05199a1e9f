//! The schema of the database that the switch is configured by: `Open_vSwitch`, which is
//! described for its users in ovs-vswitchd.conf.db(5).

use serde_json::{Map, Value, json};

use super::error::{Error, ErrorKind};
use super::schema::DatabaseSchema;

const NAME: &str = "Open_vSwitch";
/// Version of the schema, which column `db_version` shows.
pub const VERSION: &str = "8.8.0";
/// Identifies the version of the schema to tools that compare checksums.
const CHECKSUM: &str = "2823623553 27869";

/// The tables: name, properties, columns.
///
/// Properties are separated by semicolons: `root`, `rows N` for the most rows, `index C,D` for
/// columns of which no two rows have the same values.
///
/// A line describes each column, as `NAME: [immutable] [ephemeral] [NUMBER] BASE`. Without a
/// number the column holds one value; `optional`, `set of`, `some` and `up to N` allow 0 to 1, any
/// number, at least 1, and 0 to N. `map BASE -> BASE` is a map of any size. A base is an atomic
/// type, `integer MIN..MAX` (either may be left out), `enum A|B`, or the name of a table for a
/// strong reference, with `weak` before it for a weak one.
const TABLES: &[(&str, &str, &str)] = &[
    (
        "Open_vSwitch",
        "root; rows 1",
        "
        datapaths: map string -> Datapath
        bridges: set of Bridge
        manager_options: set of Manager
        ssl: optional SSL
        other_config: map string -> string
        external_ids: map string -> string
        next_cfg: integer
        cur_cfg: integer
        statistics: ephemeral map string -> string
        ovs_version: optional string
        db_version: optional string
        system_type: optional string
        system_version: optional string
        datapath_types: set of string
        iface_types: set of string
        dpdk_initialized: boolean
        dpdk_version: optional string
        ",
    ),
    (
        "Bridge",
        "index name",
        "
        name: immutable string
        datapath_type: string
        datapath_version: string
        datapath_id: ephemeral optional string
        stp_enable: boolean
        rstp_enable: boolean
        mcast_snooping_enable: boolean
        ports: set of Port
        mirrors: set of Mirror
        netflow: optional NetFlow
        sflow: optional sFlow
        ipfix: optional IPFIX
        controller: set of Controller
        protocols: set of enum OpenFlow10|OpenFlow11|OpenFlow12|OpenFlow13|OpenFlow14|OpenFlow15
        fail_mode: optional enum standalone|secure
        status: ephemeral map string -> string
        rstp_status: ephemeral map string -> string
        other_config: map string -> string
        external_ids: map string -> string
        flood_vlans: up to 4096 integer 0..4095
        flow_tables: map integer 0..254 -> Flow_Table
        auto_attach: optional AutoAttach
        ",
    ),
    (
        "Port",
        "index name",
        "
        name: immutable string
        interfaces: some Interface
        trunks: up to 4096 integer 0..4095
        cvlans: up to 4096 integer 0..4095
        tag: optional integer 0..4095
        vlan_mode: optional enum trunk|access|native-tagged|native-untagged|dot1q-tunnel
        qos: optional QoS
        mac: optional string
        bond_mode: optional enum balance-tcp|balance-slb|active-backup
        lacp: optional enum active|passive|off
        bond_updelay: integer
        bond_downdelay: integer
        bond_active_slave: optional string
        bond_fake_iface: boolean
        fake_bridge: boolean
        status: ephemeral map string -> string
        rstp_status: ephemeral map string -> string
        rstp_statistics: ephemeral map string -> integer
        statistics: ephemeral map string -> integer
        protected: boolean
        other_config: map string -> string
        external_ids: map string -> string
        ",
    ),
    (
        "Interface",
        "index name",
        "
        name: immutable string
        type: string
        options: map string -> string
        ingress_policing_rate: integer 0..
        ingress_policing_burst: integer 0..
        ingress_policing_kpkts_rate: integer 0..
        ingress_policing_kpkts_burst: integer 0..
        mac_in_use: ephemeral optional string
        mac: optional string
        ifindex: ephemeral optional integer 0..4294967295
        external_ids: map string -> string
        ofport: optional integer
        ofport_request: optional integer 1..65279
        bfd: map string -> string
        bfd_status: ephemeral map string -> string
        cfm_mpid: optional integer
        cfm_remote_mpids: ephemeral set of integer
        cfm_flap_count: optional integer
        cfm_fault: ephemeral optional boolean
        cfm_fault_status: ephemeral set of string
        cfm_remote_opstate: ephemeral optional enum up|down
        cfm_health: ephemeral optional integer 0..100
        lacp_current: ephemeral optional boolean
        lldp: map string -> string
        other_config: map string -> string
        statistics: ephemeral map string -> integer
        status: ephemeral map string -> string
        admin_state: ephemeral optional enum up|down
        link_state: ephemeral optional enum up|down
        link_resets: ephemeral optional integer
        link_speed: ephemeral optional integer
        duplex: ephemeral optional enum half|full
        mtu: ephemeral optional integer
        mtu_request: optional integer 1..
        error: optional string
        ",
    ),
    (
        "Flow_Table",
        "",
        "
        name: optional string
        flow_limit: optional integer 0..
        overflow_policy: optional enum refuse|evict
        groups: set of string
        prefixes: up to 4 string
        external_ids: map string -> string
        ",
    ),
    (
        "QoS",
        "root",
        "
        type: string
        queues: map integer 0..4294967295 -> Queue
        other_config: map string -> string
        external_ids: map string -> string
        ",
    ),
    (
        "Queue",
        "root",
        "
        dscp: optional integer 0..63
        other_config: map string -> string
        external_ids: map string -> string
        ",
    ),
    (
        "Mirror",
        "",
        "
        name: string
        select_all: boolean
        select_src_port: set of weak Port
        select_dst_port: set of weak Port
        select_vlan: up to 4096 integer 0..4095
        output_port: optional weak Port
        output_vlan: optional integer 1..4095
        snaplen: optional integer 14..65535
        statistics: ephemeral map string -> integer
        filter: optional string
        external_ids: map string -> string
        ",
    ),
    (
        "NetFlow",
        "",
        "
        targets: some string
        engine_type: optional integer 0..255
        engine_id: optional integer 0..255
        add_id_to_interface: boolean
        active_timeout: integer -1..
        external_ids: map string -> string
        ",
    ),
    (
        "sFlow",
        "",
        "
        targets: some string
        sampling: optional integer
        polling: optional integer
        header: optional integer
        agent: optional string
        external_ids: map string -> string
        ",
    ),
    (
        "IPFIX",
        "",
        "
        targets: set of string
        sampling: optional integer 1..4294967295
        obs_domain_id: optional integer 0..4294967295
        obs_point_id: optional integer 0..4294967295
        cache_active_timeout: optional integer 0..4200
        cache_max_flows: optional integer 0..4294967295
        stats_interval: optional integer 1..3600
        template_interval: optional integer 1..3600
        other_config: map string -> string
        external_ids: map string -> string
        ",
    ),
    (
        "Flow_Sample_Collector_Set",
        "root; index id,bridge",
        "
        id: integer 0..4294967295
        bridge: Bridge
        ipfix: optional IPFIX
        local_group_id: optional integer 0..4294967295
        external_ids: map string -> string
        ",
    ),
    (
        "Controller",
        "",
        "
        type: optional enum primary|service
        target: string
        max_backoff: optional integer 1000..
        inactivity_probe: optional integer
        connection_mode: optional enum in-band|out-of-band
        local_ip: optional string
        local_netmask: optional string
        local_gateway: optional string
        enable_async_messages: optional boolean
        controller_queue_size: optional integer 1..512
        controller_rate_limit: optional integer 100..
        controller_burst_limit: optional integer 25..
        other_config: map string -> string
        external_ids: map string -> string
        is_connected: ephemeral boolean
        role: ephemeral optional enum other|master|slave
        status: ephemeral map string -> string
        ",
    ),
    (
        "Manager",
        "index target",
        "
        target: string
        max_backoff: optional integer 1000..
        inactivity_probe: optional integer
        connection_mode: optional enum in-band|out-of-band
        other_config: map string -> string
        external_ids: map string -> string
        is_connected: ephemeral boolean
        status: ephemeral map string -> string
        ",
    ),
    (
        "Datapath",
        "",
        "
        datapath_version: string
        ct_zones: map integer 0..65535 -> CT_Zone
        capabilities: map string -> string
        ct_zone_default_limit: optional integer 0..4294967295
        external_ids: map string -> string
        ",
    ),
    (
        "CT_Zone",
        "",
        "
        timeout_policy: optional CT_Timeout_Policy
        limit: optional integer 0..4294967295
        external_ids: map string -> string
        ",
    ),
    (
        "CT_Timeout_Policy",
        "",
        "
        timeouts: map enum tcp_syn_sent|tcp_syn_recv|tcp_established|tcp_fin_wait|\
            tcp_close_wait|tcp_last_ack|tcp_time_wait|tcp_close|tcp_syn_sent2|tcp_retransmit|\
            tcp_unack|udp_first|udp_single|udp_multiple|icmp_first|\
            icmp_reply -> integer 0..4294967295
        external_ids: map string -> string
        ",
    ),
    (
        "SSL",
        "rows 1",
        "
        private_key: string
        certificate: string
        ca_cert: string
        bootstrap_ca_cert: boolean
        external_ids: map string -> string
        ",
    ),
    (
        "AutoAttach",
        "",
        "
        system_name: string
        system_description: string
        mappings: map integer 0..16777215 -> integer 0..4095
        ",
    ),
];

fn error(what: &str, text: &str) -> Error {
    Error::new(ErrorKind::Syntax, format!("{NAME} schema: {what} \"{text}\" is not understood"))
}

/// The schema.
///
/// # Errors
/// The table above does not follow its own rules.
pub fn schema() -> Result<DatabaseSchema, Error> {
    let tables: Map<_, _> = TABLES
        .iter()
        .map(|(name, properties, columns)| Ok(((*name).into(), table(properties, columns)?)))
        .collect::<Result<_, Error>>()?;
    DatabaseSchema::from_json(
        &json!({"name": NAME, "version": VERSION, "cksum": CHECKSUM, "tables": tables}),
    )
}

fn table(properties: &str, columns: &str) -> Result<Value, Error> {
    let mut table = Map::new();
    let mut indexes = Vec::new();
    for property in properties.split("; ").filter(|property| !property.is_empty()) {
        if property == "root" {
            table.insert("isRoot".into(), true.into());
        } else if let Some(rows) = property.strip_prefix("rows ") {
            table.insert("maxRows".into(), number(rows)?);
        } else if let Some(index) = property.strip_prefix("index ") {
            indexes.push(json!(index.split(',').collect::<Vec<_>>()));
        } else {
            return Err(error("property", property));
        }
    }
    if !indexes.is_empty() {
        table.insert("indexes".into(), indexes.into());
    }
    let columns: Map<_, _> = columns
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, definition) = line.split_once(": ").ok_or_else(|| error("line", line))?;
            Ok((name.into(), column(definition)?))
        })
        .collect::<Result<_, Error>>()?;
    table.insert("columns".into(), Value::Object(columns));
    Ok(Value::Object(table))
}

fn column(mut definition: &str) -> Result<Value, Error> {
    let mut column = Map::new();
    if let Some(rest) = definition.strip_prefix("immutable ") {
        column.insert("mutable".into(), false.into());
        definition = rest;
    }
    if let Some(rest) = definition.strip_prefix("ephemeral ") {
        column.insert("ephemeral".into(), true.into());
        definition = rest;
    }
    let column_type = if let Some(pair) = definition.strip_prefix("map ") {
        let (key, value) = pair.split_once(" -> ").ok_or_else(|| error("map", definition))?;
        json!({"key": base(key)?, "value": base(value)?, "min": 0, "max": "unlimited"})
    } else if let Some(key) = definition.strip_prefix("optional ") {
        json!({"key": base(key)?, "min": 0})
    } else if let Some(key) = definition.strip_prefix("set of ") {
        json!({"key": base(key)?, "min": 0, "max": "unlimited"})
    } else if let Some(key) = definition.strip_prefix("some ") {
        json!({"key": base(key)?, "max": "unlimited"})
    } else if let Some(limited) = definition.strip_prefix("up to ") {
        let (max, key) = limited.split_once(' ').ok_or_else(|| error("set", definition))?;
        json!({"key": base(key)?, "min": 0, "max": number(max)?})
    } else {
        json!({"key": base(definition)?})
    };
    column.insert("type".into(), column_type);
    Ok(Value::Object(column))
}

fn base(text: &str) -> Result<Value, Error> {
    if matches!(text, "integer" | "string" | "boolean") {
        return Ok(text.into());
    }
    if let Some(range) = text.strip_prefix("integer ") {
        let (min, max) = range.split_once("..").ok_or_else(|| error("range", text))?;
        let mut base = Map::from_iter([("type".to_owned(), "integer".into())]);
        for (name, limit) in [("minInteger", min), ("maxInteger", max)] {
            if !limit.is_empty() {
                base.insert(name.into(), number(limit)?);
            }
        }
        return Ok(Value::Object(base));
    }
    if let Some(words) = text.strip_prefix("enum ") {
        let words: Vec<_> = words.split('|').collect();
        return Ok(json!({"type": "string", "enum": ["set", words]}));
    }
    let (strength, table) = match text.strip_prefix("weak ") {
        Some(table) => ("weak", table),
        None => ("strong", text),
    };
    Ok(json!({"type": "uuid", "refTable": table, "refType": strength}))
}

fn number(text: &str) -> Result<Value, Error> {
    text.parse::<i64>().map(Value::from).map_err(|_| error("number", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_all_tables_and_columns() {
        let schema = schema().unwrap();
        let counts: Vec<_> = schema
            .tables()
            .map(|table| (table.name(), table.is_root(), table.own_columns().count()))
            .collect();
        assert_eq!(
            counts,
            [
                ("AutoAttach", false, 3),
                ("Bridge", false, 22),
                ("CT_Timeout_Policy", false, 2),
                ("CT_Zone", false, 3),
                ("Controller", false, 17),
                ("Datapath", false, 5),
                ("Flow_Sample_Collector_Set", true, 5),
                ("Flow_Table", false, 6),
                ("IPFIX", false, 10),
                ("Interface", false, 35),
                ("Manager", false, 8),
                ("Mirror", false, 11),
                ("NetFlow", false, 6),
                ("Open_vSwitch", true, 17),
                ("Port", false, 22),
                ("QoS", true, 4),
                ("Queue", true, 3),
                ("SSL", false, 5),
                ("sFlow", false, 6),
            ]
        );
    }

    #[test]
    fn columns_are_of_every_kind() {
        let json = schema().unwrap().to_json();
        let column = |table: &str, column: &str| json["tables"][table]["columns"][column].clone();
        assert_eq!(json["name"], "Open_vSwitch");
        assert_eq!(json["version"], "8.8.0");
        assert_eq!(json["tables"]["Open_vSwitch"]["maxRows"], 1);
        assert_eq!(
            json["tables"]["Flow_Sample_Collector_Set"]["indexes"],
            json!([["id", "bridge"]])
        );
        assert_eq!(column("Bridge", "name"), json!({"type": "string", "mutable": false}));
        assert_eq!(column("Open_vSwitch", "next_cfg"), json!({"type": "integer"}));
        assert_eq!(
            column("Interface", "ifindex"),
            json!({"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 4294967295_u32},
                            "min": 0},
                   "ephemeral": true})
        );
        assert_eq!(
            column("Mirror", "output_port"),
            json!({"type": {"key": {"type": "uuid", "refTable": "Port", "refType": "weak"},
                            "min": 0}})
        );
        assert_eq!(
            column("Port", "interfaces"),
            json!({"type": {"key": {"type": "uuid", "refTable": "Interface"}, "max": "unlimited"}})
        );
        assert_eq!(
            column("Port", "trunks"),
            json!({"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 4095},
                            "min": 0, "max": 4096}})
        );
        assert_eq!(
            column("Bridge", "flow_tables"),
            json!({"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 254},
                            "value": {"type": "uuid", "refTable": "Flow_Table"},
                            "min": 0, "max": "unlimited"}})
        );
        assert_eq!(
            column("Interface", "admin_state"),
            json!({"type": {"key": {"type": "string", "enum": ["set", ["down", "up"]]}, "min": 0},
                   "ephemeral": true})
        );
        assert_eq!(
            column("NetFlow", "active_timeout"),
            json!({"type": {"key": {"type": "integer", "minInteger": -1}}})
        );
    }
}
