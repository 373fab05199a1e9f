//! GTP-U (3GPP TS 29.281).

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Flag: an N-PDU number is there.
pub const HAS_NUMBER: u8 = 1;
/// Flag: a sequence number is there.
pub const HAS_SEQUENCE: u8 = 2;
/// Flag: the type of an extension header is there.
pub const HAS_EXTENSION: u8 = 4;
/// Flags of a header without any of these: version 1, GTP.
pub const PLAIN: u8 = 0x30;
/// Bits of the flags that are the version, the protocol and reserved.
pub const FIXED_MASK: u8 = 0xf8;
/// Message type: a packet of a user is inside.
pub const USER_PACKET: u8 = 255;

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
pub struct GtpuHeader {
    /// Version (3 bits), protocol (1 bit), reserved (1 bit), and the flags above.
    pub flags: u8,
    /// Message type.
    pub message_type: u8,
    /// Bytes behind this header.
    pub length: U16,
    /// Tunnel endpoint identifier.
    pub teid: U32,
}

/// What follows when one of the flags is set.
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
pub struct GtpuOptions {
    /// Sequence number.
    pub sequence: U16,
    /// N-PDU number.
    pub number: u8,
    /// Type of the extension header that follows; 0 is none.
    pub extension: u8,
}
