use netdev::packet::FramePool;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::testing::{bytes_of, udp};
use crate::tunnel::events::Event;

fn port(kind: TunnelKind) -> TunnelPort {
    let udp_port = netdev::tunnel::TunnelConfig::new(kind).udp_port;
    TunnelPort { kind, udp_port, gbp: true }
}

/// What comes of popping a frame, and what was counted.
fn run(kind: TunnelKind, frame: &[u8]) -> (Result<TunnelKey, PopError>, Events, Vec<u8>) {
    let pool = FramePool::new(64).unwrap();
    let mut packet = pool.packet_with(frame).unwrap();
    let mut events = Events::default();
    let result = pop(&mut packet.view_mut(), port(kind), &mut events);
    (result, events, bytes_of(&packet.view()))
}

/// Checks that a frame is refused for this, and left alone.
fn refused(kind: TunnelKind, frame: &[u8], error: PopError) {
    let (result, _, bytes) = run(kind, frame);
    assert_eq!(result, Err(error));
    assert_eq!(bytes, frame);
}

/// A UDP packet to the port of VXLAN, Geneve or GTP-U.
fn in_udp(kind: TunnelKind, data: &[u8]) -> Vec<u8> {
    udp(0x0a00_0001, 0x0a00_0002, [1, port(kind).udp_port], data)
}

/// An IPv4 or IPv6 packet of a protocol.
fn in_ip(is_ipv6: bool, protocol: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = crate::testing::ip(is_ipv6, protocol, data.to_vec(), 0);
    let start = frame.len() - data.len();
    frame[start..].copy_from_slice(data);
    frame
}

const VXLAN: [u8; 8] = [8, 0, 0, 0, 0, 0, 5, 0];

#[test]
fn outer_headers_that_contradict_the_packet_are_refused() {
    let good = in_udp(TunnelKind::Vxlan, &[&VXLAN[..], &[9; 20]].concat());
    let (key, events, bytes) = run(TunnelKind::Vxlan, &good);
    assert_eq!(key.map(|key| key.id.get()), Ok(5));
    assert_eq!((events.count(Event::IpChecked), events.count(Event::UdpChecked)), (1, 1));
    assert_eq!(bytes, [9; 20]);

    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        // Right again, if it was the IP header.
        frame[24..26].fill(0);
        let sum = netdev::wire::checksum::checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    let refused = |frame: &[u8], error| refused(TunnelKind::Vxlan, frame, error);
    refused(&good[..33], PopError::Truncated { header: "ip" });
    refused(&good[..13], PopError::Truncated { header: "ethernet" });
    refused(&with(13, 6), PopError::Protocol { protocol: 0x806 });
    refused(&with(14, 0x55), PopError::IpVersion { version: 5 });
    let mut wrong = good.clone();
    wrong[25] ^= 1;
    refused(&wrong, PopError::IpChecksum);
    let actual = good.len() - 14;
    refused(&with(16, 1), PopError::Length { header: "ip", says: actual + 256, actual });
    refused(&with(17, 19), PopError::Length { header: "ip", says: 19, actual });
    refused(&with(20, 0x20), PopError::Fragment);
    refused(&with(21, 1), PopError::Fragment);
    refused(&with(23, 6), PopError::Protocol { protocol: 6 });
    refused(&with(37, 1), PopError::Protocol { protocol: 0x1201 });
    let actual = good.len() - 34;
    refused(&with(39, 7), PopError::Length { header: "udp", says: 7, actual });
    refused(&with(38, 1), PopError::Length { header: "udp", says: actual + 256, actual });
    refused(&with(40, !good[40]), PopError::UdpChecksum);
}

