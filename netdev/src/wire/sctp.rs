//! SCTP (RFC 9260 section 3.1).

use zerocopy::little_endian;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// The common header.
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
pub struct SctpHeader {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Verification tag.
    pub tag: [u8; 4],
    /// CRC-32c over the packet with 0 here, least significant byte first.
    pub checksum: little_endian::U32,
}
