//! The table of fields of the flow key.

use std::mem::offset_of;
use std::ops::Range;

use netdev::wire::ethernet::ether_type;
use netdev::wire::icmpv6::{NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION};
use netdev::wire::{ip_protocol, mpls, vlan};

use super::key::{FRAG_LATER, FlowKey, NshKey, TunnelKey, VlanKey};

/// Which packets have a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prerequisite {
    /// All.
    None,
    /// Those that came through a tunnel.
    Tunnel,
    /// Those of a tracked connection whose original direction is IPv4 and known.
    ConntrackIpv4,
    /// The same for IPv6.
    ConntrackIpv6,
    /// The same for either.
    ConntrackTuple,
    /// Those that start with an Ethernet header.
    Ethernet,
    /// Those with an outer VLAN tag before this one, or Ethernet for the first.
    Vlan(usize),
    /// ARP and RARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv4, ARP and RARP.
    Ipv4OrArp,
    /// IPv6.
    Ipv6,
    /// IPv4 and IPv6.
    Ip,
    /// IP packets and ARP.
    IpOrArp,
    /// Packets with a TCP header.
    Tcp,
    /// Packets with a TCP, UDP, SCTP, ICMP, ICMPv6 or IGMP header.
    Transport,
    /// Packets with an IGMP header and neighbour discovery.
    IgmpOrNeighbour,
    /// Neighbour discovery.
    Neighbour,
    /// ARP and neighbour discovery.
    ArpOrNeighbour,
    /// MPLS with the bottom of the stack at this label or deeper.
    Mpls(usize),
    /// Network service header.
    Nsh,
}

impl Prerequisite {
    /// Whether packets with this key have the field.
    pub fn holds(self, key: &FlowKey) -> bool {
        let eth_type = key.eth_type.get();
        let ipv4 = eth_type == ether_type::IPV4;
        let ipv6 = eth_type == ether_type::IPV6;
        let arp = matches!(eth_type, ether_type::ARP | ether_type::RARP);
        let transport = (ipv4 || ipv6) && key.ip_frag & FRAG_LATER == 0;
        let proto = key.ip_proto;
        let neighbour = ipv6
            && transport
            && proto == ip_protocol::ICMPV6
            && key.tp_dst.get() == 0
            && matches!(
                key.tp_src.get().try_into(),
                Ok(NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT)
            );
        match self {
            Self::None => true,
            Self::Tunnel => key.tunnel.is_set(),
            Self::ConntrackIpv4 => ipv4 && key.ct_proto != 0,
            Self::ConntrackIpv6 => ipv6 && key.ct_proto != 0,
            Self::ConntrackTuple => (ipv4 || ipv6) && key.ct_proto != 0,
            Self::Ethernet => key.is_ethernet(),
            Self::Vlan(index) => {
                let mut outer = key.vlans.iter().take(index);
                key.is_ethernet() && outer.all(|tag| tag.tci.get() & vlan::CFI != 0)
            }
            Self::Arp => arp,
            Self::Ipv4 => ipv4,
            Self::Ipv4OrArp => ipv4 || arp,
            Self::Ipv6 => ipv6,
            Self::Ip => ipv4 || ipv6,
            Self::IpOrArp => ipv4 || ipv6 || arp,
            Self::Tcp => transport && proto == ip_protocol::TCP,
            Self::Transport => {
                use ip_protocol::{ICMP, ICMPV6, IGMP, SCTP, TCP, UDP};
                transport && matches!(proto, TCP | UDP | SCTP | ICMP | ICMPV6 | IGMP)
            }
            Self::IgmpOrNeighbour => neighbour || ipv4 && transport && proto == ip_protocol::IGMP,
            Self::Neighbour => neighbour,
            Self::ArpOrNeighbour => arp || neighbour,
            Self::Mpls(index) => {
                let mut outer = key.mpls.iter().take(index);
                mpls::is_mpls(eth_type) && outer.all(|entry| entry.get() & mpls::BOTTOM == 0)
            }
            Self::Nsh => eth_type == ether_type::NSH,
        }
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $variant:ident $name:literal $offset:expr, $bytes:literal,
       $prerequisite:expr;)*) => {
        /// A field of the flow key.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field { $($(#[$doc])* $variant),* }

        impl Field {
            /// Every field but the Geneve options, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Name for messages.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Which packets have the field.
            pub const fn prerequisite(self) -> Prerequisite {
                match self { $(Self::$variant => $prerequisite),* }
            }

            /// Bytes of the field in the key.
            pub const fn range(self) -> Range<usize> {
                match self { $(Self::$variant => $offset..$offset + $bytes),* }
            }
        }
    };
}

