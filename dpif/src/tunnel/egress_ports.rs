//! The UDP ports that tunnels send from. Which of them a packet is sent from tells the flow inside
//! to whoever spreads packets over paths or queues (RFC 7348, section 5).

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first and the last port, as upper and lower half.
static RANGE: AtomicU32 = AtomicU32::new(32_768 << 16 | 61_000);

/// The ports of all datapaths.
pub fn range() -> RangeInclusive<u16> {
    let both = RANGE.load(Ordering::Relaxed);
    (both >> 16) as u16..=both as u16
}

/// Changes them, for packets that are sent from now on.
pub fn set_range(ports: &RangeInclusive<u16>) {
    let both = u32::from(*ports.start()) << 16 | u32::from(*ports.end());
    RANGE.store(both, Ordering::Relaxed);
}
