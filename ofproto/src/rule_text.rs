//! Rules as `bridge/dump-flows` and `ofproto/detrace` list them, hidden ones included.

use std::fmt::Write as _;

use netdev::clock;

use crate::openflow::text::{DEFAULT_PRIORITY, NoNames, print_actions, print_match};
use crate::rule::Rule;

/// A rule and what it counted, in one line. `offload` adds what hardware counted of that, which is
/// nothing: packets that it forwards by itself count with the others.
pub fn rule_text(rule: &Rule, offload: bool) -> String {
    let mut text = String::new();
    if rule.cookie != 0 {
        let _ = write!(text, "cookie={:#x}, ", rule.cookie);
    }
    if rule.table != 0 {
        let _ = write!(text, "table_id={}, ", rule.table);
    }
    let statistics = rule.statistics();
    let duration = clock::now().saturating_sub(rule.created).as_secs();
    let (packets, bytes) = (statistics.packets(), statistics.bytes());
    let _ = write!(text, "duration={duration}s, n_packets={packets}, n_bytes={bytes}, ");
    if offload {
        text += "n_offload_packets=0, n_offload_bytes=0, ";
    }
    // The match prints no priority above those that controllers can give.
    let has_priority = rule.priority != u32::from(DEFAULT_PRIORITY);
    if has_priority {
        let _ = write!(text, "priority={}", rule.priority);
    }
    if has_priority && !rule.flow_match.is_empty() {
        text.push(',');
    }
    print_match(&mut text, &rule.flow_match, DEFAULT_PRIORITY, &NoNames);
    text += ",actions=";
    print_actions(&mut text, &rule.actions, &NoNames);
    text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::epoch::Epoch;
    use crate::news::News;
    use crate::openflow::flow_match::Match;
    use crate::openflow::text::{parse_actions, parse_match};
    use crate::rule::RuleParts;
    use crate::tables::Tables;

    #[test]
    fn rules_tell_what_they_have() {
        let tables = Tables::new(Arc::new(Epoch::default()), News::default());
        let rule = |table, priority, cookie, flow_match: &str, actions: &str| {
            let parts = RuleParts {
                table,
                priority,
                flow_match: parse_match(flow_match, &NoNames).unwrap(),
                cookie,
                idle_timeout: 0,
                hard_timeout: 0,
                importance: 0,
                flags: Default::default(),
                actions: parse_actions(actions, &NoNames).unwrap().into(),
            };
            tables.add(parts).unwrap()
        };
        let hidden = rule(0, 180_001, 0, "", "drop");
        assert_eq!(hidden.flow_match, Match::new());
        assert_eq!(
            rule_text(&hidden, false),
            "duration=0s, n_packets=0, n_bytes=0, priority=180001,actions=drop"
        );
        let rule = rule(3, 32768, 9, "ip,in_port=1", "output:2");
        rule.statistics().add(2, 120, clock::now());
        assert_eq!(
            rule_text(&rule, true),
            "cookie=0x9, table_id=3, duration=0s, n_packets=2, n_bytes=120, n_offload_packets=0, \
             n_offload_bytes=0, ip,in_port=1,actions=output:2"
        );
    }
}
