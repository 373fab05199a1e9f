//! No frame is lost, however many packets pass and whatever becomes of them.

use serde_json::Value;
use tests::{Daemon, Directory, wait_until};

/// Packets that pass in all.
const PACKETS: u64 = 1_000_000;

/// A frame of `length` bytes from station `source` to station `destination`.
fn frame(destination: u8, source: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, destination, 2, 0, 0, 0, 0, source, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend(u16::try_from(length.saturating_sub(14)).unwrap_or(u16::MAX).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, destination]);
    frame.resize(length, source);
    frame
}

/// A capture file of frames (magic number, version 2.4, Ethernet).
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x0004_0000, 1_u32];
    let mut file: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    for frame in frames {
        let length = frame.len() as u32;
        file.extend([0, 0, length, length].into_iter().flat_map(u32::to_le_bytes));
        file.extend(frame);
    }
    file
}

fn json(directory: &Directory, command: &[&str]) -> Value {
    let text = directory.sluice_appctl(&[&["--format", "json"][..], command].concat()).ok();
    serde_json::from_str(&text).expect("JSON")
}

/// Frames in use, of which free and used ones must make up all there are.
fn in_use(directory: &Directory) -> u64 {
    let frames = json(directory, &["dpif-netdev/frames-show"]);
    let count = |name: &str| frames["0"][name].as_u64().expect("a count");
    let free = count("free") + count("free-with-threads");
    assert_eq!(free + count("in-use"), count("total"), "{frames}");
    count("in-use")
}

fn received(directory: &Directory) -> u64 {
    let threads = json(directory, &["dpif-netdev/pmd-stats-show"]);
    let threads = threads.as_array().expect("threads").iter();
    threads.map(|thread| thread["packets-received"].as_u64().expect("a counter")).sum()
}

#[test]
fn a_million_packets_leave_no_frame_behind() {
    let directory = Directory::new();
    let mut daemon = Daemon::start(&directory, &[]);
    directory.vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy"]).ok();
    let add = |bridge: &str, name: &str, settings: &[&str]| {
        let port = ["--", "add-port", bridge, name, "--", "set", "interface", name];
        directory.vsctl(&[&port[1..], settings].concat()).ok();
    };
    directory.vsctl(&["add-br", "br1", "--", "set", "bridge", "br1", "datapath_type=dummy"]).ok();
    for (bridge, name, peer) in [("br0", "x0", "x1"), ("br1", "x1", "x0")] {
        add(bridge, name, &["type=patch", &format!("options:peer={peer}")]);
    }
    // Sent to by floods: one takes all, one is too small for some, one is in a VLAN, and one lies
    // beyond a patch.
    add("br0", "n1", &["type=null"]);
    add("br0", "p2", &["type=dummy"]);
    add("br0", "p3", &["type=dummy-pmd"]);
    directory.vsctl(&["set", "port", "p3", "tag=7"]).ok();
    add("br1", "n4", &["type=null"]);
    let idle = in_use(&directory);

    // Known and unknown destinations, a packet to where it came from, a multicast address, frames
    // too long for others, of several buffers, and too short to be one.
    let mut frames = vec![];
    for number in 0..40u8 {
        frames.push(frame(0xf0 + number % 3, 1, 60 + usize::from(number)));
        frames.push(frame(1, 1, 100));
        frames.push([&[1, 0, 0x5e, 0, 0, 9][..], &frame(0, 2, 200)[6..]].concat());
        if number % 8 == 0 {
            frames.push(frame(9, 3, 2000));
            frames.push(frame(9, 4, 9000));
        }
        frames.push(frame(9, 4, 13 - usize::from(number % 14)));
    }
    directory.write("in.pcap", capture(&frames));
    let file = format!("options:rx_pcap={}", directory.path("in.pcap").display());
    add("br0", "in", &["type=pcap", &file, "options:infinite_rx=true"]);
    // Slow machines take their time, but get on.
    for tenth in 1..=10 {
        wait_until("the next packets have passed", || received(&directory) >= PACKETS / 10 * tenth);
    }
    directory.vsctl(&["del-port", "in"]).ok();
    assert_eq!(in_use(&directory), idle);

    // Each packet is accounted for: it had a flow, or was too short for one.
    let threads = json(&directory, &["dpif-netdev/pmd-stats-show"]);
    let sum = |name: &str| {
        let threads = threads.as_array().expect("threads").iter();
        threads.map(|thread| thread[name].as_u64().expect("a counter")).sum::<u64>()
    };
    let classes = ["simple-match-hits", "emc-hits", "smc-hits", "megaflow-hits", "upcalls"];
    let passes: u64 = classes.iter().map(|class| sum(class)).sum();
    let counter = |name: &str| {
        let text = daemon.appctl(&["coverage/read-counter", name]).ok();
        text.trim_end().parse::<u64>().expect("a number")
    };
    assert_eq!(passes + counter("datapath_drop_rx_invalid_packet"), sum("packets-received"));
    assert!(counter("datapath_drop_mtu_exceeded") > 0);
    daemon.allow("p2: dropped a packet of");
    daemon.stop();
}
