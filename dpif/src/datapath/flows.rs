//! Looking at and changing flows from outside (`dpctl`, revalidation).

use std::sync::Arc;

use thiserror::Error;

use super::Datapath;
use crate::action::Action;
use crate::flow::{FlowKey, FlowMask, Ufid};
use crate::flow_table::{FlowRecord, WorkerId};
use crate::pmd::pipeline::{Pipeline, flow_id, with_required};

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

impl Datapath {
    /// Puts a flow on one thread, or on all of them.
    ///
    /// # Errors
    /// See [`FlowError`]. With several threads, the last error of any of them.
    pub fn put_flow(&mut self, put: &FlowPut, thread: Option<WorkerId>) -> Result<(), FlowError> {
        if put.mask.bits().in_port.get() != u32::MAX {
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
