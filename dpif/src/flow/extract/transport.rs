//! Extraction from the transport layer.

use netdev::wire::ethernet::MacAddress;
use netdev::wire::icmp::IcmpHeader;
use netdev::wire::icmpv6::{
    Icmpv6Header, LinkAddressOption, NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION,
    SOURCE_LINK_ADDRESS, TARGET_LINK_ADDRESS,
};
use netdev::wire::igmp::IgmpHeader;
use netdev::wire::ip_protocol::{ICMP, ICMPV6, IGMP, SCTP, TCP, UDP};
use netdev::wire::sctp::SctpHeader;
use netdev::wire::tcp::{self, TcpHeader};
use netdev::wire::udp::UdpHeader;

use super::Extraction;
use crate::flow::field::Field;
use crate::flow::key::FRAG_LATER;
use crate::flow::metadata::OriginalTuple;

impl Extraction<'_> {
    /// What is behind the IP header and its extensions.
    pub(super) fn transport(&mut self) -> Option<()> {
        self.descriptor.l4 = self.rest.offset();
        if self.key.ip_frag & FRAG_LATER != 0 {
            if matches!(self.key.ct_proto, TCP | UDP | SCTP | ICMP | ICMPV6) {
                self.original_ports();
            }
            return None;
        }
        match self.key.ip_proto {
            TCP => {
                let header: &TcpHeader = self.rest.peek()?;
                let length = header.header_length();
                if length < size_of::<TcpHeader>() || length > self.rest.len() {
                    return None;
                }
                self.key.tcp_flags.set(header.offset_flags.get() & tcp::FLAGS_MASK);
                self.key.tp_src = header.source;
                self.key.tp_dst = header.destination;
            }
            UDP => {
                let header: &UdpHeader = self.rest.peek()?;
                self.key.tp_src = header.source;
                self.key.tp_dst = header.destination;
            }
            SCTP => {
                let header: &SctpHeader = self.rest.peek()?;
                self.key.tp_src = header.source;
                self.key.tp_dst = header.destination;
            }
            ICMP => {
                let header: &IcmpHeader = self.rest.peek()?;
                self.key.tp_src.set(header.message_type.into());
                self.key.tp_dst.set(header.code.into());
            }
            IGMP => {
                let header: &IgmpHeader = self.rest.peek()?;
                self.key.tp_src.set(header.message_type.into());
                self.key.tp_dst.set(header.code.into());
                self.key.igmp_group = header.group;
                self.use_lines_of(&[Field::IgmpGroup]);
                return None;
            }
            ICMPV6 => {
                let header: &Icmpv6Header = self.rest.pull()?;
                self.key.tp_src.set(header.message_type.into());
                self.key.tp_dst.set(header.code.into());
                let kind = (header.message_type, header.code);
                if matches!(kind, (NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT, 0)) {
                    self.key.igmp_group = header.data;
                    self.use_lines_of(&[Field::IgmpGroup]);
                    return self.neighbour();
                }
            }
            _ => return None,
        }
        self.original_ports();
        Some(())
    }

    /// Target and link-layer addresses of neighbour discovery. The same option twice makes all
    /// of them invalid; an option that is cut short ends them.
    fn neighbour(&mut self) -> Option<()> {
        let target: &[u8; 16] = self.rest.pull()?;
        self.key.nd_target = *target;
        self.use_lines_of(&[Field::NdTarget, Field::ArpSha, Field::ArpTha, Field::NdOption]);
        loop {
            let option: &LinkAddressOption = self.rest.peek()?;
            let length = usize::from(option.length) * size_of::<LinkAddressOption>();
            if length == 0 || length > self.rest.len() {
                return None;
            }
            let address = match option.option_type {
                SOURCE_LINK_ADDRESS if option.length == 1 => Some(&mut self.key.arp_sha),
                TARGET_LINK_ADDRESS if option.length == 1 => Some(&mut self.key.arp_tha),
                _ => None,
            };
            if let Some(address) = address {
                if !address.is_zero() {
                    self.key.nd_target = [0; 16];
                    self.key.arp_sha = MacAddress::default();
                    self.key.arp_tha = MacAddress::default();
                    return None;
                }
                *address = option.address;
                if self.key.nd_option == 0 {
                    self.key.nd_option = option.option_type;
                }
            }
            self.rest.skip(length)?;
        }
    }

    /// Ports of the original direction of the connection, if its addresses are known.
    fn original_ports(&mut self) {
        if self.key.ct_proto == 0 {
            return;
        }
        if let OriginalTuple::Ipv4 { source_port, destination_port, .. }
        | OriginalTuple::Ipv6 { source_port, destination_port, .. } = self.original
        {
            self.key.ct_tp_src.set(*source_port);
            self.key.ct_tp_dst.set(*destination_port);
            self.use_lines_of(&[Field::CtTpSrc, Field::CtTpDst]);
        }
    }
}
