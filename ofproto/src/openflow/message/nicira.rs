//! Nicira's extensions that belong to no other family: tunnel option tables, flow formats,
//! controller ids, flushing of tracked connections, and statistics of IPFIX exporters.

use std::net::Ipv6Addr;

use bytes::BufMut;

use super::super::error::OfError;
use super::super::header;
use super::super::kind::{Kind, Raw, Replies};
use super::super::property::{self, Property};
use super::super::version::Version;
use super::super::wire::Reader;

/// The mapping of a tunnel option to a `tun_metadata` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlvMapping {
    /// Class of the option.
    pub option_class: u16,
    /// Type of the option.
    pub option_type: u8,
    /// Bytes of the option's value, a multiple of 4.
    pub option_len: u8,
    /// The number of the field.
    pub index: u16,
}

/// The greatest value of an option in bytes.
const MAX_OPTION_LEN: u8 = 124;
/// Number of `tun_metadata` fields.
const N_TUN_METADATA: u16 = 64;

impl TlvMapping {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u16(self.option_class);
        out.put_slice(&[self.option_type, self.option_len]);
        out.put_u16(self.index);
        out.put_u16(0);
    }

    fn read_all(mut body: Reader<'_>, max_fields: u16) -> Result<Vec<TlvMapping>, OfError> {
        let mut mappings = Vec::new();
        while !body.is_empty() {
            let mapping = TlvMapping {
                option_class: body.u16()?,
                option_type: body.u8()?,
                option_len: body.u8()?,
                index: body.u16()?,
            };
            body.skip(2)?;
            if !mapping.option_len.is_multiple_of(4) || mapping.option_len > MAX_OPTION_LEN {
                return Err(OfError::TlvTableModBadOptLen);
            }
            if mapping.index >= max_fields {
                return Err(OfError::TlvTableModBadFieldIdx);
            }
            mappings.push(mapping);
        }
        Ok(mappings)
    }
}

/// What a TLV table modification does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum TlvCommand {
    /// Add mappings.
    Add = 0,
    /// Delete mappings.
    Delete = 1,
    /// Delete all mappings.
    Clear = 2,
}

/// A modification of the tunnel option table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvTableMod {
    /// What to do.
    pub command: TlvCommand,
    /// The mappings.
    pub mappings: Vec<TlvMapping>,
}

impl TlvTableMod {
    /// Reads the message.
    ///
    /// # Errors
    /// `TlvTableMod...` errors.
    pub fn decode(raw: &Raw<'_>) -> Result<TlvTableMod, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let command = match body.u16()? {
            0 => TlvCommand::Add,
            1 => TlvCommand::Delete,
            2 => TlvCommand::Clear,
            _ => return Err(OfError::TlvTableModBadCommand),
        };
        body.skip(6)?;
        Ok(TlvTableMod { command, mappings: TlvMapping::read_all(body, N_TUN_METADATA)? })
    }

    /// Encodes the message.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::NxTlvTableMod.start(version, xid);
        out.put_u16(self.command as u16);
        out.put_bytes(0, 6);
        self.mappings.iter().for_each(|mapping| mapping.put(&mut out));
        header::finish(out)
    }
}

/// The tunnel option table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlvTable {
    /// Most bytes of all options together.
    pub max_option_space: u32,
    /// Number of fields.
    pub max_fields: u16,
    /// The mappings.
    pub mappings: Vec<TlvMapping>,
}

impl TlvTable {
    /// Reads a reply.
    ///
    /// # Errors
    /// `TlvTableMod...` errors.
    pub fn decode(raw: &Raw<'_>) -> Result<TlvTable, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let (max_option_space, max_fields) = (body.u32()?, body.u16()?);
        body.skip(10)?;
        let mappings = TlvMapping::read_all(body, max_fields)?;
        Ok(TlvTable { max_option_space, max_fields, mappings })
    }

    /// Encodes a reply.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::NxTlvTableReply.start(version, xid);
        out.put_u32(self.max_option_space);
        out.put_u16(self.max_fields);
        out.put_bytes(0, 10);
        self.mappings.iter().for_each(|mapping| mapping.put(&mut out));
        header::finish(out)
    }
}

/// Whether a set-flow-format message asks for Nicira's extensible matches.
///
/// # Errors
/// `BadRequestEperm` for an unknown format.
pub fn decode_set_flow_format(raw: &Raw<'_>) -> Result<bool, OfError> {
    match Reader::new(raw.body, OfError::BadRequestLen).u32()? {
        0 => Ok(false),
        2 => Ok(true),
        _ => Err(OfError::BadRequestEperm),
    }
}

