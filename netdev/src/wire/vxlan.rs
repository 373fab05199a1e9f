//! VXLAN (RFC 7348) and its extensions: generic protocol (draft-ietf-nvo3-vxlan-gpe) and group
//! policy (draft-smith-vxlan-group-policy).

use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Flag: there is a network identifier. Always set.
pub const HAS_VNI: u32 = 0x0800_0000;
/// Flag: a group policy is there.
pub const HAS_POLICY: u32 = 0x8000_0000;
/// Flag of a group policy: the source address must not be learned.
pub const DONT_LEARN: u32 = 0x0040_0000;
/// Flag of a group policy: the policy was applied.
pub const POLICY_APPLIED: u32 = 0x0008_0000;
/// Bits that hold the group.
pub const GROUP_MASK: u32 = 0xffff;
/// Flag: the protocol of what is inside is there.
pub const HAS_PROTOCOL: u32 = 0x0400_0000;
/// Flag beside a protocol: a control packet.
pub const CONTROL: u32 = 0x0100_0000;
/// Bits of the version that is beside a protocol.
pub const VERSION_MASK: u32 = 0x3000_0000;
/// Bits that hold the protocol.
pub const PROTOCOL_MASK: u32 = 0xff;

/// Protocols of what is inside.
pub mod next_protocol {
    /// IPv4.
    pub const IPV4: u8 = 1;
    /// IPv6.
    pub const IPV6: u8 = 2;
    /// Ethernet.
    pub const ETHERNET: u8 = 3;
    /// Network service header.
    pub const NSH: u8 = 4;
}

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
