//! A datapath over devices that do everything wrong that devices do.

use std::collections::BTreeMap;

use netdev::packet::Batch;
use netdev::sim::Faults;

use super::Network;
use crate::testing::udp;

/// Packets that the simulation sends; more where asked for.
fn simulated_packets() -> u64 {
    let asked = std::env::var("SLUICE_SIMULATED_PACKETS");
    asked.ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

/// A generator of numbers that depend on the seed alone.
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A frame to a UDP port that tells its number.
fn numbered(port: u16, number: u64) -> Vec<u8> {
    udp(0x0a00_0001, 0x0a00_0002, [99, port], &[&number.to_be_bytes()[..], &[1; 22]].concat())
}

/// What has become of a frame when it left.
fn expected(port: u16, number: u64) -> Vec<u8> {
    let mut frame = numbered(port, number);
    if port >= 1000 {
        frame.splice(12..12, [0x81, 0, 0, 5]);
    }
    frame
}

/// Invariants 1, 6, 9 and 10, over devices that do everything wrong that devices do: each packet
/// leaves once, by the port and with the bytes that software alone would give it, and in order
/// within its flow; whatever happens to flows, ports and settings meanwhile.
#[test]
fn every_packet_goes_where_software_would_send_it() {
    let device: &[(&str, &str)] = &[
        ("hw-reorder", "7"),
        ("hw-insert-latency-us", "40"),
        ("hw-remove-latency-us", "20"),
        ("hw-jitter", "300"),
        ("hw-capacity", "24"),
        ("hw-modify", "make-before-break"),
    ];
    for (seed, extra) in [
        (1, ("hw-full", "false")),
        (2, ("hw-counter-lag-ms", "20")),
        (3, ("hw-modify", "break-before-make")),
    ] {
        let pairs: Vec<_> = device.iter().copied().chain([extra]).collect();
        let mut network = Network::new(&pairs);
        for (_, port) in &network.ports {
            port.nic().set_faults(Faults {
                insert_error: 50,
                update_error: 100,
                remove_error: 50,
                late: 50,
                lost: 2,
                duplicate: 100,
                stuck: 0,
            });
        }
        let (mut choices, is_full) = (Choices(seed), extra.0 != "hw-full");
        let ports: Vec<u16> = (1..30).chain(1000..1010).collect();
        let (mut sent, total) = (0, simulated_packets() / 3);
        while sent < total {
            let mut wanted: BTreeMap<usize, BTreeMap<u16, Vec<Vec<u8>>>> = BTreeMap::new();
            let into = 1 + choices.below(2) as usize;
            for _ in 0..1 + choices.below(4) {
                let mut batch = Batch::new(&network.pool);
                for _ in 0..1 + choices.below(31) {
                    let port = ports[choices.below(ports.len() as u64) as usize];
                    let frame = numbered(port, sent);
                    batch.push(network.pool.packet_with(&frame).unwrap()).unwrap();
                    let out = wanted.entry(usize::from(port) % 3 + 1).or_default();
                    out.entry(port).or_default().push(expected(port, sent));
                    sent += 1;
                }
                let _ = network.senders[into - 1].send(&mut batch);
            }
            match choices.below(40) {
                0 => network.datapath.flush_flows(),
                1 => {
                    network.set_offload(false);
                    network.set_offload(true);
                }
                2 => network.datapath.rebalance(),
                3 => network.ports[into - 1].1.nic().lose_rules(),
                _ => {}
            }
            for out in 1..=3 {
                let mut left = wanted.remove(&out).unwrap_or_default();
                let count: usize = left.values().map(Vec::len).sum();
                let mut got = vec![];
                network.wait_for("the arrival of all packets", |network| {
                    loop {
                        let taken = network.take(out);
                        if taken.is_empty() {
                            break;
                        }
                        got.extend(taken);
                    }
                    (got.len() >= count).then_some(())
                });
                for frame in got {
                    let at = if frame[12] == 0x81 { 40 } else { 36 };
                    let port = u16::from_be_bytes([frame[at], frame[at + 1]]);
                    let of_flow = left.get_mut(&port).expect("a packet that left by another port");
                    assert!(!of_flow.is_empty(), "a packet left twice");
                    let place = of_flow.iter().position(|wanted| *wanted == frame);
                    let place = place.expect("a packet with other bytes");
                    // Packets that software has begun with may be overtaken by the device.
                    assert!(place == 0 || is_full, "a packet overtook another of its flow");
                    of_flow.remove(place);
                }
                assert!(left.values().all(Vec::is_empty));
            }
        }
        for (_, port) in &network.ports {
            port.nic().set_faults(Faults::default());
        }
        network.datapath.flush_flows();
        network.wait_for_rules(0);
        let bugs: u64 = network.ports.iter().map(|(_, p)| p.nic().totals().caller_bugs).sum();
        assert_eq!(bugs, 0);
        assert_eq!(network.pool.counts().held, 0);
    }
}
