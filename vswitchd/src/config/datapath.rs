//! The settings of datapaths in `Open_vSwitch.other_config`.

use std::collections::BTreeMap;
use std::time::Duration;

use dpif::datapath::{BalanceSettings, PmdSettings};
use dpif::offload::OffloadSettings;
use dpif::pmd::Knobs;
use dpif::pmd::assign::Algorithm;
use ofproto::revalidate::RevalidateSettings;

use super::interface::provider_names;
use super::model::DatapathConfig;
use super::parse::{Problems, Severity, report};
use crate::ovsdb::client::StringMap;

/// Longest sleep that `pmd-sleep-max` may ask for, in microseconds.
const MAX_SLEEP: u32 = 10_000;

/// Most threads that `n-offload-threads` may ask for.
const MAX_OFFLOAD_THREADS: u32 = 10;

/// What `other_config` asks of the datapaths.
pub(super) fn parse(other_config: StringMap<'_>, problems: &mut Problems) -> DatapathConfig {
    let mut settings = Settings { other_config, problems };
    let knobs = Knobs {
        exact_one_in: settings.number("emc-insert-inv-prob", 100),
        signature_cache: settings.boolean("smc-enable", false),
        flush_interval: Duration::from_micros(settings.number("tx-flush-interval", 0).into()),
        metrics: settings.boolean("pmd-perf-metrics", false),
        // 0 stands for no limit; no more than two tags are looked at in any case.
        vlan_limit: match settings.number("vlan-limit", 1) {
            1 => 1,
            _ => 2,
        },
    };
    let algorithm = match settings.text("pmd-rxq-assign") {
        None | Some("cycles") => Algorithm::Cycles,
        Some("roundrobin") => Algorithm::RoundRobin,
        Some("group") => Algorithm::Group,
        Some(other) => {
            let allowed = "\"cycles\", \"roundrobin\" or \"group\"; using \"cycles\"";
            settings.refuse("pmd-rxq-assign", other, allowed);
            Algorithm::Cycles
        }
    };
    let isolate = settings.isolate(algorithm);
    let (max_sleep, core_sleeps) = settings.sleeps();
    let pmd = PmdSettings {
        cores: settings.cores(),
        algorithm,
        isolate,
        max_sleep,
        core_sleeps,
        balance: settings.balance(),
    };
    let milliseconds = |number: u32| Duration::from_millis(number.into());
    let revalidation = RevalidateSettings {
        max_idle: milliseconds(settings.number("max-idle", 10_000)),
        max_interval: milliseconds(settings.number("max-revalidator", 500).max(100)),
        min_packet_rate: settings.number("min-revalidate-pps", 5),
        flow_limit: settings.number("flow-limit", 200_000) as usize,
        hardware_delay: milliseconds(settings.number("offloaded-stats-delay", 2000)),
        threads: settings.number("n-revalidator-threads", 0) as usize,
    };
    let offload = OffloadSettings {
        is_enabled: settings.boolean("hw-offload", false),
        threads: settings.offload_threads(),
        priority: settings.offload_priority(),
    };
    DatapathConfig { pmd, knobs, revalidation, offload }
}

struct Settings<'a, 'b> {
    other_config: StringMap<'a>,
    problems: &'b mut Problems,
}

