//! Extraction from the network layer.

use netdev::wire::arp::ArpHeader;
use netdev::wire::ethernet::ether_type;
use netdev::wire::ip_protocol::{
    AUTHENTICATION, DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING,
};
use netdev::wire::ipv4::{self, Ipv4Header};
use netdev::wire::ipv6::{self, ExtensionHeader, FragmentHeader, Ipv6Header};
use netdev::wire::nsh::{self, NshHeader};
use zerocopy::network_endian::U32;

use super::Extraction;
use crate::flow::field::Field;
use crate::flow::key::{FRAG_ANY, FRAG_LATER};
use crate::flow::metadata::OriginalTuple;

impl Extraction<'_> {
    pub(super) fn ipv4(&mut self) -> Option<()> {
        let header: &Ipv4Header = self.rest.peek()?;
        let header_length = header.header_length();
        let total_length = usize::from(header.total_length.get());
        let padding = self.rest.len().checked_sub(total_length)?;
        if header_length < size_of::<Ipv4Header>()
            || header_length > total_length
            || padding > usize::from(u16::MAX)
        {
            return None;
        }
        self.rest.cut(total_length);
        self.key.ipv4_src = header.source;
        self.key.ipv4_dst = header.destination;
        if let OriginalTuple::Ipv4 { source, destination, protocol, .. } = self.original
            && *protocol != 0
        {
            self.key.ct_proto = *protocol;
            self.key.ct_ipv4_src.set(*source);
            self.key.ct_ipv4_dst.set(*destination);
            self.use_lines_of(&[Field::CtProto, Field::CtIpv4Src, Field::CtIpv4Dst]);
        }
        let fragment = header.fragment.get();
        self.key.ip_frag = match fragment & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) {
            0 => 0,
            ipv4::MORE_FRAGMENTS => FRAG_ANY,
            _ => FRAG_ANY | FRAG_LATER,
        };
        self.key.ip_tos = header.tos;
        self.key.ip_ttl = header.ttl;
        self.key.ip_proto = header.protocol;
        self.rest.skip(header_length)?;
        self.transport()
    }

    pub(super) fn ipv6(&mut self) -> Option<()> {
        let header: &Ipv6Header = self.rest.peek()?;
        let payload_length = usize::from(header.payload_length.get());
        let behind = self.rest.len().checked_sub(size_of::<Ipv6Header>())?;
        let padding = behind.checked_sub(payload_length)?;
        if padding > usize::from(u16::MAX) {
            return None;
        }
        self.rest.skip(size_of::<Ipv6Header>())?;
        self.rest.cut(payload_length);
        self.key.ipv6_src = header.source;
        self.key.ipv6_dst = header.destination;
        self.use_lines_of(&[Field::Ipv6Src, Field::Ipv6Dst]);
        if let OriginalTuple::Ipv6 { source, destination, protocol, .. } = self.original
            && *protocol != 0
        {
            self.key.ct_proto = *protocol;
            self.key.ct_ipv6_src = *source;
            self.key.ct_ipv6_dst = *destination;
            self.use_lines_of(&[Field::CtProto, Field::CtIpv6Src, Field::CtIpv6Dst]);
        }
        let (protocol, fragment) = self.extensions(header.next_header)?;
        let flow = header.flow.get();
        self.key.ipv6_label.set(flow & ipv6::LABEL_MASK);
        self.use_lines_of(&[Field::Ipv6Label]);
        self.key.ip_tos = (flow >> 20) as u8;
        self.key.ip_ttl = header.hop_limit;
        self.key.ip_proto = protocol;
        self.key.ip_frag = fragment;
        self.transport()
    }

    /// Takes off extension headers. Returns the protocol behind them, which in a fragment other
    /// than the first is the fragment header itself, and the fragment bits.
    fn extensions(&mut self, next_header: u8) -> Option<(u8, u8)> {
        let (mut protocol, mut fragment) = (next_header, 0);
        loop {
            let length = match protocol {
                HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => {
                    let header: &ExtensionHeader = self.rest.peek()?;
                    protocol = header.next_header;
                    (usize::from(header.length) + 1) * 8
                }
                AUTHENTICATION => {
                    let header: &ExtensionHeader = self.rest.peek()?;
                    protocol = header.next_header;
                    (usize::from(header.length) + 2) * 4
                }
                FRAGMENT => {
                    let header: &FragmentHeader = self.rest.pull()?;
                    protocol = header.next_header;
                    let offset_more = header.offset_more.get();
                    if offset_more != 0 {
                        fragment = FRAG_ANY;
                    }
                    if offset_more & FragmentHeader::OFFSET_MASK != 0 {
                        return Some((FRAGMENT, FRAG_ANY | FRAG_LATER));
                    }
                    0
                }
                _ => return Some((protocol, fragment)),
            };
            self.rest.skip(length)?;
        }
    }

    pub(super) fn arp(&mut self) -> Option<()> {
        let header: &ArpHeader = self.rest.peek()?;
        if (header.hardware.get(), header.hardware_length) != (1, 6)
            || (header.protocol.get(), header.protocol_length) != (ether_type::IPV4, 4)
        {
            return None;
        }
        self.key.ipv4_src = header.source_ip;
        self.key.ipv4_dst = header.target_ip;
        // There is room for operations of 8 bits; others read as 0.
        self.key.ip_proto = u8::try_from(header.operation.get()).unwrap_or(0);
        self.key.arp_sha = header.source_mac;
        self.key.arp_tha = header.target_mac;
        self.use_lines_of(&[Field::ArpSha, Field::ArpTha]);
        Some(())
    }

    pub(super) fn nsh(&mut self) -> Option<()> {
        let header: &NshHeader = self.rest.peek()?;
        let length = header.length();
        if length > self.rest.len() || header.version() != 0 {
            return None;
        }
        let mut context = [U32::ZERO; 4];
        if header.md_type == nsh::MD_TYPE1 {
            if length != nsh::MD_TYPE1_LENGTH {
                return None;
            }
            let mut rest = self.rest;
            rest.skip(size_of::<NshHeader>())?;
            context = *rest.peek()?;
        } else if header.md_type == nsh::MD_TYPE2 && length < size_of::<NshHeader>() {
            return None;
        }
        let key = &mut self.key.nsh;
        key.flags = header.flags();
        key.ttl = header.ttl();
        key.md_type = header.md_type;
        key.next_protocol = header.next_protocol;
        key.path = header.path;
        key.context = context;
        self.use_lines_of(&[Field::NshFlags, Field::NshC4]);
        Some(())
    }
}
