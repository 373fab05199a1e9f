//! What the queues of a kernel device counted.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::queue::SendReport;
use crate::statistics::Statistics;

/// Counters of one port. Its queues add to them once per batch.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    /// Received packets that could not be taken over: no room in the socket, no free frames, or
    /// longer than any packet.
    rx_lost: AtomicU64,
    mtu_exceeded: AtomicU64,
    invalid: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    pub(crate) fn add_received(&self, packets: u64, bytes: u64) {
        add(&self.rx_packets, packets);
        add(&self.rx_bytes, bytes);
    }

    pub(crate) fn add_lost(&self, packets: u64) {
        add(&self.rx_lost, packets);
    }

    /// `bytes` are those of the packets that were sent.
    pub(crate) fn add_sent(&self, report: SendReport, bytes: u64) {
        add(&self.tx_packets, report.sent);
        add(&self.tx_bytes, bytes);
        add(&self.mtu_exceeded, report.mtu_exceeded);
        add(&self.invalid, report.invalid);
        add(&self.failed, report.no_room + report.device_error);
    }

    /// Puts the packets and bytes into `statistics`, and adds the losses to what the kernel knows
    /// of.
    pub(crate) fn add_to(&self, statistics: &mut Statistics) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        statistics.rx_packets = Some(read(&self.rx_packets));
        statistics.rx_bytes = Some(read(&self.rx_bytes));
        statistics.tx_packets = Some(read(&self.tx_packets));
        statistics.tx_bytes = Some(read(&self.tx_bytes));
        let (lost, mtu_exceeded) = (read(&self.rx_lost), read(&self.mtu_exceeded));
        let (invalid, failed) = (read(&self.invalid), read(&self.failed));
        for (total, more) in [
            (&mut statistics.rx_dropped, lost),
            (&mut statistics.tx_dropped, mtu_exceeded + invalid + failed),
        ] {
            *total = Some(total.unwrap_or(0).saturating_add(more));
        }
        statistics.custom.extend([
            ("ovs_rx_dropped".to_owned(), lost),
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
