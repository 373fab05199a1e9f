//! Tunnels of every kind, for tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netdev::tunnel::{FlowLabel, PerFlow, TunnelConfig, TunnelKind};
use netdev::wire::ethernet::{MacAddress, ether_type};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::TunnelPort;
use super::header::Encapsulation;
use crate::action::TunnelPush;
use crate::flow::{TunnelKey, tunnel_flag};

/// A tunnel, and what packets go through it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) config: TunnelConfig,
    /// What packets are sent with.
    pub(crate) tunnel: TunnelKey,
    pub(crate) source: IpAddr,
    /// Ethertype of packets without Ethernet header; 0 for Ethernet.
    pub(crate) packet_type: u16,
}

impl Case {
    /// A tunnel whose settings are the default.
    pub(crate) fn new(kind: TunnelKind, is_ipv6: bool) -> Self {
        let mut tunnel = TunnelKey::default();
        (tunnel.ttl, tunnel.tos) = (64, 0);
        let source = if is_ipv6 {
            tunnel.ipv6_dst = Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 2).octets();
            IpAddr::V6(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 1))
        } else {
            tunnel.ipv4_dst.set(0x0a00_0002);
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1))
        };
        let mut config = TunnelConfig::new(kind);
        config.out_key = Some(PerFlow::Flow);
        config.erspan.version = PerFlow::Flow;
        config.erspan.index = PerFlow::Flow;
        config.erspan.direction = PerFlow::Flow;
        config.erspan.hardware = PerFlow::Flow;
        if kind.is_erspan() {
            tunnel.erspan_version = 1;
        }
        let packet_type = match kind {
            TunnelKind::Gtpu | TunnelKind::Srv6 => ether_type::IPV4,
            _ => 0,
        };
        Self { config, tunnel, source, packet_type }
    }

    pub(crate) fn port(&self) -> TunnelPort {
        TunnelPort::from(&self.config)
    }

    pub(crate) fn push(&self, tunnel_port: u32, out_port: u32) -> TunnelPush {
        let encapsulation = Encapsulation {
            config: &self.config,
            tunnel: &self.tunnel,
            source: self.source,
            eth_source: MacAddress([2, 0, 0, 0, 0, 1]),
            eth_destination: MacAddress([2, 0, 0, 0, 0, 2]),
            packet_type: self.packet_type,
            tunnel_port,
            out_port,
        };
        encapsulation.build().unwrap()
    }

    fn has(&self, flag: u16) -> u16 {
        self.tunnel.flags.get() & flag
    }

    /// What the far end finds in the headers. Packets were sent from UDP port `tp_src`.
    pub(crate) fn received(&self, tp_src: u16) -> TunnelKey {
        let kind = self.config.kind;
        let mut key = self.tunnel;
        let mut flags = tunnel_flag::KEY;
        match self.source {
            IpAddr::V4(source) => {
                key.ipv4_src.set(source.to_bits());
                flags |= self.has(tunnel_flag::DONT_FRAGMENT);
            }
            IpAddr::V6(source) => key.ipv6_src = source.octets(),
        }
        if kind.uses_udp() {
            key.tp_src.set(tp_src);
            key.tp_dst.set(self.config.udp_port);
        }
        match kind {
            TunnelKind::Vxlan => flags |= self.has(tunnel_flag::CSUM),
            TunnelKind::Geneve => flags |= self.has(tunnel_flag::CSUM | tunnel_flag::OAM),
            TunnelKind::Gre | TunnelKind::Ip6gre => {
                flags |= self.has(tunnel_flag::CSUM);
                if self.config.out_key.is_none() {
                    flags &= !tunnel_flag::KEY;
                    key.id.set(0);
                }
            }
            TunnelKind::Gtpu => {
                flags = flags & !tunnel_flag::KEY | tunnel_flag::CSUM;
                key.gtpu_flags = if self.config.has_sequence { 0x32 } else { 0x30 };
                key.gtpu_message_type = 255;
            }
            TunnelKind::Srv6 => {
                flags &= !tunnel_flag::KEY;
                key.id.set(0);
            }
            _ => {}
        }
        key.flags.set(flags);
        key
    }
}

/// Geneve options as on the wire.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let option = (any::<u16>(), any::<u8>(), vec(any::<[u8; 4]>(), 0..6));
    vec(option, 0..5).prop_map(|options| {
        let parts = options.into_iter().map(|(class, kind, words)| {
            [&class.to_be_bytes()[..], &[kind, words.len() as u8], words.as_flattened()].concat()
        });
        parts.collect::<Vec<_>>().concat()
    })
}

/// Any tunnel.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let kinds: Vec<_> =
        TunnelKind::ALL.into_iter().filter(|kind| *kind != TunnelKind::Bareudp).collect();
    let flags = [tunnel_flag::CSUM, tunnel_flag::DONT_FRAGMENT, tunnel_flag::OAM];
    let flags = vec(select(flags.to_vec()), 0..4);
    let key = (any::<u32>(), flags, any::<u8>(), any::<u8>(), any::<u16>(), options());
    (select(kinds), any::<bool>(), key, any::<[bool; 4]>(), 0..4usize).prop_map(
        |(kind, is_ipv6, (id, flags, tos, ttl, half, options), switches, packet)| {
            let is_ipv6 = match kind {
                TunnelKind::Erspan => false,
                TunnelKind::Ip6erspan | TunnelKind::Ip6gre | TunnelKind::Srv6 => true,
                _ => is_ipv6,
            };
            let mut case = Case::new(kind, is_ipv6);
            let [a, b, c, d] = switches;
            let Case { config, tunnel, packet_type, .. } = &mut case;
            tunnel.flags.set(flags.into_iter().fold(0, |all, flag| all | flag));
            (tunnel.tos, tunnel.ttl) = (tos, ttl);
            config.has_sequence = a;
            let types = [0, ether_type::IPV4, ether_type::IPV6, ether_type::NSH];
            match kind {
                TunnelKind::Vxlan => {
                    tunnel.id.set((id >> 8).into());
                    (config.gpe, config.gbp) = (b, c);
                    if b {
                        *packet_type = types[packet];
                    } else if c {
                        tunnel.gbp_id.set(half);
                        tunnel.gbp_flags = if d { 0x48 } else { 0x08 };
                    }
                }
                TunnelKind::Geneve => {
                    tunnel.id.set((id >> 8).into());
                    tunnel.options[..options.len()].copy_from_slice(&options);
                    tunnel.options_length = options.len() as u8;
                }
                TunnelKind::Gre | TunnelKind::Ip6gre => {
                    tunnel.id.set(id.into());
                    config.out_key = b.then_some(PerFlow::Flow);
                    *packet_type = types[packet];
                }
                TunnelKind::Erspan | TunnelKind::Ip6erspan => {
                    tunnel.id.set((id >> 22).into());
                    tunnel.erspan_version = if b { 1 } else { 2 };
                    if b {
                        tunnel.erspan_index.set(id & 0xf_ffff);
                    } else {
                        (tunnel.erspan_dir, tunnel.erspan_hwid) = (c.into(), tos & 0x3f);
                    }
                }
                TunnelKind::Gtpu => {
                    tunnel.id.set(id.into());
                    *packet_type = types[1 + packet % 2];
                }
                TunnelKind::Srv6 => {
                    let labels = [FlowLabel::Copy, FlowLabel::Zero, FlowLabel::Compute];
                    config.flow_label = labels[packet % 3];
                    *packet_type = types[1 + packet % 2];
                }
                TunnelKind::Bareudp => {}
            }
            case
        },
    )
}
