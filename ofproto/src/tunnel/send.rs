//! What is put around a packet that a tunnel port sends.

use std::net::IpAddr;

use dpif::flow::{FlowKey, TunnelKey, tunnel_flag};
use netdev::tunnel::{Inherited, OuterChecksum, PerFlow, TunnelConfig, TunnelKind};

/// Bits of a type of service: the class, congestion (RFC 3168, section 5).
const CLASS_MASK: u8 = 0xfc;
const CONGESTION_MASK: u8 = 0x03;
/// The transport can be told of congestion.
const CAPABLE: u8 = 0x02;

/// Puts an address in the place of its family and clears the other one.
fn set_address(address: IpAddr, ipv4: &mut zerocopy::network_endian::U32, ipv6: &mut [u8; 16]) {
    match address {
        IpAddr::V4(address) => {
            ipv4.set(address.into());
            *ipv6 = [0; 16];
        }
        IpAddr::V6(address) => {
            ipv4.set(0);
            *ipv6 = address.octets();
        }
    }
}

/// Makes `flow`, a packet that a tunnel with these settings is to send, what it is then: the
/// tunnel that rules gave it becomes the one that it gets, and its mark is set. The bits of the
/// packet on which that depends are noted in `read`.
pub(crate) fn outer_key(config: &TunnelConfig, flow: &mut FlowKey, read: &mut FlowKey) {
    let is_ip = flow.is_ip();
    let (ip_tos, ip_ttl) = (flow.ip_tos, flow.ip_ttl);
    let tunnel = &mut flow.tunnel;
    match config.local {
        Some(PerFlow::Flow) => {}
        Some(PerFlow::Fixed(address)) => {
            set_address(address, &mut tunnel.ipv4_src, &mut tunnel.ipv6_src);
        }
        None => {
            tunnel.ipv4_src.set(0);
            tunnel.ipv6_src = [0; 16];
        }
    }
    if let PerFlow::Fixed(address) = config.remote {
        set_address(address, &mut tunnel.ipv4_dst, &mut tunnel.ipv6_dst);
    }
    // That of another tunnel, if there is any.
    tunnel.tp_src.set(0);
    tunnel.tp_dst.set(config.udp_port);
    match config.out_key {
        Some(PerFlow::Flow) => {}
        Some(PerFlow::Fixed(key)) => tunnel.id.set(key),
        None => tunnel.id.set(0),
    }
    tunnel.ttl = match config.ttl {
        Inherited::Packet(_) if is_ip => {
            read.ip_ttl = u8::MAX;
            ip_ttl
        }
        Inherited::Packet(ttl) | Inherited::Fixed(ttl) => ttl,
    };
    tunnel.tos = match config.tos {
        Inherited::Packet(_) if is_ip => {
            read.ip_tos |= CLASS_MASK;
            ip_tos & CLASS_MASK
        }
        Inherited::Packet(tos) | Inherited::Fixed(tos) => tos,
    };
    if is_ip {
        read.ip_tos |= CONGESTION_MASK;
        // A packet that met congestion already need not tell the routers of the tunnel.
        tunnel.tos |= match ip_tos & CONGESTION_MASK {
            CONGESTION_MASK => CAPABLE,
            bits => bits,
        };
    }
    let mut flags = tunnel.flags.get() & tunnel_flag::OAM;
    if config.dont_fragment {
        flags |= tunnel_flag::DONT_FRAGMENT;
    }
    if config.out_key.is_some() {
        flags |= tunnel_flag::KEY;
    }
    let is_ipv6 = tunnel.ipv4_dst.get() == 0;
    let has_checksum = match config.checksum {
        OuterChecksum::On => true,
        OuterChecksum::Default => is_ipv6,
        OuterChecksum::Off | OuterChecksum::None => false,
    };
    if has_checksum {
        flags |= tunnel_flag::CSUM;
    }
    tunnel.flags.set(flags);
    if let PerFlow::Fixed(version) = config.erspan.version {
        tunnel.erspan_version = version;
    }
    if let PerFlow::Fixed(index) = config.erspan.index {
        tunnel.erspan_index.set(index);
    }
    if let PerFlow::Fixed(direction) = config.erspan.direction {
        tunnel.erspan_dir = direction;
    }
    if let PerFlow::Fixed(hardware) = config.erspan.hardware {
        tunnel.erspan_hwid = hardware;
    }
    if let Some(mark) = config.egress_mark {
        flow.skb_mark.set(mark);
        read.skb_mark.set(u32::MAX);
    }
}

