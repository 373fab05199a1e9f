//! Network namespaces, in which a test has devices of its own.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Output;

/// Whether this test can make namespaces; says so when it cannot.
#[expect(clippy::print_stdout, reason = "whoever runs the tests is to know what was skipped")]
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: only root can create network namespaces");
    }
    root
}

/// A network namespace, deleted on drop together with the devices that belong to it alone.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new namespace with its loopback up.
    ///
    /// # Panics
    /// When it cannot be created: only root can.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it changes the system")]
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-{}-{count}", std::process::id());
        Output::of(Command::new("ip").args(["netns", "add", &name])).ok();
        let namespace = Self { name };
        Output::of(Command::new("ip").args(["-n", &namespace.name, "link", "set", "lo", "up"]))
            .ok();
        namespace
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs a program inside.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Output::of(self.command(program).args(arguments))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}
