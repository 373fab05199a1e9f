//! Tables against a list of rules that is changed in the most obvious way.

use proptest::prelude::*;

use super::*;

/// Most rules of the table.
const LIMIT: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ModelRule {
    /// 0 for packets from every port.
    in_port: u128,
    priority: u16,
    out_port: u16,
    cookie: u64,
}

#[derive(Clone, Debug, Default)]
struct Model(Vec<ModelRule>);

impl Model {
    /// The places of the rules that a message is about.
    fn select(&self, flow_mod: &FlowMod) -> Vec<usize> {
        use FlowModCommand::{Delete, DeleteStrict, ModifyStrict};
        let in_port = flow_mod.flow_match.value(Slot::IN_PORT);
        let is_strict = matches!(flow_mod.command, ModifyStrict | DeleteStrict);
        let deletes = matches!(flow_mod.command, Delete | DeleteStrict);
        let is_meant = |rule: &ModelRule| {
            let has_match = match is_strict {
                true => (rule.in_port, rule.priority) == (in_port, flow_mod.priority),
                false => in_port == 0 || rule.in_port == in_port,
            };
            let has_cookie = (rule.cookie ^ flow_mod.cookie) & flow_mod.cookie_mask == 0;
            let out = flow_mod.out_port;
            let has_output = !deletes || out == PortNo::NONE || out.0 == rule.out_port;
            has_match && has_cookie && has_output
        };
        (0..self.0.len()).filter(|&place| is_meant(&self.0[place])).collect()
    }

    fn apply(&mut self, flow_mod: &FlowMod) -> Result<(), OfError> {
        use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
        let Some(Action::Output { port, .. }) = flow_mod.actions.first() else { panic!() };
        let places = self.select(flow_mod);
        match flow_mod.command {
            Delete | DeleteStrict => {
                for place in places.into_iter().rev() {
                    self.0.remove(place);
                }
                return Ok(());
            }
            Modify | ModifyStrict if !places.is_empty() => {
                for place in places {
                    let rule = &mut self.0[place];
                    rule.out_port = port.0;
                    if flow_mod.modify_cookie && flow_mod.new_cookie != u64::MAX {
                        rule.cookie = flow_mod.new_cookie;
                    }
                }
                return Ok(());
            }
            Modify | ModifyStrict if flow_mod.new_cookie == u64::MAX => return Ok(()),
            Modify | ModifyStrict if flow_mod.cookie_mask != 0 => return Ok(()),
            Add | Modify | ModifyStrict => {}
        }
        let (in_port, priority) = (flow_mod.flow_match.value(Slot::IN_PORT), flow_mod.priority);
        let mut rule =
            ModelRule { in_port, priority, out_port: port.0, cookie: flow_mod.new_cookie };
        let same = |other: &ModelRule| (other.in_port, other.priority) == (in_port, priority);
        if let Some(place) = self.0.iter().position(same) {
            if rule.cookie == u64::MAX {
                rule.cookie = self.0[place].cookie;
            }
            self.0[place] = rule;
            return Ok(());
        }
        let overlaps =
            |other: &ModelRule| other.priority == priority && (in_port == 0 || other.in_port == 0);
        if flow_mod.flags.has(FlowFlags::CHECK_OVERLAP) && self.0.iter().any(overlaps) {
            return Err(OfError::FlowModOverlap);
        }
        if self.0.len() >= LIMIT {
            return Err(OfError::FlowModTableFull);
        }
        self.0.push(rule);
        Ok(())
    }

    /// Priority of the rule that takes packets from a port.
    fn lookup(&self, in_port: u16) -> Option<u16> {
        let takes = |rule: &&ModelRule| rule.in_port == 0 || rule.in_port == in_port.into();
        self.0.iter().filter(takes).map(|rule| rule.priority).max()
    }
}

fn message() -> impl Strategy<Value = FlowMod> {
    let command = prop_oneof![
        4 => Just(FlowModCommand::Add),
        1 => Just(FlowModCommand::Modify),
        1 => Just(FlowModCommand::ModifyStrict),
        1 => Just(FlowModCommand::Delete),
        1 => Just(FlowModCommand::DeleteStrict),
    ];
    let cookie = || prop_oneof![0u64..3, Just(u64::MAX)];
    let out_port = prop_oneof![3 => Just(PortNo::NONE), 1 => (1u16..3).prop_map(PortNo)];
    let numbers = (0u128..4, 1u16..4, 1u16..4);
    let cookies = (cookie(), 0u64..3, prop_oneof![2 => Just(0), 1 => Just(u64::MAX)]);
    (command, numbers, cookies, out_port, any::<bool>(), any::<bool>()).prop_map(
        |(command, (in_port, priority, to), cookies, out_port, modify_cookie, checks)| {
            let (new_cookie, cookie, cookie_mask) = cookies;
            let flags = if checks { FlowFlags::CHECK_OVERLAP } else { FlowFlags::default() };
            FlowMod {
                new_cookie,
                cookie,
                cookie_mask,
                out_port,
                modify_cookie,
                flags,
                ..flow_mod(command, in_port, priority, to)
            }
        },
    )
}

proptest! {
    #[test]
    fn tables_are_what_a_list_would_be(
        bundles in prop::collection::vec(
            (prop::collection::vec(message(), 1..5), prop::bool::weighted(0.8)),
            1..12,
        ),
    ) {
        let tables = tables();
        let limit = Some(LIMIT as u32);
        tables.set_settings(0, &TableSettings { limit, ..TableSettings::default() });
        let mut model = Model::default();
        for (messages, is_committed) in bundles {
            let mut transaction = tables.begin();
            let mut changed = model.clone();
            let mut error = Ok(());
            for message in &messages {
                error = changed.apply(message);
                prop_assert_eq!(transaction.modify(message, PEER), error, "{:?}", message);
                if error.is_err() {
                    break;
                }
            }
            if error.is_ok() && is_committed {
                transaction.commit();
                model = changed;
            } else {
                drop(transaction);
            }
            let mut rules: Vec<_> = dump(&tables)
                .into_iter()
                .map(|(in_port, priority, out_port, cookie)| {
                    ModelRule { in_port, priority: priority as u16, out_port, cookie }
                })
                .collect();
            rules.sort_unstable();
            let mut wanted = model.0.clone();
            wanted.sort_unstable();
            prop_assert_eq!(&rules, &wanted);
            prop_assert_eq!(tables.counts(0).unwrap().active as usize, rules.len());
            prop_assert_eq!(tables.tables[0].read().len(), rules.len());
            for port in 1..5 {
                let mut flow = Flow::default();
                flow.in_port.set(port);
                let found = tables.lookup(0, tables.version(), &flow, &mut Flow::default());
                prop_assert_eq!(found.map(|rule| rule.priority as u16), model.lookup(port));
            }
        }
    }
}
