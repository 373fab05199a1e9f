//! The attributes into which text groups the fields of a key.

use super::field::Field;

/// How the value of a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Decimal, of this many bits; a mask is hexadecimal.
    Decimal(u32),
    /// Hexadecimal, of this many bits.
    Hex(u32),
    /// Dotted decimal.
    Ipv4,
    /// Groups and colons.
    Ipv6,
    /// Six bytes and colons.
    Mac,
    /// IPv6 flow label.
    Label,
    /// `no`, `first` or `later`.
    Fragment,
}

/// A named field within an attribute.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) field: Field,
    pub(crate) format: Format,
}

const fn entry(name: &'static str, field: Field, format: Format) -> Entry {
    Entry { name, field, format }
}

/// A group of fields that is written `name(...)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names of OVS's attributes; `name` has the text")]
pub enum Attribute {
    RecircId,
    DpHash,
    SkbPriority,
    Tunnel,
    InPort,
    SkbMark,
    CtState,
    CtZone,
    CtMark,
    CtLabel,
    CtTuple4,
    CtTuple6,
    PacketType,
    Ethernet,
    Vlan,
    Encap,
    EthType,
    Ipv4,
    Ipv6,
    Arp,
    Mpls,
    Nsh,
    Tcp,
    TcpFlags,
    Udp,
    Sctp,
    Icmp,
    Icmpv6,
    Nd,
    NdExt,
}

impl Attribute {
    pub(crate) const ALL: &[Self] = &[
        Self::RecircId,
        Self::DpHash,
        Self::SkbPriority,
        Self::Tunnel,
        Self::InPort,
        Self::SkbMark,
        Self::CtState,
        Self::CtZone,
        Self::CtMark,
        Self::CtLabel,
        Self::CtTuple4,
        Self::CtTuple6,
        Self::PacketType,
        Self::Ethernet,
        Self::Vlan,
        Self::Encap,
        Self::EthType,
        Self::Ipv4,
        Self::Ipv6,
        Self::Arp,
        Self::Mpls,
        Self::Nsh,
        Self::Tcp,
        Self::TcpFlags,
        Self::Udp,
        Self::Sctp,
        Self::Icmp,
        Self::Icmpv6,
        Self::Nd,
        Self::NdExt,
    ];

