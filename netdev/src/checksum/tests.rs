use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::packet::{FramePool, Packet};
use crate::sample::{Kind, Sample, samples};

const TCP: Kind = Kind::Tcp { sequence: 7, flags: 0x18, option_words: 3 };
const TRANSPORT: TransmitOffloads = TransmitOffloads::TCP_CHECKSUM
    .union(TransmitOffloads::UDP_CHECKSUM)
    .union(TransmitOffloads::SCTP_CHECKSUM);

fn packet(pool: &Arc<FramePool>, bytes: &[u8]) -> Packet {
    pool.packet_with(bytes).unwrap()
}

fn bytes(packet: &Packet) -> Vec<u8> {
    packet.view().segments().collect::<Vec<_>>().concat()
}

fn states(packet: &Packet) -> [Checksum; 4] {
    [Layer::Ip, Layer::Transport, Layer::InnerIp, Layer::InnerTransport]
        .map(|layer| packet.view().descriptor().checksum(layer))
}

fn set_partial(packet: &mut Packet, layers: &[Layer]) {
    for layer in layers {
        packet.view_mut().descriptor_mut().set_checksum(*layer, Checksum::Partial);
    }
}

/// The frame with other bytes where its IP (if it has one) and transport checksums are.
fn spoiled(sample: &Sample) -> Vec<u8> {
    let mut frame = sample.frame();
    let length = if sample.kind == Kind::Sctp { 4 } else { 2 };
    let place = sample.l4() + sample.checksum_offset();
    frame[place..place + length].fill(0xa5);
    if !sample.is_ipv6 {
        frame[sample.l3() + 10..sample.l3() + 12].fill(0x5a);
    }
    frame
}

proptest! {
    #[test]
    fn finishes_any_packet_as_the_reference_does(sample in samples(), says_where in any::<bool>()) {
        let pool = FramePool::new(8).unwrap();
        let mut packet = packet(&pool, &spoiled(&sample));
        set_partial(&mut packet, &[Layer::Ip, Layer::Transport]);
        if says_where {
            let mut view = packet.view_mut();
            view.descriptor_mut().checksum_start = sample.l4() as u16;
            view.descriptor_mut().checksum_offset = sample.checksum_offset() as u16;
        }
        prop_assert!(is_pending(packet.view(), TransmitOffloads::empty()));
        prop_assert_eq!(finish(&mut packet.view_mut(), TransmitOffloads::empty()), Ok(()));
        prop_assert_eq!(bytes(&packet), sample.frame());
        prop_assert!(!is_pending(packet.view(), TransmitOffloads::empty()));
        let [good, unknown] = [Checksum::Good, Checksum::Unknown];
        prop_assert_eq!(states(&packet), [good, good, unknown, unknown]);
        prop_assert_eq!(packet.view().descriptor().checksum_start, 0);
    }

    #[test]
    fn what_a_device_is_given_only_lacks_the_sum(sample in samples()) {
        prop_assume!(sample.kind != Kind::Sctp);
        let pool = FramePool::new(8).unwrap();
        let mut packet = packet(&pool, &spoiled(&sample));
        set_partial(&mut packet, &[Layer::Transport]);
        let (start, offset) = prepare_for_device(&mut packet.view_mut(), Layer::Transport).unwrap();
        prop_assert_eq!(
            (start.into(), offset.into()),
            (sample.l4(), sample.checksum_offset())
        );
        // What the device does: sum from there to the end, whatever lies before.
        let mut frame = bytes(&packet);
        let sum = checksum(&frame[start.into()..]);
        let place = usize::from(start + offset);
        let sum = if sum == 0 { 0xffff } else { sum };
        frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        let expected = &sample.frame()[sample.l4()..];
        // In TCP both representations of zero are right.
        if expected[sample.checksum_offset()..][..2] != [0, 0] {
            prop_assert_eq!(&frame[sample.l4()..], expected);
        }
    }

    #[test]
    fn no_bytes_are_too_strange(
        sample in samples(),
        cut in any::<prop::sample::Index>(),
        change in any::<(prop::sample::Index, u8)>(),
        start in 0..200u16,
        offset in any::<u16>(),
    ) {
        let pool = FramePool::new(8).unwrap();
        let mut frame = sample.frame();
        let (place, value) = change;
        let place = place.index(frame.len().min(100));
        frame[place] = value;
        frame.truncate(cut.index(frame.len() + 1));
        let mut packet = packet(&pool, &frame);
        set_partial(&mut packet, &[Layer::Ip, Layer::Transport]);
        let mut view = packet.view_mut();
        view.descriptor_mut().checksum_start = start;
        view.descriptor_mut().checksum_offset = offset;
        let _ = prepare_for_device(&mut view, Layer::Transport);
        let done = finish(&mut view, TransmitOffloads::empty()).is_ok();
        prop_assert_eq!(done, !is_pending(packet.view(), TransmitOffloads::empty()));
        prop_assert_eq!(bytes(&packet).len(), frame.len());
    }
}

