//! What is known of installed flows beyond what the datapath knows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dpif::action::Action;
use dpif::flow::Ufid;
use dpif::{FlowRecord, FlowStatistics, WorkerId};

use crate::translate::Sighting;

/// What is known of a flow.
#[derive(Debug)]
pub(super) struct Installed {
    /// When it was first looked at.
    pub(super) created: Duration,
    /// When its actions were last found true, and what they were.
    truth: Option<(u64, Arc<[Action]>)>,
    /// Where its packets show stations to be.
    sightings: Vec<Sighting>,
    /// Packets that are accounted for.
    packets: u64,
    /// The pass that last saw it.
    pass: u64,
}

impl Installed {
    /// Whether `actions` are known to be what translation says in `epoch`.
    pub(super) fn is_true_at(&self, epoch: u64, actions: &Arc<[Action]>) -> bool {
        let truth = self.truth.as_ref();
        truth.is_some_and(|(then, known)| *then == epoch && Arc::ptr_eq(known, actions))
    }

    /// Takes note of what translation says in `epoch`.
    pub(super) fn set_true(
        &mut self,
        epoch: u64,
        actions: Arc<[Action]>,
        sightings: Vec<Sighting>,
    ) {
        self.truth = Some((epoch, actions));
        self.sightings = sightings;
    }

    /// Takes note that no switch has its packets any more.
    pub(super) fn set_lost(&mut self) {
        self.truth = None;
    }

    /// Packets since [`count`](Self::count) was last called.
    pub(super) fn new_packets(&self, statistics: &FlowStatistics) -> u64 {
        statistics.packets.checked_sub(self.packets).unwrap_or(statistics.packets)
    }

    /// Accounts for the packets that came since: the stations that sent them were there, if what
    /// is known of the flow still holds in `epoch`.
    pub(super) fn count(&mut self, statistics: &FlowStatistics, epoch: u64) {
        if self.new_packets(statistics) > 0
            && self.truth.as_ref().is_some_and(|(then, _)| *then == epoch)
            && let Some(used) = statistics.used
        {
            for Sighting { table, vlan, address, port } in &self.sightings {
                table.refresh(*vlan, *address, *port, used);
            }
        }
        self.packets = statistics.packets;
    }
}

/// What is known of all flows.
#[derive(Debug, Default)]
pub(super) struct InstalledFlows {
    flows: HashMap<(WorkerId, Ufid), Installed>,
    pass: u64,
}

impl InstalledFlows {
    /// Number of flows.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    /// What is known of a flow; next to nothing if it is new.
    pub(super) fn get(&mut self, flow: &FlowRecord, now: Duration) -> &mut Installed {
        let installed = self.flows.entry((flow.worker(), flow.ufid())).or_insert(Installed {
            created: now,
            truth: None,
            sightings: Vec::new(),
            packets: 0,
            pass: self.pass,
        });
        installed.pass = self.pass;
        installed
    }

    /// Ends a pass: forgets the flows that were not looked at since the last one.
    pub(super) fn forget_unseen(&mut self) {
        self.flows.retain(|_, installed| installed.pass == self.pass);
        self.pass += 1;
    }
}
