//! Options of ports that replay.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

const MAX_QUEUES: usize = 64;

/// Parsed options of a port of type `pcap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// File whose frames each receive queue yields.
    pub(super) rx_pcap: Option<PathBuf>,
    /// Whether a queue starts again when it has yielded them all.
    pub(super) infinite_rx: bool,
    /// Packets per second that a queue yields at most.
    pub(super) rate: Option<NonZeroU32>,
    /// File that records what is sent.
    pub(super) tx_pcap: Option<PathBuf>,
    pub(super) rx_queues: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { rx_pcap: None, infinite_rx: false, rate: None, tx_pcap: None, rx_queues: 1 }
    }
}

impl Options {
    /// Parses the options. The error says which is wrong, and what would be right.
    pub(super) fn parse(options: &BTreeMap<String, String>) -> Result<Self, String> {
        let path = |key| options.get(key).map(PathBuf::from);
        let infinite_rx = match options.get("infinite_rx").map(String::as_str) {
            None | Some("false") => false,
            Some("true") => true,
            Some(value) => return Err(format!("infinite_rx={value} is neither true nor false")),
        };
        let rate = |value: &String| {
            value.parse().map_err(|_| {
                format!("rate={value} is not a number of packets per second (1 or more)")
            })
        };
        let queues = |value: &String| {
            let count = value.parse().ok().filter(|count| (1..=MAX_QUEUES).contains(count));
            count.ok_or_else(|| {
                format!("n_rxq={value} is not a number of queues (1 to {MAX_QUEUES})")
            })
        };
        Ok(Self {
            rx_pcap: path("rx_pcap"),
            infinite_rx,
            rate: options.get("rate").map(rate).transpose()?,
            tx_pcap: path("tx_pcap"),
            rx_queues: options.get("n_rxq").map(queues).transpose()?.unwrap_or(1),
        })
    }

    /// The options that are not at their defaults, as they were given.
    pub(super) fn show(&self) -> BTreeMap<String, String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let shown = [
            ("rx_pcap", path(&self.rx_pcap)),
            ("infinite_rx", self.infinite_rx.then(|| "true".to_owned())),
            ("rate", self.rate.map(|rate| rate.to_string())),
            ("tx_pcap", path(&self.tx_pcap)),
            ("n_rxq", (self.rx_queues > 1).then(|| self.rx_queues.to_string())),
        ];
        shown.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}
