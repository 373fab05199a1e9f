use std::sync::Arc;

use netdev::packet::{FramePool, Packet};
use netdev::tunnel::TunnelKind;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::flow::{PacketKey, TunnelKey, extract, tunnel_flag};
use crate::testing::{bytes_of, has_right_checksums, ip};
use crate::tunnel::events::Events;
use crate::tunnel::pop::pop;
use crate::tunnel::testing::{Case, case};

/// A packet for the tunnel. One without Ethernet header starts as its type says.
fn packet(pool: &Arc<FramePool>, case: &Case, bytes: &[u8]) -> Packet {
    let mut packet = pool.packet_with(bytes).unwrap();
    let mut view = packet.view_mut();
    view.descriptor_mut().l3_type = case.packet_type;
    let version = match case.packet_type {
        ether_type::IPV4 => Some(0x45),
        ether_type::IPV6 => Some(0x60),
        _ => None,
    };
    if let Some(version) = version {
        view.write(0, &[version]);
    }
    extract(&mut view, None, 2, &mut PacketKey::default());
    packet
}

/// The bytes that leave.
fn pushed(packet: &mut Packet, case: &Case, tunnel: &Tunnel, hash: u32) -> Vec<u8> {
    let mut view = packet.view_mut();
    push(&mut view, &case.push(7, 9), tunnel, hash).unwrap();
    assert_eq!((view.view().descriptor().in_port, view.view().descriptor().l3_type), (9, 0));
    finish(&mut view, TransmitOffloads::empty()).unwrap();
    bytes_of(&packet.view())
}

proptest! {
    /// What goes into a tunnel of any kind comes out of it, and the far end finds in the headers
    /// what was to be in them.
    #[test]
    fn what_is_pushed_can_be_popped(
        case in case(),
        bytes in vec(any::<u8>(), 1..4000),
        padding in 0..50usize,
        hash in any::<u32>(),
    ) {
        let pool = FramePool::new(64).unwrap();
        let tunnel = Tunnel::new(case.port());
        let mut inner = packet(&pool, &case, &bytes);
        let bytes = bytes_of(&inner.view());
        let mut frame = pushed(&mut inner, &case, &tunnel, hash);
        // Devices pad short frames.
        frame.resize(frame.len() + padding, 0);
        let mut received = pool.packet_with(&frame).unwrap();
        let mut events = Events::default();
        let key = pop(&mut received.view_mut(), case.port(), &mut events);
        prop_assert_eq!(key, Ok(case.received(source_port(hash))));
        let padded = [&bytes[..], &vec![0; padding]].concat();
        prop_assert_eq!(bytes_of(&received.view()), padded);
        prop_assert_eq!(received.view().descriptor().l3_type, case.packet_type);

        // The same without a wire between, where nothing is finished.
        drop(inner);
        let mut inner = packet(&pool, &case, &bytes);
        push(&mut inner.view_mut(), &case.push(7, 9), &tunnel, hash).unwrap();
        let key = pop(&mut inner.view_mut(), case.port(), &mut events);
        prop_assert_eq!(key, Ok(case.received(source_port(hash))));
        prop_assert_eq!(bytes_of(&inner.view()), bytes);
        drop((inner, received));
        prop_assert_eq!(pool.counts().held, 0);
    }
}

#[test]
fn outer_checksums_are_right() {
    let pool = FramePool::new(64).unwrap();
    for is_ipv6 in [false, true] {
        let mut case = Case::new(TunnelKind::Vxlan, is_ipv6);
        case.tunnel.flags.set(tunnel_flag::CSUM);
        let tunnel = Tunnel::new(case.port());
        let frame = pushed(&mut packet(&pool, &case, &[7; 99]), &case, &tunnel, 5);
        assert!(has_right_checksums(&frame));
        let checksum = if is_ipv6 { 60..62 } else { 40..42 };
        assert_ne!(frame[checksum], [0; 2]);
    }
}

