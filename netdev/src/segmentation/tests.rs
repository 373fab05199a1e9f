use proptest::prelude::*;

use super::*;
use crate::checksum;
use crate::packet::{FramePool, Packet};
use crate::sample::{Kind, Sample, samples};

const TCP: Kind = Kind::Tcp { sequence: 0xffff_ff00, flags: 0x9b, option_words: 3 };

fn bytes(packet: PacketRef<'_>) -> Vec<u8> {
    packet.segments().collect::<Vec<_>>().concat()
}

fn segmentation(sample: &Sample) -> Segmentation {
    match (sample.kind, sample.is_ipv6) {
        (Kind::Tcp { .. }, false) => Segmentation::TcpIpv4,
        (Kind::Tcp { .. }, true) => Segmentation::TcpIpv6,
        _ => Segmentation::Udp,
    }
}

fn large(pool: &std::sync::Arc<FramePool>, sample: &Sample, size: u16) -> Packet {
    let mut packet = pool.packet_with(&sample.frame()).unwrap();
    let mut view = packet.view_mut();
    view.descriptor_mut().segmentation = segmentation(sample);
    view.descriptor_mut().segment_size = size;
    packet
}

/// The segments of `sample`, each made anew.
fn reference(sample: &Sample, size: usize) -> Vec<Vec<u8>> {
    let mut chunks: Vec<_> = sample.payload.chunks(size).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let last = chunks.len() - 1;
    let segment = |(index, chunk): (usize, &&[u8])| {
        let mut segment = Sample { payload: chunk.to_vec(), padding: 0, ..sample.clone() };
        segment.identification = sample.identification.wrapping_add(index as u16);
        if let Kind::Tcp { sequence, flags, .. } = &mut segment.kind {
            *sequence = sequence.wrapping_add((index * size) as u32);
            *flags &= if index == last { 0xff } else { !(0x01 | 0x08) };
            *flags &= if index == 0 { 0xff } else { !0x80 };
        }
        segment.frame()
    };
    chunks.iter().enumerate().map(segment).collect()
}

/// Cuts `packet` up and finishes the segments.
fn cut(packet: &Packet, pool: &std::sync::Arc<FramePool>) -> Vec<Vec<u8>> {
    let mut segments = Segmenter::new(packet.view()).unwrap();
    let mut found = vec![];
    let mut batch = Batch::new(pool);
    while segments.left() > 0 {
        let added = segments.fill(&mut batch);
        assert_eq!(added, batch.len());
        assert!(added > 0);
        for mut packet in batch.iter_mut() {
            let descriptor = packet.view().descriptor();
            assert_eq!((descriptor.segmentation, descriptor.segment_size), (Segmentation::None, 0));
            checksum::finish(&mut packet, TransmitOffloads::empty()).unwrap();
            found.push(bytes(packet.view()));
        }
        batch.clear();
    }
    found
}

proptest! {
    #[test]
    fn cuts_as_the_reference_does(sample in samples(), size in 1..3000u16) {
        prop_assume!(sample.kind != Kind::Sctp);
        prop_assume!(sample.payload.len() / usize::from(size) < 100);
        let pool = FramePool::new(128).unwrap();
        let packet = large(&pool, &sample, size);
        prop_assert_eq!(cut(&packet, &pool), reference(&sample, size.into()));
        drop(packet);
        prop_assert_eq!(pool.counts().held, 0);
    }

    #[test]
    fn no_bytes_are_too_strange(
        sample in samples(),
        segmentation in prop_oneof![
            Just(Segmentation::TcpIpv4),
            Just(Segmentation::TcpIpv6),
            Just(Segmentation::Udp),
        ],
        size in 0..100u16,
        length in any::<prop::sample::Index>(),
        change in any::<(prop::sample::Index, u8)>(),
        inner_l3 in prop_oneof![Just(NO_LAYER), 0..100u16],
    ) {
        let pool = FramePool::new(256).unwrap();
        let mut frame = sample.frame();
        let (place, value) = change;
        let place = place.index(frame.len().min(100));
        frame[place] = value;
        frame.truncate(length.index(frame.len() + 1));
        let mut packet = pool.packet_with(&frame).unwrap();
        let mut view = packet.view_mut();
        let descriptor = view.descriptor_mut();
        (descriptor.segmentation, descriptor.segment_size) = (segmentation, size);
        descriptor.inner_l3 = inner_l3;
        if let Ok(mut segments) = Segmenter::new(packet.view()) {
            let expected = segments.left().min(32);
            let mut batch = Batch::new(&pool);
            prop_assert!(segments.fill(&mut batch) <= expected);
        }
        drop(packet);
        prop_assert_eq!(pool.counts().held, 0);
    }
}