#[test]
fn ipv4_options_are_refused() {
    let mut frame = in_udp(TunnelKind::Vxlan, &VXLAN);
    frame[14] = 0x46;
    frame[24..26].fill(0);
    let sum = netdev::wire::checksum::checksum(&frame[14..38]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    refused(TunnelKind::Vxlan, &frame, PopError::IpOptions { length: 24 });
}

#[test]
fn ipv6_extensions_are_read() {
    // Destination options of 16 bytes in front of GRE.
    let gre = [0, 0, 0x65, 0x58, 1, 2, 3];
    let options = [47, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let (key, _, bytes) = run(TunnelKind::Gre, &in_ip(true, 60, &[&options[..], &gre].concat()));
    assert_eq!(key.map(|key| key.ipv6_src), Ok([0x20; 16]));
    assert_eq!(bytes, [1, 2, 3]);
    refused(TunnelKind::Gre, &in_ip(true, 44, &[47, 0, 0, 1, 0, 0, 0, 0]), PopError::Fragment);
    let cut = PopError::Truncated { header: "ipv6 extension" };
    refused(TunnelKind::Gre, &in_ip(true, 60, &options[..8]), cut);
    refused(TunnelKind::Gre, &in_ip(true, 0, &[47, 0, 1]), cut);
    refused(TunnelKind::Gre, &in_ip(true, 51, &gre), PopError::Protocol { protocol: 51 });
}

#[test]
fn vxlan_flags_must_be_known() {
    for (header, expected) in [
        ([8, 0, 0, 0, 0, 1, 2, 0], Ok((0x102, 0, 0, 0))),
        ([0x88, 0x48, 0x12, 0x34, 0, 0, 1, 0], Ok((1, 0x1234, 0x48, 0))),
        ([0x0c, 0, 0, 1, 0, 0, 1, 0], Ok((1, 0, 0, ether_type::IPV4))),
        ([0x0c, 0, 0, 3, 0, 0, 1, 0], Ok((1, 0, 0, 0))),
        ([0x0c, 0, 0, 9, 0, 0, 1, 0], Err(PopError::Payload { protocol: 9 })),
        ([0x0d, 0, 0, 1, 0, 0, 1, 0], Err(PopError::Vxlan { flags: 0x0d00_0001, vni: 0x100 })),
        ([0x0c, 0, 1, 1, 0, 0, 1, 0], Err(PopError::Vxlan { flags: 0x0c00_0101, vni: 0x100 })),
        ([0, 0, 0, 0, 0, 0, 1, 0], Err(PopError::Vxlan { flags: 0, vni: 0x100 })),
        ([8, 0, 0, 1, 0, 0, 1, 0], Err(PopError::Vxlan { flags: 0x0800_0001, vni: 0x100 })),
        ([8, 0, 0, 0, 0, 0, 1, 1], Err(PopError::Vxlan { flags: 0x0800_0000, vni: 0x101 })),
    ] {
        let frame = in_udp(TunnelKind::Vxlan, &[&header[..], &[0; 20]].concat());
        let pool = FramePool::new(1).unwrap();
        let mut packet = pool.packet_with(&frame).unwrap();
        let found = pop(&mut packet.view_mut(), port(TunnelKind::Vxlan), &mut Events::default());
        let l3_type = packet.view().descriptor().l3_type;
        let found = found.map(|key| (key.id.get(), key.gbp_id.get(), key.gbp_flags, l3_type));
        assert_eq!(found, expected);
    }
    // Where no group policy was asked for, its flag is one that must not be set.
    let frame = in_udp(TunnelKind::Vxlan, &[0x88, 0, 0, 1, 0, 0, 1, 0]);
    let pool = FramePool::new(1).unwrap();
    let mut packet = pool.packet_with(&frame).unwrap();
    let plain = TunnelPort { gbp: false, ..port(TunnelKind::Vxlan) };
    let error = PopError::Vxlan { flags: 0x8800_0001, vni: 0x100 };
    assert_eq!(pop(&mut packet.view_mut(), plain, &mut Events::default()), Err(error));
}

#[test]
fn geneve_options_must_add_up() {
    let run = |front: [u8; 4], options: &[u8]| {
        let data = [&front[..], &[0, 0, 7, 0], options].concat();
        run(TunnelKind::Geneve, &in_udp(TunnelKind::Geneve, &data)).0
    };
    let key = run([2, 0x80, 0x65, 0x58], &[1, 2, 3, 1, 5, 6, 7, 8]).unwrap();
    assert_eq!(key.used_options(), [1, 2, 3, 1, 5, 6, 7, 8]);
    assert_eq!(key.flags.get(), tunnel_flag::OAM | tunnel_flag::KEY | tunnel_flag::CSUM);
    let error = Err(PopError::GeneveOptions { length: 8 });
    assert_eq!(run([2, 0, 0x65, 0x58], &[1, 2, 3, 2, 5, 6, 7, 8]), error);
    let error = Err(PopError::Truncated { header: "geneve" });
    assert_eq!(run([3, 0, 0x65, 0x58], &[1, 2, 3, 1, 5, 6, 7, 8]), error);
    assert_eq!(run([0x40, 0, 0x65, 0x58], &[]), Err(PopError::GeneveVersion { version: 1 }));
    assert_eq!(run([0, 0, 8, 0], &[]), Err(PopError::Payload { protocol: 0x800 }));
}

#[test]
fn gre_flags_must_be_known() {
    let run = |data: &[u8]| run(TunnelKind::Gre, &in_ip(false, 47, data)).0;
    assert_eq!(run(&[0x40, 0, 8, 0]), Err(PopError::Gre { flags: 0x4000 }));
    assert_eq!(run(&[0, 1, 8, 0]), Err(PopError::Gre { flags: 1 }));
    assert_eq!(run(&[0x20, 0, 8, 0, 1]), Err(PopError::Truncated { header: "gre" }));
    assert_eq!(run(&[0x80, 0, 8, 0, 1, 1, 0, 0]), Err(PopError::GreChecksum));
    assert_eq!(run(&[0, 0, 5, 0xff]), Err(PopError::Payload { protocol: 0x5ff }));
    let key = run(&[0x30, 0, 8, 0, 0, 0, 0, 9, 1, 1, 1, 1]).unwrap();
    assert_eq!((key.id.get(), key.flags.get()), (9, tunnel_flag::KEY));
}

#[test]
fn erspan_versions_must_agree() {
    let run = |data: &[u8]| run(TunnelKind::Erspan, &in_ip(false, 47, data)).0;
    let front = |protocol: [u8; 2], version: u8| {
        [0x10, 0, protocol[0], protocol[1], 0, 0, 0, 1, version << 4, 0, 0xfc, 5]
    };
    let key = run(&[&front([0x88, 0xbe], 1)[..], &[0, 0, 0, 3]].concat()).unwrap();
    assert_eq!((key.id.get(), key.erspan_version, key.erspan_index.get()), (5, 1, 3));
    let data = [&front([0x22, 0xeb], 2)[..], &[0, 0, 0, 0, 0, 0, 0, 0x78]].concat();
    let key = run(&data).unwrap();
    assert_eq!((key.erspan_version, key.erspan_dir, key.erspan_hwid), (2, 1, 7));
    let cut = Err(PopError::Truncated { header: "erspan" });
    assert_eq!(run(&data[..19]), cut);
    assert_eq!(run(&front([0x88, 0xbe], 2)), Err(PopError::ErspanVersion { version: 2 }));
    let mut other = data.clone();
    other[0] = 0x30;
    assert_eq!(run(&other), Err(PopError::Gre { flags: 0x3000 }));
}

#[test]
fn gtpu_messages_stay_whole() {
    let payload = [0x45, 0, 0, 1];
    let run = |data: &[u8]| {
        let frame = in_udp(TunnelKind::Gtpu, data);
        let (key, _, bytes) = run(TunnelKind::Gtpu, &frame);
        (key, bytes, frame)
    };
    let (key, bytes, _) = run(&[&[0x30, 255, 0, 4, 0, 0, 0, 9][..], &payload].concat());
    assert_eq!((key.unwrap().id.get(), &bytes[..]), (9, &payload[..]));
    // A sequence number, and an extension header of 4 bytes.
    let options = [0, 1, 0, 0x85, 1, 2, 3, 0];
    let data = [&[0x36, 255, 0, 12, 0, 0, 0, 9][..], &options, &payload].concat();
    let (key, bytes, _) = run(&data);
    assert_eq!((key.unwrap().gtpu_flags, &bytes[..]), (0x36, &payload[..]));
    // An echo request.
    let (key, bytes, frame) = run(&[0x30, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!((key.unwrap().gtpu_message_type, bytes), (1, frame));

    assert_eq!(run(&[0x10, 255, 0, 0, 0, 0, 0, 9]).0, Err(PopError::Gtpu { flags: 0x10 }));
    let error = PopError::Length { header: "gtpu", says: 5, actual: 4 };
    assert_eq!(run(&[&[0x30, 255, 0, 5, 0, 0, 0, 9][..], &payload].concat()).0, Err(error));
    let data = [&[0x30, 255, 0, 1, 0, 0, 0, 9][..], &[0x15]].concat();
    assert_eq!(run(&data).0, Err(PopError::Payload { protocol: 1 }));
    let data = [&[0x34, 255, 0, 8, 0, 0, 0, 9][..], &[0, 0, 0, 1, 0], &payload[..3]].concat();
    assert_eq!(run(&data).0, Err(PopError::Gtpu { flags: 0x34 }));
}

#[test]
fn segments_must_be_behind_the_packet() {
    let routing = |next, kind, left| [&[next, 2, kind, left, 0, 0, 0, 0][..], &[7; 16]].concat();
    let run = |data: &[u8]| run(TunnelKind::Srv6, &in_ip(true, 43, data));
    let (key, _, bytes) = run(&[&routing(4, 4, 0)[..], &[0x45; 9]].concat());
    assert_eq!((key.map(|key| key.ttl), &bytes[..]), (Ok(64), &[0x45; 9][..]));
    assert_eq!(run(&routing(4, 3, 0)).0, Err(PopError::Routing { routing_type: 3 }));
    let error = PopError::SegmentsLeft { segments_left: 1 };
    assert_eq!(run(&routing(41, 4, 1)).0, Err(error));
    assert_eq!(run(&routing(6, 4, 0)).0, Err(PopError::Payload { protocol: 6 }));
    let mut wrong = routing(4, 4, 0);
    wrong[4] = 1;
    assert_eq!(run(&wrong).0, Err(PopError::Routing { routing_type: 4 }));
    let plain = in_ip(true, 4, &[0x45; 20]);
    refused(TunnelKind::Srv6, &plain, PopError::Protocol { protocol: 4 });
}

proptest! {
    /// No bytes break it, and none get lost but those of headers.
    #[test]
    fn any_bytes_are_popped_or_refused(
        kind in select(TunnelKind::ALL.to_vec()),
        is_ipv6 in any::<bool>(),
        is_framed in any::<bool>(),
        bytes in vec(any::<u8>(), 0..300),
        l3_type in select(vec![0, ether_type::IPV4, ether_type::IPV6]),
    ) {
        let pool = FramePool::new(64).unwrap();
        let frame = match (is_framed, kind.uses_udp()) {
            (false, _) => bytes,
            (true, true) => in_udp(kind, &bytes),
            (true, false) if bytes.len() < 2 => bytes,
            (true, false) => in_ip(is_ipv6, if kind == TunnelKind::Srv6 { 43 } else { 47 }, &bytes),
        };
        let mut packet = pool.packet_with(&frame).unwrap();
        if !is_framed {
            packet.view_mut().descriptor_mut().l3_type = l3_type;
        }
        let result = pop(&mut packet.view_mut(), port(kind), &mut Events::default());
        let left = bytes_of(&packet.view());
        match result {
            Ok(_) => prop_assert!(frame.ends_with(&left)),
            Err(_) => prop_assert_eq!(left, frame),
        }
        drop(packet);
        prop_assert_eq!(pool.counts().held, 0);
    }
}
