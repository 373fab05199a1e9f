//! ARP and RARP for IPv4 over Ethernet (RFC 826, RFC 903).

use super::ethernet::MacAddress;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Operation of an ARP request.
pub const REQUEST: u16 = 1;
/// Operation of an ARP reply.
pub const REPLY: u16 = 2;

/// An ARP packet, with addresses of the sizes that Ethernet and IPv4 have.
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
pub struct ArpHeader {
    /// Hardware: 1 is Ethernet.
    pub hardware: U16,
    /// Protocol, as an Ethertype.
    pub protocol: U16,
    /// Bytes of a hardware address: 6 for Ethernet.
    pub hardware_length: u8,
    /// Bytes of a protocol address: 4 for IPv4.
    pub protocol_length: u8,
    /// What is asked or said.
    pub operation: U16,
    /// Ethernet address of the sender.
    pub source_mac: MacAddress,
    /// IPv4 address of the sender.
    pub source_ip: U32,
    /// Ethernet address of the target.
    pub target_mac: MacAddress,
    /// IPv4 address of the target.
    pub target_ip: U32,
}
