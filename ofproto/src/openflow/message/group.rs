//! Groups: modifications and descriptions.

use bytes::BufMut;

use super::super::action::{Action, DecodeContext, Instruction, put_actions, read_actions};
use super::super::error::OfError;
use super::super::field::Field;
use super::super::header;
use super::super::kind::{Kind, Raw, Replies};
use super::super::oxm;
use super::super::port::PortNo;
use super::super::property;
use super::super::value::Value;
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};
use super::flow_mod::GROUP_ANY;

/// The greatest number of a group.
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// All groups.
pub const GROUP_ALL: u32 = 0xffff_fffc;

/// Numbers of buckets in messages (`ofp15_group_bucket`).
pub mod bucket_id {
    /// The greatest number of a bucket.
    pub const MAX: u32 = 0xffff_ff00;
    /// Before the first bucket, or the first bucket.
    pub const FIRST: u32 = 0xffff_fffd;
    /// After the last bucket, or the last bucket.
    pub const LAST: u32 = 0xffff_fffe;
    /// All buckets; also in messages that name no bucket.
    pub const ALL: u32 = 0xffff_ffff;
}

/// What a group does (`ofp11_group_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GroupType {
    /// Executes all buckets.
    All = 0,
    /// Executes one bucket, chosen by a hash.
    Select = 1,
    /// Executes its only bucket.
    Indirect = 2,
    /// Executes the first live bucket.
    FastFailover = 3,
}

impl GroupType {
    fn from_wire(number: u8) -> Result<GroupType, OfError> {
        Ok(match number {
            0 => GroupType::All,
            1 => GroupType::Select,
            2 => GroupType::Indirect,
            3 => GroupType::FastFailover,
            _ => return Err(OfError::GroupModBadType),
        })
    }
}

/// What a group modification does (`ofp15_group_mod_command`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum GroupCommand {
    /// Add a group.
    Add = 0,
    /// Change a group.
    Modify = 1,
    /// Delete a group or all.
    Delete = 2,
    /// Insert buckets; from OpenFlow 1.5 on.
    InsertBucket = 3,
    /// Remove buckets; from OpenFlow 1.5 on.
    RemoveBucket = 5,
    /// Add a group or change it.
    AddOrModify = 0x8000,
}

impl GroupCommand {
    fn from_wire(number: u16) -> Result<GroupCommand, OfError> {
        Ok(match number {
            0 => GroupCommand::Add,
            1 => GroupCommand::Modify,
            2 => GroupCommand::Delete,
            3 => GroupCommand::InsertBucket,
            5 => GroupCommand::RemoveBucket,
            0x8000 => GroupCommand::AddOrModify,
            _ => return Err(OfError::GroupModBadCommand),
        })
    }
}

/// A bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Number in the group; before OpenFlow 1.5 the position in the message.
    pub bucket_id: u32,
    /// Weight in a select group.
    pub weight: u16,
    /// The port that must be live, or `NONE`.
    pub watch_port: PortNo,
    /// The group that must be live, or `GROUP_ANY`.
    pub watch_group: u32,
    /// The actions.
    pub actions: Vec<Action>,
}

impl Bucket {
    fn has_liveness(&self) -> bool {
        self.watch_port != PortNo::NONE || self.watch_group != GROUP_ANY
    }

    fn put_11(&self, out: &mut Vec<u8>, version: Version) {
        let start = out.len();
        out.put_u16(0);
        out.put_u16(self.weight);
        out.put_u32(self.watch_port.to_u32());
        out.put_u32(self.watch_group);
        out.put_u32(0);
        put_actions(out, &self.actions, version);
        let len = out.len() - start;
        patch_u16(out, start, len as u16);
    }

    fn put_15(&self, out: &mut Vec<u8>, group: GroupType, version: Version) {
        let start = out.len();
        out.put_u32(0);
        out.put_u32(self.bucket_id);
        put_actions(out, &self.actions, version);
        let actions_len = out.len() - start - 8;
        if group == GroupType::Select || self.weight != 0 {
            property::put_u16(out, bucket_prop::WEIGHT, self.weight);
        }
        if self.watch_port != PortNo::NONE {
            let port = self.watch_port.to_u32().to_be_bytes();
            property::put(out, bucket_prop::WATCH_PORT, &port);
        }
        if self.watch_group != GROUP_ANY {
            property::put(out, bucket_prop::WATCH_GROUP, &self.watch_group.to_be_bytes());
        }
        let len = out.len() - start;
        patch_u16(out, start, len as u16);
        patch_u16(out, start + 2, actions_len as u16);
    }

