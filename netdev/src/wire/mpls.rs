//! MPLS label stacks (RFC 3032 section 2.1).

use super::ethernet::ether_type;
use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bit of an entry that says that it is the last.
pub const BOTTOM: u32 = 0x100;

/// One entry: label (20 bits), traffic class (3 bits), bottom of stack (1 bit), time to live
/// (8 bits).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct MplsEntry(pub U32);

/// Whether an Ethertype announces a label stack.
#[inline]
pub fn is_mpls(ether_type: u16) -> bool {
    matches!(ether_type, ether_type::MPLS | ether_type::MPLS_MULTICAST)
}
