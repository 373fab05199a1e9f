//! Views of protocol headers. They judge nothing: a header is the bytes that are there, whatever
//! they say. Fields are in network byte order and read through their `get` method.

pub mod arp;
pub mod checksum;
pub mod erspan;
pub mod ethernet;
pub mod geneve;
pub mod gre;
pub mod gtpu;
pub mod icmp;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod nsh;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vlan;
pub mod vxlan;

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The header at the front of `bytes` and what follows it, or nothing when `bytes` is shorter.
#[inline]
pub fn split<T>(bytes: &[u8]) -> Option<(&T, &[u8])>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(bytes).ok()
}

/// The header at the front of `bytes`, for changing it, and what follows it.
#[inline]
pub fn split_mut<T>(bytes: &mut [u8]) -> Option<(&mut T, &mut [u8])>
where
    T: FromBytes + zerocopy::IntoBytes + KnownLayout + Immutable + Unaligned,
{
    T::mut_from_prefix(bytes).ok()
}

/// IP protocol numbers (IANA "Protocol Numbers").
pub mod ip_protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// IPv4 inside IP.
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 inside IP.
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// GRE.
    pub const GRE: u8 = 47;
    /// Authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
}
