//! What other controllers are told of changes of groups and meters (OpenFlow 1.5, section 7.4.6).

use crate::group::GroupChange;
use crate::openflow::message::{Bucket, GroupCommand, GroupMod, MeterMod, encode_request_forward};
use crate::openflow::version::Version;

/// What was done to groups or meters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forward {
    /// Groups changed.
    Group {
        /// How.
        group_mod: GroupMod,
        /// The buckets of the group afterwards, if there is one.
        buckets: Option<Vec<Bucket>>,
        /// Whether there was such a group before.
        existed: bool,
    },
    /// Meters changed.
    Meter(MeterMod),
}

/// Whether a command is about buckets of a group that is otherwise left as it is.
fn is_of_buckets(command: GroupCommand) -> bool {
    matches!(command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket)
}

impl Forward {
    /// Of a change of groups.
    pub(super) fn group(mut group_mod: GroupMod, change: &GroupChange) -> Self {
        if let Some(new) = &change.new
            && is_of_buckets(group_mod.command)
        {
            group_mod.group_type = new.group_type;
            group_mod.selection.clone_from(&new.selection);
        }
        let new = change.new.as_ref();
        let buckets = new.map(|group| group.buckets.iter().map(|b| b.bucket.clone()).collect());
        Self::Group { group_mod, buckets, existed: !change.old.is_empty() }
    }

    /// The message for a controller that speaks `version`, about a request with transaction id
    /// `xid`; `None` if the version cannot say it.
    pub fn message(&self, version: Version, xid: u32) -> Option<Vec<u8>> {
        let request = match self {
            Self::Group { group_mod, buckets, existed } => {
                let mut group_mod = group_mod.clone();
                let has_bucket_commands = matches!(version, Version::V10 | Version::V15);
                if is_of_buckets(group_mod.command) && !has_bucket_commands {
                    group_mod.command = GroupCommand::Modify;
                    group_mod.buckets = buckets.clone().unwrap_or_default();
                }
                if group_mod.command == GroupCommand::AddOrModify {
                    group_mod.command =
                        if *existed { GroupCommand::Modify } else { GroupCommand::Add };
                }
                group_mod.encode(version, xid)
            }
            Self::Meter(_) if version < Version::V13 => return None,
            Self::Meter(meter_mod) => meter_mod.encode(version, xid),
        };
        Some(encode_request_forward(&request, version, 0))
    }
}
