use std::sync::Arc;

use super::*;
use crate::packet::{Checksum, FramePool, Layer, Segmentation};
use crate::sample::{Kind, Sample};

const TCP: Kind = Kind::Tcp { sequence: 1, flags: 0x18, option_words: 0 };

/// Keeps what it is sent.
struct Sink {
    offloads: TransmitOffloads,
    frames: Vec<Vec<u8>>,
    batches: Vec<usize>,
}

impl TxQueue for Sink {
    fn send(&mut self, batch: &mut Batch) -> SendReport {
        let report = SendReport { sent: batch.len() as u64, ..SendReport::default() };
        self.batches.push(batch.len());
        for packet in batch.iter() {
            self.frames.push(packet.segments().collect::<Vec<_>>().concat());
        }
        batch.clear();
        report
    }

    fn offloads(&self) -> TransmitOffloads {
        self.offloads
    }
}

fn sink(offloads: TransmitOffloads) -> Sink {
    Sink { offloads, frames: vec![], batches: vec![] }
}

fn push(batch: &mut Batch, pool: &Arc<FramePool>, bytes: &[u8]) -> usize {
    batch.push(pool.packet_with(bytes).unwrap()).unwrap();
    batch.len() - 1
}

fn push_large(batch: &mut Batch, pool: &Arc<FramePool>, sample: &Sample, size: u16) {
    let index = push(batch, pool, &sample.frame());
    let mut packet = batch.get_mut(index).unwrap();
    let descriptor = packet.descriptor_mut();
    descriptor.segmentation = Segmentation::TcpIpv4;
    descriptor.segment_size = size;
    descriptor.set_checksum(Layer::Transport, Checksum::Partial);
}

fn segments(sample: &Sample, size: usize) -> Vec<Vec<u8>> {
    let count = sample.payload.len().div_ceil(size);
    let segment = |(index, chunk): (usize, &[u8])| {
        let mut segment = Sample { payload: chunk.to_vec(), ..sample.clone() };
        segment.identification = sample.identification.wrapping_add(index as u16);
        let flags = if index + 1 == count { 0x18 } else { 0x10 };
        segment.kind = Kind::Tcp { sequence: 1 + (index * size) as u32, flags, option_words: 0 };
        segment.frame()
    };
    sample.payload.chunks(size).enumerate().map(segment).collect()
}

#[test]
fn packets_keep_their_order_whatever_is_done_to_them() {
    let pool = FramePool::new(256).unwrap();
    let mut batch = Batch::new(&pool);
    let large = Sample::new(false, TCP, vec![1; 40_000]);
    let plain = |byte| Sample::new(true, Kind::Udp, vec![byte; 30]).frame();
    push(&mut batch, &pool, &plain(1));
    push_large(&mut batch, &pool, &large, 1000);
    push(&mut batch, &pool, &plain(2));
    let mut unfinished = plain(3);
    unfinished[14 + 40 + 6..][..2].fill(0);
    let index = push(&mut batch, &pool, &unfinished);
    let mut packet = batch.get_mut(index).unwrap();
    packet.descriptor_mut().set_checksum(Layer::Transport, Checksum::Partial);
    let index = push(&mut batch, &pool, &plain(4));
    let mut packet = batch.get_mut(index).unwrap();
    packet.descriptor_mut().set_vlan(Some(VlanTag { tpid: 0x88a8, tci: 0x6123 }));

    let mut queue = sink(TransmitOffloads::empty());
    let report = send(&mut queue, &mut batch);
    assert_eq!(report, SendReport { sent: 44, ..SendReport::default() });
    let mut expected = vec![plain(1)];
    expected.extend(segments(&large, 1000));
    expected.extend([plain(2), plain(3)]);
    let tagged =
        Sample { tags: vec![(0x88a8, 0x6123)], ..Sample::new(true, Kind::Udp, vec![4; 30]) };
    expected.push(tagged.frame());
    assert_eq!(queue.frames, expected);
    assert_eq!(queue.batches, [32, 12]);
    assert_eq!((batch.len(), pool.counts().held), (0, 0));
}

