//! The settings of datapaths in `Open_vSwitch.other_config`.

use std::collections::BTreeMap;
use std::time::Duration;

use dpif::datapath::PmdSettings;
use dpif::pmd::Knobs;
use dpif::pmd::assign::Algorithm;
use ofproto::revalidate::RevalidateSettings;

use super::model::DatapathConfig;
use super::parse::{Problems, Severity, report};
use crate::ovsdb::client::StringMap;

/// Longest sleep that `pmd-sleep-max` may ask for, in microseconds.
const MAX_SLEEP: u32 = 10_000;

/// What `other_config` asks of the datapaths.
pub(super) fn parse(other_config: StringMap<'_>, problems: &mut Problems) -> DatapathConfig {
    let mut settings = Settings { other_config, problems };
    let knobs = Knobs {
        exact_one_in: settings.number("emc-insert-inv-prob", 100),
        signature_cache: settings.boolean("smc-enable", false),
        flush_interval: Duration::from_micros(settings.number("tx-flush-interval", 0).into()),
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
    let (max_sleep, core_sleeps) = settings.sleeps();
    let pmd = PmdSettings {
        cores: settings.cores(),
        algorithm,
        isolate: settings.boolean("pmd-rxq-isolate", true),
        max_sleep,
        core_sleeps,
    };
    let milliseconds = |number: u32| Duration::from_millis(number.into());
    let revalidation = RevalidateSettings {
        max_idle: milliseconds(settings.number("max-idle", 10_000)),
        max_interval: milliseconds(settings.number("max-revalidator", 500).max(100)),
        min_packet_rate: settings.number("min-revalidate-pps", 5),
        flow_limit: settings.number("flow-limit", 200_000) as usize,
    };
    DatapathConfig { pmd, knobs, revalidation }
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
