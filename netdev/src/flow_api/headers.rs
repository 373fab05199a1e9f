//! The header fields that rules can match on, each at a fixed place.

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute_mut, transmute_ref};

use crate::wire::ethernet::MacAddress;

/// Words of 64 bits in [`HeaderFields`].
pub const HEADER_WORDS: usize = 17;

/// A VLAN tag.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct VlanFields {
    /// Priority (3 bits), 1 when there is a tag, VLAN (12 bits).
    pub tci: U16,
    /// Tag protocol; 0 when there is no tag.
    pub tpid: U16,
}

/// Headers from Ethernet to transport. What a packet does not have is 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C, align(8))]
pub struct LayerFields {
    /// Ethernet destination.
    pub eth_dst: MacAddress,
    /// Ethernet source.
    pub eth_src: MacAddress,
    /// Ethertype behind VLAN tags.
    pub eth_type: U16,
    /// VLAN tags, outermost first.
    pub vlans: [VlanFields; 2],
    /// 1: a fragment; 2: and not the first.
    pub ip_frag: u8,
    /// Protocol behind the IP header.
    pub ip_proto: u8,
    /// IPv4 type of service or IPv6 traffic class.
    pub ip_tos: u8,
    /// Time to live or hop limit.
    pub ip_ttl: u8,
    /// Source address; one of IPv4 in the first four bytes.
    pub ip_src: [u8; 16],
    /// Destination address, likewise.
    pub ip_dst: [u8; 16],
    /// Source port of TCP, UDP and SCTP; type of ICMP and ICMPv6.
    pub tp_src: U16,
    /// Destination port; code.
    pub tp_dst: U16,
    /// TCP flags, 12 bits.
    pub tcp_flags: U16,
}

/// A tunnel that packets are taken out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TunnelKind {
    /// RFC 7348.
    Vxlan = 1,
    /// RFC 8926.
    Geneve = 2,
    /// RFC 2890.
    Gre = 3,
}

/// What a packet has between its outer and inner headers. All 0 for one without a tunnel.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct TunnelFields {
    /// A [`TunnelKind`], or 0.
    pub kind: u8,
    /// [`TunnelFields::DONT_FRAGMENT`] and [`TunnelFields::CHECKSUM`].
    pub flags: u8,
    reserved: [u8; 2],
    /// Network identifier: VNI, GRE key.
    pub id: U32,
}

/// The fields that rules can match on. The same layout holds values and masks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable,
)]
#[repr(C)]
pub struct HeaderFields {
    /// The outermost headers.
    pub outer: LayerFields,
    /// The tunnel behind them.
    pub tunnel: TunnelFields,
    /// The headers inside the tunnel.
    pub inner: LayerFields,
}

const _: () = assert!(size_of::<HeaderFields>() == HEADER_WORDS * 8);

impl HeaderFields {
    /// The fields as words.
    #[inline]
    pub fn words(&self) -> &[u64; HEADER_WORDS] {
        transmute_ref!(self)
    }

    /// The fields as words, for changing them.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u64; HEADER_WORDS] {
        transmute_mut!(self)
    }

    /// Whether each bit that is set in `self` is set in `mask`.
    pub fn is_within(&self, mask: &Self) -> bool {
        self.words().iter().zip(mask.words()).all(|(word, mask)| word & !mask == 0)
    }
}

impl TunnelFields {
    /// The outer IPv4 header forbids fragmentation.
    pub const DONT_FRAGMENT: u8 = 1;
    /// The outer UDP header has a checksum.
    pub const CHECKSUM: u8 = 2;

    /// The mask under which kind and network matter.
    pub fn mask() -> Self {
        Self { kind: u8::MAX, flags: 0, reserved: [0; 2], id: U32::MAX_VALUE }
    }

    /// A tunnel of this kind and network.
    pub fn new(kind: TunnelKind, id: u32) -> Self {
        Self { kind: kind as u8, flags: 0, reserved: [0; 2], id: U32::new(id) }
    }
}
