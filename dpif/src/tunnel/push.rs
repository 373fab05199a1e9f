//! Putting a tunnel's headers in front of a packet.

use std::sync::atomic::Ordering;

use netdev::checksum::{add_range, finish};
use netdev::clock;
use netdev::offload::TransmitOffloads;
use netdev::packet::{Checksum, Layer, NO_LAYER, PacketMut};
use netdev::tunnel::FlowLabel;
use netdev::wire::checksum::Sum;
use netdev::wire::erspan::ErspanHeader;
use netdev::wire::ethernet::{EthernetHeader, ether_type};
use netdev::wire::gre::{self, GreHeader};
use netdev::wire::gtpu::{self, GtpuHeader};
use netdev::wire::ipv4::Ipv4Header;
use netdev::wire::ipv6::{Ipv6Header, LABEL_MASK};
use netdev::wire::udp::UdpHeader;
use netdev::wire::{split, split_mut};
use zerocopy::FromBytes;
use zerocopy::network_endian::{U16, U32};

use super::Tunnel;
use super::egress_ports;
use super::header::{CHECKSUM_WANTED, flow_label_of};
use crate::action::{TunnelPush, tunnel_type};

const ETHERNET: usize = size_of::<EthernetHeader>();

/// Whether packets must be whole, with checksums, before the tunnel's header goes in front of them:
/// because it numbers them or sums them up, or because devices could not finish them in such a
/// tunnel.
pub(crate) fn needs_whole_packets(push: &TunnelPush) -> bool {
    match push.tunnel_type {
        tunnel_type::VXLAN | tunnel_type::GENEVE => false,
        tunnel_type::GRE | tunnel_type::IP6GRE => {
            let outer =
                if is_ipv6(push) { size_of::<Ipv6Header>() } else { size_of::<Ipv4Header>() };
            let header = push.header.get(ETHERNET + outer..).and_then(split::<GreHeader>);
            header.is_none_or(|(gre, _)| gre.flags.get() & (gre::CHECKSUM | gre::SEQUENCE) != 0)
        }
        _ => true,
    }
}

fn is_ipv6(push: &TunnelPush) -> bool {
    let header = split::<EthernetHeader>(&push.header);
    header.is_some_and(|(header, _)| header.ether_type.get() == ether_type::IPV6)
}

/// A length as a header says it. That of a large packet which is still to be cut up may be too
/// great; whoever cuts it up says what is right.
fn length(bytes: usize) -> U16 {
    U16::new(u16::try_from(bytes).unwrap_or(u16::MAX))
}

