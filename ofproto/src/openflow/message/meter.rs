//! Meters; OpenFlow 1.3 and later.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::header;
use super::super::kind::{Kind, Raw, Replies};
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};

/// Numbers of meters (`ofp13_meter`).
pub mod meter_id {
    /// The greatest number of a meter of flows.
    pub const MAX: u32 = 0xffff_0000;
    /// The meter for packets to the switch's own slow path.
    pub const SLOWPATH: u32 = 0xffff_fffd;
    /// The meter for packets to controllers.
    pub const CONTROLLER: u32 = 0xffff_fffe;
    /// All meters.
    pub const ALL: u32 = 0xffff_ffff;
}

/// Flags of meters (`ofp13_meter_flags`).
pub mod meter_flag {
    /// Rates are in kbit/s.
    pub const KBPS: u16 = 1;
    /// Rates are in packets per second.
    pub const PKTPS: u16 = 2;
    /// Bands have burst sizes.
    pub const BURST: u16 = 4;
    /// Collect statistics.
    pub const STATS: u16 = 8;
}

/// What a band does with packets (`ofp13_meter_band_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum BandType {
    /// Drops them.
    Drop = 1,
    /// Raises their drop precedence.
    DscpRemark = 2,
}

/// A band of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterBand {
    /// What to do.
    pub band_type: BandType,
    /// The rate from which on to do it.
    pub rate: u32,
    /// Burst size.
    pub burst_size: u32,
    /// By how much to raise the precedence.
    pub prec_level: u8,
}

/// Bytes of a band.
const BAND_LEN: u16 = 16;

impl MeterBand {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u16(self.band_type as u16);
        out.put_u16(BAND_LEN);
        out.put_u32(self.rate);
        out.put_u32(self.burst_size);
        out.put_slice(&[self.prec_level, 0, 0, 0]);
    }

    fn read_all(mut body: Reader<'_>) -> Result<Vec<MeterBand>, OfError> {
        let mut bands = Vec::new();
        while !body.is_empty() {
            let mut band = body.sub(BAND_LEN.into())?;
            let (number, len) = (band.u16()?, band.u16()?);
            if len != BAND_LEN {
                return Err(OfError::BadRequestLen);
            }
            let band_type = match number {
                1 => BandType::Drop,
                2 => BandType::DscpRemark,
                _ => return Err(OfError::MeterModBadBand),
            };
            let (rate, burst_size, level) = (band.u32()?, band.u32()?, band.u8()?);
            let prec_level = if band_type == BandType::DscpRemark { level } else { 0 };
            bands.push(MeterBand { band_type, rate, burst_size, prec_level });
        }
        Ok(bands)
    }
}

/// The configuration of a meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// The meter.
    pub meter_id: u32,
    /// Bits of [`meter_flag`].
    pub flags: u16,
    /// The bands.
    pub bands: Vec<MeterBand>,
}

impl MeterConfig {
    /// Appends the meter to replies; `false` when no message can hold it.
    pub fn append(&self, replies: &mut Replies) -> bool {
        let mut out = vec![0; 2];
        out.put_u16(self.flags);
        out.put_u32(self.meter_id);
        self.bands.iter().for_each(|band| band.put(&mut out));
        let Ok(len) = u16::try_from(out.len()) else { return false };
        patch_u16(&mut out, 0, len);
        replies.push(&out)
    }

    /// Reads the meters of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>) -> Result<Vec<MeterConfig>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut meters = Vec::new();
        while !body.is_empty() {
            let len = usize::from(body.peek_u16()?);
            let mut meter = body.sub(len)?;
            meter.skip(2)?;
            let (flags, meter_id) = (meter.u16()?, meter.u32()?);
            meters.push(MeterConfig { meter_id, flags, bands: MeterBand::read_all(meter)? });
        }
        Ok(meters)
    }
}

/// What a meter modification does (`ofp13_meter_mod_command`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum MeterCommand {
    /// Add a meter.
    Add = 0,
    /// Change a meter.
    Modify = 1,
    /// Delete a meter or all.
    Delete = 2,
}

/// A meter modification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// What to do.
    pub command: MeterCommand,
    /// The meter.
    pub meter: MeterConfig,
}

