//! What flows of the datapath were made of (`ofproto/detrace`).

use std::fmt::Write as _;
use std::sync::Arc;

use crate::openflow::text::print_group;
use crate::rule_text::rule_text;
use crate::switches::Switches;
use crate::translate::Effect;

/// The rules and groups that took the packets of a flow, under the names of their switches.
pub(super) fn origin_text(effects: &[Effect], switches: &Switches) -> String {
    let (mut text, mut last) = (String::new(), None);
    for effect in effects {
        let switch = switches.iter().find(|switch| match effect {
            Effect::Table { tables, .. } => Arc::ptr_eq(tables, &switch.tables),
            Effect::Group { group, .. } => {
                switch.groups.get(group.id).is_some_and(|own| Arc::ptr_eq(&own, group))
            }
            _ => false,
        });
        if let Some(switch) = switch.filter(|switch| last != Some(&switch.name)) {
            let _ = writeln!(text, "{}", switch.name);
            last = Some(&switch.name);
        }
        let _ = match effect {
            Effect::Rule(rule) => writeln!(text, "  {}", rule_text(rule, true)),
            Effect::Table { table, is_match: false, .. } => {
                writeln!(text, "  table_id={table}, no match")
            }
            Effect::Group { group, bucket } => {
                let buckets: Vec<_> = match bucket {
                    Some(bucket) => vec![bucket.bucket.clone()],
                    None => group.buckets.iter().map(|bucket| bucket.bucket.clone()).collect(),
                };
                text += "  ";
                print_group(&mut text, group.id, group.group_type, &group.selection, &buckets);
                writeln!(text)
            }
            _ => Ok(()),
        };
    }
    text
}