const VLANS: usize = offset_of!(FlowKey, vlans);
const MPLS: usize = offset_of!(FlowKey, mpls);
const NSH: usize = offset_of!(FlowKey, nsh);
const NSH_CONTEXT: usize = NSH + offset_of!(NshKey, context);
const TUNNEL: usize = offset_of!(FlowKey, tunnel);

fields! {
    /// Recirculation.
    RecircId "recirc_id" offset_of!(FlowKey, recirc_id), 4, Prerequisite::None;
    /// Hash of a hash action.
    DpHash "dp_hash" offset_of!(FlowKey, dp_hash), 4, Prerequisite::None;
    /// Quality of service class.
    SkbPriority "skb_priority" offset_of!(FlowKey, skb_priority), 4, Prerequisite::None;
    /// Port.
    InPort "in_port" offset_of!(FlowKey, in_port), 4, Prerequisite::None;
    /// Packet mark.
    SkbMark "skb_mark" offset_of!(FlowKey, skb_mark), 4, Prerequisite::None;
    /// Tunnel identifier.
    TunId "tun_id" TUNNEL + offset_of!(TunnelKey, id), 8, Prerequisite::Tunnel;
    /// Outer IPv4 source.
    TunIpv4Src "tun_src" TUNNEL + offset_of!(TunnelKey, ipv4_src), 4, Prerequisite::Tunnel;
    /// Outer IPv4 destination.
    TunIpv4Dst "tun_dst" TUNNEL + offset_of!(TunnelKey, ipv4_dst), 4, Prerequisite::Tunnel;
    /// Outer IPv6 source.
    TunIpv6Src "tun_ipv6_src" TUNNEL + offset_of!(TunnelKey, ipv6_src), 16, Prerequisite::Tunnel;
    /// Outer IPv6 destination.
    TunIpv6Dst "tun_ipv6_dst" TUNNEL + offset_of!(TunnelKey, ipv6_dst), 16, Prerequisite::Tunnel;
    /// Outer type of service.
    TunTos "tun_tos" TUNNEL + offset_of!(TunnelKey, tos), 1, Prerequisite::Tunnel;
    /// Outer time to live.
    TunTtl "tun_ttl" TUNNEL + offset_of!(TunnelKey, ttl), 1, Prerequisite::Tunnel;
    /// Outer source port.
    TunTpSrc "tun_tp_src" TUNNEL + offset_of!(TunnelKey, tp_src), 2, Prerequisite::Tunnel;
    /// Outer destination port.
    TunTpDst "tun_tp_dst" TUNNEL + offset_of!(TunnelKey, tp_dst), 2, Prerequisite::Tunnel;
    /// VXLAN group policy.
    TunGbpId "tun_gbp_id" TUNNEL + offset_of!(TunnelKey, gbp_id), 2, Prerequisite::Tunnel;
    /// VXLAN group policy flags.
    TunGbpFlags "tun_gbp_flags" TUNNEL + offset_of!(TunnelKey, gbp_flags), 1,
        Prerequisite::Tunnel;
    /// ERSPAN version.
    TunErspanVersion "tun_erspan_ver" TUNNEL + offset_of!(TunnelKey, erspan_version), 1,
        Prerequisite::Tunnel;
    /// ERSPAN port index.
    TunErspanIndex "tun_erspan_idx" TUNNEL + offset_of!(TunnelKey, erspan_index), 4,
        Prerequisite::Tunnel;
    /// ERSPAN direction.
    TunErspanDir "tun_erspan_dir" TUNNEL + offset_of!(TunnelKey, erspan_dir), 1,
        Prerequisite::Tunnel;
    /// ERSPAN hardware identifier.
    TunErspanHwid "tun_erspan_hwid" TUNNEL + offset_of!(TunnelKey, erspan_hwid), 1,
        Prerequisite::Tunnel;
    /// GTP-U flags.
    TunGtpuFlags "tun_gtpu_flags" TUNNEL + offset_of!(TunnelKey, gtpu_flags), 1,
        Prerequisite::Tunnel;
    /// GTP-U message type.
    TunGtpuMessageType "tun_gtpu_msgtype" TUNNEL + offset_of!(TunnelKey, gtpu_message_type), 1,
        Prerequisite::Tunnel;
    /// Tunnel flags.
    TunFlags "tun_flags" TUNNEL + offset_of!(TunnelKey, flags), 2, Prerequisite::Tunnel;
    /// Connection state.
    CtState "ct_state" offset_of!(FlowKey, ct_state), 1, Prerequisite::None;
    /// Connection tracking zone.
    CtZone "ct_zone" offset_of!(FlowKey, ct_zone), 2, Prerequisite::None;
    /// Connection mark.
    CtMark "ct_mark" offset_of!(FlowKey, ct_mark), 4, Prerequisite::None;
    /// Connection labels.
    CtLabel "ct_label" offset_of!(FlowKey, ct_label), 16, Prerequisite::None;
    /// Protocol of the original direction.
    CtProto "ct_nw_proto" offset_of!(FlowKey, ct_proto), 1, Prerequisite::ConntrackTuple;
    /// IPv4 source of the original direction.
    CtIpv4Src "ct_nw_src" offset_of!(FlowKey, ct_ipv4_src), 4, Prerequisite::ConntrackIpv4;
    /// IPv4 destination of the original direction.
    CtIpv4Dst "ct_nw_dst" offset_of!(FlowKey, ct_ipv4_dst), 4, Prerequisite::ConntrackIpv4;
    /// IPv6 source of the original direction.
    CtIpv6Src "ct_ipv6_src" offset_of!(FlowKey, ct_ipv6_src), 16, Prerequisite::ConntrackIpv6;
    /// IPv6 destination of the original direction.
    CtIpv6Dst "ct_ipv6_dst" offset_of!(FlowKey, ct_ipv6_dst), 16, Prerequisite::ConntrackIpv6;
    /// Source port of the original direction.
    CtTpSrc "ct_tp_src" offset_of!(FlowKey, ct_tp_src), 2, Prerequisite::ConntrackTuple;
    /// Destination port of the original direction.
    CtTpDst "ct_tp_dst" offset_of!(FlowKey, ct_tp_dst), 2, Prerequisite::ConntrackTuple;
    /// Name space of the packet type.
    PacketNamespace "packet_type_ns" offset_of!(FlowKey, packet_namespace), 2, Prerequisite::None;
    /// Packet type.
    PacketType "packet_type" offset_of!(FlowKey, packet_type), 2, Prerequisite::None;
    /// Ethernet source.
    EthSrc "eth_src" offset_of!(FlowKey, eth_src), 6, Prerequisite::Ethernet;
    /// Ethernet destination.
    EthDst "eth_dst" offset_of!(FlowKey, eth_dst), 6, Prerequisite::Ethernet;
    /// Outer VLAN tag.
    VlanTci "vlan_tci" VLANS + offset_of!(VlanKey, tci), 2, Prerequisite::Vlan(0);
    /// Outer VLAN tag protocol.
    VlanTpid "vlan_tpid" VLANS + offset_of!(VlanKey, tpid), 2, Prerequisite::Vlan(0);
    /// Inner VLAN tag.
    InnerVlanTci "inner_vlan_tci" VLANS + size_of::<VlanKey>() + offset_of!(VlanKey, tci), 2,
        Prerequisite::Vlan(1);
    /// Inner VLAN tag protocol.
    InnerVlanTpid "inner_vlan_tpid" VLANS + size_of::<VlanKey>() + offset_of!(VlanKey, tpid), 2,
        Prerequisite::Vlan(1);
    /// Ethertype.
    EthType "eth_type" offset_of!(FlowKey, eth_type), 2, Prerequisite::None;
    /// IPv4 source, sender of ARP.
    Ipv4Src "nw_src" offset_of!(FlowKey, ipv4_src), 4, Prerequisite::Ipv4OrArp;
    /// IPv4 destination, target of ARP.
    Ipv4Dst "nw_dst" offset_of!(FlowKey, ipv4_dst), 4, Prerequisite::Ipv4OrArp;
    /// IPv6 source.
    Ipv6Src "ipv6_src" offset_of!(FlowKey, ipv6_src), 16, Prerequisite::Ipv6;
    /// IPv6 destination.
    Ipv6Dst "ipv6_dst" offset_of!(FlowKey, ipv6_dst), 16, Prerequisite::Ipv6;
    /// IPv6 flow label.
    Ipv6Label "ipv6_label" offset_of!(FlowKey, ipv6_label), 4, Prerequisite::Ipv6;
    /// Protocol, operation of ARP.
    IpProto "nw_proto" offset_of!(FlowKey, ip_proto), 1, Prerequisite::IpOrArp;
    /// Type of service.
    IpTos "nw_tos" offset_of!(FlowKey, ip_tos), 1, Prerequisite::Ip;
    /// Time to live.
    IpTtl "nw_ttl" offset_of!(FlowKey, ip_ttl), 1, Prerequisite::Ip;
    /// Fragment.
    IpFrag "ip_frag" offset_of!(FlowKey, ip_frag), 1, Prerequisite::Ip;
    /// Source port or ICMP type.
    TpSrc "tp_src" offset_of!(FlowKey, tp_src), 2, Prerequisite::Transport;
    /// Destination port or ICMP code.
    TpDst "tp_dst" offset_of!(FlowKey, tp_dst), 2, Prerequisite::Transport;
    /// TCP flags.
    TcpFlags "tcp_flags" offset_of!(FlowKey, tcp_flags), 2, Prerequisite::Tcp;
    /// IGMP group, neighbour discovery flags.
    IgmpGroup "igmp_group" offset_of!(FlowKey, igmp_group), 4, Prerequisite::IgmpOrNeighbour;
    /// Neighbour discovery target.
    NdTarget "nd_target" offset_of!(FlowKey, nd_target), 16, Prerequisite::Neighbour;
    /// Neighbour discovery option.
    NdOption "nd_options_type" offset_of!(FlowKey, nd_option), 1, Prerequisite::Neighbour;
    /// Sender's hardware address.
    ArpSha "arp_sha" offset_of!(FlowKey, arp_sha), 6, Prerequisite::ArpOrNeighbour;
    /// Target's hardware address.
    ArpTha "arp_tha" offset_of!(FlowKey, arp_tha), 6, Prerequisite::ArpOrNeighbour;
    /// Outermost MPLS label.
    Mpls0 "mpls_lse0" MPLS, 4, Prerequisite::Mpls(0);
    /// Second MPLS label.
    Mpls1 "mpls_lse1" MPLS + 4, 4, Prerequisite::Mpls(1);
    /// Third MPLS label.
    Mpls2 "mpls_lse2" MPLS + 8, 4, Prerequisite::Mpls(2);
    /// Network service header flags.
    NshFlags "nsh_flags" NSH + offset_of!(NshKey, flags), 1, Prerequisite::Nsh;
    /// Network service header time to live.
    NshTtl "nsh_ttl" NSH + offset_of!(NshKey, ttl), 1, Prerequisite::Nsh;
    /// Network service header metadata type.
    NshMdType "nsh_mdtype" NSH + offset_of!(NshKey, md_type), 1, Prerequisite::Nsh;
    /// Network service header next protocol.
    NshNextProtocol "nsh_np" NSH + offset_of!(NshKey, next_protocol), 1, Prerequisite::Nsh;
    /// Service path and service index.
    NshPath "nsh_path" NSH + offset_of!(NshKey, path), 4, Prerequisite::Nsh;
    /// First context word.
    NshC1 "nsh_c1" NSH_CONTEXT, 4, Prerequisite::Nsh;
    /// Second context word.
    NshC2 "nsh_c2" NSH_CONTEXT + 4, 4, Prerequisite::Nsh;
    /// Third context word.
    NshC3 "nsh_c3" NSH_CONTEXT + 8, 4, Prerequisite::Nsh;
    /// Fourth context word.
    NshC4 "nsh_c4" NSH_CONTEXT + 12, 4, Prerequisite::Nsh;
}