impl MeterMod {
    /// Reads the message.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>) -> Result<MeterMod, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let command = match body.u16()? {
            0 => MeterCommand::Add,
            1 => MeterCommand::Modify,
            2 => MeterCommand::Delete,
            _ => return Err(OfError::MeterModBadCommand),
        };
        let (flags, meter_id) = (body.u16()?, body.u32()?);
        if command == MeterCommand::Delete {
            let meter = MeterConfig { meter_id, flags: 0, bands: Vec::new() };
            return Ok(MeterMod { command, meter });
        }
        let both = meter_flag::KBPS | meter_flag::PKTPS;
        if flags & both == both {
            return Err(OfError::MeterModBadFlags);
        }
        let bands = MeterBand::read_all(body)?;
        Ok(MeterMod { command, meter: MeterConfig { meter_id, flags, bands } })
    }

    /// Encodes the message.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::MeterMod13.start(version, xid);
        out.put_u16(self.command as u16);
        out.put_u16(if self.command == MeterCommand::Delete { 0 } else { self.meter.flags });
        out.put_u32(self.meter.meter_id);
        self.meter.bands.iter().for_each(|band| band.put(&mut out));
        header::finish(out)
    }
}

/// The statistics of a meter.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MeterStats {
    /// The meter.
    pub meter_id: u32,
    /// Flows that use it.
    pub flow_count: u32,
    /// Packets.
    pub packet_in_count: u64,
    /// Bytes.
    pub byte_in_count: u64,
    /// Whole seconds since the meter was added.
    pub duration_sec: u32,
    /// Nanoseconds beyond them.
    pub duration_nsec: u32,
    /// Packets and bytes in each band.
    pub bands: Vec<(u64, u64)>,
}

impl MeterStats {
    /// Appends the meter to replies; `false` when no message can hold it.
    pub fn append(&self, replies: &mut Replies) -> bool {
        let mut out = Vec::new();
        out.put_u32(self.meter_id);
        out.put_bytes(0, 8);
        out.put_u32(self.flow_count);
        out.put_u64(self.packet_in_count);
        out.put_u64(self.byte_in_count);
        out.put_u32(self.duration_sec);
        out.put_u32(self.duration_nsec);
        for (packets, bytes) in &self.bands {
            out.put_u64(*packets);
            out.put_u64(*bytes);
        }
        let Ok(len) = u16::try_from(out.len()) else { return false };
        patch_u16(&mut out, 4, len);
        replies.push(&out)
    }

    /// Reads the meters of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>) -> Result<Vec<MeterStats>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut meters = Vec::new();
        while !body.is_empty() {
            let mut header = body.clone();
            header.skip(4)?;
            let mut meter = body.sub(header.u16()?.into())?;
            let meter_id = meter.u32()?;
            meter.skip(8)?;
            let mut stats = MeterStats {
                meter_id,
                flow_count: meter.u32()?,
                packet_in_count: meter.u64()?,
                byte_in_count: meter.u64()?,
                duration_sec: meter.u32()?,
                duration_nsec: meter.u32()?,
                bands: Vec::new(),
            };
            while !meter.is_empty() {
                stats.bands.push((meter.u64()?, meter.u64()?));
            }
            meters.push(stats);
        }
        Ok(meters)
    }
}

/// The meter that a request for statistics or configuration asks for.
///
/// # Errors
/// `BadRequestLen`, never for a message that `Raw` has accepted.
pub fn decode_meter_request(raw: &Raw<'_>) -> Result<u32, OfError> {
    Reader::new(raw.body, OfError::BadRequestLen).u32()
}

/// The request of `kind` for a meter.
pub fn encode_meter_request(kind: Kind, meter_id: u32, version: Version, xid: u32) -> Vec<u8> {
    let mut out = kind.start(version, xid);
    out.put_u32(meter_id);
    out.put_u32(0);
    header::finish(out)
}

/// What meters the switch can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MeterFeatures {
    /// Most meters.
    pub max_meters: u32,
    /// A bit for each [`BandType`].
    pub band_types: u32,
    /// Bits of [`meter_flag`].
    pub capabilities: u32,
    /// Most bands of a meter.
    pub max_bands: u8,
    /// Greatest color.
    pub max_color: u8,
}

impl MeterFeatures {
    /// Encodes the reply.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::MeterFeaturesStatsReply13.start(version, xid);
        out.put_u32(self.max_meters);
        out.put_u32(self.band_types);
        out.put_u32(self.capabilities);
        out.put_slice(&[self.max_bands, self.max_color, 0, 0]);
        header::finish(out)
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// `BadRequestLen`, never for a message that `Raw` has accepted.
    pub fn decode(raw: &Raw<'_>) -> Result<MeterFeatures, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        Ok(MeterFeatures {
            max_meters: body.u32()?,
            band_types: body.u32()?,
            capabilities: body.u32()?,
            max_bands: body.u8()?,
            max_color: body.u8()?,
        })
    }
}
