//! Options of software NICs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::flow_api::ModifyStyle;
use crate::options::Given;
use crate::replay::FileOptions;

/// How far a device gets with a packet whose rule takes headers off before no further rule
/// matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Restore {
    /// It hands packets over as they came.
    #[default]
    None,
    /// It says what it has found, and the outer headers are still there.
    Outer,
    /// It says what it has found, and the outer headers are gone.
    Inner,
}

/// How the device deals with rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleOptions {
    /// Whether it marks packets.
    pub(super) mark: bool,
    /// Whether it handles packets for good.
    pub(super) full: bool,
    pub(super) restore: Restore,
    /// Most rules of all tables.
    pub(super) capacity: usize,
    /// Whether rules beyond the capacity are refused at once, not when they complete.
    pub(super) early_check: bool,
    pub(super) modify: ModifyStyle,
    /// How long an insertion or update takes.
    pub(super) insert_latency: Duration,
    /// How long a removal takes.
    pub(super) remove_latency: Duration,
    /// What a ring of the bell adds.
    pub(super) push_latency: Duration,
    /// By how many per cent, at random, latencies are longer at most.
    pub(super) jitter: u32,
    /// Among how many requests that are due the next one is picked.
    pub(super) reorder: usize,
    /// How old the counters are that a query returns, at most.
    pub(super) counter_lag: Duration,
    /// Width of the counters, which stop at their largest value.
    pub(super) counter_bits: u32,
    /// Where random choices start from.
    pub(super) seed: u64,
}

impl Default for RuleOptions {
    fn default() -> Self {
        Self {
            mark: true,
            full: true,
            restore: Restore::None,
            capacity: 1 << 20,
            early_check: false,
            modify: ModifyStyle::InPlace,
            insert_latency: Duration::ZERO,
            remove_latency: Duration::ZERO,
            push_latency: Duration::ZERO,
            jitter: 0,
            reorder: 1,
            counter_lag: Duration::ZERO,
            counter_bits: 64,
            seed: 1,
        }
    }
}

/// Parsed options of a port of type `sim`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// The `sim` port at the other end of the wire.
    pub(super) peer: Option<String>,
    /// Files whose frames arrive, and that record what is sent.
    pub(super) files: FileOptions,
    /// Frames that wait in a receive ring at most.
    pub(super) ring: usize,
    pub(super) rules: RuleOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self { peer: None, files: FileOptions::default(), ring: 512, rules: RuleOptions::default() }
    }
}

fn microseconds(given: &Given<'_>, key: &str) -> Result<Duration, String> {
    Ok(Duration::from_micros(given.number(key, 0, (0, 10_000_000))?))
}

impl Options {
    /// Parses the options. The error says which is wrong, and what would be right.
    pub(super) fn parse(options: &BTreeMap<String, String>) -> Result<Self, String> {
        let given = Given(options);
        let default = Self::default();
        let modify = [
            ("in-place", ModifyStyle::InPlace),
            ("break-before-make", ModifyStyle::BreakBeforeMake),
            ("make-before-break", ModifyStyle::MakeBeforeBreak),
        ];
        let restore =
            [("none", Restore::None), ("outer", Restore::Outer), ("inner", Restore::Inner)];
        let rules = default.rules;
        Ok(Self {
            peer: given.text("peer").map(str::to_owned),
            files: FileOptions::parse(&given)?,
            ring: given.number("n_rxq_desc", default.ring, (1, 65536))?,
            rules: RuleOptions {
                mark: given.boolean("hw-mark", rules.mark)?,
                full: given.boolean("hw-full", rules.full)?,
                restore: given.word("hw-restore", rules.restore, &restore)?,
                capacity: given.number("hw-capacity", rules.capacity, (0, 1 << 24))?,
                early_check: given.boolean("hw-early-check", rules.early_check)?,
                modify: given.word("hw-modify", rules.modify, &modify)?,
                insert_latency: microseconds(&given, "hw-insert-latency-us")?,
                remove_latency: microseconds(&given, "hw-remove-latency-us")?,
                push_latency: microseconds(&given, "hw-push-latency-us")?,
                jitter: given.number("hw-jitter", 0, (0, 1000))?,
                reorder: given.number("hw-reorder", 1, (1, 1024))?,
                counter_lag: Duration::from_millis(given.number(
                    "hw-counter-lag-ms",
                    0,
                    (0, 60_000),
                )?),
                counter_bits: given.number("hw-counter-bits", 64, (1, 64))?,
                seed: given.number("hw-seed", rules.seed, (0, u64::MAX))?,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Options, String> {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Options::parse(&pairs.collect())
    }

    #[test]
    fn defaults_and_values() {
        assert_eq!(parse(&[("unknown", "x")]), Ok(Options::default()));
        let rules = RuleOptions {
            modify: ModifyStyle::BreakBeforeMake,
            insert_latency: Duration::from_micros(30),
            restore: Restore::Inner,
            ..RuleOptions::default()
        };
        let files = FileOptions { rx_queues: 2, ..FileOptions::default() };
        let expected = Options { peer: Some("b".to_owned()), files, rules, ..Options::default() };
        let parsed = parse(&[
            ("peer", "b"),
            ("n_rxq", "2"),
            ("hw-modify", "break-before-make"),
            ("hw-insert-latency-us", "30"),
            ("hw-restore", "inner"),
        ]);
        assert_eq!(parsed, Ok(expected));
    }

    #[test]
    fn errors_say_what_would_be_right() {
        for (key, value, error) in [
            ("n_rxq", "65", "n_rxq=65 is not a number from 1 to 64"),
            ("hw-mark", "yes", "hw-mark=yes is none of true, false"),
            ("hw-restore", "", "hw-restore= is none of none, outer, inner"),
            ("hw-jitter", "-1", "hw-jitter=-1 is not a number from 0 to 1000"),
        ] {
            assert_eq!(parse(&[(key, value)]), Err(error.to_owned()));
        }
    }
}
