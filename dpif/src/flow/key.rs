//! The flow key: every field that the datapath can match on, at a fixed place.
//!
//! The key is an array of cache lines ("lines") of 64-bit words, so that masking, comparing and
//! hashing are loops over words. The first line has all that a flow without tunnel, connection
//! tracking and IPv6 can set. Its fields lie where an Ethernet frame with a plain IPv4 header and
//! TCP or UDP has them, so that the key of such a frame is its first 48 bytes with some masked
//! out; what the frame does not have takes the places of header bytes that are not matched on.
//!
//! All fields are in network byte order.

use std::fmt;
use std::mem::offset_of;

use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::mpls;
use zerocopy::network_endian::{U16, U32, U64};
use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned, transmute_mut,
    transmute_ref,
};

use super::field::Field;

/// Value of `eth_type` for an 802.3 frame without an Ethertype.
pub const ETH_TYPE_NONE: u16 = 0x5ff;
/// Value of `in_port` for a packet that came in on no port.
pub const NO_PORT: u32 = u32::MAX;
/// Bit of `ip_frag`: the packet is a fragment.
pub const FRAG_ANY: u8 = 1;
/// Bit of `ip_frag`: the packet is a fragment other than the first.
pub const FRAG_LATER: u8 = 2;
/// VLAN tags in a key.
pub const MAX_VLANS: usize = 2;
/// MPLS labels in a key.
pub const MAX_MPLS_LABELS: usize = 3;

/// Words of a line.
pub const LINE_WORDS: usize = 8;
/// Lines of a key.
const LINES: usize = 9;

/// Flags of [`TunnelKey::flags`].
pub mod tunnel_flag {
    /// Control packet (Geneve "OAM").
    pub const OAM: u16 = 1;
    /// The outer header forbids fragmentation.
    pub const DONT_FRAGMENT: u16 = 2;
    /// The outer header has a checksum.
    pub const CSUM: u16 = 4;
    /// The tunnel header has an identifier.
    pub const KEY: u16 = 8;
    /// All of them.
    pub const ALL: u16 = 15;
}

/// A VLAN tag.
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
pub struct VlanKey {
    /// Priority (3 bits), 1 when there is a tag, VLAN (12 bits).
    pub tci: U16,
    /// Tag protocol.
    pub tpid: U16,
}

/// Network service header.
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
pub struct NshKey {
    /// Flags.
    pub flags: u8,
    /// Time to live.
    pub ttl: u8,
    /// Metadata type.
    pub md_type: u8,
    /// Next protocol.
    pub next_protocol: u8,
    /// Service path (24 bits) and service index (8 bits).
    pub path: U32,
    /// Context of metadata type 1.
    pub context: [U32; 4],
}

/// The tunnel through which a packet came or is to go.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TunnelKey {
    /// Tunnel identifier: VNI, GRE key.
    pub id: U64,
    /// Outer IPv4 source address; 0 for IPv6.
    pub ipv4_src: U32,
    /// Outer IPv4 destination address; 0 for IPv6.
    pub ipv4_dst: U32,
    /// Outer IPv6 source address; 0 for IPv4.
    pub ipv6_src: [u8; 16],
    /// Outer IPv6 destination address; 0 for IPv4.
    pub ipv6_dst: [u8; 16],
    /// See [`tunnel_flag`].
    pub flags: U16,
    /// Outer type of service or traffic class.
    pub tos: u8,
    /// Outer time to live or hop limit.
    pub ttl: u8,
    /// Outer source port.
    pub tp_src: U16,
    /// Outer destination port.
    pub tp_dst: U16,
    /// VXLAN group policy.
    pub gbp_id: U16,
    /// VXLAN group policy flags.
    pub gbp_flags: u8,
    /// ERSPAN version; 0 is none.
    pub erspan_version: u8,
    /// ERSPAN version 1 port index.
    pub erspan_index: U32,
    /// ERSPAN version 2 direction.
    pub erspan_dir: u8,
    /// ERSPAN version 2 hardware identifier.
    pub erspan_hwid: u8,
    /// GTP-U flags.
    pub gtpu_flags: u8,
    /// GTP-U message type.
    pub gtpu_message_type: u8,
    /// Bytes of Geneve options.
    pub options_length: u8,
    reserved: [u8; 3],
    /// Geneve options as on the wire; 0 behind `options_length`.
    pub options: [u8; 252],
}

