//! From a flow key to a packet that has it.

use netdev::wire::arp::{self, ArpHeader};
use netdev::wire::checksum::{Sum, checksum};
use netdev::wire::ethernet::{EthernetHeader, ether_type};
use netdev::wire::icmp::{self, IcmpHeader};
use netdev::wire::icmpv6::{
    self, Icmpv6Header, LinkAddressOption, SOURCE_LINK_ADDRESS, TARGET_LINK_ADDRESS,
};
use netdev::wire::igmp::IgmpHeader;
use netdev::wire::ip_protocol::{ICMP, ICMPV6, IGMP, SCTP, TCP, UDP};
use netdev::wire::ipv4::{self, Ipv4Header};
use netdev::wire::ipv6::Ipv6Header;
use netdev::wire::nsh::{self, NshHeader};
use netdev::wire::sctp::SctpHeader;
use netdev::wire::tcp::{self, TcpHeader};
use netdev::wire::udp::UdpHeader;
use netdev::wire::vlan::{self, VlanHeader};
use netdev::wire::{mpls, split_mut};
use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

use super::field::Prerequisite;
use super::key::{ETH_TYPE_NONE, FRAG_ANY, FRAG_LATER, FlowKey, MAX_MPLS_LABELS};

/// Bytes of payload of a packet whose length nobody asked for.
const DEFAULT_PAYLOAD: usize = 64;

/// Why there is no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// The headers alone are longer than asked for.
    #[error("a packet of {length} bytes is too short for this flow, which needs {needed}")]
    TooShort {
        /// Bytes asked for.
        length: usize,
        /// Bytes of the headers.
        needed: usize,
    },
    /// An IP header cannot say such a length.
    #[error("a packet of {length} bytes is too long for this flow, which allows {allowed}")]
    TooLong {
        /// Bytes asked for.
        length: usize,
        /// Most bytes of a packet with such headers.
        allowed: usize,
    },
}

/// A frame that extraction reads as `key`, with right checksums (but none for SCTP). Its payload,
/// where the protocol has any, counts up from 0 for 64 bytes; with a `length` the frame is
/// exactly that long, filled up with zeros. A key of a packet without Ethernet header gets one.
pub fn compose(key: &FlowKey, length: Option<usize>) -> Result<Vec<u8>, ComposeError> {
    let payload = if length.is_some() { 0 } else { DEFAULT_PAYLOAD };
    let payload: Vec<u8> = (0..).take(payload).collect();
    compose_around(key, &payload, length)
}

/// The same with this payload, where the protocol has any.
pub fn compose_with(key: &FlowKey, payload: &[u8]) -> Result<Vec<u8>, ComposeError> {
    compose_around(key, payload, None)
}

fn compose_around(
    key: &FlowKey,
    payload: &[u8],
    length: Option<usize>,
) -> Result<Vec<u8>, ComposeError> {
    if key.eth_type.get() == ETH_TYPE_NONE {
        return untyped(key, length);
    }
    let mut frame = ethernet(key);
    let network = frame.len();
    match key.eth_type.get() {
        ether_type::IPV4 => {
            frame.extend(ipv4(key).as_bytes());
            frame.extend(transport(key, payload));
        }
        ether_type::IPV6 => {
            frame.extend(ipv6(key).as_bytes());
            frame.extend(transport(key, payload));
        }
        ether_type::ARP | ether_type::RARP => frame.extend(arp(key).as_bytes()),
        ether_type::NSH => nsh(key, &mut frame),
        eth_type if mpls::is_mpls(eth_type) => {
            let bottom = key.mpls.iter().position(|entry| entry.get() & mpls::BOTTOM != 0);
            let labels = bottom.map_or(MAX_MPLS_LABELS, |last| last + 1);
            frame.extend(key.mpls.iter().take(labels).flat_map(IntoBytes::as_bytes));
        }
        _ => {}
    }
    if let Some(length) = length {
        grow(&mut frame, length)?;
    }
    finish(key, &mut frame, network)?;
    Ok(frame)
}

fn grow(frame: &mut Vec<u8>, length: usize) -> Result<(), ComposeError> {
    if frame.len() > length {
        return Err(ComposeError::TooShort { length, needed: frame.len() });
    }
    frame.resize(length, 0);
    Ok(())
}

/// An 802.3 frame of nothing but zeros, without tags, whose type field says its length.
fn untyped(key: &FlowKey, length: Option<usize>) -> Result<Vec<u8>, ComposeError> {
    let mut frame = [key.eth_dst.as_bytes(), key.eth_src.as_bytes(), &[0; 2]].concat();
    grow(&mut frame, length.unwrap_or(size_of::<EthernetHeader>()))?;
    let total = frame.len() as u16;
    if let Some((header, _)) = split_mut::<EthernetHeader>(&mut frame) {
        header.ether_type.set(total);
    }
    Ok(frame)
}

