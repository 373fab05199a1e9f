//! Flows as Open vSwitch's log has them in lines about dummy hardware: in the words of OpenFlow.

use std::fmt;

use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::{ip_protocol, vlan};

use crate::flow::{FlowKey, FlowMask, VlanKey};

/// A megaflow.
pub(super) struct MatchText<'a> {
    pub(super) key: &'a FlowKey,
    pub(super) mask: &'a FlowMask,
}

/// The headers of a packet.
pub(super) struct PacketText<'a>(pub(super) &'a FlowKey);

/// The word that stands for Ethertype and protocol, and whether it says the protocol too.
fn protocol(key: &FlowKey, knows_protocol: bool) -> Option<(&'static str, bool)> {
    let transport = |tcp, udp, sctp, icmp| match key.ip_proto {
        ip_protocol::TCP => Some((tcp, true)),
        ip_protocol::UDP => Some((udp, true)),
        ip_protocol::SCTP => Some((sctp, true)),
        ip_protocol::ICMP | ip_protocol::ICMPV6 => Some((icmp, true)),
        _ => None,
    };
    let known = |name| if knows_protocol { name } else { None };
    match key.eth_type.get() {
        ether_type::IPV4 => {
            Some(known(transport("tcp", "udp", "sctp", "icmp")).unwrap_or(("ip", false)))
        }
        ether_type::IPV6 => {
            Some(known(transport("tcp6", "udp6", "sctp6", "icmp6")).unwrap_or(("ipv6", false)))
        }
        ether_type::ARP => Some(("arp", false)),
        _ => None,
    }
}

/// Parts with commas between them.
struct Parts<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    is_first: bool,
}

impl Parts<'_, '_> {
    fn add(&mut self, part: fmt::Arguments<'_>) -> fmt::Result {
        if !self.is_first {
            self.f.write_str(",")?;
        }
        self.is_first = false;
        self.f.write_fmt(part)
    }

    /// A field by its mask: all of it, some of it, or none.
    fn number(&mut self, name: &str, value: u32, mask: u32, all: u32) -> fmt::Result {
        match mask & all {
            0 => Ok(()),
            mask if mask == all => self.add(format_args!("{name}={value}")),
            mask => self.add(format_args!("{name}={value:#x}/{mask:#x}")),
        }
    }

    fn tag(&mut self, tag: VlanKey, mask: u16, suffix: &str) -> fmt::Result {
        let (tci, pcp) = (tag.tci.get(), 7 << vlan::PCP_SHIFT);
        let is_whole = |bits: u16| mask & bits == 0 || mask & bits == bits;
        if mask == 0 {
            return Ok(());
        }
        if mask & tci & vlan::CFI != 0 && is_whole(vlan::VID_MASK) && is_whole(pcp) {
            if mask & vlan::VID_MASK != 0 {
                self.add(format_args!("dl_vlan{suffix}={}", tci & vlan::VID_MASK))?;
            }
            if mask & pcp != 0 {
                self.add(format_args!("dl_vlan_pcp{suffix}={}", tci >> vlan::PCP_SHIFT))?;
            }
            return Ok(());
        }
        match mask {
            u16::MAX => self.add(format_args!("vlan_tci{suffix}={tci:#06x}")),
            _ => self.add(format_args!("vlan_tci{suffix}={:#06x}/{mask:#06x}", tci & mask)),
        }
    }

    fn mac(&mut self, name: &str, value: MacAddress, mask: MacAddress) -> fmt::Result {
        match mask.0 {
            [0, 0, 0, 0, 0, 0] => Ok(()),
            [255, 255, 255, 255, 255, 255] => self.add(format_args!("{name}={value}")),
            _ => self.add(format_args!("{name}={value}/{mask}")),
        }
    }

