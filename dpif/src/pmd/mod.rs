//! Poll mode driver threads, "PMD threads": each polls receive queues and runs the whole packet
//! path on what they deliver.
//!
//! A thread owns everything that it looks at per packet. Others change it through a mailbox.
//!
//! The way of a packet: the thread's `worker` receives a batch and hands it to its `pipeline`,
//! which forwards it by simple match, or extracts keys and has `lookup` ask the caches and the
//! classifier; makes upcalls for what is left; counts; and does what the flows say
//! (`crate::execute`). What leaves waits in `transmit` until the batch is done.

pub mod assign;
mod log;
pub(crate) mod lookup;
pub(crate) mod mailbox;
pub mod metrics;
pub(crate) mod pipeline;
pub mod statistics;
pub(crate) mod steering;
pub(crate) mod thread;
pub(crate) mod transmit;
pub(crate) mod worker;

pub use mailbox::Ended;
pub use worker::Knobs;