/// The tunnel that a packet gets, without what the protocol does not have.
pub(crate) fn of_protocol(kind: TunnelKind, tunnel: &TunnelKey) -> TunnelKey {
    let mut key = *tunnel;
    if kind != TunnelKind::Vxlan {
        key.gbp_id.set(0);
        key.gbp_flags = 0;
    }
    if kind != TunnelKind::Geneve {
        (key.options_length, key.options) = (0, [0; 252]);
    }
    if !kind.is_erspan() {
        (key.erspan_version, key.erspan_dir, key.erspan_hwid) = (0, 0, 0);
        key.erspan_index.set(0);
    }
    if kind != TunnelKind::Gtpu {
        (key.gtpu_flags, key.gtpu_message_type) = (0, 0);
    }
    key
}

#[cfg(test)]
mod tests {
    use netdev::wire::ethernet::ether_type;

    use super::*;

    fn config(kind: TunnelKind) -> TunnelConfig {
        let remote = PerFlow::Fixed("1.1.1.1".parse().unwrap());
        TunnelConfig { remote, ..TunnelConfig::new(kind) }
    }

    /// What a tunnel makes of an IPv4 packet with this type of service and a time to live of 9,
    /// and the bits on which that depends.
    fn sent(config: &TunnelConfig, tos: u8) -> (FlowKey, FlowKey) {
        let (mut flow, mut read) = (FlowKey::default(), FlowKey::default());
        flow.eth_type.set(ether_type::IPV4);
        (flow.ip_tos, flow.ip_ttl) = (tos, 9);
        flow.tunnel.id.set(7);
        flow.tunnel.ipv4_src.set(0x0303_0303);
        flow.tunnel.ipv6_dst = [3; 16];
        flow.tunnel.tp_src.set(99);
        flow.tunnel.flags.set(tunnel_flag::OAM | tunnel_flag::CSUM);
        outer_key(config, &mut flow, &mut read);
        (flow, read)
    }

