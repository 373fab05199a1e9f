//! Hashes of keys.

use netdev::wire::ethernet::ether_type;
use netdev::wire::ip_protocol::{SCTP, TCP, UDP};

use super::key::{FRAG_ANY, FlowKey, Line};

/// Odd constants without structure: digits of pi in hexadecimal, the last bit set.
const SECRET: Line = [
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7345,
    0xa409_3822_299f_31d1,
    0x082e_fa98_ec4e_6c89,
    0x4528_21e6_38d0_1377,
    0xbe54_66cf_34e9_0c6d,
    0xc0ac_29b7_c97c_50dd,
    0x3f84_d5b5_b547_0917,
];

/// A hash over lines of a key: products of pairs of words, which need not wait for one another.
pub(super) struct Hasher {
    mixed: u64,
    seed: u64,
}

impl Hasher {
    #[inline]
    pub(super) fn new(seed: u64) -> Self {
        Self { mixed: seed ^ SECRET[0], seed }
    }

    /// Adds line number `index`.
    #[inline]
    pub(super) fn add(&mut self, index: usize, line: &Line) {
        // Lines and pairs of words trade no places: each has secrets of its own.
        let seed = self.seed.wrapping_add(index as u64).wrapping_mul(SECRET[1]);
        let product = |pair: usize| {
            let (low, high) = (2 * pair, 2 * pair + 1);
            fold(line[low] ^ SECRET[low] ^ seed, line[high] ^ SECRET[high])
        };
        let halves =
            (product(0) ^ product(1).rotate_left(17), product(2) ^ product(3).rotate_left(17));
        self.mixed = self.mixed.rotate_left(29) ^ fold(halves.0 ^ SECRET[3], halves.1 ^ seed);
    }

    #[inline]
    pub(super) fn finish(self) -> u32 {
        let mixed = fold(self.mixed ^ SECRET[2], self.seed ^ SECRET[5]);
        (mixed ^ mixed >> 32) as u32
    }
}

/// Both halves of a 128-bit product.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Hash over addresses, protocol and ports, for packets whose port has not computed one. Fragments
/// hash without ports, so that all fragments of a packet get the same.
#[inline]
pub fn five_tuple_hash(key: &FlowKey, seed: u64) -> u32 {
    let addresses = match key.eth_type.get() {
        ether_type::IPV4 => {
            let ([a, b, c, d], [e, f, g, h]) = (key.ipv4_src.to_bytes(), key.ipv4_dst.to_bytes());
            u64::from_ne_bytes([a, b, c, d, e, f, g, h])
        }
        ether_type::IPV6 => {
            let half = |address: &[u8; 16], secret: usize| {
                let [high, low] = [0, 8].map(|at| {
                    let bytes = address.get(at..).and_then(|rest| rest.first_chunk());
                    u64::from_ne_bytes(bytes.copied().unwrap_or_default())
                });
                fold(high ^ SECRET[secret], low ^ SECRET[secret + 1] ^ seed)
            };
            half(&key.ipv6_src, 2) ^ half(&key.ipv6_dst, 4).rotate_left(17)
        }
        _ => return 0,
    };
    let mut rest = u64::from(key.ip_proto);
    if matches!(key.ip_proto, TCP | UDP | SCTP) && key.ip_frag & FRAG_ANY == 0 {
        let ([a, b], [c, d]) = (key.tp_src.to_bytes(), key.tp_dst.to_bytes());
        rest |= u64::from(u32::from_ne_bytes([a, b, c, d])) << 8;
    }
    let mixed = fold(addresses ^ SECRET[0] ^ seed, rest ^ SECRET[1]);
    let mixed = fold(mixed ^ SECRET[6], seed ^ SECRET[7]);
    (mixed ^ mixed >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Field;

    #[test]
    fn the_five_tuple_alone_decides() {
        let mut key = FlowKey::default();
        key.set(Field::EthType, 0x0800);
        key.set(Field::Ipv4Src, 0x0a00_0001);
        key.set(Field::Ipv4Dst, 0x0a00_0002);
        key.set(Field::IpProto, 17);
        key.set(Field::TpSrc, 1000);
        key.set(Field::TpDst, 2000);
        let hash = five_tuple_hash(&key, 7);
        for field in [Field::EthSrc, Field::IpTtl, Field::IpTos, Field::InPort, Field::VlanTci] {
            let mut other = key.clone();
            other.set(field, 1);
            assert_eq!(five_tuple_hash(&other, 7), hash, "{field:?}");
        }
        for field in [Field::Ipv4Src, Field::Ipv4Dst, Field::IpProto, Field::TpSrc, Field::TpDst] {
            let mut other = key.clone();
            other.set(field, key.get(field) ^ 1);
            assert_ne!(five_tuple_hash(&other, 7), hash, "{field:?}");
        }
        assert_ne!(five_tuple_hash(&key, 8), hash);
    }

    /// Many flows between few addresses, as behind a load balancer, hash to few equal values.
    #[test]
    fn similar_five_tuples_hash_differently() {
        for eth_type in [0x0800, 0x86dd] {
            let mut key = FlowKey::default();
            key.set(Field::EthType, eth_type);
            key.set(Field::IpProto, 6);
            let mut hashes = std::collections::HashSet::new();
            for number in 0..100_000u32 {
                let (low, high) = (u128::from(number & 0xff), u128::from(number >> 8));
                key.set(if eth_type == 0x0800 { Field::Ipv4Dst } else { Field::Ipv6Dst }, low);
                key.set(Field::TpSrc, high);
                hashes.insert(five_tuple_hash(&key, 7));
            }
            // Of 100,000 random values of 32 bits one pair is expected to be equal.
            assert!(hashes.len() > 99_980, "{}", hashes.len());
        }
    }

    #[test]
    fn fragments_of_a_packet_hash_alike() {
        let mut first = FlowKey::default();
        first.set(Field::EthType, 0x86dd);
        first.set(Field::Ipv6Src, 1 << 127);
        first.set(Field::Ipv6Dst, 2);
        first.set(Field::IpProto, 17);
        first.set(Field::IpFrag, 1);
        let mut later = first.clone();
        later.set(Field::IpFrag, 3);
        first.set(Field::TpSrc, 53);
        assert_eq!(five_tuple_hash(&first, 0), five_tuple_hash(&later, 0));
        later.set(Field::Ipv6Dst, 3);
        assert_ne!(five_tuple_hash(&first, 0), five_tuple_hash(&later, 0));
    }

    #[test]
    fn what_is_not_ip_has_no_five_tuple() {
        let mut arp = FlowKey::default();
        arp.set(Field::EthType, 0x0806);
        arp.set(Field::Ipv4Src, 5);
        assert_eq!(five_tuple_hash(&arp, 9), 0);
    }
}
