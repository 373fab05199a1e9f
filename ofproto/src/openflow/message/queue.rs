//! Queues: configurations and statistics.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::header;
use super::super::kind::{Kind, Raw, Replies};
use super::super::port::PortNo;
use super::super::property;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};

/// All queues.
pub const QUEUE_ALL: u32 = 0xffff_ffff;

/// A request for the configuration of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfigRequest {
    /// The port, `NONE` for all where the version has that.
    pub port: PortNo,
    /// The queue, [`QUEUE_ALL`] for all; from OpenFlow 1.4 on.
    pub queue: u32,
}

impl QueueConfigRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>) -> Result<QueueConfigRequest, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let (port, queue) = match raw.kind {
            Kind::QueueGetConfigRequest10 => (PortNo(body.u16()?), QUEUE_ALL),
            Kind::QueueGetConfigRequest11 => (PortNo::from_u32(body.u32()?)?, QUEUE_ALL),
            _ => (PortNo::from_u32(body.u32()?)?, body.u32()?),
        };
        let any = raw.kind != Kind::QueueGetConfigRequest10 && port == PortNo::NONE;
        let unlimited = raw.kind == Kind::QueueDescStatsRequest14;
        match port < PortNo::MAX || any || unlimited {
            true => Ok(QueueConfigRequest { port, queue }),
            false => Err(OfError::QueueOpBadPort),
        }
    }

    /// Encodes the request.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version {
            Version::V10 => Kind::QueueGetConfigRequest10,
            Version::V11 | Version::V12 | Version::V13 => Kind::QueueGetConfigRequest11,
            Version::V14 | Version::V15 => Kind::QueueDescStatsRequest14,
        };
        let mut out = kind.start(version, xid);
        match kind {
            Kind::QueueGetConfigRequest10 => {
                out.put_u16(self.port.0);
                out.put_u16(0);
            }
            Kind::QueueGetConfigRequest11 => {
                out.put_u32(self.port.to_u32());
                out.put_u32(0);
            }
            _ => {
                out.put_u32(self.port.to_u32());
                out.put_u32(self.queue);
            }
        }
        header::finish(out)
    }
}

/// The property of a queue with its least rate.
const MIN_RATE: u16 = 1;
/// The property of a queue with its greatest rate.
const MAX_RATE: u16 = 2;

/// The configuration of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// The port.
    pub port: PortNo,
    /// The queue.
    pub queue: u32,
    /// Least rate in 1/10 percent; more than 1000 means disabled.
    pub min_rate: Option<u16>,
    /// Greatest rate in 1/10 percent; more than 1000 means disabled.
    pub max_rate: Option<u16>,
}

impl QueueConfig {
    fn rates(&self) -> impl Iterator<Item = (u16, u16)> {
        [(MIN_RATE, self.min_rate), (MAX_RATE, self.max_rate)]
            .into_iter()
            .filter_map(|(number, rate)| Some((number, rate?)))
    }

    fn put(&self, out: &mut Vec<u8>, version: Version) {
        let start = out.len();
        if version < Version::V14 {
            out.put_u32(self.queue);
            if version >= Version::V12 {
                out.put_u32(self.port.to_u32());
            }
            let len_place = out.len();
            out.put_u16(0);
            out.put_bytes(0, if version >= Version::V12 { 6 } else { 2 });
            for (number, rate) in self.rates() {
                out.put_u16(number);
                out.put_u16(16);
                out.put_u32(0);
                out.put_u16(rate);
                out.put_bytes(0, 6);
            }
            let len = out.len() - start;
            patch_u16(out, len_place, len as u16);
        } else {
            out.put_u32(self.port.to_u32());
            out.put_u32(self.queue);
            out.put_bytes(0, 8);
            for (number, rate) in self.rates() {
                property::put_u16(out, property::Kind::standard(number), rate);
            }
            let len = out.len() - start;
            patch_u16(out, start + 8, len as u16);
        }
    }

