//! `ovsdb-server/*`: the embedded database.

use crate::appctl::registry::Command;

pub(super) const COMMANDS: &[Command] = &[];
