//! Debian's `ovsdb-server` as the database of the switch.

use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::Signal;

use crate::process::LIMIT;
use crate::{Directory, Running, wait_until};

/// The schema that Debian's tools come with.
pub const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";

/// A running `ovsdb-server` on `db.sock`, killed on drop.
#[derive(Debug)]
pub struct OvsdbServer {
    running: Running,
}

impl OvsdbServer {
    /// Creates `conf.db` from Debian's schema unless it exists, and serves it.
    #[track_caller]
    pub fn start(directory: &Directory) -> Self {
        if !directory.path("conf.db").exists() {
            assert!(Path::new(SCHEMA).exists(), "{SCHEMA} is not there: run `make deps`");
            directory.ovsdb_tool(&["create", "conf.db", SCHEMA]).ok();
        }
        let log = format!("--log-file={}", directory.path("ovsdb-server.log").display());
        let child = directory
            .command("ovsdb-server")
            .args(["--remote=punix:db.sock", "--unixctl=ovsdb-server.ctl", "-vconsole:off"])
            .args([&log, "conf.db"])
            .spawn()
            .unwrap_or_else(|error| panic!("ovsdb-server: {error}: run `make deps`"));
        let running = Running::from_child(child);
        wait_until("ovsdb-server serves db.sock", || {
            UnixStream::connect(directory.path("db.sock")).is_ok()
        });
        Self { running }
    }

    /// The process.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// Ends the server as an operator would.
    pub fn stop(self) {
        self.running.signal(Signal::TERM);
        assert!(self.running.has_ended(LIMIT), "ovsdb-server ignores SIGTERM");
    }
}
