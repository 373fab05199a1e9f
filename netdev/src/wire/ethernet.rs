//! Ethernet II and 802.3 frames (IEEE 802.3 clause 3).

use std::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};
/// Smallest value of the type field that is an Ethertype; below it is the length of a frame in
/// 802.3 form.
pub const MIN_TYPE: u16 = 0x600;

/// Ethertypes (IANA "IEEE 802 Numbers").
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// Transparent Ethernet bridging, inside GRE and Geneve.
    pub const TEB: u16 = 0x6558;
    /// Reverse ARP.
    pub const RARP: u16 = 0x8035;
    /// 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS.
    pub const MPLS: u16 = 0x8847;
    /// MPLS with an upstream-assigned label.
    pub const MPLS_MULTICAST: u16 = 0x8848;
    /// 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// Network service header.
    pub const NSH: u16 = 0x894f;
}

/// An Ethernet address.
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
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Whether every bit is 0.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 6]
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// The header of a frame.
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
pub struct EthernetHeader {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// Ethertype, or length below [`MIN_TYPE`].
    pub ether_type: U16,
}

/// LLC header with a SNAP extension, which gives an 802.3 frame an Ethertype (RFC 1042).
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
pub struct SnapHeader {
    /// LLC service access points and control: [`SnapHeader::LLC`] when SNAP follows.
    pub llc: [u8; 3],
    /// Organisation that defines `ether_type`; 0 is Ethernet.
    pub organisation: [u8; 3],
    /// Ethertype.
    pub ether_type: U16,
}

impl SnapHeader {
    /// Value of `llc` that announces SNAP.
    pub const LLC: [u8; 3] = [0xaa, 0xaa, 0x03];
}
