//! The threads that make passes over the flows. Each has its share of them; what is to change goes
//! to the control thread, which owns the datapath.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use tracing::error;

use super::installed::{SHARDS, Shards, shard_of};
use super::pass::{Change, Pass};
use crate::news::News;

/// Flows that are judged in one go, while nobody else may look at what is known of them.
const STEP: usize = 100;
/// Messages that wait for the control thread before a thread does.
pub(super) const QUEUE: usize = 64;

/// The number of the next thread of the process.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// What a thread tells the control thread.
#[derive(Debug)]
pub(super) enum Outcome {
    /// These flows are not to stay as they are.
    Changes(Vec<Change>),
    /// Its share of the pass is done. This many flows were gone that it knew.
    Done(usize),
}

/// The way to the control thread.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    pub(super) outcomes: SyncSender<Outcome>,
    pub(super) news: News,
}

impl Reporter {
    /// Tells the control thread something. Returns whether it still listens.
    fn tell(&self, outcome: Outcome) -> bool {
        let listens = self.outcomes.send(outcome).is_ok();
        self.news.arrive();
        listens
    }
}

/// A thread, and the share that it has of each pass: that of the shards whose number leaves `rest`
/// when divided by `count`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) rest: usize,
    pub(super) count: usize,
}

impl Share {
    /// Whether shard number `shard` is in it.
    pub(super) fn has(self, shard: usize) -> bool {
        shard % self.count == self.rest
    }
}

/// A thread that makes passes until this is dropped.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its number among all that the process ever had.
    pub(super) number: u32,
    pub(super) share: Share,
    passes: Option<SyncSender<Arc<Pass>>>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts a thread for a share of what is known.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start(share: Share, shards: Arc<Shards>, reporter: Reporter) -> io::Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (passes, receiver) = sync_channel(1);
        let run = move || run(share, &shards, &receiver, &reporter);
        let handle = Builder::new().name(format!("revalidator{number}")).spawn(run)?;
        Ok(Self { number, share, passes: Some(passes), handle: Some(handle) })
    }

    /// Has it do its share of a pass. Returns whether it will.
    pub(super) fn begin(&self, pass: &Arc<Pass>) -> bool {
        self.passes.as_ref().is_some_and(|passes| passes.send(Arc::clone(pass)).is_ok())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.passes = None;
        if let Some(handle) = self.handle.take() {
            // What it died of, it has said itself.
            let _ = handle.join();
        }
    }
}

fn run(share: Share, shards: &Shards, passes: &Receiver<Arc<Pass>>, reporter: &Reporter) {
    while let Ok(pass) = passes.recv() {
        let work = || do_share(share, shards, &pass, reporter);
        let outcome = catch_unwind(AssertUnwindSafe(work));
        let gone = outcome.unwrap_or_else(|_| {
            error!(target: "ofproto_dpif_upcall", "a pass over the flows failed; the next goes on");
            0
        });
        drop(pass);
        if !reporter.tell(Outcome::Done(gone)) {
            return;
        }
    }
}

/// Returns how many flows were gone that it knew.
fn do_share(share: Share, shards: &Shards, pass: &Pass, reporter: &Reporter) -> usize {
    let mut flows = pass.flows.select(|ufid| share.has(shard_of(ufid)));
    flows.sort_unstable_by_key(|flow| shard_of(flow.ufid()));
    for same in flows.chunk_by(|a, b| shard_of(a.ufid()) == shard_of(b.ufid())) {
        for some in same.chunks(STEP) {
            let mut changes = Vec::new();
            if let Some(mut known) = some.first().and_then(|flow| shards.of(flow.ufid())) {
                for flow in some.iter().filter(|flow| !flow.is_dead()) {
                    let change = pass.judge(flow, &mut known);
                    changes.extend(change.map(|change| (Arc::clone(flow), change)));
                }
            }
            if !changes.is_empty() && !reporter.tell(Outcome::Changes(changes)) {
                return 0;
            }
        }
    }
    let own = (0..SHARDS).filter(|shard| share.has(*shard));
    own.filter_map(|shard| Some(shards.get(shard)?.forget_unseen())).sum()
}
