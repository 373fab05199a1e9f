//! Frames that crashed or misled switches, whole and cut short anywhere, with and without tags.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::json;
use tests::process::LIMIT;
use tests::{Connection, Directory, Dummies};

use super::packets::{bytes, hex};

/// What is wrong with a frame, and its bytes. Addresses are 192.0.2.1 and 192.0.2.2, or 2001:db8::1
/// and 2001:db8::2; checksums are right unless it says otherwise.
const BOOK: [(&str, &str); 11] = [
    (
        "IPv4 header of 44 bytes in a packet of 40",
        "02000000000202000000000108004b000028123400004006d28cc0000201c000020201010101010101010101010\
         10101010101010101010101010101",
    ),
    (
        "IPv6 payload of 60 bytes with 20 there",
        "02000000000202000000000186dd60000000003c064020010db800000000000000000000000120010db80000000\
         000000000000000029c40005000000001000000005002040000000000",
    ),
    (
        "neighbour solicitation whose option says 2040 bytes with 8 there",
        "02000000000202000000000186dd6000000000203aff20010db800000000000000000000000120010db80000000\
         000000000000000028700eb740000000020010db800000000000000000000000201ff020000000001",
    ),
    (
        "TCP header of 60 bytes with 20 there",
        "020000000002020000000001080045000028123400004006e498c0000201c00002029c4000500000000100000000f\
         0020400eb4c0000",
    ),
    (
        "IGMPv3 report of 65535 records",
        "01005e00001602000000000108004500001c12340000010223a9c0000201c00002022200ddff0000ffff",
    ),
    (
        "VXLAN header cut to 4 bytes",
        "020000000002020000000001080045000020123400004011e495c0000201c0000202823512b5000cdee708000000",
    ),
    ("VLAN tag cut after 1 byte", "020000000002020000000001810000"),
    (
        "LLDP with an Auto-Attach element of 1 byte",
        "0180c200000e02000000000188cc020704020000000001040305703006020078fe0500040d0b000000",
    ),
    (
        "UDP with 6 bytes of padding",
        "02000000000202000000000108004500001c123400004011e499c0000201c00002029c4000350008de9e\
         ffffffffffff",
    ),
    (
        "five labels of MPLS, the last in the middle",
        "0200000000020200000000018847000070400006404000064140000640400006404045000014",
    ),
    (
        "IPv4 with options",
        "020000000002020000000001080046000020123400004011ce8bc0000201c0000202941c00009c4000350008de9e\
         0000",
    ),
];

/// Every frame of the book with up to two tags, cut at every byte.
fn forms() -> Vec<Vec<u8>> {
    let mut forms = vec![];
    for (_, text) in BOOK {
        let frame = bytes(text);
        for tags in 0..=2 {
            let tag = [0x81, 0x00, 0x60, 0x05].repeat(tags);
            let tagged = [&frame[..12], &tag, &frame[12..]].concat();
            forms.extend((0..=tagged.len()).map(|length| tagged[..length].to_vec()));
        }
    }
    forms
}

/// Those with a whole Ethernet header, in some order that is always the same.
fn with_header(forms: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut frames: Vec<_> = forms.iter().filter(|frame| frame.len() >= 14).cloned().collect();
    frames.sort();
    frames
}

fn counter(switch: &Dummies<'_>, name: &str) -> usize {
    let text = switch.run(&["coverage/read-counter", name]);
    text.trim_end().parse().expect("a number")
}

#[test]
fn frames_are_forwarded_as_they_came_or_counted() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    let forms = forms();
    let texts: Vec<_> = forms.iter().map(|frame| hex(frame)).collect();
    let whole = with_header(&forms);
    // Rules that look at nothing, and rules that look at everything there may be.
    for (round, rules) in [
        &["actions=output:2"][..],
        &[
            "priority=9,udp,tp_dst=53,actions=output:2",
            "priority=9,tcp,tp_dst=80,tcp_flags=+ack,actions=output:2",
            "priority=9,icmp6,icmp_type=135,nd_target=2001:db8::2,nd_sll=02:00:00:00:00:01,actions=output:2",
            "priority=9,mpls,mpls_label=7,mpls_bos=0,actions=output:2",
            "priority=9,ip,nw_frag=later,actions=output:2",
            "priority=8,dl_vlan=5,dl_vlan_pcp=3,actions=output:2",
            "priority=8,ipv6,ipv6_label=0,nw_ttl=64,actions=output:2",
            "priority=1,actions=output:2",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        switch.set_rules(rules);
        let before = switch.sent(2).len();
        let dropped = counter(&switch, "datapath_drop_rx_invalid_packet");
        switch.receive(1, &texts);
        let mut sent = switch.sent(2).split_off(before);
        sent.sort();
        assert_eq!(sent, whole, "round {round}");
        let dropped = counter(&switch, "datapath_drop_rx_invalid_packet") - dropped;
        assert_eq!(dropped, forms.len() - whole.len(), "round {round}");
    }
    switch.stop();
}

