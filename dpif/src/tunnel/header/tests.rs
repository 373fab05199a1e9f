use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::action::{Action, ActionsText, parse_actions};

const SOURCE4: IpAddr = IpAddr::V4(Ipv4Addr::new(1, 1, 2, 88));
const SOURCE6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0, 0x88));
const DESTINATION6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xcafe, 0, 0, 0, 0, 0, 0x92);
const IPV4: &str = "eth(dst=f8:bc:12:44:34:b6,src=aa:55:aa:55:00:00,dl_type=0x0800),\
                    ipv4(src=1.1.2.88,dst=1.1.2.92";
const IPV6: &str = "eth(dst=f8:bc:12:44:34:b6,src=aa:55:aa:55:00:00,dl_type=0x86dd),\
                    ipv6(src=2001:cafe::88,dst=2001:cafe::92,label=";

fn tunnel(source: IpAddr) -> TunnelKey {
    let mut tunnel = TunnelKey::default();
    tunnel.ttl = 64;
    tunnel.id.set(0x7b);
    tunnel.flags.set(tunnel_flag::DONT_FRAGMENT);
    match source {
        IpAddr::V4(_) => tunnel.ipv4_dst.set(Ipv4Addr::new(1, 1, 2, 92).to_bits()),
        IpAddr::V6(_) => tunnel.ipv6_dst = DESTINATION6.octets(),
    }
    tunnel
}

fn build(
    config: &TunnelConfig,
    tunnel: &TunnelKey,
    source: IpAddr,
    packet_type: u16,
) -> Result<TunnelPush, HeaderError> {
    let encapsulation = Encapsulation {
        config,
        tunnel,
        source,
        eth_source: MacAddress([0xaa, 0x55, 0xaa, 0x55, 0, 0]),
        eth_destination: MacAddress([0xf8, 0xbc, 0x12, 0x44, 0x34, 0xb6]),
        packet_type,
        tunnel_port: 7,
        out_port: 100,
    };
    encapsulation.build()
}

/// The text of the header between its size and its type, and the port.
fn check(push: TunnelPush, size: usize, kind: u32, headers: &str) {
    let expected =
        format!("tnl_push(tnl_port(7),header(size={size},type={kind},{headers}),out_port(100))");
    let actions = [Action::TunnelPush(Box::new(push))];
    assert_eq!(ActionsText { actions: &actions, names: None }.to_string(), expected);
    // A sequence number of GTP-U is not in the text, and the text of ERSPAN has no timestamp.
    if kind != tunnel_type::GTPU {
        assert_eq!(parse_actions(&expected, None).unwrap(), actions);
    }
}

#[test]
fn vxlan_carries_ethernet_or_what_its_extension_says() {
    let mut config = TunnelConfig::new(TunnelKind::Vxlan);
    let mut tunnel = tunnel(SOURCE4);
    let push = build(&config, &tunnel, SOURCE4, 0).unwrap();
    let front = format!("{IPV4},proto=17,tos=0,ttl=64,frag=0x4000),");
    let expected = format!("{front}udp(src=0,dst=4789,csum=0x0),vxlan(flags=0x8000000,vni=0x7b)");
    check(push, 50, 4, &expected);
    let refused = HeaderError::PacketType { kind: TunnelKind::Vxlan, packet_type: 0x800 };
    assert_eq!(build(&config, &tunnel, SOURCE4, 0x800), Err(refused));

    config.gbp = true;
    tunnel.gbp_id.set(0x1234);
    tunnel.gbp_flags = 0xff;
    tunnel.flags.set(tunnel_flag::CSUM);
    tunnel.tos = 4;
    let push = build(&config, &tunnel, SOURCE4, 0).unwrap();
    let front = format!("{IPV4},proto=17,tos=0x4,ttl=64,frag=0x0),");
    let expected =
        format!("{front}udp(src=0,dst=4789,csum=0xffff),vxlan(flags=0x88481234,vni=0x7b)");
    check(push, 50, 4, &expected);

    config.gpe = true;
    for (packet_type, number) in [(0, 3), (0x800, 1), (0x86dd, 2), (0x894f, 4)] {
        let push = build(&config, &tunnel, SOURCE4, packet_type).unwrap();
        let expected = format!(
            "{front}udp(src=0,dst=4789,csum=0xffff),vxlan(flags=0xc00000{number},vni=0x7b)"
        );
        check(push, 50, 4, &expected);
    }
    assert!(build(&config, &tunnel, SOURCE4, 0x8847).is_err());
}

#[test]
fn geneve_carries_options() {
    let config = TunnelConfig::new(TunnelKind::Geneve);
    let mut tunnel = tunnel(SOURCE6);
    let push = build(&config, &tunnel, SOURCE6, 0).unwrap();
    let front = format!("{IPV6}0,proto=17,tclass=0x0,hlimit=64),udp(src=0,dst=6081,csum=0x0),");
    check(push, 70, 5, &format!("{front}geneve(vni=0x7b)"));

    let options = [0xff, 0xff, 0x80, 1, 0, 0, 0, 0xa, 0, 1, 2, 0];
    tunnel.options[..12].copy_from_slice(&options);
    tunnel.options_length = 12;
    tunnel.flags.set(tunnel_flag::OAM);
    let push = build(&config, &tunnel, SOURCE6, 0).unwrap();
    let expected = format!(
        "{front}geneve(oam,crit,vni=0x7b,options(\
         {{class=0xffff,type=0x80,len=4,0xa}}{{class=0x1,type=0x2,len=0}}))"
    );
    check(push, 82, 5, &expected);
}

