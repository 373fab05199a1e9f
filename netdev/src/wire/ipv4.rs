//! IPv4 (RFC 791).

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// Bit of the fragment field that asks routers not to fragment.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// Bit of the fragment field that says that more fragments follow.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Bits of the fragment field that hold the offset, in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// The header without options.
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
pub struct Ipv4Header {
    /// Version (4 bits) and header length in words of 4 bytes (4 bits).
    pub version_length: u8,
    /// Type of service: DSCP (6 bits) and ECN (2 bits).
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_length: U16,
    /// Identification, the same in all fragments of a packet.
    pub identification: U16,
    /// Flags (3 bits) and fragment offset (13 bits).
    pub fragment: U16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Header checksum.
    pub checksum: U16,
    /// Source address.
    pub source: U32,
    /// Destination address.
    pub destination: U32,
}

impl Ipv4Header {
    /// Value of `version_length` of a header without options.
    pub const PLAIN: u8 = 0x45;

    /// Bytes of the header with options, as it says itself.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(self.version_length & 0x0f) * 4
    }
}
