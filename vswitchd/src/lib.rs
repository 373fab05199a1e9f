//! The daemon around the switch: command line, life cycle, log, database and control socket.

pub mod args;
pub mod directories;
pub mod errno;
pub mod log;
