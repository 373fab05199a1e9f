//! The outer headers of a packet in a tunnel: Ethernet, IP and UDP.

use netdev::checksum::add_range;
use netdev::packet::{Checksum, Layer, PacketRef};
use netdev::wire::checksum::{Sum, checksum};
use netdev::wire::ethernet::ether_type;
use netdev::wire::ipv4::{self, Ipv4Header};
use netdev::wire::ipv6::{ExtensionHeader, Ipv6Header};
use netdev::wire::udp::UdpHeader;
use netdev::wire::{ip_protocol, split, vlan};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::PopError;
use crate::flow::{TunnelKey, tunnel_flag};
use crate::tunnel::events::{Event, Events};

/// Longest header that is read at once.
const MAX_HEADER: usize = 64;

/// A copy of the header at `offset` of a packet that ends at `end`.
pub(super) fn read<T>(
    packet: PacketRef<'_>,
    offset: usize,
    end: usize,
    header: &'static str,
) -> Result<T, PopError>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned + Copy,
{
    let mut scratch = [0; MAX_HEADER];
    let bytes = match offset + size_of::<T>() <= end {
        true => packet.header(offset, size_of::<T>(), &mut scratch),
        false => None,
    };
    let (found, _) = bytes.and_then(split::<T>).ok_or(PopError::Truncated { header })?;
    Ok(*found)
}

/// A routing header (RFC 8200 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Routing {
    /// Where it starts.
    pub(super) offset: usize,
    /// The protocol behind it.
    pub(super) next_header: u8,
}

/// What an outer IP header says.
pub(super) struct Outer {
    /// Addresses, type of service, time to live and flags.
    pub(super) tunnel: TunnelKey,
    /// What is behind it, and behind extension headers.
    pub(super) protocol: u8,
    /// Where that starts.
    pub(super) l4: usize,
    /// Where the packet ends; what follows is padding.
    pub(super) end: usize,
    /// The last of its routing headers.
    pub(super) routing: Option<Routing>,
    /// The sum of the addresses, for the pseudo header.
    addresses: Sum,
}

impl Outer {
    /// Reads and checks the outer headers of a packet, up to IP's.
    pub(super) fn read(packet: PacketRef<'_>, events: &mut Events) -> Result<Self, PopError> {
        let (l3, ether_type) = network(packet)?;
        match ether_type {
            ether_type::IPV4 => Self::ipv4(packet, l3, events),
            ether_type::IPV6 => Self::ipv6(packet, l3),
            protocol => Err(PopError::Protocol { protocol }),
        }
    }

