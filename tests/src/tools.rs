//! Where the programs are, and short ways to run the tools in a [`Directory`].

use std::path::PathBuf;

use crate::{Directory, Output};

/// One of our programs, built beside this test.
///
/// # Panics
/// When it was not built.
#[track_caller]
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    // target/PROFILE/deps/TEST
    let profile = test.parent().and_then(|path| path.parent()).expect("a target directory");
    let path = profile.join(name);
    assert!(
        path.exists(),
        "{} is not there: build it with `cargo build --workspace --bins --examples`",
        path.display()
    );
    path
}

impl Directory {
    /// Runs `ovs-vsctl ARGS` against `db.sock` here.
    #[track_caller]
    pub fn vsctl(&self, args: &[&str]) -> Output {
        Output::of(self.command("ovs-vsctl").args(args))
    }

    /// Runs `ovs-vsctl` for one command per line of `script`.
    #[track_caller]
    pub fn vsctl_script(&self, script: &str) -> Output {
        let words = script.lines().map(str::split_whitespace).map(Iterator::collect::<Vec<_>>);
        let args = words.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(&"--");
        self.vsctl(&args)
    }

    /// Runs `ovs-appctl -t TARGET ARGS`.
    #[track_caller]
    pub fn ovs_appctl(&self, target: &str, args: &[&str]) -> Output {
        Output::of(self.command("ovs-appctl").args(["-t", target]).args(args))
    }

    /// Runs `sluice-appctl ARGS`.
    #[track_caller]
    pub fn sluice_appctl(&self, args: &[&str]) -> Output {
        Output::of(self.command(program("sluice-appctl")).args(args))
    }

    /// Runs `ovsdb-client ARGS`.
    #[track_caller]
    pub fn ovsdb_client(&self, args: &[&str]) -> Output {
        Output::of(self.command("ovsdb-client").args(args))
    }

    /// Runs `ovsdb-tool ARGS`.
    #[track_caller]
    pub fn ovsdb_tool(&self, args: &[&str]) -> Output {
        Output::of(self.command("ovsdb-tool").args(args))
    }

    /// Runs `ip ARGS`.
    #[track_caller]
    pub fn ip(&self, args: &[&str]) -> Output {
        Output::of(self.command("ip").args(args))
    }

    /// Whether a tool can reach a server on `db.sock` here.
    pub fn has_database(&self) -> bool {
        std::os::unix::net::UnixStream::connect(self.path("db.sock")).is_ok()
    }
}