#[test]
fn headers_of_any_frame_can_be_changed() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    let forms = forms();
    let texts: Vec<_> = forms.iter().map(|frame| hex(frame)).collect();
    switch.set_rules(&[
        "priority=9,udp,actions=mod_nw_src:203.0.113.7,mod_tp_dst:99,dec_ttl,output:2",
        "priority=9,tcp,actions=mod_nw_src:203.0.113.7,mod_tp_dst:99,mod_nw_tos:4,output:2",
        "priority=9,ip,actions=mod_nw_dst:203.0.113.7,output:2",
        "priority=9,icmp6,icmp_type=135,actions=set_field:2001:db8::9->nd_target,set_field:02:00:00:00:00:09->nd_sll,output:2",
        "priority=8,ipv6,actions=set_field:2001:db8::9->ipv6_dst,set_field:5->ipv6_label,output:2",
        "priority=8,mpls,actions=set_field:9->mpls_label,dec_mpls_ttl,output:2",
        "priority=7,vlan_tci=0x1000/0x1000,actions=strip_vlan,mod_dl_src:02:00:00:00:00:09,output:2",
        "priority=1,actions=push_vlan:0x88a8,set_field:4103->vlan_vid,output:2",
    ]);
    switch.receive(1, &texts);
    let dropped = counter(&switch, "datapath_drop_rx_invalid_packet");
    assert_eq!(dropped, forms.len() - with_header(&forms).len());
    // Those whose time to live is used up are for the controller, which there is none of.
    let expired = counter(&switch, "connmgr_async_unsent");
    assert_eq!(switch.sent(2).len() + dropped + expired, forms.len());
    switch.stop();
}

#[test]
fn controllers_can_send_every_frame() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    let forms = forms();
    let mut stream = UnixStream::connect(directory.path("br0.mgmt")).expect("a socket");
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    let mut bytes = vec![1, 0, 0, 8, 0, 0, 0, 1];
    for frame in &forms {
        // OpenFlow 1.0: no buffer, from port 1, one action of 8 bytes, to port 2.
        let length = (24 + frame.len()) as u16;
        bytes.extend([1, 13]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 8, 0, 0, 0, 8, 0, 2, 0, 0]);
        bytes.extend(frame);
    }
    bytes.extend([1, 18, 0, 8, 0, 0, 0, 3]);
    let mut writer = stream.try_clone().expect("a second handle of a socket");
    std::thread::scope(|scope| {
        scope.spawn(|| writer.write_all(&bytes).expect("a reader"));
        // Until the answer to the barrier; others are errors.
        loop {
            let mut header = [0; 8];
            stream.read_exact(&mut header).expect("an answer");
            let mut body = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - 8];
            stream.read_exact(&mut body).expect("an answer");
            if header[1] == 19 {
                break;
            }
            assert_eq!(header[1], 0, "{header:?} {body:?}");
        }
    });
    let mut sent = switch.sent(2);
    sent.sort();
    assert_eq!(sent, with_header(&forms));
    switch.stop();
}

#[test]
fn every_frame_can_be_traced() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    switch
        .set_rules(&["priority=9,ip,actions=mod_nw_src:203.0.113.7,output:2", "actions=output:2"]);
    let mut connection = Connection::open(switch.daemon.control_socket());
    for frame in forms().into_iter().filter(|frame| !frame.is_empty()) {
        let arguments = json!(["br0", "in_port=1", hex(&frame)]);
        let traced = connection.call("ofproto/trace", &arguments);
        if frame.len() < 14 {
            assert_eq!(traced, Err(json!("Packet data too short for Ethernet\n")));
            continue;
        }
        let traced = traced.expect("a trace");
        let traced = traced.as_str().expect("text");
        let (_, actions) = traced.rsplit_once("\nDatapath actions: ").expect("actions");
        let is_right = ["2\n", "set(ipv4(src=203.0.113.7)),2\n"].contains(&actions);
        assert!(is_right, "{}: {traced}", hex(&frame));
    }
    drop(connection);
    switch.stop();
}

#[test]
fn long_frames_are_captured_and_forwarded() {
    let directory = Directory::new();
    let mut switch = Dummies::new(&directory, 3);
    let capture = format!("options:rxq_pcap={}", directory.path("in.pcap").display());
    directory.vsctl(&["set", "interface", "p1", &capture, "mtu_request=9000"]).ok();
    directory.vsctl(&["set", "interface", "p2", "mtu_request=9000"]).ok();
    switch.set_rules(&["actions=output:2,output:3"]);
    let head = "0200000000020200000000010800";
    let frames: Vec<_> = [60, 1514, 1515, 2000, 9014]
        .map(|length| head.to_owned() + &"45".repeat(length - 14))
        .into();
    switch.receive(1, &frames);
    let expected: Vec<_> = frames.iter().map(|frame| bytes(frame)).collect();
    assert_eq!(switch.sent(2), expected);
    assert_eq!(switch.sent(3), expected[..2]);
    assert_eq!(counter(&switch, "datapath_drop_mtu_exceeded"), 3);
    let received = std::fs::metadata(directory.path("in.pcap")).expect("a capture").len();
    assert_eq!(
        received as usize,
        24 + expected.iter().map(|frame| 16 + frame.len()).sum::<usize>()
    );
    switch.daemon.allow("p3: dropped a packet of");
    switch.stop();
}
