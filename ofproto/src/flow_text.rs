//! Packets, and the bits of them that matter, as `ofproto/trace` writes them.

use dpif::flow::{FRAG_LATER, Field, Prerequisite};
use netdev::wire::ethernet::ether_type;
use netdev::wire::{ip_protocol, mpls};

use crate::flow::Flow;
use crate::openflow::flow_match::{Match, ct_state};
use crate::openflow::text::{DEFAULT_PRIORITY, InnerHeaders, Names, print_match_of_packet};
use crate::openflow::tlv_map::TlvMap;

/// The fields of a packet, tunnel options among them as `tlv` maps them. Of what is not in its
/// headers, only what is not zero.
pub fn packet_text(flow: &Flow, tlv: &TlvMap, names: &dyn Names) -> String {
    megaflow_text(flow, &shown(flow), tlv, names)
}

/// The match for packets that have all the fields of this one.
pub fn packet_match(flow: &Flow, tlv: &TlvMap) -> Match {
    flow.to_match(&shown(flow), tlv)
}

/// The fields of packets that are like `flow` in every bit of `mask`.
pub fn megaflow_text(flow: &Flow, mask: &Flow, tlv: &TlvMap, names: &dyn Names) -> String {
    let (packet, bits) = (&flow.packet, &mask.packet);
    let [_, tag] = packet.vlans;
    let [_, tag_mask] = bits.vlans;
    let [_, second, third] = packet.mpls;
    let [_, second_mask, third_mask] = bits.mpls;
    let inner = InnerHeaders {
        vlan: (tag.tci.get() & tag_mask.tci.get(), tag_mask.tci.get()),
        mpls: [
            (second.get() & second_mask.get(), second_mask.get()),
            (third.get() & third_mask.get(), third_mask.get()),
        ],
    };
    let mut text = String::new();
    print_match_of_packet(&mut text, &flow.to_match(mask, tlv), inner, DEFAULT_PRIORITY, names);
    text
}