#[test]
fn devices_get_what_they_can_do() {
    let pool = FramePool::new(64).unwrap();
    let mut batch = Batch::new(&pool);
    let large = Sample::new(false, TCP, vec![1; 4000]);
    push_large(&mut batch, &pool, &large, 1000);
    let index = push(&mut batch, &pool, &large.frame()[..60]);
    let mut packet = batch.get_mut(index).unwrap();
    packet.descriptor_mut().set_checksum(Layer::Transport, Checksum::Good);
    let mut queue = sink(TransmitOffloads::TCP_CHECKSUM | TransmitOffloads::TCP_SEGMENTATION);
    let report = send(&mut queue, &mut batch);
    assert_eq!(report, SendReport { sent: 2, ..SendReport::default() });
    assert_eq!(queue.frames, [large.frame(), large.frame()[..60].to_vec()]);

    // Segments of a device that only sums have partial checksums again.
    push_large(&mut batch, &pool, &large, 4000);
    let mut queue = sink(TransmitOffloads::TCP_CHECKSUM);
    let report = send(&mut queue, &mut batch);
    assert_eq!(report, SendReport { sent: 1, ..SendReport::default() });
    assert_eq!(queue.frames, [large.frame()]);
}

#[test]
fn drops_what_is_malformed_or_finds_no_frames() {
    let pool = FramePool::new(64).unwrap();
    let mut batch = Batch::new(&pool);
    let large = Sample::new(false, TCP, vec![1; 4000]);
    let invalid = |sent, invalid| SendReport { sent, invalid, ..SendReport::default() };
    // Partial without a transport header.
    let index = push(&mut batch, &pool, &[0; 60]);
    let mut packet = batch.get_mut(index).unwrap();
    packet.descriptor_mut().set_checksum(Layer::Transport, Checksum::Partial);
    // A tag beside a frame that is too short to take it.
    let index = push(&mut batch, &pool, &[1; 11]);
    let mut packet = batch.get_mut(index).unwrap();
    packet.descriptor_mut().set_vlan(Some(VlanTag { tpid: 0x8100, tci: 1 }));
    push(&mut batch, &pool, &[2; 60]);
    let mut queue = sink(TransmitOffloads::empty());
    assert_eq!(send(&mut queue, &mut batch), invalid(1, 2));
    assert_eq!(queue.frames, [vec![2; 60]]);
    // Large, but cut short.
    push_large(&mut batch, &pool, &large, 1000);
    batch.get_mut(0).unwrap().truncate(50);
    push(&mut batch, &pool, &[3; 60]);
    assert_eq!(send(&mut queue, &mut batch), invalid(1, 1));

    push_large(&mut batch, &pool, &large, 1000);
    let mut others = vec![];
    while let Some(packet) = pool.packet() {
        others.push(packet);
    }
    let report = send(&mut queue, &mut batch);
    assert_eq!(report, SendReport { no_room: 4, ..SendReport::default() });
    // One frame is enough: segments are sent one by one.
    others.pop();
    queue.frames.clear();
    push_large_with(&mut others, &mut batch, &large);
    let report = send(&mut queue, &mut batch);
    assert_eq!(report, SendReport { sent: 4, ..SendReport::default() });
    assert_eq!(queue.frames, segments(&large, 1000));
    drop(others);
    assert_eq!(pool.counts().held, 0);
}

/// Pushes a large packet in frames that `others` had.
fn push_large_with(others: &mut Vec<Packet>, batch: &mut Batch, sample: &Sample) {
    others.truncate(others.len() - 3);
    let pool = Arc::clone(batch.pool());
    push_large(batch, &pool, sample, 1000);
    while let Some(packet) = pool.packet() {
        others.push(packet);
    }
    others.pop();
}
