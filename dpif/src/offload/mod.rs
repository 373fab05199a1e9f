//! Flows in the hardware of ports.
//!
//! The packet path is right without any of this: taking every rule out of hardware at any time is
//! legal and only slower. With it, hardware that matches a flow hands its packets over with a
//! mark, and these need neither key nor look-up; hardware that can do all that a flow does keeps
//! its packets.
//!
//! On each poll thread an `OffloadStage` comes first on the way of a batch (recovery, then marks),
//! and offers the flows that the thread installs to offload workers. A worker owns an `Engine`,
//! which has one `Rule` per port and megaflow and asks the ports' hardware (`ProviderPort`) for what
//! each of these needs.

pub(crate) mod control;
mod dummy;
mod engine;
mod hardware;
mod inbox;
mod mark;
mod openflow_text;
mod pattern;
mod port_cache;
mod provider;
mod reason;
pub(crate) mod recover;
mod rule;
pub(crate) mod stage;
mod statistics;
mod worker;

#[cfg(test)]
mod bench;
#[cfg(all(test, feature = "model"))]
mod model;
#[cfg(test)]
mod tests;

use netdev::coverage::Counter;

pub use control::{OffloadSettings, PROVIDERS, PortOffload, ProviderStatus};
pub(crate) use mark::{DrainWatch, QueueDrain};
pub(crate) use reason::SharedState;
pub use reason::{OffloadState, Reason};
pub use statistics::WorkerSnapshot;

static MARK_UNKNOWN: Counter = Counter::new("offload_mark_unknown");
static MARK_STALE: Counter = Counter::new("offload_mark_stale");
static MARK_FOREIGN: Counter = Counter::new("offload_mark_foreign");
pub(crate) static RECOVERED: Counter = Counter::new("offload_recovered");
static BACKPRESSURE: Counter = Counter::new("offload_backpressure");
static OFFERED_AGAIN: Counter = Counter::new("offload_offered_again");
static DEVICE_ERROR: Counter = Counter::new("offload_device_error");
static STRAY_COMPLETION: Counter = Counter::new("offload_stray_completion");
static TIMEOUT: Counter = Counter::new("offload_timeout");

/// The event counters of offload.
pub(crate) static COUNTERS: &[&Counter] = &[
    &MARK_UNKNOWN,
    &MARK_STALE,
    &MARK_FOREIGN,
    &RECOVERED,
    &BACKPRESSURE,
    &OFFERED_AGAIN,
    &DEVICE_ERROR,
    &STRAY_COMPLETION,
    &TIMEOUT,
];
