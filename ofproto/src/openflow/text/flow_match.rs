//! Printing of matches.

use super::super::field::Field;
use super::super::flow_match::{Match, VLAN_PCP, VLAN_PRESENT, VLAN_VID, eth_type, ip_proto};
use super::super::port::PortNo;
use super::super::slot::Slot;
use super::value::{
    CT_STATES, FRAGMENTS, TCP_FLAGS, TUNNEL_FLAGS, alternate_hex, put_flags, put_hex,
    put_ipv4_masked, put_ipv6_masked, put_mac_masked, put_packet_type,
};
use super::{DEFAULT_PRIORITY, Names, chomp, put, put_port};

/// How the value of a slot is written when all its bits are matched, and when not.
#[derive(Clone, Copy)]
enum Style {
    /// Decimal, else hexadecimal with a mask.
    Decimal,
    /// Two hexadecimal digits at least with a mask.
    Decimal8,
    /// Eight hexadecimal digits at least with a mask.
    Decimal32,
    /// Hexadecimal, `0` for zero.
    Hex,
    /// Hexadecimal, `0x0` for zero.
    PrefixedHex,
}

/// Values and masks of headers that no match can speak of, but packets have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InnerHeaders {
    /// The second VLAN tag.
    pub vlan: (u16, u16),
    /// The second and third MPLS label.
    pub mpls: [(u32, u32); 2],
}

/// Appends the match as `name=value,...`, with the priority in front unless it is the default.
pub fn print_match(out: &mut String, flow_match: &Match, priority: u16, names: &dyn Names) {
    print_match_of_packet(out, flow_match, InnerHeaders::default(), priority, names);
}

/// The same with headers that are further inside.
pub fn print_match_of_packet(
    out: &mut String,
    flow_match: &Match,
    inner: InnerHeaders,
    priority: u16,
    names: &dyn Names,
) {
    let start = out.len();
    Printer { out, flow_match, inner, names }.run(priority);
    if out.len() > start {
        chomp(out, ',');
    }
}

struct Printer<'a> {
    out: &'a mut String,
    flow_match: &'a Match,
    inner: InnerHeaders,
    names: &'a dyn Names,
}

