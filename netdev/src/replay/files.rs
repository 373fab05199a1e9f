//! Capture files that ports replay and record.

use std::path::{Path, PathBuf};

use crate::options::Given;
use crate::pcap::{PcapError, PcapReader, PcapWriter};

const MAX_QUEUES: usize = 64;

/// Options about capture files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileOptions {
    /// File whose frames each receive queue yields.
    pub(crate) rx_pcap: Option<PathBuf>,
    /// Whether a queue starts again when it has yielded them all.
    pub(crate) infinite_rx: bool,
    /// File that records what is sent.
    pub(crate) tx_pcap: Option<PathBuf>,
    pub(crate) rx_queues: usize,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self { rx_pcap: None, infinite_rx: false, tx_pcap: None, rx_queues: 1 }
    }
}

impl FileOptions {
    /// Parses the options. The error says which is wrong, and what would be right.
    pub(crate) fn parse(given: &Given<'_>) -> Result<Self, String> {
        Ok(Self {
            rx_pcap: given.text("rx_pcap").map(PathBuf::from),
            infinite_rx: given.boolean("infinite_rx", false)?,
            tx_pcap: given.text("tx_pcap").map(PathBuf::from),
            rx_queues: given.number("n_rxq", 1, (1, MAX_QUEUES))?,
        })
    }

    /// Reads the one file and opens the other.
    pub(crate) fn open(&self) -> Result<(Frames, Option<PcapWriter>), PcapError> {
        let frames = self.rx_pcap.as_deref().map(Frames::read).transpose()?.unwrap_or_default();
        Ok((frames, self.tx_pcap.as_deref().map(PcapWriter::append).transpose()?))
    }
}

/// The frames of a capture file, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
}

impl Frames {
    /// Reads the frames of a file.
    fn read(path: &Path) -> Result<Self, PcapError> {
        let mut frames = Self::default();
        for frame in PcapReader::open(path)? {
            frames.bytes.extend(frame?.bytes);
            frames.ends.push(frames.bytes.len());
        }
        Ok(frames)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Frame `number`, counted from 0.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&[u8]> {
        let (bytes, length) = self.get_with_rest(number)?;
        bytes.get(..length)
    }

    /// The same with the frames behind it, and its length.
    #[inline]
    pub(super) fn get_with_rest(&self, number: usize) -> Option<(&[u8], usize)> {
        let end = *self.ends.get(number)?;
        let before = number.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = before.copied().unwrap_or(0);
        Some((self.bytes.get(start..)?, end.checked_sub(start)?))
    }
}

/// Writes a frame to a recording, if there is one.
pub(crate) fn record(recorder: Option<&mut PcapWriter>, frame: &[u8]) {
    if let Some(Err(error)) = recorder.map(|recorder| recorder.write(frame)) {
        tracing::warn!(target: "pcap", limited = true, "{error}");
    }
}