/// The Ethernet header and tags.
fn ethernet(key: &FlowKey) -> Vec<u8> {
    let mut frame = [key.eth_dst.as_bytes(), key.eth_src.as_bytes()].concat();
    for tag in key.vlans.iter().filter(|tag| tag.tci.get() & vlan::CFI != 0) {
        let tci = U16::new(tag.tci.get() & !vlan::CFI);
        frame.extend(VlanHeader { tpid: tag.tpid, tci }.as_bytes());
    }
    frame.extend(key.eth_type.as_bytes());
    frame
}

fn ipv4(key: &FlowKey) -> Ipv4Header {
    let fragment = match key.ip_frag {
        frag if frag & FRAG_ANY == 0 => 0,
        frag if frag & FRAG_LATER == 0 => ipv4::MORE_FRAGMENTS,
        _ => ipv4::MORE_FRAGMENTS | 100,
    };
    Ipv4Header {
        version_length: Ipv4Header::PLAIN,
        tos: key.ip_tos,
        fragment: U16::new(fragment),
        ttl: key.ip_ttl,
        protocol: key.ip_proto,
        source: key.ipv4_src,
        destination: key.ipv4_dst,
        ..Default::default()
    }
}

fn ipv6(key: &FlowKey) -> Ipv6Header {
    let flow = 6 << 28 | u32::from(key.ip_tos) << 20 | key.ipv6_label.get();
    Ipv6Header {
        flow: flow.into(),
        payload_length: U16::ZERO,
        next_header: key.ip_proto,
        hop_limit: key.ip_ttl,
        source: key.ipv6_src,
        destination: key.ipv6_dst,
    }
}

fn arp(key: &FlowKey) -> ArpHeader {
    let operation = u16::from(key.ip_proto);
    let mut header = ArpHeader {
        hardware: U16::new(1),
        protocol: U16::new(ether_type::IPV4),
        hardware_length: 6,
        protocol_length: 4,
        operation: U16::new(operation),
        ..Default::default()
    };
    if matches!(operation, arp::REQUEST | arp::REPLY) {
        header.source_ip = key.ipv4_src;
        header.target_ip = key.ipv4_dst;
        header.source_mac = key.arp_sha;
        header.target_mac = key.arp_tha;
    }
    header
}

fn nsh(key: &FlowKey, frame: &mut Vec<u8>) {
    let nsh = &key.nsh;
    let type1 = nsh.md_type == nsh::MD_TYPE1;
    let length = if type1 { nsh::MD_TYPE1_LENGTH } else { size_of::<NshHeader>() };
    let header = NshHeader {
        base: NshHeader::base(nsh.flags, nsh.ttl, length),
        md_type: nsh.md_type,
        next_protocol: nsh.next_protocol,
        path: nsh.path,
    };
    frame.extend(header.as_bytes());
    if type1 {
        frame.extend(nsh.context.as_bytes());
    }
}

/// The transport header with payload. Lengths and checksums are still missing.
fn transport(key: &FlowKey, payload: &[u8]) -> Vec<u8> {
    if key.ip_frag & FRAG_LATER != 0 {
        return vec![];
    }
    let (kind, code) = (key.tp_src.get() as u8, key.tp_dst.get() as u8);
    match key.ip_proto {
        TCP => {
            let flags = key.tcp_flags.get();
            let header = TcpHeader {
                source: key.tp_src,
                destination: key.tp_dst,
                offset_flags: U16::new(5 << 12 | flags),
                ..Default::default()
            };
            let has_payload = flags & (tcp::SYN | tcp::FIN | tcp::RST) == 0;
            [header.as_bytes(), if has_payload { payload } else { &[] }].concat()
        }
        UDP => {
            let header =
                UdpHeader { source: key.tp_src, destination: key.tp_dst, ..Default::default() };
            [header.as_bytes(), payload].concat()
        }
        SCTP => {
            let header =
                SctpHeader { source: key.tp_src, destination: key.tp_dst, ..Default::default() };
            header.as_bytes().to_vec()
        }
        ICMP => {
            let header = IcmpHeader { message_type: kind, code, ..Default::default() };
            let is_echo = matches!((kind, code), (icmp::ECHO_REQUEST | icmp::ECHO_REPLY, 0));
            [header.as_bytes(), if is_echo { payload } else { &[] }].concat()
        }
        IGMP => {
            let group = key.igmp_group;
            IgmpHeader { message_type: kind, code, group, ..Default::default() }.as_bytes().to_vec()
        }
        ICMPV6 => {
            let data = key.igmp_group;
            let header = Icmpv6Header { message_type: kind, code, data, ..Default::default() };
            let mut bytes = header.as_bytes().to_vec();
            let kind = (kind, code);
            if let (icmpv6::NEIGHBOUR_SOLICITATION | icmpv6::NEIGHBOUR_ADVERTISEMENT, 0) = kind {
                bytes.extend(key.nd_target);
                for (option_type, address) in
                    [(SOURCE_LINK_ADDRESS, key.arp_sha), (TARGET_LINK_ADDRESS, key.arp_tha)]
                {
                    if !address.is_zero() {
                        let option = LinkAddressOption { option_type, length: 1, address };
                        bytes.extend(option.as_bytes());
                    }
                }
            } else if let (icmpv6::ECHO_REQUEST | icmpv6::ECHO_REPLY, 0) = kind {
                bytes.extend(payload);
            }
            bytes
        }
        _ => vec![],
    }
}

