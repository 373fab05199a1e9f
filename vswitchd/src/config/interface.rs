//! The settings of an interface that concern the datapath, in `Interface.other_config`.

use std::collections::BTreeMap;

use dpif::datapath::{PortSettings, TxSteering};

use super::parse::{Problems, Severity, report};
use crate::ovsdb::client::StringMap;

/// What `other_config` asks of interface `name`.
pub(super) fn parse(
    name: &str,
    other_config: StringMap<'_>,
    problems: &mut Problems,
) -> PortSettings {
    let mut refuse = |key: &str, value: &str, allowed: &str| {
        let text = format!("interface {name}: other_config:{key}=\"{value}\" is not {allowed}");
        report(problems, Severity::Information, text);
    };
    let affinity = other_config.get("pmd-rxq-affinity").map_or_else(BTreeMap::new, |text| {
        parse_affinity(text).unwrap_or_else(|| {
            let allowed = "a list of QUEUE:CORE; queues go to any core";
            refuse("pmd-rxq-affinity", text, allowed);
            BTreeMap::new()
        })
    });
    let exact_cache = match other_config.get("emc-enable") {
        None => true,
        Some(text) if text.eq_ignore_ascii_case("true") => true,
        Some(text) if text.eq_ignore_ascii_case("false") => false,
        Some(text) => {
            refuse("emc-enable", text, "\"true\" or \"false\"; using true");
            true
        }
    };
    let tx_steering = match other_config.get("tx-steering") {
        None | Some("thread") => TxSteering::Thread,
        Some("hash") => TxSteering::Hash,
        Some(text) => {
            refuse("tx-steering", text, "\"thread\" or \"hash\"; using \"thread\"");
            TxSteering::Thread
        }
    };
    let offload_priority = other_config.get("hw-offload-priority").map(provider_names);
    PortSettings { affinity, exact_cache, tx_steering, offload_priority }
}

/// The names of kinds of hardware, with commas between.
pub(super) fn provider_names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// `QUEUE:CORE` for any number of queues, with commas or spaces between.
fn parse_affinity(text: &str) -> Option<BTreeMap<usize, u32>> {
    let parts = text.split([',', ' ']).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (queue, core) = part.split_once(':')?;
            Some((queue.parse().ok()?, core.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ovsdb::atom::Atom;
    use crate::ovsdb::datum::Datum;

    fn parsed(pairs: &[(&str, &str)]) -> (PortSettings, Vec<String>) {
        let pairs = pairs.iter().map(|(key, value)| (Atom::from(*key), Atom::from(*value)));
        let map = Datum::from(pairs.collect::<BTreeMap<_, _>>());
        let mut problems = Problems::new();
        let settings = parse("p1", StringMap::new(Some(&map)), &mut problems);
        (settings, problems.into_iter().map(|problem| problem.text).collect())
    }

    #[test]
    fn settings_of_an_interface() {
        assert_eq!(parsed(&[]), (PortSettings::default(), vec![]));
        let pairs = [
            ("pmd-rxq-affinity", "0:3, 1:7"),
            ("emc-enable", "false"),
            ("tx-steering", "hash"),
            ("hw-offload-priority", "sim, none"),
        ];
        let settings = PortSettings {
            affinity: BTreeMap::from([(0, 3), (1, 7)]),
            exact_cache: false,
            tx_steering: TxSteering::Hash,
            offload_priority: Some(vec!["sim".to_owned(), "none".to_owned()]),
        };
        assert_eq!(parsed(&pairs), (settings, vec![]));
    }

    #[test]
    fn wrong_values_are_named_and_have_their_default() {
        let pairs =
            [("pmd-rxq-affinity", "0:3,1"), ("emc-enable", "no"), ("tx-steering", "random")];
        let problems = [
            "interface p1: other_config:emc-enable=\"no\" is not \"true\" or \"false\"; using true",
            "interface p1: other_config:pmd-rxq-affinity=\"0:3,1\" is not a list of QUEUE:CORE; \
             queues go to any core",
            "interface p1: other_config:tx-steering=\"random\" is not \"thread\" or \"hash\"; \
             using \"thread\"",
        ];
        assert_eq!(parsed(&pairs), (PortSettings::default(), problems.map(str::to_owned).to_vec()));
        for text in ["x:1", "0:-1", "-1:0", "0:1:2", "0"] {
            assert_eq!(parsed(&[("pmd-rxq-affinity", text)]).1.len(), 1, "{text}");
        }
    }
}
