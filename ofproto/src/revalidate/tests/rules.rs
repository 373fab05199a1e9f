//! What packets do to rules, and how they reach controllers and the slow path.

use dpif::action::ActionsText;
use netdev::wire::ethernet::ether_type;

use super::*;
use crate::openflow::action::PacketInReason;
use crate::openflow::message::{Continuation, FlowFlags, PacketIn};
use crate::openflow::text::{NoNames, parse_actions, parse_match};
use crate::packet_in_queue::QueuedPacketIn;
use crate::rule::{Rule, RuleParts};

/// Adds a rule to table 0.
fn add(setup: &Setup, flow_match: &str, actions: &str) -> Arc<Rule> {
    let parts = RuleParts {
        table: 0,
        priority: 100,
        flow_match: parse_match(flow_match, &NoNames).unwrap(),
        cookie: 0x1234,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: FlowFlags::default(),
        actions: parse_actions(actions, &NoNames).unwrap().into(),
    };
    setup.switch.tables().add(parts).unwrap()
}

/// A switch with no rules but those that tests add.
fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.set_fail_mode(FailMode::Secure);
    setup
}

fn counts(rule: &Rule) -> (u64, u64) {
    (rule.statistics().packets(), rule.statistics().bytes())
}

/// An ARP request.
fn request() -> Vec<u8> {
    let head = [&[0xff; 6][..], &address(1).0, &ether_type::ARP.to_be_bytes()].concat();
    let body = [0, 1, 8, 0, 6, 4, 0, 1];
    [&head[..], &body, &address(1).0, &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]].concat()
}

#[test]
fn rules_count_each_packet_once() {
    let mut setup = setup();
    let rule = add(&setup, "in_port=1", "output:2");
    let length = frame(1, 2).len() as u64;
    // The first is counted at once, those that hit the flow when revalidation looks at it.
    assert_eq!(setup.forward(1, &frame(1, 2)), [2]);
    assert_eq!(counts(&rule), (1, length));
    assert_eq!(setup.forward(1, &frame(1, 2)), [2]);
    assert_eq!(setup.forward(1, &frame(1, 2)), [2]);
    assert_eq!(counts(&rule), (1, length));
    setup.run();
    assert_eq!(counts(&rule), (3, 3 * length));
    setup.run();
    assert_eq!(counts(&rule), (3, 3 * length));
    let counted = setup.switch.tables().counts(0).unwrap();
    assert_eq!((counted.lookups, counted.matched), (3, 3));

    // What came since counts when flows go.
    assert_eq!(setup.forward(1, &frame(1, 2)), [2]);
    setup.revalidator.purge(&mut setup.datapath);
    assert_eq!(counts(&rule), (4, 4 * length));
    setup.run();
    assert_eq!(counts(&rule), (4, 4 * length));
}

#[test]
fn packets_of_flows_that_nobody_looked_at_count_when_they_go() {
    let mut setup = setup();
    let rule = add(&setup, "in_port=1", "output:2");
    let length = frame(1, 2).len() as u64;
    for _ in 0..3 {
        assert_eq!(setup.forward(1, &frame(1, 2)), [2]);
    }
    setup.revalidator.purge(&mut setup.datapath);
    assert_eq!(counts(&rule), (3, 3 * length));
}

#[test]
fn controllers_get_packets_with_what_rules_noted_down() {
    let mut setup = setup();
    add(&setup, "in_port=1", "set_field:7->reg0,controller(max_len=20,id=3,userdata=0a),output:2");
    let sent = frame(1, 2);
    assert_eq!(setup.forward(1, &sent), [2]);
    // The flow hands over each packet.
    assert_eq!(setup.forward(1, &sent), [2]);
    let expected = QueuedPacketIn {
        switch: setup.switch.snapshot().id,
        controller_id: 3,
        max_len: 20,
        is_continuation: false,
        message: PacketIn {
            packet: sent.clone(),
            total_len: sent.len() as u32,
            buffer_id: u32::MAX,
            reason: PacketInReason::ACTION,
            table_id: 0,
            cookie: Some(0x1234),
            metadata: parse_match("in_port=1,reg0=0x7", &NoNames).unwrap(),
            userdata: vec![10],
            continuation: Continuation::default(),
        },
    };
    assert_eq!(setup.upcalls.packet_ins().take(), [expected.clone(), expected]);
    assert_eq!(setup.upcalls.packet_ins().take(), []);
}

#[test]
fn paused_packets_can_be_resumed() {
    let mut setup = setup();
    add(&setup, "in_port=1", "controller(pause),output:2");
    assert_eq!(setup.forward(1, &frame(1, 2)), [0usize; 0]);
    let queued = setup.upcalls.packet_ins().take().pop_front().unwrap();
    assert!(queued.is_continuation);
    let continuation = &queued.message.continuation;
    assert_eq!(continuation.bridge, setup.switch.snapshot().id.0);
    assert_eq!(continuation.odp_port, 1);
    let state = crate::continuation::state_of(&queued.message, setup.switch.tlv());
    let outputs = |actions: &[crate::openflow::action::Action]| {
        actions.iter().any(|action| {
            matches!(action, crate::openflow::action::Action::Output { port, .. } if port.0 == 2)
        })
    };
    assert!(outputs(&state.actions), "{state:?}");
}

#[test]
fn what_the_datapath_cannot_do_is_done_for_each_packet() {
    let mut setup = setup();
    let rule = add(&setup, "arp", "set_field:10.0.0.9->arp_spa,output:2");
    let mut changed = request();
    changed[31] = 9;
    for _ in 0..2 {
        setup.frames[0].0.lock().unwrap().push_back(request());
        while setup.datapath.poll() > 0 {}
        let sent: Vec<_> = setup.frames[1].1.lock().unwrap().drain(..).collect();
        assert_eq!(sent, [changed.clone()]);
    }
    let [flow] = &setup.datapath.dump_flows(None)[..] else { panic!("not one flow") };
    let text = ActionsText { actions: &flow.actions(), names: None }.to_string();
    assert_eq!(text, "userspace(pid=0,slow_path(action))");
    setup.run();
    assert_eq!(setup.flows().len(), 1);
    assert_eq!(counts(&rule), (2, 2 * request().len() as u64));
}
