//! Frames for tests, put together byte by byte with right checksums.

use proptest::collection::vec;
use proptest::prelude::*;

/// What to put behind the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tcp { sequence: u32, flags: u8, option_words: usize },
    Udp,
    Sctp,
}

/// A frame to be made.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) tags: Vec<(u16, u16)>,
    pub(crate) is_ipv6: bool,
    /// Words of IPv4 options, or IPv6 destination options of 8 bytes.
    pub(crate) ip_options: usize,
    pub(crate) identification: u16,
    pub(crate) kind: Kind,
    pub(crate) payload: Vec<u8>,
    /// Zeros behind the IP packet.
    pub(crate) padding: usize,
}

impl Sample {
    pub(crate) fn new(is_ipv6: bool, kind: Kind, payload: Vec<u8>) -> Self {
        Self {
            tags: vec![],
            is_ipv6,
            ip_options: 0,
            identification: 0xfffe,
            kind,
            payload,
            padding: 0,
        }
    }

    /// Where the IP header starts.
    pub(crate) fn l3(&self) -> usize {
        14 + 4 * self.tags.len()
    }

    /// Where the transport header starts.
    pub(crate) fn l4(&self) -> usize {
        self.l3() + if self.is_ipv6 { 40 + 8 * self.ip_options } else { 20 + 4 * self.ip_options }
    }

    /// Where the transport checksum is, from the transport header.
    pub(crate) fn checksum_offset(&self) -> usize {
        match self.kind {
            Kind::Tcp { .. } => 16,
            Kind::Udp => 6,
            Kind::Sctp => 8,
        }
    }

    /// The frame.
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for (tpid, tci) in &self.tags {
            frame.extend(tpid.to_be_bytes());
            frame.extend(tci.to_be_bytes());
        }
        let (protocol, mut transport) = match self.kind {
            Kind::Tcp { sequence, flags, option_words } => {
                let mut header = vec![0x80, 1, 0, 80];
                header.extend(sequence.to_be_bytes());
                header.extend([0, 0, 0, 9, (5 + option_words as u8) << 4, flags]);
                header.extend([1, 2, 0, 0, 0, 0]);
                header.extend(vec![1; 4 * option_words]);
                (6, header)
            }
            Kind::Udp => {
                let length = (8 + self.payload.len()) as u16;
                let mut header = vec![0x80, 1, 0, 80];
                header.extend(length.to_be_bytes());
                header.extend([0, 0]);
                (17, header)
            }
            Kind::Sctp => (132, vec![0x80, 1, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0]),
        };
        transport.extend(&self.payload);
        let addresses: Vec<u8> = match self.is_ipv6 {
            true => [[0x20; 16], [0xfd; 16]].concat(),
            false => vec![192, 0, 2, 1, 192, 0, 2, 2],
        };
        let mut covered = addresses.clone();
        covered.extend((transport.len() as u32).to_be_bytes());
        covered.extend([0, 0, 0, protocol]);
        covered.extend(&transport);
        let place = self.checksum_offset();
        match self.kind {
            Kind::Sctp => {
                let crc = crc(&transport);
                transport[place..place + 4].copy_from_slice(&crc.to_le_bytes());
            }
            Kind::Udp if sum(&covered) == 0 => transport[place..place + 2].fill(0xff),
            _ => transport[place..place + 2].copy_from_slice(&sum(&covered).to_be_bytes()),
        }
        if self.is_ipv6 {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 7]);
            frame.extend(((8 * self.ip_options + transport.len()) as u16).to_be_bytes());
            let next = |index| if index < self.ip_options { 60 } else { protocol };
            frame.extend([next(0), 64]);
            frame.extend(&addresses);
            for index in 0..self.ip_options {
                frame.extend([next(index + 1), 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            let mut header = vec![0x45 + self.ip_options as u8, 4];
            let length = 20 + 4 * self.ip_options + transport.len();
            header.extend((length as u16).to_be_bytes());
            header.extend(self.identification.to_be_bytes());
            header.extend([0x40, 0, 64, protocol, 0, 0]);
            header.extend(&addresses);
            header.extend(vec![1; 4 * self.ip_options]);
            let checksum = sum(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            frame.extend([8, 0]);
            frame.extend(header);
        }
        frame.extend(transport);
        frame.extend(vec![0; self.padding]);
        frame
    }
}

/// RFC 1071, word by word.
fn sum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// CRC-32c, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

fn kinds() -> impl Strategy<Value = Kind> {
    let tcp = (any::<u32>(), any::<u8>(), 0..=10usize)
        .prop_map(|(sequence, flags, option_words)| Kind::Tcp { sequence, flags, option_words });
    prop_oneof![2 => tcp, 1 => Just(Kind::Udp), 1 => Just(Kind::Sctp)]
}

/// Frames of every kind.
pub(crate) fn samples() -> impl Strategy<Value = Sample> {
    let tags = vec((prop_oneof![Just(0x8100), Just(0x88a8)], any::<u16>()), 0..3);
    let ip = (any::<bool>(), 0..4usize, any::<u16>());
    let rest = (kinds(), vec(any::<u8>(), 0..5000), 0..40usize);
    (tags, ip, rest).prop_map(
        |(tags, (is_ipv6, ip_options, identification), (kind, payload, padding))| Sample {
            tags,
            is_ipv6,
            ip_options,
            identification,
            kind,
            payload,
            padding,
        },
    )
}
