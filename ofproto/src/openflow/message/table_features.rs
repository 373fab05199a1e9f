//! What tables can do, and their statistics.

use bytes::BufMut;

use super::super::action::{Instruction, action_types};
use super::super::error::OfError;
use super::super::field::Field;
use super::super::kind::{Kind, Raw, Replies};
use super::super::oxm;
use super::super::property;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16, put_text_field, text_field};
use super::table::TableMiss;

/// Bytes of a table's name on the wire.
const NAME_LEN: usize = 32;

/// A set of match fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FieldSet([u64; 4]);

impl FieldSet {
    /// The fields for which `test` holds.
    pub fn of(test: impl Fn(Field) -> bool) -> FieldSet {
        Field::all().filter(|field| test(*field)).collect()
    }

    /// Whether the field is in the set.
    pub fn contains(&self, field: Field) -> bool {
        let place = usize::from(field.0);
        self.0.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 != 0)
    }

    /// Adds a field.
    pub fn insert(&mut self, field: Field) {
        let place = usize::from(field.0);
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    /// The fields, in the order of their definition.
    pub fn iter(&self) -> impl Iterator<Item = Field> {
        let set = *self;
        Field::all().filter(move |field| set.contains(*field))
    }

    /// Whether all fields of `other` are in the set.
    fn is_superset_of(&self, other: &FieldSet) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| other & !own == 0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The fields with a number below 64 in the basic class, as bits.
    fn basic(&self, version: Version) -> u64 {
        let numbers = self.iter().filter_map(|field| field.basic_number(version));
        numbers.filter(|number| *number < 64).fold(0, |bits, number| bits | 1 << number)
    }

    fn from_basic(bits: u64, version: Version) -> FieldSet {
        FieldSet::of(|field| {
            field.basic_number(version).is_some_and(|n| n < 64 && bits >> n & 1 != 0)
        })
    }

    fn bits<T: Copy>(&self, table: &[(T, &str)]) -> impl Iterator<Item = T> {
        let set = *self;
        table.iter().filter_map(move |(bit, name)| {
            Field::from_name(name).filter(|field| set.contains(*field)).map(|_| *bit)
        })
    }

    fn from_bits(bits: u32, table: &[(u32, &str)]) -> FieldSet {
        let found = table.iter().filter(|(bit, _)| bits & bit != 0);
        found.filter_map(|(_, name)| Field::from_name(name)).collect()
    }
}

impl FromIterator<Field> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Field>>(fields: I) -> FieldSet {
        let mut set = FieldSet::default();
        fields.into_iter().for_each(|field| set.insert(field));
        set
    }
}

/// The wildcards of OpenFlow 1.0 (`ofp10_flow_wildcards`) and the fields that they stand for.
const WILDCARDS_10: [(u32, &str); 12] = [
    (1 << 0, "in_port"),
    (1 << 1, "vlan_vid"),
    (1 << 2, "eth_src"),
    (1 << 3, "eth_dst"),
    (1 << 4, "eth_type"),
    (1 << 5, "ip_proto"),
    (1 << 6, "tcp_src"),
    (1 << 7, "tcp_dst"),
    (0x3f << 8, "nw_src"),
    (0x3f << 14, "nw_dst"),
    (1 << 20, "vlan_pcp"),
    (1 << 21, "ip_dscp"),
];

/// The wildcards of OpenFlow 1.1 (`ofp11_flow_match_fields`) and the fields that they stand for.
const WILDCARDS_11: [(u32, &str); 15] = [
    (1 << 0, "in_port"),
    (1 << 1, "vlan_vid"),
    (1 << 2, "vlan_pcp"),
    (1 << 3, "eth_type"),
    (1 << 4, "ip_dscp"),
    (1 << 5, "ip_proto"),
    (1 << 6, "tcp_src"),
    (1 << 7, "tcp_dst"),
    (1 << 8, "mpls_label"),
    (1 << 9, "mpls_tc"),
    (1 << 10, "eth_src"),
    (1 << 11, "eth_dst"),
    (1 << 12, "nw_src"),
    (1 << 13, "nw_dst"),
    (1 << 14, "metadata"),
];

/// What the actions of a write-actions or apply-actions instruction can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ActionFeatures {
    /// A bit for each action type of the version.
    pub actions: u32,
    /// The fields that set-field can set.
    pub set_fields: FieldSet,
}

