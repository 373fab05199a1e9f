//! Building the headers that a tunnel puts in front of packets: once per flow. What differs from
//! packet to packet is left out.

use std::net::IpAddr;

use netdev::tunnel::{FlowLabel, PerFlow, TunnelConfig, TunnelKind};
use netdev::wire::erspan::{self, ErspanHeader, ErspanMetadata};
use netdev::wire::ethernet::{EthernetHeader, MacAddress, ether_type};
use netdev::wire::geneve::{self, GeneveHeader, GeneveOption};
use netdev::wire::gre::{self, GreHeader};
use netdev::wire::gtpu::{self, GtpuHeader, GtpuOptions};
use netdev::wire::ipv4::{self, Ipv4Header};
use netdev::wire::ipv6::{Ipv6Header, SegmentRoutingHeader};
use netdev::wire::udp::UdpHeader;
use netdev::wire::vxlan::{self, VxlanHeader, next_protocol};
use netdev::wire::{checksum, ip_protocol, split};
use thiserror::Error;
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use crate::action::{TunnelPush, tunnel_type};
use crate::flow::{TunnelKey, tunnel_flag};

/// A UDP checksum that stands for one to be computed per packet. It changes no sum.
pub(super) const CHECKSUM_WANTED: u16 = u16::MAX;

/// Why a tunnel has no header for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The protocol is not one that the switch builds headers for.
    #[error("headers of {} tunnels cannot be built", .kind.name())]
    Unsupported {
        /// The protocol.
        kind: TunnelKind,
    },
    /// The outer addresses are of two families, or of one over which the protocol does not go.
    #[error("the outer source address {address} does not go with the destination of the tunnel")]
    Address {
        /// The source address.
        address: IpAddr,
    },
    /// The tunnel cannot carry such packets.
    #[error("{} tunnels cannot carry packets of type {packet_type:#06x}", .kind.name())]
    PacketType {
        /// The protocol.
        kind: TunnelKind,
        /// Ethertype of the packet; 0 is Ethernet.
        packet_type: u16,
    },
    /// The key is too great to be a session.
    #[error("ERSPAN session {id} is greater than 1023")]
    Session {
        /// The key.
        id: u64,
    },
    /// There is no such version.
    #[error("ERSPAN version {version} is not 1 or 2")]
    ErspanVersion {
        /// The version.
        version: u8,
    },
    /// The first segment is not the destination.
    #[error("the first segment of the routing header is not the destination of the tunnel")]
    FirstSegment,
}

/// What a header is built from.
#[derive(Clone, Copy, Debug)]
pub struct Encapsulation<'a> {
    /// The settings of the tunnel.
    pub config: &'a TunnelConfig,
    /// The tunnel that packets are to go through: key, destination, flags, options.
    pub tunnel: &'a TunnelKey,
    /// Outer source address.
    pub source: IpAddr,
    /// Outer Ethernet source address.
    pub eth_source: MacAddress,
    /// Outer Ethernet destination address.
    pub eth_destination: MacAddress,
    /// Ethertype of packets that start with their network header; 0 when they start with Ethernet.
    pub packet_type: u16,
    /// Number of the tunnel port on the datapath.
    pub tunnel_port: u32,
    /// Number of the port that packets leave by.
    pub out_port: u32,
}