/// Whether a flow-mod-table-id message enables table ids in flow modifications.
///
/// # Errors
/// `BadRequestLen`, never for a message that `Raw` has accepted.
pub fn decode_flow_mod_table_id(raw: &Raw<'_>) -> Result<bool, OfError> {
    Ok(Reader::new(raw.body, OfError::BadRequestLen).u8()? != 0)
}

/// The id that a set-controller-id message gives the connection, or the zone that a
/// ct-flush-zone message flushes.
///
/// # Errors
/// `BadRequestMustBeZero` if the bytes before it are not zero.
pub fn decode_padded_u16(raw: &Raw<'_>) -> Result<u16, OfError> {
    let mut body = Reader::new(raw.body, OfError::BadRequestLen);
    body.zeros(6, OfError::BadRequestMustBeZero)?;
    body.u16()
}

/// The addresses and ports of one direction of a tracked connection; zeros where any will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtTuple {
    /// Source, IPv4 addresses in mapped form.
    pub src: Ipv6Addr,
    /// Destination, IPv4 addresses in mapped form.
    pub dst: Ipv6Addr,
    /// Transport source port.
    pub src_port: u16,
    /// Transport destination port.
    pub dst_port: u16,
    /// ICMP id.
    pub icmp_id: u16,
    /// ICMP type.
    pub icmp_type: u8,
    /// ICMP code.
    pub icmp_code: u8,
}

impl CtTuple {
    /// Any connection.
    pub const ANY: CtTuple = CtTuple {
        src: Ipv6Addr::UNSPECIFIED,
        dst: Ipv6Addr::UNSPECIFIED,
        src_port: 0,
        dst_port: 0,
        icmp_id: 0,
        icmp_type: 0,
        icmp_code: 0,
    };
}

/// Which tracked connections to flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtFlush {
    /// The transport protocol, 0 for any.
    pub ip_proto: u8,
    /// Whether addresses are IPv4 (true) or IPv6, as far as the message tells.
    pub is_ipv4: Option<bool>,
    /// The original direction.
    pub original: CtTuple,
    /// The reply direction.
    pub reply: CtTuple,
    /// The zone.
    pub zone: Option<u16>,
    /// The mark and the bits that count.
    pub mark: (u32, u32),
    /// The labels and the bits that count.
    pub labels: (u128, u128),
}

/// Reads an address and finds out its family, which must be that of the others.
fn read_address(
    property: &mut Property<'_>,
    is_ipv4: &mut Option<bool>,
) -> Result<Ipv6Addr, OfError> {
    let address = Ipv6Addr::from(property.body.array::<16>()?);
    let found = (!address.is_unspecified()).then(|| address.to_ipv4_mapped().is_some());
    if is_ipv4.is_some() && found.is_some() && *is_ipv4 != found {
        return Err(OfError::BadPropertyValue);
    }
    *is_ipv4 = found;
    Ok(address)
}

/// The number of a standard property, if it is below 16.
fn number(property: &Property<'_>) -> Option<u16> {
    (0..16).find(|number| property.kind == property::Kind::standard(*number))
}

impl CtTuple {
    fn read(&mut self, mut body: Reader<'_>, is_ipv4: &mut Option<bool>) -> Result<(), OfError> {
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            match number(&property) {
                Some(0) => self.src = read_address(&mut property, is_ipv4)?,
                Some(1) => self.dst = read_address(&mut property, is_ipv4)?,
                Some(2) => self.src_port = property.u16()?,
                Some(3) => self.dst_port = property.u16()?,
                Some(4) => self.icmp_id = property.u16()?,
                Some(5) => self.icmp_type = property.u8()?,
                Some(6) => self.icmp_code = property.u8()?,
                _ => return Err(property.unknown()),
            }
        }
        Ok(())
    }

    fn put(&self, out: &mut Vec<u8>, kind: u16, ip_proto: u8) {
        let mut value = Vec::new();
        let mut put = |number, bytes: &[u8]| {
            property::put(&mut value, property::Kind::standard(number), bytes);
        };
        for (number, address) in [(0, self.src), (1, self.dst)] {
            if !address.is_unspecified() {
                put(number, &address.octets());
            }
        }
        if matches!(ip_proto, 1 | 58) {
            let [high, low] = self.icmp_id.to_be_bytes();
            put(4, &[high, low, 0, 0]);
            put(5, &[self.icmp_type]);
            put(6, &[self.icmp_code]);
        } else {
            for (number, port) in [(2, self.src_port), (3, self.dst_port)] {
                if port != 0 {
                    let [high, low] = port.to_be_bytes();
                    put(number, &[high, low, 0, 0]);
                }
            }
        }
        if !value.is_empty() {
            property::put_nested(out, property::Kind::standard(kind), &value);
        }
    }
}