/// Puts the headers of `push` in front of a packet whose layer offsets are known, and where
/// `hash` tells the packet's flow from others. A packet that is to be cut up must not already be
/// in a tunnel, nor go into one that [needs whole packets](needs_whole_packets).
///
/// Nothing when there is no room for them, or a header inside is malformed; the packet is of no use
/// then.
pub(crate) fn push(
    packet: &mut PacketMut<'_>,
    push: &TunnelPush,
    tunnel: &Tunnel,
    hash: u32,
) -> Option<()> {
    let is_tunnelled = packet.view().descriptor().inner_l3 != NO_LAYER;
    if is_tunnelled || needs_whole_packets(push) {
        finish(packet, TransmitOffloads::empty()).ok()?;
    }
    let label = flow_label(packet, push, hash);
    packet.reserve_front(push.header.len()).then_some(())?;
    packet.push_front(push.header.len())?.copy_from_slice(&push.header);

    let outer = if is_ipv6(push) { size_of::<Ipv6Header>() } else { size_of::<Ipv4Header>() };
    let l4 = ETHERNET + outer;
    let descriptor = packet.descriptor_mut();
    (descriptor.inner_l3, descriptor.inner_l4) = (descriptor.l3, descriptor.l4);
    (descriptor.l3, descriptor.l4) = (ETHERNET as u16, l4 as u16);
    for (inner, outer) in [(Layer::InnerIp, Layer::Ip), (Layer::InnerTransport, Layer::Transport)] {
        descriptor.set_checksum(inner, descriptor.checksum(outer));
        descriptor.set_checksum(outer, Checksum::Unknown);
    }
    descriptor.l3_type = 0;
    descriptor.in_port = push.out_port;
    (descriptor.recirc_id, descriptor.dp_hash, descriptor.metadata) = (0, 0, 0);
    (descriptor.skb_mark, descriptor.skb_priority) = (0, 0);

    let total = packet.view().len();
    let header = packet.data_mut().get_mut(ETHERNET..push.header.len())?;
    let behind_ip = if is_ipv6(push) {
        let (ip, rest) = split_mut::<Ipv6Header>(header)?;
        ip.payload_length = length(total - l4);
        if push.tunnel_type == tunnel_type::SRV6 {
            ip.flow.set(ip.flow.get() & !LABEL_MASK | label);
        }
        rest
    } else {
        let (ip, rest) = split_mut::<Ipv4Header>(header)?;
        ip.total_length = length(total - ETHERNET);
        ip.checksum = U16::ZERO;
        rest
    };
    let udp_length = total - l4;
    let mut transport = Checksum::Unknown;
    match push.tunnel_type {
        tunnel_type::VXLAN | tunnel_type::GENEVE | tunnel_type::GTPU => {
            let (udp, rest) = split_mut::<UdpHeader>(behind_ip)?;
            udp.source.set(source_port(hash));
            udp.length = length(udp_length);
            let is_gtpu = push.tunnel_type == tunnel_type::GTPU;
            if is_gtpu {
                // It always has one, as Open vSwitch's.
                udp.checksum.set(CHECKSUM_WANTED);
            }
            let has_checksum = udp.checksum.get() != 0;
            transport = if has_checksum { Checksum::Partial } else { Checksum::Good };
            if is_gtpu {
                let before = size_of::<UdpHeader>() + size_of::<GtpuHeader>();
                set_gtpu(rest, udp_length - before, tunnel)?;
            }
        }
        tunnel_type::GRE | tunnel_type::IP6GRE => {
            let (gre, rest) = split_mut::<GreHeader>(behind_ip)?;
            let flags = gre.flags.get();
            if flags & gre::SEQUENCE != 0 {
                // The last word of the header.
                let (_, word) = U32::mut_from_suffix(rest).ok()?;
                word.set(next_sequence(tunnel));
            }
            if flags & gre::CHECKSUM != 0 {
                let sum = add_range(Sum::default(), packet.view(), l4, total).finish();
                let place = l4 + size_of::<GreHeader>();
                packet.write(place, &sum.to_be_bytes()).then_some(())?;
            }
        }
        tunnel_type::ERSPAN | tunnel_type::IP6ERSPAN => {
            let (erspan, rest) = split_mut::<ErspanHeader>(behind_ip)?;
            erspan.sequence.set(next_sequence(tunnel));
            if erspan.gre.protocol.get() == gre::ERSPAN2 {
                let (timestamp, _) = split_mut::<U32>(rest)?;
                // In units of 100 microseconds, as the granularity 0 says.
                timestamp.set((clock::wall().as_micros() / 100) as u32);
            }
        }
        _ => {}
    }
    let ip = if is_ipv6(push) { Checksum::Unknown } else { Checksum::Partial };
    let descriptor = packet.descriptor_mut();
    descriptor.set_checksum(Layer::Ip, ip);
    descriptor.set_checksum(Layer::Transport, transport);
    Some(())
}

/// The UDP port that a packet is sent from.
fn source_port(hash: u32) -> u16 {
    let (first, last) = egress_ports::range().into_inner();
    let span = u64::from(last.saturating_sub(first));
    first + ((u64::from(hash) * span) >> 32) as u16
}

fn next_sequence(tunnel: &Tunnel) -> u32 {
    tunnel.sequence.fetch_add(1, Ordering::Relaxed)
}

fn set_gtpu(header: &mut [u8], behind: usize, tunnel: &Tunnel) -> Option<()> {
    let (gtpu, rest) = split_mut::<GtpuHeader>(header)?;
    gtpu.length = length(behind);
    // Flags that rules set bring no sequence number along.
    if gtpu.flags & gtpu::HAS_SEQUENCE != 0
        && let Some((sequence, _)) = split_mut::<U16>(rest)
    {
        sequence.set(next_sequence(tunnel) as u16);
    }
    Some(())
}

/// The flow label for a packet in a segment routing tunnel.
fn flow_label(packet: &PacketMut<'_>, push: &TunnelPush, hash: u32) -> u32 {
    if push.tunnel_type != tunnel_type::SRV6 {
        return 0;
    }
    let header = push.header.get(ETHERNET..).and_then(split::<Ipv6Header>);
    let code = header.map_or(0, |(ip, _)| ip.flow.get() & LABEL_MASK);
    match flow_label_of(code) {
        FlowLabel::Zero => 0,
        FlowLabel::Compute => hash & LABEL_MASK,
        FlowLabel::Copy => {
            let mut scratch = [0; size_of::<Ipv6Header>()];
            let l3 = usize::from(packet.view().descriptor().l3);
            let inner = packet.view().header(l3, size_of::<Ipv6Header>(), &mut scratch);
            let flow = inner.and_then(split::<Ipv6Header>).map_or(0, |(ip, _)| ip.flow.get());
            if flow >> 28 == 6 { flow & LABEL_MASK } else { 0 }
        }
    }
}

#[cfg(test)]
mod tests;
