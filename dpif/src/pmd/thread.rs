//! The loop of a poll thread.

use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use netdev::cpu;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CpuSet, sched_setaffinity, set_current_timer_slack};
use tracing::{error, warn};

use super::mailbox::Mailbox;
use super::statistics::Statistics;
use super::worker::Worker;

/// Packets from one queue that end a spell of sleep.
const SLEEP_THRESHOLD: usize = 16;
/// How much longer each idle round sleeps than the one before.
const SLEEP_STEP: Duration = Duration::from_micros(1);

/// By how many nanoseconds the kernel may prolong a sleep.
const TIMER_SLACK: Option<NonZeroU64> = NonZeroU64::new(1000);

/// Number of the next poll thread.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// Starts the poll thread of `core`, kept on the core `pinned` if given. It ends when its worker is
/// told to quit, and gives up what it owns before it closes its mailbox.
///
/// # Errors
/// When the system has no thread left.
pub(crate) fn start(
    core: u32,
    pinned: Option<u32>,
    mut worker: Worker,
    mailbox: Arc<Mailbox<Worker>>,
    statistics: Arc<Statistics>,
) -> std::io::Result<JoinHandle<()>> {
    let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
    Builder::new().name(format!("pmd-c{core:02}/id:{id}")).spawn(move || {
        if let Some(core) = pinned {
            pin(core);
        }
        // Where it is refused, sleeps are longer than they need to be.
        let _ = set_current_timer_slack(TIMER_SLACK);
        while let Err(panic) =
            catch_unwind(AssertUnwindSafe(|| run(&mut worker, &mailbox, &statistics)))
        {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let cause = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let cause = cause.unwrap_or("no message");
            error!(
                target: "dpif_netdev",
                "PMD thread on core {core} failed ({cause}); it starts again without its flows."
            );
            worker.recover();
        }
        drop(worker);
        mailbox.close();
    })
}

/// Keeps the calling thread on one core.
fn pin(core: u32) {
    let mut set = CpuSet::new();
    if (core as usize) < CpuSet::MAX_CPU {
        set.set(core as usize);
    }
    // The kernel refuses a set without a core.
    if let Err(errno) = sched_setaffinity(None, &set) {
        warn!(target: "dpif_netdev", "PMD thread cannot be pinned to core {core}: {errno}");
    }
}

/// Polls until told to quit.
fn run(worker: &mut Worker, mailbox: &Mailbox<Worker>, statistics: &Statistics) {
    let mut sleep = Duration::ZERO;
    loop {
        while let Some(work) = mailbox.take() {
            work(worker);
        }
        if worker.is_quitting {
            return;
        }
        if worker.queues.is_empty() {
            wait(worker, mailbox, None);
            continue;
        }
        let (received, most) = worker.poll();
        if worker.max_sleep.is_zero() || most >= SLEEP_THRESHOLD {
            sleep = Duration::ZERO;
        }
        if received == 0 && !sleep.is_zero() {
            worker.pipeline.flush(true);
            let start = cpu::cycles();
            wait(worker, mailbox, Some(sleep));
            statistics.counters().sleep_iterations.add(1);
            statistics.counters().sleep_cycles.add(cpu::cycles().wrapping_sub(start));
        }
        sleep = (sleep + SLEEP_STEP).min(worker.max_sleep);
    }
}

/// Sleeps until there is work, a packet at a queue that can tell, or for as long as `limit` says.
fn wait(worker: &Worker, mailbox: &Mailbox<Worker>, limit: Option<Duration>) {
    let queues = worker.queues.iter().filter_map(|queue| queue.queue.wait_fd());
    let fds = [mailbox.wake_fd()].into_iter().chain(queues);
    let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    // An interrupted sleep is a short one.
    let _ = poll(&mut fds, limit.as_ref());
    mailbox.clear_wake();
}