    fn read_11(
        bucket_id: u32,
        mut body: Reader<'_>,
        context: &DecodeContext<'_>,
    ) -> Result<Bucket, OfError> {
        body.skip(2)?;
        let (weight, watch_port, watch_group) = (body.u16()?, body.u32()?, body.u32()?);
        body.skip(4)?;
        let len = body.len();
        let actions = read_actions(&mut body, len, context, Instruction::ACTIONS)?;
        let watch_port = PortNo::from_u32(watch_port).map_err(|_| OfError::GroupModBadWatch)?;
        Ok(Bucket { bucket_id, weight, watch_port, watch_group, actions })
    }

    fn read_15(
        group: u8,
        mut body: Reader<'_>,
        context: &DecodeContext<'_>,
    ) -> Result<Bucket, OfError> {
        body.skip(2)?;
        let (actions_len, bucket_id) = (usize::from(body.u16()?), body.u32()?);
        let mut actions = body.sub(actions_len)?;
        let actions = read_actions(&mut actions, actions_len, context, Instruction::ACTIONS)?;
        let mut watch_port = PortNo::NONE.to_u32();
        let mut bucket = Bucket {
            bucket_id,
            weight: u16::from(group == GroupType::Select as u8),
            watch_port: PortNo::NONE,
            watch_group: GROUP_ANY,
            actions,
        };
        while !body.is_empty() {
            let mut property = property::read(&mut body)?;
            match property.kind {
                bucket_prop::WEIGHT => bucket.weight = property.u16()?,
                bucket_prop::WATCH_PORT => watch_port = property.u32()?,
                bucket_prop::WATCH_GROUP => bucket.watch_group = property.u32()?,
                _ => return Err(property.unknown()),
            }
        }
        bucket.watch_port = PortNo::from_u32(watch_port).map_err(|_| OfError::GroupModBadWatch)?;
        match bucket_id > bucket_id::MAX {
            true => Err(OfError::GroupModBadBucket),
            false => Ok(bucket),
        }
    }
}

/// Properties of a bucket (`ofp15_group_bucket_prop_type`).
mod bucket_prop {
    use super::property::Kind;

    pub(super) const WEIGHT: Kind = Kind::standard(0);
    pub(super) const WATCH_PORT: Kind = Kind::standard(1);
    pub(super) const WATCH_GROUP: Kind = Kind::standard(2);
}

fn has_bucket_ids(version: Version) -> bool {
    matches!(version, Version::V10 | Version::V15)
}

fn read_buckets(
    mut body: Reader<'_>,
    group: u8,
    context: &DecodeContext<'_>,
) -> Result<Vec<Bucket>, OfError> {
    let mut buckets: Vec<Bucket> = Vec::new();
    let with_ids = has_bucket_ids(context.version);
    body = body.with_error(OfError::GroupModBadBucket);
    while !body.is_empty() {
        let len = usize::from(body.peek_u16()?);
        let bucket = body.sub(len)?;
        buckets.push(match with_ids {
            true => Bucket::read_15(group, bucket, context)?,
            false => Bucket::read_11(buckets.len() as u32, bucket, context)?,
        });
    }
    let mut ids: Vec<u32> = buckets.iter().map(|bucket| bucket.bucket_id).collect();
    ids.sort_unstable();
    match ids.windows(2).any(|pair| pair.first() == pair.last()) {
        true => Err(OfError::GroupModBadBucket),
        false => Ok(buckets),
    }
}

/// How a select group chooses a bucket: Netronome's selection method property.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SelectionMethod {
    /// `hash`, `dp_hash`, or empty for the default.
    pub method: String,
    /// A parameter of the method.
    pub param: u64,
    /// The fields to hash, each with the bits that count.
    pub fields: Vec<(Field, Value)>,
}

/// Netronome's property and its vendor number before it had one of its own.
const SELECTION_METHOD: property::Kind = property::Kind::experimenter(0x154d, 1);
const SELECTION_METHOD_COMPAT: property::Kind = property::Kind::experimenter(0x1540, 1);
/// Bytes of the method's name with the zero byte at the end.
const METHOD_LEN: usize = 16;