/// What the instructions of a flow can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct InstructionFeatures {
    /// The tables that goto-table reaches, a bit for each below 255.
    pub next_tables: [u64; 4],
    /// A bit for each instruction type.
    pub instructions: u32,
    /// What write-actions can do.
    pub write: ActionFeatures,
    /// What apply-actions can do.
    pub apply: ActionFeatures,
}

impl InstructionFeatures {
    /// The tables that goto-table reaches.
    pub fn next_tables(&self) -> impl Iterator<Item = u8> {
        let tables = self.next_tables;
        let has = move |table: &u8| {
            tables.get(usize::from(table / 64)).is_some_and(|word| word >> (table % 64) & 1 != 0)
        };
        (0..u8::MAX).filter(has)
    }

    fn is_superset_of(&self, other: &InstructionFeatures) -> bool {
        let mut tables = self.next_tables.iter().zip(&other.next_tables);
        let parts = [(&self.write, &other.write), (&self.apply, &other.apply)];
        tables.all(|(own, other)| other & !own == 0)
            && other.instructions & !self.instructions == 0
            && parts.iter().all(|(own, other)| {
                other.actions & !own.actions == 0
                    && own.set_fields.is_superset_of(&other.set_fields)
            })
    }

    /// Adds a table that goto-table reaches.
    pub fn add_next_table(&mut self, table: u8) {
        if let Some(word) = self.next_tables.get_mut(usize::from(table / 64)) {
            *word |= 1 << (table % 64);
        }
    }
}

/// What a features request is to do with a table (`ofp15_table_features_command`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum TableFeaturesCommand {
    /// Replace the whole pipeline.
    #[default]
    Replace = 0,
    /// Change the table.
    Modify = 1,
    /// Enable the table.
    Enable = 2,
    /// Disable the table.
    Disable = 3,
}

/// What a table can do.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TableFeatures {
    /// The table.
    pub table_id: u8,
    /// The command of a request; from OpenFlow 1.5 on.
    pub command: TableFeaturesCommand,
    /// The name.
    pub name: Vec<u8>,
    /// Bits of metadata that can be matched.
    pub metadata_match: u64,
    /// Bits of metadata that can be written.
    pub metadata_write: u64,
    /// What happens to packets that miss; OpenFlow 1.1 and 1.2.
    pub miss_config: Option<TableMiss>,
    /// Whether flows can be evicted; from OpenFlow 1.4 on.
    pub eviction: Option<bool>,
    /// Whether vacancy events are supported; from OpenFlow 1.4 on.
    pub vacancy_events: Option<bool>,
    /// Most flows.
    pub max_entries: u32,
    /// Whether anything below is known.
    pub any_properties: bool,
    /// What flows can do.
    pub nonmiss: InstructionFeatures,
    /// What the table-miss flow can do.
    pub miss: InstructionFeatures,
    /// Fields that can be matched.
    pub match_fields: FieldSet,
    /// Of those, the ones that can be matched bit by bit.
    pub mask: FieldSet,
    /// Fields that can be left out of a match.
    pub wildcard: FieldSet,
}

/// Types of properties (`ofp13_table_feature_prop_type`); one more for the table-miss flow.
mod prop {
    pub(super) const INSTRUCTIONS: u16 = 0;
    pub(super) const NEXT_TABLES: u16 = 2;
    pub(super) const WRITE_ACTIONS: u16 = 4;
    pub(super) const APPLY_ACTIONS: u16 = 6;
    pub(super) const MATCH: u16 = 8;
    pub(super) const WILDCARDS: u16 = 10;
    pub(super) const WRITE_SET_FIELD: u16 = 12;
    pub(super) const APPLY_SET_FIELD: u16 = 14;
    /// The properties that a message with any must have.
    pub(super) const REQUIRED: u16 = 0b0101_0101_0101_0101;
}

/// Capability bit: flows can be evicted.
const EVICTION: u32 = 1 << 2;
/// Capability bit: vacancy events are supported.
const VACANCY_EVENTS: u32 = 1 << 3;

fn known_actions(bits: u32, version: Version) -> u32 {
    bits & action_types(version).iter().fold(0, |mask, (number, _)| mask | 1 << number)
}

