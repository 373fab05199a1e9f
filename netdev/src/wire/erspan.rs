//! ERSPAN (draft-foschiano-erspan-03) behind the header of GRE.

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::gre::GreHeader;

/// GRE's header with a sequence number, and the front of ERSPAN's, which the metadata of a version
/// follows.
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
pub struct ErspanHeader {
    /// GRE, which says that a sequence number follows.
    pub gre: GreHeader,
    /// Sequence number.
    pub sequence: U32,
    /// Version (4 bits), VLAN (12 bits).
    pub version_vlan: U16,
    /// Class (3 bits), encapsulation (2 bits), truncated (1 bit), session (10 bits).
    pub session: U16,
}

/// Bits of [`ErspanHeader::session`] that hold the session.
pub const SESSION_MASK: u16 = 0x3ff;
/// Bits of the port index that is the metadata of version 1; the others are reserved.
pub const INDEX_MASK: u32 = 0xf_ffff;

/// Metadata of version 2.
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
pub struct ErspanMetadata {
    /// Time, in units that the granularity says.
    pub timestamp: U32,
    /// Security group.
    pub group: U16,
    /// Flags (6 bits), hardware identifier (6 bits), direction (1 bit), granularity (2 bits),
    /// option (1 bit).
    pub hardware: U16,
}

impl ErspanMetadata {
    /// The half word that holds the hardware identifier and the direction.
    pub fn hardware_of(hardware: u8, direction: u8) -> U16 {
        U16::new(u16::from(hardware & 0x3f) << 4 | u16::from(direction & 1) << 3)
    }

    /// Hardware identifier.
    pub fn hardware_id(&self) -> u8 {
        (self.hardware.get() >> 4 & 0x3f) as u8
    }

    /// Direction: 0 towards the switch, 1 from it.
    pub fn direction(&self) -> u8 {
        (self.hardware.get() >> 3 & 1) as u8
    }
}
