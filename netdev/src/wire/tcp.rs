//! TCP (RFC 9293).

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// Flag: the sender has no more data.
pub const FIN: u16 = 0x001;
/// Flag: synchronise sequence numbers.
pub const SYN: u16 = 0x002;
/// Flag: reset the connection.
pub const RST: u16 = 0x004;
/// Bits of `offset_flags` that hold the flags, reserved ones included.
pub const FLAGS_MASK: u16 = 0x0fff;

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
pub struct TcpHeader {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Sequence number.
    pub sequence: U32,
    /// Acknowledgement number.
    pub acknowledgement: U32,
    /// Header length in words of 4 bytes (4 bits) and flags (12 bits).
    pub offset_flags: U16,
    /// Receive window.
    pub window: U16,
    /// Checksum over pseudo header, header and data.
    pub checksum: U16,
    /// Urgent pointer.
    pub urgent: U16,
}

impl TcpHeader {
    /// Bytes of the header with options, as it says itself.
    #[inline]
    pub fn header_length(&self) -> usize {
        usize::from(self.offset_flags.get() >> 12) * 4
    }
}