fn known_instructions(bits: u32, version: Version) -> u32 {
    let meter =
        |instruction: &Instruction| *instruction != Instruction::Meter || version >= Version::V13;
    let all = Instruction::ALL.iter().filter(|instruction| meter(instruction));
    bits & all.fold(0, |mask, instruction| mask | 1 << instruction.number())
}

fn put_numbers(out: &mut Vec<u8>, kind: u16, bits: u32) {
    let start = property::start(out, property::Kind::standard(kind));
    for number in (0..32u16).filter(|number| bits >> number & 1 != 0) {
        out.put_u16(number);
        out.put_u16(4);
    }
    property::end(out, start);
}

/// Reads a list of types, each with a length.
fn read_numbers(mut body: Reader<'_>) -> Result<Vec<u16>, OfError> {
    let mut numbers = Vec::new();
    while !body.is_empty() {
        let mut header = body.clone();
        let (number, len) = (header.u16()?, usize::from(header.u16()?));
        body.sub(len)?.skip(4)?;
        numbers.push(number);
    }
    Ok(numbers)
}

fn put_fields(out: &mut Vec<u8>, kind: u16, fields: FieldSet, masked: FieldSet, version: Version) {
    let start = property::start(out, property::Kind::standard(kind));
    for field in fields.iter() {
        let header = field.oxm_header(Some(version), masked.contains(field), field.bytes());
        header.iter().for_each(|header| header.put(out));
    }
    property::end(out, start);
}

/// Reads field headers: those without and those with a mask.
fn read_fields(mut body: Reader<'_>, loose: bool) -> Result<(FieldSet, FieldSet), OfError> {
    let (mut exact, mut masked) = (FieldSet::default(), FieldSet::default());
    body = body.with_error(OfError::BadMatchLen);
    while !body.is_empty() {
        let (header, field) = oxm::read_header(&mut body, None)?;
        match field {
            Ok(field) if header.has_mask => masked.insert(field),
            Ok(field) => exact.insert(field),
            Err(OfError::BadMatchField) if loose => {}
            Err(error) => return Err(error),
        }
    }
    Ok((exact, masked))
}

fn read_exact_fields(body: Reader<'_>, loose: bool) -> Result<FieldSet, OfError> {
    let (exact, masked) = read_fields(body, loose)?;
    if masked.is_empty() { Ok(exact) } else { Err(OfError::BadMatchMask) }
}

impl InstructionFeatures {
    fn put(&self, out: &mut Vec<u8>, miss: u16, version: Version) {
        put_numbers(out, prop::INSTRUCTIONS + miss, known_instructions(self.instructions, version));
        let start = property::start(out, property::Kind::standard(prop::NEXT_TABLES + miss));
        self.next_tables().for_each(|table| out.put_u8(table));
        property::end(out, start);
        let kinds = [
            (&self.write, prop::WRITE_ACTIONS, prop::WRITE_SET_FIELD),
            (&self.apply, prop::APPLY_ACTIONS, prop::APPLY_SET_FIELD),
        ];
        for (features, actions, set_fields) in kinds {
            put_numbers(out, actions + miss, known_actions(features.actions, version));
            let none = FieldSet::default();
            put_fields(out, set_fields + miss, features.set_fields, none, version);
        }
    }

    fn read(
        &mut self,
        kind: u16,
        body: Reader<'_>,
        loose: bool,
        version: Version,
    ) -> Result<(), OfError> {
        let actions = |body| {
            let numbers = read_numbers(body)?;
            let bits = numbers.iter().filter(|n| **n < 32).fold(0, |bits, n| bits | 1 << n);
            Ok::<u32, OfError>(known_actions(bits, version))
        };
        match kind {
            prop::INSTRUCTIONS => {
                for number in read_numbers(body)? {
                    let mut known = Instruction::ALL.iter().map(|known| known.number());
                    match known.any(|known| known == number) {
                        true => self.instructions |= 1 << number,
                        false if loose => {}
                        false => return Err(OfError::BadInstructionUnknownInst),
                    }
                }
            }
            prop::NEXT_TABLES => {
                for table in body.rest() {
                    if *table == u8::MAX {
                        return Err(OfError::BadPropertyValue);
                    }
                    self.add_next_table(*table);
                }
            }
            prop::WRITE_ACTIONS => self.write.actions = actions(body)?,
            prop::APPLY_ACTIONS => self.apply.actions = actions(body)?,
            prop::WRITE_SET_FIELD => self.write.set_fields = read_exact_fields(body, loose)?,
            _ => self.apply.set_fields = read_exact_fields(body, loose)?,
        }
        Ok(())
    }

