//! The directories that the daemon and its tools use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where files are. Each directory can be set in the environment, by the variables of Open
/// vSwitch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    /// Sockets and pidfiles: `OVS_RUNDIR`.
    pub run: PathBuf,
    /// Log files: `OVS_LOGDIR`.
    pub log: PathBuf,
    /// The database: `OVS_DBDIR`, or `openvswitch` in `OVS_SYSCONFDIR`.
    pub db: PathBuf,
    /// Configuration of the system: `OVS_SYSCONFDIR`.
    pub sysconf: PathBuf,
    /// Files that never change, such as the database schema: `OVS_PKGDATADIR`.
    pub pkgdata: PathBuf,
}

impl Directories {
    /// The directories of a program of that name, given how to look a variable up
    /// ([`std::env::var_os`]). A program called like one of Open vSwitch uses its directories, so
    /// that it can take its place. A variable set to nothing counts as not set.
    pub fn new(program: &str, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let defaults = if program.starts_with("ovs") {
            [
                "/var/run/openvswitch",
                "/var/log/openvswitch",
                "/etc/openvswitch",
                "/etc",
                "/usr/share/openvswitch",
            ]
        } else {
            [
                "/run/sluice",
                "/var/log/sluice",
                "/var/lib/sluice",
                "/etc/sluice",
                "/usr/share/sluice",
            ]
        };
        let [run, log, db, sysconf, pkgdata] = defaults;
        let directory = |name: &str, default: &str| {
            variable(name).map_or_else(|| PathBuf::from(default), PathBuf::from)
        };
        Self {
            run: directory("OVS_RUNDIR", run),
            log: directory("OVS_LOGDIR", log),
            db: match (variable("OVS_DBDIR"), variable("OVS_SYSCONFDIR")) {
                (Some(db), _) => PathBuf::from(db),
                (None, Some(sysconf)) => Path::new(&sysconf).join("openvswitch"),
                (None, None) => PathBuf::from(db),
            },
            sysconf: directory("OVS_SYSCONFDIR", sysconf),
            pkgdata: directory("OVS_PKGDATADIR", pkgdata),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(program: &str, variables: &[(&str, &str)]) -> [PathBuf; 5] {
        let Directories { run, log, db, sysconf, pkgdata } = Directories::new(program, |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        });
        [run, log, db, sysconf, pkgdata]
    }

    #[test]
    fn defaults_depend_on_the_name() {
        assert_eq!(
            directories("sluice-vswitchd", &[("OVS_RUNDIR", "")]),
            [
                "/run/sluice",
                "/var/log/sluice",
                "/var/lib/sluice",
                "/etc/sluice",
                "/usr/share/sluice"
            ]
            .map(PathBuf::from)
        );
        assert_eq!(
            directories("ovs-vswitchd", &[]),
            [
                "/var/run/openvswitch",
                "/var/log/openvswitch",
                "/etc/openvswitch",
                "/etc",
                "/usr/share/openvswitch",
            ]
            .map(PathBuf::from)
        );
    }

    #[test]
    fn variables_win() {
        let variables = [
            ("OVS_RUNDIR", "/r"),
            ("OVS_LOGDIR", "/l"),
            ("OVS_DBDIR", "/d"),
            ("OVS_SYSCONFDIR", "/s"),
            ("OVS_PKGDATADIR", "/p"),
        ];
        let want = ["/r", "/l", "/d", "/s", "/p"].map(PathBuf::from);
        assert_eq!(directories("ovs-vswitchd", &variables), want);
        assert_eq!(directories("sluice-vswitchd", &variables), want);

        let [_, _, db, sysconf, _] = directories("sluice-vswitchd", &[("OVS_SYSCONFDIR", "/s")]);
        assert_eq!([db, sysconf], ["/s/openvswitch", "/s"].map(PathBuf::from));
    }
}
