//! The names under which messages are logged.
//!
//! They are those of Open vSwitch 4.0.90 (its `lib`, `ofproto`, `vswitchd` and `ovsdb`), because
//! existing scripts pass them to `-v` and `vlog/set`. An event's `target` is one of them; events
//! with another target, such as those of libraries, are not logged.

/// Every module, in alphabetical order.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "backtrace", "bfd", "bond", "bridge", "bundle", "bundles", "cfm", "collectors",
    "command_line", "connmgr", "conntrack", "conntrack_tp", "cooperative_multitasking",
    "coverage", "ct_dpif", "daemon", "daemon_unix", "db_ctl_base", "dns_resolve",
    "dp_packet_gso", "dpdk", "dpif", "dpif_netdev", "dpif_netdev_dpcls", "dpif_netlink",
    "dpif_netlink_rtnl", "dpif_offload", "dpif_offload_dpdk", "dpif_offload_dpdk_netdev",
    "dpif_offload_dummy", "dpif_offload_tc", "dpif_offload_tc_netdev", "entropy", "fail_open",
    "fatal_signal", "flow", "hmap", "in_band", "ipf", "ipfix", "jsonrpc", "lacp",
    "learning_switch", "lldp", "lldpd", "lldpd_structs", "lockfile", "memory", "meta_flow",
    "native_tnl", "netdev", "netdev_afxdp", "netdev_bsd", "netdev_dpdk", "netdev_dummy",
    "netdev_linux", "netdev_vport", "netflow", "netlink", "netlink_conntrack",
    "netlink_notifier", "netlink_socket", "nx_match", "odp_execute", "odp_util", "ofp_actions",
    "ofp_bundle", "ofp_connection", "ofp_ct", "ofp_errors", "ofp_flow", "ofp_group", "ofp_match",
    "ofp_meter", "ofp_monitor", "ofp_msgs", "ofp_packet", "ofp_port", "ofp_protocol",
    "ofp_queue", "ofp_table", "ofp_util", "ofproto", "ofproto_dpif", "ofproto_dpif_mirror",
    "ofproto_dpif_monitor", "ofproto_dpif_rid", "ofproto_dpif_upcall", "ofproto_dpif_xlate",
    "ofproto_xlate_cache", "ovs_lldp", "ovs_numa", "ovs_rcu", "ovs_replay", "ovs_router",
    "ovs_thread", "ovsdb", "ovsdb_client", "ovsdb_cs", "ovsdb_error", "ovsdb_file", "ovsdb_idl",
    "ovsdb_jsonrpc_server", "ovsdb_log", "ovsdb_monitor", "ovsdb_rbac", "ovsdb_server",
    "ovsdb_util", "ox_stat", "pcap", "pmd_perf", "poll_loop", "process", "raft", "raft_rpc",
    "rconn", "reconnect", "relay", "replication", "route_table", "route_table_bsd", "rstp",
    "rstp_sm", "rtbsd", "sflow", "sha1", "signals", "socket_util", "socket_util_unix",
    "stopwatch", "storage", "stp", "stream", "stream_fd", "stream_nossl", "stream_replay",
    "stream_ssl", "stream_tcp", "stream_unix", "svec", "system_stats", "tc", "timeval",
    "transaction", "transaction_forward", "trigger", "tunnel", "unixctl", "userspace_tso",
    "util", "uuid", "vconn", "vconn_stream", "vlog", "vswitchd",
];

/// A named part of the switch whose messages are controlled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Module(usize);

impl Module {
    /// Number of modules.
    pub(super) const COUNT: usize = NAMES.len();

    /// The module of that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().position(|module| module.eq_ignore_ascii_case(name)).map(Self)
    }

    /// The module of an event's target.
    pub(super) fn of_target(target: &str) -> Option<Self> {
        NAMES.binary_search(&target).ok().map(Self)
    }

    /// The name that operators write and read, such as `dpif_netdev`.
    pub fn name(self) -> &'static str {
        NAMES.get(self.0).copied().unwrap_or_default()
    }

    /// Position in alphabetical order, below [`Self::COUNT`].
    pub(super) fn index(self) -> usize {
        self.0
    }

    /// Every module, in alphabetical order.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..NAMES.len()).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::path::Path;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(NAMES.is_sorted_by(|a, b| a < b));
        for module in Module::all() {
            assert_eq!(Module::named(&module.name().to_uppercase()), Some(module));
            assert_eq!(Module::of_target(module.name()), Some(module));
        }
        assert_eq!(Module::named("dpif_netde"), None);
        assert_eq!(Module::of_target("VLOG"), None);
    }

    fn visit_sources(directory: &Path, visit: &mut dyn FnMut(&Path, &str)) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit_sources(&path, visit);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                visit(&path, &fs::read_to_string(&path).unwrap());
            }
        }
    }

    /// A misspelt target would silence its messages without a word.
    #[test]
    fn every_target_in_the_sources_is_a_module() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = 0;
        for name in ["netdev", "dpif", "ofproto", "vswitchd"] {
            visit_sources(&workspace.join(name), &mut |path, source| {
                for (_, rest) in source
                    .match_indices("target: \"")
                    .map(|(at, start)| source.split_at(at + start.len()))
                {
                    let target = rest.split('"').next().unwrap();
                    found += 1;
                    assert!(
                        Module::of_target(target).is_some(),
                        "{}: target {target:?} is not a module",
                        path.display()
                    );
                }
            });
        }
        assert!(found > 0);
    }
}
