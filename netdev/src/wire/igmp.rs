//! IGMP (RFC 2236; the front of version 3 messages is the same).

use zerocopy::network_endian::{U16, U32};
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
pub struct IgmpHeader {
    /// Type.
    pub message_type: u8,
    /// Response time, or code.
    pub code: u8,
    /// Checksum over the message.
    pub checksum: U16,
    /// Group address.
    pub group: U32,
}
