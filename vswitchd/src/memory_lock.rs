//! Keeping the memory of the process from being paged out.

use rustix::mm::{MlockAllFlags, mlockall};
use tracing::error;

use crate::errno;

/// Locks all memory of the process, now and in future. Pages are locked when they are first used,
/// unless the kernel is too old for that (before 4.4). A failure is logged.
pub fn lock_all() {
    let all = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE;
    if let Err(errno) = mlockall(all | MlockAllFlags::ONFAULT).or_else(|_| mlockall(all)) {
        error!(target: "vswitchd", "mlockall failed: {}", errno::text(&errno.into()));
    }
}