/// The fields that are worth showing of a packet.
fn shown(flow: &Flow) -> Flow {
    let mut mask = Flow::default();
    mask.tunnel_metadata = flow.tunnel_metadata.all_bits();
    let packet = &flow.packet;
    let mut show = |fields: &[Field]| {
        fields.iter().for_each(|field| mask.packet.set(*field, u128::MAX));
    };
    if packet.tunnel.has_destination() {
        let tunnel = Field::ALL.iter().filter(|field| {
            field.prerequisite() == Prerequisite::Tunnel && **field != Field::TunId
        });
        tunnel.for_each(|field| show(&[*field]));
        if packet.tunnel.flags.get() & dpif::flow::tunnel_flag::KEY != 0 {
            show(&[Field::TunId]);
        }
    } else if packet.tunnel.id.get() != 0 {
        show(&[Field::TunId]);
    }
    for field in [
        Field::SkbPriority,
        Field::SkbMark,
        Field::RecircId,
        Field::DpHash,
        Field::CtState,
        Field::CtZone,
        Field::CtMark,
        Field::CtLabel,
    ] {
        if packet.get(field) != 0 {
            show(&[field]);
        }
    }
    show(&[Field::PacketNamespace, Field::PacketType]);
    let eth_type = match packet.is_ethernet() {
        true => {
            show(&[Field::EthDst, Field::EthSrc, Field::EthType, Field::VlanTci]);
            if packet.get(Field::VlanTci) != 0 {
                show(&[Field::InnerVlanTci]);
            }
            packet.eth_type.get()
        }
        false => packet.packet_type.get(),
    };
    let is_tracked = u32::from(packet.ct_state) & ct_state::TRACKED != 0
        && u32::from(packet.ct_state) & ct_state::INVALID == 0
        && packet.ct_proto != 0;
    let is_ip = matches!(eth_type, ether_type::IPV4 | ether_type::IPV6);
    match eth_type {
        ether_type::IPV4 => {
            show(&[Field::Ipv4Src, Field::Ipv4Dst]);
            if is_tracked {
                show(&[Field::CtIpv4Src, Field::CtIpv4Dst]);
            }
        }
        ether_type::IPV6 => {
            show(&[Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label]);
            if flow.is_neighbour_discovery() {
                show(&[Field::ArpSha, Field::ArpTha, Field::NdTarget]);
            } else if is_tracked {
                show(&[Field::CtIpv6Src, Field::CtIpv6Dst]);
            }
        }
        ether_type::ARP | ether_type::RARP => {
            show(&[Field::Ipv4Src, Field::Ipv4Dst, Field::IpProto, Field::ArpSha, Field::ArpTha]);
        }
        eth_type if mpls::is_mpls(eth_type) => {
            let labels = [Field::Mpls0, Field::Mpls1, Field::Mpls2];
            let bottom = packet.mpls.iter().position(|entry| entry.get() & mpls::BOTTOM != 0);
            let shown = bottom.map_or(labels.len(), |last| last + 1);
            labels.iter().take(shown).for_each(|label| show(&[*label]));
        }
        _ if packet.eth_type.get() == ether_type::NSH => {
            show(&[
                Field::NshFlags,
                Field::NshTtl,
                Field::NshMdType,
                Field::NshNextProtocol,
                Field::NshPath,
                Field::NshC1,
                Field::NshC2,
                Field::NshC3,
                Field::NshC4,
            ]);
        }
        _ => {}
    }
    if is_ip || packet.eth_type.get() == ether_type::NSH {
        show(&[Field::IpFrag, Field::IpTos, Field::IpTtl, Field::IpProto]);
        if is_tracked {
            show(&[Field::CtProto, Field::CtTpSrc, Field::CtTpDst]);
        }
        use ip_protocol::{ICMP, ICMPV6, IGMP, SCTP, TCP, UDP};
        let proto = packet.ip_proto;
        if packet.ip_frag & FRAG_LATER == 0
            && matches!(proto, ICMP | ICMPV6 | TCP | UDP | SCTP | IGMP)
        {
            show(&[Field::TpSrc, Field::TpDst]);
            match proto {
                TCP => show(&[Field::TcpFlags]),
                IGMP => show(&[Field::IgmpGroup]),
                _ => {}
            }
        }
    }
    for (shown, register) in
        mask.registers.as_flattened_mut().chunks_mut(4).zip(flow.registers.as_flattened().chunks(4))
    {
        if register.iter().any(|byte| *byte != 0) {
            shown.fill(u8::MAX);
        }
    }
    if flow.metadata.get() != 0 {
        mask.metadata.set(u64::MAX);
    }
    if flow.in_port.get() != 0 {
        mask.in_port.set(u16::MAX);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::port::PortNo;
    use crate::openflow::text::{NoNames, parse_match};
    use dpif::flow::parse_key;

    fn packet(text: &str) -> Flow {
        Flow::of_packet(parse_key(text, None, 2).unwrap().0, PortNo(1))
    }

    fn shown_text(text: &str) -> String {
        packet_text(&packet(text), &TlvMap::default(), &NoNames)
    }

    #[test]
    fn packets_show_the_fields_that_they_have() {
        let ethernet = "eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07)";
        assert_eq!(
            shown_text(&format!(
                "{ethernet},eth_type(0x0800),ipv4(src=192.168.0.1,dst=192.168.0.2,proto=1,tos=0,\
                 ttl=64,frag=no),icmp(type=8,code=0)"
            )),
            "icmp,in_port=1,vlan_tci=0x0000,dl_src=50:54:00:00:00:05,dl_dst=50:54:00:00:00:07,\
             nw_src=192.168.0.1,nw_dst=192.168.0.2,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,\
             icmp_type=8,icmp_code=0"
        );
        assert_eq!(
            shown_text(&format!(
                "recirc_id(0x2),ct_state(0x21),ct_zone(5),{ethernet},eth_type(0x8100),\
                 vlan(vid=9,pcp=2),encap(eth_type(0x86dd),ipv6(src=fe80::1,dst=fe80::2,\
                 label=0x3,proto=6,tclass=0x2,hlimit=9,frag=no),tcp(src=1,dst=2),\
                 tcp_flags(syn|ack))"
            )),
            "recirc_id=0x2,ct_state=new|trk,ct_zone=5,eth,tcp6,in_port=1,dl_vlan=9,dl_vlan_pcp=2,\
             vlan_tci1=0x0000,dl_src=50:54:00:00:00:05,dl_dst=50:54:00:00:00:07,ipv6_src=fe80::1,\
             ipv6_dst=fe80::2,ipv6_label=0x00003,nw_tos=0,nw_ecn=2,nw_ttl=9,nw_frag=no,tp_src=1,\
             tp_dst=2,tcp_flags=syn|ack"
        );
        assert_eq!(
            shown_text(&format!(
                "{ethernet},eth_type(0x8847),mpls(label=1,tc=0,ttl=64,bos=0,label=2,tc=0,ttl=64,\
                 bos=1)"
            )),
            "mpls,in_port=1,vlan_tci=0x0000,dl_src=50:54:00:00:00:05,dl_dst=50:54:00:00:00:07,\
             mpls_label=1,mpls_tc=0,mpls_ttl=64,mpls_bos=0,mpls_lse1=8512"
        );
    }

    #[test]
    fn registers_and_metadata_show_if_set() {
        let mut flow = packet("eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x1234)");
        flow.metadata.set(5);
        let (value, mask) =
            Flow::of_match(&parse_match("reg1=0x7,reg31=9", &NoNames).unwrap(), &TlvMap::default());
        flow.unite(&value);
        assert_eq!(
            packet_text(&flow, &TlvMap::default(), &NoNames),
            "reg1=0x7,reg31=0x9,metadata=0x5,in_port=1,vlan_tci=0x0000,\
             dl_src=50:54:00:00:00:05,dl_dst=50:54:00:00:00:07,dl_type=0x1234"
        );
        assert_eq!(megaflow_text(&flow, &mask, &TlvMap::default(), &NoNames), "reg1=0x7,reg31=0x9");
    }

    #[test]
    fn megaflows_say_that_packets_are_ethernet() {
        let flow = packet(
            "eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x0800),ipv4(src=1.2.3.4,\
             dst=5.6.7.8,proto=17,tos=0,ttl=64,frag=no),udp(src=1,dst=2)",
        );
        let mut mask = Flow::default();
        for field in [Field::RecircId, Field::PacketNamespace, Field::PacketType, Field::EthType] {
            mask.packet.set(field, u128::MAX);
        }
        mask.packet.set(Field::IpFrag, 3);
        mask.packet.set(Field::Ipv4Dst, 0xffff_0000);
        mask.packet.vlans[0].tci.set(0x1fff);
        mask.in_port.set(u16::MAX);
        assert_eq!(
            megaflow_text(&flow, &mask, &TlvMap::default(), &NoNames),
            "recirc_id=0,eth,ip,in_port=1,vlan_tci=0x0000/0x1fff,nw_dst=5.6.0.0/16,nw_frag=no"
        );
    }
}
