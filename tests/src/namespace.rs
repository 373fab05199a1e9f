//! Network namespaces, in which a test has devices of its own.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Output;

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
    pub(crate) fn new() -> Self {
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
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}