    /// Encodes the reply of OpenFlow 1.0 to 1.3 for the queues of `port`. Those that do not fit
    /// into the message are not sent.
    pub fn encode(queues: &[QueueConfig], port: PortNo, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version {
            Version::V10 => Kind::QueueGetConfigReply10,
            _ => Kind::QueueGetConfigReply11,
        };
        let mut out = kind.start(version, xid);
        match version {
            Version::V10 => out.put_u16(port.0),
            _ => out.put_u32(port.to_u32()),
        }
        out.resize(16, 0);
        for queue in queues {
            let before = out.len();
            queue.put(&mut out, version);
            if out.len() > usize::from(u16::MAX) {
                out.truncate(before);
                break;
            }
        }
        header::finish(out)
    }

    /// Appends the queue to queue description replies; OpenFlow 1.4 and later.
    pub fn append(&self, replies: &mut Replies, version: Version) -> bool {
        let mut out = Vec::new();
        self.put(&mut out, version);
        replies.push(&out)
    }

    /// Reads the queues of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>, version: Version) -> Result<Vec<QueueConfig>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let port = match raw.kind {
            Kind::QueueGetConfigReply10 => u32::from(body.u16()?),
            Kind::QueueGetConfigReply11 => body.u32()?,
            _ => 0,
        };
        match raw.kind {
            Kind::QueueGetConfigReply10 => body.skip(6)?,
            Kind::QueueGetConfigReply11 => body.skip(4)?,
            _ => {}
        }
        let mut queues = Vec::new();
        while !body.is_empty() {
            queues.push(match raw.kind {
                Kind::QueueDescStatsReply14 => QueueConfig::read_14(&mut body)?,
                Kind::QueueGetConfigReply10 => {
                    QueueConfig::read_10(&mut body, PortNo(port as u16), version)?
                }
                _ => QueueConfig::read_10(&mut body, PortNo::from_u32(port)?, version)?,
            });
        }
        Ok(queues)
    }

    fn read_10(
        body: &mut Reader<'_>,
        port: PortNo,
        version: Version,
    ) -> Result<QueueConfig, OfError> {
        let mut header = body.clone();
        header.skip(if version >= Version::V12 { 8 } else { 4 })?;
        let len = usize::from(header.u16()?);
        let mut body = body.sub(len)?;
        let mut queue = QueueConfig { port, queue: body.u32()?, min_rate: None, max_rate: None };
        body.skip(if version >= Version::V12 { 12 } else { 4 })?;
        if len % 8 != 0 {
            return Err(OfError::BadRequestLen);
        }
        while !body.is_empty() {
            let mut header = body.clone();
            let (number, len) = (header.u16()?, usize::from(header.u16()?));
            let mut value = body.sub(len)?;
            value.skip(8).and(if len % 8 == 0 { Ok(()) } else { Err(OfError::BadRequestLen) })?;
            if matches!(number, MIN_RATE | MAX_RATE) {
                if len != 16 {
                    return Err(OfError::BadRequestLen);
                }
                queue.set_rate(number, value.u16()?);
            }
        }
        Ok(queue)
    }

    fn set_rate(&mut self, number: u16, rate: u16) {
        let rate = (rate != u16::MAX).then_some(rate);
        match number {
            MIN_RATE => self.min_rate = rate,
            _ => self.max_rate = rate,
        }
    }

    fn read_14(body: &mut Reader<'_>) -> Result<QueueConfig, OfError> {
        let mut header = body.clone();
        let port = PortNo::from_u32(header.u32()?);
        let queue = header.u32()?;
        let len = usize::from(header.u16()?);
        let mut queue = QueueConfig { port: port?, queue, min_rate: None, max_rate: None };
        if len % 8 != 0 {
            return Err(OfError::BadRequestLen);
        }
        let mut body = body.sub(len)?;
        body.skip(16)?;
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            for number in [MIN_RATE, MAX_RATE] {
                if property.kind == property::Kind::standard(number) {
                    queue.set_rate(number, property.u16()?);
                }
            }
        }
        Ok(queue)
    }
}

/// A request for the statistics of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatsRequest {
    /// The port, `NONE` for all.
    pub port: PortNo,
    /// The queue, [`QUEUE_ALL`] for all.
    pub queue: u32,
}

