//! Options of ports that replay.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use super::files::FileOptions;
use crate::options::Given;

/// Parsed options of a port of type `pcap`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) files: FileOptions,
    /// Packets per second that a queue yields at most.
    pub(super) rate: Option<NonZeroU32>,
}

impl Options {
    /// Parses the options. The error says which is wrong, and what would be right.
    pub(super) fn parse(options: &BTreeMap<String, String>) -> Result<Self, String> {
        let rate = |value: &String| {
            value.parse().map_err(|_| {
                format!("rate={value} is not a number of packets per second (1 or more)")
            })
        };
        Ok(Self {
            files: FileOptions::parse(&Given(options))?,
            rate: options.get("rate").map(rate).transpose()?,
        })
    }

    /// The options that are not at their defaults, as they were given.
    pub(super) fn show(&self) -> BTreeMap<String, String> {
        let FileOptions { rx_pcap, infinite_rx, tx_pcap, rx_queues } = &self.files;
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let shown = [
            ("rx_pcap", path(rx_pcap)),
            ("infinite_rx", infinite_rx.then(|| "true".to_owned())),
            ("rate", self.rate.map(|rate| rate.to_string())),
            ("tx_pcap", path(tx_pcap)),
            ("n_rxq", (*rx_queues > 1).then(|| rx_queues.to_string())),
        ];
        shown.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}
