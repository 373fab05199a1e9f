use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A step on one batch, the packets taken out of it, and a second batch to move packets to.
#[derive(Debug, Clone)]
enum Step {
    Fill(usize),
    Receive(u8, Vec<u8>),
    Append(u8, Vec<u8>),
    PushFront(u8, usize),
    PullFront(u8, usize),
    Truncate(u8, usize),
    Write(u8, usize, Vec<u8>),
    Remove(u8),
    PutBack,
    Copy,
    DropSingle,
    Move,
    Clear,
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..40), (any::<u8>(), 0..9000usize).prop_map(|(b, n)| vec![b; n])]
}

fn step() -> impl Strategy<Value = Step> {
    let index = || 0..40u8;
    let length = || prop_oneof![0..200usize, 0..9000usize];
    prop_oneof![
        (0..40usize).prop_map(Step::Fill),
        (index(), bytes()).prop_map(|(i, b)| Step::Receive(i, b)),
        (index(), bytes()).prop_map(|(i, b)| Step::Append(i, b)),
        (index(), length()).prop_map(|(i, n)| Step::PushFront(i, n)),
        (index(), length()).prop_map(|(i, n)| Step::PullFront(i, n)),
        (index(), length()).prop_map(|(i, n)| Step::Truncate(i, n)),
        (index(), length(), bytes()).prop_map(|(i, n, b)| Step::Write(i, n, b)),
        index().prop_map(Step::Remove),
        Just(Step::PutBack),
        Just(Step::Copy),
        Just(Step::DropSingle),
        Just(Step::Move),
        Just(Step::Clear),
    ]
}

fn contents(packet: PacketRef<'_>) -> Vec<u8> {
    let mut bytes = vec![0; packet.len()];
    assert_eq!(packet.copy_out(0, &mut bytes), bytes.len());
    bytes
}

fn frames(packet: PacketRef<'_>) -> usize {
    packet.segments().count()
}

