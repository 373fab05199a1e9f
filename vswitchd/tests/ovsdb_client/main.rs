//! The OVSDB client against the `ovsdb-server` of Open vSwitch. In a process where no test stops the
//! clock, since a client waits before it connects again.

#[cfg(test)]
mod server;