    /// Takes over from `other` what no property said for the table-miss flow.
    fn complete(&mut self, seen: u16, other: &InstructionFeatures) {
        let missing = |kind: u16| seen >> (kind + 1) & 1 == 0;
        if missing(prop::INSTRUCTIONS) {
            self.instructions = other.instructions;
        }
        if missing(prop::NEXT_TABLES) {
            self.next_tables = other.next_tables;
        }
        if missing(prop::WRITE_ACTIONS) {
            self.write.actions = other.write.actions;
        }
        if missing(prop::APPLY_ACTIONS) {
            self.apply.actions = other.apply.actions;
        }
        if missing(prop::WRITE_SET_FIELD) {
            self.write.set_fields = other.write.set_fields;
        }
        if missing(prop::APPLY_SET_FIELD) {
            self.apply.set_fields = other.apply.set_fields;
        }
    }
}

impl TableFeatures {
    /// Takes over what is in properties.
    pub(crate) fn copy_properties(&mut self, from: &TableFeatures) {
        self.any_properties = from.any_properties;
        (self.nonmiss, self.miss) = (from.nonmiss, from.miss);
        (self.match_fields, self.mask, self.wildcard) =
            (from.match_fields, from.mask, from.wildcard);
    }

    /// Whether the table can do all that `other` can.
    pub(crate) fn is_superset_of(&self, other: &TableFeatures) -> bool {
        other.metadata_match & !self.metadata_match == 0
            && other.metadata_write & !self.metadata_write == 0
            && self.max_entries >= other.max_entries
            && self.eviction >= other.eviction
            && self.vacancy_events >= other.vacancy_events
            && self.nonmiss.is_superset_of(&other.nonmiss)
            && self.miss.is_superset_of(&other.miss)
            && self.match_fields.is_superset_of(&other.match_fields)
            && self.mask.is_superset_of(&other.mask)
            && self.wildcard.is_superset_of(&other.wildcard)
    }

    /// Appends the table to table features replies; `false` when no message can hold it.
    pub fn append(&self, replies: &mut Replies, version: Version) -> bool {
        let command = if version >= Version::V15 { self.command as u8 } else { 0 };
        let mut out = vec![0, 0, self.table_id, command, 0, 0, 0, 0];
        put_text_field(&mut out, &self.name, NAME_LEN);
        out.put_u64(self.metadata_match);
        out.put_u64(self.metadata_write);
        let capability = |has: Option<bool>, bit| if has == Some(true) { bit } else { 0 };
        let capabilities =
            capability(self.eviction, EVICTION) | capability(self.vacancy_events, VACANCY_EVENTS);
        out.put_u32(if version >= Version::V14 { capabilities } else { 0 });
        out.put_u32(self.max_entries);
        if self.any_properties {
            self.nonmiss.put(&mut out, 0, version);
            self.miss.put(&mut out, 1, version);
            put_fields(&mut out, prop::MATCH, self.match_fields, self.mask, version);
            let none = FieldSet::default();
            put_fields(&mut out, prop::WILDCARDS, self.wildcard, none, version);
        }
        let Ok(len) = u16::try_from(out.len()) else { return false };
        patch_u16(&mut out, 0, len);
        replies.push(&out)
    }