impl<'a> Settings<'a, '_> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.other_config.get(key)
    }

    fn refuse(&mut self, key: &str, value: &str, allowed: &str) {
        let text = format!("Open_vSwitch other_config:{key}=\"{value}\" is not {allowed}");
        report(self.problems, Severity::Information, text);
    }

    fn number(&mut self, key: &str, default: u32) -> u32 {
        let Some(text) = self.text(key) else { return default };
        text.parse().unwrap_or_else(|_| {
            self.refuse(key, text, &format!("a number from 0 to {}; using {default}", u32::MAX));
            default
        })
    }

    fn boolean(&mut self, key: &str, default: bool) -> bool {
        match self.text(key) {
            None => default,
            Some(text) if text.eq_ignore_ascii_case("true") => true,
            Some(text) if text.eq_ignore_ascii_case("false") => false,
            Some(text) => {
                self.refuse(key, text, &format!("\"true\" or \"false\"; using {default}"));
                default
            }
        }
    }

    /// Whether a pinned queue has its core for itself.
    fn isolate(&mut self, algorithm: Algorithm) -> bool {
        let isolate = self.boolean("pmd-rxq-isolate", true);
        if !isolate && algorithm != Algorithm::Group {
            let text = "pmd-rxq-isolate can only be set false when using pmd-rxq-assign=group";
            report(self.problems, Severity::Warning, text.to_owned());
            return true;
        }
        isolate
    }

    /// What `pmd-auto-lb` and the settings that go with it say.
    fn balance(&mut self) -> BalanceSettings {
        let default = BalanceSettings::default();
        // 0 minutes stand for the shortest time there is.
        let interval = self.up_to(20_000, "pmd-auto-lb-rebal-interval", default.interval).max(1);
        BalanceSettings {
            is_enabled: self.boolean("pmd-auto-lb", default.is_enabled),
            interval,
            load_threshold: self.up_to(100, "pmd-auto-lb-load-threshold", default.load_threshold),
            improvement_threshold: self.up_to(
                100,
                "pmd-auto-lb-improvement-threshold",
                default.improvement_threshold,
            ),
        }
    }

    fn up_to(&mut self, most: u64, key: &str, default: u64) -> u64 {
        let Some(text) = self.text(key) else { return default };
        text.parse().ok().filter(|number| *number <= most).unwrap_or_else(|| {
            self.refuse(key, text, &format!("a number from 0 to {most}; using {default}"));
            default
        })
    }

    /// `n-offload-threads`.
    fn offload_threads(&mut self) -> u32 {
        let number = self.number("n-offload-threads", 1);
        if (1..=MAX_OFFLOAD_THREADS).contains(&number) {
            return number;
        }
        let allowed = format!("a number from 1 to {MAX_OFFLOAD_THREADS}; using 1");
        self.refuse("n-offload-threads", &number.to_string(), &allowed);
        1
    }

    /// `hw-offload-priority`: kinds of hardware, in the order in which they are asked.
    fn offload_priority(&mut self) -> Option<Vec<String>> {
        self.text("hw-offload-priority").map(provider_names)
    }

    /// The cores whose bits are set in `pmd-cpu-mask`, a hexadecimal number of any length.
    fn cores(&mut self) -> Option<Vec<u32>> {
        let text = self.text("pmd-cpu-mask")?;
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let values: Option<Vec<u32>> =
            digits.chars().rev().map(|digit| digit.to_digit(16)).collect();
        let Some(values) = values.filter(|values| !values.is_empty()) else {
            self.refuse("pmd-cpu-mask", text, "a hexadecimal number; using one core per NUMA node");
            return None;
        };
        let bits = values.iter().zip((0..).step_by(4)).flat_map(|(&value, first)| {
            (0..4).filter(move |bit| value >> bit & 1 != 0).map(move |bit| first + bit)
        });
        let cores: Vec<u32> = bits.collect();
        (!cores.is_empty()).then_some(cores)
    }

    /// `pmd-sleep-max`: microseconds for all cores, and `CORE:MICROSECONDS` for some.
    fn sleeps(&mut self) -> (u32, BTreeMap<u32, u32>) {
        let (mut all, mut some) = (0, BTreeMap::new());
        let Some(text) = self.text("pmd-sleep-max") else { return (all, some) };
        for part in text.split(',').map(str::trim) {
            let number = |text: &str| text.trim().parse::<u32>().ok();
            let parsed = match part.split_once(':') {
                None => number(part).map(|sleep| all = sleep.min(MAX_SLEEP)),
                Some((core, sleep)) => number(core).zip(number(sleep)).map(|(core, sleep)| {
                    some.insert(core, sleep.min(MAX_SLEEP));
                }),
            };
            if parsed.is_none() {
                self.refuse(
                    "pmd-sleep-max",
                    part,
                    "MICROSECONDS or CORE:MICROSECONDS; ignoring this part",
                );
            }
        }
        (all, some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ovsdb::atom::Atom;
    use crate::ovsdb::datum::Datum;

    /// What `pairs` ask for, and the problems with them.
    fn parsed(pairs: &[(&str, &str)]) -> (DatapathConfig, Vec<String>) {
        let pairs = pairs.iter().map(|(key, value)| (Atom::from(*key), Atom::from(*value)));
        let map = Datum::from(pairs.collect::<BTreeMap<_, _>>());
        let mut problems = Problems::new();
        let config = parse(StringMap::new(Some(&map)), &mut problems);
        (config, problems.into_iter().map(|problem| problem.text).collect())
    }

    #[test]
    fn defaults_are_those_of_open_vswitch() {
        let (config, problems) = parsed(&[]);
        assert_eq!(problems, [""; 0]);
        assert_eq!(config.knobs.exact_one_in, 100);
        assert_eq!(config.knobs.vlan_limit, 1);
        assert_eq!(config.pmd.cores, None);
        assert_eq!(config.pmd.algorithm, Algorithm::Cycles);
        assert_eq!(config.revalidation.max_idle, Duration::from_secs(10));
        assert_eq!(config.revalidation.flow_limit, 200_000);
        assert_eq!(config.offload, OffloadSettings::default());
    }

    #[test]
    fn masks_of_cores() {
        for (mask, cores) in [
            ("6", Some(vec![1, 2])),
            ("0x6", Some(vec![1, 2])),
            ("0X80000000000000001", Some(vec![0, 67])),
            ("a0F", Some(vec![0, 1, 2, 3, 9, 11])),
            ("0", None),
        ] {
            let (config, problems) = parsed(&[("pmd-cpu-mask", mask)]);
            assert_eq!((config.pmd.cores, problems), (cores, vec![]), "{mask}");
        }
        for bad in ["", "0x", "6 ", "xyz", "-1"] {
            let (config, problems) = parsed(&[("pmd-cpu-mask", bad)]);
            let expected = format!(
                "Open_vSwitch other_config:pmd-cpu-mask=\"{bad}\" is not a hexadecimal number; \
                 using one core per NUMA node"
            );
            assert_eq!((config.pmd.cores, problems), (None, vec![expected]));
        }
    }

    #[test]
    fn sleeps_of_all_cores_and_of_some() {
        let sleeps = |text| {
            let (config, problems) = parsed(&[("pmd-sleep-max", text)]);
            let some: Vec<_> = config.pmd.core_sleeps.into_iter().collect();
            (config.pmd.max_sleep, some, problems.len())
        };
        assert_eq!(sleeps("50"), (50, vec![], 0));
        assert_eq!(sleeps("1:20, 5:0,60"), (60, vec![(1, 20), (5, 0)], 0));
        assert_eq!(sleeps("20000"), (10_000, vec![], 0));
        assert_eq!(sleeps("x,1:y,7"), (7, vec![], 2));
    }

    #[test]
    fn balance_has_bounds() {
        let balance = |pairs: &[(&str, &str)]| parsed(pairs).0.pmd.balance;
        let default = BalanceSettings::default();
        assert_eq!(balance(&[]), default);
        for (text, interval) in [("10", 10), ("0", 1), ("20000", 20_000), ("20001", 1), ("-1", 1)] {
            assert_eq!(
                balance(&[("pmd-auto-lb-rebal-interval", text)]),
                BalanceSettings { interval, ..default }
            );
        }
        assert_eq!(
            balance(&[
                ("pmd-auto-lb", "true"),
                ("pmd-auto-lb-load-threshold", "0"),
                ("pmd-auto-lb-improvement-threshold", "101"),
            ]),
            BalanceSettings { is_enabled: true, load_threshold: 0, ..default }
        );
    }

    #[test]
    fn only_one_algorithm_shares_the_cores_of_pinned_queues() {
        let (config, problems) = parsed(&[("pmd-rxq-isolate", "false")]);
        assert!(config.pmd.isolate);
        assert_eq!(
            problems,
            ["pmd-rxq-isolate can only be set false when using pmd-rxq-assign=group"]
        );
        let (config, problems) =
            parsed(&[("pmd-rxq-isolate", "false"), ("pmd-rxq-assign", "group")]);
        assert!(!config.pmd.isolate);
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn wrong_values_are_named_and_have_their_default() {
        let (config, problems) = parsed(&[("pmd-rxq-assign", "random"), ("smc-enable", "maybe")]);
        assert_eq!(
            (config.pmd.algorithm, config.knobs.signature_cache),
            (Algorithm::Cycles, false)
        );
        assert_eq!(
            problems,
            [
                "Open_vSwitch other_config:pmd-rxq-assign=\"random\" is not \"cycles\", \
                 \"roundrobin\" or \"group\"; using \"cycles\"",
                "Open_vSwitch other_config:smc-enable=\"maybe\" is not \"true\" or \"false\"; \
                 using false",
            ]
        );
    }
}
