//! Tables: modifications, descriptions and status messages; and descriptions of the switch.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::header;
use super::super::kind::{Kind, Raw, Replies};
use super::super::property;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16, put_text_field, text_field};

/// What happens to packets that no flow matches (`ofp11_table_config`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum TableMiss {
    /// They go to the controller.
    #[default]
    Controller = 0,
    /// They go to the next table.
    Continue = 1,
    /// They are dropped.
    Drop = 2,
}

impl TableMiss {
    pub(super) fn from_wire(config: u32) -> TableMiss {
        match config & 3 {
            1 => TableMiss::Continue,
            2 => TableMiss::Drop,
            _ => TableMiss::Controller,
        }
    }
}

/// Bits of eviction flags (`ofp14_table_mod_prop_eviction_flag`).
pub mod eviction_flag {
    /// By other factors.
    pub const OTHER: u32 = 1 << 0;
    /// By importance.
    pub const IMPORTANCE: u32 = 1 << 1;
    /// By remaining lifetime.
    pub const LIFETIME: u32 = 1 << 2;
}

/// Configuration bit: flows may be evicted.
const EVICTION: u32 = 1 << 2;
/// Configuration bit: vacancy events are sent.
const VACANCY_EVENTS: u32 = 1 << 3;
/// Property with eviction flags.
const EVICTION_PROPERTY: property::Kind = property::Kind::standard(2);
/// Property with vacancy thresholds.
const VACANCY_PROPERTY: property::Kind = property::Kind::standard(3);

/// When vacancy events are sent, in percent of the table's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Vacancy {
    /// When space falls below this.
    pub down: u8,
    /// When space rises above this.
    pub up: u8,
    /// The space now; not in modifications.
    pub current: u8,
}

impl Vacancy {
    fn put(&self, out: &mut Vec<u8>) {
        property::put(out, VACANCY_PROPERTY, &[self.down, self.up, self.current, 0]);
    }

    fn read(property: &mut property::Property<'_>) -> Result<Vacancy, OfError> {
        let [down, up, current, _] = property.u32()?.to_be_bytes();
        Ok(Vacancy { down, up, current })
    }
}

/// A table modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// The table, 255 for all.
    pub table_id: u8,
    /// What happens to packets that miss; OpenFlow 1.1 and 1.2.
    pub miss: Option<TableMiss>,
    /// Whether flows may be evicted; from OpenFlow 1.4 on.
    pub eviction: Option<bool>,
    /// Bits of [`eviction_flag`]; from OpenFlow 1.4 on.
    pub eviction_flags: Option<u32>,
    /// Whether to send vacancy events; from OpenFlow 1.4 on.
    pub vacancy_events: Option<bool>,
    /// When to send them.
    pub vacancy: Vacancy,
}

impl TableMod {
    /// Reads the message.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>, version: Version) -> Result<TableMod, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let table_id = body.u8()?;
        body.skip(3)?;
        let config = body.u32()?;
        let with_miss = matches!(version, Version::V11 | Version::V12);
        let modern = version >= Version::V14;
        let mut table_mod = TableMod {
            table_id,
            miss: with_miss.then(|| TableMiss::from_wire(config)),
            eviction: modern.then_some(config & EVICTION != 0),
            eviction_flags: None,
            vacancy_events: modern.then_some(config & VACANCY_EVENTS != 0),
            vacancy: Vacancy::default(),
        };
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            match property.kind {
                EVICTION_PROPERTY => table_mod.eviction_flags = Some(property.u32()?),
                VACANCY_PROPERTY => {
                    let vacancy = Vacancy::read(&mut property)?;
                    let out_of_range = vacancy.down > vacancy.up || vacancy.up > 100;
                    if out_of_range || vacancy.current != 0 {
                        return Err(OfError::BadPropertyValue);
                    }
                    table_mod.vacancy = vacancy;
                }
                _ => return Err(OfError::BadRequestType),
            }
        }
        Ok(table_mod)
    }

    /// Encodes the message; OpenFlow 1.1 and later.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version >= Version::V14 {
            true => Kind::TableMod14,
            false => Kind::TableMod11,
        };
        let mut out = kind.start(version, xid);
        out.put_slice(&[self.table_id, 0, 0, 0]);
        if kind == Kind::TableMod11 {
            let with_miss = matches!(version, Version::V11 | Version::V12);
            let miss = self.miss.filter(|_| with_miss).unwrap_or_default();
            out.put_u32(miss as u32);
            return header::finish(out);
        }
        out.put_u32(config(self.eviction == Some(true), self.vacancy_events == Some(true)));
        if let Some(flags) = self.eviction_flags {
            property::put(&mut out, EVICTION_PROPERTY, &flags.to_be_bytes());
        }
        if self.vacancy_events == Some(true) {
            self.vacancy.put(&mut out);
        }
        header::finish(out)
    }
}

