//! Options of AF_XDP ports.

use std::collections::BTreeMap;

use crate::packet::FRAME_SIZE;

/// Most receive queues of a port that have a socket.
pub(super) const MAX_QUEUES: u32 = 16;

const RING_ENTRIES: u32 = 2048;
const RING_RANGE: std::ops::RangeInclusive<u32> = 64..=16384;
const MAX_BUSY_POLL: u32 = 1_000_000;

/// How packets come from the driver to the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The driver runs the program, and the device reads and writes frames by itself.
    ZeroCopy,
    /// The driver runs the program; packets are copied.
    Native,
    /// The kernel runs the program on packets that it has taken from the driver.
    Generic,
}

impl Mode {
    /// Its name in option `xdp-mode`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "native-with-zerocopy",
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    /// All, the best first.
    const ALL: [Self; 3] = [Self::ZeroCopy, Self::Native, Self::Generic];
}

/// Parsed options of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Receive queues that are to have a socket; none says all, up to [`MAX_QUEUES`].
    pub(super) queues: Option<u32>,
    /// The only mode that will do; none says the best that works.
    pub(super) mode: Option<Mode>,
    /// Whether the kernel is called only when it says that it sleeps.
    pub(super) needs_wakeup: bool,
    /// Whether a packet may lie in several frames.
    pub(super) multi_buffer: bool,
    /// For how many microseconds a receive queue does the work of interrupts; 0 is never.
    pub(super) busy_poll: u32,
    /// Entries of the rings for received packets, and of those for sent ones.
    pub(super) receive_entries: u32,
    pub(super) transmit_entries: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queues: None,
            mode: None,
            needs_wakeup: true,
            multi_buffer: true,
            busy_poll: 0,
            receive_entries: RING_ENTRIES,
            transmit_entries: RING_ENTRIES,
        }
    }
}

impl Options {
    /// Reads column `options` of an `Interface`.
    pub(super) fn parse(options: &BTreeMap<String, String>) -> Result<Self, String> {
        let default = Self::default();
        let flag = |key: &str, default| match options.get(key).map(String::as_str) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(value) => Err(format!("{key}={value} is neither true nor false")),
        };
        let entries = |key: &str| {
            let Some(value) = options.get(key) else { return Ok(RING_ENTRIES) };
            let is_good = |entries: &u32| entries.is_power_of_two() && RING_RANGE.contains(entries);
            value.trim().parse().ok().filter(is_good).ok_or_else(|| {
                let (low, high) = (RING_RANGE.start(), RING_RANGE.end());
                format!("{key}={value} is not a power of 2 from {low} to {high}")
            })
        };
        let frame_size = options.get("frame-size");
        if let Some(value) = frame_size.filter(|value| value.trim() != FRAME_SIZE.to_string()) {
            return Err(format!(
                "frame-size={value}: the frames of all ports have {FRAME_SIZE} bytes"
            ));
        }
        let busy_poll = match options.get("busy-poll") {
            None => default.busy_poll,
            Some(value) => value
                .trim()
                .parse()
                .ok()
                .filter(|&time| time <= MAX_BUSY_POLL)
                .ok_or_else(|| {
                    format!(
                        "busy-poll={value} is not a number of microseconds up to {MAX_BUSY_POLL}"
                    )
                })?,
        };
        Ok(Self {
            queues: options.get("n_rxq").map(|value| parse_queues(value)).transpose()?,
            mode: parse_mode(options.get("xdp-mode").map_or(BEST_EFFORT, String::as_str))?,
            needs_wakeup: flag("use-need-wakeup", default.needs_wakeup)?,
            multi_buffer: flag("multi-buffer", default.multi_buffer)?,
            busy_poll,
            receive_entries: entries("n_rxq_desc")?,
            transmit_entries: entries("n_txq_desc")?,
        })
    }

    /// The modes to try, in order.
    pub(super) fn modes(&self) -> impl Iterator<Item = Mode> {
        let wanted = self.mode;
        Mode::ALL.into_iter().filter(move |mode| wanted.is_none_or(|wanted| wanted == *mode))
    }

    /// Value of option `xdp-mode`.
    pub(super) fn mode_name(&self) -> &'static str {
        self.mode.map_or(BEST_EFFORT, Mode::name)
    }
}

const BEST_EFFORT: &str = "best-effort";

fn parse_queues(value: &str) -> Result<u32, String> {
    let count: u32 =
        value.trim().parse().ok().filter(|&count| count > 0).ok_or_else(|| {
            format!("n_rxq={value} is not a number of queues (1 to {MAX_QUEUES})")
        })?;
    if count > MAX_QUEUES {
        return Err(format!("Too big 'n_rxq' ({count} > {MAX_QUEUES})"));
    }
    Ok(count)
}

fn parse_mode(value: &str) -> Result<Option<Mode>, String> {
    if value.eq_ignore_ascii_case(BEST_EFFORT) {
        return Ok(None);
    }
    let mode = Mode::ALL.into_iter().find(|mode| value.eq_ignore_ascii_case(mode.name()));
    mode.map(Some).ok_or_else(|| {
        let names = Mode::ALL.map(Mode::name).join(", ");
        format!("Incorrect xdp-mode ({value}). Known are {BEST_EFFORT}, {names}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Options, String> {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Options::parse(&pairs.collect())
    }

    #[test]
    fn reads_every_option() {
        assert_eq!(parse(&[]), Ok(Options::default()));
        assert_eq!(parse(&[("frame-size", "2048")]), Ok(Options::default()));
        let options = parse(&[
            ("n_rxq", "3"),
            ("xdp-mode", "Native"),
            ("use-need-wakeup", "false"),
            ("multi-buffer", "false"),
            ("busy-poll", "50"),
            ("n_rxq_desc", "64"),
            ("n_txq_desc", "16384"),
        ]);
        let expected = Options {
            queues: Some(3),
            mode: Some(Mode::Native),
            needs_wakeup: false,
            multi_buffer: false,
            busy_poll: 50,
            receive_entries: 64,
            transmit_entries: 16384,
        };
        assert_eq!(options, Ok(expected.clone()));
        assert_eq!(
            (expected.mode_name(), expected.modes().collect()),
            ("native", vec![Mode::Native])
        );
        let default = Options::default();
        assert_eq!(
            (default.mode_name(), default.modes().collect()),
            ("best-effort", Mode::ALL.to_vec())
        );
    }

    #[test]
    fn says_what_would_be_right() {
        for (key, value, problem) in [
            ("n_rxq", "42", "Too big 'n_rxq' (42 > 16)"),
            ("n_rxq", "0", "n_rxq=0 is not a number of queues (1 to 16)"),
            ("n_rxq", "-1", "n_rxq=-1 is not a number of queues (1 to 16)"),
            (
                "xdp-mode",
                "skb",
                "Incorrect xdp-mode (skb). Known are best-effort, native-with-zerocopy, native, generic",
            ),
            ("use-need-wakeup", "1", "use-need-wakeup=1 is neither true nor false"),
            ("multi-buffer", "on", "multi-buffer=on is neither true nor false"),
            ("busy-poll", "x", "busy-poll=x is not a number of microseconds up to 1000000"),
            ("n_rxq_desc", "1000", "n_rxq_desc=1000 is not a power of 2 from 64 to 16384"),
            ("n_txq_desc", "32768", "n_txq_desc=32768 is not a power of 2 from 64 to 16384"),
            ("frame-size", "4096", "frame-size=4096: the frames of all ports have 2048 bytes"),
        ] {
            assert_eq!(parse(&[(key, value)]), Err(problem.to_owned()));
        }
    }
}