proptest! {
    #[test]
    fn packets_keep_their_bytes_and_no_frame_is_lost(
        total in 1..200u32,
        steps in vec(step(), 0..60),
    ) {
        let pool = FramePool::new(total).unwrap();
        let mut batch = Batch::new(&pool);
        let mut other = Batch::new(&pool);
        let mut singles: VecDeque<Packet> = VecDeque::new();
        let mut model: Vec<Vec<u8>> = vec![];
        let mut model_other: Vec<Vec<u8>> = vec![];
        let mut model_singles: VecDeque<Vec<u8>> = VecDeque::new();
        for step in steps {
            let free = pool.counts().shared + pool.counts().cached;
            match step {
                Step::Fill(count) => {
                    let added = batch.fill(count);
                    prop_assert_eq!(added, count.min(BATCH_SIZE - model.len()).min(free));
                    model.resize(model.len() + added, vec![]);
                }
                Step::Receive(index, data) => {
                    if let Some(mut packet) = batch.get_mut(index.into()) {
                        packet.truncate(0);
                        let room = packet.receive_buffer();
                        let length = data.len().min(room.len());
                        room[..length].copy_from_slice(&data[..length]);
                        packet.set_received(data.len());
                        model[usize::from(index)] = data[..length].to_vec();
                    }
                }
                Step::Append(index, data) => {
                    if let Some(mut packet) = batch.get_mut(index.into()) {
                        if packet.append(&data) {
                            model[usize::from(index)].extend(&data);
                        } else {
                            prop_assert!(free * FRAME_SIZE < data.len());
                        }
                    }
                }
                Step::PushFront(index, count) => {
                    if let Some(mut packet) = batch.get_mut(index.into()) {
                        if let Some(room) = packet.push_front(count) {
                            prop_assert_eq!(room.len(), count);
                            room.fill(0x55);
                            model[usize::from(index)].splice(0..0, vec![0x55; count]);
                        } else {
                            prop_assert!(count > 0);
                        }
                    }
                }
                Step::PullFront(index, count) => {
                    if let Some(mut packet) = batch.get_mut(index.into()) {
                        let model = &mut model[usize::from(index)];
                        let fits = count <= model.len();
                        prop_assert_eq!(packet.pull_front(count), fits);
                        if fits {
                            model.drain(..count);
                        }
                    }
                }
                Step::Truncate(index, length) => {
                    if let Some(mut packet) = batch.get_mut(index.into()) {
                        packet.truncate(length);
                        model[usize::from(index)].truncate(length);
                    }
                }
                Step::Write(index, offset, data) => {
                    if let Some(mut packet) = batch.get_mut(index.into()) {
                        let model = &mut model[usize::from(index)];
                        let fits = offset + data.len() <= model.len();
                        prop_assert_eq!(packet.write(offset, &data), fits);
                        if fits {
                            model[offset..offset + data.len()].copy_from_slice(&data);
                        }
                    }
                }
                Step::Remove(index) => {
                    let packet = batch.remove(index.into());
                    prop_assert_eq!(packet.is_some(), usize::from(index) < model.len());
                    if let Some(packet) = packet {
                        singles.push_back(packet);
                        model_singles.push_back(model.remove(index.into()));
                    }
                }
                Step::PutBack => {
                    if let (Some(packet), Some(bytes)) =
                        (singles.pop_front(), model_singles.pop_front())
                    {
                        match batch.push(packet) {
                            Ok(()) => model.push(bytes),
                            Err(packet) => {
                                prop_assert_eq!(model.len(), BATCH_SIZE);
                                singles.push_front(packet);
                                model_singles.push_front(bytes);
                            }
                        }
                    }
                }
                Step::Copy => {
                    if let Some(copy) = singles.front().and_then(Packet::copy) {
                        singles.push_back(copy);
                        model_singles.extend(model_singles.front().cloned());
                    }
                }
                Step::DropSingle => {
                    singles.pop_back();
                    model_singles.pop_back();
                }
                Step::Move => {
                    let moved = batch.move_to(&mut other);
                    prop_assert_eq!(moved, model.len().min(BATCH_SIZE - model_other.len()));
                    model_other.extend(model.drain(..moved));
                }
                Step::Clear => {
                    batch.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(batch.iter().map(contents).collect::<Vec<_>>(), model.clone());
            prop_assert_eq!(batch.len(), model.len());
            prop_assert_eq!(other.iter().map(contents).collect::<Vec<_>>(), model_other.clone());
            let bytes: Vec<_> = singles.iter().map(|packet| contents(packet.view())).collect();
            prop_assert_eq!(bytes, Vec::from(model_singles.clone()));

            let held = batch.iter().map(frames).sum::<usize>()
                + other.iter().map(frames).sum::<usize>()
                + singles.iter().map(|packet| frames(packet.view())).sum::<usize>();
            let counts = pool.counts();
            let total = total as usize;
            prop_assert_eq!((counts.total, counts.held), (total, held));
            prop_assert_eq!(counts.shared + counts.cached + held, total);
        }
        drop((batch, other, singles));
        prop_assert_eq!(pool.counts().held, 0);
    }

    #[test]
    fn header_reads_what_the_bytes_say(
        data in vec(any::<u8>(), 0..6000),
        pull in 0..3000usize,
        offset in 0..6000usize,
        length in 0..100usize,
    ) {
        let pool = FramePool::new(8).unwrap();
        let mut packet = pool.packet_with(&data).unwrap();
        let pulled = packet.view_mut().pull_front(pull);
        let data = if pulled { &data[pull..] } else { &data[..] };
        let mut scratch = [0; 80];
        let wanted = data.get(offset..offset + length);
        match packet.view().header(offset, length, &mut scratch) {
            Some(bytes) => prop_assert_eq!(Some(bytes), wanted),
            None => prop_assert!(wanted.is_none() || length > 80),
        }
    }
}

#[test]
fn a_pool_needs_frames() {
    assert_eq!(FramePool::new(0).unwrap_err(), PoolError::Empty);
    assert_eq!(PoolError::Empty.to_string(), "a frame pool needs at least 1 frame");
}

#[test]
fn a_pool_gives_all_its_frames_to_one_thread_and_takes_them_from_another() {
    let pool = FramePool::new(1000).unwrap();
    let packets: Vec<_> = std::iter::from_fn(|| pool.packet()).collect();
    assert_eq!(packets.len(), 1000);
    let all_held = FrameCounts { total: 1000, shared: 0, cached: 0, held: 1000 };
    assert_eq!(pool.counts(), all_held);

    thread::spawn(move || drop(packets)).join().unwrap();
    // The stack of a thread that ended goes back to the shared one.
    let all_free = FrameCounts { total: 1000, shared: 1000, cached: 0, held: 0 };
    assert_eq!(pool.counts(), all_free);
    assert_eq!(std::iter::from_fn(|| pool.packet()).collect::<Vec<_>>().len(), 1000);
}

#[test]
fn threads_trade_frames_without_losing_any() {
    let pool = FramePool::new(256).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|seed| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                let mut batch = Batch::new(&pool);
                for round in 0..500usize {
                    batch.fill((round * 7 + seed) % (BATCH_SIZE + 1));
                    for mut packet in batch.iter_mut() {
                        packet.append(&[seed as u8; 100]);
                    }
                    for packet in batch.iter() {
                        assert!(packet.data().iter().all(|byte| *byte == seed as u8));
                    }
                    if round % 3 == 0 {
                        batch.clear();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let counts = pool.counts();
    assert_eq!((counts.total, counts.held), (256, 0));
}

#[test]
fn the_frame_returned_last_is_used_first() {
    let pool = FramePool::new(512).unwrap();
    let mut batch = Batch::new(&pool);
    batch.fill(3);
    let address =
        |batch: &mut Batch, index| batch.get_mut(index).unwrap().receive_buffer().as_ptr() as usize;
    let last = address(&mut batch, 2);
    drop(batch.remove(2));
    batch.fill(1);
    assert_eq!(address(&mut batch, 2), last);
}

#[test]
fn a_batch_refuses_packets_of_another_pool() {
    let pool = FramePool::new(4).unwrap();
    let other = FramePool::new(4).unwrap();
    let mut batch = Batch::new(&pool);
    assert!(batch.push(other.packet().unwrap()).is_err());
    batch.fill(1);
    assert_eq!(batch.move_to(&mut Batch::new(&other)), 0);
    assert_eq!((batch.len(), pool.counts().held, other.counts().held), (1, 1, 0));
}

#[test]
fn offsets_of_layers_follow_the_data() {
    let pool = FramePool::new(1).unwrap();
    let mut packet = pool.packet_with(&[0; 100]).unwrap();
    let mut view = packet.view_mut();
    let descriptor = view.descriptor_mut();
    (descriptor.l3, descriptor.l4, descriptor.inner_l3) = (14, 34, 64);
    descriptor.checksum_start = 34;
    assert!(view.push_front(50).is_some());
    let layers = |descriptor: &Descriptor| {
        let Descriptor { l3, l4, inner_l3, inner_l4, checksum_start, .. } = descriptor;
        [*l3, *l4, *inner_l3, *inner_l4, *checksum_start]
    };
    assert_eq!(layers(view.descriptor_mut()), [64, 84, 114, NO_LAYER, 84]);
    assert!(view.pull_front(70));
    assert_eq!(layers(view.descriptor_mut()), [NO_LAYER, 14, 44, NO_LAYER, 14]);
    assert_eq!(view.view().len(), 80);
}

#[test]
fn a_copy_knows_what_the_packet_knows() {
    let pool = FramePool::new(8).unwrap();
    let mut packet = pool.packet_with(&[7; 3000]).unwrap();
    let mut view = packet.view_mut();
    let descriptor = view.descriptor_mut();
    descriptor.in_port = 3;
    descriptor.mark = 9;
    descriptor.set_rss_hash(Some(0));
    descriptor.set_vlan(Some(VlanTag { tpid: 0x88a8, tci: 0x2005 }));
    descriptor.set_checksum(Layer::Ip, Checksum::Good);
    descriptor.set_checksum(Layer::Transport, Checksum::Partial);
    descriptor.set_checksum(Layer::InnerIp, Checksum::Bad);
    descriptor.segmentation = Segmentation::TcpIpv4;
    descriptor.segment_size = 1448;
    descriptor.recirc_id = 5;

    let copy = packet.copy().unwrap();
    assert_eq!(contents(copy.view()), vec![7; 3000]);
    let known = copy.view().descriptor();
    assert_eq!((known.in_port, known.mark, known.recirc_id), (3, 9, 5));
    assert_eq!(known.rss_hash(), Some(0));
    assert_eq!(known.vlan(), Some(VlanTag { tpid: 0x88a8, tci: 0x2005 }));
    assert_eq!(
        [Layer::Ip, Layer::Transport, Layer::InnerIp, Layer::InnerTransport]
            .map(|layer| known.checksum(layer)),
        [Checksum::Good, Checksum::Partial, Checksum::Bad, Checksum::Unknown],
    );
    assert_eq!((known.segmentation, known.segment_size), (Segmentation::TcpIpv4, 1448));
    assert_eq!(pool.counts().held, 4);
}

#[test]
fn draining_takes_packets_in_order_and_returns_the_rest() {
    let (pool, other_pool) = (FramePool::new(16).unwrap(), FramePool::new(16).unwrap());
    let mut batch = Batch::new(&pool);
    for number in 0..5 {
        batch.push(pool.packet_with(&[number]).unwrap()).unwrap();
    }
    let (mut same, mut other) = (Batch::new(&pool), Batch::new(&other_pool));
    let mut drain = batch.drain();
    assert!(drain.move_next_to(&mut same));
    drain.skip();
    assert!(!drain.move_next_to(&mut other));
    let single = drain.next_packet().unwrap();
    assert!(drain.move_next_to(&mut same));
    drop(drain);
    assert!(batch.is_empty() && other.is_empty());
    assert_eq!(contents(single.view()), [2]);
    assert_eq!(same.iter().map(contents).collect::<Vec<_>>(), [[0], [3]]);
    assert_eq!(pool.counts().held, 3);

    let mut drain = same.drain();
    assert!(drain.next_packet().is_some() && drain.next_packet().is_some());
    assert!(drain.next_packet().is_none() && !drain.move_next_to(&mut other));
    drop((drain, single));
    assert_eq!(pool.counts().held, 0);
}

#[test]
fn a_descriptor_knows_what_is_left_to_do() {
    use super::{Checksum, Layer, Segmentation, VlanTag};
    let mut descriptor = Descriptor::default();
    assert!(descriptor.is_finished());
    for layer in [Layer::Ip, Layer::Transport, Layer::InnerIp, Layer::InnerTransport] {
        for state in [Checksum::Good, Checksum::Bad, Checksum::Partial, Checksum::Unknown] {
            descriptor.set_checksum(layer, state);
            assert_eq!(descriptor.is_finished(), state != Checksum::Partial);
        }
    }
    for segmentation in [Segmentation::TcpIpv4, Segmentation::TcpIpv6, Segmentation::Udp] {
        descriptor.segmentation = segmentation;
        assert!(!descriptor.is_finished());
    }
    descriptor.segmentation = Segmentation::None;
    descriptor.set_vlan(Some(VlanTag { tpid: 0x8100, tci: 0 }));
    assert!(!descriptor.is_finished());
    descriptor.set_vlan(None);
    assert!(descriptor.is_finished());
}