    #[test]
    fn what_is_fixed_takes_the_place_of_what_rules_set() {
        let (flow, read) = sent(&config(TunnelKind::Vxlan), 0);
        let mut expected = TunnelKey::default();
        expected.ipv4_dst.set(0x0101_0101);
        expected.ttl = 64;
        expected.tp_dst.set(4789);
        expected.flags.set(tunnel_flag::OAM | tunnel_flag::DONT_FRAGMENT);
        assert_eq!(flow.tunnel, expected);
        let mut expected = FlowKey::default();
        expected.ip_tos = 3;
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_not_fixed_is_as_rules_set_it() {
        let flow_based = TunnelConfig {
            remote: PerFlow::Flow,
            local: Some(PerFlow::Flow),
            out_key: Some(PerFlow::Flow),
            dont_fragment: false,
            egress_mark: Some(5),
            ..TunnelConfig::new(TunnelKind::Gre)
        };
        let (flow, read) = sent(&flow_based, 0);
        let mut expected = TunnelKey::default();
        expected.id.set(7);
        expected.ipv4_src.set(0x0303_0303);
        expected.ipv6_dst = [3; 16];
        expected.ttl = 64;
        expected.flags.set(tunnel_flag::OAM | tunnel_flag::KEY);
        assert_eq!((flow.tunnel, flow.skb_mark.get()), (expected, 5));
        assert_eq!(read.skb_mark.get(), u32::MAX);
    }

    #[test]
    fn class_and_time_to_live_are_inherited_on_demand() {
        let inherit = TunnelConfig {
            tos: Inherited::Packet(0),
            ttl: Inherited::Packet(64),
            ..config(TunnelKind::Gre)
        };
        let fixed = TunnelConfig { tos: Inherited::Fixed(0x20), ..config(TunnelKind::Gre) };
        // Congestion always is, but one that happened already counts as none.
        for (tos, inherited, other) in
            [(0x11, 0x11, 0x21), (0x12, 0x12, 0x22), (0x13, 0x12, 0x22), (0x10, 0x10, 0x20)]
        {
            let (flow, read) = sent(&inherit, tos);
            assert_eq!((flow.tunnel.tos, flow.tunnel.ttl), (inherited, 9));
            assert_eq!((read.ip_tos, read.ip_ttl), (0xff, 0xff));
            let (flow, read) = sent(&fixed, tos);
            assert_eq!((flow.tunnel.tos, flow.tunnel.ttl), (other, 64));
            assert_eq!((read.ip_tos, read.ip_ttl), (3, 0));
        }
        let (mut flow, mut read) = (FlowKey::default(), FlowKey::default());
        flow.eth_type.set(ether_type::ARP);
        outer_key(&inherit, &mut flow, &mut read);
        assert_eq!((flow.tunnel.tos, flow.tunnel.ttl, read), (0, 64, FlowKey::default()));
    }

    #[test]
    fn checksums_depend_on_the_family_where_they_are_not_set() {
        let remote = PerFlow::Fixed("fc00::1".parse().unwrap());
        for (checksum, over_ipv4, over_ipv6) in [
            (OuterChecksum::Default, 0, tunnel_flag::CSUM),
            (OuterChecksum::None, 0, 0),
            (OuterChecksum::Off, 0, 0),
            (OuterChecksum::On, tunnel_flag::CSUM, tunnel_flag::CSUM),
        ] {
            let ipv4 = TunnelConfig { checksum, ..config(TunnelKind::Geneve) };
            let ipv6 = TunnelConfig { remote, ..ipv4.clone() };
            let flags = [ipv4, ipv6]
                .map(|config| sent(&config, 0).0.tunnel.flags.get() & tunnel_flag::CSUM);
            assert_eq!(flags, [over_ipv4, over_ipv6], "{checksum:?}");
        }
    }

    #[test]
    fn a_protocol_carries_its_own_alone() {
        let mut tunnel = TunnelKey::default();
        tunnel.gbp_id.set(1);
        tunnel.gbp_flags = 2;
        (tunnel.options_length, tunnel.options[0]) = (4, 3);
        tunnel.erspan_version = 1;
        tunnel.erspan_index.set(4);
        (tunnel.gtpu_flags, tunnel.gtpu_message_type) = (0x30, 255);
        let own = |kind| of_protocol(kind, &tunnel);
        let mut vxlan = TunnelKey::default();
        vxlan.gbp_flags = 2;
        vxlan.gbp_id.set(1);
        assert_eq!(own(TunnelKind::Vxlan), vxlan);
        let mut geneve = TunnelKey::default();
        (geneve.options_length, geneve.options[0]) = (4, 3);
        assert_eq!(own(TunnelKind::Geneve), geneve);
        let mut erspan = TunnelKey::default();
        erspan.erspan_version = 1;
        erspan.erspan_index.set(4);
        assert_eq!([own(TunnelKind::Erspan), own(TunnelKind::Ip6erspan)], [erspan; 2]);
        let mut gtpu = TunnelKey::default();
        (gtpu.gtpu_flags, gtpu.gtpu_message_type) = (0x30, 255);
        assert_eq!(own(TunnelKind::Gtpu), gtpu);
        assert_eq!(own(TunnelKind::Gre), TunnelKey::default());
    }
}
