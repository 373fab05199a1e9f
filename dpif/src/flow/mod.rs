//! What a packet is to the datapath: the key extracted from it, masks that make some of the key
//! irrelevant, and the text form of both.

mod extract;
mod field;
mod hash;
mod key;
mod mask;
mod metadata;
mod ufid;

pub use extract::{PacketKey, extract, extract_bytes};
pub use field::{Field, Prerequisite};
pub use hash::five_tuple_hash;
pub use key::{
    ETH_TYPE_NONE, FRAG_ANY, FRAG_LATER, FlowKey, LINE_WORDS, Line, LineSet, MAX_MPLS_LABELS,
    MAX_VLANS, NO_PORT, NshKey, TunnelKey, VlanKey, tunnel_flag,
};
pub use mask::FlowMask;
pub use metadata::{Conntrack, Metadata, OriginalTuple};
pub use ufid::Ufid;