/// Fills in lengths and checksums. `network` is where the network header starts.
fn finish(key: &FlowKey, frame: &mut [u8], network: usize) -> Result<(), ComposeError> {
    let length = frame.len();
    let Some(packet) = frame.get_mut(network..) else { return Ok(()) };
    let (sum, transport) = if Prerequisite::Ipv4.holds(key) {
        let total = u16::try_from(packet.len());
        let allowed = network + usize::from(u16::MAX);
        let total = total.map_err(|_| ComposeError::TooLong { length, allowed })?;
        let Some((header, rest)) = split_mut::<Ipv4Header>(packet) else { return Ok(()) };
        header.total_length.set(total);
        header.checksum.set(checksum(header.as_bytes()));
        (Sum::of_pseudo_ipv4(header, key.ip_proto, rest.len()), rest)
    } else if Prerequisite::Ipv6.holds(key) {
        let Some((header, rest)) = split_mut::<Ipv6Header>(packet) else { return Ok(()) };
        let allowed = network + size_of::<Ipv6Header>() + usize::from(u16::MAX);
        let payload = u16::try_from(rest.len());
        let payload = payload.map_err(|_| ComposeError::TooLong { length, allowed })?;
        header.payload_length.set(payload);
        (Sum::of_pseudo_ipv6(header, key.ip_proto, rest.len()), rest)
    } else {
        return Ok(());
    };
    if key.ip_frag & FRAG_LATER == 0 {
        finish_transport(key.ip_proto, transport, sum);
    }
    Ok(())
}

