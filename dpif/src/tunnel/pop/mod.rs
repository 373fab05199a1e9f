//! Taking a tunnel's headers off a packet. Every one of them is checked.

mod error;
mod gre;
mod outer;

use netdev::packet::{Checksum, Layer, NO_LAYER, PacketMut, PacketRef, Segmentation};
use netdev::wire::ethernet::ether_type;
use netdev::wire::geneve::{self, GeneveHeader, GeneveOption};
use netdev::wire::gtpu::{self, GtpuHeader, GtpuOptions};
use netdev::wire::ip_protocol;
use netdev::wire::ipv6::SegmentRoutingHeader;
use netdev::wire::split;
use netdev::wire::vxlan::{self, VxlanHeader, next_protocol};

use super::events::Events;
use super::{TunnelKind, TunnelPort};
use crate::flow::{TunnelKey, tunnel_flag};
pub(crate) use error::PopError;
use outer::{Outer, read};

/// What is inside a tunnel.
struct Inside {
    /// Where it starts.
    start: usize,
    /// The Ethertype of a packet that starts with its network header; 0 of an Ethernet frame.
    l3_type: u16,
}

/// Takes the headers of the tunnel off a packet that came to it. What they said is returned.
///
/// # Errors
/// When a header is not as it must be. The packet is unchanged then.
pub(crate) fn pop(
    packet: &mut PacketMut<'_>,
    port: TunnelPort,
    events: &mut Events,
) -> Result<TunnelKey, PopError> {
    let view = packet.view();
    let mut outer = Outer::read(view, events)?;
    let inside = match port.kind {
        TunnelKind::Vxlan => {
            let start = outer.udp(view, port.udp_port, events)?;
            vxlan(view, &mut outer, start, port.gbp)?
        }
        TunnelKind::Geneve => {
            let start = outer.udp(view, port.udp_port, events)?;
            geneve(view, &mut outer, start)?
        }
        TunnelKind::Gtpu => {
            let start = outer.udp(view, port.udp_port, events)?;
            match gtpu(view, &mut outer, start)? {
                Some(inside) => inside,
                // Messages about tunnels are left as they are, for whoever understands them.
                None => return Ok(outer.tunnel),
            }
        }
        TunnelKind::Gre | TunnelKind::Ip6gre => gre::gre(view, &mut outer)?,
        TunnelKind::Erspan | TunnelKind::Ip6erspan => gre::erspan(view, &mut outer)?,
        TunnelKind::Srv6 => segments(view, &outer)?,
        // No header is built for it either.
        TunnelKind::Bareudp => {
            return Err(PopError::Protocol { protocol: outer.protocol.into() });
        }
    };
    uncover(packet, &inside);
    Ok(outer.tunnel)
}

/// Takes off what is in front of the packet inside. What is behind the outer one stays there, as
/// padding. The state of checksums is known if it was put into the tunnel by this switch.
fn uncover(packet: &mut PacketMut<'_>, inside: &Inside) {
    packet.pull_front(inside.start);
    let descriptor = packet.descriptor_mut();
    let is_known = descriptor.inner_l3 != NO_LAYER;
    for (inner, outer) in [(Layer::InnerIp, Layer::Ip), (Layer::InnerTransport, Layer::Transport)] {
        let state = if is_known { descriptor.checksum(inner) } else { Checksum::Unknown };
        descriptor.set_checksum(outer, state);
        descriptor.set_checksum(inner, Checksum::Unknown);
    }
    if !is_known {
        (descriptor.checksum_start, descriptor.checksum_offset) = (0, 0);
        (descriptor.segmentation, descriptor.segment_size) = (Segmentation::None, 0);
    }
    (descriptor.l3, descriptor.l4) = (NO_LAYER, NO_LAYER);
    (descriptor.inner_l3, descriptor.inner_l4) = (NO_LAYER, NO_LAYER);
    (descriptor.recirc_id, descriptor.dp_hash, descriptor.mark) = (0, 0, 0);
    descriptor.l3_type = inside.l3_type;
    descriptor.set_vlan(None);
    // It told outer packets from one another.
    descriptor.set_rss_hash(None);
}

fn vxlan(
    packet: PacketRef<'_>,
    outer: &mut Outer,
    start: usize,
    gbp: bool,
) -> Result<Inside, PopError> {
    let header: VxlanHeader = read(packet, start, outer.end, "vxlan")?;
    let (flags, vni) = (header.flags.get(), header.vni.get());
    let error = PopError::Vxlan { flags, vni };
    let (mut used, mut l3_type) = (vxlan::HAS_VNI, 0);
    if flags & vxlan::HAS_PROTOCOL != 0 {
        if flags & vxlan::CONTROL != 0 {
            return Err(error);
        }
        used |= vxlan::HAS_PROTOCOL | vxlan::VERSION_MASK | vxlan::PROTOCOL_MASK;
        l3_type = match (flags & vxlan::PROTOCOL_MASK) as u8 {
            next_protocol::IPV4 => ether_type::IPV4,
            next_protocol::IPV6 => ether_type::IPV6,
            next_protocol::ETHERNET => 0,
            next_protocol::NSH => ether_type::NSH,
            protocol => return Err(PopError::Payload { protocol: protocol.into() }),
        };
    } else if gbp && flags & vxlan::HAS_POLICY != 0 {
        let of_policy = vxlan::DONT_LEARN | vxlan::POLICY_APPLIED;
        used |= vxlan::HAS_POLICY | of_policy | vxlan::GROUP_MASK;
        outer.tunnel.gbp_id.set((flags & vxlan::GROUP_MASK) as u16);
        outer.tunnel.gbp_flags = ((flags & of_policy) >> 16) as u8;
    }
    if flags & vxlan::HAS_VNI == 0 || flags & !used != 0 || vni & 0xff != 0 {
        return Err(error);
    }
    outer.tunnel.id.set((vni >> 8).into());
    outer.add_flag(tunnel_flag::KEY);
    Ok(Inside { start: start + size_of::<VxlanHeader>(), l3_type })
}

