use std::time::Duration;

use netdev::clock;

use super::*;
use crate::news::News;
use crate::openflow::action::Action;
use crate::openflow::message::{
    FlowFlags, FlowModCommand, GROUP_ANY, NO_BUFFER, TableDesc, TableMod, Vacancy,
};
use crate::openflow::port::PortNo;
use crate::openflow::slot::Slot;

mod model;

const PEER: Source = Source::Peer { connection: 3, xid: 9 };

fn tables() -> Tables {
    Tables::new(Arc::default(), News::default())
}

fn to_port(port: u16) -> Vec<Action> {
    vec![Action::Output { port: PortNo(port), max_len: 0 }]
}

/// A match of an input port, or of everything for 0.
fn from_port(port: u128) -> Match {
    let mut flow_match = Match::new();
    if port != 0 {
        flow_match.set_exact(Slot::IN_PORT, port);
    }
    flow_match
}

fn flow_mod(command: FlowModCommand, in_port: u128, priority: u16, out_port: u16) -> FlowMod {
    FlowMod {
        command,
        flow_match: from_port(in_port),
        priority,
        cookie: 0,
        cookie_mask: 0,
        new_cookie: if command == FlowModCommand::Add { 7 } else { u64::MAX },
        modify_cookie: false,
        table_id: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        buffer_id: NO_BUFFER,
        out_port: PortNo::NONE,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        actions: to_port(out_port),
        normalized: false,
    }
}

fn add(in_port: u128, priority: u16, out_port: u16) -> FlowMod {
    flow_mod(FlowModCommand::Add, in_port, priority, out_port)
}

/// Input port, priority, output port and cookie of all rules.
fn dump(tables: &Tables) -> Vec<(u128, u32, u16, u64)> {
    let rules = tables.select(&Criteria::all());
    rules.iter().map(|rule| describe(rule)).collect()
}

fn describe(rule: &Rule) -> (u128, u32, u16, u64) {
    let port = match rule.actions.first() {
        Some(Action::Output { port, .. }) => port.0,
        _ => 0,
    };
    (rule.flow_match.value(Slot::IN_PORT), rule.priority, port, rule.cookie)
}

/// What happened, to rules with which output port, and to whose account.
fn events(tables: &Tables) -> Vec<(String, u16, Option<u16>, Source)> {
    let events = tables.take_events().into_iter();
    let port = |rule: &Rule| describe(rule).2;
    let first = |actions: Option<Arc<[Action]>>| match actions?.first()? {
        Action::Output { port, .. } => Some(port.0),
        _ => None,
    };
    let describe = |event| match event {
        TableEvent::Added { rule, old_actions, source } => {
            ("added".to_owned(), port(&rule), first(old_actions), source)
        }
        TableEvent::Modified { rule, old_actions, source } => {
            ("modified".to_owned(), port(&rule), first(old_actions), source)
        }
        TableEvent::Removed { rule, reason, source } => {
            (format!("removed {}", reason.0), port(&rule), None, source)
        }
        TableEvent::Vacancy { reason, table } => {
            (format!("{reason:?} {}", table.table_id), 0, None, Source::Switch)
        }
    };
    events.map(describe).collect()
}

fn output(tables: &Tables, in_port: u16) -> Option<u16> {
    let mut flow = Flow::default();
    flow.in_port.set(in_port);
    let rule = tables.lookup(0, tables.version(), &flow, &mut Flow::default())?;
    Some(describe(&rule).2)
}

fn event(what: &str, port: u16) -> (String, u16, Option<u16>, Source) {
    (what.to_owned(), port, None, PEER)
}

#[test]
fn adding_replaces_the_same_rule() {
    let tables = tables();
    tables.modify(&add(1, 5, 10), PEER).unwrap();
    tables.modify(&add(0, 5, 20), PEER).unwrap();
    let old = tables.select(&Criteria::all()).remove(0);
    old.statistics().add(3, 180, Duration::from_secs(9));
    tables.modify(&FlowMod { new_cookie: 8, ..add(1, 5, 11) }, PEER).unwrap();
    assert_eq!(dump(&tables), [(1, 5, 11, 8), (0, 5, 20, 7)]);
    let new = tables.select(&Criteria::all()).remove(0);
    assert_eq!((new.statistics().packets(), new.statistics().bytes()), (3, 180));
    tables.modify(&FlowMod { flags: FlowFlags::RESET_COUNTS, ..add(1, 5, 11) }, PEER).unwrap();
    let new = tables.select(&Criteria::all()).remove(0);
    assert_eq!((new.statistics().packets(), new.statistics().bytes()), (0, 0));
    assert_eq!((output(&tables, 1), output(&tables, 2)), (Some(11), Some(20)));
    let replaced = |old| ("added".to_owned(), 11, old, PEER);
    assert_eq!(
        events(&tables),
        [event("added", 10), event("added", 20), replaced(Some(10)), replaced(None)]
    );
    assert_eq!(tables.counts(0).unwrap().active, 2);
}

