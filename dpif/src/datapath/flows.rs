//! Looking at and changing flows from outside (`dpctl`, revalidation).

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;
use tracing::{debug, error};

use super::{Datapath, DatapathType};
use crate::action::{Action, ActionsText};
use crate::flow::{FlowKey, FlowMask, FlowText, MAX_VLANS, Ufid};
use crate::flow_table::{FlowRecord, WorkerId};
use crate::pmd::pipeline::{FlowIndex, Pipeline, flow_id, with_required};

/// Whether a flow is to be new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutMode {
    /// It must not be there yet.
    Create,
    /// It must be there.
    Modify,
    /// Either.
    CreateOrModify,
}

/// A flow to put.
#[derive(Clone, Debug)]
pub struct FlowPut {
    /// Its key.
    pub key: FlowKey,
    /// Which bits of the key matter.
    pub mask: FlowMask,
    /// What it does.
    pub actions: Arc<[Action]>,
    /// Its name, unless one is to be made from key and mask.
    pub ufid: Option<Ufid>,
    /// Whether it is to be new.
    pub mode: PutMode,
    /// Whether one that is there starts counting from 0.
    pub clear_statistics: bool,
}

/// What is to become of an installed flow.
#[derive(Clone, Debug)]
pub enum FlowChange {
    /// It goes.
    Remove,
    /// It does this from now on.
    SetActions(Arc<[Action]>),
}

/// The name of a flow that operators know by its key: a hash over all of it, whatever the mask.
pub fn key_ufid(key: &FlowKey) -> Ufid {
    flow_id(key, &FlowMask::exact_for(key))
}

/// Why a flow could not be put, removed or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FlowError {
    /// The mask leaves bits of the port out.
    #[error("a flow must match in_port exactly")]
    PortNotExact,
    /// It is there already.
    #[error("the flow is there already")]
    Exists,
    /// It is not there.
    #[error("there is no such flow")]
    NotFound,
    /// It takes packets of another flow.
    #[error("the flow overlaps another one")]
    Overlap,
    /// There is no such thread.
    #[error("there is no such poll thread")]
    NoThread,
}

/// All flows of a datapath, to be looked at from any thread.
#[derive(Clone, Debug)]
pub struct FlowView(Arc<FlowIndex>);

impl FlowView {
    /// The flows whose names `wanted` says yes to.
    pub fn select(&self, wanted: impl Fn(Ufid) -> bool) -> Vec<Arc<FlowRecord>> {
        let wanted = self.0.iter().filter(|entry| wanted(entry.key().1));
        wanted.map(|entry| Arc::clone(entry.value())).collect()
    }
}

impl Datapath {
    /// Puts a flow on one thread, or on all of them.
    ///
    /// # Errors
    /// See [`FlowError`]. With several threads, the last error of any of them.
    pub fn put_flow(&mut self, put: &FlowPut, thread: Option<WorkerId>) -> Result<(), FlowError> {
        if put.mask.bits().in_port.get() != u32::MAX {
            let what = match put.mode {
                PutMode::Create | PutMode::CreateOrModify => "create",
                PutMode::Modify => "modify",
            };
            error!(
                target: "dpif_netdev", limited = true,
                "failed to put[{what}] flow: in_port is not an exact match"
            );
            return Err(FlowError::PortNotExact);
        }
        let put = FlowPut { mask: with_required(put.mask.clone(), &put.key), ..put.clone() };
        self.on_threads(thread, move |id, pipeline| put_on(id, pipeline, &put))
    }