impl SelectionMethod {
    fn put(&self, out: &mut Vec<u8>, version: Version) {
        if self.method.is_empty() {
            return;
        }
        let start = property::start(out, SELECTION_METHOD);
        out.put_u32(0);
        super::super::wire::put_text_field(out, self.method.as_bytes(), METHOD_LEN);
        out.put_u64(self.param);
        for (field, value) in &self.fields {
            oxm::put_entry(out, Some(version), *field, value, None, field.bytes());
        }
        property::end(out, start);
    }

    fn read(
        mut body: Reader<'_>,
        group: u8,
        command: GroupCommand,
    ) -> Result<SelectionMethod, OfError> {
        let mut found = SelectionMethod::default();
        while !body.is_empty() {
            let property = property::read(&mut body)?;
            if property.kind != SELECTION_METHOD && property.kind != SELECTION_METHOD_COMPAT {
                return Err(property.unknown());
            }
            let allowed = matches!(
                command,
                GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify
            );
            if GroupType::from_wire(group)? != GroupType::Select || !allowed {
                return Err(OfError::BadPropertyValue);
            }
            let mut value = property.body;
            value.skip(4)?;
            let method = value.bytes(METHOD_LEN)?;
            found.param = value.u64()?;
            let end = method.iter().position(|byte| *byte == 0);
            found.method = match end.and_then(|end| method.get(..end)) {
                Some(b"hash") => "hash".into(),
                Some(b"dp_hash") if value.is_empty() => "dp_hash".into(),
                _ => return Err(OfError::BadPropertyValue),
            };
            found.fields = oxm::read_field_array(value.with_error(OfError::BadMatchLen))?;
        }
        Ok(found)
    }
}

/// A group modification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupCommand,
    /// What the group does.
    pub group_type: GroupType,
    /// The group.
    pub group_id: u32,
    /// For insert-bucket and remove-bucket: where.
    pub command_bucket_id: u32,
    /// The buckets.
    pub buckets: Vec<Bucket>,
    /// How to choose a bucket.
    pub selection: SelectionMethod,
}

