//! The flow API of a port: rules that its hardware matches packets against.
//!
//! It is shaped like the asynchronous flow APIs of NICs (DPDK `rte_flow` with templates). A
//! [`Template`] says once which header bits a group of rules looks at and what kinds of actions
//! they have; the device makes a table of it. A rule then is a table, values, and actions. Rules
//! are put in and taken out through a [`FlowQueue`], which belongs to one thread: `insert`,
//! `update` and `remove` enqueue, `push` rings the bell, `pull` fetches what has become of them,
//! in any order.
//!
//! What a port can do is resolved when it is opened. A queue is one cache line with the way to
//! the device's operations in it; none is ever absent, and those that a device lacks answer
//! [`FlowApiError::Unsupported`]. So a rule costs one call through a pointer, and neither look-up
//! nor lock on the way.

mod action;
mod device;
mod headers;
mod parse;
mod queue;
mod template;

pub use action::{ActionKinds, Edit, Fate, RuleActions};
pub use device::{Capabilities, DeviceId, FlowApiError, FlowDevice, ModifyStyle, RestoreInfo};
pub use headers::{HEADER_WORDS, HeaderFields, LayerFields, TunnelFields, TunnelKind, VlanFields};
pub use parse::Parsed;
pub use queue::{Completion, FlowQueue, RuleCounters, RuleError, RuleId, RuleQueue};
pub use template::{KeyWords, TableId, Template};
