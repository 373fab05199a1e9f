//! Poll mode driver threads, "PMD threads": each polls receive queues and runs the whole packet
//! path on what they deliver.
//!
//! A thread owns everything that it looks at per packet. Others change it through a mailbox.

pub mod assign;
mod lookup;
pub(crate) mod mailbox;
pub(crate) mod pipeline;
pub mod statistics;
pub(crate) mod thread;
pub(crate) mod transmit;
pub(crate) mod worker;

pub use mailbox::Ended;
pub use worker::Knobs;