impl Field {
    /// Bits that a value of the field can have set.
    pub const fn bits(self) -> u128 {
        let range = self.range();
        match self {
            Self::Ipv6Label => 0xf_ffff,
            Self::TcpFlags => 0xfff,
            Self::IpFrag => 3,
            Self::TunFlags => 15,
            _ => u128::MAX >> (128 - 8 * (range.end - range.start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn fields_cover_the_key_without_overlap() {
        let mut uses = [0u8; size_of::<FlowKey>()];
        for field in Field::ALL {
            for used in &mut uses[field.range()] {
                *used += 1;
            }
        }
        let options = TUNNEL + offset_of!(TunnelKey, options);
        assert!(uses[options..options + 252].iter().all(|used| *used == 0));
        uses[options..options + 252].fill(1);
        let unused: Vec<_> = (0..uses.len()).filter(|index| uses[*index] != 1).collect();
        let length = TUNNEL + offset_of!(TunnelKey, options_length);
        // The reserved bytes, and the length of the options, which text does not name.
        assert_eq!(
            unused,
            [
                237,
                238,
                239,
                length,
                length + 1,
                length + 2,
                length + 3,
                564,
                565,
                566,
                567,
                568,
                569,
                570,
                571,
                572,
                573,
                574,
                575
            ]
        );
    }

    #[test]
    fn reads_what_it_sets() {
        for field in Field::ALL {
            let mut key = FlowKey::default();
            let value = 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210 & field.bits();
            key.set(*field, value);
            assert_eq!(key.get(*field), value, "{field:?}");
            let elsewhere = key.as_bytes().iter().enumerate();
            assert!(elsewhere.filter(|(at, _)| !field.range().contains(at)).all(|(_, b)| *b == 0));
        }
    }
}