    fn ipv4(packet: PacketRef<'_>, l3: usize, events: &mut Events) -> Result<Self, PopError> {
        let length = packet.len();
        let header: Ipv4Header = read(packet, l3, length, "ip")?;
        let version = header.version_length >> 4;
        if version != 4 {
            return Err(PopError::IpVersion { version });
        }
        let header_length = header.header_length();
        match packet.descriptor().checksum(Layer::Ip) {
            Checksum::Bad => return Err(PopError::IpChecksum),
            Checksum::Good | Checksum::Partial => {}
            Checksum::Unknown => {
                events.add(Event::IpChecked);
                let mut scratch = [0; MAX_HEADER];
                let bytes = packet.header(l3, header_length, &mut scratch);
                if checksum(bytes.ok_or(PopError::Truncated { header: "ip" })?) != 0 {
                    return Err(PopError::IpChecksum);
                }
            }
        }
        let (says, actual) = (usize::from(header.total_length.get()), length - l3);
        if says > actual || says < size_of::<Ipv4Header>() {
            return Err(PopError::Length { header: "ip", says, actual });
        }
        if header_length != size_of::<Ipv4Header>() {
            return Err(PopError::IpOptions { length: header_length });
        }
        let fragment = header.fragment.get();
        if fragment & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) != 0 {
            return Err(PopError::Fragment);
        }
        let mut tunnel = TunnelKey::default();
        (tunnel.ipv4_src, tunnel.ipv4_dst) = (header.source, header.destination);
        (tunnel.tos, tunnel.ttl) = (header.tos, header.ttl);
        if fragment & ipv4::DONT_FRAGMENT != 0 {
            tunnel.flags.set(tunnel_flag::DONT_FRAGMENT);
        }
        Ok(Self {
            tunnel,
            protocol: header.protocol,
            l4: l3 + header_length,
            end: l3 + says,
            routing: None,
            addresses: Sum::of_pseudo_ipv4(&header, 0, 0),
        })
    }

    fn ipv6(packet: PacketRef<'_>, l3: usize) -> Result<Self, PopError> {
        let length = packet.len();
        let header: Ipv6Header = read(packet, l3, length, "ip")?;
        let flow = header.flow.get();
        if flow >> 28 != 6 {
            return Err(PopError::IpVersion { version: (flow >> 28) as u8 });
        }
        let start = l3 + size_of::<Ipv6Header>();
        let (says, actual) = (usize::from(header.payload_length.get()), length - start);
        if says > actual {
            return Err(PopError::Length { header: "ip", says, actual });
        }
        let mut tunnel = TunnelKey::default();
        (tunnel.ipv6_src, tunnel.ipv6_dst) = (header.source, header.destination);
        (tunnel.tos, tunnel.ttl) = ((flow >> 20) as u8, header.hop_limit);
        let mut outer = Self {
            tunnel,
            protocol: header.next_header,
            l4: start,
            end: start + says,
            routing: None,
            addresses: Sum::of_pseudo_ipv6(&header, 0, 0),
        };
        outer.skip_extensions(packet)?;
        Ok(outer)
    }

    fn skip_extensions(&mut self, packet: PacketRef<'_>) -> Result<(), PopError> {
        loop {
            match self.protocol {
                ip_protocol::FRAGMENT => return Err(PopError::Fragment),
                ip_protocol::HOP_BY_HOP
                | ip_protocol::ROUTING
                | ip_protocol::DESTINATION_OPTIONS => {}
                _ => return Ok(()),
            }
            let header: ExtensionHeader = read(packet, self.l4, self.end, "ipv6 extension")?;
            if self.protocol == ip_protocol::ROUTING {
                let next_header = header.next_header;
                self.routing = Some(Routing { offset: self.l4, next_header });
            }
            self.protocol = header.next_header;
            self.l4 += 8 * (1 + usize::from(header.length));
            if self.l4 > self.end {
                return Err(PopError::Truncated { header: "ipv6 extension" });
            }
        }
    }

    /// Checks that the protocol is the one it must be.
    pub(super) fn need(&self, protocol: u8) -> Result<(), PopError> {
        match self.protocol == protocol {
            true => Ok(()),
            false => Err(PopError::Protocol { protocol: self.protocol.into() }),
        }
    }

    /// Reads and checks the UDP header. Returns where what is inside starts.
    pub(super) fn udp(
        &mut self,
        packet: PacketRef<'_>,
        port: u16,
        events: &mut Events,
    ) -> Result<usize, PopError> {
        self.need(ip_protocol::UDP)?;
        let header: UdpHeader = read(packet, self.l4, self.end, "udp")?;
        if header.destination.get() != port {
            return Err(PopError::Protocol { protocol: header.destination.get() });
        }
        let (says, actual) = (usize::from(header.length.get()), self.end - self.l4);
        if says > actual || says < size_of::<UdpHeader>() {
            return Err(PopError::Length { header: "udp", says, actual });
        }
        self.end = self.l4 + says;
        if header.checksum.get() != 0 {
            match packet.descriptor().checksum(Layer::Transport) {
                Checksum::Bad => return Err(PopError::UdpChecksum),
                Checksum::Good | Checksum::Partial => {}
                Checksum::Unknown => {
                    events.add(Event::UdpChecked);
                    let sum = self.addresses.add_u32(ip_protocol::UDP.into()).add_u32(says as u32);
                    if add_range(sum, packet, self.l4, self.end).finish() != 0 {
                        return Err(PopError::UdpChecksum);
                    }
                }
            }
            self.add_flag(tunnel_flag::CSUM);
        }
        (self.tunnel.tp_src, self.tunnel.tp_dst) = (header.source, header.destination);
        Ok(self.l4 + size_of::<UdpHeader>())
    }

    pub(super) fn add_flag(&mut self, flag: u16) {
        let flags = self.tunnel.flags.get() | flag;
        self.tunnel.flags.set(flags);
    }
}

/// Where the network header is, and its Ethertype.
fn network(packet: PacketRef<'_>) -> Result<(usize, u16), PopError> {
    const ADDRESSES: usize = 12;
    if packet.descriptor().l3_type != 0 {
        return Ok((0, packet.descriptor().l3_type));
    }
    let mut offset = ADDRESSES;
    loop {
        let ether_type = read::<U16>(packet, offset, packet.len(), "ethernet")?.get();
        offset += size_of::<U16>();
        if !vlan::is_tag(ether_type) {
            return Ok((offset, ether_type));
        }
        offset += size_of::<U16>();
    }
}
