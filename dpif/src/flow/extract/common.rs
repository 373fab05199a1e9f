//! Extraction from common packets: whole TCP and UDP over IPv4 without options, with or without a
//! VLAN tag, and over IPv6 without extensions. The front of such a frame is the first line of its
//! key but for bytes to mask out, so that a few loads do.

use netdev::packet::Descriptor;
use netdev::wire::ethernet::ether_type;
use netdev::wire::{ip_protocol, vlan};

use super::PacketKey;
use crate::flow::field::Field;
use crate::flow::key::{Line, LineSet};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Bytes of a frame that are copied to its key.
const COPIED: usize = 48;
/// Bytes of the headers of UDP over IPv6.
const IPV6_UDP: usize = ETHERNET + 40 + 8;
/// Where the TCP flags of IPv6 packets lie.
const IPV6_TCP_FLAGS: usize = ETHERNET + 40 + 12;

/// The lines of keys of IPv6 packets.
const IPV6_LINES: LineSet = LineSet::FIRST.union(LineSet::of(Field::Ipv6Src));

/// Which of the bytes copied are matched on for TCP; the others make room for what the frame
/// lacks.
const TCP_MASK: [u64; COPIED / 8] = mask(true);
const UDP_MASK: [u64; COPIED / 8] = mask(false);

const fn mask(tcp: bool) -> [u64; COPIED / 8] {
    let mut mask = [[0; 8]; COPIED / 8];
    let mut at = 0;
    while at < COPIED {
        // Addresses and type; type of service; time to live and protocol; addresses and ports;
        // TCP flags.
        mask[at / 8][at % 8] = match at {
            0..=13 | 15 | 22..=23 | 26..=37 => 0xff,
            46 if tcp => 0x0f,
            47 if tcp => 0xff,
            _ => 0,
        };
        at += 1;
    }
    let mut words = [0; COPIED / 8];
    let mut word = 0;
    while word < COPIED / 8 {
        words[word] = u64::from_ne_bytes(mask[word]);
        word += 1;
    }
    words
}

/// Extracts the key of a common packet, which has neither metadata nor contradictions. Returns
/// false, and extracts nothing, for every other packet.
#[inline]
pub(super) fn extract(
    bytes: &[u8],
    descriptor: &mut Descriptor,
    vlan_limit: usize,
    to: &mut PacketKey,
) -> bool {
    let Some(head) = bytes.first_chunk::<COPIED>() else { return false };
    if descriptor.l3_type != 0 || descriptor.vlan().is_some() {
        return false;
    }
    match half(head, 12) {
        ether_type::IPV4 => ipv4(bytes, head, descriptor, to),
        ether_type::IPV6 => ipv6(bytes, descriptor, to),
        ether_type::VLAN if vlan_limit > 0 => tagged(bytes, head, descriptor, to),
        _ => false,
    }
}

/// The half word at a place.
#[inline]
fn half<const N: usize>(head: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

/// `low` in front of `high`, as they lie in a key.
#[inline]
fn pair(low: u32, high: u32) -> u64 {
    u64::from_be(u64::from(low) << 32 | u64::from(high))
}

/// The last words of the first line.
#[inline]
fn add_descriptor(line: &mut Line, descriptor: &Descriptor) {
    line[2] |= pair(descriptor.in_port, 0);
    line[6] = pair(descriptor.recirc_id, descriptor.dp_hash);
    line[7] = pair(descriptor.skb_mark, descriptor.skb_priority);
}

/// The mask of the packet whose IPv4 header is at its usual place in `head` and is followed by
/// `behind` bytes, unless it is unusual.
#[inline]
fn ipv4_mask(head: &[u8; COPIED], behind: usize) -> Option<&'static [u64; COPIED / 8]> {
    let (mask, transport) = match head[23] {
        ip_protocol::TCP => (&TCP_MASK, u32::from(head[46] >> 4) * 4),
        ip_protocol::UDP => (&UDP_MASK, 20),
        _ => return None,
    };
    // UDP's header is 8 bytes long, but as many as TCP has at least are asked for in both cases:
    // UDP with less than 12 bytes of data is not common.
    let total_length = u32::from(half(head, 16));
    let mut unusual = u32::from(head[14]) ^ 0x45;
    unusual |= u32::from(half(head, 20)) & 0x3fff;
    unusual |= u32::from(transport < 20) | u32::from(total_length < 20 + transport);
    unusual |= u32::from(total_length as usize > behind);
    (unusual == 0).then_some(mask)
}