fn config(eviction: bool, vacancy_events: bool) -> u32 {
    (if eviction { EVICTION } else { 0 }) | (if vacancy_events { VACANCY_EVENTS } else { 0 })
}

/// The description of a table; OpenFlow 1.4 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TableDesc {
    /// The table.
    pub table_id: u8,
    /// Whether flows may be evicted.
    pub eviction: bool,
    /// Bits of [`eviction_flag`].
    pub eviction_flags: Option<u32>,
    /// When vacancy events are sent, if they are.
    pub vacancy: Option<Vacancy>,
}

impl TableDesc {
    fn put(&self, out: &mut Vec<u8>, all_properties: bool) {
        let start = out.len();
        out.put_slice(&[0, 0, self.table_id, 0]);
        out.put_u32(config(self.eviction, self.vacancy.is_some()));
        if all_properties || self.eviction_flags.is_some() {
            let flags = self.eviction_flags.unwrap_or(u32::MAX);
            property::put(out, EVICTION_PROPERTY, &flags.to_be_bytes());
        }
        if all_properties || self.vacancy.is_some() {
            self.vacancy.unwrap_or_default().put(out);
        }
        let len = out.len() - start;
        patch_u16(out, start, len as u16);
    }

    /// Appends the table to replies.
    pub fn append(&self, replies: &mut Replies) -> bool {
        let mut out = Vec::new();
        self.put(&mut out, false);
        replies.push(&out)
    }

    fn read(reader: &mut Reader<'_>) -> Result<TableDesc, OfError> {
        let len = usize::from(reader.peek_u16()?);
        let mut body = reader.sub(len)?;
        body.skip(2)?;
        let table_id = body.u8()?;
        body.skip(1)?;
        let config = body.u32()?;
        let mut desc =
            TableDesc { table_id, eviction: config & EVICTION != 0, ..TableDesc::default() };
        let mut vacancy = Vacancy::default();
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            match property.kind {
                EVICTION_PROPERTY => {
                    desc.eviction_flags = Some(property.u32()?).filter(|flags| *flags != u32::MAX);
                }
                VACANCY_PROPERTY => vacancy = Vacancy::read(&mut property)?,
                _ => {}
            }
        }
        desc.vacancy = (config & VACANCY_EVENTS != 0).then_some(vacancy);
        Ok(desc)
    }

    /// Reads the tables of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>) -> Result<Vec<TableDesc>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut tables = Vec::new();
        while !body.is_empty() {
            tables.push(TableDesc::read(&mut body)?);
        }
        Ok(tables)
    }
}

/// What happened to a table (`ofp14_table_reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TableReason {
    /// Its space fell below the threshold.
    VacancyDown = 3,
    /// Its space rose above the threshold.
    VacancyUp = 4,
}

/// A table status message; OpenFlow 1.4 and later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStatus {
    /// What happened.
    pub reason: TableReason,
    /// The table.
    pub desc: TableDesc,
}

impl TableStatus {
    /// Reads the message.
    ///
    /// # Errors
    /// `BadPropertyValue` for an unknown reason.
    pub fn decode(raw: &Raw<'_>) -> Result<TableStatus, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let reason = match body.u8()? {
            3 => TableReason::VacancyDown,
            4 => TableReason::VacancyUp,
            _ => return Err(OfError::BadPropertyValue),
        };
        body.skip(7)?;
        Ok(TableStatus { reason, desc: TableDesc::read(&mut body)? })
    }

    /// Encodes the message.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::TableStatus14.start(version, xid);
        out.put_u8(self.reason as u8);
        out.put_bytes(0, 7);
        self.desc.put(&mut out, true);
        header::finish(out)
    }
}

/// The description of the switch.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SwitchDesc {
    /// Manufacturer.
    pub mfr_desc: Vec<u8>,
    /// Hardware.
    pub hw_desc: Vec<u8>,
    /// Software.
    pub sw_desc: Vec<u8>,
    /// Serial number, at most 31 bytes on the wire.
    pub serial_num: Vec<u8>,
    /// The bridge; this and the others at most 255 bytes on the wire.
    pub dp_desc: Vec<u8>,
}

impl SwitchDesc {
    /// Encodes the reply.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = Kind::DescStatsReply.start(version, xid);
        put_text_field(&mut out, &self.mfr_desc, 256);
        put_text_field(&mut out, &self.hw_desc, 256);
        put_text_field(&mut out, &self.sw_desc, 256);
        put_text_field(&mut out, &self.serial_num, 32);
        put_text_field(&mut out, &self.dp_desc, 256);
        header::finish(out)
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// `BadRequestLen`, never for a message that `Raw` has accepted.
    pub fn decode(raw: &Raw<'_>) -> Result<SwitchDesc, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut text = |width| body.bytes(width).map(text_field);
        Ok(SwitchDesc {
            mfr_desc: text(256)?,
            hw_desc: text(256)?,
            sw_desc: text(256)?,
            serial_num: text(32)?,
            dp_desc: text(256)?,
        })
    }
}
