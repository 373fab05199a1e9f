//! Hashes of packets by which actions and groups choose. They are those of OVS on any machine, so
//! that the same packets take the same paths.

use dpif::flow::FlowKey;
use dpif::flow::path_hash::{
    add, add64, all_vlans, both_addresses, both_hosts, both_ports, finish, has_ports,
    symmetric_l3l4,
};
use netdev::wire::ethernet::{MacAddress, ether_type};
use netdev::wire::ip_protocol::{ICMP, SCTP, TCP, UDP};
use netdev::wire::vlan;

use crate::openflow::action::HashFields;

/// Hash of two numbers.
pub(super) fn hash_pair(one: u32, two: u32) -> u32 {
    finish(add(add(one, 0), two), 8)
}

/// Hash of a number of 64 bits.
pub(super) fn hash_u64(number: u64) -> u32 {
    finish(add64(0, number), 8)
}

/// Hash of bytes.
pub(super) fn hash_bytes(bytes: &[u8], basis: u32) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = words.iter().fold(basis, |hash, word| add(hash, u32::from_ne_bytes(*word)));
    if !rest.is_empty() {
        let mut last = [0; 4];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        hash = add(hash, u32::from_ne_bytes(last));
    }
    finish(hash, bytes.len() as u32)
}

/// Bob Jenkins's hash `lookup3` (<http://burtleburtle.net/bob/c/lookup3.c>).
fn jenkins(bytes: &[u8], basis: u32) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(basis);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut take = |block: &[u8; 12], is_whole: bool| {
        let [a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3] = *block;
        a = a.wrapping_add(u32::from_ne_bytes([a0, a1, a2, a3]));
        b = b.wrapping_add(u32::from_ne_bytes([b0, b1, b2, b3]));
        c = c.wrapping_add(u32::from_ne_bytes([c0, c1, c2, c3]));
        if is_whole {
            mix(&mut a, &mut b, &mut c);
        } else {
            conclude(&mut a, &mut b, &mut c);
        }
        c
    };
    let (blocks, rest) = bytes.as_chunks::<12>();
    let mut hash = start;
    for block in blocks {
        hash = take(block, true);
    }
    if !rest.is_empty() {
        let mut last = [0; 12];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        hash = take(&last, false);
    }
    hash
}

fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    for [first, second, third] in [[4, 6, 8], [16, 19, 4]] {
        *a = a.wrapping_sub(*c) ^ c.rotate_left(first);
        *c = c.wrapping_add(*b);
        *b = b.wrapping_sub(*a) ^ a.rotate_left(second);
        *a = a.wrapping_add(*c);
        *c = c.wrapping_sub(*b) ^ b.rotate_left(third);
        *b = b.wrapping_add(*a);
    }
}

fn conclude(a: &mut u32, b: &mut u32, c: &mut u32) {
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(14));
    *a = (*a ^ *c).wrapping_sub(c.rotate_left(11));
    *b = (*b ^ *a).wrapping_sub(a.rotate_left(25));
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(16));
    *a = (*a ^ *c).wrapping_sub(c.rotate_left(4));
    *b = (*b ^ *a).wrapping_sub(a.rotate_left(14));
    *c = (*c ^ *b).wrapping_sub(b.rotate_left(24));
}

/// Hash over Ethernet to transport addresses, the same in both directions. Ports of UDP are left
/// out: those of two directions need not be the same.
pub(super) fn symmetric_l4(key: &FlowKey, basis: u32) -> u32 {
    let has_ports = key.is_ip() && matches!(key.ip_proto, TCP | SCTP);
    let protocol = if key.is_ip() { key.ip_proto } else { 0 };
    let mut bytes = both_hosts(key).to_vec();
    bytes.extend(key.eth_type.to_bytes());
    bytes.extend(all_vlans(key));
    bytes.extend(if has_ports { both_ports(key) } else { [0; 2] });
    bytes.extend(both_addresses(key));
    bytes.extend([protocol, 0, 0, 0]);
    jenkins(&bytes, basis)
}

fn symmetric_l3(key: &FlowKey, basis: u32) -> u32 {
    let mut bytes = both_hosts(key).to_vec();
    bytes.extend(key.eth_type.to_bytes());
    bytes.extend([0; 2]);
    jenkins(&bytes, basis)
}

/// Hash over those fields of a packet.
pub(super) fn hash_fields(key: &FlowKey, fields: HashFields, basis: u16) -> u32 {
    let basis = basis.into();
    let host = |ipv4: [u8; 4], ipv6: [u8; 16]| match key.eth_type.get() {
        ether_type::IPV4 => jenkins(&ipv4, basis),
        ether_type::IPV6 => jenkins(&ipv6, basis),
        _ => basis,
    };
    match fields {
        HashFields::EthSrc => jenkins(&key.eth_src.0, basis),
        HashFields::SymmetricL4 => symmetric_l4(key, basis),
        HashFields::SymmetricL3L4 => symmetric_l3l4(key, basis, false),
        HashFields::SymmetricL3L4Udp => symmetric_l3l4(key, basis, true),
        HashFields::NwSrc => host(key.ipv4_src.to_bytes(), key.ipv6_src),
        HashFields::NwDst => host(key.ipv4_dst.to_bytes(), key.ipv6_dst),
        HashFields::SymmetricL3 => symmetric_l3(key, basis),
    }
}

