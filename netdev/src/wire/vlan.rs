//! VLAN tags (IEEE 802.1Q clause 9).

use super::ethernet::ether_type;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bit of the tag control information that says "drop eligible". Flow keys set it to say that
/// there is a tag.
pub const CFI: u16 = 0x1000;
/// Bits of the tag control information that hold the VLAN.
pub const VID_MASK: u16 = 0x0fff;
/// Lowest of the three bits that hold the priority.
pub const PCP_SHIFT: u16 = 13;

/// A tag: what stands in place of the type field, with the tag control information behind it.
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
pub struct VlanHeader {
    /// Tag protocol: one of the Ethertypes of [`is_tag`].
    pub tpid: U16,
    /// Priority (3 bits), drop eligible (1 bit), VLAN (12 bits).
    pub tci: U16,
}

/// Whether an Ethertype announces a tag.
#[inline]
pub fn is_tag(ether_type: u16) -> bool {
    matches!(ether_type, ether_type::VLAN | ether_type::SERVICE_VLAN)
}