#[inline]
fn ipv4(
    bytes: &[u8],
    head: &[u8; COPIED],
    descriptor: &mut Descriptor,
    to: &mut PacketKey,
) -> bool {
    let Some(mask) = ipv4_mask(head, bytes.len() - ETHERNET) else { return false };
    let line = to.start(LineSet::FIRST);
    let (words, _) = head.as_chunks::<8>();
    for word in 0..COPIED / 8 {
        line[word] = u64::from_ne_bytes(words[word]) & mask[word];
    }
    add_descriptor(line, descriptor);
    descriptor.l3 = ETHERNET as u16;
    descriptor.l4 = ETHERNET as u16 + 20;
    true
}

#[inline]
fn tagged(
    bytes: &[u8],
    front: &[u8; COPIED],
    descriptor: &mut Descriptor,
    to: &mut PacketKey,
) -> bool {
    let Some(head) = bytes.get(TAG..).and_then(|rest| rest.first_chunk::<COPIED>()) else {
        return false;
    };
    if half(head, 12) != ether_type::IPV4 {
        return false;
    }
    let Some(mask) = ipv4_mask(head, bytes.len() - ETHERNET - TAG) else { return false };
    let line = to.start(LineSet::FIRST);
    let ((words, _), (front_words, _)) = (head.as_chunks::<8>(), front.as_chunks::<8>());
    for word in 0..COPIED / 8 {
        line[word] = u64::from_ne_bytes(words[word]) & mask[word];
    }
    // Addresses lie in front of the tag.
    const ADDRESS: u64 = u64::from_ne_bytes([255, 255, 255, 255, 0, 0, 0, 0]);
    line[0] = u64::from_ne_bytes(front_words[0]);
    line[1] = line[1] & !ADDRESS | u64::from_ne_bytes(front_words[1]) & ADDRESS;
    let tci = u64::from(half(front, 14) | vlan::CFI);
    line[4] |= u64::from_be(tci);
    line[5] |= u64::from_be(u64::from(ether_type::VLAN) << 48);
    add_descriptor(line, descriptor);
    descriptor.l3 = (ETHERNET + TAG) as u16;
    descriptor.l4 = (ETHERNET + TAG) as u16 + 20;
    true
}

#[inline]
fn ipv6(bytes: &[u8], descriptor: &mut Descriptor, to: &mut PacketKey) -> bool {
    let Some(head) = bytes.first_chunk::<IPV6_UDP>() else { return false };
    let (flags, transport) = match head[20] {
        ip_protocol::TCP => match bytes.get(IPV6_TCP_FLAGS..).and_then(|rest| rest.first_chunk()) {
            Some(flags) => {
                let flags = u16::from_be_bytes(*flags);
                (flags & 0xfff, (flags >> 12) * 4)
            }
            None => return false,
        },
        ip_protocol::UDP => (0, 20),
        _ => return false,
    };
    // As for IPv4, UDP with less than 12 bytes of data is not common.
    let payload = half(head, 18);
    if transport < 20 || payload < transport || usize::from(payload) > bytes.len() - ETHERNET - 40 {
        return false;
    }
    let word = |at: usize| -> u64 {
        let bytes = head.get(at..).and_then(|rest| rest.first_chunk());
        u64::from_ne_bytes(bytes.copied().unwrap_or_default())
    };
    let flow = u32::from_be_bytes([head[14], head[15], head[16], head[17]]);
    let line = to.start(IPV6_LINES);
    let type_and_class = u64::from(half(head, 12)) << 16 | u64::from(flow >> 20 & 0xff);
    line[0] = word(0);
    line[1] = word(8) & u64::from_be(!0xffff_ffff) | u64::from_be(type_and_class);
    line[2] = u64::from_be(u64::from(head[21]) << 8 | u64::from(head[20]));
    line[3] = 0;
    let ports = u32::from_be_bytes([head[54], head[55], head[56], head[57]]);
    line[4] = u64::from_be(u64::from(ports) << 16);
    line[5] = u64::from_be(u64::from(flags));
    add_descriptor(line, descriptor);
    let [_, addresses, ..] = to.key.lines_mut();
    let label = u64::from_be(u64::from(flow & 0xf_ffff) << 32);
    *addresses = [0, 0, 0, word(22), word(30), word(38), word(46), label];
    descriptor.l3 = ETHERNET as u16;
    descriptor.l4 = ETHERNET as u16 + 40;
    true
}

impl PacketKey {
    /// Makes `lines` those in use, and returns the first. What is in them is to be overwritten.
    #[inline]
    fn start(&mut self, lines: LineSet) -> &mut Line {
        self.clear_all_but(lines);
        self.lines = lines;
        &mut self.key.lines_mut()[0]
    }
}