#[test]
fn modifying_changes_actions_only() {
    let tables = tables();
    for (port, priority) in [(1, 5), (1, 6), (2, 5)] {
        let timeouts = FlowMod { idle_timeout: 60, hard_timeout: 90, ..add(port, priority, 10) };
        tables.modify(&timeouts, PEER).unwrap();
    }
    events(&tables);
    let modify = FlowMod {
        command: FlowModCommand::Modify,
        idle_timeout: 1,
        flags: FlowFlags::SEND_FLOW_REM,
        ..flow_mod(FlowModCommand::Modify, 1, 0, 11)
    };
    tables.modify(&modify, PEER).unwrap();
    assert_eq!(dump(&tables), [(2, 5, 10, 7), (1, 5, 11, 7), (1, 6, 11, 7)]);
    for rule in tables.select(&Criteria::all()) {
        assert_eq!(
            (rule.idle_timeout(), rule.hard_timeout(), rule.flags),
            (60, 90, FlowFlags::default())
        );
    }
    let modified = ("modified".to_owned(), 11, Some(10), PEER);
    assert_eq!(events(&tables), [modified.clone(), modified]);
    // The same again is no event.
    tables.modify(&modify, PEER).unwrap();
    assert_eq!(events(&tables), []);
    let strict = flow_mod(FlowModCommand::ModifyStrict, 1, 6, 12);
    let strict = FlowMod { new_cookie: 9, modify_cookie: true, ..strict };
    tables.modify(&strict, PEER).unwrap();
    assert_eq!(events(&tables), [("modified".to_owned(), 12, Some(11), PEER)]);
    let rules = dump(&tables);
    assert!(rules.contains(&(1, 6, 12, 9)) && rules.contains(&(1, 5, 11, 7)));
}

#[test]
fn modifying_nothing_adds_if_it_may() {
    let tables = tables();
    let modify = flow_mod(FlowModCommand::Modify, 1, 5, 10);
    tables.modify(&modify, PEER).unwrap();
    tables.modify(&FlowMod { new_cookie: 1, cookie_mask: 1, ..modify.clone() }, PEER).unwrap();
    assert_eq!(dump(&tables), []);
    tables.modify(&FlowMod { new_cookie: 1, ..modify }, PEER).unwrap();
    assert_eq!(dump(&tables), [(1, 5, 10, 1)]);
    assert_eq!(events(&tables), [event("added", 10)]);
}

#[test]
fn deleting_goes_by_all_criteria() {
    let tables = tables();
    for (port, priority, to) in [(1, 5, 10), (2, 5, 11), (0, 6, 12)] {
        tables.modify(&FlowMod { new_cookie: to.into(), ..add(port, priority, to) }, PEER).unwrap();
    }
    events(&tables);
    let delete = flow_mod(FlowModCommand::Delete, 0, 0, 0);
    let strict = flow_mod(FlowModCommand::DeleteStrict, 0, 5, 0);
    for nothing in [
        strict.clone(),
        FlowMod { out_port: PortNo(9), ..delete.clone() },
        FlowMod { out_group: 1, ..delete.clone() },
        FlowMod { cookie: 1, cookie_mask: u64::MAX, ..delete.clone() },
        FlowMod { table_id: 1, ..delete.clone() },
        FlowMod { flow_match: from_port(3), ..delete.clone() },
    ] {
        tables.modify(&nothing, PEER).unwrap();
    }
    assert_eq!(events(&tables), []);
    tables.modify(&FlowMod { out_port: PortNo(10), ..delete.clone() }, PEER).unwrap();
    tables.modify(&FlowMod { cookie: 3, cookie_mask: 3, ..delete.clone() }, PEER).unwrap();
    assert_eq!(events(&tables), [event("removed 2", 10), event("removed 2", 11)]);
    tables.modify(&FlowMod { table_id: 255, priority: 6, ..strict }, PEER).unwrap();
    assert_eq!(events(&tables), [event("removed 2", 12)]);
    assert_eq!((dump(&tables), output(&tables, 1)), (vec![], None));
    assert_eq!(tables.counts(0).unwrap().active, 0);
    assert!(tables.tables[0].read().is_empty());
}