impl Default for TunnelKey {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl TunnelKey {
    /// Whether there is a tunnel: an outer address is set.
    pub fn is_set(&self) -> bool {
        let ipv4 = self.ipv4_src.get() | self.ipv4_dst.get();
        ipv4 != 0 || self.ipv6_src != [0; 16] || self.ipv6_dst != [0; 16]
    }

    /// Whether it has an outer destination address, as every received packet's has.
    pub fn has_destination(&self) -> bool {
        self.ipv4_dst.get() != 0 || self.ipv6_dst != [0; 16]
    }

    /// The Geneve options that are set.
    pub fn used_options(&self) -> &[u8] {
        self.options.get(..self.options_length.into()).unwrap_or(&self.options)
    }
}

/// The flow key: every field at a fixed place, in network byte order. Its first line lies like the
/// front of a frame. The same layout holds the bits of a mask.
#[derive(Clone, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub struct FlowKey {
    // Line 0.
    /// Ethernet destination.
    pub eth_dst: MacAddress,
    /// Ethernet source.
    pub eth_src: MacAddress,
    /// Ethertype behind VLAN tags, or [`ETH_TYPE_NONE`].
    pub eth_type: U16,
    /// [`FRAG_ANY`] and [`FRAG_LATER`].
    pub ip_frag: u8,
    /// IPv4 type of service or IPv6 traffic class.
    pub ip_tos: u8,
    /// Datapath port, or [`NO_PORT`].
    pub in_port: U32,
    /// Name space of `packet_type`: 0 for a packet that starts with Ethernet, 1 for one that
    /// starts with the header that `packet_type` says.
    pub packet_namespace: U16,
    /// Time to live or hop limit.
    pub ip_ttl: u8,
    /// Protocol behind the IP header and its extensions; the operation of ARP.
    pub ip_proto: u8,
    /// Ethertype of a packet in name space 1.
    pub packet_type: U16,
    /// IPv4 source; sender of ARP.
    pub ipv4_src: U32,
    /// IPv4 destination; target of ARP.
    pub ipv4_dst: U32,
    /// Source port of TCP, UDP and SCTP; type of ICMP, ICMPv6 and IGMP.
    pub tp_src: U16,
    /// Destination port; code.
    pub tp_dst: U16,
    /// VLAN tags, outermost first.
    pub vlans: [VlanKey; MAX_VLANS],
    /// TCP flags, 12 bits.
    pub tcp_flags: U16,
    /// Recirculation that the packet continues.
    pub recirc_id: U32,
    /// Hash computed by a hash action.
    pub dp_hash: U32,
    /// Packet mark.
    pub skb_mark: U32,
    /// Quality of service class.
    pub skb_priority: U32,
    // Line 1.
    /// Connection state, one bit each.
    pub ct_state: u8,
    /// Protocol of the original direction of the connection; 0 when it is not known.
    pub ct_proto: u8,
    /// Connection tracking zone.
    pub ct_zone: U16,
    /// Connection mark.
    pub ct_mark: U32,
    /// Connection labels, most significant byte first.
    pub ct_label: [u8; 16],
    /// IPv6 source.
    pub ipv6_src: [u8; 16],
    /// IPv6 destination.
    pub ipv6_dst: [u8; 16],
    /// IPv6 flow label, 20 bits.
    pub ipv6_label: U32,
    /// Group of IGMP; flags and reserved bits of neighbour discovery.
    pub igmp_group: U32,
    // Line 2.
    /// Target of neighbour discovery.
    pub nd_target: [u8; 16],
    /// Sender's hardware address in ARP; source link-layer address option.
    pub arp_sha: MacAddress,
    /// Target's hardware address in ARP; target link-layer address option.
    pub arp_tha: MacAddress,
    /// MPLS label stack entries, outermost first.
    pub mpls: [U32; MAX_MPLS_LABELS],
    /// Network service header.
    pub nsh: NshKey,
    // Line 3 on.
    /// IPv4 source of the original direction of the connection.
    pub ct_ipv4_src: U32,
    /// IPv4 destination of the original direction.
    pub ct_ipv4_dst: U32,
    /// IPv6 source of the original direction.
    pub ct_ipv6_src: [u8; 16],
    /// IPv6 destination of the original direction.
    pub ct_ipv6_dst: [u8; 16],
    /// Source port, or ICMP type, of the original direction.
    pub ct_tp_src: U16,
    /// Destination port, or ICMP code, of the original direction.
    pub ct_tp_dst: U16,
    /// Type of the first link-layer address option of neighbour discovery.
    pub nd_option: u8,
    reserved: [u8; 3],
    /// The tunnel through which the packet came.
    pub tunnel: TunnelKey,
    reserved_end: [u8; 12],
}

