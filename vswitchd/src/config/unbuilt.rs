//! Settings that are stored but not acted upon, because what they ask for is not built yet.

use std::collections::BTreeSet;

use crate::ovsdb::atom::Atom;
use crate::ovsdb::client::{Cache, Row};
use crate::ovsdb::datum::Datum;

/// Columns that are not acted upon when they hold anything, by table.
const COLUMNS: [(&str, &[&str]); 5] = [
    ("Open_vSwitch", &["datapaths"]),
    (
        "Bridge",
        &[
            "auto_attach",
            "flood_vlans",
            "ipfix",
            "mcast_snooping_enable",
            "netflow",
            "rstp_enable",
            "sflow",
            "stp_enable",
        ],
    ),
    ("Controller", &["local_gateway", "local_ip", "local_netmask", "other_config"]),
    ("Port", &["bond_downdelay", "bond_fake_iface", "bond_mode", "bond_updelay", "lacp", "qos"]),
    (
        "Interface",
        &[
            "bfd",
            "cfm_mpid",
            "ingress_policing_burst",
            "ingress_policing_kpkts_burst",
            "ingress_policing_kpkts_rate",
            "ingress_policing_rate",
            "lldp",
        ],
    ),
];

/// Columns of `table` whose use is reported.
pub(super) fn columns(table: &str) -> &'static [&'static str] {
    COLUMNS.iter().find(|(name, _)| *name == table).map_or(&[], |(_, columns)| columns)
}

/// Keys of `other_config` that are acted upon, by table.
const KEYS: [(&str, &[&str]); 4] = [
    (
        "Open_vSwitch",
        &[
            "bundle-idle-timeout",
            "emc-insert-inv-prob",
            "flow-limit",
            "hw-offload",
            "hw-offload-priority",
            "max-idle",
            "max-revalidator",
            "min-revalidate-pps",
            "n-offload-threads",
            "n-revalidator-threads",
            "offloaded-stats-delay",
            "pmd-auto-lb",
            "pmd-auto-lb-improvement-threshold",
            "pmd-auto-lb-load-threshold",
            "pmd-auto-lb-rebal-interval",
            "pmd-cpu-mask",
            "pmd-perf-metrics",
            "pmd-rxq-assign",
            "pmd-rxq-isolate",
            "pmd-sleep-max",
            "smc-enable",
            "stats-update-interval",
            "tx-flush-interval",
            "vlan-limit",
        ],
    ),
    (
        "Bridge",
        &[
            "controller-queue-size",
            "datapath-id",
            "disable-in-band",
            "dp-desc",
            "dp-sn",
            "forward-bpdu",
            "hwaddr",
            "in-band-queue",
            "mac-aging-time",
            "mac-table-size",
        ],
    ),
    ("Interface", &["emc-enable", "hw-offload-priority", "pmd-rxq-affinity", "tx-steering"]),
    ("Port", &["priority-tags", "qinq-ethtype"]),
];

/// The settings in use that are not acted upon, as `Table.column` or `Table.other_config:key`.
pub fn settings(cache: &Cache) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (table, columns) in COLUMNS {
        for row in cache.rows(table) {
            let used = columns.iter().filter(|column| holds_anything(row, column));
            found.extend(used.map(|column| format!("{table}.{column}")));
        }
    }
    for (table, known) in KEYS {
        for row in cache.rows(table) {
            let keys = row.map("other_config").iter().map(|(key, _)| key);
            let unknown = keys.filter(|key| !known.contains(key));
            found.extend(unknown.map(|key| format!("{table}.other_config:{key}")));
        }
    }
    found
}

/// Whether a column asks for anything: it holds more than nothing, zero or false.
fn holds_anything(row: Row<'_>, column: &str) -> bool {
    let asks_nothing = |datum: &Datum| {
        datum.is_empty()
            || [Atom::Boolean(false), Atom::Integer(0)]
                .iter()
                .any(|atom| datum.as_scalar() == Some(atom))
    };
    row.datum(column).is_some_and(|datum| !asks_nothing(datum))
}