#[test]
fn overlaps_are_refused_on_demand() {
    let tables = tables();
    tables.modify(&add(1, 5, 10), PEER).unwrap();
    let checked =
        |port, priority| FlowMod { flags: FlowFlags::CHECK_OVERLAP, ..add(port, priority, 11) };
    assert_eq!(tables.modify(&checked(0, 5), PEER), Err(OfError::FlowModOverlap));
    assert_eq!(tables.modify(&checked(0, 6), PEER), Ok(()));
    assert_eq!(tables.modify(&checked(2, 5), PEER), Ok(()));
    assert_eq!(tables.modify(&checked(1, 5), PEER), Ok(()));
    assert_eq!(dump(&tables).len(), 3);
}

#[test]
fn what_controllers_may_not_do() {
    let tables = tables();
    let internal = FlowMod { table_id: TABLE_INTERNAL, ..add(1, 5, 10) };
    assert_eq!(tables.modify(&internal, PEER), Err(OfError::BadRequestEperm));
    let mut hidden = add(1, 5, 10);
    hidden.flow_match.set_exact(Slot::RECIRC_ID, 1);
    assert_eq!(tables.modify(&hidden, PEER), Err(OfError::BadRequestEperm));
    let buffered = FlowMod { buffer_id: 1, ..add(1, 5, 10) };
    assert_eq!(tables.modify(&buffered, PEER), Err(OfError::BadRequestBufferUnknown));
    let delete = flow_mod(FlowModCommand::Delete, 0, 0, 0);
    let internal = FlowMod { table_id: TABLE_INTERNAL, ..delete.clone() };
    assert_eq!(tables.modify(&internal, PEER), Err(OfError::BadRequestEperm));
    tables.modify(&FlowMod { table_id: 255, ..delete }, PEER).unwrap();
    let internal = Criteria { table: TABLE_INTERNAL, ..Criteria::all() };
    assert_eq!(tables.select(&internal).len(), 4);
    assert_eq!(tables.internal(InternalRule::Miss).unwrap().actions.len(), 1);
    assert!(tables.internal(InternalRule::DropFragments).unwrap().actions.is_empty());
    assert_eq!(events(&tables), []);
}

#[test]
fn bundles_are_atomic() {
    let tables = tables();
    tables.modify(&add(1, 5, 10), PEER).unwrap();
    tables.modify(&add(2, 5, 20), PEER).unwrap();
    events(&tables);
    let before = (dump(&tables), tables.version());
    let delete = FlowMod { flow_match: from_port(2), ..flow_mod(FlowModCommand::Delete, 2, 0, 0) };
    let mut transaction = tables.begin();
    transaction.modify(&add(1, 5, 11), PEER).unwrap();
    transaction.modify(&delete, PEER).unwrap();
    transaction.modify(&add(3, 5, 30), PEER).unwrap();
    transaction.modify(&add(3, 5, 31), PEER).unwrap();
    let overlap = FlowMod { flags: FlowFlags::CHECK_OVERLAP, ..add(0, 5, 40) };
    assert_eq!(transaction.modify(&overlap, PEER), Err(OfError::FlowModOverlap));
    assert_eq!(
        (output(&tables, 1), output(&tables, 2), output(&tables, 3)),
        (Some(10), Some(20), None)
    );
    drop(transaction);
    assert_eq!((dump(&tables), tables.version()), before);
    assert_eq!(events(&tables), []);
    assert_eq!(tables.counts(0).unwrap().active, 2);
    assert_eq!(tables.tables[0].read().len(), 2);
    let mut transaction = tables.begin();
    transaction.modify(&add(1, 5, 11), PEER).unwrap();
    transaction.modify(&delete, PEER).unwrap();
    transaction.modify(&add(3, 5, 31), PEER).unwrap();
    transaction.commit();
    assert_eq!(
        (output(&tables, 1), output(&tables, 2), output(&tables, 3)),
        (Some(11), None, Some(31))
    );
    assert_eq!(tables.tables[0].read().len(), 2);
}