impl CtFlush {
    /// Reads the message.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>) -> Result<CtFlush, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let ip_proto = body.u8()?;
        body.zeros(7, OfError::BadRequestMustBeZero)?;
        let mut flush = CtFlush {
            ip_proto,
            is_ipv4: None,
            original: CtTuple::ANY,
            reply: CtTuple::ANY,
            zone: None,
            mark: (0, 0),
            labels: (0, 0),
        };
        let (mut mark_mask, mut labels_mask) = (None, None);
        let (mut mark, mut labels) = (None, None);
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            match number(&property) {
                Some(0) => flush.original.read(property.nested()?, &mut flush.is_ipv4)?,
                Some(1) => flush.reply.read(property.nested()?, &mut flush.is_ipv4)?,
                Some(2) => flush.zone = Some(property.u16()?),
                Some(3) => mark = Some(property.u32()?),
                Some(4) => mark_mask = Some(property.u32()?),
                Some(5) => labels = Some(u128::from_be_bytes(property.array16()?)),
                Some(6) => labels_mask = Some(u128::from_be_bytes(property.array16()?)),
                _ => return Err(property.unknown()),
            }
        }
        flush.mark =
            (mark.unwrap_or(0), mark_mask.unwrap_or(if mark.is_some() { u32::MAX } else { 0 }));
        let all = if labels.is_some() { u128::MAX } else { 0 };
        flush.labels = (labels.unwrap_or(0), labels_mask.unwrap_or(all));
        Ok(flush)
    }

    /// Encodes the message.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::NxCtFlush.start(version, xid);
        out.put_u8(self.ip_proto);
        out.put_bytes(0, 7);
        self.original.put(&mut out, 0, self.ip_proto);
        self.reply.put(&mut out, 1, self.ip_proto);
        if let Some(zone) = self.zone {
            property::put_u16(&mut out, property::Kind::standard(2), zone);
        }
        let (mark, mask) = self.mark;
        if mask != 0 {
            property::put(&mut out, property::Kind::standard(3), &mark.to_be_bytes());
            if mask != u32::MAX {
                property::put(&mut out, property::Kind::standard(4), &mask.to_be_bytes());
            }
        }
        let (labels, mask) = self.labels;
        if mask != 0 {
            property::put(&mut out, property::Kind::standard(5), &labels.to_be_bytes());
            if mask != u128::MAX {
                property::put(&mut out, property::Kind::standard(6), &mask.to_be_bytes());
            }
        }
        header::finish(out)
    }
}

/// The statistics of an IPFIX exporter. All ones stand for a number that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IpfixStats {
    /// Flows in total and now, packets, IPv4 packets, IPv6 packets, packets in error, IPv4 and
    /// IPv6 packets in error, packets sent, errors when sending.
    pub counts: [u64; 10],
    /// The collectors.
    pub collector_set_id: u32,
}

impl IpfixStats {
    /// The kind of reply to a request.
    pub fn reply_kind(request: Kind) -> Kind {
        match request {
            Kind::NxIpfixFlowStatsRequest => Kind::NxIpfixFlowStatsReply,
            _ => Kind::NxIpfixBridgeStatsReply,
        }
    }

    /// Appends the exporter to replies.
    pub fn append(&self, replies: &mut Replies) -> bool {
        let mut out = Vec::new();
        self.counts.iter().for_each(|count| out.put_u64(*count));
        out.put_u32(self.collector_set_id);
        out.put_u32(0);
        replies.push(&out)
    }

    /// Reads the exporters of a reply.
    ///
    /// # Errors
    /// `BadRequestLen`, never for a message that `Raw` has accepted.
    pub fn decode(raw: &Raw<'_>) -> Result<Vec<IpfixStats>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut exporters = Vec::new();
        while !body.is_empty() {
            let mut stats = IpfixStats::default();
            for count in &mut stats.counts {
                *count = body.u64()?;
            }
            stats.collector_set_id = body.u32()?;
            body.skip(4)?;
            exporters.push(stats);
        }
        Ok(exporters)
    }
}