fn finish_transport(protocol: u8, bytes: &mut [u8], pseudo: Sum) {
    if protocol == UDP {
        let length = bytes.len() as u16;
        if let Some((header, _)) = split_mut::<UdpHeader>(bytes) {
            header.length.set(length);
        }
    }
    let sum = pseudo.add_bytes(bytes).finish();
    match protocol {
        TCP => {
            if let Some((header, _)) = split_mut::<TcpHeader>(bytes) {
                header.checksum.set(sum);
            }
        }
        UDP => {
            if let Some((header, _)) = split_mut::<UdpHeader>(bytes) {
                // 0 would say that there is no checksum.
                header.checksum.set(if sum == 0 { 0xffff } else { sum });
            }
        }
        ICMPV6 => {
            if let Some((header, _)) = split_mut::<Icmpv6Header>(bytes) {
                header.checksum.set(sum);
            }
        }
        ICMP => {
            let sum = checksum(bytes);
            if let Some((header, _)) = split_mut::<IcmpHeader>(bytes) {
                header.checksum.set(sum);
            }
        }
        IGMP => {
            let sum = checksum(bytes);
            if let Some((header, _)) = split_mut::<IgmpHeader>(bytes) {
                header.checksum.set(sum);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use netdev::packet::Descriptor;
    use proptest::prelude::*;

    use super::*;
    use crate::flow::generate;
    use crate::flow::{Field, PacketKey, extract_bytes, parse_key};

    fn key(text: &str) -> FlowKey {
        parse_key(text, None, 2).unwrap().0
    }

    fn read(frame: &[u8]) -> (FlowKey, Descriptor) {
        let mut descriptor = Descriptor::default();
        let mut to = PacketKey::default();
        extract_bytes(frame, frame.len(), &mut descriptor, None, 2, &mut to);
        (to.key().clone(), descriptor)
    }

    #[test]
    fn composes_an_echo_request() {
        let key = key("eth(src=50:54:00:00:00:05,dst=50:54:00:00:00:07),eth_type(0x0800),\
                       ipv4(src=192.168.0.1,dst=192.168.0.2,proto=1,tos=0,ttl=64,frag=no),\
                       icmp(type=8,code=0)");
        let frame = compose(&key, None).unwrap();
        let mut wanted = vec![
            0x50, 0x54, 0, 0, 0, 7, 0x50, 0x54, 0, 0, 0, 5, 8, 0, // Ethernet
            0x45, 0, 0, 92, 0, 0, 0, 0, 64, 1, 0xf9, 0x4d, 192, 168, 0, 1, 192, 168, 0,
            2, // IPv4
            8, 0, 0x13, 0xfc, 0, 0, 0, 0, // ICMP
        ];
        wanted.extend(0..64);
        assert_eq!(frame, wanted);
    }

    #[test]
    fn composes_tags_and_an_exact_length() {
        let key = key("eth(),eth_type(0x88a8),vlan(vid=5,pcp=1),encap(eth_type(0x8100),\
                       vlan(vid=6,pcp=0),encap(eth_type(0x86dd),\
                       ipv6(src=::1,dst=::2,label=0,proto=17,tclass=0,hlimit=1,frag=no),\
                       udp(src=1,dst=2)))");
        for length in [70, 71, 1500, 65_535] {
            let frame = compose(&key, Some(length)).unwrap();
            assert_eq!(frame.len(), length);
            assert_eq!(frame[26..28], (length as u16 - 62).to_be_bytes());
            assert_eq!(frame[66..68], (length as u16 - 62).to_be_bytes());
            let mut wanted = key.clone();
            wanted.in_port.set(0);
            assert_eq!(read(&frame).0, wanted);
        }
        let error = ComposeError::TooShort { length: 69, needed: 70 };
        assert_eq!(compose(&key, Some(69)), Err(error));
        let error = ComposeError::TooLong { length: 65_598, allowed: 65_597 };
        assert_eq!(compose(&key, Some(65_598)), Err(error));
    }

    #[test]
    fn a_frame_without_ethertype_says_its_length() {
        let frame = compose(&key("eth()"), Some(60)).unwrap();
        assert_eq!(frame, [vec![0; 12], vec![0, 60], vec![0; 46]].concat());
        assert_eq!(compose(&key("eth()"), None).unwrap(), [vec![0; 12], vec![0, 14]].concat());
    }

    proptest! {
        #[test]
        fn composes_what_extraction_reads(key in generate::key(), length in 100..400usize) {
            for length in [None, Some(length)] {
                let Ok(frame) = compose(&key, length) else { continue };
                let (read, descriptor) = read(&frame);
                for field in [
                    Field::EthSrc, Field::EthDst, Field::IpProto, Field::IpTos, Field::IpTtl,
                    Field::Ipv6Src, Field::Ipv6Dst, Field::Ipv6Label, Field::TcpFlags,
                    Field::NshPath, Field::NshC1, Field::Mpls0, Field::NdTarget,
                ] {
                    // Nothing composes extension headers.
                    let extension = matches!(key.ip_proto, 0 | 43 | 44 | 51 | 60);
                    let missing = extension && key.is_ip() || key.ip_frag != 0;
                    if field.prerequisite().holds(&key) && !missing {
                        prop_assert_eq!(read.get(field), key.get(field), "{:?} {:?}", field, key);
                    }
                }
                if descriptor.l4 == netdev::packet::NO_LAYER || read.ip_frag & FRAG_LATER != 0 {
                    continue;
                }
                // A right checksum makes the sum of everything vanish.
                let (header, bytes) = frame.split_at(descriptor.l4.into());
                let header = &header[descriptor.l3.into()..];
                let pseudo = if read.eth_type.get() == ether_type::IPV4 {
                    prop_assert_eq!(checksum(header), 0);
                    let (header, _) = netdev::wire::split::<Ipv4Header>(header).unwrap();
                    Sum::of_pseudo_ipv4(header, key.ip_proto, bytes.len())
                } else {
                    let (header, _) = netdev::wire::split::<Ipv6Header>(header).unwrap();
                    Sum::of_pseudo_ipv6(header, key.ip_proto, bytes.len())
                };
                match read.ip_proto {
                    TCP | UDP | ICMPV6 => {
                        prop_assert_eq!(pseudo.add_bytes(bytes).finish(), 0);
                    }
                    ICMP | IGMP => prop_assert_eq!(checksum(bytes), 0),
                    _ => {}
                }
            }
        }
    }
}
