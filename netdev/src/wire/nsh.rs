//! Network service header (RFC 8300).

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// Metadata type 1: four context words of fixed size follow.
pub const MD_TYPE1: u8 = 1;
/// Metadata type 2: options of variable size follow.
pub const MD_TYPE2: u8 = 2;
/// Bytes of a whole header of metadata type 1.
pub const MD_TYPE1_LENGTH: usize = 24;

/// Base and service path headers.
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
pub struct NshHeader {
    /// Version (2 bits), flags (2 bits), time to live (6 bits), length in words of 4 bytes
    /// (6 bits).
    pub base: U16,
    /// Metadata type, in the lower 4 bits.
    pub md_type: u8,
    /// What the packet inside is.
    pub next_protocol: u8,
    /// Service path (24 bits) and service index (8 bits).
    pub path: U32,
}

impl NshHeader {
    /// Version; 0 is the only one.
    pub fn version(&self) -> u8 {
        (self.base.get() >> 14) as u8
    }

    /// Flags.
    pub fn flags(&self) -> u8 {
        (self.base.get() >> 12 & 3) as u8
    }

    /// Time to live.
    pub fn ttl(&self) -> u8 {
        (self.base.get() >> 6 & 0x3f) as u8
    }

    /// Bytes of the whole header, as it says itself.
    pub fn length(&self) -> usize {
        usize::from(self.base.get() & 0x3f) * 4
    }

    /// `base` of version 0 from its parts; `length` in bytes, a multiple of 4.
    pub fn base(flags: u8, ttl: u8, length: usize) -> U16 {
        let length = (length / 4) as u16 & 0x3f;
        U16::new(u16::from(flags & 3) << 12 | u16::from(ttl & 0x3f) << 6 | length)
    }
}
