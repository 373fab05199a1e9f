//! Running as another user, without the powers of root that a switch does not need.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::process::{Gid, Uid, geteuid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use thiserror::Error;
use tracing::warn;

use crate::errno;

/// Where users and groups are looked up; other sources, such as LDAP, are not asked.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// Why the process cannot run as the user asked for.
#[derive(Debug, Error)]
pub enum UserError {
    /// This process is not root's.
    #[error("only root can use --user option")]
    NotRoot,
    /// There is no such user.
    #[error("user {0} not found, aborting.")]
    UnknownUser(String),
    /// There is no such group.
    #[error("group {0} not found, aborting.")]
    UnknownGroup(String),
    /// The user is not a member of the group.
    #[error("Invalid --user option {spec} (user {user} is not in group {group}), aborting.")]
    NotMember {
        /// The value of the option.
        spec: String,
        /// The user.
        user: String,
        /// The group.
        group: String,
    },
    /// A file of users or groups, or the log file, cannot be used.
    #[error("{path}: {reason}", path = path.display(), reason = errno::text(reason))]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The system refuses the change.
    #[error("fail to switch to user and group {uid}:{gid}, aborting ({reason})",
            reason = errno::text(reason))]
    Switch {
        /// The user's number.
        uid: u32,
        /// The group's number.
        gid: u32,
        /// What the system said.
        reason: io::Error,
    },
}

/// Makes this process that of the user and group in `spec`, `USER[:GROUP]`. Of root's
/// capabilities it keeps those that a switch needs and, with `raw_io`, that of direct access to
/// hardware; programs that it starts have them too. The log file is created for the user.
///
/// Must be called before other threads exist, as only the calling one changes.
///
/// # Errors
/// [`UserError`]
pub(super) fn switch(spec: &str, raw_io: bool, log_file: Option<&Path>) -> Result<(), UserError> {
    if !getuid().is_root() || !geteuid().is_root() {
        return Err(UserError::NotRoot);
    }
    let read = |path: &str| {
        fs::read_to_string(path)
            .map_err(|reason| UserError::File { path: PathBuf::from(path), reason })
    };
    let account = find(spec, &read(USERS)?, &read(GROUPS)?)?;
    if let Some(path) = log_file {
        give_file(path, account)
            .map_err(|reason| UserError::File { path: path.to_owned(), reason })?;
    }
    become_account(account, raw_io).map_err(|errno| UserError::Switch {
        uid: account.uid,
        gid: account.gid,
        reason: errno.into(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Account {
    uid: u32,
    gid: u32,
}

/// Finds the account for `USER[:GROUP]` in the texts of [`USERS`] and [`GROUPS`]. Without a user
/// it is root's; without a group it is the user's own.
fn find(spec: &str, users: &str, groups: &str) -> Result<Account, UserError> {
    let (user, group) = spec.split_once(':').unwrap_or((spec, ""));
    let (user, group) = (user.trim(), group.trim());
    let user = if user.is_empty() { "root" } else { user };

    // Lines such as "name:password:uid:gid:comment:home:shell".
    let account = entry(users, user)
        .and_then(|fields| {
            let uid = fields.get(2)?.parse().ok()?;
            Some(Account { uid, gid: fields.get(3)?.parse().ok()? })
        })
        .ok_or_else(|| UserError::UnknownUser(user.to_owned()))?;
    if group.is_empty() {
        return Ok(account);
    }
    // Lines such as "name:password:gid:member,member".
    let (gid, is_member) = entry(groups, group)
        .and_then(|fields| {
            let members = fields.get(3).copied().unwrap_or_default();
            let gid: u32 = fields.get(2)?.parse().ok()?;
            Some((gid, members.split(',').any(|member| member == user)))
        })
        .ok_or_else(|| UserError::UnknownGroup(group.to_owned()))?;
    if gid != account.gid && !is_member {
        return Err(UserError::NotMember {
            spec: spec.to_owned(),
            user: user.to_owned(),
            group: group.to_owned(),
        });
    }
    Ok(Account { gid, ..account })
}

/// The fields of the line that starts with `name`.
fn entry<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    text.lines()
        .map(|line| line.split(':').collect())
        .find(|fields: &Vec<&str>| fields.first() == Some(&name))
}

/// Lets the account write to a file in a directory where it may not create one.
fn give_file(path: &Path, account: Account) -> io::Result<()> {
    let file: File = OpenOptions::new().append(true).create(true).mode(0o660).open(path)?;
    fchown(&file, Some(account.uid), Some(account.gid))
}

fn become_account(account: Account, raw_io: bool) -> rustix::io::Result<()> {
    let mut wanted = CapabilitySet::IPC_LOCK
        | CapabilitySet::NET_ADMIN
        | CapabilitySet::NET_BIND_SERVICE
        | CapabilitySet::NET_BROADCAST
        | CapabilitySet::NET_RAW
        | CapabilitySet::SYS_NICE;
    if raw_io {
        wanted |= CapabilitySet::SYS_RAWIO;
    }
    // Root in a container may have few.
    let kept = wanted & capabilities(None)?.permitted;
    for (name, _) in wanted.difference(kept).iter_names() {
        warn!(target: "daemon_unix", "CAP_{name} is not available to this process");
    }

    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    let (gid, uid) = (Gid::from_raw(account.gid), Uid::from_raw(account.uid));
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    set_capabilities(None, sets)?;
    for capability in kept.iter() {
        configure_capability_in_ambient_set(capability, true)?;
    }
    set_no_new_privs(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n\
                         broken:x\n\
                         sluice:x:120:121:switch:/nonexistent:/usr/sbin/nologin\n";
    const GROUPS: &str = "root:x:0:\nsluice:x:121:\nhugetlb:x:130:other,sluice\nwheel:x:10\n";

    #[test]
    fn users_and_groups_are_found() {
        for (spec, uid, gid) in [
            ("sluice", 120, 121),
            ("sluice:", 120, 121),
            (" sluice : hugetlb ", 120, 130),
            ("sluice:sluice", 120, 121),
            (":root", 0, 0),
            ("", 0, 0),
        ] {
            assert_eq!(find(spec, USERS, GROUPS).unwrap(), Account { uid, gid }, "{spec:?}");
        }
        for (spec, want) in [
            ("nobody", "user nobody not found, aborting."),
            ("broken", "user broken not found, aborting."),
            ("sluice:none", "group none not found, aborting."),
            (
                "sluice:wheel",
                "Invalid --user option sluice:wheel (user sluice is not in group wheel), aborting.",
            ),
        ] {
            assert_eq!(find(spec, USERS, GROUPS).unwrap_err().to_string(), want);
        }
    }
}