    /// Reads the tables of a request or reply, skipping what is not understood when `loose`.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(
        raw: &Raw<'_>,
        version: Version,
        loose: bool,
    ) -> Result<Vec<TableFeatures>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadPropertyLen);
        let mut tables = Vec::new();
        while !body.is_empty() {
            let len = usize::from(body.peek_u16()?);
            if len % 8 != 0 {
                return Err(OfError::BadPropertyLen);
            }
            tables.push(TableFeatures::read(body.sub(len)?, version, loose)?);
        }
        Ok(tables)
    }

    fn read(mut body: Reader<'_>, version: Version, loose: bool) -> Result<TableFeatures, OfError> {
        body.skip(2)?;
        let (table_id, command) = (body.u8()?, body.u8()?);
        body.skip(4)?;
        let name = text_field(body.bytes(NAME_LEN - 1)?);
        body.skip(1)?;
        let (metadata_match, metadata_write) = (body.u64()?, body.u64()?);
        let (capabilities, max_entries) = (body.u32()?, body.u32()?);
        let command = match command {
            _ if version < Version::V15 => TableFeaturesCommand::Replace,
            0 => TableFeaturesCommand::Replace,
            1 => TableFeaturesCommand::Modify,
            2 => TableFeaturesCommand::Enable,
            3 => TableFeaturesCommand::Disable,
            _ => return Err(OfError::TableFeaturesBadCommand),
        };
        if table_id == u8::MAX {
            return Err(OfError::TableFeaturesBadTable);
        }
        let capability = |bit| (version >= Version::V14).then_some(capabilities & bit != 0);
        let mut features = TableFeatures {
            table_id,
            command,
            name,
            metadata_match,
            metadata_write,
            eviction: capability(EVICTION),
            vacancy_events: capability(VACANCY_EVENTS),
            max_entries,
            any_properties: !body.is_empty(),
            ..TableFeatures::default()
        };
        let seen = features.read_properties(body, version, loose)?;
        let any = features.any_properties;
        if seen & prop::REQUIRED != prop::REQUIRED && (any || version < Version::V15) {
            return Err(OfError::TableFeaturesBadFeatures);
        }
        if any {
            features.miss.complete(seen, &features.nonmiss);
        }
        let TableFeatures { match_fields, mask, wildcard, .. } = &features;
        let (matched, wild) = (*match_fields, *wildcard);
        let mask = *mask;
        features.match_fields = FieldSet::of(|f| matched.contains(f) || mask.contains(f));
        let matched = features.match_fields;
        features.wildcard =
            FieldSet::of(|f| matched.contains(f) && (wild.contains(f) || mask.contains(f)));
        Ok(features)
    }

    /// Returns a bit for each property found.
    fn read_properties(
        &mut self,
        mut body: Reader<'_>,
        version: Version,
        loose: bool,
    ) -> Result<u16, OfError> {
        let mut seen = 0u16;
        while !body.is_empty() {
            let property = property::read(&mut body)?;
            let numbers = (0..16u16).filter(|number| !matches!(number, 9 | 11));
            let mut known = numbers.filter(|n| property.kind == property::Kind::standard(*n));
            let Some(number) = known.next() else {
                if loose {
                    continue;
                }
                return Err(property.unknown());
            };
            if seen >> number & 1 != 0 {
                return Err(OfError::TableFeaturesBadFeatures);
            }
            seen |= 1 << number;
            match number {
                prop::MATCH => {
                    (self.match_fields, self.mask) = read_fields(property.body, loose)?;
                }
                prop::WILDCARDS => self.wildcard = read_exact_fields(property.body, loose)?,
                _ => {
                    let part = if number & 1 == 0 { &mut self.nonmiss } else { &mut self.miss };
                    part.read(number & !1, property.body, loose, version)?;
                }
            }
        }
        Ok(seen)
    }
}

/// The statistics of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TableStats {
    /// The table.
    pub table_id: u8,
    /// Flows.
    pub active_count: u32,
    /// Packets looked up.
    pub lookup_count: u64,
    /// Packets that a flow matched.
    pub matched_count: u64,
}

impl TableStats {
    /// The kind of replies.
    pub fn reply_kind(version: Version) -> Kind {
        match version {
            Version::V10 => Kind::TableStatsReply10,
            Version::V11 => Kind::TableStatsReply11,
            Version::V12 => Kind::TableStatsReply12,
            _ => Kind::TableStatsReply13,
        }
    }

