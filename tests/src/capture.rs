//! What arrives at the devices of a namespace, as a capture tool would see it. Needs root.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::namespace::Namespace;

/// Protocol of packet sockets that receive everything (`linux/if_ether.h`), in network byte order.
const ALL: u32 = 0x0003_u16.to_be() as u32;
/// How long the end of a capture may go unnoticed, in nanoseconds.
const NAP: i64 = 10_000_000;
/// Longer than any frame.
const LONGEST: usize = 1 << 17;

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    is_done: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Capture {
    /// Captures what passes the devices of `namespace`, both ways, from now on.
    ///
    /// # Panics
    /// When the namespace cannot be entered.
    #[track_caller]
    pub fn start(namespace: &Namespace) -> Self {
        let path = format!("/run/netns/{}", namespace.name());
        let namespace = File::open(path).expect("the file of the namespace");
        let socket = std::thread::spawn(move || open(&namespace)).join().expect("a packet socket");
        let is_done = Arc::new(AtomicBool::new(false));
        let thread = {
            let is_done = Arc::clone(&is_done);
            std::thread::spawn(move || collect(&socket, &is_done))
        };
        Self { is_done, thread }
    }

    /// Ends the capture and returns its frames, as long as they were.
    ///
    /// # Panics
    /// When the capture failed.
    #[track_caller]
    pub fn finish(self) -> Vec<Vec<u8>> {
        self.is_done.store(true, Ordering::Relaxed);
        self.thread.join().expect("a capture without failures")
    }
}

fn open(namespace: &File) -> OwnedFd {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("only root can enter a namespace");
    let protocol = std::num::NonZero::new(ALL).map(Protocol::from_raw);
    socket(AddressFamily::PACKET, SocketType::RAW, protocol).expect("a packet socket")
}

fn collect(socket: &OwnedFd, is_done: &AtomicBool) -> Vec<Vec<u8>> {
    let nap = Timespec { tv_sec: 0, tv_nsec: NAP };
    let mut buffer = vec![0; LONGEST];
    let mut frames = vec![];
    loop {
        let is_last = is_done.load(Ordering::Relaxed);
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        while poll(&mut fds, Some(&nap)).expect("a socket to wait for") > 0 {
            let (length, _) =
                recv(socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT).expect("a frame");
            frames.push(buffer[..length].to_vec());
        }
        if is_last {
            return frames;
        }
    }
}

/// Whether the IPv4 header checksum and the TCP checksum of an untagged frame are right; `None`
/// when the frame is no TCP packet, or a fragment.
pub fn has_right_checksums(frame: &[u8]) -> Option<bool> {
    let (pseudo, transport, is_right) = match frame.get(12..14)? {
        [8, 0] => {
            let header = usize::from(frame.get(14)? & 15) * 4;
            let header = frame.get(14..14 + header)?;
            let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
            if header[9] != 6 || is_fragment {
                return None;
            }
            let end = 14 + usize::from(u16::from_be_bytes([header[2], header[3]]));
            (&header[12..20], frame.get(14 + header.len()..end)?, sum(header) == 0xffff)
        }
        [0x86, 0xdd] if *frame.get(20)? == 6 => {
            let end = 54 + usize::from(u16::from_be_bytes([*frame.get(18)?, *frame.get(19)?]));
            (frame.get(22..54)?, frame.get(54..end)?, true)
        }
        _ => return None,
    };
    let length = u16::try_from(transport.len()).ok()?;
    let whole = [pseudo, &[0, 6], &length.to_be_bytes(), transport].concat();
    Some(is_right && sum(&whole) == 0xffff)
}

/// The ones' complement sum of 16-bit words (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_checked() {
        // An acknowledgement from 192.0.2.1 to 192.0.2.2, whose checksums are right.
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        frame.extend([0x45, 0, 0, 40, 0x12, 0x34, 0, 0, 64, 6, 0xe4, 0x98]);
        frame.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        frame.extend([0x9c, 0x40, 0, 0x50, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 4, 0, 0x8b, 0x4d]);
        frame.extend([0, 0]);
        assert_eq!(has_right_checksums(&frame), Some(true));
        // Padding does not count.
        frame.extend([0xff; 6]);
        assert_eq!(has_right_checksums(&frame), Some(true));
        for place in [22, 24, 30, 36, 50] {
            frame[place] ^= 1;
            assert_eq!(has_right_checksums(&frame), Some(false), "{place}");
            frame[place] ^= 1;
        }
        frame[23] = 17;
        assert_eq!(has_right_checksums(&frame), None);
        assert_eq!(has_right_checksums(&frame[..30]), None);
    }
}
