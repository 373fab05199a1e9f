//! Poll mode driver threads, "PMD threads": each polls receive queues and runs the whole packet
//! path on what they deliver.

pub mod assign;
pub mod statistics;