#[test]
fn pinned_versions_keep_their_rules() {
    let tables = tables();
    tables.modify(&add(1, 5, 10), PEER).unwrap();
    let pin = tables.pin();
    tables.modify(&add(1, 5, 11), PEER).unwrap();
    tables.modify(&flow_mod(FlowModCommand::Delete, 0, 0, 0), PEER).unwrap();
    let mut flow = Flow::default();
    flow.in_port.set(1);
    let found = tables.lookup(0, pin.number(), &flow, &mut Flow::default()).unwrap();
    assert_eq!(describe(&found), (1, 5, 10, 7));
    assert_eq!(output(&tables, 1), None);
    assert_eq!(tables.tables[0].read().len(), 2);
    drop(pin);
    tables.expire(clock::now());
    assert_eq!(tables.tables[0].read().len(), 0);
}

#[test]
fn rules_go_with_their_groups_and_meters() {
    let tables = tables();
    let using = |port, action: Action| FlowMod {
        actions: vec![Action::WriteActions(vec![action])],
        ..add(port, 5, 0)
    };
    tables.modify(&using(1, Action::Group(7)), PEER).unwrap();
    tables.modify(&using(2, Action::Meter(8)), PEER).unwrap();
    tables.modify(&using(3, Action::Group(9)), PEER).unwrap();
    events(&tables);
    assert_eq!((tables.users_of_group(7), tables.users_of_group(8)), (1, 0));
    tables.remove_users_of_group(7);
    tables.remove_users_of_meter(8);
    tables.remove_users_of_meter(9);
    let by_switch = |what: &str| (what.to_owned(), 0, None, Source::Switch);
    assert_eq!(events(&tables), [by_switch("removed 3"), by_switch("removed 4")]);
    assert_eq!(dump(&tables), [(3, 5, 0, 7)]);
    assert_eq!(tables.users_of_group(7), 0);
}

#[test]
fn full_tables_refuse_or_evict() {
    let tables = tables();
    let settings = TableSettings { limit: Some(2), ..TableSettings::default() };
    tables.set_settings(0, &settings);
    let mortal =
        |port, importance| FlowMod { hard_timeout: 100, importance, ..add(port, 5, port as u16) };
    tables.modify(&mortal(1, 2), PEER).unwrap();
    tables.modify(&mortal(2, 1), PEER).unwrap();
    assert_eq!(tables.modify(&mortal(3, 0), PEER), Err(OfError::FlowModTableFull));
    tables.modify(&mortal(2, 1), PEER).unwrap();
    events(&tables);
    tables.set_settings(0, &TableSettings { overflow: Overflow::Evict, ..settings.clone() });
    tables.modify(&mortal(3, 0), PEER).unwrap();
    assert_eq!(events(&tables), [event("removed 5", 2)]);
    assert_eq!(tables.counts(0).unwrap().active, 2);
    // One that stays for ever is not evicted.
    tables.modify(&add(4, 5, 4), PEER).unwrap();
    tables.modify(&add(5, 5, 5), PEER).unwrap();
    assert_eq!(events(&tables), [event("removed 5", 3), event("removed 5", 1)]);
    assert_eq!(tables.modify(&mortal(6, 0), PEER), Err(OfError::FlowModTableFull));
    // A lower limit evicts, too, what can be.
    tables.set_settings(0, &TableSettings { limit: None, ..settings.clone() });
    tables.modify(&mortal(7, 0), PEER).unwrap();
    events(&tables);
    let one = TableSettings { limit: Some(1), overflow: Overflow::Evict, ..settings };
    tables.set_settings(0, &one);
    assert_eq!(events(&tables), [("removed 5".to_owned(), 7, None, Source::Switch)]);
    assert_eq!(dump(&tables).len(), 2);
}

#[test]
fn evictions_are_undone_with_their_bundle() {
    let tables = tables();
    let settings =
        TableSettings { limit: Some(1), overflow: Overflow::Evict, ..TableSettings::default() };
    tables.set_settings(0, &settings);
    tables.modify(&FlowMod { idle_timeout: 60, ..add(1, 5, 10) }, PEER).unwrap();
    let mut transaction = tables.begin();
    transaction.modify(&FlowMod { idle_timeout: 60, ..add(2, 5, 20) }, PEER).unwrap();
    transaction.modify(&add(3, 5, 30), PEER).unwrap();
    let full = transaction.modify(&add(4, 5, 40), PEER);
    assert_eq!(full, Err(OfError::FlowModTableFull));
    drop(transaction);
    assert_eq!(dump(&tables), [(1, 5, 10, 7)]);
    tables.modify(&add(3, 5, 30), PEER).unwrap();
    assert_eq!(dump(&tables), [(3, 5, 30, 7)]);
}

