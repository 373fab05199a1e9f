//! What a switch does when no controller answers: after a while it forwards packets by itself
//! (`Bridge.fail_mode`).

use std::sync::Arc;
use std::time::Duration;

use netdev::clock;
use tracing::{info, warn};

use super::bridge::Bridge;
use super::connections::Connections;
use crate::handle;
use crate::openflow::action::PacketInReason;
use crate::openflow::flow_match::Match;
use crate::openflow::message::{Continuation, FlowRemovedReason, NO_BUFFER, PacketIn};
use crate::openflow::port::PortNo;
use crate::openflow::slot::Slot;
use crate::rule::{Rule, RuleParts};
use crate::switch::Switch;
use crate::switches::FailMode;

/// Priority of the rule that forwards everything, above all that controllers can set.
const PRIORITY: u32 = 0xf0_f0f0;
/// Time between packets that a controller is sent to see whether it accepts the switch.
const PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// Seconds of further silence after which the log tells of it again.
const TELL_AGAIN: u64 = 60;

/// The state of a switch that forwards by itself without a controller.
#[derive(Debug, Default)]
pub(super) struct FailOpen {
    /// For how many seconds there was no controller when the log last told of it; `None` while
    /// controllers are in charge.
    told: Option<u64>,
    rule: Option<Arc<Rule>>,
    next_probe: Option<Duration>,
}

impl Connections {
    /// Sets what the switch does without a controller.
    pub fn set_fail_mode(&mut self, fail_mode: FailMode, bridge: &mut Bridge<'_>) {
        if self.fail_mode == fail_mode {
            return;
        }
        self.fail_mode = fail_mode;
        self.update_fail_open(bridge);
        if !self.has_controllers() {
            self.flush(bridge);
        }
    }

    /// Follows a change of controllers or of the mode.
    pub(super) fn update_fail_open(&mut self, bridge: &mut Bridge<'_>) {
        if self.has_controllers() && self.fail_mode == FailMode::Standalone {
            self.fail_open.get_or_insert_default();
        } else if let Some(fail_open) = self.fail_open.take()
            && fail_open.told.is_some()
        {
            fail_open.end(bridge.switch);
        }
    }

    /// Removes all rules, groups and meters, for somebody else is in charge from here on.
    pub(super) fn flush(&mut self, bridge: &mut Bridge<'_>) {
        handle::clear(bridge.switch, bridge.datapath);
        let tables = bridge.switch.tables();
        let opens = self.failure_duration() >= self.trigger();
        if let Some(fail_open) = &mut self.fail_open {
            fail_open.rule =
                if opens { tables.add(RuleParts::normal(PRIORITY)).ok() } else { None };
        } else if !self.has_controllers() && self.fail_mode == FailMode::Standalone {
            // Tables that are full of nothing have room for it.
            let _ = tables.add(RuleParts::normal(0));
        }
    }

    /// Seconds without a controller after which the switch forwards by itself: as long as it takes
    /// to find out that one is silent and to connect to it again.
    fn trigger(&self) -> u64 {
        3 * self.longest_probe_interval().as_secs()
    }

    /// Begins to forward without a controller if it is time, and sees whether one is back.
    pub(super) fn run_fail_open(&mut self, bridge: &mut Bridge<'_>) {
        if self.fail_open.is_none() {
            return;
        }
        let (seconds, trigger) = (self.failure_duration(), self.trigger());
        let is_connected = self.is_any_controller_connected();
        let now = clock::now();
        let Some(fail_open) = &mut self.fail_open else { return };
        match fail_open.told {
            None if seconds > 0 && seconds >= trigger => {
                warn!(
                    target: "fail_open",
                    "Could not connect to controller (or switch failed controller's \
                     post-connection admission control policy) for {seconds} seconds, failing open"
                );
                fail_open.told = Some(seconds);
                self.flush(bridge);
            }
            Some(told) if seconds > told + TELL_AGAIN => {
                info!(
                    target: "fail_open",
                    "Still in fail-open mode after {seconds} seconds disconnected from controller"
                );
                fail_open.told = Some(seconds);
            }
            _ => {}
        }
        let Some(fail_open) = &mut self.fail_open else { return };
        if fail_open.told.is_none() || !is_connected {
            fail_open.next_probe = None;
        } else if fail_open.next_probe.is_none_or(|at| at <= now) {
            let is_due = fail_open.next_probe.is_some();
            fail_open.next_probe = Some(now + PROBE_INTERVAL);
            if is_due {
                self.send_bogus_packet();
            }
        }
    }

    /// Leaves everything to a controller that has accepted the switch.
    pub(super) fn recover(&mut self, bridge: &mut Bridge<'_>) {
        if self.is_any_controller_admitted()
            && let Some(fail_open) = &mut self.fail_open
            && fail_open.told.is_some()
        {
            std::mem::take(fail_open).end(bridge.switch);
        }
    }

    /// When there is something to do about it.
    pub(super) fn fail_open_due(&self) -> Option<Duration> {
        let fail_open = self.fail_open.as_ref()?;
        match fail_open.told {
            None => self.failure_at(self.trigger().max(1)),
            Some(told) => {
                let again = self.failure_at(told + TELL_AGAIN + 1);
                again.into_iter().chain(fail_open.next_probe).min()
            }
        }
    }

    /// Sends controllers a packet that means nothing, since what they say to it tells whether they
    /// accept the switch.
    fn send_bogus_packet(&mut self) {
        let packet = reverse_arp_request();
        let mut metadata = Match::new();
        metadata.set_exact(Slot::IN_PORT, PortNo::LOCAL.0.into());
        self.send_packet_in(
            0,
            &PacketIn {
                total_len: packet.len() as u32,
                packet,
                buffer_id: NO_BUFFER,
                reason: PacketInReason::NO_MATCH,
                table_id: 0,
                cookie: None,
                metadata,
                userdata: vec![],
                continuation: Continuation::default(),
            },
        );
    }
}

impl FailOpen {
    fn end(self, switch: &Switch) {
        warn!(target: "fail_open", "No longer in fail-open mode");
        if let Some(rule) = self.rule {
            switch.tables().remove(&rule, FlowRemovedReason::DELETE);
        }
    }
}

/// A reverse ARP request (RFC 903) of a station with a local address of no one.
fn reverse_arp_request() -> Vec<u8> {
    const STATION: [u8; 6] = [0x00, 0x23, 0x20, 0x80, 0, 1];
    let mut packet = vec![0xff; 6];
    packet.extend(STATION);
    packet.extend([0x80, 0x35, 0, 1, 8, 0, 6, 4, 0, 3]);
    for _ in 0..2 {
        packet.extend(STATION);
        packet.extend([0; 4]);
    }
    packet
}
