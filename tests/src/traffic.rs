//! The traffic and the rules with which forwarding is measured: frames of UDP over IPv4 in captures
//! of any number of flows, and OpenFlow rules that need more and more of a lookup.

use std::fmt::Write as _;

/// Bytes of a frame, without its checksum.
const FRAME: usize = 60;
/// Frames that a capture has at least.
const FRAMES: u32 = 2048;

/// A small generator of numbers (SplitMix64), so that every run has the same traffic.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % u64::from(limit)) as u32
    }
}

/// The destination address of a flow: neighbours of a /16, in no order.
fn destination(flow: u32) -> u32 {
    0x1400_0000 + (flow >> 16 << 16) + flow.wrapping_mul(7919) % 65536
}

/// The one frame of a flow.
pub fn frame(flow: u32) -> [u8; FRAME] {
    let source = 0x0a00_0000 + flow % 65536;
    let mut frame = [0; FRAME];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    let header = &mut frame[14..34];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((FRAME - 14) as u16).to_be_bytes());
    header[4..6].copy_from_slice(&(flow as u16).to_be_bytes());
    (header[8], header[9]) = (64, 17);
    header[12..16].copy_from_slice(&source.to_be_bytes());
    header[16..20].copy_from_slice(&destination(flow).to_be_bytes());
    let words = header.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame[34..36].copy_from_slice(&((1024 + flow.wrapping_mul(31) % 60_000) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&((80 + flow % 8) as u16).to_be_bytes());
    frame[38..40].copy_from_slice(&((FRAME - 34) as u16).to_be_bytes());
    frame
}

/// A capture of the frames of `flows` flows in a fixed, shuffled order; few are repeated.
pub fn capture(flows: u32) -> Vec<u8> {
    let mut order = (0..flows).collect::<Vec<_>>();
    let mut numbers = Numbers(1);
    for last in (1..flows).rev() {
        order.swap(last as usize, numbers.below(last + 1) as usize);
    }
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1_u32] {
        bytes.extend(word.to_le_bytes());
    }
    for &flow in order.iter().cycle().take(FRAMES.next_multiple_of(flows) as usize) {
        for word in [0, 0, FRAME as u32, FRAME as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame(flow));
    }
    bytes
}

/// Rules that send what came in on port 1 to port 2, or nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rules {
    /// One that drops everything: what remains is receiving.
    Drop,
    /// One that looks at the port alone.
    One,
    /// Eight that look at the UDP destination port: one mask.
    Ports,
    /// Hundreds with destination prefixes of seven lengths: many masks.
    Prefixes,
    /// One that reads addresses and ports: every flow needs a flow of the datapath.
    Exact,
}

impl Rules {
    /// The rules, one a line, as `ovs-ofctl add-flows` reads them.
    pub fn text(self) -> String {
        match self {
            Self::Drop => "in_port=1,actions=drop\n".into(),
            Self::One => "in_port=1,actions=output:2\n".into(),
            Self::Ports => (80..88).fold(String::new(), |mut text, port| {
                let _ = writeln!(text, "in_port=1,udp,tp_dst={port},actions=output:2");
                text
            }),
            Self::Prefixes => prefixes(),
            Self::Exact => "in_port=1,udp,actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],\
                 move:NXM_OF_IP_DST[]->NXM_NX_REG1[],move:NXM_OF_UDP_SRC[]->NXM_NX_REG2[0..15],\
                 output:2\n"
                .into(),
        }
    }
}

fn prefixes() -> String {
    let mut numbers = Numbers(3);
    let mut text = String::from("priority=1,in_port=1,actions=output:2\n");
    for length in [8, 12, 16, 20, 24, 28, 32] {
        for index in 0..60 {
            let address = destination(numbers.below(100_000)) & (u32::MAX << (32 - length));
            // Nothing is sent to these.
            let address = if length == 8 { 0x1500_0000 + (index << 24) } else { address };
            let address = std::net::Ipv4Addr::from(address);
            let (priority, port) = (length * 10, 80 + index % 8);
            let _ = writeln!(
                text,
                "priority={priority},in_port=1,udp,nw_dst={address}/{length},tp_dst={port},\
                 actions=output:2"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_it_says() {
        assert_eq!(
            frame(65537).map(|byte| format!("{byte:02x}")).concat(),
            "0200000000020200000000010800\
             4500002e0001000040113dce0a00000114011eef\
             cdbf0051001a0000000000000000000000000000000000000000"
        );
    }

    #[test]
    fn captures_have_every_flow_equally_often() {
        for flows in [1, 3, 1000, 8000] {
            let bytes = capture(flows);
            let frames = bytes[24..].chunks(16 + FRAME).map(|record| &record[16..]);
            let mut counts = std::collections::BTreeMap::<&[u8], u32>::new();
            frames.for_each(|frame| *counts.entry(frame).or_default() += 1);
            let repeats = 2048_u32.div_ceil(flows);
            assert_eq!(counts.len(), flows as usize);
            assert!(counts.values().all(|count| *count == repeats), "{flows}: {counts:?}");
        }
    }
}
