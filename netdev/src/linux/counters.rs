//! Losses of a kernel device that the kernel does not know of.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::queue::SendReport;
use crate::statistics::Statistics;

/// What the queues of one port lost. Queues add to it only when they lose packets.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Received packets that could not be taken over: no room in the socket, no free frames, or
    /// longer than any packet.
    received: AtomicU64,
    mtu_exceeded: AtomicU64,
    invalid: AtomicU64,
    failed: AtomicU64,
}

impl Losses {
    pub(super) fn add_received(&self, count: u64) {
        add(&self.received, count);
    }

    pub(super) fn add_sent(&self, report: SendReport) {
        add(&self.mtu_exceeded, report.mtu_exceeded);
        add(&self.invalid, report.invalid);
        add(&self.failed, report.no_room + report.device_error);
    }

    /// Adds the losses to what the kernel counted.
    pub(super) fn add_to(&self, statistics: &mut Statistics) {
        let [received, mtu_exceeded, invalid, failed] =
            [&self.received, &self.mtu_exceeded, &self.invalid, &self.failed]
                .map(|counter| counter.load(Ordering::Relaxed));
        for (total, more) in [
            (&mut statistics.rx_dropped, received),
            (&mut statistics.tx_dropped, mtu_exceeded + invalid + failed),
        ] {
            *total = total.map(|total| total.saturating_add(more));
        }
        statistics.custom.extend([
            ("ovs_rx_dropped".to_owned(), received),
            ("ovs_tx_failure_drops".to_owned(), failed),
            ("ovs_tx_invalid_hwol_drops".to_owned(), invalid),
            ("ovs_tx_mtu_exceeded_drops".to_owned(), mtu_exceeded),
        ]);
    }
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