    /// Removes a flow from one thread, or from all that have it.
    ///
    /// # Errors
    /// When no thread has it.
    pub fn remove_flow(&mut self, ufid: Ufid, thread: Option<WorkerId>) -> Result<(), FlowError> {
        let owners: Vec<_> = self.flows(ufid, thread).iter().map(|flow| flow.worker()).collect();
        if owners.is_empty() {
            return Err(FlowError::NotFound);
        }
        for owner in owners {
            self.on_threads(Some(owner), move |_, pipeline| {
                let record = pipeline.record(ufid).ok_or(FlowError::NotFound)?;
                let number = pipeline.lookup.find_with(record.key(), record.mask());
                pipeline.remove(number.ok_or(FlowError::NotFound)?);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The flows with this name, one per thread that has it.
    pub fn flows(&self, ufid: Ufid, thread: Option<WorkerId>) -> Vec<Arc<FlowRecord>> {
        let threads = thread.map_or_else(|| self.worker_ids(), |thread| vec![thread]);
        let found = threads.into_iter().filter_map(|id| self.shared.index.get(&(id, ufid)));
        found.map(|entry| Arc::clone(entry.value())).collect()
    }

    /// All flows, of one thread or of all.
    pub fn dump_flows(&self, thread: Option<WorkerId>) -> Vec<Arc<FlowRecord>> {
        let entries = self.shared.index.iter();
        let wanted = entries.filter(|entry| thread.is_none_or(|id| entry.key().0 == id));
        wanted.map(|entry| Arc::clone(entry.value())).collect()
    }

    /// Changes flows, each on its thread. What was removed meanwhile, with its thread or for
    /// another flow, stays as it is.
    pub fn change_flows(&mut self, changes: Vec<(Arc<FlowRecord>, FlowChange)>) {
        let mut by_thread: BTreeMap<WorkerId, Vec<_>> = BTreeMap::new();
        for change in changes {
            log_change(&self.shared.name, self.kind, &change);
            by_thread.entry(change.0.worker()).or_default().push(change);
        }
        for (thread, changes) in by_thread {
            // A thread that ended took its flows along.
            let _ = self.run(thread, move |worker| {
                for (record, change) in changes {
                    change_on(&mut worker.pipeline, &record, change);
                }
            });
        }
    }

    /// All flows, for other threads.
    pub fn flow_view(&self) -> FlowView {
        FlowView(Arc::clone(&self.shared.index))
    }

    /// Number of flows on all threads.
    pub fn flow_count(&self) -> usize {
        self.shared.index.len()
    }

    /// Removes every flow.
    pub fn flush_flows(&mut self) {
        self.run_everywhere(|worker| worker.pipeline.remove_all());
    }

    /// Does something on one thread, or on all.
    fn on_threads(
        &mut self,
        thread: Option<WorkerId>,
        work: impl Fn(WorkerId, &mut Pipeline) -> Result<(), FlowError> + Clone + Send + 'static,
    ) -> Result<(), FlowError> {
        let threads = thread.map_or_else(|| self.worker_ids(), |thread| vec![thread]);
        let mut result = Ok(());
        for id in threads {
            let work = work.clone();
            let done = self.run(id, move |worker| work(id, &mut worker.pipeline));
            result = result.and(done.unwrap_or(Err(FlowError::NoThread)));
        }
        result
    }
}

/// Tells those who follow the datapath closely of a change.
fn log_change(name: &str, kind: DatapathType, (flow, change): &(Arc<FlowRecord>, FlowChange)) {
    let (kind, key) = (kind.name(), flow.key());
    let text = |mask| FlowText { key, mask, verbose: true, names: None, vlan_limit: MAX_VLANS };
    match change {
        FlowChange::SetActions(actions) => debug!(
            target: "dpif", limited = true,
            "{kind}@{name}: put[modify] {} {}, actions:{}",
            flow.ufid(), text(Some(flow.mask())), ActionsText { actions, names: None }
        ),
        FlowChange::Remove => debug!(
            target: "dpif", limited = true,
            "{kind}@{name}: flow_del {} {}, {}", flow.ufid(), text(None), flow.statistics()
        ),
    }
}

fn change_on(pipeline: &mut Pipeline, record: &Arc<FlowRecord>, change: FlowChange) {
    let is_own = pipeline.record(record.ufid()).is_some_and(|own| Arc::ptr_eq(&own, record));
    let number = pipeline.lookup.find_with(record.key(), record.mask());
    if let Some(number) = number.filter(|_| is_own) {
        match change {
            FlowChange::Remove => pipeline.remove(number),
            FlowChange::SetActions(actions) => pipeline.set_actions(number, actions),
        }
    }
}

fn put_on(id: WorkerId, pipeline: &mut Pipeline, put: &FlowPut) -> Result<(), FlowError> {
    let known = match put.ufid {
        Some(ufid) => pipeline
            .record(ufid)
            .and_then(|record| pipeline.lookup.find_with(record.key(), record.mask())),
        None => pipeline.find_flow(&put.key),
    };
    match known {
        None if put.mode == PutMode::Modify => Err(FlowError::NotFound),
        Some(_) if put.mode == PutMode::Create => Err(FlowError::Exists),
        // Two flows that take the same packets cannot be told apart.
        None if pipeline.lookup.find_with(&put.key, &put.mask).is_some() => Err(FlowError::Exists),
        None => {
            let ufid = put.ufid.unwrap_or_else(|| flow_id(&put.key, &put.mask));
            let actions = Arc::clone(&put.actions);
            let (key, mask) = (put.key.clone(), put.mask.clone());
            pipeline.insert(FlowRecord::new(ufid, id, key, mask, actions));
            Ok(())
        }
        Some(number) => {
            let record = pipeline.lookup.flows.record(number).ok_or(FlowError::NotFound)?;
            if put.ufid.is_none() && put.mask.masked(&put.key) != put.mask.masked(record.key()) {
                return Err(FlowError::Overlap);
            }
            if put.clear_statistics {
                record.clear_statistics();
            }
            pipeline.set_actions(number, Arc::clone(&put.actions));
            Ok(())
        }
    }
}
