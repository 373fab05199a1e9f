//! The settings of a tunnel.

use std::net::{IpAddr, Ipv6Addr};

use super::TunnelKind;

/// A setting that has a value, or that rules give to each packet (`flow`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PerFlow<T> {
    /// The value for all packets.
    Fixed(T),
    /// Rules say it.
    Flow,
}

impl<T: Copy> PerFlow<T> {
    /// The value for all packets, if there is one.
    pub fn fixed(self) -> Option<T> {
        match self {
            Self::Fixed(value) => Some(value),
            Self::Flow => None,
        }
    }
}

/// A field of the outer header that has a value, or the one of the packet inside (`inherit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherited {
    /// The value for all packets.
    Fixed(u8),
    /// That of the packet inside; the value is for packets other than IP.
    Packet(u8),
}

/// The checksum of the tunnel header, or of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterChecksum {
    /// Nothing was set: over IPv6 there is one, over IPv4 none.
    Default,
    /// Nothing was set, and there is none.
    None,
    /// It was asked for.
    On,
    /// It was asked not to be there.
    Off,
}

/// What packets look like to the rules of the switch, and what packets the tunnel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketMode {
    /// Ethernet frames inside and outside.
    LegacyL2,
    /// Packets of the network layer in the tunnel; Ethernet frames for rules.
    LegacyL3,
    /// Any packet, the type of which rules see.
    Aware,
}

impl PacketMode {
    /// The value of the option `packet_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::LegacyL2 => "legacy_l2",
            Self::LegacyL3 => "legacy_l3",
            Self::Aware => "ptap",
        }
    }
}

/// The flow label of the outer IPv6 header (option `srv6_flowlabel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowLabel {
    /// That of the packet inside if it is IPv6, else one computed.
    Copy,
    /// Zero.
    Zero,
    /// One computed from the packet inside.
    Compute,
}

/// What an ERSPAN header says beside the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErspanConfig {
    /// Version, 1 or 2; 0 when it is not set.
    pub version: PerFlow<u8>,
    /// Port index of version 1, 20 bits.
    pub index: PerFlow<u32>,
    /// Direction of version 2, 0 or 1.
    pub direction: PerFlow<u8>,
    /// Hardware identifier of version 2, 6 bits.
    pub hardware: PerFlow<u8>,
}

/// The settings of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelConfig {
    /// Protocol.
    pub kind: TunnelKind,
    /// The other end.
    pub remote: PerFlow<IpAddr>,
    /// This end; any address when none is set.
    pub local: Option<PerFlow<IpAddr>>,
    /// The key that received packets have; without one it is 0.
    pub in_key: Option<PerFlow<u64>>,
    /// The key that packets are sent with.
    pub out_key: Option<PerFlow<u64>>,
    /// The UDP port to which packets go; 0 for protocols that are not carried in UDP.
    pub udp_port: u16,
    /// Outer time to live.
    pub ttl: Inherited,
    /// Outer type of service, without the bits for congestion.
    pub tos: Inherited,
    /// Checksum.
    pub checksum: OuterChecksum,
    /// Whether packets carry sequence numbers.
    pub has_sequence: bool,
    /// Whether the outer header forbids fragmentation.
    pub dont_fragment: bool,
    /// The packet mark for packets that are sent.
    pub egress_mark: Option<u32>,
    /// What packets it carries.
    pub packet_mode: PacketMode,
    /// Whether VXLAN carries a group policy.
    pub gbp: bool,
    /// Whether VXLAN tells the protocol of what is inside.
    pub gpe: bool,
    /// ERSPAN.
    pub erspan: ErspanConfig,
    /// Segments of a segment routing header, the first one first.
    pub segments: Vec<Ipv6Addr>,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// What is in UDP directly: its Ethertype, and whether related ones are too.
    pub payload: Option<(u16, bool)>,
}

impl TunnelConfig {
    /// The settings of a tunnel whose other end rules choose, where nothing else is set.
    pub fn new(kind: TunnelKind) -> Self {
        Self {
            kind,
            remote: PerFlow::Flow,
            local: None,
            in_key: None,
            out_key: None,
            udp_port: kind.default_udp_port(),
            ttl: Inherited::Fixed(Self::DEFAULT_TTL),
            tos: Inherited::Fixed(0),
            checksum: match kind.has_checksum() && !kind.is_gre() {
                true => OuterChecksum::Default,
                false => OuterChecksum::None,
            },
            has_sequence: false,
            dont_fragment: true,
            egress_mark: None,
            packet_mode: Self::default_mode(kind),
            gbp: false,
            gpe: false,
            erspan: ErspanConfig {
                version: PerFlow::Fixed(0),
                index: PerFlow::Fixed(0),
                direction: PerFlow::Fixed(0),
                hardware: PerFlow::Fixed(0),
            },
            segments: Vec::new(),
            flow_label: FlowLabel::Copy,
            payload: None,
        }
    }

    /// Outer time to live where none is set.
    pub const DEFAULT_TTL: u8 = 64;

    /// What packets a tunnel carries where that is not set.
    pub(super) fn default_mode(kind: TunnelKind) -> PacketMode {
        if kind.carries_ethernet() { PacketMode::LegacyL2 } else { PacketMode::LegacyL3 }
    }

    /// The name of the datapath port that the tunnel shares with others of its protocol and UDP
    /// port.
    pub fn datapath_port(&self) -> String {
        let prefix = self.kind.datapath_prefix();
        if self.kind.uses_udp() { format!("{prefix}_{}", self.udp_port) } else { prefix.to_owned() }
    }
}
