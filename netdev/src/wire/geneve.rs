//! Geneve (RFC 8926).

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// Most bytes of options.
pub const MAX_OPTIONS: usize = 252;

/// Bit of `control_critical` that marks a control packet.
pub const CONTROL: u8 = 0x80;
/// Bit of `control_critical` that marks options that must be understood.
pub const CRITICAL: u8 = 0x40;

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
pub struct GeneveHeader {
    /// Version (2 bits) and length of options in words of 4 bytes (6 bits).
    pub version_length: u8,
    /// [`CONTROL`], [`CRITICAL`], reserved (6 bits).
    pub control_critical: u8,
    /// Ethertype of the packet inside.
    pub protocol: U16,
    /// Network identifier (24 bits) and reserved (8 bits).
    pub vni: U32,
}

impl GeneveHeader {
    /// Bytes of options, as the header says.
    pub fn options_length(&self) -> usize {
        usize::from(self.version_length & 0x3f) * 4
    }
}

/// Front of an option, which its data follows.
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
pub struct GeneveOption {
    /// Who defines the type.
    pub class: U16,
    /// Type, with [`GeneveOption::CRITICAL`].
    pub option_type: u8,
    /// Reserved (3 bits) and length of the data in words of 4 bytes (5 bits).
    pub length: u8,
}

impl GeneveOption {
    /// Bit of `option_type`: the option must be understood.
    pub const CRITICAL: u8 = 0x80;

    /// Bytes of data, as the option says.
    pub fn data_length(&self) -> usize {
        usize::from(self.length & 0x1f) * 4
    }
}