#[test]
fn sequence_numbers_follow_one_another() {
    let pool = FramePool::new(64).unwrap();
    for (kind, place) in [(TunnelKind::Gre, 42), (TunnelKind::Erspan, 38)] {
        let mut case = Case::new(kind, false);
        case.config.has_sequence = true;
        let tunnel = Arc::new(Tunnel::new(case.port()));
        let numbers: Vec<u32> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let (case, tunnel, pool) = (&case, &tunnel, &pool);
                    scope.spawn(move || {
                        let frames = (0..100)
                            .map(|_| pushed(&mut packet(pool, case, &[7; 60]), case, tunnel, 5));
                        frames
                            .map(|frame| {
                                u32::from_be_bytes(frame[place..place + 4].try_into().unwrap())
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let mut sorted = numbers;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..200).collect::<Vec<u32>>());
    }
}

#[test]
fn long_headers_find_room() {
    let mut case = Case::new(TunnelKind::Geneve, true);
    let option = [&[1, 2, 3, 30][..], &[9; 120]].concat();
    case.tunnel.options[..248].copy_from_slice(&[&option[..], &option].concat());
    case.tunnel.options_length = 248;
    let tunnel = Tunnel::new(case.port());
    // In its frame there is room behind a short packet, and none behind a long one.
    for length in [60, 1500, 1800, 9000] {
        let pool = FramePool::new(64).unwrap();
        let bytes: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let mut inner = packet(&pool, &case, &bytes);
        let frame = pushed(&mut inner, &case, &tunnel, 0);
        assert_eq!(frame.len(), 70 + 248 + length);
        assert_eq!(frame[70 + 248..], bytes);
        drop(inner);
        assert_eq!(pool.counts().held, 0);
    }
    // Nor is there a frame for it.
    let pool = FramePool::new(1).unwrap();
    let mut inner = packet(&pool, &case, &[0; 1800]);
    assert_eq!(push(&mut inner.view_mut(), &case.push(7, 9), &tunnel, 0), None);
}

#[test]
fn source_ports_are_of_the_range() {
    assert_eq!(source_port(0), 32768);
    assert_eq!(source_port(u32::MAX), 60999);
}

#[test]
fn a_tunnel_in_a_tunnel_is_finished_first() {
    let pool = FramePool::new(64).unwrap();
    let mut case = Case::new(TunnelKind::Vxlan, false);
    case.tunnel.flags.set(tunnel_flag::CSUM);
    let tunnel = Tunnel::new(case.port());
    let mut inner = packet(&pool, &case, &[7; 99]);
    push(&mut inner.view_mut(), &case.push(7, 9), &tunnel, 0).unwrap();
    let frame = pushed(&mut inner, &case, &tunnel, 0);
    assert!(has_right_checksums(&frame));
    assert!(has_right_checksums(&frame[50..]));
    let mut received = pool.packet_with(&frame).unwrap();
    let mut events = Events::default();
    for _ in 0..2 {
        let key: TunnelKey = pop(&mut received.view_mut(), case.port(), &mut events).unwrap();
        assert_eq!(key, case.received(source_port(0)));
    }
    assert_eq!(bytes_of(&received.view()), [7; 99]);
}

#[test]
fn an_outer_checksum_counts_on_what_a_device_fills_in() {
    let pool = FramePool::new(64).unwrap();
    for (is_ipv6, is_inner_ipv6) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut case = Case::new(TunnelKind::Vxlan, is_ipv6);
        case.tunnel.flags.set(tunnel_flag::CSUM);
        let tunnel = Tunnel::new(case.port());
        let transport = [&[0, 5, 0, 6][..], &[0; 8], &[0x50, 0x10, 0, 0], &[9; 35]].concat();
        let mut frame = ip(is_inner_ipv6, 6, transport, 16);
        let right = frame.clone();
        let l4 = if is_inner_ipv6 { 54 } else { 34 };
        frame[l4 + 16..l4 + 18].fill(0xee);
        let mut inner = packet(&pool, &case, &frame);
        inner.view_mut().descriptor_mut().set_checksum(Layer::Transport, Checksum::Partial);
        let mut view = inner.view_mut();
        push(&mut view, &case.push(7, 9), &tunnel, 0).unwrap();
        finish(&mut view, TransmitOffloads::TCP_CHECKSUM).unwrap();
        let descriptor = view.view().descriptor();
        assert_eq!(descriptor.checksum(Layer::InnerTransport), Checksum::Partial);
        assert_eq!(descriptor.checksum(Layer::Transport), Checksum::Good);
        finish(&mut view, TransmitOffloads::empty()).unwrap();
        let outer = bytes_of(&view.view());
        assert!(has_right_checksums(&outer));
        assert!(outer.ends_with(&right));
    }
}
