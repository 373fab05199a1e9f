//! No frame is lost, however many packets pass and whatever becomes of them.

use serde_json::Value;
use tests::namespace::is_root;
use tests::network::Network;
use tests::{Daemon, Directory, Output, wait_until};

/// Packets that pass in all.
const PACKETS: u64 = 1_000_000;

/// Sends 100 frames by the device `sys.argv[1]`, and prints how many the kernel took. They are
/// noise with or without the start of a real header, and most are short.
const SENDER: &str = r#"
import random, socket, sys
random.seed(sys.argv[1] + sys.argv[2])
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
out.bind((sys.argv[1], 0))
types = [0x0800, 0x86dd, 0x0806, 0x8100, 0x88a8, 0x8847, 0x894f, 0x88cc, 0x05dc]
starts = [
    b"", b"\x45\0\0\x28\0\0\0\0\x40\x06", b"\x4f\0\xff\xff\0\0\x20\0\x40\x11",
    b"\x60\0\0\0\0\x28\x06\x40", b"\x60\0\0\0\xff\xff\x2c\xff", b"\x60\0\0\0\0\x20\x3a\xff",
]
sent = 0
for number in range(100):
    length = random.randrange(random.choice([80] * 8 + [1600, 65536]))
    if number % 2:
        frame = b"\x02"
    else:
        kind = random.choice(types)
        # The kernel itself drops frames that end in a tag.
        length = max(length, 20 if kind in (0x8100, 0x88a8) else 0)
        frame = bytes([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]) + kind.to_bytes(2, "big")
        frame += random.choice(starts)
    frame = (frame + random.randbytes(length))[:length]
    try:
        out.send(frame)
        sent += 1
    except OSError:
        pass
print(sent)
"#;

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

    // Each packet is accounted for: it had a flow, was too short for one, or was among the last from
    // the port that went, for which nobody could be asked.
    let threads = json(&directory, &["dpif-netdev/pmd-stats-show"]);
    let sum = |name: &str| {
        let threads = threads.as_array().expect("threads").iter();
        threads.map(|thread| thread[name].as_u64().expect("a counter")).sum::<u64>()
    };
    let hits = ["simple-match-hits", "emc-hits", "smc-hits", "megaflow-hits"];
    let classes = [&hits[..], &["upcalls", "lost-upcalls"]].concat();
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

#[test]
fn any_bytes_from_devices_of_the_kernel_are_forwarded_or_counted() {
    if !is_root() {
        return;
    }
    let directory = Directory::in_namespace();
    let mut network = Network::new(&directory, &["", ""], "1500");
    let idle = in_use(&directory);
    // One more link, and a tap, that take the longest frames.
    let devices = ["w0", "t0"];
    directory.ip(&["link", "add", "w0", "type", "veth", "peer", "name", "w1"]).ok();
    directory
        .vsctl_script(
            "add-port br0 w1\nadd-port br0 t0\nset interface t0 type=tap\n\
             add-port br0 n0\nset interface n0 type=null",
        )
        .ok();
    for device in ["w0", "w1", "t0"] {
        // The kernel itself is to say nothing there.
        let setting = format!("net.ipv6.conf.{device}.disable_ipv6=1");
        Output::of(directory.command("sysctl").args(["-qw", &setting])).ok();
        directory.ip(&["link", "set", device, "mtu", "65521"]).ok();
        directory.ip(&["link", "set", device, "up"]).ok();
    }
    let get = |interface: &str, column: &str| -> u64 {
        let text = directory.vsctl(&["get", "interface", interface, column]).ok();
        text.trim_end().parse().expect("a number")
    };
    for device in ["w1", "t0"] {
        wait_until("the MTU is known", || get(device, "mtu") == 65521);
    }
    // Rules that look at all headers, and change some of them.
    let rules = "priority=9,udp,actions=mod_nw_src:203.0.113.7,mod_tp_dst:99,dec_ttl,output:n0\n\
                 priority=9,tcp,tcp_flags=+ack,actions=mod_tp_src:99,mod_nw_tos:4,output:n0\n\
                 priority=8,ip,actions=mod_nw_dst:203.0.113.7,output:n0\n\
                 priority=8,ipv6,actions=set_field:2001:db8::9->ipv6_dst,output:n0\n\
                 priority=8,mpls,actions=set_field:9->mpls_label,output:n0\n\
                 priority=7,dl_vlan=5,actions=strip_vlan,output:n0\n\
                 priority=1,dl_dst=02:00:00:00:00:02,actions=push_vlan:0x8100,output:n0\n\
                 priority=0,actions=NORMAL\n";
    directory.write("rules", rules);
    let mut set = directory.command("ovs-ofctl");
    Output::of(set.args(["-O", "OpenFlow13", "replace-flows", "br0", "rules"])).ok();

    directory.write("send.py", SENDER);
    let mut sent = 0;
    for round in 0..10 {
        for device in devices {
            let before = received(&directory);
            let mut sender = directory.command("python3");
            let printed = Output::of(sender.args(["send.py", device, &round.to_string()])).ok();
            let taken = printed.trim_end().parse::<u64>().expect("a number");
            wait_until("all frames have come", || received(&directory) >= before + taken);
            sent += taken;
        }
    }
    assert!(sent > 1000, "{sent} frames");
    let ofctl = ["replace-flows", "br0", "normal"];
    directory.write("normal", "actions=NORMAL\n");
    Output::of(directory.command("ovs-ofctl").args(ofctl)).ok();
    assert!(network.pings(1, "10.1.1.2", &[]));
    let script = "del-port w1\ndel-port t0\ndel-port n0";
    directory.vsctl_script(script).ok();
    assert_eq!(in_use(&directory), idle);
    network.daemon.allow("dropped a packet of");
    network.stop();
}
