//! `dpctl/normalize-actions`: what becomes of a packet under each VLAN, however the actions are
//! ordered.

use std::fmt;

use dpif::action::{Action, ActionsText, parse_actions};
use dpif::flow::{FlowKey, FlowText, MAX_VLANS, PortNames, parse_flow};
use netdev::wire::mpls;
use rustix::io::Errno;
use serde_json::json;

use super::{Options, Report, command};
use crate::appctl::registry::{Call, Command, Handler, Outcome};
use crate::daemon::Daemon;

pub(super) const COMMANDS: &[Command] =
    &[command("dpctl/normalize-actions", "actions", (2, usize::MAX), Handler::Now(normalize))];

/// The tags of a packet, and what is done to it while it has them.
struct Group {
    /// Of each tag, the outermost first, the protocol and the control information.
    tags: Vec<(u16, u16)>,
    actions: Vec<Action>,
}

/// Sorts actions by the tags that the packet has, and outputs in a row by their ports.
fn group(key: &FlowKey, actions: Vec<Action>) -> Vec<Group> {
    let mut tags: Vec<_> = key.vlans.iter().map(|tag| (tag.tpid.get(), tag.tci.get())).collect();
    tags.retain(|(_, tci)| *tci != 0);
    let mut groups: Vec<Group> = vec![];
    for action in actions {
        match action {
            Action::PushVlan { tpid, tci } => tags.insert(0, (tpid, tci)),
            Action::PopVlan => {
                tags = tags.split_off(tags.len().min(1));
            }
            action => match groups.iter_mut().find(|group| group.tags == tags) {
                Some(group) => group.actions.push(action),
                None => groups.push(Group { tags: tags.clone(), actions: vec![action] }),
            },
        }
    }
    groups.sort_by(|one, other| one.tags.cmp(&other.tags));
    for group in &mut groups {
        let is_output = |action: &Action| matches!(action, Action::Output(_));
        for row in group.actions.chunk_by_mut(|one, other| is_output(one) && is_output(other)) {
            row.sort_by_key(|action| match action {
                Action::Output(port) => *port,
                _ => 0,
            });
        }
    }
    groups
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tags.is_empty() {
            f.write_str("no vlan: ")?;
        }
        for (tpid, tci) in &self.tags {
            f.write_str("vlan(")?;
            if *tpid != 0x8100 {
                write!(f, "tpid={tpid:#06x},")?;
            }
            write!(f, "vid={},pcp={}): ", tci & 0xfff, tci >> 13)?;
        }
        Ok(())
    }
}

/// The labels of packets with a key.
fn labels(key: &FlowKey) -> String {
    match key.mpls.first().filter(|_| mpls::is_mpls(key.eth_type.get())) {
        None => "no mpls: ".to_owned(),
        Some(entry) => {
            let entry = entry.get();
            let (label, class) = (entry >> 12, entry >> 9 & 7);
            format!("mpls(label={label},tc={class},ttl={}): ", entry & 0xff)
        }
    }
}

fn normalize(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (options, arguments) = Options::parse(&call.arguments)?;
    let [flow, actions, ports @ ..] = arguments else {
        return Err("a flow and actions are needed".to_owned());
    };
    let mut report = Report::new(daemon);
    let mut names = vec![];
    for text in ports {
        let port = text.split_once('=').and_then(|(name, port)| Some((port.parse().ok()?, name)));
        let Some((number, name)) = port else {
            report.fail(None, format!("{text}: expected NAME=NUMBER"));
            return report.outcome();
        };
        names.push((number, name.to_owned()));
    }
    let names = PortNames::from_iter(names);
    let flow = match parse_flow(flow, Some(&names), MAX_VLANS) {
        Ok(flow) => flow,
        Err(error) => {
            report.fail(Some(Errno::INVAL), format!("odp_flow_key_from_string ({error})"));
            return report.outcome();
        }
    };
    let actions = match parse_actions(actions, Some(&names)) {
        Ok(actions) => actions,
        Err(error) => {
            report.fail(Some(Errno::INVAL), format!("odp_actions_from_string ({error})"));
            return report.outcome();
        }
    };
    let key = FlowText {
        key: &flow.key,
        mask: Some(&flow.mask),
        verbose: options.is_verbose,
        names: None,
        vlan_limit: MAX_VLANS,
    };
    report.line(format_args!("input flow: {key}"));
    if options.is_verbose {
        report.line(format_args!(
            "input actions: {}",
            ActionsText { actions: &actions, names: None }
        ));
    }
    let groups = group(&flow.key, actions).into_iter().map(|group| {
        let actions = ActionsText { actions: &group.actions, names: None };
        format!("{group}{}{actions}", labels(&flow.key))
    });
    let groups: Vec<_> = groups.collect();
    groups.iter().for_each(|line| report.line(line));
    report.outcome_or(call, || json!({"flow": key.to_string(), "actions": groups}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter() {
        let key = FlowKey::default();
        let lines = |text: &str| {
            let groups = group(&key, parse_actions(text, None).unwrap());
            let line = |group: &Group| {
                format!("{group}{}", ActionsText { actions: &group.actions, names: None })
            };
            groups.iter().map(line).collect::<Vec<_>>()
        };
        let expected = ["no vlan: 1,3,5", "vlan(vid=9,pcp=0): 2", "vlan(vid=11,pcp=3): 4,6"];
        for text in [
            "3,1,push_vlan(vid=9,pcp=0),2,pop_vlan,5,push_vlan(vid=11,pcp=3),6,4",
            "push_vlan(vid=11,pcp=3),4,pop_vlan,push_vlan(vid=9,pcp=0),2,pop_vlan,push_vlan(vid=11,\
             pcp=3),6,pop_vlan,5,3,1",
        ] {
            assert_eq!(lines(text), expected);
        }
        assert_eq!(
            lines("push_vlan(tpid=0x88a8,vid=1,pcp=0),push_vlan(vid=2,pcp=0),7"),
            ["vlan(vid=2,pcp=0): vlan(tpid=0x88a8,vid=1,pcp=0): 7"]
        );
    }
}
