//! Whole lives of connections, with every line that they log.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::*;

/// Collects log lines as `LEVEL text`.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        if level <= Level::INFO && event.metadata().target() == "reconnect" {
            let mut line = Line(format!("{level} "));
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, _: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{value:?}").unwrap();
    }
}

const REFUSED: Loss<'_> = Loss::Error("Connection refused");

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Runs `life` and gives what it logged.
fn logged(life: impl FnOnce(&mut Reconnect)) -> Vec<String> {
    let log = Log::default();
    let subscriber = tracing_subscriber::registry().with(log.clone());
    tracing::subscriber::with_default(subscriber, || life(&mut Reconnect::new("r", at(0.0))));
    let lines = log.0.lock().unwrap();
    lines.clone()
}

/// Waits for the deadline, at which the machine must want to connect, and reports a failure.
fn fail_at(fsm: &mut Reconnect, time: f64) {
    assert_eq!(fsm.deadline(), Some(at(time)));
    if let Some(before) = at(time).checked_sub(Duration::from_millis(1)) {
        assert_eq!(fsm.run(before), None);
    }
    assert_eq!(fsm.run(at(time)), Some(Action::Connect));
    fsm.connect_failed(REFUSED, at(time));
}

#[test]
fn waits_double_up_to_the_greatest_and_then_go_quiet() {
    let lines = logged(|fsm| {
        assert!(!fsm.is_enabled());
        assert_eq!((fsm.run(at(0.0)), fsm.deadline()), (None, None));
        fsm.enable(at(1.0));
        assert!(fsm.is_enabled());
        fsm.connecting(at(1.0));
        // Less than 1 s is no time to give up.
        assert_eq!((fsm.run(at(1.9)), fsm.deadline()), (None, Some(at(2.0))));
        assert_eq!(fsm.run(at(2.0)), Some(Action::Disconnect));
        fsm.connect_failed(Loss::Abandoned, at(2.0));
        for time in [3.0, 5.0, 9.0, 17.0, 25.0] {
            fail_at(fsm, time);
        }
        assert_eq!(fsm.run(at(33.0)), Some(Action::Connect));
        fsm.connected(at(33.0));
        assert!(fsm.is_connected());
        assert_eq!(fsm.last_connected(), Some(at(33.0)));
        assert_eq!(fsm.last_disconnected(), None);
    });
    assert_eq!(
        lines,
        [
            "INFO r: connecting...",
            "INFO r: connection attempt timed out",
            "INFO r: connecting...",
            "INFO r: connection attempt failed (Connection refused)",
            "INFO r: waiting 2 seconds before reconnect",
            "INFO r: connecting...",
            "INFO r: connection attempt failed (Connection refused)",
            "INFO r: waiting 4 seconds before reconnect",
            "INFO r: connecting...",
            "INFO r: connection attempt failed (Connection refused)",
            "INFO r: continuing to reconnect in the background but suppressing further logging",
            "INFO r: connected",
        ]
    );
}

#[test]
fn silence_is_probed_and_then_ends_the_connection() {
    let lines = logged(|fsm| {
        fsm.enable(at(0.0));
        fsm.connected(at(0.0));
        fsm.activity(at(2.0));
        assert_eq!((fsm.run(at(6.9)), fsm.deadline()), (None, Some(at(7.0))));
        assert_eq!(fsm.run(at(7.0)), Some(Action::Probe));
        assert_eq!(fsm.state_name(), "IDLE");
        fsm.activity(at(7.5));
        assert_eq!((fsm.state_name(), fsm.deadline()), ("ACTIVE", Some(at(12.5))));
        assert_eq!(fsm.run(at(12.5)), Some(Action::Probe));
        assert_eq!((fsm.run(at(17.0)), fsm.deadline()), (None, Some(at(17.5))));
        assert_eq!(fsm.run(at(17.625)), Some(Action::Disconnect));
        fsm.disconnected(Loss::Abandoned, at(17.625));
        assert_eq!(fsm.last_disconnected(), Some(at(17.625)));
        // The connection was a good one, so the wait is the least.
        assert_eq!(fsm.deadline(), Some(at(18.625)));

        fsm.set_probe_interval(Duration::ZERO);
        fsm.connected(at(19.0));
        assert_eq!(fsm.deadline(), None);
        fsm.set_probe_interval(Duration::from_millis(1));
        assert_eq!(fsm.deadline(), Some(at(20.0)));
    });
    assert_eq!(
        lines,
        [
            "INFO r: connecting...",
            "INFO r: connected",
            "ERROR r: no response to inactivity probe after 5.12 seconds, disconnecting",
            "INFO r: connection dropped",
            "INFO r: connecting...",
            "INFO r: connected",
        ]
    );
}

