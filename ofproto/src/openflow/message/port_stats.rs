//! Statistics of ports.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::kind::{Kind, Raw, Replies};
use super::super::port::PortNo;
use super::super::property;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};

/// Intel's experimenter number.
const INTEL: u32 = 0xaa01;
const ETHERNET: property::Kind = property::Kind::standard(0);
const RFC2819: property::Kind = property::Kind::experimenter(INTEL, 1);
const CUSTOM: property::Kind = property::Kind::experimenter(INTEL, 2);

/// The counters of RFC 2819 in the order of [`PortStats::rfc2819`].
pub const RFC2819_NAMES: [&str; 21] = [
    "rx_1_to_64_packets",
    "rx_65_to_127_packets",
    "rx_128_to_255_packets",
    "rx_256_to_511_packets",
    "rx_512_to_1023_packets",
    "rx_1024_to_1522_packets",
    "rx_1523_to_max_packets",
    "tx_1_to_64_packets",
    "tx_65_to_127_packets",
    "tx_128_to_255_packets",
    "tx_256_to_511_packets",
    "tx_512_to_1023_packets",
    "tx_1024_to_1522_packets",
    "tx_1523_to_max_packets",
    "tx_multicast_packets",
    "rx_broadcast_packets",
    "tx_broadcast_packets",
    "rx_undersized_errors",
    "rx_oversize_errors",
    "rx_fragmented_errors",
    "rx_jabber_errors",
];

/// The statistics of a port. All ones stand for a number that is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStats {
    /// The port.
    pub port_no: PortNo,
    /// Received packets, sent packets, received bytes, sent bytes, received and dropped, to send
    /// and dropped, receive errors, transmit errors.
    pub basic: [u64; 8],
    /// Receive frame errors, overruns and checksum errors, and collisions.
    pub ethernet: [u64; 4],
    /// Whole seconds since the port was added; from OpenFlow 1.3 on.
    pub duration_sec: u32,
    /// Nanoseconds beyond them.
    pub duration_nsec: u32,
    /// The counters named in [`RFC2819_NAMES`]; from OpenFlow 1.4 on.
    pub rfc2819: [u64; 21],
    /// Other counters by name; from OpenFlow 1.4 on.
    pub custom: Vec<(Vec<u8>, u64)>,
}

impl PortStats {
    /// Statistics of which nothing is known.
    pub fn unknown(port_no: PortNo) -> PortStats {
        PortStats {
            port_no,
            basic: [u64::MAX; 8],
            ethernet: [u64::MAX; 4],
            duration_sec: u32::MAX,
            duration_nsec: u32::MAX,
            rfc2819: [u64::MAX; 21],
            custom: Vec::new(),
        }
    }

    /// The kind of replies.
    pub fn reply_kind(version: Version) -> Kind {
        match version {
            Version::V10 => Kind::PortStatsReply10,
            Version::V11 | Version::V12 => Kind::PortStatsReply11,
            Version::V13 => Kind::PortStatsReply13,
            Version::V14 | Version::V15 => Kind::PortStatsReply14,
        }
    }

    /// Appends the port to replies; `false` when no message can hold it.
    pub fn append(&self, replies: &mut Replies, version: Version) -> bool {
        let mut out = Vec::new();
        if version >= Version::V14 {
            return self.put_14(&mut out) && replies.push(&out);
        }
        match version {
            Version::V10 => out.put_u16(self.port_no.0),
            _ => out.put_u32(self.port_no.to_u32()),
        }
        out.resize(8, 0);
        self.basic.iter().chain(&self.ethernet).for_each(|count| out.put_u64(*count));
        if version == Version::V13 {
            out.put_u32(self.duration_sec);
            out.put_u32(self.duration_nsec);
        }
        replies.push(&out)
    }

    fn put_14(&self, out: &mut Vec<u8>) -> bool {
        let numbers = |counts: &[u64]| {
            let padding = [0; 4].into_iter();
            padding.chain(counts.iter().flat_map(|count| count.to_be_bytes())).collect::<Vec<u8>>()
        };
        out.put_u32(0);
        out.put_u32(self.port_no.to_u32());
        out.put_u32(self.duration_sec);
        out.put_u32(self.duration_nsec);
        self.basic.iter().for_each(|count| out.put_u64(*count));
        property::put(out, ETHERNET, &numbers(&self.ethernet));
        property::put(out, RFC2819, &numbers(&self.rfc2819));
        if !self.custom.is_empty() {
            let start = property::start(out, CUSTOM);
            out.put_u16(0);
            out.put_u16(self.custom.len() as u16);
            for (name, value) in &self.custom {
                let name = name.get(..255).unwrap_or(name);
                out.put_u8(name.len() as u8);
                out.put_slice(name);
                out.put_u64(*value);
            }
            property::end(out, start);
        }
        let len = u16::try_from(out.len());
        if let Ok(len) = len {
            patch_u16(out, 0, len);
        }
        len.is_ok()
    }

    /// Reads the ports of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>) -> Result<Vec<PortStats>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut ports = Vec::new();
        while !body.is_empty() {
            let mut stats = PortStats::unknown(PortNo::NONE);
            match raw.kind {
                Kind::PortStatsReply14 => {
                    let len = usize::from(body.peek_u16()?);
                    stats.read_14(body.sub(len)?)?;
                }
                _ => stats.read(&mut body, raw.kind)?,
            }
            ports.push(stats);
        }
        Ok(ports)
    }

    fn read(&mut self, body: &mut Reader<'_>, kind: Kind) -> Result<(), OfError> {
        if kind == Kind::PortStatsReply10 {
            self.port_no = PortNo(body.u16()?);
            body.skip(6)?;
        } else {
            self.port_no = PortNo::from_u32(body.u32()?)?;
            body.skip(4)?;
        }
        read_counts(body, &mut self.basic)?;
        read_counts(body, &mut self.ethernet)?;
        if kind == Kind::PortStatsReply13 {
            (self.duration_sec, self.duration_nsec) = (body.u32()?, body.u32()?);
        }
        Ok(())
    }

    fn read_14(&mut self, mut body: Reader<'_>) -> Result<(), OfError> {
        body.skip(4)?;
        self.port_no = PortNo::from_u32(body.u32()?)?;
        (self.duration_sec, self.duration_nsec) = (body.u32()?, body.u32()?);
        read_counts(&mut body, &mut self.basic)?;
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            match property.kind {
                ETHERNET => {
                    property.body.skip(4)?;
                    read_counts(&mut property.body, &mut self.ethernet)?;
                    property.end()?;
                }
                RFC2819 => {
                    property.body.skip(4)?;
                    read_counts(&mut property.body, &mut self.rfc2819)?;
                    property.end()?;
                }
                CUSTOM => {
                    property.body.skip(2)?;
                    self.custom.clear();
                    for _ in 0..property.body.u16()? {
                        let len = usize::from(property.body.u8()?);
                        let name = property.body.bytes(len)?.to_vec();
                        self.custom.push((name, property.body.u64()?));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn read_counts(reader: &mut Reader<'_>, counts: &mut [u64]) -> Result<(), OfError> {
    for count in counts {
        *count = reader.u64()?;
    }
    Ok(())
}