impl Encapsulation<'_> {
    /// The action that puts the header in front of packets.
    ///
    /// # Errors
    /// When the tunnel cannot carry the packets, or what it is to say about them does not fit.
    pub fn build(&self) -> Result<TunnelPush, HeaderError> {
        let TunnelConfig { kind, .. } = *self.config;
        let mut header = vec![];
        let tunnel_type = match kind {
            TunnelKind::Vxlan => {
                self.udp(&mut header)?;
                header.extend(self.vxlan()?.as_bytes());
                tunnel_type::VXLAN
            }
            TunnelKind::Geneve => {
                self.udp(&mut header)?;
                self.geneve(&mut header);
                tunnel_type::GENEVE
            }
            TunnelKind::Gtpu => {
                self.udp(&mut header)?;
                self.gtpu(&mut header);
                tunnel_type::GTPU
            }
            TunnelKind::Gre | TunnelKind::Ip6gre => {
                self.ip(&mut header, ip_protocol::GRE, 0)?;
                self.gre(&mut header);
                self.by_family(tunnel_type::GRE, tunnel_type::IP6GRE)
            }
            TunnelKind::Erspan | TunnelKind::Ip6erspan => {
                self.ip(&mut header, ip_protocol::GRE, 0)?;
                self.erspan(&mut header)?;
                self.by_family(tunnel_type::ERSPAN, tunnel_type::IP6ERSPAN)
            }
            TunnelKind::Srv6 => {
                self.segments(&mut header)?;
                tunnel_type::SRV6
            }
            TunnelKind::Bareudp => return Err(HeaderError::Unsupported { kind }),
        };
        let &Self { tunnel_port, out_port, .. } = self;
        Ok(TunnelPush { tunnel_port, out_port, tunnel_type, header })
    }

    fn has_flag(&self, flag: u16) -> bool {
        self.tunnel.flags.get() & flag != 0
    }

    fn by_family(&self, ipv4: u32, ipv6: u32) -> u32 {
        if self.source.is_ipv4() { ipv4 } else { ipv6 }
    }

    fn packet_type_error(&self) -> HeaderError {
        HeaderError::PacketType { kind: self.config.kind, packet_type: self.packet_type }
    }

    /// Ethernet and IP. `label` is the flow label of IPv6.
    fn ip(&self, header: &mut Vec<u8>, protocol: u8, label: u32) -> Result<(), HeaderError> {
        let tunnel = self.tunnel;
        let ethernet = |ether_type| EthernetHeader {
            destination: self.eth_destination,
            source: self.eth_source,
            ether_type: U16::new(ether_type),
        };
        match self.source {
            IpAddr::V4(source) if tunnel.ipv4_dst.get() != 0 => {
                let may_fragment = !self.has_flag(tunnel_flag::DONT_FRAGMENT);
                let mut ip = Ipv4Header {
                    version_length: Ipv4Header::PLAIN,
                    tos: tunnel.tos,
                    fragment: U16::new(if may_fragment { 0 } else { ipv4::DONT_FRAGMENT }),
                    ttl: tunnel.ttl,
                    protocol,
                    source: U32::new(source.to_bits()),
                    destination: tunnel.ipv4_dst,
                    ..Default::default()
                };
                ip.checksum.set(checksum::checksum(ip.as_bytes()));
                header.extend(ethernet(ether_type::IPV4).as_bytes());
                header.extend(ip.as_bytes());
            }
            IpAddr::V6(source) if tunnel.ipv6_dst != [0; 16] => {
                let ip = Ipv6Header {
                    flow: U32::new(6 << 28 | u32::from(tunnel.tos) << 20 | label),
                    next_header: protocol,
                    hop_limit: tunnel.ttl,
                    source: source.octets(),
                    destination: tunnel.ipv6_dst,
                    ..Default::default()
                };
                header.extend(ethernet(ether_type::IPV6).as_bytes());
                header.extend(ip.as_bytes());
            }
            address => return Err(HeaderError::Address { address }),
        }
        Ok(())
    }

    fn udp(&self, header: &mut Vec<u8>) -> Result<(), HeaderError> {
        self.ip(header, ip_protocol::UDP, 0)?;
        let is_wanted = self.has_flag(tunnel_flag::CSUM);
        let udp = UdpHeader {
            destination: U16::new(self.config.udp_port),
            checksum: U16::new(if is_wanted { CHECKSUM_WANTED } else { 0 }),
            ..Default::default()
        };
        header.extend(udp.as_bytes());
        Ok(())
    }

    fn vxlan(&self) -> Result<VxlanHeader, HeaderError> {
        let tunnel = self.tunnel;
        let mut flags = vxlan::HAS_VNI;
        if self.config.gpe {
            let protocol = match self.packet_type {
                0 | ether_type::TEB => next_protocol::ETHERNET,
                ether_type::IPV4 => next_protocol::IPV4,
                ether_type::IPV6 => next_protocol::IPV6,
                ether_type::NSH => next_protocol::NSH,
                _ => return Err(self.packet_type_error()),
            };
            flags |= vxlan::HAS_PROTOCOL | u32::from(protocol);
        } else if self.packet_type != 0 {
            return Err(self.packet_type_error());
        }
        let has_policy = tunnel.gbp_id.get() != 0 || tunnel.gbp_flags != 0;
        if self.config.gbp && !self.config.gpe && has_policy {
            let policy_flags = u32::from(tunnel.gbp_flags) << 16;
            flags |= vxlan::HAS_POLICY | u32::from(tunnel.gbp_id.get());
            flags |= policy_flags & (vxlan::DONT_LEARN | vxlan::POLICY_APPLIED);
        }
        Ok(VxlanHeader { flags: U32::new(flags), vni: U32::new((tunnel.id.get() as u32) << 8) })
    }

    fn geneve(&self, header: &mut Vec<u8>) {
        let options = self.tunnel.used_options();
        let control = if self.has_flag(tunnel_flag::OAM) { geneve::CONTROL } else { 0 };
        let critical = if has_critical(options) { geneve::CRITICAL } else { 0 };
        let fixed = GeneveHeader {
            version_length: (options.len() / 4) as u8,
            control_critical: control | critical,
            protocol: U16::new(ether_type::TEB),
            vni: U32::new((self.tunnel.id.get() as u32) << 8),
        };
        header.extend(fixed.as_bytes());
        header.extend(options);
    }

    fn gtpu(&self, header: &mut Vec<u8>) {
        let &TunnelKey { gtpu_flags, gtpu_message_type, .. } = self.tunnel;
        let mut fixed = GtpuHeader {
            flags: if gtpu_flags == 0 { gtpu::PLAIN } else { gtpu_flags },
            message_type: if gtpu_message_type == 0 {
                gtpu::USER_PACKET
            } else {
                gtpu_message_type
            },
            length: U16::ZERO,
            teid: U32::new(self.tunnel.id.get() as u32),
        };
        if self.config.has_sequence {
            fixed.flags |= gtpu::HAS_SEQUENCE;
        }
        header.extend(fixed.as_bytes());
        if self.config.has_sequence {
            header.extend(GtpuOptions::default().as_bytes());
        }
    }

    fn gre(&self, header: &mut Vec<u8>) {
        let has_key = self.config.out_key.is_some();
        let protocol = if self.packet_type == 0 { ether_type::TEB } else { self.packet_type };
        let mut flags = 0;
        let mut words = vec![];
        for (is_there, flag, word) in [
            (self.has_flag(tunnel_flag::CSUM), gre::CHECKSUM, 0),
            (has_key, gre::KEY, self.tunnel.id.get() as u32),
            (self.config.has_sequence, gre::SEQUENCE, 0),
        ] {
            if is_there {
                flags |= flag;
                words.push(U32::new(word));
            }
        }
        let fixed = GreHeader { flags: U16::new(flags), protocol: U16::new(protocol) };
        header.extend(fixed.as_bytes());
        header.extend(words.as_bytes());
    }

    fn erspan(&self, header: &mut Vec<u8>) -> Result<(), HeaderError> {
        let TunnelKey { id, erspan_index, erspan_dir, erspan_hwid, erspan_version, .. } =
            *self.tunnel;
        let config = &self.config.erspan;
        let session = u16::try_from(id.get()).ok().filter(|id| id & !erspan::SESSION_MASK == 0);
        let session = session.ok_or(HeaderError::Session { id: id.get() })?;
        let version = given(config.version, erspan_version);
        let protocol = match version {
            1 => gre::ERSPAN1,
            2 => gre::ERSPAN2,
            _ => return Err(HeaderError::ErspanVersion { version }),
        };
        let fixed = ErspanHeader {
            gre: GreHeader { flags: U16::new(gre::SEQUENCE), protocol: U16::new(protocol) },
            sequence: U32::ZERO,
            version_vlan: U16::new(u16::from(version) << 12),
            session: U16::new(session),
        };
        header.extend(fixed.as_bytes());
        if version == 1 {
            let index = given(config.index, erspan_index.get());
            header.extend(U32::new(index).as_bytes());
        } else {
            let hardware = given(config.hardware, erspan_hwid);
            let direction = given(config.direction, erspan_dir);
            let hardware = ErspanMetadata::hardware_of(hardware, direction);
            header.extend(ErspanMetadata { hardware, ..Default::default() }.as_bytes());
        }
        Ok(())
    }

    fn segments(&self, header: &mut Vec<u8>) -> Result<(), HeaderError> {
        let destination = self.tunnel.ipv6_dst;
        let mut segments: Vec<_> = self.config.segments.iter().map(|it| it.octets()).collect();
        if segments.is_empty() {
            segments.push(destination);
        }
        if segments.first() != Some(&destination) {
            return Err(HeaderError::FirstSegment);
        }
        let next_header = match self.packet_type {
            ether_type::IPV4 => ip_protocol::IPV4,
            ether_type::IPV6 => ip_protocol::IPV6,
            _ => return Err(self.packet_type_error()),
        };
        if self.source.is_ipv4() {
            return Err(HeaderError::Address { address: self.source });
        }
        self.ip(header, ip_protocol::ROUTING, flow_label_code(self.config.flow_label))?;
        // There are at most six.
        let last = (segments.len() - 1) as u8;
        let fixed = SegmentRoutingHeader {
            next_header,
            length: 2 * (last + 1),
            routing_type: SegmentRoutingHeader::TYPE,
            segments_left: last,
            last_entry: last,
            ..Default::default()
        };
        header.extend(fixed.as_bytes());
        header.extend(segments.iter().rev().flatten());
        Ok(())
    }
}

/// What stands in a header's flow label for the way in which that of a packet is found. Open
/// vSwitch's text of such a header shows it.
fn flow_label_code(label: FlowLabel) -> u32 {
    match label {
        FlowLabel::Copy => 0,
        FlowLabel::Zero => 1,
        FlowLabel::Compute => 2,
    }
}

/// The way in which the flow label of a packet is found, from a header that says so.
pub(super) fn flow_label_of(code: u32) -> FlowLabel {
    match code {
        1 => FlowLabel::Zero,
        2 => FlowLabel::Compute,
        _ => FlowLabel::Copy,
    }
}

/// A setting, or what rules say.
fn given<T: Copy>(setting: PerFlow<T>, of_flow: T) -> T {
    setting.fixed().unwrap_or(of_flow)
}

/// Whether one of these Geneve options must be understood.
fn has_critical(options: &[u8]) -> bool {
    let mut rest = options;
    while let Some((option, behind)) = split::<GeneveOption>(rest) {
        if option.option_type & GeneveOption::CRITICAL != 0 {
            return true;
        }
        rest = behind.get(option.data_length()..).unwrap_or(&[]);
    }
    false
}

#[cfg(test)]
mod tests;
