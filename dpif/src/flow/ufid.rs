//! Names of flows.

/// Name of a flow, unique within a thread of a datapath.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ufid(pub u128);