#[test]
fn leaves_to_the_device_what_it_can_do() {
    let pool = FramePool::new(8).unwrap();
    let kinds = [
        (TCP, TransmitOffloads::TCP_CHECKSUM),
        (Kind::Udp, TransmitOffloads::UDP_CHECKSUM),
        (Kind::Sctp, TransmitOffloads::SCTP_CHECKSUM),
    ];
    for (kind, own) in kinds {
        let sample = Sample::new(false, kind, vec![3; 100]);
        let spoiled = spoiled(&sample);
        for (offloads, finished) in [
            (own, [true, false]),
            (TRANSPORT.difference(own), [true, true]),
            (TransmitOffloads::IP_CHECKSUM, [false, true]),
            (TransmitOffloads::IP_CHECKSUM | own, [false, false]),
        ] {
            let mut packet = packet(&pool, &spoiled);
            set_partial(&mut packet, &[Layer::Ip, Layer::Transport]);
            finish(&mut packet.view_mut(), offloads).unwrap();
            let mut expected = spoiled.clone();
            let right = sample.frame();
            let places = [sample.l3() + 10..sample.l3() + 12, sample.l4()..right.len()];
            for (place, finished) in places.into_iter().zip(finished) {
                if finished {
                    expected[place.clone()].copy_from_slice(&right[place]);
                }
            }
            assert_eq!(bytes(&packet), expected, "{kind:?} {offloads:?}");
            let state = |finished| if finished { Checksum::Good } else { Checksum::Partial };
            assert_eq!(states(&packet)[..2], finished.map(state));
        }
    }
}

#[test]
fn sums_from_a_place_what_it_does_not_know() {
    let pool = FramePool::new(8).unwrap();
    // An ethertype without meaning.
    let mut frame = vec![0; 14 + 2001];
    frame[12..14].copy_from_slice(&[0x12, 0x34]);
    frame[14..].iter_mut().enumerate().for_each(|(index, byte)| *byte = index as u8);
    let mut packet = packet(&pool, &frame);
    set_partial(&mut packet, &[Layer::Transport]);
    assert_eq!(prepare_for_device(&mut packet.view_mut(), Layer::Transport), Err(InvalidHeader));
    assert_eq!(finish(&mut packet.view_mut(), TransmitOffloads::empty()), Err(InvalidHeader));
    let mut view = packet.view_mut();
    view.descriptor_mut().checksum_start = 20;
    view.descriptor_mut().checksum_offset = 4;
    assert_eq!(prepare_for_device(&mut view, Layer::Transport), Ok((20, 4)));
    assert_eq!(finish(&mut view, TransmitOffloads::empty()), Ok(()));
    let sum = checksum(&frame[20..]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(bytes(&packet), frame);
}

/// An Ethernet frame in a VXLAN packet.
fn tunnelled(inner: &[u8]) -> (Sample, usize) {
    let mut payload = vec![8, 0, 0, 0, 0, 0, 7, 0];
    payload.extend(inner);
    let outer = Sample::new(false, Kind::Udp, payload);
    let start = outer.l4() + 16;
    (outer, start)
}

#[test]
fn finishes_tunnels_inside_and_outside() {
    let pool = FramePool::new(8).unwrap();
    let inner = Sample::new(false, TCP, vec![9; 1999]);
    let (right, start) = tunnelled(&inner.frame());
    let (wrong, _) = tunnelled(&spoiled(&inner));
    let all = [Layer::Ip, Layer::Transport, Layer::InnerIp, Layer::InnerTransport];
    let make = |layers: &[Layer]| {
        let mut packet = packet(&pool, &spoiled(&wrong));
        set_partial(&mut packet, layers);
        let mut view = packet.view_mut();
        view.descriptor_mut().inner_l3 = (start + inner.l3()) as u16;
        view.descriptor_mut().checksum_start = (start + inner.l4()) as u16;
        view.descriptor_mut().checksum_offset = 16;
        packet
    };
    let mut packet = make(&all);
    finish(&mut packet.view_mut(), TransmitOffloads::empty()).unwrap();
    assert_eq!(bytes(&packet), right.frame());
    assert_eq!(states(&packet), [Checksum::Good; 4]);

    // The outer checksum counts on the inner ones, which the device fills in.
    let mut packet = make(&all);
    finish(&mut packet.view_mut(), TransmitOffloads::IP_CHECKSUM | TRANSPORT).unwrap();
    let expected = [&right.frame()[..start], &spoiled(&wrong)[start..]].concat();
    assert_eq!(bytes(&packet), expected);
    let (good, partial) = (Checksum::Good, Checksum::Partial);
    assert_eq!(states(&packet), [good, good, partial, partial]);
    finish(&mut packet.view_mut(), TransmitOffloads::empty()).unwrap();
    assert_eq!(bytes(&packet), right.frame());

    // A device that does it all.
    let outer = TransmitOffloads::OUTER_IP_CHECKSUM | TransmitOffloads::OUTER_UDP_CHECKSUM;
    let mut packet = make(&all);
    finish(&mut packet.view_mut(), TransmitOffloads::IP_CHECKSUM | TRANSPORT | outer).unwrap();
    assert_eq!(bytes(&packet), spoiled(&wrong));
    assert_eq!(states(&packet), [Checksum::Partial; 4]);

    // Only the inner one is to be finished, and its place is known to a device.
    let mut packet = make(&[Layer::InnerTransport]);
    assert_eq!(
        prepare_for_device(&mut packet.view_mut(), Layer::InnerTransport),
        Ok(((start + inner.l4()) as u16, 16))
    );
    finish(&mut packet.view_mut(), TransmitOffloads::empty()).unwrap();
    let place = start + inner.l4();
    assert_eq!(bytes(&packet)[place..], right.frame()[place..]);
    assert_eq!(bytes(&packet)[..place], spoiled(&wrong)[..place]);
}