#[test]
fn how_a_connection_ends_is_told() {
    for (loss, line) in [
        (Loss::Closed, "INFO r: connection closed by peer"),
        (Loss::Abandoned, "INFO r: connection dropped"),
        (Loss::Error("Broken pipe"), "WARN r: connection dropped (Broken pipe)"),
    ] {
        let lines = logged(|fsm| {
            fsm.enable(at(0.0));
            fsm.connected(at(0.0));
            fsm.disconnected(loss, at(9.0));
        });
        assert_eq!(lines, ["INFO r: connecting...", "INFO r: connected", line]);
    }
    assert_eq!(
        logged(|fsm| {
            fsm.set_quiet(true);
            fsm.enable(at(0.0));
            fsm.connected(at(0.0));
            fsm.disconnected(Loss::Closed, at(9.0));
        }),
        [""; 0]
    );
}

#[test]
fn short_connections_do_not_reset_the_wait() {
    logged(|fsm| {
        fsm.enable(at(0.0));
        fail_at(fsm, 0.0);
        fail_at(fsm, 1.0);
        assert_eq!(fsm.run(at(3.0)), Some(Action::Connect));
        fsm.connected(at(3.0));
        fsm.activity(at(4.0));
        fsm.disconnected(Loss::Closed, at(4.0));
        assert_eq!(fsm.deadline(), Some(at(8.0)));
    });
}

#[test]
fn each_address_is_tried_before_waiting() {
    logged(|fsm| {
        fsm.set_backoff_free_tries(3);
        fsm.enable(at(0.0));
        fail_at(fsm, 0.0);
        fail_at(fsm, 0.0);
        fail_at(fsm, 0.0);
        assert_eq!(fsm.deadline(), Some(at(1.0)));
    });
}

#[test]
fn tries_run_out() {
    logged(|fsm| {
        fsm.set_max_tries(Some(2));
        fsm.enable(at(0.0));
        fail_at(fsm, 0.0);
        assert_eq!(fsm.run(at(1.0)), Some(Action::Connect));
        fsm.connect_failed(REFUSED, at(1.0));
        assert!(!fsm.is_enabled());
        assert_eq!((fsm.deadline(), fsm.run(at(99.0))), (None, None));
    });
}

#[test]
fn a_forced_reconnection_and_an_end() {
    let lines = logged(|fsm| {
        fsm.enable(at(0.0));
        fsm.force_reconnect(at(0.0));
        assert_eq!(fsm.run(at(0.0)), Some(Action::Connect));
        fsm.connected(at(0.0));
        fsm.force_reconnect(at(1.0));
        assert!(!fsm.is_connected());
        assert_eq!(fsm.run(at(1.0)), Some(Action::Disconnect));
        fsm.disable(at(1.0));
        assert_eq!((fsm.state_name(), fsm.run(at(99.0))), ("VOID", None));
        fsm.disconnected(Loss::Closed, at(1.0));
    });
    assert_eq!(lines, ["INFO r: connecting...", "INFO r: connected"]);
}

#[test]
fn listening_instead_of_connecting() {
    let lines = logged(|fsm| {
        fsm.set_passive(true, at(0.0));
        fsm.enable(at(0.0));
        assert_eq!(fsm.run(at(0.0)), Some(Action::Connect));
        fsm.connect_failed(Loss::Error("Address already in use"), at(0.0));
        assert_eq!(fsm.run(at(1.0)), Some(Action::Connect));
        fsm.listening(at(1.0));
        assert_eq!((fsm.run(at(99.0)), fsm.deadline()), (None, None));
        fsm.connected(at(99.0));
        fsm.disconnected(Loss::Closed, at(99.5));
        // The next peer may come at once.
        assert_eq!(fsm.run(at(99.5)), Some(Action::Connect));
        fsm.listening(at(99.5));
        fsm.disconnected(Loss::Error("Too many open files"), at(100.0));
        assert_eq!(fsm.run(at(101.0)), Some(Action::Connect));
        fsm.listening(at(101.0));
        fsm.set_passive(false, at(102.0));
        assert_eq!(fsm.run(at(102.0)), Some(Action::Connect));
    });
    assert_eq!(
        lines,
        [
            "INFO r: listening...",
            "INFO r: listen attempt failed (Address already in use)",
            "INFO r: listening...",
            "INFO r: listening...",
            "INFO r: connected",
            "INFO r: connection closed by peer",
            "INFO r: listening...",
            "WARN r: error listening for connections (Too many open files)",
            "INFO r: listening...",
        ]
    );
}

#[test]
fn a_smaller_limit_shortens_the_wait() {
    logged(|fsm| {
        fsm.enable(at(0.0));
        for time in [0.0, 1.0, 3.0] {
            fail_at(fsm, time);
        }
        assert_eq!(fsm.deadline(), Some(at(7.0)));
        fsm.set_backoff(Duration::ZERO, Duration::from_secs(2));
        assert_eq!(fsm.deadline(), Some(at(5.0)));
        fsm.set_name("other");
        assert_eq!(fsm.name(), "other");
    });
}

#[test]
fn seconds_have_three_digits_at_most() {
    let cases = [(1.0, "1"), (1.5, "1.5"), (5.125, "5.12"), (12.34, "12.3"), (300.0, "300")];
    for (time, text) in cases {
        assert_eq!(seconds(at(time)), text);
    }
}