fn geneve(packet: PacketRef<'_>, outer: &mut Outer, start: usize) -> Result<Inside, PopError> {
    let header: GeneveHeader = read(packet, start, outer.end, "geneve")?;
    let version = header.version_length >> 6;
    if version != 0 {
        return Err(PopError::GeneveVersion { version });
    }
    let protocol = header.protocol.get();
    if protocol != ether_type::TEB {
        return Err(PopError::Payload { protocol });
    }
    let length = header.options_length();
    let options = start + size_of::<GeneveHeader>();
    if options + length > outer.end {
        return Err(PopError::Truncated { header: "geneve" });
    }
    let tunnel = &mut outer.tunnel;
    if let Some(room) = tunnel.options.get_mut(..length) {
        packet.copy_out(options, room);
        // At most 63 words.
        tunnel.options_length = length as u8;
    }
    if !adds_up(tunnel.used_options()) {
        return Err(PopError::GeneveOptions { length });
    }
    tunnel.id.set((header.vni.get() >> 8).into());
    let control = if header.control_critical & geneve::CONTROL != 0 { tunnel_flag::OAM } else { 0 };
    outer.add_flag(tunnel_flag::KEY | control);
    Ok(Inside { start: options + length, l3_type: 0 })
}

/// Whether the last of these Geneve options ends where they end.
fn adds_up(options: &[u8]) -> bool {
    let mut rest = options;
    while !rest.is_empty() {
        let Some((option, behind)) = split::<GeneveOption>(rest) else { return false };
        let Some(later) = behind.get(option.data_length()..) else { return false };
        rest = later;
    }
    true
}

/// Nothing for a message other than a packet of a user.
fn gtpu(
    packet: PacketRef<'_>,
    outer: &mut Outer,
    start: usize,
) -> Result<Option<Inside>, PopError> {
    let header: GtpuHeader = read(packet, start, outer.end, "gtpu")?;
    let flags = header.flags;
    if flags & gtpu::FIXED_MASK != gtpu::PLAIN {
        return Err(PopError::Gtpu { flags });
    }
    let mut at = start + size_of::<GtpuHeader>();
    let (says, actual) = (usize::from(header.length.get()), outer.end - at);
    if says > actual {
        return Err(PopError::Length { header: "gtpu", says, actual });
    }
    let end = at + says;
    outer.tunnel.gtpu_flags = flags;
    outer.tunnel.gtpu_message_type = header.message_type;
    outer.tunnel.id.set(header.teid.get().into());
    if header.message_type != gtpu::USER_PACKET {
        return Ok(None);
    }
    if flags & (gtpu::HAS_SEQUENCE | gtpu::HAS_NUMBER | gtpu::HAS_EXTENSION) != 0 {
        let options: GtpuOptions = read(packet, at, end, "gtpu")?;
        at += size_of::<GtpuOptions>();
        let mut extension = options.extension;
        while flags & gtpu::HAS_EXTENSION != 0 && extension != 0 {
            // In words of 4 bytes; the last byte is the type of the next one.
            let words = read::<u8>(packet, at, end, "gtpu extension")?;
            if words == 0 {
                return Err(PopError::Gtpu { flags });
            }
            at += 4 * usize::from(words);
            extension = read(packet, at - 1, end, "gtpu extension")?;
        }
    }
    let version = read::<u8>(packet, at, end, "gtpu payload")? >> 4;
    let l3_type = match version {
        4 => ether_type::IPV4,
        6 => ether_type::IPV6,
        _ => return Err(PopError::Payload { protocol: version.into() }),
    };
    Ok(Some(Inside { start: at, l3_type }))
}

fn segments(packet: PacketRef<'_>, outer: &Outer) -> Result<Inside, PopError> {
    let Some(routing) = outer.routing else {
        return Err(PopError::Protocol { protocol: outer.protocol.into() });
    };
    let header: SegmentRoutingHeader = read(packet, routing.offset, outer.end, "srv6")?;
    let &SegmentRoutingHeader { routing_type, segments_left, last_entry, length, .. } = &header;
    let has_room = 2 * (usize::from(last_entry) + 1) <= usize::from(length);
    if routing_type != SegmentRoutingHeader::TYPE || !has_room {
        return Err(PopError::Routing { routing_type });
    }
    if segments_left != 0 {
        return Err(PopError::SegmentsLeft { segments_left });
    }
    let l3_type = match routing.next_header {
        ip_protocol::IPV4 => ether_type::IPV4,
        ip_protocol::IPV6 => ether_type::IPV6,
        protocol => return Err(PopError::Payload { protocol: protocol.into() }),
    };
    Ok(Inside { start: outer.l4, l3_type })
}

#[cfg(test)]
mod tests;