impl GroupMod {
    /// Reads a group modification. The actions of its buckets are still to be checked.
    ///
    /// # Errors
    /// The error that Open vSwitch replies with.
    pub fn decode(raw: &Raw<'_>, context: &DecodeContext<'_>) -> Result<GroupMod, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let (command, group_type) = (body.u16()?, body.u8()?);
        body.skip(1)?;
        let group_id = body.u32()?;
        let mut command_bucket_id = bucket_id::ALL;
        let mut selection = SelectionMethod::default();
        let buckets;
        if has_bucket_ids(context.version) {
            let len = usize::from(body.u16()?);
            body.skip(2)?;
            command_bucket_id = body.u32()?;
            check_command_bucket(command, command_bucket_id)?;
            buckets = read_buckets(body.sub(len)?, group_type, context)?;
            if !body.is_empty() {
                // An unknown property or type is reported before an unknown command.
                let known = GroupCommand::from_wire(command);
                selection =
                    SelectionMethod::read(body, group_type, known.unwrap_or(GroupCommand::Add))?;
                known?;
            }
        } else {
            buckets = read_buckets(body, group_type, context)?;
            let delete = command == GroupCommand::Delete as u16;
            if context.version >= Version::V13 && delete && !buckets.is_empty() {
                return Err(OfError::GroupModInvalidGroup);
            }
        }
        let group_type = GroupType::from_wire(group_type)?;
        let indirect = group_type == GroupType::Indirect;
        if indirect && command != GroupCommand::Delete as u16 && buckets.len() != 1 {
            return Err(OfError::GroupModInvalidGroup);
        }
        let command = GroupCommand::from_wire(command)?;
        let group_mod =
            GroupMod { command, group_type, group_id, command_bucket_id, buckets, selection };
        group_mod.check_buckets()?;
        Ok(group_mod)
    }

    fn check_buckets(&self) -> Result<(), OfError> {
        if self.command == GroupCommand::RemoveBucket && !self.buckets.is_empty() {
            return Err(OfError::GroupModBadBucket);
        }
        for bucket in &self.buckets {
            let weighted = bucket.weight != 0 && self.group_type != GroupType::Select;
            if weighted && self.command != GroupCommand::InsertBucket {
                return Err(OfError::GroupModInvalidGroup);
            }
            match self.group_type {
                GroupType::All | GroupType::Indirect if bucket.has_liveness() => {
                    return Err(OfError::GroupModWatchUnsupported);
                }
                GroupType::FastFailover if !bucket.has_liveness() => {
                    return Err(OfError::GroupModInvalidGroup);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Encodes the message. Before OpenFlow 1.5 commands on buckets cannot be sent; the caller
    /// must have turned them into a modify with all buckets.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let kind = match version {
            Version::V10 => Kind::NxGroupMod,
            Version::V15 => Kind::GroupMod15,
            _ => Kind::GroupMod11,
        };
        let mut out = kind.start(version, xid);
        out.put_u16(self.command as u16);
        out.put_slice(&[self.group_type as u8, 0]);
        out.put_u32(self.group_id);
        if has_bucket_ids(version) {
            let len_place = out.len();
            out.put_u32(0);
            out.put_u32(self.command_bucket_id);
            let start = out.len();
            for bucket in &self.buckets {
                bucket.put_15(&mut out, self.group_type, version);
            }
            let len = out.len() - start;
            patch_u16(&mut out, len_place, len as u16);
            self.selection.put(&mut out, version);
        } else {
            self.buckets.iter().for_each(|bucket| bucket.put_11(&mut out, version));
        }
        header::finish(out)
    }
}

fn check_command_bucket(command: u16, id: u32) -> Result<(), OfError> {
    let one = id <= bucket_id::MAX || id == bucket_id::FIRST || id == bucket_id::LAST;
    let valid = match GroupCommand::from_wire(command) {
        Ok(GroupCommand::RemoveBucket) => one || id == bucket_id::ALL,
        Ok(GroupCommand::InsertBucket) => one,
        _ => id == bucket_id::ALL,
    };
    if valid { Ok(()) } else { Err(OfError::GroupModBadBucket) }
}

/// The description of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDesc {
    /// What the group does.
    pub group_type: GroupType,
    /// The group.
    pub group_id: u32,
    /// The buckets.
    pub buckets: Vec<Bucket>,
    /// How to choose a bucket.
    pub selection: SelectionMethod,
}

impl GroupDesc {
    /// The kind of replies.
    pub fn reply_kind(version: Version) -> Kind {
        match version {
            Version::V10 => Kind::NxGroupDescStatsReply,
            _ => Kind::GroupDescStatsReply11,
        }
    }

    /// Appends the group to replies; `false` when no message can hold it.
    pub fn append(&self, replies: &mut Replies, version: Version) -> bool {
        let mut out = vec![0, 0, self.group_type as u8, 0];
        out.put_u32(self.group_id);
        if has_bucket_ids(version) {
            out.put_bytes(0, 8);
            let start = out.len();
            for bucket in &self.buckets {
                bucket.put_15(&mut out, self.group_type, version);
            }
            let len = out.len() - start;
            patch_u16(&mut out, 8, len as u16);
            self.selection.put(&mut out, version);
        } else {
            self.buckets.iter().for_each(|bucket| bucket.put_11(&mut out, version));
        }
        let Ok(len) = u16::try_from(out.len()) else { return false };
        patch_u16(&mut out, 0, len);
        replies.push(&out)
    }

    /// Reads the groups of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>, context: &DecodeContext<'_>) -> Result<Vec<GroupDesc>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut groups = Vec::new();
        while !body.is_empty() {
            let len = usize::from(body.peek_u16()?);
            let mut group = body.sub(len)?;
            group.skip(2)?;
            let number = group.u8()?;
            group.skip(1)?;
            let group_id = group.u32()?;
            let mut selection = SelectionMethod::default();
            let buckets = if has_bucket_ids(context.version) {
                let len = usize::from(group.u16()?);
                group.skip(6)?;
                let buckets = read_buckets(group.sub(len)?, number, context)?;
                selection = SelectionMethod::read(group, number, GroupCommand::Add)?;
                buckets
            } else {
                read_buckets(group, number, context)?
            };
            let group_type = GroupType::from_wire(number)?;
            groups.push(GroupDesc { group_type, group_id, buckets, selection });
        }
        Ok(groups)
    }
}
