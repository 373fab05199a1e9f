//! Changing the bytes of a frame as rules say, and spreading frames by hash.

use std::ops::Range;

use zerocopy::network_endian::U16;

use crate::flow_api::{Edit, HeaderFields};
use crate::wire::ethernet::ether_type;
use crate::wire::ipv4::Ipv4Header;
use crate::wire::udp::UdpHeader;
use crate::wire::{checksum, ip_protocol, split_mut};

/// Bytes before the Ethertype.
const ADDRESSES: usize = 12;
const ETHERNET: usize = 14;

/// Does one change. `inner` is where the packet inside a tunnel lies, nowhere without one. Nothing
/// happens to a frame that does not have what is to be changed.
pub(super) fn edit(frame: &mut Vec<u8>, edit: &Edit, inner: Range<usize>) {
    match edit {
        Edit::Decapsulate(_) => {
            if !inner.is_empty() && inner.end <= frame.len() {
                frame.truncate(inner.end);
                frame.drain(..inner.start);
            }
        }
        Edit::Encapsulate(header) => encapsulate(frame, header),
        Edit::SetEthernetDestination(address) => put(frame, 0, &address.0),
        Edit::SetEthernetSource(address) => put(frame, 6, &address.0),
        Edit::PushVlan { tpid, tci } => {
            if frame.len() >= ADDRESSES {
                let [a, b] = tpid.to_be_bytes();
                let [c, d] = tci.to_be_bytes();
                frame.splice(ADDRESSES..ADDRESSES, [a, b, c, d]);
            }
        }
        Edit::PopVlan => {
            if frame.len() >= ADDRESSES + 4 {
                frame.drain(ADDRESSES..ADDRESSES + 4);
            }
        }
    }
}

fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = frame.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// Puts outer headers in front, with the lengths of an IPv4 and UDP header among them made right.
fn encapsulate(frame: &mut Vec<u8>, header: &[u8]) {
    let inner = frame.len();
    frame.splice(0..0, header.iter().copied());
    let is_ipv4 = header.get(ADDRESSES..ETHERNET) == Some(&ether_type::IPV4.to_be_bytes());
    let Some(rest) = frame.get_mut(ETHERNET..).filter(|_| is_ipv4) else { return };
    let Some((ip, rest)) = split_mut::<Ipv4Header>(rest) else { return };
    let length = |from: usize| U16::new(u16::try_from(header.len() + inner - from).unwrap_or(0));
    ip.total_length = length(ETHERNET);
    ip.checksum.set(0);
    ip.checksum.set(checksum::checksum(zerocopy::IntoBytes::as_bytes(ip)));
    if ip.protocol == ip_protocol::UDP
        && let Some((udp, _)) = split_mut::<UdpHeader>(rest)
    {
        udp.length = length(ETHERNET + size_of::<Ipv4Header>());
    }
}

/// The hash by which frames are spread over receive queues, from addresses, protocol and ports of
/// the outermost headers.
pub(super) fn hash(fields: &HeaderFields) -> u32 {
    let layer = &fields.outer;
    let ports = u64::from(layer.tp_src.get()) << 16 | u64::from(layer.tp_dst.get());
    let addresses = layer.ip_src.as_chunks::<8>().0.iter().chain(layer.ip_dst.as_chunks::<8>().0);
    let words = addresses.map(|chunk| u64::from_be_bytes(*chunk));
    let words = words.chain([ports << 8 | u64::from(layer.ip_proto)]);
    let mixed = words.fold(u64::from(layer.eth_type.get()), |hash, word| {
        (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    (mixed ^ mixed >> 32) as u32
}