fn learned(in_port: u128, out_port: u16, limit: u32) -> Learned {
    let parts = RuleParts {
        table: 0,
        priority: 5,
        flow_match: from_port(in_port),
        cookie: 9,
        idle_timeout: 0,
        hard_timeout: 60,
        importance: 0,
        flags: FlowFlags::default(),
        actions: to_port(out_port).into(),
    };
    Learned::new(parts, limit)
}

#[test]
fn learning_adds_confirms_and_replaces() {
    let tables = tables();
    let learned_event = |what: &str, port, old| (what.to_owned(), port, old, Source::Switch);
    let now = clock::now();
    let later = now + Duration::from_secs(5);
    let first = learned(1, 10, 0);
    assert!(!tables.has_learned(&first));
    assert_eq!(tables.learn(&first, now), Ok(LearnResult::Learned));
    assert!(tables.has_learned(&first));
    assert_eq!(events(&tables), [learned_event("added", 10, None)]);
    // The same again, from here and from elsewhere.
    assert_eq!(tables.learn(&first, later), Ok(LearnResult::Learned));
    assert_eq!(tables.learn(&learned(1, 10, 0), later), Ok(LearnResult::Learned));
    assert_eq!(events(&tables), []);
    let rule = tables.select(&Criteria::all()).remove(0);
    assert_eq!(rule.modified().as_millis(), later.as_millis());
    // Something else for the same packets.
    let second = learned(1, 11, 0);
    assert_eq!(tables.learn(&second, later), Ok(LearnResult::Learned));
    assert!(!tables.has_learned(&first) && tables.has_learned(&second));
    assert_eq!(events(&tables), [learned_event("modified", 11, Some(10))]);
    // An old packet does not bring the first back, a new one does.
    assert_eq!(tables.learn(&first, now), Ok(LearnResult::Learned));
    assert_eq!(events(&tables), []);
    let even_later = later + Duration::from_secs(5);
    assert_eq!(tables.learn(&first, even_later), Ok(LearnResult::Learned));
    assert_eq!(events(&tables), [learned_event("modified", 10, Some(11))]);
    tables.modify(&flow_mod(FlowModCommand::Delete, 0, 0, 0), PEER).unwrap();
    assert_eq!(tables.learn(&first, even_later), Ok(LearnResult::Learned));
    assert_eq!(dump(&tables), [(1, 5, 10, 9)]);
}

#[test]
fn learning_has_limits() {
    let tables = tables();
    let now = clock::now();
    tables.modify(&add(7, 5, 10), PEER).unwrap();
    assert_eq!(tables.learn(&learned(1, 10, 2), now), Ok(LearnResult::Learned));
    assert_eq!(tables.learn(&learned(2, 10, 2), now), Ok(LearnResult::Learned));
    assert_eq!(tables.learn(&learned(3, 10, 2), now), Ok(LearnResult::Full));
    assert_eq!(tables.learn(&learned(2, 10, 2), now), Ok(LearnResult::Learned));
    assert_eq!(dump(&tables).len(), 3);
    let settings = TableSettings { limit: Some(3), ..TableSettings::default() };
    tables.set_settings(0, &settings);
    assert_eq!(tables.learn(&learned(4, 10, 0), now), Err(OfError::FlowModTableFull));
}

#[test]
fn learned_rules_may_go_with_their_teachers() {
    let tables = tables();
    let teacher = |in_port, cookie| {
        let learn = Action::Learn(Box::new(crate::openflow::action::Learn {
            idle_timeout: 0,
            hard_timeout: 0,
            fin_idle_timeout: 0,
            fin_hard_timeout: 0,
            priority: 5,
            cookie,
            flags: crate::openflow::action::Learn::DELETE_LEARNED,
            table_id: 0,
            limit: 0,
            result_dst: None,
            specs: Vec::new(),
            with_limit: false,
        }));
        FlowMod { actions: vec![learn], ..add(in_port, 9, 0) }
    };
    tables.modify(&teacher(1, 9), PEER).unwrap();
    tables.modify(&teacher(2, 9), PEER).unwrap();
    tables.learn(&learned(5, 10, 0), clock::now()).unwrap();
    events(&tables);
    let delete = |port| {
        tables.modify(&flow_mod(FlowModCommand::DeleteStrict, port, 9, 0), PEER).unwrap();
        events(&tables)
    };
    assert_eq!(delete(1), [event("removed 2", 0)]);
    let learned = ("removed 2".to_owned(), 10, None, Source::Switch);
    assert_eq!(delete(2), [event("removed 2", 0), learned]);
    assert_eq!(dump(&tables), []);
}