impl QueueStatsRequest {
    /// Reads the request.
    ///
    /// # Errors
    /// `BadActionOutPort` for a number that no port can have.
    pub fn decode(raw: &Raw<'_>) -> Result<QueueStatsRequest, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        if raw.kind == Kind::QueueStatsRequest10 {
            let port = PortNo(body.u16()?);
            body.skip(2)?;
            let port = if port == PortNo::ALL { PortNo::NONE } else { port };
            return Ok(QueueStatsRequest { port, queue: body.u32()? });
        }
        Ok(QueueStatsRequest { port: PortNo::from_u32(body.u32()?)?, queue: body.u32()? })
    }

    /// Encodes the request.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out;
        if version == Version::V10 {
            out = Kind::QueueStatsRequest10.start(version, xid);
            out.put_u16(if self.port == PortNo::NONE { PortNo::ALL.0 } else { self.port.0 });
            out.put_u16(0);
        } else {
            out = Kind::QueueStatsRequest11.start(version, xid);
            out.put_u32(self.port.to_u32());
        }
        out.put_u32(self.queue);
        header::finish(out)
    }
}

/// The statistics of a queue. All ones stand for a number that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStats {
    /// The port.
    pub port: PortNo,
    /// The queue.
    pub queue: u32,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped for lack of room.
    pub tx_errors: u64,
    /// Whole seconds since the queue was added; from OpenFlow 1.3 on.
    pub duration_sec: u32,
    /// Nanoseconds beyond them.
    pub duration_nsec: u32,
}

impl QueueStats {
    /// The kind of replies.
    pub fn reply_kind(version: Version) -> Kind {
        match version {
            Version::V10 => Kind::QueueStatsReply10,
            Version::V11 | Version::V12 => Kind::QueueStatsReply11,
            Version::V13 => Kind::QueueStatsReply13,
            Version::V14 | Version::V15 => Kind::QueueStatsReply14,
        }
    }

    /// Appends the queue to replies.
    pub fn append(&self, replies: &mut Replies, version: Version) -> bool {
        let mut out = Vec::new();
        if version >= Version::V14 {
            out.put_u16(48);
            out.put_bytes(0, 6);
        }
        match version {
            Version::V10 => {
                out.put_u16(self.port.0);
                out.put_u16(0);
            }
            _ => out.put_u32(self.port.to_u32()),
        }
        out.put_u32(self.queue);
        out.put_u64(self.tx_bytes);
        out.put_u64(self.tx_packets);
        out.put_u64(self.tx_errors);
        if version >= Version::V13 {
            let known = self.duration_sec != u32::MAX;
            out.put_u32(self.duration_sec);
            out.put_u32(if known { self.duration_nsec } else { u32::MAX });
        }
        replies.push(&out)
    }

    /// Reads the queues of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>) -> Result<Vec<QueueStats>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut queues = Vec::new();
        while !body.is_empty() {
            let queue = if raw.kind == Kind::QueueStatsReply14 {
                let len = usize::from(body.peek_u16()?);
                let mut queue = body.sub(len)?;
                queue.skip(8)?;
                QueueStats::read(&mut queue, raw.kind)?
            } else {
                QueueStats::read(&mut body, raw.kind)?
            };
            queues.push(queue);
        }
        Ok(queues)
    }

    fn read(body: &mut Reader<'_>, kind: Kind) -> Result<QueueStats, OfError> {
        let port = if kind == Kind::QueueStatsReply10 {
            let port = PortNo(body.u16()?);
            body.skip(2)?;
            port
        } else {
            PortNo::from_u32(body.u32()?)?
        };
        let mut stats = QueueStats {
            port,
            queue: body.u32()?,
            tx_bytes: body.u64()?,
            tx_packets: body.u64()?,
            tx_errors: body.u64()?,
            duration_sec: u32::MAX,
            duration_nsec: u32::MAX,
        };
        if matches!(kind, Kind::QueueStatsReply13 | Kind::QueueStatsReply14) {
            (stats.duration_sec, stats.duration_nsec) = (body.u32()?, body.u32()?);
        }
        Ok(stats)
    }
}