    /// Appends the table to replies, before OpenFlow 1.3 with its features.
    pub fn append(
        &self,
        features: &TableFeatures,
        replies: &mut Replies,
        version: Version,
    ) -> bool {
        let mut out = vec![self.table_id, 0, 0, 0];
        let f = features;
        let (write, apply) = (&f.nonmiss.write, &f.nonmiss.apply);
        let actions = |features: &ActionFeatures| known_actions(features.actions, version);
        let instructions = known_instructions(f.nonmiss.instructions, version);
        let wild =
            FieldSet::of(|field| !f.match_fields.contains(field) || f.wildcard.contains(field));
        let bits = |set: &FieldSet, table: &[(u32, &str)]| set.bits(table).fold(0, |a, b| a | b);
        match version {
            Version::V10 => {
                put_text_field(&mut out, &f.name, NAME_LEN);
                out.put_u32(bits(&wild, &WILDCARDS_10));
            }
            Version::V11 => {
                out.put_u32(0);
                put_text_field(&mut out, &f.name, NAME_LEN);
                out.put_u32(bits(&wild, &WILDCARDS_11));
                out.put_u32(bits(&f.match_fields, &WILDCARDS_11));
                out.put_u32(instructions);
                out.put_u32(actions(write));
                out.put_u32(actions(apply));
                // Open vSwitch sends its own numbers here: 0 stands for the default.
                out.put_u32(f.miss_config.map_or(0, |miss| miss as u32 + 1));
            }
            Version::V12 => {
                out.put_u32(0);
                put_text_field(&mut out, &f.name, NAME_LEN);
                out.put_u64(f.match_fields.basic(version));
                out.put_u64(f.wildcard.basic(version));
                out.put_u32(actions(write));
                out.put_u32(actions(apply));
                out.put_u64(write.set_fields.basic(version));
                out.put_u64(apply.set_fields.basic(version));
                out.put_u64(f.metadata_match);
                out.put_u64(f.metadata_write);
                out.put_u32(instructions);
                out.put_u32(f.miss_config.unwrap_or_default() as u32);
            }
            _ => {}
        }
        if version < Version::V13 {
            out.put_u32(f.max_entries);
        }
        out.put_u32(self.active_count);
        out.put_u64(self.lookup_count);
        out.put_u64(self.matched_count);
        replies.push(&out)
    }

    /// Reads the tables of a reply, with what it says about their features.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(
        raw: &Raw<'_>,
        version: Version,
    ) -> Result<Vec<(TableStats, TableFeatures)>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut tables = Vec::new();
        while !body.is_empty() {
            let table_id = body.u8()?;
            body.skip(if matches!(version, Version::V11 | Version::V12) { 7 } else { 3 })?;
            let mut features = TableFeatures { table_id, ..TableFeatures::default() };
            features.read_stats(&mut body, version)?;
            let stats = TableStats {
                table_id,
                active_count: body.u32()?,
                lookup_count: body.u64()?,
                matched_count: body.u64()?,
            };
            tables.push((stats, features));
        }
        Ok(tables)
    }
}

impl TableFeatures {
    fn read_stats(&mut self, body: &mut Reader<'_>, version: Version) -> Result<(), OfError> {
        if version >= Version::V13 {
            return Ok(());
        }
        self.name = text_field(body.bytes(NAME_LEN - 1)?);
        body.skip(1)?;
        let (write, apply);
        match version {
            Version::V10 => {
                self.match_fields = FieldSet::from_bits(body.u32()?, &WILDCARDS_10);
                self.wildcard = self.match_fields;
                self.max_entries = body.u32()?;
                return Ok(());
            }
            Version::V11 => {
                self.wildcard = FieldSet::from_bits(body.u32()?, &WILDCARDS_11);
                self.match_fields = FieldSet::from_bits(body.u32()?, &WILDCARDS_11);
                self.nonmiss.instructions = known_instructions(body.u32()?, version);
                // As Open vSwitch does, the second is taken from the first.
                write = body.u32()?;
                body.skip(4)?;
                apply = write;
            }
            _ => {
                self.match_fields = FieldSet::from_basic(body.u64()?, version);
                self.wildcard = FieldSet::from_basic(body.u64()?, version);
                (write, apply) = (body.u32()?, body.u32()?);
                self.nonmiss.write.set_fields = FieldSet::from_basic(body.u64()?, version);
                self.nonmiss.apply.set_fields = FieldSet::from_basic(body.u64()?, version);
                (self.metadata_match, self.metadata_write) = (body.u64()?, body.u64()?);
                self.nonmiss.instructions = known_instructions(body.u32()?, version);
            }
        }
        self.nonmiss.write.actions = known_actions(write, version);
        self.nonmiss.apply.actions = known_actions(apply, version);
        self.miss = self.nonmiss;
        self.miss_config = Some(TableMiss::from_wire(body.u32()?));
        self.max_entries = body.u32()?;
        let (matched, wild) = (self.match_fields, self.wildcard);
        self.match_fields = FieldSet::of(|f| matched.contains(f) || wild.contains(f));
        Ok(())
    }
}
