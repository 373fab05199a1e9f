//! What is known of installed flows beyond what the datapath knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dpif::action::Action;
use dpif::flow::Ufid;
use dpif::{FlowRecord, FlowStatistics, WorkerId};

use crate::recirculation::Recirculation;
use crate::translate::{Effect, Traffic, Translation};

/// What is known of a flow.
#[derive(Debug)]
pub(super) struct Installed {
    record: Arc<FlowRecord>,
    /// When it was first looked at.
    pub(super) created: Duration,
    /// When its actions were last found true, and what they were.
    truth: Option<(u64, Arc<[Action]>)>,
    /// What its packets do beside the actions.
    effects: Vec<Effect>,
    /// Numbers in its actions, which stay valid as long as it is there.
    recirculations: Vec<Arc<Recirculation>>,
    /// What is accounted for.
    counted: FlowStatistics,
    /// The pass that last saw it.
    pass: u64,
}

impl Installed {
    /// Whether `actions` are known to be what translation says in `epoch`.
    pub(super) fn is_true_at(&self, epoch: u64, actions: &Arc<[Action]>) -> bool {
        let truth = self.truth.as_ref();
        truth.is_some_and(|(then, known)| *then == epoch && Arc::ptr_eq(known, actions))
    }

    /// Takes note of what translation says in `epoch`, and of the actions that come of it.
    pub(super) fn set_true(
        &mut self,
        epoch: u64,
        actions: Arc<[Action]>,
        translation: Translation,
    ) {
        self.truth = Some((epoch, actions));
        self.effects = translation.effects;
        self.recirculations = translation.recirculations;
    }

    /// Takes note that no switch has its packets any more.
    pub(super) fn set_lost(&mut self) {
        self.truth = None;
        self.effects.clear();
    }

    /// Whether it is not known what its packets do beside the actions.
    pub(super) fn is_unknown(&self) -> bool {
        self.truth.is_none()
    }

    /// Packets since [`count`](Self::count) was last called.
    pub(super) fn new_packets(&self) -> u64 {
        since(self.record.statistics().packets, self.counted.packets)
    }

    /// Lets the packets that came since have their effects.
    pub(super) fn count(&mut self) {
        let statistics = self.record.statistics();
        let traffic = Traffic {
            packets: since(statistics.packets, self.counted.packets),
            bytes: since(statistics.bytes, self.counted.bytes),
            used: statistics.used.unwrap_or(self.created),
            tcp_flags: statistics.tcp_flags,
        };
        self.effects.iter().for_each(|effect| effect.apply(&traffic));
        self.counted = statistics;
    }
}

/// How much a counter grew, which may have started again from 0.
fn since(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// Number of parts of what is known, each of which one thread at a time looks at.
pub(super) const SHARDS: usize = 64;

/// The part that a flow belongs to.
pub(super) fn shard_of(ufid: Ufid) -> usize {
    ufid.0 as usize % SHARDS
}

/// What is known of all flows, in parts.
#[derive(Debug)]
pub(super) struct Shards(Vec<Mutex<InstalledFlows>>);

impl Default for Shards {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Shards {
    /// A part by its number, below [`SHARDS`].
    pub(super) fn get(&self, shard: usize) -> Option<MutexGuard<'_, InstalledFlows>> {
        Some(self.0.get(shard)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The part that a flow belongs to.
    pub(super) fn of(&self, ufid: Ufid) -> Option<MutexGuard<'_, InstalledFlows>> {
        self.get(shard_of(ufid))
    }

    /// Number of flows in the parts for which `wanted` says so.
    pub(super) fn count(&self, wanted: impl Fn(usize) -> bool) -> usize {
        let wanted = (0..SHARDS).filter(|shard| wanted(*shard));
        wanted.filter_map(|shard| Some(self.get(shard)?.flows.len())).sum()
    }
}

/// What is known of flows.
#[derive(Debug, Default)]
pub(super) struct InstalledFlows {
    flows: HashMap<(WorkerId, Ufid), Installed>,
    pass: u64,
}

impl InstalledFlows {
    /// What is known of a flow; next to nothing if it is new.
    pub(super) fn get(&mut self, record: &Arc<FlowRecord>, now: Duration) -> &mut Installed {
        let new = || Installed {
            record: Arc::clone(record),
            created: now,
            truth: None,
            effects: Vec::new(),
            recirculations: Vec::new(),
            counted: FlowStatistics::default(),
            pass: self.pass,
        };
        let key = (record.worker(), record.ufid());
        let installed = self.flows.entry(key).or_insert_with(new);
        if !Arc::ptr_eq(&installed.record, record) {
            // The flow went and came back.
            installed.count();
            *installed = new();
        }
        installed.pass = self.pass;
        installed
    }

    /// What the packets of a flow do beside its actions, if that is known.
    pub(super) fn effects(&self, ufid: Ufid, thread: WorkerId) -> Option<Option<&[Effect]>> {
        let installed = self.flows.get(&(thread, ufid))?;
        Some(Some(&installed.effects[..]).filter(|_| !installed.is_unknown()))
    }

    /// Counts the last packets of a flow that was removed, and forgets it.
    pub(super) fn remove(&mut self, record: &FlowRecord) {
        if let Some(mut installed) = self.flows.remove(&(record.worker(), record.ufid())) {
            installed.count();
        }
    }

    /// Ends a pass: forgets the flows that were not looked at since the last one, because somebody
    /// else removed them. Returns how many these were.
    pub(super) fn forget_unseen(&mut self) -> usize {
        let (pass, known) = (self.pass, self.flows.len());
        let unseen = self.flows.extract_if(|_, installed| installed.pass != pass);
        unseen.for_each(|(_, mut installed)| installed.count());
        self.pass += 1;
        known - self.flows.len()
    }
}
