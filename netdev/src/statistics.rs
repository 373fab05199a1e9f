//! Counters of a port.

/// Counters of a port since it was opened (or, for kernel devices, created). `None` is a counter
/// that the port type does not keep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames received.
    pub rx_packets: Option<u64>,
    /// Frames sent.
    pub tx_packets: Option<u64>,
    /// Bytes received, without frame check sequences.
    pub rx_bytes: Option<u64>,
    /// Bytes sent, without frame check sequences.
    pub tx_bytes: Option<u64>,
    /// Good frames that found no room.
    pub rx_dropped: Option<u64>,
    /// Frames that could not be queued for sending.
    pub tx_dropped: Option<u64>,
    /// Bad frames received, of any kind.
    pub rx_errors: Option<u64>,
    /// Failures to send, of any kind.
    pub tx_errors: Option<u64>,
    /// Frames received with an alignment error.
    pub rx_frame_errors: Option<u64>,
    /// Frames lost because a receive ring ran over.
    pub rx_over_errors: Option<u64>,
    /// Frames received with a bad frame check sequence.
    pub rx_crc_errors: Option<u64>,
    /// Frames that the device missed for lack of receive buffers.
    pub rx_missed_errors: Option<u64>,
    /// Collisions on half-duplex links.
    pub collisions: Option<u64>,
    /// Multicast frames received.
    pub rx_multicast_packets: Option<u64>,
    /// Counters that only some port types have, under the names operators see.
    pub custom: Vec<(String, u64)>,
}

impl Statistics {
    /// The counters that are kept, under their names in column `statistics` of table `Interface`.
    pub fn named(&self) -> impl Iterator<Item = (&str, u64)> {
        let common = [
            ("rx_packets", self.rx_packets),
            ("tx_packets", self.tx_packets),
            ("rx_bytes", self.rx_bytes),
            ("tx_bytes", self.tx_bytes),
            ("rx_dropped", self.rx_dropped),
            ("tx_dropped", self.tx_dropped),
            ("rx_errors", self.rx_errors),
            ("tx_errors", self.tx_errors),
            ("rx_frame_err", self.rx_frame_errors),
            ("rx_over_err", self.rx_over_errors),
            ("rx_crc_err", self.rx_crc_errors),
            ("rx_missed_errors", self.rx_missed_errors),
            ("collisions", self.collisions),
            ("rx_multicast_packets", self.rx_multicast_packets),
        ];
        let common = common.into_iter().filter_map(|(name, value)| Some((name, value?)));
        common.chain(self.custom.iter().map(|(name, value)| (name.as_str(), *value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_only_what_is_kept() {
        let statistics = Statistics {
            rx_packets: Some(1),
            tx_bytes: Some(60),
            rx_frame_errors: Some(0),
            custom: vec![("rx_q0_packets".to_owned(), 1)],
            ..Statistics::default()
        };
        assert_eq!(
            statistics.named().collect::<Vec<_>>(),
            [("rx_packets", 1), ("tx_bytes", 60), ("rx_frame_err", 0), ("rx_q0_packets", 1)]
        );
    }
}
