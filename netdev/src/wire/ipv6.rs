//! IPv6 and its extension headers (RFC 8200; authentication header RFC 4302).

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// Bits of the flow label in the first word of the header.
pub const LABEL_MASK: u32 = 0x000f_ffff;

/// The fixed header.
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
pub struct Ipv6Header {
    /// Version (4 bits), traffic class (8 bits), flow label (20 bits).
    pub flow: U32,
    /// Bytes behind this header.
    pub payload_length: U16,
    /// What the next header is.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
}

/// The front of hop-by-hop options, destination options, a routing header or an authentication
/// header. None of them is shorter than 8 bytes.
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
pub struct ExtensionHeader {
    /// What the next header is.
    pub next_header: u8,
    /// Length: in units of 8 bytes, without the first 8; of 4 bytes, without the first 8, in an
    /// authentication header.
    pub length: u8,
    /// What differs.
    pub data: [u8; 6],
}

/// The fragment header.
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
pub struct FragmentHeader {
    /// What the next header of the whole packet is.
    pub next_header: u8,
    /// Reserved.
    pub reserved: u8,
    /// Offset in units of 8 bytes (13 bits), reserved (2 bits), more fragments (1 bit).
    pub offset_more: U16,
    /// Identification, the same in all fragments of a packet.
    pub identification: U32,
}

impl FragmentHeader {
    /// Bits of `offset_more` that hold the offset.
    pub const OFFSET_MASK: u16 = 0xfff8;
}

/// Front of a segment routing header (RFC 8754 section 2), which the segments follow, last first.
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
pub struct SegmentRoutingHeader {
    /// What the next header is.
    pub next_header: u8,
    /// Length in units of 8 bytes, without the first 8.
    pub length: u8,
    /// Routing type: [`SegmentRoutingHeader::TYPE`].
    pub routing_type: u8,
    /// Index of the segment to go to next.
    pub segments_left: u8,
    /// Index of the last segment in the list.
    pub last_entry: u8,
    /// Flags.
    pub flags: u8,
    /// Tag.
    pub tag: U16,
}

impl SegmentRoutingHeader {
    /// Routing type of segment routing.
    pub const TYPE: u8 = 4;
}