    fn ipv4(&mut self, name: &str, value: u32, mask: u32) -> fmt::Result {
        let value = std::net::Ipv4Addr::from(value & mask);
        match mask.leading_ones() {
            _ if mask == 0 => Ok(()),
            32 => self.add(format_args!("{name}={value}")),
            length if mask.count_ones() == length => {
                self.add(format_args!("{name}={value}/{length}"))
            }
            _ => self.add(format_args!("{name}={value}/{}", std::net::Ipv4Addr::from(mask))),
        }
    }

    fn ipv6(&mut self, name: &str, value: [u8; 16], mask: [u8; 16]) -> fmt::Result {
        let (value, bits) = (std::net::Ipv6Addr::from(value), u128::from_be_bytes(mask));
        match bits.count_ones() {
            0 => Ok(()),
            128 => self.add(format_args!("{name}={value}")),
            length if bits.leading_ones() == length => {
                self.add(format_args!("{name}={value}/{length}"))
            }
            _ => self.add(format_args!("{name}={value}/{}", std::net::Ipv6Addr::from(mask))),
        }
    }
}

/// The fields behind the tags.
fn fields(parts: &mut Parts<'_, '_>, key: &FlowKey, bits: &FlowKey, named: bool) -> fmt::Result {
    parts.mac("dl_src", key.eth_src, bits.eth_src)?;
    parts.mac("dl_dst", key.eth_dst, bits.eth_dst)?;
    let is_arp = key.eth_type.get() == ether_type::ARP;
    let addresses = if is_arp { ["arp_spa", "arp_tpa"] } else { ["nw_src", "nw_dst"] };
    if is_arp || key.eth_type.get() == ether_type::IPV4 {
        for (name, (value, mask)) in addresses
            .into_iter()
            .zip([(key.ipv4_src, bits.ipv4_src), (key.ipv4_dst, bits.ipv4_dst)])
        {
            parts.ipv4(name, value.get(), mask.get())?;
        }
    } else {
        parts.ipv6("ipv6_src", key.ipv6_src, bits.ipv6_src)?;
        parts.ipv6("ipv6_dst", key.ipv6_dst, bits.ipv6_dst)?;
    }
    if is_arp {
        parts.number("arp_op", key.ip_proto.into(), bits.ip_proto.into(), 0xff)?;
        parts.mac("arp_sha", key.arp_sha, bits.arp_sha)?;
        return parts.mac("arp_tha", key.arp_tha, bits.arp_tha);
    }
    if !key.is_ip() {
        return Ok(());
    }
    if !named {
        parts.number("nw_proto", key.ip_proto.into(), bits.ip_proto.into(), 0xff)?;
    }
    parts.number("nw_tos", u32::from(key.ip_tos & 0xfc), u32::from(bits.ip_tos), 0xfc)?;
    parts.number("nw_ecn", u32::from(key.ip_tos & 3), u32::from(bits.ip_tos), 3)?;
    parts.number("nw_ttl", key.ip_ttl.into(), bits.ip_ttl.into(), 0xff)?;
    if bits.ip_frag & 3 != 0 {
        let word = match key.ip_frag & 3 {
            0 => "no",
            1 => "first",
            _ => "later",
        };
        parts.add(format_args!("nw_frag={word}"))?;
    }
    let is_icmp = matches!(key.ip_proto, ip_protocol::ICMP | ip_protocol::ICMPV6);
    let ports = if is_icmp { ["icmp_type", "icmp_code"] } else { ["tp_src", "tp_dst"] };
    for (name, (value, mask)) in
        ports.into_iter().zip([(key.tp_src, bits.tp_src), (key.tp_dst, bits.tp_dst)])
    {
        parts.number(name, value.get().into(), mask.get().into(), 0xffff)?;
    }
    parts.number("tcp_flags", key.tcp_flags.get().into(), bits.tcp_flags.get().into(), 0xfff)
}

