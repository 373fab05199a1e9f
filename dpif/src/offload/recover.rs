//! Packets with which a device began before it gave them to software: it took the headers of a
//! tunnel off, or looked behind them, and then had no rule that would have kept the packet.

use netdev::flow_api::{RestoreInfo, TunnelFields};
use netdev::packet::PacketMut;
use netdev::wire::ethernet::ether_type;
use zerocopy::FromBytes;
use zerocopy::network_endian::U32;

use crate::flow::{TunnelKey, tunnel_flag};
use crate::tunnel::TunnelPort;
use crate::tunnel::events::Events;
use crate::tunnel::pop::{PopError, pop};

/// Brings a packet to where it would be had the device not begun with it and had the switch taken
/// it out of its tunnel, but for its mark. Returns what the tunnel's headers said.
///
/// # Errors
/// When headers that are still there are not as they must be.
pub(crate) fn recover(
    packet: &mut PacketMut<'_>,
    info: &RestoreInfo,
    port: TunnelPort,
    events: &mut Events,
) -> Result<TunnelKey, PopError> {
    let mark = packet.view().descriptor().mark;
    let tunnel = match info.is_encapsulated {
        true if cfg!(feature = "broken-recovery") => TunnelKey::default(),
        true => pop(packet, port, events)?,
        false => {
            // It told outer packets from one another.
            packet.descriptor_mut().set_rss_hash(None);
            tunnel_key(info)
        }
    };
    packet.descriptor_mut().mark = mark;
    Ok(tunnel)
}

/// What the headers of a tunnel said that are gone.
fn tunnel_key(info: &RestoreInfo) -> TunnelKey {
    let RestoreInfo { outer, tunnel: fields, .. } = info;
    let mut tunnel = TunnelKey::default();
    let flag = |from, to| if fields.flags & from != 0 { to } else { 0 };
    tunnel.flags.set(
        tunnel_flag::KEY
            | flag(TunnelFields::DONT_FRAGMENT, tunnel_flag::DONT_FRAGMENT)
            | flag(TunnelFields::CHECKSUM, tunnel_flag::CSUM),
    );
    tunnel.id.set(fields.id.get().into());
    if outer.eth_type.get() == ether_type::IPV4 {
        let address = |field: &[u8; 16]| U32::read_from_prefix(field).map_or(U32::ZERO, |(a, _)| a);
        (tunnel.ipv4_src, tunnel.ipv4_dst) = (address(&outer.ip_src), address(&outer.ip_dst));
    } else {
        (tunnel.ipv6_src, tunnel.ipv6_dst) = (outer.ip_src, outer.ip_dst);
    }
    (tunnel.tos, tunnel.ttl) = (outer.ip_tos, outer.ip_ttl);
    (tunnel.tp_src, tunnel.tp_dst) = (outer.tp_src, outer.tp_dst);
    tunnel
}