/// One line of a key.
pub type Line = [u64; LINE_WORDS];

const _: () = assert!(size_of::<FlowKey>() == LINES * size_of::<Line>());

impl Default for FlowKey {
    fn default() -> Self {
        Self::new_zeroed()
    }
}

impl FlowKey {
    /// The key as words.
    #[inline]
    pub fn lines(&self) -> &[Line; LINES] {
        transmute_ref!(self)
    }

    /// The key as words, for changing it.
    #[inline]
    pub fn lines_mut(&mut self) -> &mut [Line; LINES] {
        transmute_mut!(self)
    }

    /// The value of a field, right-aligned.
    pub fn get(&self, field: Field) -> u128 {
        let bytes = self.as_bytes().get(field.range()).unwrap_or(&[]);
        bytes.iter().fold(0, |value, byte| value << 8 | u128::from(*byte))
    }

    /// Sets a field to the lower bits of `value`.
    pub fn set(&mut self, field: Field, value: u128) {
        let bytes = self.as_mut_bytes().get_mut(field.range()).unwrap_or(&mut []);
        for (byte, value) in bytes.iter_mut().rev().zip(value.to_le_bytes()) {
            *byte = value;
        }
    }

    /// Whether the packet is IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        matches!(self.eth_type.get(), ether_type::IPV4 | ether_type::IPV6)
    }

    /// Whether the packet starts with an Ethernet header.
    pub fn is_ethernet(&self) -> bool {
        self.packet_namespace.get() == 0 && self.packet_type.get() == 0
    }

    /// Number of MPLS labels in the key: up to the bottom of the stack, or as many as are set.
    pub fn mpls_labels(&self) -> usize {
        if !mpls::is_mpls(self.eth_type.get()) {
            return 0;
        }
        let bottom = self.mpls.iter().position(|entry| entry.get() & mpls::BOTTOM != 0);
        let set = || self.mpls.iter().filter(|entry| entry.get() != 0).count();
        bottom.map_or_else(set, |last| last + 1)
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_map();
        for field in Field::ALL.iter().filter(|field| self.get(**field) != 0) {
            set.entry(&field.name(), &format_args!("{:#x}", self.get(*field)));
        }
        if !self.tunnel.used_options().is_empty() {
            set.entry(&"tun_options", &self.tunnel.used_options());
        }
        set.finish()
    }
}

impl fmt::Debug for TunnelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        FlowKey { tunnel: *self, ..FlowKey::default() }.fmt(f)
    }
}

/// Some of the lines of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineSet(u16);

impl LineSet {
    /// The first line alone.
    pub const FIRST: Self = Self(1);

    /// The lines in which `key` has a bit set.
    pub fn used_by(key: &FlowKey) -> Self {
        let lines = key.lines().iter().enumerate();
        lines.fold(Self(0), |set, (index, line)| set.with_if(*line != [0; LINE_WORDS], index))
    }

    /// The lines of the tunnel, options included.
    pub const TUNNEL: Self = {
        let start = offset_of!(FlowKey, tunnel);
        Self::of_bytes(start, start + size_of::<TunnelKey>())
    };

    /// The line or lines of a field.
    pub const fn of(field: Field) -> Self {
        let range = field.range();
        Self::of_bytes(range.start, range.end)
    }

    const fn of_bytes(start: usize, end: usize) -> Self {
        let (first, last) = (start / size_of::<Line>(), (end - 1) / size_of::<Line>());
        Self((2 << last) - (1 << first))
    }

    fn with_if(self, condition: bool, index: usize) -> Self {
        Self(self.0 | u16::from(condition) << index)
    }

    /// Lines of either set.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Lines of this set that are not in `other`.
    #[inline]
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether every line of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// Whether a line is in both sets.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there is no line.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The indices of the lines, lowest first.
    #[inline]
    pub fn indices(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let index = left.trailing_zeros() as usize;
            left &= left.wrapping_sub(1);
            (index < LINES).then_some(index)
        })
    }
}