impl fmt::Display for MatchText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, bits) = (self.key, self.mask.bits());
        let mut parts = Parts { f, is_first: true };
        parts.number("recirc_id", key.recirc_id.get(), bits.recirc_id.get(), u32::MAX)?;
        parts.number("dp_hash", key.dp_hash.get(), bits.dp_hash.get(), u32::MAX)?;
        parts.number("pkt_mark", key.skb_mark.get(), bits.skb_mark.get(), u32::MAX)?;
        if key.is_ethernet() {
            parts.add(format_args!("eth"))?;
        }
        let mut named = false;
        if bits.eth_type.get() == u16::MAX {
            match protocol(key, bits.ip_proto == u8::MAX) {
                Some((name, is_whole)) => {
                    named = is_whole;
                    parts.add(format_args!("{name}"))?;
                }
                None => parts.add(format_args!("dl_type={:#06x}", key.eth_type.get()))?,
            }
        }
        parts.number("in_port", key.in_port.get(), bits.in_port.get(), u32::MAX)?;
        let suffixes = ["", "1"];
        for ((tag, mask), suffix) in key.vlans.iter().zip(&bits.vlans).zip(suffixes) {
            parts.tag(*tag, mask.tci.get(), suffix)?;
        }
        fields(&mut parts, key, bits, named)
    }
}

impl fmt::Display for PacketText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.0;
        let mask = FlowMask::exact_for(key);
        let mut parts = Parts { f, is_first: true };
        let mut named = false;
        match protocol(key, true) {
            Some((name, is_whole)) => {
                named = is_whole;
                parts.add(format_args!("{name}"))?;
            }
            None => parts.add(format_args!("dl_type={:#06x}", key.eth_type.get()))?,
        }
        let [outer, inner] = key.vlans;
        parts.tag(outer, u16::MAX, "")?;
        if outer.tci.get() & vlan::CFI != 0 {
            parts.tag(inner, u16::MAX, "1")?;
        }
        fields(&mut parts, key, mask.bits(), named)
    }
}

#[cfg(test)]
mod tests {
    use netdev::packet::Descriptor;

    use super::*;
    use crate::flow::{Field, PacketKey, extract_bytes};
    use crate::testing::udp;

    #[test]
    fn texts_are_those_of_open_vswitch() {
        let mut frame = udp(0x7f00_0001, 0x7f00_0001, [81, 82], &[0; 12]);
        let mut key = PacketKey::default();
        let extract = |frame: &[u8], key: &mut PacketKey| {
            extract_bytes(frame, frame.len(), &mut Descriptor::default(), None, 2, key);
        };
        extract(&frame, &mut key);
        let common = "dl_src=02:00:00:00:00:01,dl_dst=02:00:00:00:00:02,nw_src=127.0.0.1,\
                      nw_dst=127.0.0.1,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,tp_src=81,tp_dst=82";
        assert_eq!(PacketText(key.key()).to_string(), format!("udp,vlan_tci=0x0000,{common}"));
        let mut bits = FlowKey::default();
        for field in [Field::RecircId, Field::InPort, Field::EthType] {
            bits.set(field, u128::MAX);
        }
        bits.vlans[0].tci.set(0x1fff);
        bits.ip_frag = 3;
        let text = |key: &FlowKey, bits: &FlowKey| {
            MatchText { key, mask: &FlowMask::new(bits.clone()) }.to_string()
        };
        assert_eq!(
            text(key.key(), &bits),
            "recirc_id=0,eth,ip,in_port=0,vlan_tci=0x0000/0x1fff,nw_frag=no"
        );
        frame.splice(12..12, [0x81, 0, 0xe0, 99]);
        extract(&frame, &mut key);
        let tags = "dl_vlan=99,dl_vlan_pcp=7,vlan_tci1=0x0000";
        assert_eq!(PacketText(key.key()).to_string(), format!("udp,{tags},{common}"));
        bits.in_port.set(0);
        bits.ip_proto = 0xff;
        bits.set(Field::Ipv4Src, 0xffff_ff00);
        bits.set(Field::TpDst, u128::MAX);
        assert_eq!(
            text(key.key(), &bits),
            "recirc_id=0,eth,udp,dl_vlan=99,nw_src=127.0.0.0/24,nw_frag=no,tp_dst=82"
        );
    }
}
