//! Statistics and features of groups, and the requests for them.

use bytes::BufMut;

use super::super::error::OfError;
use super::super::header;
use super::super::kind::{Kind, Raw, Replies};
use super::super::version::Version;
use super::super::wire::{Reader, patch_u16};
use super::group::GROUP_ALL;

/// The group that a request for statistics or descriptions asks for, `GROUP_ALL` for all.
///
/// # Errors
/// `BadRequestLen`, never for a message that `Raw` has accepted.
pub fn decode_group_request(raw: &Raw<'_>) -> Result<u32, OfError> {
    match raw.kind {
        Kind::GroupDescStatsRequest11 => Ok(GROUP_ALL),
        _ => Reader::new(raw.body, OfError::BadRequestLen).u32(),
    }
}

/// The request for the statistics of a group.
pub fn encode_group_stats_request(group: u32, version: Version, xid: u32) -> Vec<u8> {
    let kind = match version {
        Version::V10 => Kind::NxGroupStatsRequest,
        _ => Kind::GroupStatsRequest11,
    };
    encode_group_request(kind, group, version, xid)
}

/// The request for the description of a group; from OpenFlow 1.1 to 1.4 of all groups.
pub fn encode_group_desc_request(group: u32, version: Version, xid: u32) -> Vec<u8> {
    let kind = match version {
        Version::V10 => Kind::NxGroupDescStatsRequest,
        Version::V15 => Kind::GroupDescStatsRequest15,
        _ => Kind::GroupDescStatsRequest11,
    };
    encode_group_request(kind, group, version, xid)
}

fn encode_group_request(kind: Kind, group: u32, version: Version, xid: u32) -> Vec<u8> {
    let mut out = kind.start(version, xid);
    if kind != Kind::GroupDescStatsRequest11 {
        out.put_u32(group);
        out.put_u32(0);
    }
    header::finish(out)
}

/// The statistics of a group.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GroupStats {
    /// The group.
    pub group_id: u32,
    /// Flows and groups that use the group.
    pub ref_count: u32,
    /// Packets.
    pub packet_count: u64,
    /// Bytes.
    pub byte_count: u64,
    /// Whole seconds since the group was added; from OpenFlow 1.3 on, else all ones.
    pub duration_sec: u32,
    /// Nanoseconds beyond them.
    pub duration_nsec: u32,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

impl GroupStats {
    /// The kind of replies.
    pub fn reply_kind(version: Version) -> Kind {
        match version {
            Version::V10 => Kind::NxGroupStatsReply,
            Version::V11 | Version::V12 => Kind::GroupStatsReply11,
            _ => Kind::GroupStatsReply13,
        }
    }

    /// Appends the group to replies; `false` when no message can hold it.
    pub fn append(&self, replies: &mut Replies, version: Version) -> bool {
        let mut out = vec![0; 4];
        out.put_u32(self.group_id);
        out.put_u32(self.ref_count);
        out.put_u32(0);
        out.put_u64(self.packet_count);
        out.put_u64(self.byte_count);
        if GroupStats::reply_kind(version) != Kind::GroupStatsReply11 {
            out.put_u32(self.duration_sec);
            out.put_u32(self.duration_nsec);
        }
        for (packets, bytes) in &self.buckets {
            out.put_u64(*packets);
            out.put_u64(*bytes);
        }
        let Ok(len) = u16::try_from(out.len()) else { return false };
        patch_u16(&mut out, 0, len);
        replies.push(&out)
    }

    /// Reads the groups of a reply.
    ///
    /// # Errors
    /// The error that Open vSwitch reports.
    pub fn decode(raw: &Raw<'_>) -> Result<Vec<GroupStats>, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut groups = Vec::new();
        while !body.is_empty() {
            let len = usize::from(body.peek_u16()?);
            let mut group = body.sub(len)?;
            group.skip(4)?;
            let (group_id, ref_count) = (group.u32()?, group.u32()?);
            group.skip(4)?;
            let (packet_count, byte_count) = (group.u64()?, group.u64()?);
            let (duration_sec, duration_nsec) = match raw.kind {
                Kind::GroupStatsReply11 => (u32::MAX, u32::MAX),
                _ => (group.u32()?, group.u32()?),
            };
            let mut buckets = Vec::new();
            while !group.is_empty() {
                buckets.push((group.u64()?, group.u64()?));
            }
            groups.push(GroupStats {
                group_id,
                ref_count,
                packet_count,
                byte_count,
                duration_sec,
                duration_nsec,
                buckets,
            });
        }
        Ok(groups)
    }
}

/// What groups the switch can do. Arrays have an element for each
/// [`GroupType`](super::GroupType).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GroupFeatures {
    /// A bit for each type of group that is supported.
    pub types: u32,
    /// Bits of `ofp12_group_capabilities`.
    pub capabilities: u32,
    /// Most groups of each type.
    pub max_groups: [u32; 4],
    /// For each type of group, a bit for each action type of the version.
    pub actions: [u32; 4],
}

impl GroupFeatures {
    /// The kind of the reply.
    fn reply_kind(version: Version) -> Kind {
        match version {
            Version::V10 | Version::V11 => Kind::NxGroupFeaturesStatsReply,
            _ => Kind::GroupFeaturesStatsReply12,
        }
    }

    /// Encodes the reply.
    pub fn encode(&self, version: Version, xid: u32) -> Vec<u8> {
        let mut out = GroupFeatures::reply_kind(version).start(version, xid);
        out.put_u32(self.types);
        out.put_u32(self.capabilities);
        self.max_groups.iter().chain(&self.actions).for_each(|number| out.put_u32(*number));
        header::finish(out)
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// `BadRequestLen`, never for a message that `Raw` has accepted.
    pub fn decode(raw: &Raw<'_>) -> Result<GroupFeatures, OfError> {
        let mut body = Reader::new(raw.body, OfError::BadRequestLen);
        let mut features = GroupFeatures {
            types: body.u32()?,
            capabilities: body.u32()?,
            ..GroupFeatures::default()
        };
        let GroupFeatures { max_groups, actions, .. } = &mut features;
        for number in max_groups.iter_mut().chain(actions) {
            *number = body.u32()?;
        }
        Ok(features)
    }
}
