//! ICMPv6 (RFC 4443) and neighbour discovery (RFC 4861).

use super::ethernet::MacAddress;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 128;
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 129;
/// Type of a neighbour solicitation.
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Type of a neighbour advertisement.
pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// Type of the option with the sender's link-layer address.
pub const SOURCE_LINK_ADDRESS: u8 = 1;
/// Type of the option with the target's link-layer address.
pub const TARGET_LINK_ADDRESS: u8 = 2;

/// The header. Flags and reserved bits of neighbour discovery are in `data`; the target address
/// (16 bytes) and options follow.
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
pub struct Icmpv6Header {
    /// Type.
    pub message_type: u8,
    /// Code.
    pub code: u8,
    /// Checksum over pseudo header, header and data.
    pub checksum: U16,
    /// What depends on the type.
    pub data: U32,
}

/// A link-layer address option for Ethernet, and the smallest form of any option.
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
pub struct LinkAddressOption {
    /// Type.
    pub option_type: u8,
    /// Length in units of 8 bytes.
    pub length: u8,
    /// Address.
    pub address: MacAddress,
}