impl Printer<'_> {
    fn number(&mut self, name: &str, value: u128, mask: u128, full: u128, style: Style) {
        if mask == 0 {
            return;
        }
        let (value, mask, exact) = (value as u64, mask as u64, mask == full);
        let text = match style {
            Style::Decimal | Style::Decimal8 | Style::Decimal32 if exact => format!("{value}"),
            Style::Decimal => format!("{value:#x}/{mask:#x}"),
            Style::Decimal8 => format!("{value:#04x}/{mask:#04x}"),
            Style::Decimal32 => format!("{value:#010x}/{mask:#010x}"),
            Style::Hex if exact => alternate_hex(value),
            Style::Hex => format!("{}/{}", alternate_hex(value), alternate_hex(mask)),
            Style::PrefixedHex if exact => format!("{value:#x}"),
            Style::PrefixedHex => format!("{value:#x}/{mask:#x}"),
        };
        put(self.out, format_args!("{name}={text},"));
    }

    fn slot(&mut self, name: &str, slot: Slot, style: Style) {
        let (value, mask) = self.flow_match.get(slot);
        let full = super::super::value::low_ones(slot.bytes() * 8);
        self.number(name, value, mask, full, style);
    }

    /// A slot that is written as a decimal number whatever its mask is.
    fn decimal(&mut self, name: &str, slot: Slot) {
        let (value, mask) = self.flow_match.get(slot);
        if mask != 0 {
            put(self.out, format_args!("{name}={value},"));
        }
    }

    fn port(&mut self, name: &str, slot: Slot) {
        let (value, mask) = self.flow_match.get(slot);
        if mask != 0 {
            put(self.out, format_args!("{name}="));
            put_port(self.out, PortNo(value as u16), self.names);
            self.out.push(',');
        }
    }

    fn ipv4(&mut self, name: &str, slot: Slot) {
        let (value, mask) = self.flow_match.get(slot);
        if mask != 0 {
            put(self.out, format_args!("{name}="));
            put_ipv4_masked(self.out, value as u32, mask as u32);
            self.out.push(',');
        }
    }

    fn ipv6(&mut self, name: &str, slot: Slot) {
        let (value, mask) = self.flow_match.get(slot);
        if mask != 0 {
            put(self.out, format_args!("{name}="));
            put_ipv6_masked(self.out, value, mask);
            self.out.push(',');
        }
    }

    fn mac(&mut self, name: &str, slot: Slot) {
        let (value, mask) = self.flow_match.get(slot);
        if mask != 0 {
            put(self.out, format_args!("{name}="));
            put_mac_masked(self.out, value as u64, mask as u64);
            self.out.push(',');
        }
    }

    fn flags(&mut self, name: &str, slot: Slot, names: &[&str], full: u32) {
        let (value, mask) = self.flow_match.get(slot);
        let mask = mask as u32 & full;
        if mask != 0 {
            put(self.out, format_args!("{name}="));
            put_flags(self.out, names, value as u32, mask, full);
            self.out.push(',');
        }
    }

    fn run(&mut self, priority: u16) {
        if priority != DEFAULT_PRIORITY {
            put(self.out, format_args!("priority={priority},"));
        }
        self.slot("pkt_mark", Slot::PKT_MARK, Style::Hex);
        self.slot("recirc_id", Slot::RECIRC_ID, Style::Hex);
        self.slot("dp_hash", Slot::DP_HASH, Style::Hex);
        self.decimal("conj_id", Slot::CONJ_ID);
        let (priority, mask) = self.flow_match.get(Slot::SKB_PRIORITY);
        if mask != 0 {
            let priority = alternate_hex(priority as u64);
            put(self.out, format_args!("skb_priority={priority},"));
        }
        self.port("actset_output", Slot::ACTSET_OUTPUT);
        self.connection();
        let kind = self.packet_type();
        let (kind_named, proto_named) = self.protocol(kind);
        for index in 0..32 {
            let field = Field::reg(index);
            let (value, mask) = self.flow_match.field(field);
            let full = u32::MAX.into();
            self.number(field.name(), value.low(), mask.low(), full, Style::Hex);
        }
        self.tunnel();
        self.slot("metadata", Slot::METADATA, Style::Hex);
        self.port("in_port", Slot::IN_PORT);
        let (tci, mask) = self.flow_match.get(Slot::VLAN_TCI);
        self.vlan("", tci as u16, mask as u16);
        if mask != 0 {
            let (tci, mask) = self.inner.vlan;
            self.vlan("1", tci, mask);
        }
        self.mac("dl_src", Slot::ETH_SRC);
        self.mac("dl_dst", Slot::ETH_DST);
        if !kind_named && self.flow_match.mask(Slot::ETH_TYPE) != 0 {
            put(self.out, format_args!("dl_type={kind:#06x},"));
        }
        self.network(kind, proto_named);
        self.mpls();
        self.fragments();
        self.transport(kind);
    }

    fn connection(&mut self) {
        self.flags("ct_state", Slot::CT_STATE, &CT_STATES, 0xff);
        self.slot("ct_zone", Slot::CT_ZONE, Style::Decimal);
        self.slot("ct_mark", Slot::CT_MARK, Style::Hex);
        let (label, mask) = self.flow_match.get(Slot::CT_LABEL);
        if mask != 0 {
            self.out.push_str("ct_label=");
            put_hex(self.out, &label.to_be_bytes());
            if mask != u128::MAX {
                self.out.push('/');
                put_hex(self.out, &mask.to_be_bytes());
            }
            self.out.push(',');
        }
        self.ipv4("ct_nw_src", Slot::CT_NW_SRC);
        self.ipv6("ct_ipv6_src", Slot::CT_IPV6_SRC);
        self.ipv4("ct_nw_dst", Slot::CT_NW_DST);
        self.ipv6("ct_ipv6_dst", Slot::CT_IPV6_DST);
        if self.flow_match.mask(Slot::CT_NW_PROTO) != 0 {
            self.decimal("ct_nw_proto", Slot::CT_NW_PROTO);
            self.slot("ct_tp_src", Slot::CT_TP_SRC, Style::Decimal);
            self.slot("ct_tp_dst", Slot::CT_TP_DST, Style::Decimal);
        }
    }

    /// Returns the Ethernet type, which the packet type may determine.
    fn packet_type(&mut self) -> u16 {
        let (value, mask) = self.flow_match.get(Slot::PACKET_TYPE);
        // Flows of the datapath, which alone match the round, tell of Ethernet too.
        let is_megaflow = self.flow_match.mask(Slot::RECIRC_ID) != 0;
        if mask != 0 && (!self.flow_match.is_ethernet_only() || is_megaflow) {
            put_packet_type(self.out, value as u32, mask as u32);
            self.out.push(',');
            if value >> 16 == 1 {
                return value as u16;
            }
        }
        self.flow_match.value(Slot::ETH_TYPE) as u16
    }

    /// Names Ethernet type and IP protocol; returns whether that was possible.
    fn protocol(&mut self, kind: u16) -> (bool, bool) {
        if self.flow_match.mask(Slot::ETH_TYPE) == 0 {
            return (false, false);
        }
        let (proto, mask) = self.flow_match.get(Slot::NW_PROTO);
        let proto = if mask == 0 { None } else { Some(proto as u8) };
        let name = match (kind, proto) {
            (eth_type::IPV4, Some(ip_proto::ICMP)) => "icmp",
            (eth_type::IPV4, Some(ip_proto::TCP)) => "tcp",
            (eth_type::IPV4, Some(ip_proto::UDP)) => "udp",
            (eth_type::IPV4, Some(ip_proto::SCTP)) => "sctp",
            (eth_type::IPV6, Some(ip_proto::ICMPV6)) => "icmp6",
            (eth_type::IPV6, Some(ip_proto::TCP)) => "tcp6",
            (eth_type::IPV6, Some(ip_proto::UDP)) => "udp6",
            (eth_type::IPV6, Some(ip_proto::SCTP)) => "sctp6",
            (eth_type::IPV4, _) => "ip",
            (eth_type::IPV6, _) => "ipv6",
            (eth_type::ARP, _) => "arp",
            (eth_type::RARP, _) => "rarp",
            (eth_type::MPLS, _) => "mpls",
            (eth_type::MPLS_MULTICAST, _) => "mplsm",
            _ => return (false, false),
        };
        put(self.out, format_args!("{name},"));
        let is_ip = matches!(kind, eth_type::IPV4 | eth_type::IPV6);
        (true, is_ip && !matches!(name, "ip" | "ipv6"))
    }

    fn tunnel(&mut self) {
        self.slot("tun_id", Slot::TUN_ID, Style::Hex);
        self.ipv4("tun_src", Slot::TUN_SRC);
        self.ipv4("tun_dst", Slot::TUN_DST);
        self.ipv6("tun_ipv6_src", Slot::TUN_IPV6_SRC);
        self.ipv6("tun_ipv6_dst", Slot::TUN_IPV6_DST);
        self.slot("tun_gbp_id", Slot::TUN_GBP_ID, Style::Decimal);
        let m = self.flow_match;
        let hex = |out: &mut String, name: &str, slot: Slot| {
            if m.mask(slot) != 0 {
                put(out, format_args!("{name}={},", alternate_hex(m.value(slot) as u64)));
            }
        };
        hex(self.out, "tun_gbp_flags", Slot::TUN_GBP_FLAGS);
        if m.mask(Slot::TUN_TOS) != 0 {
            put(self.out, format_args!("tun_tos={:x},", m.value(Slot::TUN_TOS)));
        }
        self.decimal("tun_ttl", Slot::TUN_TTL);
        self.decimal("tun_erspan_ver", Slot::TUN_ERSPAN_VER);
        match m.value(Slot::TUN_ERSPAN_VER) {
            1 => hex(self.out, "tun_erspan_idx", Slot::TUN_ERSPAN_IDX),
            2 => {
                self.decimal("tun_erspan_dir", Slot::TUN_ERSPAN_DIR);
                hex(self.out, "tun_erspan_hwid", Slot::TUN_ERSPAN_HWID);
            }
            _ => {}
        }
        hex(self.out, "gtpu_flags", Slot::TUN_GTPU_FLAGS);
        self.decimal("gtpu_msgtype", Slot::TUN_GTPU_MSGTYPE);
        self.flags("tun_flags", Slot::TUN_FLAGS, &TUNNEL_FLAGS, 0xf);
        for entry in m.entries() {
            let Some(index) = entry.slot.tun_metadata_index() else { continue };
            put(self.out, format_args!("tun_metadata{index}"));
            if entry.len == 0 && !entry.masked {
                self.out.push_str("=NP");
            } else if !entry.masked || !entry.mask.is_zero() {
                self.out.push('=');
                put_hex(self.out, &entry.value.to_bytes(entry.len));
                if !entry.mask.is_ones(entry.len * 8) {
                    self.out.push('/');
                    put_hex(self.out, &entry.mask.to_bytes(entry.len));
                }
            }
            self.out.push(',');
        }
    }

    /// `suffix` tells the tag from others.
    fn vlan(&mut self, suffix: &str, tci: u16, mask: u16) {
        if mask == 0 {
            return;
        }
        let (vid_mask, pcp_mask) = (mask & VLAN_VID, mask & VLAN_PCP);
        let whole = |mask: u16, bits: u16| mask == 0 || mask == bits;
        let tagged = mask & tci & VLAN_PRESENT != 0;
        if tagged
            && whole(vid_mask, VLAN_VID)
            && whole(pcp_mask, VLAN_PCP)
            && vid_mask | pcp_mask != 0
        {
            if vid_mask != 0 {
                put(self.out, format_args!("dl_vlan{suffix}={},", tci & VLAN_VID));
            }
            if pcp_mask != 0 {
                put(self.out, format_args!("dl_vlan_pcp{suffix}={},", tci >> 13));
            }
        } else if mask == u16::MAX {
            put(self.out, format_args!("vlan_tci{suffix}={tci:#06x},"));
        } else {
            put(self.out, format_args!("vlan_tci{suffix}={tci:#06x}/{mask:#06x},"));
        }
    }

    fn network(&mut self, kind: u16, proto_named: bool) {
        let is_arp = matches!(kind, eth_type::ARP | eth_type::RARP);
        match kind {
            eth_type::IPV6 => {
                self.ipv6("ipv6_src", Slot::IPV6_SRC);
                self.ipv6("ipv6_dst", Slot::IPV6_DST);
                let (label, mask) = self.flow_match.get(Slot::IPV6_LABEL);
                match mask as u32 {
                    0 => {}
                    u32::MAX => put(self.out, format_args!("ipv6_label={label:#07x},")),
                    mask => put(self.out, format_args!("ipv6_label={label:#07x}/{mask:#07x},")),
                }
            }
            eth_type::ARP | eth_type::RARP => {
                self.ipv4("arp_spa", Slot::NW_SRC);
                self.ipv4("arp_tpa", Slot::NW_DST);
            }
            eth_type::NSH => self.nsh(),
            _ => {
                self.ipv4("nw_src", Slot::NW_SRC);
                self.ipv4("nw_dst", Slot::NW_DST);
            }
        }
        if !proto_named {
            self.decimal(if is_arp { "arp_op" } else { "nw_proto" }, Slot::NW_PROTO);
        }
        if is_arp {
            self.mac("arp_sha", Slot::ARP_SHA);
            self.mac("arp_tha", Slot::ARP_THA);
        }
        let (tos, mask) = self.flow_match.get(Slot::NW_TOS);
        if mask & 0xfc != 0 {
            put(self.out, format_args!("nw_tos={},", tos & 0xfc));
        }
        if mask & 3 != 0 {
            put(self.out, format_args!("nw_ecn={},", tos & 3));
        }
        self.decimal("nw_ttl", Slot::NW_TTL);
    }

    fn nsh(&mut self) {
        let (path, mask) = self.flow_match.get(Slot::NSH_PATH);
        self.slot("nsh_flags", Slot::NSH_FLAGS, Style::Decimal8);
        self.slot("nsh_ttl", Slot::NSH_TTL, Style::Decimal8);
        self.slot("nsh_mdtype", Slot::NSH_MDTYPE, Style::Decimal8);
        self.slot("nsh_np", Slot::NSH_NP, Style::Decimal8);
        self.number("nsh_spi", path >> 8, mask >> 8, 0xff_ffff, Style::PrefixedHex);
        self.number("nsh_si", path & 0xff, mask & 0xff, 0xff, Style::Decimal8);
        if self.flow_match.get(Slot::NSH_MDTYPE) == (1, 0xff) {
            self.slot("nsh_c1", Slot::NSH_C1, Style::PrefixedHex);
            self.slot("nsh_c2", Slot::NSH_C2, Style::PrefixedHex);
            self.slot("nsh_c3", Slot::NSH_C3, Style::PrefixedHex);
            self.slot("nsh_c4", Slot::NSH_C4, Style::PrefixedHex);
        }
    }

    fn mpls(&mut self) {
        let (entry, mask) = self.flow_match.get(Slot::MPLS_LSE);
        let parts = [
            ("mpls_label", 12, 0xf_ffff),
            ("mpls_tc", 9, 7),
            ("mpls_ttl", 0, 0xff),
            ("mpls_bos", 8, 1),
        ];
        for (name, shift, bits) in parts {
            if mask >> shift & bits != 0 {
                put(self.out, format_args!("{name}={},", entry >> shift & bits));
            }
        }
        for (name, (entry, mask)) in ["mpls_lse1", "mpls_lse2"].into_iter().zip(self.inner.mpls) {
            self.number(name, entry.into(), mask.into(), u32::MAX.into(), Style::Decimal32);
        }
    }

    fn fragments(&mut self) {
        let (value, mask) = self.flow_match.get(Slot::NW_FRAG);
        let (value, mask) = (value as u8 & 3, mask as u8 & 3);
        let name = match (mask, value) {
            (0, _) => return,
            (2, 2) => "later",
            _ => FRAGMENTS
                .iter()
                .find(|(_, bits, fragments)| (*bits, *fragments) == (mask, value))
                .map_or("<error>", |(name, ..)| name),
        };
        put(self.out, format_args!("nw_frag={name},"));
    }

    fn transport(&mut self, kind: u16) {
        let proto = self.flow_match.value(Slot::NW_PROTO) as u8;
        match (kind, proto) {
            (eth_type::IPV4, ip_proto::ICMP) | (eth_type::IPV6, ip_proto::ICMPV6) => {
                self.slot("icmp_type", Slot::TP_SRC, Style::Decimal);
                self.slot("icmp_code", Slot::TP_DST, Style::Decimal);
                if kind == eth_type::IPV6 {
                    self.ipv6("nd_target", Slot::ND_TARGET);
                    self.mac("nd_sll", Slot::ARP_SHA);
                    self.mac("nd_tll", Slot::ARP_THA);
                    self.slot("nd_reserved", Slot::ND_RESERVED, Style::Decimal32);
                    self.slot("nd_options_type", Slot::TCP_FLAGS, Style::Decimal);
                }
            }
            _ => {
                self.slot("tp_src", Slot::TP_SRC, Style::Decimal);
                self.slot("tp_dst", Slot::TP_DST, Style::Decimal);
            }
        }
        if self.flow_match.is_ip() && proto == ip_proto::TCP {
            self.flags("tcp_flags", Slot::TCP_FLAGS, &TCP_FLAGS, 0xfff);
        }
    }
}
