//! ICMP (RFC 792).

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// Type of an echo reply.
pub const ECHO_REPLY: u8 = 0;
/// Type of an echo request.
pub const ECHO_REQUEST: u8 = 8;

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
pub struct IcmpHeader {
    /// Type.
    pub message_type: u8,
    /// Code.
    pub code: u8,
    /// Checksum over header and data.
    pub checksum: U16,
    /// What depends on the type.
    pub data: [u8; 4],
}