#[test]
fn rules_run_out() {
    let tables = tables();
    let now = Duration::from_millis(clock::now().as_millis() as u64);
    let seconds = Duration::from_secs;
    tables.modify(&FlowMod { hard_timeout: 10, ..add(1, 5, 10) }, PEER).unwrap();
    tables.modify(&FlowMod { idle_timeout: 4, ..add(2, 5, 20) }, PEER).unwrap();
    tables.modify(&add(3, 5, 30), PEER).unwrap();
    events(&tables);
    tables.expire(now);
    assert!(tables.next_expiry().is_some_and(|next| next > now + seconds(4)));
    let idle = tables.select(&Criteria::all()).remove(1);
    idle.statistics().add(1, 60, now + seconds(5));
    tables.expire(now + seconds(8));
    assert_eq!(tables.next_expiry(), Some(now + seconds(9) + Duration::from_millis(1)));
    assert_eq!(events(&tables), []);
    let ran_out = |what: &str, port| (what.to_owned(), port, None, Source::Switch);
    tables.shorten_timeouts(&tables.select(&Criteria::all())[2], 0, 12);
    tables.expire(now + seconds(11));
    assert_eq!(events(&tables), [ran_out("removed 0", 20), ran_out("removed 1", 10)]);
    tables.expire(now + seconds(14));
    assert_eq!(tables.next_expiry(), None);
    assert_eq!(events(&tables), [ran_out("removed 1", 30)]);
    assert_eq!(tables.counts(0).unwrap().active, 0);
}

#[test]
fn vacancy_is_told_once_for_each_way() {
    let tables = tables();
    tables.set_settings(0, &TableSettings { limit: Some(10), ..TableSettings::default() });
    let table_mod = TableMod {
        table_id: 0,
        miss: None,
        eviction: Some(false),
        eviction_flags: None,
        vacancy_events: Some(true),
        vacancy: Vacancy { down: 20, up: 80, current: 0 },
    };
    tables.modify_table(&table_mod).unwrap();
    let kinds = || events(&tables).into_iter().map(|(what, ..)| what).collect::<Vec<_>>();
    let added = |n| vec!["added".to_owned(); n];
    for port in 1..=9 {
        tables.modify(&add(port, 5, 10), PEER).unwrap();
    }
    assert_eq!(kinds(), [added(9), vec!["VacancyDown 0".to_owned()]].concat());
    tables.modify(&flow_mod(FlowModCommand::Delete, 0, 0, 0), PEER).unwrap();
    // All rules are gone when the first of them is told of.
    let mut removed = vec!["removed 2".to_owned(); 9];
    removed.insert(1, "VacancyUp 0".to_owned());
    assert_eq!(kinds(), removed);
    assert_eq!(
        tables.desc(0),
        Some(TableDesc {
            table_id: 0,
            eviction: false,
            eviction_flags: Some(7),
            vacancy: Some(Vacancy { down: 20, up: 80, current: 100 }),
        })
    );
    let internal = TableMod { table_id: TABLE_INTERNAL, ..table_mod };
    assert_eq!(tables.modify_table(&internal), Err(OfError::TableModEperm));
    let flags = TableMod { eviction_flags: Some(1), ..table_mod };
    assert_eq!(tables.modify_table(&flags), Err(OfError::TableModBadConfig));
}

#[test]
fn names_of_the_configuration_prevail() {
    let tables = tables();
    let named = |name: Option<&str>| TableSettings {
        name: name.map(str::to_owned),
        ..TableSettings::default()
    };
    tables.set_name(0, Some("a"));
    assert_eq!((tables.name(0).as_str(), tables.may_set_name(0, "b")), ("a", true));
    tables.set_settings(0, &named(Some("c")));
    tables.set_name(0, Some("b"));
    assert_eq!((tables.name(0).as_str(), tables.may_set_name(0, "b")), ("c", false));
    assert!(tables.may_set_name(0, "c"));
    tables.set_settings(0, &named(None));
    assert_eq!(tables.name(0), "");
    let long = "x".repeat(40);
    tables.set_name(0, Some(&long));
    assert_eq!(tables.name(0), long[..32]);
}
