//! Reports about OpenFlow messages that crashed switches.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use tests::process::LIMIT;
use tests::{Directory, Dummies};

/// A message of some version and type.
fn message(version: u8, kind: u8, body: &[u8]) -> Vec<u8> {
    let length = 8 + body.len() as u16;
    [&[version, kind][..], &length.to_be_bytes(), &[0, 0, 0, 9], body].concat()
}

/// Type and code of the error that a message is answered with, `None` when there is none.
fn error(directory: &Directory, version: u8, bytes: &[u8]) -> Option<(u16, u16)> {
    let mut stream = UnixStream::connect(directory.path("br0.mgmt")).expect("a socket");
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    stream.write_all(&message(version, 0, &[])).expect("a hello");
    stream.write_all(bytes).expect("a message");
    // The answer to an echo comes after all others.
    stream.write_all(&message(version, 2, &[])).expect("an echo request");
    let mut error = None;
    loop {
        let mut header = [0; 8];
        stream.read_exact(&mut header).expect("an answer");
        let mut body = vec![0; usize::from(u16::from_be_bytes([header[2], header[3]])) - 8];
        stream.read_exact(&mut body).expect("an answer");
        match header[1] {
            1 => {
                let number = |at| u16::from_be_bytes([body[at], body[at + 1]]);
                error = Some((number(0), number(2)));
            }
            3 => return error,
            _ => {}
        }
    }
}

// CVE-2018-17204.
#[test]
fn unknown_kinds_of_groups_are_refused() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    // Command, type, padding, group 1, length of the buckets, padding, a bucket.
    let group = |command: u16, kind: u8| {
        let head = [&command.to_be_bytes()[..], &[kind, 0, 0, 0, 0, 1, 0, 0, 0, 0]].concat();
        message(6, 15, &[&head[..], &[0xff, 0xff, 0xff, 0xff]].concat())
    };
    assert_eq!(error(&directory, 6, &group(0, 0)), None);
    assert_eq!(error(&directory, 6, &group(0x7777, 0)), Some((6, 11)));
    assert_eq!(error(&directory, 6, &group(0, 9)), Some((6, 10)));
    assert_eq!(error(&directory, 6, &group(0x7777, 9)), Some((6, 10)));
    switch.stop();
}

// CVE-2017-9265.
#[test]
fn buckets_longer_than_their_message_are_refused() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    for length in [8_u16, 16, 0x7ff8, 0xffff] {
        let body =
            [&[0, 0, 0, 0, 0, 0, 0, 1][..], &length.to_be_bytes(), &[0, 0, 0xff, 0xff, 0xff, 0xff]]
                .concat();
        let bytes = message(6, 15, &body);
        assert_eq!(error(&directory, 6, &bytes), Some((1, 6)), "{length}");
    }
    assert!(!switch.ofctl(&["dump-groups", "br0"]).ok().contains("group_id"));
    switch.stop();
}

// CVE-2018-17206.
#[test]
fn a_bundle_of_more_members_than_it_holds_is_refused() {
    let directory = Directory::new();
    let switch = Dummies::new(&directory, 2);
    // OpenFlow 1.0: any packet, a new flow, and one action of 32 bytes for 1000 members.
    let mut body = [0; 64];
    body[..4].copy_from_slice(&0x003f_ffff_u32.to_be_bytes());
    body[56..60].copy_from_slice(&[0xff; 4]);
    body[60..62].copy_from_slice(&[0xff; 2]);
    let action = |members: u16| {
        [
            &[0xff, 0xff, 0, 32, 0, 0, 0x23, 0x20, 0, 12, 0, 0, 0, 0, 0, 0][..],
            &0x0000_0002_u32.to_be_bytes(),
            &members.to_be_bytes(),
            &[0; 10],
        ]
        .concat()
    };
    let flow = |members| message(1, 14, &[&body[..], &action(members)].concat());
    assert_eq!(error(&directory, 1, &flow(1000)), Some((2, 1)));
    assert_eq!(error(&directory, 1, &flow(1)), Some((2, 1)));
    assert_eq!(error(&directory, 1, &flow(0)), None);
    assert_eq!(switch.ofctl(&["dump-flows", "br0"]).ok().matches("actions").count(), 1);
    switch.stop();
}
