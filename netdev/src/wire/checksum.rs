//! The Internet checksum (RFC 1071), kept up incrementally (RFC 1624), and CRC-32c for SCTP
//! (RFC 9260 appendix A).

use zerocopy::network_endian::{U16, U32};

use super::ipv4::Ipv4Header;
use super::ipv6::Ipv6Header;

/// A one's complement sum under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    value: u64,
    /// Whether an odd number of bytes was added, so that the next byte is a low one.
    odd: bool,
}

impl Sum {
    /// The sum of the pseudo header of an IPv4 packet (RFC 9293 section 3.1), for `length` bytes
    /// of transport header and data.
    pub fn of_pseudo_ipv4(header: &Ipv4Header, protocol: u8, length: usize) -> Self {
        Self::default()
            .add_u32(header.source.get())
            .add_u32(header.destination.get())
            .add_u32(u32::from(protocol))
            .add_u32(length as u32)
    }

    /// The same of an IPv6 packet (RFC 8200 section 8.1).
    pub fn of_pseudo_ipv6(header: &Ipv6Header, protocol: u8, length: usize) -> Self {
        Self::default()
            .add_bytes(&header.source)
            .add_bytes(&header.destination)
            .add_u32(u32::from(protocol))
            .add_u32(length as u32)
    }

    /// Adds bytes that follow those added so far.
    #[must_use]
    pub fn add_bytes(mut self, bytes: &[u8]) -> Self {
        let mut bytes = bytes;
        if self.odd
            && let Some((first, rest)) = bytes.split_first()
        {
            self.value += u64::from(*first);
            self.odd = false;
            bytes = rest;
        }
        // 2^32 words of 32 bits fit before the sum overflows; packets are far shorter.
        let (words, tail) = bytes.as_chunks::<4>();
        self.value += words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum::<u64>();
        let (halves, tail) = tail.as_chunks::<2>();
        self.value += halves.iter().map(|half| u64::from(u16::from_be_bytes(*half))).sum::<u64>();
        if let [last] = tail {
            self.value += u64::from(*last) << 8;
            self.odd = true;
        }
        self
    }

    /// Adds a word, at an even place.
    #[must_use]
    pub fn add_u32(mut self, word: u32) -> Self {
        self.value += u64::from(word);
        self
    }

    /// The sum folded to 16 bits: what a partial checksum holds.
    pub fn fold(self) -> u16 {
        let mut value = self.value;
        while value > 0xffff {
            value = (value & 0xffff) + (value >> 16);
        }
        value as u16
    }

    /// The checksum: the complement of the folded sum.
    pub fn finish(self) -> u16 {
        !self.fold()
    }
}

/// The checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().add_bytes(bytes).finish()
}

/// Changes `checksum` for a half word that went from `old` to `new` (RFC 1624 equation 3).
pub fn update16(checksum: &mut U16, old: u16, new: u16) {
    let sum = u32::from(!checksum.get()) + u32::from(!old) + u32::from(new);
    checksum.set(Sum::default().add_u32(sum).finish());
}

/// Changes `checksum` for a word, at an even place, that went from `old` to `new`.
pub fn update32(checksum: &mut U16, old: U32, new: U32) {
    let sum = Sum::default().add_u32(u32::from(!checksum.get()));
    checksum.set(sum.add_u32(!old.get()).add_u32(new.get()).finish());
}

const CRC32C: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// CRC-32c of segments that follow one another. For SCTP the checksum field counts as 0.
pub fn crc32c<'a>(segments: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    !segments
        .into_iter()
        .flatten()
        .fold(!0, |crc, byte| crc >> 8 ^ CRC32C[usize::from(crc as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 section 4.1, word by word.
    fn reference(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    proptest! {
        #[test]
        fn sums_as_the_rfc_does(bytes in vec(any::<u8>(), 0..3000)) {
            prop_assert_eq!(checksum(&bytes), reference(&bytes));
        }

        #[test]
        fn sums_parts_of_any_length(parts in vec(vec(any::<u8>(), 0..30), 0..20)) {
            let sum = parts.iter().fold(Sum::default(), |sum, part| sum.add_bytes(part));
            prop_assert_eq!(sum.finish(), reference(&parts.concat()));
        }

        #[test]
        fn updates_equal_a_new_sum(
            mut bytes in vec(any::<u8>(), 8..60),
            place in 0..13usize,
            half in any::<u16>(),
            word in any::<u32>(),
        ) {
            // All zero bytes have two representations of the sum 0.
            bytes[0] |= 1;
            let place = 2 + place % (bytes.len() / 2 - 3) * 2;
            let mut kept = U16::new(checksum(&bytes));
            let old = u16::from_be_bytes([bytes[place], bytes[place + 1]]);
            bytes[place..place + 2].copy_from_slice(&half.to_be_bytes());
            update16(&mut kept, old, half);
            prop_assert_eq!(kept.get(), reference(&bytes));

            let old = <[u8; 4]>::try_from(&bytes[place..place + 4]).unwrap();
            bytes[place..place + 4].copy_from_slice(&word.to_be_bytes());
            update32(&mut kept, U32::from_bytes(old), U32::new(word));
            prop_assert_eq!(kept.get(), reference(&bytes));
        }
    }

    #[test]
    fn sums_the_pseudo_headers() {
        let ipv4 = Ipv4Header {
            source: U32::new(0xc000_0201),
            destination: U32::new(0xc000_0202),
            ..Default::default()
        };
        let bytes = [192, 0, 2, 1, 192, 0, 2, 2, 0, 17, 0x12, 0x34];
        assert_eq!(Sum::of_pseudo_ipv4(&ipv4, 17, 0x1234).finish(), reference(&bytes));
        let ipv6 = Ipv6Header { source: [0x20; 16], destination: [0xfe; 16], ..Default::default() };
        let bytes = [[0x20; 16], [0xfe; 16]].concat();
        let bytes = [&bytes[..], &[0, 1, 0x12, 0x34, 0, 0, 0, 58]].concat();
        assert_eq!(Sum::of_pseudo_ipv6(&ipv6, 58, 0x1_1234).finish(), reference(&bytes));
    }

    #[test]
    fn computes_the_crc_of_known_texts() {
        // RFC 3720 appendix B.4 and the check value of the CRC catalogue.
        assert_eq!(crc32c([&[0; 32][..]]), 0x8a91_36aa);
        assert_eq!(crc32c([&[0xff; 32][..]]), 0x62a8_ab43);
        assert_eq!(crc32c([&b"1234"[..], b"", b"56789"]), 0xe306_9283);
        assert_eq!(crc32c([]), 0);
    }
}