#[test]
fn gre_has_the_words_that_are_wanted() {
    let mut config = TunnelConfig::new(TunnelKind::Gre);
    let mut tunnel = tunnel(SOURCE4);
    let front = format!("{IPV4},proto=47,tos=0,ttl=64,frag=0x4000),");
    let push = build(&config, &tunnel, SOURCE4, 0).unwrap();
    check(push, 38, 3, &format!("{front}gre((flags=0x0,proto=0x6558))"));
    config.out_key = Some(PerFlow::Flow);
    config.has_sequence = true;
    tunnel.flags.set(tunnel_flag::CSUM | tunnel_flag::DONT_FRAGMENT);
    let push = build(&config, &tunnel, SOURCE4, 0x800).unwrap();
    let expected = format!("{front}gre((flags=0xb000,proto=0x800),csum=0x0,key=0x7b,seq=0x0)");
    check(push, 50, 3, &expected);

    let tunnel = self::tunnel(SOURCE6);
    let config = TunnelConfig::new(TunnelKind::Ip6gre);
    let push = build(&config, &tunnel, SOURCE6, 0).unwrap();
    let front = format!("{IPV6}0,proto=47,tclass=0x0,hlimit=64),");
    check(push, 58, 109, &format!("{front}gre((flags=0x0,proto=0x6558))"));
    let error = HeaderError::Address { address: SOURCE4 };
    assert_eq!(build(&config, &tunnel, SOURCE4, 0), Err(error));
}

#[test]
fn erspan_says_what_its_version_can() {
    let mut config = TunnelConfig::new(TunnelKind::Erspan);
    let mut tunnel = tunnel(SOURCE4);
    let error = HeaderError::ErspanVersion { version: 0 };
    assert_eq!(build(&config, &tunnel, SOURCE4, 0), Err(error));
    config.erspan.version = PerFlow::Fixed(1);
    config.erspan.index = PerFlow::Fixed(3);
    let push = build(&config, &tunnel, SOURCE4, 0).unwrap();
    let front = format!("{IPV4},proto=47,tos=0,ttl=64,frag=0x4000),");
    check(push, 50, 107, &format!("{front}erspan(ver=1,sid=0x7b,idx=0x3)"));

    config.erspan.version = PerFlow::Flow;
    config.erspan.hardware = PerFlow::Flow;
    config.erspan.direction = PerFlow::Fixed(1);
    (tunnel.erspan_version, tunnel.erspan_hwid) = (2, 7);
    let push = build(&config, &tunnel, SOURCE4, 0).unwrap();
    check(push, 54, 107, &format!("{front}erspan(ver=2,sid=0x7b,dir=1,hwid=0x7)"));
    tunnel.id.set(1024);
    assert_eq!(build(&config, &tunnel, SOURCE4, 0), Err(HeaderError::Session { id: 1024 }));
}

#[test]
fn gtpu_has_room_for_a_sequence_number() {
    let mut config = TunnelConfig::new(TunnelKind::Gtpu);
    let mut tunnel = tunnel(SOURCE4);
    let front = format!("{IPV4},proto=17,tos=0,ttl=64,frag=0x4000),udp(src=0,dst=2152,csum=0x0),");
    let push = build(&config, &tunnel, SOURCE4, 0x800).unwrap();
    check(push, 50, 110, &format!("{front}gtpu(flags=0x30,msgtype=255,teid=0x7b)"));
    config.has_sequence = true;
    (tunnel.gtpu_flags, tunnel.gtpu_message_type) = (0x34, 3);
    let push = build(&config, &tunnel, SOURCE4, 0x800).unwrap();
    check(push, 54, 110, &format!("{front}gtpu(flags=0x36,msgtype=3,teid=0x7b)"));
}

#[test]
fn segments_start_with_the_destination() {
    let mut config = TunnelConfig::new(TunnelKind::Srv6);
    let tunnel = tunnel(SOURCE6);
    let front = |label| format!("{IPV6}{label},proto=43,tclass=0x0,hlimit=64),");
    let push = build(&config, &tunnel, SOURCE6, 0x800).unwrap();
    let next = |push: &TunnelPush| push.header[54];
    assert_eq!(next(&push), ip_protocol::IPV4);
    let push = TunnelPush { header: without_next_header(push.header), ..push };
    check(push, 78, 112, &format!("{}srv6(segments_left=0,segs(2001:cafe::92))", front(0)));

    config.segments = vec![DESTINATION6, Ipv6Addr::LOCALHOST];
    config.flow_label = FlowLabel::Compute;
    let push = build(&config, &tunnel, SOURCE6, 0x86dd).unwrap();
    assert_eq!(next(&push), ip_protocol::IPV6);
    let push = TunnelPush { header: without_next_header(push.header), ..push };
    check(push, 94, 112, &format!("{}srv6(segments_left=1,segs(2001:cafe::92,::1))", front(2)));
    config.segments = vec![Ipv6Addr::LOCALHOST];
    assert_eq!(build(&config, &tunnel, SOURCE6, 0x800), Err(HeaderError::FirstSegment));
    assert!(build(&config, &tunnel, SOURCE6, 0).is_err());
}

/// The text does not say what is behind the segments.
fn without_next_header(mut header: Vec<u8>) -> Vec<u8> {
    header[54] = 0;
    header
}