#[test]
fn the_largest_packet_makes_many_batches() {
    let pool = FramePool::new(128).unwrap();
    let payload: Vec<_> = (0..65_000).map(|index| (index % 251) as u8).collect();
    for is_ipv6 in [false, true] {
        for kind in [TCP, Kind::Udp] {
            let sample = Sample::new(is_ipv6, kind, payload.clone());
            let packet = large(&pool, &sample, 1448);
            let found = cut(&packet, &pool);
            assert_eq!(found.len(), 45);
            assert_eq!(found, reference(&sample, 1448));
        }
    }
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn refuses_packets_that_are_not_what_they_say() {
    let pool = FramePool::new(64).unwrap();
    let tcp = Sample::new(false, TCP, vec![1; 3000]);
    for (kind, is_ipv6, segmentation, size) in [
        (Kind::Udp, false, Segmentation::TcpIpv4, 1000),
        (TCP, true, Segmentation::TcpIpv4, 1000),
        (TCP, false, Segmentation::TcpIpv6, 1000),
        (TCP, false, Segmentation::Udp, 1000),
        (TCP, false, Segmentation::TcpIpv4, 0),
        (TCP, false, Segmentation::None, 1000),
    ] {
        let sample = Sample { kind, is_ipv6, ..tcp.clone() };
        let mut packet = large(&pool, &sample, size);
        packet.view_mut().descriptor_mut().segmentation = segmentation;
        assert_eq!(Segmenter::new(packet.view()).err(), Some(InvalidHeader));
    }
    let mut packet = large(&pool, &tcp, 1000);
    for length in [0, 13, 33, 53, 60] {
        packet.view_mut().truncate(length);
        assert_eq!(Segmenter::new(packet.view()).err(), Some(InvalidHeader));
    }
}

#[test]
fn stops_when_the_pool_is_empty() {
    let pool = FramePool::new(8).unwrap();
    let sample = Sample::new(false, TCP, vec![1; 5000]);
    let packet = large(&pool, &sample, 1000);
    let held = pool.counts().held;
    let mut segments = Segmenter::new(packet.view()).unwrap();
    let mut batch = Batch::new(&pool);
    assert_eq!(segments.fill(&mut batch), 8 - held);
    assert_eq!((segments.left(), segments.fill(&mut batch)), (5 - batch.len(), 0));
    batch.clear();
    assert_eq!(segments.fill(&mut batch), held - 3);
    assert_eq!(segments.left(), 0);
}

#[test]
fn cuts_inside_tunnels() {
    let pool = FramePool::new(64).unwrap();
    let tunnel = |inner: &Sample, identification| {
        let mut payload = vec![8, 0, 0, 0, 0, 0, 7, 0];
        payload.extend(inner.frame());
        Sample { identification, ..Sample::new(false, Kind::Udp, payload) }
    };
    for is_ipv6 in [false, true] {
        let inner = Sample::new(is_ipv6, TCP, vec![5; 3500]);
        let outer = tunnel(&inner, 0xffff);
        let start = outer.l4() + 16;
        let mut packet = pool.packet_with(&outer.frame()).unwrap();
        let mut view = packet.view_mut();
        let descriptor = view.descriptor_mut();
        descriptor.segmentation = segmentation(&inner);
        descriptor.segment_size = 1000;
        descriptor.inner_l3 = (start + inner.l3()) as u16;
        let expected: Vec<_> = (0..4u16)
            .map(|index| {
                let chunk = if index == 3 { 500 } else { 1000 };
                let mut segment = Sample { payload: vec![5; chunk], ..inner.clone() };
                segment.identification = inner.identification.wrapping_add(index);
                let flags =
                    0x9b & if index == 3 { 0x7f } else { 0xf6 } & !(0x80 * u8::from(index > 0));
                segment.kind = Kind::Tcp {
                    sequence: 0xffff_ff00_u32.wrapping_add(1000 * u32::from(index)),
                    flags,
                    option_words: 3,
                };
                tunnel(&segment, 0xffff_u16.wrapping_add(index)).frame()
            })
            .collect();
        assert_eq!(cut(&packet, &pool), expected);
    }
}
