//! What a packet is to the datapath: the key extracted from it, masks that make some of the key
//! irrelevant, and the text form of both.

pub(crate) mod attribute;
mod compose;
mod convert;
mod extract;
mod field;
pub(crate) mod flags;
#[cfg(test)]
pub(crate) mod generate;
mod hash;
mod key;
mod mask;
mod metadata;
pub(crate) mod parse;
pub mod path_hash;
mod ports;
pub(crate) mod scan;
pub(crate) mod text;
pub(crate) mod tunnel_text;
mod ufid;

#[cfg(test)]
mod tests;

pub use attribute::Attribute;
pub use compose::{ComposeError, compose, compose_with};
pub use convert::{Fitness, FlowError};
pub use extract::{PacketKey, extract, extract_bytes};
pub use field::{Field, Prerequisite};
pub use hash::five_tuple_hash;
pub use key::{
    ETH_TYPE_NONE, FRAG_ANY, FRAG_LATER, FlowKey, LINE_WORDS, Line, LineSet, MAX_MPLS_LABELS,
    MAX_VLANS, NO_PORT, NshKey, TunnelKey, VlanKey, tunnel_flag,
};
pub use mask::FlowMask;
pub(crate) use metadata::MetadataTable;
pub use metadata::{Conntrack, Metadata, OriginalTuple};
pub use parse::{FlowParseError, ParsedFlow, parse_flow, parse_key};
pub use ports::PortNames;
pub use scan::SyntaxError;
pub use text::FlowText;
pub use ufid::Ufid;