    /// The name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RecircId => "recirc_id",
            Self::DpHash => "dp_hash",
            Self::SkbPriority => "skb_priority",
            Self::Tunnel => "tunnel",
            Self::InPort => "in_port",
            Self::SkbMark => "skb_mark",
            Self::CtState => "ct_state",
            Self::CtZone => "ct_zone",
            Self::CtMark => "ct_mark",
            Self::CtLabel => "ct_label",
            Self::CtTuple4 => "ct_tuple4",
            Self::CtTuple6 => "ct_tuple6",
            Self::PacketType => "packet_type",
            Self::Ethernet => "eth",
            Self::Vlan => "vlan",
            Self::Encap => "encap",
            Self::EthType => "eth_type",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Arp => "arp",
            Self::Mpls => "mpls",
            Self::Nsh => "nsh",
            Self::Tcp => "tcp",
            Self::TcpFlags => "tcp_flags",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Icmp => "icmp",
            Self::Icmpv6 => "icmpv6",
            Self::Nd => "nd",
            Self::NdExt => "nd_ext",
        }
    }

    /// The named fields. Attributes with a syntax of their own, or a single value, have none.
    pub(crate) const fn entries(self) -> &'static [Entry] {
        use Format::{Decimal, Fragment, Hex, Ipv4, Ipv6, Label, Mac};
        const PORTS: &[Entry] =
            &[entry("src", Field::TpSrc, Decimal(16)), entry("dst", Field::TpDst, Decimal(16))];
        const ICMP: &[Entry] =
            &[entry("type", Field::TpSrc, Decimal(8)), entry("code", Field::TpDst, Decimal(8))];
        match self {
            Self::CtTuple4 => {
                const {
                    &[
                        entry("src", Field::CtIpv4Src, Ipv4),
                        entry("dst", Field::CtIpv4Dst, Ipv4),
                        entry("proto", Field::CtProto, Decimal(8)),
                        entry("tp_src", Field::CtTpSrc, Decimal(16)),
                        entry("tp_dst", Field::CtTpDst, Decimal(16)),
                    ]
                }
            }
            // OVS prints these ports under other names than it reads.
            Self::CtTuple6 => {
                const {
                    &[
                        entry("src", Field::CtIpv6Src, Ipv6),
                        entry("dst", Field::CtIpv6Dst, Ipv6),
                        entry("proto", Field::CtProto, Decimal(8)),
                        entry("src_port", Field::CtTpSrc, Decimal(16)),
                        entry("dst_port", Field::CtTpDst, Decimal(16)),
                    ]
                }
            }
            Self::PacketType => {
                const {
                    &[
                        entry("ns", Field::PacketNamespace, Decimal(16)),
                        entry("id", Field::PacketType, Hex(16)),
                    ]
                }
            }
            Self::Ethernet => {
                const { &[entry("src", Field::EthSrc, Mac), entry("dst", Field::EthDst, Mac)] }
            }
            Self::Ipv4 => {
                const {
                    &[
                        entry("src", Field::Ipv4Src, Ipv4),
                        entry("dst", Field::Ipv4Dst, Ipv4),
                        entry("proto", Field::IpProto, Decimal(8)),
                        entry("tos", Field::IpTos, Hex(8)),
                        entry("ttl", Field::IpTtl, Decimal(8)),
                        entry("frag", Field::IpFrag, Fragment),
                    ]
                }
            }
            Self::Ipv6 => {
                const {
                    &[
                        entry("src", Field::Ipv6Src, Ipv6),
                        entry("dst", Field::Ipv6Dst, Ipv6),
                        entry("label", Field::Ipv6Label, Label),
                        entry("proto", Field::IpProto, Decimal(8)),
                        entry("tclass", Field::IpTos, Hex(8)),
                        entry("hlimit", Field::IpTtl, Decimal(8)),
                        entry("frag", Field::IpFrag, Fragment),
                    ]
                }
            }
            Self::Arp => {
                const {
                    &[
                        entry("sip", Field::Ipv4Src, Ipv4),
                        entry("tip", Field::Ipv4Dst, Ipv4),
                        entry("op", Field::IpProto, Decimal(16)),
                        entry("sha", Field::ArpSha, Mac),
                        entry("tha", Field::ArpTha, Mac),
                    ]
                }
            }
            Self::Tcp | Self::Udp | Self::Sctp => PORTS,
            Self::Icmp | Self::Icmpv6 => ICMP,
            Self::Nd => {
                const {
                    &[
                        entry("target", Field::NdTarget, Ipv6),
                        entry("sll", Field::ArpSha, Mac),
                        entry("tll", Field::ArpTha, Mac),
                    ]
                }
            }
            Self::NdExt => {
                const {
                    &[
                        entry("nd_reserved", Field::IgmpGroup, Hex(32)),
                        entry("nd_options_type", Field::NdOption, Decimal(8)),
                    ]
                }
            }
            Self::Nsh => {
                const {
                    &[
                        entry("flags", Field::NshFlags, Decimal(8)),
                        entry("ttl", Field::NshTtl, Decimal(8)),
                        entry("mdtype", Field::NshMdType, Decimal(8)),
                        entry("np", Field::NshNextProtocol, Decimal(8)),
                        entry("c1", Field::NshC1, Hex(32)),
                        entry("c2", Field::NshC2, Hex(32)),
                        entry("c3", Field::NshC3, Hex(32)),
                        entry("c4", Field::NshC4, Hex(32)),
                    ]
                }
            }
            Self::Tunnel => {
                const {
                    &[
                        entry("tun_id", Field::TunId, Hex(64)),
                        entry("src", Field::TunIpv4Src, Ipv4),
                        entry("dst", Field::TunIpv4Dst, Ipv4),
                        entry("ipv6_src", Field::TunIpv6Src, Ipv6),
                        entry("ipv6_dst", Field::TunIpv6Dst, Ipv6),
                        entry("tos", Field::TunTos, Hex(8)),
                        entry("ttl", Field::TunTtl, Decimal(8)),
                        entry("tp_src", Field::TunTpSrc, Decimal(16)),
                        entry("tp_dst", Field::TunTpDst, Decimal(16)),
                    ]
                }
            }
            _ => &[],
        }
    }

    /// The field of an attribute that is a single value, and its bits.
    pub(crate) const fn single(self) -> Option<(Field, u32)> {
        Some(match self {
            Self::RecircId => (Field::RecircId, 32),
            Self::DpHash => (Field::DpHash, 32),
            Self::SkbPriority => (Field::SkbPriority, 32),
            Self::InPort => (Field::InPort, 32),
            Self::SkbMark => (Field::SkbMark, 32),
            Self::CtZone => (Field::CtZone, 16),
            Self::CtMark => (Field::CtMark, 32),
            Self::EthType => (Field::EthType, 16),
            _ => return None,
        })
    }
}
