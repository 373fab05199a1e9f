//! VXLAN (RFC 7348) and its extensions.

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// The header.
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
pub struct VxlanHeader {
    /// Flags; extensions use the lower bits too.
    pub flags: U32,
    /// Network identifier (24 bits) and reserved (8 bits).
    pub vni: U32,
}