/// Sets the bits of `mask` that tell the hash over those fields of a packet.
pub(super) fn note_hash_fields(mask: &mut FlowKey, key: &FlowKey, fields: HashFields) {
    let (is_ip, is_ipv4) = (key.is_ip(), key.eth_type.get() == ether_type::IPV4);
    let note_source = |mask: &mut FlowKey| match is_ipv4 {
        true => mask.ipv4_src.set(u32::MAX),
        false if is_ip => mask.ipv6_src = [u8::MAX; 16],
        false => {}
    };
    let note_destination = |mask: &mut FlowKey| match is_ipv4 {
        true => mask.ipv4_dst.set(u32::MAX),
        false if is_ip => mask.ipv6_dst = [u8::MAX; 16],
        false => {}
    };
    let note_ports = |mask: &mut FlowKey, bits: u16| {
        mask.tp_src.set(bits);
        mask.tp_dst.set(bits);
    };
    match fields {
        HashFields::EthSrc => mask.eth_src = MacAddress([u8::MAX; 6]),
        HashFields::SymmetricL4 => {
            mask.eth_src = MacAddress([u8::MAX; 6]);
            mask.eth_dst = MacAddress([u8::MAX; 6]);
            note_source(mask);
            note_destination(mask);
            if is_ip {
                mask.ip_proto = u8::MAX;
            }
            match key.ip_proto {
                _ if !is_ip => {}
                UDP => {}
                ICMP => note_ports(mask, 0xff),
                _ => note_ports(mask, u16::MAX),
            }
            for tag in &mut mask.vlans {
                tag.tci.set(tag.tci.get() | vlan::VID_MASK | vlan::CFI);
            }
        }
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp if !is_ip => {}
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp => {
            note_source(mask);
            note_destination(mask);
            mask.ip_proto = u8::MAX;
            if has_ports(key, fields == HashFields::SymmetricL3L4Udp) {
                note_ports(mask, u16::MAX);
            }
        }
        HashFields::NwSrc => note_source(mask),
        HashFields::NwDst => note_destination(mask),
        HashFields::SymmetricL3 => {
            note_source(mask);
            note_destination(mask);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_yardstick() {
        // jhash_bytes() and hash_bytes() of Open vSwitch's lib/jhash.c and lib/hash.c, and
        // lookup3's own driver for the second case.
        assert_eq!(jenkins(b"", 0), 0xdead_beef);
        assert_eq!(jenkins(b"Four score and seven years ago", 0), 0x1777_0551);
        assert_eq!(jenkins(b"Four score and seven years ago", 1), 0xcd62_8161);
    }

    #[test]
    fn directions_hash_alike() {
        let mut key = FlowKey::default();
        key.eth_type.set(ether_type::IPV4);
        key.ip_proto = TCP;
        key.eth_src = MacAddress([2, 0, 0, 0, 0, 1]);
        key.eth_dst = MacAddress([2, 0, 0, 0, 0, 2]);
        key.ipv4_src.set(0x0a00_0001);
        key.ipv4_dst.set(0x0a00_0002);
        key.tp_src.set(1000);
        key.tp_dst.set(80);
        let mut back = key.clone();
        (back.eth_src, back.eth_dst) = (key.eth_dst, key.eth_src);
        (back.ipv4_src, back.ipv4_dst) = (key.ipv4_dst, key.ipv4_src);
        (back.tp_src, back.tp_dst) = (key.tp_dst, key.tp_src);
        for fields in [
            HashFields::SymmetricL4,
            HashFields::SymmetricL3L4,
            HashFields::SymmetricL3L4Udp,
            HashFields::SymmetricL3,
        ] {
            let hash = hash_fields(&key, fields, 7);
            assert_eq!(hash_fields(&back, fields, 7), hash, "{fields:?}");
            let mut mask = FlowKey::default();
            note_hash_fields(&mut mask, &key, fields);
            for field in dpif::flow::Field::ALL {
                let mut other = key.clone();
                other.set(*field, key.get(*field) ^ field.bits() & !mask.get(*field));
                // What every mask has.
                let always = matches!(
                    field.name(),
                    "eth_type" | "packet_type" | "packet_type_ns" | "ip_frag"
                );
                assert!(always || hash_fields(&other, fields, 7) == hash, "{fields:?} {field:?}");
            }
        }
    }
}
