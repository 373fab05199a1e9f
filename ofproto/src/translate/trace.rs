//! Why a translation came out as it did, for people.

/// What an entry of a trace is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// The packet enters a switch.
    Bridge,
    /// A rule was found, or none.
    Table,
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
    /// Patch ports that the packet went through before, or rules that led to this one.
    pub depth: u32,
    /// Its text, in the words of OVS.
    pub text: String,
}

/// The entries in the order of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The entries.
    pub entries: Vec<TraceEntry>,
}
