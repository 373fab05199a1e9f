//! Why a translation came out as it did, for people.

use crate::flow::Flow;
use crate::openflow::action::Nat;

/// What an entry of a trace is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// The packet enters a switch.
    Bridge,
    /// A rule was found, or none.
    Table,
    /// A bucket of a group is executed.
    Bucket,
    /// Translation goes on where it stopped before.
    Thaw,
    /// An action of a rule.
    Action,
    /// What the action did.
    Detail,
    /// Why the packet is dropped.
    Warning,
    /// What is wrong.
    Error,
}

/// An entry of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// What it is about.
    pub kind: TraceKind,
    /// Number of entries before that it is a part of: entries form a tree.
    pub depth: u32,
    /// Its text, in the words of OVS.
    pub text: String,
}

/// The entries in the order of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The entries.
    pub entries: Vec<TraceEntry>,
    /// Whether ports are to be written by name.
    pub names: bool,
    /// Where translation goes on with the packet or a copy of it.
    pub forks: Vec<Fork>,
}

/// A packet that is looked up again after an action of the datapath.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Under which number it is looked up.
    pub recirculation: u32,
    /// The connection tracking zone that it went through.
    pub zone: u16,
    /// Address translation that it went through.
    pub nat: Option<Nat>,
    /// What it is before.
    pub flow: Flow,
}
