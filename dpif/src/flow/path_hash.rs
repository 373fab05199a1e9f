//! Hashes by which packets choose among paths. They are those of Open vSwitch on any machine, so
//! that the same packets take the same paths.

use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::ip_protocol::{SCTP, TCP, UDP};
use netdev::wire::vlan;

use super::key::{FRAG_ANY, FRAG_LATER, FlowKey};

/// One round of `MurmurHash3` for 32-bit words.
pub fn add(hash: u32, data: u32) -> u32 {
    let mixed = data.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ mixed).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

/// Two rounds.
pub fn add64(hash: u32, data: u64) -> u32 {
    add(add(hash, data as u32), (data >> 32) as u32)
}

/// The last round.
pub fn finish(hash: u32, last: u32) -> u32 {
    let mut hash = hash ^ last;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Bytes that are equal for both directions: those of one address flipped by the other.
pub fn both<const N: usize>(one: [u8; N], other: [u8; N]) -> [u8; N] {
    let mut bytes = one;
    bytes.iter_mut().zip(other).for_each(|(to, from)| *to ^= from);
    bytes
}

/// The Ethernet addresses.
pub fn both_addresses(key: &FlowKey) -> [u8; 6] {
    let (MacAddress(source), MacAddress(destination)) = (key.eth_src, key.eth_dst);
    both(source, destination)
}

/// The network addresses in 16 bytes; all zeros if it is not IP.
pub fn both_hosts(key: &FlowKey) -> [u8; 16] {
    match key.eth_type.get() {
        ether_type::IPV4 => {
            let mut bytes = [0; 16];
            let pair = both(key.ipv4_src.to_bytes(), key.ipv4_dst.to_bytes());
            bytes.iter_mut().zip(pair).for_each(|(to, from)| *to = from);
            bytes
        }
        ether_type::IPV6 => both(key.ipv6_src, key.ipv6_dst),
        _ => [0; 16],
    }
}

/// The VLANs of all tags together.
pub fn all_vlans(key: &FlowKey) -> [u8; 2] {
    let vlans = key.vlans.iter().fold(0, |all, tag| all ^ tag.tci.get() & vlan::VID_MASK);
    vlans.to_be_bytes()
}

/// The transport ports.
pub fn both_ports(key: &FlowKey) -> [u8; 2] {
    both(key.tp_src.to_bytes(), key.tp_dst.to_bytes())
}

/// Hash over Ethernet addresses and VLANs, the same in both directions.
fn symmetric_l2(key: &FlowKey, basis: u32) -> u32 {
    if !key.is_ethernet() {
        return 0;
    }
    let ([t0, t1], [v0, v1]) = (key.eth_type.to_bytes(), all_vlans(key));
    let [a0, a1, a2, a3, a4, a5] = both_addresses(key);
    let words = [[t0, t1, v0, v1], [a0, a1, a2, a3], [a4, a5, 0, 0]];
    finish(words.iter().fold(basis, |hash, word| add(hash, u32::from_ne_bytes(*word))), basis)
}

/// Hash over network and transport addresses, the same in both directions; of packets that are not
/// IP, over Ethernet addresses and VLANs. Ports of UDP count only `with_udp`.
pub fn symmetric_l3l4(key: &FlowKey, basis: u32, with_udp: bool) -> u32 {
    let hosts = both_hosts(key);
    let mut hash = basis;
    match key.eth_type.get() {
        ether_type::IPV4 => {
            let [a, b, c, d, ..] = hosts;
            hash = add(hash, u32::from_ne_bytes([a, b, c, d]));
        }
        ether_type::IPV6 => {
            let words = hosts.as_chunks::<8>().0.iter();
            hash = words.fold(hash, |hash, word| add64(hash, u64::from_ne_bytes(*word)));
        }
        _ => return symmetric_l2(key, basis),
    }
    hash = add(hash, key.ip_proto.into());
    if has_ports(key, with_udp) {
        hash = add(hash, u16::from_ne_bytes(both_ports(key)).into());
    }
    finish(hash, basis)
}

/// Whether the ports count in a hash over network and transport addresses.
pub fn has_ports(key: &FlowKey, with_udp: bool) -> bool {
    let counts = matches!(key.ip_proto, TCP | SCTP) || with_udp && key.ip_proto == UDP;
    counts && key.ip_frag & (FRAG_ANY | FRAG_LATER) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Open vSwitch computes for these packets on a machine of the same byte order.
    #[test]
    #[cfg(target_endian = "little")]
    fn symmetric_hashes() {
        let mut key = FlowKey::default();
        key.eth_type.set(ether_type::IPV4);
        key.ipv4_src.set(0xc0a8_0001);
        key.ipv4_dst.set(0xc0a8_0002);
        key.ip_proto = 1;
        assert_eq!(symmetric_l3l4(&key, 0, false), 0x2807_74dd);
        let mut back = key.clone();
        (back.ipv4_src, back.ipv4_dst) = (key.ipv4_dst, key.ipv4_src);
        assert_eq!(symmetric_l3l4(&back, 0, false), 0x2807_74dd);
        back.ip_proto = UDP;
        back.tp_src.set(5);
        assert_ne!(symmetric_l3l4(&back, 0, true), symmetric_l3l4(&back, 0, false));
    }
}
