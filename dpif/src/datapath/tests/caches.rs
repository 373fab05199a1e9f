//! Which packets the caches take, and how they are counted.

use super::*;

/// Two subtables, so that the caches are used, and neither of them simple.
fn cached(knobs: Knobs) -> Snapshot {
    let mut setup = Setup::new(false, 1, by_address);
    setup.datapath.set_knobs(knobs);
    for (frame, length) in [(0, 1), (7, 1), (7, 10)] {
        for _ in 0..length {
            setup.ports[0].arrive(0, numbered(frame + 1).pop().unwrap());
            setup.settle();
        }
    }
    let counters = setup.counters(WorkerId::Main);
    assert_eq!((counters.received, counters.passes(), counters.sent), (12, 12, 12));
    setup.assert_no_frame_is_held();
    Snapshot { received: 0, sent: 0, sent_batches: 0, ..counters }
}

#[test]
fn hits_are_counted_by_the_cache_that_operators_know() {
    let expected = Snapshot { upcalls: 1, exact_hits: 11, ..Snapshot::default() };
    assert_eq!(cached(Knobs { exact_one_in: 1, ..Knobs::default() }), expected);
    let signature = Knobs { exact_one_in: 0, signature_cache: true, ..Knobs::default() };
    let expected = Snapshot { upcalls: 1, signature_hits: 11, ..Snapshot::default() };
    assert_eq!(cached(signature), expected);
    let none = Knobs { exact_one_in: 0, ..Knobs::default() };
    let expected =
        Snapshot { upcalls: 1, megaflow_hits: 11, subtables_visited: 11, ..Snapshot::default() };
    assert_eq!(cached(none), expected);
}

#[test]
fn the_exact_cache_can_be_off_for_a_port() {
    let mut setup = Setup::new(false, 1, by_address);
    setup.datapath.set_knobs(Knobs { exact_one_in: 1, ..Knobs::default() });
    let settings = PortSettings { exact_cache: false, ..PortSettings::default() };
    setup.datapath.set_port_settings(PortNumber(1), settings);
    setup.reconfigure();
    for _ in 0..3 {
        setup.ports[0].arrive(0, numbered(1).pop().unwrap());
        setup.settle();
    }
    let counters = setup.counters(WorkerId::Main);
    assert_eq!((counters.upcalls, counters.megaflow_hits, counters.exact_hits), (1, 2, 0));
}

/// Two flows whose packets hash alike, as devices may say: an entry is no more than a guess.
#[test]
fn flows_of_equal_hash_are_told_apart() {
    let mut setup = Setup::new(false, 1, by_address);
    setup.datapath.set_knobs(Knobs { exact_one_in: 1, ..Knobs::default() });
    setup.ports[0].knowledge.lock().unwrap().rss_hash = Some(0x1234_5678);
    let frames = [2, 3].map(|destination| udp(1, destination, [5, 6], b"data"));
    for frame in [&frames[0], &frames[0], &frames[1], &frames[1], &frames[0]] {
        setup.ports[0].arrive(0, frame.clone());
        setup.settle();
    }
    assert_eq!(setup.ports[1].take_sent(), [&frames[0]; 3].map(Vec::clone));
    assert_eq!(setup.ports[2].take_sent(), [&frames[1]; 2].map(Vec::clone));
    let expected = Snapshot {
        received: 5,
        upcalls: 2,
        exact_hits: 2,
        // The last finds the entry of the other flow in its place.
        megaflow_hits: 1,
        subtables_visited: 1,
        sent: 5,
        sent_batches: 5,
        ..Snapshot::default()
    };
    assert_eq!(setup.counters(WorkerId::Main), expected);
}

/// With `emc-insert-inv-prob=100` one packet in a hundred enters, wherever it is in its batch.
#[test]
fn some_packet_of_a_long_flow_enters_the_exact_match_cache() {
    for (exact_one_in, hits) in [(0, 0..=0), (1, 3199..=3199), (100, 1..=3199)] {
        // Caches are used where a second subtable makes them worth it.
        let answer = |key: &FlowKey| match key.tp_dst.get() {
            9 => Some((mask(&[Field::InPort, Field::TpDst]), vec![Action::Output(3)])),
            _ => by_address(key),
        };
        let mut setup = Setup::new(false, 1, answer);
        setup.datapath.set_knobs(Knobs { exact_one_in, ..Knobs::default() });
        setup.ports[0].arrive(0, udp(1, 2, [5, 9], b"other"));
        setup.settle();
        let frame = udp(1, 2, [5, 6], b"data");
        setup.ports[0].arrive(0, frame.clone());
        setup.settle();
        let before = setup.counters(WorkerId::Main);
        for _ in 0..100 {
            setup.ports[0].arrive_together(0, [(); 32].map(|()| frame.clone()));
            setup.settle();
        }
        let after = setup.counters(WorkerId::Main);
        let exact = after.exact_hits - before.exact_hits;
        let expected = if exact_one_in == 1 { 3200..=3200 } else { hits };
        assert!(expected.contains(&exact), "{exact} with 1 in {exact_one_in}");
        assert_eq!(exact + after.megaflow_hits - before.megaflow_hits, 3200);
    }
}

#[test]
fn a_thousand_packets_are_counted_once_each() {
    let mut setup = Setup::new(false, 1, by_address);
    let knobs = Knobs { exact_one_in: 3, signature_cache: true, ..Knobs::default() };
    setup.datapath.set_knobs(knobs);
    for number in 0..1000u32 {
        setup.ports[0].arrive(0, udp(1, number % 10, [5, 6], &number.to_be_bytes()));
        if number % 17 == 0 {
            setup.settle();
        }
    }
    setup.settle();
    let counters = setup.counters(WorkerId::Main);
    let hits = counters.exact_hits + counters.signature_hits + counters.megaflow_hits;
    assert_eq!((counters.received, counters.upcalls, hits), (1000, 10, 990));
    assert!(counters.exact_hits > 0 && counters.signature_hits > 0, "{counters:?}");
}
