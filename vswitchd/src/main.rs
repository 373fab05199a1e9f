//! The switch daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    vswitchd::startup::run()
}
