//! GRE (RFC 2784, RFC 2890) and ERSPAN inside it.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// Flag: a checksum (and a reserved half word) follows.
pub const CHECKSUM: u16 = 0x8000;
/// Flag: a key follows.
pub const KEY: u16 = 0x2000;
/// Flag: a sequence number follows.
pub const SEQUENCE: u16 = 0x1000;
/// Ethertype of ERSPAN version 1 (also called type II).
pub const ERSPAN1: u16 = 0x88be;
/// Ethertype of ERSPAN version 2 (also called type III).
pub const ERSPAN2: u16 = 0x22eb;

/// The fixed header; checksum, key and sequence number follow in this order when flagged.
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
pub struct GreHeader {
    /// Flags and version.
    pub flags: U16,
    /// Ethertype of the packet inside.
    pub protocol: U16,
}
